"""Reading what the API says: any answer is an image or a refusal, any error has its meaning, nothing else comes out."""

import asyncio
import base64
import json
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from google.genai import errors as api_errors
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from banana100 import images
from banana100.generators.base import Answer, Halt, Refused, Rejected, Turn, Unavailable
from banana100.generators.gemini import client, errors, messages
from banana100.generators.gemini.client import without_key
from banana100.generators.gemini.jobs import Jobs
from banana100.generators.gemini.prices import PriceList
from banana100.lineage.identity import Request
from banana100.params import Price, Prices

PNG = images.encode_png(np.zeros((8, 8, 3), dtype=np.uint8))
MODEL = "gemini-3-pro-image-preview"
PRICES = Prices(
    date="2026-07-01", batch=0.5, thinking=400, seconds=25.0,
    models={MODEL: Price(images={"1K": 0.134, "2K": 0.134, "4K": 0.24}, default_size="1K", input=2.0, output=12.0)},
)  # fmt: skip
CONFIG = {"reasoning": True, "history": 0}


def price_list(batch: bool = False) -> PriceList:
    return PriceList(MODEL, PRICES, batch)


def request(**changes: Any) -> Request:
    fields = {"backend": "gemini", "model": MODEL, "prompt": "copy it", "config": CONFIG, "parent_id": "00"}
    return Request(**fields | {"seed": "a", "repeat": 1, "step": 1} | changes)


def read(content: dict[str, Any], config: dict[str, Any] = CONFIG) -> Answer:
    return messages.read(messages.parse(content), config, price_list(), {})


def image_part(data: bytes = PNG, **more: Any) -> dict[str, Any]:
    return {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(data).decode()}} | more


# --- answers


def test_the_final_image_is_the_last_one_that_is_no_thought() -> None:
    other = images.encode_png(np.full((8, 8, 3), 9, dtype=np.uint8))
    thought = {"text": "I shall copy it.", "thought": True}
    parts = [thought, image_part(thought=True), image_part(other), image_part(PNG, thoughtSignature="c2ln")]
    content = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    usage = {"promptTokenCount": 564, "candidatesTokenCount": 1130, "thoughtsTokenCount": 200}
    usage |= {
        "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 1120}, {"modality": "TEXT", "tokenCount": 10}]
    }
    answer = read(content | {"usageMetadata": usage, "modelVersion": "m-1", "responseId": "r"})
    assert answer.image == PNG and answer.signature == "c2ln" and answer.reasoning == "I shall copy it."
    assert (answer.model_answered, answer.response_id, answer.finish_reason) == ("m-1", "r", "STOP")
    assert (answer.input_tokens, answer.output_tokens) == (564, 1330)
    # the image by its size, the question by its tokens, text and thinking by theirs
    assert answer.cost_usd == pytest.approx(0.134 + 564 * 2e-6 + 210 * 12e-6)


words = st.sampled_from(["STOP", "IMAGE_SAFETY", "NO_IMAGE", "OF_NEXT_YEAR", "", "stop"])
blobs = st.one_of(st.just(base64.b64encode(PNG).decode()), st.text(max_size=8), st.binary(max_size=9).map(
    lambda data: base64.b64encode(data).decode()))  # fmt: skip
parts = st.fixed_dictionaries(
    {}, optional={
        "text": st.text(max_size=9), "thought": st.booleans(), "thoughtSignature": st.just("c2ln"),
        "inlineData": st.fixed_dictionaries({}, optional={"mimeType": st.text(max_size=5), "data": blobs}),
    }
)  # fmt: skip
contents = st.fixed_dictionaries(
    {}, optional={"role": st.text(max_size=5), "parts": st.none() | st.lists(parts, max_size=4)}
)
candidates = st.fixed_dictionaries(
    {}, optional={"content": st.none() | contents, "finishReason": words, "finishMessage": st.text(max_size=9)}
)  # fmt: skip
counts = st.none() | st.integers(0, 10**6)
details = st.lists(
    st.fixed_dictionaries({"modality": st.sampled_from(["TEXT", "IMAGE", "SMELL"]), "tokenCount": counts})
)
usages = st.fixed_dictionaries(
    {}, optional={"promptTokenCount": counts, "candidatesTokenCount": counts, "thoughtsTokenCount": counts,
                  "candidatesTokensDetails": details},
)  # fmt: skip
responses = st.fixed_dictionaries(
    {}, optional={
        "candidates": st.none() | st.lists(candidates, max_size=2), "usageMetadata": usages, "modelVersion": st.text(),
        "responseId": st.text(), "promptFeedback": st.fixed_dictionaries({}, optional={"blockReason": words}),
    }
)  # fmt: skip


