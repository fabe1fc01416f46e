"""A dataset for the Hugging Face Hub, which `datasets.load_dataset(DIR)` loads: images, row tables, and a card.

A chain is a Parquet file and an image a row group of it, so that one image can be read without the others. `datasets`
decodes the images, as the files hold its features. The tables but `images`, whose columns the images have beside them,
are the project's files byte for byte.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Features, Image

from banana100.export import hf_card, hf_rows
from banana100.export.files import read_image
from banana100.export.lineage import Lineage
from banana100.lineage import tables
from banana100.lineage.tables import CHAIN
from banana100.workers import progress

DOCUMENT = "README.md"


def write(lineage: Lineage, folder: Path, with_images: bool) -> None:
    """Write images, tables and card.

    Args:
        lineage: the tables.
        folder: where to.
        with_images: of no consequence, as the images are always inside.

    Raises:
        UserError: an image is missing or damaged.
    """
    rows = hf_rows.rows(lineage)
    written = _write_images(rows, _schema(lineage), folder / hf_card.SHARDS)
    for _ in progress(written, total=len(rows), what="write images", unit="image"):
        pass
    for table in lineage.tables:
        if table.name != "images":
            (folder / table.path).parent.mkdir(parents=True, exist_ok=True)
            (folder / table.path).write_bytes(table.content)
    for name, text in hf_card.render(lineage, rows).items():
        (folder / name).write_text(text, encoding="utf-8")


def _schema(lineage: Lineage) -> pa.Schema:
    """The columns, with what `datasets` needs to know of them in the schema's metadata."""
    beside = Features.from_arrow_schema(hf_rows.schema(lineage))
    return Features({"image": Image()} | beside).arrow_schema


def _write_images(rows: pd.DataFrame, schema: pa.Schema, folder: Path) -> Iterator[None]:
    """Write a file a chain; yields after each image, the only one in memory."""
    folder.mkdir(parents=True)
    chains = rows.groupby(CHAIN, sort=False)
    for number, (chain, of_chain) in enumerate(chains):
        # images are compressed already, and a row group of one row has nothing to gain from either
        with pq.ParquetWriter(
            folder / _shard(number, *chain), schema, compression="NONE", use_dictionary=False
        ) as writer:
            for row in tables.each(of_chain):
                content = read_image(Path(row["path"]), row["image_id"])
                image = {"bytes": content, "path": PurePosixPath(row["path"]).name}
                writer.write_table(pa.Table.from_pylist([{"image": image} | row], schema=schema))
                yield


def _shard(number: int, campaign: str, seed: str, repeat: int) -> str:
    """A file's name: the number keeps the order and tells names apart; the rest is for people, and safe everywhere."""
    said = [re.sub("[^A-Za-z0-9]+", "-", name)[:40].strip("-") for name in (campaign, seed)]
    return "-".join(filter(None, (f"{number:05d}", *said, f"r{repeat}"))) + ".parquet"
