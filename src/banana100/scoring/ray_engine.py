"""The engine on Ray: the same workers as actors, on this machine or on the cluster that `RAY_ADDRESS` names.

Every node needs this environment (the same packages), and the project, the store and the weights under the same paths,
as on a shared file system.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from banana100.errors import UserError
from banana100.scoring.devices import batch_size
from banana100.scoring.jobs import ImageFile, Job, Score
from banana100.scoring.passes import Pass
from banana100.workers import ENVIRONMENT, worker_count


def execute(
    tasks: Sequence[list[Job]], one: Pass, found: Sequence[str], workers: int, environment: Mapping[str, str]
) -> Iterator[list[Score]]:
    """Score tasks with Ray actors; see `engine.score`.

    Raises:
        UserError: Ray is not installed, the cluster does not answer, or what a worker raised.
    """
    ray = _connected()
    from ray.util import ActorPool  # noqa: PLC0415

    device = "cpu" if found[0] == "cpu" else "cuda:0"  # Ray shows each actor its own GPU only
    variables = ENVIRONMENT | dict(environment) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    count = _actors(ray, device, workers, len(tasks))
    actor = ray.remote(_Actor).options(
        num_cpus=1, num_gpus=0 if device == "cpu" else 1, runtime_env={"env_vars": variables}
    )
    actors = [actor.remote(one.scorers, device, batch_size(device)) for _ in range(count)]
    pool = ActorPool(actors)
    try:
        yield from pool.map_unordered(lambda actor, task: actor.score.remote(task), [_absolute(t) for t in tasks])
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, UserError) else error from None
    except ray.exceptions.RayActorError as error:
        raise UserError(
            f"a Ray worker died ({str(error).splitlines()[0]}); what was finished is kept: run again."
        ) from None
    finally:
        for one_actor in actors:
            ray.kill(one_actor)


class _Actor:
    """A worker; see `worker.Worker`."""

    def __init__(self, scorers: Sequence[Any], device: str, batch: int) -> None:
        self._arguments = (scorers, device, batch)
        self._worker: Any = None

    def score(self, task: list[Job]) -> list[Score]:
        """Score one task; loads the metrics first, so that what goes wrong is told as of a task."""
        if self._worker is None:
            import torch  # noqa: PLC0415

            from banana100.scoring.worker import Worker  # noqa: PLC0415

            torch.set_num_threads(1)
            self._worker = Worker(*self._arguments)
        return self._worker.score(task)


def _connected() -> Any:
    try:
        import ray  # noqa: PLC0415
    except ModuleNotFoundError:
        raise UserError("BANANA100_ENGINE is ray, which is not installed: pip install 'banana100[ray]'.") from None
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS")
        here = {} if address else {"num_cpus": max(worker_count(), os.cpu_count() or 1), "include_dashboard": False}
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error", **here)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UserError(f"RAY_ADDRESS is {address!r}: no Ray cluster answers ({error}).") from None
    return ray


def _actors(ray: Any, device: str, workers: int, tasks: int) -> int:
    """How many actors: what fits on this machine, or what a cluster has; one more would be waited for for ever."""
    there = max(1, int(ray.cluster_resources().get("CPU" if device == "cpu" else "GPU", 1)))
    return min(tasks if os.environ.get("RAY_ADDRESS") else workers, there)


def _absolute(task: list[Job]) -> list[Job]:
    """Actors have another current directory."""
    return [
        replace(job, image=_rooted(job.image), reference=_rooted(job.reference) if job.reference else None)
        for job in task
    ]


def _rooted(image: ImageFile) -> ImageFile:
    return replace(image, path=Path.cwd() / image.path)
