"""One row a metric: verdict, estimates with intervals, tests, rank. And one row a metric and chain beneath it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from banana100.ranking import bootstrap, discrimination, order, significance
from banana100.ranking.curves import at
from banana100.ranking.study import Study

# Figures of every chain by every metric, each (M, C).
Along: TypeAlias = Mapping[str, NDArray[np.float64]]

# The figures of a metric that have intervals, each over the chains that it was judged on. In simulations intervals hold
# the truth 92 to 98 % of the time, those of effect, detection and failure_rate less often with few seeds (benchmarks).
ESTIMATES = (
    "failure_rate",
    "tau",
    "rho",
    "accuracy",
    "monotone",
    "detected",
    "detection",
    "auc",
    "auc_within",
    "effect",
)


def along_chains(study: Study) -> Along:
    """Order statistics of every chain by every metric, over all its scored steps.

    Returns:
        tau, rho, accuracy, monotone, detection (see ranking/order.py) and auc (clean against degraded images of the
        chain), each (M, C).
    """
    aligned = study.curves.aligned
    counted = [discrimination.count_wins(scores, study.clean_until, study.degraded_from) for scores in aligned]
    return {
        "tau": order.kendall_tau(aligned),
        "rho": order.spearman_rho(aligned),
        "accuracy": order.pairwise_accuracy(aligned),
        "monotone": order.monotone_share(aligned),
        "detection": order.detection_step(aligned, study.clean_until),
        "auc": np.array([discrimination.auc_of_chains(wins) for wins in counted]),
    }


def of_chains(study: Study, along: Along, probe_steps: Sequence[int]) -> pd.DataFrame:
    """One row a metric and chain.

    Returns:
        Columns metric, campaign, seed, repeat, change_K for each probe step, passes (missing where not judged),
        not_judged and left_out (why, or missing), what `along_chains` gives, and drift_NAME, the full-reference score
        at the last probe step, for each metric of drift.
    """
    verdicts, curves = study.verdicts, study.curves
    rows = pd.concat([curves.chains] * len(curves.metrics), ignore_index=True)
    rows.insert(0, "metric", np.repeat(curves.metrics, len(curves.chains)))
    for step in probe_steps:
        rows[f"change_{step}"] = at(study.changes, step).ravel()
    rows["passes"] = pd.array(verdicts.passes.ravel(), dtype="boolean")
    rows.loc[~verdicts.judged.ravel(), "passes"] = pd.NA
    rows["not_judged"] = pd.array(verdicts.not_judged.ravel(), dtype="str")
    rows["left_out"] = pd.array(verdicts.left_out.ravel(), dtype="str")
    rows = rows.assign(**{name: values.ravel() for name, values in along.items()})
    drift = {name: at(values, max(probe_steps)) for name, values in sorted(study.drift.scores.items())}
    return rows.assign(**{f"drift_{name}": np.tile(values, len(curves.metrics)) for name, values in drift.items()})


def of_metrics(study: Study, along: Along, compared: significance.Comparison) -> pd.DataFrame:
    """One row a metric, consistent ones first, then by failures.

    Returns:
        What `of_metric` gives; p_permutation and p_sign (how often the seeds' mean tau would lie so far below 0 by
        chance) and their Holm-corrected p_permutation_holm and p_sign_holm; average_rank among the metrics by the
        seeds' mean tau, 1 is best.
    """
    rows = [of_metric(study, along, index) for index in range(len(study.curves.metrics))]
    table = pd.DataFrame(rows)
    by_seed = tau_of_seeds(study, along)
    table["p_permutation"] = [significance.permutation_test(values, study.random_state) for values in by_seed]
    table["p_sign"] = [significance.sign_test(values) for values in by_seed]
    for name in ("p_permutation", "p_sign"):
        table[f"{name}_holm"] = significance.holm(table[name])
    table["average_rank"] = compared.average_ranks
    keys = ["consistent", "failures", "not_judged", "tau", "metric"]
    return table.sort_values(keys, ascending=[False, True, True, True, True], ignore_index=True)


def tau_of_seeds(study: Study, along: Along) -> NDArray[np.float64]:
    """Mean Kendall tau-b of each seed's judged chains, (M, S); NaN where a seed has none."""
    members = np.eye(len(study.seed_names))[:, study.seeds]
    tau = np.where(study.verdicts.judged, along["tau"], np.nan)
    return np.array([bootstrap.weighted_mean(values, members) for values in tau])


def of_metric(study: Study, along: Along, index: int) -> dict[str, Any]:
    """What can be said of one metric by itself.

    Returns:
        metric, consistent (every chain that has drifted was judged and passes, at least one), chains (judged),
        failures, not_judged, left_out, seeds (of the judged chains); each of ESTIMATES with its 95 % interval as _low
        and _high, all NaN without a judged chain.
    """
    verdicts = study.verdicts
    judged = np.flatnonzero(verdicts.judged[index])
    failures = int((~verdicts.passes[index, judged]).sum())
    not_judged = int((verdicts.not_judged[index] != np.array(None)).sum())
    row: dict[str, Any] = {
        "metric": study.curves.metrics[index],
        "consistent": bool(len(judged)) and failures == 0 and not_judged == 0,
        "chains": len(judged),
        "failures": failures,
        "not_judged": not_judged,
        "left_out": int((verdicts.left_out[index] != np.array(None)).sum()),
    }
    seeds = pd.factorize(study.seeds[judged])[0]
    number = int(seeds.max(initial=-1)) + 1
    figures = _figures(study, along, index, judged, seeds)
    # weights of the estimate itself stand first, so that both come from one formula
    weights = np.vstack([np.ones(len(judged)), study.weights[:, judged]])
    for name in ESTIMATES:
        found = figures[name](weights)
        row[name], (row[f"{name}_low"], row[f"{name}_high"]) = found[0], bootstrap.interval(found[1:], number)
    row["seeds"] = number
    for name in ("failure_rate", "detected"):
        if number and row[name] in (0, 1):
            row[f"{name}_low"], row[f"{name}_high"] = _unanimous(row[name], number)
    return row


def _figures(
    study: Study, along: Along, index: int, judged: NDArray[np.int64], seeds: NDArray[np.int64]
) -> dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]]:
    """How each of ESTIMATES follows from weights (B, C) of the judged chains."""
    aligned = study.curves.aligned[index, judged]
    own = {name: values[index, judged] for name, values in along.items()}
    counted = discrimination.count_wins(aligned, study.clean_until, study.degraded_from)
    detected = np.where(np.isnan(own["detection"]), np.nan, np.isfinite(own["detection"]))
    means = {name: own[name] for name in ("tau", "rho", "accuracy", "monotone")}
    means |= {"failure_rate": (~study.verdicts.passes[index, judged]).astype(float), "detected": detected}
    return {
        **{name: _mean_of(values) for name, values in means.items()},
        "detection": lambda weights: bootstrap.weighted_median(own["detection"], weights),
        "auc": lambda weights: discrimination.auc_across(counted, weights),
        "auc_within": lambda weights: discrimination.auc_within(counted, seeds, weights),
        "effect": lambda weights: discrimination.effect_size(aligned, study.clean_until, study.degraded_from, weights),
    }


def _mean_of(values: NDArray[np.float64]) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    return lambda weights: bootstrap.weighted_mean(values, weights)


def _unanimous(share: float, seeds: int) -> tuple[float, float]:
    """Clopper-Pearson interval of a share of 0 or 1, with seeds as the units: resampling finds no spread."""
    found = stats.binomtest(round(share * seeds), seeds).proportion_ci(bootstrap.CONFIDENCE, method="exact")
    return float(found.low), float(found.high)
