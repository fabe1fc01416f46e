"""Which metric fails on which seed, as a heat map of failure rates."""

import pandas as pd
from matplotlib.figure import Figure

from banana100.report.figures import heat_map

_LOOK = heat_map.Look("cividis_r", 0, 1, "share of judged chains that fail", cell=(0.62, 0.3))


def by_seed(failures: pd.DataFrame, metrics: list[str]) -> pd.DataFrame:
    """Failures and judged chains of each metric and seed over all campaigns.

    Args:
        failures: columns metric, campaign, seed, chains, failures.
        metrics: in the order to be shown.

    Returns:
        Columns metric, seed, failures, chains, one row for each pair.
    """
    summed = failures.groupby(["metric", "seed"], sort=True)[["failures", "chains"]].sum()
    pairs = pd.MultiIndex.from_product([metrics, sorted(failures["seed"].unique())], names=["metric", "seed"])
    return summed.reindex(pairs, fill_value=0).reset_index()


def draw(table: pd.DataFrame) -> Figure:
    """The heat map: a cell says how many of how many chains failed.

    Args:
        table: what `by_seed` gives.
    """
    rates = table["failures"] / table["chains"].where(table["chains"] > 0)
    cells = table.assign(rate=rates, text=table["failures"].astype(str) + "/" + table["chains"].astype(str))
    matrices = [cells.pivot(index="metric", columns="seed", values=name) for name in ("rate", "text")]
    order = table["metric"].unique()
    return heat_map.draw(matrices[0].loc[order], matrices[1].loc[order], _LOOK)
