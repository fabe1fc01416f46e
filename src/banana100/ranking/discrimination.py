"""Can a metric tell clean images from degraded ones? ROC-AUC across and within seeds, and effect size.

An AUC here is the probability that a clean image scores above a degraded one, ties counting half (the Mann-Whitney
statistic, equal to scikit-learn's roc_auc_score with clean as the positive class): 1 sees the rot, 0.5 is chance, 0
calls every degraded image better. It is kept as counts for each pair of chains, because then any weighting of the
chains, such as thousands of bootstrap resamples, is a product of matrices; scikit-learn sorts anew for each.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from banana100.ranking.bootstrap import ratio


@dataclass(frozen=True)
class Wins:
    """Comparisons of clean with degraded images, for each pair of C chains.

    Attributes:
        wins: (C, C); [c, d] counts the pairs of a clean image of chain c that scores above a degraded one of chain d,
            ties counting half.
        clean: (C,), clean images with a score.
        degraded: (C,), degraded images with a score.
    """

    wins: NDArray[np.float64]
    clean: NDArray[np.int64]
    degraded: NDArray[np.int64]


def count_wins(aligned: NDArray[np.float64], clean_until: int, degraded_from: int) -> Wins:
    """Compare every clean image with every degraded one.

    Args:
        aligned: (C, K), higher is better; NaN scores are left out.
        clean_until: the last clean step.
        degraded_from: the first step that counts as degraded; steps between are neither.
    """
    clean, degraded = aligned[:, : clean_until + 1], aligned[:, degraded_from:]
    known = np.isfinite(clean)
    values, place = np.unique(clean, return_inverse=True)  # searchsorted is several times as fast on sorted values
    wins = np.empty((len(aligned), len(aligned)))
    for chain, scores in enumerate(degraded):
        ordered = np.sort(scores[np.isfinite(scores)])
        below_or_tied = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
        wins[:, chain] = np.where(known, below_or_tied[place] / 2, 0).sum(axis=1)
    return Wins(wins, known.sum(axis=1), np.isfinite(degraded).sum(axis=1))


def auc(clean: NDArray[np.float64], degraded: NDArray[np.float64]) -> float:
    """AUC of two sets of scores, (n,) and (m,); NaN scores are left out, NaN where a set is empty."""
    one_chain = np.concatenate([clean, degraded])[None]
    counted = count_wins(one_chain, len(clean) - 1, len(clean))
    return float(auc_across(counted, np.ones((1, 1)))[0])


def auc_across(counted: Wins, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """AUC over all images together: one threshold for all seeds.

    Args:
        counted: what `count_wins` gives.
        weights: (B, C), how often each chain counts; ones for the estimate itself.

    Returns:
        (B,), 0 to 1; NaN without a clean or without a degraded image.
    """
    won = ((weights @ counted.wins) * weights).sum(axis=1)
    return ratio(won, (weights @ counted.clean) * (weights @ counted.degraded))


def auc_of_chains(counted: Wins) -> NDArray[np.float64]:
    """AUC within each chain, (C,), 0 to 1; NaN where it has no clean or no degraded image."""
    return ratio(counted.wins.diagonal(), counted.clean * counted.degraded)


def auc_of_seeds(counted: Wins, seeds: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """AUC within each seed, where content cannot mislead.

    Args:
        counted: what `count_wins` gives.
        seeds: (C,), the number of each chain's seed, from 0.
        weights: (B, C).

    Returns:
        (B, S), 0 to 1; NaN where a seed has no clean or no degraded image.
    """
    columns = []
    for seed in range(int(seeds.max(initial=-1)) + 1):
        own = np.flatnonzero(seeds == seed)
        part = Wins(counted.wins[np.ix_(own, own)], counted.clean[own], counted.degraded[own])
        columns.append(auc_across(part, weights[:, own]))
    return np.stack(columns, axis=1) if columns else np.empty((len(weights), 0))


def auc_within(counted: Wins, seeds: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over seeds of the AUC within each, (B,); a seed counts as often as its chains are weighed on average."""
    by_seed = auc_of_seeds(counted, seeds, weights)
    members = np.eye(by_seed.shape[1])[seeds]
    of_seed = (weights @ members) / members.sum(axis=0)
    known = np.isfinite(by_seed)
    return ratio(np.where(known, by_seed * of_seed, 0).sum(axis=1), (known * of_seed).sum(axis=1))


def effect_size(
    aligned: NDArray[np.float64], clean_until: int, degraded_from: int, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Cohen's d: mean clean minus mean degraded score, over their pooled standard deviation (Cohen 1988, eq. 2.5.1).

    Args:
        aligned: (C, K), see `count_wins`.
        clean_until: see `count_wins`.
        degraded_from: see `count_wins`.
        weights: (B, C).

    Returns:
        (B,), above 0 where clean images score higher; infinite where each class has one score and they differ, 0 where
        all scores are one, NaN with fewer than two of a class.
    """
    known = aligned[np.isfinite(aligned)]
    spread = np.ptp(known) if known.size else 0.0
    # of size 1 around 0: sums of squares lose no digits, and what is as good as 0 does not depend on the unit
    centred = (aligned - known.mean()) / spread if spread > 0 else np.where(np.isfinite(aligned), 0.0, np.nan)
    number_c, mean_c, squares_c = _moments(centred[:, : clean_until + 1], weights)
    number_d, mean_d, squares_d = _moments(centred[:, degraded_from:], weights)
    enough = (number_c > 1) & (number_d > 1)
    variance = ratio(squares_c + squares_d, np.where(enough, number_c + number_d - 2, 0))
    difference = np.where(np.abs(mean_c - mean_d) > 1e-9, mean_c - mean_d, 0)
    without_spread = np.where(difference == 0, 0.0, np.copysign(np.inf, difference))
    return np.where(variance < 1e-18, without_spread, ratio(difference, np.sqrt(np.maximum(variance, 0))))


def _moments(
    scores: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Weighted number, mean and sum of squared deviations, each (B,)."""
    known = np.isfinite(scores)
    filled = np.where(known, scores, 0)
    number = weights @ known.sum(axis=1)
    mean = ratio(weights @ filled.sum(axis=1), number)
    return number, mean, weights @ (filled**2).sum(axis=1) - number * mean**2
