"""Files that are whole or absent, whatever kills the process."""

import hashlib
import os
import platform
import re
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil


def sha256_of(data: bytes) -> str:
    """Hex digest of `data`."""
    return hashlib.sha256(data).hexdigest()


def write_atomically(path: Path, data: bytes, *, durable: bool = False, aside: Path | None = None) -> None:
    """Write `data` to `path` so that a reader finds the old file or the new one, never a part.

    Args:
        path: target; its folder is made.
        data: the whole content.
        durable: flush to the disk before the name appears, so that a power cut loses nothing.
        aside: folder for the unfinished file, on the same file system; the target's own by default.
    """
    new_folder = not path.parent.is_dir()
    aside = aside or path.parent
    for folder in (path.parent, aside):
        folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".tmp-{platform.node()}-{os.getpid()}-", dir=aside)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        for folder in (path.parent, path.parent.parent) if new_folder else (path.parent,):
            _flush_folder(folder)


def sweep(aside: Path) -> None:
    """Delete the unfinished files that killed processes of this machine left in `aside`."""
    for temporary in aside.glob(".tmp-*"):
        if _writer(temporary) and not _is_being_written(temporary):
            temporary.unlink(missing_ok=True)


def keep_only(folder: Path, wanted: Collection[Path]) -> None:
    """Delete every file below `folder` that is not `wanted`, then the folders left empty; `folder` itself stays.

    Stage outputs are persistent (see dvc.yaml), so what an earlier run or a killed one left is cleared here. What a
    living process is writing stays: DVC killed by SIGTERM leaves its stage running, and the next run meets it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for parent, folders, names in os.walk(folder, topdown=False):
        for name in names:
            if (file := Path(parent) / name) not in wanted and not _is_being_written(file):
                file.unlink(missing_ok=True)
        for name in folders:
            child = Path(parent) / name
            if child.is_symlink():
                child.unlink(missing_ok=True)
            else:
                with suppress(OSError):  # not empty, or another process was faster
                    child.rmdir()


def _is_being_written(file: Path) -> bool:
    """Whether `file` is an unfinished one of `write_atomically` whose process lives on this machine."""
    process = _writer(file)
    if process is None:
        return False
    try:
        # a zombie was killed, but nobody has asked how it ended
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _writer(file: Path) -> int | None:
    """The process of this machine that made an unfinished file; None for any other file."""
    match = re.fullmatch(rf"\.tmp-{re.escape(platform.node())}-(\d+)-[^-]+", file.name)
    return int(match[1]) if match else None


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
