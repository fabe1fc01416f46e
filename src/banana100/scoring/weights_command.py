"""Commands weights and metrics: what metrics need, and whether it is there."""

from collections.abc import Sequence

from tabulate import tabulate

from banana100 import paths
from banana100.catalogue.metrics import DRIFT_METRICS, EVERY_METRIC, METRICS, Metric
from banana100.catalogue.weights import WeightFile, Weights
from banana100.errors import UserError
from banana100.params import Params
from banana100.scoring import fetching, weights
from banana100.scoring.weights import Lock


def run(params: Params, action: str, names: Sequence[str]) -> None:
    """Fetch, list or check the weights of the metrics named, or else of those that params.yaml scores with.

    Args:
        params: the checked params.
        action: fetch, status or verify.
        names: metrics or sets of metrics.

    Raises:
        UserError: a metric is not known, or what was asked for failed; what was fetched is kept.
    """
    listed = params.named_metrics(names) or [*params.scored_metrics(), *params.scoring.drift]
    rows = {name: EVERY_METRIC[name] for name in listed}
    {"fetch": _fetch, "status": _status, "verify": _verify}[action](rows)


def list_metrics() -> None:
    """Print every metric that params.yaml may name."""
    lock = weights.read_lock()
    rows = [
        [
            name,
            "higher" if facts.higher_is_better else "lower",
            facts.kind,
            facts.channels,
            facts.minimal_side if facts.minimal_side > 1 else "",
            "any size" if facts.batch else "one",
            f"{facts.weights_mb:,.0f}" if facts.weights else "",
            _ready(facts, lock),
            facts.note,
        ]
        for name, facts in METRICS.items()
    ]
    heads = ["metric", "better", "kind", "looks at", "least side", "batch", "weights MB", "here?", "note"]
    print(tabulate(rows, heads, disable_numparse=True))
    print(f"\nFor drift: {', '.join(DRIFT_METRICS)}. Weights: banana100 weights status [METRIC...]")


def _ready(facts: Metric, lock: Lock) -> str:
    return "yes" if all(_state(file, lock) == "here" for file in facts.weights) else "to fetch"


def _fetch(rows: dict[str, Metric]) -> None:
    lock = weights.read_lock()
    wrong = []
    for file in _each(rows):
        try:
            if pinned := fetching.fetch(file, lock):
                weights.write_lock(lock)
            print(f"{file.name}: here{', pinned' if pinned else ''}")
        except UserError as error:
            wrong.append(str(error))
    if wrong:
        raise UserError(" ".join(wrong))


def _status(rows: dict[str, Metric]) -> None:
    lock = weights.read_lock()
    table = [
        [
            name,
            file.name,
            _origin(file),
            f"{file.megabytes:,.4g}" if file.megabytes else "?",
            _state(file, lock),
            file.licence,
        ]
        for name, facts in rows.items()
        for file in facts.weights
    ]
    for name, facts in rows.items():
        if packaged := facts.parameters:
            origin = f"package {packaged.distribution}"
            table.append([name, packaged.name, origin, "", "here", packaged.licence])
    print(tabulate(sorted(table), ["metric", "file", "from", "MB", "state", "licence"], disable_numparse=True))
    print(f"\nFolder: {paths.weights()}")


def _verify(rows: dict[str, Metric]) -> None:
    lock = weights.read_lock()
    wrong = []
    for file in _each(rows):
        for key, path in weights.files_of(file, lock).items():
            if not path.is_file():
                wrong.append(f"{key}: not there.")
            elif (found := weights.digest_of(path)) != lock[key]["sha256"]:
                wrong.append(f"{key}: sha256 is {found}; pinned is {lock[key]['sha256']}.")
            else:
                print(f"{key}: as pinned")
        if not weights.files_of(file, lock):
            wrong.append(f"{file.name}: not pinned; run `banana100 weights fetch`.")
    if wrong:
        raise UserError(" ".join(wrong))


def _each(rows: dict[str, Metric]) -> list[Weights]:
    return list(dict.fromkeys(file for facts in rows.values() for file in facts.weights))


def _origin(file: Weights) -> str:
    return file.url.split("/")[2] if isinstance(file, WeightFile) else f"huggingface.co/{file.name}"


def _state(file: Weights, lock: Lock) -> str:
    """Whether a file is here, without reading it: sizes tell a cut one."""
    found = weights.files_of(file, lock)
    if not found:
        there = weights.file_path(file).is_file() if isinstance(file, WeightFile) else False
        return "not pinned" if there else "to fetch"
    for key, path in found.items():
        if not path.is_file():
            return "to fetch"
        if lock[key].get("bytes", path.stat().st_size) != path.stat().st_size:
            return "WRONG SIZE"
    return "here"
