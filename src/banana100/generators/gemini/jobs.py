"""The Batch API: requests in a file, answers in another, at a share of the price and in up to a day."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from google import genai
from google.genai import errors as api_errors
from google.genai import types

from banana100.generators.base import Answer, Refused, Rejected, Turn, Unavailable
from banana100.generators.gemini import errors, messages
from banana100.generators.gemini.client import without_key
from banana100.generators.gemini.prices import PriceList
from banana100.lineage.identity import Request

_DONE = {types.JobState.JOB_STATE_SUCCEEDED, types.JobState.JOB_STATE_PARTIALLY_SUCCEEDED}
_ENDED = _DONE | {
    types.JobState.JOB_STATE_FAILED,
    types.JobState.JOB_STATE_CANCELLED,
    types.JobState.JOB_STATE_EXPIRED,
}


class Jobs:
    """Jobs of one model; see `BatchBackend`."""

    def __init__(self, client: genai.Client, model: str, prices: PriceList) -> None:
        self._client, self._model, self._prices = client.aio, model, prices

    async def submit(self, label: str, asked: Sequence[tuple[Request, Sequence[Turn]]]) -> str:
        """Start a job; see `BatchBackend.submit`."""
        with tempfile.TemporaryDirectory() as folder, _translated(self._model):
            path = Path(folder) / "requests.jsonl"
            with path.open("w", encoding="utf-8") as file:
                for request, turns in asked:
                    file.write(json.dumps({"key": request.id, "request": _body(request, turns)}) + "\n")
            uploaded = await self._client.files.upload(
                file=path, config=types.UploadFileConfig(mime_type="application/jsonl", display_name=label)
            )
            job = await self._client.batches.create(
                model=self._model, src=uploaded.name, config=types.CreateBatchJobConfig(display_name=label)
            )
        return str(job.name)

    async def find(self, label: str) -> str | None:
        """The name of the job with a label; see `BatchBackend.find`."""
        with _translated(self._model):
            async for job in await self._client.batches.list(config=types.ListBatchJobsConfig(page_size=100)):
                if job.display_name == label:
                    return str(job.name)
        return None

    async def results(self, name: str, requests: Mapping[str, Request]) -> dict[str, Answer | Exception] | None:
        """What came of a job's requests; see `BatchBackend.results`."""
        with tempfile.TemporaryDirectory() as folder, _translated(self._model):
            try:
                job = await self._client.batches.get(name=name)
            except api_errors.APIError as error:
                if error.code != 404:
                    raise
                return dict.fromkeys(requests, Unavailable(f"{name} is gone, with its answers", billed=True))
            if job.state not in _ENDED:
                return None
            done = job.state in _DONE
            if done and not (job.dest and job.dest.file_name):
                raise Unavailable(f"{name} has succeeded, and its file is not there yet")
            found: dict[str, Answer | Exception] = {}
            if job.dest and job.dest.file_name:
                path = Path(folder) / "answers.jsonl"
                await self._client.files.download(file=job.dest.file_name, destination=path)
                with path.open(encoding="utf-8") as file:
                    for line in file:
                        self._take(line, requests, found)
        state = job.state.value if job.state else "ended"
        why = without_key(f"{name} {state}: {job.error.message if job.error else 'no answer in its file'}")
        missing = Unavailable(why, billed=done)
        return {request_id: found.get(request_id, missing) for request_id in requests}

    def _take(self, line: str, requests: Mapping[str, Request], found: dict[str, Answer | Exception]) -> None:
        """Read one line of a file of answers."""
        try:
            content = json.loads(line)
            request = requests.get(content["key"])
        except (ValueError, KeyError, TypeError):
            return  # names no request: the one without an answer is asked again
        if request:
            found[request.id] = self._outcome(content, request)

    def _outcome(self, content: dict[str, Any], request: Request) -> Answer | Exception:
        error = content.get("error")
        if error and not isinstance(error, dict):
            return Unavailable(without_key(f"error {error}")[:300])
        if error:
            code = errors.RPC_CODES.get(error.get("code"), error.get("code") or 500)
            return errors.of_code(code, error.get("status"), error.get("message"), error, self._model)
        try:
            return messages.read(messages.parse(content["response"]), request.config, self._prices, {})
        except Refused as refused:
            return refused
        except (KeyError, ValueError, AttributeError) as error:
            usd = self._prices.estimate(request, 1)
            return messages.unreadable(f"not an answer of the API ({type(error).__name__})", usd, {})


class _translated:
    """Turn the SDK's exceptions into ours."""

    def __init__(self, model: str) -> None:
        self._model = model

    def __enter__(self) -> None: ...

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if isinstance(error, api_errors.APIError):
            raise errors.of_api(error, self._model) from None
        if isinstance(error, httpx.RequestError):
            raise errors.of_transport(error) from None
        if isinstance(error, api_errors.UnknownApiResponseError | KeyError):
            raise Unavailable(without_key(f"not an answer of the API: {error}")[:300]) from None
        if isinstance(error, Exception) and not isinstance(error, Unavailable | Rejected):
            raise errors.unexpected(error) from None


def _body(request: Request, turns: Sequence[Turn]) -> dict[str, Any]:
    """A request as it stands in a file: what the SDK would send."""

    def plain(model: Any) -> Any:
        return model.model_dump(mode="json", by_alias=True, exclude_none=True)

    settings = plain(messages.settings(request.config))
    settings.pop("automaticContinuation")  # the SDK's own
    return {"contents": [plain(content) for content in messages.contents(turns)], "generationConfig": settings}
