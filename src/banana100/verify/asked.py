"""What params.yaml makes of an image and a step: the request, as the tables hold it."""

from typing import Any

import pandas as pd

from banana100 import paths
from banana100.lineage.identity import canonical_json
from banana100.replication.chains import Chain

BY = f"its parent and its campaign in {paths.PARAMS}"
# The columns of a request's row that params.yaml and the image before decide.
ASKED = ["backend", "model", "prompt", "config", "parent_id", "previous_id", "seed", "repeat", "step"]


def expected(chain: Chain, step: int, parent_id: Any, previous_id: Any) -> dict[str, Any]:
    """The request of a step under its id, given the image it replicates and the request before; nothing at step 0."""
    if step == 0 or pd.isna(parent_id):
        return {"id": None} | dict.fromkeys(ASKED)
    request = chain.request(step, parent_id, None if pd.isna(previous_id) else previous_id)
    return {"id": request.id} | vars(request) | {"config": canonical_json(request.config)}
