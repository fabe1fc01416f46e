"""The engine: passes over the images, in local processes or Ray actors, with the same scores from either.

Environment: `BANANA100_ENGINE` (local or ray), `BANANA100_WORKERS`, `BANANA100_DEVICE`, `BANANA100_BATCH_SIZE`.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from banana100.errors import UserError
from banana100.images import MAX_PIXELS
from banana100.scoring import jobs as work
from banana100.scoring import weights
from banana100.scoring.devices import available_mb, batch_size, devices
from banana100.scoring.jobs import Job, Score
from banana100.scoring.passes import Pass, plan
from banana100.scoring.scorers import Scorer
from banana100.workers import in_parallel, progress, worker_count

_GPU_TASK = 8  # batches a task on a GPU: long enough to hide decoding, short enough to lose seconds at a kill

Executor = Callable[[Sequence[list[Job]], Pass, Sequence[str], int, Mapping[str, str]], Iterator[list[Score]]]


def score(jobs: Sequence[Job], scorers: Mapping[str, Scorer]) -> Iterator[list[Score]]:
    """Score every image with the metrics it lacks.

    The scores do not depend on engine, workers, batch size or order.

    Args:
        jobs: images and what they lack.
        scorers: by metric, for every metric that a job names.

    Yields:
        Some scores, as soon as they are there, in no particular order.

    Raises:
        UserError: an image file is missing or is not the one its row names; a weight file is not the pinned one;
            memory does not suffice; or an environment variable holds what is not allowed.
    """
    wanted = {metric for job in jobs for metric in job.metrics}
    if not wanted:
        return
    found, execute = devices(), _executor()
    count = worker_count() if found == ["cpu"] else len(found)
    megapixels = min(MAX_PIXELS, max(job.image.width * job.image.height for job in jobs)) / 1e6
    planned = plan([scorers[metric] for metric in sorted(wanted)], megapixels, available_mb(), count)
    for number, one in enumerate(planned, start=1):
        names = {scorer.metric for scorer in one.scorers}
        size = batch_size(found[0]) * (1 if found == ["cpu"] else _GPU_TASK)
        tasks = list(work.tasks(jobs, names, size))
        workers = min(len(tasks), one.workers(count, available_mb()))
        environment = one.environment | weights.environment()
        results = execute(tasks, one, found, workers, environment)
        what = f"pass {number}/{len(planned)}: {', '.join(sorted(names))}"
        total = sum(map(len, tasks))
        yield from progress(results, total=total, what=what, unit="image", size=_images)


def _images(scores: list[Score]) -> int:
    return len({(score.image_id, score.reference_id) for score in scores})


def _executor() -> Executor:
    name = os.environ.get("BANANA100_ENGINE", "local")
    if name == "local":
        return _local
    if name == "ray":
        from banana100.scoring.ray_engine import execute  # noqa: PLC0415  an optional extra

        return execute
    raise UserError(f"environment: BANANA100_ENGINE is {name!r}; allowed: local, ray.")


def _local(
    tasks: Sequence[list[Job]], one: Pass, found: Sequence[str], workers: int, environment: Mapping[str, str]
) -> Iterator[list[Score]]:
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    for index in range(workers):
        queue.put(found[index % len(found)])
    return in_parallel(
        _score_task,
        tasks,
        initializer=_start,
        initargs=(one.scorers, queue, batch_size(found[0])),
        environment=environment,
        workers=workers,
    )


_state: dict[str, Any] = {}  # of this worker process


def _start(scorers: Sequence[Scorer], queue: Any, batch: int) -> None:
    """Remember what to load; a process pool would not tell what went wrong here."""
    _state["arguments"] = (scorers, queue.get(), batch)


def _score_task(task: list[Job]) -> list[Score]:
    if "worker" not in _state:
        import torch  # noqa: PLC0415

        from banana100.scoring.worker import Worker  # noqa: PLC0415  not in the main process: it imports torch

        torch.set_num_threads(1)
        _state["worker"] = Worker(*_state["arguments"])
    return _state["worker"].score(task)
