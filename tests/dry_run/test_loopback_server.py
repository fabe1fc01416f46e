"""The loopback server, asked by the real SDK: answers, refusals, each fault as the SDK sees it, files, batch jobs."""

import asyncio
import base64
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import psutil
import pytest
from google import genai
from google.genai import errors, types
from PIL import Image

from banana100 import images
from banana100.dry_run import checks
from banana100.dry_run.faults import NOT_IN_BATCHES, RETRY_AFTER, Draws, Fault, Script
from banana100.dry_run.pictures import Asked, answer
from banana100.dry_run.server import running
from banana100.files import sha256_of
from helpers.servers import settle

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is not a valid FinishReason"),
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession"),
]

KEY = "AIzaSy-loopback-test-key"
MODEL = "gemini-3-pro-image-preview"
HUGE = 3_000_000

FAULTS = [fault.value for fault in Fault if fault is not Fault.NONE]
BAD_HTTP = {
    "too_many": (429, "RESOURCE_EXHAUSTED"),
    "too_many_retry_after": (429, "RESOURCE_EXHAUSTED"),
    "too_many_retry_info": (429, "RESOURCE_EXHAUSTED"),
    "server_error": (500, "INTERNAL"),
    "unavailable": (503, "UNAVAILABLE"),
    "expired_key": (400, "INVALID_ARGUMENT"),
    "unauthorised": (401, "UNAUTHENTICATED"),
    "forbidden": (403, "PERMISSION_DENIED"),
    "gone_model": (404, "NOT_FOUND"),
    "bad_request": (400, "INVALID_ARGUMENT"),
}
NO_ANSWER = {
    "reset_mid_body": aiohttp.ClientPayloadError,
    "hang": aiohttp.ClientOSError,
    "trickle": aiohttp.ClientPayloadError,
    "not_json": json.JSONDecodeError,
    "truncated_base64": ValueError,  # pydantic's
}
REASONS = {
    "image_safety": "IMAGE_SAFETY",
    "image_prohibited": "IMAGE_PROHIBITED_CONTENT",
    "image_recitation": "IMAGE_RECITATION",
    "image_other": "IMAGE_OTHER",
    "no_image_reason": "NO_IMAGE",
    "safety": "SAFETY",
    "future_reason": "IMAGE_TELEPORTATION",
}
WITHOUT_IMAGE = {"no_image", "no_candidates", "no_parts", "only_thoughts", "prompt_blocked"}
GOOD = {"two_images", "other_size", "other_aspect", "jpeg_as_png"}
BAD_IMAGE = {"corrupt_image", "bomb_image"}


def picture(height: int = 48, width: int = 64) -> np.ndarray:
    """Left darker than right, top darker than bottom."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 3, y * 4, x + y], axis=2).astype(np.uint8)


PARENT = images.encode_png(picture())


def part(data: bytes = PARENT, **more: Any) -> types.Part:
    return types.Part(inline_data=types.Blob(data=data, mime_type="image/png"), **more)


class Api:
    """A running server, and the SDK on top of it."""

    def __init__(self, url: str, log: Path, key: str = KEY) -> None:
        self.url, self.log, self.key = url, log, key

    @cached_property
    def client(self) -> genai.Client:
        options = types.HttpOptions(
            base_url=self.url, api_version="v1beta", retry_options=types.HttpRetryOptions(attempts=1)
        )
        return genai.Client(api_key=self.key, vertexai=False, http_options=options)

    def call(self, function: Callable[[Any], Any]) -> Any:
        """The result of `await function(client.aio)`."""

        async def called() -> Any:
            async with self.client.aio as client:
                return await function(client)

        return asyncio.run(called())

    def ask(self, *contents: Any, model: str = MODEL, **config: Any) -> types.GenerateContentResponse:
        sent = list(contents) or [part(), "Replicate."]
        asked = types.GenerateContentConfig(**config)
        return self.call(lambda client: client.models.generate_content(model=model, contents=sent, config=asked))

    def raw(self, body: Any, path: str = f"/v1beta/models/{MODEL}:generateContent") -> tuple[int, dict[str, Any], Any]:
        async def posted() -> tuple[int, dict[str, Any], Any]:
            async with (
                aiohttp.ClientSession(headers={"x-goog-api-key": self.key}) as session,
                session.post(self.url + path, data=body if isinstance(body, bytes) else json.dumps(body)) as got,
            ):
                return got.status, await got.json(), got.headers

        return asyncio.run(posted())

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def last(self) -> dict[str, Any]:
        """The newest line."""
        settle(self.url, self.log)
        return [line for line in self.lines() if "n" in line][-1]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server without faults."""
    log = tmp_path_factory.mktemp("plain") / "log.jsonl"
    with running(key=KEY, log=log, job_seconds=0.2) as url:
        yield Api(url, log)


