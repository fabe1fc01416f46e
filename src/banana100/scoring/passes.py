"""Passes: which metrics share the decoding of an image, and how many workers memory allows."""

from collections.abc import Sequence
from dataclasses import dataclass

from banana100.scoring.scorers import KERNELS, Scorer

_PROCESS_MB = 900  # Python with torch and pyiqa, before any weights
_SHARE = 0.8  # of the memory that is free; the rest is the machine's


@dataclass(frozen=True)
class Pass:
    """Metrics that go over the images together.

    Attributes:
        scorers: the metrics.
        need_mb: memory of one worker, in megabytes.
    """

    scorers: tuple[Scorer, ...]
    need_mb: float

    @property
    def environment(self) -> dict[str, str]:
        """Variables that the workers start with."""
        return KERNELS if self.scorers[0].facts.kind == "statistics" else {}

    def workers(self, wanted: int, available_mb: float) -> int:
        """How many workers to start: no more than `wanted`, no more than fit, at least one."""
        return max(1, min(wanted, int(available_mb * _SHARE // self.need_mb)))


def plan(scorers: Sequence[Scorer], megapixels: float, available_mb: float, workers: int) -> list[Pass]:
    """Split metrics into passes: those with the same kernels together while memory lasts, heavy ones alone.

    Args:
        scorers: the metrics.
        megapixels: size of the largest image.
        available_mb: free memory.
        workers: processes that will want it.

    Returns:
        Every metric in exactly one pass, cheap passes first.
    """
    passes = []
    for kind in ("statistics", "network", "language"):
        of_kind = sorted((s for s in scorers if s.facts.kind == kind), key=lambda s: s.metric)
        room = available_mb * _SHARE / max(1, workers)
        passes += _pack([s for s in of_kind if not s.facts.alone], megapixels, room)
        passes += [Pass((s,), _need([s], megapixels)) for s in of_kind if s.facts.alone]
    return passes


def _pack(scorers: list[Scorer], megapixels: float, room_mb: float) -> list[Pass]:
    packed: list[list[Scorer]] = []
    for scorer in scorers:
        if packed and _need([*packed[-1], scorer], megapixels) <= room_mb:
            packed[-1].append(scorer)
        else:
            packed.append([scorer])
    return [Pass(tuple(group), _need(group, megapixels)) for group in packed]


def _need(scorers: Sequence[Scorer], megapixels: float) -> float:
    """Weights of all, and working memory of the hungriest: they take turns on an image."""
    weights = sum(scorer.facts.weights_mb for scorer in scorers)
    return _PROCESS_MB + weights + max(scorer.facts.working_mb for scorer in scorers) * max(megapixels, 0.25)
