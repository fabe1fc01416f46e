"""Stage replicate: walk every chain of the active campaigns, then lay out replicas, previews and lineage."""

from pathlib import Path

from banana100 import paths
from banana100.files import keep_only
from banana100.lineage import tables
from banana100.params import Params
from banana100.replication import workspace
from banana100.replication.chains import Chain, Replica, plan, walk
from banana100.replication.store import AnswerStore
from banana100.workers import in_parallel, progress


def run(params: Params) -> None:
    """Bring `data/replicas`, `data/previews` and `data/lineage` to what params.yaml asks for.

    Raises:
        UserError: a campaign names an unknown seed or model, or the store or a seed is damaged.
    """
    chains = plan(params.active_campaigns(), workspace.seed_images())
    store = AnswerStore()
    store.sweep()
    adopted = workspace.adopt(store)
    walked = _walk_all(chains)
    rows = workspace.materialise(progress(walked, total=len(walked), what="lay out replicas", unit="chain"), store)
    keep_only(paths.REPLICAS, {Path(row["path"]) for row in rows})
    tasks = workspace.preview_tasks(rows, params.previews)
    previews = in_parallel(workspace.make_preview, tasks)
    keep_only(paths.PREVIEWS, set(progress(previews, total=len(tasks), what="previews", unit="image")))
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, rows)
    requests = workspace.request_rows(replica for _, replicas in walked for replica in replicas)
    tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, requests)
    keep_only(paths.LINEAGE, {paths.IMAGES_TABLE, paths.REQUESTS_TABLE})
    taken_over = f", {adopted} answers taken over from the workspace" if adopted else ""
    print(f"{len(chains)} chains, {len(rows)} images, {len(requests)} requests answered{taken_over}")


def _walk_all(chains: list[Chain]) -> list[tuple[Chain, list[Replica]]]:
    """Walk the chains in parallel, the longest first; the result is in the order of `chains`."""
    longest_first = sorted(range(len(chains)), key=lambda index: -chains[index].settings.steps)
    walked: dict[int, list[Replica]] = {}
    results = in_parallel(_walk_indexed, [(index, chains[index]) for index in longest_first])
    for index, replicas in progress(results, total=len(chains), what="replicate", unit="chain"):
        walked[index] = replicas
    return [(chain, walked[index]) for index, chain in enumerate(chains)]


def _walk_indexed(task: tuple[int, Chain]) -> tuple[int, list[Replica]]:
    index, chain = task
    return index, walk(chain)
