"""What a generator takes and gives."""

from dataclasses import dataclass
from typing import Any, Protocol

from banana100.lineage.identity import Request
from banana100.params import Campaign


@dataclass(frozen=True)
class Answer:
    """A generator's answer to one request.

    Attributes:
        image: the bytes of the image file exactly as the generator sent them.
        model_answered: the model version that says it answered.
        finish_reason, response_id, reasoning: as the generator reports them; None where it does not.
        attempts: how often it was asked until it answered.
        input_tokens, output_tokens: usage; None where there is no such thing.
        cost_usd: price of all attempts, in US dollars.
        asked_at, seconds: UTC time (ISO 8601) and duration; None for a deterministic generator, whose outputs must be
            bit-identical on every run.
    """

    image: bytes
    model_answered: str
    finish_reason: str | None = None
    response_id: str | None = None
    reasoning: str | None = None
    attempts: int = 1
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float = 0.0
    asked_at: str | None = None
    seconds: float | None = None

    @property
    def record(self) -> dict[str, Any]:
        """All but the image, JSON values only."""
        return {name: value for name, value in vars(self).items() if name != "image"}


class Backend(Protocol):
    """A generator. One instance serves one chain at a time, in a worker process of its own."""

    def __init__(self, campaign: Campaign) -> None: ...

    def generate(self, request: Request, parent: bytes) -> Answer:
        """Answer one request.

        Args:
            request: what is asked; `request.parent_id` is the sha256 of `parent`.
            parent: the bytes of the image to replicate.
        """
        ...
