"""Command summary: the verdict table of the last run, in the terminal."""

from tabulate import tabulate

from banana100 import paths
from banana100.params import Params
from banana100.report import results

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
    print(
        f"A chain fails where a step of {probes} does not score below the baseline step.\n"
        "Left out are chains whose images hardly drifted from their seed.\n"
        "tau -1 falls with every step; AUC 1 scores every clean image above every degraded one."
    )
    print(f"Report: {paths.REPORT_PAGE.resolve().as_uri()}")