@dataclass
class Met:
    """What the SDK makes of a fault: an answer or an exception, and the line of the log."""

    answer: Any
    error: Exception | None
    line: dict[str, Any]


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Met]:
    """Every fault, met once."""
    log = tmp_path_factory.mktemp("faulty") / "log.jsonl"
    outcomes: list[tuple[Any, Exception | None]] = []

    async def ask_all(client: Any) -> None:
        for _ in FAULTS:
            try:
                contents = [part(), "Replicate."]
                outcomes.append((await client.models.generate_content(model=MODEL, contents=contents), None))
            except Exception as error:
                outcomes.append((None, error))

    with running(key=KEY, log=log, script={"sequence": FAULTS}, hang_seconds=0.3, huge_bytes=HUGE) as url:
        api = Api(url, log)
        api.call(ask_all)
    return {line["fault"]: Met(*outcome, line) for outcome, line in zip(outcomes, api.lines(), strict=True)}


def found(response: types.GenerateContentResponse) -> list[types.Part]:
    return [part for part in response.candidates[0].content.parts if part.inline_data and not part.thought]


def final(response: types.GenerateContentResponse) -> bytes:
    return found(response)[-1].inline_data.data


# --- answers


def test_an_answer_is_the_last_image_with_a_little_rot(api: Api) -> None:
    response = api.ask(
        part(), "Replicate.", response_modalities=["IMAGE"], seed=3, temperature=0.5,
        image_config=types.ImageConfig(aspect_ratio="1:1", image_size="2K"),
    )  # fmt: skip
    candidate = response.candidates[0]
    assert candidate.finish_reason == "STOP" and candidate.content.role == "model"
    assert len(candidate.content.parts) == 1 and candidate.content.parts[0].thought_signature
    pixels = images.decode(final(response))
    difference = np.abs(pixels.astype(int) - picture()).mean()
    assert pixels.shape == picture().shape and 0 < difference < 4
    usage = response.usage_metadata
    assert usage.prompt_token_count == 560 + 3 and usage.candidates_token_count == 1120
    assert usage.candidates_tokens_details[0].modality == "IMAGE" and usage.thoughts_token_count > 0
    assert usage.total_token_count == 563 + 1120 + usage.thoughts_token_count
    assert response.model_version == f"simulated/{MODEL}" and response.response_id


def test_repeats_differ_and_each_has_an_id_of_its_own(api: Api) -> None:
    first, second = api.ask(), api.ask()
    assert final(first) != final(second) and first.response_id != second.response_id


def test_thoughts_are_a_text_and_another_image_when_they_are_wanted(api: Api) -> None:
    response = api.ask(thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="low"))
    text, interim, last = response.candidates[0].content.parts
    assert text.thought and text.text and interim.thought and not last.thought and last.thought_signature
    assert images.decode(interim.inline_data.data).shape == picture().shape
    assert interim.inline_data.data != last.inline_data.data


def test_the_wire_is_standard_base64_and_takes_both_alphabets(api: Api) -> None:
    seen = set()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        data = {"mimeType": "image/png", "data": encode(PARENT).decode()}
        status, body, headers = api.raw({"contents": [{"parts": [{"inlineData": data}, {"text": "a"}]}]})
        sent = body["candidates"][0]["content"]["parts"][0]
        base64.b64decode(sent["inlineData"]["data"], validate=True)
        assert status == 200 and sent["thoughtSignature"] and headers["Content-Type"].startswith("application/json")
        seen.add(api.last()["parent_sha256"])
    assert seen == {sha256_of(PARENT)}


