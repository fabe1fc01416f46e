"""What rank found, read back for showing."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from banana100 import paths
from banana100.errors import UserError


@dataclass(frozen=True)
class Results:
    """Outputs of stage rank.

    Attributes:
        summary: the scalars under `summary` in ranking.json.
        subset: the scalars under `subset`: all ranked metrics as one ensemble.
        verdicts: one row a metric; columns as `ranking.verdicts.of_metrics` gives them, and failed_scores.
        chains: one row a metric and chain; as `of_chains` gives them, with the column simulated.
        curves: one row a metric, chain and step: score and change.
    """

    summary: dict[str, Any]
    subset: dict[str, Any]
    verdicts: pd.DataFrame
    chains: pd.DataFrame
    curves: pd.DataFrame

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        consistent = self.verdicts.loc[self.verdicts["consistent"], "metric"].tolist()
        names = f"{len(consistent)} ({', '.join(consistent)})" if consistent else "none"
        chains, simulated = self.summary["chains"], self.summary["simulated_chains"]
        kind = f"{chains} simulated chains" if simulated == chains else f"{chains} chains"
        if 0 < simulated < chains:
            kind += f", {simulated} of them simulated"
        eligible = self.summary["eligible_chains"]
        if not eligible:
            return f"Nothing to judge: none of {kind} is long enough and drifted far from its seed."
        if eligible < chains:
            kind = f"the {eligible} of {kind} that are long enough and drifted far from their seed"
        return (
            f"Of {self.summary['metrics']} metrics {names} scored the degraded images as worse on every one of {kind}."
        )


def read() -> Results:
    """Read what rank wrote.

    Raises:
        UserError: an output of rank is missing or damaged.
    """
    try:
        ranking = json.loads(paths.RANKING.read_text(encoding="utf-8"))
        verdicts, chains = _csv(paths.VERDICTS_TABLE), _csv(paths.CHAINS_TABLE)
        return Results(
            ranking["summary"], ranking["subset"], verdicts, chains, pd.read_parquet(paths.CHAIN_CURVES_TABLE)
        )
    except FileNotFoundError as error:
        raise UserError(f"{error.filename}: no such file; make it with `dvc repro` or fetch it: dvc pull.") from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UserError(f"{paths.RANKING.parent}: damaged ({error}); make it again with `dvc repro rank`.") from None


def _csv(path: Path) -> pd.DataFrame:
    """Read a table of rank; a seed may be called NA or 007."""
    names = dict.fromkeys(("metric", "campaign", "seed"), str)
    return pd.read_csv(path, dtype=names, keep_default_na=False, na_values=[""])
