"""Order statistics of scores along a chain."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import kendalltau


def kendall_tau(step: ArrayLike, aligned: ArrayLike) -> float:
    """Kendall's tau-b of quality-aligned score with step (scipy.stats.kendalltau; ties are corrected for).

    Args:
        step: shape (n,).
        aligned: shape (n,), higher is better; NaN entries are left out.

    Returns:
        -1 (falls with every step: what a metric should do here) to 1; 0 for a constant score, which tells nothing;
        NaN with fewer than two scores.
    """
    steps, scores = np.asarray(step, dtype=float), np.asarray(aligned, dtype=float)
    known = np.isfinite(scores)
    if known.sum() < 2:
        return float("nan")
    if np.ptp(scores[known]) == 0:
        return 0.0
    return float(kendalltau(steps[known], scores[known]).statistic)