@pytest.mark.parametrize("signed", [True, False])
def test_a_conversation_goes_on_only_with_its_signature(api: Api, signed: bool) -> None:
    first = api.ask()
    answered = types.Content(role="model", parts=[part(final(first), thought_signature=b"any" if signed else None)])
    contents = [types.UserContent([part(), "Replicate."]), answered, types.UserContent("Once more.")]
    if not signed:
        with pytest.raises(errors.ClientError, match="missing a thought_signature in content position 2"):
            api.ask(*contents)
        return
    api.ask(*contents)
    line = api.last()
    assert (line["turns"], line["images"], line["prompt"]) == (3, 2, "Once more.")
    assert line["parent_sha256"] == sha256_of(final(first))


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Flip the provided image horizontally, as in a mirror", picture()[:, ::-1]),
        ("Rotate the provided image by 90 degrees clockwise", np.rot90(picture(), -1)),
        ("Colourise the provided black and white image naturally", picture()),
        ("Turn it into a black and white version", None),
        ("make it GREYSCALE", None),
        ("Decolourise it", None),
    ],
)
def test_prompts_are_obeyed(api: Api, prompt: str, expected: np.ndarray | None) -> None:
    pixels = images.decode(final(api.ask(part(), prompt))).astype(int)
    if expected is None:
        assert np.ptp(pixels, axis=2).max() == 0 and pixels.shape == picture().shape
    else:
        assert pixels.shape == expected.shape and np.abs(pixels - expected).mean() < 4


def test_a_text_becomes_a_picture_of_its_own(api: Api) -> None:
    one, again, other = (images.decode(final(api.ask(text))).astype(int) for text in ("a boat", "a boat", "a horse"))
    assert one.shape == (256, 256, 3)
    assert 0 < np.abs(one - again).mean() < 10 < np.abs(one - other).mean()
    assert api.last()["images"] == 0 and api.last()["parent_sha256"] is None


@pytest.mark.parametrize("fault", ["none", *sorted(GOOD)])
@pytest.mark.parametrize("canned", [True, False])
def test_no_two_answers_have_the_same_image(fault: str, canned: bool) -> None:
    asked = Asked(MODEL, "x", 1, 1, PARENT, thoughts=False)
    assert len({answer(asked, Fault(fault), number, canned).image_sha256 for number in range(4)}) == 4


def test_canned_pictures_are_small() -> None:
    asked = Asked(MODEL, "x", 1, 1, PARENT, thoughts=True)
    made = answer(asked, Fault.NONE, 1, canned=True)
    parts = json.loads(made.text)["candidates"][0]["content"]["parts"]
    assert len(parts) == 2 and parts[0]["thought"] and parts[0]["text"]
    assert images.decode(base64.b64decode(parts[1]["inlineData"]["data"])).shape == (64, 64, 3)
    assert len(made.text) < 12_000


# --- what is refused


def test_a_wrong_key_is_refused_in_googles_words_which_quote_it(api: Api) -> None:
    with pytest.raises(errors.ClientError) as caught:
        Api(api.url, api.log, "AIzaSy-another").ask()
    error = caught.value
    assert (error.code, error.status) == (400, "INVALID_ARGUMENT")
    assert error.message == "API key not valid. Please pass a valid API key."
    detail = error.details["error"]["details"][0]
    assert detail["reason"] == "API_KEY_INVALID" and detail["metadata"]["consumer"] == "api_key:AIzaSy-another"


def test_an_unknown_model_is_not_found(api: Api) -> None:
    with pytest.raises(errors.ClientError, match="models/gemini-9 is not found for API version v1beta") as caught:
        api.ask(model="gemini-9")
    assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")
    assert api.last()["status"] == 404 and api.last()["model"] == "gemini-9"


def with_settings(**settings: Any) -> dict[str, Any]:
    return {"contents": [{"parts": [{"text": "a"}]}], "generationConfig": settings}


def with_parts(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"contents": [{"parts": list(parts), **more}]}


