"""`banana100 export`: write the lineage into a folder of its own, in one of five formats."""

import importlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from banana100 import snapshot
from banana100.errors import UserError
from banana100.export.files import read_image
from banana100.export.lineage import Lineage
from banana100.params import Params
from banana100.workers import progress

FORMS = {"croissant": "croissant", "prov": "prov", "datapackage": "datapackage", "ro-crate": "ro_crate", "hf": "hf"}
# What has the replicas inside, so that there is nothing to copy.
_HOLDS_IMAGES = {"hf"}


def run(_: Params, form: str, folder: Path, with_images: bool) -> None:
    """Export the working tree's lineage.

    Args:
        form: a key of `FORMS`.
        folder: where to; absent or empty.
        with_images: copy seeds and replicas too; `hf` has them inside in any case.

    Raises:
        UserError: the folder is neither absent nor empty, a table or an image is missing or damaged, or the format's
            library is not installed. Nothing is left in the folder then.
    """
    module = _module(form)
    _refuse_used(folder)
    lineage = Lineage(snapshot.of_workspace())
    with _whole(folder) as unfinished:
        module.write(lineage, unfinished, with_images)
        images = lineage.image_files() if with_images and form not in _HOLDS_IMAGES else {}
        for path, image_id in progress(images.items(), total=len(images), what="copy images", unit="image"):
            _copy(Path(path), image_id, unfinished)
    count = len(lineage.images) if form in _HOLDS_IMAGES else len(images)
    what = f"{count} images" if count else "no images"
    print(f"{form}: {folder / module.DOCUMENT}, {len(lineage.tables)} tables, {what}")


def _module(form: str) -> ModuleType:
    try:
        return importlib.import_module(f"banana100.export.{FORMS[form]}")
    except ModuleNotFoundError as error:
        raise UserError(
            f"export {form}: the package {error.name} is not installed; get it with `pip install 'banana100[export]'`."
        ) from None


def _refuse_used(folder: Path) -> None:
    if (folder.exists() or folder.is_symlink()) and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"export: {folder} is there and not an empty folder; allowed: a new name or an empty folder.")


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A folder to fill beside `folder`, whose place it takes at the end; after an error it is gone."""
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}-unfinished-", dir=target.parent))
    try:
        unfinished.chmod(0o755)
        yield unfinished
        unfinished.replace(target)  # an empty folder gives way
    except BaseException:
        shutil.rmtree(unfinished)
        raise


def _copy(path: Path, image_id: str, folder: Path) -> None:
    content = read_image(path, image_id)
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(content)
