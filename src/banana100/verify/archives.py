"""Images of archives: each the one that the archive's table names, and none that the table has is missing."""

from collections.abc import Iterator

import pandas as pd

from banana100 import paths
from banana100.generators import archive
from banana100.lineage.tables import CHAIN
from banana100.params import ArchiveCampaign
from banana100.verify.faults import Fault, State, differing


def check(state: State) -> Iterator[Fault]:
    """Every image of every active campaign on an archive, and where its chains end."""
    for name, campaign in state.params.active_campaigns().items():
        if isinstance(campaign, ArchiveCampaign):
            table = paths.archive(campaign.config.archive)
            yield from _images(state, name, str(table), archive.image_ids(campaign))


def _images(state: State, name: str, table: str, image_ids: dict[tuple[str, int, int], str]) -> Iterator[Fault]:
    images = state.snapshot.images
    images = images[images["campaign"] == name]
    state.counted["images of archives"] += len(images)
    # step 0 belongs to all repeats
    repeats = images["repeat"].where(images["step"] > 0, 0)
    keys = images.assign(repeat=repeats)[["seed", "repeat", "step"]].itertuples(index=False, name=None)
    pair = pd.DataFrame({"image_id": images["image_id"], "expected": [image_ids.get(key) for key in keys]})
    yield from differing(pair, f"{paths.IMAGES_TABLE} " + images["path"], "image_id", "expected", table)
    parked = state.snapshot.parked
    parked = parked[parked["campaign"] == name]
    for _, seed, repeat, step in parked[[*CHAIN, "step"]].itertuples(index=False, name=None):
        if image_id := image_ids.get((seed, repeat, step)):
            where = f"{paths.PARKED_TABLE} {name} {seed} r{repeat}"
            yield Fault(where, f"the image of step {step}", "absent", image_id, table)
