"""Every path of the project, in one place.

Paths inside the project are relative to its root: DVC starts each stage there.
"""

import os
from functools import cache
from pathlib import Path

import platformdirs

from banana100.errors import UserError

PARAMS = Path("params.yaml")
PIPELINE = Path("dvc.yaml")
LOCK = Path("dvc.lock")

OWN_SEEDS = Path("data/own_seeds")
# What archives of images made elsewhere hold: tables that `banana100 import` writes and git keeps.
ARCHIVES = Path("data/archives")

SEEDS = Path("data/seeds")
SEED_TABLE = SEEDS / "seeds.parquet"
SEED_REQUESTS_TABLE = SEEDS / "requests.parquet"
GENERATED_SEEDS = SEEDS / "generated"

REPLICAS = Path("data/replicas")
PREVIEWS = Path("data/previews")
LINEAGE = Path("data/lineage")
IMAGES_TABLE = LINEAGE / "images.parquet"
REQUESTS_TABLE = LINEAGE / "requests.parquet"
REFUSALS_TABLE = LINEAGE / "refusals.parquet"
PARKED_TABLE = LINEAGE / "parked.parquet"

SCORES = Path("data/scores")
SCORERS_TABLE = SCORES / "scorers.parquet"
FAILURES_TABLE = SCORES / "failures.parquet"
DRIFT_TABLE = SCORES / "drift.parquet"

WEIGHTS_LOCK = Path("data/weights.lock.yaml")

RANKING = Path("metrics/ranking.json")
RANKING_TABLES = Path("metrics/tables")
VERDICTS_TABLE = RANKING_TABLES / "verdicts.csv"
CHAINS_TABLE = RANKING_TABLES / "chains.csv"
FAILURES_BY_SEED_TABLE = RANKING_TABLES / "failures.csv"
RANKS_TABLE = RANKING_TABLES / "ranks.csv"
REDUNDANCY_TABLE = RANKING_TABLES / "redundancy.csv"
SUBSET_TABLE = RANKING_TABLES / "subset.csv"
CHAIN_CURVES_TABLE = RANKING_TABLES / "chain_curves.parquet"
CURVES = Path("metrics/curves")

REPORT = Path("metrics/report")
REPORT_PAGE = REPORT / "index.html"
REPORT_FIGURES = REPORT / "figures"

# What a run starts from, as git keeps it.
INPUTS = (Path("src"), PARAMS, PIPELINE, Path("requirements.txt"), OWN_SEEDS, ARCHIVES, WEIGHTS_LOCK)


def seed_image(seed: str, extension: str = "png") -> Path:
    """Where the seed image called `seed` lies; only those of an archive are no PNG that we made."""
    return SEEDS / f"{seed}.{extension}"


def archive(name: str) -> Path:
    """The table of what the archive called `name` holds."""
    return ARCHIVES / f"{name}.parquet"


@cache
def chain_folder(campaign: str, seed: str, repeat: int) -> Path:
    """A chain's folder, relative to the replicas' and the previews' root alike."""
    return Path(campaign) / seed / f"r{repeat}"


def replica(campaign: str, seed: str, repeat: int, step: int, extension: str) -> Path:
    """Where step `step` of a chain lies; `extension` has no dot and follows from the image's bytes."""
    return REPLICAS / chain_folder(campaign, seed, repeat) / f"{step:03d}.{extension}"


def preview(campaign: str, seed: str, repeat: int, step: int) -> Path:
    """Where the small WebP of step `step` of a chain lies."""
    return PREVIEWS / chain_folder(campaign, seed, repeat) / f"{step:03d}.webp"


def scores(metric: str) -> Path:
    """The table of one metric's scores."""
    return SCORES / f"{metric}.parquet"


def curve(metric: str) -> Path:
    """Plot data of one metric: change with step, over all chains."""
    return CURVES / f"{metric}.csv"


def store() -> Path:
    """The durable store of answers and scores, outside DVC and shared by all clones (`BANANA100_STORE`)."""
    return _user_folder("BANANA100_STORE", "store")


def weights() -> Path:
    """The folder of trained weights that metrics download, shared by all clones (`BANANA100_WEIGHTS`)."""
    return _user_folder("BANANA100_WEIGHTS", "weights")


def _user_folder(variable: str, name: str) -> Path:
    if value := os.environ.get(variable):
        folder = Path(value)
        if not folder.is_absolute():
            raise UserError(
                f"environment: {variable} is {value!r}; allowed: an absolute path, as clones and experiments share it."
            )
        for output in (SEEDS, REPLICAS, PREVIEWS, LINEAGE, SCORES, RANKING.parent):
            if folder.resolve().is_relative_to(output.resolve()):
                raise UserError(f"environment: {variable} is {value!r}; allowed: a path outside {output}, an output.")
        return folder
    return platformdirs.user_data_path("banana100", appauthor=False) / name
