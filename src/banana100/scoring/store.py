"""The durable store of scores: one SQLite file beside the answers, keyed by scorer and image."""

import sqlite3
from collections.abc import Iterable
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
        path = (root or paths.store()) / "scores.sqlite"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=60)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"{path}: the store of scores cannot be opened ({error}).") from None

    def get(self, scorer_id: str) -> dict[str, float]:
        """All scores of one scorer, by image id."""
        return dict(self._connection.execute("SELECT image_id, score FROM scores WHERE scorer_id = ?", (scorer_id,)))

    def put(self, scores: Iterable[tuple[str, str, float]]) -> None:
        """Keep scores for good, all of them or none.

        Args:
            scores: (scorer id, image id, score). One that is already there stays, and is counted as computed twice.
        """
        with self._connection:
            self._connection.executemany(
                "INSERT INTO scores (scorer_id, image_id, score) VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET computations = computations + 1",
                scores,
            )

    def computed_twice(self) -> int:
        """How many scores were computed more than once."""
        return self._connection.execute("SELECT count(*) FROM scores WHERE computations > 1").fetchone()[0]
