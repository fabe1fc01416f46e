"""Cluster bootstrap: seeds are drawn with replacement, each with all of its chains, which share their content.

Chains are not drawn once more within a seed: the spread of seeds already holds that of their chains, and counting it
twice made 95 % intervals cover up to 99 % (`python -m benchmarks.ranking --only calibration`; Davison and Hinkley,
Bootstrap Methods and their Application, 1997, section 3.8, find the same).
"""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95

# Below, the seeds drawn span less than 95 % whatever the quantile: 1 - 2^(1 - n) of all symmetric cases at best.
FEWEST_SEEDS = 6


def resample(seeds: NDArray[np.int64], resamples: int, random_state: int) -> NDArray[np.float64]:
    """How often each chain is drawn in each resample.

    Args:
        seeds: (C,), the number of each chain's seed, from 0.
        resamples: B.
        random_state: equal values give equal draws.

    Returns:
        (B, C), whole numbers, the same for all chains of a seed.
    """
    number = int(seeds.max(initial=-1)) + 1
    if not number:
        return np.zeros((resamples, 0))
    generator = np.random.default_rng(random_state)
    return generator.multinomial(number, np.full(number, 1 / number), size=resamples)[:, seeds].astype(float)


def interval(estimates: NDArray[np.float64], clusters: int) -> tuple[float, float]:
    """The 95 % interval that resampled estimates span: the expanded percentile interval.

    Plain percentiles are too narrow with few clusters, by as much as a normal interval is narrower than Student's; the
    quantiles are moved out by that (Hesterberg 2015, The American Statistician 69(4), section 5.3).

    Args:
        estimates: (B,); NaN ones, of resamples without the images that a figure needs, are left out.
        clusters: how many seeds were resampled.

    Returns:
        Lower and upper end; NaN with fewer than six clusters, whose interval could not hold what it promises; of no
        width where all resamples agree, which tells that the seeds differ too little to see by how much.
    """
    known = estimates[~np.isnan(estimates)]
    if clusters < FEWEST_SEEDS or not known.size:
        return float("nan"), float("nan")
    wider = np.sqrt(clusters / (clusters - 1)) * stats.t.ppf((1 - CONFIDENCE) / 2, clusters - 1)
    tail = stats.norm.cdf(wider)
    # inverted_cdf takes values that occurred, so that infinite ones (never detected) stand
    low, high = np.quantile(known, [tail, 1 - tail], method="inverted_cdf")
    return float(low), float(high)


def weighted_mean(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of `values` under each row of `weights`, NaN values left out; NaN where nothing is left.

    Args:
        values: (C,), or (C, K) for K means at once.
        weights: (B, C).

    Returns:
        (B,) or (B, K).
    """
    known = ~np.isnan(values)
    return ratio(weights @ np.where(known, values, 0), weights @ known)


def ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """`above` over `below`, entry by entry; NaN where `below` is not above 0."""
    return np.divide(above, below, out=np.full(np.shape(above), np.nan), where=np.asarray(below) > 0)


def weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lower median of `values` (C,), which may be infinite, under each row of `weights` (B, C), NaN values left out."""
    known = ~np.isnan(values)
    order = np.argsort(values[known])
    ordered = values[known][order]
    total = weights[:, known][:, order].cumsum(axis=1)
    if not ordered.size:
        return np.full(len(weights), np.nan)
    first = (total >= total[:, -1:] / 2).argmax(axis=1)
    return np.where(total[:, -1] > 0, ordered[first], np.nan)
