"""The ledger: what is spent is what the receipts say, whoever died meanwhile; no budget is passed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banana100.generators.base import Answer, Refusal
from banana100.generators.ledger import Ledger, OverBudget
from banana100.generators.store import AnswerStore
from banana100.lineage.identity import Request


def request(number: int = 1) -> Request:
    return Request("gemini", "m", "copy", {}, "00", "a", 1, number)


def test_a_request_counts_at_its_expected_price_until_it_is_settled(store: Path) -> None:
    answers = AnswerStore(store)
    ledger = Ledger(answers, {"mine": 1.0})
    ledger.reserve("mine", request(1), 0.25)
    assert ledger.spent("mine") == 0.25
    answers.put(request(1), Answer(image=b"x", model_answered="m"), campaign="mine", usd=0.125)
    assert ledger.spent("mine") == 0.125
    ledger.reserve("mine", request(2), 0.25)
    answers.refuse(request(2), Refusal("m", "IMAGE_SAFETY"), campaign="mine", usd=0.5)
    assert ledger.spent("mine") == 0.625
    ledger.reserve("mine", request(2), 0.25)
    ledger.failed("mine", request(2), 0.0)
    assert ledger.spent("mine") == 0.625 and ledger.spent("other") == 0.0


def test_what_a_killed_process_had_under_way_stays_counted(store: Path) -> None:
    answers = AnswerStore(store)
    Ledger(answers, {"mine": 1.0}).reserve("mine", request(), 0.25)  # and killed
    ledger = Ledger(answers, {"mine": 1.0})
    ledger.reserve("mine", request(), 0.25)
    answers.put(request(), Answer(image=b"x", model_answered="m"), campaign="mine", usd=0.25)
    assert ledger.spent("mine") == 0.5  # the first may have been billed


def test_what_a_budget_does_not_allow_is_refused_with_the_numbers_and_leaves_no_line(store: Path) -> None:
    ledger = Ledger(AnswerStore(store), {"mine": 0.3})
    ledger.reserve("mine", request(1), 0.2)
    with pytest.raises(OverBudget, match=r"mine has spent \$0.20 of its budget_usd 0.3, .* \$0.20"):
        ledger.reserve("mine", request(2), 0.2)
    assert len(AnswerStore(store).journal()) == 1 and OverBudget("").exit_code == 3


def test_two_processes_share_one_budget(store: Path) -> None:
    one, other = (Ledger(AnswerStore(store), {"mine": 0.5}) for _ in range(2))
    one.reserve("mine", request(1), 0.3)
    with pytest.raises(OverBudget):
        other.reserve("mine", request(2), 0.3)


def test_rounding_is_no_reason_to_refuse(store: Path) -> None:
    ledger = Ledger(AnswerStore(store), {"mine": 0.3})
    for number in range(3):
        ledger.reserve("mine", request(number), 0.1)
    assert not ledger.allows("mine", 0.1)


def test_half_a_line_does_not_swallow_the_next(store: Path) -> None:
    answers = AnswerStore(store)
    with answers.journal_path.open("a") as file:
        file.write('{"at": "2026", "event": "sto')
    ledger = Ledger(answers, {"mine": 1.0})
    ledger.reserve("mine", request(), 0.25)
    assert ledger.spent("mine") == 0.25 and len(answers.journal()) == 1


def test_half_a_line_is_passed_over_and_lines_without_a_price_are_free(store: Path) -> None:
    answers = AnswerStore(store)
    ledger = Ledger(answers, {"mine": 1.0})
    answers.asked(request())  # the simulator's
    with answers.journal_path.open("a") as file:
        file.write('{"at": "2026", "event": "asked", "req\n')
    ledger.reserve("mine", request(), 0.25)
    assert ledger.spent("mine") == 0.25


events = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.sampled_from(["stored", "refused", "failed", None]),
              st.integers(0, 8)),
    max_size=30,
)  # fmt: skip


@given(history=events)
def test_any_history_adds_up_and_does_not_depend_on_when_it_is_read(
    history: list[tuple[str, int, str | None, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Prices are eighths, whose sums are exact."""
    answers = AnswerStore(tmp_path_factory.mktemp("store"))
    budgets = dict.fromkeys("abc", 1e9)
    watching = Ledger(answers, budgets)
    expected = dict.fromkeys("abc", 0.0)
    for campaign, number, event, eighths in history:
        answers.asked(request(number), campaign=campaign, usd=0.5)
        if event:
            answers.note(event, request(number), campaign=campaign, usd=eighths / 8)
        expected[campaign] += eighths / 8 if event else 0.5
        assert watching.spent(campaign) == expected[campaign]
    afterwards = Ledger(answers, budgets)
    assert {campaign: afterwards.spent(campaign) for campaign in "abc"} == expected
