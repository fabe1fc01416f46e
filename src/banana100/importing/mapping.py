"""Which image of an archive is which step of which chain: by the files' names, or by a table."""

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from banana100.errors import UserError
from banana100.params import NAME_RULE, is_name

_GROUPS = ("seed", "repeat", "step", "model", "setting")
_COLUMNS = ("path", *_GROUPS)
_MOST = 999


class Unusable(Exception):
    """A file is meant, but has no place in a chain; the message is a clause that says why."""


@dataclass(frozen=True, order=True)
class Position:
    """A place in a chain.

    Attributes:
        model: who made the image, or an empty text.
        setting: which of several ways to ask, or an empty text.
        seed: the seed's name.
        repeat: counted from 1.
        step: 0 is the seed, which belongs to all models, settings and repeats.
    """

    model: str
    setting: str
    seed: str
    repeat: int
    step: int


# Gives the place of a file of that name; None where the file is not meant. May raise Unusable.
Mapper = Callable[[str], Position | None]


@dataclass(frozen=True)
class Numbering:
    """The numbers by which an archive calls its seeds, before the first step, and each seed's first repeat."""

    seed_step: int = 0
    first_repeat: int = 1


def by_patterns(patterns: Sequence[str], model: str, numbering: Numbering) -> Mapper:
    """Places from names: the first pattern that fits a whole name counts.

    Args:
        patterns: regular expressions with the named group seed, and repeat (the first without), step (the seed
            without), model and setting if need be.
        model: who made the images, where no group says so.
        numbering: how it counts steps and repeats.

    Raises:
        UserError: a pattern is no regular expression, or has other groups.
    """
    compiled = [_compiled(pattern) for pattern in patterns]

    def place(name: str) -> Position | None:
        for pattern in compiled:
            if found := pattern.fullmatch(name):
                groups = {key: value for key, value in found.groupdict().items() if value is not None}
                return _position({"step": str(numbering.seed_step), "model": model} | groups, numbering)
        return None

    return place


def by_table(path: Path, model: str, numbering: Numbering) -> tuple[Mapper, set[str]]:
    """Places from a CSV file with the columns path, seed, step, and if need be repeat (else the first), model, setting.

    Returns:
        The mapper, and all names that the table holds.

    Raises:
        UserError: the file is absent, or no such table.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            columns = reader.fieldnames or []
            if not {"path", "seed", "step"} <= set(columns) <= set(_COLUMNS) or len(columns) > len(set(columns)):
                raise UserError(
                    f"{path} has the columns {', '.join(columns) or 'none'}; allowed: path, seed, step, and "
                    "repeat, model, setting if need be, each once."
                )
            rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); allowed: a CSV file.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is no CSV file in UTF-8 ({str(error).rstrip('.')}).") from None
    table: dict[str, Mapping[str, str]] = {}
    for number, row in rows:
        name = row["path"] or ""
        if not name or name in table or None in row or None in row.values():
            why = "names a file that a line above names" if name in table else "lacks a path, or has another length"
            raise UserError(f"{path} line {number} {why}; allowed: one line a file, a cell for each column.")
        table[name] = {key: value for key, value in row.items() if value}

    def place(name: str) -> Position | None:
        return _position({"model": model} | table[name], numbering) if name in table else None

    return place, set(table)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UserError(f"--pattern {pattern!r} is no regular expression ({error}).") from None
    groups = set(compiled.groupindex)
    if not {"seed"} <= groups <= set(_GROUPS):
        raise UserError(
            f"--pattern {pattern!r} has the groups {', '.join(sorted(groups)) or 'none'}; allowed: (?P<seed>…) "
            "and, if need be, repeat, step, model, setting."
        )
    return compiled


def _position(told: Mapping[str, str], numbering: Numbering) -> Position:
    seed = told.get("seed", "")
    if not is_name(seed):
        raise Unusable(f"would be of the seed {seed!r}; allowed: {NAME_RULE}")
    step = _number("step", told.get("step", ""), numbering.seed_step, _MOST)
    if step == 0:
        return Position("", "", seed, 1, 0)
    first = numbering.first_repeat
    repeat = 1 + _number("repeat", told.get("repeat", str(first)), first, _MOST - 1)
    if not told["model"]:
        raise Unusable("has no model; name it with --model, or by a group or column")
    for key in ("model", "setting"):
        if not told.get(key, "").isprintable():
            raise Unusable(f"has a {key} that is not printable")
    return Position(told["model"], told.get("setting", ""), seed, repeat, step)


def _number(key: str, text: str, least: int, most: int) -> int:
    """How far above the least a number is, at most so far."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= least + most):
        raise Unusable(f"has the {key} {text[:40]!r}; allowed: a whole number from {least} to {least + most}")
    return int(text) - least
