"""How long does the report take at the paper's size, how large is its page, and how long until it is open?

Usage, from the repository's root: python -m benchmarks.report [--runs 3] [--starts 5] [--keep FOLDER]

Everything runs on 2 cores. Chromium is started anew, with a new profile, each time that it opens and scrolls the page;
the page's file is in memory by then. BANANA100_CHROMIUM names another browser than the first in PATH.
"""

import argparse
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import mean, median

import psutil

from banana100 import paths
from banana100.workers import worker_count
from benchmarks import workspace
from benchmarks.measure import environment, table
from benchmarks.report import browser
from benchmarks.workspace import Shape

_CORES = 2
_SECONDS = 0.1
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)
_PREVIEWS = (0, 1, 2, 5, 10, 20, 50, 100)

_DEFAULT = Shape(
    seeds=6, repeats=2, steps=20, metrics="offline", drift=("gmsd", "psnr", "ssim"),
    preview_steps=_PREVIEWS, photographs=True,
)  # fmt: skip
_PAPER = Shape(campaigns=4, repeats=5, preview_steps=_PREVIEWS, photographs=True, paid=True)


@dataclass(frozen=True)
class Run:
    """One run of the stage: wall seconds, peak megabytes of its largest process, and of all of its processes together.

    Megabytes are resident ones. Together, pages that processes share count once.
    """

    seconds: float
    largest: float
    together: float


@dataclass(frozen=True)
class Found:
    """Everything that was measured of one workspace."""

    runs: list[Run]
    page: int
    folder: int
    visits: list[browser.Visit]


def main() -> None:
    """Make the workspaces, measure, print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of the stage (3)")
    parser.add_argument("--starts", type=int, default=5, metavar="N", help="cold starts of Chromium (5)")
    parser.add_argument("--scratch", type=Path, help="where the temporary folder, 300 MB, is made")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="make the workspaces here, or use those that lie here already"
    )
    asked = parser.parse_args()
    chromium = browser.version()
    if (load := os.getloadavg()[0]) > 0.5:
        print(f"warning: before anything was started, the load is {load:.1f}: figures suffer", file=sys.stderr)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])
    print(f"{platform.platform()}, Python {platform.python_version()}, {worker_count()} cores, {chromium}")
    with tempfile.TemporaryDirectory(prefix="banana100-benchmark-", dir=asked.scratch) as folder:
        kept = asked.keep.resolve() if asked.keep else Path(folder)
        projects = {name: _project(kept / name, shape) for name, shape in (("default", _DEFAULT), ("paper", _PAPER))}
        found = [_measure(project, asked.runs, asked.starts) for project in projects.values()]
        _tell(found, projects["paper"])


def _project(folder: Path, shape: Shape) -> Path:
    """A workspace in `folder`, made if it is not there; one that was not finished is made again."""
    if folder.is_dir():
        workspace.refresh(folder, shape)
        return folder
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    return workspace.make(unfinished, shape=shape).rename(folder)


def _measure(project: Path, runs: int, starts: int) -> Found:
    stage = [_run(project) for _ in range(runs)]
    page = project / paths.REPORT_PAGE
    folder = sum(file.stat().st_size for file in (project / paths.REPORT).rglob("*") if file.is_file())
    visits = []
    for _ in range(starts):
        visits.append(browser.visit(page))
        print(f"{project.name}: {visits[-1]}", file=sys.stderr, flush=True)
    return Found(stage, page.stat().st_size, folder, visits)


def _run(project: Path) -> Run:
    """Run the stage, with no report there."""
    shutil.rmtree(project / paths.REPORT, ignore_errors=True)
    command = [sys.executable, "-m", "banana100", "report"]
    with tempfile.TemporaryFile("w+") as said:
        begun, largest, together = time.perf_counter(), 0, 0
        process = psutil.Popen(command, cwd=project, env=environment(), stdout=said, stderr=said)
        while process.poll() is None:
            sizes = list(_sizes(process))
            largest = max([largest, *(peak for peak, _ in sizes)])
            together = max(together, sum(share for _, share in sizes))
            time.sleep(_SECONDS)
        seconds = time.perf_counter() - begun
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{command}: exit {process.returncode}\n{said.read()[-4000:]}")
    run = Run(seconds, largest / 1e6, max(largest, together) / 1e6)
    print(f"{project.name}: {run}", file=sys.stderr, flush=True)
    return run


def _sizes(process: psutil.Popen) -> Iterator[tuple[int, int]]:
    """Bytes of a process and of all that it started: the most that was ever resident, and its share of all memory now.

    The peak that the system tells of a process that has ended would not do: it counts the one that it was forked from.
    """
    with suppress(psutil.NoSuchProcess):  # it ended meanwhile
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess, OSError):
                memory = one.memory_full_info()
                yield _peak(one.pid) or memory.rss, memory.pss


def _peak(pid: int) -> int:
    """The most bytes that were ever resident; 0 where it is not told."""
    status = Path(f"/proc/{pid}/status")
    found = _PEAK.search(status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


# What `_figures` gives: its name, and the targets for the default and the paper's size.
_ROWS = (
    ("banana100 report, whole process: s", "", "120"),
    ("largest process: peak MB", "", "2000"),
    ("all processes together: peak MB", "", "2000"),
    ("metrics/report/index.html: MB", "8", "25"),
    ("metrics/report: MB", "", ""),
    ("page, from navigation to load event: s", "", ""),
    ("to the first frame after it: s", "1", "3"),
    ("to the end of the last long task: s", "", ""),
    ("scrolling, longest frame: ms", "", ""),
    ("scrolling, all long tasks together: ms", "", ""),
)


def _figures(found: Found) -> list[float]:
    visits = [(one.load / 1000, one.frame / 1000, one.free / 1000, one.longest, one.busy) for one in found.visits]
    return [
        *(median(of) for of in zip(*map(astuple, found.runs), strict=True)),
        *(size / 1e6 for size in (found.page, found.folder)),
        *(float(median(of)) for of in zip(*visits, strict=True)),
    ]


def _tell(found: Sequence[Found], project: Path) -> None:
    """Print both sizes side by side; `project` is the larger one."""
    both = zip(_ROWS, *map(_figures, found), strict=True)
    rows = [[what, default, low, paper, high] for (what, low, high), default, paper in both]
    sizes = (f"{shape.chains} chains of {shape.steps} replicas" for shape in (_DEFAULT, _PAPER))
    previews = [file.stat().st_size for file in (project / paths.PREVIEWS).rglob("*.webp")]
    notes = [
        f"Medians of {len(found[0].runs)} runs and {len(found[0].visits)} cold starts of Chromium. All processes "
        f"together: sum of PSS, read every {_SECONDS} s.",
        f"Previews at the paper's size: {len(previews):,}, of {mean(previews) / 1000:.1f} kB on average.",
    ]
    for name, one in zip(("Default", "Paper"), found, strict=True):
        seen = one.visits[-1]
        drawn = f"{seen.drawn} of {seen.images} images drawn"
        notes.append(f"{name}: scrolled {seen.height:,} pixels in {seen.frames} frames; {drawn}.")
    header = ["", "default", "target", "paper", "target"]
    table(f"the report of {' and of '.join(sizes)}", header, rows, "\n".join(notes))


if __name__ == "__main__":
    main()
