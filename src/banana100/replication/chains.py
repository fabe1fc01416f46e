"""Chains: a seed replicated step by step, each replica made from the last."""

from dataclasses import dataclass

from banana100.generators import backend_for
from banana100.generators.base import Absent, Backend
from banana100.generators.store import AnswerStore, StoredAnswer
from banana100.generators.walks import Parked, Step, Steps, Walk
from banana100.lineage.identity import Request
from banana100.params import Campaign, refusal


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

    @property
    def key(self) -> tuple[str, str, int]:
        """What identifies it in the tables, see `tables.CHAIN`."""
        return self.campaign, self.seed, self.repeat

    @property
    def length(self) -> int:
        """How many steps there are."""
        return self.settings.steps

    @property
    def history(self) -> int:
        """How many earlier turns of the chain a request carries at most."""
        return self.settings.history

    def request(self, step: int, parent_id: str, previous_id: str | None = None) -> Request:
        """What step `step` (from 1) asks, given the image it replicates and the request before it.

        In a fresh conversation the request before does not count.
        """
        return Request(
            backend=self.settings.backend,
            model=self.settings.model,
            prompt=self.settings.prompt(step),
            config=self.settings.config.model_dump(exclude_none=True),
            parent_id=parent_id,
            seed=self.seed,
            repeat=self.repeat,
            step=step,
            previous_id=previous_id if self.history else None,
        )

    def steps(self) -> Steps:
        """The steps in order, each in exchange for the answer to the one before."""
        parent_id, previous_id = self.seed_id, None
        history: list[tuple[Request, StoredAnswer]] = []
        for step in range(1, self.length + 1):
            request = self.request(step, parent_id, previous_id)
            answer = yield Step(request, tuple(history))
            parent_id, previous_id = answer.image_id, request.id
            if self.history:
                history = [*history, (request, answer)][-self.history :]


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


def compute(chain: Chain) -> tuple[Chain, Parked | None]:
    """Finish one chain of a generator that answers by itself: what the store does not hold is asked and stored.

    Returns:
        The chain, and why it ends early if it does.
    """
    store = AnswerStore()
    walk = Walk(chain, store)
    backend = backend_for(chain.settings) if walk.step else None
    while walk.step and backend:
        request = walk.step.request
        try:
            walk.take(store.get(request) or _ask(request, store, backend))
        except Absent as error:
            return chain, Parked(request, "absent", str(error), 1)
    return chain, None


def _ask(request: Request, store: AnswerStore, backend: Backend) -> StoredAnswer:
    with store.claim(request):
        if answered := store.get(request):  # another process was faster
            return answered
        parent = store.image(request.parent_id or "")
        store.asked(request)
        return store.put(request, backend.generate(request, parent))
