"""Verify: an untouched run passes; whatever is damaged is found and named, also where dvc.lock was forged to match."""

import copy
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
import yaml
from PIL import Image

from banana100 import cli, generators, images, params, paths
from banana100.generators.base import Answer, Refusal, Refused, Turn
from banana100.generators.simulated import rot
from banana100.lineage import tables
from banana100.lineage.identity import Request, identity
from banana100.ranking import inputs
from banana100.ranking import stage as ranking
from banana100.replication import stage as replication
from banana100.report import stage as report
from banana100.scoring import stage as scoring
from banana100.seeds import stage as seeds
from banana100.verify import fingerprints

CAMPAIGN = "simulated-replica"
SCORES = {metric: paths.scores(metric) for metric in ("entropy", "niqe")}
SCHEMAS = {
    paths.SEED_TABLE: tables.SEEDS,
    paths.IMAGES_TABLE: tables.IMAGES,
    paths.REQUESTS_TABLE: tables.REQUESTS,
    paths.REFUSALS_TABLE: tables.REFUSALS,
    paths.PARKED_TABLE: tables.PARKED,
    paths.SCORERS_TABLE: tables.SCORERS,
    paths.FAILURES_TABLE: tables.FAILURES,
    paths.DRIFT_TABLE: tables.DRIFT,
} | dict.fromkeys(SCORES.values(), tables.SCORES)


class Workspace:
    """A copy of the tiny clone, as the current directory, to be damaged."""

    def __init__(self, clone: Any, capsys: pytest.CaptureFixture[str]) -> None:
        self.clone, self._capsys = clone, capsys

    def verify(self, *options: str) -> tuple[int, str]:
        self._capsys.readouterr()
        code = cli.main(["verify", *options])
        return code, self._capsys.readouterr().out

    @property
    def images(self) -> list[dict[str, Any]]:
        return rows(paths.IMAGES_TABLE)


@pytest.fixture
def workspace(
    tiny_clone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Workspace]:
    shutil.copytree(tiny_clone.folder, tmp_path / "clone", symlinks=True)
    monkeypatch.chdir(tmp_path / "clone")
    clone = copy.copy(tiny_clone)
    clone.folder = tmp_path / "clone"
    yield Workspace(clone, capsys)


# Of the workspace below: a fresh conversation for every step, and a conversation.
PLAIN, TALK = "plain", "talk"


