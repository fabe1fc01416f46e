"""The paper's criterion and Kendall's tau, against chains whose answer is known."""

import itertools
import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banana100 import paths
from banana100.cli import main
from banana100.lineage import tables
from banana100.ranking import criterion, curves
from banana100.ranking.order import kendall_tau

PROBES = [5, 10, 20]
STEPS = range(21)


def table(chains: dict[str, list[float]], higher_is_better: bool = True, metric: str = "m") -> pd.DataFrame:
    """Curves of chains given as scores at steps 0, 1, 2, ...; lower-is-better scores are given as such."""
    images = pd.DataFrame(
        [("c", seed, 1, step, f"{seed}{step}") for seed, scores in chains.items() for step in range(len(scores))],
        columns=[*curves.CHAIN, "step", "image_id"],
    )
    scores = pd.DataFrame(
        [(f"{seed}{step}", metric, score) for seed, scores in chains.items() for step, score in enumerate(scores)],
        columns=["image_id", "metric", "score"],
    )
    scorers = pd.DataFrame({"metric": [metric], "higher_is_better": [higher_is_better]})
    return curves.add_change(curves.join(images, scores, scorers), 1)


def judge(chains: dict[str, list[float]], higher_is_better: bool = True) -> pd.DataFrame:
    return criterion.judge_chains(table(chains, higher_is_better), 1, PROBES)


falling = [10.0 - step / 4 for step in STEPS]
rising = falling[::-1]


def with_bump(at: int) -> list[float]:
    scores = list(falling)
    scores[at] = 100.0
    return scores


@pytest.mark.parametrize(
    ("scores", "higher_is_better", "passes", "tau"),
    [
        (falling, True, True, -1.0),
        (rising, True, False, 1.0),
        (falling, False, False, 1.0),  # lower is better: a falling score says that images improve
        (rising, False, True, -1.0),
        ([3.0] * 21, True, False, 0.0),  # no change is not a negative change
        (with_bump(5), True, False, None),
        (with_bump(20), True, False, None),
        (with_bump(4), True, True, None),  # the criterion looks at probe steps only
        ([-1.0, *falling[1:]], True, True, None),  # and not at the seed
    ],
)
def test_known_chains(scores: list[float], higher_is_better: bool, passes: bool, tau: float | None) -> None:
    (row,) = judge({"a": scores}, higher_is_better).to_dict("records")
    assert row["passes"] == passes and pd.isna(row["not_judged"])
    if tau is not None:
        assert row["tau"] == pytest.approx(tau)


def test_one_failing_chain_makes_a_metric_inconsistent() -> None:
    verdicts = criterion.judge_metrics(judge({"a": falling, "b": falling, "c": with_bump(10)}))
    (row,) = verdicts.to_dict("records")
    assert (row["consistent"], row["chains"], row["failures"], row["not_judged"]) == (False, 3, 1, 0)
    (row,) = criterion.judge_metrics(judge({"a": falling, "b": falling})).to_dict("records")
    assert (row["consistent"], row["chains"], row["failures"]) == (True, 2, 0)


def test_the_papers_example_is_a_failure() -> None:
    # BRISQUE, lower is better, moved from 34.1 to -9.8 while noise was plain to see (arXiv 2604.03400)
    scores = np.linspace(34.1, -9.8, 21).tolist()
    (row,) = judge({"a": scores}, higher_is_better=False).to_dict("records")
    assert not row["passes"] and row["tau"] == pytest.approx(1.0)


def test_changes_are_in_standard_deviations_of_the_metric() -> None:
    chains = judge({"a": falling, "b": rising})
    spread = np.std(falling + rising)
    assert chains.loc[0, "change_5"] == pytest.approx((falling[5] - falling[1]) / spread)
    assert chains.loc[1, "change_20"] == pytest.approx((rising[20] - rising[1]) / spread)


