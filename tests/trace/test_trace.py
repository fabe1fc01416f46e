"""Trace: from any image, score or verdict the whole way back, and params that make it again."""

import copy
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from banana100 import cli, paths, snapshot
from banana100.lineage import tables

Trace = Callable[..., Any]


@pytest.fixture
def ask(small_clone: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Trace:
    """Ask in the small clone; gives what is printed, parsed with --json."""
    monkeypatch.chdir(small_clone.folder)

    def run(*words: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert cli.main(["trace", *words]) == code
        told = capsys.readouterr()
        return told.err if code else json.loads(told.out) if "--json" in words else told.out

    return run


def images_table() -> pd.DataFrame:
    return pd.read_parquet(paths.IMAGES_TABLE)


def test_the_way_leads_from_a_score_over_every_parent_to_source_and_licence(ask: Trace) -> None:
    path = paths.replica("simulated-replica", "rocket", 2, 7, "png").as_posix()
    way = ask(f"niqe:{path}", "--json")["ways"][0]
    images = images_table().set_index("path")
    assert [row["step"] for row in way["chain"]] == list(range(7, -1, -1))
    for row, parent in zip(way["chain"], way["chain"][1:], strict=False):
        assert row["parent_id"] == parent["image_id"] == row["request"]["parent_id"]
        assert row["request"]["image_id"] == row["image_id"] == images.loc[row["path"], "image_id"]
    assert way["chain"][-1]["request"] is None and way["chain"][-1]["image_id"] == way["seed"]["image_id"]
    assert way["seed"]["licence"] == "public domain (SpaceX)" and way["seed"]["origin"].startswith("scikit-image")
    assert way["scorer"]["pyiqa"] == "0.1.16" and len(way["scorer"]["parameters_sha256"]) == 64
    lock = yaml.safe_load(Path("dvc.lock").read_text())["stages"]
    for node, stage in ((way["score"], "score"), (way, "replicate"), (way["seed"], "select_seeds")):
        given = node["decided_by"]
        assert given["stage"] == stage and re.fullmatch(r"[0-9a-f]{64}", given["stage_hash"])
        assert given["output_md5"] in {out["md5"] for out in lock[stage]["outs"]}
    told = ask(f"niqe:{path}")
    for word in (
        "simulated, no model's answer",
        "Produce an exact replica",
        "licence   public domain (SpaceX)",
        "seeds.count = 2",
    ):
        assert word in told
    assert told.count("\nparent") == 7


def test_an_image_is_known_by_every_name_it_has(ask: Trace, small_clone: Any) -> None:
    path = paths.replica("simulated-replica", "rocket", 1, 5, "png")
    chain = ask(str(path), "--json")["ways"][0]["chain"]
    image_id, request_id = chain[0]["image_id"], chain[0]["request_id"]
    preview = paths.preview("simulated-replica", "rocket", 1, 5)
    for name in (
        f"./{path}",
        str(small_clone.folder / path),
        image_id,
        image_id[:16].upper(),
        request_id[:16],
        str(preview),
    ):
        assert ask(name, "--json")["ways"][0]["chain"] == chain, name
    seed = ask(str(paths.seed_image("rocket")), "--json")["ways"]
    assert [way["seed"]["seed"] for way in seed] == ["rocket"]
    assert ask(seed[0]["seed"]["image_id"], "--json")["ways"] == seed
    scorer = ask(f"niqe:{path}", "--json")["ways"][0]["scorer"]
    assert ask(scorer["scorer_id"][:12], "--json")["ways"][0]["scorer"].items() >= scorer.items()


def test_a_cell_of_the_ranking_leads_to_the_chains_that_failed_and_their_images(ask: Trace) -> None:
    chains = pd.read_csv(paths.CHAINS_TABLE)
    failing = chains[(chains["metric"] == "entropy") & (chains["passes"].astype(str) == "False")]
    assert len(failing)
    cell = ask("ranking:entropy.failures", "--json")["ways"][0]
    assert cell["value"] == len(failing) == len(cell["chains"]) and cell["decided_by"]["stage"] == "rank"
    assert {(c["seed"], c["repeat"]) for c in cell["chains"]} == set(
        zip(failing["seed"], failing["repeat"], strict=True)
    )
    scores = pd.read_parquet(paths.scores("entropy")).set_index("image_id")["score"]
    for chain in cell["chains"]:
        assert [image["step"] for image in chain["images"]] == [1, 5, 10, 20]
        assert all(image["score"] == scores[image["image_id"]] for image in chain["images"])
    told = ask("ranking:entropy.failures")
    assert f"entropy:{cell['chains'][0]['images'][0]['path']}" in told
    assert "ranking:summary.chains = 4" in ask("ranking:summary.chains")


def test_any_other_output_leads_to_its_stage_and_all_before_it(ask: Trace) -> None:
    way = ask("metrics/tables/ranks.csv", "--json")["ways"][0]
    assert {given["stage"] for given in way["decided_by"]} == {"rank", "score", "replicate", "select_seeds"}


def test_a_graph_is_valid_dot(ask: Trace) -> None:
    import pydot

    path = paths.replica("simulated-replica", "rocket", 1, 3, "png")
    graph = pydot.graph_from_dot_data(ask(f"niqe:{path}", "--dot"))[0]
    nodes = [node for node in graph.get_nodes() if node.get_name().startswith('"')]
    assert len(nodes) == 7 and len(graph.get_edges()) == 6  # score, four images, seed, source


def test_another_revision_is_asked_without_touching_the_working_tree(
    ask: Trace, small_clone: Any, tmp_path: Path
) -> None:
    path = paths.replica("simulated-replica", "rocket", 1, 3, "png").as_posix()
    small_clone("dvc", "exp", "run", "-q", "-n", "early", "-S", "ranking.probe_steps=[5,20]")
    small_clone("git", "checkout", "-q", ".")
    small_clone("dvc", "checkout", "-q")
    cell, params = "ranking:niqe.chains", Path("params.yaml").read_text()
    now, early = ask(cell, "--json"), ask(cell, "--revision", "early", "--json")
    assert early["git"]["revision"] != now["git"]["revision"] and Path("params.yaml").read_text() == params
    for told, steps in ((now, [1, 5, 10, 20]), (early, [1, 5, 20])):  # the table of chains comes from DVC's cache
        assert [image["step"] for image in told["ways"][0]["chains"][0]["images"]] == steps
    assert ask(path, "--revision", "early", "--json")["ways"] == ask(path, "--json")["ways"]
    assert "unknown Git revision 'nope'" in ask(path, "--revision", "nope", code=2)


def test_tables_suffice_where_the_images_are_not(
    small_clone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(only_tables(small_clone.folder, tmp_path / "only-tables"))
    path = paths.replica("simulated-replica", "rocket", 1, 3, "png").as_posix()
    assert cli.main(["trace", f"niqe:{path}"]) == 0
    told = capsys.readouterr().out
    assert "git none" in told and told.count("\nparent") == 3


def only_tables(clone: Path, folder: Path) -> Path:
    """A copy of all that trace reads."""
    for part in ("params.yaml", "dvc.yaml", "dvc.lock", "data/lineage", "data/scores", "data/seeds/seeds.parquet"):
        source, target = clone / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)
    return folder


def rewrite(path: Path, schema: Any, change: Callable[[list[dict[str, Any]]], Any]) -> Any:
    rows = tables.records(tables.read(path, schema)) if path.exists() else []
    told = change(rows)
    tables.write(path, schema, rows)
    return told


def refusal(row: dict[str, Any], number: int, reason: str) -> dict[str, Any]:
    told = {"number": number, "finish_reason": reason, "detail": "no image", "cost_usd": 0.02}
    return {name: row.get(name) for name in tables.REFUSALS.names} | told


@pytest.fixture
def paid(small_clone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small clone's tables as if a paid generator had been asked, as the current directory.

    The answer to step 7 of rocket 2 goes on with a conversation and came after two refusals; step 8 was refused for
    good, which parked the chain; the seed rocket was made from a text.
    """
    monkeypatch.chdir(only_tables(small_clone.folder, tmp_path / "paid"))
    last = {"seed": "rocket", "repeat": 2}

    def cut(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
        chain = sorted((row for row in images if row.items() >= last.items()), key=lambda row: row["step"])
        images[:] = [row for row in images if row not in chain[8:]]
        return chain

    chain = rewrite(paths.IMAGES_TABLE, tables.IMAGES, cut)

    def ask(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows = {row["request_id"]: row for row in requests}
        seventh, eighth = (rows[chain[step]["request_id"]] for step in (7, 8))
        paid = {"backend": "gemini", "model": "m", "model_answered": "m-1", "cost_usd": 0.134}
        seventh |= paid | {"previous_id": chain[6]["request_id"]}
        requests.remove(eighth)
        return [seventh, eighth | paid]

    seventh, eighth = rewrite(paths.REQUESTS_TABLE, tables.REQUESTS, ask)
    refusals = [refusal(seventh, 1, "NO_IMAGE"), refusal(seventh, 2, "IMAGE_SAFETY"), refusal(eighth, 1, "RECITATION")]
    rewrite(paths.REFUSALS_TABLE, tables.REFUSALS, lambda rows: rows.extend(refusals))
    parked = {name: chain[8][name] for name in ("campaign", "seed", "repeat", "step", "request_id")}
    parked |= {"cause": "refused", "reason": "RECITATION: no image", "attempts": 3}
    rewrite(paths.PARKED_TABLE, tables.PARKED, lambda rows: rows.append(parked))

    def generate(seeds: list[dict[str, Any]]) -> dict[str, Any]:
        seed = next(row for row in seeds if row["seed"] == "rocket")
        seed |= {"source": "gemini", "origin": "m, request 5e"}
        return seed

    seed = rewrite(paths.SEED_TABLE, tables.SEEDS, generate)
    made = seventh | {"request_id": "5e" * 32, "prompt": "A rocket.", "parent_id": None, "previous_id": None, "step": 0}
    made |= {"repeat": 1, "image_id": seed["source_sha256"], "cost_usd": 0.24, "model_answered": "simulated/m"}
    rewrite(paths.SEED_REQUESTS_TABLE, tables.REQUESTS, lambda rows: rows.append(made))
    return Path.cwd()


@pytest.fixture
def ask_paid(paid: Path, capsys: pytest.CaptureFixture[str]) -> Trace:
    def run(*words: str, code: int = 0) -> Any:
        assert cli.main(["trace", *words]) == code
        told = capsys.readouterr()
        return told.err if code else json.loads(told.out) if "--json" in words else told.out

    return run


def test_an_image_shows_the_refusals_before_it_its_conversation_and_what_all_cost(ask_paid: Trace) -> None:
    path = paths.replica("simulated-replica", "rocket", 2, 7, "png").as_posix()
    way = ask_paid(path, "--json")["ways"][0]
    request = way["chain"][0]["request"]
    assert [(row["number"], row["finish_reason"]) for row in request["refusals"]] == [
        (1, "NO_IMAGE"),
        (2, "IMAGE_SAFETY"),
    ]
    assert request["previous_id"] == way["chain"][1]["request_id"] and way["cost_usd"] == 0.174
    told = ask_paid(path)
    for line in (
        "refused 2 times: NO_IMAGE 1, IMAGE_SAFETY 1; $0.040",
        f"goes on with the conversation of request {request['previous_id']}",
        "          gemini m, answered by m-1",
        "cost      $0.174 for all answers and refusals above",
    ):
        assert line in told, told
    other = ask_paid(paths.replica("simulated-replica", "rocket", 1, 7, "png").as_posix())
    assert "simulated, no model's answer" in other and "refused" not in other and "\ncost" not in other


def test_a_generated_seed_shows_its_request(ask_paid: Trace) -> None:
    seed = paths.seed_image("rocket").as_posix()
    for name in (seed, "5e5e5e", f"{paths.GENERATED_SEEDS}/rocket.jpg"):
        [way] = ask_paid(name, "--json")["ways"]
        asked = way["seed"]["request"]
        assert (asked["request_id"], asked["prompt"], asked["cost_usd"]) == ("5e" * 32, "A rocket.", 0.24), name
    told = ask_paid(seed)
    assert f"request   {'5e' * 32}" in told and "prompt  A rocket." in told and "cost_usd 0.24" in told
    assert "simulated, no model's answer: gemini m, answered by simulated/m" in told  # its server was simulated
    other = next(row for row in pd.read_parquet(paths.SEED_TABLE)["path"].dropna() if row != seed)
    assert ask_paid(other, "--json")["ways"][0]["seed"]["request"] is None


def test_a_step_that_a_parked_chain_never_reached_tells_where_and_why_it_ended(ask_paid: Trace) -> None:
    path = paths.replica("simulated-replica", "rocket", 2, 12, "png").as_posix()
    parked = pd.read_parquet(paths.PARKED_TABLE).iloc[0]
    preview = paths.preview("simulated-replica", "rocket", 2, 20).as_posix()
    for name in (path, preview, parked["request_id"][:12]):
        [way] = ask_paid(name, "--json")["ways"]
        assert (way["parked"]["step"], way["parked"]["cause"], way["parked"]["attempts"]) == (8, "refused", 3)
        assert [row["finish_reason"] for row in way["parked"]["refusals"]] == ["RECITATION"]
        assert [row["step"] for row in way["chain"]] == list(range(7, -1, -1)) and way["cost_usd"] == 0.194
    told = ask_paid(path)
    for line in (
        "parked    at step 8 of simulated-replica, seed rocket, repeat 2: there is no image from there on",
        "refused, asked 3 times in the last run: RECITATION: no image",
        "refused 1 times: RECITATION 1; $0.020",
        f"image     {way['chain'][0]['image_id']}",
    ):
        assert line in told, told
    assert "parked at step 8" in ask_paid(path, "--dot")
    assert "is parked at step 8 (refused: RECITATION: no image)" in ask_paid(f"niqe:{path}", code=2)
    assert "parked" not in ask_paid(paths.replica("simulated-replica", "rocket", 2, 3, "png").as_posix())


def test_a_commit_from_before_paid_generators_is_asked_all_the_same(
    small_clone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has neither their tables nor the column of conversations."""
    clone = copy.copy(small_clone)
    clone.folder = shutil.copytree(small_clone.folder, tmp_path / "clone", symlinks=True)
    monkeypatch.chdir(clone.folder)
    for path in (paths.REFUSALS_TABLE, paths.PARKED_TABLE, paths.SEED_REQUESTS_TABLE):
        path.unlink()
    before = tables.REQUESTS.remove(tables.REQUESTS.get_field_index("previous_id"))
    tables.write(paths.REQUESTS_TABLE, before, tables.read(paths.REQUESTS_TABLE, tables.REQUESTS)[before.names])
    clone("dvc", "commit", "-q", "-f", "select_seeds", "replicate", "score", "rank")  # report reads what is gone
    clone("git", "commit", "-qam", "before")
    path = paths.replica("simulated-replica", "rocket", 2, 7, "png").as_posix()
    assert cli.main(["trace", path]) == 2  # in the working tree they are missing
    assert "refusals.parquet" in capsys.readouterr().err
    for words in ([path], [path.replace("007", "099")], ["data/seeds/rocket.png"], ["eeee"]):
        code = cli.main(["trace", *words, "--revision", "HEAD", "--json"])
        told = capsys.readouterr()
        assert code == (2 if words == ["eeee"] else 0), told
    assert "has a sha256 that begins so" in told.err
    assert cli.main(["trace", path, "--revision", "HEAD", "--json"]) == 0
    [way] = json.loads(capsys.readouterr().out)["ways"]
    assert len(way["chain"]) == 8 and way["chain"][0]["request"]["previous_id"] is None
    shutil.rmtree(".dvc/cache")
    assert cli.main(["trace", path, "--revision", "HEAD"]) == 2  # not to be told is not the same as not to be there
    assert "neither in git, nor in DVC's cache" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["1:1", "on", 1e-05, "1e-05", "0x1F", "12", 12, True, "true", 0.5, None, "~", "2026"])
def test_params_are_read_back_from_dvc_lock_as_dvc_wrote_them(project: Path, value: Any) -> None:
    """DVC writes YAML 1.2, where more texts need no quotes than in PyYAML's 1.1."""
    from dvc.utils.serialize import dump_yaml

    dump_yaml("dvc.lock", {"stages": {"rank": {"params": {"params.yaml": {"key": value}}}}})
    assert snapshot.of_workspace().lock["rank"]["params"]["params.yaml"] == {"key": value}


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("nothing", "nothing: nothing of that name"),
        ("", ": nothing of that name"),
        ("ffffffffffffffff", "no image, request or scorer has a sha256 that begins so"),
        ("niqe:nowhere.png", "nowhere.png: no image of that name"),
        ("musiq:data/replicas/simulated-replica/rocket/r1/003.png", "data/scores/musiq.parquet: not there"),
        ("ranking:musiq.tau", "'musiq' is not in metrics/ranking.json; allowed: brisque, entropy"),
        ("ranking:niqe.nope", "'nope' is no column; allowed: consistent"),
        ("ranking:niqe", "is not in metrics/ranking.json"),
    ],
)
def test_a_name_of_nothing_costs_one_sentence(ask: Trace, what: str, sentence: str) -> None:
    told = ask(what, code=2)
    assert sentence in told and told.count("\n") == 1


def test_digits_of_several_hashes_are_refused_with_the_list(ask: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    from banana100.snapshot import Snapshot

    images = images_table()
    images["image_id"] = "abcd" + images["image_id"].str[4:]
    monkeypatch.setattr(Snapshot, "images", images)
    told = ask("abcd", code=2)
    assert "abcd: 82 hashes begin so" in told and "data/replicas" in told and "and 62 more" in told
