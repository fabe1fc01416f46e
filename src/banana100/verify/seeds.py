"""The table of seeds: consistent, as many as params.yaml asks for, and chosen again from their sources."""

from collections.abc import Iterator

import pandas as pd

from banana100 import paths
from banana100.lineage import tables
from banana100.seeds.stage import choose_all
from banana100.verify.faults import Fault, State, differing, table_faults


def check(state: State) -> Iterator[Fault]:
    """Number, order and places of the chosen seeds."""
    chosen = state.snapshot.chosen_seeds.reset_index(drop=True)
    state.counted["seeds"] += len(chosen)
    where = f"{paths.SEED_TABLE} seed " + chosen["seed"]
    if len(chosen) != state.params.seeds.count:
        by = f"seeds.count in {paths.PARAMS}"
        yield Fault(str(paths.SEED_TABLE), "the number of chosen seeds", len(chosen), state.params.seeds.count, by)
    chosen["in order"] = range(len(chosen))
    chosen["place"] = [paths.seed_image(seed).as_posix() for seed in chosen["seed"]]
    yield from differing(chosen, where, "order", "in order", "the number of seeds before it")
    yield from differing(chosen, where, "path", "place", "its name")


def again(state: State) -> Iterator[Fault]:
    """Measure and choose again from the sources that params.yaml names; features to nine digits."""
    rows = [candidate.row for candidate in choose_all(state.params)]
    expected = pd.DataFrame(rows).reindex(columns=tables.SEEDS.names)
    key = ["seed", "origin"]
    yield from table_faults(str(paths.SEED_TABLE), state.snapshot.seeds, expected, key, "choosing again", rtol=1e-9)
