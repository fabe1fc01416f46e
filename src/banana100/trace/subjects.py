"""What a user asks about: a path, the first digits of a hash, METRIC:IMAGE, or ranking:METRIC.COLUMN."""

import os
import re
from pathlib import Path

import pandas as pd

from banana100 import paths
from banana100.catalogue.metrics import EVERY_METRIC
from banana100.errors import UserError
from banana100.generators import REMOTE
from banana100.lineage import tables
from banana100.snapshot import Snapshot
from banana100.trace import cells, ways
from banana100.trace.ways import Node

_FORMS = (
    "the path of an image or another output, the first 4 or more digits of a sha256 (image, request, scorer), "
    "METRIC:IMAGE, or ranking:METRIC.COLUMN"
)
_DIGITS = r"[0-9a-f]{4,64}"
_MOST = 20  # candidates listed where a hash is ambiguous


def ways_of(snapshot: Snapshot, what: str) -> list[Node]:
    """The ways back of what `what` names; several where files of equal bytes lie in several chains.

    Raises:
        UserError: it names nothing, or the digits of several things, which are then listed.
    """
    prefix, _, rest = what.partition(":")
    if prefix == "ranking" and rest:
        return [cells.of_cell(snapshot, rest)]
    if prefix in EVERY_METRIC and rest:
        return [ways.of_score(snapshot, prefix, image) for image in _images(snapshot, rest)]
    path = _relative(what)
    if found := _by_path(snapshot, path):
        return found
    if digits := _digits(what):
        return _by_digits(snapshot, digits)
    if way := ways.of_output(snapshot, path):
        return [way]
    raise UserError(f"{what}: nothing of that name in the tables or in {paths.LOCK}; allowed: {_FORMS}.")


def _by_path(snapshot: Snapshot, path: Path) -> list[Node]:
    """The ways of a seed, of what it was made from, of an image, or of one that a parked chain never got to."""
    of_seeds = path.is_relative_to(paths.SEEDS) or path.is_relative_to(paths.OWN_SEEDS)
    if of_seeds and not (seeds := _seeds_at(snapshot, path)).empty:
        return [ways.of_seed(snapshot, seed) for seed in seeds["seed"]]
    images = _at_path(snapshot, path)
    if images.empty and (parked := _parked_before(snapshot, path)):
        return [ways.of_parked(snapshot, parked)]
    return [ways.of_image(snapshot, image) for _, image in images.iterrows()]


def _images(snapshot: Snapshot, what: str) -> list[pd.Series]:
    """The rows of an image named by its path, its preview's or its seed's path, or the first digits of its sha256."""
    found = _at_path(snapshot, _relative(what))
    if found.empty and not (seeds := _seeds_at(snapshot, _relative(what))).empty:
        what = seeds["image_id"].iloc[0]
    if found.empty and (digits := _digits(what)):
        found = snapshot.images[snapshot.images["image_id"].str.startswith(digits)]
        _refuse_several(digits, {row.image_id: f"image {row.path}" for row in found.itertuples()})
        if (found["step"] == 0).all():
            found = found.iloc[:1]  # one seed in several chains
    if found.empty and (parked := _parked_before(snapshot, _relative(what))):
        why = f"its chain is parked at step {parked['step']} ({parked['cause']}: {parked['reason']})"
        raise UserError(f"{what}: there is no such image, as {why}.")
    if found.empty:
        raise UserError(
            f"{what}: no image of that name in {paths.IMAGES_TABLE}; allowed: a path, or digits of a sha256."
        )
    return [image for _, image in found.iterrows()]


