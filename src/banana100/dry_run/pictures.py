"""What the make-believe model answers: pictures, and the JSON round them.

A picture has the size of the request's last image, whatever size and aspect ratio were asked for: it is a miniature.
It is that image with a step of the simulator's rot, mirrored, turned or grey where the prompt asks for it.
"""

import base64
import hashlib
import io
import json
import re
import secrets
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from banana100.dry_run.faults import GOOD, Fault
from banana100.files import sha256_of
from banana100.generators.simulated import rot
from banana100.images import ImageError, Pixels, decode, encode_png

_SIDE = 256  # of a picture made from a text
_CANNED_SIDE = 64

# By Google's documentation of Nano Banana Pro; thinking is about what was seen.
_TOKENS_IN, _TOKENS_OUT, _TOKENS_THOUGHT = 560, 1120, 240

_REASONS = {
    Fault.IMAGE_SAFETY: "IMAGE_SAFETY",
    Fault.IMAGE_PROHIBITED: "IMAGE_PROHIBITED_CONTENT",
    Fault.IMAGE_RECITATION: "IMAGE_RECITATION",
    Fault.IMAGE_OTHER: "IMAGE_OTHER",
    Fault.NO_IMAGE_REASON: "NO_IMAGE",
    Fault.SAFETY: "SAFETY",
    Fault.FUTURE_REASON: "IMAGE_TELEPORTATION",
}


_GREY = re.compile(r"gr[ea]yscale|decolou?r")
_COLOURISE = re.compile(r"\bcolou?ri[sz]e")  # what is black and white then is the image that was sent


@dataclass(frozen=True)
class Asked:
    """What a valid request asks.

    Attributes:
        model: its id.
        prompt: the text of the last turn.
        turns: how many contents there are.
        images: how many images, in all turns.
        parent: the last of them; None if there is none.
        thoughts: whether thoughts are to be shown.
    """

    model: str
    prompt: str
    turns: int
    images: int
    parent: bytes | None
    thoughts: bool


@dataclass(frozen=True)
class Made:
    """An answer.

    Attributes:
        text: its JSON.
        image_sha256: of the image in it that a client should take; None if there is none.
    """

    text: bytes
    image_sha256: str | None


def answer(asked: Asked, fault: Fault, number: int, canned: bool) -> Made:
    """Answer a request, well or with a fault.

    Args:
        asked: the request.
        fault: one that answers with JSON and 200; any other is taken for none.
        number: of the request, so that the same one asked again is answered with another picture.
        canned: answer with a small ready-made picture, and no interim one.
    """
    image = None
    if fault in _REASONS:
        content = {"candidates": [_refused(_REASONS[fault])]}
    elif fault is Fault.NO_CANDIDATES:
        content = {"candidates": []}
    elif fault is Fault.PROMPT_BLOCKED:
        content = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    else:
        parts, image = _parts(asked, fault, number, canned)
        content = {"candidates": [{"content": parts | {"role": "model"}, "finishReason": "STOP", "index": 0}]}
    drawn = {Fault.TWO_IMAGES: 2}.get(fault, 1 if image else 0)
    content |= {
        "usageMetadata": _usage(asked, drawn, thought=fault is not Fault.PROMPT_BLOCKED),
        "modelVersion": f"simulated/{asked.model}",
        "responseId": secrets.token_urlsafe(16),
    }
    accepted = sha256_of(image) if image and fault in GOOD else None
    return Made(json.dumps(content).encode(), accepted)


def _refused(reason: str) -> dict[str, Any]:
    message = f"Unable to show the generated image: the answer was stopped ({reason}). You may be charged for it."
    return {"content": {}, "finishReason": reason, "finishMessage": message, "index": 0}


def _parts(asked: Asked, fault: Fault, number: int, canned: bool) -> tuple[dict[str, Any], bytes | None]:
    """The parts of an answer that stopped by itself, and its final image."""
    if fault is Fault.NO_PARTS:
        return {}, None
    thought = {"text": f"**Looking**\n\nThe request is: {asked.prompt[:200]}", "thought": True}
    shown = [thought] if asked.thoughts else []
    if fault is Fault.NO_IMAGE:
        return {"parts": [*shown, {"text": "Here is the image that you asked for."}]}, None
    image = _canned(number) if canned else encode_png(_picture(asked, number))
    if fault is Fault.ONLY_THOUGHTS:
        return {"parts": [thought, _interim(image)]}, None
    if asked.thoughts and not canned:
        shown.append(_interim(image))
    image = _bent(image, fault, number)
    final = _part(image) | {"thoughtSignature": _base64(hashlib.sha512(image).digest())}
    if fault is Fault.TRUNCATED_BASE64:
        data = final["inlineData"]["data"]
        final["inlineData"]["data"] = data[: len(data) // 8 * 4 + 1]  # no padding makes it whole
    if fault is Fault.TWO_IMAGES:
        shown.append(_part(_sketch(image)))
    return {"parts": [*shown, final]}, image


def _interim(image: bytes) -> dict[str, Any]:
    return _part(_sketch(image)) | {"thought": True}


def _part(image: bytes) -> dict[str, Any]:
    return {"inlineData": {"mimeType": "image/png", "data": _base64(image)}}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _usage(asked: Asked, drawn: int, thought: bool) -> dict[str, Any]:
    """Tokens; an image that was held back is not among them, the thinking about it is."""
    text, pictures = len(asked.prompt) // 4 + 1, _TOKENS_IN * asked.images
    details = [{"modality": "TEXT", "tokenCount": text}]
    if pictures:
        details.append({"modality": "IMAGE", "tokenCount": pictures})
    usage: dict[str, Any] = {"promptTokenCount": text + pictures, "promptTokensDetails": details}
    total = text + pictures
    if drawn:
        count = _TOKENS_OUT * drawn
        usage |= {
            "candidatesTokenCount": count,
            "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": count}],
        }
        total += count
    if thought:
        usage["thoughtsTokenCount"] = _TOKENS_THOUGHT
        total += _TOKENS_THOUGHT
    return usage | {"totalTokenCount": total}


