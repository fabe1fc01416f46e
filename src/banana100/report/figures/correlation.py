"""Which metrics say the same: rank correlation of every two over all images."""

import pandas as pd
from matplotlib.figure import Figure

from banana100.report.figures import heat_map

_LOOK = heat_map.Look("PuOr", -1, 1, "Spearman's ρ", cell=(0.44, 0.4))


def draw(redundancy: pd.DataFrame, metrics: list[str]) -> Figure:
    """The matrix of Spearman's rho.

    Args:
        redundancy: columns metric, other, rho.
        metrics: in the order to be shown.
    """
    matrix = redundancy.pivot(index="metric", columns="other", values="rho").reindex(index=metrics, columns=metrics)
    return heat_map.draw(matrix, matrix.map(lambda rho: f"{rho:.2f}".replace("0.", ".").replace("-", "−")), _LOOK)
