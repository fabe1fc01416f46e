"""CNNIQA (Kang et al., CVPR 2014) as lidq92 trained it on LIVE: https://github.com/lidq92/CNNIQA."""

from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F

_PATCH = 32


class CnniqaLive:
    """Predicts DMOS, about 0..100, lower is better: the mean over 32x32 patches of the normalised luminance.

    Its network is pyiqa's CNNIQA with a grey first layer; its preprocessing is its author's, to the patches it leaves
    out: those that reach the right or the bottom border.
    """

    def __init__(self, name: str, files: Mapping[str, Path], device: torch.device) -> None:
        from pyiqa.archs.cnniqa_arch import CNNIQA  # noqa: PLC0415  the cache places are fixed when it is imported

        (path,) = files.values()
        state = torch.load(path, map_location="cpu", weights_only=True)
        state["conv1.weight"] = state["conv1.weight"].repeat(1, 3, 1, 1) / 3
        self._net = CNNIQA(pretrained=None)
        self._net.load_state_dict(state)
        self._net.eval().to(device)

    def __call__(self, pixels: torch.Tensor, reference: torch.Tensor | None = None) -> torch.Tensor:
        """Score images; see `base.ImageMetric`."""
        return torch.stack([self._net(normalised_patches(image)).double().mean() for image in luminance(pixels)])


def luminance(pixels: torch.Tensor) -> torch.Tensor:
    """8-bit ITU-R 601 luminance as Pillow's mode L has it, as float32 0..1.

    Args:
        pixels: uint8 tensor of shape (n, 3, height, width).

    Returns:
        Tensor of shape (n, 1, height, width).
    """
    weights = torch.tensor([19595, 38470, 7471], device=pixels.device).view(1, 3, 1, 1)
    return (((pixels * weights).sum(dim=1, keepdim=True) + 0x8000) >> 16).float() / 255


def normalised_patches(image: torch.Tensor) -> torch.Tensor:
    """Patches, each pixel less its 3x3 mean, divided by its 3x3 standard deviation + 1; borders are repeated.

    Args:
        image: float32 tensor of shape (1, height, width), 0..1.

    Returns:
        Tensor of shape (patches, 3, 32, 32), the three channels equal.
    """
    within = image[None, :, : image.shape[1] - 1, : image.shape[2] - 1]
    patches = F.unfold(within, _PATCH, stride=_PATCH)[0].t().reshape(-1, 1, _PATCH, _PATCH)
    windows = F.pad(patches, (1, 1, 1, 1), mode="replicate")
    mean = F.avg_pool2d(windows, 3, stride=1)
    square = F.avg_pool2d(windows * windows, 3, stride=1)
    deviation = (square - mean * mean).clamp_min(0).sqrt()
    return ((patches - mean) / (deviation + 1)).expand(-1, 3, -1, -1)
