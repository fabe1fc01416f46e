"""Scores and scorers: every image scored once by every metric, each scorer's fingerprint computed again."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from banana100 import paths
from banana100.lineage import tables
from banana100.lineage.identity import identity
from banana100.scoring import weights
from banana100.scoring.scorers import scorer
from banana100.verify.faults import Fault, State

_RENAMED = {"parameters_sha256": f"the sha256 in {paths.WEIGHTS_LOCK} or the package"}


def check(state: State) -> Iterator[Fault]:
    """The scorers, then the rows of every metric that params.yaml names."""
    yield from _scorers(state)
    images = state.snapshot.images
    alone = pd.DataFrame({"image_id": images["image_id"].unique(), "reference_id": None})
    drift = _drift(images)
    for metric in state.params.scored_metrics():
        yield from _metric(state, metric, paths.scores(metric), state.snapshot.scores(metric), alone)
    measured = state.snapshot.drift
    for metric in state.params.scoring.drift:
        yield from _metric(state, metric, paths.DRIFT_TABLE, measured[measured["metric"] == metric], drift)
    wanted = {paths.DRIFT_TABLE: state.params.scoring.drift}
    wanted[paths.FAILURES_TABLE] = [*state.params.scored_metrics(), *state.params.scoring.drift]
    for path, table in ((paths.DRIFT_TABLE, measured), (paths.FAILURES_TABLE, state.snapshot.failures)):
        for metric in sorted(set(table["metric"]) - set(wanted[path])):
            yield Fault(f"{path} {metric}", "the metric", "there", "absent", f"scoring in {paths.PARAMS}")


def _scorers(state: State) -> Iterator[Fault]:
    rows = tables.records(state.snapshot.scorers)
    state.counted["scorers"] += len(rows)
    wanted = [*state.params.scored_metrics(), *state.params.scoring.drift]
    there = [row["metric"] for row in rows if row["metric"]]
    for metric in sorted(set(wanted) ^ set(there)) + sorted({name for name in there if there.count(name) > 1}):
        found, expected = (there.count(metric), wanted.count(metric))
        yield Fault(f"{paths.SCORERS_TABLE} {metric}", "the number of rows", found, expected, f"{paths.PARAMS}")
    lock = weights.read_lock()
    for row in rows:
        where = f"{paths.SCORERS_TABLE} {row['metric']}"
        own = identity({name: value for name, value in row.items() if name != "scorer_id"})
        if own != row["scorer_id"]:
            yield Fault(where, "scorer_id", row["scorer_id"], own, "the hash of the row")
        if row["metric"] in wanted:
            here = scorer(row["metric"], state.params.scoring.precision, lock, absent=True).row
            for name, value in here.items():
                if row[name] != value:
                    yield Fault(where, name, row[name], value, _RENAMED.get(name, "this environment"))


def _drift(images: pd.DataFrame) -> pd.DataFrame:
    """Every image after step 0 with its chain's step 0."""
    starts = images.loc[images["step"] == 0, [*tables.CHAIN, "image_id"]].rename(columns={"image_id": "reference_id"})
    replicas = images.loc[images["step"] > 0, [*tables.CHAIN, "image_id"]]
    return replicas.merge(starts, on=tables.CHAIN)[["image_id", "reference_id"]].drop_duplicates()


def _metric(state: State, metric: str, path: Path, scores: pd.DataFrame, wanted: pd.DataFrame) -> Iterator[Fault]:
    """One metric's rows against what should be scored: one result for each, no other, finite, rounded."""
    state.counted["scores"] += len(scores)
    failed = state.snapshot.failures
    failed = failed[failed["metric"] == metric]
    results = pd.concat([scores.reindex(columns=[*tables.DRIFT.names, "reason"]), failed])
    keys, due = _keys(results), _keys(wanted)
    for key in keys[keys.duplicated()]:
        yield Fault(_row(path, metric, key), "the number of results", "above 1", 1, "every image")
    for key in keys.unique().difference(due):
        yield Fault(_row(path, metric, key), "the result", "there", "absent", str(paths.IMAGES_TABLE))
    for key in due.difference(keys):
        yield Fault(_row(path, metric, key), "the result", "absent", "there", str(paths.IMAGES_TABLE))
    yield from _values(state, metric, path, scores, results)


def _values(state: State, metric: str, path: Path, scores: pd.DataFrame, results: pd.DataFrame) -> Iterator[Fault]:
    known = state.snapshot.scorers
    known = known[known["metric"] == metric]
    if known.empty:
        return  # told of the scorers
    scorer_id, decimals = known["scorer_id"].iloc[0], int(known["decimals"].iloc[0])
    for name, expected in (("metric", metric), ("scorer_id", scorer_id)):
        for image_id, found in results.loc[results[name] != expected, ["image_id", name]].itertuples(index=False):
            yield Fault(_row(path, metric, image_id), name, found, expected, str(paths.SCORERS_TABLE))
    values = scores["score"].to_numpy(dtype=float)
    rounded = np.round(values, decimals)
    for index in np.flatnonzero(~np.isfinite(values) | (values != rounded)):
        by = f"the rule of {decimals} decimals" if np.isfinite(values[index]) else "the rule that scores are finite"
        image_id = scores["image_id"].iloc[index]
        expected = float(rounded[index]) if np.isfinite(values[index]) else "a finite number"
        yield Fault(_row(path, metric, image_id), "score", float(values[index]), expected, by)
    for image_id in results.loc[results["score"].isna() & results["reason"].fillna("").eq(""), "image_id"]:
        yield Fault(_row(path, metric, image_id), "the reason of the failure", None, "a text", "every failure")


def _keys(results: pd.DataFrame) -> pd.Index:
    """One text a result: the image, and the reference where there is one."""
    against = " against " + results["reference_id"].astype("str")
    return pd.Index(results["image_id"].astype("str") + against.fillna(""))


def _row(path: Path, metric: str, image_id: str) -> str:
    return f"{path} {metric} image {image_id}"
