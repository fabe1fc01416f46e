"""What must not come out of an archive, whatever kind it is, and the sentences that refuse it."""

import errno
import hashlib
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

import pyarrow as pa

from banana100.errors import UserError

MAX_ENTRIES = 200_000
# Of one file, unpacked: far above any image, far below what fills a machine's memory.
MAX_BYTES = 512 * 2**20
# Of what stands before a file in a tar.
MAX_HEADER = 2**20
# Images hardly shrink, so an archive that unpacks to many times its size is a bomb; small ones may.
MAX_RATIO, ALWAYS_TAKEN = 50, 256 * 2**20

_BROKEN = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError, MemoryError, pa.ArrowException),
)


@dataclass(frozen=True)
class Entry:
    """A file in an archive: its name, with slashes, and its size in bytes as the archive tells it."""

    name: str
    bytes: int


class Archive(Protocol):
    """A folder, zip, tar or Parquet file.

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


class Bound:
    """How much an archive unpacks to, file by file, before anything of it is read."""

    def __init__(self, path: Path) -> None:
        self._path, self._sum, self._count = path, 0, 0
        self._most = max(ALWAYS_TAKEN, MAX_RATIO * path.stat().st_size)

    def add(self, name: str, size: int) -> None:
        """Count one more file."""
        refuse_large(name, size, self._path)
        self._count += 1
        if self._count > MAX_ENTRIES:
            raise too_many(self._path)
        self._sum += size
        if self._sum > self._most:
            raise UserError(
                f"{self._path} unpacks to more than {MAX_RATIO} times its size (up to {shown(name)}); "
                "allowed: an archive of images, which hardly shrink."
            )


def refuse_large(name: str, size: int, path: Path) -> None:
    """Refuse a file larger than any image.

    Raises:
        UserError: it is.
    """
    if not 0 <= size <= MAX_BYTES:
        raise UserError(f"{path} holds {shown(name)}, a file of {size:,} bytes; allowed: at most {MAX_BYTES:,}.")


def too_many(path: Path) -> UserError:
    """The sentence for an archive of too many files."""
    return UserError(f"{path} holds more than {MAX_ENTRIES:,} files; allowed: at most so many.")


def checked(name: str, path: Path) -> str:
    """A file's name without what means nothing in it.

    Raises:
        UserError: it leads out of the archive, or is no text.
    """
    parts = name.split("/")
    drive = len(name) > 1 and name[1] == ":"
    if not name.strip("/") or name.startswith("/") or ".." in parts or drive or "\\" in name or not _is_text(name):
        raise UserError(
            f"{path} holds the name {shown(name)}; allowed: a path inside it, with slashes, without .., "
            "backslashes and control characters."
        )
    return normal(name)


def _is_text(name: str) -> bool:
    return not any(ord(letter) < 32 or 0xD800 <= ord(letter) < 0xE000 for letter in name)


def normal(name: str) -> str:
    """A name without dots and doubled slashes that mean nothing."""
    return PurePosixPath(name).as_posix()


def link(name: str, path: Path) -> UserError:
    """The sentence for a link."""
    return UserError(f"{path} holds the link {shown(name)}; allowed: files and folders.")


def special(name: str, path: Path) -> UserError:
    """The sentence for a device, a pipe and the like."""
    return UserError(f"{path} holds {shown(name)}, which is no plain file; allowed: files and folders.")


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Say in one sentence that an archive is damaged."""
    try:
        yield
    except _BROKEN as error:
        why = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise UserError(f"{path} is damaged or of an unknown kind ({why}); fetch it again.") from None
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):
            raise
        raise UserError(f"{path} is damaged ({error}); fetch it again.") from None  # gzip's and bz2's words


def shown(name: str) -> str:
    """A name in a sentence."""
    text = repr(name[:120])
    return text if len(name) <= 120 else f"{text}…"


def digest(path: Path) -> str:
    """sha256 of a file, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
