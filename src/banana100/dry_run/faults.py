"""What can go wrong with a request, when it does, and how Google's API says so."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

# How long the two kinds of 429 with a hint ask to wait: seconds.
RETRY_AFTER = 1
RETRY_INFO = 1.2

_SERVICE = "generativelanguage.googleapis.com"
_TROUBLESHOOTING = "https://developers.generativeai.google/guide/troubleshooting"


class Fault(StrEnum):
    """One way for a request to go wrong; the comments say where it is met."""

    NONE = "none"
    # Answered with an error of HTTP.
    TOO_MANY = "too_many"  # 429, the quota of a minute or a day is used up; most come without a hint
    TOO_MANY_RETRY_AFTER = "too_many_retry_after"  # 429 with the header that proxies and other Google services send
    TOO_MANY_RETRY_INFO = "too_many_retry_info"  # 429 with google.rpc.RetryInfo, as Gemini's quotas answer it
    SERVER_ERROR = "server_error"  # 500, often for requests that are answered a moment later
    UNAVAILABLE = "unavailable"  # 503, the model is overloaded: minutes to hours in the evening
    EXPIRED_KEY = "expired_key"  # 400 and not 401: the key has an end date, or was rotated
    UNAUTHORISED = "unauthorised"  # 401, credentials of another kind than the API wants
    FORBIDDEN = "forbidden"  # 403, the project is suspended; Google's message quotes the key
    GONE_MODEL = "gone_model"  # 404, previews are retired weeks after the model's release
    BAD_REQUEST = "bad_request"  # 400, a field that this model does not take
    # The connection, or what is no answer of the API.
    RESET_MID_BODY = "reset_mid_body"  # a load balancer or the network gives up after half of the answer
    HANG = "hang"  # the connection stays open and nothing comes
    TRICKLE = "trickle"  # so slow that no read ever times out, and the answer is never whole
    NOT_JSON = "not_json"  # 200 with a page of a captive portal or proxy
    HUGE_BODY = "huge_body"  # an answer without end, which fills the memory of who reads it whole
    TRUNCATED_BASE64 = "truncated_base64"  # whole JSON around an image that was cut off
    # An image, though not the one expected: a client should take it.
    TWO_IMAGES = "two_images"  # the model changes its mind; the last image is the final one
    OTHER_SIZE = "other_size"  # imageSize is a wish
    OTHER_ASPECT = "other_aspect"  # so is aspectRatio
    JPEG_AS_PNG = "jpeg_as_png"  # mimeType says image/png, the bytes are JPEG
    # An image that nobody can use.
    CORRUPT_IMAGE = "corrupt_image"  # PNG by its first bytes, damaged further on
    BOMB_IMAGE = "bomb_image"  # a few bytes whose header asks for gigabytes
    # No image.
    NO_IMAGE = "no_image"  # the model writes instead of drawing, and calls that STOP
    NO_CANDIDATES = "no_candidates"  # neither an answer nor a reason
    NO_PARTS = "no_parts"  # a candidate without content, STOP: seen under load
    ONLY_THOUGHTS = "only_thoughts"  # it thought, and then stopped
    PROMPT_BLOCKED = "prompt_blocked"  # refused before an answer was begun
    IMAGE_SAFETY = "image_safety"  # the finished image was held back as unsafe; billed
    IMAGE_PROHIBITED = "image_prohibited"  # held back for prohibited content
    IMAGE_RECITATION = "image_recitation"  # held back as too near to a training image
    IMAGE_OTHER = "image_other"  # held back, and nobody says why
    NO_IMAGE_REASON = "no_image_reason"  # the model should have drawn and did not, said with a reason
    SAFETY = "safety"  # the answer as a whole was stopped as unsafe
    FUTURE_REASON = "future_reason"  # a finish reason that no SDK knows yet: new ones come without notice


# The answer holds an image that a client should take.
GOOD = frozenset({Fault.NONE, Fault.TWO_IMAGES, Fault.OTHER_SIZE, Fault.OTHER_ASPECT, Fault.JPEG_AS_PNG})

# Nothing that can befall one line of a batch's answers: such a request is answered well.
NOT_IN_BATCHES = frozenset(
    {
        Fault.RESET_MID_BODY, Fault.HANG, Fault.TRICKLE, Fault.NOT_JSON, Fault.HUGE_BODY,
        Fault.EXPIRED_KEY, Fault.UNAUTHORISED, Fault.FORBIDDEN, Fault.GONE_MODEL,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Script:
    """Which faults come, in JSON: `{"seed": 1, "rates": {"too_many": 0.05}, "sequence": ["hang", "none"]}`.

    Attributes:
        seed: of the random draws.
        rates: share of requests that meet a fault, once the sequence is used up.
        sequence: faults of the first requests, in the order in which they arrive.

    Raises:
        ValueError: a fault that is none, a rate below 0, or rates above 1 in all.
    """

    seed: int = 1
    rates: Mapping[str, float] = field(default_factory=dict)
    sequence: tuple[str, ...] = ()

    def __post_init__(self) -> None:  # noqa: D105  see the class
        for name in (*self.rates, *self.sequence):
            Fault(name)
        if any(rate < 0 for rate in self.rates.values()) or sum(self.rates.values()) > 1 + 1e-9:
            raise ValueError("rates: allowed: numbers of at least 0, at most 1 in all")

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """A script from what its JSON holds.

        Raises:
            ValueError: see the class.
            TypeError: a field that it does not have.
        """
        return cls(**{**content, "sequence": tuple(content.get("sequence", ()))})

    @classmethod
    def load(cls, path: Path) -> Self:
        """A script from a JSON file; see `of`."""
        return cls.of(json.loads(path.read_text(encoding="utf-8")))

    def to_json(self) -> str:
        """What `load` reads."""
        return json.dumps({"seed": self.seed, "rates": dict(self.rates), "sequence": list(self.sequence)})


class Draws:
    """The faults of one run of the server, request by request.

    Args:
        script: which faults come.
    """

    def __init__(self, script: Script) -> None:
        self._ahead = [Fault(name) for name in reversed(script.sequence)]
        self._rates = [(Fault(name), rate) for name, rate in script.rates.items()]
        self._random = random.Random(script.seed)

    def next(self) -> Fault:
        """The fault of the request that has just arrived."""
        if self._ahead:
            return self._ahead.pop()
        drawn = self._random.random()
        for fault, rate in self._rates:
            if (drawn := drawn - rate) < 0:
                return fault
        return Fault.NONE


# HTTP status: its name and its number in google.rpc.Code.
_STATUS = {
    400: ("INVALID_ARGUMENT", 3),
    401: ("UNAUTHENTICATED", 16),
    403: ("PERMISSION_DENIED", 7),
    404: ("NOT_FOUND", 5),
    429: ("RESOURCE_EXHAUSTED", 8),
    500: ("INTERNAL", 13),
    503: ("UNAVAILABLE", 14),
}


class ApiError(Exception):
    """An error as Google's APIs answer it.

    Args:
        code: of HTTP.
        message: for the user.
        details: messages of google.rpc, each with its `@type`.
        headers: of the answer.
    """

    def __init__(
        self, code: int, message: str, *details: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.details, self.headers = code, message, details, dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The body of an answer of HTTP."""
        status, _ = _STATUS[self.code]
        content: dict[str, Any] = {"code": self.code, "message": self.message, "status": status}
        return {"error": content | ({"details": list(self.details)} if self.details else {})}

    def in_batch(self) -> dict[str, Any]:
        """The same for one request of a batch."""
        return {"code": _STATUS[self.code][1], "message": self.message}


