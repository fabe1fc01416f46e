"""Stage rank: judge the metrics that params.yaml names; write ranking.json, tables and plot data."""

import json
import math
from pathlib import Path

import pandas as pd

from banana100 import paths
from banana100.errors import UserError
from banana100.files import keep_only, write_atomically
from banana100.lineage import tables
from banana100.params import Params
from banana100.ranking import criterion, curves

_FORMAT = "%.6g"


def run(params: Params) -> None:
    """Bring `metrics/` (all but the report) to what params.yaml asks for.

    Raises:
        UserError: a table is missing or damaged, or mixes scores of two scorers.
    """
    ranking = params.ranking
    images = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    joined = _read_curves(images, params.ranked_metrics())
    failed = _failed(joined)
    changed = curves.add_change(joined, ranking.baseline_step)
    chains = criterion.judge_chains(changed, ranking.baseline_step, ranking.probe_steps)
    verdicts = criterion.judge_metrics(chains)
    verdicts["failed_scores"] = verdicts["metric"].map(failed).fillna(0).astype(int)
    simulated = _simulated_campaigns(images)
    _write(verdicts, chains.assign(simulated=chains["campaign"].isin(simulated)), changed)
    consistent = verdicts.loc[verdicts["consistent"], "metric"].tolist()
    told = f"; {sum(failed.values())} scores failed" if failed else ""
    print(f"{len(verdicts)} metrics judged; consistent: {', '.join(consistent) or 'none'}{told}")


def _read_curves(images: pd.DataFrame, metrics: list[str]) -> pd.DataFrame:
    scorers = tables.read(paths.SCORERS_TABLE, tables.SCORERS)
    scorers = scorers[scorers["metric"].isin(metrics)]
    scores = pd.concat([tables.read(paths.scores(name), tables.SCORES) for name in metrics], ignore_index=True)
    if strange := set(scores["scorer_id"]) - set(scorers["scorer_id"]):
        raise UserError(f"{paths.SCORES}: scores of an unknown scorer {min(strange)[:12]}…; run `dvc repro score`.")
    return curves.join(images, scores, scorers)


def _failed(joined: pd.DataFrame) -> dict[str, int]:
    """How many images each metric could not score; a score that is missing without a reason is not passed over.

    Raises:
        UserError: an image has neither a score nor a row in the table of failures.
    """
    failures = tables.read(paths.FAILURES_TABLE, tables.FAILURES)
    told = pd.MultiIndex.from_frame(failures[["metric", "image_id"]])
    missing = joined.loc[joined["score"].isna(), ["metric", "image_id"]].drop_duplicates()
    untold = missing[~pd.MultiIndex.from_frame(missing).isin(told)]
    if len(untold):
        metric, image_id = untold.iloc[0]
        raise UserError(
            f"{paths.SCORES}: {len(untold)} scores are missing without a reason, the first by {metric} of image "
            f"{image_id[:12]}…; run `dvc repro score`."
        )
    return missing.groupby("metric").size().to_dict()


def _simulated_campaigns(images: pd.DataFrame) -> set[str]:
    requests = tables.read(paths.REQUESTS_TABLE, tables.REQUESTS)
    made_by = images.merge(requests[["request_id", "backend"]], on="request_id")
    return set(made_by.loc[made_by["backend"] == "simulated", "campaign"])


def _write(verdicts: pd.DataFrame, chains: pd.DataFrame, changed: pd.DataFrame) -> None:
    _csv(paths.VERDICTS_TABLE, verdicts)
    _csv(paths.CHAINS_TABLE, chains)
    columns = ["metric", *curves.CHAIN, "step", "score", "change"]
    write_atomically(paths.CHAIN_CURVES_TABLE, changed[columns].to_parquet(index=False, compression="zstd"))
    keep_only(paths.RANKING_TABLES, {paths.VERDICTS_TABLE, paths.CHAINS_TABLE, paths.CHAIN_CURVES_TABLE})
    plots = set()
    for metric, rows in curves.over_chains(changed).groupby("metric"):
        plots.add(path := paths.curve(str(metric)))
        _csv(path, rows.drop(columns="metric"))
    keep_only(paths.CURVES, plots)
    text = json.dumps(_scalars(verdicts, chains), indent=2) + "\n"
    write_atomically(paths.RANKING, text.encode(), aside=paths.RANKING_TABLES)


def _scalars(verdicts: pd.DataFrame, chains: pd.DataFrame) -> dict[str, dict[str, object]]:
    """Flat scalars under stable names, as `dvc metrics diff` and `dvc exp show` compare them."""
    by_metric = {
        row["metric"]: {
            "consistent": bool(row["consistent"]),
            "failures": int(row["failures"]),
            "chains": int(row["chains"]),
            "not_judged": int(row["not_judged"]),
            "failed_scores": int(row["failed_scores"]),
            "tau": None if math.isnan(row["tau"]) else round(row["tau"], 4),
        }
        for row in verdicts.sort_values("metric").to_dict("records")
    }
    each_chain = chains[[*curves.CHAIN, "simulated"]].drop_duplicates()
    summary = {
        "metrics": len(verdicts),
        "consistent": int(verdicts["consistent"].sum()),
        "failed_scores": int(verdicts["failed_scores"].sum()),
        "chains": len(each_chain),
        "simulated_chains": int(each_chain["simulated"].sum()),
    }
    return {"summary": summary, "ranking": by_metric}


def _csv(path: Path, table: pd.DataFrame) -> None:
    write_atomically(path, table.to_csv(index=False, float_format=_FORMAT, lineterminator="\n").encode())
