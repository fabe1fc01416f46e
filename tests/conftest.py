"""What all tests share: an own store for each, small projects, and real clones with real DVC."""

import copy
import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import settings

from banana100 import paths
from banana100.files import sha256_of
from banana100.lineage import tables
from helpers.clones import ROOT, Clone, made_once
from helpers.inline import InlineExecutor, as_a_worker_process

as_a_worker_process(Path(tempfile.mkdtemp(prefix="banana100-weights-")))

# Speed is for benchmarks; shared machines stall now and then.
settings.register_profile("banana100", deadline=None)
settings.load_profile("banana100")


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Take what a module has imported out of the garbage collector's sight: Holm's correction in statsmodels collects
    at every call, a quarter of a second each with torch and pyiqa in memory."""
    if nextitem is None or nextitem.path != item.path:
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What clones and runs comes first, so that processes end together; the order is else as it was shuffled."""
    items.sort(key=lambda item: "front_door" not in item.path.parts)


def pytest_sessionfinish() -> None:
    shutil.rmtree(paths.weights(), ignore_errors=True)


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store, so that no test sees the user's or another test's."""
    folder = tmp_path / "store"
    monkeypatch.setenv("BANANA100_STORE", str(folder))
    return folder


@pytest.fixture(autouse=True)
def weights_folder() -> Path:
    """An empty folder of weights, so that no test uses or changes the user's; the same for all tests of a process."""
    shutil.rmtree(paths.weights(), ignore_errors=True)
    return paths.weights()


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker processes but for tests that ask for `worker_processes`, and for commands that tests start."""
    monkeypatch.setattr("banana100.workers.ProcessPoolExecutor", InlineExecutor)


@pytest.fixture
def worker_processes(inline: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, real worker processes."""
    return lambda: monkeypatch.setattr("banana100.workers.ProcessPoolExecutor", ProcessPoolExecutor)


@pytest.fixture(scope="session")
def default_params() -> dict[str, Any]:
    """The content of the project's params.yaml; copy before changing."""
    return yaml.safe_load((ROOT / "params.yaml").read_text())


@pytest.fixture
def small_params(default_params: dict[str, Any]) -> dict[str, Any]:
    """Params of a run of seconds: 2 seeds, 2 repeats, 3 steps at 96 pixels."""
    content = small_content(default_params, {"repeats": 2, "steps": 3}, size=96, count=2)
    content["seeds"]["sources"] = [{"kind": "bundled", "names": ["astronaut", "coffee", "rocket"]}]
    content["previews"] = {"steps": [0, 1, 3], "side": 32}
    content["ranking"] |= {"probe_steps": [2, 3], "min_drift": {}}
    return content


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_params: dict[str, Any]) -> Path:
    """An empty project with small params, as the current directory."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "params.yaml").write_text(yaml.safe_dump(small_params, allow_unicode=True))
    (folder / "data").mkdir()
    shutil.copy2(ROOT / "data" / "weights.lock.yaml", folder / "data")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def set_params(project: Path) -> Callable[[dict[str, Any]], None]:
    """Write params.yaml of `project` anew."""

    def write(content: dict[str, Any]) -> None:
        (project / "params.yaml").write_text(yaml.safe_dump(content, allow_unicode=True))

    return write


@pytest.fixture
def scored(project: Any, small_params: dict[str, Any], set_params: Any) -> dict[str, Any]:
    """Two seeds of one repeat, steps 0-3; niqe sees the rot in both, piqe in one, entropy in none."""
    falls, rises = [1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]  # as scores of which lower is better: worse, better
    by_metric = {"niqe": (falls, falls), "piqe": (falls, rises), "entropy": (falls, falls), "brisque": (rises, rises)}
    images, requests = [], []
    for seed in ("a", "b"):
        for step in range(4):
            image = {"image_id": f"{seed}{step}", "path": f"{seed}/{step}.png", "bytes": 1, "width": 1, "height": 1}
            image |= {"mode": "RGB", "campaign": "simulated-replica", "seed": seed, "repeat": 1, "step": step}
            images.append(image | {"request_id": f"r{seed}{step}" if step else None})
            if step:
                asked = {"request_id": f"r{seed}{step}", "backend": "simulated", "model": "rot-1", "prompt": "again"}
                requests.append(asked | {"config": "{}", "seed": seed, "repeat": 1, "step": step, "cost_usd": 0.0})
    seeds = [{"seed": seed, "origin": "a wood", "licence": "CC0", "chosen": True} for seed in ("a", "b")]
    tables.write(paths.SEED_TABLE, tables.SEEDS, seeds)
    tables.write(paths.SEED_REQUESTS_TABLE, tables.REQUESTS, [])
    tables.write(paths.REFUSALS_TABLE, tables.REFUSALS, [])
    tables.write(paths.PARKED_TABLE, tables.PARKED, [])
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, images)
    tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, requests)
    scorers = [{"scorer_id": f"s-{m}", "metric": m, "higher_is_better": m == "entropy"} for m in by_metric]
    scorers.append({"scorer_id": "s-psnr", "metric": "psnr", "higher_is_better": True})
    scorers = [scorer | {"pyiqa": "0.1.16", "torch": "2.14.1"} for scorer in scorers]
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, scorers)
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, [])
    drift = [
        {"image_id": f"{seed}{step}", "reference_id": f"{seed}0", "metric": "psnr", "score": 40.0 - at * step}
        for (at, seed), step in itertools.product(enumerate("ab", start=4), (1, 2, 3))
    ]
    tables.write(paths.DRIFT_TABLE, tables.DRIFT, drift)
    for metric, values in by_metric.items():
        rows = [
            {"image_id": f"{seed}{step}", "metric": metric, "score": values[index][step], "scorer_id": f"s-{metric}"}
            for (index, seed), step in itertools.product(enumerate("ab"), range(4))
        ]
        tables.write(paths.scores(metric), tables.SCORES, rows)
    return small_params


@pytest.fixture(scope="session")
def new_clone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Clone]:
    """Make a fresh clone under a name, with an empty store beside it."""
    return lambda name: Clone.fresh(tmp_path_factory.mktemp(name))


def small_content(default_params: dict[str, Any], campaign: dict[str, Any], **seeds: Any) -> dict[str, Any]:
    content = copy.deepcopy(default_params)
    content["seeds"] |= seeds
    content["campaigns"] = {"simulated-replica": content["campaigns"]["simulated-replica"] | campaign}
    content["campaign_sets"] = {}
    return content


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory, default_params: dict[str, Any]) -> Clone:
    """A clone of 4 chains of 20 steps at 128 pixels, after `dvc repro`; to be copied or only read."""

    def make(room: Path) -> None:
        clone = Clone.fresh(room)
        content = small_content(default_params, {"repeats": 2, "steps": 20}, size=128, count=2)
        content["ranking"]["bootstrap"] = 200
        clone.set_params(content)
        clone("dvc", "repro")
        clone("git", "commit", "-qam", "run")

    return Clone(made_once(tmp_path_factory, "small", make))


@pytest.fixture(scope="session")
def small_clone(small_run: Clone, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A copy of `small_run` for this worker process; who changes it puts it back."""
    return small_run.copy(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory, default_params: dict[str, Any]) -> Clone:
    """A clone of 2 seeds, 2 repeats and 3 steps at 96 pixels, scored by two metrics, after `dvc repro`."""

    def make(room: Path) -> None:
        clone = Clone.fresh(room)
        content = small_content(default_params, {"repeats": 2, "steps": 3}, size=96, count=2)
        content["seeds"]["sources"] = [{"kind": "bundled", "names": ["astronaut", "coffee", "rocket"]}]
        content["previews"] = {"steps": [0, 3], "side": 32}
        content["scoring"] |= {"metrics": ["entropy", "niqe"], "drift": ["psnr"]}
        content["ranking"] |= {"metrics": ["entropy", "niqe"], "probe_steps": [2, 3], "min_drift": {}, "bootstrap": 100}
        clone.set_params(content)
        clone("dvc", "repro", "-q")
        clone("git", "commit", "-qam", "run")

    return Clone(made_once(tmp_path_factory, "tiny", make))


