"""Digests of files, computed by all cores in the background while the tables are checked."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pathspec

from banana100 import images, paths
from banana100.images import Header, ImageError
from banana100.workers import progress, worker_count

_WITH_HEADER = (paths.SEEDS, paths.REPLICAS, paths.PREVIEWS)
_IGNORED = Path(".dvcignore")


@dataclass(frozen=True)
class Fingerprint:
    """What a file's bytes are.

    Attributes:
        bytes: their number.
        sha256, md5: hex digests.
        header: what a seed, replica or preview says of itself; None for other files and for damaged images.
    """

    bytes: int
    sha256: str
    md5: str
    header: Header | None


class Fingerprints:
    """Fingerprints of all files at or below some paths. Threads: hashing lets go of the interpreter's lock."""

    def __init__(self, outputs: Iterable[Path]) -> None:
        self.unreadable: dict[Path, str] = {}
        self._pool = ThreadPoolExecutor(worker_count())
        self._futures: dict[Future[Fingerprint], Path] = {
            self._pool.submit(fingerprint, file): file for output in outputs for file in files_below(output)
        }

    def wait(self) -> dict[Path, Fingerprint]:
        """All fingerprints, once they are there; files that cannot be read have none, and are in `unreadable`."""
        found = {}
        for future in progress(as_completed(self._futures), total=len(self._futures), what="hash files", unit="file"):
            try:
                found[self._futures[future]] = future.result()
            except OSError as error:
                self.unreadable[self._futures[future]] = error.strerror or "unreadable"
        self.stop()
        return found

    def stop(self) -> None:
        """Do not begin with further files."""
        self._pool.shutdown(cancel_futures=True)


def fingerprint(file: Path) -> Fingerprint:
    """Digests of one file."""
    data = file.read_bytes()
    header = None
    if any(file.is_relative_to(folder) for folder in _WITH_HEADER):
        with suppress(ImageError):  # told as another sha256 than the row's
            header = images.read_header(data)
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return Fingerprint(len(data), hashlib.sha256(data).hexdigest(), md5, header)


def files_below(path: Path) -> list[Path]:
    """All files at or below a path that DVC does not ignore, sorted."""
    if not path.is_dir():
        return [path] if path.exists() or path.is_symlink() else []
    lines = _IGNORED.read_text(encoding="utf-8").splitlines() if _IGNORED.exists() else []
    ignored = pathspec.GitIgnoreSpec.from_lines(lines)
    found = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
    return sorted(file for file in found if not ignored.match_file(file))


def listing(output: Path, known: Mapping[Path, Fingerprint]) -> dict[str, str]:
    """md5 of each file of a folder by its path in it, as DVC's .dir objects list them."""
    above = f"{output.as_posix()}/"  # as text: comparing paths 28,000 times an output takes a second
    files = ((file.as_posix(), found.md5) for file, found in known.items())
    return {path.removeprefix(above): md5 for path, md5 in files if path.startswith(above)}


def dvc_hash(output: Path, known: Mapping[Path, Fingerprint]) -> str | None:
    """The hash by which DVC knows a file or folder, given the fingerprints of its files; None where nothing is."""
    if output in known:
        return known[output].md5
    files = listing(output, known)
    if not files and not output.is_dir():
        return None
    # a .dir object: DVC's JSON of the files, sorted by path
    entries = [{"md5": md5, "relpath": path} for path, md5 in files.items()]
    entries.sort(key=lambda entry: entry["relpath"])
    return hashlib.md5(json.dumps(entries, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"
