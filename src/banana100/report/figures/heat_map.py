"""A heat map: a coloured matrix with its numbers in its cells."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from banana100.report.figures import style


@dataclass(frozen=True)
class Look:
    """How a heat map is drawn.

    Attributes:
        colours: matplotlib's name of the colour map.
        lowest, highest: the values at its ends.
        label: what the colours mean.
        cell: width and height of a cell in inches.
    """

    colours: str
    lowest: float
    highest: float
    label: str
    cell: tuple[float, float]


def draw(values: pd.DataFrame, texts: pd.DataFrame, look: Look) -> Figure:
    """Draw a matrix; cells without a value show a dash.

    Args:
        values: decide the colours; index and columns are the labels.
        texts: of the same shape, what the cells say.
        look: see there.
    """
    rows, columns = values.shape
    width, height = look.cell
    figure = Figure(figsize=(2.2 + width * columns, 1.3 + height * rows), layout="constrained")
    axes = figure.subplots()
    numbers = values.to_numpy(dtype=float)
    shown = axes.pcolormesh(
        numbers, cmap=look.colours, vmin=look.lowest, vmax=look.highest, edgecolor="white", linewidth=1
    )
    axes.invert_yaxis()
    axes.set_xticks(np.arange(columns) + 0.5, values.columns, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(np.arange(rows) + 0.5, values.index)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for (row, column), value in np.ndenumerate(numbers):
        text, colour = (
            (texts.iat[row, column], _readable(shown.to_rgba(value))) if np.isfinite(value) else ("–", style.SOFT)
        )
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7.5, color=colour)
    bar = figure.colorbar(shown, ax=axes, label=look.label, fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
    bar.solids.set_rasterized(False)
    return figure


def _readable(background: Any) -> str:
    """Black or white, whichever stands out more against a colour (relative luminance of WCAG 2)."""
    channels = np.asarray(background[:3])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return "#000000" if linear @ [0.2126, 0.7152, 0.0722] > 0.179 else "#ffffff"
