"""Image bytes to pixels and back: what a person sees, in 8-bit sRGB, the same bytes on every machine."""

import io
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageOps

Image.init()  # registers all formats; opening by a list of them does not

Pixels = NDArray[np.uint8]

# Above any answer of an image model (4K is 17 megapixels) and far below what fills a machine's memory.
MAX_PIXELS = 128_000_000

# MPO is what Pillow calls a camera's JPEG with a second view behind the picture.
EXTENSIONS = {"PNG": "png", "JPEG": "jpg", "MPO": "jpg", "WEBP": "webp", "BMP": "bmp", "TIFF": "tif", "GIF": "gif"}
_FORMATS = tuple(EXTENSIONS.keys() - {"MPO"})

# Huffman coding alone: deflate's match search differs between zlib builds and processors, this does not.
_PNG_COMPRESS_TYPE = 2

_SRGB = ImageCms.createProfile("sRGB")


class ImageError(Exception):
    """Bytes that are no image we can use; the message is a clause that says why."""


@dataclass(frozen=True)
class Header:
    """What an image file says of itself, without decoding its pixels."""

    width: int
    height: int
    mode: str
    extension: str


def read_header(data: bytes) -> Header:
    """Size, Pillow mode and true type of an image file; the type follows from the bytes, not from a name.

    Raises:
        ImageError: not an image, of a type we do not take, or above `MAX_PIXELS`.
    """
    with _opened(data) as image:
        return Header(image.width, image.height, image.mode, EXTENSIONS[image.format or ""])


def decode(data: bytes) -> Pixels:
    """Decode an image file to what a person sees.

    EXIF orientation is applied, embedded colour profiles are converted to sRGB, 16-bit grey is scaled to 8 bits,
    transparency is laid over white, CMYK, palette and grey become RGB.

    Returns:
        uint8 array of shape (height, width, 3), sRGB, 0..255.

    Raises:
        ImageError: not a whole still image of a type we take; the message says why.
    """
    with _opened(data) as image, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damage is told by the exception alone
        try:
            if getattr(image, "n_frames", 1) > 1 and image.format != "MPO":
                raise ImageError(f"is animated or has {image.n_frames} pages; only still images are taken")
            image.load()
            return np.asarray(_to_srgb(_to_eight_bits(ImageOps.exif_transpose(image))))
        except ImageError:
            raise
        except Exception as error:  # Pillow's plugins raise many kinds for damaged data
            raise ImageError(f"cannot be decoded ({_clause(error)})") from None


def encode_png(pixels: Pixels) -> bytes:
    """Encode to PNG, bit-identical on every machine with the pinned Pillow.

    Args:
        pixels: uint8 array of shape (height, width, 3).
    """
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", compress_type=_PNG_COMPRESS_TYPE)
    return stream.getvalue()


def square(pixels: Pixels, side: int) -> Pixels:
    """Crop the central square and shrink it to `side` pixels with Lanczos (integer arithmetic in Pillow).

    Raises:
        ImageError: the shorter side is below `side`; enlarging would not give a clean reference.
    """
    height, width = pixels.shape[:2]
    if min(height, width) < side:
        raise ImageError(f"is {width}x{height} pixels, smaller than seeds.size {side}; seeds are never enlarged")
    return np.asarray(ImageOps.fit(Image.fromarray(pixels), (side, side), Image.Resampling.LANCZOS))


def encode_preview(data: bytes, side: int) -> bytes:
    """A small WebP of an image file, its longer side `side` pixels at most.

    Raises:
        ImageError: see `decode`.
    """
    image = Image.fromarray(decode(data))
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    image.save(stream, "WEBP", quality=82, method=4)
    return stream.getvalue()


def _opened(data: bytes) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(data), formats=_FORMATS)
    except Image.DecompressionBombError:
        raise ImageError(f"has more than {MAX_PIXELS // 1_000_000} megapixels") from None
    except Exception as error:
        reason = (
            "empty file"
            if not data
            else "not a PNG, JPEG, WebP, BMP, TIFF or GIF file"
            if isinstance(error, Image.UnidentifiedImageError)
            else _clause(error)
        )
        raise ImageError(f"cannot be opened ({reason})") from None
    if image.width * image.height > MAX_PIXELS:
        raise ImageError(f"has {image.width}x{image.height} pixels; at most {MAX_PIXELS // 1_000_000} megapixels")
    return image


def _to_eight_bits(image: Image.Image) -> Image.Image:
    """Bring 16-bit grey to 8 bits by scale; Pillow's own conversion clips it to white."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ImageError(f"has {image.mode!r} pixels of 32 bits, whose white is unknown; 8 or 16 bits are taken")
    return image


def _to_srgb(image: Image.Image) -> Image.Image:
    profile = image.info.get("icc_profile")
    if image.mode == "P" and "transparency" not in image.info:
        image = image.convert("RGB")
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image).convert("RGB")
    if profile and image.mode in ("RGB", "CMYK", "L"):
        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            return ImageCms.profileToProfile(image, source, _SRGB, outputMode="RGB") or image
        except (ImageCms.PyCMSError, OSError):
            pass  # a broken profile, or one for other channels: the plain conversion is what viewers show
    return image.convert("RGB")


def _clause(error: Exception) -> str:
    return str(error).strip().rstrip(".").split("\n")[0] or type(error).__name__
