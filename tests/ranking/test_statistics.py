"""Every statistic of ranking, against constructed chains, textbooks, R, scipy and scikit-learn."""

from collections.abc import Callable
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sklearn.metrics import roc_auc_score

from banana100.ranking import bootstrap, curves, discrimination, order, significance, verdicts
from benchmarks.ranking.synthetic import World, as_study

STEPS = np.arange(21)
NAN = float("nan")

decay = 10.0 - STEPS / 4
inversion = decay[::-1]
flat = np.full(21, 3.0)
early_inversion = np.where(STEPS == 3, 100.0, decay)
ties = 10.0 - STEPS // 2  # every score stands twice, the last once


# --- along chains


@pytest.mark.parametrize(
    ("scores", "tau", "rho", "accuracy", "monotone", "detection"),
    [
        (decay, -1, -1, 1, 1, 2),
        (inversion, 1, 1, 0, 0, np.inf),
        (flat, 0, 0, 0.5, 0, np.inf),
        # step 3 outranks all: 17 later steps fall below it as they should, only steps 0-2 are ordered wrongly
        (early_inversion, -(210 - 2 * 3) / 210, None, (210 - 3) / 210, 19 / 20, 4),
        # 10 tied pairs of 210: tau-b = -200 / sqrt(200 * 210)
        (ties, -200 / np.sqrt(200 * 210), None, (200 + 5) / 210, 0.5, 2),
        ([5.0, 4.0], -1, -1, 1, 1, NAN),  # too short to detect anything
        ([5.0], NAN, NAN, NAN, NAN, NAN),
        ([], NAN, NAN, NAN, NAN, NAN),
        ([NAN, 5.0, NAN, 4.0, 3.0], -1, -1, 1, 1, 3),  # what is missing is left out
        ([NAN, NAN, 5.0], NAN, NAN, NAN, NAN, NAN),  # no clean band
        ([4.0, 6.0, 4.0, 3.0], None, None, None, None, 3),  # below the whole band, not at its edge
        ([4.0, 6.0, 3.0, 5.0], None, None, None, None, np.inf),  # it came back
        ([4.0, 6.0, 3.0, 5.0, 3.0, 2.0], None, None, None, None, 4),
    ],
)
def test_chains_with_known_answers(
    scores: Any, tau: float | None, rho: float | None, accuracy: float | None, monotone: float | None, detection: float
) -> None:
    for found, expected in (
        (order.kendall_tau(scores), tau),
        (order.spearman_rho(scores), rho),
        (order.pairwise_accuracy(scores), accuracy),
        (order.monotone_share(scores), monotone),
        (order.detection_step(scores, 1), detection),
    ):
        if expected is not None:
            assert found == pytest.approx(expected, nan_ok=True)


def test_rank_correlations_agree_with_r() -> None:
    # ?cor.test, after Hollander and Wolfe (1973), p. 185: tau 0.4444444; S = 48, so rho = 1 - 6 * 48 / (9 * 80)
    x = [44.4, 45.9, 41.9, 53.3, 44.7, 44.1, 50.7, 45.2, 60.1]
    y = [2.6, 3.1, 2.5, 5.0, 3.6, 4.0, 5.2, 2.8, 3.8]
    by_x = np.array(y)[np.argsort(x)]
    assert order.kendall_tau(by_x) == pytest.approx(0.4444444, abs=1e-7)
    assert order.spearman_rho(by_x) == pytest.approx(0.6)


@given(st.lists(st.integers(-999, 999), min_size=2, max_size=30, unique=True))
def test_without_ties_tau_follows_from_pairwise_accuracy(scores: list[int]) -> None:
    expected = 1 - 2 * order.pairwise_accuracy(scores)
    assert order.kendall_tau(scores) == pytest.approx(expected)


def test_tau_b_agrees_with_its_definition_under_ties() -> None:
    # Kendall 1945: (P - Q) / sqrt((n0 - n1)(n0 - n2)), worked out for one tie in y: 4 concordant, 1 discordant of 6
    assert order.kendall_tau([1.0, 3.0, 2.0, 3.0]) == pytest.approx((4 - 1) / np.sqrt(6 * 5))


some_score = st.integers(-20, 20).map(float) | st.sampled_from([0.0, NAN, np.inf])  # ties and gaps
some_chains = arrays(float, st.tuples(st.integers(1, 5), st.integers(0, 30)), elements=some_score)


