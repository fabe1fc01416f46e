"""Worker processes: as many as are asked for, and gone with their main process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from banana100.errors import UserError


def test_workers_end_when_their_main_process_is_killed(tmp_path: Path) -> None:
    import psutil

    script = tmp_path / "sleeper.py"
    script.write_text(
        "import time\nfrom banana100.workers import in_parallel\n"
        "if __name__ == '__main__':\n    list(in_parallel(time.sleep, [60, 60, 60]))\n"
    )
    main_process = subprocess.Popen([sys.executable, str(script)], env=os.environ | {"BANANA100_WORKERS": "2"})
    process = psutil.Process(main_process.pid)
    for _ in range(200):
        children = process.children(recursive=True)
        if len(children) >= 3:  # two workers and multiprocessing's resource tracker
            break
        psutil.wait_procs([], timeout=0)
        import time

        time.sleep(0.05)
    time.sleep(1)
    main_process.kill()
    main_process.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


@pytest.mark.parametrize("value", ["0", "-2", "two", "1.5", ""])
def test_a_wrong_number_of_workers_is_refused(
    value: str, monkeypatch: pytest.MonkeyPatch, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BANANA100_WORKERS", value)
    from banana100.workers import worker_count

    with pytest.raises(UserError, match=r"BANANA100_WORKERS is .*; allowed: a whole number of at least 1\."):
        worker_count()
