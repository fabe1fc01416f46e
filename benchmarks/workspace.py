"""A workspace of the paper's size: real seeds, chains that prove true, and invented images and scores."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

from banana100 import images, params, paths
from banana100.catalogue.metrics import EVERY_METRIC
from banana100.catalogue.weights import WeightFile
from banana100.cli import STAGES
from banana100.files import sha256_of, write_atomically
from banana100.generators import adoption
from banana100.generators.simulated import answer
from banana100.generators.store import StoredAnswer
from banana100.lineage import tables
from banana100.lineage.identity import Request
from banana100.params import Params
from banana100.replication.chains import Chain, plan
from banana100.replication.workspace import preview_tasks, seed_images
from banana100.scoring import weights
from banana100.scoring.scorers import Scorer, scorer
from banana100.workers import in_parallel
from benchmarks import invented
from benchmarks.measure import ROOT, environment, timed
from benchmarks.ranking.synthetic import World

CAMPAIGN, PAID = "synthetic", "paid"
_RANDOM = 1


@dataclass(frozen=True)
class Shape:
    """How large a workspace is, and what of it is like a real one.

    Attributes:
        campaigns, seeds, repeats, steps: chains and their replicas.
        metrics: the name of a set in params.yaml.
        drift: full-reference metrics.
        preview_steps: steps with a preview; None is as in params.yaml.
        photographs: previews are made from the seeds, with noise that grows with the step, and as heavy as real ones.
        paid: the last campaign asked a paid generator, which refused some requests, parked some chains and made images
            of which a few have no score.
    """

    campaigns: int = 1
    seeds: int = 14
    repeats: int = 20
    steps: int = 100
    metrics: str = "paper21"
    drift: tuple[str, ...] = ("psnr",)
    preview_steps: tuple[int, ...] | None = None
    photographs: bool = False
    paid: bool = False

    @property
    def chains(self) -> int:
        """How many there are."""
        return self.campaigns * self.seeds * self.repeats


PAPER = Shape()


def make(folder: Path, image_bytes: int = 2000, shape: Shape = PAPER) -> Path:
    """Make a git and DVC repository as after `dvc repro`: by default 280 chains of 100 replicas, scored by 21 metrics.

    Seeds are the real ones. A replica's file is a tiny PNG with random bytes behind it, `image_bytes` in all: nobody
    decodes it, but it has a digest and a header. Scores are drawn, weights pinned by invented digests.
    """
    _copy_tracked_files(folder)
    variables = environment()
    subprocess.run(["dvc", "config", "cache.type", "hardlink"], cwd=folder, env=variables, check=True)
    with chdir(folder):
        _write_params(shape)
        timed(["python", "-m", "banana100", "select_seeds"], folder, variables)
        checked = params.load()
        _write_lineage(checked, shape, image_bytes)
        _write_scores(checked.scored_metrics(), shape)
    for stage in list(STAGES)[-2:]:
        timed(["python", "-m", "banana100", stage], folder, variables)
    timed(["dvc", "commit", "-q", "-f"], folder, variables)
    _git(folder, "commit", "-qam", "synthetic scores")
    return folder


def refresh(folder: Path, shape: Shape) -> None:
    """Give a workspace that `make` made earlier the code and the params of today, and rank it anew."""
    shutil.rmtree(folder / "src")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    with chdir(folder):
        _write_params(shape)
    timed(["python", "-m", "banana100", "rank"], folder, environment())


def _copy_tracked_files(folder: Path) -> None:
    names = subprocess.check_output(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, text=True)
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "clone")


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=b", "-c", "user.email=b@example.org", *arguments], cwd=folder, check=True)


def _write_params(shape: Shape) -> None:
    content = yaml.safe_load((ROOT / paths.PARAMS).read_text(encoding="utf-8"))
    campaigns = _campaigns(content["campaigns"], shape)
    content |= {"active": list(campaigns), "campaigns": campaigns, "campaign_sets": {}}
    content["seeds"] |= {"count": shape.seeds, "size": 256}  # which all 14 photographs reach
    content["scoring"] |= {"metrics": shape.metrics, "drift": list(shape.drift)}
    content["ranking"]["metrics"] = shape.metrics
    if shape.preview_steps:
        content["previews"]["steps"] = list(shape.preview_steps)
    paths.PARAMS.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")


def _campaigns(known: dict[str, Any], shape: Shape) -> dict[str, Any]:
    size = {"seeds": "all", "repeats": shape.repeats, "steps": shape.steps}
    simulated = known["simulated-paper-shape"] | size
    campaigns: dict[str, Any] = {}
    for number in range(shape.campaigns - shape.paid):
        # settings differ, as requests that are equal have one answer
        config = simulated["config"] | {"noise": simulated["config"]["noise"] + number}
        campaigns[f"{CAMPAIGN}-{number + 1}" if number else CAMPAIGN] = simulated | {"config": config}
    return campaigns | ({PAID: known["replica"] | size | {"budget_usd": 2000}} if shape.paid else {})


@dataclass
class _Lineage:
    """Rows of the tables of lineage; those of requests by id."""

    images: list[dict[str, Any]] = field(default_factory=list)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    refusals: list[dict[str, Any]] = field(default_factory=list)
    parked: list[dict[str, Any]] = field(default_factory=list)

    def write(self) -> None:
        tables.write(paths.IMAGES_TABLE, tables.IMAGES, self.images)
        tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, [self.requests[key] for key in sorted(self.requests)])
        refusals = sorted(self.refusals, key=lambda row: (row["request_id"], row["number"]))
        tables.write(paths.REFUSALS_TABLE, tables.REFUSALS, refusals)
        tables.write(paths.PARKED_TABLE, tables.PARKED, self.parked)


def _write_lineage(checked: Params, shape: Shape, image_bytes: int) -> None:
    """Replicas, previews and the tables of images and requests."""
    random, chance = np.random.default_rng(_RANDOM), np.random.default_rng(_RANDOM)
    start = images.encode_png(random.integers(0, 256, (16, 16, 3), dtype=np.uint8))
    lineage = _Lineage()
    for chain in plan(checked.active_campaigns(), seed_images()):
        walked = list(_walk(chain, start, image_bytes, random))
        if chain.campaign == PAID:
            walked = _paid(chain, walked, lineage, chance)
        lineage.requests |= {request.id: adoption.request_row(request, kept) for request, kept, _ in walked}
        lineage.images.append(_row(chain, 0, paths.seed_image(chain.seed).read_bytes(), None))
        lineage.images += [_row(chain, request.step, image, request) for request, _, image in walked]
    _write_previews(lineage.images, checked, shape.photographs)
    lineage.write()


_Walked = tuple[Request, StoredAnswer, bytes]


def _walk(chain: Chain, start: bytes, size: int, random: np.random.Generator) -> Iterator[_Walked]:
    parent_id = chain.seed_id
    record = answer(b"", chain.settings.model).record
    for step in range(1, chain.length + 1):
        image = start + random.bytes(size - len(start))
        request = chain.request(step, parent_id)
        parent_id = sha256_of(image)
        yield request, StoredAnswer(parent_id, record), image


def _paid(chain: Chain, walked: list[_Walked], lineage: _Lineage, chance: np.random.Generator) -> list[_Walked]:
    """The chain as a paid generator would have answered it, as far as it goes; its refusals go into the lineage."""
    end = invented.end(chain.length, chance)
    kept = []
    for request, stored, image in walked[:end]:
        refused = invented.refusals(request, chance)
        lineage.refusals += refused
        record = invented.answer(request, 1 + len(refused), chance).record
        kept.append((request, StoredAnswer(stored.image_id, record), image))
    if end < chain.length:
        refused = invented.refusals(walked[end][0], chance, last=True)
        lineage.refusals += refused
        place = dict(zip(tables.CHAIN, chain.key, strict=True))
        lineage.parked.append(place | invented.parked(refused))
    return kept


def _write_previews(rows: Sequence[dict[str, Any]], checked: Params, photographs: bool) -> None:
    tasks = preview_tasks(rows, checked.previews)
    if not photographs:
        for image, preview, side in tasks:
            write_atomically(preview, images.encode_preview(image.read_bytes(), side))
        return
    by_path = {row["path"]: row for row in rows}
    full = [(by_path[image.as_posix()], preview, side) for image, preview, side in tasks]
    for _ in in_parallel(_write_photograph, full):
        pass


def _write_photograph(task: tuple[dict[str, Any], Path, int]) -> None:
    """A preview of the seed as a replica of it may look: static noise and a green cast, both growing with the step."""
    row, preview, side = task
    random, step = np.random.default_rng(int(row["image_id"][:16], 16)), row["step"]
    pixels = images.decode(paths.seed_image(row["seed"]).read_bytes())
    deviation = 2 * step**0.5  # makes the files as heavy as the simulator's, and not lighter at the end
    noise = random.normal(0, deviation, pixels.shape) / 2 + random.normal(0, deviation, (*pixels.shape[:2], 1))
    rotten = pixels + noise + step * np.array([-0.2, 0.4, -0.2])
    image = images.encode_png(np.clip(rotten, 0, 255).astype(np.uint8))
    write_atomically(preview, images.encode_preview(image, side))


def _row(chain: Chain, step: int, image: bytes, request: Request | None) -> dict[str, Any]:
    """Write an image's file; gives its row of the table."""
    path = paths.replica(chain.campaign, chain.seed, chain.repeat, step, "png")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(image)
    header = images.read_header(image)
    row = {"image_id": sha256_of(image), "path": path.as_posix(), "bytes": len(image), "width": header.width}
    row |= {"height": header.height, "mode": header.mode, "campaign": chain.campaign, "seed": chain.seed}
    row |= {"parent_id": request.parent_id, "request_id": request.id} if request else {}
    return row | {"repeat": chain.repeat, "step": step}


