"""`banana100 plan`: what campaigns are made of, what of it is still missing, and what that will cost and take."""

from collections.abc import Sequence

from tabulate import tabulate

from banana100 import paths
from banana100.generators import REMOTE, price_list
from banana100.generators.asking import Patience
from banana100.generators.budgets import forecast
from banana100.generators.ledger import Ledger
from banana100.generators.store import AnswerStore
from banana100.generators.walks import Walk
from banana100.params import Campaign, Params
from banana100.replication.chains import plan
from banana100.replication.workspace import seed_images
from banana100.workers import progress

_HEADERS = ["campaign", "seeds", "chains", "steps", "images", "missing", "about $", "about h", "spent $", "budget $"]

# Stands for seeds that were not chosen yet; no image has it.
_UNKNOWN = "0" * 64


def run(params: Params, names: Sequence[str]) -> None:
    """Print one row a campaign, and the sum.

    Args:
        params: the project's.
        names: campaigns and sets of them; the active ones if empty.

    Raises:
        UserError: a name is unknown, or the store is damaged.
    """
    campaigns = params.named_campaigns(names)
    store = AnswerStore()
    ledger = Ledger(store, {name: getattr(campaign, "budget_usd", 0.0) for name, campaign in campaigns.items()})
    shown = progress(campaigns.items(), total=len(campaigns), what="look into store", unit="campaign")
    rows = [_row(name, campaign, params, store, ledger) for name, campaign in shown]
    if len(rows) > 1:
        rows.append(_sums(rows, params))
    print(tabulate(rows, headers=_HEADERS, floatfmt=".2f", intfmt=","))
    if any(campaign.backend in REMOTE for campaign in campaigns.values()):
        print(_explained(params))


def _row(name: str, campaign: Campaign, params: Params, store: AnswerStore, ledger: Ledger) -> list:
    seeds = _seeds(campaign, params)
    chains = plan({name: campaign}, seeds)
    walks = [Walk(chain, store) for chain in chains]
    images = sum(chain.length for chain in chains)
    missing = sum(walk.missing for walk in walks)
    row = [name, len({chain.seed for chain in chains}), len(chains), campaign.steps, images, missing]
    if campaign.backend not in REMOTE:
        return [*row, None, None, None, None]
    prices = price_list(campaign.backend, campaign.model, params.prices)
    usd = sum(coming.usd for coming in forecast(walks, {name: prices}, ledger))
    waits = max((walk.missing for walk in walks), default=0)  # the steps of a chain wait for each other
    return [*row, usd, _hours(waits, missing, params), ledger.spent(name), ledger.budget(name)]


def _sums(rows: list[list], params: Params) -> list:
    """The last row: campaigns run side by side, so hours are no sum."""
    sums = [sum(row[column] or 0 for row in rows) for column in range(len(_HEADERS)) if column]
    paid = [row for row in rows if row[7] is not None]
    hours = max([_hours(0, sum(row[5] for row in paid), params), *(row[7] for row in paid)])
    return ["all", *sums[:2], None, *sums[3:6], hours, *sums[7:]]


def _hours(longest: int, requests: int, params: Params) -> float:
    return params.prices.seconds * max(longest, requests / Patience.of_environment().concurrency) / 3600


def _seeds(campaign: Campaign, params: Params) -> dict[str, str]:
    """Image id by name of the seeds that a campaign starts from, chosen already or not."""
    chosen = seed_images() if paths.SEED_TABLE.exists() else {}
    if campaign.seeds != "all":
        return {name: chosen.get(name, _UNKNOWN) for name in campaign.seeds}
    return chosen or {f"seed {number}": _UNKNOWN for number in range(1, params.seeds.count + 1)}


def _explained(params: Params) -> str:
    prices, concurrency = params.prices, Patience.of_environment().concurrency
    return (
        f"Prices of {prices.date} (prices in params.yaml), {prices.thinking} tokens of thinking an answer, each "
        f"request answered at once; through the Batch API {prices.batch:.0%} of it. Hours at {prices.seconds:g} s an "
        f"answer and {concurrency} requests at a time, without waiting for the API's limits."
    )
