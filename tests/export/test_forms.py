"""Export: each format's own library validates the document and gives the tables' rows back."""

import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import frictionless
import mlcroissant
import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image
from prov.model import ProvActivity, ProvAgent, ProvDocument, ProvEntity
from rocrate.rocrate import ROCrate
from rocrate.utils import as_list
from skimage import data

from banana100 import params, paths
from banana100.errors import UserError
from banana100.export import command, croissant, datapackage, prov, ro_crate
from banana100.export.lineage import Lineage
from banana100.files import sha256_of
from banana100.lineage import tables
from banana100.lineage.columns import REFERENCES, SCHEMAS
from banana100.lineage.identity import identity
from banana100.replication import stage as replication
from banana100.scoring import stage as scoring
from banana100.seeds import stage as seeds
from banana100.snapshot import of_workspace
from helpers.clones import ROOT

LIBRARIES = {
    "croissant": "mlcroissant",
    "prov": "prov",
    "datapackage": "frictionless",
    "ro-crate": "rocrate",
    "hf": "datasets",
}
FORMS = [form for form in command.FORMS if form != "hf"]  # it has the images inside: see test_export_hf.py
TABLE_FILES = 11  # two of them scores
HOSTILE, FLAT = "<script>alert('x')&amp; 50%;,\"#?é", "平らな灰色: {0} $HOME"
ASKED = {
    "reasoning": 'one\r\ntwo, "夜"\t;',
    "response_id": " null ",
    "finish_reason": "NA",
    "asked_at": "2026-04-01T10:00:00+00:00",
}
COST = {"seconds": 1e-7, "cost_usd": 0.1 + 0.2, "input_tokens": 1234567}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tiny run of two own seeds with hostile names, one of them flat: niqe cannot score it. Not to be changed."""
    folder = tmp_path_factory.mktemp("export")
    content = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    source = {"kind": "directory", "path": "data/own_seeds", "licence": 'mine, "all" rights <b>reserved</b> 無断転載'}
    content["seeds"] |= {"size": 96, "count": 2, "sources": [source]}
    campaign = content["campaigns"]["simulated-replica"] | {"repeats": 2, "steps": 2}
    content["campaigns"] = {"simulated-replica": campaign}
    content["campaign_sets"] = {}
    content["previews"] = {"steps": [0], "side": 16}
    content["scoring"] |= {"metrics": ["entropy", "niqe"], "drift": ["psnr"]}
    content["ranking"] |= {"metrics": ["entropy"], "min_drift": {}}
    (folder / "data" / "own_seeds").mkdir(parents=True)
    (folder / "params.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    photograph, flat = data.astronaut()[40:168, 150:278], np.full((128, 128, 3), 128, np.uint8)
    for name, pixels in ((HOSTILE, photograph), (FLAT, flat)):
        Image.fromarray(pixels).save(folder / "data" / "own_seeds" / f"{name}.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("BANANA100_STORE", str(folder / "store"))
        patch.setenv("BANANA100_WORKERS", "1")  # more would each take seconds to import PyTorch
        for stage in (seeds, replication, scoring):
            stage.run(params.load())
        asked = tables.records(tables.read(paths.REQUESTS_TABLE, tables.REQUESTS))
        asked[0] |= ASKED | COST  # the simulator leaves these out
        tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, asked)
        add_what_paid_generators_leave(asked)
    yield folder


def add_what_paid_generators_leave(asked: list[dict[str, Any]]) -> None:
    """A generated seed, refusals with and without facts, and a parked chain."""
    seed = next(row for row in tables.records(tables.read(paths.SEED_TABLE, tables.SEEDS)) if row["seed"] == FLAT)
    one = asked[0] | {"backend": "gemini", "model": "m", "model_answered": "m-1"}
    made = one | {
        "request_id": "5e" * 32,
        "seed": FLAT,
        "parent_id": None,
        "step": 0,
        "image_id": seed["source_sha256"],
    }
    tables.write(paths.SEED_REQUESTS_TABLE, tables.REQUESTS, [made])
    told = one | {"number": 1, "finish_reason": "IMAGE_SAFETY", "detail": 'no, "夜"\r\n;', "previous_id": "0f" * 32}
    untold = dict.fromkeys([*ASKED, "seconds", "input_tokens", "output_tokens", "model_answered", "detail"])
    refusals = [told, told | untold | {"number": 2, "previous_id": None}]
    names = tables.REFUSALS.names
    tables.write(paths.REFUSALS_TABLE, tables.REFUSALS, [{name: row[name] for name in names} for row in refusals])
    parked = {"campaign": "simulated-replica", "seed": HOSTILE, "repeat": 1, "step": 3, "request_id": "ab" * 32}
    parked |= {"cause": "budget", "reason": 'dear, "very"', "attempts": 0}
    tables.write(paths.PARKED_TABLE, tables.PARKED, [parked])


@pytest.fixture
def run(finished: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run as the current directory; not to be changed."""
    monkeypatch.chdir(finished)
    return finished


