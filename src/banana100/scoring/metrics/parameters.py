"""Trained parameters that ship inside packages, brought into the form in which pyiqa reads them.

Nothing is read before its sha256 is checked, and nothing converted touches the disk: pyiqa would load it unchecked.
"""

import importlib.util
import io
from pathlib import Path

import numpy as np
import scipy.io
import torch

from banana100.catalogue.packaged import PackagedFile
from banana100.errors import UserError
from banana100.files import sha256_of


def for_pyiqa(file: PackagedFile) -> io.BytesIO:
    """The parameters as the file that pyiqa's `pretrained_model_path` expects.

    Raises:
        UserError: the package is absent, or the file is not the one whose scores are known to be right.
    """
    data = _checked(file)
    return _niqe(data) if file.name.endswith(".npz") else _brisque(data)


def _checked(file: PackagedFile) -> bytes:
    spec = importlib.util.find_spec(file.package)
    folders = spec.submodule_search_locations if spec else None
    path = Path(folders[0]) / file.name if folders else None
    if path is None or not path.is_file():
        raise UserError(f"parameters {file.name}: not found in package {file.distribution}; run `make` to install it.")
    data = path.read_bytes()
    if (found := sha256_of(data)) != file.sha256:
        raise UserError(
            f"parameters {file.name} of package {file.distribution}: sha256 is {found}; allowed: {file.sha256}."
        )
    return data


def _niqe(data: bytes) -> io.BytesIO:
    """BasicSR's npz, equal to the LIVE release value by value, to MATLAB's format."""
    arrays = np.load(io.BytesIO(data), allow_pickle=False)
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"mu_prisparam": arrays["mu_pris_param"], "cov_prisparam": arrays["cov_pris_param"]})
    stream.seek(0)
    return stream


def _brisque(data: bytes) -> io.BytesIO:
    """LIVE's libsvm text to pyiqa's pair of tensors: coefficients (774,) and support vectors (774, 36), float32."""
    lines = data.decode("ascii").split("SV\n", 1)[1].splitlines()
    rows = [line.split() for line in lines if line.strip()]
    coefficients = torch.tensor([float(row[0]) for row in rows])
    vectors = torch.zeros(len(rows), 36)
    for index, row in enumerate(rows):
        for entry in row[1:]:
            position, value = entry.split(":")
            vectors[index, int(position) - 1] = float(value)
    stream = io.BytesIO()
    torch.save((coefficients, vectors), stream)
    stream.seek(0)
    return stream
