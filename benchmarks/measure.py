"""Running and timing processes, taking turns, and printing tables."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tabulate import tabulate

ROOT = Path(__file__).resolve().parents[1]

# Set by a user, these would decide what is measured; both sides go without.
_DECIDING = ("OMP_", "MKL_", "OPENBLAS_", "MALLOC_", "ATEN_", "BANANA100_", "TORCH_", "HF_", "CUDA_VISIBLE")


def environment(cpu: bool = True, **variables: str | Path) -> dict[str, str]:
    """The environment of every measured process: this one's, without what would decide, and with `variables`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DECIDING)}
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    kept["PYTHONPATH"] = str(ROOT)
    if cpu:
        kept |= {"CUDA_VISIBLE_DEVICES": "", "BANANA100_DEVICE": "cpu"}
    return kept | {name: str(value) for name, value in variables.items()}


def finish(process: "subprocess.Popen[str]") -> str:
    """What a process printed, once it has ended.

    Raises:
        RuntimeError: it failed; holds the end of what it said.
    """
    output, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args}: exit {process.returncode}\n{output[-2000:]}\n{errors[-4000:]}")
    return output


def start(command: Sequence[str | Path], folder: Path, variables: Mapping[str, str]) -> "subprocess.Popen[str]":
    """Start a process whose output is kept."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env=variables, text=True, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )


def timed(command: Sequence[str | Path], folder: Path, variables: Mapping[str, str]) -> tuple[float, str]:
    """Wall seconds of a whole process, and what it printed."""
    begun = time.perf_counter()
    output = finish(start(command, folder, variables))
    return time.perf_counter() - begun, output


def take_turns(what: str, contenders: Mapping[str, Callable[[], float]], runs: int) -> dict[str, list[float]]:
    """Figures of every contender, run after run; each run begins with another one."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for run in range(runs):
        for name in names[run % len(names) :] + names[: run % len(names)]:
            figures[name].append(contenders[name]())
            print(f"{what}, run {run + 1}/{runs}: {name} {figures[name][-1]:.2f}", file=sys.stderr, flush=True)
    return figures


def ratio(above: Sequence[float], below: Sequence[float]) -> str:
    """The ratio of the medians, and the least and greatest ratio of one run."""
    each = [a / b for a, b in zip(above, below, strict=True)]
    return f"{median(above) / median(below):.2f} ({min(each):.2f}-{max(each):.2f})"


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> None:
    """Print a table under a title; numbers get two decimals, texts stay as they are."""
    cells = [[f"{cell:.2f}" if isinstance(cell, float) else cell for cell in row] for row in rows]
    align = ["left", *["right"] * (len(header) - 1)]
    print(f"\n{title}\n{tabulate(cells, header, colalign=align, disable_numparse=True)}")
    if note:
        print(note)
    sys.stdout.flush()
