"""Export to Hugging Face: `datasets` loads what was written, offline, and every image and score is the project's."""

import json
import shutil
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import DatasetCard, DatasetCardData
from PIL import Image

from banana100 import paths
from banana100.catalogue.metrics import DRIFT_METRICS, METRICS
from banana100.cli import main
from banana100.export import hf, hf_card, hf_rows
from banana100.export.lineage import Lineage
from banana100.files import sha256_of
from banana100.lineage import tables
from banana100.lineage.columns import SCHEMAS
from banana100.snapshot import of_workspace

SHARDS = "data/images"
# What `is_name` allows: marks of globs, chained addresses, YAML, Markdown and HTML, and two names a case apart.
ODD = ["a b, c", "[x]*?{1}", "zip::s3:-", "平らな灰色", "|<b>&amp; `_*$~#", "A B, C", "é" * 80, "-r1"]
HEADINGS = ["Motivation", "Composition", "Collection process", "Preprocessing, cleaning, labelling", "Uses"]
HEADINGS += ["Distribution", "Maintenance"]


@pytest.fixture(scope="module")
def exported(tiny_clone: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command writes of the tiny run. Not to be changed."""
    folder = tmp_path_factory.mktemp("hf") / "dataset"
    told = tiny_clone("banana100", "export", "hf", str(folder))
    assert (told.stdout, told.stderr) == (f"hf: {folder / 'README.md'}, 11 tables, 16 images\n", "")
    return folder


@pytest.fixture
def run(tiny_clone: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny run as the current directory; not to be changed."""
    monkeypatch.chdir(tiny_clone.folder)
    return tiny_clone.folder


@pytest.fixture
def own_run(tiny_clone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the tiny run to change, as the current directory."""
    shutil.copytree(tiny_clone.folder, tmp_path / "own", ignore=shutil.ignore_patterns(".dvc", ".git", "metrics"))
    monkeypatch.chdir(tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., datasets.Dataset]:
    """`load_dataset` with a cache of its own and without a network."""

    def refuse(*_: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()

    def of(folder: Path, *config: str, **options: Any) -> datasets.Dataset:
        found = datasets.load_dataset(str(folder), *config, cache_dir=str(tmp_path / "cache"), **options)
        assert list(found) == ["train"]
        return found["train"]

    return of


@pytest.fixture
def export(tmp_path: Path) -> Callable[..., Path]:
    """Export the current directory with the command; returns the folder."""

    def make(name: str = "out", code: int = 0) -> Path:
        assert main(["export", "hf", str(tmp_path / name)]) == code
        return tmp_path / name

    return make


def in_table(name: str) -> list[dict[str, Any]]:
    """The rows of a table of the current directory, read without the code under test."""
    files = {
        "seeds": [paths.SEED_TABLE],
        "images": [paths.IMAGES_TABLE],
        "requests": [paths.REQUESTS_TABLE],
        "scorers": [paths.SCORERS_TABLE],
        "scores": [paths.scores("entropy"), paths.scores("niqe")],
        "drift": [paths.DRIFT_TABLE],
        "refusals": [paths.REFUSALS_TABLE],
        "parked": [paths.PARKED_TABLE],
        "failures": [paths.FAILURES_TABLE],
        "seed_requests": [paths.SEED_REQUESTS_TABLE],
    }
    return [row for file in files[name] for row in pq.read_table(file).to_pylist()]


def files_below(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def change(file: Path, schema: pa.Schema, where: Callable[[dict[str, Any]], bool], /, **cells: Any) -> None:
    rows = tables.records(tables.read(file, schema))
    tables.write(file, schema, [row | cells if where(row) else row for row in rows])


def front_matter(folder: Path) -> dict[str, Any]:
    _, block, _ = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(block)


def card(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)[2]


def test_every_image_is_a_row_with_the_files_bytes_and_pixels(
    run: Path, exported: Path, load: Callable[..., Any]
) -> None:
    images = load(exported)
    files = images.cast_column("image", datasets.Image(decode=False))
    expected = sorted(in_table("images"), key=lambda row: (row["campaign"], row["seed"], row["repeat"], row["step"]))
    assert len(expected) == len(images) == 16
    for row, decoded, file in zip(expected, images, files, strict=True):
        assert {name: decoded[name] for name in row} == row
        assert sha256_of(file["image"]["bytes"]) == row["image_id"]
        assert file["image"] == {"bytes": Path(row["path"]).read_bytes(), "path": Path(row["path"]).name}
        assert np.array_equal(decoded["image"], Image.open(row["path"]))


def test_request_seed_scores_and_drift_stand_beside_the_image(
    run: Path, exported: Path, load: Callable[..., Any]
) -> None:
    requests = {row["request_id"]: row for row in in_table("requests")}
    seeds = {row["seed"]: row for row in in_table("seeds") if row["chosen"]}
    scores = {(row["image_id"], row["metric"]): row["score"] for row in in_table("scores")}
    drift = {(row["image_id"], row["reference_id"]): row["score"] for row in in_table("drift")}
    images = load(exported).remove_columns("image").to_list()
    start = {(row["seed"], row["repeat"]): row["image_id"] for row in images if row["step"] == 0}
    for row in images:
        asked = requests.get(row["request_id"], {})
        for name in ("prompt", "backend", "model", "model_answered"):
            assert row[name] == asked.get(name)
        assert row["simulated"] is (row["step"] > 0)
        seed = seeds[row["seed"]]
        assert (row["seed_origin"], row["seed_licence"]) == (seed["origin"], seed["licence"])
        for metric in ("entropy", "niqe"):
            assert row[metric] == scores[row["image_id"], metric]
        assert row["psnr"] == drift.get((row["image_id"], start[row["seed"], row["repeat"]]))
    assert {row["psnr"] is None for row in images if row["step"]} == {False}


def test_every_config_loads_and_a_table_without_rows_has_none(
    run: Path, exported: Path, load: Callable[..., Any]
) -> None:
    configs = datasets.get_dataset_config_names(str(exported))
    assert configs == ["images", *(name for name in SCHEMAS if name != "images" and in_table(name))]
    assert {"seeds", "requests", "scorers", "scores", "drift"} <= set(configs)
    for name in configs[1:]:
        loaded = load(exported, name)
        assert loaded.to_list() == in_table(name), name
        assert loaded.features.arrow_schema.remove_metadata() == SCHEMAS[name]
    for name in ("refusals", "parked", "failures"):
        assert (exported / "data" / ("scores" if name == "failures" else "lineage") / f"{name}.parquet").is_file()


def test_one_image_is_read_without_the_others(run: Path, exported: Path, load: Callable[..., Any]) -> None:
    shards = sorted((exported / SHARDS).iterdir())
    assert [shard.name for shard in shards][:1] == ["00000-simulated-replica-coffee-r1.parquet"]
    for shard in shards:
        found = pq.ParquetFile(shard)
        assert found.schema_arrow.names[:5] == ["image", "campaign", "seed", "repeat", "step"]  # others rely on these
        assert found.metadata.num_row_groups == found.metadata.num_rows == 4
        assert [found.read_row_group(step)["step"].to_pylist() for step in range(4)] == [[0], [1], [2], [3]]
    some = load(exported, filters=[("step", "in", [1, 3])])
    assert some["step"][:] == [1, 3] * 4
    streamed = datasets.load_dataset(str(exported), split="train", streaming=True)
    assert next(iter(streamed))["image"].size == (96, 96)


def test_front_matter_is_what_the_hub_takes(run: Path, exported: Path) -> None:
    written = front_matter(exported)
    read = DatasetCard.load(exported / "README.md", ignore_metadata_errors=False)
    assert read.data.to_dict() == DatasetCardData(**written).to_dict() == written
    assert (written["license"], written["license_link"]) == ("other", "LICENSE.md")
    assert (exported / written["license_link"]).is_file()
    assert written["license_name"].replace("-", "").isalnum() and written["license_name"].islower()
    assert written["size_categories"] == "n<1K" and "simulated" in written["tags"]
    assert [one["config_name"] for one in written["configs"] if one.get("default")] == ["images"]
    for one in written["configs"]:
        [files] = one["data_files"]
        for pattern in [files["path"]] if isinstance(files["path"], str) else files["path"]:
            assert list(exported.glob(pattern)), pattern


def test_the_card_is_a_datasheet_that_says_what_is_simulated(run: Path, exported: Path) -> None:
    text = card(exported)
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")][1:-1] == HEADINGS
    assert "> **Simulated.** Every replica here is simulated" in text
    assert "The numbers are not the paper's" in text
    assert "16 images in 4 chains" in text and "simulated/rot-1" in text
    assert "| simulated-replica | 2 | 4 | 16 | 12 | simulated/rot-1 | 0 | 0 | 0.00 |" in text
    for row in in_table("seeds"):
        assert (f"| {row['seed']} | {hf_card.as_text(row['origin'])} |" in text) is row["chosen"]
    lineage = Lineage(of_workspace())
    assert lineage.version in text and lineage.snapshot.revision in text
    terms = (exported / "LICENSE.md").read_text(encoding="utf-8")
    assert terms in text
    for named in ["PolyForm-Noncommercial-1.0.0", *(row["licence"] for row in in_table("seeds") if row["chosen"])]:
        assert hf_card.as_text(named) in terms
    assert "LIVE, UT Austin" in terms  # niqe's trained parameters
    for column, meaning in hf_rows.meanings(lineage).items():
        assert f"| `{column}` | {meaning} |" in text


def test_the_same_workspace_gives_the_same_bytes(
    tiny_clone: Any, own_run: Path, export: Callable[..., Path], exported: Path, tmp_path: Path
) -> None:
    tiny_clone("env", "PYTHONHASHSEED=1", "TZ=Asia/Tokyo", "banana100", "export", "hf", str(tmp_path / "again"))
    assert files_below(tmp_path / "again") == files_below(exported)
    copy = files_below(export())  # outside of git, which only the card tells
    assert {name for name, content in files_below(exported).items() if copy[name] != content} == {"README.md"}


@pytest.fixture
def odd_run(own_run: Path) -> list[str]:
    """The copy with a chain of one image for each odd name; gives the names in order."""
    [image] = [row for row in in_table("images") if row["seed"] == "coffee" and (row["repeat"], row["step"]) == (1, 0)]
    seed = next(row for row in in_table("seeds") if row["seed"] == "coffee")
    images, seeds = [], []
    for number, name in enumerate(ODD):
        path = paths.replica("simulated-replica", name, 1, 0, "png")
        path.parent.mkdir(parents=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(path)
        made = {"image_id": sha256_of(path.read_bytes()), "path": path.as_posix()}
        images.append(image | made | {"seed": name})
        seeds.append(seed | made | {"seed": name, "licence": f"mine: {name}"})
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, images)
    tables.write(paths.SEED_TABLE, tables.SEEDS, seeds)
    return sorted(ODD)


def test_odd_names_load_in_order(odd_run: list[str], export: Callable[..., Path], load: Callable[..., Any]) -> None:
    folder = export()
    images = load(folder)
    assert images["seed"][:] == odd_run
    assert [image.getpixel((0, 0))[0] for image in images["image"]] == [ODD.index(name) for name in odd_run]
    assert images["niqe"][:] == [None] * len(ODD)  # no score is made up
    for shard in (folder / SHARDS).iterdir():
        assert len(shard.name) < 120 and shard.name.isascii() and set(shard.name) <= set(_SAFE), shard
    text = card(folder)
    assert r"\|\<b\>\&amp; \`\_\*\$\~\#" in text and "<b>" not in text
    assert yaml.safe_load(yaml.safe_dump(front_matter(folder))) == front_matter(folder)


_SAFE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"


@pytest.mark.parametrize("damage", ["missing", "changed", "elsewhere"])
def test_an_image_that_is_not_the_tables_is_refused_and_nothing_is_left(
    own_run: Path, export: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    last = Path(in_table("images")[-1]["path"])
    if damage == "missing":
        last.unlink()
        said = f"{last}: no such image; fetch it with `dvc pull select_seeds replicate`."
    elif damage == "changed":
        last.write_bytes(last.read_bytes()[:-1])
        said = f"{last}: not the image that the tables name; restore it with `dvc checkout`."
    else:
        change(paths.IMAGES_TABLE, tables.IMAGES, lambda row: row["path"] == last.as_posix(), path="params.yaml")
        said = "params.yaml: named by a table; allowed: an image in data/seeds or data/replicas."
    before = set(tmp_path.rglob("*"))
    export(code=2)
    assert capsys.readouterr().err == f"banana100 export: {said}\n"
    assert set(tmp_path.rglob("*")) == before


def test_a_folder_in_use_is_refused_and_an_empty_one_is_filled(
    run: Path, export: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine.txt").write_text("mine")
    export("used", code=2)
    assert "is there and not an empty folder; allowed: a new name or an empty folder." in capsys.readouterr().err
    assert files_below(tmp_path / "used") == {"mine.txt": b"mine"}
    (tmp_path / "empty").mkdir()
    assert main(["export", "hf", str(tmp_path / "empty"), "--images"]) == 0
    assert not (tmp_path / "empty" / paths.REPLICAS).exists()  # they are inside
    assert capsys.readouterr().out.endswith(", 11 tables, 16 images\n")


def test_failed_scores_are_missing_and_told(
    own_run: Path, export: Callable[..., Path], load: Callable[..., Any]
) -> None:
    rows = in_table("scores")
    failed = next(row for row in rows if row["metric"] == "niqe")
    kept = [row for row in rows if row["metric"] == "niqe" and row is not failed]
    tables.write(paths.scores("niqe"), tables.SCORES, kept)
    tables.write(paths.scores("entropy"), tables.SCORES, [])  # `datasets` cannot load a file without rows
    reason = {
        "image_id": failed["image_id"],
        "metric": "niqe",
        "scorer_id": failed["scorer_id"],
        "reason": "flat | _x_",
    }
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, [reason | {"reference_id": None}])
    folder = export()
    images = load(folder)
    missing = {image_id for image_id, score in zip(images["image_id"], images["niqe"], strict=True) if score is None}
    assert missing == {failed["image_id"]}
    assert set(images["entropy"][:]) == {None}
    assert load(folder, "scores").to_list() == kept
    assert load(folder, "failures")["reason"][:] == ["flat | _x_"]
    assert r"| niqe | flat \| \_x\_ | 1 |" in card(folder)


def test_what_paid_generators_leave_is_told(
    own_run: Path, export: Callable[..., Path], load: Callable[..., Any]
) -> None:
    paid = {"backend": "gemini", "model": "nano", "model_answered": "nano-1", "cost_usd": 0.25}
    paid |= {"asked_at": "2026-04-01T10:00:00+00:00"}
    of_coffee = {row["request_id"] for row in in_table("requests") if row["seed"] == "coffee"}
    change(paths.REQUESTS_TABLE, tables.REQUESTS, lambda row: row["seed"] == "coffee", **paid)
    one = in_table("requests")[0]
    refusal = {name: one.get(name) for name in tables.REFUSALS.names} | paid
    refusal |= {"number": 1, "finish_reason": "IMAGE_SAFETY", "detail": "no", "asked_at": "2026-05-02T10:00:00+00:00"}
    tables.write(paths.REFUSALS_TABLE, tables.REFUSALS, [refusal])
    parked = {"campaign": "simulated-replica", "seed": "coffee", "repeat": 1, "step": 4, "request_id": "ab" * 32}
    tables.write(paths.PARKED_TABLE, tables.PARKED, [parked | {"cause": "refused", "reason": "x", "attempts": 1}])
    folder = export()
    images, text = load(folder), card(folder)
    simulated = {name for name, is_so in zip(images["request_id"], images["simulated"], strict=True) if is_so}
    assert simulated and not simulated & of_coffee
    assert f"{len(simulated)} of the 12 replicas are simulated" in text and "**Partly simulated.**" in text
    assert "(partly simulated)" in front_matter(folder)["pretty_name"]
    cost = 0.25 * (len(of_coffee) + 1)
    models = "nano-1, simulated/rot-1"
    assert f"| simulated-replica | 2 | 4 | 16 | {len(simulated)} | {models} | 1 | 1 | {cost:.2f} |" in text
    assert "from 2026-04-01 to 2026-05-02 (UTC)" in text and "| IMAGE\\_SAFETY | no | 1 |" in text
    assert "Gemini API Additional Terms of Service (<https://ai.google.dev/gemini-api/terms>)" in text
    assert load(folder, "refusals")["finish_reason"][:] == ["IMAGE_SAFETY"]
    change(paths.REQUESTS_TABLE, tables.REQUESTS, lambda _: True, **paid)
    real = export("real")
    assert "no image model was asked" not in card(real) and "imulated.**" not in card(real)
    assert front_matter(real)["pretty_name"] == "Banana100 replicas"
    assert "simulated" not in front_matter(real)["tags"] and not any(load(real)["simulated"])


def test_a_seed_of_a_simulated_generator_is_simulated(own_run: Path, export: Callable[..., Path]) -> None:
    seed = next(row for row in in_table("seeds") if row["chosen"])
    made = in_table("requests")[0] | {"seed": seed["seed"], "step": 0, "image_id": seed["source_sha256"]}
    tables.write(paths.SEED_REQUESTS_TABLE, tables.REQUESTS, [made])
    rows = hf_rows.rows(Lineage(of_workspace()))
    assert set(rows.loc[rows["step"].eq(0) & rows["simulated"], "seed"]) == {seed["seed"]}
    assert "1 of these seeds are no photographs but made by a generator, 1 of them by a\nsimulated one" in card(
        export()
    )


def test_an_archive_and_its_licence_are_named(own_run: Path, export: Callable[..., Path]) -> None:
    config = {
        "archive": "theirs",
        "origin": "https://example.org/a.zip",
        "sha256": "ab" * 32,
        "licence": "CC BY-NC-SA 4.0",
    }
    told = {"backend": "archive", "model_answered": "m", "config": json.dumps(config)}
    change(paths.REQUESTS_TABLE, tables.REQUESTS, lambda _: True, **told)
    folder = export()
    assert "- CC BY-NC-SA 4.0: replicas from https://example.org/a.zip." in (folder / "LICENSE.md").read_text()
    assert f"archive theirs (sha256 `{'ab' * 32}`) of https://example.org/a.zip, under CC BY-NC-SA 4.0;" in card(folder)


def test_no_more_than_one_image_is_held(
    own_run: Path, export: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = in_table("images")[0]
    rows, size = [], 1_000_000
    for step in range(12):
        path = paths.replica("simulated-replica", template["seed"], 1, step, "png")
        path.write_bytes(np.random.default_rng(step).bytes(size))
        place = {"path": path.as_posix(), "step": step, "parent_id": rows[-1]["image_id"] if rows else None}
        rows.append(template | place | {"image_id": sha256_of(path.read_bytes()), "request_id": None, "repeat": 1})
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, rows)
    held = []

    def read(path: Path, image_id: str) -> bytes:
        held.append(tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes())
        return path.read_bytes()

    monkeypatch.setattr(hf, "read_image", read)
    tracemalloc.start()
    try:
        folder = export()
    finally:
        tracemalloc.stop()
    assert len(held) == 12 and max(held) - held[0] < 2.5 * size  # the one before may not be freed yet
    assert sum(file.stat().st_size for file in (folder / SHARDS).iterdir()) > 12 * size


def test_no_metric_has_the_name_of_another_column(run: Path) -> None:
    metrics = set(hf_rows.metrics(Lineage(of_workspace())))
    others = {"image", *hf_rows.schema(Lineage(of_workspace())).names} - metrics
    assert not others & {*METRICS, *DRIFT_METRICS}


def test_shards_keep_their_order_and_are_told_apart() -> None:
    names = [hf._shard(number, "c" * 80, seed, 1) for number, seed in enumerate([*ODD, "x" * 80, "x" * 79])]
    assert names == sorted(names) and len({name.lower() for name in names}) == len(names)


def test_text_of_tables_means_nothing_in_markdown() -> None:
    assert hf_card.as_text("a|b\n<i> [x](y) `z` *k* _l_ \\") == r"a\|b \<i\> \[x\](y) \`z\` \*k\* \_l\_ \\"
