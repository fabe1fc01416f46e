"""What the page's script looks up: every image and score with its way back, small enough to be sent along."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from banana100 import paths
from banana100.errors import UserError
from banana100.lineage import tables
from banana100.lineage.tables import CHAIN
from banana100.report.provenance import Provenance
from banana100.report.results import Grid

# Digits of a sha256 that name one of millions, and that `banana100 trace` takes.
DIGITS = 16

_ASKED = ["backend", "model", "model_answered", "prompt", "config"]
_ANSWERED = [
    "response_id",
    "finish_reason",
    "attempts",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "asked_at",
    "seconds",
]
_SCORER = [
    *("scorer_id", "higher_is_better", "pyiqa", "torch", "libraries", "parameters", "parameters_sha256"),
    *("parameters_licence", "preprocessing", "precision", "source_sha256"),
]
_SEED = ["image_id", "path", "source", "origin", "licence", "source_sha256", "source_width", "source_height"]


def gather(grid: Grid, found: Provenance, baseline_step: int) -> dict[str, Any]:
    """Everything, as JSON values.

    Returns:
        metrics: by name: scorer, scores (one list a chain, by step), unit (see there), reasons of failure, and failed:
        by image which of them. chains: one a chain: campaign, seed, repeat and columns by step; a column whose values
        are all equal is that value. asked: what requests have in common. seeds: by name.

    Raises:
        UserError: the images are not those that were ranked.
    """
    images = found.images.assign(**found.images[CHAIN].astype({"campaign": str, "seed": str, "repeat": "int64"}))
    requests = found.requests[["request_id", *_ASKED, *_ANSWERED]]
    rows = images.merge(requests, on="request_id", how="left").sort_values([*CHAIN, "step"])
    if rows.drop_duplicates(CHAIN)[CHAIN].to_numpy().tolist() != grid.chains[CHAIN].to_numpy().tolist():
        raise UserError(f"{paths.IMAGES_TABLE}: other chains than rank has judged; run `dvc repro rank`.")
    asked, rows["asked"] = _intern(rows)
    for name in ("image_id", "request_id"):
        rows[name] = rows[name].str[:DIGITS]
    rows["file"] = [Path(path).name for path in rows["path"]]
    rows["folder"] = [Path(path).parent.as_posix() for path in rows["path"]]
    return {
        "metrics": {metric: _metric(grid, index, found, baseline_step) for index, metric in enumerate(grid.metrics)},
        "chains": [_chain(of) for _, of in rows.groupby(CHAIN)],
        "asked": asked,
        "seeds": {row["seed"]: {name: row[name] for name in _SEED} for row in tables.records(found.seeds)},
    }


def _intern(rows: pd.DataFrame) -> tuple[list[dict[str, Any]], pd.Series]:
    """What many requests have in common, and which of it each row has; none where there was no request."""
    numbers = rows.groupby(_ASKED, dropna=False, sort=True).ngroup()
    first = rows.assign(number=numbers).drop_duplicates("number").sort_values("number")
    return tables.records(first[_ASKED]), numbers.astype("Int64").where(rows["request_id"].notna())


def _chain(rows: pd.DataFrame) -> dict[str, Any]:
    first = rows.iloc[0]
    # a step that lost its image leaves a gap
    at = pd.DataFrame({"step": range(int(rows["step"].max()) + 1)}).merge(rows, on="step", how="left")
    columns = ["image_id", "request_id", "file", "folder", "width", "height", "bytes", "asked", *_ANSWERED]
    return {
        "campaign": first["campaign"],
        "seed": first["seed"],
        "repeat": int(first["repeat"]),
        **{name: _column(at[name]) for name in columns},
    }


def _column(values: pd.Series) -> Any:
    """The values by step; one value where all after step 0 are equal, as nothing is asked for step 0."""
    cells = values.astype(object)
    cells = cells.where(cells.notna(), None).tolist()
    later = cells[1:]
    if later and all(cell == later[0] for cell in later) and cells[0] in (None, later[0]):
        return later[0]
    return cells


def _metric(grid: Grid, index: int, found: Provenance, baseline_step: int) -> dict[str, Any]:
    metric = grid.metrics[index]
    scorer = tables.records(found.scorers.loc[found.scorers["metric"] == metric, _SCORER])[0]
    failed = found.failures[found.failures["metric"] == metric]
    reason, reasons = pd.factorize(failed["reason"])
    return {
        "scorer": scorer,
        "unit": unit(grid.scores[index], grid.changes[index], baseline_step, 1 if scorer["higher_is_better"] else -1),
        "scores": [_rounded(scores) for scores in grid.scores[index]],
        "reasons": reasons.tolist(),
        "failed": dict(zip(failed["image_id"].str[:DIGITS], reason.tolist(), strict=True)),
    }


def unit(scores: NDArray[np.float64], changes: NDArray[np.float64], baseline_step: int, sign: int) -> float:
    """The difference in score that a change of 1 stands for, negative where lower is better.

    Args:
        scores: (C, K).
        changes: (C, K), what rank made of them.
        baseline_step: where changes are 0.
        sign: 1 where higher is better, else -1; the answer where no score is known to have changed.
    """
    moved = np.abs(np.nan_to_num(changes))
    if not moved.any():
        return float(sign)
    chain, step = np.unravel_index(moved.argmax(), moved.shape)
    return float((scores[chain, step] - scores[chain, baseline_step]) / changes[chain, step])


def _rounded(scores: Sequence[float]) -> list[float | None]:
    return [None if np.isnan(score) else float(f"{score:.10g}") for score in scores]
