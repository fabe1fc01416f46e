"""Three forms of the same images in one folder: loose files, a tar a chain, a Parquet file a chain."""

import io
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def image(chain: int, step: int, size: int) -> bytes:
    """Bytes that nothing makes smaller, as those of a PNG; the same at every call."""
    return np.random.default_rng([chain, step]).bytes(size)


class Form(ABC):
    """How images lie below a folder."""

    name: str

    @abstractmethod
    def write(self, folder: Path, chain: int, images: Iterator[tuple[str, bytes]], added: bool) -> None:
        """Write a chain's images; `added`: all but the last are there already."""

    @abstractmethod
    def file(self, chain: int, step: int) -> str:
        """The file below the folder that holds an image."""

    def read(self, folder: Path, chain: int, step: int) -> bytes:
        """One image."""
        return (folder / self.file(chain, step)).read_bytes()


class Loose(Form):
    """One file an image, as `data/replicas` is."""

    name = "loose files"

    def write(self, folder: Path, chain: int, images: Iterator[tuple[str, bytes]], added: bool) -> None:
        """Write a chain's images; `added`: all but the last are there already."""
        (folder / _chain(chain)).mkdir(parents=True, exist_ok=True)
        for name, content in list(images)[-1 if added else 0 :]:
            (folder / _chain(chain) / name).write_bytes(content)

    def file(self, chain: int, step: int) -> str:
        """The file below the folder that holds an image."""
        return f"{_chain(chain)}/{member(step)}"


class Tar(Form):
    """One uncompressed tar a chain."""

    name = "a tar a chain"

    def write(self, folder: Path, chain: int, images: Iterator[tuple[str, bytes]], added: bool) -> None:
        """Write a chain's images anew."""
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(folder / self.file(chain, 0), "w") as archive:
            for name, content in images:
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))

    def file(self, chain: int, step: int) -> str:
        """The file below the folder that holds an image."""
        return f"{_chain(chain)}.tar"

    def read(self, folder: Path, chain: int, step: int) -> bytes:
        """One image."""
        with tarfile.open(folder / self.file(chain, step)) as archive:
            return archive.extractfile(member(step)).read()


class Parquet(Form):
    """One Parquet file a chain, without compression: a column of names, a column of images."""

    name = "a Parquet a chain"

    def write(self, folder: Path, chain: int, images: Iterator[tuple[str, bytes]], added: bool) -> None:
        """Write a chain's images anew."""
        folder.mkdir(parents=True, exist_ok=True)
        names, contents = zip(*images, strict=True)
        table = pa.table({"name": names, "image": pa.array(contents, pa.binary())})
        target = folder / self.file(chain, 0)
        pq.write_table(table, target, compression="none", use_dictionary=False, write_statistics=["name"])

    def file(self, chain: int, step: int) -> str:
        """The file below the folder that holds an image."""
        return f"{_chain(chain)}.parquet"

    def read(self, folder: Path, chain: int, step: int) -> bytes:
        """One image."""
        found = pq.read_table(folder / self.file(chain, step), filters=[("name", "=", member(step))])
        return found["image"][0].as_py()


FORMS: tuple[Form, ...] = (Loose(), Tar(), Parquet())


def member(step: int) -> str:
    """An image's name in its chain."""
    return f"{step:03}.png"


def _chain(chain: int) -> str:
    return f"chain-{chain:03}"
