"""Answers of a paid generator, invented: no model was asked. Made to fill tables as a paid campaign would."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from banana100.files import sha256_of
from banana100.generators import adoption
from banana100.generators.asking import REFUSALS
from banana100.generators.base import Answer, Refusal
from banana100.lineage.identity import Request

_REFUSED = 0.02  # share of requests that are answered without an image first
_PARKED = 0.06  # share of chains that end early
_REASONS = ("IMAGE_SAFETY", "NO_IMAGE", "IMAGE_RECITATION", "PROHIBITED_CONTENT", "IMAGE_OTHER")
_IMAGE_USD = 0.134
_START = datetime(2026, 7, 1, tzinfo=UTC)
_THOUGHTS = """\
**Invented for a benchmark**
No model was asked, and none thought this. The user wants an exact replica of the image provided, so that composition,
colours, textures and light are to be kept as they are, without any alteration of mine.
**Comparing the result**
I go over the edges and the fine structures once more, compare them with the original and find nothing to change."""


def answer(request: Request, attempts: int, random: np.random.Generator) -> Answer:
    """An answer with an image, at the price of one of 2048 pixels a side."""
    return Answer(finish_reason="STOP", attempts=attempts, **_facts(request, random))


def refusals(request: Request, random: np.random.Generator, last: bool = False) -> list[dict[str, Any]]:
    """Rows of the answers without an image that a request got: mostly none; with `last` as many as park a chain."""
    count = REFUSALS if last else int(random.random() < _REFUSED) * int(random.integers(1, REFUSALS))
    asked = {"request_id": request.id} | adoption.asked(request)
    rows = []
    for number in range(1, count + 1):
        reason = str(random.choice(_REASONS))
        detail = "the model wrote: I cannot make this image. (Invented for a benchmark.)"
        refusal = Refusal(finish_reason=reason, detail=detail, **_facts(request, random))
        rows.append(asked | refusal.record | {"number": number})
    return rows


def end(length: int, random: np.random.Generator) -> int:
    """The last step that a chain reaches."""
    return int(random.integers(1, length)) if random.random() < _PARKED else length


def parked(refused: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of a chain that these refusals of one request parked, but for the columns that name the chain."""
    last = refused[-1]
    why = {"cause": "refused", "reason": f"{last['finish_reason']}: {last['detail']}", "attempts": len(refused)}
    return {"step": last["step"], "request_id": last["request_id"]} | why


def _facts(request: Request, random: np.random.Generator) -> dict[str, Any]:
    thinking = int(random.integers(200, 900))
    asked_at = _START + timedelta(seconds=int(random.integers(0, 30 * 86_400)))
    input_tokens = 560 + len(request.prompt) // 4
    return {
        "model_answered": f"invented/{request.model}",
        "response_id": sha256_of(random.bytes(8))[:24],
        "reasoning": f"{_THOUGHTS} Step {request.step} of {request.seed}, repeat {request.repeat}.",
        "input_tokens": input_tokens,
        "output_tokens": 1120 + thinking,
        "cost_usd": round(_IMAGE_USD + (2 * input_tokens + 12 * thinking) / 1e6, 6),
        "asked_at": asked_at.isoformat(timespec="seconds"),
        "seconds": round(float(random.uniform(12, 45)), 2),
    }
