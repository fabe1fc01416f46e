"""Scorers: a metric with all that decides its scores, known by a hash."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from banana100 import images
from banana100.catalogue.metrics import DRIFT_METRICS, EVERY_METRIC, Metric
from banana100.files import sha256_of
from banana100.lineage.identity import identity
from banana100.scoring import metrics, weights
from banana100.scoring.weights import Lock, PinnedFile

PREPROCESSING = "8-bit sRGB as a person sees it (banana100.images.decode), divided by 255, native size"
_REFERENCE = "; the reference shrunk or enlarged to the image's size with Lanczos where they differ"

# The same CPU kernels on every x86-64 processor: by default MKL and PyTorch choose by vendor and vector width, which
# moves NIQE by 0.001. Costs about a seventh of the speed of statistics, and half of a network's, whose scores it would
# not make equal anyway (oneDNN chooses for itself): networks run with the processor's own. Read when torch is imported.
KERNELS = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}


@dataclass(frozen=True)
class Scorer:
    """A metric, ready to be loaded anywhere.

    Attributes:
        metric: its name.
        files: its weight files, pinned.
        precision: as in params.scoring.precision; statistics are always float32 with float64 inside.
        row: its row of the scorers table.
    """

    metric: str
    files: tuple[PinnedFile, ...]
    precision: str
    row: Mapping[str, Any] = field(hash=False)

    @property
    def id(self) -> str:
        """Hash of all that decides the scores."""
        return self.row["scorer_id"]

    @property
    def facts(self) -> Metric:
        """The metric's row in the catalogue."""
        return EVERY_METRIC[self.metric]


def scorer(metric: str, precision: str, lock: Lock, absent: bool = False) -> Scorer:
    """Describe a metric's scorer; no network is built and no weight file is opened for it.

    Args:
        metric: its name.
        precision: as in params.scoring.precision.
        lock: the pins of weight files.
        absent: allow weight files that are pinned and not on this machine; such a scorer cannot be loaded.

    Raises:
        UserError: its weights are not there, or not pinned.
    """
    facts = EVERY_METRIC[metric]
    files = weights.pinned(metric, facts, lock, absent)
    names, digests, licences = _parameters(facts, files)
    statistics = facts.kind == "statistics"
    row = {
        "metric": metric,
        "higher_is_better": facts.higher_is_better,
        "pyiqa": version("pyiqa"),
        "torch": version("torch").split("+")[0],
        "libraries": None if statistics else _libraries(),
        "parameters": names,
        "parameters_sha256": digests,
        "parameters_licence": licences,
        "preprocessing": PREPROCESSING + (_REFERENCE if metric in DRIFT_METRICS else ""),
        "precision": "float32" if statistics else precision,
        "kernels": " ".join(f"{k}={v}" for k, v in KERNELS.items()) if statistics else "chosen by the processor",
        "decimals": facts.decimals,
        "source_sha256": _source_digest(facts),
    }
    return Scorer(metric, tuple(files), row["precision"], {"scorer_id": identity(row)} | row)


def _parameters(facts: Metric, files: list[PinnedFile]) -> tuple[str | None, str | None, str | None]:
    """Names, digests and licences of what was trained, joined by semicolons; None for a metric without."""
    rows = [(file.key, file.sha256, file.licence) for file in files]
    if packaged := facts.parameters:
        rows.append((f"{packaged.distribution}: {packaged.name}", packaged.sha256 or "", packaged.licence))
    if not rows:
        return None, None, None
    names, digests, licences = zip(*rows, strict=True)
    return "; ".join(names), "; ".join(digests), "; ".join(dict.fromkeys(licences))


def _libraries() -> str:
    names = ("torchvision", "timm", "transformers", "openai-clip")
    return ", ".join(f"{name} {version(name)}" for name in names)


def _source_digest(facts: Metric) -> str:
    """Hash of the code that turns a file's bytes into a score: ours, and pyiqa's."""
    folder = Path(inspect.getfile(metrics)).parent
    module = facts.implementation.split(":")[0]
    ours = [Path(inspect.getfile(images)), *(folder / f"{name}.py" for name in {module, "pyiqa_metric"})]
    if facts.parameters:
        ours.append(folder / "parameters.py")
    digests = [sha256_of(file.read_bytes()) for file in sorted(ours, key=lambda file: file.name)]
    return sha256_of("".join([*digests, _pyiqa_digest()]).encode())


@lru_cache
def _pyiqa_digest() -> str:
    """Hash of the installed pyiqa's sources, found without importing it."""
    spec = find_spec("pyiqa")
    root = Path(spec.origin or "").parent if spec else Path()
    files = sorted(root.rglob("*.py"))
    return sha256_of("".join(f"{f.relative_to(root).as_posix()} {sha256_of(f.read_bytes())}\n" for f in files).encode())