@given(responses)
@pytest.mark.filterwarnings("ignore:.* is not a valid")
def test_any_answer_is_an_image_that_decodes_or_a_refusal_with_a_reason_and_a_price(content: dict[str, Any]) -> None:
    try:
        parsed = messages.parse(content)
    except ValueError:
        return  # told as unreadable, see tests/test_gemini.py
    try:
        answer = messages.read(parsed, CONFIG, price_list(), {})
    except Refused as refused:
        assert refused.refusal.finish_reason and refused.refusal.cost_usd >= 0
        json.dumps(refused.refusal.record)
    else:
        images.decode(answer.image)
        json.dumps(answer.record)


@given(st.text() | st.dictionaries(st.text(max_size=9), st.text(max_size=9)).map(json.dumps) | responses.map(
    lambda content: json.dumps({"key": request().id, "response": content})))  # fmt: skip
@pytest.mark.filterwarnings("ignore:.* is not a valid")
def test_any_line_of_a_batchs_file_is_an_outcome_or_none(line: str) -> None:
    found: dict[str, Any] = {}
    Jobs(SimpleNamespace(aio=None), MODEL, price_list())._take(line, {request().id: request()}, found)
    assert all(isinstance(outcome, Answer | Refused) for outcome in found.values())


# --- errors


@pytest.mark.parametrize(
    ("code", "details", "expected"),
    [
        (400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}, Halt),
        (400, {}, Rejected),
        (401, {}, Halt),
        (403, {}, Halt),
        (404, {}, Halt),
        (413, {}, Rejected),
        (429, {}, Unavailable),
        (500, {}, Unavailable),
        (502, {}, Unavailable),
        (503, {}, Unavailable),
        (504, {}, Unavailable),
        (520, {}, Unavailable),
        (499, {}, Unavailable),
    ],
)
def test_each_code_has_its_meaning(code: int, details: Any, expected: type[Exception]) -> None:
    assert type(errors.of_code(code, "STATUS", "said", details, MODEL)) is expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
)


@given(code=st.integers(300, 599), details=json_values, header=st.none() | st.text())
def test_any_error_is_one_of_ours_in_one_line(code: int, details: Any, header: str | None) -> None:
    found = errors.of_code(code, "S", None, details, MODEL, header)
    assert isinstance(found, Halt | Rejected | Unavailable) and len(str(found).splitlines()) == 1


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [
        ("7", {}, 7.0),
        (None, {"error": {"details": [{"@type": "x"}, {"retryDelay": "31.5s"}]}}, 31.5),
        (None, {"error": {"details": [{"retryDelay": "soon"}]}}, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", {}, None),
    ],
)
def test_how_long_to_wait_is_read_from_header_or_details(
    header: str | None, details: Any, seconds: float | None
) -> None:
    found = errors.of_code(429, "RESOURCE_EXHAUSTED", "", details, MODEL, header)
    assert isinstance(found, Unavailable) and found.after == seconds and not found.billed


def test_only_a_connection_that_was_made_may_have_been_billed() -> None:
    assert not errors.of_transport(httpx.ConnectError("refused")).billed
    assert not errors.of_transport(httpx.ConnectTimeout("slow")).billed
    assert errors.of_transport(httpx.ReadError("reset")).billed
    assert errors.of_transport(httpx.RemoteProtocolError("incomplete")).billed


