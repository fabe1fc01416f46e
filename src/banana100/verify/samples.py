"""Scores drawn at random and computed again from their images."""

import random
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from banana100 import paths
from banana100.errors import UserError
from banana100.lineage import tables
from banana100.scoring import engine, weights
from banana100.scoring.jobs import ImageFile, Job
from banana100.scoring.scorers import Scorer, scorer
from banana100.verify.faults import Fault, State

# Processors differ by less than the last stored decimal; a score near where rounding tips may land one further.
_LAST_DECIMALS = 1.01


def rescored(state: State, number: int) -> Iterator[Fault]:
    """Compute `number` results again, failures among them; metrics whose weights are not here are left out.

    Raises:
        UserError: an image is not there.
    """
    scorers = _available(state)
    results = pd.concat([state.snapshot.drift, state.snapshot.failures])
    scored = [state.snapshot.scores(metric) for metric in state.params.scored_metrics()]
    results = pd.concat([results, *scored]).astype({"reference_id": object})
    results = results[results["metric"].isin(scorers)]
    drawn = random.sample(range(len(results)), min(number, len(results)))
    sample = tables.records(results.iloc[drawn])
    jobs = list(_jobs(state, sample))
    again = {(s.image_id, s.reference_id, s.metric): s for some in engine.score(jobs, scorers) for s in some}
    state.counted["scores computed again"] += len(sample)
    for row in sample:
        found = again[row["image_id"], row["reference_id"] or "", row["metric"]]
        tolerance = _LAST_DECIMALS * 10.0 ** -scorers[row["metric"]].facts.decimals
        stored = row["score"]
        same = stored is None if found.score is None else stored is not None and abs(stored - found.score) <= tolerance
        if not same:
            where = f"{paths.SCORES} {row['metric']} image {row['image_id']}"
            yield Fault(where, "score", stored, found.reason if found.score is None else found.score, "scoring again")


def _available(state: State) -> dict[str, Scorer]:
    lock, found = weights.read_lock(), {}
    for metric in [*state.params.scored_metrics(), *state.params.scoring.drift]:
        try:
            found[metric] = scorer(metric, state.params.scoring.precision, lock)
        except UserError:
            state.counted["metrics without weights here"] += 1
    return found


def _jobs(state: State, sample: list[dict[str, object]]) -> Iterator[Job]:
    images = state.snapshot.images.drop_duplicates("image_id").set_index("image_id")
    files = {
        row.Index: ImageFile(row.Index, Path(row.path), int(row.width), int(row.height)) for row in images.itertuples()
    }
    for row in sample:
        reference = row["reference_id"]
        yield Job(files[row["image_id"]], (str(row["metric"]),), files[reference] if reference else None)
