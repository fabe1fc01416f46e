"""All figures of the report, each with what it says in words and in numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from banana100 import paths
from banana100.lineage import tables
from banana100.params import Params
from banana100.report.figures import correlation, curves, ensemble, failures, ranks, style
from banana100.report.results import Results


@dataclass(frozen=True)
class Drawing:
    """A figure.

    Attributes:
        name: of its files, without the ending.
        title: what it is.
        svg: for the page; empty where the page shows its parts.
        columns, rows: its numbers.
        file_svg, file_png: for papers.
    """

    name: str
    title: str
    svg: str
    columns: list[str]
    rows: list[dict[str, Any]]
    file_svg: bytes
    file_png: bytes


@dataclass(frozen=True)
class PanelDrawing:
    """The curves of one metric on the page, and where its data lie in the SVG."""

    metric: str
    svg: str
    scale: curves.Scale


def reference(found: Results, params: Params) -> str | None:
    """The full-reference metric that is drawn beside the others: the first that rank wrote a curve of."""
    return next((name for name in params.scoring.drift if (rows := found.curve(name)) is not None and len(rows)), None)


def panels(found: Results, params: Params, drift: str | None) -> tuple[list[PanelDrawing], Drawing]:
    """The curves, as panels for the page and as one figure for papers; `drift` is what `reference` gives."""
    drifted = found.curve(drift) if drift else None
    shown = [
        curves.Panel(metric, found.grid.changes[index], found.curve(metric), drifted)
        for index, metric in enumerate(found.metrics)
    ]
    ticks = [params.ranking.baseline_step, *params.ranking.probe_steps]
    bounds = curves.limits(shown)
    with style.applied():
        parts = []
        for panel in shown:
            figure, scale = curves.one(panel, ticks, bounds)
            parts.append(PanelDrawing(panel.metric, style.inline(style.svg(figure), _said(panel, params)), scale))
        whole = curves.small_multiples(shown, ticks, bounds, drift)
        _say_simulated(whole, found)
        return parts, _drawing("curves", "Scores along the chains", whole)


def findings(found: Results) -> Iterator[Drawing]:
    """The other figures, in the order of the page; those without anything to show are left out."""
    metrics = found.metrics
    by_seed = found.table(paths.FAILURES_BY_SEED_TABLE, "metric", "seed", "chains", "failures")
    failed = failures.by_seed(by_seed, metrics)
    ranked = found.table(paths.RANKS_TABLE, "metric", "average_rank")
    correlated = found.table(paths.REDUNDANCY_TABLE, "metric", "other", "rho")
    subset = found.table(paths.SUBSET_TABLE, "seed", "auc")
    with style.applied():
        yield _drawing(
            "failures", "Failures by metric and seed", failures.draw(failed), failed, _said_of_failures(failed)
        )
        if len(ranked) > 1:
            drawn = ranks.draw(ranked, found.summary["critical_difference"])
            alt = f"Average ranks, 1 is best: {_listed(ranked, 'metric', 'average_rank')}."
            _say_simulated(drawn, found)
            yield _drawing("ranks", "Average ranks over seeds", drawn, ranked, alt)
        if len(metrics) > 1:
            alt = f"Rank correlation of every two of {len(metrics)} metrics."
            drawn = correlation.draw(correlated, metrics)
            _say_simulated(drawn, found)
            yield _drawing("correlation", "Which metrics say the same", drawn, correlated, alt)
        if len(subset) and len(metrics) > 1:
            alt = f"AUC of all metrics together on each seed left out: {_listed(subset, 'seed', 'auc')}."
            drawn = ensemble.draw(subset)
            _say_simulated(drawn, found)
            yield _drawing("ensemble", "All metrics together", drawn, subset, alt)


def _drawing(name: str, title: str, figure: Figure, numbers: pd.DataFrame | None = None, alt: str = "") -> Drawing:
    """A figure in all its forms; for the page only where `alt` says what it shows."""
    style.lay_out(figure)
    document = style.svg(figure)
    return Drawing(
        name=name,
        title=title,
        svg=style.inline(document, alt) if alt else "",
        columns=[] if numbers is None else list(numbers.columns),
        rows=[] if numbers is None else tables.records(numbers),
        file_svg=document.encode(),
        file_png=style.png(figure),
    )


def _say_simulated(figure: Figure, found: Results) -> None:
    """A figure leaves the page: it says itself that no model made its images."""
    if simulated := found.summary["simulated_chains"]:
        text = "simulated images" if simulated == found.summary["chains"] else "images in part simulated"
        figure.suptitle(text, x=0.01, ha="left", fontsize=7, color=style.SOFT)


def _said(panel: curves.Panel, params: Params) -> str:
    said = f"{panel.metric}: change of its quality-aligned score since step {params.ranking.baseline_step}"
    if panel.mean is None or panel.mean.empty:
        return f"{said}, one line a chain."
    last = panel.mean.iloc[-1]
    return f"{said}, one line a chain; on average {last['change']:+.2f} spreads at step {int(last['step'])}."


def _said_of_failures(by_seed: pd.DataFrame) -> str:
    failed = by_seed[by_seed["failures"] > 0].groupby("metric", sort=False)["seed"].nunique()
    seeds = by_seed["seed"].nunique()
    if failed.empty:
        return f"No metric fails on any of {seeds} seeds."
    return "Seeds with failures: " + ", ".join(f"{name} {count} of {seeds}" for name, count in failed.items()) + "."


def _listed(table: pd.DataFrame, name: str, value: str) -> str:
    known = table[np.isfinite(table[value])]
    return ", ".join(f"{row[name]} {row[value]:.2f}" for row in tables.records(known))
