"""How long do trace, verify and the exports take at 28,000 images and 588,000 scores?

Usage, from the repository's root: python -m benchmarks.lineage [--runs 3] [--kilobytes 340]

verify takes turns with sha256sum over the same files, on the same cores. The files must fit into memory, or the disk
is what is measured.
"""

import argparse
import platform
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from banana100 import paths
from banana100.workers import worker_count
from benchmarks import workspace
from benchmarks.measure import environment, ratio, table, take_turns, timed

_IMAGE = paths.replica(workspace.CAMPAIGN, "coffee", 3, 100, "png").as_posix()
_OUTPUTS = "data/seeds data/replicas data/previews data/lineage data/scores metrics"
_QUESTIONS = {
    "trace METRIC:PATH": ["trace", f"niqe:{_IMAGE}"],
    "trace PATH --json": ["trace", _IMAGE, "--json"],
    "trace ranking:niqe.failures": ["trace", "ranking:niqe.failures"],
    "verify --quick": ["verify", "--quick"],
}
_TARGETS = {"verify --quick": "10 s"}


def main() -> None:
    """Make the workspace, measure, print two tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lineage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of everything (3)")
    parser.add_argument("--kilobytes", type=int, default=340, help="size of an image file (340, as in the default run)")
    parser.add_argument("--scratch", type=Path, help="where the temporary folder, 10 GB, is made")
    asked = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, {worker_count()} cores")
    with tempfile.TemporaryDirectory(prefix="banana100-benchmark-", dir=asked.scratch) as folder:
        project = workspace.make(Path(folder), asked.kilobytes * 1000)
        _questions(project, asked.runs)
        _proof(project, asked.runs)
        _exports(project)


def _seconds(project: Path, command: Sequence[str]) -> float:
    return timed(command, project, environment())[0]


def _questions(project: Path, runs: int) -> None:
    rows = []
    for name, arguments in _QUESTIONS.items():
        seconds = [_seconds(project, ["banana100", *arguments]) for _ in range(runs)]
        rows.append([name, median(seconds), _TARGETS.get(name, "1 s")])
    table("28,280 images, 588,000 scores of replicas by 21 metrics", ["whole process", "seconds", "target"], rows)


def _proof(project: Path, runs: int) -> None:
    find = f"find {_OUTPUTS} -type f -print0"
    hashed = f"{find} | xargs -0 -P {worker_count()} -n 64 sha256sum | tail -1"
    size = timed(["bash", "-c", f"{find} | du -c --files0-from=- | tail -1"], project, environment())[1]
    contenders = {
        "sha256sum": lambda: _seconds(project, ["bash", "-c", hashed]),
        "verify": lambda: _seconds(project, ["banana100", "verify"]),
    }
    for contender in contenders.values():
        contender()  # brings the files into memory for both
    found = take_turns("proof", contenders, runs)
    rows = [[name, median(seconds)] for name, seconds in found.items()]
    note = f"verify / sha256sum: {ratio(found['verify'], found['sha256sum'])}; target 1.5"
    gigabytes = int(size.split()[0]) * 1024 / 1e9
    title = f"28,294 images and all tables, {gigabytes:.1f} GB, on {worker_count()} cores"
    table(title, ["whole process", "seconds"], rows, note)


def _exports(project: Path) -> None:
    rows = []
    for form in ("croissant", "prov", "datapackage", "ro-crate"):
        folder = project.parent / f"{project.name}-{form}"
        rows.append([f"export {form}", _seconds(project, ["banana100", "export", form, str(folder)])])
        shutil.rmtree(folder)
    table("the tables in other formats", ["whole process", "seconds"], rows)


if __name__ == "__main__":
    main()
