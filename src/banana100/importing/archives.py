"""Reading a folder, zip, tar or Parquet file of images that somebody else packed: nothing is ever unpacked to a file.

What would be dangerous to unpack is refused by name all the same, as such an archive is broken or an attack: names that
lead out of it, links, devices, two files of one name, bombs.
"""

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from banana100.errors import UserError
from banana100.importing.guards import (
    MAX_ENTRIES,
    MAX_HEADER,
    Archive,
    Bound,
    Entry,
    checked,
    damage,
    digest,
    link,
    normal,
    shown,
    special,
    too_many,
)
from banana100.importing.parquet import Parquet, is_parquet, is_table

_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".parquet")


def opened(path: Path) -> Archive:
    """The archive at `path`.

    Raises:
        UserError: there is none, or it is of no type that we read.
    """
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        raise UserError(f"{path} is not there; allowed: a folder, a zip, a tar or a Parquet file.")
    if is_parquet(path):
        return Parquet(path)
    if zipfile.is_zipfile(path):
        return Zip(path)
    if (tar := Tar(path)).readable():
        return tar
    raise UserError(
        f"{path} is no archive; allowed: a folder, a zip, a Parquet file, a tar, plain or with gz, bz2 or xz."
    )


def listing(archive: Archive, path: Path) -> dict[str, Entry]:
    """The files of an archive by name, all of them checked.

    Raises:
        UserError: see `Archive.entries`; or two files have one name, or there are too many.
    """
    found: dict[str, Entry] = {}
    for entry in archive.entries():
        if entry.name in found:
            raise UserError(f"{path} holds the file {shown(entry.name)} twice; allowed: each name once.")
        found[entry.name] = entry
        if len(found) > MAX_ENTRIES:
            raise too_many(path)
    return found


class Folder:
    """A folder; the zips, tars and Parquet files in it are looked into, their files lie under their names."""

    kind = "folder"

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self) -> Iterator[Entry]:
        """See `Archive.entries`."""
        for file, name in self._files():
            if _packed(name) and not is_table(file):
                yield from (Entry(f"{name}/{entry.name}", entry.bytes) for entry in opened(file).entries())
            else:
                yield Entry(checked(name, self._path), file.stat().st_size)

    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """See `Archive.read`."""
        for file, name in self._files():
            if name in names:
                yield name, file.read_bytes()
            elif _packed(name) and not is_table(file):
                inside = {wanted.removeprefix(f"{name}/") for wanted in names if wanted.startswith(f"{name}/")}
                if inside:
                    yield from ((f"{name}/{member}", data) for member, data in opened(file).read(inside))

    def sha256(self) -> None:
        """See `Archive.sha256`."""

    def _files(self) -> Iterator[tuple[Path, str]]:
        for folder, folders, files in os.walk(self._path, onerror=_unreadable):
            folders.sort()
            for name in sorted([*files, *folders]):
                path = Path(folder) / name
                inside = path.relative_to(self._path).as_posix()
                if path.is_symlink():
                    raise UserError(
                        f"{self._path} holds the link {shown(inside)}; allowed: files and folders "
                        "(`cp -rL` copies what links lead to)."
                    )
                if name in files:
                    if not path.is_file():
                        raise special(inside, self._path)
                    yield path, inside


class Zip:
    """A zip file."""

    kind = "zip"

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self) -> Iterator[Entry]:
        """See `Archive.entries`."""
        with damage(self._path), zipfile.ZipFile(self._path) as archive:
            bound = Bound(self._path)
            for info in archive.infolist():
                name = checked(info.orig_filename, self._path)
                mode = info.external_attr >> 16
                if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise link(name, self._path) if stat.S_ISLNK(mode) else special(name, self._path)
                if info.flag_bits & 1:
                    raise UserError(f"{self._path} holds {shown(name)} encrypted; allowed: without a password.")
                bound.add(name, info.file_size)
                if not info.is_dir():
                    yield Entry(name, info.file_size)

    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """See `Archive.read`."""
        with damage(self._path), zipfile.ZipFile(self._path) as archive:
            for info in archive.infolist():
                if (name := normal(info.orig_filename)) in names and not info.is_dir():
                    with archive.open(info) as file:
                        yield name, _all_of(file, name, info.file_size, self._path)

    def sha256(self) -> str:
        """See `Archive.sha256`."""
        return digest(self._path)


class Tar:
    """A tar file, plain or compressed."""

    kind = "tar"

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self) -> Iterator[Entry]:
        """See `Archive.entries`."""
        bound = Bound(self._path)
        with self._opened() as archive:
            for member in archive:
                name = checked(member.name, self._path)
                if member.issym() or member.islnk():
                    raise link(name, self._path)
                if not (member.isdir() or (member.isreg() and not member.issparse())):
                    raise special(name, self._path)
                bound.add(name, member.size)
                archive.members = []  # it would keep them all
                if not member.isdir():
                    yield Entry(name, member.size)

    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """See `Archive.read`."""
        with self._opened() as archive:
            for member in archive:
                if (name := normal(member.name)) in names and (file := archive.extractfile(member)):
                    yield name, _all_of(file, name, member.size, self._path)

    def sha256(self) -> str:
        """See `Archive.sha256`."""
        return digest(self._path)

    def readable(self) -> bool:
        """Whether it is a tar at all."""
        with damage(self._path), self._path.open("rb") as raw:
            try:
                tarfile.open(fileobj=_Sipping(_unpacked(raw), self._path), mode="r:").close()
            except tarfile.ReadError:
                return False
        return True

    @contextmanager
    def _opened(self) -> Iterator[tarfile.TarFile]:
        with damage(self._path), self._path.open("rb") as raw:
            unpacked = _Sipping(_unpacked(raw), self._path)
            with tarfile.open(fileobj=unpacked, mode="r:", errorlevel=2) as archive:
                yield archive


class _Sipping(io.RawIOBase):
    """A file that gives little at once, as members are read in pieces: a header that claims more fills no memory."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._where = file, path

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_HEADER:
            raise UserError(f"{self._where} has a header of {size:,} bytes; allowed: at most {MAX_HEADER:,}.")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True


def _unreadable(error: OSError) -> None:
    raise error


def _packed(name: str) -> bool:
    return name.casefold().endswith(_SUFFIXES)


def _all_of(file: IO[bytes], name: str, size: int, path: Path) -> bytes:
    # in pieces, as `_Sipping` gives no more; one byte too many tells that the size is not true
    data = bytearray()
    while len(data) <= size and (piece := file.read(min(2**16, size + 1 - len(data)))):
        data += piece
    if len(data) != size:
        raise UserError(f"{path} is damaged at {shown(name)}: not the {size:,} bytes that it says; fetch it again.")
    return bytes(data)


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    start = raw.read(6)
    raw.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    if start.startswith(b"BZh"):
        return bz2.BZ2File(raw)
    return lzma.LZMAFile(raw) if start.startswith(b"\xfd7zXZ\x00") else raw
