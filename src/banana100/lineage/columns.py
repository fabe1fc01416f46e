"""What the tables' columns mean, which identify a row, and which point at another table: said once for all formats."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from banana100 import paths
from banana100.lineage import tables

# The tables by name; `scores` lies in one file a metric.
SCHEMAS: dict[str, pa.Schema] = {
    "seeds": tables.SEEDS,
    "seed_requests": tables.REQUESTS,
    "images": tables.IMAGES,
    "requests": tables.REQUESTS,
    "refusals": tables.REFUSALS,
    "parked": tables.PARKED,
    "scorers": tables.SCORERS,
    "scores": tables.SCORES,
    "drift": tables.DRIFT,
    "failures": tables.FAILURES,
}

_FILES = {
    paths.SEED_TABLE: "seeds",
    paths.SEED_REQUESTS_TABLE: "seed_requests",
    paths.IMAGES_TABLE: "images",
    paths.REQUESTS_TABLE: "requests",
    paths.REFUSALS_TABLE: "refusals",
    paths.PARKED_TABLE: "parked",
    paths.SCORERS_TABLE: "scorers",
    paths.DRIFT_TABLE: "drift",
    paths.FAILURES_TABLE: "failures",
}

TABLES = {
    "seeds": "Candidates for seeds, chosen or not: where each comes from, its licence, and what decided.",
    "seed_requests": "One row a request to a generator that a seed was made from.",
    "images": "One row an image file, its position in a chain. Step 0 is the seed: it has no parent and no request.",
    "requests": "One row a request to a generator that was answered with an image.",
    "refusals": "One row an answer of a generator without an image that can be used.",
    "parked": "One row a chain that ends before its last step: the step without an image, and why.",
    "scorers": "One row a metric: what its scores were computed with.",
    "scores": "One row an image and no-reference quality metric.",
    "drift": "One row an image after step 0 and full-reference metric; the reference is step 0 of its chain.",
    "failures": "One row an image and metric without a score, and why there is none.",
}

# The columns that identify a row. Seeds have none, as a folder that params.yaml names twice gives its images twice, nor
# have failures, as the reference is missing where the metric takes none.
KEYS: dict[str, list[str]] = {
    "seed_requests": ["request_id"],
    "images": ["path"],
    "requests": ["request_id"],
    "refusals": ["request_id", "number"],
    "parked": ["campaign", "seed", "repeat"],
    "scorers": ["scorer_id"],
    "scores": ["image_id", "metric"],
    "drift": ["image_id", "reference_id", "metric"],
}

_OF_SCORE = {"scorer_id": ("scorers", "scorer_id"), "image_id": ("images", "image_id")}
# column -> (table, column) that it points at. An image_id stands at several positions of images where chains share it.
REFERENCES: dict[str, dict[str, tuple[str, str]]] = {
    "seed_requests": {"seed": ("seeds", "seed")},
    "images": {
        "request_id": ("requests", "request_id"),
        "seed": ("seeds", "seed"),
        "parent_id": ("images", "image_id"),
    },
    "requests": {"image_id": ("images", "image_id"), "parent_id": ("images", "image_id"), "seed": ("seeds", "seed")},
    "refusals": {"parent_id": ("images", "image_id"), "seed": ("seeds", "seed")},
    "parked": {"seed": ("seeds", "seed")},
    "scores": _OF_SCORE,
    "drift": _OF_SCORE | {"reference_id": ("images", "image_id")},
    "failures": _OF_SCORE | {"reference_id": ("images", "image_id")},
}

# By column, or by table and column where one name means two things.
_DESCRIPTIONS = {
    "seed": "name of the seed",
    "source": "kind of source: bundled with a package, a directory of the user's, an archive, or a generator",
    "origin": "where the image comes from: package, version and file, the path below the project, the archive and its "
    "member, or model and request",
    "licence": "the terms that the photograph may be used under",
    "source_sha256": "sha256 of the photograph's file",
    "scorers.source_sha256": "sha256 of the code that turns a file's bytes into a score, pyiqa's included",
    "source_width": "width of the photograph in pixels",
    "source_height": "height of the photograph in pixels",
    "refused": "why the candidate cannot be a seed; missing where it can",
    "structure": "feature that seeds are chosen by: structure",
    "texture": "feature that seeds are chosen by: texture",
    "smoothness": "feature that seeds are chosen by: smoothness",
    "edges": "feature that seeds are chosen by: edges",
    "colourfulness": "feature that seeds are chosen by: colourfulness",
    "chosen": "whether the candidate became a seed",
    "order": "order of choice, counted from 0",
    "distance": "the distance in features that decided the choice",
    "seeds.image_id": "sha256 of the seed's file",
    "seeds.path": "path of the seed's file below the project; missing where it was not chosen",
    "image_id": "sha256 of the image file's bytes",
    "seed_requests.image_id": "sha256 of the image file that was answered, as source_sha256 of the seed",
    "seed_requests.step": "0, as a seed is",
    "requests.image_id": "sha256 of the image file that was answered",
    "path": "path of the image file below the project",
    "bytes": "size of the image file in bytes",
    "width": "width in pixels",
    "height": "height in pixels",
    "mode": "colour mode, in Pillow's names",
    "campaign": "name of the campaign in params.yaml",
    "repeat": "which of the seed's independent chains, counted from 1",
    "step": "step in the chain; 0 is the seed",
    "requests.step": "step in the chain that is asked for, counted from 1",
    "refusals.step": "step in the chain that is asked for, counted from 1",
    "parked.step": "the first step that has no image",
    "parked.request_id": "the request without an answer",
    "parked.attempts": "how often it was asked in the run that parked the chain",
    "previous_id": "request_id of the turn before in the same conversation, sent along; missing in a fresh one",
    "number": "which of the request's refusals, counted from 1",
    "detail": "what else is known of the reason",
    "cause": "refused, unavailable, rejected, absent (from an archive), budget or stopped",
    "parked.reason": "what the generator said, or did not",
    "parent_id": "sha256 of the image file that was replicated",
    "request_id": "sha256 of the canonical JSON of backend, model, prompt, config, parent_id, seed, repeat, step "
    "and previous_id, those left out that are missing",
    "backend": "who was asked; `simulated` is the embedded simulator, which is no image model",
    "model": "the model asked for",
    "model_answered": "the model version that says it answered",
    "prompt": "the text of the request",
    "config": "generation settings, canonical JSON",
    "response_id": "the generator's own name for its answer",
    "finish_reason": "why the generator stopped, in its words",
    "reasoning": "the generator's summary of its reasoning",
    "attempts": "how often the generator was asked until it answered",
    "input_tokens": "tokens of the request",
    "output_tokens": "tokens of the answer",
    "cost_usd": "price of the answer in US dollars; answers without an image have rows of their own, in refusals",
    "asked_at": "UTC time of the request, ISO 8601; missing where the generator is deterministic",
    "seconds": "duration of the request; missing where the generator is deterministic",
    "metric": "name of the quality metric",
    "score": "the score, rounded to the scorer's decimals",
    "scorer_id": "sha256 of all that decides the metric's scores",
    "reference_id": "sha256 of the reference image file, step 0 of the chain",
    "reason": "why there is no score",
    "higher_is_better": "the metric's direction",
    "pyiqa": "version of pyiqa",
    "torch": "version of PyTorch",
    "libraries": "other libraries that decide the scores, with versions",
    "parameters": "trained files, joined by semicolons",
    "parameters_sha256": "sha256 of each trained file, joined by semicolons",
    "parameters_licence": "licences of the trained files, joined by semicolons",
    "preprocessing": "how an image is prepared for the metric",
    "precision": "floating-point precision of networks",
    "kernels": "the CPU kernels used",
    "decimals": "decimals that scores are rounded to",
}

# What a generator may leave untold, and where no conversation is gone on with.
_TOLD = {"model_answered", "response_id", "finish_reason", "reasoning", "input_tokens", "output_tokens"}
_TOLD |= {"asked_at", "seconds", "previous_id"}

# The columns that may be missing in a row.
_OPTIONAL = {
    "seeds": {field.name for field in tables.SEEDS}
    - {"seed", "source", "origin", "licence", "source_sha256", "chosen"},
    "images": {"parent_id", "request_id"},
    "seed_requests": _TOLD | {"parent_id"},
    "requests": _TOLD,
    "refusals": _TOLD | {"detail"},
    "scorers": {"libraries", "parameters", "parameters_sha256", "parameters_licence"},
    "failures": {"reference_id"},
}
_FROM_ONE = {"source_width", "source_height", "bytes", "width", "height", "repeat", "number"}
_FROM_ZERO = {"order", "step", "input_tokens", "output_tokens", "cost_usd", "seconds", "decimals", "attempts"}
_DIGEST = re.compile(r"(image|parent|previous|request|reference|scorer)_id|source_sha256")


def table_of(path: Path) -> str | None:
    """The name of the row table that a file holds; None for any other file."""
    return _FILES.get(path) or ("scores" if path.parent == paths.SCORES else None)


def table_files(metrics: Iterable[str]) -> list[Path]:
    """The files of all row tables, given the no-reference metrics that are scored."""
    return [*_FILES, *map(paths.scores, metrics)]


def description(table: str, column: str) -> str:
    """What a column of a table means."""
    return _DESCRIPTIONS.get(f"{table}.{column}") or _DESCRIPTIONS[column]


def constraints(table: str, column: str) -> dict[str, Any]:
    """What every value of a column keeps to, in Table Schema's words."""
    kept: dict[str, Any] = {} if column in _OPTIONAL.get(table, ()) else {"required": True}
    if column in _FROM_ONE | _FROM_ZERO:
        kept["minimum"] = int(column in _FROM_ONE)
    if _DIGEST.fullmatch(column):
        kept["pattern"] = "[0-9a-f]{64}"
    return kept
