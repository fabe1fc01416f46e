"""Stage score: the same tables however they are computed, failures as rows, nothing computed twice."""

import io
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from skimage.metrics import peak_signal_noise_ratio

from banana100 import images, paths
from banana100.cli import main
from banana100.files import sha256_of
from banana100.lineage import tables
from banana100.scoring import weights
from banana100.scoring.scorers import scorer
from banana100.scoring.store import Result, ScoreStore

OFFLINE = ["brisque", "entropy", "niqe", "piqe"]
DRIFT = ["gmsd", "psnr", "ssim"]


@pytest.fixture
def replicated(project: Path) -> Path:
    assert main(["select_seeds"]) == 0
    assert main(["replicate"]) == 0
    return project


def output(folder: Path) -> dict[str, str]:
    return {file.name: sha256_of(file.read_bytes()) for file in sorted((folder / paths.SCORES).iterdir())}


def replace_images(contents: list[bytes]) -> list[str]:
    """Put other bytes in the place of the first images; returns their ids."""
    table = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    for row, data in zip(table.index[table["step"] > 0], contents, strict=False):
        Path(table.loc[row, "path"]).write_bytes(data)
        table.loc[row, "image_id"] = sha256_of(data)
        try:
            header = images.read_header(data)
            table.loc[row, ["width", "height"]] = header.width, header.height
        except images.ImageError:
            pass
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, table)
    return [sha256_of(data) for data in contents]


def test_every_image_gets_every_score_once(replicated: Path) -> None:
    assert main(["score"]) == 0
    lineage = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    scorers = tables.read(paths.SCORERS_TABLE, tables.SCORERS).set_index("metric")
    assert list(scorers.index) == sorted(OFFLINE + DRIFT)
    for metric in OFFLINE:
        table = tables.read(paths.scores(metric), tables.SCORES)
        assert set(table["image_id"]) == set(lineage["image_id"]) and table["image_id"].is_monotonic_increasing
        assert table["score"].notna().all() and set(table["scorer_id"]) == {scorers.loc[metric, "scorer_id"]}
    assert tables.read(paths.FAILURES_TABLE, tables.FAILURES).empty


def test_drift_compares_every_image_with_the_seed_of_its_chain(replicated: Path) -> None:
    assert main(["score"]) == 0
    lineage = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    drift = tables.read(paths.DRIFT_TABLE, tables.DRIFT).set_index(["metric", "image_id", "reference_id"])["score"]
    assert len(drift) == 3 * (lineage["step"] > 0).sum()
    for _, chain in lineage.groupby(["campaign", "seed", "repeat"]):
        seed, *replicas = chain.sort_values("step").to_dict("records")
        for replica in replicas:
            pixels = [images.decode(Path(row["path"]).read_bytes()) for row in (seed, replica)]
            expected = peak_signal_noise_ratio(*pixels)
            assert drift["psnr", replica["image_id"], seed["image_id"]] == pytest.approx(expected, abs=1e-3)
        scores = [drift["psnr", replica["image_id"], seed["image_id"]] for replica in replicas]
        assert scores[0] > scores[-1]


def test_a_reference_of_another_size_is_resampled_to_the_images(replicated: Path) -> None:
    row = tables.read(paths.IMAGES_TABLE, tables.IMAGES).query("step == 0").iloc[0]
    seed = Image.open(row["path"])
    larger = images.encode_png(np.asarray(seed.resize((120, 144), Image.Resampling.LANCZOS)))
    wanted = replace_images([larger])[0]
    assert main(["score"]) == 0
    drift = tables.read(paths.DRIFT_TABLE, tables.DRIFT).set_index(["image_id", "metric"])["score"][wanted]
    assert drift["psnr"] > 60 and drift["ssim"] == pytest.approx(1, abs=1e-3)


def test_no_drift_is_measured_where_none_is_asked_for(
    replicated: Path, small_params: dict[str, Any], set_params: Callable[[dict[str, Any]], None]
) -> None:
    small_params["scoring"]["drift"] = []
    set_params(small_params)
    assert main(["score"]) == 0
    assert tables.read(paths.DRIFT_TABLE, tables.DRIFT).empty


# (engine, workers, batch): each engine once
SOME_WAYS = [("local", "2", "7"), ("ray", "1", "4")]
# every pair of workers and batch on one machine, every single value with the slower engines
ALL_WAYS = [
    *(("local", workers, batch) for workers in ("1", "2") for batch in ("1", "4", "7")),
    *(("ray", "1", "4"), ("ray", "2", "7"), ("ray", "2", "1")),
    *(("shards", "2", "4"), ("shards", "1", "7"), ("shards", "2", "1")),
]


