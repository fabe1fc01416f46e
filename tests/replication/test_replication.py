"""Replication: the store loses nothing and asks nothing twice; the workspace is laid out from it exactly."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from banana100 import images, paths
from banana100.cli import main
from banana100.files import sha256_of
from banana100.generators import BACKENDS
from banana100.generators.base import Answer
from banana100.generators.store import AnswerStore
from banana100.generators.walks import stored
from banana100.lineage import tables
from banana100.lineage.identity import Request
from banana100.params import Campaign, SimulatedCampaign

CHAINS, STEPS = 4, 3  # of the small project


def request(**changes: object) -> Request:
    fields = {"backend": "simulated", "model": "rot-1", "prompt": "copy", "parent_id": "00", "seed": "a"}
    return Request(**fields | {"config": {"noise": 100, "green": 100}, "repeat": 1, "step": 1} | changes)


def snapshot(folder: Path) -> dict[str, str]:
    return {file.as_posix(): sha256_of(file.read_bytes()) for file in sorted(folder.rglob("*")) if file.is_file()}


def journal(store: Path) -> Counter[str]:
    return Counter(line["event"] for line in AnswerStore(store).journal())


# --- the stage


@pytest.fixture
def seeded(project: Path) -> Path:
    assert main(["select_seeds"]) == 0
    return project


def test_the_stage_lays_out_chains_that_trace_to_their_seeds(seeded: Path, store: Path) -> None:
    assert main(["replicate"]) == 0
    table = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    requests = tables.read(paths.REQUESTS_TABLE, tables.REQUESTS).set_index("request_id")
    assert len(table) == CHAINS * (STEPS + 1) and len(requests) == CHAINS * STEPS
    assert set(table["path"]) == {file.as_posix() for file in paths.REPLICAS.rglob("*") if file.is_file()}
    seeds = tables.read(paths.SEED_TABLE, tables.SEEDS).set_index("seed")
    for _, chain in table.groupby(["campaign", "seed", "repeat"]):
        assert chain["step"].tolist() == list(range(STEPS + 1))
        assert chain["image_id"].iloc[0] == seeds.loc[chain["seed"].iloc[0], "image_id"]
        assert chain["parent_id"].iloc[1:].tolist() == chain["image_id"].iloc[:-1].tolist()
        assert pd.isna(chain["parent_id"].iloc[0]) and pd.isna(chain["request_id"].iloc[0])
    for row in table.itertuples():
        data = Path(row.path).read_bytes()
        assert sha256_of(data) == row.image_id and len(data) == row.bytes
        assert images.decode(data).shape == (row.height, row.width, 3)
        if row.step:
            asked = requests.loc[row.request_id]
            fields = {name: asked[name] for name in ("backend", "model", "prompt", "parent_id", "seed")}
            numbers = {name: int(asked[name]) for name in ("repeat", "step")}
            assert Request(config=json.loads(asked["config"]), **fields, **numbers).id == row.request_id
    assert table[table["step"] > 0]["image_id"].is_unique  # repeats are independent draws
    assert journal(store) == {"asked": CHAINS * STEPS, "stored": CHAINS * STEPS}
    previews = {file.relative_to(paths.PREVIEWS).with_suffix("") for file in paths.PREVIEWS.rglob("*.webp")}
    assert len(previews) == CHAINS * 3


def test_a_second_run_asks_nothing_and_mends_the_workspace(seeded: Path, store: Path) -> None:
    assert main(["replicate"]) == 0
    before, asked = snapshot(seeded / "data"), journal(store)
    victim = next(paths.REPLICAS.rglob("003.png"))
    victim.write_bytes(b"edited by hand")
    next(paths.REPLICAS.rglob("002.png")).unlink()
    (paths.REPLICAS / "stray").mkdir()
    (paths.REPLICAS / "stray/004.png").write_bytes(b"of another campaign")
    assert main(["replicate"]) == 0
    assert snapshot(seeded / "data") == before and journal(store) == asked
    assert not (paths.REPLICAS / "stray").exists()


def test_a_longer_campaign_asks_only_for_its_new_steps(
    seeded: Path, store: Path, small_params: dict[str, Any], set_params: Callable[[dict[str, Any]], None]
) -> None:
    assert main(["replicate"]) == 0
    small_params["campaigns"]["longer"] = small_params["campaigns"]["simulated-replica"] | {"steps": STEPS + 2}
    small_params["active"] = ["longer"]
    set_params(small_params)
    assert main(["replicate"]) == 0
    assert journal(store)["stored"] == CHAINS * (STEPS + 2)
    assert {file.name for file in paths.REPLICAS.iterdir()} == {"longer"}


def test_answers_in_pulled_data_are_taken_over_and_not_asked_again(seeded: Path, store: Path) -> None:
    """A clone with released data and an empty store must not buy what lies in front of it."""
    assert main(["replicate"]) == 0
    before = snapshot(seeded / "data")
    shutil.rmtree(store)
    assert main(["replicate"]) == 0
    assert journal(store) == {"stored": CHAINS * STEPS} and snapshot(seeded / "data") == before


def test_answers_of_an_earlier_version_are_taken_over(seeded: Path, store: Path) -> None:
    """Its table of requests has fewer columns, and there are no tables of refusals and parked chains."""
    assert main(["replicate"]) == 0
    before = snapshot(seeded / "data")
    rows = tables.read(paths.REQUESTS_TABLE, tables.REQUESTS).drop(columns="previous_id")
    rows.to_parquet(paths.REQUESTS_TABLE)
    paths.REFUSALS_TABLE.unlink()
    paths.PARKED_TABLE.unlink()
    shutil.rmtree(store)
    assert main(["replicate"]) == 0
    assert journal(store) == {"stored": CHAINS * STEPS} and snapshot(seeded / "data") == before


def test_forged_answers_are_not_taken_over(seeded: Path, store: Path) -> None:
    assert main(["replicate"]) == 0
    before = snapshot(seeded / "data")
    shutil.rmtree(store)
    edited = next(paths.REPLICAS.rglob("001.png"))
    edited.write_bytes(images.encode_png(images.decode(edited.read_bytes())[::-1]))  # an image that no row names
    requests = tables.read(paths.REQUESTS_TABLE, tables.REQUESTS)
    requests.loc[0, "prompt"] = "another prompt"  # a row whose request id does not prove true
    tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, requests)
    assert main(["replicate"]) == 0
    assert snapshot(seeded / "data") == before
    assert 1 <= journal(store)["asked"] <= 2


def test_an_unknown_seed_or_model_is_told(
    seeded: Path,
    small_params: dict[str, Any],
    set_params: Callable[[dict[str, Any]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    campaign = small_params["campaigns"]["simulated-replica"]
    small_params["campaigns"]["simulated-replica"] = campaign | {"seeds": ["mona"]}
    set_params(small_params)
    assert main(["replicate"]) == 2
    assert 'simulated-replica.seeds is ["mona"]; allowed: all, or names among ' in capsys.readouterr().err
    small_params["campaigns"]["simulated-replica"] = campaign | {"model": "rot-9"}
    set_params(small_params)
    assert main(["replicate"]) == 2
    assert 'model is "rot-9"; allowed: rot-1' in capsys.readouterr().err
    assert not paths.REPLICAS.exists()


def test_an_edited_seed_is_told(seeded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = next(paths.SEEDS.glob("*.png"))
    seed.write_bytes(seed.read_bytes() + b"!")
    assert main(["replicate"]) == 2
    assert f"{seed}: not the seed" in capsys.readouterr().err


def test_two_processes_share_a_store_and_ask_nothing_twice(seeded: Path, store: Path, tmp_path: Path) -> None:
    """DVC killed by SIGTERM leaves its child running: a second run meets the first one."""
    other = tmp_path / "other"
    shutil.copytree(seeded, other)
    command = [sys.executable, "-m", "banana100", "replicate"]
    runs = [subprocess.Popen(command, cwd=folder) for folder in (seeded, other, seeded)]
    assert [run.wait() for run in runs] == [0, 0, 0]
    assert journal(store) == {"asked": CHAINS * STEPS, "stored": CHAINS * STEPS}
    assert snapshot(other / "data").values() and [*snapshot(other / "data").values()] == [
        *snapshot(seeded / "data").values()
    ]
    assert not list(store.rglob("*.lock"))


def test_a_backend_of_ones_own_needs_one_class(
    seeded: Path, store: Path, monkeypatch: pytest.MonkeyPatch, photograph: Any
) -> None:
    class Mirror:
        def __init__(self, campaign: Campaign) -> None:
            self.campaign = campaign

        def generate(self, request: Request, parent: bytes) -> Answer:
            return Answer(image=images.encode_png(images.decode(parent)[:, ::-1]), model_answered="mirror")

    from banana100.replication.chains import Chain, compute
    from banana100.replication.workspace import seed_images

    monkeypatch.setitem(BACKENDS, "simulated", Mirror)
    answers = AnswerStore(store)
    seed, seed_id = next(iter(seed_images(answers).items()))
    campaign = SimulatedCampaign.model_validate(
        {"backend": "simulated", "model": "m", "prompts": ["p"], "config": {}, "seeds": "all", "repeats": 1, "steps": 2}
    )
    chain = Chain("c", campaign, seed, seed_id, 1)
    compute(chain)
    (_, second) = stored(chain, answers)[0][1]
    assert answers.image(second.image_id) == paths.seed_image(seed).read_bytes()
