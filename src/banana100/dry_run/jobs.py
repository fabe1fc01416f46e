"""Uploaded files and batch jobs of the loopback server: the wire format of v1beta, contents on the disk.

A job's inline answers are told by `get` alone, not in lists, where they would be hundreds of megabytes.
"""

import asyncio
import base64
import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from banana100.dry_run.faults import ApiError, invalid

MAX_KEPT = 10_000
MAX_UPLOAD = 512 * 2**20

_SIDE_BY_SIDE = 8  # requests of one job answered at a time
_PENDING = 0.3  # share of a job's time before it begins
_RPC = "type.googleapis.com/google.ai.generativelanguage.v1main"

# Answers one request of a job, as a JSON object with `response` or `error`.
Answer = Callable[[], Awaitable[bytes]]

# Takes a job's id, its model and all its requests, in the order asked; the answers are made when called for.
Begin = Callable[[str, str, Sequence[Any]], Sequence[Answer]]


def now() -> str:
    """The time as Google writes it."""
    return _stamp(datetime.now(UTC))


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass
class Stored:
    """A file."""

    name: str
    path: Path
    mime_type: str
    display_name: str = ""
    generated: bool = False
    size: int = 0
    sha256: Any = field(default_factory=hashlib.sha256)
    created: str = field(default_factory=now)

    def resource(self, base: str) -> dict[str, Any]:
        """What the API tells of it."""
        content = {
            "name": self.name,
            "displayName": self.display_name,
            "mimeType": self.mime_type,
            "sizeBytes": str(self.size),
            "createTime": self.created,
            "updateTime": self.created,
            "expirationTime": _stamp(datetime.now(UTC) + timedelta(hours=48)),
            "sha256Hash": base64.b64encode(self.sha256.hexdigest().encode()).decode(),
            "uri": f"{base}/v1beta/{self.name}",
            "state": "ACTIVE",
            "source": "GENERATED" if self.generated else "UPLOADED",
        }
        return content | ({"downloadUri": f"{content['uri']}:download?alt=media"} if self.generated else {})


