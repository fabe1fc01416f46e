"""Backend `archive`: replicas that somebody else made, as `banana100 import` took them in.

The images lie in the store by their sha256; which of them is which step is what the archive's table says.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import pandas as pd

from banana100 import paths
from banana100.errors import UserError
from banana100.generators.base import Absent, Answer
from banana100.generators.store import AnswerStore
from banana100.lineage import tables
from banana100.lineage.identity import Request, identity
from banana100.params import Campaign


class Archive:
    """Backend `archive`.

    Raises:
        UserError: the campaign's archive was not taken in, or is another one than its digests say.
    """

    def __init__(self, campaign: Campaign) -> None:
        self._image_ids = image_ids(campaign)
        self._store = AnswerStore()

    def generate(self, request: Request, parent: bytes) -> Answer:
        """The image that follows on `parent` in the archive; see `Backend.generate`.

        Raises:
            UserError: the chain starts from another image than the archive's.
        """
        name = request.config["archive"]
        if request.step == 1 and request.parent_id != self._image_ids.get((request.seed, 0, 0)):
            raise UserError(
                f"params.yaml: seed {request.seed} is not the image that the archive {name} starts its chains from; "
                f"allowed: seeds.sources with the archive {name} itself, as in `-S seeds.sources={name}`."
            )
        image_id = self._image_ids.get((request.seed, request.repeat, request.step))
        if image_id is None:
            raise Absent(f"the archive {name} has no image of this step")
        return answer(in_store(self._store, image_id, name), request.model)


def answer(image: bytes, model: str) -> Answer:
    """An answer out of an archive: who made it is what the archive's owner says, and nothing else is known."""
    return Answer(image=image, model_answered=model)


def read(name: str) -> pd.DataFrame:
    """The table of an archive's images, see `tables.ARCHIVE`.

    Raises:
        UserError: there is none, or it is damaged.
    """
    path = paths.archive(name)
    if not path.is_file():
        raise UserError(f"{path}: not there; `banana100 import {name} ARCHIVE` makes it.")
    return tables.read(path, tables.ARCHIVE)


def digest(rows: Iterable[Mapping[str, Any]]) -> str:
    """What a table is known by: sha256 of the canonical JSON of its rows; cells that are left out are missing."""
    return identity([{name: row.get(name) for name in tables.ARCHIVE.names} for row in rows])


def image_ids(campaign: Campaign) -> dict[tuple[str, int, int], str]:
    """The sha256 of each image of a campaign, by seed, repeat and step; those of seeds by seed, 0 and 0.

    Raises:
        UserError: see `Archive`; or the archive has no image of that model in that setting.
    """
    config: Any = campaign.config
    path = paths.archive(config.archive)
    rows, found = _table(config.archive, path.stat().st_mtime_ns if path.exists() else 0)
    if found != config.table or not (rows["archive_sha256"] == config.sha256).all():
        raise UserError(
            f"params.yaml: a campaign on the archive {config.archive} has other digests than {path}; allowed: those of "
            f"the table, as `banana100 import {config.archive}` writes both."
        )
    setting = rows["setting"].isna() if config.setting is None else rows["setting"] == config.setting
    chains = rows[(rows["step"] > 0) & (rows["model"] == campaign.model) & setting]
    if chains.empty:
        raise UserError(
            f"params.yaml: a campaign on the archive {config.archive} asks for the model {campaign.model}, setting "
            f"{config.setting}; allowed: those that {path} has."
        )
    kept = pd.concat([rows[rows["step"] == 0].assign(repeat=0), chains])
    keys = kept[["seed", "repeat", "step"]].itertuples(index=False, name=None)
    return dict(zip(keys, kept["image_id"], strict=True))


@lru_cache(maxsize=4)
def _table(name: str, _: int) -> tuple[pd.DataFrame, str]:
    """An archive's table and its digest, read once for all chains of a process unless the file changes."""
    rows = read(name)
    return rows, digest(tables.records(rows))


def seeds(name: str) -> Iterator[tuple[str, str, str]]:
    """The seeds of an archive: name, file in the archive and sha256."""
    rows = read(name)
    yield from rows.loc[rows["step"] == 0, ["seed", "member", "image_id"]].itertuples(index=False, name=None)


def in_store(store: AnswerStore, image_id: str, name: str) -> bytes:
    """An image of an archive.

    Raises:
        UserError: the store does not have it, or a damaged one.
    """
    if not store.has_object(image_id):
        raise UserError(
            f"archive {name}: the image {image_id[:12]}… is not in the store; run `banana100 import {name}` again, or "
            "fetch the data with `dvc pull`."
        )
    return store.image(image_id)
