"""What the result rests on: the row tables of seeds, images, answers and scorers, and what follows from them."""

import json
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from banana100 import paths
from banana100.lineage import tables


@dataclass(frozen=True)
class Maker:
    """Who made images.

    Attributes:
        backend, model: who was asked.
        answered: the model version that says it answered, or an empty text.
        simulated: whether that is no image model.
        images: how many answers.
    """

    backend: str
    model: str
    answered: str
    simulated: bool
    images: int


@dataclass(frozen=True)
class Provenance:
    """The row tables (columns: see lineage/tables.py); `seeds` holds the chosen ones in their order."""

    seeds: pd.DataFrame
    seed_requests: pd.DataFrame
    images: pd.DataFrame
    requests: pd.DataFrame
    refusals: pd.DataFrame
    parked: pd.DataFrame
    scorers: pd.DataFrame
    failures: pd.DataFrame

    @cached_property
    def makers(self) -> list[Maker]:
        """Who made the replicas, and generated seeds, the busiest first."""
        columns = ["backend", "model", "model_answered"]
        asked = (
            pd.concat([self.requests[columns], self.seed_requests[columns]])
            .astype(object)
            .fillna({"model_answered": ""})
        )
        counted = (
            asked.value_counts().reset_index().sort_values(["count", *columns], ascending=[False, True, True, True])
        )
        return [
            Maker(backend, model, answered, tables.is_simulated(backend, answered), int(count))
            for backend, model, answered, count in counted.itertuples(index=False)
        ]

    @cached_property
    def archives(self) -> list[dict[str, str]]:
        """Where images come from that were made elsewhere: archive, origin, sha256 and licence, each once."""
        configs = self.requests.loc[self.requests["backend"] == "archive", "config"].unique()
        told = pd.DataFrame([json.loads(config) for config in configs])
        if told.empty:
            return []
        return (
            told[["archive", "origin", "sha256", "licence"]].drop_duplicates().sort_values("archive").to_dict("records")
        )

    @property
    def dates(self) -> tuple[str, str] | None:
        """The first and the last day on which a generator was asked; None where all are deterministic."""
        asked = pd.concat([rows["asked_at"].dropna() for rows in (self.requests, self.seed_requests, self.refusals)])
        return (asked.min()[:10], asked.max()[:10]) if len(asked) else None

    @cached_property
    def costs(self) -> pd.DataFrame:
        """What generators answered and refused, and what that costs.

        Returns:
            One row a campaign, and one for the seeds if they were generated; columns campaign (None for seeds), model,
            answers, refusals, parked (chains that end early), input_tokens, output_tokens, cost_usd (refusals
            included), unpaid_usd (what of it a simulated server answered), first, last (days, or None), simulated.
        """
        known = pd.concat([table[["request_id", "campaign"]] for table in (self.images, self.parked)]).dropna()
        campaign_of = known.sort_values("campaign").drop_duplicates("request_id").set_index("request_id")["campaign"]
        asked = pd.concat([self.requests.assign(refused=False), self.refusals.assign(refused=True)])
        asked["campaign"] = asked["request_id"].map(campaign_of)
        parked = self.parked.groupby("campaign").size()
        rows = [
            _cost(of) | {"campaign": campaign, "parked": int(parked.get(campaign, 0))}
            for campaign, of in asked.groupby("campaign")
        ]
        if len(self.seed_requests):
            rows.append(_cost(self.seed_requests.assign(refused=False)) | {"campaign": None, "parked": 0})
        return pd.DataFrame(rows, dtype=object)

    @property
    def refused(self) -> pd.DataFrame:
        """How often each reason was given for an answer without an image: finish_reason, detail, count."""
        reasons = self.refusals[["finish_reason", "detail"]].astype(object)
        return reasons.fillna("").value_counts().reset_index()

    @property
    def failed(self) -> pd.DataFrame:
        """How many images each metric could not score, and why: metric, reason, count."""
        return self.failures[["metric", "reason"]].astype(object).value_counts().reset_index()


def read() -> Provenance:
    """Read the row tables.

    Raises:
        UserError: one is missing or damaged.
    """
    seeds = tables.read(paths.SEED_TABLE, tables.SEEDS)
    return Provenance(
        seeds=seeds[seeds["chosen"]].sort_values("order"),
        seed_requests=tables.read(paths.SEED_REQUESTS_TABLE, tables.REQUESTS),
        images=tables.read(paths.IMAGES_TABLE, tables.IMAGES),
        requests=tables.read(paths.REQUESTS_TABLE, tables.REQUESTS),
        refusals=tables.read(paths.REFUSALS_TABLE, tables.REFUSALS),
        parked=tables.read(paths.PARKED_TABLE, tables.PARKED),
        scorers=tables.read(paths.SCORERS_TABLE, tables.SCORERS),
        failures=tables.read(paths.FAILURES_TABLE, tables.FAILURES),
    )


def simulated(asked: pd.DataFrame) -> pd.Series:
    """Which answers no image model gave, given columns backend and model_answered."""
    answered = asked["model_answered"].astype(object).where(asked["model_answered"].notna(), None)
    told = [tables.is_simulated(*maker) for maker in zip(asked["backend"], answered, strict=True)]
    return pd.Series(told, index=asked.index, dtype=bool)


def _cost(asked: pd.DataFrame) -> dict[str, object]:
    days = asked["asked_at"].dropna().str[:10]
    return {
        "model": ", ".join(sorted(set(asked["model"]))),
        "answers": int((~asked["refused"]).sum()),
        "refusals": int(asked["refused"].sum()),
        "input_tokens": int(asked["input_tokens"].sum()),
        "output_tokens": int(asked["output_tokens"].sum()),
        "cost_usd": float(asked["cost_usd"].sum()),
        "unpaid_usd": float(asked.loc[simulated(asked), "cost_usd"].sum()),
        "first": days.min() if len(days) else None,
        "last": days.max() if len(days) else None,
        "simulated": bool(simulated(asked).any()),
    }