class Files:
    """The File API.

    Args:
        folder: where contents lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Stored] = {}
        self._uploads: dict[str, Stored] = {}

    def routes(self) -> list[web.RouteDef]:
        """Where the API has it."""
        return [
            web.post("/upload/v1beta/files", self._upload),
            web.get("/v1beta/files/{id:[^:/]+}:download", self._redirect),
            web.get("/download/v1beta/files/{id:[^:/]+}:download", self._download),
            web.get("/v1beta/files/{id:[^:/]+}", self._get),
        ]

    def new(self, mime_type: str, name: str | None = None, **more: Any) -> Stored:
        """An empty file, not to be found by its name before it is given to `keep`."""
        name = name or f"files/{secrets.token_hex(6)}"
        return Stored(name, self._folder / secrets.token_hex(8), mime_type, **more)

    def keep(self, file: Stored) -> None:
        """Let a file be found; the oldest one gives way."""
        self._files[file.name] = file
        if len(self._files) > MAX_KEPT:
            oldest = self._files.pop(next(iter(self._files)))
            oldest.path.unlink(missing_ok=True)

    def find(self, name: str) -> Stored:
        """The file of a name.

        Raises:
            ApiError: there is none.
        """
        if file := self._files.get(name):
            return file
        # Google's words: it does not tell files that are another's from those that are not there
        raise ApiError(403, f"You do not have permission to access the File {name} or it may not exist.")

    async def _upload(self, request: web.Request) -> web.Response:
        if upload_id := request.query.get("upload_id"):
            return await self._receive(request, upload_id)
        if request.headers.get("X-Goog-Upload-Protocol") != "resumable":
            raise invalid("Only the resumable protocol is simulated.")
        if int(request.headers.get("X-Goog-Upload-Header-Content-Length", 0)) > MAX_UPLOAD:
            raise invalid(f"Files are limited to {MAX_UPLOAD} bytes.")
        asked = (json.loads(await request.read() or b"{}") or {}).get("file", {})
        mime_type = request.headers.get("X-Goog-Upload-Header-Content-Type", "application/octet-stream")
        file = self.new(
            mime_type, asked.get("name"), display_name=asked.get("displayName") or asked.get("display_name", "")
        )
        file.path.touch()
        upload_id = secrets.token_urlsafe(24)
        self._uploads[upload_id] = file
        while len(self._uploads) > MAX_KEPT:
            self._uploads.pop(next(iter(self._uploads))).path.unlink(missing_ok=True)
        url = f"{_base(request)}/upload/v1beta/files?upload_id={upload_id}&upload_protocol=resumable"
        headers = {"X-Goog-Upload-URL": url, "X-Goog-Upload-Status": "active"}
        return web.Response(headers=headers | {"X-Goog-Upload-Chunk-Granularity": "262144"})

    async def _receive(self, request: web.Request, upload_id: str) -> web.Response:
        """A piece of a file; its URL is all the proof that Google asks for, the SDK sends no key here."""
        commands = {word.strip() for word in request.headers.get("X-Goog-Upload-Command", "").split(",")}
        file = self._uploads.get(upload_id)
        if file is None:
            raise ApiError(404, "Upload not found.")
        received = {"X-Goog-Upload-Status": "active", "X-Goog-Upload-Size-Received": str(file.size)}
        if "query" in commands:
            return web.Response(headers=received)
        if int(request.headers.get("X-Goog-Upload-Offset", 0)) != file.size:
            raise invalid(f"The offset is not the {file.size} bytes received so far.")
        with file.path.open("ab") as stream:
            async for piece in request.content.iter_chunked(2**20):
                file.size += len(piece)
                if file.size > MAX_UPLOAD:
                    raise invalid(f"Files are limited to {MAX_UPLOAD} bytes.")
                file.sha256.update(piece)
                stream.write(piece)
        if "finalize" not in commands:
            return web.Response(headers=received | {"X-Goog-Upload-Size-Received": str(file.size)})
        self.keep(self._uploads.pop(upload_id))
        return web.json_response({"file": file.resource(_base(request))}, headers={"X-Goog-Upload-Status": "final"})

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self.find(f"files/{request.match_info['id']}").resource(_base(request)))

    async def _redirect(self, request: web.Request) -> web.Response:
        """Google sends downloads on to another path."""
        return web.Response(status=302, headers={"Location": f"/download{request.path_qs}"})

    async def _download(self, request: web.Request) -> web.StreamResponse:
        file = self.find(f"files/{request.match_info['id']}")
        if not file.generated or request.query.get("alt") != "media":
            raise invalid("Only generated files can be downloaded, with alt=media.")
        return web.FileResponse(file.path, headers={"Content-Type": file.mime_type})


@dataclass
class Job:
    """A batch job."""

    id: str
    model: str
    display_name: str
    count: int
    inline: bool
    state: str = "PENDING"
    created: str = field(default_factory=now)
    updated: str = field(default_factory=now)
    failed: int = 0
    output: Stored | None = None
    task: "asyncio.Task[None] | None" = None

    @property
    def done(self) -> bool:
        """Whether it will not change any more."""
        return self.state not in ("PENDING", "RUNNING")

    def move(self, state: str) -> None:
        """Put it into another state."""
        self.state, self.updated = state, now()

    def operation(self, whole: bool = True) -> dict[str, Any]:
        """What the API tells of it.

        Args:
            whole: with its inline answers.
        """
        name = f"batches/{self.id}"
        metadata: dict[str, Any] = {
            "@type": f"{_RPC}.GenerateContentBatch",
            "name": name,
            "model": f"models/{self.model}",
            "displayName": self.display_name,
            "createTime": self.created,
            "updateTime": self.updated,
            "state": f"BATCH_STATE_{self.state}",
            "batchStats": self._stats(),
        }
        operation = {"name": name, "metadata": metadata}
        if not self.done:
            return operation
        metadata["endTime"] = self.updated
        operation["done"] = True
        if self.state == "CANCELLED":
            return operation | {"error": {"code": 1, "message": "The batch was cancelled."}}
        if self.output and (whole or not self.inline):
            metadata["output"] = self._output(self.output)
            operation["response"] = {"@type": f"{_RPC}.GenerateContentBatchOutput"} | metadata["output"]
        return operation

    def _stats(self) -> dict[str, str]:
        if self.state != "SUCCEEDED":
            return {"requestCount": str(self.count), "pendingRequestCount": str(self.count)}
        good = {"requestCount": str(self.count), "successfulRequestCount": str(self.count - self.failed)}
        return good | ({"failedRequestCount": str(self.failed)} if self.failed else {})

    def _output(self, output: Stored) -> dict[str, Any]:
        if not self.inline:
            return {"responsesFile": output.name}
        answers = [json.loads(line) for line in output.path.read_bytes().splitlines()]
        return {"inlinedResponses": {"inlinedResponses": answers}}


class Jobs:
    """The Batch API.

    Args:
        files: where requests come from and answers go.
        seconds: how long a job takes, at least.
        begin: takes a job's id, model and requests; returns how to answer each.
        known: refuses a model that there is not.
        log: is told of each job.
    """

    def __init__(
        self,
        files: Files,
        seconds: float,
        *,
        begin: Begin,
        known: Callable[[str, str], None],
        log: Callable[[dict[str, Any]], None],
    ) -> None:
        self._files, self._seconds = files, seconds
        self._begin, self._known, self._log = begin, known, log
        self._jobs: dict[str, Job] = {}

    def routes(self) -> list[web.RouteDef]:
        """Where the API has it."""
        return [
            web.post("/v1beta/models/{model:[^:/]+}:batchGenerateContent", self._create),
            web.get("/v1beta/batches", self._list),
            web.get("/v1beta/batches/{id:[^:/]+}", self._get),
            web.post("/v1beta/batches/{id:[^:/]+}:cancel", self._cancel),
        ]

    async def close(self) -> None:
        """End all jobs as they are."""
        tasks = [job.task for job in self._jobs.values() if job.task and not job.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _create(self, request: web.Request) -> web.Response:
        model = request.match_info["model"]
        self._known(model, "batchGenerateContent")
        try:
            batch = json.loads(await request.read())["batch"]
            source, display_name = batch["inputConfig"], batch.get("displayName", "")
            inline = "requests" in source
            items = self._inline(source) if inline else await asyncio.to_thread(self._lines, source["fileName"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise invalid(f"Invalid batch: {type(error).__name__} {error}.", "batch") from None
        if not items:
            raise invalid("The batch holds no requests.", "batch.inputConfig")
        job = Job(secrets.token_hex(12), model, display_name, len(items), inline)
        self._jobs[job.id] = job
        if len(self._jobs) > MAX_KEPT:
            self._drop(next(iter(self._jobs)))
        self._log({"job": job.id, "display_name": display_name, "requests": len(items)})
        answers = self._begin(job.id, model, [item.get("request") for item in items])
        keys = None if job.inline else [item.get("key") for item in items]
        job.task = asyncio.create_task(self._run(job, answers, keys))
        return web.json_response(job.operation())

    def _inline(self, source: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"request": item["request"]} for item in source["requests"]["requests"]]

    def _lines(self, name: str) -> list[dict[str, Any]]:
        """A file's requests; one that is no JSON is a request of its own, and answered with an error."""
        items = []
        with self._files.find(name).path.open("rb") as stream:
            for line in filter(bytes.strip, stream):
                try:
                    item = json.loads(line)
                except ValueError:
                    item = None
                items.append(item if isinstance(item, dict) else {})
        return items

    async def _run(self, job: Job, answers: Sequence[Answer], keys: Sequence[Any] | None) -> None:
        """Take a job through its states."""
        try:
            await asyncio.sleep(self._seconds * _PENDING)
            job.move("RUNNING")
            rest = asyncio.create_task(asyncio.sleep(self._seconds * (1 - _PENDING)))
            output = self._files.new("application/jsonl", f"files/batch-{job.id}", generated=True)
            order = list(range(len(answers)))
            if keys is not None:
                order.reverse()  # answers in a file have no order
            with output.path.open("wb") as stream:
                for start in range(0, len(order), _SIDE_BY_SIDE):
                    some = order[start : start + _SIDE_BY_SIDE]
                    for index, made in zip(some, await asyncio.gather(*(answers[i]() for i in some)), strict=True):
                        job.failed += made.startswith(b'{"error"')
                        line = (
                            made if keys is None else made[:-1] + b', "key": ' + json.dumps(keys[index]).encode() + b"}"
                        )
                        stream.write(line + b"\n")
                        output.sha256.update(line + b"\n")
                output.size = stream.tell()
            await rest
            if keys is not None:
                self._files.keep(output)
            job.output = output
            job.move("SUCCEEDED")
        except asyncio.CancelledError:
            job.move("CANCELLED")

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._find(request).operation())

    async def _cancel(self, request: web.Request) -> web.Response:
        job = self._find(request)
        if job.task and not job.done:
            job.task.cancel()
            await asyncio.wait([job.task])
        return web.json_response({})

    async def _list(self, request: web.Request) -> web.Response:
        """Newest first; a page begins where the last one ended, whatever was submitted since."""
        names = list(reversed(self._jobs))
        token = request.query.get("pageToken")
        try:
            size = min(int(request.query.get("pageSize") or 50), 1000)
            start = names.index(base64.urlsafe_b64decode(token).decode()) + 1 if token else 0
        except ValueError:
            raise invalid("Invalid page size or token.") from None
        page = names[start : start + max(size, 1)]
        content: dict[str, Any] = (
            {"operations": [self._jobs[name].operation(whole=False) for name in page]} if page else {}
        )
        if page and page[-1] != names[-1]:
            content["nextPageToken"] = base64.urlsafe_b64encode(page[-1].encode()).decode()
        return web.json_response(content)

    def _find(self, request: web.Request) -> Job:
        if job := self._jobs.get(request.match_info["id"]):
            return job
        raise ApiError(404, "Requested entity was not found.")

    def _drop(self, name: str) -> None:
        job = self._jobs.pop(name)
        if job.task:
            job.task.cancel()
        if job.inline and job.output:
            job.output.path.unlink(missing_ok=True)


def _base(request: web.Request) -> str:
    return f"http://{request.host}"
