"""The paper's criterion against chains whose answer is known; stage rank and the report on tables written by hand."""

import itertools
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banana100 import params, paths
from banana100.catalogue.metrics import DRIFT_METRICS, METRICS
from banana100.cli import main
from banana100.lineage import tables
from banana100.params import RankingParams
from banana100.ranking import bootstrap, criterion, curves, stage, study, verdicts
from banana100.ranking.evidence import weigh
from banana100.ranking.study import Study

PROBES = [5, 10, 20]
STEPS = range(21)
NAN = float("nan")


def tables_of(chains: dict[str, list[float]], drift: dict[str, list[float]]) -> tuple[pd.DataFrame, ...]:
    """Images, scores and psnr of chains given as scores at steps 0, 1, 2, ..."""
    images = pd.DataFrame(
        [("c", seed, 1, step, f"{seed}{step}") for seed, scores in chains.items() for step in range(len(scores))],
        columns=[*curves.CHAIN, "step", "image_id"],
    )
    scores = pd.DataFrame(
        [(f"{seed}{step}", score) for seed, scores in chains.items() for step, score in enumerate(scores)],
        columns=["image_id", "score"],
    )
    rows = [
        (f"{seed}{step}", f"{seed}0", "psnr", score) for seed, row in drift.items() for step, score in enumerate(row, 1)
    ]
    return images, scores.dropna(), pd.DataFrame(rows, columns=["image_id", "reference_id", "metric", "score"])


def study_of(
    chains: dict[str, list[float]],
    higher_is_better: bool = True,
    drift: dict[str, list[float]] | None = None,
    **ranking: Any,
) -> Study:
    """One metric m on chains of one repeat each."""
    images, scores, psnr = tables_of(chains, drift or {})
    joined = curves.build(images, {"m": scores}, {"m": higher_is_better})
    settings: dict[str, Any] = {"metrics": ["m"], "baseline_step": 1, "probe_steps": PROBES, "spread": "std"}
    settings |= {"min_drift": {}, "bootstrap": 100, "random_state": 1} | ranking
    evidence = study.Drift(curves.drift_along(joined, images, psnr), {"psnr": True})
    return study.make(joined, evidence, RankingParams(**settings))


def judge(chains: dict[str, list[float]], higher_is_better: bool = True, **options: Any) -> pd.DataFrame:
    given = study_of(chains, higher_is_better, **options)
    return verdicts.of_chains(given, verdicts.along_chains(given), PROBES)


def judge_metric(chains: dict[str, list[float]], **options: Any) -> dict[str, Any]:
    given = study_of(chains, **options)
    return verdicts.of_metric(given, verdicts.along_chains(given), 0)


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
    assert row["passes"] == passes and pd.isna(row["not_judged"]) and pd.isna(row["left_out"])
    if tau is not None:
        assert row["tau"] == pytest.approx(tau)


def test_one_failing_chain_makes_a_metric_inconsistent() -> None:
    row = judge_metric({"a": falling, "b": falling, "c": with_bump(10)})
    assert (row["consistent"], row["chains"], row["failures"], row["not_judged"]) == (False, 3, 1, 0)
    assert row["failure_rate"] == pytest.approx(1 / 3)
    row = judge_metric({"a": falling, "b": falling})
    assert (row["consistent"], row["chains"], row["failures"]) == (True, 2, 0)


def test_the_papers_example_is_a_failure() -> None:
    # BRISQUE, lower is better, moved from 34.1 to -9.8 while noise was plain to see (arXiv 2604.03400)
    scores = np.linspace(34.1, -9.8, 21).tolist()
    (row,) = judge({"a": scores}, higher_is_better=False).to_dict("records")
    assert not row["passes"] and row["tau"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        ("std", np.std(falling + rising)),
        ("iqr", np.subtract(*np.percentile(falling + rising, [75, 25]))),
        ("range", max(falling) - min(falling)),
    ],
)
def test_changes_are_in_units_of_the_metrics_spread(kind: str, unit: float) -> None:
    chains = judge({"a": falling, "b": rising}, spread=kind)
    assert chains.loc[0, "change_5"] == pytest.approx((falling[5] - falling[1]) / unit)
    assert chains.loc[1, "change_20"] == pytest.approx((rising[20] - rising[1]) / unit)
    assert chains["passes"].tolist() == [True, False]


