"""The store of answers: it gives back what it was given, keeps the first, and names what is damaged."""

from collections import Counter
from pathlib import Path

import pytest

from banana100.errors import UserError
from banana100.generators.base import Answer
from banana100.generators.store import AnswerStore
from banana100.lineage.identity import Request


def request(**changes: object) -> Request:
    fields = {"backend": "simulated", "model": "rot-1", "prompt": "copy", "parent_id": "00", "seed": "a"}
    return Request(**fields | {"config": {"noise": 100, "green": 100}, "repeat": 1, "step": 1} | changes)


def journal(store: Path) -> Counter[str]:
    return Counter(line["event"] for line in AnswerStore(store).journal())


def test_an_answer_comes_back_byte_for_byte(store: Path) -> None:
    answers = AnswerStore(store)
    answer = Answer(image=b"\x89PNG not even an image", model_answered="m-1", cost_usd=0.134, finish_reason="STOP")
    assert answers.get(request()) is None
    kept = answers.put(request(), answer)
    assert AnswerStore(store).get(request()) == kept
    assert answers.image(kept.image_id) == answer.image
    assert kept.record["cost_usd"] == 0.134 and "image" not in kept.record


def test_the_first_answer_stays(store: Path) -> None:
    answers = AnswerStore(store)
    first = answers.put(request(), Answer(image=b"first", model_answered="m"))
    assert answers.put(request(), Answer(image=b"second", model_answered="m")) == first
    assert journal(store) == {"stored": 1, "stored again": 1}


def test_a_damaged_object_is_named_and_never_used(store: Path) -> None:
    answers = AnswerStore(store)
    kept = answers.put(request(), Answer(image=b"whole", model_answered="m"))
    (path,) = (store / "objects").rglob(kept.image_id)
    path.write_bytes(b"whale")
    with pytest.raises(UserError, match=f"{kept.image_id}: damaged object"):
        answers.image(kept.image_id)
    path.unlink()
    with pytest.raises(UserError, match="missing from the store"):
        answers.image(kept.image_id)
    for damage in (None, b"whale"):
        if damage:
            path.write_bytes(damage)
        answers.put(request(), Answer(image=b"whole", model_answered="m"))  # as when pulled data is taken over
        assert answers.image(kept.image_id) == b"whole"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"image_id": "0"}'])
def test_a_damaged_answer_is_named(store: Path, content: bytes) -> None:
    answers = AnswerStore(store)
    answers.put(request(), Answer(image=b"x", model_answered="m"))
    (path,) = (store / "answers").rglob("*.json")
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{request().id}.json: damaged answer"):
        answers.get(request())


def test_a_store_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"BANANA100_STORE .*cannot be made"):
        AnswerStore(tmp_path / "file" / "store")


def test_a_kill_between_answer_and_journal_loses_only_the_note(store: Path) -> None:
    """The journal is for people; what is stored is decided by the answers alone."""
    from banana100.generators.base import Answer
    from banana100.lineage.identity import Request

    request = Request("simulated", "rot-1", "copy", {}, "00", "a", 1, 1)
    answers = AnswerStore(store)
    kept = answers.put(request, Answer(image=b"x", model_answered="m"))
    (store / "journal.jsonl").unlink()
    assert AnswerStore(store).get(request) == kept
