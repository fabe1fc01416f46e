"""Evidence that the images did degrade: only then does a metric have something to see."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from banana100.ranking.curves import at


@dataclass(frozen=True)
class Evidence:
    """What is known of each chain's drift, (C,) each.

    Attributes:
        too_little: why the chain is left out, for all metrics alike, or None.
        unknown: why nobody can say whether it has drifted far enough, or None.
    """

    too_little: NDArray[np.object_]
    unknown: NDArray[np.object_]


def weigh(
    drift: Mapping[str, NDArray[np.float64]],
    min_drift: Mapping[str, float],
    higher_is_better: Mapping[str, bool],
    step: int,
    chains: int,
) -> Evidence:
    """Has each chain drifted far enough from its seed?

    Args:
        drift: full-reference scores against step 0 by metric, each (C, K), as `curves.drift_along` gives them.
        min_drift: for each metric that must have moved its bound: at most so high where higher is better (psnr in dB,
            ssim), at least so high where lower is better (gmsd, lpips, dists). Empty leaves no chain out.
        higher_is_better: for each metric of `min_drift`.
        step: where to look: the last probe step.
        chains: C.
    """
    too_little, unknown = (np.full(chains, None, dtype=object) for _ in range(2))
    for metric, bound in min_drift.items():
        at_step = at(drift.get(metric, np.empty((chains, 0))), step)
        enough = at_step <= bound if higher_is_better[metric] else at_step >= bound
        wanted = f"{'at most' if higher_is_better[metric] else 'at least'} {bound:g}"
        for index in np.flatnonzero(np.isfinite(at_step) & ~enough):
            told = f"drift {metric} is {at_step[index]:.4g} at step {step}, wanted {wanted}"
            too_little[index] = too_little[index] or told
        for index in np.flatnonzero(np.isnan(at_step)):
            unknown[index] = unknown[index] or f"drift {metric} is not known at step {step}"
    return Evidence(too_little, unknown)
