"""Command summary: the verdict table of the last run, in the terminal."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
from tabulate import tabulate

from banana100 import paths
from banana100.lineage import tables
from banana100.params import Params
from banana100.report import provenance, results

_COLUMNS = {
    "metric": "metric",
    "consistent": "consistent?",
    "failures": "failures",
    "chains": "chains",
    "not_judged": "not judged",
    "left_out": "left out",
    "failed_scores": "failed scores",
    "tau": "tau",
    "auc": "AUC",
}
_ANSWERS = {
    paths.REQUESTS_TABLE: tables.REQUESTS,
    paths.REFUSALS_TABLE: tables.REFUSALS,
    paths.SEED_REQUESTS_TABLE: tables.REQUESTS,
}


def run(params: Params) -> None:
    """Print the verdict table and where the report lies.

    Raises:
        UserError: there is no finished run to show.
    """
    found = results.read()
    probes = ", ".join(c.removeprefix("change_") for c in found.chains.columns if c.startswith("change_"))
    shown = found.verdicts.assign(consistent=found.verdicts["consistent"].map({True: "yes", False: "no"}))
    cells = shown[list(_COLUMNS)].astype(object)
    rows = cells.where(cells.notna(), None).to_dict("split")["data"]
    print(tabulate(rows, list(_COLUMNS.values()), floatfmt=".3f", missingval="-"))
    if failed := found.summary["failed_scores"]:
        print(f"\n{failed} scores failed; {paths.FAILURES_TABLE} tells which and why.")
    print(f"\n{found.headline}")
    for sentence in _asked():
        print(sentence)
    print(
        f"A chain fails where a step of {probes} is not called worse than the baseline step.\n"
        "Left out are chains whose images hardly drifted from their seed.\n"
        "tau -1 falls with every step; AUC 1 scores every clean image above every degraded one."
    )
    print(f"Report: {paths.REPORT_PAGE.resolve().as_uri()}")


def _asked() -> Iterator[str]:
    """What paid generators cost and did not answer, as far as the tables of lineage are here."""
    answers = pd.concat([_rows(path, schema) for path, schema in _ANSWERS.items()])
    refusals, parked = _rows(paths.REFUSALS_TABLE, tables.REFUSALS), _rows(paths.PARKED_TABLE, tables.PARKED)
    if len(refusals) or len(parked):
        yield f"Answers without an image: {len(refusals)}; chains that end early: {len(parked)} (see {paths.LINEAGE})."
    if cost := answers["cost_usd"].sum():
        unpaid = answers.loc[provenance.simulated(answers), "cost_usd"].sum()
        told = f", of which ${unpaid:.2f} were not paid, as the server is simulated" if unpaid else ""
        yield f"All answers together cost ${cost:.2f}{told}."


def _rows(path: Path, schema: pa.Schema) -> pd.DataFrame:
    return tables.read(path, schema) if path.is_file() else schema.empty_table().to_pandas()
