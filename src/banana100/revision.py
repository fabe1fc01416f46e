"""What git says of the project: the commit that a result rests on."""

import subprocess
from dataclasses import dataclass

from banana100 import paths


@dataclass(frozen=True)
class Revision:
    """A state of tracked files.

    Attributes:
        commit: 40 hex digits.
        modified: whether the files differ from that commit.
    """

    commit: str
    modified: bool


def of_inputs() -> Revision | None:
    """The last commit that changed what a run starts from: code, params, pins; None outside of git.

    Not the commit that is checked out: the one that records a run in dvc.lock comes after the run, and would make the
    same run differ from itself.
    """
    inputs = [path.as_posix() for path in paths.INPUTS]
    commit = git("log", "-1", "--format=%H", "--", *inputs)
    return Revision(commit, bool(git("status", "--porcelain", "--", *inputs))) if commit else None


def git(*arguments: str) -> str:
    """What git says; empty outside of a repository and without git."""
    try:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
