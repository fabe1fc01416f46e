"""Do the metrics together see what none sees alone? AUC of the ensemble on each seed left out, beside each metric's."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from banana100.report.figures import style


def draw(by_seed: pd.DataFrame) -> Figure:
    """One row a seed: the ensemble's AUC, and that of each metric alone.

    Args:
        by_seed: columns seed, auc, and one for each metric.
    """
    figure = Figure(figsize=(6.4, 1.1 + 0.26 * len(by_seed)), layout="constrained")
    axes = figure.subplots()
    rows = np.arange(len(by_seed))
    axes.hlines(rows, 0, 1, color=style.LINE, linewidth=0.8, zorder=0)
    axes.axvline(0.5, color=style.SOFT, linewidth=0.8, linestyle=(0, (2, 2)), zorder=0)
    for index, metric in enumerate(by_seed.columns.drop(["seed", "auc"])):
        label = "one metric alone" if index == 0 else None
        axes.plot(by_seed[metric], rows, "o", color=style.CHAIN, alpha=0.7, markersize=4, label=label)
    axes.plot(by_seed["auc"], rows, "D", color=style.DRIFT, markersize=6, label="all metrics together")
    axes.set_yticks(rows, by_seed["seed"])
    axes.invert_yaxis()
    axes.set(xlim=(-0.02, 1.02), xlabel="AUC on the seed left out (0.5: chance)")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return figure