def _by_digits(snapshot: Snapshot, digits: str) -> list[Node]:
    images, seeds, scorers = snapshot.images, snapshot.chosen_seeds, _scorers(snapshot)
    of_image = images[images["image_id"].str.startswith(digits)]
    of_request = images[images["request_id"].str.startswith(digits).fillna(False)]
    of_scorer = scorers[scorers["scorer_id"].str.startswith(digits)]
    known = {row.image_id: f"image {row.path}" for row in of_image.itertuples()}
    known |= {row.request_id: f"request of {row.path}" for row in of_request.itertuples()}
    of_seed = seeds[seeds["image_id"].str.startswith(digits).fillna(False)]
    known |= {row.image_id: f"seed {row.path}" for row in of_seed.itertuples()}
    known |= {row.scorer_id: f"scorer {row.metric}" for row in of_scorer.itertuples()}
    parked, asked = (_asked(table, digits) for table in (snapshot.parked, _seed_requests(snapshot)))
    known |= {row["request_id"]: f"request that parked {row['seed']} at step {row['step']}" for row in parked}
    known |= {row["request_id"]: f"request of the seed {row['seed']}" for row in asked}
    if not known:
        raise UserError(f"{digits}: no image, request or scorer has a sha256 that begins so; allowed: {_FORMS}.")
    _refuse_several(digits, known)
    if not of_scorer.empty:
        return [ways.of_scorer(snapshot, of_scorer["scorer_id"].iloc[0])]
    if parked:
        return [ways.of_parked(snapshot, row) for row in parked]
    if asked:
        return [ways.of_seed(snapshot, row["seed"]) for row in asked]
    found = pd.concat([of_image, of_request])
    if (found["step"] == 0).all():
        names = found["seed"].iloc[:1] if of_seed.empty else of_seed["seed"]
        return [ways.of_seed(snapshot, seed) for seed in names]
    return [ways.of_image(snapshot, image) for _, image in found.iterrows()]


def _refuse_several(digits: str, known: dict[str, str]) -> None:
    if len(known) > 1:
        listed = "".join(f"\n  {found}  {name}" for found, name in sorted(known.items())[:_MOST])
        more = f"\n  and {len(known) - _MOST} more" if len(known) > _MOST else ""
        raise UserError(f"{digits}: {len(known)} hashes begin so; give more digits or a path:{listed}{more}")


def _scorers(snapshot: Snapshot) -> pd.DataFrame:
    try:
        return snapshot.scorers
    except UserError:  # images can be traced where nothing has been scored yet
        return pd.DataFrame({"scorer_id": pd.Series(dtype="str"), "metric": pd.Series(dtype="str")})


def _seed_requests(snapshot: Snapshot) -> pd.DataFrame:
    generated = snapshot.chosen_seeds["source"].isin(REMOTE).any()
    return snapshot.seed_requests if generated else pd.DataFrame({"request_id": pd.Series(dtype="str")})


def _asked(table: pd.DataFrame, digits: str) -> list[Node]:
    return tables.records(table[table["request_id"].str.startswith(digits)])


def _parked_before(snapshot: Snapshot, path: Path) -> Node | None:
    """The row of the parked chain that never got as far as the image, or preview, of that path."""
    for root in (paths.REPLICAS, paths.PREVIEWS):
        if path.is_relative_to(root) and path.stem.isdecimal():
            for row in tables.records(snapshot.parked):
                folder = root / paths.chain_folder(row["campaign"], row["seed"], row["repeat"])
                if path.parent == folder and int(path.stem) >= row["step"]:
                    return row
    return None


def _seeds_at(snapshot: Snapshot, path: Path) -> pd.DataFrame:
    """The chosen seeds of that path, or made from the image of that path."""
    seeds = snapshot.chosen_seeds
    if path.parent == paths.GENERATED_SEEDS:
        return seeds[seeds["source"].isin(REMOTE) & (seeds["seed"] == path.stem)]
    return seeds[(seeds["path"] == path.as_posix()) | (seeds["origin"] == path.as_posix())]


def _at_path(snapshot: Snapshot, path: Path) -> pd.DataFrame:
    images = snapshot.images
    if path.is_relative_to(paths.PREVIEWS):
        stem = (paths.REPLICAS / path.relative_to(paths.PREVIEWS)).with_suffix("").as_posix()
        return images[images["path"].str.rpartition(".")[0] == stem]
    return images[images["path"] == path.as_posix()]


def _digits(what: str) -> str | None:
    """The first digits of a sha256, as the tables have them; None for any other text."""
    return what.lower() if re.fullmatch(_DIGITS, what.lower()) else None


def _relative(what: str) -> Path:
    """A path as the tables have it, however the user wrote it."""
    return Path(os.path.relpath(what)) if what else Path("?")
