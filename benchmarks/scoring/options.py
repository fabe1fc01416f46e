"""What the benchmarks of scoring are asked for, and the cases that they measure."""

import sys
from dataclasses import dataclass
from pathlib import Path

LIGHT = ("brisque", "entropy", "niqe", "piqe")
NETWORKS = ("cnniqa", "musiq", "topiq_nr")


@dataclass(frozen=True)
class Case:
    """One set of images and metrics."""

    name: str
    metrics: tuple[str, ...]
    side: int
    count: int


@dataclass(frozen=True)
class Options:
    """What the command line asks for; `scratch` is a folder that goes away at the end."""

    scratch: Path
    runs: int
    images: int
    images_all: int
    chains: int
    many: int

    def cases(self) -> list[Case]:
        """What `command` and `ideal` measure."""
        every = (*LIGHT, *NETWORKS)
        return [
            Case("light", LIGHT, 512, self.images),
            Case("light", LIGHT, 1024, self.images),
            Case("all", every, 512, self.images),
            Case("all", every, 1024, min(self.images, self.images_all)),
        ]


def child(task: str, *arguments: str) -> list[str]:
    """The command that runs a function of `child` in a process of its own."""
    return [sys.executable, "-m", "benchmarks.scoring.child", task, *arguments]
