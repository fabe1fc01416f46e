"""Requests that no image answers: chains that are parked, and refusals."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from banana100 import paths
from banana100.generators import REMOTE
from banana100.lineage import tables
from banana100.lineage.identity import Request
from banana100.lineage.tables import CHAIN
from banana100.replication.chains import Chain
from banana100.verify.asked import ASKED, BY, expected
from banana100.verify.faults import Fault, State, differing

# Why a chain may end early, by what its generator is; the simulator always answers.
_OF_REMOTE = ("refused", "unavailable", "rejected", "budget", "stopped")
_OF_ARCHIVE = ("absent",)
CAUSES = (*_OF_REMOTE, *_OF_ARCHIVE)


def _causes(backend: str) -> tuple[str, ...]:
    return _OF_REMOTE if backend in REMOTE else _OF_ARCHIVE if backend == "archive" else ()


def ends(state: State) -> pd.DataFrame:
    """The first step without an image of each chain that is parked: columns of `CHAIN`, and end."""
    parked = state.snapshot.parked
    return parked[[*CHAIN, "step"]].rename(columns={"step": "end"}).dropna().drop_duplicates(CHAIN)


def check(state: State, images: pd.DataFrame, asked: pd.DataFrame, chains: Mapping[Any, Chain]) -> Iterator[Fault]:
    """Parked chains and refusals, each against the request that params.yaml makes of the image before.

    Args:
        state: what is verified.
        images: the images that params.yaml plans and that are there.
        asked: what each of them should have been asked with, see `asked.expected`.
        chains: those that params.yaml plans, by key.
    """
    parked, refusals = state.snapshot.parked, state.snapshot.refusals
    for what, table in (("parked chains", parked), ("refusals", refusals)):
        if len(table):
            state.counted[what] += len(table)
    before = parked.assign(step=parked["step"] - 1)[[*CHAIN, "step"]]
    last = images.merge(before.drop_duplicates(), on=[*CHAIN, "step"])
    wanted = {
        chain.key: expected(chain, int(step) + 1, image_id, request_id)
        for chain, step, image_id, request_id in last[["chain", "step", "image_id", "request_id"]].itertuples(
            index=False
        )
    }
    yield from _parked(state, wanted, chains)
    known = pd.concat([asked.dropna(subset="id"), pd.DataFrame(wanted.values(), columns=asked.columns)])
    yield from _refusals(refusals, known.drop_duplicates("id"))


def _parked(state: State, wanted: Mapping[Any, dict[str, Any]], chains: Mapping[Any, Chain]) -> Iterator[Fault]:
    parked, refused = state.snapshot.parked, set(state.snapshot.refusals["request_id"])
    twice = parked.duplicated(CHAIN)
    for again, row in zip(twice, tables.records(parked), strict=True):
        key = tuple(row[name] for name in CHAIN)
        where = f"{paths.PARKED_TABLE} {row['campaign']} {row['seed']} r{row['repeat']}"
        if again:
            yield Fault(where, "the row", "there twice", "there once", "its chain")
        elif (chain := chains.get(key)) is None:
            yield Fault(where, "the row", "there", "absent", f"the campaigns in {paths.PARAMS}")
        else:
            yield from _row(where, row, chain, wanted.get(key))
            if row["cause"] == "refused" and row["request_id"] not in refused:
                by = "refused, its cause,"
                yield Fault(where, "the number of its request's refusals", 0, "at least 1", by)


def _row(where: str, row: Mapping[str, Any], chain: Chain, wanted: Mapping[str, Any] | None) -> Iterator[Fault]:
    if not (causes := _causes(chain.settings.backend)):
        yield Fault(where, "the row", "there", "absent", f"the {chain.settings.backend} backend, which always answers,")
    if not 1 <= (row["step"] or 0) <= chain.length:
        by = f"the campaigns in {paths.PARAMS}"
        yield Fault(where, "step", row["step"], f"a number from 1 to {chain.length}", by)
    elif wanted and row["request_id"] != wanted["id"]:  # without its last image it is told of the images
        by = f"its last image and its campaign in {paths.PARAMS}"
        yield Fault(where, "request_id", row["request_id"], wanted["id"], by)
    if row["cause"] not in (causes or CAUSES):
        yield Fault(where, "cause", row["cause"], f"one of {', '.join(causes or CAUSES)}", "the rule for its column")


def _refusals(refusals: pd.DataFrame, known: pd.DataFrame) -> Iterator[Fault]:
    rows = refusals.merge(known, left_on="request_id", right_on="id", how="left", suffixes=("", "_expected"))
    where = f"{paths.REFUSALS_TABLE} " + rows["request_id"].astype("str") + " number " + rows["number"].astype("str")
    requests = map(Request.of_row, tables.records(refusals))
    rows["own"] = [request.id if request else "none, as its config is no JSON" for request in requests]
    yield from differing(rows, where, "request_id", "own", "the hash of its row")
    for place in where[rows["id"].isna()]:
        yield Fault(place, "its request", "absent", "there", f"{paths.IMAGES_TABLE} or {paths.PARKED_TABLE}")
    there = rows["id"].notna()
    for column in ASKED:
        pair = rows.loc[there, [column]].assign(expected=rows.loc[there, f"{column}_expected"])
        yield from differing(pair, where[there], column, "expected", BY)
    for place in where[~rows["backend"].isin(REMOTE)]:
        yield Fault(place, "the row", "there", "absent", "its backend, which always answers,")
    # sorted by their numbers, those of one request count from 1
    rows = rows.sort_values(["request_id", "number"])
    rows["in order"] = rows.groupby("request_id").cumcount() + 1
    yield from differing(rows, where[rows.index], "number", "in order", "the number of refusals before it")
