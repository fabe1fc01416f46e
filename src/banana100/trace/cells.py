"""A cell of the ranking: the verdict's figure, the chains it rests on, and their images."""

import io
import json
from typing import Any

import pandas as pd

from banana100 import paths
from banana100.errors import UserError
from banana100.lineage import tables
from banana100.lineage.tables import CHAIN
from banana100.snapshot import Snapshot
from banana100.trace.ways import Node, decided_by

# Which chains a cell is about, given the metric's rows of the table of chains; the others rest on all judged chains.
_ABOUT = {
    "consistent": lambda chains: chains["passes"].eq(False) | chains["not_judged"].notna(),  # those that stand against
    "failures": lambda chains: chains["passes"].eq(False),
    "failure_rate": lambda chains: chains["passes"].eq(False),
    "not_judged": lambda chains: chains["not_judged"].notna(),
    "left_out": lambda chains: chains["left_out"].notna(),
}


def of_cell(snapshot: Snapshot, cell: str) -> Node:
    """The way of `METRIC.COLUMN` of the ranking, or of `summary.NAME` or `subset.NAME`.

    Returns:
        cell, value, decided_by (of rank); for a metric's cell also about (what the chains have in common) and chains,
        each with its row of the table of chains and its images at the baseline and probe steps with their scores.

    Raises:
        UserError: there is no such cell, or a table is damaged.
    """
    try:
        ranking = json.loads(snapshot.read(paths.RANKING))
        blocks = ranking["ranking"] | {name: ranking[name] for name in ("summary", "subset")}
    except (ValueError, TypeError, KeyError):
        raise UserError(f"{paths.RANKING}: not a whole ranking; restore it with `git checkout` or re-run.") from None
    metric, _, column = cell.rpartition(".")
    if metric not in blocks:
        raise UserError(f"ranking:{cell}: {metric!r} is not in {paths.RANKING}; allowed: {', '.join(blocks)}.")
    if column not in blocks[metric]:
        raise UserError(f"ranking:{cell}: {column!r} is no column; allowed: {', '.join(blocks[metric])}.")
    given = decided_by(snapshot, "rank", paths.RANKING)
    found: Node = {"cell": cell, "value": blocks[metric][column], "decided_by": given}
    if metric not in ranking["ranking"]:
        return found
    return found | _chains(snapshot, metric, column, given["params"]["ranking"])


def _chains(snapshot: Snapshot, metric: str, column: str, ranking: dict[str, Any]) -> Node:
    table = pd.read_csv(io.BytesIO(snapshot.read(paths.CHAINS_TABLE)), dtype={"not_judged": "str", "left_out": "str"})
    if lacking := {"metric", *CHAIN, "passes", "not_judged", "left_out"} - set(table.columns):
        raise UserError(f"{paths.CHAINS_TABLE}: no column {min(lacking)}; restore it with `dvc checkout` or re-run.")
    table = table[table["metric"] == metric]
    table["passes"] = table["passes"].map({True: True, False: False, "True": True, "False": False}).astype("boolean")
    failed = snapshot.failures[snapshot.failures["metric"] == metric]
    if column == "failed_scores":
        images = snapshot.images.merge(failed[["image_id", "reason"]], on="image_id")
        table = table.merge(images[CHAIN].drop_duplicates(), on=CHAIN)
        shown = None
    else:
        table = table[_ABOUT[column](table) if column in _ABOUT else table["passes"].notna()]
        shown = [ranking["baseline_step"], *ranking["probe_steps"]]
        images = snapshot.images[snapshot.images["step"].isin(shown)]
    scored = images.merge(snapshot.scores(metric)[["image_id", "score"]], on="image_id", how="left")
    if "reason" not in scored:
        scored = scored.merge(failed[["image_id", "reason"]], on="image_id", how="left")
    by_chain: dict[tuple[Any, ...], list[Node]] = {}
    for row in tables.records(scored.sort_values("step")[[*CHAIN, "step", "path", "image_id", "score", "reason"]]):
        by_chain.setdefault(tuple(row.pop(name) for name in CHAIN), []).append(row)
    chains = [row | {"images": by_chain.get(tuple(row[name] for name in CHAIN), [])} for row in tables.records(table)]
    return {"metric": metric, "about": column if column in {*_ABOUT, "failed_scores"} else "judged", "chains": chains}
