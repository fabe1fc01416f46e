"""`BANANA100_BATCH=1`: one step of all walks at a time as jobs of a Batch API, which cost less and take longer.

A job's record lies in the store before the job is submitted, under a label that the API keeps as well. A run that
finds a record without the job's name, because the one before was killed in between, looks for the label among the jobs
that the API knows: no job is submitted twice. Jobs go on without us, and their answers are taken by the next run.
"""

import asyncio
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from tqdm import tqdm

from banana100.errors import Unfinished, UserError
from banana100.files import sha256_of
from banana100.generators.asking import REFUSALS, TRIES, Patience, words
from banana100.generators.base import Answer, BatchBackend, Halt, Refused, Rejected, Turn, Unavailable
from banana100.generators.jobs import Job, JobRecords, waiting
from banana100.generators.ledger import Ledger, OverBudget
from banana100.generators.store import AnswerStore
from banana100.generators.walks import Parked, Walk
from banana100.lineage.identity import Request, identity

# Bytes of images in one job's file: what may lie in memory at a time. The API takes 2 GB.
_MOST_BYTES = 300_000_000


def refuse_while_open(walks: Sequence[Walk], store: AnswerStore) -> None:
    """Keep requests of open jobs from being asked a second time, one by one.

    Raises:
        UserError: a walk's next request is in a job.
    """
    sent = waiting(store)
    count = sum(walk.step is not None and walk.step.request.id in sent for walk in walks)
    if count:
        raise UserError(
            f"{count} of the requests to send are in jobs of the Batch API that were not collected yet; run with "
            "BANANA100_BATCH=1 to wait for them: asked again they would be paid twice."
        )


async def ask_all(
    walks: Sequence[Walk], backends: Mapping[str, BatchBackend], store: AnswerStore, ledger: Ledger, what: str
) -> None:
    """Take all walks as far as they go; see `asking.ask_all`, which this stands in for. Signals end it at once.

    Another run with a campaign of ours is waited for.
    """
    with ExitStack() as held:
        for campaign in sorted({walk.plan.campaign for walk in walks}):
            path = store.root / "locks" / f"batch-{sha256_of(campaign.encode())[:16]}.lock"
            path.parent.mkdir(parents=True, exist_ok=True)
            await _lock(held, path)
        run = _Run(walks, backends, store, ledger)
        total = sum(walk.missing for walk in walks)
        with tqdm(total=total, desc=what, unit="image", disable=not sys.stderr.isatty(), smoothing=0.1) as bar:
            await run.finish(bar)


async def _lock(held: ExitStack, path: Path) -> None:
    """Wait for a lock in a way that Ctrl-C can end."""
    while True:
        try:
            held.enter_context(FileLock(path, timeout=0))
            return
        except Timeout:
            await asyncio.sleep(1)


# A walk, its present request and the conversation that goes with it.
_Question = tuple[Walk, Request, list[Turn]]


