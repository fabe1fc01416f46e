"""The simulator: slow rot, the same bytes everywhere, different for every request."""

import hashlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from skimage.metrics import peak_signal_noise_ratio as psnr

from banana100.errors import UserError
from banana100.generators import backend_for
from banana100.generators.simulated import rot
from banana100.images import encode_png
from banana100.lineage.identity import Request
from banana100.params import Campaign, SimulatedConfig

STEPS = 20


def key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def chain(seed: np.ndarray, name: str, **config: int) -> list[np.ndarray]:
    replicas = [seed]
    for step in range(STEPS):
        replicas.append(rot(replicas[-1], key(f"{name} {step}"), **config))
    return replicas


def test_one_step_is_nearly_invisible_and_twenty_are_heavy(photograph: np.ndarray) -> None:
    replicas = chain(photograph, "a")
    assert psnr(photograph, replicas[1]) > 39
    assert psnr(photograph, replicas[10]) < 29
    assert psnr(photograph, replicas[20]) < 23


def test_each_step_drifts_farther_from_the_seed(photograph: np.ndarray) -> None:
    drift = [psnr(photograph, replica) for replica in chain(photograph, "a")[1:]]
    assert all(later < earlier for earlier, later in pairwise(drift))


def test_noise_grows_and_the_cast_is_green(photograph: np.ndarray) -> None:
    replicas = [replica.astype(float) for replica in chain(photograph, "a")]
    red, green, blue = (replicas[20] - replicas[0]).mean(axis=(0, 1))
    assert green > 10 and red < 0 and blue < 0

    def roughness(image: np.ndarray) -> float:
        return np.abs(np.diff(image, axis=0)).mean()

    assert roughness(replicas[0]) < roughness(replicas[5]) < roughness(replicas[10]) < roughness(replicas[20])


def test_strengths_of_zero_leave_only_rounding(photograph: np.ndarray) -> None:
    assert np.array_equal(rot(photograph, key("x"), noise=0, green=0), photograph)


def test_rot_depends_on_the_picture(photograph: np.ndarray) -> None:
    flat = np.full_like(photograph, 128)
    flat_change = rot(flat, key("x")).astype(int) - flat
    busy_change = rot(photograph, key("x")).astype(int) - photograph
    assert not np.array_equal(flat_change, busy_change)


def test_the_arithmetic_of_rot_1_is_pinned() -> None:
    """Images in people's stores were made by it: other arithmetic needs another model name.

    The picture is made by integers here, so that no library but the simulator decides the digest.
    """
    rows, columns = np.mgrid[:96, :112]
    picture = np.dstack([rows * 2, columns * 2, (rows * columns) % 251]).astype(np.uint8)
    for step in range(3):
        picture = rot(picture, key(str(step)))
    assert (
        hashlib.sha256(picture.tobytes()).hexdigest()
        == "54ea70ff3cc4122edbd37c2f11ebee611c15827b5788e0d96d893f4fb7aa9f51"
    )
    assert (
        hashlib.sha256(encode_png(picture)).hexdigest()
        == "bf889f64206bdf5ec67164d5a9ff16c7a16544cc5f1e0259762ef7801beb74f2"
    )


@given(
    arrays(np.uint8, st.tuples(st.integers(2, 24), st.integers(2, 24), st.just(3))),
    st.integers(0, 400),
    st.integers(0, 400),
)
def test_any_picture_of_any_size_rots_into_the_same_shape(pixels: np.ndarray, noise: int, green: int) -> None:
    replica = rot(pixels, key("any"), noise=noise, green=green)
    assert replica.shape == pixels.shape and replica.dtype == np.uint8


def campaign(**changes: object) -> Campaign:
    fields = {
        "backend": "simulated",
        "model": "rot-1",
        "prompts": ["copy"],
        "config": SimulatedConfig(),
        "seeds": "all",
        "repeats": 1,
        "steps": 1,
    }
    return Campaign(**fields | changes)


def request(**changes: object) -> Request:
    fields = {"backend": "simulated", "model": "rot-1", "prompt": "copy", "parent_id": "00", "seed": "a"}
    return Request(**fields | {"config": {"noise": 100, "green": 100}, "repeat": 1, "step": 1} | changes)


def test_answers_are_a_function_of_the_request(photograph: np.ndarray) -> None:
    png = encode_png(photograph)
    backend = backend_for(campaign())
    first = backend.generate(request(), png)
    assert first == backend_for(campaign()).generate(request(), png)
    for change in ({"repeat": 2}, {"step": 2}, {"seed": "b"}, {"prompt": "copy again"}):
        assert backend.generate(request(**change), png).image != first.image
    assert first.model_answered == "simulated/rot-1" and first.cost_usd == 0
    assert first.asked_at is None and first.seconds is None  # wall-clock facts would make runs differ


def test_another_version_of_the_arithmetic_is_refused() -> None:
    with pytest.raises(UserError, match='model is "rot-2"; allowed: rot-1'):
        backend_for(campaign(model="rot-2"))
