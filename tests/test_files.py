"""Files: written whole or not at all, and swept where their writers are dead."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from banana100 import files
from banana100.files import sha256_of


def snapshot(folder: Path) -> dict[str, str]:
    return {file.as_posix(): sha256_of(file.read_bytes()) for file in sorted(folder.rglob("*")) if file.is_file()}


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    files.write_atomically(file, b"old", durable=True)

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        files.write_atomically(file, b"new", durable=True)
    assert snapshot(tmp_path) == {file.as_posix(): sha256_of(b"old")}


def test_a_sweep_deletes_only_what_dead_processes_left(tmp_path: Path) -> None:
    import platform

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for process in (dead.pid, os.getpid()):
        (tmp_path / f".tmp-{platform.node()}-{process}-abc").write_bytes(b"half")
    # of other machines, one of whose names goes on where ours ends
    others = {".tmp-another-host-1-abc", f".tmp-{platform.node()}-b-{dead.pid}-abc", f".tmp-{platform.node()}-7-1-abc"}
    for name in others:
        (tmp_path / name).write_bytes(b"half")
    files.sweep(tmp_path)
    left = {file.name for file in tmp_path.iterdir()}
    assert left == {f".tmp-{platform.node()}-{os.getpid()}-abc", *others}


def test_clearing_a_folder_spares_what_a_living_process_writes(tmp_path: Path) -> None:
    import platform

    folder = tmp_path / "out"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    living = folder / "a" / f".tmp-{platform.node()}-{os.getpid()}-abc"
    for file in (
        folder / "keep",
        folder / "b/c/stray",
        folder / "a" / f".tmp-{platform.node()}-{dead.pid}-abc",
        living,
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    (folder / "link").symlink_to(tmp_path, target_is_directory=True)
    files.keep_only(folder, {folder / "keep"})
    assert sorted(folder.rglob("*")) == [folder / "a", living, folder / "keep"]
    assert tmp_path.exists()
