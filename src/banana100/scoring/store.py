"""The durable store of scores: one SQLite file beside the answers, keyed by scorer and image."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from banana100 import paths
from banana100.errors import UserError

# `computations` counts how often a score was computed: above 1, work was done twice.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS scores (
    scorer_id TEXT NOT NULL,
    image_id TEXT NOT NULL,
    score REAL NOT NULL,
    computations INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (scorer_id, image_id)
) WITHOUT ROWID
"""


class ScoreStore:
    """Scores by (scorer id, image id); stands kill -9 (write-ahead log) and several processes at once."""

    def __init__(self, root: Path | None = None) -> None:
        self._path = (root or paths.store()) / "scores.sqlite"
        with self._told():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path, timeout=60)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute(_SCHEMA)

    def get(self, scorer_id: str) -> dict[str, float]:
        """All scores of one scorer, by image id."""
        with self._told():
            query = "SELECT image_id, score FROM scores WHERE scorer_id = ?"
            return dict(self._connection.execute(query, (scorer_id,)))

    def put(self, scores: Iterable[tuple[str, str, float]]) -> None:
        """Keep scores for good, all of them or none.

        Args:
            scores: (scorer id, image id, score). One that is already there stays, and is counted as computed twice.
        """
        with self._told(), self._connection:
            self._connection.executemany(
                "INSERT INTO scores (scorer_id, image_id, score) VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET computations = computations + 1",
                scores,
            )

    def computed_twice(self) -> int:
        """How many scores were computed more than once."""
        return self._connection.execute("SELECT count(*) FROM scores WHERE computations > 1").fetchone()[0]

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what SQLite says of a damaged, locked or full store into one sentence."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"{self._path}: the store of scores cannot be used ({error}).") from None
