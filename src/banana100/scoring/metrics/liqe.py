"""LIQE (Zhang et al., CVPR 2023), as pyiqa 0.1.16 computes it, without its cache of text features."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

from banana100.scoring.metrics.pyiqa_metric import PyiqaMetric


class Liqe(PyiqaMetric):
    """LIQE and LIQE-mix; 1..5, higher is better.

    pyiqa keeps the text features in a file whose name ignores the weights, and would load it unchecked: they are made
    anew each time, in a folder that is thrown away.
    """

    def __init__(self, name: str, files: Mapping[str, Path], device: torch.device) -> None:
        from pyiqa.archs import liqe_arch  # noqa: PLC0415  see PyiqaMetric

        with tempfile.TemporaryDirectory() as scratch:
            liqe_arch.DEFAULT_CACHE_DIR = scratch
            super().__init__(name, files, device)
