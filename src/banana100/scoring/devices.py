"""Where scores are computed: `BANANA100_DEVICE`, `BANANA100_BATCH_SIZE`, and how much memory there is."""

import os
from pathlib import Path

import psutil

from banana100.errors import UserError
from banana100.workers import whole_number

_CGROUP = Path("/sys/fs/cgroup")


def devices() -> list[str]:
    """The devices to use: ["cpu"], or one name a GPU, as in ["cuda:0", "cuda:1"].

    `BANANA100_DEVICE` is auto (all GPUs that PyTorch sees, else the CPU), cpu, cuda, or a list as in cuda:0,cuda:2.

    Raises:
        UserError: the variable names a device that is not there.
    """
    asked = os.environ.get("BANANA100_DEVICE", "auto")
    if asked == "cpu" or (asked == "auto" and not Path("/dev/nvidiactl").exists()):
        return ["cpu"]  # without importing torch, which takes a second
    import torch  # noqa: PLC0415

    there = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if asked == "auto":
        return there or ["cpu"]
    wanted = there if asked == "cuda" else asked.split(",")
    if not wanted or not set(wanted) <= set(there):
        allowed = ", ".join(["auto", "cpu", *(["cuda"] if there else []), *there])
        raise UserError(f"environment: BANANA100_DEVICE is {asked!r}; allowed on this machine: {allowed}.")
    return wanted


def batch_size(device: str) -> int:
    """How many images of one size go through a metric at once: `BANANA100_BATCH_SIZE`, else 1 on a CPU and 16 on a GPU.

    Batches are slower than single images on a CPU core. No score depends on it.

    Raises:
        UserError: the variable is not a whole number of at least 1.
    """
    return whole_number("BANANA100_BATCH_SIZE") or (1 if device == "cpu" else 16)


def available_mb() -> float:
    """Memory this process may still take, in megabytes: the machine's, or less where a control group limits it."""
    available = psutil.virtual_memory().available
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        if limit != "max":
            available = min(available, int(limit) - int((_CGROUP / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no control groups of version 2: nothing to learn
    return max(available, 0) / 1e6
