"""The loopback server: Google's Gemini API (generativelanguage v1beta), spoken to one machine, without a model.

    python -m banana100.dry_run.server [--faults FILE] [--log FILE] ...

It takes the requests that the real client sends, refuses those that Google would refuse, and answers with pictures that
are simulated. It listens on 127.0.0.1 alone, takes the key in GEMINI_API_KEY alone, prints its URL as one line, and
stops after `--seconds`, with its parent process, or on SIGTERM.
"""

import argparse
import asyncio
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from banana100.dry_run import faults
from banana100.dry_run.checks import camel, check, digest, known
from banana100.dry_run.faults import ApiError, Draws, Fault, Script, invalid
from banana100.dry_run.jobs import Answer, Files, Jobs
from banana100.dry_run.pictures import Asked, answer
from banana100.files import sha256_of
from banana100.workers import worker_count

KEY = "GEMINI_API_KEY"
MAX_REQUEST = 64 * 2**20

_JSON = "application/json"
_PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Please sign in to the network.</body></html>"

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Log:
    """What was asked and answered, in lines of JSON, each on the disk at once.

    Args:
        path: is appended to; None keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1) if path else None

    def write(self, line: Mapping[str, Any]) -> None:
        """Add a line."""
        if self._file:
            self._file.write(json.dumps(line) + "\n")


class Server:
    """The API.

    Args:
        options: of the command line.
        script: which faults come.
        key: the one that is taken.
        folder: for files, which may be large.
    """

    def __init__(self, options: argparse.Namespace, script: Script, key: str, folder: Path) -> None:
        self._options, self._key = options, key
        self._draws, self._log = Draws(script), Log(options.log)
        self._canned = options.images == "canned"
        self._count = self._finished = 0
        self._files = Files(folder)
        self._jobs = Jobs(self._files, options.job_seconds, begin=self._begin_job, known=known, log=self._log.write)
        self.stopped = asyncio.Event()

    def app(self) -> web.Application:
        """The application of aiohttp."""
        app = web.Application(client_max_size=MAX_REQUEST, middlewares=[self._guard])
        app.add_routes([web.post("/v1beta/models/{model:[^:/]+}:generateContent", self._generate)])
        app.add_routes([*self._files.routes(), *self._jobs.routes()])
        app.on_shutdown.append(self._close)
        return app

    async def _close(self, _: web.Application) -> None:
        await self._jobs.close()

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Take the right key alone, and put errors into Google's words."""
        try:
            sent = request.headers.get("x-goog-api-key")
            if sent != self._key and "upload_id" not in request.query:
                raise faults.wrong_key(sent) if sent else faults.no_key()
            return await handler(request)
        except ApiError as error:
            return _told(error)
        except web.HTTPRequestEntityTooLarge:
            return _told(_too_large())

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        line = self._new_line(None)
        model = request.match_info["model"]
        try:
            asked = self._read(model, await request.read(), line)
            line["fault"] = fault = self._draws.next()
            await asyncio.sleep(self._options.latency)
            if error := faults.error_of(fault, self._key, model):
                raise error
            return await self._answer(request, asked, fault, line)
        except ApiError as error:
            return await _send(request, _told(error), line)
        except web.HTTPRequestEntityTooLarge:
            return await _send(request, _told(_too_large()), line)
        finally:
            self._finish(line)

    def _read(self, model: str, body: bytes | Any, line: dict[str, Any]) -> Asked:
        """Check a request, as bytes or as JSON, and tell the log what it asks.

        Raises:
            ApiError: see `check`.
        """
        line["model"] = model
        try:
            content = camel(json.loads(body) if isinstance(body, bytes) else body)
        except ValueError as error:
            raise invalid(f"Invalid JSON payload received. {error}") from None
        line["digest"] = digest(model, content)
        asked = check(model, content)
        parent = sha256_of(asked.parent) if asked.parent else None
        line |= {"prompt": asked.prompt, "turns": asked.turns, "images": asked.images, "parent_sha256": parent}
        return asked

    async def _answer(
        self, request: web.Request, asked: Asked, fault: Fault, line: dict[str, Any]
    ) -> web.StreamResponse:
        if fault is Fault.HANG:
            await asyncio.sleep(self._options.hang_seconds)
            return _hang_up(request, web.Response())
        if fault is Fault.NOT_JSON:
            return await _send(request, web.Response(body=_PAGE, content_type="text/html"), line)
        if fault is Fault.HUGE_BODY:
            return await _flood(request, self._options.huge_bytes, line)
        made = await asyncio.to_thread(answer, asked, fault, line["n"], self._canned)
        if fault is Fault.RESET_MID_BODY:
            return await _break_off(request, made.text)
        if fault is Fault.TRICKLE:
            return await _trickle(request, made.text, self._options.hang_seconds)
        line["image_sha256"] = made.image_sha256
        return await _send(request, web.Response(body=made.text, content_type=_JSON, charset="utf-8"), line)

    def _begin_job(self, job: str, model: str, requests: Sequence[Any]) -> list[Answer]:
        """Give the requests of a job their numbers and faults, in the order in which they were asked."""
        return [self._item(model, body, self._new_line(job)) for body in requests]

    def _item(self, model: str, body: Any, line: dict[str, Any]) -> Answer:
        drawn = self._draws.next()
        if isinstance(body, dict):
            body.pop("model", None)  # which the SDK may repeat

        async def answered() -> bytes:
            try:
                asked = self._read(model, body, line)
                if drawn not in faults.NOT_IN_BATCHES:
                    line["fault"] = drawn
                if error := faults.error_of(line["fault"], self._key, model):
                    raise error
                made = await asyncio.to_thread(answer, asked, line["fault"], line["n"], self._canned)
                line.update(image_sha256=made.image_sha256, status=200, sent=True)
                return b'{"response": ' + made.text + b"}"
            except ApiError as error:
                line.update(status=error.code, sent=True)
                return b'{"error": ' + json.dumps(error.in_batch()).encode() + b"}"
            finally:
                self._finish(line)

        return answered

    def _new_line(self, job: str | None) -> dict[str, Any]:
        """The line of the log for the request that has just arrived."""
        self._count += 1
        nothing = dict.fromkeys(("digest", "model", "prompt", "turns", "images", "parent_sha256"))
        line = {"n": self._count, "at": round(time.time(), 6), **nothing, "fault": Fault.NONE}
        return line | {"image_sha256": None, "status": None, "sent": False, "batch": job}

    def _finish(self, line: Mapping[str, Any]) -> None:
        self._log.write(line)
        self._finished += 1
        if self._options.max_requests and self._finished >= self._options.max_requests:
            self.stopped.set()


