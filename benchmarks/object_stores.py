"""Real S3 and https servers on loopback, for benchmarks and tests: rclone, and SeaweedFS as a second opinion."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import s3fs

BUCKET = "bucket"
KEY, SECRET = "loopback-key", "loopback-secret"
_BIN = Path(sys.executable).parent
_PATIENCE = 60  # seconds until a server must be up


class Server:
    """A server process on a free port of loopback, with its data in a folder that outlives it.

    Use it as a context, or call `start`, `kill` and `start` again: the port stays.

    Attributes:
        port: where it listens.
        endpoint: its address, without a slash at the end.
    """

    scheme = "http"
    ports_below = 65_536

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port(self.ports_below)
        self.endpoint = f"{self.scheme}://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str | Path]:
        """What starts it."""
        raise NotImplementedError

    def ready(self) -> None:
        """Raise OSError while it does not answer yet."""
        socket.create_connection(("127.0.0.1", self.port), timeout=1).close()

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            RuntimeError: it ended, or did not answer in time.
        """
        log = (self.folder.parent / f"{self.folder.name}.log").open("ab")
        self._process = subprocess.Popen(
            self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self.ready()
            except OSError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.command()[0]}: not up; see {log.name}") from error
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def __enter__(self) -> "Server":
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it."""
        self.kill()


class S3Server(Server):
    """A server that speaks S3 and checks keys; it has the bucket `BUCKET`."""

    @property
    def credentials(self) -> dict[str, str]:
        """Environment variables with which any S3 client may write."""
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}

    def files(self, key: str = KEY, secret: str = SECRET) -> s3fs.S3FileSystem:
        """A client of it."""
        return s3fs.S3FileSystem(key=key, secret=secret, endpoint_url=self.endpoint, skip_instance_cache=True)


class Rclone(S3Server):
    """`rclone serve s3`: objects are plain files below `folder`/`BUCKET`."""

    def command(self) -> list[str | Path]:
        """What starts it."""
        (self.folder / BUCKET).mkdir(exist_ok=True)
        options = ["--addr", f"127.0.0.1:{self.port}", "--auth-key", f"{KEY},{SECRET}", "--vfs-cache-mode", "off"]
        return [_BIN / "rclone", "serve", "s3", "--config", os.devnull, *options, self.folder]


class SeaweedFS(S3Server):
    """`weed server -s3`: the key may do everything, anybody may read."""

    ports_below = 50_000  # it takes the port 10,000 above each of its own as well

    def command(self) -> list[str | Path]:
        """What starts it."""
        identities = [
            {"name": "owner", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": _EVERYTHING},
            {"name": "anonymous", "actions": ["Read", "List"]},
        ]
        config = self.folder.parent / f"{self.folder.name}.json"
        config.write_text(json.dumps({"identities": identities}))
        here = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.port={self.port}", f"-s3.config={config}"]
        ports = [f"-{part}.port={free_port(self.ports_below)}" for part in ("master", "volume", "filer")]
        ports += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # fixed ports, over which two servers would fight
        room = ["-master.volumeSizeLimitMB=64", "-volume.max=100"]
        return [_BIN / "weed", "server", f"-dir={self.folder}", "-s3", *here, *ports, *room]

    def ready(self) -> None:
        """Raise OSError while it does not answer yet; make the bucket as soon as it does."""
        super().ready()
        files = self.files()
        if BUCKET not in files.ls(""):
            files.mkdir(BUCKET)
        files.pipe(f"{BUCKET}/.ready", b"")
        files.rm(f"{BUCKET}/.ready")


_EVERYTHING = ["Admin", "Read", "List", "Tagging", "Write"]


class PublicHttp(Server):
    """`rclone serve http`: reads a folder out to anybody, takes nothing."""

    def command(self) -> list[str | Path]:
        """What starts it."""
        options = ["--addr", f"127.0.0.1:{self.port}", "--read-only", "--copy-links"]
        return [_BIN / "rclone", "serve", "http", "--config", os.devnull, *options, self.folder]


def without_aws(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables without any AWS setting of a user or a machine; a client then finds no key, and asks no proxy."""
    kept = {name: value for name, value in variables.items() if not name.startswith("AWS_")}
    absent = str(Path(os.devnull) / "absent")
    nothing = {"AWS_SHARED_CREDENTIALS_FILE": absent, "AWS_CONFIG_FILE": absent, "AWS_EC2_METADATA_DISABLED": "true"}
    return kept | nothing | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def free_port(below: int = 65_536) -> int:
    """A port of loopback that nobody listens on."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port < below:
            return port
