"""The engine: many images by many metrics, each image decoded once, in worker processes of one thread each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.images import ImageError, decode
from banana100.scoring.metrics import KERNELS, MetricError, NoReferenceMetric, load
from banana100.workers import in_parallel


@dataclass(frozen=True)
class ImageFile:
    """An image to score: its identity and where it lies."""

    image_id: str
    path: Path


@dataclass(frozen=True)
class Score:
    """One image by one metric: a score, or the reason why there is none."""

    image_id: str
    metric: str
    score: float | None
    reason: str | None = None


_metrics: dict[str, NoReferenceMetric] = {}  # of this worker process


def score(images: Sequence[ImageFile], metrics: Sequence[str]) -> Iterator[list[Score]]:
    """Score every image with every metric.

    The scores do not depend on the number of workers or on the order of images.

    Args:
        images: what to score.
        metrics: names from the catalogue.

    Yields:
        The scores of one image, one a metric, images in the order in which they are finished.

    Raises:
        UserError: an image file is missing or is not the one its row names.
    """
    names = tuple(metrics)
    yield from in_parallel(_score_one, images, initializer=_load_all, initargs=(names,), environment=KERNELS)


def _load_all(names: tuple[str, ...]) -> None:
    torch.set_num_threads(1)
    _metrics.update({name: load(name) for name in names})


def _score_one(image: ImageFile) -> list[Score]:
    try:
        data = image.path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{image.path}: no such image; make it with `dvc repro` or fetch it: dvc pull.") from None
    if sha256_of(data) != image.image_id:
        raise UserError(f"{image.path}: not the image its row names; restore it with `dvc checkout`.")
    try:
        pixels = decode(data)
    except ImageError as error:
        return [Score(image.image_id, name, None, str(error)) for name in _metrics]
    return [_score_with(name, metric, image.image_id, pixels) for name, metric in _metrics.items()]


def _score_with(name: str, metric: NoReferenceMetric, image_id: str, pixels: object) -> Score:
    try:
        return Score(image_id, name, metric(pixels))  # type: ignore[arg-type]
    except MetricError as error:
        return Score(image_id, name, None, str(error))
