"""Which rows of a table differ from the version that dvc.lock names, where DVC's cache holds that version."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

from dvc.config import Config

from banana100.errors import UserError
from banana100.lineage import tables
from banana100.lineage.columns import SCHEMAS, table_of
from banana100.verify.faults import Fault, table_faults

# What a row is called by: a damaged table may have lost its keys proper.
_NAMED_BY = {
    "seeds": ["seed"],
    "seed_requests": ["request_id"],
    "images": ["path"],
    "requests": ["request_id"],
    "refusals": ["request_id", "number"],
    "parked": tables.CHAIN,
    "scorers": ["metric"],
    "scores": ["image_id"],
    "drift": ["image_id", "reference_id", "metric"],
    "failures": ["image_id", "reference_id", "metric"],
}


def rows(path: Path, recorded: str) -> Iterator[Fault]:
    """The rows in which a row table differs from the version with DVC's hash `recorded`; none for other files."""
    name = table_of(path)
    if name is None or (before := cached(recorded)) is None:
        return
    try:
        found = tables.read(path, SCHEMAS[name])
        was = tables.read(path, SCHEMAS[name], io.BytesIO(before))
    except UserError:
        return  # told by the check of that table; or the recorded one has other columns
    yield from table_faults(str(path), found, was, _NAMED_BY[name], "the recorded version")


def listing(recorded: str) -> dict[str, str]:
    """md5 of each file of a folder with DVC's hash `recorded`, by its path in it; empty where that is not known."""
    content = cached(recorded) if recorded.endswith(".dir") else None
    try:
        return {entry["relpath"]: entry["md5"] for entry in json.loads(content or "[]")}
    except (ValueError, TypeError, KeyError):
        return {}  # a damaged object of the cache


def cached(recorded: str) -> bytes | None:
    """The object of DVC's cache with that hash; None where it is not there."""
    folder = Config.from_cwd(validate=False).get("cache", {}).get("dir") or ".dvc/cache"
    path = Path(folder) / "files" / "md5" / recorded[:2] / recorded[2:]
    return path.read_bytes() if path.is_file() else None
