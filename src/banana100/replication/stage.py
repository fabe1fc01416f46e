"""Stage replicate: walk every chain of the active campaigns, then lay out replicas, previews and lineage."""

from collections import Counter
from collections.abc import Sequence

from tabulate import tabulate

from banana100 import paths
from banana100.errors import Unfinished
from banana100.files import keep_only
from banana100.generators import REMOTE, remote
from banana100.generators.ledger import OverBudget
from banana100.generators.store import AnswerStore
from banana100.generators.walks import Parked, Walk
from banana100.params import GeminiCampaign, Params
from banana100.replication import workspace
from banana100.replication.chains import Chain, compute, plan
from banana100.workers import in_parallel, progress

# These are results; the other causes may pass, and the stage is not done until they have.
_RESULTS = {"refused", "absent"}


def run(params: Params) -> None:
    """Bring `data/replicas`, `data/previews` and `data/lineage` to what params.yaml asks for.

    Raises:
        UserError: a campaign names an unknown seed or model, the store or a seed is damaged, or a paid generator misses
            its key or does not take it.
        OverBudget: a campaign would cost more than its budget, or has used it up.
        Unfinished: chains are parked that the next run may finish; all others are laid out.
    """
    store = AnswerStore()
    chains = plan(params.active_campaigns(), workspace.seed_images(store))
    store.sweep()
    adopted = workspace.adopt(store)
    parked = _compute([chain for chain in chains if chain.settings.backend not in REMOTE])
    parked |= _ask([chain for chain in chains if chain.settings.backend in REMOTE], params, store)
    laid_out = workspace.Layout(store, params.previews)
    for chain in progress(chains, total=len(chains), what="lay out replicas", unit="chain"):
        laid_out.add(chain, parked.get(chain.key))
    keep_only(paths.REPLICAS, laid_out.files)
    previews = in_parallel(workspace.make_preview, laid_out.previews)
    shown = progress(previews, total=len(laid_out.previews), what="previews", unit="image")
    keep_only(paths.PREVIEWS, set(shown))
    keep_only(paths.LINEAGE, laid_out.write())
    taken_over = f", {adopted} answers taken over from the workspace" if adopted else ""
    answered = f"{len(laid_out.requests)} requests answered, {len(laid_out.refusals)} refusals"
    print(f"{len(chains)} chains, {len(laid_out.files)} images, {answered}{taken_over}")
    _conclude(laid_out.parked)


def _compute(chains: list[Chain]) -> dict[tuple[str, str, int], Parked]:
    """Finish the chains of generators that answer by themselves, in parallel, the longest first; gives the parked."""
    longest_first = sorted(chains, key=lambda chain: -chain.length)
    done = progress(in_parallel(compute, longest_first), total=len(chains), what="replicate", unit="chain")
    return {chain.key: why for chain, why in done if why}


def _ask(chains: list[Chain], params: Params, store: AnswerStore) -> dict[tuple[str, str, int], Parked]:
    """Finish the chains of paid generators as far as they go; gives those that are parked."""
    walks = [Walk(chain, store) for chain in progress(chains, total=len(chains), what="look into store", unit="chain")]
    accounts = [
        remote.Account(name, campaign.backend, campaign.model, campaign.budget_usd)
        for name, campaign in params.active_campaigns().items()
        if isinstance(campaign, GeminiCampaign)
    ]
    remote.finish(walks, accounts, params.prices, store, "replicate")
    return {chain.key: walk.parked for chain, walk in zip(chains, walks, strict=True) if walk.parked}


def _conclude(parked: dict[tuple[str, str, int], Parked]) -> None:
    """Tell which chains are parked, and whether the stage is done all the same."""
    if not parked:
        return
    rows = [(*chain, why.request.step, why.cause, why.attempts, why.reason[:120]) for chain, why in parked.items()]
    print(tabulate(rows, headers=["campaign", "seed", "repeat", "stopped at step", "cause", "attempts", "reason"]))
    causes = Counter(why.cause for why in parked.values())
    how = _in_words(causes)
    if "budget" in causes:
        campaigns = sorted({chain[0] for chain, why in parked.items() if why.cause == "budget"})
        raise OverBudget(
            f"the budget of {', '.join(campaigns)} is used up ({how}); every answer is kept: raise budget_usd in "
            "params.yaml and run again to go on."
        )
    if causes.keys() - _RESULTS:
        raise Unfinished(f"not all chains could be finished ({how}); every answer is kept: run again to go on.")
    if "refused" in causes:
        print(f"{how}; refusals are results and the stage is done: `dvc repro -f -s replicate` asks again.")
    else:
        print(f"{how}; an archive has no more, and the stage is done.")


def _in_words(causes: Counter[str]) -> str:
    words: Sequence[str] = [f"{count} {cause}" for cause, count in sorted(causes.items())]
    return f"chains parked: {', '.join(words)}"