def test_short_chains_and_missing_scores_are_counted_not_dropped() -> None:
    missing = list(falling)
    missing[10] = float("nan")
    chains = judge({"whole": falling, "short": falling[:15], "holes": missing, "seed only": falling[:1]})
    reasons = chains.set_index("seed")["not_judged"].dropna().to_dict()
    assert reasons == {
        "short": "the chain has no step 20",
        "holes": "no score at step 10",
        "seed only": "the chain has no step 1, 5, 10, 20",
    }
    (row,) = criterion.judge_metrics(chains).to_dict("records")
    # three chains are unknown: nobody can say that the metric is consistent on all
    assert (row["consistent"], row["chains"], row["failures"], row["not_judged"]) == (False, 1, 0, 3)
    assert chains.set_index("seed").loc["holes", "tau"] == pytest.approx(-1)


def test_a_metric_without_any_judged_chain_is_not_consistent() -> None:
    (row,) = criterion.judge_metrics(judge({"short": falling[:3]})).to_dict("records")
    assert (row["consistent"], row["chains"], row["not_judged"]) == (False, 0, 1)


def test_tau_b_agrees_with_its_definition_under_ties() -> None:
    # Kendall 1945: (P - Q) / sqrt((n0 - n1)(n0 - n2)), worked out for one tie in y: 4 concordant, 1 discordant of 6
    steps, scores = [1, 2, 3, 4], [1.0, 3.0, 2.0, 3.0]
    assert kendall_tau(steps, scores) == pytest.approx((4 - 1) / np.sqrt(6 * 5))


def test_tau_needs_two_scores() -> None:
    assert np.isnan(kendall_tau([1, 2], [3.0, float("nan")]))
    assert kendall_tau([1, 2, 3], [3.0, float("nan"), 2.0]) == pytest.approx(-1)


scores = st.lists(st.integers(-50, 50).map(float), min_size=21, max_size=21)


@given(scores)
def test_verdicts_do_not_change_under_increasing_transforms(values: list[float]) -> None:
    plain, cubed = judge({"a": values}), judge({"a": [value**3 + 2 * value - 7 for value in values]})
    assert plain["passes"].tolist() == cubed["passes"].tolist()
    assert plain["tau"].tolist() == pytest.approx(cubed["tau"].tolist())


@given(scores)
def test_turning_sign_and_direction_changes_nothing(values: list[float]) -> None:
    turned = judge({"a": [-value for value in values]}, higher_is_better=False)
    pd.testing.assert_frame_equal(judge({"a": values}), turned)


@given(scores, st.randoms())
def test_the_order_of_rows_does_not_matter(values: list[float], random: Any) -> None:
    images = pd.DataFrame({"campaign": "c", "seed": "s", "repeat": 1, "step": STEPS, "image_id": map(str, STEPS)})
    rows = pd.DataFrame({"image_id": map(str, STEPS), "metric": "m", "score": values})
    scorers = pd.DataFrame({"metric": ["m"], "higher_is_better": [True]})
    order = list(STEPS)
    random.shuffle(order)
    shuffled = curves.join(images.iloc[order], rows.iloc[order[::-1]], scorers)
    pd.testing.assert_frame_equal(shuffled, curves.join(images, rows, scorers))


# --- the stage, on tables written by hand


