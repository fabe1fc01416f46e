"""Work that the product gives to worker processes, done in the test's own: no start of Python, no import of torch."""

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from banana100.scoring import engine, weights
from banana100.scoring.scorers import KERNELS
from banana100.workers import ENVIRONMENT

# What worker processes start with: with it the scores of this process are theirs to the last digit.
WORKER_VARIABLES = {*ENVIRONMENT, *KERNELS, *weights.environment(Path())}


class InlineExecutor(Executor):
    """Stands in for the pool of `banana100.workers`, one task after the other."""

    def __init__(self, _workers: int, _context: Any, initializer: Callable[..., None], initargs: Any) -> None:
        engine._state.clear()  # a new process has none
        begin, arguments = initargs
        if begin:
            begin(*arguments)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(*arguments, **named))
        except Exception as error:
            done.set_exception(error)
        return done


def as_a_worker_process(weights_folder: Path) -> None:
    """Set the variables, which torch and pyiqa read when they are imported: before anything imports them."""
    os.environ["BANANA100_WEIGHTS"] = str(weights_folder)
    os.environ.update(ENVIRONMENT | KERNELS | weights.environment())
    del os.environ["HF_HUB_OFFLINE"]  # tests fetch from servers of their own
