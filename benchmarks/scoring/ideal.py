"""The engine against the ideal: nothing but forward passes, shared out over the cores without loss."""

import json
from statistics import median

from banana100.catalogue.metrics import METRICS
from banana100.workers import worker_count
from benchmarks.measure import environment, finish, start, table, take_turns, timed
from benchmarks.scoring.command import Contest, contest
from benchmarks.scoring.options import Case, Options, child

CORES = worker_count()
_NOTE = f"""\
engine s: wall seconds of engine.score; start s: of the same over {CORES} images, one a core.
ideal s: CPU seconds of one thread's forward passes, running alone, shared out over {CORES} cores.
warm: ideal/engine from the first images on, without the start. busy: by forward passes in {CORES} processes at once,
which share caches, memory and clock as the engine's workers do: what this lacks of 1 is the engine's own."""


def run(options: Options) -> None:
    """Print the ideal's share of the engine's time, with the start of the workers and without."""
    rows = [[case.name, f"{case.side}x{case.side}", case.count, *_measured(options, case)] for case in options.cases()]
    header = ["metrics", "image", "images", "engine s", "start s", "ideal s", "ideal/engine", "warm", "warm, busy"]
    table("ideal: the engine's wall time against the ideal; 1 is perfect", header, rows, _NOTE)


def _measured(options: Options, case: Case) -> list[float | str]:
    here, few = contest(options, "ideal", case), min(CORES, case.count)
    startups: list[float] = []
    contenders = {
        "engine": lambda: _engine(here, few, startups),
        "forward": lambda: _forward(here, 1),
        "forward, busy": lambda: _forward(here, CORES),
    }
    figures = take_turns(f"ideal {case.name} {case.side}", contenders, options.runs)
    engine, alone, busy = (median(seconds) for seconds in figures.values())
    start_up, rest = median(startups), (case.count - few) / case.count / CORES
    shares = [_share(seconds * rest, engine - start_up) for seconds in (alone, busy)]
    return [engine, start_up, alone / CORES, alone / CORES / engine, *shares]


def _share(ideal: float, seconds: float) -> float | str:
    return ideal / seconds if seconds > 0 and ideal > 0 else "too few images"


def _engine(case: Contest, few: int, startups: list[float]) -> float:
    """Seconds over all images; those over `few` are kept in `startups`."""
    variables = environment(BANANA100_WEIGHTS=case.weights)
    found = json.loads(timed(child("engine", str(few)), case.folder / "project", variables)[1])
    startups.append(found["few"])
    return found["all"]


def _forward(case: Contest, copies: int) -> float:
    """CPU seconds of one thread over all images, as each of so many processes at once needs them on average."""
    total = 0.0
    for kind in sorted({METRICS[metric].kind for metric in case.metrics}):
        variables = case.variables_of(kind)
        running = [start(child("forward", kind), case.folder / "project", variables) for _ in range(copies)]
        total += sum(json.loads(finish(process))["seconds"] for process in running) / copies
    return total
