"""Simulation study: do the tests reject too often when there is nothing to see, do intervals cover the truth?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from banana100.ranking import bootstrap, discrimination, order, significance
from benchmarks.ranking.synthetic import World

CLEAN_UNTIL, DEGRADED_FROM = 1, 5
FIGURES = ("tau", "auc", "auc_within")


@dataclass(frozen=True)
class Design:
    """How many seeds, chains of each and steps a study has."""

    seeds: int
    repeats: int
    steps: int

    def draw(self, world: World, generator: np.random.Generator, metrics: int) -> NDArray[np.float64]:
        """Aligned scores, (metrics, chains, steps + 1)."""
        return world.draw(generator, metrics=metrics, seeds=self.seeds, repeats=self.repeats, steps=self.steps)


def rejections(design: Design, *, metrics: int, studies: int, random_state: int) -> dict[str, float]:
    """Share of studies in which a test rejects anything at 5 % although no metric sees anything (family-wise error)."""
    generator = np.random.default_rng(random_state)
    rejected = {"permutation, Holm": 0, "sign, Holm": 0, "Friedman": 0}
    for _ in range(studies):
        chains = _taus(design.draw(World(0), generator, metrics))
        by_seed = chains.reshape(metrics, design.seeds, design.repeats).mean(axis=2)
        permutation = [significance.permutation_test(values, 0) for values in by_seed]
        rejected["permutation, Holm"] += _any_rejected(permutation)
        rejected["sign, Holm"] += _any_rejected([significance.sign_test(values) for values in by_seed])
        rejected["Friedman"] += significance.compare(by_seed).p <= significance.LEVEL
    return {name: number / studies for name, number in rejected.items()}


def coverage(design: Design, world: World, *, studies: int, resamples: int, random_state: int) -> dict[str, float]:
    """Share of studies whose 95 % interval holds the truth, for each of FIGURES."""
    generator = np.random.default_rng(random_state)
    truth = _truth(design, world)
    seeds = np.repeat(np.arange(design.seeds), design.repeats)
    covered = dict.fromkeys(FIGURES, 0)
    for study in range(studies):
        (aligned,) = design.draw(world, generator, 1)
        weights = bootstrap.resample(seeds, resamples, study)
        for name, estimates in _estimates(aligned, seeds, weights).items():
            low, high = bootstrap.interval(estimates, design.seeds)
            covered[name] += low <= truth[name] <= high
    return {name: number / studies for name, number in covered.items()}


def _any_rejected(p_values: list[float]) -> bool:
    # corrected values are never smaller: no need to correct (slow: statsmodels collects garbage) what is large already
    return min(p_values) <= significance.LEVEL and bool(significance.holm(p_values).min() <= significance.LEVEL)


def _truth(design: Design, world: World) -> dict[str, float]:
    """The figures of so many seeds that chance hardly moves them."""
    many = Design(seeds=3000, repeats=1, steps=design.steps)
    (aligned,) = many.draw(world, np.random.default_rng(0), 1)
    seeds = np.arange(many.seeds)
    return {name: float(value[0]) for name, value in _estimates(aligned, seeds, np.ones((1, many.seeds))).items()}


def _estimates(
    aligned: NDArray[np.float64], seeds: NDArray[np.int64], weights: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    counted = discrimination.count_wins(aligned, CLEAN_UNTIL, DEGRADED_FROM)
    return {
        "tau": bootstrap.weighted_mean(_taus(aligned[None])[0], weights),
        "auc": discrimination.auc_across(counted, weights),
        "auc_within": discrimination.auc_within(counted, seeds, weights),
    }


def _taus(aligned: NDArray[np.float64]) -> NDArray[np.float64]:
    # without ties Kendall's tau-b is 1 - 2 * accuracy, which is computed ten times as fast
    return 1 - 2 * np.apply_along_axis(order.pairwise_accuracy, -1, aligned)
