"""Parallel work in processes of one thread each, with a progress bar."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeVar

from tqdm import tqdm

from banana100.errors import UserError

Task = TypeVar("Task")
Result = TypeVar("Result")

# What every worker process starts with.
ENVIRONMENT = {
    # One thread in each process: more would fight for the cores, and thread counts change floating-point sums.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # glibc: keep freed memory for the next image; handing hundreds of megabytes back each time cost over half the run.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
}


def worker_count() -> int:
    """How many processes to use: `BANANA100_WORKERS`, or the number of cores this process may run on.

    Raises:
        UserError: the variable is not a whole number of at least 1.
    """
    if asked := whole_number("BANANA100_WORKERS"):
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def whole_number(variable: str) -> int | None:
    """The environment variable as a whole number of at least 1; None where it is not set.

    Raises:
        UserError: it is something else.
    """
    value = os.environ.get(variable)
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise UserError(f"environment: {variable} is {value!r}; allowed: a whole number of at least 1.")
    return int(value)


def in_parallel(  # noqa: PLR0913  all but two have a default
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    initializer: Callable[..., None] | None = None,
    initargs: tuple[Any, ...] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    workers: int | None = None,
) -> Iterator[Result]:
    """Yield `function(task)` for every task, in the order in which they are finished.

    Args:
        function: a module-level function; its argument and result are pickled.
        tasks: what to do; fewer tasks than workers start fewer workers.
        initializer: called once in every worker process, with `initargs`.
        initargs: see `initializer`.
        environment: variables that the workers start with, for libraries that read them when imported.
        workers: how many processes, at most; `worker_count()` by default.

    Raises:
        UserError: a worker was killed, mostly for want of memory.
        Exception: what `function` raises first; tasks not yet started are dropped.
    """
    if not tasks:
        return
    pool = ProcessPoolExecutor(
        min(workers or worker_count(), len(tasks)),
        multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(initializer, initargs),
    )
    try:
        with _variables(ENVIRONMENT | dict(environment)):  # inherited by the workers, which the first task starts
            futures = [pool.submit(function, task) for task in tasks]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise UserError(
            "a worker process was killed, perhaps for want of memory; what was finished is kept: "
            "run again, with fewer workers in BANANA100_WORKERS."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start_worker(initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches every process: end at once, the stores stand it
    threading.Thread(target=_die_with_parent, daemon=True).start()
    if initializer:
        initializer(*initargs)


def _die_with_parent() -> None:
    """End this worker when the main process is killed; it would wait for tasks for ever."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def progress(
    items: Iterable[Result], *, total: int, what: str, unit: str, size: Callable[[Result], int] = lambda _: 1
) -> Iterator[Result]:
    """Pass `items` on under a progress bar with rate and remaining time; silent when stderr is not a terminal.

    Args:
        items: what is finished, one by one.
        total: how many units there are in all.
        what: shown before the bar.
        unit: what is counted.
        size: how many units an item is.
    """
    with tqdm(total=total, desc=what, unit=unit, disable=not sys.stderr.isatty(), smoothing=0.1) as bar:
        for item in items:
            bar.update(size(item))
            yield item
