"""A workspace of the paper's size in which nothing is real but the numbers of files, rows and bytes a table has."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from banana100 import paths
from banana100.cli import STAGES
from banana100.files import sha256_of, write_atomically
from banana100.lineage import tables
from benchmarks.measure import ROOT, environment, timed
from benchmarks.ranking.synthetic import World

CAMPAIGN = "synthetic"
METRICS = 21
_SEEDS, _REPEATS, _STEPS = 14, 20, 100
_RANDOM = 1


def make(folder: Path) -> Path:
    """Make a git and DVC repository of 280 chains of 100 replicas, all scored by 21 metrics, as after `dvc repro`.

    Image files hold 2 kB of random bytes: ranking never reads one, DVC watches over them all the same.
    """
    _copy_tracked_files(folder)
    with chdir(folder):
        params = _write_params()
        rows = list(_images())
        tables.write(paths.IMAGES_TABLE, tables.IMAGES, rows)
        tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, _requests(rows))
        tables.write(paths.SEED_TABLE, tables.SEEDS, [])
        _write_scores(rows, params["metric_sets"]["paper21"])
        paths.PREVIEWS.mkdir(parents=True)
    variables = environment()
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
    params |= {"active": [CAMPAIGN], "campaigns": {CAMPAIGN: campaign}}
    params["seeds"]["count"] = _SEEDS
    params["scoring"] |= {"metrics": "paper21", "drift": ["psnr"]}
    params["ranking"]["metrics"] = "paper21"
    paths.PARAMS.write_text(yaml.safe_dump(params, allow_unicode=True), encoding="utf-8")
    return params


def _images() -> Iterator[dict[str, Any]]:
    """Write the image files; rows of the images table."""
    random = np.random.default_rng(_RANDOM)
    for number in range(_SEEDS):
        seed = f"s{number:02d}"
        original = random.bytes(2000)
        write_atomically(paths.seed_image(seed), original)
        for repeat in range(1, _REPEATS + 1):
            for step in range(_STEPS + 1):
                content = random.bytes(2000) if step else original
                path = paths.replica(CAMPAIGN, seed, repeat, step, "png")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                row = {"image_id": sha256_of(content), "path": path.as_posix(), "bytes": len(content), "width": 1024}
                row |= {"height": 1024, "mode": "RGB", "campaign": CAMPAIGN, "seed": seed, "repeat": repeat}
                request = sha256_of(path.as_posix().encode()) if step else None
                yield row | {"step": step, "parent_id": None, "request_id": request}


def _requests(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"request_id": row["request_id"], "image_id": row["image_id"], "backend": "simulated", "step": row["step"]}
        for row in rows
        if row["step"]
    ]


def _write_scores(rows: list[dict[str, Any]], metrics: list[str]) -> None:
    world = World(-1.5).draw(
        np.random.default_rng(_RANDOM), metrics=METRICS, seeds=_SEEDS, repeats=_REPEATS, steps=_STEPS
    )
    image_ids = [row["image_id"] for row in rows]
    for metric, aligned in zip(metrics, world, strict=True):
        scores = dict(zip(image_ids, (-aligned).round(4).ravel(), strict=True))
        table = [
            {"image_id": image_id, "metric": metric, "score": scores[image_id], "scorer_id": metric}
            for image_id in sorted(scores)
        ]
        tables.write(paths.scores(metric), tables.SCORES, table)
    scorers = [{"scorer_id": metric, "metric": metric, "higher_is_better": False} for metric in metrics]
    scorers.append({"scorer_id": "psnr", "metric": "psnr", "higher_is_better": True})
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, scorers)
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, [])
    starts = {(row["seed"], row["repeat"]): row["image_id"] for row in rows if not row["step"]}
    drift = [
        {
            "image_id": row["image_id"],
            "reference_id": starts[row["seed"], row["repeat"]],
            "metric": "psnr",
            "score": 32 - row["step"] / 2,
            "scorer_id": "psnr",
        }
        for row in rows
        if row["step"]
    ]
    tables.write(paths.DRIFT_TABLE, tables.DRIFT, drift)
