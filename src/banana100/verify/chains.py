"""Images and requests: the chains that params.yaml plans, each link with its parent, each request id computed again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from banana100 import paths
from banana100.generators.simulated import answer
from banana100.lineage.identity import canonical_json
from banana100.lineage.tables import CHAIN
from banana100.replication.chains import plan
from banana100.verify.faults import Fault, State, differing

POSITION = [*CHAIN, "step"]
_ASKED = ["backend", "model", "prompt", "config", "parent_id", "seed", "repeat", "step"]


def check(state: State) -> Iterator[Fault]:
    """Every planned position once and no other, its path, its parent, its request."""
    images = state.snapshot.images
    state.counted["images"] += len(images)
    planned = _planned(state)
    yield from _twice(images)
    images = images.drop_duplicates(POSITION)
    joined = images.merge(planned, on=POSITION, how="outer", indicator=True)
    by = f"the campaigns in {paths.PARAMS}"
    for path in joined.loc[joined["_merge"] == "left_only", "path"]:
        yield Fault(f"{paths.IMAGES_TABLE} {path}", "the row", "there", "absent", by)
    for campaign, seed, repeat, step in joined.loc[joined["_merge"] == "right_only", POSITION].itertuples(index=False):
        where = f"{paths.IMAGES_TABLE} {campaign} {seed} r{repeat} step {step}"
        yield Fault(where, "the row", "absent", "there", by)
    known = joined[joined["_merge"] == "both"].reset_index(drop=True)
    yield from _links(known)
    yield from _requests(state, known)


def _planned(state: State) -> pd.DataFrame:
    """One row a planned position, with its chain."""
    chosen = state.snapshot.chosen_seeds
    chains = plan(state.params.active_campaigns(), dict(zip(chosen["seed"], chosen["image_id"], strict=True)))
    rows = [
        (chain.campaign, chain.seed, chain.repeat, step, chain)
        for chain in chains
        for step in range(chain.settings.steps + 1)
    ]
    return pd.DataFrame(rows, columns=[*POSITION, "chain"]).astype({"repeat": "Int64", "step": "Int64"})


def _twice(images: pd.DataFrame) -> Iterator[Fault]:
    for path in images.loc[images.duplicated(POSITION), "path"]:
        yield Fault(f"{paths.IMAGES_TABLE} {path}", "its position in the chain", "taken twice", "once", "every chain")
    for path in images.loc[images.duplicated("path") & ~images.duplicated(POSITION), "path"]:
        yield Fault(f"{paths.IMAGES_TABLE} {path}", "its path", "taken twice", "once", "every file")


def _links(images: pd.DataFrame) -> Iterator[Fault]:
    where = f"{paths.IMAGES_TABLE} " + images["path"]
    images["place"] = [
        paths.replica(c, s, r, k, Path(path).suffix[1:]).as_posix()
        for c, s, r, k, path in images[[*POSITION, "path"]].itertuples(index=False)
    ]
    yield from differing(images, where, "path", "place", "its position in the chain")
    images = images.sort_values(POSITION)
    where = where[images.index]
    before = images.groupby(CHAIN)["image_id"].shift()
    images["before"] = before.where(images["step"] > 0, None)
    yield from differing(images, where, "parent_id", "before", "the step before it")
    starts = images["step"] == 0
    images["seed_id"] = [chain.seed_id for chain in images["chain"]]
    yield from differing(images[starts], where[starts], "image_id", "seed_id", f"{paths.SEED_TABLE}")


def _requests(state: State, images: pd.DataFrame) -> Iterator[Fault]:
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
    links = asked[["chain", "step", "parent_id"]].itertuples(index=False)
    expected = pd.DataFrame([_expected(*link) for link in links], columns=["id", *_ASKED])
    asked["expected_id"] = expected["id"]
    by = f"its parent and its campaign in {paths.PARAMS}"
    yield from differing(asked, where, "request_id", "expected_id", by)
    answered = (asked["answered"] == "both").to_numpy()
    for place in where[~answered & asked["request_id"].notna()]:
        yield Fault(place, "the row of its request", "absent", "there", str(paths.REQUESTS_TABLE))
    yield from _answers(asked[answered], expected[answered], by)
    yield from _simulated(requests)


def _answers(asked: pd.DataFrame, expected: pd.DataFrame, by: str) -> Iterator[Fault]:
    """The row of each request against the image that it gave and the request that params.yaml makes of it."""
    where = f"{paths.REQUESTS_TABLE} " + asked["request_id"]
    yield from differing(
        pd.DataFrame({"image_id": asked["image_id_asked"], "expected": asked["image_id"]}),
        where, "image_id", "expected", str(paths.IMAGES_TABLE),
    )  # fmt: skip
    for column in _ASKED:
        found = asked[f"{column}_asked" if f"{column}_asked" in asked else column]
        yield from differing(pd.DataFrame({column: found, "expected": expected[column]}), where, column, "expected", by)


def _simulated(asked: pd.DataFrame) -> Iterator[Fault]:
    """The facts of the simulator's answers, which follow from the model; other generators' only the store knows."""
    asked = asked[asked["backend"] == "simulated"]
    where = f"{paths.REQUESTS_TABLE} " + asked["request_id"]
    for model, of_model in asked.groupby("model"):
        for name, value in answer(b"", str(model)).record.items():
            pair = of_model[[name]].assign(expected=value)
            yield from differing(pair, where[of_model.index], name, "expected", "the simulator")


def _expected(chain: Any, step: int, parent_id: Any) -> dict[str, Any]:
    """What params.yaml asks for at a position; nothing at step 0."""
    if step == 0 or pd.isna(parent_id):
        return {"id": None} | dict.fromkeys(_ASKED)
    request = chain.request(int(step), parent_id)
    return {"id": request.id} | vars(request) | {"config": canonical_json(request.config)}
