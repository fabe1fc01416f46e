"""Records of jobs of a Batch API whose answers have not all been taken: which requests must not be asked again."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from banana100.errors import UserError
from banana100.files import write_atomically
from banana100.generators.store import AnswerStore
from banana100.lineage.identity import Request


@dataclass(frozen=True)
class Job:
    """The record of a job.

    Attributes:
        label: what the API finds the job by.
        campaign: who pays.
        requests: by request id.
        name: the API's name for the job; None until it is known.
    """

    label: str
    campaign: str
    requests: dict[str, Request]
    name: str | None = None


class JobRecords:
    """Records of jobs whose answers have not all been taken."""

    def __init__(self, store: AnswerStore) -> None:
        self._folder, self._aside = store.root / "jobs", store.root / "tmp"

    def open_jobs(self) -> list[Job]:
        """All of them, in the order of their labels.

        Raises:
            UserError: a record is damaged.
        """
        found = (self._read(path) for path in sorted(self._folder.glob("*.json")))
        return [job for job in found if job]

    def keep(self, job: Job) -> None:
        """Write a record, or a new state of it."""
        content = {**asdict(job), "requests": [asdict(request) for request in job.requests.values()]}
        write_atomically(self._path(job), json.dumps(content).encode(), durable=True, aside=self._aside)

    def close(self, job: Job) -> None:
        """Forget a job: all its answers are in the store."""
        self._path(job).unlink(missing_ok=True)

    def _path(self, job: Job) -> Path:
        return self._folder / f"{job.label}.json"

    def _read(self, path: Path) -> Job | None:
        """A record; None where another run has just closed it."""
        try:
            content = json.loads(path.read_bytes())
            requests = [Request(**fields) for fields in content.pop("requests")]
            return Job(**content, requests={request.id: request for request in requests})
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}: damaged record of a batch job; restore it from a backup or delete it.") from None


def waiting(store: AnswerStore) -> set[str]:
    """Ids of the requests in open jobs.

    Raises:
        UserError: a record is damaged.
    """
    return {request_id for job in JobRecords(store).open_jobs() for request_id in job.requests}
