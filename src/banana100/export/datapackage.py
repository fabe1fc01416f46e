"""Frictionless Data Package: the tables as CSV, with Table Schemas and foreign keys.

A missing value is an empty cell; so an empty text, which no table holds, would read back as missing. Floats are written
with the fewest digits that give them back exactly.
"""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
from frictionless import Package
from pyarrow import csv

from banana100.export.files import write_json
from banana100.export.lineage import AUTHORS, CITATION, NAME, PAPER, Lineage, Table
from banana100.files import sha256_of
from banana100.lineage.columns import KEYS, REFERENCES, SCHEMAS, TABLES, constraints, description

DOCUMENT = "datapackage.json"
_TYPES = {
    "string": {"type": "string"},
    "int64": {"type": "integer"},
    "double": {"type": "number", "floatNumber": True},
    "bool": {"type": "boolean"},
}


def write(lineage: Lineage, folder: Path, with_images: bool) -> None:
    """Write the document and the tables."""
    resources = []
    for table in lineage.tables:
        content = _csv(table)
        path = table.path.with_suffix(".csv")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        resources.append(resource(table, path, content))
    write_json(folder / DOCUMENT, document(lineage, resources, with_images))


def document(lineage: Lineage, resources: list[dict[str, Any]], with_images: bool) -> dict[str, Any]:
    """The descriptor of the package.

    Raises:
        frictionless.FrictionlessException: it is not a valid one.
    """
    descriptor = {
        "name": "banana100-lineage",
        "title": NAME,
        "description": lineage.description(with_images),
        "homepage": PAPER,
        "version": lineage.version,
        "created": f"{lineage.date}T00:00:00Z",
        "licenses": [
            {"name": licence.name, "title": f"{licence.name}, for {licence.covers}"}
            | ({"path": licence.url} if licence.url else {})
            for licence in lineage.licences
        ],
        "contributors": [{"title": author, "role": "author"} for author in AUTHORS],
        "sources": [{"title": CITATION, "path": PAPER}],
        "resources": resources,
    }
    return Package.from_descriptor(descriptor).to_descriptor()


def resource(table: Table, path: Path, content: bytes) -> dict[str, Any]:
    """The descriptor of one table."""
    return {
        "name": _name(table),
        "type": "table",
        "description": TABLES[table.name],
        "path": path.as_posix(),
        "scheme": "file",
        "format": "csv",
        "mediatype": "text/csv",
        "encoding": "utf-8",
        "bytes": len(content),
        "hash": f"sha256:{sha256_of(content)}",
        "schema": _schema(table.name),
    }


def _name(table: Table) -> str:
    return f"scores-{table.path.stem}" if table.name == "scores" else table.name


def _schema(name: str) -> dict[str, Any]:
    fields = [
        {"name": field.name, "description": description(name, field.name), **_TYPES[str(field.type)]}
        | ({"constraints": kept} if (kept := constraints(name, field.name)) else {})
        for field in SCHEMAS[name]
    ]
    foreign = [
        # a table refers to itself by an empty name
        {"fields": [column], "reference": {"resource": "" if table == name else table, "fields": [referred]}}
        for column, (table, referred) in REFERENCES.get(name, {}).items()
    ]
    schema: dict[str, Any] = {"fields": fields, "missingValues": [""]}
    if name in KEYS:
        schema["primaryKey"] = KEYS[name]
    return schema | ({"foreignKeys": foreign} if foreign else {})


def _csv(table: Table) -> bytes:
    rows = pa.Table.from_pandas(table.rows, schema=SCHEMAS[table.name], preserve_index=False)
    stream = io.BytesIO()
    csv.write_csv(rows, stream)
    return stream.getvalue()