def test_short_chains_and_missing_scores_are_counted_and_named() -> None:
    missing = list(falling)
    missing[10] = NAN
    every = {"whole": falling, "short": falling[:15], "holes": missing, "seed only": falling[:1]}
    chains = judge(every)
    reasons = chains.set_index("seed")["not_judged"].dropna().to_dict()
    assert reasons == {
        "short": "the chain ends at step 14, before step 20",
        "holes": "no score at step 10",
        "seed only": "the chain ends at step 0, before step 1",
    }
    row = judge_metric(every)
    # three chains are unknown: nobody can say that the metric is consistent on all
    assert (row["consistent"], row["chains"], row["failures"], row["not_judged"]) == (False, 1, 0, 3)
    assert chains.set_index("seed").loc["holes", "tau"] == pytest.approx(-1)
    assert study_of(every).eligible.tolist() == [True, False, False, True]  # holes, seed only, short, whole


def test_a_chain_that_misses_a_step_in_between_says_which() -> None:
    images, scores, _ = tables_of({"a": falling}, {})
    joined = curves.build(images[images["step"] != 10], {"m": scores}, {"m": True})
    found = criterion.judge(joined, curves.change(joined, 1, np.ones(1)), 1, PROBES, weigh({}, {}, {}, 20, 1))
    assert found.not_judged[0, 0] == "the chain has no step 10"


def test_a_metric_without_any_judged_chain_is_not_consistent() -> None:
    row = judge_metric({"short": falling[:3]})
    assert (row["consistent"], row["chains"], row["not_judged"]) == (False, 0, 1)
    assert np.isnan([row["failure_rate"], row["tau"], row["auc"], row["detection"]]).all()


# --- evidence that the images degrade


def test_a_metric_is_judged_only_where_images_have_drifted() -> None:
    near, far = [40.0] * 20, [40.0 - step for step in range(20)]
    drift = {"still": near, "rotten": far, "unknown": far[:10], "short": far[:5]}
    every = {"still": rising, "rotten": falling, "unknown": falling, "short": falling[:6]}
    chains = judge(every, drift=drift, min_drift={"psnr": 30}).set_index("seed")
    assert chains["left_out"].dropna().to_dict() == {"still": "drift psnr is 40 at step 20, wanted at most 30"}
    assert chains["not_judged"].dropna().to_dict() == {
        "short": "the chain ends at step 5, before step 10",
        "unknown": "drift psnr is not known at step 20",
    }
    assert chains["passes"].dropna().to_dict() == {"rotten": True}
    assert chains["drift_psnr"].dropna().to_dict() == {"still": 40, "rotten": 21}
    assert study_of(every, drift=drift, min_drift={"psnr": 30}).eligible.tolist() == [True, False, False, False]
    row = judge_metric(every, drift=drift, min_drift={"psnr": 30})
    assert (row["chains"], row["failures"], row["not_judged"], row["left_out"]) == (1, 0, 2, 1)
    del every["short"]
    # what is not known stands against a metric, what has nothing to see does not
    assert not judge_metric(every, drift=drift, min_drift={"psnr": 30})["consistent"]
    del every["unknown"]
    assert judge_metric(every, drift=drift, min_drift={"psnr": 30})["consistent"]
    assert not judge_metric(every, drift=drift)["consistent"]


