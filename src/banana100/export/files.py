"""What the formats write beside their own document."""

import json
from pathlib import Path
from typing import Any

from banana100.export.lineage import Lineage


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document, readable and always with the same bytes."""
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def copy_tables(lineage: Lineage, folder: Path) -> None:
    """Write the Parquet files byte for byte, at their paths in the project."""
    for table in lineage.tables:
        (folder / table.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / table.path).write_bytes(table.content)
