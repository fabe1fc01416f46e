"""What every metric class does, and how one is loaded."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import torch

from banana100.catalogue.metrics import EVERY_METRIC


class ImageMetric(Protocol):
    """A metric, built as `Class(name, files, device)`.

    Args of the constructor:
        name: its name in params.yaml.
        files: path of each weight file by name, or folder of each Hugging Face repository by its name; all are checked.
        device: where to compute.
    """

    def __init__(self, name: str, files: Mapping[str, Path], device: torch.device) -> None: ...

    def __call__(self, pixels: torch.Tensor, reference: torch.Tensor | None = None) -> torch.Tensor:
        """Score images of one size.

        Args:
            pixels: uint8 tensor of shape (n, 3, height, width), sRGB, on the metric's device.
            reference: for a full-reference metric, what each is compared with, same shape.

        Returns:
            Floating-point tensor of shape (n,); the catalogue tells range and direction.

        Raises:
            ArithmeticError, AssertionError, IndexError, RuntimeError, ValueError: an image cannot be scored.
        """
        ...


def load(name: str, files: Mapping[str, Path], device: torch.device) -> ImageMetric:
    """Build the metric called `name`; see `ImageMetric`."""
    row = EVERY_METRIC[name]
    module, class_name = row.implementation.split(":")
    return getattr(importlib.import_module(f"banana100.scoring.metrics.{module}"), class_name)(name, files, device)
