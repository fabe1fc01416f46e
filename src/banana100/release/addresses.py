"""Where a release goes and from where anybody fetches it: the addresses that the command is given, checked."""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from banana100.errors import UserError

# Names as S3 has them; what else S3 would take means something in URLs or in .dvc/config.
_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_PART = r"[\w!@+=~.-]+"
_HTTP = re.compile(rf"https?://(\[[0-9a-f:]+\]|[\w.-]+)(:\d+)?(/{_PART})*", re.ASCII)
_REMOTE = re.compile(rf"s3://{_BUCKET}(/{_PART})*", re.ASCII)


@dataclass(frozen=True)
class Addresses:
    """Where a release goes.

    Attributes:
        remote: `s3://bucket/prefix`, what is pushed to.
        endpoint: the S3 server; None is Amazon's.
        public: where anybody may read what lies below `remote`; None: those who have credentials alone.
    """

    remote: str
    endpoint: str | None = None
    public: str | None = None

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return urlsplit(self.remote).netloc

    def key(self, name: str) -> str:
        """The key in the bucket of what is called `name` below the prefix."""
        return "/".join(part for part in (urlsplit(self.remote).path.strip("/"), name) if part)

    def __str__(self) -> str:
        """As messages name it."""
        return f"{self.remote} at {self.endpoint}" if self.endpoint else self.remote


def checked(remote: str, endpoint: str | None, public: str | None) -> Addresses:
    """The addresses, without slashes at their ends.

    Args:
        remote: `s3://bucket/prefix`.
        endpoint: the S3 server; Amazon's where it is absent or empty.
        public: where anybody may read what lies at `remote`; nowhere where it is absent or empty.

    Raises:
        UserError: one is missing, of a wrong form, or would carry a password. No message repeats what could hold one.
    """
    if not remote:
        raise UserError("no remote is named; allowed: make release REMOTE=s3://bucket/prefix.")
    return Addresses(_s3(remote), _http(endpoint, "endpoint"), _http(public, "public URL"))


def _s3(url: str) -> str:
    _split(url, "remote")
    url = url.rstrip("/")
    if not _REMOTE.fullmatch(url) or _climbs(url):
        raise UserError("remote: not the address of a folder in a bucket; allowed: s3://bucket/prefix.")
    return url


def _http(url: str | None, what: str) -> str | None:
    if not url:
        return None
    parts = _split(url, what)
    url = url.rstrip("/")
    if not _HTTP.fullmatch(url) or _climbs(url):
        raise UserError(f"{what}: not a plain web address; allowed: https://host/path.")
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise UserError(f"{what}: http is readable under way; allowed: https://, or http:// on this machine itself.")
    return url


def _split(url: str, what: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UserError(f"{what}: not an address; allowed: s3://bucket/prefix or https://host/path.") from None
    if "@" in parts.netloc:
        raise UserError(f"{what}: it holds a user or password; credentials come from the environment alone.")
    if parts.query or parts.fragment:
        raise UserError(f"{what}: it goes on after ? or #, where secrets hide; allowed: an address that ends before.")
    return parts


def _climbs(url: str) -> bool:
    return not {".", ".."}.isdisjoint(url.split("/"))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
