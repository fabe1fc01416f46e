"""Fetching weight files, and pinning what was fetched."""

import fnmatch
import hashlib
import os
import socket
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from tqdm import tqdm

from banana100.catalogue.weights import Repository, WeightFile, Weights
from banana100.errors import UserError
from banana100.files import write_atomically
from banana100.scoring import weights as local
from banana100.scoring.weights import Lock

_HUB = "https://huggingface.co"
_SECONDS_TO_ANSWER = 1.0  # a host that does not take a connection in this time is taken for out of reach
_SECONDS_OF_SILENCE = 60
_CHUNK = 1 << 20


def fetch(weights: Weights, lock: Lock) -> list[str]:
    """Bring a weight file or a repository to this machine, and pin in `lock` what was not pinned yet.

    What is there and right is not fetched again.

    Returns:
        Keys that were pinned now, in which `lock` has changed.

    Raises:
        UserError: the host is out of reach or does not have it, or what came is not what is pinned or promised; then
            nothing is kept.
    """
    return _fetch_file(weights, lock) if isinstance(weights, WeightFile) else _fetch_repository(weights, lock)


def _fetch_file(file: WeightFile, lock: Lock) -> list[str]:
    key, path = local.file_key(file), local.file_path(file)
    if not path.is_file():
        url = _mirrored(file.url)
        _require_host(url, file.name, path.parent)
        _download(url, path, lambda digest: _check(file.name, digest, lock.get(key, {}).get("sha256")))
    digest = local.digest_of(path)
    _check(f"{path}", digest, lock.get(key, {}).get("sha256"))
    return _pin(lock, key, {"bytes": path.stat().st_size, "sha256": digest})


def _fetch_repository(repository: Repository, lock: Lock) -> list[str]:
    files = local.files_of(repository, lock)
    if not files or not all(path.is_file() for path in files.values()):
        _snapshot(repository, lock)
    folder = local.repository_folder(repository)
    revision = (folder / "refs" / "main").read_text().strip()
    snapshot = folder / "snapshots" / revision
    pinned = []
    for path in sorted(snapshot.rglob("*")):
        name = path.relative_to(snapshot).as_posix()
        if path.is_file() and any(fnmatch.fnmatch(name, pattern) for pattern in repository.files):
            key = local.key_prefix(repository) + name
            digest = local.digest_of(path)
            _check(f"{path}", digest, lock.get(key, {}).get("sha256"))
            pinned += _pin(lock, key, {"bytes": path.stat().st_size, "revision": revision, "sha256": digest})
    return pinned


def _snapshot(repository: Repository, lock: Lock) -> None:
    """Fetch the pinned revision, or the newest, and let it be what Hugging Face's libraries find offline."""
    _require_host(_mirrored(_HUB), repository.name, local.repository_folder(repository))
    prefix = local.key_prefix(repository)
    revision = next((pin["revision"] for key, pin in lock.items() if key.startswith(prefix)), "main")
    with _online():
        from huggingface_hub import snapshot_download  # noqa: PLC0415  reads its environment when imported
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError  # noqa: PLC0415

        try:
            folder = snapshot_download(
                repository.name,
                repo_type="dataset" if repository.dataset else "model",
                revision=revision,
                allow_patterns=list(repository.files),
                cache_dir=local.repository_folder(repository).parent,
                endpoint=_mirrored(_HUB),
            )
        except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
            raise UserError(
                f"weights {repository.name}: {_mirrored(_HUB)} does not give them ({_line(error)})."
            ) from None
    write_atomically(local.repository_folder(repository) / "refs" / "main", Path(folder).name.encode())


@contextmanager
def _online() -> Iterator[None]:
    before = os.environ.pop("HF_HUB_OFFLINE", None)
    try:
        yield
    finally:
        if before is not None:
            os.environ["HF_HUB_OFFLINE"] = before


def _download(url: str, path: Path, check: Callable[[str], None]) -> None:
    """Fetch to a file beside `path`, check its digest, then give it its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    digest = hashlib.sha256()
    try:
        with requests.get(url, stream=True, timeout=(_SECONDS_TO_ANSWER * 5, _SECONDS_OF_SILENCE)) as answer:
            answer.raise_for_status()
            total = int(answer.headers.get("content-length", 0)) or None
            with unfinished.open("wb") as stream, _bar(path.name, total) as bar:
                for chunk in answer.iter_content(_CHUNK):
                    stream.write(chunk)
                    digest.update(chunk)
                    bar.update(len(chunk))
        if total and unfinished.stat().st_size != total:
            raise UserError(f"weights {path.name}: {url} ended early; run it again.")
        check(digest.hexdigest())
        unfinished.replace(path)
    except requests.RequestException as error:
        raise UserError(f"weights {path.name}: {url} does not give it ({_line(error)}).") from None
    finally:
        unfinished.unlink(missing_ok=True)


def _bar(name: str, total: int | None) -> Any:
    return tqdm(total=total, desc=name, unit="B", unit_scale=True, disable=None)


def _check(what: str, digest: str, pinned: str | None) -> None:
    promised = local.promised_digits(what)
    if pinned and digest != pinned:
        raise UserError(f"weights {what}: sha256 is {digest}; the lock pins {pinned}; it is not used.")
    if not pinned and promised and not digest.startswith(promised):
        raise UserError(f"weights {what}: sha256 is {digest}; its name promises {promised}…; it is not used.")


def _pin(lock: Lock, key: str, pin: dict[str, Any]) -> list[str]:
    if lock.get(key) == pin:
        return []
    lock[key] = pin
    return [key]


def _mirrored(url: str) -> str:
    """The same address at `HF_ENDPOINT`, as Hugging Face's own tools do."""
    mirror = os.environ.get("HF_ENDPOINT")
    return mirror.rstrip("/") + url.removeprefix(_HUB) if mirror and url.startswith(_HUB) else url


def _require_host(url: str, name: str, folder: Path) -> None:
    """Fail within a second where there is no network, instead of waiting through a library's retries.

    Raises:
        UserError: the host takes no connection.
    """
    parts = urlsplit(url)
    proxy = urlsplit(urllib.request.getproxies().get(parts.scheme, ""))
    bypass = urllib.request.proxy_bypass(parts.hostname or "")
    host, port = (proxy.hostname, proxy.port) if proxy.hostname and not bypass else (parts.hostname, parts.port)
    pool = ThreadPoolExecutor(1)  # resolving a name has no timeout of its own
    try:
        address = (host, port or (80 if parts.scheme == "http" else 443))
        pool.submit(socket.create_connection, address, _SECONDS_TO_ANSWER).result(_SECONDS_TO_ANSWER).close()
    except (OSError, TimeoutError):
        raise UserError(
            f"weights {name}: {parts.hostname} is out of reach; fetch it where there is a network, from {url}, "
            f"and put it into {folder}."
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
