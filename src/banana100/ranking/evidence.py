"""Evidence that the images did degrade: only then does a metric have something to see."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


def too_little_drift(
    drift: Mapping[str, NDArray[np.float64]],
    min_drift: Mapping[str, float],
    higher_is_better: Mapping[str, bool],
    step: int,
    chains: int,
) -> NDArray[np.object_]:
    """Why each chain is left out, for all metrics alike.

    Args:
        drift: full-reference scores against step 0 by metric, each (C, K), as `curves.drift_along` gives them.
        min_drift: for each metric that must have moved its bound: at most so high where higher is better (psnr in dB,
            ssim), at least so high where lower is better (gmsd, lpips, dists). Empty leaves no chain out.
        higher_is_better: for each metric of `min_drift`.
        step: where to look: the last probe step.
        chains: C.

    Returns:
        (C,): a reason, or None where the chain has drifted far enough.
    """
    reasons = np.full(chains, None, dtype=object)
    for metric, bound in min_drift.items():
        values = drift.get(metric, np.empty((chains, 0)))
        at_step = values[:, step] if step < values.shape[1] else np.full(chains, np.nan)
        enough = at_step <= bound if higher_is_better[metric] else at_step >= bound
        wanted = f"{'at most' if higher_is_better[metric] else 'at least'} {bound:g}"
        for index in np.flatnonzero(~enough):
            known = np.isfinite(at_step[index])
            told = f"is {at_step[index]:.4g} at step {step}" if known else f"is not known at step {step}"
            reasons[index] = reasons[index] or f"drift {metric} {told}, wanted {wanted}"
    return reasons
