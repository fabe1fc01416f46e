"""BRISQUE (Mittal et al., 2012), as pyiqa 0.1.16 computes it, but for the precision of its last sum."""

import torch

from banana100.scoring.metrics.pyiqa_metric import PyiqaMetric


class Brisque(PyiqaMetric):
    """BRISQUE with pyiqa's float32 features and its support vector machine in float64; lower is better.

    The coefficients of +-1024 cancel in float32, so that scores move by 0.01 with batch size and thread count. Features
    in float64 would be other scores: on flat ground up to 2.9 away from those that pyiqa publishes.
    """

    def _raw(self, *tensors: torch.Tensor) -> torch.Tensor:
        from pyiqa.archs import brisque_arch  # noqa: PLC0415  see PyiqaMetric
        from pyiqa.matlab_utils import imresize  # noqa: PLC0415
        from pyiqa.utils.color_util import to_y_channel  # noqa: PLC0415

        luminance = to_y_channel(tensors[0], 255.0)
        scales = [luminance, imresize(luminance, scale=0.5, antialiasing=True)]
        features = torch.cat([brisque_arch.natural_scene_statistics(scale) for scale in scales], dim=-1)
        scaled = brisque_arch.scale_features(features).double()
        kernel = brisque_arch.rbf_kernel(features=scaled, sv=self._net.sv.double().t(), gamma=self._net.gamma)
        return kernel @ self._net.sv_coef.double() - self._net.rho