IMAGE = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(PARENT).decode()}}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"contents": []},
        {"contents": {}},
        with_settings() | {"tools": []},
        with_settings(topP=1),
        with_settings(imageConfig={"aspectRatio": "7:5"}),
        with_settings(imageConfig={"imageSize": "8K"}),
        with_settings(imageConfig={"outputMimeType": "image/png"}),
        with_settings(temperature=2.5),
        with_settings(temperature="warm"),
        with_settings(seed=1.5),
        with_settings(responseModalities=["TEXT"]),
        with_settings(responseModalities=["AUDIO"]),
        with_settings(thinkingConfig={"thinkingLevel": "deep"}),
        with_settings(thinkingConfig={"includeThoughts": "yes"}),
        with_settings(thinkingConfig={"budget": 1}),
        with_parts(),
        with_parts({}),
        with_parts({"text": 3}),
        with_parts({"text": "a"}, role="system"),
        with_parts({"text": "a"}, role="model"),
        with_parts({"text": "a", "mood": "good"}),
        with_parts({"inlineData": {"mimeType": "image/png", "data": "%%%"}}),
        with_parts({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
        with_parts({"inlineData": IMAGE["inlineData"] | {"mimeType": "text/plain"}}),
        with_parts(*[IMAGE] * 15),
        b"{",
        b"[]",
    ],
    ids=lambda body: json.dumps(body)[:60] if isinstance(body, dict) else body.decode(),
)
def test_a_request_that_google_would_not_take_is_not_taken(api: Api, body: Any) -> None:
    status, content, _ = api.raw(body)
    assert status == 400 and content["error"]["status"] == "INVALID_ARGUMENT" and content["error"]["message"]
    line = api.last()
    assert (line["fault"], line["status"], line["image_sha256"], line["sent"]) == ("none", 400, None, True)


def test_the_most_that_may_be_sent_is_taken(api: Api) -> None:
    settings = {
        "responseModalities": ["Text", "Image"], "imageConfig": {"aspectRatio": "21:9", "imageSize": "512"},
        "seed": 1, "temperature": 2, "thinkingConfig": {"includeThoughts": False, "thinkingLevel": "HIGH"},
    }  # fmt: skip
    assert api.raw(with_parts(*[IMAGE] * 14, {"text": "a"}) | {"generationConfig": settings})[0] == 200


# --- faults


def test_every_fault_comes_in_its_turn(met: dict[str, Met]) -> None:
    assert list(met) == FAULTS
    kinds = [set(BAD_HTTP), set(NO_ANSWER), set(REASONS), WITHOUT_IMAGE, GOOD, BAD_IMAGE, {"huge_body"}]
    assert sorted(fault for kind in kinds for fault in kind) == sorted(FAULTS)  # each has a test below


@pytest.mark.parametrize("fault", BAD_HTTP)
def test_faults_of_http(met: dict[str, Met], fault: str) -> None:
    error = met[fault].error
    assert isinstance(error, errors.APIError) and (error.code, error.status) == BAD_HTTP[fault]
    details = json.dumps(error.details)
    assert ("RetryInfo" in details and "QuotaFailure" in details) == (fault == "too_many_retry_info")
    after = error.response.headers.get("Retry-After")
    assert after == (str(RETRY_AFTER) if fault == "too_many_retry_after" else None)
    assert (f"api_key:{KEY}" in details) == (fault in ("expired_key", "forbidden"))
    assert met[fault].line["status"] == error.code and met[fault].line["sent"]


@pytest.mark.parametrize("fault", NO_ANSWER)
def test_faults_of_the_connection_and_of_what_is_no_answer(met: dict[str, Met], fault: str) -> None:
    assert isinstance(met[fault].error, NO_ANSWER[fault])
    assert met[fault].line["sent"] == (fault in ("not_json", "truncated_base64"))
    assert met[fault].line["image_sha256"] is None


@pytest.mark.parametrize("fault", REASONS)
def test_finish_reasons(met: dict[str, Met], fault: str) -> None:
    candidate = met[fault].answer.candidates[0]
    assert candidate.finish_reason.value == REASONS[fault]
    assert not (candidate.content and candidate.content.parts)
    assert met[fault].answer.response_id and met[fault].answer.usage_metadata.thoughts_token_count  # billed


