"""Asking: each request once at a time, retries within bounds, parked chains, budgets; none holds up the others."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tqdm import tqdm

from banana100.errors import UserError
from banana100.generators import asking, budgets, jobs
from banana100.generators.asking import REFUSALS, TRIES, Patience, ask_all
from banana100.generators.base import Answer, Halt, Refusal, Refused, Rejected, Turn, Unavailable
from banana100.generators.ledger import Ledger, OverBudget
from banana100.generators.store import AnswerStore, StoredAnswer
from banana100.generators.walks import Step, Steps, Walk, stored
from banana100.lineage.identity import Request


@dataclass(frozen=True)
class Line:
    """A plan of a few steps; each asks about the answer before."""

    name: str
    length: int = 3
    history: int = 0
    campaign: str = "mine"

    def steps(self) -> Steps:
        parent, before = None, None
        kept: list[tuple[Request, StoredAnswer]] = []
        for step in range(1, self.length + 1):
            request = Request("fake", "m", f"prompt {step}", {}, parent, self.name, 1, step, before)
            answer = yield Step(request, tuple(kept))
            parent, before = answer.image_id, request.id if self.history else None
            kept = [*kept, (request, answer)][-self.history :] if self.history else []


@dataclass(eq=False)
class Fake:
    """Answers after `trouble` has had its say: called with the request and how often it was asked before."""

    trouble: Callable[[Request, int], Exception | None] = lambda *_: None
    seconds: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    under_way: Counter[str] = field(default_factory=Counter)
    most: int = 0
    turns: list[Sequence[Turn]] = field(default_factory=list)

    async def ask(self, request: Request, turns: Sequence[Turn], timeout: float) -> Answer:
        self.under_way[request.id] += 1
        assert self.under_way[request.id] == 1, "asked twice at once"
        self.most = max(self.most, self.under_way.total())
        try:
            async with asyncio.timeout(timeout):
                await asyncio.sleep(self.seconds)
            before = self.asked[request.id]
            self.asked[request.id] += 1
            if error := self.trouble(request, before):
                raise error
            self.turns.append(turns)
            return Answer(
                image=f"{request.seed} {request.step}".encode(), model_answered="m", cost_usd=0.1, signature="c2ln"
            )
        finally:
            self.under_way[request.id] -= 1

    def estimate(self, request: Request, turns: int) -> float:
        return 0.125

    async def close(self) -> None: ...


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANANA100_PAUSE", "0.001")
    monkeypatch.setattr(asking, "_LOOK_AGAIN", 0.005)
    monkeypatch.setattr(asking, "_LONGEST_PAUSE", 0.5)


def run(store: Path, backend: Fake, *plans: Line, budget: float = 100.0) -> list[Walk]:
    answers = AnswerStore(store)
    walks = [Walk(plan, answers) for plan in plans]
    ledger = Ledger(answers, {"mine": budget})
    asyncio.run(ask_all(walks, {"mine": backend}, answers, ledger, "test"))
    return walks


def refused(cost: float = 0.1) -> Refused:
    return Refused(Refusal("m", "IMAGE_SAFETY", cost_usd=cost, detail="no"))


def test_chains_are_walked_in_order_and_the_next_run_asks_nothing(store: Path) -> None:
    backend = Fake()
    walks = run(store, backend, Line("a"), Line("b"))
    assert [walk.step for walk in walks] == [None, None] and set(backend.asked.values()) == {1}
    images = [AnswerStore(store).image(answer.image_id) for _, answer in stored(Line("b"), AnswerStore(store))[0]]
    assert images == [b"b 1", b"b 2", b"b 3"]
    again = Fake()
    run(store, again, Line("a"), Line("b"))
    assert not again.asked


def test_a_conversation_carries_its_latest_turns_with_their_signatures(store: Path) -> None:
    backend = Fake()
    run(store, backend, Line("a", length=4, history=2))
    last = backend.turns[-1]
    assert [(turn.prompt, turn.image, turn.answer, turn.signature) for turn in last] == [
        ("prompt 2", b"a 1", b"a 2", "c2ln"),
        ("prompt 3", None, b"a 3", "c2ln"),
        ("prompt 4", None, None, None),
    ]
    assert backend.turns[0] == [Turn("prompt 1", None)]


def test_what_passes_is_asked_again_and_counted(store: Path) -> None:
    def trouble(request: Request, before: int) -> Exception | None:
        return (
            [Unavailable("429"), refused(), Unavailable("reset", billed=True), None][before]
            if request.step == 2
            else None
        )

    (walk,) = run(store, Fake(trouble), Line("a"))
    assert walk.step is None and walk.parked is None
    (_, answer) = stored(Line("a"), AnswerStore(store))[0][1]
    assert answer.record["attempts"] == 4 and answer.record["cost_usd"] == 0.1
    request, _ = stored(Line("a"), AnswerStore(store))[0][1]
    assert [record["finish_reason"] for record in AnswerStore(store).refusals(request)] == ["IMAGE_SAFETY"]
    # three answers and one refusal at a tenth, and the broken connection at what was expected
    assert Ledger(AnswerStore(store), {}).spent("mine") == pytest.approx(0.4 + 0.125)


@pytest.mark.parametrize(
    ("error", "cause", "times"),
    [
        (refused(), "refused", REFUSALS),
        (Unavailable("503 overloaded"), "unavailable", TRIES),
        (Rejected("400 too large"), "rejected", 1),
    ],
)
def test_a_chain_that_cannot_go_on_is_parked_and_the_next_run_takes_it_up(
    store: Path, error: Exception, cause: str, times: int
) -> None:
    backend = Fake(lambda request, _: error if (request.seed, request.step) == ("a", 2) else None)
    stuck, fine = run(store, backend, Line("a"), Line("b"))
    assert fine.step is None and fine.parked is None
    assert stuck.parked and (stuck.parked.cause, stuck.parked.attempts) == (cause, times)
    assert backend.asked[stuck.parked.request.id] == times and stuck.done == 1
    (stuck, _) = run(store, Fake(), Line("a"), Line("b"))
    assert stuck.parked is None and stuck.step is None


def test_silence_ends_with_the_time_out_and_counts_as_billed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANANA100_TIMEOUT", "0.02")
    monkeypatch.setattr(asking, "TRIES", 2)
    (walk,) = run(store, Fake(seconds=5), Line("a"))
    assert walk.parked and walk.parked.reason == "no whole answer within 0.02 s"
    assert Ledger(AnswerStore(store), {}).spent("mine") == 0.25


def test_a_wrong_key_ends_the_run_and_keeps_what_was_under_way(store: Path) -> None:
    backend = Fake(lambda request, _: Halt("no such key") if request.seed == "a" else None, seconds=0.02)
    with pytest.raises(Halt, match="no such key"):
        run(store, backend, Line("a"), Line("b"), Line("c"))
    assert backend.asked.total() == 3  # one each, and none after
    assert len(list((store / "answers").rglob("*.json"))) == 2
    assert Ledger(AnswerStore(store), {}).spent("mine") == pytest.approx(0.2)


def test_the_budget_stops_the_run_before_it_is_passed(store: Path) -> None:
    backend = Fake(seconds=0.005)
    walks = run(store, backend, *(Line(name) for name in "abcdef"), budget=0.6)
    assert {walk.parked.cause for walk in walks if walk.parked} == {"budget"}
    assert 0.6 - 0.125 < Ledger(AnswerStore(store), {}).spent("mine") <= 0.6
    assert backend.asked.total() == 5
    run(store, backend, *(Line(name) for name in "abcdef"), budget=10)
    assert backend.asked.total() == 18


def test_more_than_the_budget_is_not_begun(store: Path) -> None:
    answers = AnswerStore(store)
    run(store, Fake(), Line("a"))
    walks = [Walk(Line(name), answers) for name in "abc"]
    ledger = Ledger(answers, {"mine": 1.0})
    (coming,) = budgets.forecast(walks, {"mine": Fake()}, ledger)
    assert (coming.missing, coming.usd, coming.spent, coming.allowed) == (6, 0.75, pytest.approx(0.3), False)
    with pytest.raises(OverBudget, match=r"mine: 6 requests to send, about \$0.75; spent \$0.30 of budget_usd 1"):
        budgets.check([coming])


def test_no_more_requests_are_under_way_than_asked_for(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANANA100_CONCURRENCY", "3")
    backend = Fake(seconds=0.01)
    run(store, backend, *(Line(name) for name in "abcdefgh"))
    assert backend.most == 3


def test_a_chain_in_a_pause_holds_up_no_other(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANANA100_CONCURRENCY", "1")
    monkeypatch.setenv("BANANA100_PAUSE", "0.2")
    order: list[str] = []

    def trouble(request: Request, before: int) -> Exception | None:
        order.append(request.seed)
        return Unavailable("503") if request.seed == "a" and before == 0 else None

    run(store, Fake(trouble), Line("a", 1), Line("b", 5))
    assert order == ["a", *"bbbbb", "a"]


def test_two_runs_on_one_store_ask_nothing_twice(store: Path) -> None:
    chance = random.Random(1)
    backend = Fake(lambda *_: Unavailable("503") if chance.random() < 0.2 else None, seconds=0.003)

    async def both() -> list[Walk]:
        walks = [[Walk(Line(name, 5), AnswerStore(store)) for name in "abcdef"] for _ in range(2)]
        ledgers = [Ledger(AnswerStore(store), {"mine": 100.0}) for _ in range(2)]
        await asyncio.gather(
            *(
                ask_all(w, {"mine": backend}, AnswerStore(store), ledger, "test")
                for w, ledger in zip(walks, ledgers, strict=True)
            )
        )
        return [*walks[0], *walks[1]]

    walks = asyncio.run(both())
    assert all(walk.step is None for walk in walks)
    events = Counter(line["event"] for line in AnswerStore(store).journal())
    assert events["stored"] == 30 and events["asked"] == 30 + events["failed"]


def test_a_generator_that_asks_to_wait_is_left_alone_by_all(store: Path) -> None:
    async def measure() -> float:
        answers = AnswerStore(store)
        moments: list[float] = []

        def trouble(request: Request, before: int) -> Exception | None:
            moments.append(asyncio.get_running_loop().time())
            return Unavailable("429", after=0.3) if len(moments) == 1 else None

        walks = [Walk(Line(name, 2), answers) for name in "ab"]
        await ask_all(walks, {"mine": Fake(trouble, seconds=0.01)}, answers, Ledger(answers, {"mine": 9.0}), "test")
        # b's first request was under way; everything else waits
        return moments[2] - moments[0]

    assert asyncio.run(measure()) >= 0.29


def test_pauses_double_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_LONGEST_PAUSE", 120)
    patience = Patience(1, 1.0, 2.0)
    for attempt in range(1, 12):
        longest = min(2.0 * 2 ** (attempt - 1), 120)
        assert longest / 2 <= patience.before(attempt, None) <= longest
    assert 7 <= patience.before(1, 7.0) <= 9


@pytest.mark.parametrize("variable", ["BANANA100_TIMEOUT", "BANANA100_PAUSE"])
@pytest.mark.parametrize("value", ["", "0", "-1", "soon", "nan", "inf", "1e9"])
def test_a_wrong_duration_is_told(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError, match=f"{variable} is '{value}'; allowed: a number of seconds"):
        Patience.of_environment()


def test_a_crowd_is_waited_for_longer_and_with_fewer_requests(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_LONGEST_PAUSE", 0.002)
    monkeypatch.setenv("BANANA100_CONCURRENCY", "2")
    backend = Fake(lambda request, before: Unavailable("429", crowded=True) if before < 3 * TRIES else None)
    walks = run(store, backend, Line("a", 1), Line("b", 1), Line("c", 1))
    assert all(walk.step is None for walk in walks) and backend.most <= 2
    (walk,) = run(store, Fake(lambda *_: Unavailable("429", crowded=True)), Line("d", 1))
    assert walk.parked and (walk.parked.cause, walk.parked.attempts) == ("unavailable", 4 * TRIES)


def test_a_stop_ends_a_wait_that_the_generator_asked_for(store: Path) -> None:
    answers = AnswerStore(store)
    walk = Walk(Line("a"), answers)

    async def stopped() -> None:
        asking_ = asking.Asking(answers, Ledger(answers, {"mine": 9.0}), Patience(1, 9.0, 0.01))
        backend = Fake(lambda *_: Unavailable("429", after=60))
        finishing = asyncio.create_task(asking_.finish(walk, backend, tqdm(disable=True)))
        await asyncio.sleep(0.05)
        asking_.stopping.set()
        async with asyncio.timeout(2):
            await finishing

    asyncio.run(stopped())
    assert walk.parked and walk.parked.cause == "stopped"


def test_an_answer_gets_more_than_one_chance_to_be_kept(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put, troubles = AnswerStore.put, iter([OSError(110, "Connection timed out"), OSError(5, "I/O error")])

    def stumbling(self: AnswerStore, request: Request, answer: Answer, **charge: Any) -> StoredAnswer:
        if trouble := next(troubles, None):
            raise trouble
        return put(self, request, answer, **charge)

    monkeypatch.setattr(AnswerStore, "put", stumbling)
    backend = Fake()
    (walk,) = run(store, backend, Line("a", 1))
    assert walk.step is None and backend.asked.total() == 1  # not asked again: it is paid for


def test_what_a_job_of_the_batch_api_holds_is_not_asked(store: Path) -> None:
    answers, backend = AnswerStore(store), Fake()
    walk = Walk(Line("a"), answers)
    assert walk.step
    jobs.JobRecords(answers).keep(jobs.Job("label", "another", {walk.step.request.id: walk.step.request}))
    (walk, fine) = run(store, backend, Line("a"), Line("b"))
    assert walk.parked and "Batch API" in walk.parked.reason and fine.step is None
    assert not any(backend.asked[walk.parked.request.id] for _ in "a")


def test_a_full_disk_ends_the_run_with_the_others_kept(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = AnswerStore.put

    def full(self: AnswerStore, request: Request, answer: Answer, **charge: Any) -> StoredAnswer:
        if request.seed == "a":
            raise OSError(28, "No space left on device")
        return put(self, request, answer, **charge)

    monkeypatch.setattr(AnswerStore, "put", full)
    with pytest.raises(OSError, match="No space"):
        run(store, Fake(seconds=0.01), Line("a"), Line("b"))
    kept = [json.loads(file.read_text())["request"]["seed"] for file in (store / "answers").rglob("*.json")]
    assert set(kept) == {"b"}
