"""Generators of replicas. A new one: a module here, a row in `BACKENDS`, its name and settings in params.Campaign."""

from banana100.params import Campaign
from banana100.replication.backends.base import Backend
from banana100.replication.backends.simulated import Simulated

BACKENDS: dict[str, type[Backend]] = {"simulated": Simulated}


def backend_for(campaign: Campaign) -> Backend:
    """The generator that a campaign names, ready to be asked.

    Raises:
        UserError: the generator does not know the campaign's model, or misses what it needs.
    """
    return BACKENDS[campaign.backend](campaign)
