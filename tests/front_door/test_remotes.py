"""Data flows with plain DVC against real servers on loopback: all, a part, experiments, keys, kills."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from banana100.files import sha256_of
from benchmarks.object_stores import BUCKET, PublicHttp, Rclone, S3Server, SeaweedFS, without_aws

IMAGE = "data/replicas/simulated-replica/rocket/r1/003.png"
TABLES = ["data/scores", "data/lineage", "data/seeds/seeds.parquet", "data/seeds/requests.parquet"]
OBJECT = re.compile(r"files/md5/([0-9a-f]{2})/([0-9a-f]{30})(\.dir)?$")
PATIENCE = 60  # seconds until something must have happened


@dataclass(frozen=True)
class Checkout:
    """A git clone with DVC, and the environment of its user."""

    folder: Path
    variables: Mapping[str, str]

    def __call__(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in it; its output is in the failure message."""
        result = subprocess.run(
            command, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False
        )
        if check and result.returncode:
            pytest.fail(f"{' '.join(command)}: exit {result.returncode}\n{result.stdout}\n{result.stderr}")
        return result

    def start(self, *command: str) -> "subprocess.Popen[bytes]":
        """Start a command in a process group of its own, its output unread."""
        nowhere = subprocess.DEVNULL
        return subprocess.Popen(
            command, cwd=self.folder, env=self.variables, stdout=nowhere, stderr=nowhere, start_new_session=True
        )

    def clone(self, folder: Path, **variables: str) -> "Checkout":
        """A fresh git clone of it, with an empty store."""
        self("git", "clone", "-q", str(self.folder), str(folder / "clone"))
        own = {"BANANA100_STORE": str(folder / "store"), "DVC_SITE_CACHE_DIR": str(folder / "site")}
        return Checkout(folder / "clone", {**self.variables, **own, **variables})

    def without_keys(self) -> "Checkout":
        """The same folder in the hands of somebody who never heard of AWS."""
        return replace(self, variables={k: v for k, v in self.variables.items() if not k.startswith("AWS_")})

    def content(self) -> dict[str, str]:
        """sha256 of every file of data and metrics, by path."""
        files = [file for part in ("data", "metrics") for file in (self.folder / part).rglob("*") if file.is_file()]
        return {file.relative_to(self.folder).as_posix(): sha256_of(file.read_bytes()) for file in files}

    def fetched(self) -> set[str]:
        """The paths of all files below data and metrics that git does not bring."""
        return set(self.content()) - set(self("git", "ls-files", "data", "metrics").stdout.split())

    def cached(self) -> dict[str, str]:
        """md5 of every finished object of DVC's cache, by name."""
        return true_names(
            {str(file): file.read_bytes() for file in (self.folder / ".dvc/cache").rglob("*") if file.is_file()}
        )


def true_names(objects: Mapping[str, bytes]) -> dict[str, str]:
    """md5 of the content of every object that DVC would take, by its name, which is an md5."""
    found = {match[1] + match[2]: content for path, content in objects.items() if (match := OBJECT.search(path))}
    return {name: md5(content) for name, content in found.items()}


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def objects(server: S3Server) -> dict[str, str]:
    """md5 of every object that a server holds, by its name."""
    files = server.files()
    return true_names({path: files.cat_file(path, max_concurrency=1) for path in files.find(BUCKET)})


def assert_true(found: Mapping[str, str]) -> None:
    assert {name for name, digest in found.items() if name != digest} == set()


