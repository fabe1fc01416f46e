"""What the benchmarks work on: images, weights and project folders."""

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from banana100 import paths
from banana100.catalogue.photographs import BUNDLED
from banana100.files import sha256_of
from banana100.lineage import tables
from banana100.scoring import weights
from benchmarks.measure import ROOT, environment, timed
from benchmarks.scoring.options import child


@lru_cache
def photographs(folder: Path, count: int, side: int) -> tuple[Path, ...]:
    """Write `count` different square PNGs, equal in every run: crops of bundled photographs, resized, mildly noisy."""
    sources = [Image.open(path).convert("RGB") for path in _bundled()]
    folder.mkdir(parents=True)
    files = []
    for number in range(count):
        random = np.random.default_rng((side, number))
        source = sources[number % len(sources)]
        edge = int(min(source.size) * random.uniform(0.6, 1))
        left, top = (int(random.integers(0, length - edge + 1)) for length in source.size)
        crop = source.crop((left, top, left + edge, top + edge)).resize((side, side), Image.Resampling.BICUBIC)
        noisy = np.asarray(crop) + random.normal(0, 2, (side, side, 3))
        files.append(folder / f"{number:05d}.png")
        Image.fromarray(noisy.clip(0, 255).round().astype(np.uint8)).save(files[-1], compress_level=1)
    return tuple(files)


def _bundled() -> list[Path]:
    folders = {file: find_spec(file.package) for file in BUNDLED.values()}
    found = [Path(spec.submodule_search_locations[0]) / file.name for file, spec in folders.items() if spec]
    return sorted(path for path in found if path.is_file())


@lru_cache
def random_weights(folder: Path) -> dict[str, dict[str, Any]]:
    """Write seeded random weights where pyiqa's cache places would lie below `folder`; returns their lock."""
    variables = environment(BANANA100_WEIGHTS=folder)
    return json.loads(timed(child("weights"), ROOT, variables)[1].splitlines()[-1])


def row(path: Path | str, image_id: str, side: int, chain: tuple[str, int] = ("flat", 1), step: int = 0) -> dict:
    """A row of the images table."""
    place = {"path": str(path), "bytes": 1, "width": side, "height": side, "mode": "RGB", "campaign": "benchmark"}
    parents = {"parent_id": None, "request_id": None}
    return {"image_id": image_id} | place | {"seed": chain[0], "repeat": chain[1], "step": step} | parents


def rows_of(files: Sequence[Path], side: int) -> list[dict[str, Any]]:
    """Rows of image files that are all one chain."""
    return [row(path, sha256_of(path.read_bytes()), side, step=step) for step, path in enumerate(files)]


def project(
    folder: Path,
    rows: Iterable[Mapping[str, Any]],
    metrics: Sequence[str] | None = None,
    lock: Mapping[str, Mapping[str, Any]] | None = None,
) -> Path:
    """Make a project folder in which `banana100 score` runs.

    Args:
        folder: to make.
        rows: of the images table.
        metrics: what to score, without drift; by default what the repository's params.yaml asks for.
        lock: pins of weight files; the repository's by default.
    """
    folder.mkdir(parents=True)
    content = yaml.safe_load((ROOT / paths.PARAMS).read_text(encoding="utf-8"))
    if metrics:
        content["scoring"] |= {"metrics": list(metrics), "drift": []}
        content["ranking"] |= {"metrics": list(metrics), "min_drift": {}}
    (folder / paths.PARAMS).write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    tables.write(folder / paths.IMAGES_TABLE, tables.IMAGES, rows)
    if lock:
        weights.write_lock(lock, folder / paths.WEIGHTS_LOCK)
    else:
        shutil.copy2(ROOT / paths.WEIGHTS_LOCK, folder / paths.WEIGHTS_LOCK)
    return folder


def own_weights() -> dict[str, str]:
    """The variable that names the user's weights folder, if it is set."""
    return {name: os.environ[name] for name in ("BANANA100_WEIGHTS",) if name in os.environ}