@given(some_chains)
def test_rank_correlations_of_all_chains_are_scipys_of_each(aligned: np.ndarray) -> None:
    def expected(function: Callable[..., Any], scores: np.ndarray) -> float:
        known = np.flatnonzero(np.isfinite(scores))
        if len(known) < 2:
            return NAN
        return function(known, scores[known]).statistic if np.ptp(scores[known]) else 0.0

    taus, rhos = ([expected(f, scores) for scores in aligned] for f in (stats.kendalltau, stats.spearmanr))
    np.testing.assert_array_equal(order.kendall_tau(aligned), taus)
    assert order.spearman_rho(aligned) == pytest.approx(rhos, abs=1e-12, nan_ok=True)


@given(some_chains, st.integers(0, 30))
def test_figures_of_all_chains_follow_from_their_definitions(aligned: np.ndarray, clean_until: int) -> None:
    accuracies, shares, detections = [], [], []
    for scores in aligned:
        known = [(step, score) for step, score in enumerate(scores) if np.isfinite(score)]
        values = [score for _, score in known]
        pairs = list(combinations(values, 2))
        accuracies.append(np.mean([(b < a) + (b == a) / 2 for a, b in pairs]) if pairs else NAN)
        shares.append(np.mean([b < a for a, b in pairwise(values)]) if pairs else NAN)
        clean = [score for step, score in known if step <= clean_until]
        later = [(step, score) for step, score in known if step > clean_until]
        lasting = (
            step for index, (step, _) in enumerate(later) if all(score < min(clean) for _, score in later[index:])
        )
        detections.append(next(lasting, np.inf) if clean and later else NAN)
    np.testing.assert_array_equal(order.pairwise_accuracy(aligned), accuracies)
    np.testing.assert_array_equal(order.monotone_share(aligned), shares)
    np.testing.assert_array_equal(order.detection_step(aligned, clean_until), detections)


# --- clean against degraded


def roc_auc(clean: Any, degraded: Any, weights: tuple[Any, Any] | None = None) -> float:
    truth = np.r_[np.ones(len(clean)), np.zeros(len(degraded))]
    return float(
        roc_auc_score(truth, np.r_[clean, degraded], sample_weight=None if weights is None else np.r_[weights])
    )


chains = (
    st.integers(1, 5)
    .flatmap(
        lambda number: st.lists(
            st.lists(st.integers(-5, 5).map(float) | st.just(NAN), min_size=7, max_size=7),
            min_size=number,
            max_size=number,
        )
    )
    .map(np.array)
)


@given(chains, st.integers(0, 2**32 - 1))
def test_auc_is_that_of_scikit_learn_under_any_weights(aligned: np.ndarray, random: int) -> None:
    weights = np.random.default_rng(random).integers(0, 4, size=(3, len(aligned))).astype(float)
    weights[0] = 1
    counted = discrimination.count_wins(aligned, 1, 3)
    for row, found in zip(weights, discrimination.auc_across(counted, weights), strict=True):
        clean, degraded = aligned[:, :2], aligned[:, 3:]  # step 2 is neither
        of_clean, of_degraded = (np.repeat(row[:, None], part.shape[1], axis=1) for part in (clean, degraded))
        clean_known = np.isfinite(clean) & (of_clean > 0)
        degraded_known = np.isfinite(degraded) & (of_degraded > 0)
        if not clean_known.any() or not degraded_known.any():
            assert np.isnan(found)
            continue
        both = of_clean[clean_known], of_degraded[degraded_known]
        assert found == pytest.approx(roc_auc(clean[clean_known], degraded[degraded_known], both))


@given(chains)
def test_auc_of_each_chain_is_that_of_scikit_learn(aligned: np.ndarray) -> None:
    expected = []
    for scores in aligned:
        clean, degraded = (part[np.isfinite(part)] for part in (scores[:2], scores[3:]))
        expected.append(roc_auc(clean, degraded) if len(clean) and len(degraded) else NAN)
    found = discrimination.auc_of_chains(discrimination.count_wins(aligned, 1, 3))
    assert found == pytest.approx(expected, nan_ok=True)


