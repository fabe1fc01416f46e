"""Command subsets: which pair, triple, ... of the ranked metrics sees the rot best?"""

import math
from collections import Counter

from tabulate import tabulate
from threadpoolctl import threadpool_limits

from banana100.errors import UserError
from banana100.params import Params
from banana100.ranking import inputs, subsets
from banana100.ranking.bootstrap import FEWEST_SEEDS
from banana100.ranking.inputs import Inputs
from banana100.ranking.subsets import Estimate, Search


@threadpool_limits.wrap(limits=1)  # as in rank
def run(params: Params, size: int, top: int) -> None:
    """Search all subsets of `size` of the ranked metrics and print the `top` best.

    Raises:
        UserError: `size` or `top` cannot be, there are fewer than two seeds to judge on, or tables cannot be read.
    """
    metrics = params.ranked_metrics()
    if not 1 <= size <= len(metrics):
        raise UserError(f"--size is {size}; allowed: 1 to {len(metrics)}, the number of metrics in ranking.metrics.")
    if top < 1:
        raise UserError(f"--top is {top}; allowed: a whole number of at least 1.")
    found = inputs.read(params)
    given = subsets.gather(found.study)
    if len(given.seeds) < 2:
        raise UserError(
            f"{len(given.seeds)} seeds have clean and degraded images that every metric scored{_failing(found)}; "
            "needed: 2, as a subset is judged on seeds that its model has not seen."
        )
    searched = subsets.search(found.study, given, size, top)
    campaigns = set(found.study.curves.chains["campaign"])
    simulated = "simulated " if campaigns <= found.simulated else "partly simulated " if found.simulated else ""
    print(
        f"{searched.subsets} subsets of {size} of {len(metrics)} metrics, on {len(given.clean)} {simulated}images of "
        f"{len(given.seeds)} seeds ({given.dropped} images left out without all scores)\n"
    )
    print(_table(searched))
    print(f"\n{_honesty(searched)}")


def _table(searched: Search) -> str:
    rows = [
        [
            place,
            ", ".join(subset.metrics),
            f"{subset.auc.value:.3f}",
            _interval(subset.auc),
            f"{subset.best_single} {subset.best_single_auc.value:.3f}",
            f"{subset.gain.value:+.3f}",
            _interval(subset.gain),
        ]
        for place, subset in enumerate(searched.top, start=1)
    ]
    headers = ["", "metrics", "AUC", "95 %", "best of them alone", "gain", "95 %"]
    return tabulate(rows, headers, disable_numparse=True)


def _honesty(searched: Search) -> str:
    """What the first place is worth."""
    how = (
        "AUC: of clean against degraded images within a seed that the model has not seen, mean over seeds; 1 is best. "
        "A model may turn a metric round."
    )
    if searched.subsets == 1:
        return how
    won = f"The first of {searched.subsets} subsets was picked on the seeds that its AUC is from, which flatters it."
    if searched.chosen is None or searched.honest is None:
        return f"{how}\n{won} With two seeds there is no third to check the choice on."
    times = Counter(tuple(metrics) for metrics in searched.chosen.values())
    picks = "; ".join(f"{', '.join(metrics)} ({number}x)" for metrics, number in times.most_common())
    return (
        f"{how}\n{won}\nChosen without the seed they are judged on (nested cross-validation), the best subsets reach "
        f"{searched.honest.value:.3f} {_interval(searched.honest)}: {picks}."
    )


def _failing(found: Inputs) -> str:
    failed = [f"{metric} on {number} images" for metric, number in found.failed.items()]
    return f" (failed: {', '.join(failed)})" if failed else ""


def _interval(estimate: Estimate) -> str:
    if math.isnan(estimate.low):
        return f"(fewer than {FEWEST_SEEDS} seeds)"
    return f"[{estimate.low:.3f}, {estimate.high:.3f}]"
