"""Generators of images. A new one: a module here, a row in `BACKENDS` or `REMOTE`, a Campaign for it in params."""

from collections.abc import Callable, Iterable

from banana100.generators.archive import Archive
from banana100.generators.base import Backend, RemoteBackend
from banana100.generators.gemini.prices import PriceList
from banana100.generators.simulated import Simulated
from banana100.params import Campaign, Prices


def _gemini(model: str, prices: Prices, batch: bool) -> RemoteBackend:
    from banana100.generators.gemini.backend import Gemini  # noqa: PLC0415  the SDK takes a second to import

    return Gemini(model, prices, batch)


# Those that answer by themselves, and those behind a network.
BACKENDS: dict[str, type[Backend]] = {"archive": Archive, "simulated": Simulated}
REMOTE: dict[str, Callable[[str, Prices, bool], RemoteBackend]] = {"gemini": _gemini}


# What requests to those behind a network will cost, without a key.
PRICES: dict[str, Callable[[str, Prices, bool], PriceList]] = {"gemini": PriceList}


def price_list(backend: str, model: str, prices: Prices, batch: bool = False) -> PriceList:
    """What requests to a model cost."""
    return PRICES[backend](model, prices, batch)


def backend_for(campaign: Campaign) -> Backend:
    """The generator that a campaign names, ready to be asked.

    Raises:
        UserError: the generator does not know the campaign's model, or misses what it needs.
    """
    return BACKENDS[campaign.backend](campaign)


def remote_backends(
    wanted: Iterable[tuple[str, str, str]], prices: Prices, batch: bool = False
) -> dict[str, RemoteBackend]:
    """Generators by campaign; those of one model share one.

    Args:
        wanted: campaign, backend, model.
        prices: what models cost.
        batch: whether their Batch API will be used.

    Raises:
        UserError: a generator misses what it needs, mostly a key.
    """
    made: dict[tuple[str, str], RemoteBackend] = {}
    found = {}
    for campaign, backend, model in wanted:
        if (backend, model) not in made:
            made[backend, model] = REMOTE[backend](model, prices, batch)
        found[campaign] = made[backend, model]
    return found
