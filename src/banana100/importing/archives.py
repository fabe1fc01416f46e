"""Reading a folder, zip or tar of images that somebody else packed: nothing of it is ever unpacked to a file.

What would be dangerous to unpack is refused by name all the same, as such an archive is broken or an attack: names that
lead out of it, links, devices, two files of one name, bombs.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from banana100.errors import UserError

MAX_ENTRIES = 200_000
# Of one file, unpacked: far above any image, far below what fills a machine's memory.
MAX_BYTES = 512 * 2**20
# Images hardly shrink, so an archive that unpacks to many times its size is a bomb; small ones may.
MAX_RATIO, ALWAYS_TAKEN = 50, 256 * 2**20

_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_BROKEN = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError),
)


@dataclass(frozen=True)
class Entry:
    """A file in an archive: its name, with slashes, and its size in bytes as the archive tells it."""

    name: str
    bytes: int


class Archive(Protocol):
    """A folder, zip or tar.

    Attributes:
        kind: what it is, in a word.
    """

    kind: str

    def entries(self) -> Iterator[Entry]:
        """Its files.

        Raises:
            UserError: it cannot be read, or holds what must not be unpacked.
        """
        ...

    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Name and content of the files of those names, in whatever order is the quickest.

        Raises:
            UserError: one is damaged.
        """
        ...

    def sha256(self) -> str | None:
        """Digest of the archive's file; None for a folder."""
        ...


def opened(path: Path) -> Archive:
    """The archive at `path`.

    Raises:
        UserError: there is none, or it is of no type that we read.
    """
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        raise UserError(f"import: {path} is not there; allowed: a folder, a zip or a tar.")
    if zipfile.is_zipfile(path):
        return Zip(path)
    if (tar := Tar(path)).readable():
        return tar
    raise UserError(f"import: {path} is no archive; allowed: a folder, a zip, or a tar, plain or with gz, bz2 or xz.")


def listing(archive: Archive, path: Path) -> dict[str, Entry]:
    """The files of an archive by name, all of them checked.

    Raises:
        UserError: see `Archive.entries`; or two files have one name, or there are too many.
    """
    found: dict[str, Entry] = {}
    for entry in archive.entries():
        if entry.name in found:
            raise UserError(f"import: {path} holds the file {_shown(entry.name)} twice; allowed: each name once.")
        found[entry.name] = entry
        if len(found) > MAX_ENTRIES:
            raise UserError(f"import: {path} holds more than {MAX_ENTRIES:,} files; allowed: at most so many.")
    return found


class Folder:
    """A folder; the zips and tars in it are looked into, their files lie under their names."""

    kind = "folder"

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self) -> Iterator[Entry]:
        """See `Archive.entries`."""
        for file, name in self._files():
            if _packed(name):
                yield from (Entry(f"{name}/{entry.name}", entry.bytes) for entry in opened(file).entries())
            else:
                size = file.stat().st_size
                yield Entry(_checked(name, self._path), size)
                _refuse_large(name, size, self._path)

    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """See `Archive.read`."""
        for file, name in self._files():
            if name in names:
                yield name, file.read_bytes()
            elif _packed(name):
                inside = {wanted.removeprefix(f"{name}/") for wanted in names if wanted.startswith(f"{name}/")}
                if inside:
                    yield from ((f"{name}/{member}", data) for member, data in opened(file).read(inside))

    def sha256(self) -> None:
        """See `Archive.sha256`."""

    def _files(self) -> Iterator[tuple[Path, str]]:
        for folder, folders, files in os.walk(self._path):
            folders.sort()
            for name in sorted([*files, *folders]):
                path = Path(folder) / name
                shown = path.relative_to(self._path).as_posix()
                if path.is_symlink():
                    raise UserError(
                        f"import: {self._path} holds the link {_shown(shown)}; allowed: files and folders "
                        "(`cp -rL` copies what links lead to)."
                    )
                if name in files:
                    if not path.is_file():
                        raise _special(shown, self._path)
                    yield path, shown


class Zip:
    """A zip file."""

    kind = "zip"

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self) -> Iterator[Entry]:
        """See `Archive.entries`."""
        with _damage(self._path), zipfile.ZipFile(self._path) as archive:
            bound = _Bound(self._path)
            for info in archive.infolist():
                name = _checked(info.orig_filename, self._path)
                mode = info.external_attr >> 16
                if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise _link(name, self._path) if stat.S_ISLNK(mode) else _special(name, self._path)
                if info.flag_bits & 1:
                    raise UserError(
                        f"import: {self._path} holds {_shown(name)} encrypted; allowed: without a password."
                    )
                if not info.is_dir():
                    bound.add(name, info.file_size)
                    yield Entry(name, info.file_size)

    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """See `Archive.read`."""
        with _damage(self._path), zipfile.ZipFile(self._path) as archive:
            for info in archive.infolist():
                if (name := _normal(info.orig_filename)) in names and not info.is_dir():
                    with archive.open(info) as file:
                        yield name, _all_of(file, name, info.file_size, self._path)

    def sha256(self) -> str:
        """See `Archive.sha256`."""
        return _digest(self._path)


