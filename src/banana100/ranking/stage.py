"""Stage rank: judge the metrics that params.yaml names; write ranking.json, tables and plot data."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from banana100 import paths
from banana100.files import keep_only, write_atomically
from banana100.params import Params, RankingParams
from banana100.ranking import criterion, curves, ensemble, inputs, significance, subsets, verdicts
from banana100.ranking.study import Study
from banana100.ranking.subsets import Subset

_FORMAT = "%.6g"

# The scalars of a metric in ranking.json, which `dvc metrics diff` and `dvc exp show` compare; all else is in tables.
_SCALARS = (
    "consistent",
    "failures",
    "chains",
    "not_judged",
    "left_out",
    "failed_scores",
    "tau",
    "tau_low",
    "tau_high",
    "rho",
    "accuracy",
    "monotone",
    "detected",
    "detection",
    "auc",
    "auc_low",
    "auc_high",
    "auc_within",
    "effect",
    "p_permutation_holm",
    "average_rank",
)


@dataclass(frozen=True)
class _Ranking:
    """Everything that rank finds out.

    Attributes:
        study: what was judged.
        of_metrics: one row a metric; `of_chains`: one a metric and chain.
        subset: the ensemble of all ranked metrics; None where nothing is left to judge it on.
        correlated: rank correlation of every two metrics.
        over_chains: what each file of metrics/curves holds, by metric.
        scalars: what ranking.json holds.
    """

    study: Study
    of_metrics: pd.DataFrame
    of_chains: pd.DataFrame
    subset: Subset | None
    correlated: pd.DataFrame
    over_chains: dict[str, pd.DataFrame]
    scalars: dict[str, dict[str, object]]


def run(params: Params) -> None:
    """Bring `metrics/` (all but the report) to what params.yaml asks for.

    Raises:
        UserError: a table is missing or damaged, mixes scores of two scorers, or lacks scores without a reason.
    """
    found = _rank(params)
    files = _files(found)
    for path, content in files.items():
        write_atomically(path, content, aside=paths.RANKING_TABLES)  # which is cleared: ranking.json's folder is not
    for folder in (paths.RANKING_TABLES, paths.CURVES):
        keep_only(folder, files)
    _tell(found.of_metrics, found.scalars["summary"])


def outputs(params: Params) -> dict[Path, bytes]:
    """What `run` would write: the content of every file, ranking.json last. Nothing is written or printed.

    Raises:
        UserError: as for `run`.
    """
    return _files(_rank(params))


# One thread: more change floating-point sums, and where another process has a core they mostly wait for each other.
@threadpool_limits.wrap(limits=1)
def _rank(params: Params) -> _Ranking:
    found = inputs.read(params)
    study = found.study
    along = verdicts.along_chains(study)
    compared = significance.compare(verdicts.tau_of_seeds(study, along))
    of_metrics = verdicts.of_metrics(study, along, compared)
    of_metrics["failed_scores"] = of_metrics["metric"].map(found.failed).fillna(0).astype(int)
    of_chains = verdicts.of_chains(study, along, params.ranking.probe_steps)
    of_chains["simulated"] = of_chains["campaign"].isin(found.simulated)
    given = subsets.gather(study)
    subset = subsets.judge(study, given, range(len(study.curves.metrics)))
    correlated = ensemble.redundancy(study.curves.aligned, study.curves.metrics)
    scalars = {
        "summary": _summary(of_metrics, of_chains, study, compared),
        "subset": _subset(subset, given, correlated),
        "ranking": {row["metric"]: _rounded(row) for row in of_metrics.sort_values("metric").to_dict("records")},
    }
    over_chains = _over_chains(study, params.ranking)
    return _Ranking(study, of_metrics, of_chains, subset, correlated, over_chains, scalars)


def _over_chains(study: Study, ranking: RankingParams) -> dict[str, pd.DataFrame]:
    """Change with step over the eligible chains, or over all if there are none, by metric.

    The full-reference metrics of drift are among them, above 0 where closer to the seed than at the baseline step. They
    have no score at step 0: their tables lack that row, and have none at all where it is the baseline.
    """
    drift = study.drift_curves
    drift_changes = curves.change(drift, ranking.baseline_step, curves.spread(drift, ranking.spread))
    shown = study.eligible if study.eligible.any() else np.ones_like(study.eligible)
    seeds, weights = study.seeds[shown], study.weights[:, shown]
    named = dict(zip(study.curves.metrics, study.changes, strict=True))
    named |= dict(zip(drift.metrics, drift_changes, strict=True))
    return {name: curves.over_chains(changes[shown], seeds, weights) for name, changes in named.items()}


def _summary(
    of_metrics: pd.DataFrame, of_chains: pd.DataFrame, study: Study, compared: significance.Comparison
) -> dict[str, object]:
    each_chain = of_chains.drop_duplicates(curves.CHAIN)
    return {
        "metrics": len(of_metrics),
        "consistent": int(of_metrics["consistent"].sum()),
        "failed_scores": int(of_metrics["failed_scores"].sum()),
        "chains": len(each_chain),
        "simulated_chains": int(each_chain["simulated"].sum()),
        "left_out_chains": int(each_chain["left_out"].notna().sum()),
        "eligible_chains": int(study.eligible.sum()),
        "seeds": int(each_chain["seed"].nunique()),
        "ranked_seeds": compared.seeds,
        "friedman_p": _number(compared.p),
        "critical_difference": _number(compared.critical_difference),
    }


def _subset(subset: Subset | None, given: ensemble.Samples, correlated: pd.DataFrame) -> dict[str, object]:
    """The ensemble of all ranked metrics; nulls where fewer than two seeds leave nothing to judge it on."""
    others = correlated.to_numpy()[~np.eye(len(correlated), dtype=bool)]
    known = np.abs(others[np.isfinite(others)])
    scalars: dict[str, object] = {
        "metrics": len(correlated),
        "images": len(given.clean),
        "images_without_all_scores": given.dropped,
        "seeds": len(given.seeds),
        "redundancy": _number(known.mean() if known.size else math.nan),
        "best_single": subset.best_single if subset else None,
    }
    for name in ("auc", "best_single_auc", "gain"):
        figure = getattr(subset, name, None)
        scalars[name] = _number(figure.value if figure else math.nan)
        scalars[f"{name}_low"] = _number(figure.low if figure else math.nan)
        scalars[f"{name}_high"] = _number(figure.high if figure else math.nan)
    return scalars


def _rounded(row: dict[str, Any]) -> dict[str, object]:
    return {name: _number(row[name]) for name in _SCALARS}


def _number(value: Any) -> object:
    """A JSON value: whole numbers and truth values as they are, others with 4 decimals, null for none or infinite."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    return round(float(value), 4) if math.isfinite(value) else None


