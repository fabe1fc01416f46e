"""Order statistics of quality-aligned scores along one chain.

Everywhere: `aligned` has one score a step, shape (K,), higher is better; NaN scores are left out; only their order
counts, so any increasing transform of the scores gives the same figures.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import kendalltau, spearmanr


def kendall_tau(step: ArrayLike, aligned: ArrayLike) -> float:
    """Kendall's tau-b of score with step (scipy.stats.kendalltau; ties are corrected for).

    Returns:
        -1 (falls with every step: what a metric should do here) to 1; 0 for a constant score, which tells nothing;
        NaN with fewer than two scores.
    """
    return _correlation(kendalltau, step, aligned)


def spearman_rho(step: ArrayLike, aligned: ArrayLike) -> float:
    """Spearman's rank correlation (SRCC) of score with step (scipy.stats.spearmanr); values as for `kendall_tau`."""
    return _correlation(spearmanr, step, aligned)


def pairwise_accuracy(aligned: ArrayLike) -> float:
    """Share of all pairs of steps whose later image scores lower; a tie counts half.

    Returns:
        0 to 1 (every pair ordered rightly; 0.5: chance); NaN with fewer than two scores.
    """
    scores = _known(aligned)
    if len(scores) < 2:
        return float("nan")
    first, later = np.triu_indices(len(scores), k=1)
    return float(np.mean((1 - np.sign(scores[later] - scores[first])) / 2))


def monotone_share(aligned: ArrayLike) -> float:
    """Share of steps that score strictly lower than the last scored step before them, 0 to 1 (falls throughout).

    NaN with fewer than two scores.
    """
    scores = _known(aligned)
    return float(np.mean(np.diff(scores) < 0)) if len(scores) > 1 else float("nan")


def detection_step(aligned: ArrayLike, clean_until: int) -> float:
    """The first step from which the score stays below the chain's clean band, to the last scored step.

    Args:
        aligned: scores of steps 0, 1, 2, ...
        clean_until: the last clean step; the band reaches from the lowest to the highest clean score.

    Returns:
        A step above `clean_until`; infinity where the last score is not below the band; NaN without a clean or without
        a later score.
    """
    scores = np.asarray(aligned, dtype=float)
    clean = _known(scores[: clean_until + 1])
    later = np.flatnonzero(np.isfinite(scores))
    later = later[later > clean_until]
    if not len(clean) or not len(later):
        return float("nan")
    not_below = np.flatnonzero(scores[later] >= clean.min())
    first = not_below[-1] + 1 if len(not_below) else 0
    return float(later[first]) if first < len(later) else float("inf")


def _correlation(function: Callable[..., Any], step: ArrayLike, aligned: ArrayLike) -> float:
    steps, scores = np.asarray(step, dtype=float), np.asarray(aligned, dtype=float)
    known = np.isfinite(scores)
    if known.sum() < 2:
        return float("nan")
    if np.ptp(scores[known]) == 0:
        return 0.0
    return float(function(steps[known], scores[known]).statistic)


def _known(aligned: ArrayLike) -> NDArray[np.float64]:
    scores = np.asarray(aligned, dtype=float)
    return scores[np.isfinite(scores)]
