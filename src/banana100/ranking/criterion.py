"""The paper's criterion, chain by chain and metric by metric.

A chain passes iff the quality-aligned, normalised score change from the baseline step to every probe step is negative;
a metric is consistent iff every chain passes (Banana100, arXiv 2604.03400: steps 1 and 5, 10, 20).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from banana100.ranking.curves import CHAIN, Curves, at
from banana100.ranking.evidence import Evidence


@dataclass(frozen=True)
class Verdicts:
    """What the criterion says of M metrics on C chains; everything (M, C).

    Attributes:
        passes: bool; False also where not judged.
        not_judged: why a verdict cannot be known (the chain is too short, a score is missing), or None.
        left_out: why the chain does not count (see ranking/evidence.py), or None; then `not_judged` is None.
    """

    passes: NDArray[np.bool_]
    not_judged: NDArray[np.object_]
    left_out: NDArray[np.object_]

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Where there is a verdict."""
        return (self.not_judged == np.array(None)) & (self.left_out == np.array(None))


def judge(
    curves: Curves,
    changes: NDArray[np.float64],
    baseline_step: int,
    probe_steps: Sequence[int],
    evidence: Evidence,
) -> Verdicts:
    """Judge every chain by every metric.

    Args:
        curves: the scores.
        changes: (M, C, K), what `curves.change` gives.
        baseline_step: the step compared with.
        probe_steps: the steps whose change must be negative.
        evidence: what `evidence.weigh` gives for the last probe step.
    """
    shape = changes.shape[:2]
    steps = sorted([baseline_step, *probe_steps])
    passes = np.ones(shape, dtype=bool)
    for step in probe_steps:
        passes &= at(changes, step) < 0
    incomplete = np.any([np.isnan(at(curves.scores, step)) for step in steps], axis=0)
    not_judged = np.broadcast_to(evidence.unknown, shape).copy()
    left_out = np.broadcast_to(evidence.too_little, shape).copy()
    not_judged[left_out != np.array(None)] = None
    for metric, chain in zip(*np.nonzero(incomplete), strict=True):
        if absent := _absent(curves.present[chain], steps):  # says more than that its drift is not known
            not_judged[metric, chain], left_out[metric, chain] = absent, None
        elif left_out[metric, chain] is None and not_judged[metric, chain] is None:
            not_judged[metric, chain] = _without_score(curves.scores[metric, chain], steps)
    verdicts = Verdicts(passes, not_judged, left_out)
    return Verdicts(passes & verdicts.judged, not_judged, left_out)


def failures(metrics: Sequence[str], chains: pd.DataFrame, verdicts: Verdicts) -> pd.DataFrame:
    """Count the chains of every metric, campaign and seed.

    Returns:
        Columns metric, campaign, seed, chains (judged), failures (judged and not passed), not_judged, left_out and
        failure_rate (failures over chains; NaN without any).
    """
    flags = {
        "chains": verdicts.judged,
        "failures": verdicts.judged & ~verdicts.passes,
        "not_judged": verdicts.not_judged != np.array(None),
        "left_out": verdicts.left_out != np.array(None),
    }
    rows = [
        chains[["campaign", "seed"]].assign(metric=metric, **{name: flag[index] for name, flag in flags.items()})
        for index, metric in enumerate(metrics)
    ]
    counted = pd.concat(rows).groupby(["metric", *CHAIN[:2]])[list(flags)].sum().astype(int).reset_index()
    return counted.assign(failure_rate=counted["failures"] / counted["chains"])


def _absent(present: NDArray[np.bool_], steps: Sequence[int]) -> str | None:
    absent = [step for step in steps if step >= len(present) or not present[step]]
    if not absent:
        return None
    last = np.flatnonzero(present)[-1]
    if last < absent[0]:
        return f"the chain ends at step {last}, before step {absent[0]}"
    return f"the chain has no step {', '.join(map(str, absent))}"


def _without_score(scores: NDArray[np.float64], steps: Sequence[int]) -> str:
    return f"no score at step {', '.join(str(step) for step in steps if np.isnan(scores[step]))}"
