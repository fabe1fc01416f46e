"""What the paper chose its seeds by, as five numbers an image."""

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from skimage.color import rgb2gray
from skimage.feature import canny
from skimage.filters import sobel, window

from banana100.images import Pixels

FEATURES = ("structure", "texture", "smoothness", "edges", "colourfulness")

# Far above the differences between processors' floating-point sums, far below any that could decide a choice.
_DECIMALS = 6


def measure(pixels: Pixels) -> dict[str, float]:
    """Measure one square image.

    Args:
        pixels: uint8 array of shape (side, side, 3), sRGB.

    Returns:
        For each of `FEATURES` a number that grows with the property:
        structure: mean excess of the 32 strongest spectral peaks over the median of their radius, natural log units;
        texture: standard deviation of luminance above a Gaussian of 1 pixel, 0..1 scale;
        smoothness: share of pixels on gentle slopes: Sobel gradient of 0.05/255 to 2/255 (Gaussian of 2 pixels);
        edges: share of pixels on Canny edges (Gaussian of 2 pixels);
        colourfulness: Hasler and Süsstrunk, "Measuring colourfulness in natural images", 2003, 0..about 110.
    """
    luminance = rgb2gray(pixels)
    values = {
        "structure": _spectral_peaks(luminance),
        "texture": float((luminance - gaussian_filter(luminance, 1)).std()),
        "smoothness": _gentle_slopes(luminance),
        "edges": float(canny(luminance, sigma=2).mean()),
        "colourfulness": _colourfulness(pixels),
    }
    return {name: round(values[name], _DECIMALS) for name in FEATURES}


def _spectral_peaks(luminance: NDArray[np.float64]) -> float:
    side = len(luminance)
    spectrum = np.log1p(np.abs(np.fft.rfft2((luminance - luminance.mean()) * window("hann", luminance.shape))))
    rows = np.minimum(np.arange(side), side - np.arange(side))
    radius = np.hypot(rows[:, None], np.arange(spectrum.shape[1])).astype(int)
    excess = []
    for ring in range(8, side // 2):  # nearer the centre lies the image's layout, not a pattern
        values = spectrum[radius == ring]
        excess.append(values - np.median(values))
    return float(np.sort(np.concatenate(excess))[-32:].mean())


def _gentle_slopes(luminance: NDArray[np.float64]) -> float:
    slope = sobel(gaussian_filter(luminance, 2)) * 255
    return float(((slope > 0.05) & (slope < 2)).mean())


def _colourfulness(pixels: Pixels) -> float:
    red, green, blue = np.moveaxis(pixels.astype(float), 2, 0)
    red_green, yellow_blue = red - green, (red + green) / 2 - blue
    return float(np.hypot(red_green.std(), yellow_blue.std()) + 0.3 * np.hypot(red_green.mean(), yellow_blue.mean()))