@pytest.mark.parametrize("ways", [SOME_WAYS, pytest.param(ALL_WAYS, marks=pytest.mark.long)], ids=["some", "all"])
def test_scores_do_not_depend_on_workers_batches_engine_or_shards(
    replicated: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ways: list[tuple[str, str, str]],
    worker_processes: Callable[[], None],
) -> None:
    """The same Parquet bytes by every way of computing, a flat and a broken image among them."""
    replace_images([_png(Image.new("RGB", (96, 96), "grey")), b"no image at all"])
    assert main(["score"]) == 0  # in this process
    expected = output(replicated)
    worker_processes()
    for engine, workers, batch in ways:
        monkeypatch.setenv("BANANA100_STORE", str(tmp_path / f"{engine}-{workers}-{batch}"))
        monkeypatch.setenv("BANANA100_ENGINE", "ray" if engine == "ray" else "local")
        monkeypatch.setenv("BANANA100_WORKERS", workers)
        monkeypatch.setenv("BANANA100_BATCH_SIZE", batch)
        if engine == "shards":
            command = [sys.executable, "-m", "banana100", "score", "--shard"]
            both = [subprocess.Popen([*command, shard]) for shard in ("1/2", "2/2")]
            assert [process.wait() for process in both] == [0, 0]
            assert main(["score", "--merge"]) == 0
        else:
            assert main(["score"]) == 0
        assert output(replicated) == expected, (engine, workers, batch)
    assert len(expected) == len(OFFLINE) + 3


