"""Between our requests and answers and the API's."""

import base64
from collections.abc import Sequence
from typing import Any

from google.genai import types

from banana100 import images
from banana100.generators.base import Answer, Facts, Refusal, Refused, Turn
from banana100.generators.gemini.client import without_key
from banana100.generators.gemini.prices import PriceList

# The documented stand-in where a signature was lost, as in answers taken over from released data.
_ANY_SIGNATURE = b"skip_thought_signature_validator"

# Ours, for answers that the API calls complete.
NO_IMAGE = "NO_IMAGE"
UNREADABLE = "UNREADABLE"


def contents(turns: Sequence[Turn]) -> list[types.Content]:
    """The conversation as the API wants it."""
    sent = []
    for turn in turns:
        asked = [types.Part.from_text(text=turn.prompt)]
        if turn.image is not None:
            asked.insert(0, _image(turn.image))
        sent.append(types.Content(role="user", parts=asked))
        if turn.answer is not None:
            answered = _image(turn.answer)
            answered.thought_signature = base64.b64decode(turn.signature) if turn.signature else _ANY_SIGNATURE
            sent.append(types.Content(role="model", parts=[answered]))
    return sent


def settings(config: dict[str, Any]) -> types.GenerateContentConfig:
    """The settings of a campaign (params.GeminiConfig) as the API wants them; what is left out is not sent."""
    shape = {name: config[name] for name in ("aspect_ratio", "image_size") if name in config}
    thinking = {"thinking_level": config["thinking_level"]} if "thinking_level" in config else {}
    return types.GenerateContentConfig(
        response_modalities=config.get("response_modalities"),
        image_config=types.ImageConfig(**shape) if shape else None,
        seed=config.get("seed"),
        temperature=config.get("temperature"),
        thinking_config=types.ThinkingConfig(include_thoughts=config["reasoning"], **thinking),
        automatic_continuation=False,  # the SDK would send, and we pay, more requests on its own
    )


def read(
    response: types.GenerateContentResponse, config: dict[str, Any], prices: PriceList, timing: dict[str, Any]
) -> Answer:
    """The final image of an answer and what is told of it.

    Interim images of the model's thinking are passed over; of several others the last is the final one.

    Args:
        response: the API's answer.
        config: the settings it was asked with.
        prices: what it costs.
        timing: `asked_at` and `seconds`.

    Raises:
        Refused: there is no image, or none that decodes.
    """
    candidate = response.candidates[0] if response.candidates else None
    parts = (candidate and candidate.content and candidate.content.parts) or []
    found = [part for part in parts if not part.thought and part.inline_data and part.inline_data.data]
    facts = _facts(response, prices.answer(config, response.usage_metadata), timing)
    if candidate is None:
        feedback = response.prompt_feedback
        if feedback and feedback.block_reason:
            facts["cost_usd"] = prices.question(response.usage_metadata)
            detail = f"the prompt was blocked ({feedback.block_reason_message or 'no reason given'})"
            raise Refused(Refusal(**facts, finish_reason=str(feedback.block_reason.value), detail=without_key(detail)))
        raise Refused(Refusal(**facts, finish_reason=NO_IMAGE, detail="no candidates"))
    reason = candidate.finish_reason.value if candidate.finish_reason else None
    if not found:
        detail = candidate.finish_message or _said(parts) or "no parts"
        # STOP would say that all is well
        raise Refused(
            Refusal(**facts, finish_reason=NO_IMAGE if reason in (None, "STOP") else reason, detail=without_key(detail))
        )
    image = found[-1].inline_data.data
    try:
        images.decode(image)
    except images.ImageError as error:
        raise Refused(Refusal(**facts, finish_reason=UNREADABLE, detail=f"the image {error}")) from None
    signature = found[-1].thought_signature
    signature = base64.b64encode(signature).decode() if signature else None
    return Answer(**facts, finish_reason=reason, image=image, signature=signature)


def unreadable(detail: str, usd: float, timing: dict[str, Any]) -> Refused:
    """For an answer whose body makes no sense; it was made, and is likely billed."""
    return Refused(Refusal(None, UNREADABLE, cost_usd=usd, detail=without_key(detail), **timing))


def parse(content: Any) -> types.GenerateContentResponse:
    """An answer from JSON, as in the lines of a batch's file.

    Raises:
        ValueError: it is no answer (pydantic's ValidationError is one).
    """
    return types.GenerateContentResponse.model_validate(content)


def _image(data: bytes) -> types.Part:
    kind = images.read_header(data).extension
    return types.Part.from_bytes(data=data, mime_type=f"image/{'jpeg' if kind == 'jpg' else kind}")


def _facts(response: types.GenerateContentResponse, usd: float, timing: dict[str, Any]) -> dict[str, Any]:
    usage = response.usage_metadata
    answered = ((usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)) if usage else None
    candidate = response.candidates[0] if response.candidates else None
    parts = (candidate and candidate.content and candidate.content.parts) or []
    facts = Facts(
        model_answered=response.model_version,
        response_id=response.response_id,
        reasoning="\n".join(part.text.strip() for part in parts if part.thought and part.text) or None,
        input_tokens=usage.prompt_token_count if usage else None,
        output_tokens=answered,
        cost_usd=usd,
        **timing,
    )
    return {name: value for name, value in vars(facts).items() if name != "finish_reason"}


def _said(parts: Sequence[types.Part]) -> str | None:
    text = " ".join(part.text.strip() for part in parts if part.text and not part.thought)
    if not text and any(part.thought for part in parts):
        return "thoughts only"
    return f"the model wrote: {text[:300]}" if text else None
