"""Walks: requests of which each needs the answer before it, as the steps of a chain."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from banana100.generators.base import Turn
from banana100.generators.store import AnswerStore, StoredAnswer
from banana100.lineage.identity import Request


@dataclass(frozen=True)
class Step:
    """What is to be asked next.

    Attributes:
        request: the question.
        history: earlier turns of the same conversation, oldest first.
    """

    request: Request
    history: tuple[tuple[Request, StoredAnswer], ...] = ()

    def turns(self, store: AnswerStore) -> list[Turn]:
        """The conversation, its images read from the store.

        Raises:
            UserError: an image is missing or damaged.
        """

        def parent(request: Request) -> bytes | None:
            return store.image(request.parent_id) if request.parent_id else None

        turns = [
            # the image that is asked about later on stands in the answer before
            Turn(request.prompt, None if place else parent(request), store.image(answer.image_id), answer.signature)
            for place, (request, answer) in enumerate(self.history)
        ]
        return [*turns, Turn(self.request.prompt, None if turns else parent(self.request))]


Steps = Generator[Step, StoredAnswer, None]


class Plan(Protocol):
    """What is walked: a chain of a campaign, or the making of a seed."""

    @property
    def campaign(self) -> str:
        """Who pays."""
        ...

    @property
    def length(self) -> int:
        """How many requests there are in all."""
        ...

    @property
    def history(self) -> int:
        """How many earlier turns a request carries at most."""
        ...

    def steps(self) -> Steps:
        """Give one step after the other, each in exchange for the answer to the one before."""
        ...


@dataclass(frozen=True)
class Parked:
    """Why a walk ended early.

    Attributes:
        request: the one without an answer.
        cause: refused (no image that can be used), unavailable (no answer), rejected (not taken), absent (not in the
            archive), budget or stopped.
        reason: a clause that says more.
        attempts: how often it was asked in this run.
    """

    request: Request
    cause: str
    reason: str
    attempts: int


class Walk:
    """One plan on its way: as far as the store has answers, then at the first step without one."""

    def __init__(self, plan: Plan, store: AnswerStore) -> None:
        self.plan, self._store = plan, store
        self._steps = plan.steps()
        self.done = 0
        self.parked: Parked | None = None
        self.step: Step | None = next(self._steps, None)
        self.pass_stored()

    def pass_stored(self) -> None:
        """Go on to the first step that the store has no answer for."""
        while self.step and (answer := self._store.get(self.step.request)):
            self.take(answer)

    def take(self, answer: StoredAnswer) -> None:
        """Go on with the answer to the present step."""
        self.done += 1
        self.step = _next(self._steps, answer)

    @property
    def missing(self) -> int:
        """How many requests are still to be answered."""
        return self.plan.length - self.done


def stored(plan: Plan, store: AnswerStore) -> tuple[list[tuple[Request, StoredAnswer]], Step | None]:
    """The steps that the store has answers for, from the first on, and the one that it has none for."""
    found: list[tuple[Request, StoredAnswer]] = []
    steps = plan.steps()
    step = next(steps, None)
    while step and (answer := store.get(step.request)):
        found.append((step.request, answer))
        step = _next(steps, answer)
    return found, step


def _next(steps: Steps, answer: StoredAnswer) -> Step | None:
    """The step after the one that was answered; None after the last."""
    try:
        return steps.send(answer)
    except StopIteration:
        return None
