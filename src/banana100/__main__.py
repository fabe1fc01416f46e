"""`python -m banana100 COMMAND`, always with the code of the checkout it is started in."""

import os
import sys
from pathlib import Path


def _run_the_code_dvc_hashed() -> None:
    """Restart with `./src` first on the path when the installed package is another checkout's.

    DVC hashes the code beside dvc.yaml, but an editable install points at one checkout only: another clone, or the
    temporary folder of `dvc exp run --temp`, would run code that its dvc.lock does not name.
    """
    source = Path.cwd() / "src"
    here = Path(__file__).resolve().parents[1]
    if (source / "banana100" / "__main__.py").is_file() and source.resolve() != here:
        path = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
        os.execve(
            sys.executable, [sys.executable, "-m", "banana100", *sys.argv[1:]], {**os.environ, "PYTHONPATH": path}
        )


if __name__ == "__main__":
    _run_the_code_dvc_hashed()
    from banana100.cli import main

    sys.exit(main())
