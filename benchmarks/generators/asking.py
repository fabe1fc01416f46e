"""Ask what the project in the current folder misses; print as JSON how long it took and the most memory it needed."""

import asyncio
import json
import resource
import time

from banana100 import params
from banana100.generators import remote_backends
from banana100.generators.asking import ask_all
from banana100.generators.ledger import Ledger
from banana100.generators.store import AnswerStore
from banana100.generators.walks import Walk
from banana100.replication.chains import plan
from banana100.replication.workspace import seed_images


def main() -> None:
    """Do it."""
    checked, store = params.load(), AnswerStore()
    ((name, campaign),) = checked.active_campaigns().items()
    begun = time.perf_counter()
    walks = [Walk(chain, store) for chain in plan({name: campaign}, seed_images(store))]
    looked = time.perf_counter()
    walks = [walk for walk in walks if walk.step]
    if walks:
        backends = remote_backends([(name, campaign.backend, campaign.model)], checked.prices)
        connected = time.perf_counter()
        asyncio.run(ask_all(walks, backends, store, Ledger(store, {name: 1e6}), "benchmark"))
    asking = time.perf_counter() - connected if walks else 0.0
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps({"looking": looked - begun, "asking": asking, "megabytes": megabytes}))
    if parked := [walk.parked for walk in walks if walk.parked]:
        raise SystemExit(f"parked: {parked[0]}")


if __name__ == "__main__":
    main()
