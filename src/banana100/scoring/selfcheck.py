"""Command selfcheck: does this machine compute the scores that are published? Tells which metrics are genuine.

The five TID2013 images that ship in the pyiqa wheel are scored and compared with what pyiqa publishes for them in its
repository (ResultsCalibra/calibration_summary.csv, rows "ours"; the official MATLAB or TensorFlow code gives nearly the
same). Full-reference metrics compare each with the reference that ships beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tabulate import tabulate

from banana100.catalogue.metrics import DRIFT_METRICS, EVERY_METRIC
from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.images import read_header
from banana100.params import Params
from banana100.scoring import engine, weights
from banana100.scoring.jobs import ImageFile, Job
from banana100.scoring.scorers import Scorer, scorer

IMAGES = ("I03.bmp", "I04.bmp", "I06.bmp", "I08.bmp", "I19.bmp")


@dataclass(frozen=True)
class Published:
    """Scores of `IMAGES`, and how far ours may be from them: rounding, and other builds of SVD and resizing."""

    values: tuple[float, ...]
    tolerance: float


PUBLISHED: dict[str, Published] = {
    "brisque": Published((94.6452, -0.1082, 1.0759, 5.1423, 66.8381), 1e-2),
    "brisque_matlab": Published((70.6809, -2.369, 15.8031, 23.0785, 60.8247), 2e-2),
    # no author publishes scores of these images: pyiqa's network with the author's weights and preprocessing, once
    "cnniqa_live": Published((78.478, 12.035, 14.828, 19.712, 85.587), 5e-2),
    "dists": Published((0.4742, 0.1424, 0.0682, 0.0287, 0.3123), 1e-3),
    "entropy": Published((6.9511, 6.9661, 7.5309, 7.5565, 5.7629), 1e-4),
    "gmsd": Published((0.2203, 0.0005, 0.0004, 0.1346, 0.205), 1e-3),
    # its float64 features are resized and decomposed: 0.1 % between builds
    "ilniqe": Published((115.6107, 24.0661, 19.7494, 22.3251, 54.7701), 8e-2),
    "laion_aes": Published((3.7204, 5.5917, 5.0756, 4.6551, 3.0973), 1e-2),
    "lpips": Published((0.7237, 0.2572, 0.0508, 0.0521, 0.4253), 1e-3),
    "musiq": Published((12.4773, 75.7764, 73.7459, 75.4604, 38.0248), 2e-2),
    "musiq-ava": Published((3.4084, 5.6934, 4.6968, 5.1963, 4.1955), 5e-3),
    "musiq-paq2piq": Published((46.0187, 72.6657, 73.7655, 74.388, 69.7218), 2e-2),
    "musiq-spaq": Published((17.6804, 70.6531, 79.0364, 79.3189, 50.4526), 2e-2),
    "niqe": Published((15.6538, 3.6549, 3.2342, 3.1921, 9.0722), 3e-3),
    "niqe_matlab": Published((7.1707, 2.9908, 3.1551, 3.6781, 7.4782), 3e-3),
    "nrqm": Published((1.3932, 8.9419, 8.9721, 6.8309, 6.3031), 1e-2),
    "paq2piq": Published((44.1341, 73.6015, 74.3297, 76.8748, 70.9153), 2e-2),
    "pi": Published((11.9286, 3.073, 2.6357, 2.7979, 6.9546), 1e-2),
    "piqe": Published((100.0, 21.6242, 35.8646, 41.147, 76.9485), 2e-4),
    "psnr": Published((21.1136, 20.9872, 27.0139, 23.3002, 21.6186), 1e-3),
    "ssim": Published((0.6997, 0.9978, 0.9989, 0.9671, 0.6522), 1e-3),
}


def run(params: Params, names: Sequence[str]) -> None:
    """Check the metrics named, or all: print one line each, genuine, DIFFERS, no reference value or weights missing.

    Raises:
        UserError: a metric is not known; or scores differ from the published ones.
    """
    listed = params.named_metrics(names) or sorted(EVERY_METRIC)
    verdicts = check(listed)
    print(tabulate([[name, *verdicts[name]] for name in listed], ["metric", "verdict", "largest difference, or why"]))
    if wrong := [name for name in listed if verdicts[name][0] == "DIFFERS"]:
        raise UserError(f"{', '.join(wrong)}: not the published scores; do not use what this machine computes.")


def check(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """(verdict, detail) of each metric."""
    verdicts: dict[str, tuple[str, str]] = {}
    ready: dict[str, Scorer] = {}
    lock = weights.read_lock()
    for name in names:
        try:
            ready[name] = scorer(name, "float32", lock)
            if name not in PUBLISHED:
                verdicts[name] = ("no reference value", "")
        except UserError as error:
            verdicts[name] = ("weights missing", str(error))
    to_score = {name: one for name, one in ready.items() if name in PUBLISHED}
    return verdicts | {name: _verdict(name, values) for name, values in _scores(to_score).items()}


def _verdict(name: str, values: Mapping[str, float | None]) -> tuple[str, str]:
    found = [values.get(image) for image in IMAGES]
    if any(value is None for value in found):
        return "DIFFERS", "an image could not be scored"
    published = PUBLISHED[name]
    difference = max(abs(a - b) for a, b in zip(found, published.values, strict=True) if a is not None)
    return ("genuine" if difference <= published.tolerance else "DIFFERS"), f"{difference:.2g}"


def _scores(scorers: Mapping[str, Scorer]) -> dict[str, dict[str, float | None]]:
    """Score of each image by file name, for each metric."""
    drift = tuple(sorted(set(scorers) & set(DRIFT_METRICS)))
    plain = tuple(sorted(set(scorers) - set(DRIFT_METRICS)))
    distorted = {name: _image("dist_dir", name) for name in IMAGES}
    jobs = [Job(image, plain) for image in distorted.values()] if plain else []
    jobs += [Job(image, drift, _image("ref_dir", name)) for name, image in distorted.items() if drift]
    names = {image.image_id: name for name, image in distorted.items()}
    found: dict[str, dict[str, float | None]] = {metric: {} for metric in scorers}
    for scores in engine.score(jobs, scorers):
        for score in scores:
            found[score.metric][names[score.image_id]] = score.score
    return found


def _image(folder: str, name: str) -> ImageFile:
    spec = find_spec("pyiqa")
    root = Path(spec.origin or "").parents[1] / "ResultsCalibra" / folder if spec else Path(folder)
    found = [path for path in root.glob("*") if path.name.lower() == name.lower()]
    if not found:
        raise UserError(f"{root / name}: not there; run `make clean` and `make` to install pyiqa anew.")
    data = found[0].read_bytes()
    header = read_header(data)
    return ImageFile(sha256_of(data), found[0], header.width, header.height)
