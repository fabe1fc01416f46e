"""Metrics: genuine values, what the catalogue says of them, and the same scores whatever the batch."""

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyiqa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyiqa.archs import entropy_arch

from banana100.catalogue.packaged import PackagedFile
from banana100.cli import main
from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.images import encode_png
from banana100.scoring import jobs as work
from banana100.scoring import passes, scorers, selfcheck, weights, worker
from banana100.scoring.jobs import ImageFile, Job
from banana100.scoring.metrics import parameters
from banana100.scoring.scorers import Scorer, scorer
from banana100.scoring.worker import Worker
from helpers.clones import ROOT

SHARED_WEIGHTS = ROOT.parent / "shared" / "weights"
needs_weights = pytest.mark.skipif(
    not SHARED_WEIGHTS.is_dir(), reason="no folder of genuine weights beside the project"
)

OFFLINE = ["brisque", "entropy", "niqe", "piqe", "gmsd", "psnr", "ssim"]


# --- genuine values


def test_metrics_without_downloads_give_the_published_values() -> None:
    """pyiqa's and the official codes' calibration table; values and tolerances are in scoring/selfcheck.py."""
    verdicts = selfcheck.check(OFFLINE)
    assert {name: verdict for name, (verdict, _) in verdicts.items()} == dict.fromkeys(OFFLINE, "genuine"), verdicts


@needs_weights
@pytest.mark.parametrize("count", [1, pytest.param(5, marks=pytest.mark.long)])  # images; 6 s each
def test_trained_weights_give_the_published_values(
    project: Path, weights_folder: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(selfcheck, "IMAGES", selfcheck.IMAGES[:count])
    for name, published in selfcheck.PUBLISHED.items():
        monkeypatch.setitem(selfcheck.PUBLISHED, name, replace(published, values=published.values[:count]))
    folder = weights_folder / "hub" / "pyiqa"
    folder.mkdir(parents=True)
    for name in ("ILNIQE_templateModel.mat", "CNNIQA-LIVE.pth"):
        shutil.copy(SHARED_WEIGHTS / name, folder)
    verdicts = selfcheck.check(["cnniqa_live", "ilniqe"])
    assert {name: verdict for name, (verdict, _) in verdicts.items()} == dict.fromkeys(verdicts, "genuine"), verdicts


@needs_weights
@pytest.mark.parametrize(
    ("name", "file"), [("niqe", "niqe_modelparameters.mat"), ("brisque", "brisque_svm_weights.pth")]
)
def test_packaged_parameters_score_as_the_authors_files_do(name: str, file: str, photograph: np.ndarray) -> None:
    original = pyiqa.create_metric(name, device="cpu", pretrained_model_path=str(SHARED_WEIGHTS / file)).net
    tensor = torch.tensor(photograph).permute(2, 0, 1)[None]
    # pyiqa runs BRISQUE's support vectors in float32, whose coefficients of +-1024 cancel to about 0.01
    tolerance = {"niqe": 1e-4, "brisque": 2e-2}[name]
    assert value(name, photograph) == pytest.approx(float(original(tensor.float() / 255)), abs=tolerance)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 40))
