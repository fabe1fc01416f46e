"""Chains: a seed replicated step by step, each replica made from the last."""

from dataclasses import dataclass

from banana100 import paths
from banana100.lineage.identity import Request
from banana100.params import Campaign, refusal
from banana100.replication.backends import backend_for
from banana100.replication.backends.base import Backend
from banana100.replication.store import AnswerStore, StoredAnswer


@dataclass(frozen=True)
class Chain:
    """One chain to walk.

    Attributes:
        campaign: the campaign's name; `settings` is the campaign itself.
        seed: the seed's name; `seed_id` is the sha256 of its image.
        repeat: counted from 1.
    """

    campaign: str
    settings: Campaign
    seed: str
    seed_id: str
    repeat: int

    def request(self, step: int, parent_id: str) -> Request:
        """What step `step` (from 1) asks, given the image it replicates."""
        return Request(
            backend=self.settings.backend,
            model=self.settings.model,
            prompt=self.settings.prompt(step),
            config=self.settings.config.model_dump(),
            parent_id=parent_id,
            seed=self.seed,
            repeat=self.repeat,
            step=step,
        )


@dataclass(frozen=True)
class Replica:
    """One finished step of a chain."""

    chain: Chain
    request: Request
    answer: StoredAnswer


def plan(campaigns: dict[str, Campaign], seeds: dict[str, str]) -> list[Chain]:
    """All chains of the campaigns.

    Args:
        campaigns: by name.
        seeds: image id by name, of the chosen seeds.

    Raises:
        UserError: a campaign names a seed that was not chosen.
    """
    chains = []
    for name, campaign in campaigns.items():
        wanted = list(seeds) if campaign.seeds == "all" else campaign.seeds
        for seed in wanted:
            if seed not in seeds:
                raise refusal(f"campaigns.{name}.seeds", wanted, f"all, or names among {', '.join(seeds)}")
        chains += [
            Chain(name, campaign, seed, seeds[seed], repeat)
            for seed in wanted
            for repeat in range(1, campaign.repeats + 1)
        ]
    return chains


def walk(chain: Chain) -> list[Replica]:
    """Finish one chain: for every step the stored answer if there is one, else the generator's."""
    store, backend = AnswerStore(), backend_for(chain.settings)
    replicas: list[Replica] = []
    parent_id = chain.seed_id
    for step in range(1, chain.settings.steps + 1):
        request = chain.request(step, parent_id)
        answer = store.get(request) or _ask(request, store, backend, step == 1)
        replicas.append(Replica(chain, request, answer))
        parent_id = answer.image_id
    return replicas


def _ask(request: Request, store: AnswerStore, backend: Backend, from_seed: bool) -> StoredAnswer:
    with store.claim(request):
        if answered := store.get(request):  # another process was faster
            return answered
        parent = paths.seed_image(request.seed).read_bytes() if from_seed else store.image(request.parent_id)
        store.asked(request)
        return store.put(request, backend.generate(request, parent))