@pytest.fixture
def own_run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the run to change, as the current directory."""
    monkeypatch.chdir(shutil.copytree(finished, tmp_path / "own"))
    return tmp_path / "own"


@pytest.fixture
def export(tmp_path: Path) -> Callable[..., Path]:
    """Export the current directory; returns the folder."""

    def make(form: str, name: str = "", with_images: bool = False) -> Path:
        folder = tmp_path / "out" / (name or form)
        command.run(params.load(), form, folder, with_images)
        return folder

    return make


def in_table(name: str) -> list[dict[str, Any]]:
    """The rows of a table, read without the code under test, in an order of their own."""
    files = [paths.scores("entropy"), paths.scores("niqe")] if name == "scores" else [_FILES[name]]
    return in_order([row for file in files for row in tables.records(tables.read(file, SCHEMAS[name]))])


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


_FILES = {
    "seeds": paths.SEED_TABLE,
    "seed_requests": paths.SEED_REQUESTS_TABLE,
    "images": paths.IMAGES_TABLE,
    "requests": paths.REQUESTS_TABLE,
    "refusals": paths.REFUSALS_TABLE,
    "parked": paths.PARKED_TABLE,
    "scorers": paths.SCORERS_TABLE,
    "drift": paths.DRIFT_TABLE,
    "failures": paths.FAILURES_TABLE,
}


def files_below(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def change(path: Path, schema: Any, where: Callable[[dict[str, Any]], bool], **cells: Any) -> None:
    rows = tables.records(tables.read(path, schema))
    tables.write(path, schema, [row | cells if where(row) else row for row in rows])


def commit(**dates: str) -> str:
    """Put params.yaml into a new git repository in the current directory; returns the revision."""
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (["init", "-q"], ["add", "params.yaml"], ["commit", "-qm", "run"]):
        subprocess.run([*git, *arguments], env=os.environ | dates, check=True)
    return subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()


def test_the_run_has_hostile_names_failures_and_missing_cells(run: Path) -> None:
    assert {row["seed"] for row in in_table("seeds")} == {HOSTILE, FLAT}
    assert in_table("failures")
    assert any(row["parent_id"] is None for row in in_table("images"))
    assert any(row["reasoning"] for row in in_table("requests"))


@pytest.mark.parametrize("with_images", [False, True])
def test_croissant_loads_every_row_of_every_table(run: Path, export: Callable[..., Path], with_images: bool) -> None:
    dataset = mlcroissant.Dataset(export("croissant", with_images=with_images) / "croissant.json")
    issues = dataset.metadata.ctx.issues
    assert (issues.errors, issues.warnings) == (set(), set())
    assert [record_set.id for record_set in dataset.metadata.record_sets] == list(SCHEMAS)
    for name in SCHEMAS:
        found = [
            {column.split("/")[1]: cell.decode() if isinstance(cell, bytes) else cell for column, cell in row.items()}
            for row in dataset.records(name)
        ]
        assert in_order(found) == in_table(name), name


def test_croissant_states_keys_and_references(run: Path, export: Callable[..., Path]) -> None:
    document = json.loads((export("croissant") / "croissant.json").read_text())
    record_sets = {record_set["@id"]: record_set for record_set in document["recordSet"]}
    references = {
        field["@id"]: field["references"]
        for one in record_sets.values()
        for field in one["field"]
        if "references" in field
    }
    assert document["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert record_sets["scores"]["key"] == [{"@id": "scores/image_id"}, {"@id": "scores/metric"}]
    assert references["scores/image_id"] == {"field": {"@id": "images/image_id"}}
    assert references["scores/scorer_id"] == {"field": {"@id": "scorers/scorer_id"}}
    assert references["images/request_id"] == {"field": {"@id": "requests/request_id"}}
    assert references["images/parent_id"]["fileObject"] == {"@id": "images.parquet"}


def test_croissant_refuses_a_table_that_was_changed_afterwards(run: Path, export: Callable[..., Path]) -> None:
    folder = export("croissant")
    table = folder / paths.SCORERS_TABLE
    table.write_bytes(table.read_bytes() + b" ")
    with pytest.raises(Exception, match=r"Download\(scorers\.parquet\)"):
        list(mlcroissant.Dataset(folder / "croissant.json").records("scorers"))


def read_prov(folder: Path) -> ProvDocument:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ProvDocument.deserialize(str(folder / "prov.json"))


def test_prov_reads_back_equal(run: Path, export: Callable[..., Path]) -> None:
    written = prov.document(Lineage(of_workspace()), False)
    assert read_prov(export("prov")) == written
    written.entity("banana100:one-more")
    assert read_prov(export("prov", "again")) != written


def test_prov_leads_from_the_last_image_to_the_photograph_and_its_licence(
    run: Path, export: Callable[..., Path]
) -> None:
    edges = json.loads((export("prov") / "prov.json").read_text())
    parents = {edge["prov:generatedEntity"]: edge["prov:usedEntity"] for edge in edges["wasDerivedFrom"].values()}
    image = next(row for row in in_table("images") if row["step"] == 2 and row["seed"] == HOSTILE)
    node = next(name for name, entity in edges["entity"].items() if entity.get("prov:location") == image["path"])
    way = [node]
    while way[-1] in parents:
        way.append(parents[way[-1]])
    assert len(way) == 5  # steps 2, 1 and 0, the seed, the photograph
    assert edges["entity"][way[0]]["banana100:sha256"] == image["image_id"]
    assert "無断転載" in edges["entity"][way[-1]]["banana100:licence"]
    activity = next(edge["prov:activity"] for edge in edges["wasGeneratedBy"].values() if edge["prov:entity"] == node)
    assert activity == f"request:{image['request_id']}"
    assert edges["activity"][activity]["banana100:prompt"].startswith("Produce an exact replica")
    used = [edge["prov:entity"] for edge in edges["used"].values() if edge["prov:activity"] == activity]
    assert used == [way[1]]


def test_prov_has_an_entity_an_image_and_table_but_none_a_score(run: Path, export: Callable[..., Path]) -> None:
    found = read_prov(export("prov"))
    images, seeds_and_photographs, tables_and_collection = len(in_table("images")), 4, TABLE_FILES + 1
    assert len(list(found.get_records(ProvEntity))) == images + seeds_and_photographs + tables_and_collection
    scorings, stages = len(in_table("scorers")), 3
    answers = sum(len(in_table(name)) for name in ("requests", "refusals", "seed_requests"))
    assert len(list(found.get_records(ProvActivity))) == answers + scorings + stages
    assert {agent.label for agent in found.get_records(ProvAgent)} == {"banana100", "simulated/rot-1", "m-1", "m"}


def test_prov_tells_refusals_a_generated_seed_and_a_conversation(own_run: Path, export: Callable[..., Path]) -> None:
    image = next(row for row in in_table("images") if row["step"] == 2 and row["seed"] == HOSTILE)
    parent = next(row for row in in_table("images") if row["image_id"] == image["parent_id"])
    last = image["request_id"]
    change(
        paths.REQUESTS_TABLE, tables.REQUESTS, lambda row: row["request_id"] == last, previous_id=parent["request_id"]
    )
    found = json.loads((export("prov") / "prov.json").read_text())
    [informed] = found["wasInformedBy"].values()
    assert informed == {
        "prov:informed": f"request:{last}",
        "prov:informant": f"request:{parent['request_id']}",
    }
    refusals = {name: facts for name, facts in found["activity"].items() if name.startswith("refusal:")}
    assert next(facts["banana100:finish_reason"] for facts in refusals.values()) == "IMAGE_SAFETY"
    generated = {edge["prov:entity"]: edge["prov:activity"] for edge in found["wasGeneratedBy"].values()}
    assert not refusals.keys() & set(generated.values())
    used = {edge["prov:activity"] for edge in found["used"].values()}
    assert refusals.keys() <= used
    assert [name for name, activity in generated.items() if activity == f"seed_request:{'5e' * 32}"]


def test_prov_names_the_commit_and_what_dvc_lock_records(own_run: Path, export: Callable[..., Path]) -> None:
    revision = commit()
    stage = {"cmd": "python -m banana100 score", "outs": [{"path": "data/scores", "md5": "0"}]}
    paths.LOCK.write_text(yaml.safe_dump({"stages": {"score": stage}}))
    found = json.loads((export("prov") / "prov.json").read_text())
    assert found["agent"]["banana100:software"]["banana100:git_revision"] == revision
    assert found["activity"]["stage:score"]["banana100:stage_hash"] == identity(stage)
    assert "banana100:stage_hash" not in found["activity"]["stage:replicate"]


def test_data_package_is_valid_and_gives_every_cell_back(run: Path, export: Callable[..., Path]) -> None:
    folder = export("datapackage")
    report = frictionless.validate(str(folder / "datapackage.json"))
    assert report.valid, report.flatten(["type", "note"])
    package = frictionless.Package(str(folder / "datapackage.json"))
    for name in SCHEMAS:
        members = [one for one in package.resources if one.name == name or one.name.startswith(f"{name}-")]
        found = [row.to_dict() for member in members for row in member.read_rows()]
        assert in_order(found) == in_table(name), name
        for row, expected in zip(in_order(found), in_table(name), strict=True):
            assert [type(cell) for cell in row.values()] == [type(cell) for cell in expected.values()]


def test_data_package_keeps_whole_numbers_that_floats_cannot_hold(own_run: Path, export: Callable[..., Path]) -> None:
    change(paths.REQUESTS_TABLE, tables.REQUESTS, lambda row: row["reasoning"] is not None, input_tokens=2**53 + 1)
    rows = frictionless.Package(str(export("datapackage") / "datapackage.json")).get_resource("requests").read_rows()
    assert {row["input_tokens"] for row in rows} == {2**53 + 1, None}


@pytest.mark.parametrize(
    ("table", "column"),
    [(table, column) for table, references in REFERENCES.items() for column in references],
)
def test_a_broken_foreign_key_makes_the_data_package_invalid(
    run: Path, export: Callable[..., Path], table: str, column: str
) -> None:
    folder = export("datapackage")
    file = folder / (paths.scores("niqe") if table == "scores" else _FILES[table]).with_suffix(".csv")
    rows = pd.read_csv(file, dtype=str, keep_default_na=False)
    rows.loc[rows.index[-1], column] = "0" * 64
    rows.to_csv(file, index=False)
    resource = f"{table}-niqe" if table == "scores" else table
    report = frictionless.validate(str(folder / "datapackage.json"), resource_name=resource)
    found = {kind for (kind,) in report.flatten(["type"])}
    assert found - {"hash-count", "byte-count"} == {"foreign-key"}


def test_ro_crate_reads_back_with_an_action_a_request(run: Path, export: Callable[..., Path]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crate = ROCrate(export("ro-crate"))
    actions = {action["identifier"]: action for action in crate.get_by_type("CreateAction") if action.get("identifier")}
    assert actions.keys() == {row["request_id"] for row in in_table("requests") + in_table("seed_requests")}
    failed = [one for one in crate.get_by_type("CreateAction") if one["actionStatus"].endswith("/FailedActionStatus")]
    assert [one["error"] for one in failed] == ['IMAGE_SAFETY: no, "夜"\r\n;', "no image"]
    assert all(one["object"][0]["localPath"] and "result" not in one for one in failed)
    made = actions["5e" * 32]
    assert (made["result"]["sha256"], made["instrument"]["name"]) == (in_table("seed_requests")[0]["image_id"], "m-1")
    image = next(row for row in in_table("images") if row["step"] == 2 and row["seed"] == HOSTILE)
    action = actions[image["request_id"]]
    [result], [parent, prompt, config] = action["result"], action["object"]
    assert (result["localPath"], result["sha256"]) == (image["path"], image["image_id"])
    assert parent["sha256"] == image["parent_id"]
    assert prompt["value"].startswith("Produce an exact replica") and json.loads(config["value"])["noise"] == 100
    assert action["instrument"]["name"] == "simulated/rot-1"
    start = crate.get_by_type("ImageObject")
    [copied] = [one for one in start if one["localPath"] == str(Path(image["path"]).with_name("000.png"))]
    assert "無断転載" in copied["isBasedOn"]["license"]["name"]
    first = next(row for row in in_table("requests") if row["asked_at"])
    assert actions[first["request_id"]]["startTime"] == ASKED["asked_at"]
    assert {action.id for action in crate.root_dataset["mentions"]} >= {action.id for action in actions.values()}


@pytest.mark.parametrize("with_images", [False, True])
def test_ro_crate_describes_all_it_names_and_only_files_that_are_there(
    run: Path, export: Callable[..., Path], with_images: bool
) -> None:
    folder = export("ro-crate", with_images=with_images)
    crate = ROCrate(folder)
    links = set()
    json.loads(
        (folder / "ro-crate-metadata.json").read_text(),
        object_hook=lambda node: links.add(node["@id"]) or node if set(node) == {"@id"} else node,
    )
    assert links - {entity.id for entity in crate.get_entities()} == {"https://w3id.org/ro/crate/1.2"}
    for file in crate.data_entities:
        assert sha256_of(Path(file.source).read_bytes()) == file["sha256"]
    images = len(in_table("images")) + len(in_table("seeds"))
    assert len(crate.data_entities) == TABLE_FILES + images * with_images
    replicating = [one for one in crate.get_by_type("CreateAction") if "result" in one and "seed" not in one["name"]]
    results = {image.id for action in replicating for image in as_list(action["result"])}
    assert (results <= {file.id for file in crate.data_entities}) == with_images
    assert crate.root_dataset["citation"]["identifier"] == "arXiv:2604.03400"
    assert {licence["name"] for licence in crate.root_dataset["license"]} >= {
        "Apache-2.0",
        "PolyForm-Noncommercial-1.0.0",
    }


def test_the_same_tables_give_the_same_bytes(run: Path, export: Callable[..., Path], tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from banana100 import params; from banana100.export import command\n"
        "for form in command.FORMS: command.run(params.load(), form, pathlib.Path(sys.argv[1]) / form, True)"
    )
    other = {**os.environ, "PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo"}
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "other")], env=other, check=True)
    for form in FORMS:
        assert files_below(export(form, with_images=True)) == files_below(tmp_path / "other" / form), form


@pytest.mark.parametrize("form", FORMS)
def test_images_are_copied_only_when_asked_for(run: Path, export: Callable[..., Path], form: str) -> None:
    images = {row["path"]: row["image_id"] for row in in_table("images") + in_table("seeds")}
    without, included = files_below(export(form)), export(form, "images", with_images=True)
    assert not images.keys() & without.keys()
    assert images.items() <= {path: sha256_of(content) for path, content in files_below(included).items()}.items()
    assert all((included / path).stat().st_nlink == 1 for path in images)
    if form != "datapackage":
        assert without[paths.IMAGES_TABLE.as_posix()] == paths.IMAGES_TABLE.read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_a_clone_without_images_can_be_exported(own_run: Path, export: Callable[..., Path], form: str) -> None:
    with_them = files_below(export(form))
    shutil.rmtree(paths.REPLICAS)
    for image in paths.SEEDS.glob("*.png"):
        image.unlink()
    assert files_below(export(form, "again")) == with_them


@pytest.mark.parametrize("form", FORMS)
def test_an_error_leaves_nothing_behind(own_run: Path, export: Callable[..., Path], tmp_path: Path, form: str) -> None:
    replica = Path(in_table("images")[0]["path"])
    content = replica.read_bytes()
    replica.write_bytes(content + b"x")
    with pytest.raises(UserError, match=r"not the image that the tables name; restore it with `dvc checkout`"):
        export(form, with_images=True)
    replica.unlink()
    with pytest.raises(UserError, match="no such image; fetch it with `dvc pull"):
        export(form, with_images=True)
    paths.scores("niqe").unlink()
    with pytest.raises(UserError, match=r"data/scores/niqe\.parquet: "):
        export(form)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_a_folder_in_use_is_refused_and_kept(run: Path, tmp_path: Path) -> None:
    used, file = tmp_path / "used", tmp_path / "file"
    used.mkdir()
    (used / "mine.txt").write_text("mine")
    file.write_text("mine")
    for target in (used, file):
        with pytest.raises(
            UserError, match=r"is there and not an empty folder; allowed: a new name or an empty folder"
        ):
            command.run(params.load(), "prov", target, False)
    assert files_below(tmp_path) == {"used/mine.txt": b"mine", "file": b"mine"}


def test_an_empty_folder_is_filled(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    command.run(params.load(), "prov", tmp_path / "empty", False)
    assert (tmp_path / "empty" / "prov.json").is_file()
    assert capsys.readouterr().out == f"prov: {tmp_path / 'empty' / 'prov.json'}, {TABLE_FILES} tables, no images\n"


@pytest.mark.parametrize(("form", "library"), [(form, LIBRARIES[form]) for form in command.FORMS])
def test_a_missing_library_is_named(
    run: Path, export: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, form: str, library: str
) -> None:
    monkeypatch.delitem(sys.modules, f"banana100.export.{command.FORMS[form]}")
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        UserError, match=rf"{library}.* is not installed; get it with `pip install 'banana100\[export\]'`"
    ):
        export(form)


@pytest.mark.parametrize("form", FORMS)
def test_simulated_is_said_only_of_what_is_simulated(own_run: Path, export: Callable[..., Path], form: str) -> None:
    document = {"croissant": croissant, "prov": prov, "datapackage": datapackage, "ro-crate": ro_crate}[form].DOCUMENT
    said = "no image model was asked"
    assert said in (export(form) / document).read_text()
    change(paths.REQUESTS_TABLE, tables.REQUESTS, lambda _: True, backend="gemini", model="x", model_answered="x-1")
    text = (export(form, "other") / document).read_text()
    assert said not in text and "x-1" in text
    change(paths.REQUESTS_TABLE, tables.REQUESTS, lambda row: row["step"] == 1, model_answered="simulated/x-1")
    text = (export(form, "loopback") / document).read_text()
    assert said in text and "The replicas of models called `simulated/" in text


@pytest.mark.parametrize("form", FORMS)
def test_tables_of_paid_generators_may_be_empty(own_run: Path, export: Callable[..., Path], form: str) -> None:
    for name in ("seed_requests", "refusals", "parked"):
        tables.write(_FILES[name], SCHEMAS[name], [])
    change(paths.REQUESTS_TABLE, tables.REQUESTS, lambda _: True, **dict.fromkeys([*ASKED, "model_answered"]))
    folder = export(form)
    if form == "croissant":
        dataset = mlcroissant.Dataset(folder / "croissant.json")
        assert not dataset.metadata.ctx.issues.errors
        for name in SCHEMAS:
            assert len(list(dataset.records(name))) == len(in_table(name)), name
    elif form == "datapackage":
        report = frictionless.validate(str(folder / "datapackage.json"))
        assert report.valid, report.flatten(["type", "note"])
    elif form == "prov":
        assert read_prov(folder) == prov.document(Lineage(of_workspace()), False)
    else:
        assert ROCrate(folder).root_dataset["name"]


@pytest.fixture
def in_california(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/Los_Angeles")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_california")
def test_date_and_version_are_those_of_the_commit(own_run: Path, export: Callable[..., Path]) -> None:
    revision = commit(GIT_COMMITTER_DATE="2026-05-01T23:30:00-05:00", GIT_AUTHOR_DATE="2026-01-01T00:00:00Z")
    document = json.loads((export("croissant") / "croissant.json").read_text())
    assert document["datePublished"] == "2026-05-02"
    assert document["version"].endswith(f"+{revision[:12]}")
    paths.PARAMS.write_text(paths.PARAMS.read_text() + "# changed\n")
    document = json.loads((export("croissant", "changed") / "croissant.json").read_text())
    assert document["version"].endswith(f"+{revision[:12]}.modified")


def test_a_parent_that_is_not_the_step_before_is_refused(own_run: Path, export: Callable[..., Path]) -> None:
    change(paths.IMAGES_TABLE, tables.IMAGES, lambda row: row["step"] == 2, parent_id="0" * 64)
    for form in ("prov", "ro-crate"):
        with pytest.raises(UserError, match=r"is not the step before it"):
            export(form)
