"""Between the store and tables of requests: rows to write, and answers to take over from rows of released data."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from banana100.files import sha256_of
from banana100.generators.base import Answer
from banana100.generators.store import AnswerStore, StoredAnswer
from banana100.lineage.identity import Request, canonical_json


def asked(request: Request) -> dict[str, Any]:
    """The columns of a row that say what was asked."""
    return asdict(request) | {"config": canonical_json(request.config)}


def request_row(request: Request, answer: StoredAnswer) -> dict[str, Any]:
    """The row of the requests table."""
    return {"request_id": request.id, "image_id": answer.image_id} | asked(request) | answer.record


def proven(row: Mapping[str, Any]) -> Request | None:
    """The request that a row tells of, if its id proves true."""
    request = Request.of_row(row)
    return request if request and request.id == row["request_id"] else None


def adopt(store: AnswerStore, rows: Iterable[Mapping[str, Any]], place: Callable[[Request], Path | None]) -> int:
    """Give the store the answers that lie in the workspace and that it lacks; returns how many.

    A clone that pulled released data has the images but an empty store: without this a changed param would buy them
    all again. Only rows whose request id and image id prove true are taken.

    Args:
        store: where answers go.
        rows: of a requests table.
        place: where the image that answers a request lies, if anywhere.
    """
    adopted = 0
    for row in rows:
        request = proven(row)
        if request is None or store.holds(request):
            continue
        path = place(request)
        if path and path.is_file() and sha256_of(data := path.read_bytes()) == row["image_id"]:
            facts = {name: row[name] for name in Answer(model_answered=None).record}
            with store.claim(request):
                store.put(request, Answer(image=data, **facts))
            adopted += 1
    return adopted
