"""The ledger: what each campaign has spent, counted from the store's journal across runs and processes.

Every paid request leaves a line before it is sent and another for what came of it. A request without the second line,
because its process was killed or the connection broke, may have been answered and billed: it counts at its expected
price. So does one that is under way, which is how processes that share a store keep to one budget.
"""

import json
from collections import defaultdict
from collections.abc import Mapping

from filelock import FileLock

from banana100.errors import UserError
from banana100.generators.store import AnswerStore
from banana100.lineage.identity import Request


class OverBudget(UserError):
    """A campaign would cost more than its `budget_usd`."""

    exit_code = 3


class Ledger:
    """What campaigns have spent and may spend.

    Args:
        store: whose journal is read and written.
        budgets: US dollars that each campaign may cost in all, by name.
    """

    def __init__(self, store: AnswerStore, budgets: Mapping[str, float]) -> None:
        self._store, self._budgets = store, budgets
        self._lock = FileLock(store.root / "ledger.lock")
        self._read = 0
        self._settled: dict[str, float] = defaultdict(float)
        self._open: dict[str, dict[str, list[float]]] = defaultdict(dict)

    def budget(self, campaign: str) -> float:
        """US dollars that a campaign may cost in all."""
        return self._budgets[campaign]

    def spent(self, campaign: str) -> float:
        """US dollars spent by a campaign, requests under way and lost ones included."""
        self._catch_up()
        return self._settled[campaign] + sum(sum(prices) for prices in self._open[campaign].values())

    def allows(self, campaign: str, usd: float) -> bool:
        """Whether a campaign may spend so much more; half a cent of rounding is allowed."""
        return self.spent(campaign) + usd <= self._budgets[campaign] + 0.005

    def reserve(self, campaign: str, request: Request, usd: float) -> None:
        """Note a request as about to be sent, with its expected price, if the budget allows it.

        Raises:
            OverBudget: it does not; nothing is noted.
        """
        with self._lock:
            if not self.allows(campaign, usd):
                raise OverBudget(
                    f"{campaign} has spent ${self.spent(campaign):.2f} of its budget_usd {self._budgets[campaign]:g}, "
                    f"and the next request costs about ${usd:.2f}"
                )
            self._store.asked(request, campaign=campaign, usd=usd)

    def failed(self, campaign: str, request: Request, usd: float) -> None:
        """Note that a request got no answer; `usd` is what it may have cost all the same."""
        self._store.note("failed", request, campaign=campaign, usd=usd)

    def _catch_up(self) -> None:
        """Take in the lines that were added since the last call, by whatever process."""
        try:
            with self._store.journal_path.open("rb") as file:
                file.seek(self._read)
                content = file.read()
        except FileNotFoundError:
            return
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            try:
                entry = json.loads(line)
                if "usd" in entry:
                    self._enter(entry["campaign"], entry["event"], entry["request_id"], float(entry["usd"]))
            except (ValueError, KeyError, TypeError):
                continue  # half a line of a process that died on a full disk

    def _enter(self, campaign: str, event: str, request_id: str, usd: float) -> None:
        under_way = self._open[campaign].setdefault(request_id, [])
        if event == "asked":
            under_way.append(usd)
            return
        if under_way:
            under_way.pop()
        if not under_way:
            del self._open[campaign][request_id]
        self._settled[campaign] += usd