class _Run:
    def __init__(
        self, walks: Sequence[Walk], backends: Mapping[str, BatchBackend], store: AnswerStore, ledger: Ledger
    ) -> None:
        self._walks, self._backends, self._store, self._ledger = walks, backends, store, ledger
        self._records, self._patience = JobRecords(store), Patience.of_environment()
        asked = [(walk.plan.campaign, walk.step.request) for walk in walks if walk.step]
        self._by_model = {(request.backend, request.model): backends[campaign] for campaign, request in asked}
        self._refused: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()

    async def finish(self, bar: tqdm) -> None:
        """Round after round: take what open jobs answered, then submit the next step of every walk."""
        try:
            while True:
                await self._collect_all()
                before = sum(walk.done for walk in self._walks)
                for walk in self._walks:
                    walk.pass_stored()
                bar.update(sum(walk.done for walk in self._walks) - before)
                if not await self._submit_round():
                    return
        finally:
            for backend in set(self._backends.values()):
                await backend.close()

    async def _submit_round(self) -> bool:
        """Submit the present step of every walk that is not parked, and collect; False where there is none."""
        ready = [walk for walk in self._walks if walk.step and not walk.parked]
        if not ready:
            return False
        with ExitStack() as claims:
            sent = waiting(self._store)  # by whatever campaign: one answer serves all
            free = [walk for walk in ready if walk.step and walk.step.request.id not in sent]
            ours = [
                walk
                for walk in free
                if walk.step and claims.enter_context(self._store.claim_if_free(walk.step.request))
            ]
            if not ours:  # others ask them
                await asyncio.sleep(1)
                return True
            for campaign, some in self._chunks(ours):
                await self._submit(campaign, some)
            await self._collect_all()
        return True

    async def _collect_all(self) -> None:
        """Take the answers of all open jobs of our models, whichever campaign pays for them."""
        for job in self._records.open_jobs():
            request = next(iter(job.requests.values()))
            if backend := self._by_model.get((request.backend, request.model)):
                await self._collect(job, backend)

    def _chunks(self, walks: Sequence[Walk]) -> Iterator[tuple[str, list[_Question]]]:
        """Walks of one campaign whose images fit into one file, with their conversations."""
        chunk: list[_Question] = []
        payer, size = "", 0
        for walk in walks:
            assert walk.step is not None
            turns = walk.step.turns(self._store)
            more = sum(len(turn.image or b"") + len(turn.answer or b"") for turn in turns)
            if chunk and (walk.plan.campaign != payer or size + more > _MOST_BYTES):
                yield payer, chunk
                chunk, size = [], 0
            chunk.append((walk, walk.step.request, turns))
            payer, size = walk.plan.campaign, size + more
        if chunk:
            yield payer, chunk

    async def _submit(self, campaign: str, questions: Sequence[_Question]) -> None:
        """Submit one job; walks that the budget does not allow are parked."""
        backend = self._backends[campaign]
        asked = []
        for walk, request, turns in questions:
            try:
                self._ledger.reserve(campaign, request, backend.estimate(request, len(turns)))
                asked.append((request, turns))
            except OverBudget as error:
                walk.parked = Parked(request, "budget", str(error), self._attempts(request.id))
        if asked:
            label = f"banana100-{identity([sorted(request.id for request, _ in asked), uuid.uuid4().hex])[:40]}"
            job = Job(label, campaign, {request.id: request for request, _ in asked})
            self._records.keep(job)
            await self._start(job, backend, asked)

    async def _start(self, job: Job, backend: BatchBackend, asked: Sequence[Any]) -> None:
        """Send a job that has its record already; where it may have arrived, the record stays and is looked for."""
        arrived = False
        for attempt in range(1, TRIES + 1):
            try:
                name = await backend.find(job.label) if arrived else None
                self._records.keep(replace(job, name=name or await backend.submit(job.label, asked)))
                return
            except Rejected as error:
                if not arrived:
                    self._end(job, dict.fromkeys(job.requests, error))
                    return
                failure: Exception = error
            except Halt:
                if not arrived:
                    self._give_back(job)
                raise
            except Unavailable as error:
                arrived, failure = True, error
            await asyncio.sleep(self._patience.before(attempt, getattr(failure, "after", None)))
        raise Unfinished(f"no job could be submitted ({failure}); run again to go on, it will be looked for first.")

    async def _collect(self, job: Job, backend: BatchBackend) -> None:
        """Wait for a job and take its answers."""
        polls, failed = 0, 0
        while True:
            try:
                if job.name is None and (name := await backend.find(job.label)) is None:
                    return self._give_back(job)  # killed before it was sent
                if job.name is None:
                    job = replace(job, name=name)
                    self._records.keep(job)
                if (results := await backend.results(str(job.name), job.requests)) is not None:
                    return await asyncio.to_thread(self._end, job, results)
                failed = 0
            except (Unavailable, Rejected) as error:
                failed += 1
                if failed == TRIES or isinstance(error, Rejected):
                    raise Unfinished(
                        f"job {job.name or job.label} of the Batch API cannot be collected ({error}); run again to go "
                        "on waiting."
                    ) from None
            polls += 1
            await asyncio.sleep(self._patience.before(min(polls, 6), None))

    def _give_back(self, job: Job) -> None:
        """Close a job that was never sent."""
        for request in job.requests.values():
            self._ledger.failed(job.campaign, request, 0.0)
        self._records.close(job)

    def _end(self, job: Job, results: Mapping[str, Answer | Exception]) -> None:
        """Keep what came of each request, then close the job; a kill in between costs nothing, it is done again."""
        halt: Exception | None = None
        for request_id, result in results.items():
            request = job.requests[request_id]
            if self._store.get(request):
                continue
            if isinstance(result, Answer):
                answer = result.after(self._attempts(request_id) + 1)
                self._store.put(request, answer, campaign=job.campaign, usd=answer.cost_usd)
            elif isinstance(result, Refused):
                self._take_refusal(job, request, result)
            else:
                self._ledger.failed(job.campaign, request, self._lost(request, result))
                self._failed[request_id] += 1
                halt = result if isinstance(result, UserError) else halt
                self._park_if(request, isinstance(result, Rejected), "rejected", result)
                self._park_if(request, self._failed[request_id] >= TRIES, "unavailable", result)
        self._records.close(job)
        if halt:
            raise halt

    def _lost(self, request: Request, result: Exception) -> float:
        """What a request without an answer may have cost."""
        billed = isinstance(result, Unavailable) and result.billed
        turns = request.config.get("history", 0) + 1  # at most
        return self._by_model[request.backend, request.model].estimate(request, turns) if billed else 0.0

    def _take_refusal(self, job: Job, request: Request, refused: Refused) -> None:
        told = {record.get("response_id") for record in self._store.refusals(request)} - {None}
        if refused.refusal.response_id not in told:  # else it was taken before a kill
            self._store.refuse(request, refused.refusal, campaign=job.campaign, usd=refused.refusal.cost_usd)
        self._refused[request.id] += 1
        self._park_if(request, self._refused[request.id] >= REFUSALS, "refused", words(refused.refusal))

    def _park_if(self, request: Request, condition: bool, cause: str, reason: object) -> None:
        for walk in self._walks if condition else ():
            if walk.step and walk.step.request.id == request.id and not walk.parked:
                walk.parked = Parked(request, cause, str(reason), self._attempts(request.id))

    def _attempts(self, request_id: str) -> int:
        return self._refused[request_id] + self._failed[request_id]
