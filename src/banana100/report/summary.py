"""Command summary: the verdict table of the last run, in the terminal."""

from tabulate import tabulate

from banana100 import paths
from banana100.params import Params
from banana100.report import results


def run(params: Params) -> None:
    """Print the verdict table and where the report lies.

    Raises:
        UserError: there is no finished run to show.
    """
    found = results.read()
    probes = ", ".join(c.removeprefix("change_") for c in found.chains.columns if c.startswith("change_"))
    columns = ["metric", "consistent", "failures", "chains", "not_judged", "failed_scores", "tau"]
    table = found.verdicts[columns].assign(consistent=found.verdicts["consistent"].map({True: "yes", False: "no"}))
    print(
        tabulate(
            table.to_dict("split")["data"],
            ["metric", "consistent?", "failures", "chains", "not judged", "failed scores", "tau"],
        )
    )
    if failed := found.summary["failed_scores"]:
        print(f"\n{failed} scores failed; {paths.FAILURES_TABLE} tells which and why.")
    print(f"\n{found.headline}")
    print(
        f"A chain fails where a step of {probes} does not score below the baseline step; tau -1 falls with every step."
    )
    print(f"Report: {paths.REPORT_PAGE.resolve().as_uri()}")
