"""Scores as curves: an array over metrics, chains and steps, turned so that higher means better."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from banana100.lineage.tables import CHAIN
from banana100.ranking import bootstrap


@dataclass(frozen=True)
class Curves:
    """All scores of M metrics along C chains of at most K - 1 replicas.

    Attributes:
        metrics: M names.
        higher_is_better: bool (M,).
        chains: C rows, sorted; columns campaign, seed, repeat.
        image_ids: (C, K) sha256 of the image at each step; None where the chain has no such step.
        scores: float (M, C, K) as the metrics give them; NaN where there is no image or no score.
    """

    metrics: list[str]
    higher_is_better: NDArray[np.bool_]
    chains: pd.DataFrame
    image_ids: NDArray[np.object_]
    scores: NDArray[np.float64]

    @property
    def steps(self) -> NDArray[np.int64]:
        """The steps of the last axis, (K,): 0, 1, 2, ..."""
        return np.arange(self.scores.shape[-1])

    @property
    def present(self) -> NDArray[np.bool_]:
        """Where a chain has an image, (C, K)."""
        return self.image_ids != np.array(None)

    @property
    def aligned(self) -> NDArray[np.float64]:
        """The scores, with their sign turned where lower is better, (M, C, K): higher is better throughout."""
        return np.where(self.higher_is_better[:, None, None], self.scores, -self.scores)


def build(images: pd.DataFrame, scores: Mapping[str, pd.DataFrame], higher_is_better: Mapping[str, bool]) -> Curves:
    """Give every image of every chain its scores.

    Args:
        images: the lineage table (columns of tables.IMAGES).
        scores: for each metric its table (columns image_id, score).
        higher_is_better: for each metric.
    """
    chain, chains = _chains(images)
    step = images["step"].to_numpy(dtype=np.int64)
    shape = len(chains), int(step.max(initial=0)) + 1
    image_ids = np.full(shape, None, dtype=object)
    image_ids[chain, step] = images["image_id"].to_numpy(dtype=object)
    values = np.full((len(scores), *shape), np.nan)
    for row, table in zip(values, scores.values(), strict=True):
        of_image = pd.Series(table["score"].to_numpy(dtype=float), index=table["image_id"])
        row[chain, step] = of_image.reindex(images["image_id"]).to_numpy()
    directions = np.array([bool(higher_is_better[metric]) for metric in scores], dtype=bool)
    return Curves(list(scores), directions, chains, image_ids, values)


def drift_along(curves: Curves, images: pd.DataFrame, drift: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Full-reference drift of every image from its chain's step 0, by metric.

    Args:
        curves: what `build` gave for `images`.
        images: the lineage table.
        drift: columns of tables.DRIFT.

    Returns:
        For each metric (C, K) as the metric gives it; NaN at step 0 and where it is not known.
    """
    chain, _ = _chains(images)
    placed = images[["image_id"]].assign(chain=chain, step=images["step"].to_numpy(dtype=np.int64))
    # the same image may stand in two chains, but its reference is then the same: the step 0 of its seed
    placed["reference_id"] = curves.image_ids[chain, 0]
    found = placed.merge(drift, on=["image_id", "reference_id"])
    result = {}
    for metric, rows in found.groupby("metric"):
        values = result[str(metric)] = np.full(curves.image_ids.shape, np.nan)
        values[rows["chain"], rows["step"]] = rows["score"]
    return result


def change(curves: Curves, baseline_step: int, unit: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each aligned score lies above its chain's at the baseline step, in units of the metric's spread.

    Args:
        curves: the scores.
        baseline_step: where every chain's change is 0.
        unit: (M,), what `spread` gives.

    Returns:
        (M, C, K); -1 is one spread worse than at the baseline, NaN where either score is missing.
    """
    aligned = curves.aligned
    if baseline_step >= aligned.shape[-1]:
        return np.full_like(aligned, np.nan)
    return (aligned - aligned[:, :, [baseline_step]]) / unit[:, None, None]


def spread(curves: Curves, kind: Literal["std", "iqr", "range"]) -> NDArray[np.float64]:
    """Each metric's spread over all images of the data set, (M,), by which changes of different metrics compare.

    Args:
        curves: the scores.
        kind: standard deviation, distance between the quartiles, or between the lowest and the highest score.

    Returns:
        Above 0; 1 for a metric without two different scores (or quartiles), whose changes stay as they are.
    """
    result = np.ones(len(curves.metrics))
    for index, scores in enumerate(curves.scores):
        known = scores[np.isfinite(scores)]
        if not known.size:
            continue
        if kind == "std":
            found = known.std()
        elif kind == "iqr":
            found = np.subtract(*np.percentile(known, [75, 25]))
        else:
            found = np.ptp(known)
        result[index] = found if found > 0 else 1.0
    return result


def at(values: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """`values` (..., K) at one step; NaN where no chain is so long."""
    return values[..., step] if step < values.shape[-1] else np.full(values.shape[:-1], np.nan)


def long(curves: Curves, changes: NDArray[np.float64], eligible: NDArray[np.bool_]) -> pd.DataFrame:
    """One row a metric, chain and step that has an image.

    Returns:
        Columns metric, campaign, seed, repeat, eligible (does the chain count?), step, score, change.
    """
    chain, step = np.nonzero(curves.present)
    number = len(chain)
    of_chain = (
        curves.chains.assign(eligible=eligible).astype(dict.fromkeys(("campaign", "seed"), "category")).iloc[chain]
    )
    rows = pd.concat([of_chain] * len(curves.metrics), ignore_index=True)
    metrics = pd.Categorical.from_codes(np.repeat(np.arange(len(curves.metrics)), number), curves.metrics)
    rows.insert(0, "metric", metrics)
    rows["step"] = np.tile(step, len(curves.metrics))
    return rows.assign(score=curves.scores[:, chain, step].ravel(), change=changes[:, chain, step].ravel())


def over_chains(changes: NDArray[np.float64], seeds: NDArray[np.int64], weights: NDArray[np.float64]) -> pd.DataFrame:
    """One metric's changes summed up, step by step.

    Args:
        changes: (C, K), what `change` gives for the metric.
        seeds: (C,), the number of each chain's seed.
        weights: (B, C), how often each chain is drawn in each resample.

    Returns:
        One row a step that any chain has a change at. Columns step, change (mean over chains), lowest, highest, and low
        and high: the mean's 95 % interval at that step by itself, NaN where too few seeds have a change there (see
        `bootstrap.interval`) or no chain is ever drawn.
    """
    table = pd.DataFrame(changes, columns=np.arange(changes.shape[1]))
    summed = pd.DataFrame({"change": table.mean(), "lowest": table.min(), "highest": table.max()})
    with np.errstate(invalid="ignore"):  # infinite scores, which only damaged tables have, where they are not drawn
        means = bootstrap.weighted_mean(changes, weights).T
    ends = [
        bootstrap.interval(drawn, len(np.unique(seeds[~np.isnan(at_step)])))
        for drawn, at_step in zip(means, changes.T, strict=True)
    ]
    summed["low"], summed["high"] = np.transpose(ends)
    return summed.rename_axis("step").dropna(subset="change").reset_index()


def _chains(images: pd.DataFrame) -> tuple[NDArray[np.int64], pd.DataFrame]:
    """The chain of each image by number, and the chains, sorted."""
    keys = images[CHAIN].astype({"repeat": "int64"})
    chains = keys.drop_duplicates().sort_values(CHAIN, ignore_index=True)
    numbered = chains.assign(number=np.arange(len(chains)))
    return keys.merge(numbered, on=CHAIN, how="left")["number"].to_numpy(), chains