def test_auc_within_is_the_mean_over_seeds() -> None:
    # two seeds at far apart levels; each falls, but the clean images of one lie below the degraded ones of the other
    aligned = np.array([[2.0, 2.0, 1.0, 1.0], [2.0, 2.0, 3.0, 1.0], [12.0, 12.0, 11.0, 11.0]])
    seeds = np.array([0, 0, 1])
    counted = discrimination.count_wins(aligned, 1, 2)
    ones = np.ones((1, 3))
    expected = [roc_auc([2, 2, 2, 2], [1, 1, 3, 1]), 1.0]
    assert discrimination.auc_of_seeds(counted, seeds, ones)[0] == pytest.approx(expected)
    assert discrimination.auc_within(counted, seeds, ones) == pytest.approx(np.mean(expected))
    assert discrimination.auc_across(counted, ones) < 0.8
    # drawn twice, a seed counts twice; not drawn, it does not count
    twice = np.array([[2.0, 2.0, 1.0], [1.0, 1.0, 0.0]])
    weighted = [(2 * expected[0] + expected[1]) / 3, expected[0]]
    assert discrimination.auc_within(counted, seeds, twice) == pytest.approx(weighted)


def test_effect_size_is_cohens_d() -> None:
    generator = np.random.default_rng(0)
    aligned = generator.normal(size=(6, 12)) + 1e6
    aligned[:, 5:] -= 1.5
    aligned[2, 7] = NAN
    weights = np.array([np.ones(6), [2, 0, 1, 3, 0, 1]])
    for row, found in zip(weights, discrimination.effect_size(aligned, 1, 5, weights), strict=True):
        drawn = np.repeat(aligned, row.astype(int), axis=0)
        clean, degraded = drawn[:, :2].ravel(), drawn[:, 5:].ravel()
        degraded = degraded[np.isfinite(degraded)]
        squares = (len(clean) - 1) * clean.var(ddof=1) + (len(degraded) - 1) * degraded.var(ddof=1)
        pooled = np.sqrt(squares / (len(clean) + len(degraded) - 2))
        assert found == pytest.approx((clean.mean() - degraded.mean()) / pooled, rel=1e-6)
    assert discrimination.effect_size(np.full((2, 9), 3.3), 1, 5, np.ones((1, 2))) == 0
    steps = np.where(np.arange(9) < 5, 7.3, 1.1)[None]
    assert discrimination.effect_size(steps, 1, 5, np.ones((1, 1))) == np.inf
    assert discrimination.effect_size(-steps, 1, 5, np.ones((1, 1))) == -np.inf
    for unit in (1e-13, 1e13):
        scaled = discrimination.effect_size(aligned[:, :] * unit - 1e6 * unit, 1, 5, weights)
        assert scaled == pytest.approx(discrimination.effect_size(aligned, 1, 5, weights), rel=1e-6)
    assert np.isnan(discrimination.effect_size(aligned[:, :4], 1, 5, weights)).all()


# --- uncertainty


def test_seeds_are_drawn_with_all_their_chains() -> None:
    seeds = np.array([0, 0, 1, 2, 2, 2])
    weights = bootstrap.resample(seeds, 500, 7)
    assert weights.shape == (500, 6)
    assert (weights[:, 0] == weights[:, 1]).all() and (weights[:, 3:5] == weights[:, 5:]).all()
    assert (weights[:, [0, 2, 3]].sum(axis=1) == 3).all()
    assert weights.mean(axis=0) == pytest.approx(1, abs=0.15)
    assert (weights == bootstrap.resample(seeds, 500, 7)).all()
    assert (weights != bootstrap.resample(seeds, 500, 8)).any()


def test_the_interval_of_a_mean_is_scipys_at_the_expanded_level() -> None:
    # with one chain a seed this is the ordinary bootstrap; 10 seeds: tails of pnorm(-sqrt(10/9) * 2.262157) = 0.008549
    values = np.random.default_rng(0).gamma(2.0, size=10)
    draws = bootstrap.weighted_mean(values, bootstrap.resample(np.arange(10), 20_000, 1))
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, confidence_level=1 - 2 * 0.008549, method="percentile", rng=2
    ).confidence_interval
    assert bootstrap.interval(draws, 10) == pytest.approx(tuple(expected), rel=0.03)


def test_few_seeds_give_no_interval() -> None:
    assert np.isnan(bootstrap.interval(np.array([1.0, 2.0]), 5)).all()
    assert np.isfinite(bootstrap.interval(np.array([1.0, 2.0]), 6)).all()
    assert np.isnan(bootstrap.interval(np.array([NAN, NAN]), 5)).all()