def test_finish_messages_are_sent_and_the_sdk_drops_them() -> None:
    body = json.loads(answer(Asked(MODEL, "x", 1, 0, None, thoughts=False), Fault.FUTURE_REASON, 1, canned=True).text)
    assert "finishMessage" in body["candidates"][0]


@pytest.mark.parametrize("fault", sorted(WITHOUT_IMAGE))
def test_answers_without_an_image(met: dict[str, Met], fault: str) -> None:
    response = met[fault].answer
    assert response.usage_metadata.prompt_token_count and response.response_id
    assert met[fault].line["image_sha256"] is None and met[fault].line["sent"]
    if fault in ("no_candidates", "prompt_blocked"):
        assert not response.candidates
        blocked = response.prompt_feedback and response.prompt_feedback.block_reason.value
        assert blocked == ("PROHIBITED_CONTENT" if fault == "prompt_blocked" else None)
        return
    candidate = response.candidates[0]
    assert candidate.finish_reason == "STOP" and candidate.content.role == "model"
    parts = candidate.content.parts or []
    kinds = [("thought" if part.thought else "", "image" if part.inline_data else "text") for part in parts]
    thoughts = [("thought", "text"), ("thought", "image")]
    assert kinds == {"no_image": [("", "text")], "no_parts": [], "only_thoughts": thoughts}[fault]


@pytest.mark.parametrize("fault", sorted(GOOD))
def test_images_that_a_client_should_take(met: dict[str, Met], fault: str) -> None:
    response = met[fault].answer
    image = final(response)
    height, width, _ = images.decode(image).shape
    assert (width, height) == {"other_size": (32, 24), "other_aspect": (64, 27)}.get(fault, (64, 48))
    assert met[fault].line["image_sha256"] == sha256_of(image)
    assert len(found(response)) == (2 if fault == "two_images" else 1)
    kind = "jpg" if fault == "jpeg_as_png" else "png"
    assert images.read_header(image).extension == kind and found(response)[-1].inline_data.mime_type == "image/png"


@pytest.mark.parametrize("fault", sorted(BAD_IMAGE))
def test_images_that_nobody_can_use(met: dict[str, Met], fault: str) -> None:
    image = final(met[fault].answer)
    assert image.startswith(b"\x89PNG") and met[fault].line["image_sha256"] is None
    with pytest.raises(images.ImageError, match="megapixels" if fault == "bomb_image" else "cannot be decoded"):
        images.decode(image)
    if fault == "bomb_image":
        assert len(image) < 500 and image[16:24] == (60_000).to_bytes(4) * 2


def test_a_huge_body_is_as_long_as_it_says_and_no_image(met: dict[str, Met]) -> None:
    outcome = met["huge_body"]
    assert len(final(outcome.answer)) == HUGE // 4 * 3
    assert outcome.line["sent"] and outcome.line["image_sha256"] is None


@pytest.mark.parametrize("kind", ["flat", "noise", "ramp"])
def test_a_damaged_image_never_decodes(kind: str) -> None:
    from banana100.dry_run.pictures import _corrupt

    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    pixels = {"flat": np.full((64, 64, 3), 90, np.uint8), "noise": noise, "ramp": picture()}[kind]
    damaged = _corrupt(images.encode_png(pixels))
    assert images.read_header(damaged).extension == "png"
    with pytest.raises(images.ImageError):
        images.decode(damaged)


def test_scripts_give_their_sequence_and_then_their_rates(tmp_path: Path) -> None:
    script = Script.of({"seed": 1, "rates": {"hang": 0.25}, "sequence": ["too_many", "none"]})
    (tmp_path / "script.json").write_text(script.to_json())
    assert Script.load(tmp_path / "script.json") == script
    one, two = (Draws(script) for _ in range(2))
    drawn = [one.next() for _ in range(4002)]
    assert drawn == [two.next() for _ in range(4002)] and drawn[:2] == ["too_many", "none"]
    assert set(drawn[2:]) == {"hang", "none"} and 0.2 < drawn.count("hang") / 4000 < 0.3


