"""Asking generators behind a network: many walks at a time, each request at most once at once, retries, budgets.

What goes wrong, and what becomes of it:

    no image that can be used   kept as a refusal, which is data; asked again, `REFUSALS` times a run, then parked
    no answer (5xx, a broken    asked again after a pause that doubles, or as long as the generator says, `TRIES` times
    connection, silence)        a run, then parked
    too much to do (429)        the same, four times as often, and fewer requests are under way meanwhile
    a request it does not take  parked at once
    a wrong key, a gone model   the run ends; requests under way are waited for
    the budget is used up       parked; requests under way are waited for

A parked walk does not hold up the others, and the next run takes it up where it stopped.
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tqdm import tqdm

from banana100.errors import UserError
from banana100.generators import jobs
from banana100.generators.base import Answer, Refusal, Refused, Rejected, RemoteBackend, Unavailable
from banana100.generators.ledger import Ledger, OverBudget
from banana100.generators.store import AnswerStore, StoredAnswer
from banana100.generators.walks import Parked, Step, Walk
from banana100.lineage.identity import Request
from banana100.workers import whole_number

# In one run and for one step.
REFUSALS = 3
TRIES = 8

# Of a failure where the generator has too much to do: it will pass, unless the day's quota is used up.
_CROWDED = 0.25
_IN_JOB = "it is in a job of the Batch API: BANANA100_BATCH=1 waits for it"
_CHANCES = 4  # for the store, when an answer is to be kept

_LONGEST_PAUSE = 120.0
_THREADS = 2
_HAND_OVER = 0.0005  # seconds after which a thread lets another one work
_LOOK_AGAIN = 0.2  # seconds, at a request that another process is asking


@dataclass(frozen=True)
class Patience:
    """How much at a time, and how long to wait.

    Attributes:
        concurrency: requests under way at a time (`BANANA100_CONCURRENCY`).
        timeout: seconds for a whole answer (`BANANA100_TIMEOUT`).
        pause: seconds before the second try (`BANANA100_PAUSE`); each later pause is twice as long.
    """

    concurrency: int
    timeout: float
    pause: float

    @classmethod
    def of_environment(cls) -> "Patience":
        """As the environment says.

        Raises:
            UserError: a variable is not a number that is allowed.
        """
        concurrency = whole_number("BANANA100_CONCURRENCY") or 20
        return cls(concurrency, _seconds("BANANA100_TIMEOUT", 300), _seconds("BANANA100_PAUSE", 2))

    def before(self, attempt: int, asked: float | None) -> float:
        """Seconds to wait after an attempt: what the generator asks for if it does; chance keeps chains out of step."""
        if asked is not None:
            return asked + random.uniform(0, self.pause)
        return min(self.pause * 2 ** (attempt - 1), _LONGEST_PAUSE) * random.uniform(0.5, 1)


class _Stopped(Exception):
    """No new request is to be sent."""


class Asking:
    """One run: what all its walks share."""

    def __init__(self, store: AnswerStore, ledger: Ledger, patience: Patience) -> None:
        self._store, self._ledger, self._patience = store, ledger, patience
        self._slots = asyncio.Semaphore(patience.concurrency)
        self._not_before = 0.0  # set where the generator asks all to wait
        self.stopping = asyncio.Event()

    async def finish(self, walk: Walk, backend: RemoteBackend, bar: tqdm) -> None:
        """Take a walk to its end, or park it."""
        while walk.step:
            try:
                answer = await self._answer(walk.plan.campaign, walk.step, backend)
            except _Parking as parking:
                walk.parked = parking.parked
                return
            walk.take(answer)
            bar.update()

    async def _answer(self, campaign: str, step: Step, backend: RemoteBackend) -> StoredAnswer:
        """The stored answer, if need be after asking; waits while another process asks the same."""
        while True:
            async with self._slots:
                if self.stopping.is_set():
                    raise _Parking(step, "stopped", "the run was stopped", 0)
                with self._store.claim_if_free(step.request) as ours:
                    if answered := self._store.get(step.request):
                        return answered
                    if ours and step.request.id in jobs.waiting(self._store):
                        raise _Parking(
                            step, "unavailable", "it is in a job of the Batch API; BANANA100_BATCH=1 waits", 0
                        )
                    if ours:
                        return await self._ask(campaign, step, backend)
            await asyncio.sleep(_LOOK_AGAIN)

    async def _ask(self, campaign: str, step: Step, backend: RemoteBackend) -> StoredAnswer:
        """Ask until there is an answer or patience is out. Holds the claim and, except in pauses, a slot."""
        attempts, refused, failed = 0, 0, 0.0
        while True:
            attempts += 1
            try:
                return await self._keep(step.request, await self._send(campaign, step, backend), campaign, attempts)
            except _Stopped:
                raise _Parking(step, "stopped", "the run was stopped", attempts - 1) from None
            except OverBudget as error:
                raise _Parking(step, "budget", str(error), attempts - 1) from None
            except Rejected as error:
                raise _Parking(step, "rejected", str(error), attempts) from None
            except Refused as error:
                refused += 1
                asked, crowded = None, False
                if refused == REFUSALS:
                    raise _Parking(step, "refused", words(error.refusal), attempts) from None
            except Unavailable as error:
                failed += _CROWDED if error.crowded else 1
                asked, crowded = error.after, error.crowded
                if failed >= TRIES:
                    raise _Parking(step, "unavailable", str(error), attempts) from None
            await self._pause(self._patience.before(attempts, asked), for_all=asked is not None, keep_slot=crowded)

    async def _send(self, campaign: str, step: Step, backend: RemoteBackend) -> Answer:
        """Send a request once and enter in the ledger what came, except an answer, which is to be kept first.

        Raises:
            Refused, Unavailable, Rejected: see there.
            OverBudget, _Stopped: nothing was sent.
            UserError: nothing can be sent.
        """
        request = step.request
        await self._wait_for_all()
        turns = await asyncio.to_thread(step.turns, self._store)
        usd = backend.estimate(request, len(turns))
        self._ledger.reserve(campaign, request, usd)
        try:
            return await backend.ask(request, turns, self._patience.timeout)
        except Refused as error:
            charge = {"campaign": campaign, "usd": error.refusal.cost_usd}
            await asyncio.to_thread(self._store.refuse, request, error.refusal, **charge)
            raise
        except TimeoutError:
            self._ledger.failed(campaign, request, usd)
            raise Unavailable(f"no whole answer within {self._patience.timeout:g} s", billed=True) from None
        except Unavailable as error:
            self._ledger.failed(campaign, request, usd if error.billed else 0.0)
            raise
        except (Rejected, UserError):
            self._ledger.failed(campaign, request, 0.0)
            raise

    async def _keep(self, request: Request, answer: Answer, campaign: str, attempts: int) -> StoredAnswer:
        """Put an answer into the store; a file system that stumbles gets more chances, as the answer is paid for."""
        charge = {"campaign": campaign, "usd": answer.cost_usd}
        for chance in range(_CHANCES, 0, -1):
            try:
                return await asyncio.to_thread(self._store.put, request, answer.after(attempts), **charge)
            except OSError:
                if chance == 1:
                    raise
                await asyncio.sleep(self._patience.pause)
        raise AssertionError("not reached")

    async def _pause(self, seconds: float, for_all: bool, keep_slot: bool) -> None:
        """Wait; where the generator asks for it, nobody else sends meanwhile.

        Without a slot, so that another chain can go on; with it where there is too much to do already.
        """
        if for_all:
            self._not_before = max(self._not_before, time.monotonic() + seconds)
        if keep_slot:
            return await self._sleep(seconds)
        self._slots.release()
        try:
            await self._sleep(seconds)
        finally:
            await self._slots.acquire()

    async def _wait_for_all(self) -> None:
        while not self.stopping.is_set() and (seconds := self._not_before - time.monotonic()) > 0:
            await self._sleep(seconds)
        if self.stopping.is_set():
            raise _Stopped

    async def _sleep(self, seconds: float) -> None:
        """Sleep, unless the run is stopped."""
        try:
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        except TimeoutError:
            return


class _Parking(Exception):
    def __init__(self, step: Step, cause: str, reason: str, attempts: int) -> None:
        super().__init__(reason)
        self.parked = Parked(step.request, cause, reason, attempts)


async def ask_all(
    walks: Sequence[Walk], backends: Mapping[str, RemoteBackend], store: AnswerStore, ledger: Ledger, what: str
) -> None:
    """Take all walks as far as they go; what stopped one stands in its `parked`.

    Ctrl-C, SIGTERM and SIGHUP let requests under way come back, as they are paid for; a second one ends at once.

    Args:
        walks: what to ask.
        backends: by campaign.
        store: where answers go.
        ledger: who may spend how much.
        what: shown before the progress bar.

    Raises:
        UserError: a wrong key, a model that is gone, a damaged store, a full disk; what was answered is kept.
        KeyboardInterrupt: the run was stopped by a signal.
    """
    # Few threads that are let in soon finish one answer after the other, so that the next request of its chain leaves
    # early; many threads finish all answers late.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
    sys.setswitchinterval(_HAND_OVER)
    asking = Asking(store, ledger, Patience.of_environment())
    total = sum(walk.missing for walk in walks)
    with tqdm(total=total, desc=what, unit="image", disable=not sys.stderr.isatty(), smoothing=0.1) as bar:
        async with _signals(asking.stopping) as interrupted:

            async def finish(walk: Walk) -> None:
                try:
                    await asking.finish(walk, backends[walk.plan.campaign], bar)
                except BaseException:
                    asking.stopping.set()  # but not at once: answers that are on their way are paid for
                    raise

            ends = await asyncio.gather(*map(finish, walks), return_exceptions=True)
    for backend in set(backends.values()):
        await backend.close()
    for end in ends:
        if isinstance(end, BaseException):
            raise end
    if interrupted:
        raise KeyboardInterrupt


@asynccontextmanager
async def _signals(stopping: asyncio.Event) -> AsyncIterator[list[int]]:
    """Set `stopping` at the first signal; the second does what it always does. Gives the list of signals seen."""
    loop, seen = asyncio.get_running_loop(), []

    def stop(number: int) -> None:
        seen.append(number)
        stopping.set()
        loop.remove_signal_handler(number)
        print("stopping: waiting for the requests under way, as they are paid for", file=sys.stderr)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        yield seen
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def words(refusal: Refusal) -> str:
    """Why an answer has no image that can be used."""
    return f"{refusal.finish_reason}: {refusal.detail}" if refusal.detail else str(refusal.finish_reason)


def _seconds(variable: str, default: float) -> float:
    value = os.environ.get(variable)
    if value is None:
        return default
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 86_400:
        raise UserError(f"environment: {variable} is {value!r}; allowed: a number of seconds above 0, at most a day.")
    return number
