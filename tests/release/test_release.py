"""Releases to a real S3 server: what is published is what anybody gets, and a failed release leaves no trace."""

import errno
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple

import pytest
import s3fs
from botocore import exceptions as aws

from banana100.errors import UserError
from banana100.release import addresses, checks, proof, settings
from banana100.release.remote import Remote
from banana100.release.wording import why
from benchmarks.object_stores import BUCKET, PublicHttp, Rclone, free_port

KEY, SECRET = f"key{secrets.token_hex(8)}", f"secret{secrets.token_hex(16)}"
OUTPUTS = ("data/seeds", "data/lineage", "data/previews", "data/replicas", "data/scores", "metrics")
TABLES = ("data/lineage", "score", "rank")
PREFIX = f"s3://{BUCKET}/lab/run"
NO_MACHINE = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1"}
NO_MACHINE |= dict.fromkeys(("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"), "/nowhere")
CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}


class Server(Rclone):
    """An S3 server with a key and a secret that no file holds."""

    def command(self):
        return [f"{KEY},{SECRET}" if "," in str(part) else part for part in super().command()]


class Public(PublicHttp):
    """What anybody may read, without remembering what was not there."""

    def command(self):
        return [*super().command(), "--dir-cache-time", "0s"]


class Project:
    """A copy of a clone after `dvc repro`, or a clone of such a copy, with the variables that its user has."""

    def __init__(self, folder, environment):
        self.folder = folder
        self.variables = environment

    @property
    def config(self):
        return (self.folder / ".dvc/config").read_text()

    @property
    def temporary(self):
        return list((self.folder / ".dvc/tmp").glob("release-*"))

    def start(self, *command, **variables):
        environment = self.variables | variables
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *command, ok=True, **variables):
        process = self.start(*command, **variables)
        out, err = process.communicate()
        if ok and process.returncode:
            pytest.fail(f"{' '.join(command)}: exit {process.returncode}\n{out}\n{err}")
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def release(self, server, *options, ok=True, remote=PREFIX, **variables):
        command = ("banana100", "release", remote, "--endpoint", server.endpoint, *options)
        return self(*command, ok=ok, **(CREDENTIALS | variables))

    def commit(self):
        self("git", "commit", "-qam", "changed")

    def files(self):
        listed = (file for part in OUTPUTS for file in sorted((self.folder / part).rglob("*")) if file.is_file())
        return {str(file.relative_to(self.folder)): file.read_bytes() for file in listed}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    return tmp_path_factory.mktemp("release")


@pytest.fixture(scope="module")
def environment(tiny_clone, room):
    """What a user's shell has: tools, and nothing of AWS."""
    kept = {name: value for name, value in tiny_clone.environment.items() if not name.startswith("AWS_")}
    return kept | NO_MACHINE | {"DVC_SITE_CACHE_DIR": str(room / "site"), "HOME": str(room)}


@pytest.fixture(scope="module")
def make_project(tiny_clone, environment, room):
    def make(name, of=tiny_clone):
        shutil.copytree(of.folder, room / name, symlinks=True)
        return Project(room / name, environment)

    return make


@pytest.fixture
def project(make_project, request):
    return make_project(request.node.name)


@pytest.fixture(scope="module")
def server(room):
    with Server(room / "server") as running:
        yield running


@pytest.fixture(scope="module")
def public(room, server):
    with Public(server.folder / BUCKET / "lab" / "run") as running:
        yield running


@pytest.fixture(scope="module")
def published(make_project, server, public):
    """A project after a release that anybody can read, and what the release said."""
    project = make_project("published")
    return project, project.release(server, "--public-url", public.endpoint)


@pytest.fixture(scope="module")
def stranger(published, environment, room):
    """Somebody else's clone of it, after the owner has committed what the release wrote."""
    owner, _ = published
    if owner("git", "status", "--porcelain").stdout:
        owner.commit()
    clone = Project(room / "stranger", environment)
    owner("git", "clone", "-q", str(owner.folder), str(clone.folder))
    return clone


