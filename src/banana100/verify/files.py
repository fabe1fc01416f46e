"""Image files against the rows that name them, and files that no row names."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from banana100 import paths
from banana100.lineage.columns import table_files
from banana100.seeds.generated import file_of
from banana100.verify.faults import Fault, State
from banana100.verify.fingerprints import Fingerprint, files_below


def images(state: State, known: Mapping[Path, Fingerprint]) -> Iterator[Fault]:
    """Digest, size and header of every seed and replica, every preview that params.yaml asks for, and no other file."""
    table, chosen = state.snapshot.images, state.snapshot.chosen_seeds
    state.counted["image files"] += len(table) + len(chosen)
    for path, image_id in chosen[["path", "image_id"]].itertuples(index=False):
        yield from _content(paths.SEED_TABLE, known.get(Path(path)), path, image_id)
    for row in table.itertuples():
        found = known.get(Path(row.path))
        yield from _content(paths.IMAGES_TABLE, found, row.path, row.image_id)
        if found and found.sha256 == row.image_id:
            yield from _facts(row, found)
    previews = {
        paths.preview(row.campaign, row.seed, row.repeat, row.step): max(row.width, row.height)
        for row in table[table["step"].isin(state.params.previews.steps)].itertuples()
    }
    yield from _previews(previews, state.params.previews.side, known)
    wanted = {Path(path) for path in [*table["path"], *chosen["path"]]} | previews.keys()
    wanted |= {paths.SEED_TABLE, paths.SEED_REQUESTS_TABLE}
    wanted |= {path for seed in state.snapshot.seed_requests["seed"] if (path := file_of(str(seed)))}
    for path in sorted(known.keys() - wanted):
        if any(path.is_relative_to(folder) for folder in (paths.SEEDS, paths.REPLICAS, paths.PREVIEWS)):
            yield Fault(str(path), "the file", "there", "absent", "every table")


def _previews(wanted: Mapping[Path, int], side: int, known: Mapping[Path, Fingerprint]) -> Iterator[Fault]:
    """Every preview and its size, given its image's longer side; its content is what dvc.lock records."""
    for path, of_image in sorted(wanted.items()):
        if path not in known:
            yield Fault(str(path), "the file", "absent", "there", f"previews.steps in {paths.PARAMS}")
            continue
        header, expected = known[path].header, min(side, of_image)
        found = max(header.width, header.height) if header else "none, as it is no image"
        if found != expected:
            yield Fault(str(path), "its longer side", found, expected, f"previews.side in {paths.PARAMS}")


def of_tables(state: State) -> Iterator[Fault]:
    """No file beside the tables of lineage and scores."""
    wanted = table_files(state.params.scored_metrics())
    for path in sorted({*files_below(paths.LINEAGE), *files_below(paths.SCORES)}.difference(wanted)):
        yield Fault(str(path), "the file", "there", "absent", f"{paths.PARAMS}")


def _content(table: Path, found: Fingerprint | None, path: str, image_id: str) -> Iterator[Fault]:
    if found is None:
        yield Fault(path, "the file", "absent", image_id, str(table))
    elif found.sha256 != image_id:
        yield Fault(path, "sha256", found.sha256, image_id, str(table))


def _facts(row: pd.Series, found: Fingerprint) -> Iterator[Fault]:
    facts = {"bytes": found.bytes}
    if header := found.header:
        facts |= {"width": header.width, "height": header.height, "mode": header.mode, "extension": header.extension}
    for name, value in facts.items():
        told = Path(row.path).suffix[1:] if name == "extension" else getattr(row, name)
        if told != value:
            yield Fault(f"{paths.IMAGES_TABLE} {row.path}", name, told, value, "the file")