# What a drift metric says of a replica, with its step: at the start, and more with each step.
_DRIFT = {"psnr": (32, -0.5), "ssim": (1, -0.008), "gmsd": (0, 0.003)}


def _write_scores(metrics: Sequence[str], shape: Shape) -> None:
    images_table = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    scorers = _scorers([*metrics, *shape.drift])
    chain, step = (images_table["step"] == 0).cumsum() - 1, images_table["step"]
    failed = images_table["image_id"].iloc[25::701] if shape.paid else images_table["image_id"].iloc[:0]
    failures: list[dict[str, Any]] = []
    for metric, aligned in zip(metrics, _aligned(len(metrics), shape), strict=True):
        facts, named = scorers[metric].facts, {"metric": metric, "scorer_id": scorers[metric].id}
        drawn = (1 if facts.higher_is_better else -1) * aligned[chain.to_numpy(int), step.to_numpy(int)]
        scores = pd.DataFrame({"image_id": images_table["image_id"], "score": np.round(drawn, facts.decimals)})
        scores = scores.drop_duplicates("image_id").assign(**named).sort_values("image_id")
        if metric in metrics[:2]:
            scores = scores[~scores["image_id"].isin(failed)]
            failures += [{"image_id": i, "reason": "a score that is not finite"} | named for i in sorted(set(failed))]
        tables.write(paths.scores(metric), tables.SCORES, scores[tables.SCORES.names])
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, [scorers[metric].row for metric in sorted(scorers)])
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, failures)
    _write_drift(images_table, {metric: scorers[metric].id for metric in shape.drift})


