"""Simulation study: do the tests reject too often when there is nothing to see, do intervals cover the truth?"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from banana100.ranking import bootstrap, order, significance, verdicts
from banana100.workers import in_parallel, progress
from benchmarks.measure import ROOT, table
from benchmarks.ranking.synthetic import World, as_study

FIGURES = verdicts.ESTIMATES
PICTURE = Path(__file__).with_name("calibration.svg")


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
        chains = order.kendall_tau(design.draw(World(0), generator, metrics))
        by_seed = chains.reshape(metrics, design.seeds, design.repeats).mean(axis=2)
        permutation = [significance.permutation_test(values, 0) for values in by_seed]
        rejected["permutation, Holm"] += _any_rejected(permutation)
        rejected["sign, Holm"] += _any_rejected([significance.sign_test(values) for values in by_seed])
        rejected["Friedman"] += significance.compare(by_seed).p <= significance.LEVEL
    return {name: number / studies for name, number in rejected.items()}


def coverage(design: Design, world: World, *, studies: int, resamples: int, random_state: int) -> dict[str, float]:
    """Share of studies whose 95 % interval holds the truth, for each of FIGURES."""
    generator = np.random.default_rng(random_state)
    # so many seeds that chance hardly moves what they give
    truth = _figures(Design(seeds=3000, repeats=1, steps=design.steps), world, np.random.default_rng(0), 100, 0)
    covered = dict.fromkeys(FIGURES, 0)
    for study in range(studies):
        found = _figures(design, world, generator, resamples, study)
        for name in FIGURES:
            covered[name] += found[f"{name}_low"] <= truth[name] <= found[f"{name}_high"]
    return {name: number / studies for name, number in covered.items()}


def _figures(
    design: Design, world: World, generator: np.random.Generator, resamples: int, random_state: int
) -> dict[str, float]:
    study = as_study(design.draw(world, generator, 1), design.repeats, resamples, random_state)
    return verdicts.of_metric(study, verdicts.along_chains(study), 0)


def _any_rejected(p_values: list[float]) -> bool:
    # corrected values are never smaller: no need to correct (slow: statsmodels collects garbage) what is large already
    return min(p_values) <= significance.LEVEL and bool(significance.holm(p_values).min() <= significance.LEVEL)


# --- the study as a whole


def run(studies: int) -> None:
    """Print error rates and coverages of studies of several sizes, and draw them into calibration.svg."""
    designs = [Design(6, 2, 20), Design(10, 3, 20), Design(13, 5, 20)]
    worlds = {
        "nothing to see": World(0),
        "rot, seeds differ": World(-1.5),
        "rot, seeds alike": World(-1.5, between_seeds=0.3, between_chains=0.3),
    }
    able = [Design(8, 2, 20), *designs[1:]]  # with 6 seeds and 4 metrics the smallest corrected p is 0.0625
    tasks = [(design, "null", None) for design in able]
    tasks += [(design, name, world) for design in designs for name, world in worlds.items()]
    found = in_parallel(partial(_part, studies), tasks)
    results = dict(progress(found, total=len(tasks), what="calibration", unit="part"))
    errors = {design: results[design, "null"] for design in able}
    covered = {(design, name): results[design, name] for design in designs for name in worlds}
    table(
        f"family-wise error at 5 %, 4 metrics that see nothing, {studies} studies (target <= 0.05)",
        ["seeds x chains", *errors[able[0]]],
        [[_size(design), *(f"{share:.3f}" for share in shares.values())] for design, shares in errors.items()],
    )
    table(
        f"coverage of 95 % intervals, {studies} studies, 500 resamples (target 0.92 to 0.98)",
        ["seeds x chains", "world", *FIGURES],
        [[_size(at), name, *(f"{share:.3f}" for share in shares.values())] for (at, name), shares in covered.items()],
    )
    _draw(errors, covered)
    print(f"drawn: {PICTURE.relative_to(ROOT)}")


def _part(studies: int, task: tuple[Design, str, World | None]) -> tuple[tuple[Design, str], dict[str, float]]:
    design, name, world = task
    if world is None:
        return (design, name), rejections(design, metrics=4, studies=studies, random_state=1)
    return (design, name), coverage(design, world, studies=studies, resamples=500, random_state=2)


def _size(design: Design) -> str:
    return f"{design.seeds} x {design.repeats}"


def _draw(errors: dict[Design, dict[str, float]], covered: dict[tuple[Design, str], dict[str, float]]) -> None:
    with mpl.rc_context(
        {"svg.hashsalt": "banana100", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False}
    ):
        figure = Figure(figsize=(10, 4), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[1, 2])
        designs = list(errors)
        for name, marker in zip(errors[designs[0]], "osD", strict=True):
            left.plot([_size(design) for design in designs], [errors[at][name] for at in designs], marker, label=name)
        left.axhline(significance.LEVEL, color="#888888", linestyle="--", linewidth=0.8)
        left.set(title="rejections where there is nothing to see", ylabel="share of studies", ylim=(0, 0.1))
        rows = [f"{_size(design)}, {name}" for design, name in covered]
        for name, marker in zip(FIGURES, "osD^v<>Pp*", strict=True):
            right.plot([shares[name] for shares in covered.values()], rows, marker, label=name)
        right.axvspan(0.92, 0.98, color="#888888", alpha=0.2)
        right.axvline(bootstrap.CONFIDENCE, color="#888888", linestyle="--", linewidth=0.8)
        right.set(title="intervals that hold the truth", xlim=(0.8, 1.0))
        left.legend(fontsize=8)
        figure.legend(*right.get_legend_handles_labels(), fontsize=8, loc="outside right")
        figure.savefig(PICTURE, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
