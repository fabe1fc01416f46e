"""Read and check the tables that ranking starts from."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from banana100 import paths
from banana100.errors import UserError
from banana100.lineage import tables
from banana100.params import Params
from banana100.ranking import curves, study
from banana100.ranking.curves import Curves
from banana100.ranking.study import Study


@dataclass(frozen=True)
class Inputs:
    """What was read.

    Attributes:
        study: everything that is computed from.
        failed: how many images each metric could not score; metrics that scored all are absent.
        simulated: campaigns with images that no image model made.
    """

    study: Study
    failed: dict[str, int]
    simulated: set[str]


def read(params: Params) -> Inputs:
    """Read lineage, scores and drift for the metrics that are ranked.

    Raises:
        UserError: a table is missing or damaged, mixes scores of two scorers, or lacks scores without a reason.
    """
    images = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    if (twice := images.duplicated([*curves.CHAIN, "step"])).any():
        raise UserError(
            f"{paths.IMAGES_TABLE}: two images at one step, the first {images.loc[twice, 'path'].iloc[0]}; "
            "run `dvc repro replicate`."
        )
    scorers = tables.read(paths.SCORERS_TABLE, tables.SCORERS)
    higher_is_better = dict(zip(scorers["metric"], scorers["higher_is_better"].astype(bool), strict=True))
    scores = {metric: _scores(metric, scorers) for metric in params.ranked_metrics()}
    joined = curves.build(images, scores, higher_is_better)
    failures = tables.read(paths.FAILURES_TABLE, tables.FAILURES)
    failed = _failed(joined, failures)
    along = curves.drift_along(joined, images, tables.read(paths.DRIFT_TABLE, tables.DRIFT))
    for metric in sorted({*along, *params.ranking.min_drift}):
        if metric not in higher_is_better:
            raise _no_scorer(metric)
        replicas = joined.present & (joined.steps > 0)
        known = along.get(metric, np.full(joined.image_ids.shape, np.nan))
        _check_told(metric, set(joined.image_ids[replicas & np.isnan(known)]), failures)
    found = study.make(joined, study.Drift(along, higher_is_better), params.ranking)
    return Inputs(found, failed, _simulated_campaigns(images))


def _scores(metric: str, scorers: pd.DataFrame) -> pd.DataFrame:
    path = paths.scores(metric)
    scores = tables.read(path, tables.SCORES)
    known = scorers.loc[scorers["metric"] == metric, "scorer_id"]
    if known.empty:
        raise _no_scorer(metric)
    if strange := set(scores["scorer_id"].unique()) - set(known):
        raise UserError(f"{paths.SCORES}: scores of an unknown scorer {min(strange)[:12]}…; run `dvc repro score`.")
    if (twice := scores["image_id"].duplicated()).any():
        image_id = scores.loc[twice, "image_id"].iloc[0]
        raise UserError(f"{path}: two scores of image {image_id[:12]}…; run `dvc repro score`.")
    return scores[["image_id", "score"]]


def _no_scorer(metric: str) -> UserError:
    return UserError(f"{paths.SCORERS_TABLE}: no row for {metric}; run `dvc repro score`.")


def _failed(joined: Curves, failures: pd.DataFrame) -> dict[str, int]:
    """How many images each metric could not score, where there are any."""
    failed = {}
    for metric, scores in zip(joined.metrics, joined.scores, strict=True):
        missing = set(joined.image_ids[joined.present & np.isnan(scores)])
        _check_told(metric, missing, failures)
        if missing:
            failed[metric] = len(missing)
    return failed


def _check_told(metric: str, missing: set[str], failures: pd.DataFrame) -> None:
    """A score that is missing without a reason is not passed over.

    Raises:
        UserError: an image has neither a score nor a row in the table of failures.
    """
    if untold := missing - set(failures.loc[failures["metric"] == metric, "image_id"]):
        raise UserError(
            f"{paths.SCORES}: {len(untold)} scores by {metric} are missing without a reason, the first of image "
            f"{min(untold)[:12]}…; run `dvc repro score`."
        )


def _simulated_campaigns(images: pd.DataFrame) -> set[str]:
    """Campaigns with an answer that no image model gave, be it that a generator's own server was simulated."""
    requests = tables.read(paths.REQUESTS_TABLE, tables.REQUESTS)
    answers = requests[["backend", "model_answered"]].astype(object)
    answers = answers.where(answers.notna(), None).itertuples(index=False)
    simulated = np.array([tables.is_simulated(*answer) for answer in answers], dtype=bool)
    return set(images.loc[images["request_id"].isin(requests.loc[simulated, "request_id"]), "campaign"])