def _aligned(metrics: int, shape: Shape) -> NDArray[np.float64]:
    """Scores (metrics, chains, steps + 1), chains in the order of the table of images."""
    size = {"seeds": shape.seeds, "repeats": shape.campaigns * shape.repeats, "steps": shape.steps}
    drawn = World(-1.5).draw(np.random.default_rng(_RANDOM), metrics=metrics, **size)
    # drawn are all chains of a seed together; the table has all of a campaign together
    by_seed = drawn.reshape(metrics, shape.seeds, shape.campaigns, shape.repeats, -1)
    return by_seed.swapaxes(1, 2).reshape(drawn.shape)


def _write_drift(images_table: pd.DataFrame, scorer_ids: dict[str, str]) -> None:
    start = images_table["image_id"].where(images_table["step"] == 0).ffill()
    replicas = images_table.assign(reference_id=start)[images_table["step"] > 0]
    steps = replicas["step"].astype(float)
    each = [
        replicas.assign(metric=metric, scorer_id=scorer_id, score=_DRIFT[metric][0] + _DRIFT[metric][1] * steps)
        for metric, scorer_id in scorer_ids.items()
    ]
    tables.write(paths.DRIFT_TABLE, tables.DRIFT, pd.concat(each)[tables.DRIFT.names])


def _scorers(metrics: Sequence[str]) -> dict[str, Scorer]:
    """Scorers by metric, their weights pinned by invented digests."""
    lock = weights.read_lock()
    for wanted in (file for metric in metrics for file in EVERY_METRIC[metric].weights):
        one = isinstance(wanted, WeightFile)
        key = weights.file_key(wanted) if one else f"{weights.key_prefix(wanted)}model.bin"
        lock.setdefault(key, {"sha256": sha256_of(key.encode()), "bytes": 1} | ({} if one else {"revision": "0"}))
    weights.write_lock(lock)
    return {metric: scorer(metric, "float32", lock, absent=True) for metric in metrics}
