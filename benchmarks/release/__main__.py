"""Loose files or one shard a chain: which should DVC carry?

Usage, from the repository's root: python -m benchmarks.release [--files 28000] [--size 20000] [--runs 1]
[--latency 0] [--server rclone]

The same images as loose files, as one tar and as one Parquet file a chain of 100: added, pushed to an S3 server on
loopback, pulled into a fresh clone, one of them opened, one step added to every chain.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from banana100.workers import worker_count
from benchmarks.measure import environment, ratio, table, timed
from benchmarks.object_stores import BUCKET, Rclone, S3Server, SeaweedFS, without_aws
from benchmarks.release.forms import FORMS, Form, image, member
from benchmarks.release.proxy import far_away

_SERVERS: dict[str, type[S3Server]] = {"rclone": Rclone, "seaweedfs": SeaweedFS}
_STEPS = 100
_ONE = (0, 7)  # chain and step of the image that is opened
_PAPER = 28_000  # images
_SIZES = (20_000, 340_000, 3_000_000)  # bytes of an image: small, of the default run, of 2K
_ACTS = (
    "dvc add", "dvc push", "dvc pull", "dvc status, no change", "dvc push, nothing new", "dvc pull, nothing new",
    "open one image", "a step more: dvc add", "a step more: dvc push", "a step more: dvc pull",
)  # fmt: skip
_START_UP = {
    "dvc add": "dvc status, no change", "dvc push": "dvc push, nothing new", "dvc pull": "dvc pull, nothing new",
}  # fmt: skip
_SENT = "MB sent"
_SENT_MORE = "a step more: MB sent"
Figures = dict[str, list[float]]


@dataclass(frozen=True)
class Scale:
    """How many images, and how large.

    Attributes:
        chains: of `_STEPS` images each.
        size: bytes an image.
    """

    chains: int
    size: int

    @property
    def files(self) -> int:
        """How many images there are."""
        return self.chains * _STEPS

    @property
    def megabytes(self) -> float:
        """All of them."""
        return self.files * self.size / 1e6

    def write(self, form: Form, folder: Path, added: int = 0) -> None:
        """Write the images in a form, `added` steps more than there are."""
        for chain in range(self.chains):
            images = ((member(step), image(chain, step, self.size)) for step in range(1, _STEPS + added + 1))
            form.write(folder, chain, images, bool(added))


@dataclass
class Contest:
    """One form's turn: a repository, a bucket of its own behind a port, and clones.

    Attributes:
        form: how the images lie.
        scale: how many.
        folder: everything is below it.
        server: it runs, and its bucket is empty.
        port: where it is reached.
        figures: seconds, and megabytes sent, by name.
    """

    form: Form
    scale: Scale
    folder: Path
    server: S3Server
    port: int
    figures: dict[str, float] = field(default_factory=dict)

    def run(self) -> dict[str, float]:
        """All figures."""
        origin = self.folder / "origin"
        self._make(origin)
        self.scale.write(self.form, origin / "data")
        self._time("dvc add", origin, "add", "data")
        self._commit(origin)
        self._push("dvc push", origin, _SENT)
        self._time("dvc status, no change", origin, "status")
        self._time("dvc push, nothing new", origin, "push")
        clone = self._clone("clone")
        self._time("dvc pull", clone, "pull")
        self._time("dvc pull, nothing new", clone, "pull")
        self._open_one(self._clone("one"))
        self.scale.write(self.form, origin / "data", added=1)
        self._time("a step more: dvc add", origin, "add", "data")
        self._commit(origin)
        self._push("a step more: dvc push", origin, _SENT_MORE)
        self._git(clone, "pull", "-q")
        self._time("a step more: dvc pull", clone, "pull")
        last = (self.scale.chains - 1, _STEPS + 1)
        if self.form.read(clone / "data", *last) != image(*last, self.scale.size):
            raise RuntimeError(f"{self.form.name}: other bytes were pulled than pushed")
        return self.figures

    @property
    def _variables(self) -> dict[str, str]:
        kept = {name: value for name, value in environment().items() if not name.startswith(("DVC_", "GIT_"))}
        own = {"DVC_SITE_CACHE_DIR": str(self.folder / "site")}
        return without_aws(kept) | self.server.credentials | own

    def _make(self, origin: Path) -> None:
        origin.mkdir(parents=True)
        self._git(origin, "init", "-q", "-b", "main")
        remote = ["lab", f"s3://{BUCKET}/{self.folder.name}"]
        for command in (
            ["init", "-q"], ["config", "core.analytics", "false"], ["config", "core.check_update", "false"],
            ["remote", "add", "-q", "-d", *remote],
            ["remote", "modify", "lab", "endpointurl", f"http://127.0.0.1:{self.port}"],
        ):  # fmt: skip
            timed(["dvc", *command], origin, self._variables)

    def _time(self, name: str, folder: Path, *command: str) -> None:
        self.figures[name] = timed(["dvc", *command], folder, self._variables)[0]
        print(f"  {self.form.name}, {name}: {self.figures[name]:.1f} s", file=sys.stderr, flush=True)

    def _push(self, name: str, origin: Path, sent: str) -> None:
        before = self._stored()
        self._time(name, origin, "push")
        self.figures[sent] = (self._stored() - before) / 1e6

    def _stored(self) -> int:
        files = self.server.files()
        found = files.find(f"{BUCKET}/{self.folder.name}", detail=True)
        return sum(entry["size"] for entry in found.values())

    def _open_one(self, clone: Path) -> None:
        begun = time.perf_counter()
        timed(["dvc", "pull", f"data/{self.form.file(*_ONE)}"], clone, self._variables)
        content = self.form.read(clone / "data", *_ONE)
        self.figures["open one image"] = time.perf_counter() - begun
        if content != image(*_ONE, self.scale.size):
            raise RuntimeError(f"{self.form.name}: not the image that was pushed")

    def _clone(self, name: str) -> Path:
        self._git(self.folder, "clone", "-q", "origin", name)
        return self.folder / name

    def _commit(self, origin: Path) -> None:
        self._git(origin, "add", "-A")
        self._git(origin, "commit", "-qm", "data")

    def _git(self, folder: Path, *arguments: str) -> None:
        identity = ["-c", "user.name=b", "-c", "user.email=b@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=folder, env=self._variables, check=True)


def main() -> None:
    """Measure each form in turn, print tables."""
    asked = _options()
    scale = Scale(max(1, asked.files // _STEPS), asked.size)
    print(f"{worker_count()} cores, {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 1e9:.0f} GB of memory")
    found: dict[str, Figures] = {form.name: {} for form in FORMS}
    for run in range(asked.runs):
        for at in range(len(FORMS)):
            form = FORMS[(run + at) % len(FORMS)]
            print(f"run {run + 1}/{asked.runs}: {form.name}", file=sys.stderr, flush=True)
            with _turn(form, scale, asked) as contest:
                for name, figure in contest.run().items():
                    found[form.name].setdefault(name, []).append(figure)
    _report(found, scale, asked)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=28_000, metavar="N", help="images, 100 a chain (28000)")
    parser.add_argument("--size", type=int, default=20_000, metavar="BYTES", help="of an image (20000)")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="turns of every form (1)")
    parser.add_argument("--latency", type=float, default=0, metavar="MS", help="added to every round trip (0)")
    parser.add_argument("--server", choices=_SERVERS, default="rclone", help="an S3 server (rclone)")
    parser.add_argument("--scratch", type=Path, help="where a temporary folder of six times the images is made")
    return parser.parse_args()


@contextmanager
def _turn(form: Form, scale: Scale, asked: argparse.Namespace) -> Iterator[Contest]:
    """A form's turn with an empty server; nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="banana100-benchmark-", dir=asked.scratch) as scratch:
        folder = Path(scratch)
        with _SERVERS[asked.server](folder / "server") as server:
            if not asked.latency:
                yield Contest(form, scale, folder / "turn", server, server.port)
                return
            with far_away(server.port, asked.latency / 1000) as port:
                yield Contest(form, scale, folder / "turn", server, port)


