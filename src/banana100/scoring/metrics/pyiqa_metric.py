"""A metric of pyiqa 0.1.16."""

import contextlib
import io
from collections.abc import Mapping
from pathlib import Path

import torch

from banana100.catalogue.metrics import EVERY_METRIC
from banana100.scoring.metrics import parameters

# Layouts give the same scores to 1e-6; these convolution stacks are up to 1.7 times faster in this one on a CPU.
_CHANNELS_LAST = ("cnniqa", "topiq_nr", "topiq_nr-flive", "topiq_nr-spaq")


class PyiqaMetric:
    """pyiqa's network below its inference wrapper, which would switch TF32 convolutions on.

    Weight files are found by pyiqa itself, in the cache places that scoring.weights leads into one folder.
    """

    def __init__(self, name: str, files: Mapping[str, Path], device: torch.device) -> None:
        import pyiqa  # noqa: PLC0415  the cache places are fixed when it is imported

        row = EVERY_METRIC[name]
        if any("ViT" in file for file in files):
            _lead_clip(Path(torch.hub.get_dir()) / "clip")
        options = {"pretrained_model_path": parameters.for_pyiqa(row.parameters)} if row.parameters else {}
        with contextlib.redirect_stdout(io.StringIO()), torch.no_grad():  # it prints every file it loads
            self._net = pyiqa.create_metric(name, device=device, **options).net.eval()
        self._layout = torch.contiguous_format
        if name in _CHANNELS_LAST:
            self._layout = torch.channels_last
            self._net.to(memory_format=torch.channels_last)

    def __call__(self, pixels: torch.Tensor, reference: torch.Tensor | None = None) -> torch.Tensor:
        """Score images; see `base.ImageMetric`."""
        tensors = [unit_range(t).contiguous(memory_format=self._layout) for t in (pixels, reference) if t is not None]
        return self._raw(*tensors).reshape(len(pixels))

    def _raw(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Score a float32 tensor of shape (n, 3, height, width), 0..1, which the network may write into."""
        return self._net(*tensors)


def _lead_clip(folder: Path) -> None:
    """Let laion_aes and afine_nr find CLIP where all others do, instead of in ~/.cache/clip."""
    import clip.clip  # noqa: PLC0415  only where it is needed
    from pyiqa.archs import afineclip_model  # noqa: PLC0415

    for load in (clip.clip.load, afineclip_model.load):
        load.__defaults__ = (*load.__defaults__[:-1], str(folder))


def unit_range(pixels: torch.Tensor) -> torch.Tensor:
    """uint8 0..255 to float32 0..1, same shape."""
    return pixels.float() / 255
