"""The durable store of answers: whatever a generator was asked and paid for, kept once and for all clones.

Layout below `BANANA100_STORE`:

    objects/ab/abcd…          image files by sha256, byte for byte as the generator sent them
    answers/12/1234….json     one answered request: all facts, and which object is its image
    refusals/12/1234….json    answers to a request without an image that can be used, oldest first
    jobs/5678….json           a job of the Batch API: its name and its requests
    locks/12/1234….lock       held while a request is being asked; removed once it is answered
    tmp/                      files being written
    journal.jsonl             one line when a request is asked and one for what came of it, with the campaign that pays
                              and the price: the receipts (see ledger.py)

Plain files, each written aside, flushed and renamed, stand kill -9 at any instant, two processes at once, and network
file systems. A claim on a request is a lock of the operating system's: it ends with the process that holds it, however
that dies, and an answer that does not come ends with the time-out. DVC never sees the store, as it deletes or replaces
a stage's outputs when it sees fit.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from banana100 import paths
from banana100.errors import UserError
from banana100.files import sha256_of, sweep, write_atomically
from banana100.generators.base import Answer, Refusal
from banana100.lineage.identity import Request


@dataclass(frozen=True)
class StoredAnswer:
    """An answer as the store keeps it.

    Attributes:
        image_id: sha256 of the image file.
        record: the rest of the answer, JSON values only.
        signature: see `Answer`.
    """

    image_id: str
    record: dict[str, Any]
    signature: str | None = None


class AnswerStore:
    """Answers by request id. Instances are cheap; any number of processes may share one root."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or paths.store()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"environment: BANANA100_STORE {self.root} cannot be made ({error.strerror}).") from None

    def sweep(self) -> None:
        """Delete what killed processes left unfinished."""
        sweep(self.root / "tmp")

    def get(self, request: Request) -> StoredAnswer | None:
        """The stored answer to `request`, or None.

        Raises:
            UserError: the answer's file is damaged.
        """
        path = self._answer_path(request.id)
        try:
            content = json.loads(path.read_bytes())
            return StoredAnswer(content["image_id"], content["answer"], content.get("signature"))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}: damaged answer in the store; restore it from a backup or delete it.") from None

    def image(self, image_id: str) -> bytes:
        """The bytes of a stored image, checked against their name.

        Raises:
            UserError: the object is missing or damaged.
        """
        path = self._object_path(image_id)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise UserError(f"{path}: missing from the store though an answer names it; restore a backup.") from None
        if (found := sha256_of(data)) != image_id:
            raise UserError(
                f"{path}: damaged object in the store, its sha256 is {found[:12]}…; restore it from a backup or delete "
                "it together with the answer that names it."
            )
        return data

    @contextmanager
    def claim(self, request: Request) -> Iterator[None]:
        """Hold `request` for this process, so that nobody else asks it too; look into the store again once inside."""
        with self._lock(request):
            yield
            self._done_with(request)

    @contextmanager
    def claim_if_free(self, request: Request) -> Iterator[bool]:
        """Like `claim`, but gives False at once where somebody else holds the request."""
        try:
            with self._lock(request, 0):
                yield True
                self._done_with(request)
        except Timeout:
            yield False

    def _lock(self, request: Request, timeout: float = -1) -> FileLock:
        path = self._lock_path(request.id)
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(path, timeout=timeout)

    def _done_with(self, request: Request) -> None:
        """Who waits for a lock finds the answer next; without one the file must stay, or two could hold it."""
        if self._answer_path(request.id).exists():
            with suppress(FileNotFoundError):
                self._lock_path(request.id).unlink()

    def asked(self, request: Request, **charge: Any) -> None:
        """Note in the journal that `request` is about to be asked; `charge` is who pays, and what is expected."""
        self.note("asked", request, **charge)

    def put(self, request: Request, answer: Answer, **charge: Any) -> StoredAnswer:
        """Keep an answer for good: first its image, then the record that names it. Hold a `claim` meanwhile.

        Returns:
            What the store now holds; an answer that was already there stays.
        """
        image_id = sha256_of(answer.image)
        kept = self.get(request)
        if not kept or kept.image_id == image_id:
            self.keep_object(image_id, answer.image)
        if kept:
            self.note("stored again", request, **charge)
            return kept
        content = {"request": asdict(request), "image_id": image_id, "answer": answer.record}
        if answer.signature:
            content["signature"] = answer.signature
        self._write(self._answer_path(request.id), _json(content))
        self.note("stored", request, **charge)
        return StoredAnswer(image_id, answer.record, answer.signature)

    def refusals(self, request: Request) -> list[dict[str, Any]]:
        """The records of all refusals of `request`, oldest first.

        Raises:
            UserError: their file is damaged.
        """
        path = self._refusals_path(request.id)
        try:
            return list(json.loads(path.read_bytes())["refusals"])
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}: damaged refusals in the store; restore it from a backup or delete it.") from None

    def refuse(self, request: Request, refusal: Refusal, **charge: Any) -> None:
        """Keep a refusal for good. Hold a `claim` meanwhile."""
        self.put_refusals(request, [*self.refusals(request), refusal.record])
        self.note("refused", request, **charge)

    def put_refusals(self, request: Request, records: list[dict[str, Any]]) -> None:
        """Replace the refusals of `request`. Hold a `claim` meanwhile."""
        self._write(self._refusals_path(request.id), _json({"request": asdict(request), "refusals": records}))

    def holds(self, request: Request) -> bool:
        """Whether both the answer to `request` and its image are there."""
        answer = self.get(request)
        return answer is not None and self.has_object(answer.image_id)

    def has_object(self, image_id: str) -> bool:
        """Whether an image file is there."""
        return self._object_path(image_id).is_file()

    def keep_object(self, image_id: str, data: bytes) -> None:
        """Write an image file unless a whole one is there; a damaged one is mended."""
        path = self._object_path(image_id)
        if not path.exists() or path.read_bytes() != data:
            self._write(path, data)

    @property
    def journal_path(self) -> Path:
        """The file that `journal` reads."""
        return self.root / "journal.jsonl"

    def journal(self) -> list[dict[str, Any]]:
        """The journal's lines, oldest first: what was asked and stored, when and by which process."""
        try:
            lines = self.journal_path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def note(self, event: str, request: Request, **charge: Any) -> None:
        """Add a line to the journal."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"at": moment, "process": os.getpid(), "event": event, "request_id": request.id} | charge
        data = f"{json.dumps(line)}\n".encode()
        # One write to a file opened for appending: lines of several processes do not mix.
        descriptor = os.open(self.journal_path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data  # half a line of a process that met a full disk must not swallow this one
            if os.write(descriptor, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.journal_path))
        finally:
            os.close(descriptor)

    def _write(self, path: Path, data: bytes) -> None:
        write_atomically(path, data, durable=True, aside=self.root / "tmp")

    def _answer_path(self, request_id: str) -> Path:
        return self.root / "answers" / request_id[:2] / f"{request_id}.json"

    def _refusals_path(self, request_id: str) -> Path:
        return self.root / "refusals" / request_id[:2] / f"{request_id}.json"

    def _lock_path(self, request_id: str) -> Path:
        return self.root / "locks" / request_id[:2] / f"{request_id}.lock"

    def _object_path(self, image_id: str) -> Path:
        return self.root / "objects" / image_id[:2] / image_id


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode()