class Tar:
    """A tar file, plain or compressed."""

    kind = "tar"

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self) -> Iterator[Entry]:
        """See `Archive.entries`."""
        bound = _Bound(self._path)
        with self._opened() as archive:
            for member in archive:
                name = _checked(member.name, self._path)
                if member.issym() or member.islnk():
                    raise _link(name, self._path)
                if not (member.isdir() or (member.isreg() and not member.issparse())):
                    raise _special(name, self._path)
                bound.add(name, member.size)
                if not member.isdir():
                    yield Entry(name, member.size)

    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """See `Archive.read`."""
        with self._opened() as archive:
            for member in archive:
                if (name := _normal(member.name)) in names and (file := archive.extractfile(member)):
                    yield name, _all_of(file, name, member.size, self._path)

    def sha256(self) -> str:
        """See `Archive.sha256`."""
        return _digest(self._path)

    def readable(self) -> bool:
        """Whether it is a tar at all."""
        with _damage(self._path), self._path.open("rb") as raw:
            try:
                tarfile.open(fileobj=_Sipping(_unpacked(raw), self._path), mode="r:").close()
            except tarfile.ReadError:
                return False
        return True

    @contextmanager
    def _opened(self) -> Iterator[tarfile.TarFile]:
        with _damage(self._path), self._path.open("rb") as raw:
            unpacked = _Sipping(_unpacked(raw), self._path)
            with tarfile.open(fileobj=unpacked, mode="r:", errorlevel=2) as archive:
                yield archive


class _Sipping(io.RawIOBase):
    """A file that gives no more at once than one image may have: a header that claims more fills no memory."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._where = file, path

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_BYTES:
            raise UserError(f"import: {self._where} has a header of {size:,} bytes; allowed: at most {MAX_BYTES:,}.")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True


class _Bound:
    """How much an archive unpacks to, file by file, before anything of it is read."""

    def __init__(self, path: Path) -> None:
        self._path, self._sum, self._count = path, 0, 0
        self._most = max(ALWAYS_TAKEN, MAX_RATIO * path.stat().st_size)

    def add(self, name: str, size: int) -> None:
        """Count one more file."""
        _refuse_large(name, size, self._path)
        self._sum += size
        if self._sum > self._most:
            raise UserError(
                f"import: {self._path} unpacks to more than {MAX_RATIO} times its size (up to {_shown(name)}); "
                "allowed: an archive of images, which hardly shrink."
            )


def _refuse_large(name: str, size: int, path: Path) -> None:
    if not 0 <= size <= MAX_BYTES:
        raise UserError(
            f"import: {path} holds {_shown(name)}, a file of {size:,} bytes; allowed: at most {MAX_BYTES:,}."
        )


def _packed(name: str) -> bool:
    return name.casefold().endswith(_SUFFIXES)


def _checked(name: str, path: Path) -> str:
    """A file's name without what means nothing in it.

    Raises:
        UserError: it leads out of the archive, or is no text.
    """
    parts = name.split("/")
    drive = len(name) > 1 and name[1] == ":"
    if not name.strip("/") or name.startswith("/") or ".." in parts or drive or "\\" in name or not _is_text(name):
        raise UserError(
            f"import: {path} holds the name {_shown(name)}; allowed: a path inside it, with slashes, without .., "
            "backslashes and control characters."
        )
    return _normal(name)


def _is_text(name: str) -> bool:
    return not any(ord(letter) < 32 or 0xD800 <= ord(letter) < 0xE000 for letter in name)


def _normal(name: str) -> str:
    return PurePosixPath(name).as_posix()


def _link(name: str, path: Path) -> UserError:
    return UserError(f"import: {path} holds the link {_shown(name)}; allowed: files and folders.")


def _special(name: str, path: Path) -> UserError:
    return UserError(f"import: {path} holds {_shown(name)}, which is no plain file; allowed: files and folders.")


def _all_of(file: IO[bytes], name: str, size: int, path: Path) -> bytes:
    data = file.read(size + 1)
    if len(data) != size:
        raise UserError(
            f"import: {path} is damaged at {_shown(name)}: not the {size:,} bytes that it says; fetch it again."
        )
    return data


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Say in one sentence that an archive is damaged."""
    try:
        yield
    except _BROKEN as error:
        why = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise UserError(f"import: {path} is damaged or of an unknown kind ({why}); fetch it again.") from None
    except OSError as error:
        if error.errno:
            raise
        raise UserError(f"import: {path} is damaged ({error}); fetch it again.") from None  # gzip's and bz2's words


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    start = raw.read(6)
    raw.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    if start.startswith(b"BZh"):
        return bz2.BZ2File(raw)
    return lzma.LZMAFile(raw) if start.startswith(b"\xfd7zXZ\x00") else raw


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _shown(name: str) -> str:
    text = repr(name[:120])
    return text if len(name) <= 120 else f"{text}…"
