"""The tables as they are exported, and what every format says about them as a whole."""

import base64
import io
import json
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from banana100 import paths
from banana100.catalogue.metrics import DRIFT_METRICS
from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.lineage import tables
from banana100.lineage.columns import SCHEMAS, table_files, table_of
from banana100.snapshot import Snapshot

NAME = "Banana100 lineage"
PAPER = "https://arxiv.org/abs/2604.03400"
AUTHORS = ["Tang", "Arunshankar", "Hua", "Yang", "Qin"]
CITATION = (
    f"@inproceedings{{banana100, title={{Banana100}}, author={{{' and '.join(AUTHORS)}}}, "
    "booktitle={CVPR 2026 Workshops}, year={2026}, note={arXiv 2604.03400}}"
)
_ORDER: list[str | None] = list(SCHEMAS)
SIMULATED = "simulated: the embedded simulator imitates the rot, no image model was asked"
_NOT_INCLUDED = (
    " The image files are not included: they are named by path and sha256, and `dvc pull select_seeds replicate` "
    "fetches them in a clone of the project."
)


@dataclass(frozen=True)
class Table:
    """A file of a table: its name in `SCHEMAS`, its path, its bytes and its rows."""

    name: str
    path: Path
    content: bytes
    rows: pd.DataFrame

    @property
    def sha256(self) -> str:
        """Digest of the file."""
        return sha256_of(self.content)


@dataclass(frozen=True)
class Licence:
    """Terms, where to read them if that is known, and what is under them."""

    name: str
    url: str | None
    covers: str


