"""Whole commands side by side: `python -m banana100 score` and `pyiqa`, start-up and all."""

import ast
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pandas as pd

from banana100 import paths
from banana100.catalogue.metrics import METRICS
from banana100.scoring import weights
from banana100.scoring.scorers import KERNELS
from banana100.workers import ENVIRONMENT
from benchmarks.measure import environment, ratio, table, take_turns, timed
from benchmarks.scoring import material
from benchmarks.scoring.options import LIGHT, NETWORKS, Case, Options

_NOTE = f"light: {', '.join(LIGHT)}; all: these and {', '.join(NETWORKS)} with random weights."

Scores = dict[str, dict[str, float | None]]  # by metric, by file name


@dataclass
class Contest:
    """One set of images and metrics, and the scores that either side gave last."""

    folder: Path
    files: Sequence[Path]
    metrics: Sequence[str]
    weights: Path
    ours: Scores = field(default_factory=dict)
    theirs: Scores = field(default_factory=dict)

    def variables_of(self, kind: str, cpu: bool = True) -> dict[str, str]:
        """What the engine's workers start with in the pass of a kind of metrics."""
        started = ENVIRONMENT | (KERNELS if kind == "statistics" else {}) | weights.environment(self.weights)
        return environment(cpu, BANANA100_WEIGHTS=self.weights) | started

    def run_ours(self) -> float:
        """Seconds of `banana100 score` with an empty store: decode, score, keep, write the tables."""
        store, project = self.folder / "store", self.folder / "project"
        shutil.rmtree(store, ignore_errors=True)
        shutil.rmtree(project / paths.SCORES, ignore_errors=True)
        variables = environment(BANANA100_STORE=store, BANANA100_WEIGHTS=self.weights)
        seconds, _ = timed([sys.executable, "-m", "banana100", "score"], project, variables)
        names = pd.read_parquet(project / paths.IMAGES_TABLE).set_index("image_id")["path"].map(lambda p: Path(p).name)
        for metric in self.metrics:
            scores = pd.read_parquet(project / paths.scores(metric)).set_index("image_id")["score"]
            self.ours[metric] = {names[image_id]: score for image_id, score in scores.items()}
        return seconds

    def run_theirs(self) -> float:
        """Seconds of the `pyiqa` command as it is installed; -v makes it print each image's score at the end."""
        pyiqa = Path(sys.executable).parent / "pyiqa"
        variables = environment(**weights.environment(self.weights))
        command = [pyiqa, *self.metrics, "-t", self.files[0].parent, "-v"]
        seconds, output = timed(command, self.folder, variables)
        self.theirs = _parsed(output)
        return seconds


def _parsed(output: str) -> Scores:
    """The scores in what `pyiqa -v` printed: a pretty-printed dict after the metrics were loaded."""
    printed = output[output.index("{", output.index("===> Metrics loaded")) :]
    printed = re.sub(r"np\.float\d+\(([^()]*)\)", r"\1", printed)
    scores = ast.literal_eval(re.sub(r": (nan|-?inf)\b", ": None", printed))
    return {metric: {Path(n).name: s for n, s in of.items() if n != "mean"} for metric, of in scores.items()}


def contest(options: Options, part: str, case: Case) -> Contest:
    """Prepare the images, weights and project of a case."""
    root = options.scratch / "weights"
    lock = material.random_weights(root)
    files = material.photographs(options.scratch / f"images-{case.side}-{case.count}", case.count, case.side)
    folder = options.scratch / f"{part}-{case.name}-{case.side}"
    material.project(folder / "project", material.rows_of(files, case.side), case.metrics, lock)
    return Contest(folder, files, case.metrics, root)


def run(options: Options) -> None:
    """Print both tables."""
    speeds, scores = [], []
    for case in options.cases():
        both = contest(options, "command", case)
        contenders = {"pyiqa": both.run_theirs, "banana100": both.run_ours}
        seconds = take_turns(f"command {case.name} {case.side}", contenders, options.runs)
        rates = [case.count * len(case.metrics) / median(of) for of in seconds.values()]
        size, times = f"{case.side}x{case.side}", ratio(seconds["pyiqa"], seconds["banana100"])
        speeds.append([case.name, size, case.count, len(case.metrics), *rates, times])
        if len(case.metrics) > len(LIGHT):  # the light ones are among all
            scores += [[metric, size, case.count, *_compared(both, metric)] for metric in case.metrics]
    header = ["metrics", "image", "images", "of each", "pyiqa /s", "banana100 /s", "times as fast (of one run)"]
    table("command: whole processes with start-up, images x metrics a second", header, speeds, _NOTE)
    header = ["metric", "image", "images", "pyiqa's from", "to", "most apart", "ours rounded to"]
    table("command: the same scores?", header, scores)


def _compared(case: Contest, metric: str) -> list[str]:
    """Range of their scores, the largest difference to ours, and the step to which ours are rounded."""
    ours, theirs = case.ours[metric], case.theirs[metric]
    if ours.keys() != theirs.keys():
        raise RuntimeError(f"{metric}: {len(ours)} images were scored by us, {len(theirs)} by pyiqa, not the same ones")
    known = [value for value in theirs.values() if value is not None]
    apart = max(abs(ours[n] - theirs[n]) if theirs[n] is not None else float("inf") for n in ours)
    return [f"{min(known):.4f}", f"{max(known):.4f}", f"{apart:.6f}", f"{10.0 ** -METRICS[metric].decimals:g}"]
