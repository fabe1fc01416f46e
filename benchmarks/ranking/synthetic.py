"""Synthetic scores whose truth is known: no metric of any image, made to see whether statistics are right and fast."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from banana100.params import RankingParams
from banana100.ranking import study
from banana100.ranking.curves import CHAIN, Curves
from banana100.ranking.study import Study


@dataclass(frozen=True)
class World:
    """How scores come about: level of the seed, plus a slope of seed and chain, plus noise.

    Attributes:
        slope: mean change of a score over a whole chain, in standard deviations of the noise; 0: nothing is seen.
        between_seeds: standard deviation of the slope from seed to seed.
        between_chains: the same from chain to chain of a seed.
        levels: standard deviation of the seeds' levels.
    """

    slope: float
    between_seeds: float = 1.0
    between_chains: float = 0.5
    levels: float = 1.0

    def draw(
        self, generator: np.random.Generator, *, metrics: int, seeds: int, repeats: int, steps: int
    ) -> NDArray[np.float64]:
        """Aligned scores, (metrics, seeds * repeats, steps + 1); repeats of a seed are neighbours.

        All that is random is symmetric around the mean, and metrics share half of their variance, as real ones do.
        """

        def normal(*shape: int) -> NDArray[np.float64]:
            shared, own = generator.standard_normal((1, *shape)), generator.standard_normal((metrics, *shape))
            return (shared + own) / np.sqrt(2)

        slope = self.slope + self.between_seeds * normal(seeds, 1) + self.between_chains * normal(seeds, repeats)
        progress = np.arange(steps + 1) / steps
        scores = self.levels * normal(seeds, 1, 1) + slope[..., None] * progress + normal(seeds, repeats, steps + 1)
        return scores.reshape(metrics, seeds * repeats, steps + 1)


def as_study(aligned: NDArray[np.float64], repeats: int, resamples: int, random_state: int) -> Study:
    """The study of scores (M, C, K) that all succeeded, all chains counting."""
    metrics, chains, steps = aligned.shape
    numbers = np.arange(chains)
    names = pd.DataFrame({"campaign": "synthetic", "seed": numbers // repeats, "repeat": numbers % repeats + 1})
    names["seed"] = names["seed"].map("s{:04d}".format)
    image_ids = np.array([[f"{chain}-{step}" for step in range(steps)] for chain in range(chains)], dtype=object)
    curves = Curves([f"m{i:02d}" for i in range(metrics)], np.ones(metrics, bool), names[CHAIN], image_ids, aligned)
    ranking = RankingParams(
        metrics=curves.metrics,
        baseline_step=1,
        probe_steps=[5, 10, 20],
        spread="std",
        min_drift={},
        bootstrap=resamples,
        random_state=random_state,
    )
    return study.make(curves, study.Drift({}, {}), ranking)
