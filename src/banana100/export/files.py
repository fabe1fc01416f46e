"""What the formats write beside their own document."""

import json
from pathlib import Path
from typing import Any

from banana100 import paths
from banana100.errors import UserError
from banana100.export.lineage import Lineage
from banana100.files import sha256_of


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document, readable and always with the same bytes."""
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def copy_tables(lineage: Lineage, folder: Path) -> None:
    """Write the Parquet files byte for byte, at their paths in the project."""
    for table in lineage.tables:
        (folder / table.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / table.path).write_bytes(table.content)


def read_image(path: Path, image_id: str) -> bytes:
    """The content of an image file that a table names.

    Raises:
        UserError: it lies elsewhere than images do, is absent, or is not the one that the table names.
    """
    if ".." in path.parts or not (path.is_relative_to(paths.SEEDS) or path.is_relative_to(paths.REPLICAS)):
        raise UserError(f"{path}: named by a table; allowed: an image in {paths.SEEDS} or {paths.REPLICAS}.")
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: no such image; fetch it with `dvc pull select_seeds replicate`.") from None
    if sha256_of(content) != image_id:
        raise UserError(f"{path}: not the image that the tables name; restore it with `dvc checkout`.")
    return content
