"""What rank found, read back for showing."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from banana100 import paths
from banana100.errors import UserError
from banana100.lineage.tables import CHAIN

# What is shown of each metric.
_OF_METRICS = [
    *("metric", "consistent", "failures", "chains", "not_judged", "left_out", "failed_scores", "seeds"),
    *(f"{name}{end}" for name in ("tau", "accuracy", "auc") for end in ("", "_low", "_high")),
    *("detection", "p_permutation_holm"),
]


@dataclass(frozen=True)
class Grid:
    """The scores of M metrics along C chains of at most K - 1 replicas.

    Attributes:
        metrics: M names.
        chains: C rows, sorted; columns campaign, seed, repeat, eligible (does the chain count?).
        scores: float (M, C, K), as the metrics give them; NaN where there is no image or no score.
        changes: float (M, C, K), quality-aligned change since the baseline step in units of the metric's spread.
        present: bool (C, K), where there is an image.
    """

    metrics: list[str]
    chains: pd.DataFrame
    scores: NDArray[np.float64]
    changes: NDArray[np.float64]
    present: NDArray[np.bool_]


@dataclass(frozen=True)
class Results:
    """Outputs of stage rank.

    Attributes:
        summary: the scalars under `summary` in ranking.json.
        subset: the scalars under `subset`: all ranked metrics as one ensemble.
        verdicts: one row a metric; columns as `ranking.verdicts.of_metrics` gives them, and failed_scores.
        chains: one row a metric and chain; as `of_chains` gives them, with the column simulated.
    """

    summary: dict[str, Any]
    subset: dict[str, Any]
    verdicts: pd.DataFrame
    chains: pd.DataFrame

    @property
    def metrics(self) -> list[str]:
        """The metrics in the order of the verdicts."""
        return self.verdicts["metric"].tolist()

    @cached_property
    def grid(self) -> Grid:
        """All scores and changes, metrics in the order of the verdicts.

        Raises:
            UserError: the table of curves is missing or damaged.
        """
        with _telling():
            rows = pd.read_parquet(io.BytesIO(paths.CHAIN_CURVES_TABLE.read_bytes()))
            rows[CHAIN] = rows[CHAIN].astype({"campaign": str, "seed": str, "repeat": "int64"})
            chains = rows[[*CHAIN, "eligible"]].drop_duplicates().sort_values(CHAIN, ignore_index=True)
            number = {metric: index for index, metric in enumerate(self.metrics)}
            at = rows["metric"].astype(str).map(number).astype(int), rows.groupby(CHAIN).ngroup(), rows["step"]
            values = {name: np.full((len(number), len(chains), max(at[2]) + 1), np.nan) for name in ("score", "change")}
            for name, array in values.items():
                array[at] = rows[name]
            present = np.zeros(values["score"].shape[1:], dtype=bool)
            present[at[1:]] = True
        return Grid(self.metrics, chains, values["score"], values["change"], present)

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        counted, chains = self.summary["eligible_chains"], self.summary["chains"]
        if not counted:
            return f"Nothing to judge: none of {chains} chains is long enough and drifted far from its seed."
        consistent = self.verdicts.loc[self.verdicts["consistent"], "metric"].tolist()
        names = f"{len(consistent)} ({', '.join(consistent)})" if consistent else "none"
        kind = f"{counted} {self._made}chains"
        if counted < chains:
            kind = f"the {kind} (of {chains}) that are long enough and drifted far from their seed"
        start = f"Of {self.summary['metrics']} metrics {names}"
        rest = self.verdicts[
            ~self.verdicts["consistent"] & self.verdicts["failures"].eq(0) & self.verdicts["chains"].gt(0)
        ]
        if rest.empty:
            return f"{start} scored the degraded images as worse on every one of {kind}."
        if not consistent:
            start, kind = f"{start} is known to have", f"{chains} chains"
        almost = ", ".join(rest["metric"])
        return (
            f"{start} scored the degraded images as worse on every one of {kind}; {almost} failed on none that could "
            "be judged, but some could not."
        )

    @property
    def _made(self) -> str:
        """A word for the chains that count: how many of them no image model made."""
        simulated = set(self.chains.loc[self.chains["simulated"], "campaign"])
        made = self.grid.chains.loc[self.grid.chains["eligible"], "campaign"].isin(simulated)
        if not made.any():
            return ""
        return "simulated " if made.all() else f"({made.sum()} of them simulated) "

    def table(self, path: Path, *columns: str) -> pd.DataFrame:
        """Another table that rank wrote.

        Raises:
            UserError: it is missing or damaged, or lacks one of `columns`.
        """
        with _telling():
            return _csv(path, *columns)

    def curve(self, metric: str) -> pd.DataFrame | None:
        """Mean change over the chains that count: columns step, change, low, high; None where rank wrote none."""
        path = paths.curve(metric)
        return self.table(path, "step", "change", "low", "high") if path.is_file() else None


def read() -> Results:
    """Read what rank wrote.

    Raises:
        UserError: an output of rank is missing or damaged.
    """
    with _telling():
        ranking = json.loads(paths.RANKING.read_text(encoding="utf-8"))
        verdicts = _csv(paths.VERDICTS_TABLE, *_OF_METRICS)
        chains = _csv(paths.CHAINS_TABLE, *CHAIN, "simulated")
        return Results(ranking["summary"], ranking["subset"], verdicts, chains)


@contextmanager
def _telling() -> Iterator[None]:
    """Turn what missing and damaged tables raise into one sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{error.filename}: no such file; make it with `dvc repro` or fetch it: dvc pull.") from None
    except (ValueError, KeyError, TypeError, IndexError, OSError) as error:
        raise UserError(f"{paths.RANKING.parent}: damaged ({error}); make it again with `dvc repro rank`.") from None


def _csv(path: Path, *columns: str) -> pd.DataFrame:
    """Read a table of rank; a seed may be called NA or 007."""
    names = dict.fromkeys(("metric", "campaign", "seed", "other"), str)
    table = pd.read_csv(path, dtype=names, keep_default_na=False, na_values=[""])
    table = table.astype(dict.fromkeys(table.columns[table.isna().all()], float))  # what has no value is no text
    if lacking := [column for column in columns if column not in table]:
        raise UserError(f"{path}: has no column {lacking[0]}; make it again with `dvc repro rank`.")
    return table
