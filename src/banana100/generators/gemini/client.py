"""The SDK's client: where the key comes from and never goes to, where requests go, how much may come back."""

import logging
import os
import warnings
from collections.abc import AsyncIterator
from typing import Any

import httpx
from google import genai
from google.genai import types

from banana100.errors import UserError

KEY = "GEMINI_API_KEY"
BASE_URL = "BANANA100_GEMINI_BASE_URL"
GOOGLE = "https://generativelanguage.googleapis.com"

# Above any answer of an image model: a 4K image and two interim ones, in base64, are about 100 million bytes.
MAX_BODY = 256_000_000


class TooLarge(Exception):
    """An answer is larger than `MAX_BODY`."""


def new_client(needed_for: str) -> tuple[genai.Client, httpx.AsyncClient]:
    """A client that sends each request once: retries, which are paid for, are ours to decide.

    Args:
        needed_for: a clause for the message where there is no key.

    Returns:
        The client, and the connections below it, which are to be closed.

    Raises:
        UserError: no key in the environment, or a base URL that is none.
    """
    logging.getLogger("google_genai").setLevel(logging.ERROR)  # warns of parts that are not text
    warnings.filterwarnings("ignore", message=".* is not a valid ")  # finish reasons that the SDK does not know yet
    key = os.environ.get(KEY, "").strip()
    if not key:
        raise UserError(f"environment: {KEY} is not set, and {needed_for}; nothing was sent and nothing is lost.")
    if not key.isascii() or not key.isprintable():
        raise UserError(f"environment: {KEY} holds characters that no key has.")
    url = os.environ.get(BASE_URL)
    if url and not url.startswith(("http://", "https://")):
        raise UserError(f"environment: {BASE_URL} is {url!r}; allowed: a URL that starts with http:// or https://.")
    url = url or GOOGLE  # the SDK would look into other variables
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    hooks = {"request": [_Guard(httpx.URL(url)).before], "response": [_bound]}
    # files are downloaded from where the API redirects to
    http = httpx.AsyncClient(limits=limits, event_hooks=hooks, follow_redirects=True)
    options = types.HttpOptions(base_url=url, api_version="v1beta", httpx_async_client=http)
    # vertexai: whatever GOOGLE_GENAI_USE_VERTEXAI says, which would send other requests elsewhere
    return genai.Client(api_key=key, vertexai=False, http_options=options), http


def without_key(text: Any) -> str:
    """A text as one line, the key in it replaced: Google's errors quote it."""
    line = " ".join(str(text).split())
    key = os.environ.get(KEY, "").strip()
    return line.replace(key, "[key]") if key else line


class _Guard:
    """What is done to every request: the SDK sets no time-outs, and httpx would send the key on to other hosts."""

    def __init__(self, base: httpx.URL) -> None:
        self._base = base

    async def before(self, request: httpx.Request) -> None:
        # silence; that for a whole answer is the asker's
        request.extensions["timeout"] = {"connect": 30.0, "read": 600.0, "write": 600.0, "pool": None}
        if (request.url.scheme, request.url.host) != (self._base.scheme, self._base.host):
            request.headers.pop("x-goog-api-key", None)


async def _bound(response: httpx.Response) -> None:
    """Give up on answers larger than `MAX_BODY`; files of a batch's answers go to the disk."""
    if response.request.url.path.endswith(":generateContent"):
        response.stream = _BoundedStream(response.stream)


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        async for chunk in self._stream:
            received += len(chunk)
            if received > MAX_BODY:
                raise TooLarge
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
