"""What a check finds, and how two tables are compared."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from banana100.params import Params
from banana100.snapshot import Snapshot


@dataclass(frozen=True)
class Fault:
    """One thing that is not as it should be.

    Attributes:
        where: the file, and the row in it.
        what: which of its facts.
        found: the value there.
        expected: the value that follows from `by`.
        by: what says so.
    """

    where: str
    what: str
    found: Any
    expected: Any
    by: str

    def sentence(self) -> str:
        """The fault in one line; a text alone where there is nothing to compare."""
        if not self.by:
            return f"{self.where}: {self.found}"
        return f"{self.where}: {self.what} is {_shown(self.found)}; {self.by} says {_shown(self.expected)}"

    def as_json(self) -> dict[str, Any]:
        """JSON values; texts where a value is none."""

        def plain(value: Any) -> bool:
            return isinstance(value, str | int | list | dict | None) or (
                isinstance(value, float) and np.isfinite(value)
            )

        return {name: value if plain(value) else str(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class State:
    """What is verified.

    Attributes:
        snapshot: the working tree.
        params: its params, checked.
        counted: how many of what the checks have looked at.
    """

    snapshot: Snapshot
    params: Params
    counted: Counter[str] = field(default_factory=Counter)


def differing(frame: pd.DataFrame, where: pd.Series, what: str, expected: str, by: str) -> Iterator[Fault]:
    """A fault for every row whose column `what` is not what its column `expected` holds; missing equals missing.

    Args:
        frame: one row a thing.
        where: how each row is called.
        what: a column.
        expected: another column.
        by: what says so.
    """
    found, wanted = frame[what].astype(object), frame[expected].astype(object)
    differs = (found != wanted).fillna(True).to_numpy(dtype=bool) & ~(found.isna() & wanted.isna()).to_numpy(dtype=bool)
    for place, one, other in zip(where[differs], found[differs], wanted[differs], strict=True):
        yield Fault(place, what, one, other, by)


def table_faults(  # noqa: PLR0913, PLR0917  two tables, and how to name what differs
    file: str, found: pd.DataFrame, expected: pd.DataFrame, key: Sequence[str], by: str, rtol: float = 0.0
) -> Iterator[Fault]:
    """Every row and cell in which two tables of the same columns differ.

    Args:
        file: the name of the table found.
        found: what is there.
        expected: what should be.
        key: the columns that identify a row.
        by: what says so.
        rtol: relative tolerance of numbers with a fraction.
    """
    # rows of one key are told apart by their order
    ours, theirs = (
        frame.assign(row=frame.groupby(list(key), dropna=False).cumcount() + 1).set_index([*key, "row"])
        for frame in (found, expected)
    )
    key = [*key, "row"]
    for row in ours.index.difference(theirs.index):
        yield Fault(f"{file} {_named(key, row)}", "the row", "there", "absent", by)
    for row in theirs.index.difference(ours.index):
        yield Fault(f"{file} {_named(key, row)}", "the row", "absent", "there", by)
    both = ours.index.intersection(theirs.index)
    where = pd.Series([f"{file} {_named(key, row)}" for row in both], dtype="str")
    for column in ours.columns:
        pair = pd.DataFrame({column: ours.loc[both, column].array, "expected": theirs.loc[both, column].array})
        if rtol and pd.api.types.is_float_dtype(pair[column]):
            near = np.isclose(pair[column].astype(float), pair["expected"].astype(float), rtol=rtol)
            pair.loc[near, "expected"] = pair.loc[near, column]
        yield from differing(pair, where, column, "expected", by)


def _named(key: Sequence[str], row: Any) -> str:
    pairs = zip(key, row, strict=True)
    return " ".join(f"{name} {value}" for name, value in pairs if (name, value) != ("row", 1))


def _shown(value: Any) -> str:
    return (
        "missing" if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)) else str(value)
    )
