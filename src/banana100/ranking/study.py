"""What rank and the search of subsets both start from: scores, which chains count, verdicts, resamples."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from banana100.params import RankingParams
from banana100.ranking import bootstrap, criterion, curves, evidence
from banana100.ranking.curves import Curves


@dataclass(frozen=True)
class Drift:
    """Full-reference drift of each image from its chain's step 0.

    Attributes:
        scores: (C, K) by metric; NaN where not known.
        higher_is_better: by metric.
    """

    scores: Mapping[str, NDArray[np.float64]]
    higher_is_better: Mapping[str, bool]


@dataclass(frozen=True)
class Study:
    """M metrics on C chains, and how they are judged.

    Attributes:
        curves: the scores.
        drift: evidence that the images degrade.
        changes: (M, C, K), normalised change since the baseline step.
        verdicts: the criterion's.
        eligible: bool (C,), the chains that reach every probe step and have drifted far enough.
        clean_until: the last clean step, which is the baseline step.
        degraded_from: the first step that counts as degraded, which is the first probe step.
        weights: (B, C), how often each chain is drawn in each resample; 0 for chains that are not eligible.
        random_state: decides whatever else is drawn.
    """

    curves: Curves
    drift: Drift
    changes: NDArray[np.float64]
    verdicts: criterion.Verdicts
    eligible: NDArray[np.bool_]
    clean_until: int
    degraded_from: int
    weights: NDArray[np.float64]
    random_state: int

    @property
    def seeds(self) -> NDArray[np.int64]:
        """The number of each chain's seed, (C,); a seed is the same in all campaigns."""
        return pd.factorize(self.curves.chains["seed"], sort=True)[0]

    @property
    def seed_names(self) -> NDArray[np.object_]:
        """The name of each number in `seeds`."""
        return pd.factorize(self.curves.chains["seed"], sort=True)[1].to_numpy(dtype=object)

    @property
    def drift_curves(self) -> Curves:
        """Drift as if its metrics, sorted by name, were judged too: higher is closer to the seed; NaN at step 0."""
        names = sorted(self.drift.scores)
        scores = np.array([self.drift.scores[name] for name in names])
        return replace(
            self.curves,
            metrics=names,
            higher_is_better=np.array([self.drift.higher_is_better[name] for name in names], dtype=bool),
            scores=scores.reshape(len(names), *self.curves.image_ids.shape),  # also where there are none
        )


def make(scores: Curves, drift: Drift, ranking: RankingParams) -> Study:
    """Judge every chain by every metric and draw the resamples that all intervals share."""
    steps = [ranking.baseline_step, *ranking.probe_steps]
    changes = curves.change(scores, ranking.baseline_step, curves.spread(scores, ranking.spread))
    number = len(scores.chains)
    weighed = evidence.weigh(drift.scores, ranking.min_drift, drift.higher_is_better, max(ranking.probe_steps), number)
    verdicts = criterion.judge(scores, changes, ranking.baseline_step, ranking.probe_steps, weighed)
    reached = np.all([curves.at(scores.present.astype(float), step) == 1 for step in steps], axis=0)
    drifted = (weighed.too_little == np.array(None)) & (weighed.unknown == np.array(None))
    eligible = reached & drifted
    weights = np.zeros((ranking.bootstrap, number))
    seeds = pd.factorize(scores.chains["seed"][eligible], sort=True)[0]
    weights[:, eligible] = bootstrap.resample(seeds, ranking.bootstrap, ranking.random_state)
    return Study(
        curves=scores,
        drift=drift,
        changes=changes,
        verdicts=verdicts,
        eligible=eligible,
        clean_until=ranking.baseline_step,
        degraded_from=min(ranking.probe_steps),
        weights=weights,
        random_state=ranking.random_state,
    )
