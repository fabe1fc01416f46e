"""What the scoring engine's settings are worth on this machine: images a second, side by side in one run.

Usage: python benchmarks/score_light_metrics.py [IMAGES]

Scores images that ship with pyiqa (512x384) by the four light metrics. Each setting runs in processes of its own, all
settings in turn, three times over; printed are the median rate and its ratio to the first row's.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pyiqa

from banana100 import workers
from banana100.files import sha256_of
from banana100.scoring import engine

METRICS = ("brisque", "entropy", "niqe", "piqe")
SETTINGS = ("as shipped", "one worker", "freed memory handed back", "kernels by processor")


def rate(setting: str, count: int) -> float:
    """Images a second under one setting, without the start of the workers."""
    if setting == "one worker":
        os.environ["BANANA100_WORKERS"] = "1"
    if setting == "freed memory handed back":
        for name in [name for name in workers.ENVIRONMENT if name.startswith("MALLOC")]:
            del workers.ENVIRONMENT[name]
    if setting == "kernels by processor":
        engine.KERNELS = {}
    files = sorted((Path(pyiqa.__file__).parents[1] / "ResultsCalibra").rglob("*.bmp"))
    images = [
        engine.ImageFile(sha256_of(files[i % len(files)].read_bytes()), files[i % len(files)]) for i in range(count)
    ]
    started, warm = 0.0, count // 4
    for done, _ in enumerate(engine.score(images, METRICS), start=1):
        if done == warm:
            started = time.perf_counter()
    return (count - warm) / (time.perf_counter() - started)


def main() -> None:
    """Run all settings in turn and print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 80
    rates: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    for _ in range(3):
        for setting in SETTINGS:
            output = subprocess.check_output([sys.executable, __file__, "--setting", setting, str(count)], text=True)
            rates[setting].append(float(output))
    print(f"{count} images of 512x384, {', '.join(METRICS)}, {os.cpu_count()} cores, median of 3")
    first = statistics.median(rates[SETTINGS[0]])
    for setting in SETTINGS:
        median = statistics.median(rates[setting])
        print(f"{setting:26} {median:7.2f} images/s   x {median / first:.2f}")


if __name__ == "__main__":
    if "--setting" in sys.argv:
        print(rate(sys.argv[2], int(sys.argv[3])))
    else:
        main()
