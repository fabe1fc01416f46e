"""An archive's campaign beside a simulated one, through real DVC."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from banana100 import paths
from banana100.generators.archive import digest
from banana100.lineage import tables
from helpers.archives import STARTS, STEPS, TERMS, members, write_zip


@pytest.fixture(scope="module")
def imported(new_clone: Callable[[str], Any], default_params: dict[str, Any]) -> Any:
    """A clone with an archive's campaign beside a simulated one, after `dvc repro`."""
    clone = new_clone("imported")
    write_zip(clone.folder.parent / "images.zip", members())
    asked = ["--pattern", STEPS, "--pattern", STARTS, *TERMS]
    clone("banana100", "import", "mine", str(clone.folder.parent / "images.zip"), *asked)
    content = yaml.safe_load((clone.folder / "params.yaml").read_text())
    content |= {"active": ["mine", "simulated-replica"], "previews": {"steps": [0, 3], "side": 32}}
    content["campaigns"]["simulated-replica"] |= {"repeats": 1, "steps": 3}
    content["seeds"] |= {"sources": "mine", "count": 2}
    content["scoring"] |= {"metrics": ["entropy"], "drift": ["psnr"]}
    content["ranking"] |= {"metrics": ["entropy"], "probe_steps": [2, 3], "min_drift": {}, "bootstrap": 100}
    clone.set_params(content)
    clone("dvc", "repro", "-q")
    clone("git", "add", "-A")
    clone("git", "commit", "-qm", "run")
    return clone


def test_the_whole_pipeline_runs_on_it_and_verify_proves_it(imported: Any) -> None:
    told = imported("banana100", "verify").stdout
    assert "no faults" in told and "15 images of archives" in told
    traced = imported("banana100", "trace", "entropy:data/replicas/mine/moss/r1/003.png").stdout
    assert "https://example.org/images" in traced and "CC BY-NC-SA 4.0" in traced and "painter-1" in traced
    assert "simulated, no model's answer" not in traced
    traced = imported("banana100", "trace", "data/replicas/simulated-replica/moss/r1/003.png").stdout
    assert "simulated, no model's answer" in traced
    assert "absent" in imported("banana100", "trace", "data/replicas/mine/moss/r2/003.png").stdout
    assert "painter-1" in (imported.folder / "metrics/report/index.html").read_text()


def test_another_store_takes_the_images_from_the_data(imported: Any, tmp_path: Path) -> None:
    copy = imported.copy(tmp_path / "copy")
    shutil.rmtree(copy.store)
    before = imported.outputs()
    copy("dvc", "repro", "-q", "-f", "-s", "replicate")
    assert copy.outputs() == before
    shutil.rmtree(copy.store)
    for output in (paths.REPLICAS, paths.LINEAGE, paths.PREVIEWS):
        shutil.rmtree(copy.folder / output)
    lost = copy("banana100", "replicate", check=False)
    assert lost.returncode == 2 and "Traceback" not in lost.stderr
    assert "not in the store; run `banana100 import mine` again" in lost.stderr


def test_verify_names_an_image_that_is_not_the_archives(imported: Any, tmp_path: Path) -> None:
    table = imported.folder / paths.archive("mine")
    kept = table.read_bytes()
    rows = tables.read(table, tables.ARCHIVE)
    found = rows["member"] == "moss/run1/002.png"
    true_id = rows.loc[found, "image_id"].iloc[0]
    rows.loc[found, "image_id"] = "0" * 64
    end = rows[rows["member"] == "moss/run2/002.png"].assign(step=3, image_id="1" * 64, member="moss/run2/003.png")
    forged = [*tables.records(rows), *tables.records(end)]
    params = (imported.folder / "params.yaml").read_text()
    pinned = yaml.safe_load(params)["campaigns"]["mine"]["config"]["table"]
    try:
        tables.write(table, tables.ARCHIVE, forged)
        refused = imported("banana100", "verify", "--quick", check=False)
        (imported.folder / "params.yaml").write_text(params.replace(pinned, digest(forged)))
        told = imported("banana100", "verify", "--quick", check=False)
    finally:
        table.write_bytes(kept)
        (imported.folder / "params.yaml").write_text(params)
    assert refused.returncode == 1 and "has other digests than data/archives/mine.parquet" in refused.stdout
    assert told.returncode == 1
    assert f"moss/r1/002.png: image_id is {true_id}; data/archives/mine.parquet says {'0' * 64}" in told.stdout
    assert f"mine moss r2: the image of step 3 is absent; data/archives/mine.parquet says {'1' * 64}" in told.stdout
