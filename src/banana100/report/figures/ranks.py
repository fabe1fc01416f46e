"""Average ranks with the critical difference (Demšar, Statistical Comparisons of Classifiers, JMLR 7, 2006)."""

import pandas as pd
import scikit_posthocs
from matplotlib.figure import Figure

from banana100.report.figures import style


def draw(ranks: pd.DataFrame, critical_difference: float | None) -> Figure:
    """The critical-difference diagram: a bar joins metrics whose ranks do not differ significantly (Nemenyi).

    Args:
        ranks: columns metric, average_rank; 1 follows the rot best.
        critical_difference: how far two ranks must lie apart; None where no test could be made.
    """
    averages = ranks.set_index("metric")["average_rank"]
    near = critical_difference if critical_difference is not None else -1.0  # without a test no bar
    apart = pd.DataFrame({name: (averages - rank).abs() <= near for name, rank in averages.items()}).astype(float)
    figure = Figure(figsize=(7.2, 1.5 + 0.24 * -(-len(averages) // 2)), layout="constrained")
    axes = figure.subplots()
    drawn = scikit_posthocs.critical_difference_diagram(
        averages,
        apart,
        ax=axes,
        label_fmt_left="{label} ({rank:.2f}) ",
        label_fmt_right=" ({rank:.2f}) {label}",
        marker_props={"color": style.MEAN, "zorder": 3},
        elbow_props={"color": style.INK, "linewidth": 0.8},  # labels take this colour
        crossbar_props={"color": style.INK, "linewidth": 2},
    )
    for bar in (line for lines in drawn["crossbars"] for line in lines):
        bar.set_xdata(sorted(bar.get_xdata()))  # the library takes its points from a set, in no fixed order
    if critical_difference is not None:  # the library would lay it over the numbers of the axis
        best = averages.min()
        axes.plot([best, best + critical_difference], [2.2, 2.2], color=style.SOFT, linewidth=2, marker="|")
        middle = best + critical_difference / 2
        axes.text(middle, 2.5, f"critical difference {critical_difference:.2f}", ha="center", color=style.SOFT)
        axes.set_ylim(top=3.2)
    return figure
