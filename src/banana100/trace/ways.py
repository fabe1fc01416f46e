"""The ways back, as JSON values: each node with the stage, the params and the output that it comes from.

score → scorer, image → request and its refusals → parent image → … → seed → source and licence
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from banana100 import paths
from banana100.catalogue.metrics import DRIFT_METRICS
from banana100.errors import UserError
from banana100.generators import REMOTE
from banana100.lineage import tables
from banana100.lineage.tables import CHAIN
from banana100.snapshot import Snapshot

Node = dict[str, Any]

# Of a refusal's row; the rest is its request's.
_OF_REFUSAL = [
    *("number", "model_answered", "finish_reason", "detail", "response_id", "reasoning", "input_tokens"),
    *("output_tokens", "cost_usd", "asked_at", "seconds"),
]


def of_seed(snapshot: Snapshot, seed: str) -> Node:
    """The way of a seed image.

    Raises:
        UserError: the table of seeds has no such seed.
    """
    return {"seed": _seed(snapshot, seed)}


def of_image(snapshot: Snapshot, image: pd.Series) -> Node:
    """The way of an image, given its row of the images table.

    Returns:
        chain: the image first, then parent after parent down to step 0, each with its request (None at step 0), and
        that with its refusals; cost_usd: of all of them; decided_by: of all of them; seed: where the chain starts.
    """
    steps = snapshot.images
    steps = steps[(steps[CHAIN] == image[CHAIN]).all(axis=1) & (steps["step"] <= image["step"])]
    chain = tables.records(steps.sort_values("step", ascending=False))
    asked = snapshot.requests
    asked = asked[asked["request_id"].isin([row["request_id"] for row in chain])]
    requests = {row["request_id"]: row for row in tables.records(asked)}
    refusals = _refusals(snapshot, list(requests))
    for row in chain:
        request = requests.get(row["request_id"])
        row["request"] = request and request | {"refusals": refusals[row["request_id"]]}
    return {
        "chain": chain,
        "cost_usd": _cost([*requests.values(), *(row for some in refusals.values() for row in some)]),
        "decided_by": _replicating(snapshot, str(image["campaign"])),
        "seed": _seed(snapshot, str(image["seed"])),
    }


def of_parked(snapshot: Snapshot, row: Node) -> Node:
    """The way of a chain that ends early, given its row of the table of parked chains.

    Returns:
        parked: that row with the refusals of its request; then what `of_image` gives of the chain's last image.

    Raises:
        UserError: the chain has no image at all.
    """
    images = snapshot.images
    last = images[(images[CHAIN] == pd.Series(row)[CHAIN]).all(axis=1)].sort_values("step").tail(1)
    if last.empty:
        raise UserError(f"{paths.IMAGES_TABLE}: no row of a chain that is parked; run `banana100 verify`.")
    way = of_image(snapshot, last.iloc[0])
    refusals = _refusals(snapshot, [row["request_id"]])[row["request_id"]]
    cost = round(way["cost_usd"] + _cost(refusals), 6)
    return {"parked": row | {"refusals": refusals}} | way | {"cost_usd": cost}


def _refusals(snapshot: Snapshot, requests: Sequence[str]) -> dict[str, list[Node]]:
    """What each request was refused with before it was answered or given up, the oldest first."""
    found: dict[str, list[Node]] = {request_id: [] for request_id in requests}
    rows = snapshot.refusals
    for row in tables.records(rows[rows["request_id"].isin(requests)].sort_values("number")):
        found[row["request_id"]].append({name: row[name] for name in _OF_REFUSAL})
    return found


def _cost(rows: Iterable[Node]) -> float:
    return round(sum(row["cost_usd"] or 0.0 for row in rows), 6)


def _replicating(snapshot: Snapshot, campaign: str) -> Node:
    """What decided the images; of the sets of campaigns only the one that `active` names, if it names one."""
    given = decided_by(snapshot, "replicate", paths.REPLICAS)
    active = given["params"].get("active")
    keys = {"active": ...} | ({"campaign_sets": {active: ...}} if isinstance(active, str) else {})
    return given | {"params": _only(given["params"], keys | {"campaigns": {campaign: ...}})}


def of_score(snapshot: Snapshot, metric: str, image: pd.Series) -> Node:
    """The way of an image's score by `metric`, or of the failure to score it.

    Returns:
        score (with the reason where there is none), scorer, then what `of_image` gives.

    Raises:
        UserError: the image was not scored by that metric.
    """
    row = _score(snapshot, metric, image) | {"decided_by": _scoring(snapshot)}
    scorers = snapshot.scorers
    scorer = tables.records(scorers[scorers["scorer_id"] == row["scorer_id"]])
    return {"score": row, "scorer": scorer[0] if scorer else None} | of_image(snapshot, image)


def of_scorer(snapshot: Snapshot, scorer_id: str) -> Node:
    """The way of a scorer: what its scores were computed with."""
    row = snapshot.scorers[snapshot.scorers["scorer_id"] == scorer_id]
    return {"scorer": tables.records(row)[0] | {"decided_by": _scoring(snapshot)}}


def of_output(snapshot: Snapshot, path: Path) -> Node | None:
    """The way of any other file that a stage wrote: that stage and all before it; None where no stage did."""
    made_by = {Path(out["path"]): stage for stage, entry in snapshot.lock.items() for out in entry.get("outs", [])}
    output = next((out for out in made_by if path.is_relative_to(out)), None)
    if output is None:
        return None
    ways, queue = {}, [output]
    while queue:
        current = queue.pop(0)
        stage = made_by[current]
        if stage not in ways:
            ways[stage] = decided_by(snapshot, stage, current)
            queue += [dep for d in snapshot.lock[stage].get("deps", []) if (dep := Path(d["path"])) in made_by]
    return {"file": path.as_posix(), "decided_by": list(ways.values())}


def decided_by(snapshot: Snapshot, stage: str, output: Path, keys: Node | None = None) -> Node:
    """What dvc.lock records of the run of a stage.

    Args:
        snapshot: where it is read.
        stage: the stage's name.
        output: one of its outputs.
        keys: which params to name, as a tree with ... for everything below; all by default.

    Returns:
        stage; stage_hash, sha256 of its record in dvc.lock; output and output_md5, DVC's; params, a tree to be put
        into params.yaml. Where dvc.lock has no record of the stage the params are those of params.yaml now.
    """
    entry = snapshot.lock.get(stage, {})
    recorded = entry.get("params", {}).get(paths.PARAMS.name)
    params = snapshot.params if recorded is None else _nested(recorded)
    return {
        "stage": stage,
        "stage_hash": snapshot.stage_hash(stage),
        "output": output.as_posix(),
        "output_md5": snapshot.outs.get(output.as_posix()),
        "params": params if keys is None else _only(params, keys),
    }


def _scoring(snapshot: Snapshot) -> Node:
    """What decided the scores; of the sets of metrics only the one that scoring.metrics names, if it names one."""
    given = decided_by(snapshot, "score", paths.SCORES, {"scoring": ..., "metric_sets": ...})
    used = given["params"].get("scoring", {}).get("metrics")
    keys = {"scoring": ...} | ({"metric_sets": {used: ...}} if isinstance(used, str) else {})
    return given | {"params": _only(given["params"], keys)}


def _seed(snapshot: Snapshot, seed: str) -> Node:
    found = snapshot.chosen_seeds[snapshot.chosen_seeds["seed"] == seed]
    if found.empty:
        raise UserError(f"{paths.SEED_TABLE}: no row for the seed {seed}; run `banana100 verify`.")
    row = tables.records(found)[0]
    given = decided_by(snapshot, "select_seeds", paths.SEEDS)
    used = given["params"].get("seeds", {}).get("sources")
    keys = {"seeds": ...} | ({"seed_sets": {used: ...}} if isinstance(used, str) else {})
    return row | {
        "request": _seed_request(snapshot, row),
        "decided_by": given | {"params": _only(given["params"], keys)},
    }


def _seed_request(snapshot: Snapshot, seed: Node) -> Node | None:
    """The request that a seed was made from; None for photographs."""
    if seed["source"] not in REMOTE:
        return None
    asked = snapshot.seed_requests
    found = tables.records(asked[(asked["seed"] == seed["seed"]) & (asked["image_id"] == seed["source_sha256"])])
    return found[0] if found else None


def _score(snapshot: Snapshot, metric: str, image: pd.Series) -> Node:
    for table in (snapshot.drift if metric in DRIFT_METRICS else snapshot.scores(metric), snapshot.failures):
        rows = table[(table["image_id"] == image["image_id"]) & (table["metric"] == metric)]
        if metric in DRIFT_METRICS:  # the same bytes may lie in chains of two seeds
            rows = rows[rows["reference_id"] == _reference(snapshot, image)]
        if not rows.empty:
            return {"score": None, "reason": None, "reference_id": None} | tables.records(rows)[0]
    raise UserError(f"{paths.SCORES}: no score and no failure of {image['path']} by {metric}.")


def _reference(snapshot: Snapshot, image: pd.Series) -> str:
    images = snapshot.images
    return images.loc[(images[CHAIN] == image[CHAIN]).all(axis=1) & (images["step"] == 0), "image_id"].iloc[0]


def _nested(flat: Node) -> Node:
    """The tree of keys as DVC flattens them: seeds.count and so on."""
    tree: Node = {}
    for key, value in flat.items():
        *holders, last = key.split(".")
        block = tree
        for holder in holders:
            block = block.setdefault(holder, {})
        block[last] = value
    return tree


def _only(tree: Node, keys: Node) -> Node:
    return {
        key: tree[key] if wanted is ... else _only(tree[key], wanted) for key, wanted in keys.items() if key in tree
    }


def leaves(tree: Any, above: Sequence[str] = ()) -> list[tuple[str, Any]]:
    """A tree's keys, joined by dots, with their values; lists are values."""
    if not isinstance(tree, dict):
        return [(".".join(above), tree)]
    return [leaf for key, value in tree.items() for leaf in leaves(value, (*above, key))]