class Generator:
    """Takes the place of a generator behind a network; refuses some requests."""

    def __init__(self, *_: object) -> None:
        self.asked: list[str] = []

    async def ask(self, request: Request, turns: Sequence[Turn], timeout: float) -> Answer:
        """Step 2 of coffee is refused for good where there is no conversation, else once."""
        self.asked.append(request.id)
        talks = request.config.get("history", 0) > 0
        if (request.seed, request.step) == ("coffee", 2) and (not talks or self.asked.count(request.id) == 1):
            facts = {"cost_usd": 0.01, "asked_at": "2026-07-01T12:00:00+00:00", "seconds": 2.0}
            raise Refused(Refusal("gemini-x", "IMAGE_SAFETY", detail="no image", **facts))
        image = turns[-1].image or turns[-2].answer
        assert image
        return Answer(
            "gemini-x", "STOP", cost_usd=0.134, image=images.encode_png(rot(images.decode(image), request.id))
        )

    def estimate(self, _: Request, turns: int) -> float:
        return 0.134 * turns

    async def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def asked_folder(tiny_clone: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny clone with campaigns of a paid generator in place of the simulated one, after all stages.

    One chain of `plain` is parked; in `talk` there is one refusal.
    """
    folder = shutil.copytree(tiny_clone.folder, tmp_path_factory.mktemp("asked") / "clone", symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setitem(generators.REMOTE, "gemini", Generator)
        patch.setenv("BANANA100_STORE", str(folder.parent / "store"))
        for name, value in (("PAUSE", "0.001"), ("WORKERS", "1")):
            patch.setenv(f"BANANA100_{name}", value)
        content = yaml.safe_load(paths.PARAMS.read_text())
        campaign = {"backend": "gemini", "model": next(iter(content["prices"]["models"])), "prompts": ["Copy it."]}
        campaign |= {"config": {"temperature": 0.5}, "budget_usd": 20, "seeds": "all", "repeats": 1, "steps": 3}
        content["campaigns"] = {PLAIN: campaign, TALK: campaign | {"config": {"history": 2}}}
        content["active"] = [PLAIN, TALK]
        paths.PARAMS.write_text(yaml.safe_dump(content))
        for stage in (replication, scoring, ranking, report):
            stage.run(params.load())
        clone = copy.copy(tiny_clone)
        clone.folder = folder
        clone("dvc", "commit", "-q", "-f")
    return folder


@pytest.fixture
def asked(
    asked_folder: Path,
    tiny_clone: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Workspace:
    """A copy of the workspace of a paid generator, as the current directory, to be damaged."""
    shutil.copytree(asked_folder, tmp_path / "clone", symlinks=True)
    monkeypatch.chdir(tmp_path / "clone")
    return Workspace(tiny_clone, capsys)


def rows(path: Path) -> list[dict[str, Any]]:
    return tables.records(tables.read(path, SCHEMAS[path]))


def rewrite(path: Path, change: Callable[[list[dict[str, Any]]], Any]) -> Any:
    """Let `change` work on the rows of a table; gives back what it gives back."""
    content = rows(path)
    told = change(content)
    tables.write(path, SCHEMAS[path], content)
    return told


def set_cell(path: Path, column: str, value: Any, pick: Callable[[dict[str, Any]], bool] = lambda _: True) -> Any:
    """Set a cell of the first row that `pick` likes; gives the row as it was."""

    def change(content: list[dict[str, Any]]) -> dict[str, Any]:
        row = next(row for row in content if pick(row))
        before = dict(row)
        row[column] = value(row[column]) if callable(value) else value
        return before

    return rewrite(path, change)


def replica(step: int, repeat: int = 1, seed: str = "coffee") -> Path:
    return paths.replica(CAMPAIGN, seed, repeat, step, "png")


def at(step: int, repeat: int = 1, seed: str = "coffee") -> Callable[[dict[str, Any]], bool]:
    return lambda row: (row["seed"], row["repeat"], row["step"]) == (seed, repeat, step)


def forge_lock() -> None:
    """Make dvc.lock agree with params.yaml and with every file, as `dvc commit -f` does."""
    lock = yaml.safe_load(paths.LOCK.read_text())
    params = yaml.safe_load(paths.PARAMS.read_text())
    for entry in lock["stages"].values():
        recorded = entry.get("params", {}).get("params.yaml", {})
        for key in recorded:
            value = params
            for part in key.split("."):
                value = value[part]
            recorded[key] = value
        for item in [*entry["deps"], *entry["outs"]]:
            path = Path(item["path"])
            known = {file: fingerprints.fingerprint(file) for file in fingerprints.files_below(path)}
            item["md5"] = fingerprints.dvc_hash(path, known)
    paths.LOCK.write_text(yaml.safe_dump(lock, sort_keys=False))


def set_param(*keys: str, value: Any) -> None:
    content = yaml.safe_load(paths.PARAMS.read_text())
    block = content
    for key in keys[:-1]:
        block = block[key]
    block[keys[-1]] = value
    paths.PARAMS.write_text(yaml.safe_dump(content))


class Damage(NamedTuple):
    """How to damage a workspace; `do` gives the words that verify must say, all in one line.

    `forged`: whether dvc.lock is made to agree afterwards, so that only the rows themselves can tell.
    `where`: the fixture of the workspace.
    """

    name: str
    do: Callable[[], tuple[str, ...]]
    forged: bool = True
    where: str = "workspace"


DAMAGES: list[Damage] = []


def damage(
    forged: bool = True, where: str = "workspace"
) -> Callable[[Callable[[], tuple[str, ...]]], Callable[[], tuple[str, ...]]]:
    def register(do: Callable[[], tuple[str, ...]]) -> Callable[[], tuple[str, ...]]:
        DAMAGES.append(Damage(do.__name__, do, forged, where))
        return do

    return register


# --- files


@damage()
def a_flipped_bit_in_an_image() -> tuple[str, ...]:
    data = bytearray(replica(2).read_bytes())
    data[-20] ^= 1
    replica(2).write_bytes(data)
    return str(replica(2)), "sha256 is", "images.parquet says"


@damage()
def two_images_swapped() -> tuple[str, ...]:
    one, other = replica(1).read_bytes(), replica(2).read_bytes()
    replica(1).write_bytes(other)
    replica(2).write_bytes(one)
    return str(replica(1)), "sha256 is"


@damage()
def an_image_saved_again_with_the_same_pixels() -> tuple[str, ...]:
    Image.open(replica(3)).save(replica(3), compress_level=9)
    return str(replica(3)), "sha256 is"


@damage()
def a_truncated_image() -> tuple[str, ...]:
    replica(3).write_bytes(replica(3).read_bytes()[:1000])
    return str(replica(3)), "sha256 is"


@damage()
def an_empty_image() -> tuple[str, ...]:
    replica(3).write_bytes(b"")
    return str(replica(3)), "sha256 is e3b0c44298fc"


@damage()
def a_deleted_image() -> tuple[str, ...]:
    replica(1).unlink()
    return str(replica(1)), "the file is absent"


@damage()
def a_renamed_image() -> tuple[str, ...]:
    replica(1).rename(replica(9))
    return str(replica(9)), "the file is there", "absent"


@damage()
def an_extra_file_among_the_replicas() -> tuple[str, ...]:
    (paths.REPLICAS / "notes.txt").write_text("hello")
    return "data/replicas/notes.txt", "the file is there"


@damage()
def an_extra_table_among_the_scores() -> tuple[str, ...]:
    shutil.copy2(SCORES["niqe"], paths.scores("piqe"))
    return "data/scores/piqe.parquet", "the file is there"


@damage(forged=False)
def a_preview_of_another_image() -> tuple[str, ...]:
    preview = paths.preview(CAMPAIGN, "coffee", 1, 3)
    shutil.copy2(paths.preview(CAMPAIGN, "coffee", 1, 0), preview)
    return str(preview), "md5 is", "dvc.lock says"


@damage()
def a_deleted_preview() -> tuple[str, ...]:
    paths.preview(CAMPAIGN, "coffee", 1, 3).unlink()
    return str(paths.preview(CAMPAIGN, "coffee", 1, 3)), "the file is absent"


@damage(forged=False)
def an_edited_report() -> tuple[str, ...]:
    paths.REPORT_PAGE.write_text(paths.REPORT_PAGE.read_text().replace("niqe", "NIQE"))
    return str(paths.REPORT_PAGE), "md5 is", "dvc.lock says"


@damage()
def previews_of_another_size_than_params_ask_for() -> tuple[str, ...]:
    set_param("previews", "side", value=16)
    return f"{paths.preview(CAMPAIGN, 'coffee', 1, 3)}: its longer side is 32", "previews.side in params.yaml says 16"


@damage(forged=False)
def a_link_to_nowhere() -> tuple[str, ...]:
    (paths.REPLICAS / "link.png").symlink_to("nowhere.png")
    return "data/replicas/link.png: cannot be read"


# --- seeds


@damage()
def a_candidate_told_twice() -> tuple[str, ...]:
    rewrite(paths.SEED_TABLE, lambda content: content.append(content[0] | {"chosen": False}))
    return "seeds.parquet seed astronaut", "row 2: the row is there"


@damage()
def another_seed_under_the_same_name() -> tuple[str, ...]:
    seed = paths.seed_image("coffee")
    Image.open(seed).rotate(90).save(seed)
    found = fingerprints.fingerprint(seed).sha256
    before = set_cell(paths.SEED_TABLE, "image_id", found, lambda row: row["seed"] == "coffee")
    return "seeds.parquet seed coffee", f"image_id is {found}", f"choosing again says {before['image_id']}"


@damage()
def an_edited_licence() -> tuple[str, ...]:
    set_cell(paths.SEED_TABLE, "licence", "all mine", lambda row: row["seed"] == "coffee")
    return "seed coffee", "licence is all mine", "choosing again says CC0-1.0"


@damage()
def a_seed_less_than_params_ask_for() -> tuple[str, ...]:
    set_param("seeds", "count", value=3)
    return "the number of chosen seeds is 2", "params.yaml says 3"


# --- images and requests


@damage()
def rows_of_two_images_swapped() -> tuple[str, ...]:
    def change(content: list[dict[str, Any]]) -> str:
        one, other = (next(row for row in content if at(step)(row)) for step in (1, 2))
        one["image_id"], other["image_id"] = other["image_id"], one["image_id"]
        return str(other["image_id"])

    before = rewrite(paths.IMAGES_TABLE, change)
    return f"images.parquet {replica(2)}: parent_id is {before}", "the step before it says"


@damage()
def a_wrong_parent() -> tuple[str, ...]:
    other = next(row for row in rows(paths.IMAGES_TABLE) if at(1, repeat=2)(row))
    before = set_cell(paths.IMAGES_TABLE, "parent_id", other["image_id"], at(2))
    return f"{replica(2)}: parent_id is {other['image_id']}", f"says {before['parent_id']}"


@damage()
def a_deleted_step() -> tuple[str, ...]:
    rewrite(paths.IMAGES_TABLE, lambda content: content.remove(next(row for row in content if at(2)(row))))
    replica(2).unlink()
    return f"{CAMPAIGN} coffee r1 step 2: the row is absent", "params.yaml says there"


@damage()
def a_deleted_last_step_with_its_request() -> tuple[str, ...]:
    def change(content: list[dict[str, Any]]) -> None:
        content.remove(next(row for row in content if at(3)(row)))

    rewrite(paths.IMAGES_TABLE, change)
    rewrite(paths.REQUESTS_TABLE, change)
    replica(3).unlink()
    return f"{CAMPAIGN} coffee r1 step 3: the row is absent", "params.yaml says there"


@damage()
def a_duplicated_step() -> tuple[str, ...]:
    rewrite(paths.IMAGES_TABLE, lambda content: content.append(next(row for row in content if at(2)(row))))
    return f"images.parquet {replica(2)}: its position in the chain is taken twice"


@damage()
def a_step_beyond_the_campaign() -> tuple[str, ...]:
    def change(content: list[dict[str, Any]]) -> None:
        content.append(next(row for row in content if at(3)(row)) | {"step": 4, "path": str(replica(4))})

    rewrite(paths.IMAGES_TABLE, change)
    shutil.copy2(replica(3), replica(4))
    return f"images.parquet {replica(4)}: the row is there", "params.yaml says absent"


@damage()
def a_row_of_another_campaign() -> tuple[str, ...]:
    set_cell(paths.IMAGES_TABLE, "campaign", "nobody-knows", at(3))
    return f"images.parquet {replica(3)}: the row is there", "params.yaml says absent"


@damage()
def an_edited_path() -> tuple[str, ...]:
    moved = paths.REPLICAS / "elsewhere.png"
    set_cell(paths.IMAGES_TABLE, "path", str(moved), at(3))
    shutil.move(replica(3), moved)
    return f"images.parquet {moved}: path is {moved}", f"its position in the chain says {replica(3)}"


@damage()
def an_edited_width() -> tuple[str, ...]:
    set_cell(paths.IMAGES_TABLE, "width", 2048, at(3))
    return f"images.parquet {replica(3)}: width is 2048", "the file says 96"


@damage()
def an_edited_prompt() -> tuple[str, ...]:
    before = set_cell(paths.REQUESTS_TABLE, "prompt", "Make it nicer.")
    return f"requests.parquet {before['request_id']}: prompt is Make it nicer.", "says Produce an exact replica"


@damage()
def an_edited_config() -> tuple[str, ...]:
    before = set_cell(paths.REQUESTS_TABLE, "config", '{"green":0,"noise":0}')
    return f'requests.parquet {before["request_id"]}: config is {{"green":0,"noise":0}}', '"noise":100'


@damage()
def an_edited_cost() -> tuple[str, ...]:
    before = set_cell(paths.REQUESTS_TABLE, "cost_usd", 0.134)
    return f"requests.parquet {before['request_id']}: cost_usd is 0.134", "the simulator says 0.0"


@damage()
def a_deleted_request() -> tuple[str, ...]:
    before = rewrite(paths.REQUESTS_TABLE, lambda content: content.pop(0))
    image = next(row for row in rows(paths.IMAGES_TABLE) if row["request_id"] == before["request_id"])
    return f"images.parquet {image['path']}: the row of its request is absent"


@damage()
def a_duplicated_request() -> tuple[str, ...]:
    before = rewrite(paths.REQUESTS_TABLE, lambda content: content.append(content[0]) or content[0])
    return f"requests.parquet {before['request_id']}: the row is there twice"


@damage()
def an_invented_request() -> tuple[str, ...]:
    rewrite(paths.REQUESTS_TABLE, lambda content: content.append(content[0] | {"request_id": "ab" * 32}))
    return f"requests.parquet {'ab' * 32}: its image is absent"


@damage()
def an_answer_of_another_request() -> tuple[str, ...]:
    other = rows(paths.REQUESTS_TABLE)[1]
    before = set_cell(paths.REQUESTS_TABLE, "image_id", other["image_id"])
    where = f"requests.parquet {before['request_id']}: image_id is {other['image_id']}"
    return where, f"images.parquet says {before['image_id']}"


@damage()
def a_simulated_answer_in_a_models_name() -> tuple[str, ...]:
    before = set_cell(paths.REQUESTS_TABLE, "model_answered", "gemini-3-pro-image")
    where = f"requests.parquet {before['request_id']}: model_answered is gemini-3-pro-image"
    return where, "the simulator says simulated/rot-1"


# --- parked chains and refusals

_PARKED = f"parked.parquet {PLAIN} coffee r1"


def of(campaign: str, step: int, seed: str = "coffee") -> Callable[[dict[str, Any]], bool]:
    return lambda row: (row["campaign"], row["seed"], row["step"]) == (campaign, seed, step)


@damage(where="asked")
def a_parked_chain_that_is_not_told() -> tuple[str, ...]:
    rewrite(paths.PARKED_TABLE, lambda content: content.clear())
    return f"images.parquet {PLAIN} coffee r1 step 2: the row is absent", "params.yaml says there"


@damage(where="asked")
def a_parked_chain_without_the_images_before() -> tuple[str, ...]:
    rewrite(paths.IMAGES_TABLE, lambda content: content.remove(next(row for row in content if of(PLAIN, 1)(row))))
    return f"images.parquet {PLAIN} coffee r1 step 1: the row is absent", "params.yaml says there"


@damage(where="asked")
def a_parked_chain_that_goes_on() -> tuple[str, ...]:
    image = next(
        row for row in rows(paths.IMAGES_TABLE) if of(PLAIN, 3, "astronaut")(row) or of(PLAIN, 3, "rocket")(row)
    )
    path = paths.replica(PLAIN, "coffee", 1, 2, "png")
    shutil.copy2(image["path"], path)
    row = image | {"path": str(path), "seed": "coffee", "step": 2}
    rewrite(paths.IMAGES_TABLE, lambda content: content.append(row))
    return (f"images.parquet {path}: the row is there; data/lineage/parked.parquet says absent",)


@damage(where="asked")
def a_complete_chain_that_is_parked() -> tuple[str, ...]:
    row = rows(paths.PARKED_TABLE)[0] | {"campaign": TALK, "step": 3}
    rewrite(paths.PARKED_TABLE, lambda content: content.append(row))
    return (
        f"images.parquet {paths.replica(TALK, 'coffee', 1, 3, 'png')}: the row is there",
        "parked.parquet says absent",
    )


@damage(where="asked")
def a_complete_chain_that_is_parked_after_its_end() -> tuple[str, ...]:
    row = rows(paths.PARKED_TABLE)[0] | {"campaign": TALK, "step": 4}
    rewrite(paths.PARKED_TABLE, lambda content: content.append(row))
    return f"parked.parquet {TALK} coffee r1: step is 4", "params.yaml says a number from 1 to 3"


@damage(where="asked")
def a_chain_parked_twice() -> tuple[str, ...]:
    rewrite(paths.PARKED_TABLE, lambda content: content.append(content[0] | {"cause": "budget"}))
    return (f"{_PARKED}: the row is there twice",)


@damage(where="asked")
def a_parked_chain_that_nobody_planned() -> tuple[str, ...]:
    rewrite(paths.PARKED_TABLE, lambda content: content.append(content[0] | {"repeat": 2}))
    return f"parked.parquet {PLAIN} coffee r2: the row is there", "params.yaml says absent"


@damage(where="asked")
def a_parked_chain_with_another_request() -> tuple[str, ...]:
    before = set_cell(paths.PARKED_TABLE, "request_id", "ab" * 32)
    return f"{_PARKED}: request_id is {'ab' * 32}", f"params.yaml says {before['request_id']}"


@damage(where="asked")
def a_chain_parked_for_no_cause_that_there_is() -> tuple[str, ...]:
    set_cell(paths.PARKED_TABLE, "cause", "tired")
    return f"{_PARKED}: cause is tired", "says one of refused, unavailable, rejected, budget, stopped"


@damage(where="asked")
def a_chain_parked_as_refused_without_a_refusal() -> tuple[str, ...]:
    request_id = rows(paths.PARKED_TABLE)[0]["request_id"]
    others = [row for row in rows(paths.REFUSALS_TABLE) if row["request_id"] != request_id]
    tables.write(paths.REFUSALS_TABLE, tables.REFUSALS, others)
    return f"{_PARKED}: the number of its request's refusals is 0", "says at least 1"


@damage()
def a_parked_chain_of_the_simulator() -> tuple[str, ...]:
    image = next(row for row in rows(paths.IMAGES_TABLE) if at(3)(row))
    row = {name: image.get(name) for name in tables.PARKED.names} | {"cause": "budget", "reason": "dear", "attempts": 0}
    rewrite(paths.PARKED_TABLE, lambda content: content.append(row))
    return f"parked.parquet {CAMPAIGN} coffee r1: the row is there", "the simulated backend", "says absent"


@damage()
def a_refusal_of_the_simulator() -> tuple[str, ...]:
    asked = rows(paths.REQUESTS_TABLE)[0]
    row = {name: asked.get(name) for name in tables.REFUSALS.names} | {"number": 1}
    rewrite(paths.REFUSALS_TABLE, lambda content: content.append(row))
    return f"refusals.parquet {asked['request_id']} number 1: the row is there", "says absent"


@damage(where="asked")
def a_deleted_first_refusal() -> tuple[str, ...]:
    parked = rows(paths.PARKED_TABLE)[0]["request_id"]
    of_parked = [row for row in rows(paths.REFUSALS_TABLE) if row["request_id"] == parked]
    assert [row["number"] for row in of_parked] == [1, 2, 3]
    rewrite(paths.REFUSALS_TABLE, lambda content: content.remove(of_parked[0]))
    return (f"refusals.parquet {parked} number 2: number is 2; the number of refusals before it says 1",)


@damage(where="asked")
def a_refusal_told_twice() -> tuple[str, ...]:
    row = rewrite(paths.REFUSALS_TABLE, lambda content: content.append(content[0]) or content[0])
    return f"refusals.parquet {row['request_id']} number 1: number is 1", "before it says 2"


@damage(where="asked")
def a_refusal_with_another_prompt() -> tuple[str, ...]:
    before = set_cell(paths.REFUSALS_TABLE, "prompt", "Make it nicer.")
    where = f"refusals.parquet {before['request_id']} number {before['number']}: prompt is Make it nicer."
    return where, "params.yaml says Copy it."


@damage(where="asked")
def a_refusal_under_another_hash() -> tuple[str, ...]:
    before = set_cell(paths.REFUSALS_TABLE, "request_id", "ab" * 32)
    where = f"refusals.parquet {'ab' * 32} number {before['number']}: request_id is {'ab' * 32}"
    return where, f"the hash of its row says {before['request_id']}"


@damage(where="asked")
def a_refusal_of_a_request_that_nobody_made() -> tuple[str, ...]:
    def invent(content: list[dict[str, Any]]) -> str:
        row = content[0] | {"repeat": 7, "number": 1}
        request = Request.of_row(row)
        assert request
        content.append(row | {"request_id": request.id})
        return request.id

    return (f"refusals.parquet {rewrite(paths.REFUSALS_TABLE, invent)} number 1: its request is absent",)


@damage(where="asked")
def a_refusal_with_a_config_that_is_no_json() -> tuple[str, ...]:
    before = set_cell(paths.REFUSALS_TABLE, "config", "{")
    return f"refusals.parquet {before['request_id']} number {before['number']}: config is {{", "params.yaml says {"


@damage(where="asked")
def a_conversation_that_goes_on_from_another_request() -> tuple[str, ...]:
    last = next(row for row in rows(paths.IMAGES_TABLE) if of(TALK, 3)(row))["request_id"]
    set_cell(paths.REQUESTS_TABLE, "previous_id", "ab" * 32, lambda row: row["request_id"] == last)
    return f"requests.parquet {last}: previous_id is {'ab' * 32}", "its campaign in params.yaml says"


@damage(where="asked")
def a_conversation_declared_a_fresh_one() -> tuple[str, ...]:
    """Consistent in itself: the last request of a chain under the id that it would have without the one before."""
    last = next(row for row in rows(paths.IMAGES_TABLE) if of(TALK, 3)(row))["request_id"]

    def forget(content: list[dict[str, Any]]) -> str:
        row = next(row for row in content if row["request_id"] == last)
        row["previous_id"] = None
        request = Request.of_row(row)
        assert request
        row["request_id"] = request.id
        return request.id

    request_id = rewrite(paths.REQUESTS_TABLE, forget)
    set_cell(paths.IMAGES_TABLE, "request_id", request_id, of(TALK, 3))
    return f"{paths.replica(TALK, 'coffee', 1, 3, 'png')}: request_id is {request_id}", f"params.yaml says {last}"


@damage(where="asked", forged=False)
def an_edited_cost_of_a_refusal() -> tuple[str, ...]:
    before = set_cell(paths.REFUSALS_TABLE, "cost_usd", 0.5)
    where = f"refusals.parquet request_id {before['request_id']} number {before['number']}: cost_usd is 0.5"
    return where, "the recorded version says 0.01"


@damage(where="asked", forged=False)
def an_edited_reason_of_a_parked_chain() -> tuple[str, ...]:
    before = set_cell(paths.PARKED_TABLE, "reason", "bored")
    where = f"parked.parquet campaign {PLAIN} seed coffee repeat 1: reason is bored"
    return where, f"the recorded version says {before['reason']}"


@damage(where="asked")
def a_deleted_table_of_parked_chains() -> tuple[str, ...]:
    paths.PARKED_TABLE.unlink()
    return ("data/lineage/parked.parquet: not there",)


@damage()
def a_generated_seed_that_nobody_asked_for() -> tuple[str, ...]:
    image = paths.GENERATED_SEEDS / "coffee.png"
    image.parent.mkdir(exist_ok=True)
    shutil.copy2(paths.seed_image("coffee"), image)
    return f"{image}: the file is there", "says absent"


# --- scores


@damage(forged=False)
def an_edited_score() -> tuple[str, ...]:
    before = set_cell(SCORES["niqe"], "score", 1.25)
    return f"niqe.parquet image_id {before['image_id']}: score is 1.25", f"version says {before['score']}"


@damage()
def a_score_with_more_decimals_than_its_scorer_gives() -> tuple[str, ...]:
    before = set_cell(SCORES["niqe"], "score", lambda score: score + 1e-7)
    return f"niqe image {before['image_id']}: score is", "decimals says"


@damage()
def a_score_that_is_not_finite() -> tuple[str, ...]:
    before = set_cell(SCORES["entropy"], "score", float("inf"))
    return f"entropy image {before['image_id']}: score is inf", "finite"


@damage()
def a_deleted_score() -> tuple[str, ...]:
    before = rewrite(SCORES["niqe"], lambda content: content.pop(0))
    return f"niqe image {before['image_id']}: the result is absent"


@damage()
def a_duplicated_score() -> tuple[str, ...]:
    before = rewrite(SCORES["niqe"], lambda content: content.append(content[0] | {"score": 1.0}) or content[0])
    return f"niqe image {before['image_id']}: the number of results is above 1"


@damage()
def a_score_of_no_image() -> tuple[str, ...]:
    set_cell(SCORES["niqe"], "image_id", "ab" * 32)
    return f"niqe image {'ab' * 32}: the result is there"


@damage()
def a_score_of_another_scorer_version() -> tuple[str, ...]:
    before = set_cell(SCORES["niqe"], "scorer_id", "ab" * 32)
    where = f"niqe image {before['image_id']}: scorer_id is {'ab' * 32}"
    return where, f"scorers.parquet says {before['scorer_id']}"


@damage()
def all_scores_of_another_scorer_version() -> tuple[str, ...]:
    """Consistent in itself: the scorer's row with its new id, and every score under it."""

    def older(content: list[dict[str, Any]]) -> str:
        row = next(row for row in content if row["metric"] == "niqe")
        row["pyiqa"] = "0.1.14"
        row["scorer_id"] = identity({name: value for name, value in row.items() if name != "scorer_id"})
        return row["scorer_id"]

    scorer_id = rewrite(paths.SCORERS_TABLE, older)
    rewrite(SCORES["niqe"], lambda content: [row.update(scorer_id=scorer_id) for row in content])
    return "scorers.parquet niqe: pyiqa is 0.1.14", "this environment says 0.1.16"


@damage()
def scores_by_other_weights() -> tuple[str, ...]:
    set_cell(paths.SCORERS_TABLE, "parameters_sha256", "ab" * 32, lambda row: row["metric"] == "niqe")
    return f"scorers.parquet niqe: parameters_sha256 is {'ab' * 32}", "weights.lock.yaml or the package says 2a7c182a"


@damage()
def a_direction_turned_round() -> tuple[str, ...]:
    set_cell(paths.SCORERS_TABLE, "higher_is_better", True, lambda row: row["metric"] == "niqe")
    return "scorers.parquet niqe: higher_is_better is True", "says False"


@damage()
def a_score_declared_a_failure_without_a_reason() -> tuple[str, ...]:
    before = rewrite(SCORES["niqe"], lambda content: content.pop(0))
    failure = {"image_id": before["image_id"], "metric": "niqe", "reason": "", "scorer_id": before["scorer_id"]}
    rewrite(paths.FAILURES_TABLE, lambda content: content.append(failure))
    return f"niqe image {before['image_id']}: the reason of the failure is missing"


@damage()
def drift_from_another_reference() -> tuple[str, ...]:
    other = next(row for row in rows(paths.IMAGES_TABLE) if at(1)(row))["image_id"]
    before = set_cell(paths.DRIFT_TABLE, "reference_id", other)
    where = f"drift.parquet psnr image {before['image_id']} against"
    return f"{where} {before['reference_id']}: the result is absent"


# --- ranking


@damage()
def an_edited_figure_of_the_ranking() -> tuple[str, ...]:
    ranking = json.loads(paths.RANKING.read_text())
    before, ranking["ranking"]["niqe"]["failures"] = ranking["ranking"]["niqe"]["failures"], 99
    paths.RANKING.write_text(json.dumps(ranking, indent=2) + "\n")
    return f"ranking.json: ranking.niqe.failures is 99; ranking again says {before}"


@damage()
def an_edited_table_of_chains() -> tuple[str, ...]:
    text = paths.CHAINS_TABLE.read_text()
    assert "True" in text
    paths.CHAINS_TABLE.write_text(text.replace("True", "False", 1))
    return str(paths.CHAINS_TABLE), "sha256 is", "ranking again says"


@damage()
def a_ranking_older_than_its_params() -> tuple[str, ...]:
    set_param("ranking", "spread", value="range")
    return str(paths.CHAINS_TABLE), "ranking again says"


# --- params, dvc.lock, code


@damage(forged=False)
def params_changed_after_the_run() -> tuple[str, ...]:
    set_param("campaigns", CAMPAIGN, "config", "noise", value=50)
    return "dvc.lock replicate: campaigns is", "params.yaml says", "'noise': 50"


@damage()
def params_changed_after_the_run_and_written_into_the_lock() -> tuple[str, ...]:
    set_param("campaigns", CAMPAIGN, "config", "noise", value=50)
    return f"images.parquet {replica(1)}: request_id is", "its campaign in params.yaml says"


@damage(forged=False)
def another_hash_in_the_lock() -> tuple[str, ...]:
    text = paths.LOCK.read_text()
    found = next(out["md5"] for out in yaml.safe_load(text)["stages"]["score"]["outs"])
    paths.LOCK.write_text(text.replace(found, "ab" * 16 + ".dir"))
    return f"data/scores: DVC's hash is {found}; dvc.lock says {'ab' * 16}.dir"


@damage(forged=False)
def stages_recorded_with_other_inputs_than_the_stage_before_gave() -> tuple[str, ...]:
    lock = yaml.safe_load(paths.LOCK.read_text())
    dep = next(dep for dep in lock["stages"]["rank"]["deps"] if dep["path"] == "data/scores")
    dep["md5"] = "ab" * 16 + ".dir"
    paths.LOCK.write_text(yaml.safe_dump(lock))
    return "dvc.lock rank: the hash of its dependency data/scores is abab", "the output of its stage in dvc.lock says"


@damage(forged=False)
def a_stage_missing_from_the_lock() -> tuple[str, ...]:
    lock = yaml.safe_load(paths.LOCK.read_text())
    del lock["stages"]["rank"]
    paths.LOCK.write_text(yaml.safe_dump(lock))
    return "dvc.lock rank: the stage is absent"


@damage(forged=False)
def code_changed_after_the_run() -> tuple[str, ...]:
    with Path("src/banana100/ranking/order.py").open("a") as stream:
        stream.write("# changed\n")
    return "dvc.lock rank: the hash of its dependency src/banana100/ranking is", "the working tree says"


@damage()
def a_truncated_table() -> tuple[str, ...]:
    SCORES["niqe"].write_bytes(SCORES["niqe"].read_bytes()[:-50])
    return "data/scores/niqe.parquet: not a whole Parquet file"


@damage()
def a_table_with_other_columns() -> tuple[str, ...]:
    pd.DataFrame({"image_id": ["a"]}).to_parquet(paths.IMAGES_TABLE)
    return "data/lineage/images.parquet: has the columns image_id"


@damage(forged=False)
def a_deleted_table() -> tuple[str, ...]:
    paths.REQUESTS_TABLE.unlink()
    return "data/lineage/requests.parquet: not there"


@damage(forged=False)
def no_lock() -> tuple[str, ...]:
    paths.LOCK.unlink()
    return "dvc.lock score: the stage is absent"


@damage(forged=False)
def a_damaged_lock() -> tuple[str, ...]:
    paths.LOCK.write_text(paths.LOCK.read_text().replace("      md5: ", "      md4: "))
    return "dvc.lock: select_seeds lacks a path or an md5"


@damage(forged=False)
def a_damaged_ranking() -> tuple[str, ...]:
    paths.RANKING.write_text(paths.RANKING.read_text()[:-20])
    return "metrics/ranking.json: sha256 is", "ranking again says"


# --- the suite


@pytest.mark.parametrize("one", DAMAGES, ids=[one.name for one in DAMAGES])
def test_damage_is_found_and_named(request: pytest.FixtureRequest, one: Damage) -> None:
    workspace: Workspace = request.getfixturevalue(one.where)
    words = one.do()
    words = (words,) if isinstance(words, str) else words
    if one.forged:
        forge_lock()
    code, told = workspace.verify()
    assert code == 1
    assert [line for line in told.splitlines() if all(word in line for word in words)], told


def test_an_untouched_run_passes_whole_and_quick_and_scored_again(workspace: Workspace) -> None:
    for options in ([], ["--quick"], ["--rescore", "9"]):
        code, told = workspace.verify(*options)
        assert code == 0 and told.startswith("no faults; checked 5 stages, 2 seeds, 16 images, 12 requests"), told
    forge_lock()  # changes nothing where nothing was damaged
    code, told = workspace.verify("--json")
    assert code == 0 and json.loads(told)["ok"] and not json.loads(told)["faults"]


def test_an_untouched_run_with_refusals_parked_chains_and_a_conversation_passes(asked: Workspace) -> None:
    for options in ([], ["--quick"], ["--rescore", "5"]):
        code, told = asked.verify(*options)
        assert code == 0 and told.startswith("no faults; checked 5 stages, 2 seeds, 14 images, 10 requests, "), told
        assert " 1 parked chains, 4 refusals, " in told
    parked = rows(paths.PARKED_TABLE)[0]
    assert (parked["step"], parked["cause"], parked["attempts"]) == (2, "refused", 3)
    talked = [row for row in rows(paths.REQUESTS_TABLE) if row["previous_id"]]
    assert sorted(row["step"] for row in talked) == [2, 2, 3, 3]


def test_summary_tells_refusals_parked_chains_and_what_all_cost(
    asked: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["summary"]) == 0
    told = capsys.readouterr().out
    assert "Answers without an image: 4; chains that end early: 1 (see data/lineage)." in told
    assert "All answers together cost $1.38." in told  # 10 images and 4 refusals
    shutil.rmtree(paths.LINEAGE)  # a clone that pulled only what rank wrote
    assert cli.main(["summary"]) == 0
    assert "cost" not in capsys.readouterr().out


def test_a_campaign_with_an_answer_of_a_simulated_server_is_simulated(asked: Workspace) -> None:
    assert inputs.read(params.load()).simulated == set()
    last = next(row for row in rows(paths.IMAGES_TABLE) if of(TALK, 3)(row))["request_id"]
    set_cell(paths.REQUESTS_TABLE, "model_answered", "simulated/x", lambda row: row["request_id"] == last)
    assert inputs.read(params.load()).simulated == {TALK}


def test_an_edited_score_under_a_forged_lock_is_found_by_scoring_again(workspace: Workspace) -> None:
    """Every other agreement can be forged: a ranking made of the edited score, and hashes over all of it."""
    before = set_cell(SCORES["niqe"], "score", lambda score: round(score + 3, 4))
    workspace.clone("python", "-m", "banana100", "rank")
    forge_lock()
    assert workspace.verify()[0] == 0  # nothing but the image itself can tell
    code, told = workspace.verify("--rescore", "1000")
    assert code == 1
    lines = told.splitlines()
    assert len(lines) == 2 and f"niqe image {before['image_id']}: score is {before['score'] + 3:.4f}" in lines[0]
    assert f"scoring again says {before['score']}" in lines[0]


@pytest.mark.parametrize("forge", [("repro", "-f", "-s", "rank"), ("commit", "-f")])
def test_new_params_that_dvc_wrote_over_old_data_are_found(workspace: Workspace, forge: tuple[str, ...]) -> None:
    """`dvc repro -f` and `dvc commit -f` can leave a lock that `dvc status` calls up to date."""
    set_param("campaigns", CAMPAIGN, "config", "green", value=40)
    set_param("seeds", "size", value=128)
    if forge[0] == "repro":
        workspace.clone("dvc", "commit", "-f", "-q", "select_seeds", "replicate", "score")
    workspace.clone("dvc", *forge, "-q")
    if forge[0] == "commit":
        assert "up to date" in workspace.clone("dvc", "status").stdout
    code, told = workspace.verify()
    assert code == 1
    assert f"images.parquet {replica(1)}: request_id is" in told
    assert "seed coffee" in told and "image_id is" in told and "choosing again says" in told


def test_what_two_writers_leave_passes_only_if_it_is_what_one_would_have_written(
    project: Path, set_params: Callable[[dict[str, Any]], None], small_params: dict[str, Any]
) -> None:
    """SIGTERM to DVC alone orphans its stage: it goes on writing beside the next run, which has other params."""
    from banana100.verify import chains, faults, files
    from banana100.verify.fingerprints import Fingerprints

    def found() -> list[str]:
        from banana100 import snapshot

        state = faults.State(snapshot.of_workspace(), params.load())
        known = Fingerprints([paths.SEEDS, paths.REPLICAS, paths.PREVIEWS]).wait()
        return [fault.sentence() for check in (chains.check(state), files.images(state, known)) for fault in check]

    orphan, new = copy.deepcopy(small_params), copy.deepcopy(small_params)
    orphan["campaigns"][CAMPAIGN]["config"]["noise"] = 300
    set_params(orphan)
    seeds.run(params.load())
    replication.run(params.load())
    late = {path: path.read_bytes() for path in paths.REPLICAS.rglob("*.png")}
    set_params(new)
    replication.run(params.load())
    assert found() == []
    victim = replica(2, seed="rocket" if replica(2, seed="rocket") in late else "astronaut")
    victim.write_bytes(late[victim])  # the orphan's last write comes after the new run has finished
    assert [line for line in found() if line.startswith(f"{victim}: sha256 is")]
    replication.run(params.load())  # the next run puts it right
    assert found() == []


@pytest.mark.parametrize(
    ("path", "column", "value"),
    [
        (paths.IMAGES_TABLE, "image_id", None),
        (paths.IMAGES_TABLE, "path", None),
        (paths.IMAGES_TABLE, "campaign", None),
        (paths.IMAGES_TABLE, "step", None),
        (paths.IMAGES_TABLE, "step", -3),
        (paths.REQUESTS_TABLE, "request_id", None),
        (paths.REQUESTS_TABLE, "request_id", "not hex"),
        (paths.SEED_TABLE, "chosen", None),
        (paths.SCORERS_TABLE, "metric", None),
        (paths.SCORERS_TABLE, "decimals", None),
        (SCORES["niqe"], "score", None),
        (paths.DRIFT_TABLE, "reference_id", None),
    ],
)
def test_a_cell_that_cannot_be_is_named_and_ends_no_other_check(
    workspace: Workspace, path: Path, column: str, value: Any
) -> None:
    set_cell(path, column, value)
    code, told = workspace.verify()
    assert code == 1
    shown = "missing" if value is None else value
    assert f"{path} row 1: {column} is {shown}; the rule for its column says" in told
    assert f"{path.parent}: DVC's hash is" in told  # the last check of all


MAY_BE_EMPTY = {paths.FAILURES_TABLE, paths.REFUSALS_TABLE, paths.PARKED_TABLE}


@pytest.mark.parametrize("path", [path for path in SCHEMAS if path not in MAY_BE_EMPTY])
def test_an_empty_table_is_a_fault(workspace: Workspace, path: Path) -> None:
    tables.write(path, SCHEMAS[path], [])
    forge_lock()
    code, told = workspace.verify("--quick")
    assert code == 1 and "Traceback" not in told


def test_quick_names_an_edited_row_of_the_seeds(workspace: Workspace) -> None:
    before = set_cell(paths.SEED_TABLE, "licence", "all mine", lambda row: row["seed"] == "coffee")
    code, told = workspace.verify("--quick")
    assert code == 1
    assert f"seed coffee: licence is all mine; the recorded version says {before['licence']}" in told


def test_json_stays_json_whatever_is_found(workspace: Workspace) -> None:
    set_cell(SCORES["niqe"], "score", float("inf"))
    code, told = workspace.verify("--quick", "--json")
    assert code == 1
    faults = json.loads(told, parse_constant=pytest.fail)["faults"]
    assert [fault for fault in faults if fault["found"] == "inf" and fault["expected"] == "a finite number"]
