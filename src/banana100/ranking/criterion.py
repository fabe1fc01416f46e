"""The paper's criterion, chain by chain and metric by metric.

A chain passes iff the quality-aligned, normalised score change from the baseline step to every probe step is negative;
a metric is consistent iff every chain passes (Banana100, arXiv 2604.03400: steps 1 and 5, 10, 20).
"""

from collections.abc import Sequence

import pandas as pd

from banana100.ranking.curves import CHAIN
from banana100.ranking.order import kendall_tau


def judge_chains(curves: pd.DataFrame, baseline_step: int, probe_steps: Sequence[int]) -> pd.DataFrame:
    """Judge every chain by every metric.

    Args:
        curves: what `curves.add_change` gives.
        baseline_step: the step compared with.
        probe_steps: the steps whose change must be negative.

    Returns:
        One row a metric and chain: the chain's columns, change_K for every probe step K, passes (missing where not
        judged), not_judged (why, or missing), tau (Kendall's tau-b of aligned score with step over all steps scored;
        -1 falls with every step, 0 also stands for a constant score).
    """
    rows = []
    for key, chain in curves.groupby(["metric", *CHAIN], sort=True):
        change = chain.set_index("step")["change"]
        probes = {f"change_{step}": change.get(step, float("nan")) for step in probe_steps}
        not_judged = _obstacle(chain, [baseline_step, *probe_steps])
        passes = None if not_judged else all(value < 0 for value in probes.values())
        tau = kendall_tau(chain["step"], chain["aligned"])
        verdict = {"passes": passes, "not_judged": not_judged, "tau": tau}
        rows.append(dict(zip(["metric", *CHAIN], key, strict=True)) | probes | verdict)
    return pd.DataFrame(rows).astype({"passes": "boolean", "not_judged": "str"})


def judge_metrics(chains: pd.DataFrame) -> pd.DataFrame:
    """Sum the chains up to one row a metric.

    Returns:
        Columns metric, consistent (every chain was judged and passes), chains (judged), failures (judged and not
        passed), not_judged, tau (mean over chains); consistent metrics first, then by failures.
    """
    judged = chains[chains["not_judged"].isna()]
    passed = judged.groupby("metric")["passes"].agg(["size", "sum"])
    table = chains.groupby("metric").agg(not_judged=("not_judged", "count"), tau=("tau", "mean")).join(passed)
    table["chains"] = table["size"].fillna(0).astype(int)
    table["failures"] = table["chains"] - table["sum"].fillna(0).astype(int)
    table["consistent"] = (table["failures"] == 0) & (table["not_judged"] == 0)
    columns = ["metric", "consistent", "chains", "failures", "not_judged", "tau"]
    order = ["consistent", "failures", "not_judged", "tau", "metric"]
    ascending = [False, True, True, True, True]
    return table.reset_index()[columns].sort_values(order, ascending=ascending, ignore_index=True)


def _obstacle(chain: pd.DataFrame, steps: Sequence[int]) -> str | None:
    """Why a chain cannot be judged, if it cannot."""
    score = chain.set_index("step")["score"]
    if missing := [step for step in steps if step not in score.index]:
        return f"the chain has no step {', '.join(map(str, missing))}"
    if failed := [step for step in steps if pd.isna(score[step])]:
        return f"no score at step {', '.join(map(str, failed))}"
    return None