class Lineage:
    """All tables of a state of the project.

    Args:
        snapshot: the state.

    Raises:
        UserError: a table is absent or damaged.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        scorers = snapshot.scorers["metric"].dropna()
        metrics = [metric for metric in scorers if metric not in DRIFT_METRICS]
        files = table_files(metrics)
        self.tables = [self._table(path) for path in sorted(files, key=lambda path: _ORDER.index(table_of(path)))]

    def _table(self, path: Path) -> Table:
        name, content = str(table_of(path)), self.snapshot.read(path)
        return Table(name, path, content, tables.read(path, SCHEMAS[name], io.BytesIO(content)))

    def files(self, name: str) -> list[Table]:
        """The files of a table; several for scores."""
        return [table for table in self.tables if table.name == name]

    def rows(self, name: str) -> pd.DataFrame:
        """The rows of a table that lies in one file."""
        return self.files(name)[0].rows

    @cached_property
    def seeds(self) -> list[dict[str, Any]]:
        """The rows of the chosen seeds, in the order of choice."""
        seeds = self.rows("seeds")
        return tables.records(seeds[seeds["chosen"].eq(True)].sort_values("order"))

    @cached_property
    def scorers(self) -> list[dict[str, Any]]:
        """The rows of the scorers."""
        return tables.records(self.rows("scorers"))

    def written_by(self, metric: str) -> Path:
        """The file that holds a metric's scores."""
        return paths.DRIFT_TABLE if metric in DRIFT_METRICS else paths.scores(metric)

    @cached_property
    def requests(self) -> list[dict[str, Any]]:
        """The rows of the requests, see `_answers`."""
        return self._answers("requests")

    @cached_property
    def refusals(self) -> list[dict[str, Any]]:
        """The rows of the refusals, see `_answers`."""
        return self._answers("refusals")

    @cached_property
    def seed_requests(self) -> dict[str, dict[str, Any]]:
        """The row of the request that each generated seed was made from, by the seed's name; see `_answers`."""
        made_from = {(row["seed"], row["source_sha256"]) for row in self.seeds}
        return {
            row["seed"]: row for row in self._answers("seed_requests") if (row["seed"], row["image_id"]) in made_from
        }

    def _answers(self, table: str) -> list[dict[str, Any]]:
        """Rows with two cells more.

        Those are `answered_by`, the model that says it answered or else the one that was asked, and `simulated`.
        """
        return [
            row
            | {
                "answered_by": row["model_answered"] or row["model"] or "unknown",
                "simulated": tables.is_simulated(row["backend"], row["model_answered"]),
            }
            for row in tables.records(self.rows(table))
        ]

    @cached_property
    def answers(self) -> list[dict[str, Any]]:
        """Whatever a generator answered: the rows of requests, of refusals, and of requests for seeds."""
        return [*self.requests, *self.refusals, *self.seed_requests.values()]

    @cached_property
    def images(self) -> list[dict[str, Any]]:
        """The rows of images; `parent` is the path of the image that each replicates, of the seed at step 0.

        Raises:
            UserError: an image's parent is not the step before it.
        """
        rows = tables.records(self.rows("images"))
        seeds = {row["seed"]: row for row in self.seeds}
        steps = {(row["campaign"], row["seed"], row["repeat"], row["step"]): row for row in rows}
        for row in rows:
            before = steps.get((row["campaign"], row["seed"], row["repeat"], row["step"] - 1)) or {}
            if row["parent_id"] and before.get("image_id") != row["parent_id"]:
                raise UserError(f"{paths.IMAGES_TABLE}: the parent of {row['path']} is not the step before it.")
            if row["step"] == 0:
                before = seeds.get(row["seed"], {})
            row["parent"] = before.get("path") if row["parent_id"] or row["step"] == 0 else None
        return rows

    def parents(self, request: dict[str, Any]) -> list[str]:
        """The paths of the images that a request sends along: several where campaigns share it."""
        return self._positions.get(tuple(request[name] for name in ("parent_id", "seed", "repeat", "step")), [])

    @cached_property
    def _positions(self) -> dict[tuple[Any, ...], list[str]]:
        """Paths by image, seed, repeat and the step that comes next."""
        found: dict[tuple[Any, ...], list[str]] = {}
        for row in self.images:
            found.setdefault((row["image_id"], row["seed"], row["repeat"], row["step"] + 1), []).append(row["path"])
        return found

    def image_files(self) -> dict[str, str]:
        """Path of every seed and replica, with its sha256."""
        return {row["path"]: row["image_id"] for row in [*self.seeds, *self.images]}

    @property
    def base(self) -> str:
        """An absolute URI that relative paths follow: this state of the lineage, as an archive (arcp) known by hash."""
        return f"arcp://ni,{ni(self.files('images')[0].sha256).removeprefix('ni:///')}/"

    @property
    def version(self) -> str:
        """The software's version, with the git revision as build; says whether tracked files differ from it."""
        if not self.snapshot.revision:
            return version("banana100")
        return f"{version('banana100')}+{self.snapshot.revision[:12]}{'.modified' if self.snapshot.modified else ''}"

    @cached_property
    def date(self) -> str:
        """Day of the git commit (UTC), so that a state always has the same; outside of git the month of the paper."""
        shown = ["git", "show", "-s", "--format=%ct", self.snapshot.revision or ""]
        if not self.snapshot.revision:
            return "2026-04-01"
        seconds = int(subprocess.run(shown, capture_output=True, text=True, check=True).stdout)
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()

    def description(self, with_images: bool) -> str:
        """What it all is; says what is simulated, and where the images are."""
        simulated = {row["simulated"] for row in self.requests}
        models = ", ".join(sorted({row["answered_by"] for row in self.requests}))
        told = (
            f"Images that a generator ({models}) replicated again and again, and what quality metrics say of them: "
            f"{len(self.images)} images, {len(self.requests)} requests, {len(self.rows('scorers'))} metrics, in the "
            "design of the study Banana100."
        )
        if self.seed_requests:
            makers = ", ".join(sorted({row["answered_by"] for row in self.seed_requests.values()}))
            told += f" {len(self.seed_requests)} seeds are no photographs but made by {makers}."
        if self.refusals:
            told += f" {len(self.refusals)} more answers had no image that can be used."
        if parked := len(self.rows("parked")):
            told += f" {parked} chains end early."
        if True in simulated:
            what = "The replicas are" if simulated == {True} else "The replicas of models called `simulated/…` are"
            told += f" {what} {SIMULATED}, and the numbers are not the paper's."
        if not self.snapshot.revision:
            told += " Made outside of git: the date is the paper's."
        return told + ("" if with_images else _NOT_INCLUDED)

    @cached_property
    def licences(self) -> list[Licence]:
        """The software's, then each seed's and each archive's."""
        found = [
            Licence("Apache-2.0", "https://spdx.org/licenses/Apache-2.0.html", "the software banana100"),
            Licence(
                "PolyForm-Noncommercial-1.0.0",
                "https://polyformproject.org/licenses/noncommercial/1.0.0",
                "pyiqa, which computed the scores; parts under the S-Lab License 1.0, non-commercial too",
            ),
        ]
        for terms in dict.fromkeys(row["licence"] for row in self.seeds):
            names = ", ".join(row["seed"] for row in self.seeds if row["licence"] == terms)
            found.append(Licence(terms, None, f"seeds: {names}"))
        configs = [json.loads(row["config"]) for row in self.requests if row["backend"] == "archive"]
        for terms, origin in dict.fromkeys((config["licence"], config["origin"]) for config in configs):
            found.append(Licence(terms, None, f"replicas from {origin}"))
        return found


def ni(sha256: str) -> str:
    """The name of content by its digest (RFC 6920)."""
    return "ni:///sha-256;" + base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode().rstrip("=")


def media_type(path: str) -> str:
    """The media type of an image file; not asked of the machine, which may not know WebP."""
    suffix = Path(path).suffix[1:]
    return "image/" + {"jpg": "jpeg", "tif": "tiff"}.get(suffix, suffix)


def uri_path(text: str) -> str:
    """A path or a name as a part of a URI."""
    return quote(text, safe="/")


def given(row: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    """The named cells of a row, without those that are missing."""
    return {column: row[column] for column in columns if row[column] is not None}
