"""The row tables, as Parquet: their columns, and reading and writing them the same way everywhere."""

import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from banana100.errors import UserError
from banana100.files import write_atomically

_text, _whole, _real = pa.string(), pa.int64(), pa.float64()

# One row a candidate. `order` counts the chosen from 0; `distance` is the one that decided (see seeds/choice.py).
SEEDS = pa.schema(
    {
        "seed": _text,
        "source": _text,
        "origin": _text,
        "licence": _text,
        "source_sha256": _text,
        "source_width": _whole,
        "source_height": _whole,
        "refused": _text,
        "structure": _real,
        "texture": _real,
        "smoothness": _real,
        "edges": _real,
        "colourfulness": _real,
        "chosen": pa.bool_(),
        "order": _whole,
        "distance": _real,
        "image_id": _text,
        "path": _text,
    }
)

# One row an image file. Step 0 is the seed: no parent, no request.
IMAGES = pa.schema(
    {
        "image_id": _text,
        "path": _text,
        "bytes": _whole,
        "width": _whole,
        "height": _whole,
        "mode": _text,
        "campaign": _text,
        "seed": _text,
        "repeat": _whole,
        "step": _whole,
        "parent_id": _text,
        "request_id": _text,
    }
)

# One row an image of an archive that `banana100 import` took in, `member` its file there. Step 0, the seed, belongs to
# all repeats, settings and models: those are missing there.
ARCHIVE = pa.schema(
    {
        "archive_sha256": _text,
        "member": _text,
        "image_id": _text,
        "model": _text,
        "setting": _text,
        "seed": _text,
        "repeat": _whole,
        "step": _whole,
    }
)

# The columns that name a chain.
CHAIN = ["campaign", "seed", "repeat"]

# What was asked, and of whom.
_ASKED = {
    "request_id": _text,
    "backend": _text,
    "model": _text,
    "model_answered": _text,
    "prompt": _text,
    "config": _text,
    "parent_id": _text,
    "previous_id": _text,
    "seed": _text,
    "repeat": _whole,
    "step": _whole,
}

# One row a request that was answered. `asked_at` and `seconds` are null where the backend is deterministic.
REQUESTS = pa.schema(
    _ASKED
    | {
        "image_id": _text,
        "response_id": _text,
        "finish_reason": _text,
        "reasoning": _text,
        "attempts": _whole,
        "input_tokens": _whole,
        "output_tokens": _whole,
        "cost_usd": _real,
        "asked_at": _text,
        "seconds": _real,
    }
)

# One row an answer without an image that can be used: a result of the study, and billed all the same.
REFUSALS = pa.schema(
    _ASKED
    | {
        "number": _whole,
        "finish_reason": _text,
        "detail": _text,
        "response_id": _text,
        "reasoning": _text,
        "input_tokens": _whole,
        "output_tokens": _whole,
        "cost_usd": _real,
        "asked_at": _text,
        "seconds": _real,
    }
)

# One row a chain that ends early: the step that has no image, and why.
PARKED = pa.schema(
    {
        "campaign": _text,
        "seed": _text,
        "repeat": _whole,
        "step": _whole,
        "request_id": _text,
        "cause": _text,
        "reason": _text,
        "attempts": _whole,
    }
)

SCORES = pa.schema({"image_id": _text, "metric": _text, "score": _real, "scorer_id": _text})

# One row an image after step 0 and full-reference metric; the reference is its chain's step 0.
DRIFT = pa.schema({"image_id": _text, "reference_id": _text, "metric": _text, "score": _real, "scorer_id": _text})

# One row a metric: what its scores were computed with. `parameters` names the trained files, if there are any, joined
# by semicolons; `libraries` are those beside pyiqa and torch, for networks.
SCORERS = pa.schema(
    {
        "scorer_id": _text,
        "metric": _text,
        "higher_is_better": pa.bool_(),
        "pyiqa": _text,
        "torch": _text,
        "libraries": _text,
        "parameters": _text,
        "parameters_sha256": _text,
        "parameters_licence": _text,
        "preprocessing": _text,
        "precision": _text,
        "kernels": _text,
        "decimals": _whole,
        "source_sha256": _text,
    }
)

# One row an image and metric without a score.
FAILURES = pa.schema({"image_id": _text, "reference_id": _text, "metric": _text, "reason": _text, "scorer_id": _text})


# Columns that tables of earlier versions lack; missing values say the same.
_LATER = {"previous_id"}

_MEND = "restore it with `dvc checkout`, or delete it to have it made again"


def write(path: Path, schema: pa.Schema, rows: pd.DataFrame | pa.Table | Iterable[Mapping[str, Any]]) -> None:
    """Write rows, in the order given; equal rows give equal bytes, and a killed write leaves the old file.

    Raises:
        pyarrow.ArrowInvalid: a row does not fit the schema.
    """
    if isinstance(rows, pd.DataFrame):
        table = pa.Table.from_pandas(rows, schema=schema, preserve_index=False).replace_schema_metadata()
    elif isinstance(rows, pa.Table):
        table = rows.combine_chunks()  # how it was put together must not show
    else:
        table = pa.Table.from_pylist(list(rows), schema=schema)
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="zstd")
    write_atomically(path, stream.getvalue())


def read(path: Path, schema: pa.Schema, content: BinaryIO | None = None) -> pd.DataFrame:
    """Read a table; whole numbers and truth values that may be missing keep their type.

    Args:
        path: the file, which messages name.
        schema: its columns.
        content: read this instead of the file.

    Raises:
        UserError: the file is absent, damaged, or has other columns.
    """
    try:
        table = _with_later(pq.ParquetFile(content or path).read(), schema)
        if table.schema.names == schema.names:
            table = table.cast(schema)
    except FileNotFoundError:
        raise UserError(f"{path}: no such table; make it with `dvc repro` or fetch it with `dvc pull`.") from None
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"{path}: not a whole Parquet file ({str(error).splitlines()[0].rstrip('.')}); {_MEND}."
        ) from None
    if table.schema.names != schema.names:
        raise UserError(
            f"{path}: has the columns {', '.join(table.schema.names)}; allowed: {', '.join(schema.names)}; {_MEND}."
        )
    return table.to_pandas(types_mapper={_whole: pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get)


def is_simulated(backend: str, model_answered: str | None) -> bool:
    """Whether no image model gave an answer: a generator's own server may be simulated too."""
    return backend == "simulated" or (model_answered or "").startswith("simulated/")


def _with_later(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns that it is too old to have: released data must stay readable."""
    for name in _LATER.intersection(schema.names).difference(table.schema.names):
        field = schema.field(name)
        table = table.add_column(
            min(schema.get_field_index(name), table.num_columns), field, pa.nulls(len(table), field.type)
        )
    return table


def each(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows as in `records`, a thousand at a time: all at once they may fill the memory."""
    for start in range(0, len(frame), 1000):
        yield from records(frame.iloc[start : start + 1000])


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON values; None where a value is missing."""
    cells = frame.astype(object)
    return cells.where(cells.notna(), None).to_dict("records")
