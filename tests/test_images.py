"""Decoding shows what a person sees; what is no whole still image is refused with a reason."""

import hashlib
import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms

from banana100 import images


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def png_claiming(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it has `width` x `height` pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def test_png_round_trip_is_lossless(photograph: np.ndarray) -> None:
    assert np.array_equal(images.decode(images.encode_png(photograph)), photograph)


def test_png_bytes_are_pinned() -> None:
    # made on an x86-64 machine with the pinned Pillow; another digest means that old stores no longer match
    ramp = (np.arange(64 * 64 * 3) * 7 % 251).astype(np.uint8).reshape(64, 64, 3)
    assert hashlib.sha256(images.encode_png(ramp)).hexdigest().startswith("1559ed8c02028e05c939867167a4f889")


def test_sixteen_bit_grey_is_scaled_not_clipped() -> None:
    grey = np.linspace(0, 65535, 64 * 64).astype(np.uint16).reshape(64, 64)
    decoded = images.decode(encoded(Image.fromarray(grey)))
    assert np.array_equal(decoded[..., 0], (grey >> 8).astype(np.uint8))


def test_exif_orientation_is_applied(photograph: np.ndarray) -> None:
    exif = Image.Exif()
    exif[274] = 6  # the camera was turned: rotate by 90 degrees clockwise to see it upright
    wide = photograph[:96]
    decoded = images.decode(encoded(Image.fromarray(wide), exif=exif))
    assert np.array_equal(decoded, np.rot90(wide, -1))


def test_transparency_is_laid_over_white(photograph: np.ndarray) -> None:
    alpha = np.full(photograph.shape[:2], 255, np.uint8)
    alpha[:10] = 0
    decoded = images.decode(encoded(Image.fromarray(np.dstack([photograph, alpha]))))
    assert (decoded[:10] == 255).all() and np.array_equal(decoded[10:], photograph[10:])


@pytest.mark.parametrize("mode", ["L", "LA", "P", "1", "CMYK", "RGBA"])
def test_every_mode_becomes_rgb(mode: str, photograph: np.ndarray) -> None:
    image = Image.fromarray(photograph).convert(mode)
    data = encoded(image, "TIFF" if mode == "CMYK" else "PNG")
    decoded = images.decode(data)
    assert decoded.shape == photograph.shape and decoded.dtype == np.uint8


def test_cmyk_jpeg_is_not_a_negative(photograph: np.ndarray) -> None:
    decoded = images.decode(encoded(Image.fromarray(photograph).convert("CMYK"), "JPEG", quality=95))
    assert np.abs(decoded.astype(int) - photograph).mean() < 12


def test_a_colour_profile_is_converted(photograph: np.ndarray) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    same = images.decode(encoded(Image.fromarray(photograph), icc_profile=profile))
    assert np.abs(same.astype(int) - photograph).max() <= 1
    broken = images.decode(encoded(Image.fromarray(photograph), icc_profile=b"no profile"))
    assert np.array_equal(broken, photograph)


def bad_images(photograph: np.ndarray) -> dict[str, tuple[bytes, str]]:
    still = Image.fromarray(photograph)
    whole = encoded(still)
    frames = {"save_all": True, "append_images": [Image.fromarray(photograph[::-1])]}
    return {
        "empty": (b"", "empty file"),
        "text": (b"not an image", "not a PNG"),
        "truncated png": (whole[: len(whole) // 2], "cannot be decoded"),
        "truncated jpeg": (encoded(still, "JPEG")[:900], "cannot be decoded"),
        "bomb": (png_claiming(60_000, 60_000), "megapixels"),
        "large": (png_claiming(12_000, 12_000), "megapixels"),
        "animated gif": (encoded(still, "GIF", **frames), "animated"),
        "animated webp": (encoded(still, "WEBP", **frames), "animated"),
        "two pages": (encoded(still, "TIFF", **frames), "2 pages"),
        "float": (encoded(Image.fromarray(photograph[..., 0].astype(np.float32)), "TIFF"), "32 bits"),
    }


@pytest.mark.parametrize(
    "kind",
    [
        "empty",
        "text",
        "truncated png",
        "truncated jpeg",
        "bomb",
        "large",
        "animated gif",
        "animated webp",
        "two pages",
        "float",
    ],
)
def test_what_is_no_whole_still_image_is_refused(kind: str, photograph: np.ndarray) -> None:
    data, reason = bad_images(photograph)[kind]
    with pytest.raises(images.ImageError, match=reason):
        images.decode(data)


@given(st.binary(max_size=400), st.integers(0, 400), st.sampled_from(["PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF"]))
def test_damaged_bytes_never_crash(noise: bytes, at: int, kind: str) -> None:
    data = encoded(Image.fromarray(np.arange(32 * 32 * 3, dtype=np.uint8).reshape(32, 32, 3)), kind)
    damaged = data[:at] + noise + data[at + len(noise) :]
    for function in (images.decode, images.read_header):
        try:
            function(damaged)
        except images.ImageError as error:
            assert str(error)


@pytest.mark.parametrize(("kind", "extension"), [("PNG", "png"), ("JPEG", "jpg"), ("WEBP", "webp")])
def test_the_type_follows_from_the_bytes(kind: str, extension: str, photograph: np.ndarray) -> None:
    header = images.read_header(encoded(Image.fromarray(photograph), kind))
    assert (header.extension, header.width, header.height, header.mode) == (extension, 128, 128, "RGB")


def test_square_crops_the_centre_and_never_enlarges(photograph: np.ndarray) -> None:
    assert np.array_equal(images.square(photograph[:, 10:106], 96)[:, 0], photograph[16:112, 10])
    with pytest.raises(images.ImageError, match=r"smaller than seeds\.size 129"):
        images.square(photograph, 129)


def test_a_preview_is_small_and_keeps_its_shape(photograph: np.ndarray) -> None:
    with Image.open(io.BytesIO(images.encode_preview(images.encode_png(photograph[:64]), 32))) as preview:
        assert preview.size == (32, 16) and preview.format == "WEBP"
