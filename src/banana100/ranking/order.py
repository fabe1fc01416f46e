"""Order statistics of quality-aligned scores along chains, all chains at once.

Everywhere: `aligned` has one score a step on its last axis, shape (..., K), higher is better; scores that are not
finite are left out; only their order counts, so any increasing transform of the scores gives the same figures, each
of shape (...).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from banana100.ranking.bootstrap import ratio


def kendall_tau(aligned: ArrayLike) -> NDArray[np.float64]:
    """Kendall's tau-b of score with step (what scipy.stats.kendalltau gives; ties are corrected for).

    Returns:
        -1 (falls with every step: what a metric should do here) to 1; 0 for a constant score, which tells nothing;
        NaN with fewer than two scores.
    """
    falls, rises, pairs = _pairs(aligned)
    differ = falls + rises
    # two divisions and the clipping, as in scipy: the same digits to the last
    tau = np.clip(ratio(ratio(rises - falls, np.sqrt(pairs)), np.sqrt(differ)), -1, 1)
    return np.where((pairs > 0) & (differ == 0), 0.0, tau)


def spearman_rho(aligned: ArrayLike) -> NDArray[np.float64]:
    """Spearman's rank correlation (SRCC) of score with step: Pearson's of their average ranks.

    Returns:
        As for `kendall_tau`; what scipy.stats.spearmanr gives, but for its rounding.
    """
    scores, known = _scores(aligned)
    number = known.sum(axis=-1, keepdims=True)
    ranks = rankdata(np.where(known, scores, np.inf), axis=-1)  # what is left out comes after all others
    of_step, of_score = (np.where(known, rank - (number + 1) / 2, 0) for rank in (known.cumsum(axis=-1), ranks))
    variances = (of_step**2).sum(axis=-1) * (of_score**2).sum(axis=-1)
    rho = ratio((of_step * of_score).sum(axis=-1), np.sqrt(variances))
    return np.where((number[..., 0] > 1) & (variances == 0), 0.0, rho)


def pairwise_accuracy(aligned: ArrayLike) -> NDArray[np.float64]:
    """Share of all pairs of steps whose later image scores lower; a tie counts half.

    Returns:
        0 to 1 (every pair ordered rightly; 0.5: chance); NaN with fewer than two scores.
    """
    falls, rises, pairs = _pairs(aligned)
    return ratio((pairs + falls - rises) / 2, pairs)


def monotone_share(aligned: ArrayLike) -> NDArray[np.float64]:
    """Share of steps that score strictly lower than the last scored step before them, 0 to 1 (falls throughout).

    NaN with fewer than two scores.
    """
    scores, known = _scores(aligned)
    last = np.maximum.accumulate(np.where(known, np.arange(known.shape[-1]), 0), axis=-1)
    before = np.take_along_axis(scores, last, axis=-1)[..., :-1]
    return ratio((scores[..., 1:] < before).sum(axis=-1), known.sum(axis=-1) - 1)


def detection_step(aligned: ArrayLike, clean_until: int) -> NDArray[np.float64]:
    """The first step from which the score stays below the chain's clean band, to the last scored step.

    Args:
        aligned: scores of steps 0, 1, 2, ...
        clean_until: the last clean step; the band reaches from the lowest to the highest clean score.

    Returns:
        A step above `clean_until`; infinity where the last score is not below the band; NaN without a clean or without
        a later score.
    """
    scores, known = _scores(aligned)
    steps = np.arange(known.shape[-1])
    lowest = np.where(known & (steps <= clean_until), scores, np.inf).min(axis=-1, initial=np.inf, keepdims=True)
    later = known & (steps > clean_until)
    last_above = np.where(later & (scores >= lowest), steps, -1).max(axis=-1, initial=-1, keepdims=True)
    first = np.where(later & (steps > last_above), steps, np.inf).min(axis=-1, initial=np.inf)
    return np.where(np.isfinite(lowest[..., 0]) & later.any(axis=-1), first, np.nan)


def _pairs(aligned: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """How many pairs of steps fall, how many rise, and how many there are, each (...)."""
    scores, known = _scores(aligned)
    falls, rises = np.zeros((2, *scores.shape[:-1]), dtype=np.int64)
    for apart in range(1, scores.shape[-1]):
        earlier, later = scores[..., :-apart], scores[..., apart:]
        falls += (later < earlier).sum(axis=-1)
        rises += (later > earlier).sum(axis=-1)
    number = known.sum(axis=-1)
    return falls, rises, number * (number - 1) // 2


def _scores(aligned: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The scores, NaN where they are left out, and where they are known, both (..., K)."""
    scores = np.asarray(aligned, dtype=float)
    known = np.isfinite(scores)
    return np.where(known, scores, np.nan), known