@given(before=st.text(), after=st.text())
def test_the_key_is_taken_out_of_any_text(before: str, after: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEMINI_API_KEY", "AIza-secret")
        assert "AIza-secret" not in without_key(f"{before}AIza-secret{after}")


def test_an_account_that_is_not_served_ends_the_run() -> None:
    found = errors.of_code(400, "FAILED_PRECONDITION", "User location is not supported for the API use.", {}, MODEL)
    assert isinstance(found, Halt)


def test_nobody_is_waited_for_longer_than_ten_minutes() -> None:
    found = errors.of_code(429, "RESOURCE_EXHAUSTED", "", {}, MODEL, "86400")
    assert isinstance(found, Unavailable) and found.after == 600 and found.crowded


# --- connections


def test_the_key_goes_to_no_other_host_and_no_silence_lasts_for_ever() -> None:
    guard = client._Guard(httpx.URL("https://api.example/v1beta"))
    for url, kept in (("https://api.example/x", True), ("http://api.example/x", False), ("https://b.example", False)):
        sent = httpx.Request("GET", url, headers={"x-goog-api-key": "secret"})
        asyncio.run(guard.before(sent))
        assert ("x-goog-api-key" in sent.headers) is kept
        assert sent.extensions["timeout"]["connect"] == 30 and sent.extensions["timeout"]["read"] == 600


def test_variables_of_the_sdk_lead_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    monkeypatch.setenv("GOOGLE_API_KEY", "another")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "https://elsewhere.example")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    made, http = client.new_client("a test")
    options = made._api_client._http_options
    assert str(options.base_url).startswith(client.GOOGLE) and options.headers["x-goog-api-key"] == "secret"
    asyncio.run(http.aclose())


# --- jobs


def job_results(get: Any) -> dict[str, Any] | None:
    batches = SimpleNamespace(get=get)
    made = Jobs(SimpleNamespace(aio=SimpleNamespace(batches=batches)), MODEL, price_list())
    return asyncio.run(made.results("batches/1", {request().id: request()}))


def test_a_job_that_is_gone_or_failed_frees_its_requests() -> None:
    async def gone(name: str) -> None:
        raise api_errors.ClientError(404, {"error": {"message": "not found", "status": "NOT_FOUND"}})

    async def failed(name: str) -> types.BatchJob:
        return types.BatchJob(name=name, state=types.JobState.JOB_STATE_FAILED)

    (lost,) = (job_results(gone) or {}).values()
    assert isinstance(lost, Unavailable) and lost.billed and "is gone" in str(lost)
    (lost,) = (job_results(failed) or {}).values()
    assert isinstance(lost, Unavailable) and not lost.billed and "JOB_STATE_FAILED" in str(lost)


def test_a_job_at_work_or_without_its_file_yet_is_waited_for() -> None:
    async def running(name: str) -> types.BatchJob:
        return types.BatchJob(name=name, state=types.JobState.JOB_STATE_RUNNING)

    async def succeeded(name: str) -> types.BatchJob:
        return types.BatchJob(name=name, state=types.JobState.JOB_STATE_SUCCEEDED)

    assert job_results(running) is None
    with pytest.raises(Unavailable, match="its file is not there yet"):
        job_results(succeeded)


# --- requests and prices


def test_settings_that_are_left_out_are_not_sent() -> None:
    sent = messages.settings(CONFIG).model_dump(exclude_none=True)
    assert sent == {"thinking_config": {"include_thoughts": True}, "automatic_continuation": False}
    config = CONFIG | {
        "aspect_ratio": "16:9",
        "image_size": "4K",
        "seed": 1,
        "temperature": 0.0,
        "thinking_level": "low",
    }
    sent = messages.settings(config | {"response_modalities": ["IMAGE"]}).model_dump(mode="json", exclude_none=True)
    assert sent["image_config"] == {"aspect_ratio": "16:9", "image_size": "4K"} and sent["temperature"] == 0.0
    assert sent["seed"] == 1 and sent["thinking_config"] == {"include_thoughts": True, "thinking_level": "LOW"}
    assert sent["response_modalities"] == ["IMAGE"]


def test_a_lost_signature_is_replaced_by_the_documented_one() -> None:
    sent = messages.contents([Turn("a", PNG, PNG, None), Turn("b", None)])
    assert [content.role for content in sent] == ["user", "model", "user"]
    assert sent[1].parts and sent[1].parts[0].thought_signature == b"skip_thought_signature_validator"


def test_estimates_follow_the_list() -> None:
    fresh = price_list().estimate(request(), 1)
    assert fresh == pytest.approx(0.134 + (560 + 7 / 4) * 2e-6 + 400 * 12e-6, abs=1e-6)
    assert price_list(batch=True).estimate(request(), 1) == pytest.approx(fresh / 2, abs=1e-6)
    assert price_list().estimate(request(config=CONFIG | {"image_size": "4K"}), 1) > 0.24
    assert price_list().estimate(request(parent_id=None), 1) < fresh < price_list().estimate(request(), 14)
