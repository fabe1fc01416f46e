"""Filmstrips: what a chain looks like at some of its steps, and what every metric says of each image."""

import base64
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from banana100 import images, paths
from banana100.errors import UserError
from banana100.report.results import Grid


@dataclass(frozen=True)
class Cell:
    """One metric's score of one image.

    Attributes:
        score: as the metric gives it; None where there is none.
        says: of a step after the baseline, that its quality is "better", "same" or "worse" than the baseline's; empty
            where the metric says nothing.
    """

    score: float | None
    says: str


@dataclass(frozen=True)
class Frame:
    """One image: its step, the data URI of its preview, and the preview's size in pixels."""

    step: int
    preview: str
    width: int
    height: int


@dataclass(frozen=True)
class Strip:
    """One chain.

    Attributes:
        chain: its number in the grid.
        counted: whether it is long enough and has drifted far enough to count.
        frames: the steps that have a preview.
        scores: (metric, one cell a frame), in the order of the grid.
    """

    chain: int
    campaign: str
    seed: str
    repeat: int
    simulated: bool
    counted: bool
    frames: list[Frame]
    scores: list[tuple[str, list[Cell]]]


def strips(grid: Grid, simulated: set[str], steps: Sequence[int], baseline_step: int) -> Iterator[Strip]:
    """The first repeat of every seed of every campaign.

    Args:
        grid: all scores.
        simulated: campaigns whose images no model made.
        steps: the steps to show; those without a preview are left out.
        baseline_step: the step that later ones are compared with.

    Raises:
        UserError: a preview is damaged.
    """
    for number, campaign, seed, repeat in _first_repeats(grid.chains):
        scored = [step for step in steps if step < grid.present.shape[1] and grid.present[number, step]]
        frames = list(_frames(campaign, seed, repeat, scored))
        scores = [
            (metric, [_cell(grid, index, number, frame.step, baseline_step) for frame in frames])
            for index, metric in enumerate(grid.metrics)
        ]
        counted = bool(grid.chains["eligible"].iat[number])
        yield Strip(number, campaign, seed, repeat, campaign in simulated, counted, frames, scores)


def _first_repeats(chains: pd.DataFrame) -> Iterator[tuple[int, str, str, int]]:
    first = chains.drop_duplicates(["campaign", "seed"])  # they are sorted
    for row in first.itertuples():
        yield int(row.Index), str(row.campaign), str(row.seed), int(row.repeat)


def _frames(campaign: str, seed: str, repeat: int, steps: Sequence[int]) -> Iterator[Frame]:
    for step in sorted(steps):
        preview = paths.preview(campaign, seed, repeat, step)
        if preview.is_file():
            data = preview.read_bytes()
            try:
                header = images.read_header(data)
            except images.ImageError as error:
                raise UserError(f"{preview}: {error}; make it again with `dvc repro replicate`.") from None
            encoded = base64.b64encode(data).decode("ascii")
            yield Frame(step, f"data:image/webp;base64,{encoded}", header.width, header.height)


def _cell(grid: Grid, metric: int, chain: int, step: int, baseline_step: int) -> Cell:
    if step >= grid.scores.shape[-1] or math.isnan(score := grid.scores[metric, chain, step]):
        return Cell(None, "")
    change = grid.changes[metric, chain, step]
    if step <= baseline_step or math.isnan(change):
        return Cell(float(score), "")
    return Cell(float(score), "better" if change > 0 else "worse" if change < 0 else "same")
