"""Wall time and memory of ranking at full scale: the stage, an experiment with another subset, the search of pairs."""

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks import workspace
from benchmarks.measure import environment, table

_SUBSETS = ("[niqe,piqe]", "[musiq,maniqa]", "[brisque,clipiqa]", "[dbcnn,tres]", "[liqe,nima]")


def run(scratch: Path, runs: int, search: bool) -> None:
    """Print seconds and peak memory, medians of `runs`; the search of pairs, which takes minutes, once if asked for."""
    project = workspace.make(scratch / "full-scale")
    rows: list[list[object]] = []
    stage = [_measured([sys.executable, "-m", "banana100", "rank"], project) for _ in range(runs)]
    rows.append(["rank: 21 metrics, bootstrap 2000", *map(median, zip(*stage, strict=True)), "60 s, 2000 MB"])
    before = _scores(project)
    experiments = [
        _measured(["dvc", "exp", "run", "-S", f"ranking.metrics={_SUBSETS[index % len(_SUBSETS)]}"], project)
        for index in range(runs)
    ]
    if _scores(project) != before:
        raise RuntimeError("an experiment touched a score file")
    rows.append(["dvc exp run -S 'ranking.metrics=[a,b]'", *map(median, zip(*experiments, strict=True)), "15 s"])
    if search:
        subprocess.run(["git", "checkout", "-q", "."], cwd=project, check=True)
        seconds, megabytes = _measured([sys.executable, "-m", "banana100", "subsets", "--size", "2"], project)
        rows.append(["banana100 subsets --size 2: 210 pairs", seconds, megabytes, ""])
    title = "280 chains of 100 replicas, 21 metrics, 28,280 files, 588,000 synthetic scores of replicas"
    note = "MB: peak resident memory of the largest single process. No experiment wrote a file in data/scores."
    table(title, ["whole process", "seconds", "MB", "target"], rows, note)


def _measured(command: list[str], project: Path) -> tuple[float, float]:
    """Wall seconds, and peak resident megabytes of the largest process among the command and what it started."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=project, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    # a command's children are counted once they are waited for, as DVC does
    errors = process.stderr.read() if process.stderr else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command}: exit {process.returncode}\n{errors[-4000:]}")
    seconds = time.perf_counter() - begun
    print(f"{' '.join(command[-3:])}: {seconds:.1f} s", file=sys.stderr, flush=True)
    return seconds, usage.ru_maxrss / 1024


def _scores(project: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of change of every score file."""
    files = sorted((project / "data/scores").iterdir())
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in files}
