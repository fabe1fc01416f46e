"""Stage score: score what the store lacks, then write one table a metric, the drift, the scorers and the failures."""

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from banana100 import paths
from banana100.errors import UserError
from banana100.files import keep_only
from banana100.lineage import tables
from banana100.params import Params
from banana100.scoring import engine, shards, weights
from banana100.scoring.jobs import ImageFile, Job, Score
from banana100.scoring.scorers import Scorer, scorer
from banana100.scoring.store import Result, ScoreStore

_FLUSH_SECONDS = 1.0  # a kill loses no more than this


@dataclass(frozen=True)
class Pair:
    """An image and, for full-reference metrics, the seed image of its chain."""

    image: ImageFile
    reference: ImageFile | None = None

    @property
    def key(self) -> tuple[str, str]:
        """How the store knows it."""
        return self.image.image_id, self.reference.image_id if self.reference else ""


@dataclass(frozen=True)
class Plan:
    """What params.yaml asks for: the scorers that can be had, what each scores, and what cannot be had."""

    scorers: dict[str, Scorer]
    wanted: dict[str, list[Pair]]
    unavailable: list[str]


def run(params: Params, shard: str | None = None, merge: bool = False) -> None:
    """Bring `data/scores` to what params.yaml asks for.

    Args:
        params: the checked params.
        shard: "i/n" to score one part of the images only and leave `data/scores` as it is.
        merge: take over what shards scored and write the tables, without scoring anything.

    Raises:
        UserError: images or tables are missing or damaged; or a metric's weights cannot be had, told once the other
            metrics' scores are in the store; or, with merge, a shard has not finished.
    """
    part = None if shard is None else shards.parse(shard)  # an empty one is a scheduler's unset variable
    plan = _plan(params)
    store = ScoreStore(shard=part)
    jobs = _lacking(plan, store)
    if merge:
        if jobs:
            lacking = sum(len(job.metrics) for job in jobs)
            raise UserError(f"{lacking} scores of {len(jobs)} images are missing; run the shards that did not finish.")
        print(f"{store.merge()} shards merged")
    elif part:
        keys = sorted({pair.key for pairs in plan.wanted.values() for pair in pairs})
        mine = set(shards.part(keys, part))
        jobs = [job for job in jobs if Pair(job.image, job.reference).key in mine]
    _score(jobs, plan, store)
    if plan.unavailable:
        raise UserError(" ".join(plan.unavailable))
    if part:
        print(f"shard {shard}: {len(jobs)} images scored; when all shards are done: banana100 score --merge")
    else:
        _write(plan, store)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector, which would walk over and over through rows by the 100,000 that hold no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_uncollected()
def _plan(params: Params) -> Plan:
    lock = weights.read_lock()
    images = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    pairs, drift = _pairs(images)
    plan = Plan({}, {}, [])
    for metric in sorted([*params.scored_metrics(), *params.scoring.drift]):
        try:
            plan.scorers[metric] = scorer(metric, params.scoring.precision, lock)
        except UserError as error:
            plan.unavailable.append(f"metric {metric}: {error}")
        else:
            plan.wanted[metric] = drift if metric in params.scoring.drift else pairs
    return plan


def _pairs(images: pd.DataFrame) -> tuple[list[Pair], list[Pair]]:
    """Every image once, and every image after step 0 with its chain's step 0; both sorted."""
    columns = ["image_id", "path", "width", "height", "campaign", "seed", "repeat", "step"]
    files: dict[str, ImageFile] = {}
    chains: dict[tuple[str, str, int], dict[int, ImageFile]] = {}
    for image_id, path, width, height, campaign, seed, repeat, step in images[columns].itertuples(index=False):
        image = files.setdefault(image_id, ImageFile(image_id, Path(path), int(width), int(height)))
        chains.setdefault((campaign, seed, int(repeat)), {})[int(step)] = image
    drift = {
        pair.key: pair
        for steps in chains.values()
        if 0 in steps
        for step, image in steps.items()
        if step > 0
        for pair in [Pair(image, steps[0])]
    }
    return [Pair(files[image_id]) for image_id in sorted(files)], [drift[key] for key in sorted(drift)]


@_uncollected()
def _lacking(plan: Plan, store: ScoreStore) -> list[Job]:
    lacking: dict[tuple[str, str], tuple[Pair, list[str]]] = {}
    for metric, pairs in plan.wanted.items():
        known = store.keys(plan.scorers[metric].id)
        for pair in pairs:
            if pair.key not in known:
                lacking.setdefault(pair.key, (pair, []))[1].append(metric)
    return [Job(pair.image, tuple(metrics), pair.reference) for pair, metrics in lacking.values()]


def _score(jobs: Sequence[Job], plan: Plan, store: ScoreStore) -> None:
    for batch in _flushes(engine.score(jobs, plan.scorers)):
        store.put(Result(plan.scorers[s.metric].id, s.image_id, s.score, s.reason, s.reference_id) for s in batch)


def _flushes(scores: Iterator[list[Score]]) -> Iterator[list[Score]]:
    """Gather scores for a moment, as each commit waits for the disk; what is gathered when it ends early is kept."""
    batch: list[Score] = []
    flushed = time.monotonic()
    try:
        for some in scores:
            batch += some
            if time.monotonic() - flushed > _FLUSH_SECONDS:
                done, batch = batch, []
                yield done
                flushed = time.monotonic()
    except UserError:
        yield batch
        raise
    yield batch


@_uncollected()
def _write(plan: Plan, store: ScoreStore) -> None:
    failures, drift = [], []
    wanted = {paths.SCORERS_TABLE, paths.FAILURES_TABLE, paths.DRIFT_TABLE}
    count = 0
    for metric, pairs in plan.wanted.items():
        known = store.get(plan.scorers[metric].id)
        rows = [_row(known[pair.key], metric) for pair in pairs]
        scored = [row for row in rows if row["score"] is not None]
        failures += [row for row in rows if row["score"] is None]
        count += len(rows)
        if pairs and pairs[0].reference:
            drift += scored
        else:
            wanted.add(paths.scores(metric))
            tables.write(paths.scores(metric), tables.SCORES, scored)
    tables.write(paths.DRIFT_TABLE, tables.DRIFT, drift)
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, [plan.scorers[metric].row for metric in plan.wanted])
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, failures)
    keep_only(paths.SCORES, wanted)
    print(f"{count} scores by {len(plan.wanted)} metrics, {len(failures)} of them failed")


def _row(result: Result, metric: str) -> dict[str, object]:
    return {
        "image_id": result.image_id,
        "reference_id": result.reference_id or None,
        "metric": metric,
        "score": result.score,
        "reason": result.reason,
        "scorer_id": result.scorer_id,
    }
