"""What the loopback server asks of requests: what Google would refuse is refused in the same words."""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from banana100.dry_run import faults
from banana100.dry_run.faults import invalid
from banana100.dry_run.pictures import Asked
from banana100.images import ImageError, read_header

MODELS = frozenset({"gemini-3-pro-image-preview", "gemini-3-pro-image", "gemini-3.1-flash-image"})

MAX_IMAGES = 14
MAX_PIXELS = 32_000_000  # of an image to be simulated: a 4K one has 17, and takes gigabytes

_ASPECTS = {"1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"}
_SIZES = {"512", "1K", "2K", "4K"}
_LEVELS = {"MINIMAL", "LOW", "MEDIUM", "HIGH"}
_SETTINGS = {"responseModalities", "imageConfig", "seed", "temperature", "thinkingConfig"}
_MIME_TYPES = {"image/png", "image/jpeg", "image/webp"}


def digest(model: str, body: Any) -> str:
    """What a request is known by in the log: SHA-256 of its model, a line feed, and its body as canonical JSON.

    Args:
        model: its id.
        body: with names in camel case; names in snake case are put so before.
    """
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{model}\n{text}".encode()).hexdigest()


def known(model: str, method: str = "generateContent") -> None:
    """Refuse a model that there is not.

    Raises:
        ApiError: 404.
    """
    if model not in MODELS:
        raise faults.unknown_model(model, method)


def check(model: str, body: Any) -> Asked:
    """Check a request as Google does.

    Raises:
        ApiError: 404 for an unknown model, 400 for an unknown field or a bad value.
    """
    known(model)
    _fields(body, "", {"contents", "generationConfig", "model"})
    contents = _list(body.get("contents"), "contents")
    if not contents:
        raise invalid("* GenerateContentRequest.contents: contents is not specified", "contents")
    images: list[bytes] = []
    prompt = ""
    for position, content in enumerate(contents):
        texts = _check_content(content, position, images)
        if content.get("role") != "model" and texts:
            prompt = "\n".join(texts)
    if contents[-1].get("role") == "model":
        raise invalid("Please ensure that multiturn requests end with a user role or a function response.", "contents")
    if len(images) > MAX_IMAGES:
        raise invalid(f"Too many images: {len(images)}; at most {MAX_IMAGES} are supported.", "contents")
    thoughts = _check_settings(body.get("generationConfig", {}))
    return Asked(model, prompt, len(contents), len(images), images[-1] if images else None, thoughts)


def _check_content(content: Any, position: int, images: list[bytes]) -> list[str]:
    """Check one turn, add its images to `images`; its texts."""
    where = f"contents[{position}]"
    _fields(content, where, {"role", "parts"})
    role = content.get("role", "user")
    if role not in ("user", "model"):
        raise invalid("Please use a valid role: user, model.", f"{where}.role")
    texts = []
    for number, part in enumerate(_list(content.get("parts"), f"{where}.parts")):
        at = f"{where}.parts[{number}]"
        _fields(part, at, {"text", "inlineData", "thought", "thoughtSignature"})
        if ("text" in part) == ("inlineData" in part):
            raise invalid(f"* {at}: required oneof field 'data' must have one initialized field", at)
        if "text" in part:
            texts.append(_text(part["text"], f"{at}.text"))
            continue
        images.append(_image(part["inlineData"], f"{at}.inlineData"))
        if role == "model" and not _bytes(part.get("thoughtSignature", ""), f"{at}.thoughtSignature"):
            raise invalid(
                f"Image part is missing a thought_signature in content position {position + 1}, part position "
                f"{number + 1}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more "
                "details."
            )
    if not content.get("parts"):
        raise invalid(f"* {where}.parts: contents.parts must not be empty.", f"{where}.parts")
    return texts