@pytest.mark.parametrize(("higher_is_better", "bound", "kept"), [(True, 0.9, [0.5, 0.9]), (False, 0.9, [0.9, 0.95])])
def test_far_is_low_or_high_as_the_metric_has_it(higher_is_better: bool, bound: float, kept: list[float]) -> None:
    values = np.array([[0.5], [0.9], [0.95]])
    reasons = weigh({"d": values}, {"d": bound}, {"d": higher_is_better}, 0, 3).too_little
    assert values[reasons == np.array(None)].ravel().tolist() == kept


scores = st.lists(st.integers(-50, 50).map(float), min_size=21, max_size=21)


@given(scores)
def test_verdicts_do_not_change_under_increasing_transforms(values: list[float]) -> None:
    plain, cubed = judge({"a": values}), judge({"a": [value**3 + 2 * value - 7 for value in values]})
    for name in ("passes", "tau", "rho", "accuracy", "monotone", "detection", "auc"):
        assert plain[name].tolist() == pytest.approx(cubed[name].tolist())


@given(scores)
def test_turning_sign_and_direction_changes_nothing(values: list[float]) -> None:
    turned = judge({"a": [-value for value in values]}, higher_is_better=False)
    pd.testing.assert_frame_equal(judge({"a": values}), turned)


@given(scores, st.randoms())
def test_the_order_of_rows_does_not_matter(values: list[float], random: Any) -> None:
    images, rows, psnr = tables_of({"b": values, "a": falling, "c": rising[:9]}, {"a": falling[1:], "b": rising[1:]})
    plain = curves.build(images, {"m": rows}, {"m": True})
    orders = [random.sample(range(len(table)), len(table)) for table in (images, rows, psnr)]
    mixed_images, mixed_rows, mixed_psnr = (
        table.iloc[order] for table, order in zip((images, rows, psnr), orders, strict=True)
    )
    mixed = curves.build(mixed_images, {"m": mixed_rows}, {"m": True})
    pd.testing.assert_frame_equal(mixed.chains, plain.chains)
    assert (mixed.image_ids == plain.image_ids).all()
    np.testing.assert_array_equal(mixed.scores, plain.scores)
    drifts = curves.drift_along(plain, images, psnr), curves.drift_along(mixed, mixed_images, mixed_psnr)
    np.testing.assert_array_equal(drifts[0]["psnr"], drifts[1]["psnr"])


# --- the stage, on tables written by hand


def test_the_stage_writes_scalars_under_stable_names(scored: dict[str, Any]) -> None:
    assert main(["rank"]) == 0
    ranking = json.loads(paths.RANKING.read_text())
    counts = {"metrics": 4, "consistent": 1, "failed_scores": 0, "chains": 2, "simulated_chains": 2, "seeds": 2}
    counts |= {"left_out_chains": 0, "eligible_chains": 2, "ranked_seeds": 2}
    assert ranking["summary"].items() >= counts.items()
    fields = {"consistent": True, "failures": 0, "chains": 2, "not_judged": 0, "left_out": 0, "failed_scores": 0}
    fields |= {"tau": -1.0, "rho": -1.0, "accuracy": 1.0, "monotone": 1.0, "detection": 2.0, "auc": 1.0}
    assert ranking["ranking"]["niqe"].items() >= fields.items()
    assert ranking["ranking"]["niqe"].keys() == ranking["ranking"]["piqe"].keys()
    half = {"consistent": False, "failures": 1, "tau": 0.0, "accuracy": 0.5, "auc": 0.5, "auc_within": 0.5}
    assert ranking["ranking"]["piqe"].items() >= half.items()
    none = {"consistent": False, "failures": 2, "tau": 1.0, "accuracy": 0.0, "auc": 0.0, "detection": None}
    assert ranking["ranking"]["entropy"].items() >= none.items()
    assert all(
        isinstance(value, bool | int | float | None) for row in ranking["ranking"].values() for value in row.values()
    )
    subset = {"metrics": 4, "images": 8, "seeds": 2, "images_without_all_scores": 0, "auc": 1.0, "gain": 0.0}
    assert ranking["subset"].items() >= subset.items() and ranking["subset"]["best_single"] == "brisque"
    assert pd.read_csv(paths.VERDICTS_TABLE)["metric"].tolist() == ["niqe", "piqe", "brisque", "entropy"]
    curve = pd.read_csv(paths.curve("niqe"))
    assert curve["step"].tolist() == [0, 1, 2, 3]
    assert curve["change"].tolist() == pytest.approx(
        [1 / np.std([1, 2, 3, 4]) * (1 - step) for step in range(4)], abs=1e-5
    )