def test_a_release_configures_two_remotes_and_says_how_to_publish_and_fetch(published, server, public):
    project, said = published
    assert project.config.endswith(
        "    remote = public\n"
        f"['remote \"release\"']\n    url = {PREFIX}\n    endpointurl = {server.endpoint}\n"
        f"['remote \"public\"']\n    url = {public.endpoint}\n"
    )
    assert project("git", "status", "--porcelain").stdout in ("", " M .dvc/config\n")
    for command in ("git add .dvc/config", "git push", "make env", "dvc pull", "banana100 verify"):
        assert command in said.stdout
    assert f"dvc pull {' '.join(TABLES)}" in said.stdout
    assert said.stderr == ""
    assert project.temporary == []
    assert [path.name for path in (server.folder / BUCKET / "lab/run").iterdir()] == ["files"]  # no probe


def test_no_secret_is_anywhere(published, server, room):
    project, said = published
    texts = [said.stdout.encode(), said.stderr.encode()]
    for folder in (project.folder, room / "site", server.folder):
        texts += [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    assert len(texts) > 200
    assert not [text for text in texts if KEY.encode() in text or SECRET.encode() in text]


def test_anybody_fetches_the_same_bytes_without_credentials_and_nobody_pushes(published, stranger):
    stranger("dvc", "pull", *TABLES)
    assert not (stranger.folder / "data/replicas").exists()
    stranger("dvc", "pull")
    assert stranger.files() == published[0].files()
    assert len(stranger.files()) > 50
    (stranger.folder / "mine.txt").write_text("mine")
    stranger("dvc", "add", "mine.txt")
    assert stranger("dvc", "push", ok=False).returncode


def test_a_release_that_is_committed_is_released_again_as_it_is(published, stranger, server, public):
    owner, _ = published
    before = owner.config
    said = owner.release(server, "--public-url", public.endpoint).stdout
    assert "\n0 of " in said
    assert owner.config == before
    assert "git push" in said
    assert "git commit" not in said


def test_without_a_public_address_the_bucket_itself_is_the_default(published, stranger, make_project, server):
    project = make_project("private", published[0])
    said = project.release(server).stdout
    assert "with credentials" in said
    assert f"    remote = release\n['remote \"release\"']\n    url = {PREFIX}\n" in project.config
    assert "public" not in project.config
    # what a release wrote is no uncommitted change for the next
    fails(
        project.release(server, "--public-url", f"{server.endpoint}/{BUCKET}", ok=False),
        " for what was just written to",
    )


def fails(result, sentence):
    """One sentence, no traceback, the exit code of a user's mistake."""
    assert result.returncode == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert KEY not in result.stderr + result.stdout
    assert SECRET not in result.stderr + result.stdout


def test_what_is_killed_in_mid_push_is_released_by_the_next_run(project, server, room):
    arrived = room / "bucket-of-kills" / BUCKET / "lab/run/files"
    before = project.config

    def count():
        return sum(path.is_file() for path in arrived.rglob("*"))

    def when_more_than(number, process):
        while count() <= number and process.poll() is None:
            time.sleep(0.001)

    with Server(room / "bucket-of-kills") as mine:
        command = ("banana100", "release", PREFIX, "--endpoint", mine.endpoint)
        process = project.start(*command, **CREDENTIALS)
        when_more_than(0, process)
        mine.kill()
        out, err = process.communicate()
        fails(subprocess.CompletedProcess(command, process.returncode, out, err), "run it again")
        assert project.config == before
        reached = count()

        mine.start()
        process = project.start(*command, **CREDENTIALS)
        when_more_than(reached, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert project.config == before
        reached = count()

        (project.folder / ".dvc/tmp/release-left/clone").mkdir(parents=True)  # of a release killed later
        said = project.release(mine).stdout
        sent, _, of = said.split(" objects sent")[0].splitlines()[-1].split()
        assert reached and 0 < int(sent) <= int(of)  # the server may hold a part of an object
        assert project.temporary == []
        assert project.config != before


def commit_a_change(project):
    path = project.folder / "params.yaml"
    path.write_text(path.read_text().replace("bootstrap: 100", "bootstrap: 101"))
    project.commit()


def damage_an_image_and_record_it(project):
    path = next((project.folder / "data/replicas").rglob("003.png"))
    path.write_bytes(path.read_bytes()[:-1])
    project("dvc", "commit", "-f", "-q")
    project.commit()


def cache_object(project):
    return max((project.folder / ".dvc/cache").rglob("*"), key=lambda path: path.stat().st_size)


def damage_the_cache(project):
    path = cache_object(project)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def damage_the_config(project):
    (project.folder / ".dvc/config").write_text("[core\n")
    project.commit()


SPOILT = {
    "an uncommitted change": (
        lambda project: (project.folder / "README.md").write_text("mine"),
        "README.md: not committed; a release is a commit",
    ),
    "a file that git does not know": (
        lambda project: (project.folder / "src/mine.py").write_text(""),
        "src/mine.py: not committed",
    ),
    "other changes in .dvc/config": (
        lambda project: (project.folder / ".dvc/config").write_text("[core]\n    analytics = true\n"),
        ".dvc/config: not committed",
    ),
    "a damaged .dvc/config": (damage_the_config, ".dvc/config: damaged ("),
    "a stage that is out of date": (commit_a_change, "run `dvc repro` and commit dvc.lock first"),
    "an object that is not in the cache": (lambda project: cache_object(project).unlink(), "not in cache"),
    "a damaged object in the cache": (damage_the_cache, "run `dvc "),
    "a damaged image": (damage_an_image_and_record_it, "verify finds the faults above; nothing was sent"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_what_is_not_fit_to_be_released_is_refused_before_anything_is_sent(what, make_project):
    spoil, sentence = SPOILT[what]
    project = make_project(what)
    spoil(project)
    before = project.config
    nobody = f"http://127.0.0.1:{free_port()}"
    result = project("banana100", "release", PREFIX, "--endpoint", nobody, ok=False, **CREDENTIALS)
    fails(result, sentence)
    assert ("003.png" in result.stdout) == (what == "a damaged image")
    assert project.config == before


def test_a_public_address_that_loses_an_object_is_found_by_the_clone(project, server, room):
    """The probe is there, and all but one object: only the proof can know."""
    result = project.release(server, remote=f"s3://{BUCKET}/lossy")  # all is sent
    project("git", "checkout", ".dvc/config")
    shutil.copytree(server.folder / BUCKET / "lossy", room / "lossy")
    next(path for path in (room / "lossy").rglob("*") if path.is_file() and path.suffix != ".dir").unlink()
    assert result.returncode == 0
    before = project.config
    with Public(room / "lossy") as public:
        # the probe alone is read from where it was written
        (room / "lossy/banana100-probe").symlink_to(server.folder / BUCKET / "lossy/banana100-probe")
        result = project.release(server, "--public-url", public.endpoint, remote=f"s3://{BUCKET}/lossy", ok=False)
    fails(result, f"{public.endpoint}: a clone could not fetch everything from there")
    assert project.config == before
    assert project.temporary == []


def test_make_release_needs_a_remote(project):
    result = project("make", "-o", "env", "release", ok=False)
    assert result.returncode == 2
    assert "banana100 release: no remote is named; allowed: make release REMOTE=s3://bucket/prefix.\n" in result.stderr


def test_make_release_passes_on_what_it_is_given(project):
    asked = ["REMOTE=s3://bucket/p", "ENDPOINT=https://s3.example", "PUBLIC_URL=https://me:word@example.org"]
    result = project("make", "-o", "env", "release", *asked, ok=False)
    assert "public URL: it holds a user or password" in result.stderr
    assert "word@" not in result.stdout + result.stderr


# --- one sentence for each way in which a remote refuses -------------------------------------------------------------


@pytest.fixture
def probe(tmp_path, monkeypatch):
    """Probe a remote from an empty project, with other variables."""
    for command in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"]):
        subprocess.run(command, cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))

    def ask(endpoint, bucket=BUCKET, public=None, **variables):
        for name, value in (NO_MACHINE | CREDENTIALS | variables).items():
            monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
        s3fs.S3FileSystem.clear_instance_cache()
        there = addresses.checked(f"s3://{bucket}/probed", endpoint, public)
        Remote(there, settings.remote(settings.released("", there))).probe()

    return ask


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"AWS_ACCESS_KEY_ID": "another"}, "the server does not know this key"),
        ({"AWS_SECRET_ACCESS_KEY": "another"}, "the secret does not belong to the key"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no credentials; set AWS_ACCESS_KEY_ID"),
        ({"AWS_PROFILE": "nobody"}, "the profile that AWS_PROFILE names is not in the AWS configuration"),
        ({"bucket": "another"}, "there is no such bucket"),
        ({"endpoint": f"http://127.0.0.1:{free_port()}"}, "the server does not answer"),
    ],
)
def test_the_probe_says_what_is_wrong_with_the_remote(probe, server, changed, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        probe(**({"endpoint": server.endpoint} | changed))
    assert KEY not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_the_probe_reads_through_the_public_address(probe, server, room):
    with Public(server.folder / BUCKET / "probed") as public:
        probe(server.endpoint, public=public.endpoint)
        assert not (server.folder / BUCKET / "probed/banana100-probe").exists()
        with pytest.raises(UserError, match="answers 404 for what was just written"):
            probe(server.endpoint, public=f"{public.endpoint}/elsewhere")
    with pytest.raises(UserError, match="it does not answer"):
        probe(server.endpoint, public=public.endpoint)
    (room / "other").mkdir()
    (room / "other/banana100-probe").write_text("an older one")
    with Public(room / "other") as public, pytest.raises(UserError, match="serves something else for what was just"):
        probe(server.endpoint, public=public.endpoint)


def answer(code, status=403):
    content = {"Error": {"Code": code, "Message": f"{KEY} {SECRET}"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return aws.ClientError(content, "PutObject")


@pytest.mark.parametrize(
    ("error", "clause"),
    [
        (answer("ExpiredToken", 400), "the session token has expired"),
        (answer("TokenRefreshRequired", 400), "the session token has expired"),
        (answer("InvalidToken", 400), "the session token is not valid"),
        (answer("AccessDenied"), "access is denied"),
        (answer("403"), "access is denied"),
        (answer("RequestTimeTooSkewed"), "clock"),
        (answer("PermanentRedirect", 301), "in another region"),
        (answer("SlowDown", 503), "fewer requests"),
        (answer("InternalError", 500), "perhaps as its disk is full"),
        (answer("XMinioStorageFull", 507), "no room left"),
        (answer("Teapot", 418), "the server answers Teapot"),
        (answer(f"no code: {SECRET}", 418), "the server answers with an error"),
        (aws.ConnectionClosedError(endpoint_url="http://x"), "the connection broke off"),
        (aws.ReadTimeoutError(endpoint_url="http://x"), "the connection broke off"),
        (aws.ConnectTimeoutError(endpoint_url="http://x"), "the server does not answer"),
        (aws.SSLError(endpoint_url="https://x", error="bad"), "its certificate is not trusted"),
        (aws.ProxyConnectionError(proxy_url="http://x"), "the proxy does not answer"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "the connection broke off"),
        (OSError(errno.ENOSPC, "full"), "the disk of this machine is full"),
        (OSError(errno.EDQUOT, "full"), "the disk of this machine is full"),
    ],
)
def test_every_failure_has_its_clause(error, clause):
    told = OSError(errno.EIO, "told by s3fs")
    told.__cause__ = error
    for one in (error, told):
        assert clause in why(one)
        assert SECRET not in why(one)


def test_a_bug_has_no_clause():
    assert why(KeyError("bug")) is None
    assert why(OSError(errno.EBADF, "bug")) is None


# --- arguments, .dvc/config, room ------------------------------------------------------------------------------------


def test_addresses_lose_the_slash_at_their_end():
    found = addresses.checked("s3://bucket/a/b/", "http://127.0.0.1:9000/", "https://data.example.org/~lab/run-1.0/")
    assert found == addresses.Addresses(
        "s3://bucket/a/b", "http://127.0.0.1:9000", "https://data.example.org/~lab/run-1.0"
    )
    assert found.bucket == "bucket"
    assert found.key("x") == "a/b/x"
    assert addresses.checked("s3://bucket", "", None).key("x") == "x"
    assert addresses.checked("s3://bucket", "http://localhost:1", "http://[::1]:1").public == "http://[::1]:1"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("", None, None), "no remote is named"),
        (("bucket/prefix", None, None), "remote: not the address of a folder in a bucket"),
        (("s3://", None, None), "remote: not the address"),
        (("s3:///prefix", None, None), "remote: not the address"),
        (("https://bucket/prefix", None, None), "remote: not the address"),
        (("s3://bucket/a/../b", None, None), "remote: not the address"),
        (("s3://bucket/a b", None, None), "remote: not the address"),
        (("s3://bucket/a\n[core]", None, None), "remote: not the address"),
        (("s3://KEY:hunter2@bucket/a", None, None), "remote: it holds a user or password"),
        (("s3://bucket/a?secret=hunter2", None, None), "remote: it goes on after"),
        (("s3://b/a", None, None), "remote: not the address"),
        (("s3://bucket", "s3.example.org", None), "endpoint: not a plain web address"),
        (("s3://bucket", "http://s3.example.org", None), "endpoint: http is readable under way"),
        (("s3://bucket", "http://127.0.0.1.example.org", None), "endpoint: http is readable under way"),
        (("s3://bucket", "https://me:hunter2@s3.example.org", None), "endpoint: it holds a user or password"),
        (("s3://bucket", "https://s3.example.org:x", None), "endpoint: not an address"),
        (("s3://bucket", None, "http://example.org"), "public URL: http is readable under way"),
        (("s3://bucket", None, "https://me:hunter2@example.org"), "public URL: it holds a user or password"),
        (("s3://bucket", None, "https://example.org/x?X-Amz-Signature=hunter2"), "public URL: it goes on after"),
        (("s3://bucket", None, "ftp://example.org/x"), "public URL: not a plain web address"),
    ],
)
def test_other_addresses_are_refused_without_repeating_them(given, sentence):
    with pytest.raises(UserError) as caught:
        addresses.checked(*given)
    assert str(caught.value).startswith(sentence)
    assert "hunter2" not in str(caught.value)