@pytest.fixture
def scored(project: Any, small_params: dict[str, Any], set_params: Any) -> dict[str, Any]:
    """Two seeds of one repeat, steps 0-3; niqe sees the rot in both, piqe in one, entropy in none."""
    falls, rises = [1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]  # as scores of which lower is better: worse, better
    by_metric = {"niqe": (falls, falls), "piqe": (falls, rises), "entropy": (falls, falls), "brisque": (rises, rises)}
    images, requests = [], []
    for seed in ("a", "b"):
        for step in range(4):
            image = {"image_id": f"{seed}{step}", "path": f"{seed}/{step}.png", "bytes": 1, "width": 1, "height": 1}
            image |= {"mode": "RGB", "campaign": "simulated-replica", "seed": seed, "repeat": 1, "step": step}
            images.append(image | {"request_id": f"r{seed}{step}" if step else None})
            if step:
                requests.append({"request_id": f"r{seed}{step}", "backend": "simulated"})
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, images)
    tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, requests)
    scorers = [{"scorer_id": f"s-{m}", "metric": m, "higher_is_better": m == "entropy"} for m in by_metric]
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, scorers)
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, [])
    for metric, values in by_metric.items():
        rows = [
            {"image_id": f"{seed}{step}", "metric": metric, "score": values[index][step], "scorer_id": f"s-{metric}"}
            for (index, seed), step in itertools.product(enumerate("ab"), range(4))
        ]
        tables.write(paths.scores(metric), tables.SCORES, rows)
    return small_params


def test_the_stage_writes_scalars_under_stable_names(scored: dict[str, Any]) -> None:
    assert main(["rank"]) == 0
    ranking = json.loads(paths.RANKING.read_text())
    summary = {"metrics": 4, "consistent": 1, "failed_scores": 0, "chains": 2, "simulated_chains": 2}
    assert ranking["summary"] == summary
    fields = {"consistent": True, "failures": 0, "chains": 2, "not_judged": 0, "failed_scores": 0, "tau": -1.0}
    assert ranking["ranking"]["niqe"] == fields
    assert ranking["ranking"]["piqe"] == fields | {"consistent": False, "failures": 1, "tau": 0.0}
    assert ranking["ranking"]["entropy"] == fields | {"consistent": False, "failures": 2, "tau": 1.0}
    assert pd.read_csv(paths.VERDICTS_TABLE)["metric"].tolist() == ["niqe", "piqe", "brisque", "entropy"]
    curve = pd.read_csv(paths.curve("niqe"))
    assert curve["step"].tolist() == [0, 1, 2, 3]
    assert curve["change"].tolist() == pytest.approx(
        [1 / np.std([1, 2, 3, 4]) * (1 - step) for step in range(4)], abs=1e-5
    )


def test_chains_of_a_real_model_are_not_called_simulated(scored: dict[str, Any]) -> None:
    requests = tables.read(paths.REQUESTS_TABLE, tables.REQUESTS)
    requests["backend"] = "another"
    tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, requests)
    assert main(["rank"]) == 0
    assert main(["report"]) == 0
    assert json.loads(paths.RANKING.read_text())["summary"]["simulated_chains"] == 0
    assert "imulated chains" not in paths.REPORT_PAGE.read_text()
    assert "<strong>Simulated.</strong>" not in paths.REPORT_PAGE.read_text()


def test_a_subset_of_metrics_leaves_no_trace_of_the_others(scored: dict[str, Any], set_params: Any) -> None:
    assert main(["rank"]) == 0
    scored["ranking"]["metrics"] = ["piqe", "niqe"]
    set_params(scored)
    assert main(["rank"]) == 0
    assert set(json.loads(paths.RANKING.read_text())["ranking"]) == {"niqe", "piqe"}
    assert {file.name for file in paths.CURVES.iterdir()} == {"niqe.csv", "piqe.csv"}


