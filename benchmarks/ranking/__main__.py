"""Is ranking fast enough at the paper's size, and do its tests and intervals keep their promises?

Usage, from the repository's root: python -m benchmarks.ranking [--runs 5] [--only speed calibration] [--search]

speed        rank and `dvc exp run` at 28,000 images and 21 metrics; with --search also all pairs
calibration  simulation study: family-wise error under the null, coverage of 95 % intervals; draws calibration.svg
"""

import argparse
import platform
import sys
import tempfile
from pathlib import Path

from banana100.workers import worker_count
from benchmarks.ranking import calibration, speed


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ranking", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of everything in speed (5)")
    parser.add_argument(
        "--studies", type=int, default=2000, metavar="N", help="simulated studies in calibration (2000)"
    )
    parser.add_argument("--only", nargs="+", choices=("speed", "calibration"), default=("speed", "calibration"))
    parser.add_argument("--search", action="store_true", help="search all pairs at full scale too, for minutes")
    parser.add_argument("--scratch", type=Path, help="where the temporary folder, up to 1 GB, is made")
    asked = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, {worker_count()} cores")
    if "speed" in asked.only:
        with tempfile.TemporaryDirectory(prefix="banana100-benchmark-", dir=asked.scratch) as folder:
            speed.run(Path(folder), asked.runs, asked.search)
    if "calibration" in asked.only:
        calibration.run(asked.studies)


if __name__ == "__main__":
    sys.exit(main())
