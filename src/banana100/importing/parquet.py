"""Images in the rows of a Parquet file, as the Hugging Face Hub keeps them.

A row is a file by the name of its other cells, as in seed=moss/step=3/000017-003.png: the row's number, and the path
that the image has beside its bytes.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from banana100.errors import UserError
from banana100.importing.guards import Bound, Entry, checked, damage, digest

_LONGEST = 100  # of a cell that is a part of a name: longer ones are prompts
_ROWS = 1  # at once: one image, whatever the file's row groups hold


class Parquet:
    """A Parquet file with a column of images: of bytes, or of structs with a field bytes."""

    kind = "Parquet file"

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self) -> Iterator[Entry]:
        """See `Archive.entries`."""
        bound = Bound(self._path)
        for name, data in self._rows():
            bound.add(name, len(data))
            yield Entry(name, len(data))

    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """See `Archive.read`."""
        yield from ((name, data) for name, data in self._rows() if name in names)

    def sha256(self) -> str:
        """See `Archive.sha256`."""
        return digest(self._path)

    def _rows(self) -> Iterator[tuple[str, bytes]]:
        with damage(self._path), pq.ParquetFile(self._path) as file:
            image, told = _columns(file.schema_arrow, self._path)
            number = 0
            for batch in file.iter_batches(_ROWS, columns=[image, *told], use_threads=False):
                for row in batch.to_pylist():
                    cell = row[image] if isinstance(row[image], dict) else {"bytes": row[image]}
                    parts = [f"{key}={_part(row[key])}" for key in told if len(str(row[key])) <= _LONGEST]
                    last = "-".join(filter(None, [f"{number:06d}", _part(cell.get("path") or "")]))
                    yield checked("/".join([*parts, last]), self._path), cell["bytes"] or b""
                    number += 1


def is_parquet(path: Path) -> bool:
    """Whether a file says that it is Parquet."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def is_table(path: Path) -> bool:
    """Whether a file is Parquet without images, as lies beside them."""
    if not is_parquet(path):
        return False
    with damage(path), pq.ParquetFile(path) as file:
        return not _images(file.schema_arrow)


def _columns(schema: pa.Schema, path: Path) -> tuple[str, list[str]]:
    """The first column of images, and those whose cells are parts of names."""
    if not (images := _images(schema)):
        raise UserError(f"{path} has no column of images; allowed: one of bytes, or of structs with bytes.")
    plain = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
    return images[0], [field.name for field in schema if any(test(field.type) for test in plain)]


def _images(schema: pa.Schema) -> list[str]:
    """The columns of images."""

    def is_image(kind: pa.DataType) -> bool:
        if pa.types.is_struct(kind):
            return any(field.name == "bytes" and _is_bytes(field.type) for field in kind)
        return _is_bytes(kind)

    return [field.name for field in schema if is_image(field.type)]


def _is_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _part(cell: object) -> str:
    """A cell as a part of a path: no slash, no control character."""
    return quote(str(cell), safe=" !#$&'()+,;=@[]{}~^`")
