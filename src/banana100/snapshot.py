"""One state of the project, to be asked about: the working tree, or a commit or experiment of it."""

import io
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
import yaml

from banana100 import paths
from banana100.errors import UserError
from banana100.lineage import tables
from banana100.lineage.columns import SCHEMAS, table_of
from banana100.lineage.identity import identity
from banana100.revision import git
from banana100.yaml12 import Loader


class Files(Protocol):
    """Where the files of a state are read from."""

    def read(self, path: Path) -> bytes:
        """The content of a file.

        Raises:
            UserError: it is not there.
        """
        ...

    def older(self, path: Path) -> bool:
        """Whether the state is of a time before there was such a file."""
        ...


class Snapshot:
    """A state of the project.

    Args:
        files: where its files are read from.
        revision: the git commit it is, or starts from; None outside of git.
        modified: whether tracked files differ from that commit.
    """

    def __init__(self, files: Files, revision: str | None, modified: bool) -> None:
        self.read = files.read
        self._older = files.older
        self.revision = revision
        self.modified = modified
        self._tables: dict[Path, pd.DataFrame] = {}

    @cached_property
    def params(self) -> dict[str, Any]:
        """What params.yaml holds, unchecked: another revision may know other keys."""
        return self._yaml(paths.PARAMS, self.read(paths.PARAMS))

    @cached_property
    def pipeline(self) -> dict[str, dict[str, Any]]:
        """The stages of dvc.yaml, by name."""
        return self._stages(paths.PIPELINE, self.read(paths.PIPELINE))

    @cached_property
    def lock(self) -> dict[str, dict[str, Any]]:
        """The stages of dvc.lock, by name: what DVC recorded when each ran; none where there is no dvc.lock.

        Raises:
            UserError: it is damaged.
        """
        try:
            content = self.read(paths.LOCK)
        except UserError:
            return {}
        stages = self._stages(paths.LOCK, content)
        for name, entry in stages.items():
            deps, outs = entry.get("deps", []), entry.get("outs", [])
            if not (isinstance(deps, list) and isinstance(outs, list) and isinstance(entry.get("params", {}), dict)):
                raise UserError(f"{paths.LOCK}: {name} has no lists of deps and outs; restore it with `git checkout`.")
            if not all(isinstance(item, dict) and {"path", "md5"} <= item.keys() for item in [*deps, *outs]):
                raise UserError(f"{paths.LOCK}: {name} lacks a path or an md5; restore it with `git checkout`.")
        return stages

    @property
    def seeds(self) -> pd.DataFrame:
        """The table of candidates for seeds."""
        return self.table(paths.SEED_TABLE)

    @cached_property
    def chosen_seeds(self) -> pd.DataFrame:
        """The rows of the chosen seeds, in the order of choice."""
        return self.seeds[self.seeds["chosen"]].sort_values("order")

    @property
    def images(self) -> pd.DataFrame:
        """The table of images."""
        return self.table(paths.IMAGES_TABLE)

    @property
    def requests(self) -> pd.DataFrame:
        """The table of requests."""
        return self.table(paths.REQUESTS_TABLE)

    @property
    def refusals(self) -> pd.DataFrame:
        """The table of answers without an image that can be used."""
        return self.table(paths.REFUSALS_TABLE)

    @property
    def parked(self) -> pd.DataFrame:
        """The table of chains that end early."""
        return self.table(paths.PARKED_TABLE)

    @property
    def seed_requests(self) -> pd.DataFrame:
        """The table of requests that seeds were made from."""
        return self.table(paths.SEED_REQUESTS_TABLE)

    @property
    def scorers(self) -> pd.DataFrame:
        """The table of scorers."""
        return self.table(paths.SCORERS_TABLE)

    @property
    def failures(self) -> pd.DataFrame:
        """The table of images without a score."""
        return self.table(paths.FAILURES_TABLE)

    @property
    def drift(self) -> pd.DataFrame:
        """The table of full-reference scores."""
        return self.table(paths.DRIFT_TABLE)

    def scores(self, metric: str) -> pd.DataFrame:
        """The table of one no-reference metric's scores."""
        return self.table(paths.scores(metric))

    @cached_property
    def outs(self) -> dict[str, str]:
        """DVC's hash of every output that dvc.lock records, by its path."""
        return {out["path"]: out["md5"] for entry in self.lock.values() for out in entry.get("outs", [])}

    def stage_hash(self, stage: str) -> str | None:
        """sha256 of a stage's whole record in dvc.lock: command, dependencies, params, outputs; None without one."""
        return identity(self.lock[stage]) if stage in self.lock else None

    def table(self, path: Path) -> pd.DataFrame:
        """A row table, read once; see `tables.read`. What commits before generators behind a network lack is empty.

        Raises:
            UserError: it is absent or damaged.
        """
        if path not in self._tables:
            self._tables[path] = self._read_table(path, SCHEMAS[table_of(path) or ""])
        return self._tables[path]

    def _read_table(self, path: Path, schema: pa.Schema) -> pd.DataFrame:
        if path in _LATER and self._older(path):
            return schema.empty_table().to_pandas()
        return tables.read(path, schema, io.BytesIO(self.read(path)))

    def _stages(self, path: Path, content: bytes) -> dict[str, dict[str, Any]]:
        stages = self._yaml(path, content).get("stages")
        if not isinstance(stages, dict) or not all(isinstance(stage, dict) for stage in stages.values()):
            raise UserError(f"{path}: no block of stages; restore it with `git checkout {path}`.")
        return stages

    def _yaml(self, path: Path, content: bytes) -> dict[str, Any]:
        try:
            block = yaml.load(content, Loader=Loader)
        except (yaml.YAMLError, UnicodeDecodeError, ValueError):
            raise UserError(f"{path}: not YAML; restore it with `git checkout {path}`.") from None
        if not isinstance(block, dict):
            raise UserError(f"{path}: not a block of keys; restore it with `git checkout {path}`.")
        return block


