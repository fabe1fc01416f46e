"""Stage select_seeds: collect candidates, measure them, choose, save the chosen as PNG."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from banana100 import images, paths
from banana100.errors import UserError
from banana100.files import keep_only, sha256_of, write_atomically
from banana100.lineage import tables
from banana100.params import NAME_RULE, Params, SeedParams, is_name
from banana100.seeds.choice import choose
from banana100.seeds.features import FEATURES, measure
from banana100.seeds.sources import Candidate, candidates
from banana100.workers import progress


@dataclass
class Examined:
    """A candidate after decoding: its table row, and its seed image unless it was refused."""

    row: dict[str, Any]
    png: bytes = b""
    features: list[float] = field(default_factory=list)


def run(params: Params) -> None:
    """Choose the seeds that params.yaml asks for and write `data/seeds`.

    Raises:
        UserError: a source is empty, or fewer usable candidates than seeds.count; the sentence names the refused.
    """
    examined = choose_all(params)
    chosen = [candidate for candidate in examined if candidate.row["chosen"]]
    _write(examined, chosen)
    print(f"{len(chosen)} seeds of {len(examined)} candidates: {', '.join(c.row['seed'] for c in chosen)}")


def choose_all(params: Params) -> list[Examined]:
    """Examine every candidate that params.yaml names and choose; nothing is written.

    Raises:
        UserError: as for `run`.
    """
    found = [candidate for source in params.seeds.sources for candidate in candidates(source)]
    examined = _examine_all(found, params.seeds)
    usable = [candidate for candidate in examined if candidate.png]
    if len(usable) < params.seeds.count:
        reasons = [f"{c.row['seed']!r} {c.row['refused']}" for c in examined if not c.png]
        refused = "; ".join(reasons[:8] + ["…"] * (len(reasons) > 8))
        raise UserError(
            f"params.yaml: seeds.count is {params.seeds.count}; allowed: at most {len(usable)}, the number of usable "
            f"candidates{f' (refused: {refused})' if refused else ''}."
        )
    for candidate, choice in zip(
        usable, choose([candidate.features for candidate in usable], params.seeds.count), strict=True
    ):
        candidate.row |= {"chosen": choice.order is not None, "order": choice.order, "distance": choice.distance}
    for candidate in examined:
        if not candidate.row["chosen"]:
            candidate.row["path"] = None  # measured, not saved
    return examined


def _examine_all(found: list[Candidate], params: SeedParams) -> list[Examined]:
    taken: dict[str, str] = {}
    examined = []
    for candidate in progress(found, total=len(found), what="measure candidates", unit="image"):
        examined.append(_examine(candidate, params.size, taken.get(candidate.seed.casefold())))
        if examined[-1].png:
            taken[candidate.seed.casefold()] = candidate.origin  # some file systems ignore case
    return examined


def _examine(candidate: Candidate, size: int, namesake: str | None) -> Examined:
    data = candidate.file.read_bytes()
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
        pixels = images.square(images.decode(data), size)
    except images.ImageError as error:
        return Examined(row | {"refused": str(error)})
    features = measure(pixels)
    png = images.encode_png(pixels)
    row |= features | {"image_id": sha256_of(png), "path": paths.seed_image(candidate.seed).as_posix()}
    return Examined(row, png, [features[name] for name in FEATURES])


def _write(examined: Iterable[Examined], chosen: Iterable[Examined]) -> None:
    wanted = {paths.SEED_TABLE}
    for candidate in chosen:
        path = paths.seed_image(candidate.row["seed"])
        write_atomically(path, candidate.png)
        wanted.add(path)
    tables.write(paths.SEED_TABLE, tables.SEEDS, [candidate.row for candidate in examined])
    keep_only(paths.SEEDS, wanted)