def _files(found: _Ranking) -> dict[Path, bytes]:
    study = found.study
    ranks = found.of_metrics[["metric", "average_rank"]].dropna().sort_values(["average_rank", "metric"])
    redundancy = found.correlated.rename_axis(index="metric", columns="other").stack().rename("rho").reset_index()
    by_csv = {
        paths.VERDICTS_TABLE: found.of_metrics,
        paths.CHAINS_TABLE: found.of_chains,
        paths.FAILURES_BY_SEED_TABLE: criterion.failures(study.curves.metrics, study.curves.chains, study.verdicts),
        paths.RANKS_TABLE: ranks,
        paths.REDUNDANCY_TABLE: redundancy,
        paths.SUBSET_TABLE: found.subset.by_seed if found.subset else pd.DataFrame({"seed": [], "auc": []}),
    }
    by_csv |= {paths.curve(name): table for name, table in found.over_chains.items()}
    rows = curves.long(study.curves, study.changes, study.eligible)
    return {
        **{path: _csv(table) for path, table in by_csv.items()},
        paths.CHAIN_CURVES_TABLE: rows.to_parquet(index=False, compression="zstd"),
        paths.RANKING: (json.dumps(found.scalars, indent=2) + "\n").encode(),
    }


def _tell(of_metrics: pd.DataFrame, summary: dict[str, object]) -> None:
    consistent = of_metrics.loc[of_metrics["consistent"], "metric"].tolist()
    told = f"; {summary['failed_scores']} scores failed" if summary["failed_scores"] else ""
    if left := summary["left_out_chains"]:
        told += f"; {left} of {summary['chains']} chains left out, as they hardly drifted"
    if short := of_metrics["not_judged"].max():
        told += f"; up to {short} chains a metric not judged ({paths.CHAINS_TABLE} names them)"
    print(f"{len(of_metrics)} metrics judged; consistent: {', '.join(consistent) or 'none'}{told}")


def _csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False, float_format=_FORMAT, lineterminator="\n").encode()