@given(st.lists(st.tuples(st.integers(0, 30) | st.just(np.inf), st.integers(0, 3)), min_size=1, max_size=8))
def test_weighted_mean_and_median_count_values_as_often_as_they_weigh(drawn: list[tuple[float, int]]) -> None:
    values = np.array([value for value, _ in drawn], dtype=float)
    weights = np.array([[weight for _, weight in drawn]], dtype=float)
    repeated = np.sort(np.repeat(values, weights[0].astype(int)))
    median = repeated[(len(repeated) - 1) // 2] if len(repeated) else NAN
    assert bootstrap.weighted_median(np.r_[values, NAN], np.c_[weights, 1])[0] == pytest.approx(median, nan_ok=True)
    finite = np.where(np.isinf(values), NAN, values)
    repeated = repeated[np.isfinite(repeated)]
    mean = repeated.mean() if len(repeated) else NAN
    assert bootstrap.weighted_mean(finite, weights)[0] == pytest.approx(mean, nan_ok=True)


# --- curves over chains

SEEDS = np.array([0, 0, 1, 2, 3, 4, 4, 5, 6, 6])

gappy_changes = arrays(float, (10, 3), elements=st.integers(-40, 40).map(lambda x: x / 8) | st.just(NAN))


@given(gappy_changes, st.integers(0, 99))
def test_the_band_of_a_curve_is_that_of_drawing_chains_one_by_one(changes: np.ndarray, random: int) -> None:
    weights = bootstrap.resample(SEEDS, 60, random)
    curve = curves.over_chains(changes, SEEDS, weights).set_index("step")
    assert curve.columns.tolist() == ["change", "lowest", "highest", "low", "high"]
    assert curve.index.tolist() == [step for step in range(3) if not np.isnan(changes[:, step]).all()]
    for step, found in curve.iterrows():
        scored = ~np.isnan(changes[:, step])
        values, seeds = changes[scored, step], len(set(SEEDS[scored]))
        assert found[["change", "lowest", "highest"]].tolist() == pytest.approx(
            [values.mean(), values.min(), values.max()]
        )
        if seeds < 6:
            assert np.isnan(found[["low", "high"]]).all()
            continue
        drawn = [np.repeat(values, row.astype(int)) for row in weights[:, scored]]
        means = sorted(sample.mean() for sample in drawn if len(sample))
        tail = stats.norm.cdf(np.sqrt(seeds / (seeds - 1)) * stats.t.ppf(0.025, seeds - 1))
        places = [int(np.ceil(quantile * len(means))) - 1 for quantile in (tail, 1 - tail)]
        assert found[["low", "high"]].tolist() == pytest.approx([means[place] for place in places])


def test_where_chains_have_ended_the_curve_goes_on_without_a_band() -> None:
    changes = np.tile(1.0 - STEPS, (10, 1)) * np.arange(1, 11)[:, None]
    changes[SEEDS == 0, 15:] = NAN  # six seeds are left
    changes[SEEDS == 1, 18:] = NAN  # and then five
    curve = curves.over_chains(changes, SEEDS, bootstrap.resample(SEEDS, 200, 1))
    assert curve["step"].tolist() == STEPS.tolist() and curve["change"].notna().all()
    assert curve["low"].isna().tolist() == curve["high"].isna().tolist() == (STEPS >= 18).tolist()
    assert (curve.loc[1, ["change", "lowest", "highest", "low", "high"]] == 0).all()  # the baseline
    banded = curve[2:18]
    for lower, upper in pairwise(["lowest", "low", "change", "high", "highest"]):
        assert (banded[lower] < banded[upper]).all()


def test_a_curve_whose_chains_are_never_drawn_has_no_band() -> None:
    curve = curves.over_chains(np.tile(1.0 - STEPS, (10, 1)), SEEDS, np.zeros((200, 10)))
    assert curve["change"].tolist() == (1 - STEPS).tolist() and curve[["low", "high"]].isna().all(axis=None)


# --- tests


def test_the_sign_test_agrees_with_r() -> None:
    assert significance.sign_test([-1] * 8 + [1] * 2) == pytest.approx(0.0546875)  # binom.test(8, 10, alt = "greater")
    assert significance.sign_test([-1] * 8 + [0] * 2) == pytest.approx(0.0546875)  # a zero counts against
    assert significance.sign_test([-1] * 6 + [NAN]) == pytest.approx(1 / 64)
    assert np.isnan(significance.sign_test([NAN]))


@given(st.lists(st.integers(-9, 9).map(lambda value: value / 4), min_size=1, max_size=8))
def test_the_permutation_test_tries_all_flips(values: list[float]) -> None:
    means = [np.mean(np.array(values) * flips) for flips in product([-1, 1], repeat=len(values))]
    expected = np.mean(np.array(means) <= np.mean(values) + 1e-12) if any(values) else 1.0
    assert significance.permutation_test(values, 0) == pytest.approx(expected)


def test_with_many_seeds_flips_are_drawn_and_repeatable() -> None:
    values = np.random.default_rng(0).normal(-0.2, size=40)
    found = significance.permutation_test(values, 3)
    assert found == significance.permutation_test(values, 3)
    # near the t-test, which it approaches as values get more
    assert found == pytest.approx(stats.ttest_1samp(values, 0, alternative="less").pvalue, abs=0.02)


def test_holm_agrees_with_r() -> None:
    # p.adjust(c(0.01, 0.02, 0.03, 0.005), "holm")
    assert significance.holm([0.01, NAN, 0.02, 0.03, 0.005]) == pytest.approx(
        [0.03, NAN, 0.04, 0.04, 0.02], nan_ok=True
    )
    assert np.isnan(significance.holm([NAN])).all()


def test_friedman_agrees_with_r() -> None:
    # ?friedman.test, rounding times of Hollander and Wolfe (1973), p. 140: chi-squared 11.143, p = 0.003805
    times = """5.40 5.50 5.55 5.85 5.70 5.75 5.20 5.60 5.50 5.55 5.50 5.40 5.90 5.85 5.70 5.45 5.55 5.60 5.40 5.40 5.35
    5.45 5.50 5.35 5.25 5.15 5.00 5.85 5.80 5.70 5.25 5.20 5.10 5.65 5.55 5.45 5.60 5.35 5.45 5.05 5.00 4.95 5.50 5.50
    5.40 5.45 5.55 5.50 5.55 5.55 5.35 5.45 5.50 5.55 5.50 5.45 5.25 5.65 5.60 5.40 5.70 5.65 5.55 6.30 6.30 6.25"""
    table = np.array(times.split(), dtype=float).reshape(22, 3).T
    assert significance.compare(table).p == pytest.approx(0.003805, abs=1e-6)


def test_the_critical_difference_is_demsars() -> None:
    # Demsar 2006, JMLR 7, section 3.2.3: 4 classifiers on 14 data sets, q = 2.569, CD = 1.25
    values = np.random.default_rng(0).normal(size=(4, 14))
    found = significance.compare(values)
    assert found.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=2e-3)
    assert found.average_ranks == pytest.approx(stats.rankdata(values, axis=0).mean(axis=1))


