"""kill -9 of everything at random moments: nothing lost, nothing computed twice, nothing half-written."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from banana100.files import sha256_of
from banana100.generators.store import AnswerStore
from banana100.images import decode
from banana100.scoring.store import ScoreStore

KILLS = 20  # half of them in replicate, half in score
OUTPUTS = {"replicate": ["data/replicas", "data/previews", "data/lineage"], "score": ["data/scores"]}


@pytest.fixture(scope="module")
def undisturbed(small_clone: Any) -> Any:
    """The small clone; `seconds` tells how long each stage takes without a kill."""
    small_clone.seconds = {}
    for stage in OUTPUTS:
        forget(small_clone, stage)
        started = time.monotonic()
        small_clone("dvc", "repro", "--single-item", stage)
        small_clone.seconds[stage] = time.monotonic() - started
    return small_clone


def forget(clone: Any, stage: str) -> None:
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


def kill_at(clone: Any, stage: str, seconds: float) -> bool:
    """Start DVC on one stage and kill its whole process group; returns whether it was still running."""
    run = subprocess.Popen(
        ["dvc", "repro", "--single-item", stage],
        cwd=clone.folder,
        env=clone.environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        run.wait(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        if "stages:" not in (clone.folder / "dvc.lock").read_text():  # DVC does not write it in one go
            clone("git", "checkout", "-q", "dvc.lock")
        return True


def assert_everything_is_whole(clone: Any) -> None:
    """No unfinished file anywhere, every object is what its name says, every replica decodes."""
    for folder in (clone.store, clone.folder / "data", clone.folder / "metrics"):
        assert not list(folder.rglob(".tmp-*"))
    for file in (clone.store / "objects").rglob("*"):
        assert file.is_dir() or sha256_of(file.read_bytes()) == file.name
    for file in (clone.folder / "data/replicas").rglob("*.png"):
        assert decode(file.read_bytes()).shape == (128, 128, 3)


@pytest.mark.parametrize("stage", OUTPUTS)
def test_a_storm_of_kills_ends_with_the_same_outputs(undisturbed: Any, stage: str) -> None:
    clone, chance, whole = undisturbed, random.Random(stage), undisturbed.seconds[stage]
    landed = 0
    for _ in range(KILLS // 4):
        forget(clone, stage)
        # the first second is DVC's own start; the first kill comes in the later half, where the work is, and the
        # second meets a run that goes on from there
        landed += kill_at(clone, stage, chance.uniform(whole / 2, whole))
        landed += kill_at(clone, stage, chance.uniform(1.0, whole * 0.7))
        clone("dvc", "repro", "--single-item", stage)
        assert (clone.folder / "dvc.lock").read_text() == clone.lock
        assert_everything_is_whole(clone)
        if stage == "replicate":
            answers = Counter(
                line["request_id"] for line in AnswerStore(clone.store).journal() if "stored" in line["event"]
            )
            assert len(list((clone.store / "answers").rglob("*.json"))) == 80
            assert set(answers.values()) == {1}
        else:
            assert ScoreStore(clone.store).computed_twice() == 0
    assert landed >= KILLS // 4  # most kills met a running stage


def test_a_kill_between_answer_and_journal_loses_only_the_note(store: Path) -> None:
    """The journal is for people; what is stored is decided by the answers alone."""
    from banana100.generators.base import Answer
    from banana100.lineage.identity import Request

    request = Request("simulated", "rot-1", "copy", {}, "00", "a", 1, 1)
    answers = AnswerStore(store)
    kept = answers.put(request, Answer(image=b"x", model_answered="m"))
    (store / "journal.jsonl").unlink()
    assert AnswerStore(store).get(request) == kept
