"""Every metric on a GPU: images a second, and how far its scores are from a CPU's."""

import json
from statistics import median

from banana100.catalogue.metrics import METRICS
from benchmarks.measure import ROOT, environment, table, timed
from benchmarks.scoring.command import contest
from benchmarks.scoring.options import LIGHT, NETWORKS, Case, Options, child

_SIDE = 1024


def run(options: Options, device: str = "cuda:0") -> None:
    """Print one row a metric, or that there is no GPU."""
    if device != "cpu" and not json.loads(timed(child("has_gpu"), ROOT, environment(cpu=False))[1]):
        print("\nno GPU here: none measured")
        return
    case = contest(options, "gpu", Case("all", (*LIGHT, *NETWORKS), _SIDE, options.images))
    rows = []
    for kind in sorted({METRICS[metric].kind for metric in case.metrics}):
        variables = case.variables_of(kind, cpu=False)
        command = child("device", kind, device, str(options.runs))
        found = json.loads(timed(command, case.folder / "project", variables)[1].splitlines()[-1])
        for name, of in found.items():
            apart = max(abs(there - here) for there, here in of["pairs"])
            scores = [here for _, here in of["pairs"]]
            step = f"{10.0 ** -METRICS[name].decimals:g}"
            rows.append([name, median(of["rates"]), min(scores), max(scores), f"{apart:.6f}", step])
    title = f"gpu: {options.images} images of {_SIDE}x{_SIDE} on {device}, decoding included, start-up not"
    header = ["metric", "images/s", "CPU's scores from", "to", "most apart", "rounded to"]
    table(title, header, rows, f"apart: of {len(of['pairs'])} images, both scores rounded; random weights in networks.")
