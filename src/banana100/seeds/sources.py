"""Candidates: the photographs inside installed packages, the user's own, and images made from texts."""

import importlib.metadata
import importlib.util
import os
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from banana100 import images, paths
from banana100.catalogue.photographs import BUNDLED
from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.generators import REMOTE, archive
from banana100.generators.store import AnswerStore
from banana100.lineage.identity import Request
from banana100.params import Source
from banana100.seeds.generated import origin, texts

IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif"}


@dataclass(frozen=True)
class Candidate:
    """An image that may become a seed, not yet decoded.

    Attributes:
        seed: the name it would have as a seed.
        source: the kind of source it comes from.
        origin: package, version and file, the path below the project, the archive and its member, or the model and the
            request.
        read: gives the bytes of the image file.
        verbatim: whether the file itself is the seed, whatever its size: the images of an archive were made from it.
    """

    seed: str
    source: str
    origin: str
    licence: str
    read: Callable[[], bytes]
    verbatim: bool = False


# Gives the image that a request was answered with.
Answers = Callable[[Request], bytes]


def candidates(source: Source, answers: Answers) -> Iterator[Candidate]:
    """The candidates of one source, in the order of params.yaml or of the file names; no image is read yet.

    Raises:
        UserError: a package or folder is absent, or a folder holds no image file.
    """
    if source.kind in REMOTE:
        yield from _generated(source, answers)
    else:
        yield from {"archive": _archived, "bundled": _bundled, "directory": _directory}[source.kind](source)


def _generated(source: Source, answers: Answers) -> Iterator[Candidate]:
    for text in texts(source):
        request = text.request
        where = origin(request.model, request.id)
        yield Candidate(request.seed, source.kind, where, source.licence, partial(answers, request))


def _archived(source: Source) -> Iterator[Candidate]:
    found = list(archive.seeds(source.archive))
    if not found:
        raise UserError(f"{paths.archive(source.archive)}: has no seed; make it anew with `banana100 import`.")
    for seed, member, image_id in found:
        read = partial(_from_archive, source.archive, seed, image_id)
        yield Candidate(seed, source.kind, f"{source.origin}: {member}", source.licence, read, verbatim=True)


def _from_archive(name: str, seed: str, image_id: str) -> bytes:
    """The image of a seed as it lies in the workspace, where `dvc pull` brings it, or else in the store."""
    for extension in dict.fromkeys(images.EXTENSIONS.values()):
        path = paths.seed_image(seed, extension)
        if path.is_file() and sha256_of(data := path.read_bytes()) == image_id:
            return data
    return archive.in_store(AnswerStore(), image_id, name)


def _bundled(source: Source) -> Iterator[Candidate]:
    for name in source.names:
        photograph = BUNDLED[name]
        spec = importlib.util.find_spec(photograph.package)
        if spec is None or not spec.submodule_search_locations:
            raise UserError(f"seed {name}: package {photograph.distribution} is not installed; run `make`.")
        version = importlib.metadata.version(photograph.distribution)
        yield Candidate(
            seed=name,
            source="bundled",
            origin=f"{photograph.distribution} {version}: {photograph.name}",
            licence=photograph.licence,
            read=(Path(spec.submodule_search_locations[0]) / photograph.name).read_bytes,
        )


def _directory(source: Source) -> Iterator[Candidate]:
    folder = Path(source.path)
    if not folder.is_dir():
        raise UserError(f"params.yaml: seeds.sources names the folder {folder}, which does not exist.")
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES and file.is_file())
    if not files:
        raise UserError(f"{folder}: no image file; allowed: {', '.join(sorted(IMAGE_SUFFIXES))}.")
    for file in files:
        name = unicodedata.normalize("NFC", _readable(file.stem))
        yield Candidate(name, "directory", _readable(file.as_posix()), source.licence, file.read_bytes)


def _readable(name: str) -> str:
    """A file's name as text that can be written down; bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")
