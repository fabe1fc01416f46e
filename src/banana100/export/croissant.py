"""Croissant 1.1 (MLCommons): a record set a table, read by mlcroissant from the Parquet files beside it.

mlcroissant 1.1.1 takes a reference for a join: it refuses two record sets that refer to each other, and follows only
the first reference of a record set. So a record set refers to others only where the first of its references (fields
that refer come first, as in `REFERENCES`) points at a key, as that leaves the rows as they are; and parent_id refers to
the column of the file, not of the record set.
"""

from pathlib import Path
from typing import Any

import mlcroissant as mlc

from banana100 import paths
from banana100.export.files import copy_tables, write_json
from banana100.export.lineage import CITATION, NAME, PAPER, Licence, Lineage, Table, media_type
from banana100.lineage.columns import KEYS, REFERENCES, SCHEMAS, TABLES, description

DOCUMENT = "croissant.json"
_PARQUET = "application/x-parquet"
_TYPES = {
    "string": mlc.DataType.TEXT,
    "int64": mlc.DataType.INTEGER,
    "double": mlc.DataType.FLOAT,
    "bool": mlc.DataType.BOOL,
}


def write(lineage: Lineage, folder: Path, with_images: bool) -> None:
    """Write the document and the tables."""
    copy_tables(lineage, folder)
    write_json(folder / DOCUMENT, document(lineage, with_images))


def document(lineage: Lineage, with_images: bool) -> dict[str, Any]:
    """The Croissant document.

    Raises:
        mlcroissant.ValidationError: it is not a valid one.
    """
    context = mlc.Context(conforms_to="http://mlcommons.org/croissant/1.1")
    metadata = mlc.Metadata(
        ctx=context,
        name=NAME,
        description=lineage.description(with_images),
        cite_as=CITATION,
        creators=[mlc.Organization(ctx=context, name="The Banana100 contributors", url=PAPER)],
        date_published=lineage.date,
        keywords=["image quality assessment", "NR-IQA", "image generation", "provenance"],
        license=[_licence(context, licence) for licence in lineage.licences],
        url=PAPER,
        version=lineage.version,
        distribution=[*_files(context, lineage), *(_images(context, lineage) if with_images else [])],
        record_sets=[_record_set(context, name, lineage) for name in SCHEMAS],
    )
    return metadata.to_json()


def _licence(context: mlc.Context, licence: Licence) -> mlc.CreativeWork:
    return mlc.CreativeWork(ctx=context, name=licence.name, description=f"for {licence.covers}", url=licence.url)


def _files(context: mlc.Context, lineage: Lineage) -> list[mlc.FileObject | mlc.FileSet]:
    """A file object each table, for its digest; and the score tables as one set, which the record set reads."""
    objects = [
        mlc.FileObject(
            ctx=context,
            id=_file(table),
            name=_file(table),
            content_url=table.path.as_posix(),
            content_size=f"{len(table.content)} B",
            encoding_formats=[_PARQUET],
            sha256=table.sha256,
        )
        for table in lineage.tables
    ]
    scores = [table.path.as_posix() for table in lineage.files("scores")]
    return [*objects, _file_set(context, "score-tables", scores, [_PARQUET])]


def _file(table: Table) -> str:
    """What a file is known by: two of them are called requests.parquet."""
    return table.path.name if table.name == "scores" else f"{table.name}.parquet"


def _images(context: mlc.Context, lineage: Lineage) -> list[mlc.FileSet]:
    types = sorted({media_type(row["path"]) for row in lineage.images})
    seeds = sorted({f"{paths.SEEDS}/*{Path(row['path']).suffix}" for row in lineage.seeds})
    return [
        _file_set(context, "seed-images", seeds, sorted({media_type(row["path"]) for row in lineage.seeds})),
        _file_set(context, "replica-images", [f"{paths.REPLICAS}/**"], types),
    ]


def _file_set(context: mlc.Context, name: str, includes: list[str], types: list[str]) -> mlc.FileSet:
    return mlc.FileSet(ctx=context, id=name, name=name, includes=includes, encoding_formats=types)


def _record_set(context: mlc.Context, name: str, lineage: Lineage) -> mlc.RecordSet:
    references = REFERENCES.get(name, {})
    if not any([column] == KEYS.get(table) for table, column in list(references.values())[:1]):
        references = {}
    columns = [*references, *(column for column in SCHEMAS[name].names if column not in references)]
    fields = [
        mlc.Field(
            ctx=context,
            id=f"{name}/{column}",
            name=column,
            description=description(name, column),
            data_types=_TYPES[str(SCHEMAS[name].field(column).type)],
            source=_column(name, column, lineage),
            references=_referred(name, references.get(column), lineage),
        )
        for column in columns
    ]
    keys = [f"{name}/{column}" for column in KEYS.get(name, [])] or None
    return mlc.RecordSet(ctx=context, id=name, name=name, description=TABLES[name], key=keys, fields=fields)


def _column(name: str, column: str, lineage: Lineage) -> mlc.Source:
    extract = mlc.Extract(column=column)
    if name == "scores":
        return mlc.Source(file_set="score-tables", extract=extract)
    return mlc.Source(file_object=_file(lineage.files(name)[0]), extract=extract)


def _referred(name: str, reference: tuple[str, str] | None, lineage: Lineage) -> mlc.Source:
    if reference is None:
        return mlc.Source()
    table, column = reference
    return _column(table, column, lineage) if table == name else mlc.Source(field=f"{table}/{column}")
