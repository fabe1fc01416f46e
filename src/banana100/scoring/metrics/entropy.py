"""Shannon entropy of the luminance histogram, in bits; equal to pyiqa 0.1.16's."""

from collections.abc import Mapping
from pathlib import Path

import torch

from banana100.scoring.metrics.pyiqa_metric import unit_range

_BINS = 256


class Entropy:
    """Entropy of the YIQ luminance, 0..8 bits. pyiqa calls higher better, but noise raises it.

    pyiqa counts with a one-hot tensor of 2.1 GB a megapixel; this counts the same bins with bincount.
    """

    def __init__(self, name: str, files: Mapping[str, Path], device: torch.device) -> None:
        pass

    def __call__(self, pixels: torch.Tensor, reference: torch.Tensor | None = None) -> torch.Tensor:
        """Score images; see `base.ImageMetric`."""
        from pyiqa.utils.color_util import to_y_channel  # noqa: PLC0415  see PyiqaMetric

        levels = to_y_channel(unit_range(pixels), 255.0, "yiq").long().flatten(1)
        counts = torch.stack([torch.bincount(image, minlength=_BINS) for image in levels])
        share = counts / counts.sum(dim=1, keepdim=True)
        return -torch.sum(share * torch.log2(share + 1e-8), dim=1)
