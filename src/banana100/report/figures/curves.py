"""Score against step: one panel a metric, thin lines for chains, the mean with its interval, drift as the reference."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from banana100.report.figures import style

_PANEL = 2.7, 2.1  # inches
_DASHES = (0, (4, 2))


@dataclass(frozen=True)
class Panel:
    """What one metric's panel shows.

    Attributes:
        metric: its title.
        changes: (C, K), one line a chain; NaN where there is no score.
        mean: over the chains that count; columns step, change, low and high (its 95 % interval, or NaN).
        drift: the same of full-reference drift, or None.
    """

    metric: str
    changes: NDArray[np.float64]
    mean: pd.DataFrame | None
    drift: pd.DataFrame | None


@dataclass(frozen=True)
class Scale:
    """Where the data of a panel lie in its SVG: x = x0 + step * dx, y = y0 + change * dy."""

    x0: float
    dx: float
    y0: float
    dy: float


def limits(panels: Sequence[Panel]) -> tuple[float, float]:
    """The lowest and the highest change to be shown, the same in all panels, as they share their unit."""
    shown = [panel.changes[np.isfinite(panel.changes)] for panel in panels]
    shown += [panel.drift["change"].to_numpy() for panel in panels[:1] if panel.drift is not None]
    values = np.concatenate([*shown, [-0.5, 0.5]])
    values = values[np.isfinite(values)]
    margin = 0.05 * np.ptp(values)
    return float(values.min() - margin), float(values.max() + margin)


def one(panel: Panel, ticks: Sequence[int], bounds: tuple[float, float]) -> tuple[Figure, Scale]:
    """One panel by itself, for the page; the chains' lines are pixels, as thousands of lines would stall a browser."""
    figure = Figure(figsize=_PANEL, layout="constrained")
    axes = figure.subplots()
    _draw(axes, panel, ticks, bounds, rasterized=True)
    style.lay_out(figure)
    (x0, y0), (x1, y1) = axes.transData.transform([(0, 0), (1, 1)])
    height = figure.bbox.height
    return figure, Scale(x0, x1 - x0, height - y0, y0 - y1)


def small_multiples(
    panels: Sequence[Panel], ticks: Sequence[int], bounds: tuple[float, float], drift: str | None
) -> Figure:
    """All panels as one figure of vectors, for papers; `drift` names the reference line."""
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(_PANEL[0] * columns, _PANEL[1] * rows + 0.3), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, panel in zip(grid, panels, strict=False):
        _draw(axes, panel, ticks, bounds)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.supxlabel("step", fontsize=9)
    figure.supylabel("quality-aligned change", fontsize=9)
    key = [Line2D([], [], color=style.CHAIN, linewidth=0.7, label="a chain")]
    key.append(Line2D([], [], color=style.MEAN, linewidth=1.8, label="mean, 95 % interval"))
    if drift:
        key.append(Line2D([], [], color=style.DRIFT, linewidth=1.2, linestyle=_DASHES, label=f"full-reference {drift}"))
    figure.legend(handles=key, loc="outside upper right", ncols=len(key), frameon=False, fontsize=8)
    return figure


def _draw(
    axes: Axes, panel: Panel, ticks: Sequence[int], bounds: tuple[float, float], *, rasterized: bool = False
) -> None:
    steps = np.arange(panel.changes.shape[1])
    lines = [np.column_stack([steps, changes]) for changes in panel.changes]
    alpha = float(np.clip(6 / max(len(lines), 1), 0.12, 0.6))
    axes.add_collection(
        LineCollection(lines, colors=style.CHAIN, linewidths=0.7, alpha=alpha, rasterized=rasterized), autolim=False
    )
    axes.axhline(0, color=style.LINE, linewidth=0.8, zorder=0)
    if panel.drift is not None:
        axes.plot(panel.drift["step"], panel.drift["change"], color=style.DRIFT, linewidth=1.2, linestyle=_DASHES)
    if panel.mean is not None:
        mean = panel.mean
        axes.fill_between(mean["step"], mean["low"], mean["high"], color=style.MEAN, alpha=0.25, linewidth=0)
        axes.plot(mean["step"], mean["change"], color=style.MEAN, linewidth=1.8)
    axes.set(title=panel.metric, xticks=ticks, xlim=(0, max(len(steps) - 1, 1)), ylim=bounds)