def until(happened: Callable[[], bool]) -> None:
    """Wait for something that takes milliseconds, and look often."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture(scope="module")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with Rclone(tmp_path_factory.mktemp("rclone") / "server") as server:
        yield server


@pytest.fixture(scope="module")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    if not (Path(sys.executable).parent / "weed").exists():
        pytest.skip("no SeaweedFS: its package is for Linux on x86-64 alone")
    with SeaweedFS(tmp_path_factory.mktemp("seaweedfs") / "server") as server:
        yield server


@pytest.fixture(params=["rclone", "seaweedfs"])
def server(request: pytest.FixtureRequest) -> S3Server:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def copy_of_run(tiny_clone: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[S3Server], Checkout]:
    """A copy of a finished run whose default remote is on a server, with nothing pushed yet."""

    def copy(server: S3Server) -> Checkout:
        folder = tmp_path_factory.mktemp("origin")
        shutil.copytree(tiny_clone.folder, folder / "clone", symlinks=True)
        own = {"DVC_SITE_CACHE_DIR": str(folder / "site")}
        made = Checkout(folder / "clone", without_aws(tiny_clone.environment) | server.credentials | own)
        made("dvc", "remote", "add", "-q", "-d", "lab", f"s3://{BUCKET}/dvc")
        made("dvc", "remote", "modify", "lab", "endpointurl", server.endpoint)
        made("git", "commit", "-qam", "remote")
        return made

    return copy


@pytest.fixture(scope="module")
def published(copy_of_run: Callable[[S3Server], Checkout]) -> Callable[[S3Server], Checkout]:
    """A run that was pushed to a server, once."""
    known: dict[str, Checkout] = {}

    def publish(server: S3Server) -> Checkout:
        if server.endpoint not in known:
            known[server.endpoint] = copy_of_run(server)
            known[server.endpoint]("dvc", "push")
        return known[server.endpoint]

    return publish


@pytest.fixture(scope="module")
def origin(published: Callable[[S3Server], Checkout], rclone: S3Server) -> Checkout:
    """The run that was pushed to rclone."""
    return published(rclone)


def test_a_pushed_run_is_the_same_in_a_fresh_clone(
    server: S3Server, published: Callable[[S3Server], Checkout], tmp_path: Path
) -> None:
    origin = published(server)
    clone = origin.clone(tmp_path)
    clone("dvc", "pull")
    assert clone.content() == origin.content()
    assert "no faults" in clone("banana100", "verify").stdout
    assert "Data and pipelines are up to date." in clone("dvc", "status").stdout
    assert clone.cached().keys() == origin.cached().keys() <= objects(server).keys()  # experiments push to it as well
    assert_true(objects(server))


def test_pull_score_brings_the_score_tables_and_nothing_else(origin: Checkout, tmp_path: Path) -> None:
    clone = origin.clone(tmp_path)
    clone("dvc", "pull", "score")
    tables = {path for path in origin.fetched() if path.startswith("data/scores/")}
    assert clone.fetched() == tables and len(clone.cached()) == len(tables) + 1  # and the list of their names


def test_tables_alone_lead_from_a_score_back_to_its_seed(origin: Checkout, tmp_path: Path) -> None:
    clone = origin.clone(tmp_path)
    clone("dvc", "pull", *TABLES)
    assert not [path for path in clone.fetched() if not path.endswith(".parquet")]
    assert clone("banana100", "trace", f"niqe:{IMAGE}").stdout == origin("banana100", "trace", f"niqe:{IMAGE}").stdout


def test_paths_behind_the_name_of_a_stage_are_dropped_without_a_word(origin: Checkout, tmp_path: Path) -> None:
    """A flaw of DVC 3.67, and why the README never mixes the two; fails when DVC has lost it."""
    clone = origin.clone(tmp_path)
    clone("dvc", "pull", "score", "data/lineage")
    assert {path.split("/")[1] for path in clone.fetched()} == {"scores"}


def test_one_image_is_fetched_by_its_path(origin: Checkout, tmp_path: Path) -> None:
    clone = origin.clone(tmp_path)
    clone("dvc", "pull", IMAGE)
    rows = pd.read_parquet(origin.folder / "data/lineage/images.parquet").set_index("path")
    assert {path: clone.content()[path] for path in clone.fetched()} == {IMAGE: rows.loc[IMAGE, "image_id"]}
    assert len(clone.cached()) == 2  # the image, and the list of names and md5 of all replicas
    other = IMAGE.replace("003", "002")
    clone("dvc", "pull", other)
    assert clone.fetched() == {IMAGE, other}
    assert re.search(r"modified: +data/replicas", clone("dvc", "status").stdout)  # as a part of it is there
    clone("dvc", "pull")
    assert clone.content() == origin.content()
    assert "Data and pipelines are up to date." in clone("dvc", "status").stdout


def test_a_wrong_path_fetches_no_image(origin: Checkout, tmp_path: Path) -> None:
    """DVC says so only where the path is in no output at all; within one it exits with 0."""
    clone = origin.clone(tmp_path)
    result = clone("dvc", "pull", "data/repicas/001.png", check=False)
    assert result.returncode == 1 and "'data/repicas/001.png' does not exist" in result.stderr
    assert clone("dvc", "pull", IMAGE.replace("003", "999"), check=False).returncode == 0
    assert clone.fetched() == set()


@dataclass(frozen=True)
class Experiment:
    """An experiment on one metric, run in a clone that had no data, and what DVC said."""

    clone: Checkout
    log: str
    git_remote: Path


@pytest.fixture(scope="module")
def experiment(origin: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    folder = tmp_path_factory.mktemp("experiment")
    bare = folder / "bare.git"
    origin("git", "clone", "-q", "--bare", str(origin.folder), str(bare))
    clone = replace(origin, folder=bare).clone(folder)
    arguments = ["--pull", "--allow-missing", "-n", "only-niqe", "-S", "ranking.metrics=[niqe]"]
    return Experiment(clone, clone("dvc", "exp", "run", *arguments).stdout, bare)


def test_an_experiment_on_scores_fetches_no_replica(experiment: Experiment, origin: Checkout) -> None:
    assert re.findall(r"Running stage '(\w+)'", experiment.log) == ["rank", "report"]
    assert not list((experiment.clone.folder / "data").rglob("*.png"))
    images = {md5(file.read_bytes()) for file in (origin.folder / "data").rglob("*.png")}
    assert images and not images & experiment.clone.cached().keys()


def test_a_shared_experiment_is_the_same_in_another_clone(experiment: Experiment, tmp_path: Path) -> None:
    mine = experiment.clone
    mine("dvc", "exp", "push", "origin", "only-niqe")
    theirs = replace(mine, folder=experiment.git_remote).clone(tmp_path)
    theirs("dvc", "exp", "pull", "origin", "only-niqe")  # the images as well: apply asks for all that dvc.lock names
    theirs("dvc", "exp", "apply", "only-niqe")
    assert not mine.content().items() - theirs.content().items()


def test_a_wrong_key_is_refused_and_nothing_changes(
    copy_of_run: Callable[[S3Server], Checkout], tmp_path: Path
) -> None:
    with Rclone(tmp_path / "server") as server:
        origin = copy_of_run(server)
        wrong = replace(origin, variables={**origin.variables, "AWS_SECRET_ACCESS_KEY": "not-the-secret"})
        before = origin.content(), origin.cached()
        pushed = wrong("dvc", "push", check=False)
        assert pushed.returncode != 0 and "Forbidden" in pushed.stderr
        assert objects(server) == {} and (origin.content(), origin.cached()) == before
        origin("dvc", "push")
        clone = wrong.clone(tmp_path)
        pulled = clone("dvc", "pull", check=False)
        assert pulled.returncode != 0 and "Forbidden" in pulled.stderr and clone.fetched() == set()
        assert "not-the-secret" not in pushed.stdout + pushed.stderr + pulled.stdout + pulled.stderr


@pytest.fixture(scope="module")
def heavy(
    copy_of_run: Callable[[S3Server], Checkout], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Checkout, S3Server]]:
    """A run with 40 files more, and one so large that DVC can be caught copying it; and a server of its own."""
    with Rclone(tmp_path_factory.mktemp("heavy") / "server") as server:
        origin, random = copy_of_run(server), np.random.default_rng(1)
        (origin.folder / "data/extra").mkdir()
        for number in range(40):
            (origin.folder / f"data/extra/{number}.bin").write_bytes(random.bytes(200_000))
        # above 100 MiB it is sent in parts, of which rclone keeps no checksum: that of the whole, which it gives for a
        # range as well, makes a fetch in ranges (above 50 MiB) fail
        (origin.folder / "data/extra/large.bin").write_bytes(random.bytes(110_000_000))
        origin("dvc", "add", "-q", "data/extra")
        origin("git", "add", "data/extra.dvc", "data/.gitignore")
        origin("git", "commit", "-qm", "extra")
        # one try a request: a client of a dead server then ends at once
        yield replace(origin, variables={**origin.variables, "AWS_MAX_ATTEMPTS": "1"}), server


def some(folder: Path) -> Callable[[], bool]:
    """Whether a few objects are below a folder."""
    return lambda: sum(1 for file in folder.rglob("*") if OBJECT.search(file.as_posix())) >= 10


def kill(process: "subprocess.Popen[bytes]") -> None:
    """As kill -9 does, to the whole group."""
    assert process.poll() is None, "it was too quick"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("victim", ["dvc", "server"])
def test_a_push_cut_short_leaves_only_true_objects_and_goes_on(
    heavy: tuple[Checkout, S3Server], tmp_path: Path, victim: str
) -> None:
    origin, server = heavy
    server.kill()  # it would still know what is deleted now
    shutil.rmtree(server.folder / BUCKET)
    server.start()
    push = origin.start("dvc", "push", "-j", "2")
    until(some(server.folder / BUCKET))
    if victim == "dvc":
        kill(push)
    else:
        server.kill()
        assert push.wait() != 0
        server.start()
    assert 10 <= len(objects(server)) < len(origin.cached())
    assert_true(objects(server))
    origin("dvc", "push")
    assert objects(server).keys() == origin.cached().keys()
    assert_true(objects(server))
    clone = origin.clone(tmp_path)
    clone("dvc", "pull")
    assert clone.content() == origin.content()


@pytest.mark.parametrize("victim", ["dvc", "server"])
def test_a_fetch_cut_short_leaves_only_true_objects_and_goes_on(
    heavy: tuple[Checkout, S3Server], tmp_path: Path, victim: str
) -> None:
    origin, server = heavy
    origin("dvc", "push")
    clone = origin.clone(tmp_path)
    pull = clone.start("dvc", "pull", "-j", "2")
    until(some(clone.folder / ".dvc"))
    if victim == "dvc":
        kill(pull)
    else:
        server.kill()
        assert pull.wait() != 0
        server.start()
    assert 10 <= len(clone.cached()) < len(origin.cached())
    assert_true(clone.cached())
    clone("dvc", "pull")
    assert clone.content() == origin.content()
    assert_true(clone.cached())


def test_a_checkout_cut_short_goes_on_with_force(heavy: tuple[Checkout, S3Server], tmp_path: Path) -> None:
    """DVC takes its own unfinished copy for somebody's work, and asks before it deletes it."""
    origin, _ = heavy
    origin("dvc", "push")
    clone = origin.clone(tmp_path)
    unfinished = clone.folder / "data/extra"
    pull = clone.start("dvc", "pull")
    until(lambda: any(unfinished.glob(".*.tmp")) or pull.poll() is not None)
    if pull.poll() == 0:
        pytest.skip("this file system copies by reference, and nobody is quick enough to catch DVC at it")
    kill(pull)
    whole = origin.content()
    here = {path: digest for path, digest in clone.content().items() if not path.endswith(".tmp")}
    assert here == {path: whole[path] for path in here}
    again = clone("dvc", "pull", check=False)
    if again.returncode:  # an unfinished copy was left
        named = [line for line in again.stderr.splitlines() if line.startswith(str(clone.folder))]
        assert named and all(line.endswith(".tmp") for line in named)
        clone("dvc", "pull", "--force")
    assert clone.content() == whole


def test_anybody_reads_a_public_https_remote_and_nobody_writes(
    origin: Checkout, rclone: S3Server, tmp_path: Path
) -> None:
    with PublicHttp(rclone.folder / BUCKET) as public:
        clone = origin.clone(tmp_path).without_keys()
        clone("dvc", "remote", "add", "-q", "-d", "public", f"{public.endpoint}/dvc")
        clone("dvc", "pull")
        assert clone.content() == origin.content()
        (clone.folder / "data/note.txt").write_text("mine")
        clone("dvc", "add", "-q", "data/note.txt")
        before = objects(rclone)
        pushed = clone("dvc", "push", check=False)
        assert pushed.returncode != 0 and "failed to push" in pushed.stderr
        assert objects(rclone) == before


def test_anybody_reads_an_s3_bucket_that_allows_it(
    seaweedfs: S3Server, published: Callable[[S3Server], Checkout], tmp_path: Path
) -> None:
    origin = published(seaweedfs)
    clone = origin.clone(tmp_path).without_keys()
    clone("dvc", "remote", "modify", "--local", "lab", "allow_anonymous_login", "true")
    clone("dvc", "pull")
    assert clone.content() == origin.content()
