"""The default params as they are committed: a fresh clone, its outputs, and what a clone with only a remote fetches."""

import hashlib
import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from skimage.metrics import peak_signal_noise_ratio

from banana100 import images
from banana100.cli import STAGES
from banana100.files import sha256_of
from helpers.clones import ROOT


@pytest.fixture(scope="module")
def finished(new_clone: Callable[[str], Any]) -> Any:
    """A fresh clone after `dvc repro`."""
    clone = new_clone("finished")
    clone.log = clone("env", "-u", "BANANA100_WORKERS", "dvc", "repro").stdout
    clone("git", "commit", "--allow-empty", "-qam", "run")  # a no-op where the committed lock holds to the last digit
    return clone


def md5(file: Path) -> str:
    return hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()


def files_of(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def objects(folder: Path) -> set[str]:
    """The names, which are md5, of all objects in a cache or remote of DVC."""
    return {file.parent.name + file.name for file in files_of(folder / "files/md5")}


def stages_run(log: str) -> list[str]:
    return re.findall(r"Running stage '(\w+)'", log)


def test_a_fresh_clone_runs_all_stages_and_is_then_up_to_date(finished: Any) -> None:
    assert stages_run(finished.log) == list(STAGES)
    assert "Data and pipelines are up to date." in finished("dvc", "status").stdout
    assert stages_run(finished("dvc", "repro").stdout) == []
    assert finished("git", "status", "--porcelain").stdout == ""  # .gitignore covers every output
    summary = finished("python", "-m", "banana100", "summary").stdout
    assert "consistent?" in summary and (finished.folder / "metrics/report/index.html").as_uri() in summary


def test_images_are_those_that_the_committed_lock_names(finished: Any) -> None:
    """Seeds and replicas are bit-identical on every x86-64 machine; scores are to their last digit on most."""
    committed = yaml.safe_load((ROOT / "dvc.lock").read_text())["stages"]
    for stage in ("select_seeds", "replicate"):
        for out in committed[stage]["outs"]:
            assert finished.outputs()[out["path"]] == out["md5"], out["path"]


def test_200_images_and_200_scores_name_the_params_that_this_run_was_made_with(
    finished: Any, default_params: dict[str, Any], put_back: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above shows that these params make these bytes; test_trace.py puts them into another clone."""
    from banana100 import snapshot
    from banana100.trace.subjects import ways_of

    monkeypatch.chdir(finished.folder)
    state, drawn = snapshot.of_workspace(), random.Random(1)
    path_of = dict(zip(state.images["image_id"], state.images["path"], strict=True))
    scores = [row for metric in ("brisque", "entropy", "niqe", "piqe") for row in state.scores(metric).itertuples()]
    ways = {path: ways_of(state, path)[0] for path in drawn.sample(sorted(state.images["path"]), 200)}
    for row in drawn.sample([*scores, *state.drift.itertuples()], 200):
        name = f"{row.metric}:{path_of[row.image_id]}"
        ways[name] = ways_of(state, name)[0]
        assert ways[name]["score"]["score"] == row.score
    for name, way in ways.items():
        image = way["chain"][0]
        assert sha256_of(Path(image["path"]).read_bytes()) == image["image_id"], name
        content: dict[str, Any] = {}
        put_back(content, way)
        campaigns = {"simulated-replica": default_params["campaigns"]["simulated-replica"]}
        expected = {"active": default_params["active"], "campaigns": campaigns, "seeds": default_params["seeds"]}
        expected |= {"scoring": default_params["scoring"]} if "score" in way else {}
        assert content == expected, name


def test_drift_from_the_seed_grows_with_every_step_in_every_seed(finished: Any) -> None:
    table = pd.read_parquet(finished.folder / "data/lineage/images.parquet")
    pixels = {path: images.decode((finished.folder / path).read_bytes()) for path in table["path"]}
    assert table["seed"].nunique() == 6 and table["step"].max() == 20
    for _, of_seed in table.groupby("seed"):
        drift: dict[int, list[float]] = {}
        for _, chain in of_seed.groupby("repeat"):
            seed = pixels[chain["path"].iloc[0]]
            for path, step in zip(chain["path"].iloc[1:], chain["step"].iloc[1:], strict=True):
                drift.setdefault(step, []).append(peak_signal_noise_ratio(seed, pixels[path]))
        means = [np.mean(drift[step]) for step in sorted(drift)]
        assert all(np.diff(means) < 0), means
        assert means[0] > 39 and means[-1] < 22


def test_a_clone_with_only_a_remote_compares_subsets_without_an_image(
    finished: Any, new_clone: Callable[[str], Any], tmp_path: Path
) -> None:
    clone = new_clone("only-a-remote")
    shutil.copy2(finished.folder / "dvc.lock", clone.folder)
    shutil.copy2(finished.folder / "metrics/ranking.json", clone.folder / "metrics")
    for one in (finished, clone):
        one("dvc", "remote", "add", "-q", "-d", "lab", str(tmp_path / "remote"))
        one("git", "commit", "-qam", "remote")
    finished("dvc", "push", "-q")
    arguments = ["--pull", "--allow-missing", "-n", "pair", "-S", "ranking.metrics=[niqe,piqe]"]
    assert stages_run(clone("dvc", "exp", "run", *arguments).stdout) == ["rank", "report"]
    fetched = objects(clone.folder / ".dvc/cache") & objects(tmp_path / "remote")
    wanted = {
        md5(file) for part in ("lineage", "previews", "scores") for file in files_of(finished.folder / "data" / part)
    }
    wanted |= {md5(file) for file in (finished.folder / "data/seeds").glob("*.parquet")}  # without the seeds' images
    written = {md5(file) for file in files_of(finished.folder / "metrics")}  # what rank writes alike was not fetched
    names = {name for name in fetched if name.endswith(".dir")}  # of an output's files, with their md5
    assert wanted <= fetched <= wanted | written | names
    sizes = {name: (tmp_path / f"remote/files/md5/{name[:2]}/{name[2:]}").stat().st_size for name in fetched}
    assert sum(sizes.values()) < sum(file.stat().st_size for file in files_of(finished.folder / "data/replicas")) / 20
    assert not list((clone.folder / "data").rglob("*.png"))
    ranking = json.loads((clone.folder / "metrics/ranking.json").read_text())
    assert set(ranking["ranking"]) == {"niqe", "piqe"}
    whole = json.loads((finished.folder / "metrics/ranking.json").read_text())
    assert ranking["ranking"]["niqe"]["tau_low"] == whole["ranking"]["niqe"]["tau_low"]  # drawn alike in every subset
