"""Every cell of every row table by itself: not missing, not too small, of the right form."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from banana100.lineage.columns import constraints, table_files, table_of
from banana100.verify.faults import Fault, State

_BY = "the rule for its column"


def check(state: State) -> Iterator[Fault]:
    """All cells; tables that cannot be read are told by the checks that need them."""
    for path in table_files(state.params.scored_metrics()):
        if path.is_file():
            yield from _cells(path, str(table_of(path)), state.snapshot.table(path))


def _cells(path: Path, name: str, rows: pd.DataFrame) -> Iterator[Fault]:
    for column in rows.columns:
        kept, values = constraints(name, column), rows[column]
        if kept.get("required"):
            for index in values.index[values.isna()]:
                yield Fault(f"{path} row {index + 1}", column, None, "a value", _BY)
        known = values.dropna()
        if (least := kept.get("minimum")) is not None:
            for index in known.index[known < least]:
                yield Fault(f"{path} row {index + 1}", column, known[index], f"at least {least}", _BY)
        if pattern := kept.get("pattern"):
            for index in known.index[~known.astype("str").str.fullmatch(pattern).astype(bool)]:
                yield Fault(f"{path} row {index + 1}", column, known[index], pattern, _BY)
