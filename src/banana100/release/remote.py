"""The S3 remote, through DVC's own client: what may we do there, and send what is not there yet."""

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
from dvc.exceptions import DvcException
from dvc.repo import Repo
from fsspec.asyn import sync_wrapper

from banana100.errors import UserError
from banana100.release.addresses import Addresses
from banana100.release.wording import first_line, why

_NAME = "banana100-release"  # of this process alone; it is in no file
_PROBE = "banana100-probe"
_PATIENCE = 30  # seconds


class Remote:
    """Where a release goes.

    Args:
        addresses: where that is.
        options: of the remote, as .dvc/config will have them.

    Attributes:
        repo: DVC's view of the project, with this remote beside those of .dvc/config.
    """

    def __init__(self, addresses: Addresses, options: dict[str, Any]) -> None:
        self._addresses = addresses
        try:
            self.repo = Repo(".", config={"remote": {_NAME: options}})
        except DvcException as error:
            raise UserError(f"dvc: {first_line(error)}.") from None

    def probe(self) -> None:
        """Write, read and remove an object below the prefix; read it as anybody does where that is wanted.

        Raises:
            UserError: something of that is not possible.
        """
        place = {"Bucket": self._addresses.bucket, "Key": self._addresses.key(_PROBE)}
        content = secrets.token_hex(16).encode()
        with self._told(), _without_patience(self._files) as files:
            files.call_s3("list_objects_v2", Bucket=place["Bucket"], Prefix=self._addresses.key(""), MaxKeys=1)
            # what stands between must not remember it
            files.call_s3("put_object", **place, Body=content, CacheControl="no-store")
            try:
                files.cat_file("/".join(place.values()))
                if self._addresses.public:
                    _read_publicly(self._addresses, content)
            finally:
                files.call_s3("delete_object", **place)

    def push(self) -> int:
        """Send the outputs' objects that are not there yet; on a terminal DVC shows how far it is.

        Returns:
            How many were sent.

        Raises:
            UserError: not all could be sent; what arrived stays.
        """
        with self._told(), _stopping_at_first_failure(self._files) as failures:
            try:
                return self.repo.push(remote=_NAME)
            except DvcException as error:  # it counts failures, and has logged what they were
                raise failures[0] if failures else error from None

    @property
    def _files(self) -> Any:
        return self.repo.cloud.get_remote(_NAME).fs.fs

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what goes wrong into one sentence, and keep DVC from telling it in its own way."""
        logging.disable(logging.CRITICAL)
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            if clause := why(error):
                raise UserError(f"{self._addresses}: {clause}.") from None
            if isinstance(error, DvcException):
                raise UserError(f"dvc push: {first_line(error)}.") from None
            raise
        finally:
            logging.disable(logging.NOTSET)


def _read_publicly(addresses: Addresses, content: bytes) -> None:
    """Read the probe through the public address, with no credentials."""
    session = requests.Session()
    session.auth = lambda request: request  # not those in ~/.netrc
    try:
        with session.get(f"{addresses.public}/{_PROBE}", timeout=_PATIENCE, stream=True) as answer:
            found = answer.raw.read(len(content) + 1, decode_content=True)
            status = answer.status_code
    except requests.exceptions.SSLError:
        raise UserError(f"{addresses.public}: its certificate is not trusted; correct the address.") from None
    except (requests.RequestException, OSError):
        raise UserError(f"{addresses.public}: it does not answer; correct the address.") from None
    if status != requests.codes.ok or found != content:
        answered = f"answers {status}" if status != requests.codes.ok else "serves something else"
        raise UserError(
            f"{addresses.public}: it {answered} for what was just written to {addresses.remote}; "
            "allowed: the address under which anybody can read what lies there."
        )


@contextmanager
def _without_patience(files: Any) -> Iterator[Any]:
    """Let an s3fs client ask once: the S3 client beneath it asks again anyway."""
    before, files.retries = files.retries, 1
    try:
        yield files
    finally:
        files.retries = before


@contextmanager
def _stopping_at_first_failure(files: Any) -> Iterator[list[Exception]]:
    """Let an s3fs client send nothing more after a failure: DVC would try all others, half a minute for each.

    Yields:
        The failures so far.
    """
    failures: list[Exception] = []
    send, send_one = files._put_file, files.put_file

    async def put_file(*arguments: Any, **options: Any) -> Any:
        if failures:
            raise failures[0]
        try:
            return await send(*arguments, **options)
        except Exception as error:
            failures.append(error)
            raise

    files._put_file, files.put_file = put_file, sync_wrapper(put_file, obj=files)
    try:
        yield failures
    finally:
        files._put_file, files.put_file = send, send_one
