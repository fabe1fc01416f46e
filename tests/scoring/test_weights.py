"""Weights: fetched from a real server on loopback, pinned, and never loaded unless they are what the lock says."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from banana100 import paths
from banana100.catalogue.metrics import METRICS
from banana100.catalogue.weights import Repository
from banana100.cli import main
from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.scoring import fetching, weights
from banana100.scoring.scorers import scorer
from banana100.scoring.worker import Worker

REVISION = "0123456789abcdef0123456789abcdef01234567"


class Host:
    """Files by path, served over HTTP as Hugging Face does for small files; counts what is asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.cut = False
        host = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.answer(with_body=False)

            def do_GET(self) -> None:
                self.answer(with_body=True)

            def answer(self, with_body: bool) -> None:
                path = self.path.split("?")[0]
                host.asked.append(path)
                data = host.files.get(path)
                self.send_response(404 if data is None else 200)
                self.send_header("Content-Length", str(len(data or b"")))
                if data is not None:
                    self.send_header("ETag", f'"{sha256_of(data)}"')
                    self.send_header("X-Repo-Commit", REVISION)
                self.end_headers()
                if with_body and data:
                    self.wfile.write(data[: len(data) // 2] if host.cut else data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def serve_weight(self, name: str, data: bytes) -> None:
        self.files[f"/chaofengc/IQA-PyTorch-Weights/resolve/main/{name}"] = data


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    started = Host()
    monkeypatch.setenv("HF_ENDPOINT", started.url)
    yield started
    started.server.shutdown()


def lock_bytes() -> bytes:
    return paths.WEIGHTS_LOCK.read_bytes()


def test_a_file_is_fetched_once_and_pinned(
    project: Path, host: Host, weights_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host.serve_weight("brisque_matlab.mat", b"weights")
    assert main(["weights", "status", "brisque_matlab"]) == 0
    assert "to fetch" in capsys.readouterr().out
    assert main(["weights", "fetch", "brisque_matlab"]) == 0
    assert "brisque_matlab.mat: here, pinned" in capsys.readouterr().out
    path = weights_folder / "hub/pyiqa/brisque_matlab.mat"
    assert path.read_bytes() == b"weights" and [file.name for file in path.parent.iterdir()] == [path.name]
    pin = weights.read_lock()["pyiqa/brisque_matlab.mat"]
    assert pin == {"bytes": 7, "sha256": sha256_of(b"weights")}
    asked, locked = len(host.asked), lock_bytes()
    assert main(["weights", "fetch", "brisque_matlab"]) == 0
    assert len(host.asked) == asked and lock_bytes() == locked
    assert main(["weights", "verify", "brisque_matlab"]) == 0
    assert main(["weights", "status", "brisque_matlab"]) == 0
    shown = capsys.readouterr().out
    assert "as pinned" in shown and "here" in shown and "CC-BY-NC-SA-4.0" in shown and str(weights_folder) in shown


def test_a_file_put_there_by_hand_is_pinned_without_a_network(project: Path, weights_folder: Path) -> None:
    path = weights_folder / "hub/pyiqa/brisque_matlab.mat"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"by hand")
    with pytest.raises(UserError, match="is not pinned; run `banana100 weights fetch brisque_matlab`"):
        scorer("brisque_matlab", "float32", weights.read_lock())
    assert main(["weights", "fetch", "brisque_matlab"]) == 0
    assert scorer("brisque_matlab", "float32", weights.read_lock()).row["parameters_sha256"] == sha256_of(b"by hand")


@pytest.mark.parametrize(
    ("name", "metric", "sentence"),
    [
        ("CNNIQA_koniq10k-e6f14c91.pth", "cnniqa", "its name promises e6f14c91…; it is not used"),
        ("ILNIQE_templateModel.mat", "ilniqe", "the lock pins 14f4919a"),
    ],
)
def test_a_file_that_is_not_the_promised_or_pinned_one_is_not_kept(
    project: Path, host: Host, weights_folder: Path, name: str, metric: str, sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    host.serve_weight(name, b"something else")
    locked = lock_bytes()
    assert main(["weights", "fetch", metric]) == 2
    assert sentence in capsys.readouterr().err
    assert not [file for file in weights_folder.rglob("*") if file.is_file()] and lock_bytes() == locked


def test_a_transfer_that_ends_early_leaves_nothing(
    project: Path, host: Host, weights_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host.serve_weight("brisque_matlab.mat", b"weights" * 1000)
    host.cut = True
    assert main(["weights", "fetch", "brisque_matlab"]) == 2
    assert "brisque_matlab.mat" in capsys.readouterr().err
    assert not [file for file in weights_folder.rglob("*") if file.is_file()]


def test_one_missing_file_does_not_stop_the_others(
    project: Path, host: Host, weights_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host.serve_weight("brisque_matlab.mat", b"weights")
    assert main(["weights", "fetch", "niqe_matlab", "brisque_matlab"]) == 2
    shown = capsys.readouterr()
    assert "niqe_matlab_params.mat" in shown.err and "404" in shown.err and "Traceback" not in shown.err
    assert (weights_folder / "hub/pyiqa/brisque_matlab.mat").is_file()


@pytest.mark.parametrize("metric", ["cnniqa", "hyperiqa", "clipiqa", "qalign"])
def test_without_a_network_a_sentence_comes_within_seconds(
    project: Path, monkeypatch: pytest.MonkeyPatch, metric: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names file, host and folder; nothing waits through retries. Seconds are allowed for, minutes are not."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(fetching, "_HUB", "https://huggingface.co")
    monkeypatch.setattr(fetching.socket, "create_connection", _unreachable)
    started = time.monotonic()
    assert main(["weights", "fetch", metric]) == 2
    files = METRICS[metric].weights
    assert time.monotonic() - started < 5 * len(files)
    told = capsys.readouterr().err
    for file in files:
        assert f"weights {file.name}: " in told
    assert "is out of reach" in told and "put it into" in told


def _unreachable(address: object, timeout: float) -> None:
    time.sleep(timeout * 5)  # as where packets are dropped: nothing comes back
    raise OSError("no route")


def test_a_repository_is_fetched_into_hugging_faces_layout_and_found_offline(
    project: Path, host: Host, weights_folder: Path
) -> None:
    repository = Repository("timm/resnet50.a1_in1k", ("model.safetensors",), 1, "?")
    base = "/timm/resnet50.a1_in1k/resolve"
    files = [{"rfilename": "model.safetensors"}, {"rfilename": "pytorch_model.bin"}]
    info = json.dumps({"id": repository.name, "sha": REVISION, "siblings": files, "private": False}).encode()
    for revision in ("main", REVISION):
        host.files[f"/api/models/{repository.name}/revision/{revision}"] = info
        host.files[f"{base}/{revision}/model.safetensors"] = b"tensors"
    tree = [{"type": "file", "path": f["rfilename"], "size": 7, "oid": "0" * 40} for f in files]
    for revision in ("main", REVISION):
        host.files[f"/api/models/{repository.name}/tree/{revision}"] = json.dumps(tree).encode()
    lock: weights.Lock = {}
    key = "huggingface/timm/resnet50.a1_in1k/model.safetensors"
    assert fetching.fetch(repository, lock) == [key]
    assert lock[key] == {"bytes": 7, "revision": REVISION, "sha256": sha256_of(b"tensors")}
    path = weights.files_of(repository, lock)[key]
    assert path.read_bytes() == b"tensors" and "pytorch_model.bin" not in str(list(weights_folder.rglob("*")))
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository.name, "model.safetensors", cache_dir=weights_folder / "huggingface/hub")
    assert Path(str(found)) == path
    assert fetching.fetch(repository, lock) == []


@pytest.mark.parametrize("metric", ["laion_aes", "afine_nr"])
def test_clip_is_looked_for_in_the_weights_folder_alone(
    metric: str, weights_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default these two would read ~/.cache/clip, which nobody checks."""
    import clip.clip
    from pyiqa.archs import afineclip_model

    from banana100.scoring.metrics import base

    class Asked(Exception):
        pass

    def download(url: str, root: str) -> str:
        raise Asked(root)

    monkeypatch.setattr(clip.clip, "_download", download)
    monkeypatch.setattr(afineclip_model, "_download", download)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(weights_folder / "hub"))
    files = {file.name: weights_folder / file.name for file in METRICS[metric].weights}
    with pytest.raises(Asked, match=f"{weights_folder}/hub/clip"):
        base.load(metric, files, torch.device("cpu"))


def test_changed_weights_are_not_loaded(random_networks: object, weights_folder: Path) -> None:
    lock = random_networks.lock  # type: ignore[attr-defined]
    one = scorer("cnniqa", "float32", lock)
    path = weights_folder / "hub/pyiqa/CNNIQA_koniq10k-e6f14c91.pth"
    path.write_bytes(path.read_bytes() + b"!")
    with pytest.raises(UserError, match=r"CNNIQA_koniq10k-e6f14c91.pth: sha256 is .*pins .*it is not loaded"):
        Worker([one], "cpu", 1)


def test_while_a_metric_loads_no_other_weight_file_opens(weights_folder: Path) -> None:
    """A weight file is code: one that the registry does not list for the metric is refused when it is opened."""
    listed, stranger = weights_folder / "hub/pyiqa/listed.pth", weights_folder / "hub/pyiqa/stranger.pth"
    listed.parent.mkdir(parents=True)
    for path in (listed, stranger):
        torch.save({}, path)
    weights.admit([weights.PinnedFile("pyiqa/listed.pth", listed, weights.digest_of(listed), "?")])
    with weights.guarded(weights_folder):
        torch.load(listed)
        with pytest.raises(UserError, match=r"stranger.pth: opened, but not listed for this metric"):
            torch.load(stranger)
        with pytest.raises(UserError, match="asked for while loading, but not listed"):
            torch.hub.load_state_dict_from_url("http://127.0.0.1:9/x.pth", model_dir=str(weights_folder))
    torch.load(stranger)


@pytest.mark.parametrize("content", [b"- a\n", b"a: 1\n", b"a: {sha256: zz}\n", b"{", b"a:\n  sha256: 12\n", b"\xff"])
def test_a_damaged_lock_is_told(project: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    paths.WEIGHTS_LOCK.write_bytes(content)
    assert main(["weights", "status"]) == 2
    told = capsys.readouterr().err
    assert "data/weights.lock.yaml" in told and "Traceback" not in told


def test_an_unknown_metric_is_told(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weights", "status", "nope"]) == 2
    assert "nope is no metric and no set of params.yaml" in capsys.readouterr().err


def test_all_metrics_can_be_listed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n{name} " in shown for name in METRICS)
    assert main(["weights", "status", *METRICS]) == 0
    assert "openaipublic.azureedge.net" in capsys.readouterr().out
