"""Seeds made from texts: asked, kept and paid for like replicas, through the store, the ledger and the budgets."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from banana100 import images, paths
from banana100.errors import Unfinished, UserError
from banana100.generators import REMOTE, adoption, remote
from banana100.generators.ledger import OverBudget
from banana100.generators.store import AnswerStore, StoredAnswer
from banana100.generators.walks import Step, Steps, Walk
from banana100.lineage import tables
from banana100.lineage.identity import Request
from banana100.params import GeminiConfig, Params, Source, is_name


@dataclass(frozen=True)
class Text:
    """A text that a seed is made from: a walk of one step, see `walks.Plan`.

    Attributes:
        request: what is asked.
    """

    request: Request
    length: ClassVar[int] = 1
    history: ClassVar[int] = 0

    @property
    def campaign(self) -> str:
        """Who pays: all seeds of one model, whichever source names them."""
        return _payer(self.request.model)

    def steps(self) -> Steps:
        """The one step."""
        yield Step(self.request)


@dataclass(frozen=True)
class Original:
    """A generated image, in the store.

    Attributes:
        path: where it belongs in the workspace.
    """

    request: Request
    answer: StoredAnswer
    path: Path
    store: AnswerStore

    def read(self) -> bytes:
        """The bytes as they were answered.

        Raises:
            UserError: the store lost or damaged them.
        """
        return self.store.image(self.answer.image_id)

    @property
    def row(self) -> dict[str, Any]:
        """Its row of the requests table."""
        return adoption.request_row(self.request, self.answer)


def texts(source: Source) -> list[Text]:
    """The texts of one source, in the order of params.yaml; none where its images are not generated."""
    config = (source.config or GeminiConfig()).model_dump(exclude_none=True)
    return [
        Text(Request(source.kind, source.model, prompt, config, parent_id=None, seed=name, repeat=1, step=0))
        for name, prompt in (source.prompts if source.kind in REMOTE else {}).items()
    ]


def all_texts(params: Params) -> list[Text]:
    """The texts of all sources.

    Raises:
        UserError: two would make the same file.
    """
    found = [text for source in params.seed_sources() for text in texts(source)]
    taken: dict[str, str] = {}
    for name in (text.request.seed for text in found):
        key = unicodedata.normalize("NFC", name).casefold()  # some file systems ignore case and ways of writing
        if key in taken:
            names = name if name == taken[key] else f"{taken[key]} and {name}"
            raise UserError(
                f"params.yaml: seeds.sources has two prompts that make the seed {names}; allowed: a name of its own "
                "for each, which differs by more than upper and lower case."
            )
        taken[key] = name
    return found


def origin(model: str, request_id: str) -> str:
    """Where a generated candidate comes from."""
    return f"{model}, request {request_id}"


def make(params: Params) -> list[Original]:
    """The original of every text that params.yaml names; what neither store nor workspace holds is asked.

    Raises:
        UserError: no key, a wrong one, a model that is gone, a damaged store; what was answered is kept.
        OverBudget: it would cost more than it may, or has used that up.
        Unfinished: there is no image of some texts yet.
    """
    wanted = all_texts(params)
    released = paths.SEED_REQUESTS_TABLE
    rows = tables.records(tables.read(released, tables.REQUESTS)) if released.exists() else []
    if not wanted and not rows:
        return []
    store = AnswerStore()
    store.sweep()
    if adopted := adoption.adopt(store, rows, lambda request: file_of(request.seed)):
        print(f"{adopted} answers taken over from {paths.GENERATED_SEEDS}")
    walks = [Walk(text, store) for text in wanted]
    remote.finish(walks, _accounts(params), params.prices, store, "generate seeds")
    _refuse_parked(walks)
    return [_original(text.request, store) for text in wanted]


def file_of(seed: str) -> Path | None:
    """The original of a seed in the workspace, whichever type of image it is."""
    for extension in dict.fromkeys(images.EXTENSIONS.values()) if is_name(seed) else ():
        if (path := paths.GENERATED_SEEDS / f"{seed}.{extension}").is_file():
            return path
    return None


def in_workspace(request: Request) -> bytes:
    """The original that a request was answered with, as it lies in the workspace.

    Raises:
        UserError: it is not there.
    """
    if path := file_of(request.seed):
        return path.read_bytes()
    raise UserError(
        f"{paths.GENERATED_SEEDS / request.seed}: the image that this seed was made from is not there; restore it with "
        "`dvc checkout` or make it with `dvc repro`."
    )


def _payer(model: str) -> str:
    return f"seeds ({model})"


def _accounts(params: Params) -> list[remote.Account]:
    """One a model; what its sources may cost is added up."""
    budgets: dict[tuple[str, str], float] = {}
    for source in params.seed_sources():
        if source.kind in REMOTE:
            asked = source.kind, source.model
            budgets[asked] = budgets.get(asked, 0.0) + (source.budget_usd or 0.0)
    return [remote.Account(_payer(model), backend, model, usd) for (backend, model), usd in budgets.items()]


def _refuse_parked(walks: Sequence[Walk]) -> None:
    parked = [walk.parked for walk in walks if walk.parked]
    if not parked:
        return
    # the reasons are others' words
    reasons = [f"{p.request.seed} ({p.cause}: {p.reason.rstrip('.')[:160]})" for p in parked]
    told = f"seeds without an image: {'; '.join(reasons[:8] + ['…'] * (len(reasons) > 8))}; every answer is kept"
    if any(p.cause == "budget" for p in parked):
        raise OverBudget(f"{told}: raise budget_usd in params.yaml and run again to go on.")
    raise Unfinished(f"{told}: run again to go on, or change the texts that are refused.")


def _original(request: Request, store: AnswerStore) -> Original:
    answer = store.get(request)
    assert answer is not None
    try:
        extension = images.read_header(store.image(answer.image_id)).extension
    except images.ImageError as error:
        what = f"seed {request.seed}: the answer in the store, object {answer.image_id[:12]}…"
        raise UserError(f"{what}, {error}.") from None
    return Original(request, answer, paths.GENERATED_SEEDS / f"{request.seed}.{extension}", store)
