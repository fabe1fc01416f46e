"""The ranking computed again from the tables: each figure of ranking.json, and every other file that rank writes."""

import json
from collections.abc import Iterator
from typing import Any

from banana100 import paths
from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.ranking.stage import outputs
from banana100.trace.ways import leaves
from banana100.verify.faults import Fault, State
from banana100.verify.fingerprints import files_below

_BY = "ranking again"


def check(state: State) -> Iterator[Fault]:
    """Every file that rank writes against what it would write now.

    Raises:
        UserError: the tables cannot be ranked.
    """
    for path, expected in (again := outputs(state.params)).items():
        state.counted["rank's files"] += 1
        try:
            found = state.snapshot.read(path)
        except UserError:
            yield Fault(str(path), "the file", "absent", "there", _BY)
            continue
        if found == expected:
            continue
        if path == paths.RANKING and (figures := _json(found)) is not None:
            yield from _figures(figures, json.loads(expected))
        else:
            yield Fault(str(path), "sha256", sha256_of(found), sha256_of(expected), _BY)
    for folder in (paths.RANKING_TABLES, paths.CURVES):
        for file in files_below(folder):
            if file not in again:
                yield Fault(str(file), "the file", "there", "absent", _BY)


def _json(content: bytes) -> dict[str, Any] | None:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _figures(found: dict[str, Any], expected: dict[str, Any]) -> Iterator[Fault]:
    here, there = dict(leaves(found)), dict(leaves(expected))
    for name in sorted(here.keys() | there.keys()):
        if here.get(name, "absent") != there.get(name, "absent"):
            yield Fault(str(paths.RANKING), name, here.get(name, "absent"), there.get(name, "absent"), _BY)
    if here == there:
        yield Fault(str(paths.RANKING), "its text", "another", "the same", _BY)
