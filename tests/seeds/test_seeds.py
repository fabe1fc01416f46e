"""Seeds: measured, chosen to differ, and refused by name where they cannot serve."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from scipy.spatial.distance import pdist
from skimage import data
from sklearn.preprocessing import StandardScaler

from banana100 import images, paths
from banana100.catalogue.photographs import BUNDLED
from banana100.cli import main
from banana100.files import sha256_of
from banana100.lineage import tables
from banana100.seeds.choice import choose
from banana100.seeds.features import FEATURES, measure


def test_each_feature_answers_to_what_it_is_named_after() -> None:
    generator = np.random.default_rng(1)
    side = 128
    ramp = np.linspace(40, 200, side)
    rows, columns = np.mgrid[:side, :side]

    def grey(values: np.ndarray) -> np.ndarray:
        return np.repeat(np.clip(values, 0, 255).astype(np.uint8)[..., None], 3, axis=2)

    blocks = np.full((side, side), 128.0)  # boxes that cover each other, at places without order
    for _ in range(60):
        (top, left), (high, wide) = generator.integers(0, side - 8, 2), generator.integers(8, 24, 2)
        blocks[top : top + high, left : left + wide] = generator.integers(20, 236)

    scenes = {
        "structure": grey(128 + 60 * np.sin(columns * 2 * np.pi / 8) * np.sin(rows * 2 * np.pi / 8)),
        "texture": grey(generator.normal(128, 50, (side, side))),
        "smoothness": grey(np.tile(ramp, (side, 1))),
        "edges": grey(blocks),
        "colourfulness": generator.integers(0, 2, (8, 8, 3)).repeat(16, 0).repeat(16, 1).astype(np.uint8) * 255,
    }
    measured = {name: measure(scene) for name, scene in scenes.items()}
    for feature in ("structure", "texture", "smoothness", "colourfulness"):
        assert max(measured, key=lambda name: measured[name][feature]) == feature
    assert measured["edges"]["edges"] > 0.05 and measured["smoothness"]["edges"] == 0
    assert measured["smoothness"]["colourfulness"] == 0


def test_colourfulness_agrees_with_its_definition() -> None:
    # Hasler and Süsstrunk 2003, eq. 1, worked by hand: half pure red, half pure green, so
    # rg = +-255 (mean 0, std 255), yb = 127.5 everywhere: 255 + 0.3 * 127.5
    pixels = np.zeros((96, 96, 3), np.uint8)
    pixels[:48, :, 0] = pixels[48:, :, 1] = 255
    assert measure(pixels)["colourfulness"] == pytest.approx(293.25)


def test_choice_on_a_line_is_the_one_worked_by_hand() -> None:
    # centre 4.6: 5 is nearest; then the far end 0 (5 away, a tie with 10, the earlier row wins), 10, then 7 (2 away)
    choices = choose([[0.0], [1.0], [5.0], [7.0], [10.0]], 4)
    assert [choice.order for choice in choices] == [1, None, 0, 3, 2]
    deviation = np.std([0, 1, 5, 7, 10])
    assert [choice.distance * deviation for choice in choices] == pytest.approx([5, 1, 0.4, 2, 5], abs=1e-4)


features = st.integers(1, 4).flatmap(
    lambda width: st.integers(2, 12).flatmap(
        lambda height: arrays(float, (height, width), elements=st.floats(-100, 100).map(lambda v: round(v, 3)))
    )
)


@given(features, st.data())
def test_greedy_choice_is_at_least_half_as_spread_as_the_best(points: np.ndarray, draw: st.DataObject) -> None:
    count = draw.draw(st.integers(1, len(points)))
    choices = choose(points, count)
    chosen = sorted((c.order, row) for row, c in enumerate(choices) if c.order is not None)
    assert [order for order, _ in chosen] == list(range(count))
    assert choose(points, count) == choices  # deterministic
    # what is left out lies no farther from the chosen than the last chosen lay when it was taken
    decisive = [choices[row].distance for _, row in chosen]
    assert all(left.distance <= min(decisive[1:], default=np.inf) + 1e-6 for left in choices if left.order is None)
    assert decisive[1:] == sorted(decisive[1:], reverse=True)
    # Gonzalez 1985: greedy max-min is within a factor of 2 of the best spread of `count` points
    if 2 <= count <= 3 and len(points) <= 7:
        from itertools import combinations

        scaled = StandardScaler().fit_transform(points)
        best = max(pdist(scaled[list(rows)]).min() for rows in combinations(range(len(points)), count))
        found = pdist(scaled[[row for _, row in chosen]]).min()
        assert found >= best / 2 - 1e-6


def test_choosing_more_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot choose 3 of 2"):
        choose([[0.0], [1.0]], 3)


@pytest.mark.parametrize("name", BUNDLED)
def test_every_bundled_photograph_is_there_and_names_its_licence(name: str) -> None:
    import importlib.util

    spec = importlib.util.find_spec(BUNDLED[name].package)
    assert spec and spec.submodule_search_locations
    file = Path(spec.submodule_search_locations[0]) / BUNDLED[name].name
    assert images.decode(file.read_bytes()).std() > 10
    assert importlib.metadata.version(BUNDLED[name].distribution)
    assert BUNDLED[name].licence


def read_table() -> pd.DataFrame:
    return tables.read(paths.SEED_TABLE, tables.SEEDS).set_index("seed")


def test_the_stage_writes_seeds_and_says_why(project: Path) -> None:
    assert main(["select_seeds"]) == 0
    table = read_table()
    chosen = table[table["chosen"]]
    assert len(chosen) == 2 and sorted(chosen["order"]) == [0, 1]
    assert table[list(FEATURES)].notna().all().all() and table["distance"].notna().all()
    assert set(table["licence"]) >= {"CC0-1.0"} and table["origin"].str.contains("scikit-image").all()
    images_of_chosen = {f"{seed}.png" for seed in chosen.index}
    assert {file.name for file in paths.SEEDS.iterdir()} == {"requests.parquet", "seeds.parquet", *images_of_chosen}
    assert tables.read(paths.SEED_REQUESTS_TABLE, tables.REQUESTS).empty  # nothing was generated
    for _, row in chosen.iterrows():
        png = Path(row["path"]).read_bytes()
        assert sha256_of(png) == row["image_id"] and images.decode(png).shape == (96, 96, 3)
    coffee = Path(table.loc["coffee", "path"])  # a lossless original without a colour profile
    assert np.array_equal(images.decode(coffee.read_bytes()), images.square(data.coffee(), 96))


def test_a_second_run_gives_the_same_bytes_and_clears_strays(project: Path) -> None:
    assert main(["select_seeds"]) == 0
    before = {file: file.read_bytes() for file in paths.SEEDS.iterdir()}
    (paths.SEEDS / "stray.png").write_bytes(b"left by another run")
    assert main(["select_seeds"]) == 0
    assert {file: file.read_bytes() for file in paths.SEEDS.iterdir()} == before


@pytest.fixture
def own_images(project: Path, small_params: dict[str, Any], set_params: Callable[[dict[str, Any]], None]) -> Path:
    small_params["seeds"]["sources"] = [{"kind": "directory", "path": "data/own_seeds", "licence": "mine"}]
    set_params(small_params)
    folder = project / "data/own_seeds"
    folder.mkdir(parents=True)
    return folder


def save(file: Path, image: Image.Image, **options: Any) -> None:
    stream = io.BytesIO()
    image.save(stream, file.suffix[1:].upper().replace("JPG", "JPEG"), **options)
    file.write_bytes(stream.getvalue())


def test_bad_candidates_are_converted_or_refused_by_name(own_images: Path) -> None:
    photograph = Image.fromarray(data.coffee()).resize((300, 200))
    other = Image.fromarray(data.rocket()).resize((300, 200))
    save(own_images / "plain.png", photograph)
    save(own_images / "rocket.png", other)
    save(own_images / "cmyk.jpg", other.convert("CMYK"))
    save(own_images / "deep.png", Image.fromarray(np.asarray(other.convert("L")).astype(np.uint16) * 257))
    save(own_images / "glass.png", other.convert("RGBA"))
    turned = Image.Exif()
    turned[274] = 6
    save(own_images / "turned.jpg", photograph, exif=turned)
    save(own_images / "dot.png", Image.new("RGB", (1, 1)))
    save(own_images / "moving.gif", photograph, save_all=True, append_images=[other])
    (own_images / "cut.png").write_bytes((own_images / "plain.png").read_bytes()[:5000])
    (own_images / "empty.jpg").write_bytes(b"")
    (own_images / "notes.txt").write_text("not a candidate")
    (own_images / "below").mkdir()
    save(own_images / "below/plain.png", other)
    save(own_images / "花 <script>.png", photograph.rotate(180))
    save(own_images / os.fsdecode(b"caf\xe9.png"), photograph.rotate(90))  # a name that is not UTF-8
    (own_images / "twice.jpg").write_bytes(b"broken")  # a broken namesake does not cost the whole one
    save(own_images / "twice.png", other.rotate(90))
    (own_images / "gone.png").symlink_to("nowhere")

    assert main(["select_seeds"]) == 0
    table = tables.read(paths.SEED_TABLE, tables.SEEDS)
    refused = dict(table.dropna(subset="refused")[["origin", "refused"]].itertuples(index=False))
    assert {Path(origin).name for origin in refused} == {
        "dot.png",
        "moving.gif",
        "cut.png",
        "empty.jpg",
        "plain.png",
        "twice.jpg",
    }
    reasons = " ".join(refused.values())
    for reason in ("is 1x1 pixels", "animated", "cannot be decoded", "empty file", "has the name of data/own_seeds"):
        assert reason in reasons
    usable = set(table[table["refused"].isna()]["seed"])
    assert len(usable) == 9 and {"caf\ufffd", "cmyk", "deep", "glass", "turned", "花 <script>"} <= usable
    assert table["chosen"].sum() == 2 and set(table["licence"]) == {"mine"}


def test_too_few_usable_candidates_are_told_with_their_reasons(
    own_images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(own_images / "tiny.png", Image.new("RGB", (20, 20)))
    assert main(["select_seeds"]) == 2
    sentence = capsys.readouterr().err
    assert "seeds.count is 2; allowed: at most 0" in sentence and "'tiny' is 20x20 pixels" in sentence
    assert not paths.SEEDS.exists()


def test_an_empty_or_missing_folder_is_told(own_images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["select_seeds"]) == 2
    assert "data/own_seeds: no image file; allowed: .bmp" in capsys.readouterr().err
    own_images.rmdir()
    assert main(["select_seeds"]) == 2
    assert "data/own_seeds, which does not exist" in capsys.readouterr().err
