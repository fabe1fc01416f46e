"""Images and requests: the chains that params.yaml plans, each link with its parent, each request id computed again."""

from collections.abc import Iterator

import pandas as pd

from banana100 import paths
from banana100.generators import archive, simulated
from banana100.lineage.tables import CHAIN
from banana100.replication.chains import Chain, plan
from banana100.verify import unanswered
from banana100.verify.asked import ASKED, BY, expected
from banana100.verify.faults import Fault, State, differing

POSITION = [*CHAIN, "step"]
# Backends whose answers hold no facts but those that follow from the model.
_FOLLOWING = (("simulated", simulated.answer, "the simulator"), ("archive", archive.answer, "the archive"))


def check(state: State) -> Iterator[Fault]:
    """Every planned position once and no other, its path, its parent, its request; no more than a parked chain got."""
    images = state.snapshot.images
    state.counted["images"] += len(images)
    chains = _chains(state)
    yield from _twice(images)
    images = images.drop_duplicates(POSITION)
    joined = images.merge(_planned(chains), on=POSITION, how="outer", indicator=True)
    yield from _positions(joined.merge(unanswered.ends(state), on=CHAIN, how="left"))
    known = joined[joined["_merge"] == "both"].sort_values(POSITION).reset_index(drop=True)
    known[["before", "previous"]] = known.groupby(CHAIN)[["image_id", "request_id"]].shift()
    yield from _links(known)
    links = known[["chain", "step", "parent_id", "previous"]].itertuples(index=False)
    asked = pd.DataFrame([expected(chain, int(step), *ids) for chain, step, *ids in links], columns=["id", *ASKED])
    yield from _requests(state, known, asked)
    yield from unanswered.check(state, known, asked, {chain.key: chain for chain in chains})


def _chains(state: State) -> list[Chain]:
    chosen = state.snapshot.chosen_seeds
    return plan(state.params.active_campaigns(), dict(zip(chosen["seed"], chosen["image_id"], strict=True)))


def _planned(chains: list[Chain]) -> pd.DataFrame:
    """One row a planned position, with its chain."""
    rows = [
        (chain.campaign, chain.seed, chain.repeat, step, chain)
        for chain in chains
        for step in range(chain.settings.steps + 1)
    ]
    return pd.DataFrame(rows, columns=[*POSITION, "chain"]).astype({"repeat": "Int64", "step": "Int64"})


def _positions(joined: pd.DataFrame) -> Iterator[Fault]:
    """Images that are not planned, planned ones that are absent; a parked chain has all before its end, none after."""
    late = (joined["step"] >= joined["end"]).fillna(False)
    by = f"the campaigns in {paths.PARAMS}"
    for path in joined.loc[joined["_merge"] == "left_only", "path"]:
        yield Fault(f"{paths.IMAGES_TABLE} {path}", "the row", "there", "absent", by)
    for path in joined.loc[(joined["_merge"] == "both") & late, "path"]:
        yield Fault(f"{paths.IMAGES_TABLE} {path}", "the row", "there", "absent", str(paths.PARKED_TABLE))
    absent = joined.loc[(joined["_merge"] == "right_only") & ~late, POSITION]
    for campaign, seed, repeat, step in absent.itertuples(index=False):
        where = f"{paths.IMAGES_TABLE} {campaign} {seed} r{repeat} step {step}"
        yield Fault(where, "the row", "absent", "there", by)


def _twice(images: pd.DataFrame) -> Iterator[Fault]:
    for path in images.loc[images.duplicated(POSITION), "path"]:
        yield Fault(f"{paths.IMAGES_TABLE} {path}", "its position in the chain", "taken twice", "once", "every chain")
    for path in images.loc[images.duplicated("path") & ~images.duplicated(POSITION), "path"]:
        yield Fault(f"{paths.IMAGES_TABLE} {path}", "its path", "taken twice", "once", "every file")


def _links(images: pd.DataFrame) -> Iterator[Fault]:
    where = f"{paths.IMAGES_TABLE} " + images["path"]
    images["place"] = [
        paths.replica(c, s, r, k, path.rpartition(".")[2]).as_posix()
        for c, s, r, k, path in images[[*POSITION, "path"]].itertuples(index=False)
    ]
    yield from differing(images, where, "path", "place", "its position in the chain")
    images["before"] = images["before"].where(images["step"] > 0, None)
    yield from differing(images, where, "parent_id", "before", "the step before it")
    starts = images["step"] == 0
    images["seed_id"] = [chain.seed_id for chain in images["chain"]]
    yield from differing(images[starts], where[starts], "image_id", "seed_id", f"{paths.SEED_TABLE}")


def _requests(state: State, images: pd.DataFrame, wanted: pd.DataFrame) -> Iterator[Fault]:
    requests = state.snapshot.requests
    state.counted["requests"] += len(requests)
    for request_id in requests.loc[requests["request_id"].duplicated(), "request_id"]:
        yield Fault(f"{paths.REQUESTS_TABLE} {request_id}", "the row", "there twice", "there once", "its request id")
    requests = requests.drop_duplicates("request_id")
    for request_id in sorted(set(requests["request_id"]) - set(images["request_id"].dropna())):
        by = str(paths.IMAGES_TABLE)
        yield Fault(f"{paths.REQUESTS_TABLE} {request_id}", "its image", "absent", "there", by)
    asked = images.merge(requests, on="request_id", how="left", suffixes=("", "_asked"), indicator="answered")
    where = f"{paths.IMAGES_TABLE} " + asked["path"]
    asked["expected_id"] = wanted["id"]
    yield from differing(asked, where, "request_id", "expected_id", BY)
    answered = (asked["answered"] == "both").to_numpy()
    for place in where[~answered & asked["request_id"].notna()]:
        yield Fault(place, "the row of its request", "absent", "there", str(paths.REQUESTS_TABLE))
    yield from _answers(asked[answered], wanted[answered])
    yield from _facts(requests)


def _answers(asked: pd.DataFrame, wanted: pd.DataFrame) -> Iterator[Fault]:
    """The row of each request against the image that it gave and the request that params.yaml makes of it."""
    where = f"{paths.REQUESTS_TABLE} " + asked["request_id"]
    yield from differing(
        pd.DataFrame({"image_id": asked["image_id_asked"], "expected": asked["image_id"]}),
        where, "image_id", "expected", str(paths.IMAGES_TABLE),
    )  # fmt: skip
    for column in ASKED:
        found = asked[f"{column}_asked" if f"{column}_asked" in asked else column]
        yield from differing(pd.DataFrame({column: found, "expected": wanted[column]}), where, column, "expected", BY)


def _facts(asked: pd.DataFrame) -> Iterator[Fault]:
    """The facts of answers that follow from backend and model; those of other generators only the store knows."""
    where = f"{paths.REQUESTS_TABLE} " + asked["request_id"]
    for backend, answer, by in _FOLLOWING:
        for model, of_model in asked[asked["backend"] == backend].groupby("model"):
            for name, value in answer(b"", str(model)).record.items():
                pair = of_model[[name]].assign(expected=value)
                yield from differing(pair, where[of_model.index], name, "expected", by)
