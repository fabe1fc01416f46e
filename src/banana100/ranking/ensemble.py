"""Does a combination of metrics see what none sees alone? Logistic regression, judged on seeds it has not seen."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler


@dataclass(frozen=True)
class Samples:
    """Clean and degraded images that every metric has scored.

    Attributes:
        features: (N, M), quality-aligned scores.
        clean: bool (N,), the class; False: degraded.
        seed: (N,), the number of each image's seed.
        chain: (N,), the row of each image's chain; `step` its step.
        dropped: how many clean and degraded images lack a score.
    """

    features: NDArray[np.float64]
    clean: NDArray[np.bool_]
    seed: NDArray[np.int64]
    chain: NDArray[np.int64]
    step: NDArray[np.int64]
    dropped: int

    @property
    def seeds(self) -> NDArray[np.int64]:
        """The seeds there are."""
        return np.unique(self.seed)


def samples(
    aligned: NDArray[np.float64],
    present: NDArray[np.bool_],
    seeds: NDArray[np.int64],
    clean_until: int,
    degraded_from: int,
) -> Samples:
    """Gather the images to tell apart.

    Args:
        aligned: (M, C, K), higher is better.
        present: (C, K), which images count.
        seeds: (C,), the number of each chain's seed.
        clean_until: the last clean step.
        degraded_from: the first step that counts as degraded; steps between are neither.

    Returns:
        Images of seeds that have both classes.
    """
    steps = np.arange(aligned.shape[-1])
    of_a_class = present & ((steps <= clean_until) | (steps >= degraded_from))
    scored = of_a_class & np.isfinite(aligned).all(axis=0)
    chain, step = np.nonzero(scored)
    clean, seed = step <= clean_until, seeds[chain]
    whole = np.isin(seed, np.intersect1d(seed[clean], seed[~clean]))
    chain, step, clean, seed = chain[whole], step[whole], clean[whole], seed[whole]
    return Samples(aligned[:, chain, step].T, clean, seed, chain, step, dropped=int(of_a_class.sum() - scored.sum()))


def model() -> Pipeline:
    """Logistic regression on scores standardised over the training images; both classes weigh the same."""
    # newton-cholesky: made for many more rows than columns
    return make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", solver="newton-cholesky"))


def held_out(given: Samples, columns: Sequence[int]) -> NDArray[np.float64] | None:
    """How clean each image looks to the model that has not seen its seed (scikit-learn, LeaveOneGroupOut).

    Args:
        given: the images.
        columns: the metrics to combine, as columns of the features.

    Returns:
        (N,), the decision function, higher is cleaner; None with fewer than two seeds.
    """
    if len(given.seeds) < 2:
        return None
    if len(columns) == 1:
        return _held_out_single(given, columns[0])
    features = given.features[:, columns]
    return cross_val_predict(
        model(), features, given.clean, groups=given.seed, cv=LeaveOneGroupOut(), method="decision_function"
    )


def _held_out_single(given: Samples, column: int) -> NDArray[np.float64]:
    """What `held_out` gives for one metric, but for its unit, without fitting.

    The slope of a logistic regression on one feature, classes weighing the same, has the sign of the difference of the
    classes' means, as that is minus the loss's derivative at slope 0 and the loss is convex.
    """
    feature = given.features[:, column]
    values = np.empty_like(feature)
    for seed in given.seeds:
        own = given.seed == seed
        slope = np.sign(feature[given.clean & ~own].mean() - feature[~given.clean & ~own].mean())
        values[own] = slope * feature[own]
    return values


def on_chains(given: Samples, values: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Lay values of images (N,) out along chains, `shape` (C, K), as if they were a metric's scores."""
    result = np.full(shape, np.nan)
    result[given.chain, given.step] = values
    return result


def redundancy(aligned: NDArray[np.float64], metrics: Sequence[str]) -> pd.DataFrame:
    """Spearman's rank correlation of every two metrics over all images, (M, M); 1: they say the same.

    Args:
        aligned: (M, C, K); images without one of two scores are left out of their pair.
        metrics: M names.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a constant metric has no correlation: NaN
        return pd.DataFrame(aligned.reshape(len(metrics), -1).T, columns=list(metrics)).corr(method="spearman")