@pytest.mark.parametrize("wrong", [{"rates": {"x": 0.1}}, {"sequence": ["x"]}, {"rates": {"hang": 2}}, {"spare": 1}])
def test_a_wrong_script_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Script.of(wrong)


# --- the log


def test_the_log_tells_what_was_asked_and_answered(api: Api) -> None:
    response = api.ask(part(), "Replicate this.")
    line = api.last()
    assert line | {"n": 0, "at": 0, "digest": ""} == {
        "n": 0, "at": 0, "digest": "", "model": MODEL, "prompt": "Replicate this.", "turns": 1, "images": 1,
        "parent_sha256": sha256_of(PARENT), "fault": "none", "image_sha256": sha256_of(final(response)), "status": 200,
        "sent": True, "batch": None,
    }  # fmt: skip
    body = with_parts(IMAGE, {"text": "x"})
    digests = []
    for _ in range(2):
        api.raw(body)
        digests.append(api.last()["digest"])
    assert digests == [checks.digest(MODEL, body)] * 2 and line["digest"] != digests[0]
    assert abs(api.last()["at"] - time.time()) < 60 and KEY not in api.log.read_text()


def test_an_answer_that_nobody_waited_for_is_not_sent(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with running(key=KEY, log=log, latency=5, images="canned") as url:
        api = Api(url, log)

        async def hurried(client: Any) -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.models.generate_content(model=MODEL, contents="x"), 0.4)

        api.call(hurried)
    assert [(line["sent"], line["image_sha256"]) for line in api.lines()] == [(False, None)]


# --- files and batch jobs


def body_of(text: str) -> dict[str, Any]:
    return with_parts(IMAGE, {"text": text}, role="user")


async def submitted(client: Any, tmp_path: Path, bodies: dict[str, Any], label: str = "label") -> types.BatchJob:
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps({"key": key, "request": body}) + "\n" for key, body in bodies.items()))
    config = types.UploadFileConfig(mime_type="application/jsonl", display_name=label)
    file = await client.files.upload(file=path, config=config)
    assert (file.display_name, file.size_bytes, file.state, file.source) == (
        label, path.stat().st_size, "ACTIVE", "UPLOADED",
    )  # fmt: skip
    assert base64.b64decode(file.sha256_hash).decode() == sha256_of(path.read_bytes())
    assert (await client.files.get(name=file.name)).uri == file.uri
    return await client.batches.create(
        model=MODEL, src=file.name, config=types.CreateBatchJobConfig(display_name=label)
    )


async def ended(client: Any, job: types.BatchJob) -> tuple[types.BatchJob, list[str]]:
    states = [job.state.value]
    while states[-1] in ("JOB_STATE_PENDING", "JOB_STATE_RUNNING"):
        await asyncio.sleep(0.02)
        job = await client.batches.get(name=job.name)
        states.append(job.state.value)
    return job, list(dict.fromkeys(states))


def test_a_job_with_a_file_answers_in_a_file_in_another_order(api: Api, tmp_path: Path) -> None:
    keys = [f"request-{number}" for number in range(20)]

    async def run(client: Any) -> tuple[types.BatchJob, list[str], bytes, types.File]:
        job, states = await ended(client, await submitted(client, tmp_path, {key: body_of(key) for key in keys}))
        target = tmp_path / "answers.jsonl"
        await client.files.download(file=job.dest.file_name, destination=target)
        assert target.read_bytes() == await client.files.download(file=job.dest.file_name)
        return job, states, target.read_bytes(), await client.files.get(name=job.dest.file_name)

    job, states, content, file = api.call(run)
    assert states == ["JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED"]
    assert job.model == f"models/{MODEL}" and job.end_time >= job.create_time and job.display_name == "label"
    assert file.source == "GENERATED" and file.size_bytes == len(content) and file.download_uri
    answers = [json.loads(line) for line in content.splitlines()]
    assert [one["key"] for one in answers] != keys and {one["key"] for one in answers} == set(keys)
    lines = {line["prompt"]: line for line in api.lines() if line.get("batch") == job.name.split("/")[1]}
    for one in answers:
        response = types.GenerateContentResponse.model_validate(one["response"])
        assert lines[one["key"]]["image_sha256"] == sha256_of(final(response)) and lines[one["key"]]["sent"]
        assert lines[one["key"]]["digest"] == checks.digest(MODEL, body_of(one["key"]))
    numbers = [lines[key]["n"] for key in keys]
    assert numbers == list(range(numbers[0], numbers[0] + 20))  # as asked
    assert {"job": job.name.split("/")[1], "display_name": "label", "requests": 20} in api.lines()


