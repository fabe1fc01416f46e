"""The rows that the form `hf` writes: an image's place, its request, its seed, and what every metric says of it.

Others read `campaign`, `seed`, `repeat`, `step` and `image` by these names: they stay.
"""

import pandas as pd
import pyarrow as pa

from banana100.catalogue.metrics import DRIFT_METRICS
from banana100.export.lineage import Lineage
from banana100.lineage import tables
from banana100.lineage.columns import description
from banana100.lineage.tables import CHAIN

_PLACE = [*CHAIN, "step"]
_IMAGE = [*_PLACE, *(name for name in tables.IMAGES.names if name not in _PLACE)]
_REQUEST = ["prompt", "backend", "model", "model_answered"]
_SEED = ["origin", "licence"]


def schema(lineage: Lineage) -> pa.Schema:
    """The columns beside the image."""
    fields = [tables.IMAGES.field(name) for name in _IMAGE]
    fields += [tables.REQUESTS.field(name) for name in _REQUEST]
    fields += [pa.field("simulated", pa.bool_())]
    fields += [pa.field(f"seed_{name}", pa.string()) for name in _SEED]
    fields += [pa.field(metric, pa.float64()) for metric in metrics(lineage)]
    return pa.schema(fields)


def metrics(lineage: Lineage) -> list[str]:
    """The metrics, each with a column of its own: the no-reference ones, then those that measure drift."""
    return sorted((row["metric"] for row in lineage.scorers), key=lambda metric: (metric in DRIFT_METRICS, metric))


def meanings(lineage: Lineage) -> dict[str, str]:
    """What each column means, the image's first."""
    told = {"image": "the image: the bytes of its file as they are, and the file's name"}
    told |= {name: description("images", name) for name in _IMAGE}
    told |= {name: f"{description('requests', name)}; missing at step 0" for name in _REQUEST}
    told["simulated"] = "whether no image model made it: the simulator did, or a server that says that it is simulated"
    told |= {f"seed_{name}": f"of the seed: {description('seeds', name)}" for name in _SEED}
    for row in lineage.scorers:
        better = "higher" if row["higher_is_better"] else "lower"
        drift = ", against step 0 of its chain; missing at step 0" if row["metric"] in DRIFT_METRICS else ""
        told[row["metric"]] = f"score by {row['metric']}, {better} is better{drift}; missing where it failed"
    return {name: told[name] for name in ["image", *schema(lineage).names]}


def rows(lineage: Lineage) -> pd.DataFrame:
    """One row an image, without the image, in the order of campaign, seed, repeat and step."""
    images = lineage.rows("images").sort_values(_PLACE, ignore_index=True)
    found = {name: images[name] for name in _IMAGE}
    requests = lineage.rows("requests")
    for name in _REQUEST:
        found[name] = _looked_up(images["request_id"], requests["request_id"], requests[name])
    found["simulated"] = _simulated(lineage, images)
    seeds = pd.DataFrame(lineage.seeds, columns=tables.SEEDS.names)
    for name in _SEED:
        found[f"seed_{name}"] = _looked_up(images["seed"], seeds["seed"], seeds[name])
    for table in lineage.files("scores"):
        found[table.path.stem] = _looked_up(images["image_id"], table.rows["image_id"], table.rows["score"])
    return pd.DataFrame(found).join(_drift(lineage, images))[schema(lineage).names]


def _looked_up(wanted: pd.Series, keys: pd.Series, values: pd.Series) -> pd.Series:
    return wanted.map(dict(zip(keys, values, strict=True)))


def _simulated(lineage: Lineage, images: pd.DataFrame) -> pd.Series:
    """Whether each image is simulated; at step 0 whether the seed was made by a simulated generator."""
    requests = {row["request_id"] for row in lineage.requests if row["simulated"]}
    seeds = {seed for seed, row in lineage.seed_requests.items() if row["simulated"]}
    return images["request_id"].isin(requests) | (images["step"].eq(0) & images["seed"].isin(seeds))


def _drift(lineage: Lineage, images: pd.DataFrame) -> pd.DataFrame:
    """Scores against step 0, a column a metric: an image that two chains share may have two of them."""
    start = images.loc[images["step"].eq(0), [*CHAIN, "image_id"]].drop_duplicates(CHAIN)
    pairs = images.merge(start.rename(columns={"image_id": "reference_id"}), how="left", on=CHAIN)
    pair, metric = ["image_id", "reference_id"], "metric"
    scores = lineage.rows("drift").drop_duplicates([*pair, metric]).pivot(index=pair, columns=metric, values="score")
    names = [name for name in metrics(lineage) if name in DRIFT_METRICS]
    found = pairs.join(scores.reindex(columns=names), on=pair)
    return found[names].where(images["step"].gt(0))