def test_the_tables_are_tidy(scored: dict[str, Any]) -> None:
    scored["ranking"]["min_drift"] = {"psnr": 27}
    paths.PARAMS.write_text(json.dumps(scored))
    assert main(["rank"]) == 0
    failures = pd.read_csv(paths.FAILURES_BY_SEED_TABLE)
    assert failures.columns.tolist() == [
        *("metric", "campaign", "seed", "chains", "failures", "not_judged", "left_out", "failure_rate")
    ]
    piqe = failures[failures["metric"] == "piqe"].set_index("seed")
    assert piqe["chains"].tolist() == [0, 1] and piqe["left_out"].tolist() == [1, 0]  # psnr 28 and 25 at step 3
    assert piqe["failures"].tolist() == [0, 1] and len(failures) == 4 * 2
    chains = pd.read_csv(paths.CHAINS_TABLE).set_index(["metric", "seed"])
    assert chains.loc[("niqe", "a"), "left_out"] == "drift psnr is 28 at step 3, wanted at most 27"
    assert chains.loc[("niqe", "b"), "drift_psnr"] == 25 and len(chains) == 4 * 2
    redundancy = pd.read_csv(paths.REDUNDANCY_TABLE).set_index(["metric", "other"])["rho"]
    assert redundancy["niqe", "niqe"] == pytest.approx(1) and redundancy["niqe", "entropy"] == pytest.approx(-1)
    assert pd.read_csv(paths.RANKS_TABLE).columns.tolist() == ["metric", "average_rank"]
    long = pd.read_parquet(paths.CHAIN_CURVES_TABLE)
    assert len(long) == 4 * 8 and long["change"].notna().all()
    written = {path.name for path in paths.RANKING_TABLES.iterdir()}
    names = ("verdicts", "chains", "failures", "ranks", "redundancy", "subset")
    assert written == {*(f"{name}.csv" for name in names), "chain_curves.parquet"}
    assert json.loads(paths.RANKING.read_text())["summary"]["left_out_chains"] == 1
    assert json.loads(paths.RANKING.read_text())["subset"]["auc"] is None  # one seed is left: none to judge on


def test_equal_tables_give_equal_bytes_and_another_random_state_other_intervals(
    scored: dict[str, Any], set_params: Any
) -> None:
    def outputs() -> dict[str, bytes]:
        assert main(["rank"]) == 0
        return {str(path): path.read_bytes() for path in paths.RANKING.parent.rglob("*") if path.is_file()}

    first = outputs()
    assert outputs() == first
    scored["ranking"]["bootstrap"] = 100
    set_params(scored)
    # two seeds: the figures stay, as only what is drawn has changed
    changed = {name for name, content in outputs().items() if content != first[name]}
    assert changed <= {str(paths.VERDICTS_TABLE), str(paths.RANKING)}