def test_scores_of_a_strange_scorer_are_refused(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    rows = tables.read(paths.scores("niqe"), tables.SCORES).assign(scorer_id="another")
    tables.write(paths.scores("niqe"), tables.SCORES, rows)
    assert main(["rank"]) == 2
    assert "scores of an unknown scorer another" in capsys.readouterr().err
    assert not paths.RANKING.exists()


def drop_score(metric: str, image_id: str) -> None:
    rows = tables.read(paths.scores(metric), tables.SCORES)
    tables.write(paths.scores(metric), tables.SCORES, rows[rows["image_id"] != image_id])


def test_failed_scores_are_counted_wherever_they_fall(
    scored: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    drop_score("niqe", "a0")  # the criterion does not look at the seed: the chain passes all the same
    drop_score("piqe", "b3")
    failures = [
        {"image_id": image_id, "metric": metric, "reason": "flat", "scorer_id": f"s-{metric}"}
        for metric, image_id in (("niqe", "a0"), ("piqe", "b3"))
    ]
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, failures)
    assert main(["rank"]) == 0
    ranking = json.loads(paths.RANKING.read_text())
    assert ranking["summary"]["failed_scores"] == 2
    niqe, piqe = ranking["ranking"]["niqe"], ranking["ranking"]["piqe"]
    assert (niqe["consistent"], niqe["not_judged"], niqe["failed_scores"]) == (True, 0, 1)
    assert (piqe["consistent"], piqe["not_judged"], piqe["failed_scores"]) == (False, 1, 1)
    assert main(["summary"]) == 0
    assert "2 scores failed; data/scores/failures.parquet tells which and why" in capsys.readouterr().out


def test_a_score_missing_without_a_reason_is_not_passed_over(
    scored: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    drop_score("niqe", "a0")
    assert main(["rank"]) == 2
    assert "1 scores are missing without a reason, the first by niqe of image a0" in capsys.readouterr().err
    assert not paths.RANKING.exists()


def test_missing_tables_are_told(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    paths.scores("piqe").unlink()
    assert main(["rank"]) == 2
    assert "data/scores/piqe.parquet: no such table; make it with `dvc repro`" in capsys.readouterr().err


# --- report and summary, on the same tables


def test_the_report_shows_what_ranking_json_says(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rank"]) == 0
    for step in (0, 1, 3):
        preview = paths.preview("simulated-replica", "a", 1, step)
        preview.parent.mkdir(parents=True, exist_ok=True)
        preview.write_bytes(b"webp")
    assert main(["report"]) == 0
    page = paths.REPORT_PAGE.read_text()
    assert "Of 4 metrics 1 (niqe) scored the degraded images as worse on every one of 2 simulated chains." in page
    assert "<strong>Simulated.</strong>" in page
    ranking = json.loads(paths.RANKING.read_text())["ranking"]
    for metric, verdict in ranking.items():
        row = page.split(f"<tr><td>{metric}</td>")[1].split("</tr>")[0]
        assert ("✓ yes" in row) == verdict["consistent"] and f"{verdict['tau']:+.3f}" in row
        assert f"<td>{verdict['failures']}</td><td>{verdict['chains']}</td>" in row
    assert page.count("data:image/webp;base64,d2VicA==") == 3 and "step 2<" not in page
    assert re.findall(r"https?://(?!www\.w3\.org)[^\"]*", page) == ["https://arxiv.org/abs/2604.03400"]  # offline
    first = page
    assert main(["report"]) == 0 and paths.REPORT_PAGE.read_text() == first  # no date, no chance
    assert main(["summary"]) == 0
    shown = capsys.readouterr().out
    assert "niqe" in shown and "consistent?" in shown and paths.REPORT_PAGE.resolve().as_uri() in shown


@pytest.mark.parametrize("name", ["花の庭", "NA", "007", "true"])
def test_hostile_names_are_shown_as_text(scored: dict[str, Any], name: str) -> None:
    rows = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    rows["seed"] = rows["seed"].replace({"a": "<script>alert(1)</script>".replace("/", "_"), "b": name})
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, rows)
    assert main(["rank"]) == 0
    assert main(["report"]) == 0
    page = paths.REPORT_PAGE.read_text()
    assert "<script" not in page and "&lt;script&gt;" in page and f"<h3>{name} " in page


@pytest.mark.parametrize("command", ["report", "summary"])
def test_a_report_without_a_ranking_is_told(command: str, project: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 2
    assert "metrics/ranking.json: no such file; make it with `dvc repro`" in capsys.readouterr().err
