"""kill -9 of everything at random moments: nothing lost, nothing computed twice, nothing half-written."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from banana100.files import sha256_of
from banana100.generators.store import AnswerStore
from banana100.images import decode
from banana100.scoring.store import ScoreStore
from helpers.clones import Clone

OUTPUTS = {"replicate": ["data/replicas", "data/previews", "data/lineage"], "score": ["data/scores"]}


def stored(clone: Clone, stage: str) -> int:
    """How many answers or scores are in the store."""
    if stage == "replicate":
        return sum(1 for _ in (clone.store / "answers").rglob("*.json"))
    try:
        with closing(sqlite3.connect(f"file:{clone.store}/scores.sqlite3?mode=ro", uri=True)) as scores:
            return scores.execute("SELECT count(*) FROM results").fetchone()[0]
    except sqlite3.OperationalError:  # not made yet
        return 0


def forget(clone: Clone, stage: str) -> None:
    """Delete what a stage has made, in the workspace and in the store."""
    if stage == "replicate":
        for part in ("answers", "objects", "journal.jsonl"):
            path = clone.store / part
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    else:
        for file in clone.store.glob("scores*.sqlite3*"):
            file.unlink()
    for output in OUTPUTS[stage]:
        shutil.rmtree(clone.folder / output)


def kill_at(clone: Clone, stage: str, count: int) -> bool:
    """Start DVC on one stage and kill its whole process group when so much is stored; returns whether it still ran."""
    run = subprocess.Popen(
        ["dvc", "repro", "--single-item", stage],
        cwd=clone.folder,
        env=clone.environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while run.poll() is None and stored(clone, stage) < count:
        time.sleep(0.001)
    if run.poll() is not None:
        return False
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    if "stages:" not in (clone.folder / "dvc.lock").read_text():  # DVC does not write it in one go
        clone("git", "checkout", "-q", "dvc.lock")
    return True


def assert_everything_is_whole(clone: Clone) -> None:
    """No unfinished file anywhere, every object is what its name says, every replica decodes."""
    for folder in (clone.store, clone.folder / "data", clone.folder / "metrics"):
        assert not list(folder.rglob(".tmp-*"))
    for file in (clone.store / "objects").rglob("*"):
        assert file.is_dir() or sha256_of(file.read_bytes()) == file.name
    for file in (clone.folder / "data/replicas").rglob("*.png"):
        assert decode(file.read_bytes()).ndim == 3


@pytest.mark.parametrize(("run", "rounds"), [("tiny_run", 1), pytest.param("small_run", 5, marks=pytest.mark.long)])
@pytest.mark.parametrize("stage", OUTPUTS)
def test_a_storm_of_kills_ends_with_the_same_outputs(
    request: pytest.FixtureRequest, tmp_path: Path, stage: str, run: str, rounds: int
) -> None:
    """Two kills a round: while answers or scores come in, and, as all are there, while the outputs are written."""
    clone, chance = request.getfixturevalue(run).copy(tmp_path), random.Random(stage)
    lock, whole = (clone.folder / "dvc.lock").read_text(), stored(clone, stage)
    landed = 0
    for _ in range(rounds):
        forget(clone, stage)
        landed += kill_at(clone, stage, chance.randrange(1, whole))
        landed += kill_at(clone, stage, whole)
        clone("dvc", "repro", "--single-item", stage)
        assert (clone.folder / "dvc.lock").read_text() == lock
        assert_everything_is_whole(clone)
        if stage == "replicate":
            answers = Counter(
                line["request_id"] for line in AnswerStore(clone.store).journal() if "stored" in line["event"]
            )
            assert len(list((clone.store / "answers").rglob("*.json"))) == whole
            assert set(answers.values()) == {1}
        else:
            assert ScoreStore(clone.store).computed_twice() == 0
    assert landed >= rounds  # half of the kills at least met a running stage
