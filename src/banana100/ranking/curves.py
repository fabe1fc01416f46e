"""Scores as curves: one row for each metric, chain and step, turned so that higher means better."""

import pandas as pd

CHAIN = ["campaign", "seed", "repeat"]


def join(images: pd.DataFrame, scores: pd.DataFrame, scorers: pd.DataFrame) -> pd.DataFrame:
    """Give every image of every chain its scores.

    Args:
        images: the lineage table (columns of tables.IMAGES).
        scores: score tables of the metrics in question, stacked (columns of tables.SCORES).
        scorers: columns metric and higher_is_better.

    Returns:
        Columns metric, campaign, seed, repeat, step, score (as the metric gives it; NaN where it failed), aligned (the
        score with its sign turned where lower is better) and image_id, sorted by the first five.
    """
    steps = images[[*CHAIN, "step", "image_id"]].astype({"repeat": "int64", "step": "int64"})
    rows = steps.merge(scorers[["metric", "higher_is_better"]], how="cross")
    rows = rows.merge(scores[["image_id", "metric", "score"]], on=["image_id", "metric"], how="left")
    rows["aligned"] = rows["score"].where(rows["higher_is_better"].astype(bool), -rows["score"])
    columns = ["metric", *CHAIN, "step", "score", "aligned", "image_id"]
    return rows[columns].sort_values(columns[:5], ignore_index=True)


def add_change(curves: pd.DataFrame, baseline_step: int) -> pd.DataFrame:
    """Add the column change: how far the aligned score lies above the chain's at the baseline step.

    It is divided by the metric's spread, the standard deviation of its scores over all images of the data set, so that
    metrics of different ranges compare; -1 is one standard deviation worse than at the baseline. NaN where either
    score is missing; a metric that gives one score to all images has spread 0 and changes of 0.
    """
    keys = ["metric", *CHAIN]
    baseline = curves[curves["step"] == baseline_step].set_index(keys)["aligned"].rename("baseline")
    spread = curves.groupby("metric")["score"].std(ddof=0).rename("spread")
    joined = curves.join(baseline, on=keys).join(spread, on="metric")
    difference = joined["aligned"] - joined["baseline"]
    return curves.assign(change=difference / joined["spread"].where(joined["spread"] > 0, 1.0))


def over_chains(curves: pd.DataFrame) -> pd.DataFrame:
    """Columns metric, step and, over all chains, the mean change and the lowest and highest."""
    grouped = curves.groupby(["metric", "step"])["change"]
    return grouped.agg(change="mean", lowest="min", highest="max").reset_index()