def test_scores_do_not_depend_on_what_was_known_before(
    replicated: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BANANA100_STORE", str(tmp_path / "whole"))
    assert main(["score"]) == 0
    expected = output(replicated)
    # two metrics know half of the images, chance says which: the rest is computed in another order
    known, half = ScoreStore(tmp_path / "whole"), ScoreStore(tmp_path / "half")
    ids = tables.read(paths.SCORERS_TABLE, tables.SCORERS)["scorer_id"].tolist()
    chosen = random.Random(5).sample(sorted(known.get(ids[0])), 7)
    half.put(known.get(scorer_id)[key] for scorer_id in ids[:2] for key in chosen)
    monkeypatch.setenv("BANANA100_STORE", str(tmp_path / "half"))
    assert main(["score"]) == 0
    assert output(replicated) == expected and half.computed_twice() == 0


def test_a_file_that_another_shard_has_just_made_holds_nothing_yet(store: Path) -> None:
    one = ScoreStore(store, shard=(1, 2))
    one.put([Result("s", "image", 1.0)])
    (store / "scores-shard-2-of-2.sqlite3").touch()
    assert set(one.get("s")) == one.keys("s") == {("image", "")}
    whole = ScoreStore(store)
    assert whole.merge() == 2 and whole.keys("s") == {("image", "")}


def test_a_metric_more_computes_only_that_metric(
    replicated: Path, small_params: dict[str, Any], set_params: Callable[[dict[str, Any]], None], store: Path
) -> None:
    small_params["scoring"] |= {"metrics": ["piqe"], "drift": []}
    small_params["ranking"]["metrics"] = ["piqe"]
    set_params(small_params)
    assert main(["score"]) == 0
    names = {"piqe.parquet", "scorers.parquet", "failures.parquet", "drift.parquet"}
    assert {file.name for file in paths.SCORES.iterdir()} == names
    small_params["scoring"]["metrics"] = ["piqe", "entropy"]
    set_params(small_params)
    assert main(["score"]) == 0
    assert ScoreStore(store).computed_twice() == 0
    assert paths.scores("entropy").exists()


def test_networks_are_scored_in_a_pass_of_their_own(
    replicated: Path,
    small_params: dict[str, Any],
    set_params: Callable[[dict[str, Any]], None],
    random_networks: Any,
    worker_processes: Callable[[], None],
) -> None:
    worker_processes()  # whose kernels differ
    weights.write_lock(random_networks.lock)
    small_params["scoring"]["metrics"] = ["cnniqa", "piqe"]
    small_params["ranking"]["metrics"] = ["piqe"]
    set_params(small_params)
    assert main(["score"]) == 0
    scorers = tables.read(paths.SCORERS_TABLE, tables.SCORERS).set_index("metric")
    assert scorers.loc["cnniqa", "kernels"] == "chosen by the processor"
    assert "ATEN_CPU_CAPABILITY=default" in scorers.loc["piqe", "kernels"]
    for metric in ("cnniqa", "piqe"):
        assert len(tables.read(paths.scores(metric), tables.SCORES)) == 14


# --- hostile images


def _png(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def test_odd_images_are_scored_as_a_person_sees_them(replicated: Path, store: Path) -> None:
    """Other modes and containers of the same picture get the scores of the plain PNG, or a row that says why not."""
    from skimage import data

    picture = Image.fromarray(np.ascontiguousarray(data.astronaut()[40:168, 150:278]))
    grey = picture.convert("L")
    deep = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    clear = picture.copy()
    clear.putalpha(255)
    rotated = picture.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6
    same = [
        (_png(picture), _png(clear)),  # opaque alpha
        (_png(picture), _png(picture, "WEBP", lossless=True)),  # as another type, under the extension png
        (_png(picture), _png(picture, "BMP")),
        (_png(picture), _png(rotated, exif=exif)),  # stored lying, shown upright
        (_png(grey.convert("RGB")), _png(grey)),
        (_png(grey.convert("RGB")), _png(deep)),  # 16 bits a pixel
        (_png(picture.quantize(64).convert("RGB")), _png(picture.quantize(64))),  # palette
    ]
    cmyk = _png(picture.convert("CMYK"), "JPEG", quality=95)
    plain, odd = [a for a, _ in same], [b for _, b in same]
    ids = replace_images([*dict.fromkeys(plain), *odd[:4], *odd[4:], cmyk][:12])
    assert main(["score"]) == 0
    scored = tables.read(paths.scores("niqe"), tables.SCORES).set_index("image_id")["score"]
    for plain_bytes, odd_bytes in same:
        if sha256_of(odd_bytes) in ids:
            assert scored[sha256_of(odd_bytes)] == scored[sha256_of(plain_bytes)]
    assert sha256_of(cmyk) not in ids or scored.notna().all()
    assert tables.read(paths.FAILURES_TABLE, tables.FAILURES).empty


def test_images_that_cannot_be_scored_are_rows_with_a_reason_not_the_end(
    replicated: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = _png(Image.effect_noise((128, 128), 50).convert("RGB"))
    frames = [Image.new("RGB", (100, 100), colour) for colour in ("red", "blue")]
    hostile = {
        "cannot be opened (empty file)": b"",
        "not a PNG": b"no image at all",
        "truncated": whole[: len(whole) // 2],
        "more than 128 megapixels": _png(Image.new("1", (20_000, 20_000))),
        "is animated": _png(frames[0], "GIF", save_all=True, append_images=frames[1:]),
        "is 1x1 pixels": _png(Image.new("RGB", (1, 1))),
        "is 64x128 pixels; the shorter side must be 96": _png(Image.effect_noise((64, 128), 50).convert("RGB")),
        "LinAlgError": _png(Image.new("RGB", (128, 128), "grey")),
    }
    ids = dict(zip(hostile, replace_images(list(hostile.values())), strict=True))
    assert main(["score"]) == 0
    assert "of them failed" in capsys.readouterr().out
    failures = tables.read(paths.FAILURES_TABLE, tables.FAILURES)
    scored = {metric: set(tables.read(paths.scores(metric), tables.SCORES)["image_id"]) for metric in OFFLINE}
    for reason, image_id in ids.items():
        rows = failures[(failures["image_id"] == image_id) & (failures["metric"] == "niqe")]
        assert len(rows) == 1 and reason in rows["reason"].iloc[0], reason
        for metric in OFFLINE:  # a score or a reason, never neither and never both
            told = ((failures["image_id"] == image_id) & (failures["metric"] == metric)).sum()
            assert told + (image_id in scored[metric]) == 1, (reason, metric)
    assert ids["LinAlgError"] in scored["entropy"]
    assert np.isfinite(tables.read(paths.scores("piqe"), tables.SCORES)["score"]).all()
    expected = output(replicated)
    assert main(["score"]) == 0  # a failure is known, too, and not tried again
    assert output(replicated) == expected and ScoreStore(store).computed_twice() == 0
    assert main(["rank"]) == 0
    assert "scores failed" in capsys.readouterr().out


@pytest.mark.parametrize(("damage", "sentence"), [(None, "no such image"), (b"other bytes", "not the image its row")])
def test_a_missing_or_swapped_image_is_told(
    replicated: Path, damage: bytes | None, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    image = next(paths.REPLICAS.rglob("002.png"))
    image.unlink() if damage is None else image.write_bytes(damage)
    assert main(["score"]) == 2
    assert f"{image}: {sentence}" in capsys.readouterr().err
    assert not paths.SCORES.exists()


def test_missing_weights_are_told_at_the_end_and_the_other_scores_kept(
    replicated: Path,
    small_params: dict[str, Any],
    set_params: Callable[[dict[str, Any]], None],
    capsys: pytest.CaptureFixture[str],
    store: Path,
) -> None:
    small_params["scoring"]["metrics"] = ["musiq", "niqe", "piqe", "brisque", "entropy"]
    set_params(small_params)
    assert main(["score"]) == 2
    told = capsys.readouterr().err
    assert "metric musiq: weights" in told and "run `banana100 weights fetch musiq`" in told
    assert len(ScoreStore(store).get(scorer("piqe", "float32", {}).id)) == 14


def test_a_damaged_table_is_told(replicated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths.IMAGES_TABLE.write_bytes(paths.IMAGES_TABLE.read_bytes()[:200])
    assert main(["score"]) == 2
    assert "images.parquet: not a whole Parquet file" in capsys.readouterr().err


# --- shards and engines


def test_shards_give_the_same_scores_as_one_run(
    replicated: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert main(["score"]) == 0
    expected = output(replicated)
    monkeypatch.setenv("BANANA100_STORE", str(tmp_path / "another"))
    assert [main(["score", *part]) for part in (["--shard", "1/2"], ["--shard", "2/2"], ["--merge"])] == [0, 0, 0]
    assert output(replicated) == expected


def test_a_merge_with_a_shard_missing_says_so_and_writes_nothing(
    replicated: Path, capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    assert main(["score", "--shard", "1/2"]) == 0
    assert "when all shards are done: banana100 score --merge" in capsys.readouterr().out
    assert main(["score", "--merge"]) == 2
    assert "are missing; run the shards that did not finish" in capsys.readouterr().err
    assert not paths.SCORES.exists()
    assert {file.name for file in store.glob("*.sqlite3")} == {"scores-shard-1-of-2.sqlite3", "scores.sqlite3"}
    assert main(["score"]) == 0  # without a merge, too, what a shard has scored is not scored again
    (piqe,) = tables.read(paths.SCORERS_TABLE, tables.SCORERS).query("metric == 'piqe'")["scorer_id"]
    assert len(ScoreStore(store).get(piqe)) == 14
    assert main(["score", "--merge"]) == 0
    assert ScoreStore(store).computed_twice() == 0


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b", "1/0", "-1/2", "1/2/3", "", "1/٣"])
def test_a_wrong_shard_is_told(replicated: Path, shard: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", f"--shard={shard}"]) == 2
    assert "allowed: i/n with i from 1 to n, as in 3/16" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("BANANA100_ENGINE", "spark", "allowed: local, ray"),
        ("BANANA100_DEVICE", "tpu", "allowed on this machine: auto, cpu"),
        ("BANANA100_BATCH_SIZE", "0", "allowed: a whole number of at least 1"),
        ("BANANA100_BATCH_SIZE", "many", "allowed: a whole number of at least 1"),
        ("BANANA100_WORKERS", "-1", "allowed: a whole number of at least 1"),
    ],
)
def test_a_wrong_environment_is_told(
    replicated: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    allowed: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, value)
    assert main(["score"]) == 2
    told = capsys.readouterr().err
    assert f"environment: {variable} is {value!r}" in told and allowed in told


def test_ray_tells_a_missing_image_as_the_local_engine_does(
    replicated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BANANA100_ENGINE", "ray")
    image = next(paths.REPLICAS.rglob("002.png"))
    image.unlink()
    assert main(["score"]) == 2
    told = capsys.readouterr().err
    assert f"{image}: no such image" in told and "Traceback" not in told


# --- the store


def test_the_score_store_keeps_the_first_result_and_counts_repeats(store: Path) -> None:
    scores = ScoreStore(store)
    scores.put([Result("s", "a", 1.5), Result("s", "b", None, "flat"), Result("s", "a", 3.0, None, "seed")])
    ScoreStore(store).put([Result("s", "a", 9.0)])
    found = scores.get("s")
    assert found["a", ""].score == 1.5 and found["a", "seed"].score == 3.0 and scores.computed_twice() == 1
    assert found["b", ""].score is None and found["b", ""].reason == "flat"


def test_shards_are_part_of_the_store_before_and_after_they_are_merged(store: Path) -> None:
    main_file = ScoreStore(store)
    for index in (1, 2):
        ScoreStore(store, shard=(index, 2)).put([Result("s", f"image{index}", float(index)), Result("s", "both", 0.0)])
    before = main_file.get("s")
    assert set(before) == {("image1", ""), ("image2", ""), ("both", "")}
    assert main_file.merge() == 2
    assert main_file.get("s") == before and main_file.computed_twice() == 0
    assert [file.name for file in store.iterdir()] == ["scores.sqlite3"]


def test_a_damaged_store_is_told(replicated: Path, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "scores.sqlite3").write_bytes(b"not a data base, but long enough to be taken for one" * 40)
    assert main(["score"]) == 2
    assert "scores.sqlite3: the store of scores cannot be used" in capsys.readouterr().err