def _report(found: Mapping[str, Figures], scale: Scale, asked: argparse.Namespace) -> None:
    loose, *packed = FORMS
    names = [form.name for form in FORMS]
    against = [f"{loose.name} / {form.name}" for form in packed]
    rows = []
    for act in (*_ACTS, _SENT, _SENT_MORE):
        each = [found[name][act] for name in names]
        ratios = [ratio(each[0], one) for one in each[1:]]
        ratios = ratios if asked.runs > 1 else [one.split()[0] for one in ratios]  # there is no range
        rows.append([act, *(median(figures) for figures in each), *ratios])
    title = f"{scale.files:,} images of {scale.size:,} bytes, {scale.chains} chains, {scale.megabytes:,.0f} MB;"
    title += f" {asked.server}, {asked.latency:g} ms more a round trip; seconds, medians of {asked.runs}"
    table(title, ["", *names, *against], rows)
    rows = [_extrapolated(act, found, scale) for act in _START_UP]
    header = ["", "ms a file", "MB/s besides", *(f"{size // 1000:,} kB" for size in _SIZES)]
    note = (
        f"as if seconds were start-up + files x a constant + bytes / another; {_PAPER:,} images in chains of {_STEPS}"
    )
    table("how many times as long loose files take as tars, computed from these figures", header, rows, note)


def _extrapolated(act: str, found: Mapping[str, Figures], scale: Scale) -> list[str]:
    """The cost of a file and the throughput that explain loose files and tars, and what follows for other sizes."""
    loose, tar = (median(found[form.name][act]) for form in FORMS[:2])
    begin = median(found[FORMS[1].name][_START_UP[act]])
    each = max(loose - tar, 0) / (scale.files - scale.chains)
    rate = scale.megabytes * 1e6 / max(tar - begin - scale.chains * each, 0.1)
    ratios = []
    for size in _SIZES:
        alike = begin + _PAPER * size / rate
        ratios.append(f"{(alike + _PAPER * each) / (alike + _PAPER / _STEPS * each):.2f}")
    return [act, f"{each * 1000:.2f}", f"{rate / 1e6:.0f}", *ratios]


if __name__ == "__main__":
    main()
