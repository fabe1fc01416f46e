"""Nothing to do, and little to do: a large project that is scored already, then one chain more."""

import contextlib
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from banana100 import params
from banana100.files import sha256_of
from banana100.scoring import weights
from banana100.scoring.scorers import scorer
from banana100.scoring.store import Result, ScoreStore
from benchmarks.measure import environment, ratio, table, take_turns, timed
from benchmarks.scoring import material
from benchmarks.scoring.options import Options

_STEPS, _REPEATS, _SIDE = 100, 5, 256


def run(options: Options) -> None:
    """Print the seconds of a run that finds everything done, and of 100 images more with and without the others."""
    folder = options.scratch / "resume"
    stored = list(_chains(options.chains))
    files = material.photographs(options.scratch / f"images-{_SIDE}-{_STEPS}", _STEPS, _SIDE)
    new = material.rows_of(files, _SIDE)
    full = material.project(folder / "full", stored)
    more = material.project(folder / "more", [*stored, *new])
    only = material.project(folder / "only", new)
    results = _fill(full, folder / "store", stored)
    contenders = {
        "all stored": lambda: _seconds(full, folder / "store", fresh=False),
        "100 more": lambda: _seconds(more, folder / "store"),
        "100 only": lambda: _seconds(only, None),
    }
    seconds = take_turns("resume", contenders, options.runs)
    images = options.chains * _STEPS
    rows = [
        [f"{images} images, all stored", median(seconds["all stored"]), "", "< 10 s"],
        [f"{images} images stored, 100 new", median(seconds["100 more"]), "", ""],
        ["the 100 new ones only", median(seconds["100 only"]), "", ""],
        ["100 new: with the others / without", "", ratio(seconds["100 more"], seconds["100 only"]), "<= 1.2"],
    ]
    title = f"resume: `python -m banana100 score`, whole process, {results} results stored, 100 images of 256x256"
    table(title, ["", "seconds", "ratio", "target"], rows)


def _chains(count: int) -> Iterator[dict[str, Any]]:
    """Rows of chains whose images nobody has: step 0, which the repeats of a seed share, and 100 replicas."""
    for chain in range(count):
        seed, repeat = f"seed{chain // _REPEATS:03d}", chain % _REPEATS + 1
        for step in range(_STEPS + 1):
            image_id = sha256_of(f"{seed} {repeat if step else ''} {step}".encode())
            path = f"data/replicas/benchmark/{seed}/r{repeat}/{step:03d}.png"
            yield material.row(path, image_id, _SIDE, (seed, repeat), step)


def _fill(project: Path, root: Path, rows: list[dict[str, Any]]) -> int:
    """Store a made-up score for everything that the project's params.yaml asks for; returns how many."""
    starts = {(row["seed"], row["repeat"]): row["image_id"] for row in rows if row["step"] == 0}
    ids = sorted({row["image_id"] for row in rows})
    pairs = sorted({(row["image_id"], starts[row["seed"], row["repeat"]]) for row in rows if row["step"] > 0})
    store, count, made_up = ScoreStore(root), 0, random.Random(0)
    with contextlib.chdir(project):
        checked, lock = params.load(), weights.read_lock()
        wanted = [(name, [(i, "") for i in ids]) for name in checked.scored_metrics()]
        wanted += [(name, pairs) for name in checked.scoring.drift]
        for name, keys in wanted:
            known = scorer(name, checked.scoring.precision, lock).id
            store.put(Result(known, i, round(made_up.uniform(1, 9), 4), reference_id=of) for i, of in keys)
            count += len(keys)
    return count


def _seconds(project: Path, filled: Path | None, fresh: bool = True) -> float:
    """Seconds of the stage; with `fresh`, on a copy of the store `filled`, or on an empty one."""
    store = filled
    if fresh or filled is None:
        store = project.parent / "store-of-run"
        shutil.rmtree(store, ignore_errors=True)
        if filled:
            shutil.copytree(filled, store)
            os.sync()  # the copy's writes are not the run's
    variables = environment(BANANA100_STORE=str(store), **material.own_weights())
    seconds, output = timed([sys.executable, "-m", "banana100", "score"], project, variables)
    if not output.rstrip().endswith(" 0 of them failed"):
        raise RuntimeError(f"scores failed: {output}")
    return seconds
