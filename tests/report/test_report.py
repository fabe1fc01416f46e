"""The report on tables written by hand: what it says and refuses. How its page works: test_report_page.py."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from banana100 import images, paths, revision
from banana100.cli import main
from banana100.lineage import tables
from banana100.report import page, page_data, provenance


def write_previews(steps: tuple[int, ...], seed: str = "a") -> None:
    for step in steps:
        data = images.encode_preview(images.encode_png(np.full((8, 12, 3), step, dtype=np.uint8)), 12)
        preview = paths.preview("simulated-replica", seed, 1, step)
        preview.parent.mkdir(parents=True, exist_ok=True)
        preview.write_bytes(data)


def written() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in paths.REPORT.rglob("*") if path.is_file()}


def test_chains_of_a_real_model_are_not_called_simulated(scored: dict[str, Any]) -> None:
    requests = tables.read(paths.REQUESTS_TABLE, tables.REQUESTS)
    requests["backend"] = "another"
    tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, requests)
    assert main(["rank"]) == 0
    assert main(["report"]) == 0
    assert json.loads(paths.RANKING.read_text())["summary"]["simulated_chains"] == 0
    assert "imulated chains" not in paths.REPORT_PAGE.read_text()
    assert "<strong>Simulated.</strong>" not in paths.REPORT_PAGE.read_text()


def test_the_report_shows_what_ranking_json_says(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rank"]) == 0
    write_previews((0, 1, 3))
    assert main(["report"]) == 0
    page = paths.REPORT_PAGE.read_text()
    assert "Of 4 metrics 1 (niqe) scored the degraded images as worse on every one of 2 simulated chains." in page
    assert "<strong>Simulated.</strong>" in page
    ranking = json.loads(paths.RANKING.read_text())["ranking"]
    for metric, verdict in ranking.items():
        row = page.split(f'<tr data-metric="{metric}"')[1].split("</tr>")[0]
        assert ("✓ yes" in row) == verdict["consistent"] and f"{verdict['tau']:+.3f}".replace("-", "−") in row
        assert f'data-column="chains" data-value="{verdict["chains"]}">{verdict["chains"]}</td>' in row
        assert f"{verdict['auc']:.3f}" in row
    assert page.count('src="data:image/webp;base64,') == 3 and 'data-step="2"' not in page
    assert re.findall(r"https?://(?!www\.w3\.org)[^\"]*", page) == ["https://arxiv.org/abs/2604.03400"]  # offline
    assert main(["summary"]) == 0
    shown = capsys.readouterr().out
    assert "niqe" in shown and "consistent?" in shown and paths.REPORT_PAGE.resolve().as_uri() in shown


def test_equal_tables_give_equal_bytes_and_nothing_of_before_stays(scored: dict[str, Any]) -> None:
    assert main(["rank"]) == 0
    assert main(["report"]) == 0
    first = written()
    names = ("curves", "failures", "ranks", "correlation", "ensemble")
    figures = {paths.REPORT_FIGURES / f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    assert first.keys() == {paths.REPORT_PAGE, *figures}
    for name in names:  # for papers: vectors, and pixels of 300 dpi
        text = first[paths.REPORT_FIGURES / f"{name}.svg"].decode()
        assert text.startswith("<?xml") and "<image" not in text and "var(--" not in text and "DejaVu Sans" in text
        picture = Image.open(io.BytesIO(first[paths.REPORT_FIGURES / f"{name}.png"]))
        assert picture.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    (paths.REPORT_FIGURES / "old.svg").write_text("old")
    assert main(["report"]) == 0
    assert written() == first  # no date, no chance


def test_the_diagram_of_ranks_does_not_hang_on_the_order_of_a_set() -> None:
    program = (
        "import pandas as pd\n"
        "from banana100.report.figures import ranks, style\n"
        "names = ['brisque', 'niqe', 'piqe', 'entropy', 'musiq', 'nima']\n"
        "table = pd.DataFrame({'metric': names, 'average_rank': [1.4, 2.0, 2.2, 3.9, 4.1, 5.0]})\n"
        "with style.applied():\n"
        "    print(style.svg(ranks.draw(table, 1.9)))"
    )
    drawn = {
        subprocess.run(
            [sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(drawn) == 1


def only(keep: Callable[[pd.DataFrame], pd.Series]) -> None:
    rows = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, rows[keep(rows)])


def fail_all(metric: str) -> None:
    rows = tables.read(paths.scores(metric), tables.SCORES)
    tables.write(paths.scores(metric), tables.SCORES, [])
    reasons = rows.drop(columns="score").assign(reference_id=None, reason="no luck")
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, reasons[tables.FAILURES.names])


def make_constant(metric: str) -> None:
    rows = tables.read(paths.scores(metric), tables.SCORES)
    tables.write(paths.scores(metric), tables.SCORES, rows.assign(score=2.5))


@pytest.mark.parametrize(
    ("ranking", "change", "expected"),
    [
        ({"min_drift": {"psnr": 1}}, None, {"left_out_chains": 2, "eligible_chains": 0}),
        ({"probe_steps": [7]}, None, {"left_out_chains": 0, "eligible_chains": 0, "consistent": 0}),
        ({"baseline_step": 0}, None, {"eligible_chains": 2, "consistent": 1}),
        ({"metrics": ["niqe"]}, None, {"metrics": 1, "friedman_p": None, "critical_difference": None}),
        ({"metrics": ["niqe", "entropy"]}, None, {"metrics": 2, "friedman_p": None}),
        ({}, lambda: only(lambda rows: rows["seed"] == "a"), {"seeds": 1, "eligible_chains": 1}),
        ({}, lambda: only(lambda rows: rows["step"] == 0), {"chains": 2, "eligible_chains": 0}),
        (
            {},
            lambda: only(lambda rows: (rows["seed"] == "a") | (rows["step"] == 0)),
            {"chains": 2, "eligible_chains": 1},
        ),
        ({}, lambda: fail_all("niqe"), {"failed_scores": 8, "consistent": 0, "ranked_seeds": 2}),
        ({"metrics": ["niqe"]}, lambda: fail_all("niqe"), {"failed_scores": 8, "ranked_seeds": 0}),
        ({}, lambda: make_constant("niqe"), {"consistent": 0, "ranked_seeds": 2}),
        ({"spread": "iqr"}, lambda: make_constant("niqe"), {"consistent": 0}),
    ],
)
def test_odd_studies_give_whole_outputs(
    scored: dict[str, Any],
    set_params: Any,
    capsys: pytest.CaptureFixture[str],
    ranking: dict[str, Any],
    change: Callable[[], None] | None,
    expected: dict[str, Any],
) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    scored["ranking"] |= ranking
    set_params(scored)
    if change:
        change()
    assert [main([command]) for command in ("rank", "report", "summary")] == [0, 0, 0]
    assert json.loads(paths.RANKING.read_text(), parse_constant=refuse)["summary"].items() >= expected.items()
    page, shown = paths.REPORT_PAGE.read_text(), capsys.readouterr()
    assert (
        not re.search(r"\bnan\b|\bNone\b", re.sub(r"<svg.*?</svg>|<script.*?</script>", "", page, flags=re.DOTALL))
        and "nan" not in shown.out
        and not shown.err
    )


@pytest.mark.parametrize("name", ["花の庭", "NA", "007", "true", "$x_1$", "a & b"])
def test_hostile_names_are_shown_as_text(scored: dict[str, Any], name: str) -> None:
    hostile = "<script>alert(1)<!--"
    for path, schema in ((paths.IMAGES_TABLE, tables.IMAGES), (paths.SEED_TABLE, tables.SEEDS)):
        rows = tables.read(path, schema)
        rows["seed"] = rows["seed"].replace({"a": hostile, "b": name})
        tables.write(path, schema, rows)
    assert main(["rank"]) == 0
    assert main(["report"]) == 0
    page = paths.REPORT_PAGE.read_text()
    assert page.count("<script") == 2 and "<script>alert" not in page and "<!--" not in page  # the data and our own
    escaped = name.replace("&", "&amp;")
    assert "&lt;script&gt;alert(1)&lt;!--" in page and f"<h3>{escaped} " in page
    assert {hostile, name} == json.loads(page.split('id="data">')[1].split("</script>")[0])["seeds"].keys()
    assert name in (paths.REPORT_FIGURES / "failures.svg").read_text().replace("&amp;", "&")


@pytest.mark.parametrize("command", ["report", "summary"])
def test_a_report_without_a_ranking_is_told(command: str, project: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 2
    assert "metrics/ranking.json: no such file; make it with `dvc repro`" in capsys.readouterr().err


# --- what is damaged or missing is told in a sentence


@pytest.mark.parametrize(
    ("path", "content", "sentence"),
    [
        (paths.CHAIN_CURVES_TABLE, b"no parquet", "metrics: damaged"),
        (paths.CHAIN_CURVES_TABLE, None, "chain_curves.parquet: no such file; make it with `dvc repro`"),
        (paths.RANKS_TABLE, b"a,b\n1,2\n", "metrics/tables/ranks.csv: has no column"),
        (paths.FAILURES_BY_SEED_TABLE, b"", "metrics: damaged"),
        (paths.curve("niqe"), b"step\n1\n", "metrics/curves/niqe.csv: has no column"),
        (paths.VERDICTS_TABLE, b"metric\nniqe\n", "metrics/tables/verdicts.csv: has no column"),
        (paths.RANKING, b"[]", "metrics: damaged"),
        (paths.SEED_TABLE, b"", "data/seeds/seeds.parquet: not a whole Parquet file"),
        (paths.SCORERS_TABLE, None, "data/scores/scorers.parquet: no such table"),
        (paths.preview("simulated-replica", "a", 1, 1), b"webp", "001.webp: cannot be opened"),
    ],
)
def test_damage_is_told_and_the_old_report_stays(
    scored: dict[str, Any], capsys: pytest.CaptureFixture[str], path: Path, content: bytes | None, sentence: str
) -> None:
    write_previews((0, 1))
    assert main(["rank"]) == 0
    paths.REPORT.mkdir()
    paths.REPORT_PAGE.write_text("an old report")
    before = written()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert main(["report"]) == 2
    told = capsys.readouterr().err
    assert sentence in told and told.count("\n") == 1
    assert written() == before


def test_tables_of_two_runs_are_not_mixed(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rank"]) == 0
    only(lambda rows: rows["seed"] == "a")
    assert main(["report"]) == 2
    assert "data/lineage/images.parquet: other chains than" in capsys.readouterr().err


# --- what it rests on


def test_costs_count_every_answer_and_refusal_once(scored: dict[str, Any]) -> None:
    """Two campaigns share a request; a refused one was answered later, another parks its chain."""
    images = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    again = images[images["seed"] == "a"].assign(campaign="other")
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, pd.concat([images, again]))
    requests = tables.read(paths.REQUESTS_TABLE, tables.REQUESTS)
    paid = {"backend": "gemini", "model": "banana", "model_answered": "banana-1", "cost_usd": 0.25, "input_tokens": 5}
    requests = requests.assign(**paid, output_tokens=7, asked_at="2026-03-02T10:00:00Z")
    tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, requests)
    refusal = tables.records(requests)[0] | {
        "number": 1,
        "finish_reason": "NO_IMAGE",
        "asked_at": "2026-03-01T09:00:00Z",
    }
    parked = refusal | {"request_id": "rb4", "campaign": "other", "seed": "b", "finish_reason": "IMAGE_SAFETY"}
    tables.write(paths.REFUSALS_TABLE, tables.REFUSALS, [refusal, parked, parked | {"number": 2}])
    why = {"cause": "refused", "reason": "unsafe", "attempts": 2, "repeat": 1, "step": 4}
    tables.write(paths.PARKED_TABLE, tables.PARKED, [parked | why])
    found = provenance.read()
    costs = found.costs.set_index("campaign")
    assert costs["answers"].to_dict() == {"other": 3, "simulated-replica": 3}  # a's are other's, as o comes before s
    assert costs["refusals"].to_dict() == {"other": 3, "simulated-replica": 0}
    assert costs["parked"].to_dict() == {"other": 1, "simulated-replica": 0}
    assert costs["cost_usd"].to_dict() == {"other": 1.5, "simulated-replica": 0.75}
    assert costs.loc["other", ["first", "last", "simulated"]].tolist() == ["2026-03-01", "2026-03-02", False]
    assert found.dates == ("2026-03-01", "2026-03-02")
    assert [(maker.answered, maker.images, maker.simulated) for maker in found.makers] == [("banana-1", 6, False)]
    assert main(["rank"]) == 0
    assert main(["report"]) == 0
    shown = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", paths.REPORT_PAGE.read_text().split('id="cost"')[1]))
    assert "All answers and refusals together: $2.25 ." in shown and "IMAGE_SAFETY 2" in shown and "unsafe" in shown


def test_a_simulated_server_is_not_said_to_be_paid(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    requests = tables.read(paths.REQUESTS_TABLE, tables.REQUESTS)
    requests = requests.assign(backend="gemini", model_answered="simulated/banana", cost_usd=0.5)
    tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, requests)
    assert [main([command]) for command in ("rank", "report", "summary")] == [0, 0, 0]
    assert "cost $3.00, of which $3.00 were not paid, as the server is simulated." in capsys.readouterr().out
    assert "of which $3.00 were not paid, as the server is simulated" in paths.REPORT_PAGE.read_text()


def test_the_revision_is_that_of_code_and_params_not_of_a_later_record(project: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        return subprocess.run(["git", *identity, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    assert revision.of_inputs() is None
    git("init", "-q")
    assert revision.of_inputs() is None
    git("add", "-A")
    git("commit", "-qm", "code")
    commit = git("rev-parse", "HEAD")
    paths.LOCK.write_text("a record")
    git("add", "dvc.lock")
    git("commit", "-qm", "run")
    assert revision.of_inputs() == revision.Revision(commit, modified=False)
    Path("src").mkdir()
    Path("src/new.py").write_text("")
    assert revision.of_inputs() == revision.Revision(commit, modified=True)


# --- what the page's script looks up


def test_the_unit_turns_changes_into_scores(scored: dict[str, Any]) -> None:
    assert main(["rank"]) == 0
    from banana100.report import results

    grid = results.read().grid
    data = page_data.gather(grid, provenance.read(), baseline_step=1)
    for index, metric in enumerate(grid.metrics):
        unit = data["metrics"][metric]["unit"]
        moved = grid.scores[index] - grid.scores[index][:, [1]]
        assert moved == pytest.approx(unit * grid.changes[index], abs=1e-9)
        assert (unit > 0) == (metric == "entropy")  # the only one of which higher is better
    assert page_data.unit(np.ones((2, 3)), np.zeros((2, 3)), 1, -1) == -1
    assert page_data.unit(np.ones((2, 3)), np.full((2, 3), np.nan), 9, 1) == 1


def test_every_image_of_every_chain_can_be_looked_up(scored: dict[str, Any]) -> None:
    only(lambda rows: (rows["seed"] == "a") | (rows["step"] != 2))  # a gap
    assert main(["rank"]) == 0
    from banana100.report import results

    first, second = page_data.gather(results.read().grid, provenance.read(), 1)["chains"]
    assert first["image_id"] == ["a0", "a1", "a2", "a3"] and second["image_id"] == ["b0", "b1", None, "b3"]
    assert first["file"][3] == "3.png" and first["folder"] == "a" and first["request_id"] == [None, "ra1", "ra2", "ra3"]
    assert first["asked"] == 0 and first["width"] == 1


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [(float("nan"), "%.2f", "–"), (None, "%.2f", "–"), (float("inf"), "%.0f", "∞"), (-0.25, "%+.2f", "−0.25")],
)
def test_numbers_as_text(value: float | None, form: str, shown: str) -> None:
    assert page.number(value, form) == shown
