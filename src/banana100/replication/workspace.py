"""From the store to the workspace and back: replicas, previews and lineage tables as stage outputs."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from banana100 import images, paths
from banana100.errors import UserError
from banana100.files import sha256_of, write_atomically
from banana100.lineage import tables
from banana100.lineage.identity import Request, canonical_json
from banana100.params import PreviewParams
from banana100.replication.backends.base import Answer
from banana100.replication.chains import Chain, Replica
from banana100.replication.store import AnswerStore


def seed_images() -> dict[str, str]:
    """Image id of each chosen seed by name, in the order of choice.

    Raises:
        UserError: a seed's file is missing or is not the one that was chosen.
    """
    table = tables.read(paths.SEED_TABLE, tables.SEEDS)
    chosen = table[table["chosen"]].sort_values("order")
    for seed, path, image_id in chosen[["seed", "path", "image_id"]].itertuples(index=False):
        if not Path(path).is_file() or sha256_of(Path(path).read_bytes()) != image_id:
            raise UserError(f"{path}: not the seed {seed} that was chosen; restore it with `dvc checkout` or re-run.")
    return dict(zip(chosen["seed"], chosen["image_id"], strict=True))


def adopt(store: AnswerStore) -> int:
    """Give the store the answers that lie in the workspace and that it lacks; returns how many.

    A clone that pulled released data has the images but an empty store: without this a changed param would buy them
    all again. Only rows whose request id and image id prove true are taken.
    """
    if not (paths.IMAGES_TABLE.exists() and paths.REQUESTS_TABLE.exists()):
        return 0
    found = tables.read(paths.IMAGES_TABLE, tables.IMAGES).dropna(subset="request_id").set_index("request_id")
    adopted = 0
    for row in tables.records(tables.read(paths.REQUESTS_TABLE, tables.REQUESTS)):
        request = Request.of_row(row)
        if request is None or request.id != row["request_id"] or request.id not in found.index or store.holds(request):
            continue
        path = Path(found.loc[[request.id], "path"].iloc[0])
        if path.is_file() and sha256_of(data := path.read_bytes()) == row["image_id"]:
            facts = {name: row[name] for name in Answer.__dataclass_fields__ if name != "image"}
            with store.claim(request):
                store.put(request, Answer(image=data, **facts))
            adopted += 1
    return adopted


def materialise(chain_replicas: Iterable[tuple[Chain, Sequence[Replica]]], store: AnswerStore) -> list[dict[str, Any]]:
    """Lay out one file a step from the store, and return the rows of the images table.

    Files that are already right stay as they are; the store's objects are copied, never linked, so that an edit in
    the workspace cannot reach them.
    """
    rows = []
    for chain, replicas in chain_replicas:
        seed = paths.seed_image(chain.seed).read_bytes()
        rows.append(_lay_out(chain, 0, chain.seed_id, seed, None))
        for replica in replicas:
            data = store.image(replica.answer.image_id)
            rows.append(_lay_out(chain, replica.request.step, replica.answer.image_id, data, replica.request))
    return rows


def request_rows(replicas: Iterable[Replica]) -> list[dict[str, Any]]:
    """The rows of the requests table, one a request, ordered by request id."""
    rows = {}
    for replica in replicas:
        asked = asdict(replica.request) | {"config": canonical_json(replica.request.config)}
        identities = {"request_id": replica.request.id, "image_id": replica.answer.image_id}
        rows[replica.request.id] = identities | asked | replica.answer.record
    return [rows[request_id] for request_id in sorted(rows)]


def preview_tasks(rows: Iterable[dict[str, Any]], params: PreviewParams) -> list[tuple[Path, Path, int]]:
    """(image, preview, side) for every step that params asks for."""
    return [
        (Path(row["path"]), paths.preview(row["campaign"], row["seed"], row["repeat"], row["step"]), params.side)
        for row in rows
        if row["step"] in params.steps
    ]


def make_preview(task: tuple[Path, Path, int]) -> Path:
    """Write one preview; see `preview_tasks`."""
    image, preview, side = task
    write_atomically(preview, images.encode_preview(image.read_bytes(), side))
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
