"""Scores: genuine values, the same however they are computed, failures as rows."""

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyiqa
import pytest
import torch
from PIL import Image

from banana100 import catalogue, images, paths
from banana100.cli import main
from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.lineage import tables
from banana100.scoring import engine, parameters
from banana100.scoring.engine import ImageFile
from banana100.scoring.metrics import MetricError, load
from banana100.scoring.store import ScoreStore

CALIBRATION = Path(pyiqa.__file__).parents[1] / "ResultsCalibra" / "dist_dir"
SHARED_WEIGHTS = Path(__file__).resolve().parents[2] / "shared" / "weights"

# pyiqa's own published scores of the five TID2013 images that ship in its wheel (ResultsCalibra, columns "ours");
# tolerances: niqe 0.003 (other builds of SVD and resize), brisque 0.01 (support vectors in float32 there).
PUBLISHED = {
    "niqe": ([15.6538, 3.6549, 3.2342, 3.1922, 9.0722], 3e-3),
    "brisque": ([94.6443, -0.1068, 1.0732, 5.1447, 66.8415], 1e-2),
    "piqe": ([100.0, 21.6243, 35.8646, 41.1471, 76.9485], 2e-4),
    "entropy": ([6.9511, 6.9661, 7.5309, 7.5565, 5.7629], 1e-4),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_metric_gives_the_published_values(name: str) -> None:
    files = sorted(CALIBRATION.glob("*.bmp"), key=lambda file: file.name.lower())
    assert [file.name[:3].upper() for file in files] == ["I03", "I04", "I06", "I08", "I19"]
    metric = load(name)
    values, tolerance = PUBLISHED[name]
    assert [metric(images.decode(file.read_bytes())) for file in files] == pytest.approx(values, abs=tolerance)


def test_every_metric_of_the_catalogue_is_checked_against_published_values() -> None:
    assert set(PUBLISHED) == set(catalogue.METRICS)


@pytest.mark.skipif(not SHARED_WEIGHTS.is_dir(), reason="no folder of genuine weights beside the project")
@pytest.mark.parametrize(
    ("name", "file"), [("niqe", "niqe_modelparameters.mat"), ("brisque", "brisque_svm_weights.pth")]
)
def test_packaged_parameters_score_as_the_authors_files_do(name: str, file: str, photograph: np.ndarray) -> None:
    original = pyiqa.create_metric(name, device="cpu", pretrained_model_path=str(SHARED_WEIGHTS / file)).net
    tensor = torch.tensor(photograph).permute(2, 0, 1)[None]
    # pyiqa runs BRISQUE's support vectors in float32, whose coefficients of +-1024 cancel to about 0.01
    tolerance = {"niqe": 1e-4, "brisque": 2e-2}[name]
    assert load(name)(photograph) == pytest.approx(float(original(tensor.float() / 255)), abs=tolerance)


def test_direction_comes_from_pyiqa() -> None:
    directions = {name: load(name).scorer["higher_is_better"] for name in catalogue.METRICS}
    assert directions == {"brisque": False, "entropy": True, "niqe": False, "piqe": False}


def test_a_scorer_is_known_by_all_that_decides_its_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    first = load("niqe").scorer
    assert first == load("niqe").scorer
    monkeypatch.setattr(pyiqa, "__version__", "0.1.17")
    assert load("niqe").scorer["scorer_id"] != first["scorer_id"]


def test_other_parameters_under_the_same_name_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "other_svm"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "allmodel").write_text("svm_type epsilon_svr\nSV\n1 1:0\n")
    monkeypatch.syspath_prepend(tmp_path)
    file = catalogue.PackagedFile("other_svm", "other-svm", "allmodel", "?", sha256="0" * 64)
    with pytest.raises(UserError, match=r"allmodel of package other-svm: sha256 is .*; allowed: 0000"):
        parameters.for_pyiqa(file)
    missing = catalogue.PackagedFile("no_such_package", "no-such", "allmodel", "?", sha256="0" * 64)
    with pytest.raises(UserError, match="not found in package no-such"):
        parameters.for_pyiqa(missing)


def test_flat_and_small_images_are_failures_with_a_reason() -> None:
    with pytest.raises(MetricError, match="LinAlgError"):
        load("niqe")(np.full((128, 128, 3), 128, np.uint8))
    for name, side in (("niqe", 95), ("brisque", 31), ("piqe", 15)):
        with pytest.raises(MetricError, match=f"is 300x{side} pixels; the shorter side must be {side + 1} at least"):
            load(name)(np.zeros((side, 300, 3), np.uint8))


# --- the stage


@pytest.fixture
def replicated(project: Path) -> Path:
    assert main(["select_seeds"]) == 0
    assert main(["replicate"]) == 0
    return project


def output(folder: Path) -> dict[str, str]:
    return {file.name: sha256_of(file.read_bytes()) for file in sorted((folder / paths.SCORES).iterdir())}


def test_every_image_gets_every_score_once(replicated: Path) -> None:
    assert main(["score"]) == 0
    wanted = set(tables.read(paths.IMAGES_TABLE, tables.IMAGES)["image_id"])
    scorers = tables.read(paths.SCORERS_TABLE, tables.SCORERS).set_index("metric")
    assert set(scorers.index) == {"brisque", "entropy", "niqe", "piqe"}
    for metric, scorer in scorers.iterrows():
        table = tables.read(paths.scores(str(metric)), tables.SCORES)
        assert set(table["image_id"]) == wanted and table["image_id"].is_monotonic_increasing
        assert table["score"].notna().all() and (table["scorer_id"] == scorer["scorer_id"]).all()
    assert tables.read(paths.FAILURES_TABLE, tables.FAILURES).empty