def _image(blob: Any, where: str) -> bytes:
    _fields(blob, where, {"mimeType", "data"})
    if blob.get("mimeType") not in _MIME_TYPES:
        raise invalid(f"Unsupported MIME type: {blob.get('mimeType')}", where)
    data = _bytes(blob.get("data", ""), f"{where}.data")
    try:
        header = read_header(data)
    except ImageError:
        raise invalid("Unable to process input image. Please retry or report in our forum.", where) from None
    if header.width * header.height > MAX_PIXELS:
        raise invalid(f"Image of {header.width}x{header.height} pixels is too large to simulate.", where)
    return data


def _check_settings(settings: Any) -> bool:
    """Check `generationConfig`; whether thoughts are to be shown."""
    where = "generationConfig"
    _fields(settings, where, _SETTINGS)
    modalities = settings.get("responseModalities", ["TEXT", "IMAGE"])
    words = {_text(word, f"{where}.responseModalities").upper() for word in _list(modalities, where)}
    if not words <= {"TEXT", "IMAGE"} or "IMAGE" not in words:
        raise invalid(f"The requested combination of response modalities ({', '.join(words)}) is not supported.", where)
    shape = settings.get("imageConfig", {})
    _fields(shape, f"{where}.imageConfig", {"aspectRatio", "imageSize"})
    _among(shape, "aspectRatio", _ASPECTS, f"{where}.imageConfig")
    _among(shape, "imageSize", _SIZES, f"{where}.imageConfig")
    seed, temperature = settings.get("seed", 0), settings.get("temperature", 0)
    if type(seed) is not int or not -(2**31) <= seed < 2**31:
        raise invalid(f"Invalid value at 'generation_config.seed' (TYPE_INT32), {json.dumps(seed)}", f"{where}.seed")
    if type(temperature) not in (int, float) or not 0 <= temperature <= 2:
        raise invalid(
            "* GenerateContentRequest.generation_config.temperature: temperature must be in the range [0.0, 2.0]."
        )
    thinking = settings.get("thinkingConfig", {})
    _fields(thinking, f"{where}.thinkingConfig", {"includeThoughts", "thinkingLevel"})
    level = {name: str(value).upper() for name, value in thinking.items()}
    _among(level, "thinkingLevel", _LEVELS, f"{where}.thinkingConfig")
    shown = thinking.get("includeThoughts", False)
    if not isinstance(shown, bool):
        raise invalid("Invalid value at 'generation_config.thinking_config.include_thoughts' (TYPE_BOOL)", where)
    return shown


def _fields(value: Any, where: str, allowed: Collection[str]) -> None:
    if not isinstance(value, dict):
        raise invalid(f"Invalid value at '{where}': an object is expected", where)
    for name in value:
        if name not in allowed:
            at = f" at '{where}'" if where else ""
            raise invalid(
                f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.', f"{where}.{name}"
            )


def _among(value: Mapping[str, Any], name: str, allowed: Collection[str], where: str) -> None:
    if name in value and value[name] not in allowed:
        raise invalid(f"Invalid value at '{where}.{name}': {json.dumps(value[name])}", f"{where}.{name}")


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list | None):
        raise invalid(f"Invalid value at '{where}': a list is expected", where)
    return value or []


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise invalid(f"Invalid value at '{where}' (TYPE_STRING), {json.dumps(value)[:100]}", where)
    return value


def _bytes(value: Any, where: str) -> bytes:
    """Base64 in either alphabet, as Google takes it: the SDK sends the URL-safe one."""
    try:
        return base64.b64decode(_text(value, where).translate({45: "+", 95: "/"}), validate=True)
    except (binascii.Error, ValueError):
        raise invalid(f"Invalid value at '{where}' (TYPE_BYTES), Base64 decoding failed", where) from None


def camel(value: Any) -> Any:
    """Names in snake case become those in camel case, as Google takes both: the SDK sends `mime_type`."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub("_([a-z])", lambda match: match[1].upper(), name): camel(item) for name, item in value.items()}
