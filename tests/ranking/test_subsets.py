"""Subsets of metrics: ensembles on unseen seeds, and a search that does not flatter its winner."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from banana100 import paths
from banana100.cli import main
from banana100.lineage import tables
from banana100.ranking import ensemble, subsets
from banana100.ranking.study import Study
from benchmarks.ranking.synthetic import World, as_study

SEEDS, REPEATS, STEPS = 6, 2, 20


def study_of(*metrics: np.ndarray, resamples: int = 200) -> Study:
    return as_study(np.stack(metrics), REPEATS, resamples, 1)


def normal(random: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(random).standard_normal(shape)


chains = SEEDS * REPEATS
content = np.cumsum(normal(1, chains, STEPS + 1), axis=1) * 4  # wanders along each chain, drowning the rot
rot = -np.arange(STEPS + 1) * np.ones((chains, 1)) / 4
noise = [normal(index, chains, STEPS + 1) for index in range(2, 8)]


def test_two_metrics_that_are_blind_alone_see_together() -> None:
    # one sees the rot through changing content, the other the content only: their difference is the rot
    study = study_of(rot + content, content + noise[0] / 10)
    found = subsets.judge(study, subsets.gather(study), [0, 1])
    assert found is not None
    assert found.auc.value > 0.94 and found.best_single_auc.value < 0.9
    assert found.gain.value == pytest.approx(found.auc.value - found.best_single_auc.value)
    assert found.auc.low <= found.auc.value <= found.auc.high <= 1
    assert found.gain.low <= found.gain.value <= found.gain.high
    assert found.by_seed["seed"].tolist() == [f"s{seed:04d}" for seed in range(SEEDS)]
    assert found.by_seed["auc"].mean() == pytest.approx(found.auc.value)
    assert found.by_seed[found.best_single].mean() == pytest.approx(found.best_single_auc.value)


def test_the_auc_is_that_of_models_which_have_not_seen_the_seed() -> None:
    study = study_of(rot + noise[0], noise[1], rot / 2 + noise[2])
    given = subsets.gather(study)
    assert given.clean.sum() == chains * 2 and (~given.clean).sum() == chains * 16  # steps 0-1 and 5-20
    expected = []
    for seed in range(SEEDS):
        unseen = given.seed == seed
        scaler = StandardScaler().fit(given.features[~unseen])
        model = LogisticRegression(class_weight="balanced", tol=1e-8)
        model.fit(scaler.transform(given.features[~unseen]), given.clean[~unseen])
        values = model.decision_function(scaler.transform(given.features[unseen]))
        expected.append(roc_auc_score(given.clean[unseen], values))
    found = subsets.judge(study, given, [0, 1, 2])
    assert found is not None and found.by_seed["auc"].tolist() == pytest.approx(expected, abs=1e-3)
    one, two = subsets.leave_out(given, [0, 1, 2])
    assert one == pytest.approx(expected, abs=1e-3)
    assert np.isnan(np.diag(two)).all() and np.isfinite(two[~np.eye(SEEDS, dtype=bool)]).all()


def test_a_single_metric_does_as_its_logistic_regression() -> None:
    study = study_of(rot + noise[0], -rot + noise[1], noise[2], content)
    given = subsets.gather(study)
    found = subsets.judge(study, given, range(4))
    assert found is not None
    for column, metric in enumerate(study.curves.metrics):
        assert found.by_seed[metric].tolist() == pytest.approx(subsets.leave_out(given, [column])[0].tolist())


def test_a_model_turns_a_metric_that_always_errs() -> None:
    study = study_of(-rot + noise[0] / 10)
    found = subsets.judge(study, subsets.gather(study), [0])
    assert found is not None and found.auc.value > 0.95
    assert (found.gain.value, found.best_single) == (0, "m00")


def test_images_without_all_scores_and_seeds_without_both_classes_are_left_out() -> None:
    first, second = rot + noise[0], rot + noise[1]
    second[0, 6] = np.nan  # a degraded image of seed 0
    second[2:4, :2] = np.nan  # all clean images of seed 1
    second[4, 3] = np.nan  # neither clean nor degraded
    study = study_of(first, second)
    given = subsets.gather(study)
    assert given.dropped == 1 + 4
    assert given.seeds.tolist() == [0, 2, 3, 4, 5]
    assert (given.chain == 0).sum() == 2 + 15
    found = subsets.judge(study, given, [0, 1])
    assert found is not None and found.by_seed["seed"].tolist() == [f"s{seed:04d}" for seed in (0, 2, 3, 4, 5)]


def test_one_seed_is_none_to_judge_on() -> None:
    study = as_study((rot + noise[0])[None, :REPEATS], REPEATS, 100, 1)
    assert subsets.judge(study, subsets.gather(study), [0]) is None


def test_redundancy_is_the_rank_correlation() -> None:
    table = ensemble.redundancy(np.stack([rot, np.exp(rot), -rot, np.ones_like(rot)]), list("abcd"))
    assert table.loc["a"].tolist() == pytest.approx([1, 1, -1, np.nan], nan_ok=True)


def test_the_search_finds_the_pair_that_sees() -> None:
    study = study_of(noise[0], rot + content, noise[1], content + noise[2] / 10)
    found = subsets.search(study, subsets.gather(study), 2, 3)
    assert found.subsets == 6 and len(found.top) == 3
    assert found.top[0].metrics == ["m01", "m03"]
    assert [one.auc.value for one in found.top] == sorted((one.auc.value for one in found.top), reverse=True)
    assert found.chosen == {f"s{seed:04d}": ["m01", "m03"] for seed in range(SEEDS)}
    # the same pair won everywhere, so choosing costs nothing
    assert found.honest is not None and found.honest.value == pytest.approx(found.top[0].auc.value)


def test_among_blind_metrics_the_winner_is_flattered_and_the_nested_figure_is_not() -> None:
    gaps, honest = [], []
    for random in range(4):
        world = World(0, between_seeds=0, between_chains=0)
        aligned = world.draw(np.random.default_rng(random), metrics=7, seeds=SEEDS, repeats=REPEATS, steps=STEPS)
        study = as_study(aligned, REPEATS, 100, 1)
        found = subsets.search(study, subsets.gather(study), 2, 1)
        assert found.honest is not None
        gaps.append(found.top[0].auc.value - found.honest.value)
        honest.append(found.honest.value)
    assert min(gaps) >= 0 and np.mean(gaps) > 0.05
    assert np.mean(honest) == pytest.approx(0.5, abs=0.12)


# --- the command


@pytest.fixture
def scored(project: Any, small_params: dict[str, Any]) -> dict[str, Any]:
    """Three seeds of one repeat, steps 0-3, made by the simulator; only niqe sees the rot."""
    images, requests, rows = [], [], {metric: [] for metric in ("brisque", "entropy", "niqe", "piqe")}
    for seed in "abc":
        for step in range(4):
            image_id = f"{seed}{step}"
            image = {"image_id": image_id, "path": image_id, "bytes": 1, "width": 1, "height": 1, "mode": "RGB"}
            image |= {"campaign": "simulated-replica", "seed": seed, "repeat": 1, "step": step}
            images.append(image | {"request_id": f"r{image_id}" if step else None})
            requests.append({"request_id": f"r{image_id}", "backend": "simulated"})
            for index, (metric, table) in enumerate(rows.items()):
                score = 5.0 + step if metric == "niqe" else float(normal(index * 100 + ord(seed) + step, 1)[0])
                table.append({"image_id": image_id, "metric": metric, "score": score, "scorer_id": f"s-{metric}"})
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, images)
    tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, requests)
    scorers = [{"scorer_id": f"s-{m}", "metric": m, "higher_is_better": m == "entropy"} for m in rows]
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, scorers)
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, [])
    tables.write(paths.DRIFT_TABLE, tables.DRIFT, [])
    for metric, table in rows.items():
        tables.write(paths.scores(metric), tables.SCORES, table)
    return small_params


def test_the_command_prints_the_best_and_what_the_first_place_is_worth(
    scored: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["subsets", "--size", "1", "--top", "2"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""  # no progress bar where there is no terminal
    lines = captured.out.splitlines()
    assert lines[0].startswith("4 subsets of 1 of 4 metrics, on 12 simulated images of 3 seeds (0 images left out")
    first, second = (line.split() for line in lines if line[:1] in {"1", "2"})
    assert first[1:3] == ["niqe", "1.000"] and "(fewer than 6 seeds)" in " ".join(first)
    assert float(second[2]) <= 1
    assert "picked on the seeds that its AUC is from, which flatters it" in captured.out
    assert "nested cross-validation), the best subsets reach 1.000 (fewer than 6 seeds): niqe (3x)." in captured.out
    assert main(["subsets", "--size", "1", "--top", "2"]) == 0
    assert capsys.readouterr().out == captured.out


def test_the_only_subset_was_not_picked(scored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["subsets", "--size", "4"]) == 0
    shown = capsys.readouterr().out
    assert "1 subsets of 4 of 4 metrics" in shown and "flatters" not in shown and "Chosen" not in shown


def fail_all(metric: str) -> Callable[[], None]:
    def run() -> None:
        rows = tables.read(paths.scores(metric), tables.SCORES)
        tables.write(paths.scores(metric), tables.SCORES, [])
        reasons = rows.drop(columns="score").assign(reference_id=None, reason="no luck")
        tables.write(paths.FAILURES_TABLE, tables.FAILURES, reasons[tables.FAILURES.names])

    return run


def keep_seeds(*names: str) -> Callable[[], None]:
    def run() -> None:
        images = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
        tables.write(paths.IMAGES_TABLE, tables.IMAGES, images[images["seed"].isin(names)])

    return run


def test_with_two_seeds_there_is_no_third_to_check_on(
    scored: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    keep_seeds("a", "b")()
    assert main(["subsets"]) == 0
    assert "With two seeds there is no third to check the choice on." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "damage", "sentence"),
    [
        (["--size", "5"], None, "--size is 5; allowed: 1 to 4, the number of metrics in ranking.metrics."),
        (["--size", "0"], None, "--size is 0; allowed: 1 to 4"),
        (["--top", "0"], None, "--top is 0; allowed: a whole number of at least 1."),
        ([], keep_seeds("a"), "1 seeds have clean and degraded images that every metric scored; needed: 2"),
        (
            [],
            fail_all("piqe"),
            "0 seeds have clean and degraded images that every metric scored (failed: piqe on 12",
        ),
        ([], keep_seeds(), "0 seeds have clean and degraded images"),
        ([], lambda: paths.scores("niqe").unlink(), "data/scores/niqe.parquet: no such table; make it with"),
    ],
)
def test_what_cannot_be_searched_is_told_in_a_sentence(
    scored: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    damage: Callable[[], None] | None,
    sentence: str,
) -> None:
    if damage:
        damage()
    assert main(["subsets", *options]) == 2
    assert sentence in capsys.readouterr().err
