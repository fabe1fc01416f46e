"""What must hold before anything is published: all is committed, up to date, in DVC's cache, and proved."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dvc.exceptions import DvcException
from dvc_data.hashfile.tree import Tree

from banana100 import paths
from banana100.errors import UserError
from banana100.params import Params
from banana100.release import settings
from banana100.release.wording import first_line
from banana100.revision import git
from banana100.verify import command as verify
from banana100.workers import progress, worker_count

_CLUSTER = 4096  # bytes by which a file on a disk may be larger than its content


def committed() -> str:
    """The commit that is released: the one checked out.

    Raises:
        UserError: this is not the root of a git repository, or something in it is not committed.
    """
    commit = git("rev-parse", "--verify", "HEAD")
    if not commit or git("rev-parse", "--show-prefix") or not Path(".dvc").is_dir():
        raise UserError("not the root of a git repository with DVC and a commit; start it there.")
    listed = git("-c", "core.quotepath=off", "status", "--porcelain", "--untracked-files=all").splitlines()
    # `git` strips the front of the first line
    changed = [line.split(maxsplit=1)[1] for line in listed]
    if changed == [settings.PATH.as_posix()] and not settings.differ(_config_of(commit), read_config()):
        changed = []  # an earlier release wrote it
    if changed:
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise UserError(f"{changed[0]}{others}: not committed; a release is a commit: `git commit` or remove it first.")
    return commit


def read_config() -> str:
    """The content of .dvc/config.

    Raises:
        UserError: it cannot be read.
    """
    try:
        return settings.PATH.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{settings.PATH}: cannot be read; restore it with `git checkout {settings.PATH}`.") from None


def _config_of(commit: str) -> str:
    return git("show", f"{commit}:{settings.PATH.as_posix()}")


def up_to_date(repo: Any) -> None:
    """Ask DVC whether every stage is as dvc.lock has it.

    Args:
        repo: DVC's view of the project.

    Raises:
        UserError: one is not, or an output is not in DVC's cache.
    """
    try:
        status = repo.status()
    except DvcException as error:
        raise UserError(f"dvc status: {first_line(error)}.") from None
    for stage, changes in status.items():
        kinds = {kind for change in changes if isinstance(change, dict) for kind in change}
        cause = next((f"{kind}: {_named(changes, kind)}" for kind in sorted(kinds)), "changed")
        raise UserError(f"stage {stage}: not up to date ({cause}); run `dvc repro` and commit {paths.LOCK} first.")


def _named(changes: list[Any], kind: str) -> str:
    return ", ".join(
        f"{path} {how}" for change in changes if isinstance(change, dict) for path, how in change.get(kind, {}).items()
    )


def cached(repo: Any) -> dict[str, Path]:
    """The objects of DVC's cache that the outputs consist of, by their hash; each is what its hash says.

    Raises:
        UserError: one is absent or damaged.
    """
    objects = dict(_objects(repo))
    with ThreadPoolExecutor(worker_count()) as pool:
        digests = pool.map(_md5, objects.values())
        for (known, path), found in progress(
            zip(objects.items(), digests, strict=True), total=len(objects), what="check DVC's cache", unit="file"
        ):
            if found != known.removesuffix(".dir"):
                state = "damaged" if found else "absent"
                raise UserError(f"{os.path.relpath(path)}: {state}; remove it and run `dvc commit` to cache it again.")
    return objects


def _objects(repo: Any) -> Iterator[tuple[str, Path]]:
    for out in repo.index.outs:
        if not out.use_cache:
            continue  # git keeps it
        path = Path(out.cache.oid_to_path(out.hash_info.value))
        yield out.hash_info.value, path
        if out.hash_info.isdir and path.is_file():
            for _, _, part in Tree.load(out.cache, out.hash_info):
                yield part.value, Path(out.cache.oid_to_path(part.value))


def _md5(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except FileNotFoundError:
        return None


def room(objects: dict[str, Path], folder: Path) -> int:
    """How many bytes the objects hold; a clone with all of them must fit on the disk of `folder`.

    Raises:
        UserError: it does not.
    """
    size = sum(path.stat().st_size for path in objects.values())
    need, free = size + _CLUSTER * len(objects), shutil.disk_usage(folder).free
    if need > free:
        raise UserError(
            f"{folder}: {need / 1e9:,.1f} GB are needed for a clone that proves the release, and "
            f"{free / 1e9:,.1f} GB are free; make room first."
        )
    return size


def proved(params: Params) -> None:
    """Run `banana100 verify`, which prints each fault.

    Raises:
        UserError: there are faults.
    """
    if verify.run(params):
        raise UserError("verify finds the faults above; nothing was sent.")
