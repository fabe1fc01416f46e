"""A workspace of the paper's size: real seeds, chains that prove true, and invented images and scores."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from banana100 import images, params, paths
from banana100.catalogue.metrics import EVERY_METRIC
from banana100.catalogue.weights import WeightFile
from banana100.cli import STAGES
from banana100.files import sha256_of, write_atomically
from banana100.generators import adoption
from banana100.generators.simulated import answer
from banana100.generators.store import StoredAnswer
from banana100.lineage import tables
from banana100.lineage.identity import Request
from banana100.replication.chains import Chain, plan
from banana100.replication.workspace import preview_tasks, seed_images
from banana100.scoring import weights
from banana100.scoring.scorers import Scorer, scorer
from benchmarks.measure import ROOT, environment, timed
from benchmarks.ranking.synthetic import World

CAMPAIGN = "synthetic"
_SEEDS, _REPEATS, _STEPS = 14, 20, 100
_RANDOM = 1


def make(folder: Path, image_bytes: int = 2000) -> Path:
    """Make a git and DVC repository of 280 chains of 100 replicas, all scored by 21 metrics, as after `dvc repro`.

    Seeds are the real ones. A replica's file is a tiny PNG with random bytes behind it, `image_bytes` in all: nobody
    decodes it, but it has a digest and a header. Scores are drawn, weights pinned by invented digests.
    """
    _copy_tracked_files(folder)
    variables = environment()
    subprocess.run(["dvc", "config", "cache.type", "hardlink"], cwd=folder, env=variables, check=True)
    with chdir(folder):
        content = _write_params()
        timed(["python", "-m", "banana100", "select_seeds"], folder, variables)
        _write_lineage(image_bytes)
        _write_scores(content["metric_sets"]["paper21"])
    for stage in list(STAGES)[-2:]:
        timed(["python", "-m", "banana100", stage], folder, variables)
    timed(["dvc", "commit", "-q", "-f"], folder, variables)
    _git(folder, "commit", "-qam", "synthetic scores")
    return folder


def _copy_tracked_files(folder: Path) -> None:
    names = subprocess.check_output(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, text=True)
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "clone")


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=b", "-c", "user.email=b@example.org", *arguments], cwd=folder, check=True)


def _write_params() -> dict[str, Any]:
    params = yaml.safe_load(paths.PARAMS.read_text(encoding="utf-8"))
    campaign = params["campaigns"]["simulated-paper-shape"] | {"repeats": _REPEATS, "steps": _STEPS}
    params |= {"active": [CAMPAIGN], "campaigns": {CAMPAIGN: campaign}, "campaign_sets": {}}
    params["seeds"] |= {"count": _SEEDS, "size": 256}  # which all 14 photographs reach
    params["scoring"] |= {"metrics": "paper21", "drift": ["psnr"]}
    params["ranking"]["metrics"] = "paper21"
    paths.PARAMS.write_text(yaml.safe_dump(params, allow_unicode=True), encoding="utf-8")
    return params


def _write_lineage(image_bytes: int) -> None:
    """Replicas, previews and the tables of images and requests."""
    checked = params.load()
    random = np.random.default_rng(_RANDOM)
    start = images.encode_png(random.integers(0, 256, (16, 16, 3), dtype=np.uint8))
    rows: list[dict[str, Any]] = []
    answered: dict[str, dict[str, Any]] = {}
    for chain in plan(checked.active_campaigns(), seed_images()):
        walked = list(_walk(chain, start, image_bytes, random))
        answered |= {request.id: adoption.request_row(request, kept) for request, kept, _ in walked}
        rows.append(_row(chain, 0, paths.seed_image(chain.seed).read_bytes(), None))
        rows += [_row(chain, step, image, request) for step, (request, _, image) in enumerate(walked, start=1)]
    for image, preview, side in preview_tasks(rows, checked.previews):
        write_atomically(preview, images.encode_preview(image.read_bytes(), side))
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, rows)
    tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, [answered[request_id] for request_id in sorted(answered)])
    tables.write(paths.REFUSALS_TABLE, tables.REFUSALS, [])
    tables.write(paths.PARKED_TABLE, tables.PARKED, [])


def _walk(
    chain: Chain, start: bytes, size: int, random: np.random.Generator
) -> Iterator[tuple[Request, StoredAnswer, bytes]]:
    parent_id = chain.seed_id
    record = answer(b"", chain.settings.model).record
    for step in range(1, _STEPS + 1):
        image = start + random.bytes(size - len(start))
        request = chain.request(step, parent_id)
        parent_id = sha256_of(image)
        yield request, StoredAnswer(parent_id, record), image


def _row(chain: Chain, step: int, image: bytes, request: Request | None) -> dict[str, Any]:
    """Write an image's file; gives its row of the table."""
    path = paths.replica(chain.campaign, chain.seed, chain.repeat, step, "png")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(image)
    header = images.read_header(image)
    row = {"image_id": sha256_of(image), "path": path.as_posix(), "bytes": len(image), "width": header.width}
    row |= {"height": header.height, "mode": header.mode, "campaign": chain.campaign, "seed": chain.seed}
    row |= {"parent_id": request.parent_id, "request_id": request.id} if request else {}
    return row | {"repeat": chain.repeat, "step": step}


def _write_scores(metrics: Sequence[str]) -> None:
    images_table = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    world = World(-1.5).draw(
        np.random.default_rng(_RANDOM), metrics=len(metrics), seeds=_SEEDS, repeats=_REPEATS, steps=_STEPS
    )
    scorers = _scorers([*metrics, "psnr"])
    for metric, aligned in zip(metrics, world, strict=True):
        sign = 1 if scorers[metric].facts.higher_is_better else -1
        scores = pd.DataFrame({"image_id": images_table["image_id"], "score": (sign * aligned).ravel()})
        scores["score"] = np.round(scores["score"].to_numpy(), scorers[metric].facts.decimals)
        scores = scores.drop_duplicates("image_id").assign(metric=metric, scorer_id=scorers[metric].id)
        tables.write(paths.scores(metric), tables.SCORES, scores.sort_values("image_id")[tables.SCORES.names])
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, [scorers[metric].row for metric in sorted(scorers)])
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, [])
    start = images_table["image_id"].where(images_table["step"] == 0).ffill()
    drift = images_table.assign(reference_id=start, metric="psnr", scorer_id=scorers["psnr"].id)
    drift = drift.assign(score=32 - drift["step"].astype(float) / 2)[drift["step"] > 0]
    tables.write(paths.DRIFT_TABLE, tables.DRIFT, drift[tables.DRIFT.names])


def _scorers(metrics: Sequence[str]) -> dict[str, Scorer]:
    """Scorers by metric, their weights pinned by invented digests."""
    lock = weights.read_lock()
    for wanted in (file for metric in metrics for file in EVERY_METRIC[metric].weights):
        one = isinstance(wanted, WeightFile)
        key = weights.file_key(wanted) if one else f"{weights.key_prefix(wanted)}model.bin"
        lock.setdefault(key, {"sha256": sha256_of(key.encode()), "bytes": 1} | ({} if one else {"revision": "0"}))
    weights.write_lock(lock)
    return {metric: scorer(metric, "float32", lock, absent=True) for metric in metrics}
