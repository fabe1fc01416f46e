"""NR-IQA metrics: from pixels to one number, and the record of what that number was computed with."""

import inspect
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyiqa
import torch
from pyiqa.archs import brisque_arch
from pyiqa.matlab_utils import imresize
from pyiqa.utils.color_util import to_y_channel

from banana100 import images
from banana100.catalogue import METRICS
from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.images import Pixels
from banana100.lineage.identity import identity
from banana100.scoring import parameters

PREPROCESSING = "8-bit sRGB as a person sees it (banana100.images.decode), divided by 255, native size, one at a time"

# The same CPU kernels on every x86-64 processor: by default MKL and PyTorch choose by vendor and vector width, which
# moves NIQE by 0.001. Costs about a seventh of the speed of light metrics. Read when torch is imported.
KERNELS = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}


class MetricError(Exception):
    """An image that a metric cannot score; the message is a clause that says why."""


class NoReferenceMetric(Protocol):
    """A metric that scores one image.

    Attributes:
        scorer: its row of the scorers table; `scorer_id` is the hash of all the rest.
    """

    scorer: dict[str, Any]

    def __call__(self, pixels: Pixels) -> float:
        """Score one image.

        Args:
            pixels: uint8 array of shape (height, width, 3), sRGB.

        Returns:
            The score, rounded to the metric's decimals; `scorer["higher_is_better"]` tells its direction.

        Raises:
            MetricError: the image cannot be scored.
        """
        ...


class PyiqaMetric:
    """A metric of pyiqa 0.1.16, called below its inference wrapper, which would switch TF32 convolutions on.

    Raises:
        UserError: the metric's parameters are absent or not the pinned ones.
    """

    precision = "float32"

    def __init__(self, name: str) -> None:
        self._row = METRICS[name]
        file = self._row.parameters
        options = {"pretrained_model_path": parameters.for_pyiqa(file)} if file else {}
        model = pyiqa.create_metric(name, device="cpu", **options)
        self._net = model.net.eval()
        sources = [inspect.getsourcefile(module) for module in (type(self._net), type(self), parameters, images)]
        scorer = {
            "metric": name,
            "higher_is_better": not model.lower_better,
            "pyiqa": pyiqa.__version__,
            "torch": torch.__version__.split("+")[0],
            "parameters": f"{file.distribution}: {file.name}" if file else None,
            "parameters_sha256": file.sha256 if file else None,
            "parameters_licence": file.licence if file else None,
            "preprocessing": PREPROCESSING,
            "precision": self.precision,
            "kernels": " ".join(f"{name}={value}" for name, value in KERNELS.items()),
            "decimals": self._row.decimals,
            "source_sha256": sha256_of(b"".join(Path(source or "").read_bytes() for source in sources)),
        }
        self.scorer = {"scorer_id": identity(scorer)} | scorer

    def __call__(self, pixels: Pixels) -> float:
        """Score one image; see `NoReferenceMetric`."""
        height, width = pixels.shape[:2]
        if min(height, width) < self._row.minimal_side:
            raise MetricError(f"is {width}x{height} pixels; the shorter side must be {self._row.minimal_side} at least")
        tensor = torch.tensor(pixels).permute(2, 0, 1)[None].float() / 255
        try:
            with torch.inference_mode(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                score = float(self._raw(tensor).reshape(1))
        except (MemoryError, RuntimeError, AssertionError, ValueError, IndexError, ZeroDivisionError) as error:
            if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in str(error):
                # the machine's limit, not the image's: it must not be published as a failure of the metric
                message = "out of memory; run again, with fewer workers in BANANA100_WORKERS."
                raise UserError(f"metric {self.scorer['metric']}: {message}") from None
            # flat images: singular covariances and empty selections surface as any of these
            raise MetricError(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from None
        if not math.isfinite(score):
            raise MetricError(f"the score is {score}")
        return round(score, self._row.decimals) + 0.0  # no negative zero

    def _raw(self, tensor: torch.Tensor) -> torch.Tensor:
        """Score a float32 tensor of shape (1, 3, height, width), 0..1."""
        return self._net(tensor)


class Brisque(PyiqaMetric):
    """BRISQUE with pyiqa's float32 features and its support vector machine in float64.

    The coefficients of +-1024 cancel in float32, so that scores move by 0.01 with batch size and thread count. Features
    in float64 would be other scores: on flat ground up to 2.9 away from those that pyiqa publishes.
    """

    precision = "float32 features, float64 support vector machine"

    def _raw(self, tensor: torch.Tensor) -> torch.Tensor:
        luminance = to_y_channel(tensor, 255.0)
        scales = [luminance, imresize(luminance, scale=0.5, antialiasing=True)]
        features = torch.cat([brisque_arch.natural_scene_statistics(scale) for scale in scales], dim=-1)
        scaled = brisque_arch.scale_features(features).double()
        kernel = brisque_arch.rbf_kernel(features=scaled, sv=self._net.sv.double().t(), gamma=self._net.gamma)
        return kernel @ self._net.sv_coef.double() - self._net.rho


# Metrics that need more than pyiqa's own call; all others are a PyiqaMetric.
_CLASSES: dict[str, Callable[[str], NoReferenceMetric]] = {"brisque": Brisque}


def load(name: str) -> NoReferenceMetric:
    """The metric called `name` in params.yaml, ready to score.

    Raises:
        UserError: its parameters cannot be had.
    """
    return _CLASSES.get(name, PyiqaMetric)(name)
