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
from banana100.files import sha256_of
from banana100.trace.subjects import ways_of

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


def test_params_that_trace_names_make_the_same_images_and_scores_in_another_clone(
    tiny_clone: Any,
    new_clone: Callable[[str], Any],
    default_params: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    put_back: Callable[[dict[str, Any], dict[str, Any]], None],
) -> None:
    """Put into the params.yaml of a new clone, in which all else is something else, they give equal bytes."""
    monkeypatch.chdir(tiny_clone.folder)
    state = snapshot.of_workspace()
    images = {path: ways_of(state, path)[0] for path in state.images["path"]}
    scores = {
        (metric, path): ways_of(state, f"{metric}:{path}")[0]
        for path in images
        for metric in ("entropy", "niqe", "psnr")
        if metric != "psnr" or not path.endswith("/000.png")
    }
    other = copy.deepcopy(default_params)
    other["seeds"] |= {"size": 200, "count": 5}
    other["campaigns"]["simulated-replica"] |= {"repeats": 1, "steps": 2, "config": {"noise": 1, "green": 2}}
    other["scoring"] |= {"metrics": ["piqe"], "drift": [], "precision": "tf32"}
    other["ranking"] |= {"metrics": ["niqe"], "min_drift": {}}
    for way in [*images.values(), *scores.values()]:
        put_back(other, way)
    clone = new_clone("put-back")
    clone.set_params(other)
    clone("dvc", "repro", "-q", "score")
    monkeypatch.chdir(clone.folder)
    for path, way in images.items():
        assert sha256_of(Path(path).read_bytes()) == way["chain"][0]["image_id"], path
    again = snapshot.of_workspace()
    for (metric, path), way in scores.items():
        found = ways_of(again, f"{metric}:{path}")[0]
        assert (found["score"]["score"], found["scorer"]) == (way["score"]["score"], way["scorer"]), (metric, path)


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
    for part in ("params.yaml", "dvc.yaml", "dvc.lock", "data/lineage", "data/scores", "data/seeds/seeds.parquet"):
        source, target = small_clone.folder / part, tmp_path / "only-tables" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)
    monkeypatch.chdir(tmp_path / "only-tables")
    path = paths.replica("simulated-replica", "rocket", 1, 3, "png").as_posix()
    assert cli.main(["trace", f"niqe:{path}"]) == 0
    told = capsys.readouterr().out
    assert "git none" in told and told.count("\nparent") == 3


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