def wrong_key(key: str, message: str = "API key not valid. Please pass a valid API key.") -> ApiError:
    """The error for a key that is not, or no longer, taken."""
    return ApiError(400, message, _error_info("API_KEY_INVALID", key))


def no_key() -> ApiError:
    """The error for a request without a key."""
    return ApiError(
        403,
        "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or "
        "other form of API consumer identity to call this API.",
    )


def unknown_model(model: str, method: str = "generateContent") -> ApiError:
    """The error for a model that there is not."""
    return ApiError(
        404,
        f"models/{model} is not found for API version v1beta, or is not supported for {method}. Call ListModels to see "
        "the list of available models and their supported methods.",
    )


def invalid(message: str, where: str = "") -> ApiError:
    """The error for a request that is not as it should be.

    Args:
        message: what is wrong.
        where: the field that is.
    """
    if not where:
        return ApiError(400, message)
    violation = {"field": where, "description": message}
    kind = "type.googleapis.com/google.rpc.BadRequest"
    return ApiError(400, message, {"@type": kind, "fieldViolations": [violation]})


def error_of(fault: Fault, key: str, model: str) -> ApiError | None:
    """What a fault answers in place of the API's 200; None for the others.

    Args:
        fault: what goes wrong.
        key: the key that was sent.
        model: the model that was asked.
    """
    quota = "You exceeded your current quota, please check your plan and billing details."
    errors = {
        Fault.TOO_MANY: ApiError(429, "Resource has been exhausted (e.g. check quota)."),
        Fault.TOO_MANY_RETRY_AFTER: ApiError(429, quota, headers={"Retry-After": str(RETRY_AFTER)}),
        Fault.TOO_MANY_RETRY_INFO: ApiError(
            429, f"{quota} Please retry in {RETRY_INFO}s.", _quota_failure(model), _retry_info()
        ),
        Fault.SERVER_ERROR: ApiError(
            500, f"An internal error has occurred. Please retry or report in {_TROUBLESHOOTING}"
        ),
        Fault.UNAVAILABLE: ApiError(503, "The model is overloaded. Please try again later."),
        Fault.EXPIRED_KEY: wrong_key(key, "API key expired. Please renew the API key."),
        Fault.UNAUTHORISED: ApiError(
            401,
            "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other "
            "valid authentication credential.",
        ),
        Fault.FORBIDDEN: ApiError(
            403,
            f"Permission denied: Consumer 'api_key:{key}' has been suspended.",
            _error_info("CONSUMER_SUSPENDED", key),
        ),
        Fault.GONE_MODEL: ApiError(
            404,
            f"This model models/{model} is no longer available. Please update your code to use a newer model for the "
            "latest features and improvements.",
        ),
        Fault.BAD_REQUEST: ApiError(400, "Request contains an invalid argument."),
    }
    return errors.get(fault)


def _error_info(reason: str, key: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": _SERVICE, "consumer": f"api_key:{key}"},
    }


def _quota_failure(model: str) -> dict[str, Any]:
    violation = {
        "quotaMetric": f"{_SERVICE}/generate_requests_per_model",
        "quotaId": "GenerateRequestsPerMinutePerProjectPerModel",
        "quotaDimensions": {"location": "global", "model": model},
        "quotaValue": "20",
    }
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}


def _retry_info() -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{RETRY_INFO}s"}