@pytest.fixture(scope="session")
def tiny_clone(tiny_run: Clone, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A copy of `tiny_run` for this worker process; who changes it copies it again."""
    return tiny_run.copy(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def put_back() -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """Put the params that a way of `banana100 trace` names back into the content of a params.yaml."""

    def merge(into: dict[str, Any], params: dict[str, Any]) -> None:
        for key, value in params.items():
            if isinstance(value, dict):
                merge(into.setdefault(key, {}), value)
            else:
                into[key] = value

    def put(into: dict[str, Any], way: dict[str, Any]) -> None:
        for node in (way, way["seed"], way.get("score", {})):
            merge(into, node.get("decided_by", {}).get("params", {}))

    return put


@pytest.fixture
def photograph() -> np.ndarray:
    """A real photograph, 128x128 pixels, uint8 RGB."""
    from skimage import data

    return np.ascontiguousarray(data.astronaut()[40:168, 150:278])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium: BANANA100_CHROMIUM, or the one of this machine.

    One a module and not one a session: while Playwright's loop runs, no other test can run one of its own.
    """
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("BANANA100_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("no Chromium: `make chromium`, or name one in BANANA100_CHROMIUM")
    with sync_playwright() as playwright:
        # Chromium's sandbox refuses to work for root.
        browser = playwright.chromium.launch(executable_path=found, chromium_sandbox=os.geteuid() != 0)
        yield browser
        browser.close()


class RandomNetworks:
    """Real architectures with seeded random weights in the weights folder; their scores mean nothing."""

    def __init__(self, folder: Path) -> None:
        import torch
        from pyiqa.archs.cnniqa_arch import CNNIQA
        from pyiqa.archs.musiq_arch import MUSIQ

        self.lock = {}
        (folder / "hub" / "pyiqa").mkdir(parents=True)
        untrained = {
            "CNNIQA_koniq10k-e6f14c91.pth": lambda: {"params": CNNIQA(pretrained=None).state_dict()},
            "musiq_koniq_ckpt-e95806b9.pth": lambda: MUSIQ(pretrained=False).state_dict(),
        }
        for name, content in untrained.items():
            torch.manual_seed(1)
            path = folder / "hub" / "pyiqa" / name
            torch.save(content(), path)
            self.lock[f"pyiqa/{name}"] = {"sha256": sha256_of(path.read_bytes()), "bytes": path.stat().st_size}

    def score(self, jobs: list[Any], scorers: list[Any], batch: int) -> dict[tuple[str, str], float | None]:
        """Scores by image and metric, through the engine."""
        from banana100.scoring import engine

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BANANA100_BATCH_SIZE", str(batch))
            found = [score for some in engine.score(jobs, {one.metric: one for one in scorers}) for score in some]
        return {(score.image_id, score.metric): score.score for score in found}


@pytest.fixture
def random_networks(weights_folder: Path) -> RandomNetworks:
    """cnniqa and musiq with random weights, and the lock that pins them."""
    return RandomNetworks(weights_folder)