def test_scores_do_not_depend_on_workers_order_or_resuming(
    replicated: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BANANA100_WORKERS", "2")
    assert main(["score"]) == 0
    expected = output(replicated)

    monkeypatch.setenv("BANANA100_STORE", str(tmp_path / "one-worker"))
    monkeypatch.setenv("BANANA100_WORKERS", "1")
    assert main(["score"]) == 0
    assert output(replicated) == expected

    # two metrics know half of the images, chance says which: the rest is computed in another order
    known, half = ScoreStore(tmp_path / "one-worker"), ScoreStore(tmp_path / "half")
    scorers = tables.read(paths.SCORERS_TABLE, tables.SCORERS)["scorer_id"].tolist()
    chosen = random.Random(5).sample(sorted(known.get(scorers[0])), 7)
    half.put((scorer, image_id, known.get(scorer)[image_id]) for scorer in scorers[:2] for image_id in chosen)
    monkeypatch.setenv("BANANA100_STORE", str(tmp_path / "half"))
    assert main(["score"]) == 0
    assert output(replicated) == expected and half.computed_twice() == 0


def test_a_metric_more_computes_only_that_metric(
    replicated: Path, small_params: dict[str, Any], set_params: Callable[[dict[str, Any]], None], store: Path
) -> None:
    small_params["scoring"]["metrics"] = small_params["ranking"]["metrics"] = ["piqe"]
    set_params(small_params)
    assert main(["score"]) == 0
    assert {file.name for file in paths.SCORES.iterdir()} == {"piqe.parquet", "scorers.parquet", "failures.parquet"}
    small_params["scoring"]["metrics"] = ["piqe", "entropy"]
    set_params(small_params)
    assert main(["score"]) == 0
    assert ScoreStore(store).computed_twice() == 0
    assert paths.scores("entropy").exists()


def test_an_image_that_cannot_be_scored_is_a_failure_not_the_end(replicated: Path) -> None:
    table = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    flat = io.BytesIO()
    Image.new("RGB", (96, 96), "grey").save(flat, "PNG")
    bad = {table["path"][1]: flat.getvalue(), table["path"][2]: b"no image at all"}
    for path, data in bad.items():
        Path(path).write_bytes(data)
        table.loc[table["path"] == path, "image_id"] = sha256_of(data)
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, table)
    assert main(["score"]) == 0
    failures = tables.read(paths.FAILURES_TABLE, tables.FAILURES)
    broken = failures[failures["image_id"] == sha256_of(b"no image at all")]
    assert sorted(broken["metric"]) == ["brisque", "entropy", "niqe", "piqe"]
    assert broken["reason"].str.contains("not a PNG").all()
    assert "niqe" in set(failures[failures["image_id"] == sha256_of(flat.getvalue())]["metric"])
    assert len(tables.read(paths.scores("piqe"), tables.SCORES)) >= 11


@pytest.mark.parametrize(("damage", "sentence"), [(None, "no such image"), (b"other bytes", "not the image its row")])
def test_a_missing_or_swapped_image_is_told(
    replicated: Path, damage: bytes | None, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    image = next(paths.REPLICAS.rglob("002.png"))
    image.unlink() if damage is None else image.write_bytes(damage)
    assert main(["score"]) == 2
    assert f"{image}: {sentence}" in capsys.readouterr().err
    assert not paths.SCORES.exists()


def test_missing_parameters_are_told_at_the_end_and_the_other_scores_kept(
    replicated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    broken = catalogue.PackagedFile("no_such_package", "no-such", "x.npz", "?", sha256="0")
    monkeypatch.setitem(catalogue.METRICS, "niqe", catalogue.Metric(4, 96, broken))
    assert main(["score"]) == 2
    assert "metric niqe: parameters x.npz: not found in package no-such" in capsys.readouterr().err
    scorer_id = load("piqe").scorer["scorer_id"]
    assert len(ScoreStore(store).get(scorer_id)) == 14


def test_a_damaged_table_is_told(replicated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths.IMAGES_TABLE.write_bytes(paths.IMAGES_TABLE.read_bytes()[:200])
    assert main(["score"]) == 2
    assert "images.parquet: not a whole Parquet file" in capsys.readouterr().err


def test_the_score_store_keeps_the_first_score_and_counts_repeats(store: Path) -> None:
    scores = ScoreStore(store)
    scores.put([("s", "a", 1.5), ("s", "b", -2.0)])
    ScoreStore(store).put([("s", "a", 9.0)])
    assert scores.get("s") == {"a": 1.5, "b": -2.0} and scores.computed_twice() == 1


def test_a_store_that_is_no_database_is_told(store: Path) -> None:
    store.mkdir()
    (store / "scores.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(UserError, match=r"scores\.sqlite: the store of scores cannot be used"):
        ScoreStore(store)


def test_a_batch_that_fails_half_way_leaves_nothing(store: Path) -> None:
    scores = ScoreStore(store)
    with pytest.raises(UserError, match="NOT NULL"):
        scores.put([("s", "a", 1.0), ("s", None, 2.0)])  # type: ignore[list-item]
    assert scores.get("s") == {}


def test_the_engine_scores_what_it_is_given(tmp_path: Path, photograph: np.ndarray) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(images.encode_png(photograph))
    image = ImageFile(sha256_of(file.read_bytes()), file)
    ((first, second),) = engine.score([image], ["piqe", "entropy"])
    assert (first.metric, second.metric) == ("piqe", "entropy")
    assert first.score == load("piqe")(photograph) and second.score == load("entropy")(photograph)
