"""Identities: the hashes by which images, requests and scorers are known."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from banana100.files import sha256_of


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces and no NaN: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def identity(value: Any) -> str:
    """sha256 (hex) of the canonical JSON of `value`."""
    return sha256_of(canonical_json(value).encode())


@dataclass(frozen=True)
class Request:
    """One question to a generator: all that decides its answer.

    Attributes:
        backend: who is asked.
        model: the model asked for.
        prompt: the text of this step.
        config: generation settings, JSON values only.
        parent_id: sha256 of the image that is sent along; None where a seed is made from a text alone.
        seed, repeat, step: the sample index, which makes repeats independent draws; step counts from 1, and is 0 for a
            seed.
        previous_id: the request before this one in the same conversation, which is sent along with what went before
            it; None in a fresh conversation.
    """

    backend: str
    model: str
    prompt: str
    config: dict[str, Any]
    parent_id: str | None
    seed: str
    repeat: int
    step: int
    previous_id: str | None = None

    @property
    def id(self) -> str:
        """The request's identity, and its key in the store; what is None is left out."""
        return identity({name: value for name, value in vars(self).items() if value is not None})

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Request | None":
        """The request that a row of the requests table tells of; None where the row is damaged."""
        fields = {name: row[name] for name in cls.__dataclass_fields__}
        try:
            return cls(**fields | {"config": json.loads(row["config"])})
        except (TypeError, ValueError):
            return None
