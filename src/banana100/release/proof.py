"""The proof: a clone of the commit fetches everything as any user will, and finds no fault in it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import filelock

from banana100.errors import UserError
from banana100.files import write_atomically
from banana100.release import settings
from banana100.release.addresses import Addresses

FOLDER = Path(".dvc/tmp")  # on the disk that holds the data; git and DVC do not look into it
_PREFIX = "release-"
# A cache of its own, so that everything is fetched, from which files are linked, so that nothing is there twice.
_LOCAL = "[cache]\n    dir = cache\n    type = reflink,hardlink,symlink\n"
_FULL = "No space left on device"


@contextmanager
def alone() -> Iterator[None]:
    """Hold the project for one release; remove what a killed one left.

    Raises:
        UserError: another release is under way.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(FOLDER / "release.lock", blocking=False):
            for left in FOLDER.glob(f"{_PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)
            yield
    except filelock.Timeout:
        raise UserError("another release of this project is under way; wait until it has ended.") from None


def prove(commit: str, config: str, addresses: Addresses) -> None:
    """Clone, pull, verify; the clone is removed in any case.

    Args:
        commit: what to clone.
        config: the content of its .dvc/config.
        addresses: where the release lies; with a public address no credentials are used.

    Raises:
        UserError: something cannot be fetched, or is not what the commit says.
    """
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=FOLDER) as name:
        folder = Path(name).resolve()
        clone = folder / "clone"
        environment = _environment(os.environ, folder, anonymous=bool(addresses.public))
        git = {
            "clone": ["clone", "--quiet", "--no-checkout", str(Path.cwd()), str(clone)],
            "checkout": ["-C", str(clone), "-c", "advice.detachedHead=false", "checkout", "--quiet", commit],
        }
        for what, arguments in git.items():
            code, told = _run(["git", *arguments], folder, environment)
            if code:
                raise UserError(f"git {what}: {_last(told) or f'exit code {code}'}.")
        write_atomically(clone / settings.PATH, config.encode())
        (clone / ".dvc/config.local").write_text(_LOCAL)
        _pull(clone, environment, addresses)
        _verify(clone, environment, addresses)


def _pull(clone: Path, environment: Mapping[str, str], addresses: Addresses) -> None:
    code, told = _run([sys.executable, "-m", "dvc", "pull"], clone, environment)
    if _FULL in told:
        raise UserError(f"{FOLDER}: the disk is full; make room and run it again.")
    if code:
        reason = f" ({_last(told)})" if _last(told) else ""
        raise UserError(f"{addresses.public or addresses}: a clone could not fetch everything from there{reason}.")


def _verify(clone: Path, environment: Mapping[str, str], addresses: Addresses) -> None:
    code, told = _run([sys.executable, "-m", "banana100", "verify"], clone, environment)
    if code:
        raise UserError(
            f"{addresses.public or addresses}: what a clone fetched from there has faults, first: "
            f"{told.strip().splitlines()[0].rstrip('.') if told.strip() else f'exit code {code}'}; "
            "an earlier object there is damaged: empty the prefix, or take another, and run it again."
        )


def _environment(variables: Mapping[str, str], folder: Path, *, anonymous: bool) -> dict[str, str]:
    """What the programs of the proof see: none of the user's settings of git and DVC, and no credentials if anonymous.

    Args:
        variables: those of this process.
        folder: for what DVC keeps beside the clone.
        anonymous: leave out everything of AWS, and passwords for web servers.
    """
    left_out = ("DVC_", "GIT_", "AWS_") if anonymous else ("DVC_", "GIT_")
    kept = {name: value for name, value in variables.items() if not name.startswith(left_out)}
    nowhere = str(folder / "nowhere")
    if anonymous:
        kept |= dict.fromkeys(("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "BOTO_CONFIG", "NETRC"), nowhere)
        kept["AWS_EC2_METADATA_DISABLED"] = "true"
    kept |= {"DVC_GLOBAL_CONFIG_DIR": nowhere, "DVC_SYSTEM_CONFIG_DIR": nowhere, "DVC_NO_ANALYTICS": "1"}
    kept["DVC_SITE_CACHE_DIR"] = str(folder / "site")
    # others have empty ones
    kept |= {f"BANANA100_{name}": str(folder / name.lower()) for name in ("STORE", "WEIGHTS")}
    return kept | {"PYTHONPATH": str(folder / "clone" / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a program; on a terminal its progress is seen.

    Returns:
        Its exit code, and what it said; on a terminal without what the user has seen.
    """
    error = None if sys.stderr.isatty() else subprocess.STDOUT
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=error, text=True, check=False
    )
    return done.returncode, done.stdout


def _last(told: str) -> str:
    """The last thing that a program complained of."""
    lines = [line for line in told.splitlines() if re.match(r"(ERROR|fatal|error): ", line)]
    return lines[-1].split(": ", 1)[1].rstrip(".:") if lines else ""
