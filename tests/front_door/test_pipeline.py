"""Real DVC on a finished run: subsets of metrics, mistakes, one core, and the code beside the params."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from banana100.files import sha256_of


@pytest.fixture
def restored(small_clone: Any) -> Iterator[Any]:
    """A finished run, put back afterwards."""
    yield small_clone
    small_clone("git", "checkout", "-q", ".")
    small_clone("dvc", "checkout", "-q")


def snapshot(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): sha256_of(file.read_bytes())
        for part in ("data", "metrics")
        for file in sorted((folder / part).rglob("*"))
        if file.is_file()
    }


def stages_run(log: str) -> list[str]:
    return re.findall(r"Running stage '(\w+)'", log)


def test_two_workers_give_the_outputs_of_one(tiny_run: Any, new_clone: Callable[[str], Any]) -> None:
    clone = new_clone("two-workers")
    shutil.copy2(tiny_run.folder / "params.yaml", clone.folder)
    clone("env", "BANANA100_WORKERS=2", "dvc", "repro")
    assert (clone.folder / "dvc.lock").read_text() == (tiny_run.folder / "dvc.lock").read_text()


def test_a_subset_of_metrics_re_runs_rank_and_report_only(restored: Any) -> None:
    before = restored.outputs()
    log = restored("dvc", "exp", "run", "-n", "pair", "-S", "ranking.metrics=[niqe,piqe]").stdout
    assert stages_run(log) == ["rank", "report"]
    after = restored.outputs()
    unchanged = {path for path in before if before[path] == after[path]}
    assert unchanged == {"data/seeds", "data/lineage", "data/previews", "data/replicas", "data/scores"}
    diff = restored("dvc", "metrics", "diff", "main", "pair", "--md").stdout
    assert re.search(r"summary\.metrics *\| 4 *\| 2 *\| -2", diff)
    columns = ["--drop", ".*", "--keep", "Experiment|.*tau"]
    shown = restored("dvc", "exp", "show", "--no-pager", "--md", *columns).stdout
    assert "pair" in shown and "ranking.niqe.tau" in shown
    restored("dvc", "plots", "diff", "main", "pair", "-o", str(restored.folder / "dvc_plots"))
    page = (restored.folder / "dvc_plots/index.html").read_text()
    assert "niqe" in page and "pair" in page


@pytest.mark.parametrize(
    ("setting", "stage", "sentence"),
    [
        (
            "ranking.metrics=niqe",
            "rank",
            'params.yaml: ranking.metrics is "niqe"; allowed: a non-empty list of metrics',
        ),
        ("ranking.metrics=[]", "rank", "params.yaml: ranking.metrics is []; allowed: a non-empty list of metrics"),
        ("active=[nope]", "replicate", 'params.yaml: active is ["nope"]; allowed: a list of names among simulated-'),
        ("campaigns.simulated-replica.steps=0", "replicate", "simulated-replica.steps is 0; allowed: a whole number"),
    ],
)
def test_a_mistake_costs_one_sentence_and_no_output(restored: Any, setting: str, stage: str, sentence: str) -> None:
    before = snapshot(restored.folder)
    result = restored("dvc", "exp", "run", "-S", setting, check=False)
    assert result.returncode != 0 and stages_run(result.stdout) == [stage]
    assert sentence in result.stderr and "Traceback" not in result.stderr
    assert "exited with 2" in result.stderr
    assert snapshot(restored.folder) == before
    restored("git", "checkout", "-q", ".")
    assert "up to date" in restored("dvc", "status").stdout


def test_an_experiment_in_a_temporary_folder_runs_the_code_beside_its_params(restored: Any) -> None:
    """An editable install points at one checkout; DVC hashes another when it runs in a clone or with --temp."""
    marker = "the code of this clone"
    module = restored.folder / "src/banana100/ranking/stage.py"
    module.write_text(module.read_text().replace('print(f"', f'print(f"{marker}: ', 1))
    log = restored("dvc", "exp", "run", "--temp", "-S", "ranking.metrics=[niqe]").stdout
    assert marker in log and stages_run(log) == ["rank", "report"]
