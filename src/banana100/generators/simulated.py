"""The embedded simulator: imitates the rot that the paper saw, offline and bit-identical everywhere.

Its images are simulated, not any model's answers. One step is nearly invisible (about 40 dB); since each replica is
made from the last, static noise and a green cast are plain after 5 to 10 steps and heavy after 20. The arithmetic is
integer throughout, so that processors, thread counts and library builds cannot change a bit.
"""

import numpy as np
from numpy.typing import NDArray

from banana100.generators.base import Answer
from banana100.images import Pixels, decode, encode_png
from banana100.lineage.identity import Request
from banana100.params import Campaign, refusal

MODEL = "rot-1"

# Levels are held with 8 fractional bits, so that changes far below one grey level add up over the steps.
_ONE = 256

# Bytes summed for one noise sample: near enough to a Gaussian of mean 0 and standard deviation 209.
_BYTES = 8

# What one step adds at 100 percent, in 1/256 grey levels where not said otherwise.
_STATIC_SHARED = 520  # standard deviation of the noise that all channels share
_STATIC_CHANNEL = 360  # standard deviation of the noise of each channel alone
_CAST = np.array([-210, 450, -260], dtype=np.int64)  # red, green, blue; on mid-grey, less on black and white
_SHARPENING = 11  # share of the high frequencies that comes back on top, in 1/256: old noise grows with every step
_DOTS = 35  # scattered dots, in a million pixels
_DOT_LEVEL = 44  # grey levels by which a dot stands out


class Simulated:
    """Backend `simulated`.

    Raises:
        UserError: the campaign asks for another model than `rot-1`, the version of this arithmetic.
    """

    def __init__(self, campaign: Campaign) -> None:
        if campaign.model != MODEL:
            raise refusal("a simulated campaign's model", campaign.model, MODEL)

    def generate(self, request: Request, parent: bytes) -> Answer:
        """Replicate `parent` with a little rot; see `Backend.generate`. A pure function of the request."""
        image = rot(decode(parent), request.id, noise=request.config["noise"], green=request.config["green"])
        return answer(encode_png(image), request.model)


def answer(image: bytes, model: str) -> Answer:
    """An answer of the simulator: its facts follow from the model alone, as it costs nothing and takes no time."""
    return Answer(image=image, model_answered=f"simulated/{model}", finish_reason="STOP")


def rot(pixels: Pixels, key: str, *, noise: int = 100, green: int = 100) -> Pixels:
    """One step of rot.

    Args:
        pixels: uint8 array of shape (height, width, 3).
        key: hex text that fixes the random draws.
        noise: strength of static noise, dots and sharpening, in percent.
        green: strength of the green cast, in percent.

    Returns:
        uint8 array of the same shape.
    """
    draws = np.random.Philox(key=int(key[:32], 16))
    height, width = pixels.shape[:2]
    levels = pixels.astype(np.int64) * _ONE
    high = levels - _box_mean(levels, 1)
    change = high * (_SHARPENING * noise) // (_ONE * 100)
    change += _static(draws, height, width, _calmness(high)) * noise // 100
    change += _cast(pixels) * green // 100
    change += _dots(draws, height, width, noise)
    dither = _raw_bytes(draws, height * width * 3).reshape(height, width, 3)
    return np.clip((levels + change + dither) // _ONE, 0, 255).astype(np.uint8)


def _static(draws: np.random.Philox, height: int, width: int, calmness: NDArray[np.int64]) -> NDArray[np.int64]:
    """Zero-mean noise, stronger where the picture is calm."""
    count = height * width * 4
    sums = _raw_bytes(draws, count * _BYTES).reshape(count, _BYTES).sum(axis=1, dtype=np.int64) - _BYTES * 255 // 2
    fields = sums.reshape(4, height, width)
    shared, channels = fields[0][..., None] * _STATIC_SHARED, np.moveaxis(fields[1:], 0, 2) * _STATIC_CHANNEL
    return (shared + channels) * calmness // (209 * _ONE)


def _calmness(high: NDArray[np.int64]) -> NDArray[np.int64]:
    """256 on flat ground, falling towards 128 on texture; shape (height, width, 1)."""
    activity = _box_mean(np.abs(high).sum(axis=2, keepdims=True), 3)
    return 128 + 128 * 3000 // (3000 + activity)


def _cast(pixels: Pixels) -> NDArray[np.int64]:
    """The green cast: full on mid-grey, a quarter on black and white."""
    luma = (pixels.astype(np.int64) @ np.array([77, 150, 29]))[..., None] // 256
    weight = 64 + 192 * 4 * luma * (255 - luma) // (255 * 255)
    return weight * _CAST // 256


def _dots(draws: np.random.Philox, height: int, width: int, noise: int) -> NDArray[np.int64]:
    """A few dots of 2 by 2 pixels, light or dark."""
    marks = np.zeros((height, width, 1), dtype=np.int64)
    count = height * width * _DOTS * noise // 100 // 1_000_000
    for value in draws.random_raw(count).tolist():
        row, column, sign = value % (height - 1), (value >> 20) % (width - 1), 1 - 2 * (value >> 63)
        marks[row : row + 2, column : column + 2] = sign * _DOT_LEVEL * _ONE
    return marks


def _box_mean(values: NDArray[np.int64], radius: int) -> NDArray[np.int64]:
    """Mean over a square window, rounded down; edges are repeated outwards. Shape (height, width, channels)."""
    side = 2 * radius + 1
    sums = np.pad(values, ((radius + 1, radius), (radius + 1, radius), (0, 0)), mode="edge").cumsum(0).cumsum(1)
    return (sums[side:, side:] - sums[:-side, side:] - sums[side:, :-side] + sums[:-side, :-side]) // (side * side)


def _raw_bytes(draws: np.random.Philox, count: int) -> NDArray[np.uint8]:
    return draws.random_raw(-(-count // 8)).astype("<u8").view(np.uint8)[:count]
