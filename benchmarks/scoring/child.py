"""What is measured in processes of its own: `python -m benchmarks.scoring.child TASK`, in a project folder.

Prints one line of JSON. Imports nothing heavy at the top: the engine's workers import this module too.
"""

import json
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from banana100 import params, paths
from banana100.catalogue import weights as w
from banana100.catalogue.metrics import METRICS
from banana100.lineage import tables
from banana100.scoring import engine, weights
from banana100.scoring.jobs import ImageFile, Job
from banana100.scoring.scorers import Scorer, scorer

_REVISION = "0" * 40  # any commit's name: the command asks the cache, not the host
_COMPARED = 8  # images whose scores on CPU and GPU are compared


def write_weights() -> dict[str, dict[str, Any]]:
    """Seeded random networks and the packaged parameters, as files where pyiqa looks for its own; returns the lock."""
    import timm  # noqa: PLC0415
    import torch  # noqa: PLC0415
    from pyiqa.archs.cnniqa_arch import CNNIQA  # noqa: PLC0415
    from pyiqa.archs.musiq_arch import MUSIQ  # noqa: PLC0415
    from pyiqa.archs.topiq_arch import CFANet  # noqa: PLC0415
    from safetensors.torch import save_file  # noqa: PLC0415

    torch.manual_seed(20100)
    folder = weights.file_path(w.CNNIQA).parent
    snapshot = weights.repository_folder(w.TIMM_RESNET50) / "snapshots" / _REVISION / "model.safetensors"
    refs = weights.repository_folder(w.TIMM_RESNET50) / "refs" / "main"
    for place in (folder, snapshot.parent, refs.parent):
        place.mkdir(parents=True)
    refs.write_text(_REVISION)
    save_file(timm.create_model("resnet50").state_dict(), snapshot)
    topiq = CFANet("resnet50", backbone_pretrain=False, use_ref=False, pretrained=False)
    torch.save({"params": _spread(CNNIQA(pretrained=None), "fc3")}, weights.file_path(w.CNNIQA))
    torch.save(_spread(MUSIQ(pretrained=False), "head"), weights.file_path(w.MUSIQ))
    torch.save({"params": _spread(topiq, "score_linear.6")}, weights.file_path(w.TOPIQ))
    _write_packaged(folder)
    files = {weights.file_key(file): weights.file_path(file) for file in (w.CNNIQA, w.MUSIQ, w.TOPIQ)}
    lock = {key: {"sha256": weights.digest_of(path)} for key, path in files.items()}
    backbone = {"sha256": weights.digest_of(snapshot), "revision": _REVISION}
    return lock | {f"huggingface/{w.TIMM_RESNET50.name}/model.safetensors": backbone}


def _spread(net: Any, last: str) -> dict[str, Any]:
    """A network's state, its last layer enlarged so that random scores differ between images as trained ones do."""
    state = net.state_dict()
    state[f"{last}.weight"] *= 10
    return state


def _write_packaged(folder: Path) -> None:
    from banana100.scoring.metrics.parameters import for_pyiqa  # noqa: PLC0415

    for metric, name in (("niqe", "niqe_modelparameters.mat"), ("brisque", "brisque_svm_weights.pth")):
        file = METRICS[metric].parameters
        if file is None:
            raise RuntimeError(f"metric {metric}: the catalogue names no packaged parameters.")
        (folder / name).write_bytes(for_pyiqa(file).getvalue())


def time_engine(few: str) -> dict[str, float]:
    """Wall seconds of the engine over `few` images and over all, each with workers of its own."""
    jobs, scorers = _work()
    return {"few": _wall(jobs[: int(few)], scorers), "all": _wall(jobs, scorers)}


def _wall(jobs: Sequence[Job], scorers: dict[str, Scorer]) -> float:
    begun = time.perf_counter()
    for some in engine.score(jobs, scorers):
        _check(some)
    return time.perf_counter() - begun


def time_forward(kind: str) -> dict[str, float]:
    """CPU seconds of one thread in the forward passes of all metrics of a kind over all images, and nothing else."""
    import torch  # noqa: PLC0415

    from banana100.images import decode  # noqa: PLC0415
    from banana100.scoring.metrics.base import load  # noqa: PLC0415

    torch.set_num_threads(1)
    jobs, scorers = _work(kind)
    metrics = [load(name, weights.by_name(s.facts, s.files), torch.device("cpu")) for name, s in scorers.items()]
    seconds = 0.0
    with torch.inference_mode():
        for number, job in enumerate([jobs[0], *jobs]):  # the first one twice, to warm up
            pixels = torch.tensor(decode(job.image.path.read_bytes())).permute(2, 0, 1)[None]
            begun = time.process_time()
            for metric in metrics:
                float(metric(pixels))
            seconds += time.process_time() - begun if number else 0
    return {"seconds": seconds}


def time_device(kind: str, device: str, runs: str) -> dict[str, dict[str, Any]]:
    """Images a second by metric on a device, decoding included start-up not; and pairs of scores, a CPU's second."""
    from banana100.scoring.devices import batch_size  # noqa: PLC0415
    from banana100.scoring.worker import Worker  # noqa: PLC0415

    jobs, scorers = _work(kind)
    found = {}
    for name, one in scorers.items():
        worker = Worker([one], device, batch_size(device))
        mine = [Job(job.image, (name,)) for job in jobs]
        worker.score(mine[: batch_size(device)])
        rates = []
        for _ in range(int(runs)):
            begun = time.perf_counter()
            scores = worker.score(mine)
            rates.append(len(mine) / (time.perf_counter() - begun))
        _check(scores)
        there = [score.score for score in islice(scores, _COMPARED)]
        here = [score.score for score in Worker([one], "cpu", 1).score(mine[:_COMPARED])]
        found[name] = {"rates": rates, "pairs": list(zip(there, here, strict=True))}
    return found


def has_gpu() -> bool:
    """Whether PyTorch sees a GPU."""
    import torch  # noqa: PLC0415

    return torch.cuda.is_available()


def _work(kind: str | None = None) -> tuple[list[Job], dict[str, Scorer]]:
    """The jobs and scorers of the project in the current folder, of one kind of metrics or of all."""
    checked, lock = params.load(), weights.read_lock()
    names = [name for name in sorted(checked.scored_metrics()) if kind in (None, METRICS[name].kind)]
    images = tables.read(paths.IMAGES_TABLE, tables.IMAGES)[["image_id", "path", "width", "height"]]
    files = [ImageFile(i, Path(path), int(x), int(y)) for i, path, x, y in images.itertuples(index=False)]
    return [Job(file, tuple(names)) for file in files], {n: scorer(n, checked.scoring.precision, lock) for n in names}


def _check(scores: Sequence[Any]) -> None:
    if failed := [score for score in scores if score.score is None]:
        raise RuntimeError(f"{len(failed)} failures were timed as scores, first {failed[0]}")


_TASKS = {
    "weights": write_weights,
    "engine": time_engine,
    "forward": time_forward,
    "device": time_device,
    "has_gpu": has_gpu,
}

if __name__ == "__main__":
    print(json.dumps(_TASKS[sys.argv[1]](*sys.argv[2:])))