def test_outputs_are_what_the_stage_writes(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    outputs = stage.outputs(params.load())
    assert not paths.RANKING.parent.exists() and capsys.readouterr().out == ""
    assert main(["rank"]) == 0
    written = {path: path.read_bytes() for path in paths.RANKING.parent.rglob("*") if path.is_file()}
    assert written == outputs and capsys.readouterr().out == "4 metrics judged; consistent: niqe\n"


def test_a_subset_of_metrics_leaves_no_trace_of_the_others(scored: dict[str, Any], set_params: Any) -> None:
    assert main(["rank"]) == 0
    scored["ranking"]["metrics"] = ["piqe", "niqe"]
    set_params(scored)
    assert main(["rank"]) == 0
    assert set(json.loads(paths.RANKING.read_text())["ranking"]) == {"niqe", "piqe"}
    assert {file.name for file in paths.CURVES.iterdir()} == {"niqe.csv", "piqe.csv", "psnr.csv"}


def test_scores_of_a_strange_scorer_are_refused(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    rows = tables.read(paths.scores("niqe"), tables.SCORES).assign(scorer_id="another")
    tables.write(paths.scores("niqe"), tables.SCORES, rows)
    assert main(["rank"]) == 2
    assert "scores of an unknown scorer another" in capsys.readouterr().err
    assert not paths.RANKING.exists()


def test_doubled_rows_are_refused(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    rows = tables.read(paths.scores("niqe"), tables.SCORES)
    tables.write(paths.scores("niqe"), tables.SCORES, pd.concat([rows, rows.iloc[[2]].assign(score=7.0)]))
    assert main(["rank"]) == 2
    assert "data/scores/niqe.parquet: two scores of image a2…; run `dvc repro score`." in capsys.readouterr().err
    images = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, pd.concat([images, images.iloc[[5]].assign(image_id="z")]))
    assert main(["rank"]) == 2
    assert "data/lineage/images.parquet: two images at one step, the first b/1.png;" in capsys.readouterr().err
    assert not paths.RANKING.exists()


def test_a_metric_without_a_scorer_is_refused(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    rows = tables.read(paths.SCORERS_TABLE, tables.SCORERS)
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, rows[rows["metric"] != "piqe"])
    assert main(["rank"]) == 2
    assert "data/scores/scorers.parquet: no row for piqe; run `dvc repro score`." in capsys.readouterr().err


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
    assert "1 scores by niqe are missing without a reason, the first of image a0" in capsys.readouterr().err
    assert not paths.RANKING.exists()


def test_drift_that_decides_is_not_passed_over(
    scored: dict[str, Any], set_params: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    scored["ranking"]["min_drift"] = {"psnr": 30}
    set_params(scored)
    drift = tables.read(paths.DRIFT_TABLE, tables.DRIFT)
    tables.write(paths.DRIFT_TABLE, tables.DRIFT, drift[drift["image_id"] != "b3"])
    assert main(["rank"]) == 2
    assert "1 scores by psnr are missing without a reason, the first of image b3" in capsys.readouterr().err
    reason = {"image_id": "b3", "reference_id": "b0", "metric": "psnr", "reason": "no luck", "scorer_id": "s-psnr"}
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, [reason])
    assert main(["rank"]) == 0
    assert json.loads(paths.RANKING.read_text())["ranking"]["niqe"]["not_judged"] == 1
    scorers = tables.read(paths.SCORERS_TABLE, tables.SCORERS)
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, scorers[scorers["metric"] != "psnr"])
    assert main(["rank"]) == 2
    assert "data/scores/scorers.parquet: no row for psnr; run `dvc repro score`." in capsys.readouterr().err


def test_failures_are_counted_in_each_campaign_and_seeds_stay_one(scored: dict[str, Any]) -> None:
    """A second campaign on the same seeds, in which one chain is the same images and one ends early."""
    images = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    again = images[(images["seed"] == "a") | (images["step"] < 3)].assign(campaign="other")
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, pd.concat([images, again]))
    assert main(["rank"]) == 0
    counted = pd.read_csv(paths.FAILURES_BY_SEED_TABLE).set_index(["metric", "campaign", "seed"])
    assert counted.loc[("piqe", "other", "a"), ["chains", "failures", "not_judged"]].tolist() == [1, 0, 0]
    assert counted.loc[("piqe", "other", "b"), ["chains", "failures", "not_judged"]].tolist() == [0, 0, 1]
    assert counted.loc[("piqe", "simulated-replica", "b"), ["chains", "failures"]].tolist() == [1, 1]
    ranking = json.loads(paths.RANKING.read_text())
    assert (ranking["summary"]["chains"], ranking["summary"]["seeds"]) == (4, 2)
    assert pd.read_csv(paths.CHAINS_TABLE)["drift_psnr"].dropna().tolist() == [28, 28, 25] * 4