def test_entropy_counts_the_same_bins_as_pyiqa(seed: int, height: int, width: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    theirs = entropy_arch.entropy(torch.tensor(pixels).permute(2, 0, 1)[None].float() / 255)
    metric = scorers_of("entropy")[0]
    ours = worker._load(metric, torch.device("cpu"))(torch.tensor(pixels).permute(2, 0, 1)[None])
    assert ours.tolist() == theirs.tolist()


def test_selfcheck_tells_what_is_missing_and_what_differs(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(selfcheck.PUBLISHED, "piqe", selfcheck.Published((1.0, 2.0, 3.0, 4.0, 5.0), 0.1))
    monkeypatch.delitem(selfcheck.PUBLISHED, "psnr")
    assert main(["selfcheck", "piqe", "entropy", "psnr", "musiq"]) == 2
    shown = capsys.readouterr()
    lines = {line.split()[0]: line for line in shown.out.splitlines()}
    assert "DIFFERS" in lines["piqe"] and "genuine" in lines["entropy"]
    assert "no reference value" in lines["psnr"] and "weights missing" in lines["musiq"]
    assert "piqe: not the published scores" in shown.err
    assert main(["selfcheck", "nope"]) == 2
    assert "nope is no metric" in capsys.readouterr().err


# --- scorers


def test_a_scorer_is_known_by_all_that_decides_its_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    first = scorer("niqe", "float32", {})
    assert first == scorer("niqe", "float32", {})
    assert scorer("niqe", "bfloat16", {}).id == first.id  # statistics have one precision
    monkeypatch.setattr(scorers, "version", lambda _: "0.1.17")
    assert scorer("niqe", "float32", {}).id != first.id


def test_a_networks_scorer_moves_with_weights_and_precision(random_networks: Any) -> None:
    lock, first = random_networks.lock, scorer("cnniqa", "float32", random_networks.lock)
    assert scorer("cnniqa", "bfloat16", lock).id != first.id
    key = "pyiqa/CNNIQA_koniq10k-e6f14c91.pth"
    assert first.row["parameters"] == key and first.row["parameters_sha256"] == lock[key]["sha256"]
    assert scorer("cnniqa", "float32", {key: {"sha256": "0" * 64}}).id != first.id


def test_a_scorer_moves_with_our_code_and_pyiqas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = scorer("entropy", "float32", {})
    monkeypatch.setattr(scorers, "_pyiqa_digest", lambda: "another")
    assert scorer("entropy", "float32", {}).id != first.id
    monkeypatch.undo()
    changed = tmp_path / "images.py"
    changed.write_text("another decoder")
    genuine = scorers.inspect.getfile
    monkeypatch.setattr(
        scorers.inspect, "getfile", lambda module: str(changed) if module is scorers.images else genuine(module)
    )
    assert scorer("entropy", "float32", {}).id != first.id


def test_other_parameters_under_the_same_name_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "other_svm"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "allmodel").write_text("svm_type epsilon_svr\nSV\n1 1:0\n")
    monkeypatch.syspath_prepend(tmp_path)
    file = PackagedFile("other_svm", "other-svm", "allmodel", "?", sha256="0" * 64)
    with pytest.raises(UserError, match=r"allmodel of package other-svm: sha256 is .*; allowed: 0000"):
        parameters.for_pyiqa(file)
    missing = PackagedFile("no_such_package", "no-such", "allmodel", "?", sha256="0" * 64)
    with pytest.raises(UserError, match="not found in package no-such"):
        parameters.for_pyiqa(missing)


# --- passes


def test_passes_hold_what_memory_holds_and_heavy_metrics_go_alone() -> None:
    names = ["brisque", "niqe", "piqe", "ilniqe", "cnniqa", "musiq", "tres", "qalign"]
    all_scorers = [bare(name) for name in names]
    roomy = passes.plan(all_scorers, 1.0, 64_000, 2)
    assert [[s.metric for s in p.scorers] for p in roomy] == [
        ["brisque", "niqe", "piqe"], ["ilniqe"], ["cnniqa", "musiq"], ["tres"], ["qalign"],
    ]  # fmt: skip
    tight = passes.plan(all_scorers, 4.0, 4_000, 2)
    assert sorted(s.metric for p in tight for s in p.scorers) == sorted(names)
    assert len(tight) > len(roomy)
    assert roomy[0].environment and not roomy[2].environment  # kernels are pinned for statistics alone


def test_workers_are_as_many_as_fit() -> None:
    (one,) = passes.plan([bare("niqe")], 1.0, 64_000, 2)
    assert one.workers(8, 64_000) == 8
    assert one.workers(8, 3 * one.need_mb / 0.8 + 1) == 3
    assert one.workers(8, 10) == 1


# --- a worker: batches, rounding, failures


def test_a_batch_scores_as_single_images_do(random_networks: Any, tmp_path: Path, photograph: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    noisy = [np.clip(photograph + rng.normal(0, s, photograph.shape), 0, 255).astype(np.uint8) for s in range(7)]
    names = ["brisque", "cnniqa", "entropy", "musiq", "niqe", "piqe"]
    images = [image_file(tmp_path, pixels) for pixels in noisy]
    wanted = [scorer(name, "float32", random_networks.lock) for name in names]
    results = {}
    for batch in (1, 4):
        engine_scores = random_networks.score([Job(image, tuple(names)) for image in images], wanted, batch)
        results[batch] = engine_scores
    assert len(results[1]) == 7 * len(names) and all(score is not None for score in results[1].values())
    assert results[1] == results[4]


def test_precision_is_a_param_that_batches_cannot_move(
    random_networks: Any, tmp_path: Path, photograph: np.ndarray
) -> None:
    jobs = [Job(image_file(tmp_path, np.roll(photograph, 7 * k, axis=1)), ("cnniqa",)) for k in range(3)]

    def scores(precision: str, batch: int) -> dict[tuple[str, str], float]:
        return random_networks.score(jobs, [scorer("cnniqa", precision, random_networks.lock)], batch)

    exact = scores("float32", 1)
    assert scores("tf32", 3) == exact  # on a CPU tf32 is float32
    for lower in ("bfloat16", "float16"):
        single = scores(lower, 1)
        assert scores(lower, 3) == single
        assert single == pytest.approx(exact, abs=0.02)  # they round to 8 or 11 bits
        assert single != exact or lower == "float16"


class Stub:
    """A metric whose scores are a function of the image's first red value, and that notes its batches."""

    def __init__(self, of_value: Callable[[int, int], float], largest_batch: int = 99) -> None:
        self.of_value, self.largest, self.batches = of_value, largest_batch, []

    def __call__(self, pixels: torch.Tensor, reference: torch.Tensor | None = None) -> torch.Tensor:
        self.batches.append(len(pixels))
        if len(pixels) > self.largest:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return torch.tensor([self.of_value(int(p[0, 0, 0]), len(pixels)) for p in pixels], dtype=torch.float64)


def scores_of(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reds: list[int], batch: int) -> list[Any]:
    monkeypatch.setattr(worker, "_load", lambda *_: stub)
    images = [image_file(tmp_path, np.full((16, 16, 3), red, np.uint8)) for red in reds]
    found = Worker([bare("entropy")], "cpu", batch).score([Job(image, ("entropy",)) for image in images])
    assert [score.image_id for score in found] == [image.image_id for image in images]
    return found


def test_too_large_a_batch_is_halved_until_it_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = Stub(lambda red, _: float(red), largest_batch=2)
    found = scores_of(stub, tmp_path, monkeypatch, list(range(7)), 7)
    assert [score.score for score in found] == [0, 1, 2, 3, 4, 5, 6]
    assert stub.batches == [7, 3, 1, 1, 1, 1, 1, 1, 1] or max(stub.batches[2:]) <= 2


def test_out_of_memory_for_one_image_is_the_machines_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="metric entropy: out of memory; run again, with fewer workers"):
        scores_of(Stub(lambda red, _: 0.0, largest_batch=0), tmp_path, monkeypatch, [1], 4)


@given(st.floats(-50, 50), st.integers(2, 7), st.floats(-1e-6, 1e-6))
def test_what_a_batch_moves_cannot_tip_a_rounded_score(alone: float, batch: int, moved: float) -> None:
    """A score that a batch moves by 1e-6 rounds as a batch of one does: near the tipping point it is computed again."""
    stub = Stub(lambda _, size: alone if size == 1 else alone + moved)
    one = Worker.__new__(Worker)
    one._metrics, one._device = {"entropy": stub}, torch.device("cpu")
    values = one._attempt(bare("entropy"), torch.zeros(batch, 3, 8, 8, dtype=torch.uint8), None)
    assert {round(value, 4) for value in values} == {round(alone, 4)}


def test_one_bad_image_does_not_spoil_its_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fragile(red: int, _: int) -> float:
        if red == 3:
            raise RuntimeError("singular\nmore")
        return math.nan if red == 4 else float(red)

    found = scores_of(Stub(fragile), tmp_path, monkeypatch, [1, 3, 4, 5], 4)
    assert [score.score for score in found] == [1, None, None, 5]
    assert [score.reason for score in found] == [None, "RuntimeError: singular", "the score is nan", None]


def test_images_of_a_task_need_not_have_the_size_their_rows_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_load", lambda *_: Stub(lambda red, size: float(size)))
    images = [image_file(tmp_path, np.full((side, 16, 3), side, np.uint8)) for side in (16, 16, 20, 16)]
    found = Worker([bare("entropy")], "cpu", 4).score([Job(image, ("entropy",)) for image in images])
    assert [score.score for score in found] == [2, 2, 1, 1]


def test_small_and_odd_sides_are_failures_with_a_reason(tmp_path: Path) -> None:
    for name, side in (("niqe", 95), ("brisque", 31), ("piqe", 15)):
        with pytest.raises(AssertionError, match=f"is 300x{side} pixels; the shorter side must be {side + 1} at least"):
            value(name, np.zeros((side, 300, 3), np.uint8))
    assert worker._obstacle(bare("afine_nr"), 100, 64) == "is 64x100 pixels; both sides must be multiples of 32"
    assert worker._obstacle(bare("afine_nr"), 96, 64) is None
    with pytest.raises(AssertionError, match="LinAlgError"):
        value("niqe", np.full((128, 128, 3), 128, np.uint8))


@given(st.lists(st.tuples(st.integers(0, 5), st.sets(st.sampled_from("abc")))), st.integers(1, 7))
def test_tasks_cover_every_lacking_score_once(rows: list[tuple[int, set[str]]], size: int) -> None:
    jobs = [
        Job(ImageFile(f"{i:03d}", Path("x"), 8 * (side + 1), 8), tuple(sorted(lacking)))
        for i, (side, lacking) in enumerate(rows)
    ]
    made = list(work.tasks(jobs, {"a", "b"}, size))
    asked = [(job.image.image_id, metric) for task in made for job in task for metric in job.metrics]
    assert sorted(asked) == sorted((job.image.image_id, m) for job in jobs for m in job.metrics if m != "c")
    for task in made:
        assert 1 <= len(task) <= size
        assert len({(job.metrics, job.image.width, job.image.height) for job in task}) == 1


# --- helpers


def bare(name: str) -> Scorer:
    return Scorer(name, (), "float32", {"scorer_id": name})


def scorers_of(*names: str) -> list[Scorer]:
    return [scorer(name, "float32", weights.read_lock()) for name in names]


def image_file(folder: Path, pixels: np.ndarray) -> ImageFile:
    data = encode_png(pixels)
    path = folder / f"{sha256_of(data)}.png"
    path.write_bytes(data)
    return ImageFile(sha256_of(data), path, 16, 16)


def value(name: str, pixels: np.ndarray) -> float:
    """One score, by a worker in this process; the reason for a failure as an AssertionError."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        image = image_file(Path(folder), pixels)
        (score,) = Worker(scorers_of(name), "cpu", 1).score([Job(image, (name,))])
    assert score.score is not None, score.reason
    return score.score
