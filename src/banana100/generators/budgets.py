"""Before the first paid request: what is missing, what it will cost, and whether the budgets allow it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from banana100.generators.base import Estimates
from banana100.generators.ledger import Ledger, OverBudget
from banana100.generators.walks import Walk


@dataclass(frozen=True)
class Forecast:
    """What a campaign will still need.

    Attributes:
        missing: requests to send: the store has no answer for them, and they are in no job of a Batch API.
        usd: US dollars to expect for them, if each is answered at once.
        spent: US dollars spent so far.
        budget: US dollars that the campaign may cost in all.
        allowed: whether the budget allows what is missing.
    """

    campaign: str
    missing: int
    usd: float
    spent: float
    budget: float
    allowed: bool

    @property
    def text(self) -> str:
        """One line."""
        return (
            f"{self.campaign}: {self.missing} requests to send, about ${self.usd:.2f}; spent ${self.spent:.2f} of "
            f"budget_usd {self.budget:g}"
        )


def forecast(
    walks: Sequence[Walk], backends: Mapping[str, Estimates], ledger: Ledger, waiting: Collection[str] = ()
) -> list[Forecast]:
    """What each campaign that misses answers will need, in the order of `walks`.

    Args:
        walks: how far they are.
        backends: what tells the prices, by campaign.
        ledger: what was spent.
        waiting: ids of requests whose answers are under way in jobs; they are paid for already.
    """
    by_campaign: dict[str, list[Walk]] = {}
    for walk in walks:
        if walk.step:
            by_campaign.setdefault(walk.plan.campaign, []).append(walk)
    found = []
    for campaign, open_walks in by_campaign.items():
        under_way = [walk.step is not None and walk.step.request.id in waiting for walk in open_walks]
        missing = sum(walk.missing for walk in open_walks) - sum(under_way)
        usd = sum(_usd(walk, backends[campaign], sent) for walk, sent in zip(open_walks, under_way, strict=True))
        money = (usd, ledger.spent(campaign), ledger.budget(campaign), ledger.allows(campaign, usd))
        found.append(Forecast(campaign, missing, *money))
    return found


def check(forecasts: Sequence[Forecast]) -> None:
    """Refuse to begin what the budgets do not allow.

    Raises:
        OverBudget: with the numbers of every campaign that would cost too much.
    """
    if over := [forecast for forecast in forecasts if not forecast.allowed]:
        raise OverBudget(
            f"{'; '.join(f.text for f in over)}: not allowed, nothing was sent; raise budget_usd in params.yaml, or "
            "ask for fewer steps, repeats or seeds."
        )


def _usd(walk: Walk, backend: Estimates, sent: bool) -> float:
    """Price of the missing steps, as they will be asked: a conversation grows until its history is full.

    Args:
        walk: how far it is.
        backend: what tells the prices.
        sent: whether its present step is under way in a job.
    """
    assert walk.step is not None
    turns, kept = len(walk.step.history) + 1, walk.plan.history + 1
    estimates = [backend.estimate(walk.step.request, number) for number in range(turns, kept + 1)]
    prices = [estimates[min(later, len(estimates) - 1)] for later in range(walk.missing)]
    return sum(prices[sent:])
