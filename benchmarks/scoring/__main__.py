"""How fast, lean and lazy scoring is on this machine, everything side by side in one run.

Usage, from the repository's root: python -m benchmarks.scoring [--runs 5] [--images 100] [--only PART ...]

command   whole processes: `python -m banana100 score` against the `pyiqa` command, on the same images and metrics
settings  what the engine's settings are worth
ideal     the engine's wall time against one-threaded forward passes shared out over the cores
resume    28,000 images that are all scored already; then 100 more
memory    peak memory over 100 and over 2,000 images
gpu       every metric on a GPU, if there is one

All but `gpu` compute on the CPU. Printed are medians over the runs; contenders take turns. Progress goes to stderr.
"""

import argparse
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from banana100.workers import worker_count
from benchmarks.scoring import command, gpu, ideal, memory, resume, settings
from benchmarks.scoring.options import Options

PARTS: dict[str, Callable[[Options], None]] = {
    "command": command.run,
    "settings": settings.run,
    "ideal": ideal.run,
    "resume": resume.run,
    "memory": memory.run,
    "gpu": gpu.run,
}


def main() -> int:
    """Run the parts asked for; a part that fails leaves the others alone, and the exit code is 1."""
    asked = _parser().parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, {worker_count()} cores, medians of {asked.runs}")
    failed = []
    with tempfile.TemporaryDirectory(prefix="banana100-benchmark-", dir=asked.scratch) as folder:
        options = Options(Path(folder), asked.runs, asked.images, asked.images_all, asked.chains, asked.many)
        for name in asked.only or PARTS:
            if load := _others(options):
                print(f"warning: before {name}, the machine's load is {load:.1f}: figures suffer", file=sys.stderr)
            try:
                PARTS[name](options)
            except Exception:
                traceback.print_exc()
                failed.append(name)
            sys.stdout.flush()
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _others(options: Options) -> float:
    """The load of the last minute where it cannot be ours: before anything was made."""
    load = os.getloadavg()[0]
    return load if load > 0.5 and not any(options.scratch.iterdir()) else 0.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scoring", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    whole = {"type": _positive, "metavar": "N"}
    parser.add_argument("--runs", default=5, help="runs of everything (5)", **whole)
    parser.add_argument("--images", default=100, help="images of command, settings, ideal and gpu (100)", **whole)
    parser.add_argument(
        "--images-all",
        default=24,
        help="at most so many for all metrics at 1024x1024 (24)",
        **whole,
    )
    parser.add_argument("--chains", default=280, help="chains of 100 steps in resume (280)", **whole)
    parser.add_argument("--many", default=2000, help="the larger number of images in memory (2000)", **whole)
    parser.add_argument("--scratch", type=Path, help="where the temporary folder, up to 1 GB, is made")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}")
    return parser


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise ValueError
    return value


if __name__ == "__main__":
    sys.exit(main())
