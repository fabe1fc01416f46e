"""Archives of images made elsewhere: two seeds, two chains each, three steps."""

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

SEEDS = ("moss", "sand dunes")


STEPS = r"(?P<seed>[^/]+)/run(?P<repeat>\d+)/(?P<step>\d+)\.(png|jpg)"


STARTS = r"initial/(?P<seed>.*)\.jpg"


TERMS = ["--licence", "CC BY-NC-SA 4.0", "--origin", "https://example.org/images", "--model", "painter-1"]


def picture(number: int, kind: str = "PNG") -> bytes:
    """An image file; another one for each number."""
    pixels = np.random.default_rng(number).integers(0, 256, (70, 90, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def members() -> dict[str, bytes]:
    """Two seeds, two chains each, three steps; one of the chains ends after two."""
    found = {"README.md": b"read me"}
    for place, seed in enumerate(SEEDS):
        found[f"initial/{seed}.jpg"] = picture(place, "JPEG")
        for repeat in (1, 2):
            for step in (1, 2, 3):
                found[f"{seed}/run{repeat}/{step:03d}.png"] = picture(100 * place + 10 * repeat + step)
    del found["moss/run2/003.png"]
    return found


def write_folder(path: Path, content: dict[str, bytes]) -> None:
    for name, data in content.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)


def write_zip(path: Path, content: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def write_tar(path: Path, content: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for name, data in content.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


WRITERS: dict[str, Callable[[Path, dict[str, bytes]], None]] = {
    "folder": write_folder,
    "images.zip": write_zip,
    "images.tar": write_tar,
    "images.tar.gz": write_tar,
}
