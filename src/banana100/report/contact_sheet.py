"""The contact sheet: what a chain looks like at some of its steps."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from banana100 import paths


@dataclass(frozen=True)
class Strip:
    """One chain's previews.

    Attributes:
        frames: (step, data URI of a WebP) for each step that has a preview.
    """

    campaign: str
    seed: str
    repeat: int
    simulated: bool
    frames: list[tuple[int, str]]


def strips(chains: pd.DataFrame, steps: Sequence[int]) -> list[Strip]:
    """The first repeat of every seed of every campaign.

    Args:
        chains: columns campaign, seed, repeat, simulated.
        steps: the steps to show; those without a preview are left out.
    """
    shown = chains[["campaign", "seed", "repeat", "simulated"]].drop_duplicates()
    shown = shown.sort_values(["campaign", "seed", "repeat"]).drop_duplicates(["campaign", "seed"])
    return [
        Strip(str(campaign), str(seed), int(repeat), bool(simulated), _frames(str(campaign), str(seed), repeat, steps))
        for campaign, seed, repeat, simulated in shown.itertuples(index=False)
    ]


def _frames(campaign: str, seed: str, repeat: int, steps: Sequence[int]) -> list[tuple[int, str]]:
    previews = {step: paths.preview(campaign, seed, repeat, step) for step in sorted(steps)}
    return [(step, _data_uri(preview.read_bytes())) for step, preview in previews.items() if preview.is_file()]


def _data_uri(webp: bytes) -> str:
    return "data:image/webp;base64," + base64.b64encode(webp).decode("ascii")
