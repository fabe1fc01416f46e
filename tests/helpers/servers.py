"""Servers that tests start on loopback."""

import contextlib
import time
import urllib.request
from pathlib import Path


def settle(url: str, log: Path) -> None:
    """Wait until the loopback server has written to its log all that it answered.

    It writes a line just after the answer went out; when it answers a later request, one that is not logged, it has.
    """
    with contextlib.suppress(OSError):  # it answers 404, or has ended
        urllib.request.urlopen(url, timeout=10).close()
    size = -1
    while log.exists() and size != (size := log.stat().st_size):
        time.sleep(0.02)
