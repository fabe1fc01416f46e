"""What is to be scored, and what comes back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path


@dataclass(frozen=True)
class ImageFile:
    """An image file: its identity, where it lies, its size in pixels as its row tells it."""

    image_id: str
    path: Path
    width: int
    height: int


@dataclass(frozen=True)
class Job:
    """One image and what it lacks.

    Attributes:
        image: the image to score.
        metrics: names of the metrics that it lacks, sorted.
        reference: for full-reference metrics, the image it is compared with.
    """

    image: ImageFile
    metrics: tuple[str, ...]
    reference: ImageFile | None = None


@dataclass(frozen=True)
class Score:
    """One image by one metric: a score, or the reason why there is none."""

    image_id: str
    metric: str
    score: float | None
    reason: str | None = None
    reference_id: str = ""


def tasks(jobs: Sequence[Job], metrics: set[str], size: int) -> Iterator[list[Job]]:
    """Cut jobs into tasks of images that lack the same of `metrics` and have one size, `size` images at most."""
    reduced = [Job(job.image, tuple(m for m in job.metrics if m in metrics), job.reference) for job in jobs]
    ordered = sorted((job for job in reduced if job.metrics), key=_likeness)
    for _, alike in groupby(ordered, key=lambda job: _likeness(job)[:4]):
        group = list(alike)
        for start in range(0, len(group), size):
            yield group[start : start + size]


def _likeness(job: Job) -> tuple[tuple[str, ...], int, int, str, str]:
    # the reference stands before the image, so that it is decoded once for its chain
    reference = job.reference.image_id if job.reference else ""
    return job.metrics, job.image.height, job.image.width, reference, job.image.image_id
