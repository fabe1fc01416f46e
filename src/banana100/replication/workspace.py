"""From the store to the workspace and back: replicas, previews and lineage tables as stage outputs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from banana100 import images, paths
from banana100.errors import UserError
from banana100.files import sha256_of, write_atomically
from banana100.generators import REMOTE, adoption
from banana100.generators.base import Refusal
from banana100.generators.store import AnswerStore
from banana100.generators.walks import Parked, stored
from banana100.lineage import tables
from banana100.lineage.identity import Request
from banana100.params import PreviewParams
from banana100.replication.chains import Chain


def seed_images(store: AnswerStore | None = None) -> dict[str, str]:
    """Image id of each chosen seed by name, in the order of choice.

    Args:
        store: if given, the seeds are kept there too, with the replicas that are made from them.

    Raises:
        UserError: a seed's file is missing or is not the one that was chosen.
    """
    table = tables.read(paths.SEED_TABLE, tables.SEEDS)
    chosen = table[table["chosen"]].sort_values("order")
    for seed, path, image_id in chosen[["seed", "path", "image_id"]].itertuples(index=False):
        data = Path(path).read_bytes() if Path(path).is_file() else b""
        if sha256_of(data) != image_id:
            raise UserError(f"{path}: not the seed {seed} that was chosen; restore it with `dvc checkout` or re-run.")
        if store:
            store.keep_object(image_id, data)
    return dict(zip(chosen["seed"], chosen["image_id"], strict=True))


def adopt(store: AnswerStore) -> int:
    """Give the store the answers and refusals that lie in the workspace and that it lacks; returns how many answers."""
    if not (paths.IMAGES_TABLE.exists() and paths.REQUESTS_TABLE.exists()):
        return 0
    found = tables.read(paths.IMAGES_TABLE, tables.IMAGES).dropna(subset="request_id")
    place = {request_id: Path(path) for request_id, path in found[["request_id", "path"]].itertuples(index=False)}
    rows = tables.each(tables.read(paths.REQUESTS_TABLE, tables.REQUESTS))
    adopted = adoption.adopt(store, rows, lambda request: place.get(request.id))
    if paths.REFUSALS_TABLE.exists():
        _adopt_refusals(store)
    return adopted


def _adopt_refusals(store: AnswerStore) -> None:
    by_request: dict[str, list[dict[str, Any]]] = {}
    rows = tables.records(tables.read(paths.REFUSALS_TABLE, tables.REFUSALS))
    for row in sorted(rows, key=lambda row: row["number"]):
        by_request.setdefault(row["request_id"], []).append(row)
    for some in by_request.values():
        request = adoption.proven(some[0])
        if request and not store.refusals(request):
            with store.claim(request):
                store.put_refusals(request, [{name: row[name] for name in Refusal(None).record} for row in some])


class Layout:
    """The workspace as it is laid out from the store, chain by chain: files at once, tables with `write`.

    Files that are already right stay as they are; the store's objects are copied, never linked, so that an edit in
    the workspace cannot reach them.

    Attributes:
        files: the replicas.
        previews: what `make_preview` is to make.
        requests: ids of the answered ones.
        refusals: rows by request id and number.
        parked: chains that end early, by key.
    """

    def __init__(self, store: AnswerStore, previews: PreviewParams) -> None:
        self._store, self._previews = store, previews
        self.files: set[Path] = set()
        self.previews: list[tuple[Path, Path, int]] = []
        self.requests: set[str] = set()
        self.refusals: dict[tuple[str, int], dict[str, Any]] = {}
        self.parked: dict[tuple[str, str, int], Parked] = {}
        # as columns: 28,000 rows as dictionaries are 200 MB
        self._images: list[pa.Table] = []
        self._requests: list[pa.Table] = []

    def add(self, chain: Chain, parked: Parked | None) -> None:
        """Lay out one chain as far as the store has it."""
        rows = [_lay_out(chain, 0, chain.seed_id, self._store.image(chain.seed_id), None)]
        answered, missing = stored(chain, self._store)
        for request, answer in answered:
            data = self._store.image(answer.image_id)
            rows.append(_lay_out(chain, request.step, answer.image_id, data, request))
        self.files.update(Path(row["path"]) for row in rows)
        self.previews += preview_tasks(rows, self._previews)
        self._images.append(pa.Table.from_pylist(rows, tables.IMAGES))
        new = [(request, answer) for request, answer in answered if request.id not in self.requests]
        self.requests.update(request.id for request, _ in new)
        self._requests.append(pa.Table.from_pylist([adoption.request_row(*pair) for pair in new], tables.REQUESTS))
        if missing:
            if parked is None or parked.request.id != missing.request.id:  # another run went on meanwhile
                parked = Parked(missing.request, "stopped", "another run was answered meanwhile", 0)
            self.parked[chain.key] = parked
        if chain.settings.backend in REMOTE:
            for request in [request for request, _ in answered] + ([missing.request] if missing else []):
                self._add_refusals(request)

    def write(self) -> set[Path]:
        """Write the tables of lineage; gives their files."""
        written = {
            paths.IMAGES_TABLE: (tables.IMAGES, pa.concat_tables(self._images)),
            paths.REQUESTS_TABLE: (tables.REQUESTS, pa.concat_tables(self._requests).sort_by("request_id")),
            paths.REFUSALS_TABLE: (tables.REFUSALS, [self.refusals[key] for key in sorted(self.refusals)]),
            paths.PARKED_TABLE: (tables.PARKED, [_parked_row(*item) for item in self.parked.items()]),
        }
        for path, (schema, rows) in written.items():
            tables.write(path, schema, rows)
        return set(written)

    def _add_refusals(self, request: Request) -> None:
        for number, record in enumerate(self._store.refusals(request), start=1):
            row = {"request_id": request.id, "number": number} | adoption.asked(request) | record
            self.refusals[request.id, number] = row


def _parked_row(chain: tuple[str, str, int], parked: Parked) -> dict[str, Any]:
    place = dict(zip(tables.CHAIN, chain, strict=True)) | {"step": parked.request.step}
    why = {"cause": parked.cause, "reason": parked.reason, "attempts": parked.attempts}
    return place | {"request_id": parked.request.id} | why


def preview_tasks(rows: Iterable[dict[str, Any]], params: PreviewParams) -> list[tuple[Path, Path, int]]:
    """(image, preview, side) for every step that params asks for."""
    return [
        (Path(row["path"]), paths.preview(row["campaign"], row["seed"], row["repeat"], row["step"]), params.side)
        for row in rows
        if row["step"] in params.steps
    ]


def make_preview(task: tuple[Path, Path, int]) -> Path:
    """Write one preview; see `preview_tasks`.

    Raises:
        UserError: the image cannot be decoded.
    """
    image, preview, side = task
    try:
        content = images.encode_preview(image.read_bytes(), side)
    except images.ImageError as error:
        raise UserError(f"{image}: {error}; there is no preview of it.") from None
    write_atomically(preview, content)
    return preview


def _lay_out(chain: Chain, step: int, image_id: str, data: bytes, request: Request | None) -> dict[str, Any]:
    try:
        header = images.read_header(data)
    except images.ImageError as error:
        what = f"step {step} of {paths.chain_folder(chain.campaign, chain.seed, chain.repeat)}"
        raise UserError(f"{what}: the answer in the store, object {image_id[:12]}…, {error}.") from None
    path = paths.replica(chain.campaign, chain.seed, chain.repeat, step, header.extension)
    if not path.is_file() or path.stat().st_size != len(data) or path.read_bytes() != data:
        write_atomically(path, data)
    return {
        "image_id": image_id,
        "path": path.as_posix(),
        "bytes": len(data),
        "width": header.width,
        "height": header.height,
        "mode": header.mode,
        "campaign": chain.campaign,
        "seed": chain.seed,
        "repeat": chain.repeat,
        "step": step,
        "parent_id": request.parent_id if request else None,
        "request_id": request.id if request else None,
    }
