"""One worker: metrics loaded once, then tasks of images, each decoded once; local processes and Ray actors alike."""

import contextlib
import math
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from PIL import Image

from banana100 import paths
from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.images import ImageError, Pixels, decode
from banana100.scoring import weights
from banana100.scoring.jobs import ImageFile, Job, Score
from banana100.scoring.metrics.base import ImageMetric, load
from banana100.scoring.scorers import Scorer

# A batch moves a float32 score by far less than this part of a rounding step. A score so near to where rounding tips is
# computed again alone: then what is stored is what a batch of one gives, whatever the batch was.
_NEAR = 0.02

_TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}

# What metrics raise for an image they cannot score: flat images give singular covariances and empty selections.
_UNSCORABLE = (ArithmeticError, AssertionError, IndexError, RuntimeError, ValueError)


@dataclass(frozen=True)
class _Decoded:
    job: Job
    pixels: torch.Tensor | None
    reference: torch.Tensor | None = None
    reason: str | None = None


class Worker:
    """Scores tasks with the metrics it was built with.

    Args:
        scorers: what to score with.
        device: cpu, or cuda:0 and so on.
        batch: how many images of one size go through a metric at once, at most.

    Raises:
        UserError: a weight file is not the pinned one, or a metric cannot be loaded.
    """

    def __init__(self, scorers: Sequence[Scorer], device: str, batch: int) -> None:
        self._device = torch.device(device)
        self._scorers = {scorer.metric: scorer for scorer in scorers}
        self._batch = batch
        self._metrics = {scorer.metric: _load(scorer, self._device) for scorer in scorers}
        # on a GPU, decoding goes on while it computes
        self._decoders = ThreadPoolExecutor(4) if self._device.type == "cuda" else None

    def score(self, task: Sequence[Job]) -> list[Score]:
        """Score the images of one task: all lack the same metrics and are said to have one size.

        Raises:
            UserError: an image file is missing or not the one its row names; or memory does not suffice for one image.
        """
        scores: list[Score] = []
        for batch in _batches(self._decoded(task), self._batch):
            scores += self._of_batch(batch)
        return scores

    def _decoded(self, task: Sequence[Job]) -> Iterator[_Decoded]:
        if self._decoders:
            yield from self._decoders.map(_decode, task)
        else:
            yield from map(_decode, task)

    def _of_batch(self, batch: list[_Decoded]) -> list[Score]:
        if batch[0].pixels is None:
            return [_score(item.job, name, None, item.reason) for item in batch for name in item.job.metrics]
        pixels = self._to_device([item.pixels for item in batch])
        references = None if batch[0].reference is None else self._to_device([item.reference for item in batch])
        scores = []
        for name in batch[0].job.metrics:
            values = self._values(name, pixels, references)
            scores += [
                _score(item.job, name, *_finite(value, self._scorers[name].facts.decimals))
                for item, value in zip(batch, values, strict=True)
            ]
        return scores

    def _to_device(self, images: list[torch.Tensor | None]) -> torch.Tensor:
        stacked = torch.stack([image for image in images if image is not None])
        if self._device.type == "cuda":
            return stacked.pin_memory().to(self._device, non_blocking=True)
        return stacked

    def _values(self, name: str, pixels: torch.Tensor, references: torch.Tensor | None) -> list[float | str]:
        """The score of each image, or a clause that says why it has none."""
        scorer = self._scorers[name]
        if obstacle := _obstacle(scorer, *pixels.shape[2:]):
            return [obstacle] * len(pixels)
        # in lower precision a batch moves scores visibly: there one at a time, for the same score at any batch size
        whole = scorer.facts.batch and scorer.precision == "float32"
        values: list[float | str] = []
        size = len(pixels) if whole else 1
        while len(values) < len(pixels):
            part = slice(len(values), len(values) + size)
            try:
                values += self._attempt(scorer, pixels[part], None if references is None else references[part])
            except _OutOfMemory:
                if size == 1:
                    # the machine's limit, not the image's: it must not be published as a failure of the metric
                    message = "out of memory; run again, with fewer workers in BANANA100_WORKERS."
                    raise UserError(f"metric {name}: {message}") from None
                size = max(1, size // 2)
                if self._device.type == "cuda":
                    torch.cuda.empty_cache()
        return values

    def _attempt(self, scorer: Scorer, pixels: torch.Tensor, references: torch.Tensor | None) -> list[float | str]:
        metric = self._metrics[scorer.metric]
        try:
            with _exact(scorer, self._device):
                values = [float(value) for value in metric(pixels, references).detach().double().cpu()]
        except (MemoryError, *_UNSCORABLE) as error:
            if _is_out_of_memory(error):
                raise _OutOfMemory from None
            if len(pixels) == 1:
                return [_clause(error)]
            return self._one_by_one(scorer, pixels, references, range(len(pixels)))
        if len(pixels) == 1:
            return list(values)
        again = [i for i, v in enumerate(values) if not math.isfinite(v) or _is_near(v, scorer.facts.decimals)]
        alone = dict(zip(again, self._one_by_one(scorer, pixels, references, again), strict=True))
        return [alone.get(index, value) for index, value in enumerate(values)]

    def _one_by_one(
        self, scorer: Scorer, pixels: torch.Tensor, references: torch.Tensor | None, indices: Sequence[int]
    ) -> list[float | str]:
        return [
            self._attempt(scorer, pixels[i : i + 1], None if references is None else references[i : i + 1])[0]
            for i in indices
        ]


class _OutOfMemory(Exception):
    """The device's memory does not suffice for this many images."""


def _load(scorer: Scorer, device: torch.device) -> ImageMetric:
    weights.admit(scorer.files)
    files = weights.by_name(scorer.facts, scorer.files)
    try:
        with weights.guarded(paths.weights()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return load(scorer.metric, files, device)
    except UserError as error:
        raise UserError(f"metric {scorer.metric}: {error}") from None
    except Exception as error:  # a library's any kind, for damaged or strange weight files
        raise UserError(f"metric {scorer.metric}: cannot be loaded ({_clause(error)}).") from error


def _decode(job: Job) -> _Decoded:
    try:
        pixels = decode(_bytes(job.image))
    except ImageError as error:
        return _Decoded(job, None, reason=str(error))
    if job.reference is None:
        return _Decoded(job, _tensor(pixels))
    try:
        reference = _reference(job.reference, pixels.shape[1], pixels.shape[0])
    except ImageError as error:
        return _Decoded(job, None, reason=f"its reference {error}")
    return _Decoded(job, _tensor(pixels), reference)


@lru_cache(maxsize=4)  # a reference serves its whole chain
def _reference(image: ImageFile, width: int, height: int) -> torch.Tensor:
    pixels = Image.fromarray(decode(_bytes(image)))
    if pixels.size != (width, height):
        pixels = pixels.resize((width, height), Image.Resampling.LANCZOS)
    return _tensor(np.asarray(pixels))


def _bytes(image: ImageFile) -> bytes:
    try:
        data = image.path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{image.path}: no such image; make it with `dvc repro` or fetch it: dvc pull.") from None
    if sha256_of(data) != image.image_id:
        raise UserError(f"{image.path}: not the image its row names; restore it with `dvc checkout`.")
    return data


def _tensor(pixels: Pixels) -> torch.Tensor:
    return torch.tensor(pixels).permute(2, 0, 1)


def _batches(items: Iterator[_Decoded], size: int) -> Iterator[list[_Decoded]]:
    """Runs of images of one size (a row may lie about it), broken ones alone."""
    batch: list[_Decoded] = []
    for item in items:
        full = len(batch) == size or (batch and (_shape(batch[0]) is None or _shape(batch[0]) != _shape(item)))
        if full:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def _shape(item: _Decoded) -> torch.Size | None:
    return None if item.pixels is None else item.pixels.shape


@contextlib.contextmanager
def _exact(scorer: Scorer, device: torch.device) -> Iterator[None]:
    """No gradients, no warnings, and the arithmetic that params asked for: TF32 only on request, no autotuning."""
    tf32 = scorer.precision == "tf32"
    dtype = _TYPES.get(scorer.precision)
    lower = scorer.facts.kind == "network" and dtype is not None
    matmul = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        with (
            torch.inference_mode(),
            torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=tf32),
            torch.autocast(device.type, dtype) if lower else contextlib.nullcontext(),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = matmul


def _obstacle(scorer: Scorer, height: int, width: int) -> str | None:
    facts = scorer.facts
    if min(height, width) < facts.minimal_side:
        return f"is {width}x{height} pixels; the shorter side must be {facts.minimal_side} at least"
    if height % facts.multiple_of or width % facts.multiple_of:
        return f"is {width}x{height} pixels; both sides must be multiples of {facts.multiple_of}"
    return None


def _is_near(value: float, decimals: int) -> bool:
    """Whether rounding could tip over if the value moved a little."""
    return abs(value * 10**decimals % 1 - 0.5) < _NEAR


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in str(error)


def _clause(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def _finite(value: float | str, decimals: int) -> tuple[float | None, str | None]:
    if isinstance(value, str):
        return None, value
    if not math.isfinite(value):
        return None, f"the score is {value}"
    return round(value, decimals) + 0.0, None  # no negative zero


def _score(job: Job, metric: str, score: float | None, reason: str | None) -> Score:
    reference_id = job.reference.image_id if job.reference else ""
    return Score(job.image.image_id, metric, score, reason, reference_id)
