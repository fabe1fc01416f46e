"""What dvc.yaml, the rooms, .gitignore, params.yaml and requirements.txt promise each other."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from banana100.cli import STAGES
from helpers.clones import ROOT

PIPELINE = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]


def test_five_stages_in_a_straight_line_each_described() -> None:
    assert list(PIPELINE) == list(STAGES)
    made_by = {}
    for name, stage in PIPELINE.items():
        assert stage["desc"] and stage["cmd"] == f"python -m banana100 {name}"
        for out in stage["outs"] + stage.get("metrics", []):
            made_by[next(iter(out))] = name
    for index, (name, stage) in enumerate(PIPELINE.items()):
        sources = {made_by[dep] for dep in stage["deps"] if dep in made_by}
        # report reads previews and tables, never the full images: `--pull` would fetch them all
        expected = set(list(STAGES)[max(0, index - 1) : index]) | (
            {"replicate"} if name in ("rank", "report") else set()
        )
        assert sources == expected
        for dep in stage["deps"]:  # exact outputs: a parent folder is empty in a clone, and DVC runs on it all the same
            assert not [out for out in made_by if Path(out) != Path(dep) and Path(out).is_relative_to(dep)]
    assert "data/replicas" not in PIPELINE["rank"]["deps"] + PIPELINE["report"]["deps"]


# They cannot change what a stage writes: how files are written and mistakes are told.
_HARMLESS = {"errors", "files"}


def _runs(module: Path) -> bool:
    """Whether anything but the docstring is in it."""
    return len(ast.parse(module.read_text()).body) > 1


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_every_module_it_runs(stage: str) -> None:
    source = ROOT / "src" / "banana100"
    seen: set[Path] = set()
    queue = [source.joinpath(*STAGES[stage][0].split(".")[1:]).with_suffix(".py")]
    while queue:
        file = queue.pop()
        seen.add(file)
        for node in ast.walk(ast.parse(file.read_text())):
            names: list[str | None] = []
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("banana100"):
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                base = source.joinpath(*str(name).split(".")[1:])
                if file.name == "params.py" and "catalogue" in (base.name, base.parent.name):
                    continue  # params only checks names with it
                queue += [f for f in (base.with_suffix(".py"), base / "__init__.py") if f.is_file() and f not in seen]
    needed = {f.relative_to(ROOT) for f in seen if not (f.parent == source and f.stem in _HARMLESS) and _runs(f)}
    deps = [Path(dep) for dep in PIPELINE[stage]["deps"]]
    undeclared = {file for file in needed if not any(file.is_relative_to(dep) for dep in deps)}
    assert not undeclared
    unused = {dep for dep in deps if dep.is_relative_to("src") and not any(file.is_relative_to(dep) for file in needed)}
    assert not unused


@pytest.mark.parametrize("stage", STAGES)
def test_rooms_import_only_what_lies_beneath(stage: str) -> None:
    room = STAGES[stage][0].split(".")[1]
    others = {module.split(".")[1] for module, _ in STAGES.values()} - {room}
    for file in (ROOT / "src/banana100" / room).rglob("*.py"):
        imported = set(re.findall(r"^\s*(?:from|import) banana100\.(\w+)", file.read_text(), re.MULTILINE))
        assert not imported & (others | {"cli"}), file


def test_the_static_gitignore_covers_every_cached_output() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    for stage in PIPELINE.values():
        for out in stage["outs"]:
            assert f"/{next(iter(out))}" in ignored


def test_every_key_of_params_has_a_comment() -> None:
    lines = (ROOT / "params.yaml").read_text().splitlines()
    sections = {"seeds:", "scoring:", "ranking:"}  # blocks whose keys are explained one by one
    listed = ("prompts:", "images:")  # blocks of texts and prices that are explained as a whole
    within = 0
    for before, line in pairwise(lines):
        indent = len(line) - len(line.lstrip())
        if within and indent > within:
            continue
        within = indent if line.strip() in listed else 0
        if (
            re.match(r"\s*[\w-]+:(\s|$)", line)
            and line.strip() not in sections
            and not line.strip().startswith("names:")
        ):
            assert before.strip().startswith("#"), line


def test_requirements_pin_every_direct_dependency() -> None:
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line and line[0] not in " #"]
    pinned = {canonicalize_name(Requirement(line).name): Requirement(line) for line in lines}
    assert all(len(list(r.specifier)) == 1 and str(r.specifier).startswith("==") and not r.url for r in pinned.values())
    for text in project["dependencies"] + project["optional-dependencies"]["dev"]:
        wanted = Requirement(text)
        version = str(pinned[canonicalize_name(wanted.name)].specifier).removeprefix("==")
        assert wanted.specifier.contains(version), text


def test_help_names_every_command() -> None:
    import subprocess
    import sys

    shown = subprocess.check_output([sys.executable, "-m", "banana100", "--help"], text=True, cwd=ROOT)
    assert all(name in shown for name in [*STAGES, "summary"])
