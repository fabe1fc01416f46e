"""Replication: the store loses nothing and asks nothing twice; the workspace is laid out from it exactly."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banana100 import files, images, paths
from banana100.cli import main
from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.generators import BACKENDS
from banana100.generators.base import Answer
from banana100.generators.store import AnswerStore
from banana100.generators.walks import stored
from banana100.lineage import tables
from banana100.lineage.identity import Request, canonical_json
from banana100.params import Campaign, SimulatedCampaign

CHAINS, STEPS = 4, 3  # of the small project


def request(**changes: object) -> Request:
    fields = {"backend": "simulated", "model": "rot-1", "prompt": "copy", "parent_id": "00", "seed": "a"}
    return Request(**fields | {"config": {"noise": 100, "green": 100}, "repeat": 1, "step": 1} | changes)


def snapshot(folder: Path) -> dict[str, str]:
    return {file.as_posix(): sha256_of(file.read_bytes()) for file in sorted(folder.rglob("*")) if file.is_file()}


def journal(store: Path) -> Counter[str]:
    return Counter(line["event"] for line in AnswerStore(store).journal())


# --- identities


def test_a_request_id_is_the_hash_of_canonical_json() -> None:
    text = (
        '{"backend":"simulated","config":{"green":100,"noise":100},"model":"rot-1","parent_id":"00","prompt":"copy",'
        '"repeat":1,"seed":"a","step":1}'
    )
    assert request().id == sha256_of(text.encode())


@pytest.mark.parametrize("change", [{"model": "m"}, {"prompt": "p"}, {"parent_id": "1"}, {"seed": "b"}, {"repeat": 2}])
def test_whatever_decides_an_image_changes_its_request_id(change: dict[str, object]) -> None:
    assert request(**change).id != request().id


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.dictionaries(st.text(), v)))
def test_canonical_json_does_not_depend_on_the_order_of_keys(value: Any) -> None:
    def turned(value: Any) -> Any:
        return {k: turned(v) for k, v in reversed(value.items())} if isinstance(value, dict) else value

    assert canonical_json(turned(value)) == canonical_json(value)
    assert json.loads(canonical_json(value)) == value


# --- the store


def test_an_answer_comes_back_byte_for_byte(store: Path) -> None:
    answers = AnswerStore(store)
    answer = Answer(image=b"\x89PNG not even an image", model_answered="m-1", cost_usd=0.134, finish_reason="STOP")
    assert answers.get(request()) is None
    kept = answers.put(request(), answer)
    assert AnswerStore(store).get(request()) == kept
    assert answers.image(kept.image_id) == answer.image
    assert kept.record["cost_usd"] == 0.134 and "image" not in kept.record


def test_the_first_answer_stays(store: Path) -> None:
    answers = AnswerStore(store)
    first = answers.put(request(), Answer(image=b"first", model_answered="m"))
    assert answers.put(request(), Answer(image=b"second", model_answered="m")) == first
    assert journal(store) == {"stored": 1, "stored again": 1}


def test_a_damaged_object_is_named_and_never_used(store: Path) -> None:
    answers = AnswerStore(store)
    kept = answers.put(request(), Answer(image=b"whole", model_answered="m"))
    (path,) = (store / "objects").rglob(kept.image_id)
    path.write_bytes(b"whale")
    with pytest.raises(UserError, match=f"{kept.image_id}: damaged object"):
        answers.image(kept.image_id)
    path.unlink()
    with pytest.raises(UserError, match="missing from the store"):
        answers.image(kept.image_id)
    for damage in (None, b"whale"):
        if damage:
            path.write_bytes(damage)
        answers.put(request(), Answer(image=b"whole", model_answered="m"))  # as when pulled data is taken over
        assert answers.image(kept.image_id) == b"whole"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"image_id": "0"}'])
def test_a_damaged_answer_is_named(store: Path, content: bytes) -> None:
    answers = AnswerStore(store)
    answers.put(request(), Answer(image=b"x", model_answered="m"))
    (path,) = (store / "answers").rglob("*.json")
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{request().id}.json: damaged answer"):
        answers.get(request())


def test_a_store_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"BANANA100_STORE .*cannot be made"):
        AnswerStore(tmp_path / "file" / "store")


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    files.write_atomically(file, b"old", durable=True)

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        files.write_atomically(file, b"new", durable=True)
    assert snapshot(tmp_path) == {file.as_posix(): sha256_of(b"old")}


def test_a_sweep_deletes_only_what_dead_processes_left(tmp_path: Path) -> None:
    import platform

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for process in (dead.pid, os.getpid()):
        (tmp_path / f".tmp-{platform.node()}-{process}-abc").write_bytes(b"half")
    # of other machines, one of whose names goes on where ours ends
    others = {".tmp-another-host-1-abc", f".tmp-{platform.node()}-b-{dead.pid}-abc", f".tmp-{platform.node()}-7-1-abc"}
    for name in others:
        (tmp_path / name).write_bytes(b"half")
    files.sweep(tmp_path)
    left = {file.name for file in tmp_path.iterdir()}
    assert left == {f".tmp-{platform.node()}-{os.getpid()}-abc", *others}


def test_clearing_a_folder_spares_what_a_living_process_writes(tmp_path: Path) -> None:
    import platform

    folder = tmp_path / "out"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    living = folder / "a" / f".tmp-{platform.node()}-{os.getpid()}-abc"
    for file in (
        folder / "keep",
        folder / "b/c/stray",
        folder / "a" / f".tmp-{platform.node()}-{dead.pid}-abc",
        living,
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    (folder / "link").symlink_to(tmp_path, target_is_directory=True)
    files.keep_only(folder, {folder / "keep"})
    assert sorted(folder.rglob("*")) == [folder / "a", living, folder / "keep"]
    assert tmp_path.exists()


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


def test_workers_end_when_their_main_process_is_killed(tmp_path: Path) -> None:
    import psutil

    script = tmp_path / "sleeper.py"
    script.write_text(
        "import time\nfrom banana100.workers import in_parallel\n"
        "if __name__ == '__main__':\n    list(in_parallel(time.sleep, [60, 60, 60]))\n"
    )
    main_process = subprocess.Popen([sys.executable, str(script)], env=os.environ | {"BANANA100_WORKERS": "2"})
    process = psutil.Process(main_process.pid)
    for _ in range(200):
        children = process.children(recursive=True)
        if len(children) >= 3:  # two workers and multiprocessing's resource tracker
            break
        psutil.wait_procs([], timeout=0)
        import time

        time.sleep(0.05)
    time.sleep(1)
    main_process.kill()
    main_process.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


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