def _picture(asked: Asked, number: int) -> Pixels:
    pixels = _from_text(asked.prompt) if asked.parent is None else decode(asked.parent)
    key = sha256_of(f"{number} ".encode() + (asked.parent or asked.prompt.encode()))
    return np.ascontiguousarray(_edited(rot(pixels, key), asked.prompt.casefold()))


def _edited(pixels: Pixels, prompt: str) -> Pixels:
    if "mirror" in prompt or ("flip" in prompt and "vertical" not in prompt):
        pixels = pixels[:, ::-1]
    if "rotate" in prompt:
        pixels = np.rot90(pixels, -1)
    if _GREY.search(prompt) or ("black and white" in prompt and not _COLOURISE.search(prompt)):
        luma = pixels @ np.array([77, 150, 29]) // 256
        pixels = np.repeat(luma[..., None], 3, axis=2).astype(np.uint8)
    return pixels


def _from_text(prompt: str) -> Pixels:
    """A picture of smooth gradients with some texture, all of it by the text."""
    draws = np.random.Generator(np.random.Philox(key=int(sha256_of(prompt.encode())[:32], 16)))
    corners = draws.integers(20, 236, (2, 2, 3)).astype(float)
    y, x = np.mgrid[0:_SIDE, 0:_SIDE][..., None] / (_SIDE - 1)
    top, bottom = corners[0, 0] * (1 - x) + corners[0, 1] * x, corners[1, 0] * (1 - x) + corners[1, 1] * x
    pixels = top * (1 - y) + bottom * y
    for frequency in (3, 9, 27):
        angle, phase = draws.uniform(0, 2 * np.pi, 2)
        wave = np.sin(2 * np.pi * frequency * (x * np.cos(angle) + y * np.sin(angle)) + phase)
        pixels += wave * draws.uniform(-90, 90, 3) / np.sqrt(frequency)
    pixels += draws.normal(0, 6, (_SIDE, _SIDE, 1))
    return pixels.clip(0, 255).astype(np.uint8)


def _sketch(image: bytes) -> bytes:
    """Another image on the way to this one: in few colours."""
    return encode_png((decode(image) // 64 * 64 + 32).astype(np.uint8))


def _bent(image: bytes, fault: Fault, number: int) -> bytes:
    """The image as it comes with a fault."""
    if fault is Fault.OTHER_SIZE:
        return _numbered(_encoded(_resized(image)), number)
    if fault is Fault.OTHER_ASPECT:
        pixels = decode(image)
        return _numbered(encode_png(pixels[: max(1, pixels.shape[0] * 9 // 16)]), number)
    if fault is Fault.JPEG_AS_PNG:
        return _encoded(Image.fromarray(decode(image)), "JPEG", quality=95, comment=f"{_RUN} {number}")
    if fault is Fault.CORRUPT_IMAGE:
        return _corrupt(image)
    return _bomb() if fault is Fault.BOMB_IMAGE else image


def _resized(image: bytes) -> Image.Image:
    whole = Image.fromarray(decode(image))
    return whole.resize((max(1, whole.width // 2), max(1, whole.height // 2)), Image.Resampling.LANCZOS)


def _encoded(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def _corrupt(image: bytes) -> bytes:
    third = len(image) // 3
    for filling in (b"\xa5", b"\xff", b"\x00"):  # flat pictures stand one or the other
        damaged = image[:third] + filling * third + image[2 * third :]
        try:
            decode(damaged)
        except ImageError:
            return damaged
    return image[: 2 * third]


def _bomb() -> bytes:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(bytes(1000))) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# One ready-made picture for all; the run's and the request's number in a text chunk make each its own.
_RUN = secrets.token_hex(8)
_PICTURE = encode_png(_from_text("canned")[:: _SIDE // _CANNED_SIDE, :: _SIDE // _CANNED_SIDE] // 16 * 16)
_HEADER = 8 + 25  # signature and IHDR


def _canned(number: int) -> bytes:
    return _numbered(_PICTURE, number)


def _numbered(png: bytes, number: int) -> bytes:
    return png[:_HEADER] + _chunk(b"tEXt", f"number\0{_RUN} {number}".encode()) + png[_HEADER:]