def test_a_job_with_inline_requests_answers_in_order_and_drops_metadata(api: Api) -> None:
    sizes = [(20, 30), (40, 20), (30, 30)]
    requests = [
        types.InlinedRequest(
            contents=[types.UserContent([part(images.encode_png(picture(*size))), "Replicate."])],
            metadata={"key": str(size)}, model=MODEL,
            config=types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True)),
        )
        for size in sizes
    ]  # fmt: skip

    async def run(client: Any) -> types.BatchJob:
        return (await ended(client, await client.batches.create(model=MODEL, src=requests)))[0]

    answers = api.call(run).dest.inlined_responses
    assert [images.decode(final(one.response)).shape[:2] for one in answers] == sizes
    assert all(one.metadata is None and len(one.response.candidates[0].content.parts) == 3 for one in answers)


def test_what_a_job_cannot_take_is_an_error_of_that_request_alone(api: Api, tmp_path: Path) -> None:
    bodies = {"good": body_of("x"), "bad": body_of("x") | {"tools": []}, "none": None}

    async def run(client: Any) -> bytes:
        job, _ = await ended(client, await submitted(client, tmp_path, bodies))
        return await client.files.download(file=job.dest.file_name)

    answers = {one["key"]: one for one in map(json.loads, api.call(run).splitlines())}
    assert "response" in answers["good"] and answers["bad"]["error"]["code"] == answers["none"]["error"]["code"] == 3


def test_jobs_are_listed_in_pages_newest_first(api: Api) -> None:
    async def run(client: Any) -> list[list[str]]:
        for number in range(5):
            config = types.CreateBatchJobConfig(display_name=f"listed-{number}")
            await client.batches.create(model=MODEL, src=[types.InlinedRequest(contents="x")], config=config)
        pager = await client.batches.list(config=types.ListBatchJobsConfig(page_size=2))
        pages = [[job.display_name for job in pager.page]]
        # one that comes in between moves nothing
        await client.batches.create(model=MODEL, src=[types.InlinedRequest(contents="x")])
        for _ in range(2):
            pages.append([job.display_name for job in await pager.next_page()])
        return pages

    pages = api.call(run)
    assert [name for page in pages for name in page][:5] == [f"listed-{number}" for number in (4, 3, 2, 1, 0)]
    assert [len(page) for page in pages[:2]] == [2, 2]


def test_a_cancelled_job_ends_without_answers(tmp_path: Path) -> None:
    with running(key=KEY, job_seconds=30, images="canned") as url:
        api = Api(url, tmp_path / "none")

        async def run(client: Any) -> types.BatchJob:
            job = await submitted(client, tmp_path, {"a": body_of("x")})
            await client.batches.cancel(name=job.name)
            return await client.batches.get(name=job.name)

        job = api.call(run)
    assert job.state == "JOB_STATE_CANCELLED" and job.dest is None


def test_faults_of_single_requests_in_a_job(tmp_path: Path) -> None:
    wanted = ["too_many", "unavailable", "image_safety", "hang", "none", "server_error", "corrupt_image", "two_images"]
    log = tmp_path / "log.jsonl"
    with running(key=KEY, log=log, job_seconds=0.05, script={"sequence": wanted}) as url:
        api = Api(url, log)

        async def run(client: Any) -> bytes:
            job, _ = await ended(client, await submitted(client, tmp_path, {name: body_of(name) for name in wanted}))
            return await client.files.download(file=job.dest.file_name)

        answers = {one["key"]: one for one in map(json.loads, api.call(run).splitlines())}
    codes = {name: one["error"]["code"] for name, one in answers.items() if "error" in one}
    assert codes == {"too_many": 8, "unavailable": 14, "server_error": 13}
    assert answers["image_safety"]["response"]["candidates"][0]["finishReason"] == "IMAGE_SAFETY"
    faults = {line["prompt"]: line["fault"] for line in api.lines() if "n" in line}
    assert faults == {name: "none" if name in NOT_IN_BATCHES else name for name in wanted}
    assert {line["prompt"] for line in api.lines() if line.get("image_sha256")} == {"hang", "none", "two_images"}