def test_metrics_and_seeds_that_cannot_be_compared_are_left_out() -> None:
    values = np.array([[1.0, 1.0, NAN], [2.0, 2.0, 2.0], [NAN, NAN, NAN], [2.0, 2.0, 1.0]])
    found = significance.compare(values)
    assert found.seeds == 2 and found.average_ranks == pytest.approx([1, 2.5, NAN, 2.5], nan_ok=True)
    # a metric that fails on most seeds does not end the comparison of the others
    failing = np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [0.0, NAN, NAN]])
    found = significance.compare(failing)
    assert found.seeds == 3 and found.average_ranks == pytest.approx([1, 2, NAN], nan_ok=True)
    alone = significance.compare(values[:1])
    assert alone.average_ranks == pytest.approx([1]) and np.isnan(alone.p)
    nothing = significance.compare(np.full((2, 0), NAN))
    assert nothing.seeds == 0 and np.isnan(nothing.average_ranks).all()
    assert significance.compare(np.ones((3, 4))).p == 1


# --- a metric's figures as a whole


def figures(aligned: np.ndarray, repeats: int = 2) -> Any:
    study = as_study(aligned, repeats, 200, 1)
    along = verdicts.along_chains(study)
    compared = significance.compare(verdicts.tau_of_seeds(study, along))
    return verdicts.of_metrics(study, along, compared).set_index("metric").sort_index()


BY_ORDER = [name for name in verdicts.ESTIMATES if name != "effect"]
EVERYTHING = [f"{name}{end}" for name in verdicts.ESTIMATES for end in ("", "_low", "_high")]


