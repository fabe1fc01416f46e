"""Real git clones of this working tree with real DVC, and templates of finished runs that are copied for each user."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from filelock import FileLock

from helpers.inline import WORKER_VARIABLES

ROOT = Path(__file__).resolve().parents[2]


class Clone:
    """A git clone of the working tree in `room/clone`, with a store of its own and the tools of this environment."""

    def __init__(self, room: Path) -> None:
        self.room = room
        self.folder = room / "clone"
        self.store = room / "store"

    @classmethod
    def fresh(cls, room: Path) -> "Clone":
        """All files that git knows or would take, as one commit."""
        clone = cls(room)
        names = subprocess.check_output(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, text=True)
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (clone.folder / name).parent.mkdir(parents=True, exist_ok=True)
                copy_with_bytecode(ROOT / name, clone.folder / name)
        # equal trees are equal commits, which the report names
        dates = [f"GIT_{who}_DATE=2026-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")]
        for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "clone"]):
            clone("env", *dates, "git", "-c", "user.name=t", "-c", "user.email=t@example.org", *command)
        return clone

    def copy(self, room: Path) -> "Clone":
        """The same, with its store, in another place."""
        shutil.copytree(self.room, room, symlinks=True, dirs_exist_ok=True)
        return Clone(room)

    @property
    def environment(self) -> dict[str, str]:
        not_the_users = ("DVC_", "GIT_", *WORKER_VARIABLES)
        variables = {name: value for name, value in os.environ.items() if not name.startswith(not_the_users)}
        variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"
        identity = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org"}
        identity |= {"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org"}
        folders = {"BANANA100_STORE": str(self.store), "BANANA100_WEIGHTS": str(self.room / "weights")}
        return variables | identity | folders | {"BANANA100_WORKERS": "1"}  # the other cores have other tests

    def __call__(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the clone; its output is in the failure message."""
        result = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        if check and result.returncode:
            pytest.fail(f"{' '.join(command)}: exit {result.returncode}\n{result.stdout}\n{result.stderr}")
        return result

    def set_params(self, content: Mapping[str, Any]) -> None:
        (self.folder / "params.yaml").write_text(yaml.safe_dump(dict(content), allow_unicode=True))

    def outputs(self) -> dict[str, str]:
        """md5 of every output, as dvc.lock has it."""
        lock = yaml.safe_load((self.folder / "dvc.lock").read_text())
        return {out["path"]: out["md5"] for stage in lock["stages"].values() for out in stage["outs"]}


def copy_with_bytecode(source: Path, target: Path) -> None:
    """With what Python has compiled of it, which holds for equal content and time: a clone compiles for a second."""
    shutil.copy2(source, target)
    compiled = source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
    if source.suffix == ".py" and compiled.exists():
        (target.parent / "__pycache__").mkdir(exist_ok=True)
        shutil.copy2(compiled, target.parent / "__pycache__")


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that the first worker process to ask has `make` fill, and all others only read or copy."""
    base = factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "templates"
    shared.mkdir(exist_ok=True)
    with FileLock(shared / f"{name}.lock"):
        if not (shared / f"{name}.made").exists():
            shutil.rmtree(shared / name, ignore_errors=True)  # what a failed try has left
            (shared / name).mkdir()
            make(shared / name)
            (shared / f"{name}.made").touch()
    return shared / name