def test_missing_tables_are_told(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    paths.scores("piqe").unlink()
    assert main(["rank"]) == 2
    assert "data/scores/piqe.parquet: no such table; make it with `dvc repro`" in capsys.readouterr().err


# --- curves over chains


def add_drift(metric: str, higher_is_better: bool, scores: dict[str, float]) -> None:
    scorers = tables.read(paths.SCORERS_TABLE, tables.SCORERS)
    row = {"scorer_id": f"s-{metric}", "metric": metric, "higher_is_better": higher_is_better}
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, [*tables.each(scorers), row])
    drift = tables.read(paths.DRIFT_TABLE, tables.DRIFT)
    rows = [
        {"image_id": image, "reference_id": f"{image[0]}0", "metric": metric, "score": score}
        for image, score in scores.items()
    ]
    tables.write(paths.DRIFT_TABLE, tables.DRIFT, [*tables.each(drift), *rows])


def test_no_drift_curve_can_take_the_place_of_a_metrics() -> None:
    assert not DRIFT_METRICS.keys() & METRICS.keys()


@pytest.mark.parametrize("kind", ["std", "iqr", "range"])
def test_curves_of_drift_fall_with_it_in_units_of_its_own_spread(
    scored: dict[str, Any], set_params: Any, kind: str
) -> None:
    gmsd = {"a1": 0.1, "a2": 0.2, "a3": 0.4, "b1": 0.1, "b2": 0.3, "b3": 0.4}  # lower is closer to the seed
    add_drift("gmsd", False, gmsd)
    scored["ranking"]["spread"] = kind
    set_params(scored)
    assert main(["rank"]) == 0
    unit = {"std": np.std, "range": np.ptp, "iqr": lambda of: np.subtract(*np.percentile(of, [75, 25]))}[kind]
    # psnr is 40 - 4 step and 40 - 5 step
    changes = {"psnr": [[-4, -8], [-5, -10]], "gmsd": [[-0.1, -0.3], [-0.2, -0.3]]}
    values = {"psnr": [36, 32, 28, 35, 30, 25], "gmsd": list(gmsd.values())}
    for metric, of_chains in changes.items():
        curve = pd.read_csv(paths.curve(metric))
        assert curve.columns.tolist() == ["step", "change", "lowest", "highest", "low", "high"]
        assert curve["step"].tolist() == [1, 2, 3]  # no image drifts from itself
        expected = np.c_[[0, 0], of_chains] / unit(values[metric])
        assert curve["change"].tolist() == pytest.approx(expected.mean(axis=0), rel=1e-5)
        assert curve["lowest"].tolist() == pytest.approx(expected.min(axis=0), rel=1e-5)
        assert curve["highest"].tolist() == pytest.approx(expected.max(axis=0), rel=1e-5)
        assert curve[["low", "high"]].isna().all(axis=None)  # two seeds