def _told(error: ApiError) -> web.Response:
    return web.json_response(error.body(), status=error.code, headers=error.headers)


def _too_large() -> ApiError:
    return invalid(f"Request payload size exceeds the limit: {MAX_REQUEST} bytes.")


async def _send(request: web.Request, response: web.Response, line: dict[str, Any]) -> web.Response:
    """Send an answer whole, and note in the log's line whether somebody was there to take it."""
    line["status"] = response.status
    with suppress(ConnectionError):
        await response.prepare(request)
        await response.write_eof()
        line["sent"] = request.transport is not None and not request.transport.is_closing()
    return response


async def _flood(request: web.Request, size: int, line: dict[str, Any]) -> web.StreamResponse:
    """An answer with an image of `size` bytes of base64, whose length nobody tells before."""
    response = web.StreamResponse(headers={"Content-Type": f"{_JSON}; charset=utf-8"})
    line["status"] = 200
    with suppress(ConnectionError):
        await response.prepare(request)
        part = b'{"inlineData": {"mimeType": "image/png", "data": "'
        await response.write(b'{"candidates": [{"content": {"role": "model", "parts": [' + part)
        piece = b"A" * 2**20
        for sent in range(0, size, len(piece)):
            await response.write(piece[: size - sent])
        await response.write(b'"}}]}, "finishReason": "STOP", "index": 0}]}')
        await response.write_eof()
        line["sent"] = request.transport is not None and not request.transport.is_closing()
    return response


