"""Tests of significance, with seeds as the units: chains of one seed share their content and are not independent."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

LEVEL = 0.05


def sign_test(values: ArrayLike) -> float:
    """One-sided sign test that values lie below 0 more often than not (scipy.stats.binomtest).

    Args:
        values: one figure a seed, such as the mean tau of its chains; NaN ones are left out; a 0 counts against.

    Returns:
        The p-value; at least 1 / 2^seeds; NaN without a value.
    """
    known = _known(values)
    if not known.size:
        return float("nan")
    return float(stats.binomtest(int((known < 0).sum()), known.size, alternative="greater").pvalue)


def permutation_test(values: ArrayLike, random_state: int) -> float:
    """One-sided sign-flip permutation test that the mean lies below 0 (scipy.stats.permutation_test).

    Exact up to 13 values, as all flips are tried; beyond, 9,999 random ones.

    Args:
        values: as for `sign_test`, symmetric around 0 under the null hypothesis.
        random_state: decides the random flips.

    Returns:
        The p-value; at least 1 / 2^seeds, and 1 / 10,000; NaN without a value.
    """
    known = _known(values)
    if not known.size:
        return float("nan")
    if known.size == 1 or not known.any():  # scipy wants two
        return 0.5 if known[0] < 0 else 1.0
    result = stats.permutation_test(
        (known,),
        lambda sample, axis: np.mean(sample, axis=axis),
        permutation_type="samples",
        vectorized=True,
        alternative="less",
        rng=np.random.default_rng(random_state),
    )
    return float(result.pvalue)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's correction for testing many metrics (statsmodels multipletests); NaN ones stay and do not count."""
    values = np.asarray(p_values, dtype=float)
    corrected = np.full(values.shape, np.nan)
    known = ~np.isnan(values)
    if known.any():
        corrected[known] = multipletests(values[known], method="holm")[1]
    return corrected


@dataclass(frozen=True)
class Comparison:
    """Which of M metrics is best, seed by seed.

    Attributes:
        average_ranks: (M,), 1 is best; NaN for a metric without figures and where nothing can be compared.
        seeds: how many seeds all compared metrics have a figure for.
        p: of Friedman's test that all metrics are alike; NaN with fewer than three metrics or two seeds.
        critical_difference: average ranks further apart differ significantly at 5 % (Nemenyi); NaN where `p` is.
    """

    average_ranks: NDArray[np.float64]
    seeds: int
    p: float
    critical_difference: float


def compare(values: NDArray[np.float64]) -> Comparison:
    """Friedman's test and average ranks over seeds (scipy.stats.friedmanchisquare; Demsar 2006, JMLR 7, section 3.2.2).

    Args:
        values: (M, S), the figure of each metric for each seed, lower is better. Metrics with figures for fewer than
            half of the seeds are left out, so that one that fails does not end the comparison; then seeds for which a
            metric has none.
    """
    figures = (~np.isnan(values)).sum(axis=1)
    compared = figures >= max(1, values.shape[1] / 2)
    table = values[compared]
    table = table[:, ~np.isnan(table).any(axis=0)]
    metrics, seeds = table.shape
    average = np.full(len(values), np.nan)
    if not seeds or not metrics:
        return Comparison(average, 0, float("nan"), float("nan"))
    average[compared] = stats.rankdata(table, axis=0).mean(axis=1)
    if metrics < 3 or seeds < 2:
        return Comparison(average, seeds, float("nan"), float("nan"))
    alike = (table == table[0]).all()  # scipy divides by zero
    p = 1.0 if alike else float(stats.friedmanchisquare(*table).pvalue)
    studentized = stats.studentized_range.ppf(1 - LEVEL, metrics, np.inf) / np.sqrt(2)
    return Comparison(average, seeds, p, float(studentized * np.sqrt(metrics * (metrics + 1) / (6 * seeds))))


def _known(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=float)
    return array[~np.isnan(array)]
