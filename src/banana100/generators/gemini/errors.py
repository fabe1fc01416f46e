"""What the API's errors mean for a request, a chain and the run."""

import re
from typing import Any

import httpx
from google.genai import errors

from banana100.errors import UserError
from banana100.generators.base import Halt, Rejected, Unavailable
from banana100.generators.gemini.client import KEY, without_key

_LATER = {408, 409, 425, 429, 499}

# The same in the words of google.rpc.Code, which single requests of a batch are answered with.
RPC_CODES = {1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 10: 409, 13: 500, 14: 503, 16: 401}

# Whoever asks for more is not waited for.
_LONGEST_WAIT = 600.0


def of_api(error: errors.APIError, model: str) -> Exception:
    """The exception for an error that the API answered."""
    headers = getattr(error.response, "headers", None) or {}
    return of_code(error.code, error.status, error.message, error.details, model, headers.get("retry-after"))


def of_code(  # noqa: PLR0913, PLR0917  as many as Google tells
    code: int, status: Any, message: Any, details: Any, model: str, after: str | None = None
) -> Exception:
    """The exception for an error of a code of HTTP's.

    Args:
        code: the code.
        status: its name in Google's words.
        message: what the API says of it.
        details: all that it says.
        model: the model that was asked.
        after: the header Retry-After.
    """
    said = without_key(message or details or "")[:300].rstrip(".")
    what = without_key(f"{code} {status}: {said}" if status else f"{code}: {said}")
    about_key = "API_KEY" in str(details) or "api key" in said.lower()
    if code in (401, 403) or (code == 400 and about_key):
        return Halt(f"the API does not take the key in {KEY} ({what}); what was answered is kept, run again to go on.")
    if code == 404:
        return Halt(
            f"the API does not know the model {model} ({what}); previews are retired when the model is released: name "
            "another in params.yaml, which is another campaign. What was answered is kept."
        )
    if status == "FAILED_PRECONDITION":  # of the account: its region, its billing
        return Halt(f"the API does not serve this account ({what}); what was answered is kept.")
    if code in _LATER or code >= 500:
        asked = _seconds(after, details)
        return Unavailable(what, asked and min(asked, _LONGEST_WAIT), crowded=code == 429)
    return Rejected(what)


def of_transport(error: httpx.RequestError) -> Unavailable:
    """The exception for a connection that could not be made, or broke."""
    before = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return Unavailable(without_key(f"{type(error).__name__} {error}".strip()), billed=not before)


def _seconds(header: str | None, details: Any) -> float | None:
    """How long to wait, by the header or by google.rpc.RetryInfo."""
    if header and re.fullmatch(r"\d+(\.\d+)?", header.strip()):
        return float(header)
    inner = details.get("error", details) if isinstance(details, dict) else {}
    found = inner.get("details") if isinstance(inner, dict) else None
    for detail in found if isinstance(found, list) else []:
        delay = (
            re.fullmatch(r"(\d+(?:\.\d+)?)s", str(detail.get("retryDelay", ""))) if isinstance(detail, dict) else None
        )
        if delay:
            return float(delay[1])
    return None


def unexpected(error: Exception) -> Exception:
    """An error that nobody foresaw, without the key in its words."""
    if isinstance(error, UserError):
        return error
    return RuntimeError(f"{type(error).__name__}: {without_key(error)}")
