"""Identities: the same question has the same id, whatever the order of its keys."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banana100.files import sha256_of
from banana100.lineage.identity import Request, canonical_json


def request(**changes: object) -> Request:
    fields = {"backend": "simulated", "model": "rot-1", "prompt": "copy", "parent_id": "00", "seed": "a"}
    return Request(**fields | {"config": {"noise": 100, "green": 100}, "repeat": 1, "step": 1} | changes)


def test_a_request_id_is_the_hash_of_canonical_json() -> None:
    text = (
        '{"backend":"simulated","config":{"green":100,"noise":100},"model":"rot-1","parent_id":"00","prompt":"copy",'
        '"repeat":1,"seed":"a","step":1}'
    )
    assert request().id == sha256_of(text.encode())


@pytest.mark.parametrize("change", [{"model": "m"}, {"prompt": "p"}, {"parent_id": "1"}, {"seed": "b"}, {"repeat": 2}])
def test_whatever_decides_an_image_changes_its_request_id(change: dict[str, object]) -> None:
    assert request(**change).id != request().id


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.dictionaries(st.text(), v)))
def test_canonical_json_does_not_depend_on_the_order_of_keys(value: Any) -> None:
    def turned(value: Any) -> Any:
        return {k: turned(v) for k, v in reversed(value.items())} if isinstance(value, dict) else value

    assert canonical_json(turned(value)) == canonical_json(value)
    assert json.loads(canonical_json(value)) == value
