"""Before the first paid request: what is missing, what it will cost, and whether the budgets allow it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from banana100.generators.base import Estimates
from banana100.generators.ledger import Ledger, OverBudget
from banana100.generators.walks import Walk


@dataclass(frozen=True)
class Forecast:
    """What a campaign will still need.

    Attributes:
        missing: requests that the store has no answer for.
        longest: the most of them in one chain, which must wait for each other.
        usd: US dollars to expect for them, if each is answered at once.
        spent: US dollars spent so far.
        budget: US dollars that the campaign may cost in all.
    """

    campaign: str
    missing: int
    longest: int
    usd: float
    spent: float
    budget: float

    @property
    def text(self) -> str:
        """One line."""
        return (
            f"{self.campaign}: {self.missing} requests to send, about ${self.usd:.2f}; spent ${self.spent:.2f} of "
            f"budget_usd {self.budget:g}"
        )


def forecast(walks: Sequence[Walk], backends: Mapping[str, Estimates], ledger: Ledger) -> list[Forecast]:
    """What each campaign that misses answers will need, in the order of `walks`."""
    by_campaign: dict[str, list[Walk]] = {}
    for walk in walks:
        if walk.step:
            by_campaign.setdefault(walk.plan.campaign, []).append(walk)
    found = []
    for campaign, open_walks in by_campaign.items():
        usd = sum(_usd(walk, backends[campaign]) for walk in open_walks)
        missing = [walk.missing for walk in open_walks]
        money = (usd, ledger.spent(campaign), ledger.budget(campaign))
        found.append(Forecast(campaign, sum(missing), max(missing), *money))
    return found


def check(forecasts: Sequence[Forecast]) -> None:
    """Refuse to begin what the budgets do not allow.

    Raises:
        OverBudget: with the numbers of every campaign that would cost too much.
    """
    # a cent of rounding is no reason to refuse
    over = [f for f in forecasts if f.spent + f.usd > f.budget + 0.005]
    if over:
        raise OverBudget(
            f"{'; '.join(f.text for f in over)}: not allowed, nothing was sent; raise budget_usd in params.yaml, or "
            "ask for fewer steps, repeats or seeds."
        )


def _usd(walk: Walk, backend: Estimates) -> float:
    """Price of the missing steps, as they will be asked: a conversation grows until its history is full."""
    assert walk.step is not None
    turns, kept = len(walk.step.history) + 1, walk.plan.history + 1
    request = walk.step.request
    growing = [backend.estimate(request, min(turns + later, kept)) for later in range(min(walk.missing, kept))]
    return sum(growing) + (walk.missing - len(growing)) * growing[-1]
