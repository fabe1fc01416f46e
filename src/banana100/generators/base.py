"""What a generator takes and gives, and the ways in which it may fail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from banana100.errors import UserError
from banana100.lineage.identity import Request
from banana100.params import Campaign, Prices


@dataclass(frozen=True)
class Facts:
    """What a generator tells of one answer, with an image or without.

    Attributes:
        model_answered: the model version that says it answered.
        finish_reason, response_id, reasoning: as the generator reports them; None where it does not.
        input_tokens, output_tokens: usage; None where there is no such thing.
        cost_usd: price of this answer, in US dollars.
        asked_at, seconds: UTC time (ISO 8601) and duration; None for a deterministic generator, whose outputs must be
            bit-identical on every run.
    """

    model_answered: str | None
    finish_reason: str | None = None
    response_id: str | None = None
    reasoning: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float = 0.0
    asked_at: str | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Answer(Facts):
    """A generator's answer to one request.

    Attributes:
        image: the bytes of the image file exactly as the generator sent them.
        attempts: how often it was asked until it answered.
        signature: what the generator wants to see again when the conversation goes on; None where it wants nothing.
    """

    image: bytes = b""
    attempts: int = 1
    signature: str | None = None

    @property
    def record(self) -> dict[str, Any]:
        """What the requests table holds of it: JSON values only."""
        return {name: value for name, value in vars(self).items() if name not in ("image", "signature")}

    def after(self, attempts: int) -> "Answer":
        """The same answer, got at the given attempt."""
        return replace(self, attempts=attempts)


@dataclass(frozen=True)
class Refusal(Facts):
    """An answer without an image that can be used. It is data, and mostly billed.

    Attributes:
        detail: what else is known of the reason, in a clause.
    """

    detail: str | None = None

    @property
    def record(self) -> dict[str, Any]:
        """All of it, JSON values only."""
        return dict(vars(self))


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation.

    Attributes:
        prompt: what is asked.
        image: the image file sent along; None where the conversation holds it already, or a text is all there is.
        answer: the image file that was answered; None in the last turn, which is the question.
        signature: of that answer.
    """

    prompt: str
    image: bytes | None
    answer: bytes | None = None
    signature: str | None = None


class Refused(Exception):
    """The generator answered without an image that can be used; asking again may help."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.finish_reason)
        self.refusal = refusal


class Unavailable(Exception):
    """No answer came; asking again later may help.

    Args:
        reason: a clause that says what came instead.
        after: seconds that the generator asks to wait; None where it does not say.
        billed: whether an answer may have been made, and be paid for, before the connection broke.
        crowded: whether the generator has too much to do at present.
    """

    def __init__(self, reason: str, after: float | None = None, billed: bool = False, crowded: bool = False) -> None:
        super().__init__(reason)
        self.after = after
        self.billed = billed
        self.crowded = crowded


class Absent(Exception):
    """The generator has no answer to this request and never will; the message is a clause that says why."""


class Rejected(Exception):
    """The generator does not take this request, and asking again would not help; others may be taken."""


class Halt(UserError):
    """No request can be answered: a wrong key, a model that is gone. The run ends, and no chain is to blame."""


class Backend(Protocol):
    """A generator that computes. One instance serves one chain at a time, in a worker process of its own."""

    def __init__(self, campaign: Campaign) -> None: ...

    def generate(self, request: Request, parent: bytes) -> Answer:
        """Answer one request.

        Args:
            request: what is asked; `request.parent_id` is the sha256 of `parent`.
            parent: the bytes of the image to replicate.

        Raises:
            Absent: see there; the chain ends here.
        """
        ...


class Estimates(Protocol):
    """What tells the price of requests."""

    def estimate(self, request: Request, turns: int) -> float:
        """The price to expect of a request with so many turns, in US dollars."""
        ...


class RemoteBackend(Estimates, Protocol):
    """A generator behind a network. One instance serves all chains of a campaign, many at a time.

    Args:
        model: which model is asked.
        prices: what models cost.
        batch: whether its Batch API will be used, at other prices.
    """

    def __init__(self, model: str, prices: Prices, batch: bool = False) -> None: ...

    async def ask(self, request: Request, turns: Sequence[Turn], timeout: float) -> Answer:
        """Send one request, once.

        Args:
            request: what is asked.
            turns: the conversation; its last turn is the question, the ones before are history.
            timeout: seconds within which the whole answer must have come; what it takes to decode it does not count.

        Raises:
            Refused, Unavailable, Rejected, Halt: see there.
            TimeoutError: no whole answer came in time.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class BatchBackend(RemoteBackend, Protocol):
    """A generator that also takes many requests as one job, to be answered within a day at a lower price."""

    async def submit(self, label: str, asked: Sequence[tuple[Request, Sequence[Turn]]]) -> str:
        """Start a job, once.

        Args:
            label: what `find` finds it by.
            asked: requests with their conversations, as for `ask`.

        Returns:
            The generator's name for the job.

        Raises:
            Unavailable, Rejected, Halt: see there; the job may have been started all the same.
        """
        ...

    async def find(self, label: str) -> str | None:
        """The name of the job that was started under a label; None where there is none.

        Raises:
            Unavailable, Halt: see there.
        """
        ...

    async def results(self, name: str, requests: Mapping[str, Request]) -> dict[str, Answer | Exception] | None:
        """What came of each of a job's requests: an answer, or what `ask` would have raised; None while it is at work.

        Raises:
            Unavailable, Halt: see there; ask again.
        """
        ...
