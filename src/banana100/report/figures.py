"""Figures of the report, as SVG text that is the same on every run."""

import io

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

_CHAIN = ["campaign", "seed", "repeat"]

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "banana100",  # ids in the file come from this instead of chance
    "svg.fonttype": "none",
}


def change_with_step(curves: pd.DataFrame, metrics: list[str], baseline_step: int, probe_steps: list[int]) -> str:
    """Small multiples: one panel a metric, one thin line a chain, the mean of the chains that count in bold.

    Args:
        curves: columns metric, campaign, seed, repeat, step, change, eligible.
        metrics: the panels, in this order.
        baseline_step: where all lines meet 0.
        probe_steps: marked on the axis.

    Returns:
        An SVG document without XML declaration.
    """
    columns = min(len(metrics), 4)
    rows = -(-len(metrics) // columns)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(2.6 * columns + 0.4, 2.2 * rows + 0.3), layout="constrained")
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for panel, metric in zip(panels, metrics, strict=False):
            panel.axhline(0, color="#888888", linewidth=0.8)
            panel.set_title(metric)
            panel.set_xticks([baseline_step, *probe_steps])
            of_metric = curves[curves["metric"] == metric]
            for _, chain in of_metric.groupby(_CHAIN):
                panel.plot(chain["step"], chain["change"], color="#4c72b0", linewidth=0.7, alpha=0.55)
            counted = of_metric[of_metric["eligible"]]
            mean = (counted if len(counted) else of_metric).groupby("step")["change"].mean()
            panel.plot(mean.index, mean, color="#c44e52", linewidth=2)
        for panel in panels[len(metrics) :]:
            panel.set_visible(False)
        figure.supxlabel("step")
        figure.supylabel("change in units of spread")
        stream = io.StringIO()
        figure.savefig(
            stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")), transparent=True
        )
    return "<svg" + stream.getvalue().split("<svg", 1)[1]
