"""Do requests run side by side, is memory flat over 28,000 of them, how soon is there nothing to do on a full store?

Usage, from the repository's root: python -m benchmarks.generators [--runs 5] [--requests 28000]

The real client asks the loopback server, which answers a small ready-made PNG. The server runs on the same cores.
"""

import argparse
import copy
import json
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import yaml

from banana100.catalogue.photographs import BUNDLED
from banana100.dry_run.server import running
from banana100.workers import worker_count
from benchmarks.measure import ROOT, environment, finish, ratio, start, table, timed

_KEY = "benchmark"
_LATENCY = 0.5
_CHAINS, _STEPS = 20, 10


def main() -> None:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.generators", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of the first table (5)")
    parser.add_argument(
        "--requests", type=int, default=28_000, metavar="N", help="requests of the second table (28000)"
    )
    parser.add_argument("--scratch", type=Path, help="where the temporary folder, 2 GB, is made")
    asked = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, {worker_count()} cores")
    with tempfile.TemporaryDirectory(prefix="banana100-benchmark-", dir=asked.scratch) as folder:
        _side_by_side(Path(folder), asked.runs)
        _endurance(Path(folder), asked.requests)


def project(folder: Path, seeds: int, repeats: int, steps: int) -> Path:
    """A project with one paid campaign, its seeds chosen."""
    content: dict[str, Any] = copy.deepcopy(yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8")))
    content["seeds"] = {"size": 96, "count": seeds, "sources": [{"kind": "bundled", "names": list(BUNDLED)[:14]}]}
    paid = content["campaigns"]["replica"] | {"seeds": "all", "repeats": repeats, "steps": steps}
    content |= {"campaigns": {"replica": paid | {"budget_usd": 1e6}}, "active": ["replica"], "campaign_sets": {}}
    content["previews"]["steps"] = [0]
    (folder / "data").mkdir(parents=True)
    (folder / "params.yaml").write_text(yaml.safe_dump(content))
    shutil.copy2(ROOT / "data" / "weights.lock.yaml", folder / "data")
    timed(["banana100", "select_seeds"], folder, variables(folder, ""))
    return folder


def variables(folder: Path, url: str) -> dict[str, str]:
    """The environment of a run against the server."""
    return environment(
        BANANA100_STORE=folder / "store", BANANA100_GEMINI_BASE_URL=url, BANANA100_CONCURRENCY="20",
        GEMINI_API_KEY=_KEY, NO_PROXY="127.0.0.1",
    )  # fmt: skip


def _ask(folder: Path, url: str) -> dict[str, float]:
    """What `benchmarks.generators.asking` measured."""
    command = [sys.executable, "-m", "benchmarks.generators.asking"]
    return json.loads(timed(command, folder, variables(folder, url))[1])


def _side_by_side(scratch: Path, runs: int) -> None:
    """Walls of asking alone, and of the whole process."""
    ideal = _LATENCY * _STEPS
    asking, whole = [], []
    with running(key=_KEY, images="canned", latency=_LATENCY) as url:
        for run in range(runs):
            folder = project(scratch / f"latency-{run}", 4, _CHAINS // 4, _STEPS)
            asking.append(_ask(folder, url)["asking"])
            shutil.rmtree(folder / "store")
            whole.append(timed(["banana100", "replicate"], folder, variables(folder, url))[0])
            print(f"side by side, run {run + 1}/{runs}: {asking[-1]:.2f} {whole[-1]:.2f}", file=sys.stderr, flush=True)
    rows = [
        [name, median(seconds), ratio(seconds, [ideal] * runs)]
        for name, seconds in (("asking alone", asking), ("whole process, with start-up and laying out", whole))
    ]
    title = f"{_CHAINS} chains of {_STEPS} steps, {_LATENCY} s an answer, 20 at a time; ideal {ideal:g} s, target 1.15"
    table(title, ["", "seconds", "times the ideal"], rows)


def _endurance(scratch: Path, requests: int) -> None:
    """Peak memory at a few and at many requests, then runs that find them all in the store."""
    rows = []
    with running(key=_KEY, images="canned", seconds=7200) as url:
        for count in (1000, requests):
            folder = project(scratch / f"endurance-{count}", 10, count // 1000, 100)
            asked, again = _ask(folder, url), _ask(folder, "")
            first, second = (_peak(folder, variables(folder, "")) for _ in range(2))
            peaks = f"{asked['megabytes']:.0f}", f"{max(first[1], second[1]):.0f}"
            speed = f"{count / asked['asking']:.0f}"
            rows.append(
                [f"{count:,}", asked["asking"], speed, peaks[0], again["looking"], first[0], second[0], peaks[1]]
            )
    header = [
        "requests",
        "asking s",
        "a second",
        "peak MB",
        "nothing to ask after s",
        "laid out s",
        "again s",
        "peak MB",
    ]
    growth = [float(rows[1][column]) / float(rows[0][column]) for column in (3, 7)]
    note = f"memory at {requests:,} requests is {growth[0]:.2f} and {growth[1]:.2f} times that at 1,000"
    table("asking, with the server as fast as it can; then banana100 replicate, whole process", header, rows, note)


def _peak(folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Wall seconds of `replicate`, and the most memory of its main process in megabytes."""
    begun = time.perf_counter()
    process = start(["banana100", "replicate"], folder, environment)
    peak = 0.0
    while process.poll() is None:
        try:
            peak = max(peak, psutil.Process(process.pid).memory_info().rss / 1e6)
        except psutil.Error:
            break
        time.sleep(0.05)
    finish(process)
    return time.perf_counter() - begun, peak


if __name__ == "__main__":
    main()