# The tables that came with generators behind a network.
_LATER = {paths.REFUSALS_TABLE, paths.PARKED_TABLE, paths.SEED_REQUESTS_TABLE}
# Tables beside them that always were there.
_NEIGHBOUR = {paths.LINEAGE: paths.IMAGES_TABLE, paths.SEEDS: paths.SEED_TABLE}


def of_workspace() -> Snapshot:
    """The working tree as it is now."""
    commit = git("rev-parse", "HEAD")
    return Snapshot(_Workspace(), commit or None, bool(commit and git("status", "--porcelain", "-uno")))


def of_revision(revision: str) -> Snapshot:
    """A commit, branch, tag or experiment; its tables come from DVC's cache, or from a remote where they are not there.

    Raises:
        UserError: git and DVC know no such revision.
    """
    from dvc.api import DVCFileSystem  # noqa: PLC0415  takes half a second, and only this needs it
    from dvc.exceptions import DvcException  # noqa: PLC0415
    from dvc.scm import SCM, SCMError, resolve_rev  # noqa: PLC0415

    try:
        commit = resolve_rev(SCM("."), revision)
        return Snapshot(_Revision(DVCFileSystem(".", rev=commit), revision), commit, False)
    except (SCMError, DvcException) as error:
        raise UserError(f"--revision {revision}: {str(error).splitlines()[0].rstrip('.')}.") from None
    except AttributeError:  # names something in git, as HEAD:README.md does
        raise UserError(f"--revision {revision}: no commit, branch, tag or experiment.") from None


class _Workspace:
    def read(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(f"{path}: not there; make it with `dvc repro` or fetch it with `dvc pull`.") from None
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}).") from None

    def older(self, path: Path) -> bool:
        return False  # here a table that is absent is missing


class _Revision:
    def __init__(self, files: Any, revision: str) -> None:
        self._files, self._revision = files, revision

    def read(self, path: Path) -> bytes:
        from dvc.exceptions import DvcException  # noqa: PLC0415
        from dvc_data.index import DataIndexDirError  # noqa: PLC0415

        try:
            return self._files.read_bytes(path.as_posix())
        except (OSError, DvcException, DataIndexDirError):
            raise UserError(
                f"{path}: at {self._revision} neither in git, nor in DVC's cache, nor in a remote that can be reached."
            ) from None

    def older(self, path: Path) -> bool:
        self.read(_NEIGHBOUR[path.parent])  # a folder that cannot be listed would seem to lack the file
        return not self._files.exists(path.as_posix())