async def _break_off(request: web.Request, text: bytes) -> web.StreamResponse:
    """Half of an answer, and a connection that is reset."""
    response = await _begin(request, text)
    with suppress(ConnectionError):
        await response.write(text[: len(text) // 2])
        await asyncio.sleep(0.05)  # a reset may overtake what was sent just before
    return _hang_up(request, response)


async def _trickle(request: web.Request, text: bytes, seconds: float) -> web.StreamResponse:
    """A few bytes a second, for so many seconds, and a connection that is reset."""
    response = await _begin(request, text)
    end = time.monotonic() + seconds
    with suppress(ConnectionError):
        for position in range(0, len(text) - 1, 2):
            await response.write(text[position : position + 2])
            await asyncio.sleep(min(0.5, max(0.0, end - time.monotonic())))
            if time.monotonic() >= end:
                break
    return _hang_up(request, response)


async def _begin(request: web.Request, text: bytes) -> web.StreamResponse:
    headers = {"Content-Type": f"{_JSON}; charset=utf-8", "Content-Length": str(len(text))}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    return response


def _hang_up(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Reset the connection, as a machine does that knows nothing of it."""
    if request.transport is not None:
        connection = request.transport.get_extra_info("socket")
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
    return response


# --- the command


def main() -> None:
    """Serve until told to stop."""
    parent = os.getppid()  # now: it may be gone as soon as it has read our line
    options = _options()
    key = os.environ.get(KEY, "").strip()
    if not key:
        sys.exit(f"{KEY} is not set: it is the key that the server takes")
    try:
        script = Script.load(options.faults) if options.faults else Script()
    except (OSError, ValueError, TypeError, AttributeError) as error:
        sys.exit(f"--faults: {error}")
    with tempfile.TemporaryDirectory(prefix="banana100-loopback-") as folder:
        asyncio.run(_serve(options, script, key, Path(folder), parent))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m banana100.dry_run.server", description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--port", type=int, default=0, help="0, the default, takes a free one")
    add("--faults", type=Path, metavar="FILE", help="a script of faults, in JSON")
    add("--latency", type=float, default=0.0, metavar="S", help="seconds before an answer")
    add("--job-seconds", type=float, default=0.5, metavar="S", help="how long a batch job takes")
    add("--images", choices=("simulated", "canned"), default="simulated", help="canned ones cost next to nothing")
    add("--log", type=Path, metavar="FILE", help="lines of JSON are appended to it")
    add("--seconds", type=float, default=900.0, metavar="S", help="stop after so many")
    add("--hang-seconds", type=float, default=30.0, metavar="S", help="how long the faults hang and trickle last")
    add("--huge-bytes", type=int, default=300_000_000, metavar="N", help="size of the fault huge_body")
    add("--max-requests", type=int, default=0, metavar="N", help="stop after so many requests, also of jobs; 0: never")
    return parser.parse_args()


async def _serve(options: argparse.Namespace, script: Script, key: str, folder: Path, parent: int) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(min(worker_count(), 8)))  # each simulates one image at a time
    server = Server(options, script, key, folder)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stopped.set)
    runner = web.AppRunner(server.app(), access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", options.port).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    orphaned = asyncio.create_task(_watch_parent(parent, server.stopped))
    with suppress(TimeoutError):
        await asyncio.wait_for(server.stopped.wait(), options.seconds)
    orphaned.cancel()
    await runner.cleanup()


async def _watch_parent(parent: int, stopped: asyncio.Event) -> None:
    while os.getppid() == parent:
        await asyncio.sleep(0.5)
    stopped.set()


@contextmanager
def running(
    *,
    script: Script | Mapping[str, Any] | None = None,
    key: str | None = None,
    log: Path | None = None,
    **more: Any,
) -> Iterator[str]:
    """Run the server in a process of its own.

    Args:
        script: which faults come, as a `Script` or as the content of its JSON.
        key: the one that the server takes; that in the environment by default.
        log: see `Log`.
        more: other options of the command, as `hang_seconds=4`.

    Yields:
        The server's URL, without a slash at its end.

    Raises:
        RuntimeError: the server did not start; its stderr says why.
    """
    command = [sys.executable, "-m", "banana100.dry_run.server"]
    for name, value in ({"log": log} | more).items():
        if value is not None:
            command += [f"--{name.replace('_', '-')}", str(value)]
    environment = os.environ | ({KEY: key} if key is not None else {})
    with tempfile.TemporaryDirectory() as folder:
        if script is not None:
            path = Path(folder) / "faults.json"
            path.write_text((script if isinstance(script, Script) else Script.of(script)).to_json(), encoding="utf-8")
            command += ["--faults", str(path)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            yield _first_line(process)
        finally:
            _end(process)


def _first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], 60)
    line = process.stdout.readline().strip() if ready else ""
    if not re.fullmatch(r"http://127\.0\.0\.1:\d+", line):
        raise RuntimeError("the loopback server did not start")
    return line


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()


if __name__ == "__main__":
    main()
