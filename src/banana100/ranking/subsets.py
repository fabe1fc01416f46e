"""Subsets of metrics, each judged by how well its ensemble tells clean images from degraded ones on unseen seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from banana100.ranking import bootstrap, discrimination, ensemble
from banana100.ranking.ensemble import Samples
from banana100.ranking.study import Study
from banana100.workers import in_parallel, progress

Columns = tuple[int, ...]


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval: seeds are resampled, the models stay as they are.

    So the chance in training is not in it: with few seeds it holds the truth less often than it says (85 % of the time
    at 6 seeds, 93 % at 13, in simulations).
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Subset:
    """How one subset does.

    Attributes:
        metrics: its members.
        auc: mean over seeds of the AUC, clean against degraded, of a model that has not seen the seed; 0 to 1, higher
            is better.
        best_single: the member whose own model does best, found on the same seeds, hence flattered.
        best_single_auc: its AUC. A model may turn a metric round, so a metric that always errs scores high here.
        gain: `auc` less `best_single_auc`; rather too small, as the single metric is chosen in hindsight.
        by_seed: columns seed, auc and one AUC for each single metric.
    """

    metrics: list[str]
    auc: Estimate
    best_single: str
    best_single_auc: Estimate
    gain: Estimate
    by_seed: pd.DataFrame


def gather(study: Study) -> Samples:
    """The clean and degraded images of eligible chains that all metrics of `study` scored."""
    present = study.curves.present & study.eligible[:, None]
    return ensemble.samples(study.curves.aligned, present, study.seeds, study.clean_until, study.degraded_from)


def judge(study: Study, given: Samples, columns: Sequence[int]) -> Subset | None:
    """Judge one subset and its members; None with fewer than two seeds, which leaves none to judge on."""
    together = ensemble.held_out(given, columns)
    if together is None:
        return None
    names = [study.curves.metrics[column] for column in columns]
    ensembled = _Judged(study, given, together)
    alone = {
        name: _Judged(study, given, together if len(columns) == 1 else ensemble.held_out(given, [column]))
        for name, column in zip(names, columns, strict=True)
    }
    best = max(names, key=lambda name: alone[name].estimate.value)
    gained = ensembled.resampled - alone[best].resampled
    gain = Estimate(gained[0], *bootstrap.interval(gained[1:], len(given.seeds)))
    by_seed = {"seed": study.seed_names[given.seeds], "auc": ensembled.of_seeds}
    by_seed |= {name: one.of_seeds for name, one in alone.items()}
    return Subset(names, ensembled.estimate, best, alone[best].estimate, gain, pd.DataFrame(by_seed))


class _Judged:
    """One column of decision values against the truth, on the seeds that their models have not seen.

    Attributes:
        resampled: (1 + B,), mean AUC within seeds; the first is the estimate.
        of_seeds: (S,), the AUC of each seed there is.
    """

    def __init__(self, study: Study, given: Samples, values: NDArray[np.float64]) -> None:
        own = np.unique(given.chain)
        laid = ensemble.on_chains(given, values, study.curves.present.shape)[own]
        counted = discrimination.count_wins(laid, study.clean_until, study.degraded_from)
        seeds = np.searchsorted(given.seeds, study.seeds[own])
        weights = np.vstack([np.ones(len(own)), study.weights[:, own]])
        self.resampled = discrimination.auc_within(counted, seeds, weights)
        self.of_seeds = discrimination.auc_of_seeds(counted, seeds, weights[:1])[0]
        self.estimate = Estimate(self.resampled[0], *bootstrap.interval(self.resampled[1:], len(given.seeds)))


@dataclass(frozen=True)
class Search:
    """All subsets of a size, judged.

    Attributes:
        subsets: how many there are.
        top: the best ones, best first.
        chosen: for each seed by name the subset that does best on all other seeds; None with fewer than three seeds.
        honest: AUC of those choices, each on the seed that had no part in choosing or training (nested
            cross-validation): what choosing this way is worth on a new seed. `top[0].auc` is higher, for it won.
    """

    subsets: int
    top: list[Subset]
    chosen: dict[str, list[str]] | None
    honest: Estimate | None


def search(study: Study, given: Samples, size: int, top: int) -> Search:
    """Judge every subset of `size` metrics, with a progress bar, on all cores.

    Args:
        study: everything about the run.
        given: what `gather` gives, with at least two seeds.
        size: from 1 to the number of metrics.
        top: how many to return in full.
    """
    subsets = list(combinations(range(len(study.curves.metrics)), size))
    number = len(subsets)
    outer = np.empty((number, len(given.seeds)))
    inner = np.full((number, len(given.seeds), len(given.seeds)), np.nan)
    numbered = list(enumerate(subsets))
    chunks = [numbered[first :: min(64, number)] for first in range(min(64, number))]
    finished = chain.from_iterable(in_parallel(partial(_leave_out, given), chunks))
    for index, of_seeds, of_pairs in progress(finished, total=number, what="subsets", unit="subset"):
        outer[index], inner[index] = of_seeds, of_pairs
    best = np.argsort(-outer.mean(axis=1), kind="stable")[:top]
    judged = [one for index in best if (one := judge(study, given, subsets[index]))]
    if len(given.seeds) < 3:
        return Search(number, judged, None, None)
    # chosen without seed i: by models that have seen neither i nor the seed they are judged on
    winners = [subsets[index] for index in np.nanmean(inner, axis=2).argmax(axis=0)]
    names = [[study.curves.metrics[column] for column in columns] for columns in winners]
    chosen = dict(zip(study.seed_names[given.seeds], names, strict=True))
    return Search(number, judged, chosen, _Judged(study, given, _of_winners(given, winners)).estimate)


def _leave_out(
    given: Samples, subsets: Sequence[tuple[int, Columns]]
) -> list[tuple[int, NDArray[np.float64], NDArray[np.float64]]]:
    return [(index, *leave_out(given, columns)) for index, columns in subsets]


def leave_out(given: Samples, columns: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """AUC of models that have not seen one seed, and of models that have not seen two.

    Returns:
        (S,), on each seed by the model of all others; (S, S), [i, j] on seed j by the model of all but i and j, NaN on
        the diagonal and with fewer than three seeds.
    """
    seeds = given.seeds
    one = np.array([_auc(_fit(given, columns, [seed]), given, columns, seed) for seed in seeds])
    two = np.full((len(seeds), len(seeds)), np.nan)
    if len(seeds) > 2:
        for i, j in combinations(range(len(seeds)), 2):
            fitted = _fit(given, columns, [seeds[i], seeds[j]])
            two[i, j], two[j, i] = (_auc(fitted, given, columns, seeds[seed]) for seed in (j, i))
    return one, two


def _fit(given: Samples, columns: Sequence[int], without: Sequence[int]) -> Pipeline:
    seen = ~np.isin(given.seed, without)
    return ensemble.model().fit(given.features[np.ix_(seen, columns)], given.clean[seen])


def _auc(fitted: Pipeline, given: Samples, columns: Sequence[int], seed: int) -> float:
    own = given.seed == seed
    values, clean = fitted.decision_function(given.features[np.ix_(own, columns)]), given.clean[own]
    return discrimination.auc(values[clean], values[~clean])


def _of_winners(given: Samples, winners: Sequence[Columns]) -> NDArray[np.float64]:
    """Decision values of each seed's images by the subset that was chosen without it, trained without it."""
    values = np.empty(len(given.seed))
    for seed, columns in zip(given.seeds, winners, strict=True):
        own = given.seed == seed
        values[own] = _fit(given, columns, [seed]).decision_function(given.features[np.ix_(own, columns)])
    return values