def test_jobs_and_files_that_are_not_there(api: Api, tmp_path: Path) -> None:
    async def run(client: Any) -> None:
        with pytest.raises(errors.ClientError, match="404 NOT_FOUND"):
            await client.batches.get(name="batches/none")
        with pytest.raises(errors.ClientError, match="404 NOT_FOUND"):
            await client.batches.create(model="gemini-9", src="files/none")
        for wrong in (client.files.get(name="files/none"), client.batches.create(model=MODEL, src="files/none")):
            with pytest.raises(errors.ClientError, match="403 PERMISSION_DENIED"):
                await wrong
        (tmp_path / "a.txt").write_text("a")
        file = await client.files.upload(file=tmp_path / "a.txt")
        with pytest.raises(errors.ClientError, match="Only generated files"):
            await client.files.download(file=file.name)
        with pytest.raises(errors.ClientError, match="holds no requests"):
            await client.batches.create(model=MODEL, src=[])

    api.call(run)


def test_a_file_comes_in_pieces(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from google.genai import _api_client

    monkeypatch.setattr(_api_client, "CHUNK_SIZE", 1000)
    path = tmp_path / "large.txt"
    path.write_bytes(os.urandom(3456))
    file = api.call(lambda client: client.files.upload(file=path))
    assert file.size_bytes == 3456 and base64.b64decode(file.sha256_hash).decode() == sha256_of(path.read_bytes())


# --- the command


def started(*options: str, **environment: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "banana100.dry_run.server", *options]
    return subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_it_says_one_line_and_ends_by_itself_on_a_signal_and_after_enough() -> None:
    last = started("--seconds", "0.5", GEMINI_API_KEY=KEY)
    told = started(GEMINI_API_KEY=KEY)
    enough = started("--max-requests", "2", "--images", "canned", GEMINI_API_KEY=KEY)
    url = told.stdout.readline().strip()
    told.send_signal(signal.SIGTERM)
    api = Api(enough.stdout.readline().strip(), Path("none"))
    for _ in range(2):
        api.ask()
    for process in (last, told, enough):
        out, err = process.communicate(timeout=10)
        assert process.returncode == 0 and err == ""
        assert out.count("\n") == (1 if process is last else 0)
    assert url.startswith("http://127.0.0.1:")


def test_it_ends_with_its_parent() -> None:
    code = (
        "import os, subprocess, sys\n"
        "server = subprocess.Popen([sys.executable, '-m', 'banana100.dry_run.server'], stdout=subprocess.PIPE)\n"
        "print(server.pid, server.stdout.readline(), flush=True)\n"
        "os._exit(0)"
    )
    environment = os.environ | {"GEMINI_API_KEY": KEY}
    parent = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(parent.stdout.split()[0])).wait(timeout=10)


def test_it_does_not_start_without_a_key_or_with_a_wrong_script(tmp_path: Path) -> None:
    (tmp_path / "wrong.json").write_text('{"sequence": ["earthquake"]}')
    processes = [started(GEMINI_API_KEY=""), started("--faults", str(tmp_path / "wrong.json"), GEMINI_API_KEY=KEY)]
    for process, words in zip(processes, ("GEMINI_API_KEY is not set", "earthquake"), strict=True):
        out, err = process.communicate(timeout=20)
        assert process.returncode == 1 and out == "" and words in err and "Traceback" not in err


def test_pillow_reads_what_is_sent() -> None:
    made = answer(Asked(MODEL, "x", 1, 1, PARENT, thoughts=False), Fault.NONE, 1, canned=False)
    data = json.loads(made.text)["candidates"][0]["content"]["parts"][0]["inlineData"]["data"]
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (64, 48)
