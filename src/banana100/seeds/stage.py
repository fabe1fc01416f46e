"""Stage select_seeds: collect candidates, measure them, choose, save the chosen: as PNG, or as an archive has them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from banana100 import images, paths
from banana100.errors import UserError
from banana100.files import keep_only, sha256_of, write_atomically
from banana100.lineage import tables
from banana100.params import NAME_RULE, Params, SeedParams, is_name, refusal
from banana100.seeds import generated
from banana100.seeds.choice import choose
from banana100.seeds.features import FEATURES, measure
from banana100.seeds.generated import Original
from banana100.seeds.sources import Answers, Candidate, candidates
from banana100.workers import progress

# Below it features mean nothing, nor do metrics.
_LEAST_SIDE = 32


@dataclass
class Examined:
    """A candidate after decoding: its table row, and its seed image unless it was refused."""

    row: dict[str, Any]
    image: bytes = b""
    features: list[float] = field(default_factory=list)


def run(params: Params) -> None:
    """Choose the seeds that params.yaml asks for and write `data/seeds`; a run that fails leaves it as it was.

    Raises:
        UserError: a source is empty, or fewer usable candidates than seeds.count; the sentence names the refused. A
            generator misses its key, does not take it, or would cost too much.
        Unfinished: some images could not be generated yet.
    """
    _before_paying(params)
    originals = generated.make(params)
    answers = {original.request.id: original.read for original in originals}
    examined = choose_all(params, lambda request: answers[request.id]())
    chosen = [candidate for candidate in examined if candidate.row["chosen"]]
    _write(examined, chosen, originals)
    print(f"{len(chosen)} seeds of {len(examined)} candidates: {', '.join(c.row['seed'] for c in chosen)}")


def choose_all(params: Params, answers: Answers = generated.in_workspace) -> list[Examined]:
    """Examine every candidate that params.yaml names and choose; nothing is written, nobody is asked.

    Args:
        params: the project's.
        answers: where generated images come from.

    Raises:
        UserError: a source is empty, a generated image is missing, or too few candidates are usable.
    """
    found = [candidate for source in params.seed_sources() for candidate in candidates(source, answers)]
    examined = _examine_all(found, params.seeds)
    usable = [candidate for candidate in examined if candidate.image]
    if len(usable) < params.seeds.count:
        reasons = [f"{c.row['seed']!r} {c.row['refused']}" for c in examined if not c.image]
        refused = "; ".join(reasons[:8] + ["…"] * (len(reasons) > 8))
        raise UserError(
            f"params.yaml: seeds.count is {params.seeds.count}; allowed: at most {len(usable)}, the number of usable "
            f"candidates{f' (refused: {refused})' if refused else ''}."
        )
    for candidate, choice in zip(
        usable, choose([candidate.features for candidate in usable], params.seeds.count), strict=True
    ):
        candidate.row |= {"chosen": choice.order is not None, "order": choice.order, "distance": choice.distance}
    if left := [c.row["seed"] for c in usable if c.row["source"] == "archive" and not c.row["chosen"]]:
        raise refusal(
            "seeds.count", params.seeds.count, f"{len(usable)}, as an archive's seeds are all needed (not {left[0]})"
        )
    for candidate in examined:
        if not candidate.row["chosen"]:
            candidate.row["path"] = None  # measured, not saved
    return examined


def _before_paying(params: Params) -> None:
    """What can be told without any generated image must not cost money first."""
    if generated.all_texts(params):
        found = [candidate for source in params.seed_sources() for candidate in candidates(source, lambda _: b"")]
        if len(found) < params.seeds.count:
            raise refusal("seeds.count", params.seeds.count, f"at most {len(found)}, the number of candidates")


def _examine_all(found: list[Candidate], params: SeedParams) -> list[Examined]:
    taken: dict[str, str] = {}
    examined = []
    for candidate in progress(found, total=len(found), what="measure candidates", unit="image"):
        examined.append(_examine(candidate, params.size, taken.get(candidate.seed.casefold())))
        if examined[-1].image:
            taken[candidate.seed.casefold()] = candidate.origin  # some file systems ignore case
    return examined


def _examine(candidate: Candidate, size: int, namesake: str | None) -> Examined:
    data = candidate.read()
    row: dict[str, Any] = {
        "seed": candidate.seed,
        "source": candidate.source,
        "origin": candidate.origin,
        "licence": candidate.licence,
        "source_sha256": sha256_of(data),
        "chosen": False,
    }
    try:
        if namesake:
            raise images.ImageError(f"has the name of {namesake}")
        if not is_name(candidate.seed):
            raise images.ImageError(f"has a file name that is no seed's name ({NAME_RULE})")
        header = images.read_header(data)
        row |= {"source_width": header.width, "source_height": header.height}
        pixels = images.decode(data)
        if candidate.verbatim and min(pixels.shape[:2]) < _LEAST_SIDE:
            raise images.ImageError(f"is {header.width}x{header.height} pixels; at least {_LEAST_SIDE} a side")
        pixels = images.square(pixels, min(size, *pixels.shape[:2]) if candidate.verbatim else size)
    except images.ImageError as error:
        return Examined(row | {"refused": str(error)})
    features = measure(pixels)
    image, extension = (data, header.extension) if candidate.verbatim else (images.encode_png(pixels), "png")
    row |= features | {"image_id": sha256_of(image), "path": paths.seed_image(candidate.seed, extension).as_posix()}
    return Examined(row, image, [features[name] for name in FEATURES])


def _write(examined: Iterable[Examined], chosen: Iterable[Examined], originals: Sequence[Original]) -> None:
    wanted = {paths.SEED_TABLE, paths.SEED_REQUESTS_TABLE}
    for candidate in chosen:
        path = Path(candidate.row["path"])
        write_atomically(path, candidate.image)
        wanted.add(path)
    for original in originals:
        write_atomically(original.path, original.read())
        wanted.add(original.path)
    tables.write(paths.SEED_TABLE, tables.SEEDS, [candidate.row for candidate in examined])
    tables.write(paths.SEED_REQUESTS_TABLE, tables.REQUESTS, [original.row for original in originals])
    keep_only(paths.SEEDS, wanted)
