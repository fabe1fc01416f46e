"""`python -m banana100 COMMAND`, always with the code of the checkout it is started in."""

import os
import sys
from pathlib import Path

_RESTARTED = "_BANANA100_RESTARTED"


def _run_the_code_dvc_hashed() -> None:
    """Restart with `./src` first on the path when the installed package is another checkout's.

    DVC hashes the code beside dvc.yaml, but an editable install points at one checkout only: another clone, or the
    temporary folder of `dvc exp run --temp`, would run code that its dvc.lock does not name.
    """
    source = Path.cwd() / "src"
    here = Path(__file__).resolve().parents[1]
    if not (source / "banana100" / "__main__.py").is_file() or source.resolve() == here:
        return
    if os.environ.get(_RESTARTED) == str(source):  # PYTHONPATH cannot hold it
        sys.exit(
            f"banana100: {source} cannot be put on Python's path; use a folder without {os.pathsep!r} in its name."
        )
    path = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "banana100", *sys.argv[1:]]
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": path, _RESTARTED: str(source)})


def main() -> int:
    """Run one command with the right code; returns the exit code."""
    _run_the_code_dvc_hashed()
    from banana100.cli import main as run  # noqa: PLC0415  not before the code is known to be the right one

    return run()


if __name__ == "__main__":
    sys.exit(main())
