"""Paid walks from beginning to end: what is missing, whether it may be bought, buying it."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass

from banana100.errors import UserError
from banana100.generators import batches, budgets, jobs, remote_backends
from banana100.generators.asking import ask_all
from banana100.generators.ledger import Ledger
from banana100.generators.store import AnswerStore
from banana100.generators.walks import Walk
from banana100.params import Prices


@dataclass(frozen=True)
class Account:
    """Who asks whom, and may spend how much.

    Attributes:
        campaign: who pays, a campaign or a source of seeds.
        backend, model: who is asked.
        budget_usd: US dollars that it may cost in all.
    """

    campaign: str
    backend: str
    model: str
    budget_usd: float


def finish(walks: Sequence[Walk], accounts: Sequence[Account], prices: Prices, store: AnswerStore, what: str) -> None:
    """Take walks as far as they go; what stopped one stands in its `parked`. Without anything missing no key is needed.

    Args:
        walks: what to walk.
        accounts: one for each campaign of the walks.
        prices: what models cost.
        store: where answers go.
        what: shown before the progress bar.

    Raises:
        UserError: no key, a wrong one, a model that is gone; what was answered is kept.
        OverBudget: a campaign would cost more than it may; nothing was sent.
        KeyboardInterrupt: the run was stopped by a signal.
    """
    open_walks = [walk for walk in walks if walk.step]
    if not open_walks:
        return
    wanted = {walk.plan.campaign for walk in open_walks}
    by_jobs = _by_jobs()
    asked = ((a.campaign, a.backend, a.model) for a in accounts if a.campaign in wanted)
    backends = remote_backends(asked, prices, by_jobs)
    ledger = Ledger(store, {account.campaign: account.budget_usd for account in accounts})
    if not by_jobs:
        batches.refuse_while_open(open_walks, store)
    forecasts = budgets.forecast(open_walks, backends, ledger, jobs.waiting(store))
    for forecast in forecasts:
        print(forecast.text, flush=True)
    budgets.check(forecasts)
    asyncio.run((batches.ask_all if by_jobs else ask_all)(open_walks, backends, store, ledger, what))


def _by_jobs() -> bool:
    """Whether the Batch API is to be used, `BANANA100_BATCH`."""
    value = os.environ.get("BANANA100_BATCH", "0")
    if value not in ("0", "1"):
        raise UserError(
            f"environment: BANANA100_BATCH is {value!r}; allowed: 0 or 1, whether to ask through the Batch API (how "
            "many images are scored at once is BANANA100_BATCH_SIZE)."
        )
    return value == "1"
