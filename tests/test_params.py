"""Every mistake in params.yaml costs one sentence that names key, value and what is allowed."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from banana100 import params
from banana100.cli import STAGES, main
from banana100.errors import UserError
from helpers.clones import ROOT

CAMPAIGN = "campaigns.simulated-replica"

# (key, value, what the sentence must hold)
MISTAKES = [
    ("ranking.metrics", "niqe", ["ranking.metrics", '"niqe"', "list of metrics"]),
    ("ranking.metrics", [], ["ranking.metrics", "[]", "non-empty list"]),
    ("ranking.metrics", ["niqe", "nope"], ["ranking.metrics", '"nope"', "brisque, entropy, niqe, piqe"]),
    ("ranking.metrics", ["niqe", "niqe"], ["ranking.metrics", "once"]),
    ("scoring.metrics", ["musiqq"], ["scoring.metrics", '"musiqq"', "niqe"]),
    ("active", ["nope"], ["active", '"nope"', "simulated-replica"]),
    ("active", [], ["active", "[]", "non-empty list"]),
    ("active", "simulated-replica", ["active", '"simulated-replica"', "list"]),
    (f"{CAMPAIGN}.steps", 0, [f"{CAMPAIGN}.steps", "is 0", "from 1 to 999"]),
    (f"{CAMPAIGN}.steps", "20", [f"{CAMPAIGN}.steps", '"20"', "whole number"]),
    (f"{CAMPAIGN}.steps", True, [f"{CAMPAIGN}.steps", "true", "whole number"]),
    (f"{CAMPAIGN}.steps", 2.5, [f"{CAMPAIGN}.steps", "2.5", "whole number"]),
    (f"{CAMPAIGN}.stepz", 3, [f"{CAMPAIGN}.stepz", "not a known key", "steps"]),
    (f"{CAMPAIGN}.repeats", -1, [f"{CAMPAIGN}.repeats", "-1", "from 1 to 999"]),
    (f"{CAMPAIGN}.backend", "magic", [f"{CAMPAIGN}.backend", '"magic"', "simulated"]),
    (f"{CAMPAIGN}.prompts", [], [f"{CAMPAIGN}.prompts", "[]", "non-empty list"]),
    (f"{CAMPAIGN}.prompts", [""], [f"{CAMPAIGN}.prompts.0", '""', "non-empty list of texts"]),
    (f"{CAMPAIGN}.config.noise", 1.5, [f"{CAMPAIGN}.config.noise", "1.5", "0 to 400"]),
    (f"{CAMPAIGN}.config.blue", 1, [f"{CAMPAIGN}.config.blue", "not a known key", "noise, green"]),
    (f"{CAMPAIGN}.seeds", "some", [f"{CAMPAIGN}.seeds", '"some"', "all, or"]),
    (f"{CAMPAIGN}.seeds", [], [f"{CAMPAIGN}.seeds", "[]"]),
    ("campaigns.a/b", None, ["campaigns.a/b", "null", "keys backend"]),
    ("campaigns.\n", None, ["campaigns.\\n", "null", "keys backend"]),
    ("metric_sets.\u2028", [], ["metric_sets.\\u2028", "[]", "non-empty lists"]),
    ("seeds.size", 32, ["seeds.size", "32", "96 to 4096"]),
    ("seeds.sources", [], ["seeds.sources", "[]", "non-empty list"]),
    ("seeds.sources.0.names", ["mona_lisa"], ["seeds.sources.0.names", '"mona_lisa"', "astronaut"]),
    ("seeds.sources.0.kind", "web", ["seeds.sources.0.kind", '"web"', "bundled, directory or gemini"]),
    ("seeds.sources.0", {"kind": "directory", "path": "/etc", "licence": "x"}, [".path", "/etc", "data/own_seeds"]),
    (
        "seeds.sources.0",
        {"kind": "directory", "path": "data/own_seeds/../..", "licence": "x"},
        [".path", "data/own_seeds"],
    ),
    ("seeds.sources.0", {"kind": "directory", "path": "data/own_seeds"}, ["seeds.sources.0.licence", "missing"]),
    ("seeds.sources.0.licence", "mine", ["seeds.sources.0.licence", '"mine"', "bundled"]),
    ("seeds", None, ["seeds", "null", "size, count, sources"]),
    (
        "seeds.sources.0",
        {"kind": "directory", "path": "data/own_seeds", "licence": "\ud800"},
        ["seeds.sources.0.licence", "not printable"],
    ),
    (f"{CAMPAIGN}.prompts", ["\ud800"], [f"{CAMPAIGN}.prompts.0"]),
    ("sedes", {}, ["sedes", "not a known key", "seeds"]),
    ("ranking.probe_steps", [1, 5], ["ranking.probe_steps", "[1, 5]", "above ranking.baseline_step, which is 1"]),
    ("ranking.probe_steps", ["5"], ["ranking.probe_steps.0", '"5"', "whole numbers"]),
    ("ranking.spread", "mad", ["ranking.spread", '"mad"', "std, iqr or range"]),
    ("ranking.min_drift", {"lpips": 0.2}, ["ranking.min_drift.lpips", "0.2", "scoring.drift holds"]),
    ("ranking.min_drift", {"psnr": float("nan")}, ["ranking.min_drift.psnr", "NaN", "number"]),
    ("ranking.min_drift", {"psnr": "30"}, ["ranking.min_drift.psnr", '"30"', "number"]),
    ("ranking.min_drift", 30, ["ranking.min_drift", "30", "{} leaves no chain out"]),
    ("ranking.bootstrap", 99, ["ranking.bootstrap", "99", "from 100 to 100000"]),
    ("ranking.random_state", -1, ["ranking.random_state", "-1", "0 to 4294967295"]),
    ("previews.steps", [0, 0], ["previews.steps", "once"]),
    ("previews.steps", [-1], ["previews.steps.0", "-1", "at least 0"]),
]


def changed(content: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    content = copy.deepcopy(content)
    *parents, last = key.split(".")
    block: Any = content
    for part in parents:
        block = block[int(part) if isinstance(block, list) else part]
    block[int(last) if isinstance(block, list) else last] = value
    return content


def test_the_default_params_are_accepted(default_params: dict[str, Any]) -> None:
    assert list(params.check(default_params).active_campaigns()) == ["simulated-replica"]


@pytest.mark.parametrize(("key", "value", "parts"), MISTAKES, ids=[f"{key}={value}" for key, value, _ in MISTAKES])
def test_a_mistake_is_told_in_one_sentence(
    default_params: dict[str, Any], key: str, value: Any, parts: list[str]
) -> None:
    with pytest.raises(UserError) as caught:
        params.check(changed(default_params, key, value))
    sentence = str(caught.value)
    assert sentence.startswith("params.yaml: ") and sentence.endswith(".") and "\n" not in sentence
    assert "allowed: " in sentence
    for part in parts:
        assert part in sentence


@pytest.mark.parametrize("key", ["active", "seeds.count", f"{CAMPAIGN}.steps", f"{CAMPAIGN}.config", "ranking.metrics"])
def test_a_missing_key_is_named(default_params: dict[str, Any], key: str) -> None:
    content = copy.deepcopy(default_params)
    *parents, last = key.split(".")
    block = content
    for part in parents:
        block = block[part]
    del block[last]
    with pytest.raises(UserError, match=rf"params\.yaml: {key} is missing; allowed: "):
        params.check(content)


@pytest.mark.parametrize("key", [1, None, True, 1.5, ("a", "b")])
@pytest.mark.parametrize("block", [[], ["ranking"], ["campaigns"], ["campaigns", "simulated-replica", "config"]])
def test_a_key_that_is_no_text_is_named(default_params: dict[str, Any], block: list[str], key: Any) -> None:
    content = holder = copy.deepcopy(default_params)
    for part in block:
        holder = holder[part]
    holder[key] = 3
    with pytest.raises(
        UserError, match=rf"params\.yaml: .*{re.escape('1' if key is True else str(key))} is .*; allowed: "
    ):
        params.check(content)


@pytest.mark.parametrize("content", [None, [], "text", 3])
def test_a_file_that_is_no_mapping_is_refused(content: Any) -> None:
    with pytest.raises(UserError, match=r"the file is .*; allowed: a block with the keys active, seeds"):
        params.check(content)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text() | st.just("active") | st.integers() | st.none(), inner)
        ),
    ),
    st.sampled_from(["active", "seeds", "campaigns", "ranking", f"{CAMPAIGN}.config", "seeds.sources", "previews"]),
)
def test_whatever_stands_in_the_file_gives_params_or_one_sentence(content: Any, key: str) -> None:
    default = yaml.safe_load((ROOT / "params.yaml").read_text())
    try:
        params.check(changed(default, key, content))
    except UserError as error:
        assert str(error).isprintable()


@given(st.text())
def test_a_name_is_always_one_folder(name: str) -> None:
    if params.is_name(name):
        assert Path("x", name).parent == Path("x")
        assert Path("x", name).name == name


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ranking: [", "params.yaml: not YAML at line"),
        ("active: [nope]", "is missing"),
        (None, "no such file"),
        (b"\xff\xfe\x00", "not UTF-8"),
        ("active: 2001-99-99", "seeds is missing"),
        ("active: !!int abc", "not YAML"),
        ("active: !!timestamp x", "not YAML"),
        ("[" * 3000, "not YAML"),
        ("active: &a [*a]", "allowed: "),
    ],
)
def test_every_stage_checks_params_first_and_touches_nothing(
    stage: str, text: str | bytes | None, sentence: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project / "params.yaml"
    file.unlink()
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = sorted(project.rglob("*"))
    assert main([stage]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"banana100 {stage}: params.yaml: ") and sentence in message
    assert message.count("\n") == 1
    assert sorted(project.rglob("*")) == before


def test_prompts_are_walked_and_start_again(default_params: dict[str, Any]) -> None:
    content = changed(default_params, f"{CAMPAIGN}.prompts", ["a", "b"])
    campaign = params.check(content).campaigns["simulated-replica"]
    assert [campaign.prompt(step) for step in (1, 2, 3)] == ["a", "b", "a"]


def test_a_relative_store_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from banana100 import paths

    monkeypatch.setenv("BANANA100_STORE", "store")
    with pytest.raises(UserError, match=r"BANANA100_STORE is 'store'; allowed: an absolute path"):
        paths.store()
    monkeypatch.setenv("BANANA100_STORE", str(paths.REPLICAS.resolve() / "store"))
    with pytest.raises(UserError, match="allowed: a path outside data/replicas"):
        paths.store()


@pytest.mark.parametrize(
    "text",
    ["1:1", "16:9", "1e-05", "1.5e3", "yes", "on", "No", "0o17", "017", "1_000", ".5", "5.", "-3", "+3", "true", "True",
     "null", "~", "'512'", "2026-07-01", ".inf", "0x1F", "1K", "[1:1, 2]", "{a: 1e3}"],
)  # fmt: skip
def test_yaml_means_what_it_means_to_dvc(text: str) -> None:
    """DVC writes params.yaml anew for `dvc exp run -S`, with the quotes that it thinks are needed, and hashes it."""
    from dvc.utils.serialize import parse_yaml

    from banana100.yaml12 import Loader

    ours = yaml.load(f"key: {text}", Loader=Loader)["key"]
    theirs = parse_yaml(f"key: {text}", Path("x.yaml"))["key"]
    assert ours == theirs or str(theirs) == ours, (ours, theirs)  # a day is a day to DVC and a text to us


def test_params_that_dvc_has_rewritten_mean_the_same(tmp_path: Path) -> None:
    from dvc.utils.serialize import modify_yaml

    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    before = params.load(tmp_path / "params.yaml")
    with modify_yaml(tmp_path / "params.yaml") as content:
        content["seeds"]["count"] = 7
    after = params.load(tmp_path / "params.yaml")
    assert after.seeds.count == 7 and after.campaigns == before.campaigns and after.prices == before.prices
