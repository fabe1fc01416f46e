"""Peak memory of few and of many images: it must not grow with their number."""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

from benchmarks.measure import environment, ratio, table, take_turns
from benchmarks.scoring import material
from benchmarks.scoring.options import LIGHT, Options

_FEW, _SIDE, _SECONDS = 100, 256, 0.1


def run(options: Options) -> None:
    """Print the peaks and their ratio."""
    folder = options.scratch / "memory"
    projects = {}
    for count in (_FEW, options.many):
        files = material.photographs(options.scratch / f"images-{_SIDE}-{count}", count, _SIDE)
        projects[count] = material.project(folder / f"project-{count}", material.rows_of(files, _SIDE), LIGHT)
    contenders = {f"{count} images": lambda project=project: _peak(project) for count, project in projects.items()}
    peaks = take_turns("memory", contenders, options.runs)
    few, many = peaks.values()
    rows = [[name, median(of), ""] for name, of in peaks.items()]
    rows.append(["ratio, target <= 1.10", "", ratio(many, few)])
    note = f"""\
MB: peak of the sum of PSS (pages that processes share counted once) over `python -m banana100 score` and its workers,
read every {_SECONDS} s: a shorter peak is missed."""
    table(f"memory: {', '.join(LIGHT)} on images of {_SIDE}x{_SIDE}", ["", "MB", "ratio"], rows, note)


def _peak(project: Path) -> float:
    store = project / "store"
    shutil.rmtree(store, ignore_errors=True)
    peak = 0.0
    with tempfile.TemporaryFile("w+") as said:
        command = [sys.executable, "-m", "banana100", "score"]
        variables = environment(BANANA100_STORE=store)
        process = psutil.Popen(command, cwd=project, env=variables, stdout=said, stderr=said)
        while process.poll() is None:
            peak = max(peak, _pss(process))
            time.sleep(_SECONDS)
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{command}: exit {process.returncode}\n{said.read()[-4000:]}")
    return peak / 1e6


def _pss(process: psutil.Popen) -> float:
    total = 0
    try:
        for one in [process, *process.children(recursive=True)]:
            try:
                total += one.memory_full_info().pss
            except psutil.NoSuchProcess:
                continue  # it ended meanwhile
    except psutil.NoSuchProcess:
        pass
    return total