def draw(random: int) -> np.ndarray:
    """Scores of 2 metrics on 6 seeds of 2 chains, in quarters, so that ties occur and transforms are exact."""
    generator = np.random.default_rng(random)
    return np.round(World(-1.0).draw(generator, metrics=2, seeds=6, repeats=2, steps=20) * 4) / 4


@pytest.mark.parametrize("transform", [np.exp, lambda x: x**3 + 2 * x - 7, np.arctan])
@settings(max_examples=6)
@given(st.integers(0, 2**32 - 1))
def test_figures_that_count_order_stand_under_increasing_transforms(
    transform: Callable[[np.ndarray], np.ndarray], random: int
) -> None:
    scores = draw(random)
    plain, transformed = figures(scores), figures(transform(scores))
    for name in (name for name in EVERYTHING if not name.startswith("effect")):
        assert transformed[name].tolist() == pytest.approx(plain[name].tolist(), nan_ok=True), name
    for name in ("consistent", "failures", "p_permutation", "p_sign_holm", "average_rank"):
        assert transformed[name].tolist() == plain[name].tolist()


@settings(max_examples=6)
@given(st.integers(0, 2**32 - 1))
def test_effect_size_stands_under_a_change_of_unit(random: int) -> None:
    scores = draw(random)
    assert figures(scores * 8 + 100)["effect"].tolist() == pytest.approx(figures(scores)["effect"].tolist())


@settings(max_examples=6)
@given(st.integers(0, 2**32 - 1))
def test_turned_scores_give_the_opposite_answer(random: int) -> None:
    scores = draw(random)
    plain, turned = figures(scores), figures(-scores)
    assert (plain["seeds"] == 6).all()
    for name, middle in (("tau", 0), ("rho", 0), ("accuracy", 0.5), ("auc", 0.5), ("auc_within", 0.5), ("effect", 0)):
        assert turned[name].tolist() == pytest.approx((2 * middle - plain[name]).tolist()), name
        low = 2 * middle - plain[f"{name}_high"]
        # quantiles that occurred: the mirrored one may be the next of the resamples
        assert turned[f"{name}_low"].tolist() == pytest.approx(low.tolist(), abs=0.1), name


def test_a_failure_rate_without_spread_gets_the_exact_interval_of_the_seeds() -> None:
    table = figures(np.stack([np.tile(decay, (12, 1)), np.tile(inversion, (12, 1))]))
    falls, rises = table.to_dict("records")
    # binom.test(0, 6) and binom.test(6, 6) of R
    assert (falls["failure_rate"], falls["failure_rate_low"], falls["failure_rate_high"]) == pytest.approx(
        (0, 0, 0.4592581)
    )
    assert (rises["failure_rate"], rises["failure_rate_low"], rises["failure_rate_high"]) == pytest.approx(
        (1, 0.5407419, 1)
    )
    assert (falls["consistent"], rises["consistent"]) == (True, False)
    assert (falls["auc"], rises["auc"], falls["detected"], rises["detected"]) == (1, 0, 1, 0)
    assert (falls["detected_low"], rises["detected_high"]) == pytest.approx((0.5407419, 0.4592581))
    assert (falls["detection"], rises["detection"]) == (2, np.inf)
    assert falls["p_permutation"] == pytest.approx(1 / 64) and falls["p_permutation_holm"] == pytest.approx(2 / 64)
    assert rises["p_permutation"] == 1 and (falls["average_rank"], rises["average_rank"]) == (1, 2)


# --- do tests and intervals keep their promises? (the same, larger: python -m benchmarks.ranking --only calibration)


def test_under_the_null_few_are_rejected_and_intervals_cover_the_truth() -> None:
    from benchmarks.ranking.calibration import Design, coverage, rejections

    design = Design(seeds=8, repeats=1, steps=20)
    rejected = rejections(design, metrics=4, studies=600, random_state=1)
    assert set(rejected) == {"permutation, Holm", "sign, Holm", "Friedman"}
    for name, share in rejected.items():
        assert 0 <= share <= 0.05, name
    assert rejected["permutation, Holm"] > 0.01  # a test that never rejects would pass as well
    design = Design(seeds=10, repeats=2, steps=20)
    for world in (World(0), World(-1.5)):
        for name, share in coverage(design, world, studies=300, resamples=500, random_state=2).items():
            # a whole step covers more than it must
            assert 0.92 <= share <= (1.0 if name == "detection" else 0.98), (world, name)
