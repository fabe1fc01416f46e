"""The tables of seeds: as many as params.yaml asks for, chosen again from their sources, made by its requests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from banana100 import paths
from banana100.files import sha256_of
from banana100.generators.adoption import request_row
from banana100.generators.store import StoredAnswer
from banana100.lineage import tables
from banana100.lineage.identity import Request
from banana100.seeds.generated import all_texts, file_of, origin
from banana100.seeds.stage import choose_all
from banana100.verify.asked import ASKED
from banana100.verify.faults import Fault, State, differing, table_faults


def check(state: State) -> Iterator[Fault]:
    """Number, order and places of the chosen seeds, and the requests that generated ones were made by."""
    chosen = state.snapshot.chosen_seeds.reset_index(drop=True)
    state.counted["seeds"] += len(chosen)
    where = f"{paths.SEED_TABLE} seed " + chosen["seed"]
    if len(chosen) != state.params.seeds.count:
        by = f"seeds.count in {paths.PARAMS}"
        yield Fault(str(paths.SEED_TABLE), "the number of chosen seeds", len(chosen), state.params.seeds.count, by)
    chosen["in order"] = range(len(chosen))
    chosen["place"] = [_place(*row) for row in chosen[["seed", "source", "path"]].itertuples(index=False)]
    yield from differing(chosen, where, "order", "in order", "the number of seeds before it")
    yield from differing(chosen, where, "path", "place", "its name")
    yield from _requests(state)


def _place(seed: str, source: str, path: Any) -> str:
    """Where a seed belongs; choosing again tells whether the type of an archive's is right."""
    extension = Path(str(path)).suffix[1:] if source == "archive" else "png"
    return paths.seed_image(seed, extension).as_posix()


def again(state: State) -> Iterator[Fault]:
    """Measure and choose again from the sources that params.yaml names; features to nine digits."""
    yield from _originals(state)
    rows = [candidate.row for candidate in choose_all(state.params)]
    expected = pd.DataFrame(rows).reindex(columns=tables.SEEDS.names)
    key = ["seed", "origin"]
    yield from table_faults(str(paths.SEED_TABLE), state.snapshot.seeds, expected, key, "choosing again", rtol=1e-9)


def _requests(state: State) -> Iterator[Fault]:
    """One row a text of params.yaml, its id the hash of what it asks, its image what the seed was made from."""
    requests = state.snapshot.seed_requests.reset_index(drop=True)
    if len(requests):
        state.counted["seed requests"] += len(requests)
    asked = ["request_id", *ASKED]
    rows = [request_row(text.request, StoredAnswer("", {})) for text in all_texts(state.params)]
    wanted = pd.DataFrame(rows, columns=asked)
    by = f"seeds.sources in {paths.PARAMS}"
    yield from table_faults(str(paths.SEED_REQUESTS_TABLE), requests[asked], wanted, ["seed"], by)
    where = f"{paths.SEED_REQUESTS_TABLE} seed " + requests["seed"].astype("str")
    found = map(Request.of_row, tables.records(requests))
    own = [request.id if request else "none, as its config is no JSON" for request in found]
    yield from differing(requests.assign(own=own), where, "request_id", "own", "the hash of its row")
    requests["origin"] = [origin(*made) for made in requests[["model", "request_id"]].itertuples(index=False)]
    sources = state.snapshot.seeds[["seed", "origin", "source_sha256"]].drop_duplicates(["seed", "origin"])
    made = requests.merge(sources, on=["seed", "origin"], how="left")
    yield from differing(made, where, "image_id", "source_sha256", f"source_sha256 in {paths.SEED_TABLE}")


def _originals(state: State) -> Iterator[Fault]:
    """The images that were answered; other files beside them are told with the image files."""
    for seed, image_id in state.snapshot.seed_requests[["seed", "image_id"]].itertuples(index=False):
        path = file_of(str(seed))
        if path is None:
            where = str(paths.GENERATED_SEEDS / str(seed))
            yield Fault(where, "the image", "absent", image_id, str(paths.SEED_REQUESTS_TABLE))
        elif (found := sha256_of(path.read_bytes())) != image_id:
            yield Fault(str(path), "sha256", found, image_id, str(paths.SEED_REQUESTS_TABLE))
