"""Stage score: score what the store lacks, then write one table a metric."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from banana100 import paths
from banana100.errors import UserError
from banana100.files import keep_only
from banana100.lineage import tables
from banana100.params import Params
from banana100.scoring import engine
from banana100.scoring.engine import ImageFile, Score
from banana100.scoring.metrics import NoReferenceMetric, load
from banana100.scoring.store import ScoreStore
from banana100.workers import progress

_FLUSH_SECONDS = 1.0  # a kill loses no more than this


def run(params: Params) -> None:
    """Bring `data/scores` to what params.yaml asks for.

    Raises:
        UserError: images or tables are missing or damaged; or a metric's parameters cannot be had, told once the other
            metrics' scores are in the store.
    """
    images = _images()
    metrics, unavailable = _load(params.scoring.metrics)
    scorer_ids = {name: metric.scorer["scorer_id"] for name, metric in metrics.items()}
    store = ScoreStore()
    failures: dict[tuple[str, str], str] = {}
    for batch in _batches(_missing(images, scorer_ids, store)):
        store.put((scorer_ids[s.metric], s.image_id, s.score) for s in batch if s.score is not None)
        failures |= {(s.metric, s.image_id): s.reason for s in batch if s.reason is not None}
    if unavailable:
        raise UserError(" ".join(unavailable))
    _write(images, metrics, store, failures)
    print(f"{len(images)} images by {len(metrics)} metrics, {len(failures)} scores failed")


def _images() -> list[ImageFile]:
    table = tables.read(paths.IMAGES_TABLE, tables.IMAGES).drop_duplicates("image_id").sort_values("image_id")
    return [ImageFile(image_id, Path(path)) for image_id, path in table[["image_id", "path"]].itertuples(index=False)]


def _load(names: Sequence[str]) -> tuple[dict[str, NoReferenceMetric], list[str]]:
    metrics, unavailable = {}, []
    for name in sorted(names):
        try:
            metrics[name] = load(name)
        except UserError as error:
            unavailable.append(f"metric {name}: {error}")
    return metrics, unavailable


def _missing(images: list[ImageFile], scorer_ids: dict[str, str], store: ScoreStore) -> Iterator[list[Score]]:
    """Score what the store lacks: images that lack the same metrics go together."""
    known = {name: store.get(scorer_id) for name, scorer_id in scorer_ids.items()}
    groups: dict[tuple[str, ...], list[ImageFile]] = {}
    for image in images:
        lacking = tuple(name for name in scorer_ids if image.image_id not in known[name])
        groups.setdefault(lacking, []).append(image)
    groups.pop((), None)
    for names, group in groups.items():
        what = f"score {', '.join(names)}"
        yield from progress(engine.score(group, names), total=len(group), what=what, unit="image")


def _batches(scores: Iterator[list[Score]]) -> Iterator[list[Score]]:
    """Gather scores for a moment, as each commit waits for the disk."""
    batch: list[Score] = []
    flushed = time.monotonic()
    for of_one_image in scores:
        batch += of_one_image
        if time.monotonic() - flushed > _FLUSH_SECONDS:
            yield batch
            batch, flushed = [], time.monotonic()
    yield batch


def _write(
    images: list[ImageFile],
    metrics: dict[str, NoReferenceMetric],
    store: ScoreStore,
    failures: dict[tuple[str, str], str],
) -> None:
    wanted = {paths.SCORERS_TABLE, paths.FAILURES_TABLE}
    for name, metric in metrics.items():
        scorer_id = metric.scorer["scorer_id"]
        known = store.get(scorer_id)
        rows = [
            {"image_id": image.image_id, "metric": name, "score": known[image.image_id], "scorer_id": scorer_id}
            for image in images
            if image.image_id in known
        ]
        tables.write(paths.scores(name), tables.SCORES, rows)
        wanted.add(paths.scores(name))
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, [metric.scorer for metric in metrics.values()])
    failed = [
        {"image_id": image_id, "metric": name, "reason": reason, "scorer_id": metrics[name].scorer["scorer_id"]}
        for (name, image_id), reason in sorted(failures.items())
    ]
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, failed)
    keep_only(paths.SCORES, wanted)