def test_bands_are_of_the_chains_that_count_and_the_resamples_all_share(scored: dict[str, Any]) -> None:
    """Eight seeds, the last too short to count, two without a score of niqe at step 0."""
    images = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    of_a = images[images["seed"] == "a"]
    every = [of_a.assign(seed=name, image_id=of_a["image_id"].str.replace("a", name)) for name in "abcdefgh"]
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, pd.concat(every)[:-1])
    values = np.random.default_rng(0).normal(size=(2, 8, 4)).round(2)
    cells = [(row, step, f"{name}{step}") for (row, name), step in itertools.product(enumerate("abcdefgh"), range(4))]
    for metric in ("niqe", "piqe", "entropy", "brisque"):
        rows = [
            {"image_id": image, "metric": metric, "score": values[0, row, step], "scorer_id": f"s-{metric}"}
            for row, step, image in cells
        ]
        tables.write(paths.scores(metric), tables.SCORES, rows)
    for image in ("c0", "d0"):
        drop_score("niqe", image)
    failed = [{"image_id": image, "metric": "niqe", "reason": "flat", "scorer_id": "s-niqe"} for image in ("c0", "d0")]
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, failed)
    tables.write(paths.DRIFT_TABLE, tables.DRIFT, [])
    add_drift("gmsd", False, {image: values[1, row, step] for row, step, image in cells if step})
    assert main(["rank"]) == 0
    weights = bootstrap.resample(np.arange(7), scored["ranking"]["bootstrap"], scored["ranking"]["random_state"])

    def check(metric: str, scores: np.ndarray, spread: float) -> pd.DataFrame:
        curve = pd.read_csv(paths.curve(metric)).set_index("step")
        for step, found in curve.iterrows():
            change = (scores[:7, 1] - scores[:7, step]) / spread  # lower is better
            drawn = np.array([np.repeat(change, row.astype(int)).mean() for row in weights])
            expected = [change.mean(), *bootstrap.interval(drawn, 7)]
            assert found[["change", "low", "high"]].tolist() == pytest.approx(expected, rel=1e-5, nan_ok=True)
        return curve

    counted = values[0].ravel()[:-1]  # also of the short chain
    assert check("piqe", values[0], counted.std()).index.tolist() == [0, 1, 2, 3]
    assert (check("gmsd", values[1], values[1][:, 1:].ravel()[:-1].std()).loc[1] == 0).all()
    niqe, piqe = (pd.read_csv(paths.curve(metric)) for metric in ("niqe", "piqe"))
    assert niqe["low"].isna().tolist() == niqe["high"].isna().tolist() == [True, False, False, False]
    assert niqe["change"].notna().all() and piqe.notna().all(axis=None)


def test_without_a_chain_that_counts_curves_show_all_without_a_band(scored: dict[str, Any], set_params: Any) -> None:
    assert main(["rank"]) == 0
    before = {metric: paths.curve(metric).read_bytes() for metric in ("niqe", "psnr")}
    scored["ranking"]["min_drift"] = {"psnr": 1}
    set_params(scored)
    assert main(["rank"]) == 0
    assert {metric: paths.curve(metric).read_bytes() for metric in before} == before


def test_drift_has_nothing_to_be_compared_with_at_step_0(scored: dict[str, Any], set_params: Any) -> None:
    scored["ranking"]["baseline_step"] = 0
    set_params(scored)
    assert main(["rank"]) == 0
    assert paths.curve("psnr").read_text() == "step,change,lowest,highest,low,high\n"
    assert pd.read_csv(paths.curve("niqe"))["step"].tolist() == [0, 1, 2, 3]


def test_drift_that_is_drawn_is_not_passed_over(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    drift, scorers = (
        tables.read(*of) for of in ((paths.DRIFT_TABLE, tables.DRIFT), (paths.SCORERS_TABLE, tables.SCORERS))
    )
    tables.write(paths.DRIFT_TABLE, tables.DRIFT, drift[drift["image_id"] != "b3"])
    assert main(["rank"]) == 2
    assert "1 scores by psnr are missing without a reason, the first of image b3" in capsys.readouterr().err
    tables.write(paths.DRIFT_TABLE, tables.DRIFT, drift)
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, scorers[scorers["metric"] != "psnr"])
    assert main(["rank"]) == 2
    assert "data/scores/scorers.parquet: no row for psnr; run `dvc repro score`." in capsys.readouterr().err
