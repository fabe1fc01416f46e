"""Trained weights on this machine: where they lie, what they must be, and that nothing else is ever loaded.

pyiqa looks in five cache places and checks nothing; a weight file is code (pickle). All places are led into one folder,
each file's sha256 is pinned in data/weights.lock.yaml, and a process that loads a metric opens no other file there.
"""

import hashlib
import os
import re
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from banana100 import paths
from banana100.catalogue.metrics import Metric
from banana100.catalogue.weights import Repository, WeightFile, Weights
from banana100.errors import UserError
from banana100.files import write_atomically

Lock = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class PinnedFile:
    """A weight file that the lock names.

    Attributes:
        key: its key in the lock, the path below the weights folder as a person would write it.
        path: where it lies on this machine.
        sha256: hex digest it must have.
        licence: terms of use.
    """

    key: str
    path: Path
    sha256: str
    licence: str


def environment(root: Path | None = None) -> dict[str, str]:
    """Variables that lead every cache place into the weights folder; read when torch and pyiqa are imported."""
    root = root or paths.weights()
    return {
        "TORCH_HOME": str(root),
        "HF_HOME": str(root / "huggingface"),
        "HF_HUB_CACHE": str(root / "huggingface" / "hub"),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


def file_key(file: WeightFile) -> str:
    """The key of a single file in the lock."""
    return f"{file.place}/{file.name}"


def file_path(file: WeightFile) -> Path:
    """Where a single file lies."""
    return paths.weights() / "hub" / file.place / file.name


def repository_folder(repository: Repository) -> Path:
    """The folder of a repository in Hugging Face's cache layout."""
    kind = "datasets" if repository.dataset else "models"
    return paths.weights() / "huggingface" / "hub" / f"{kind}--{repository.name.replace('/', '--')}"


def key_prefix(repository: Repository) -> str:
    """What the keys of a repository's files in the lock begin with; the file's path in it follows."""
    return f"huggingface/{repository.name}/"


def read_lock(path: Path = paths.WEIGHTS_LOCK) -> Lock:
    """The pins: key to sha256, bytes and, for a repository's file, revision.

    Raises:
        UserError: the file is damaged.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        return {}
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UserError(f"{path}: not YAML; restore it with git.") from None
    for key, pin in content.items() if isinstance(content, dict) else [("the file", None)]:
        if not isinstance(pin, dict) or not re.fullmatch(r"[0-9a-f]{64}", str(pin.get("sha256"))):
            raise UserError(f"{path}: {key} has no sha256 of 64 hex digits; restore the file with git.")
    return content


def pinned(metric: str, row: Metric, lock: Lock, absent: bool = False) -> list[PinnedFile]:
    """The weight files of a metric, as the lock pins them; their content is not looked at yet.

    Args:
        metric: its name.
        row: its row in the catalogue.
        lock: the pins.
        absent: allow files that are pinned and not on this machine.

    Raises:
        UserError: a file is not pinned or not there.
    """
    return [file for weights in row.weights for file in _pinned(metric, weights, lock, absent)]


def _pinned(metric: str, weights: Weights, lock: Lock, absent: bool) -> list[PinnedFile]:
    files = [
        PinnedFile(key, path, lock[key]["sha256"], weights.licence) for key, path in files_of(weights, lock).items()
    ]
    missing = [file.path for file in files if not absent and not file.path.is_file()]
    if not files or missing:
        where = missing[0] if missing else file_path(weights) if isinstance(weights, WeightFile) else weights.name
        what = "is not pinned" if isinstance(weights, WeightFile) and where.is_file() else "is not there"
        raise UserError(f"weights {where}: {what}; run `banana100 weights fetch {metric}`.")
    return files


def files_of(weights: Weights, lock: Lock) -> dict[str, Path]:
    """The files that the lock pins for a weight file or a repository, by key."""
    if isinstance(weights, WeightFile):
        return {file_key(weights): file_path(weights)} if file_key(weights) in lock else {}
    prefix = key_prefix(weights)
    return {
        key: repository_folder(weights) / "snapshots" / pin["revision"] / key.removeprefix(prefix)
        for key, pin in lock.items()
        if key.startswith(prefix)
    }


def by_name(row: Metric, files: Sequence[PinnedFile]) -> dict[str, Path]:
    """What `base.load` wants: each weight file by name, each repository's folder by its name."""
    found: dict[str, Path] = {}
    for weights in row.weights:
        if isinstance(weights, WeightFile):
            found[weights.name] = file_path(weights)
        else:
            first = next(file for file in files if file.key.startswith(key_prefix(weights)))
            inner = first.key.removeprefix(key_prefix(weights))
            found[weights.name] = first.path.parents[inner.count("/")]
    return found


def digest_of(path: Path) -> str:
    """Hex sha256 of a file of any size."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def promised_digits(name: str) -> str | None:
    """The first digits of the sha256 that a file's name promises, as in CNNIQA_koniq10k-e6f14c91.pth."""
    match = re.search(r"-([0-9a-f]{8})\.[a-z]+$", name)
    return match[1] if match else None


def admit(files: Sequence[PinnedFile]) -> None:
    """Check files before they are loaded; this process may open them afterwards, and no other weight file.

    Raises:
        UserError: a file is not the pinned one.
    """
    for file in files:
        if (found := digest_of(file.path)) != file.sha256:
            raise UserError(
                f"weights {file.path}: sha256 is {found}; {paths.WEIGHTS_LOCK} pins {file.sha256}; "
                "it is not loaded: delete it and fetch it again."
            )
        _admitted.update((str(file.path), os.path.realpath(file.path)))


_admitted: set[str] = set()
_guarded: set[str] = set()


@contextmanager
def guarded(root: Path) -> Iterator[None]:
    """While a metric is loaded, refuse weight files that nobody admitted, and downloads that nobody checked."""
    if not _guarded:
        sys.addaudithook(_refuse_strangers)  # cannot be taken out; it does nothing while no folder is guarded
    _guarded.add(str(root))
    download = urllib.request.OpenerDirector.open
    urllib.request.OpenerDirector.open = _refuse_download  # type: ignore[method-assign]
    try:
        yield
    finally:
        urllib.request.OpenerDirector.open = download  # type: ignore[method-assign]
        _guarded.clear()


def _refuse_strangers(event: str, arguments: Sequence[Any]) -> None:
    if event != "open" or not _guarded or not isinstance(arguments[0], str):
        return
    path = arguments[0]
    inside = any(path.startswith(root + os.sep) for root in _guarded)
    # what Hugging Face notes beside its files holds no weights
    if inside and path not in _admitted and not re.search(r"/(refs|\.no_exist|\.locks)/", path) and Path(path).exists():
        raise UserError(f"weights {path}: opened, but not listed for this metric; it is not loaded.")


def _refuse_download(_: Any, request: Any, *arguments: Any, **options: Any) -> None:
    url = request if isinstance(request, str) else request.full_url
    raise UserError(f"weights {url}: asked for while loading, but not listed for this metric; it is not fetched.")


def write_lock(lock: Mapping[str, Mapping[str, Any]], path: Path = paths.WEIGHTS_LOCK) -> None:
    """Write the pins, sorted; see `read_lock`."""
    text = _LOCK_HEAD + yaml.safe_dump({key: dict(lock[key]) for key in sorted(lock)}, sort_keys=True)
    write_atomically(path, text.encode())


_LOCK_HEAD = """\
# The weight files that scores may be computed with. Written by `banana100 weights fetch`, kept in git: a file with
# another sha256 is never loaded.
"""
