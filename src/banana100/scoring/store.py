"""The durable store of scores: one SQLite file beside the answers, keyed by scorer, image and reference.

Shards of one run, perhaps on many machines, each write a file of their own; the whole store is all files together.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from banana100 import paths
from banana100.errors import UserError

# `computations` counts how often a score was computed: above 1, work was done twice.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    scorer_id TEXT NOT NULL,
    image_id TEXT NOT NULL,
    reference_id TEXT NOT NULL DEFAULT '',
    score REAL,
    reason TEXT,
    computations INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (scorer_id, image_id, reference_id),
    CHECK ((score IS NULL) <> (reason IS NULL))
) WITHOUT ROWID
"""

_MAIN = "scores.sqlite3"


class Result(NamedTuple):
    """What is known of one image by one scorer: a score, or the reason why there is none."""

    scorer_id: str
    image_id: str
    score: float | None
    reason: str | None = None
    reference_id: str = ""


class ScoreStore:
    """Results by (scorer id, image id, reference id); stands kill -9 and several processes at once.

    Args:
        root: folder of the store; `paths.store()` by default.
        shard: (i, n) to write to the file of shard i of n instead of the main one.
    """

    def __init__(self, root: Path | None = None, shard: tuple[int, int] | None = None) -> None:
        self._root = root or paths.store()
        self._path = self._root / (f"scores-shard-{shard[0]}-of-{shard[1]}.sqlite3" if shard else _MAIN)
        with self._told(self._path):
            self._root.mkdir(parents=True, exist_ok=True)
            self._connection = _open(self._path)

    def get(self, scorer_id: str) -> dict[tuple[str, str], Result]:
        """All results of one scorer, by (image id, reference id), those of unmerged shards too."""
        query = "SELECT scorer_id, image_id, score, reason, reference_id FROM results WHERE scorer_id = ?"
        found: dict[tuple[str, str], Result] = {}
        for path in self._files():
            with self._told(path), _connected(path) as connection:
                rows = list(map(Result._make, connection.execute(query, (scorer_id,))))
            for row in rows:
                found.setdefault((row.image_id, row.reference_id), row)
        return found

    def keys(self, scorer_id: str) -> set[tuple[str, str]]:
        """What `get` would find, without the results."""
        query = "SELECT image_id, reference_id FROM results WHERE scorer_id = ?"
        found: set[tuple[str, str]] = set()
        for path in self._files():
            with self._told(path), _connected(path) as connection:
                found.update(connection.execute(query, (scorer_id,)))
        return found

    def put(self, results: Iterable[Result]) -> None:
        """Keep results for good, all of them or none. One that is already there stays, and counts as computed twice."""
        self._insert(results, "UPDATE SET computations = computations + 1")

    def merge(self) -> int:
        """Take the results of all shards into the main file and delete theirs; returns how many shards there were."""
        shards = [path for path in self._files() if path.name != _MAIN]
        for path in shards:
            with self._told(path), _connected(path) as connection:
                query = "SELECT scorer_id, image_id, score, reason, reference_id FROM results"
                self._insert((Result(*row) for row in connection.execute(query)), "NOTHING")
            path.unlink()
        return len(shards)

    def computed_twice(self) -> int:
        """How many results were computed more than once."""
        return self._connection.execute("SELECT count(*) FROM results WHERE computations > 1").fetchone()[0]

    def _insert(self, results: Iterable[Result], on_conflict: str) -> None:
        rows = ((r.scorer_id, r.image_id, r.reference_id, r.score, r.reason) for r in results)
        with self._told(self._path), self._connection:
            self._connection.executemany(
                "INSERT INTO results (scorer_id, image_id, reference_id, score, reason) VALUES (?, ?, ?, ?, ?) "
                f"ON CONFLICT DO {on_conflict}",
                rows,
            )

    def _files(self) -> list[Path]:
        return sorted(self._root.glob("scores*.sqlite3"), key=lambda path: (path.name != _MAIN, path.name))

    @contextmanager
    def _told(self, path: Path) -> Iterator[None]:
        """Turn what SQLite says of a damaged, locked or full store into one sentence."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"{path}: the store of scores cannot be used ({error}).") from None


def _open(path: Path) -> sqlite3.Connection:
    # the classic journal: a write-ahead log needs shared memory, which network file systems lack
    connection = sqlite3.connect(path, timeout=60)
    connection.execute(_SCHEMA)  # also for reading: another shard may just have made the file, and nothing in it yet
    return connection


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    connection = _open(path)
    try:
        yield connection
    finally:
        connection.close()