MINE = """# about this file
[core]
    # no statistics
    analytics = false
    remote = lab
# the lab's
['remote "lab"']
    url = s3://lab/data
['remote "release"']
    profile = lab
"""


def test_what_else_is_in_the_config_stays():
    there = addresses.checked("s3://bucket/p", "https://s3.example.org", "https://example.org/p")
    after = settings.released(MINE, there)
    assert [line for line in MINE.splitlines() if line not in after.splitlines()] == ["    remote = lab"]
    assert settings.remote(after) == {
        "profile": "lab",
        "url": "s3://bucket/p",
        "endpointurl": "https://s3.example.org",
    }
    assert settings.replaced(MINE, after) == ["[core] remote"]
    assert settings.released(after, there) == after
    assert not settings.differ(MINE, after)
    assert settings.differ(MINE, after.replace("analytics = false", "analytics = true"))
    back = settings.released(after, addresses.checked("s3://bucket/p", None, None))
    assert settings.replaced(after, back) == [
        '[remote "release"] endpointurl',
        '[remote "public"] url',
        "[core] remote",
    ]
    assert settings.replaced(after, after) == []
    assert back == MINE.replace("remote = lab", "remote = release") + "    url = s3://bucket/p\n"


@pytest.mark.parametrize("key", ["access_key_id", "secret_access_key", "session_token", "allow_anonymous_login"])
def test_a_config_with_credentials_is_not_published(key):
    with pytest.raises(UserError, match=f"has {key}, which must not be published") as caught:
        settings.released(f"{MINE}    {key} = hunter2\n", addresses.checked("s3://bucket/p", None, None))
    assert "hunter2" not in str(caught.value)


def test_a_clone_that_does_not_fit_on_the_disk_is_refused(tmp_path, monkeypatch):
    (tmp_path / "object").write_bytes(bytes(1000))
    objects = {"hash": tmp_path / "object"}
    assert checks.room(objects, tmp_path) == 1000
    usage = namedtuple("Usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(5000))
    with pytest.raises(UserError, match="are needed for a clone that proves the release"):
        checks.room(objects, tmp_path)


def test_one_release_at_a_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with proof.alone(), pytest.raises(UserError, match="another release of this project is under way"), proof.alone():
        pass
