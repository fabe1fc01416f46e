"""`make dry-run`: the paper's campaigns in miniature, from seeds to report."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from banana100 import params
from banana100.dry_run.command import miniature
from helpers.clones import ROOT


def test_every_campaign_of_the_paper_runs_in_miniature_from_seeds_to_report(tmp_path: Path) -> None:
    folder = tmp_path / "dry"
    command = [sys.executable, "-m", "banana100", "dry-run", str(folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert "no faults" in run.stdout and "Simulated by the loopback server" in run.stdout
    campaigns = params.load(ROOT / "params.yaml").campaign_sets["paper"]
    images = pd.read_parquet(folder / "project/data/lineage/images.parquet")
    assert images.groupby("campaign")["step"].max().to_dict() == dict.fromkeys(campaigns, 3)
    page = (folder / "project/metrics/report/index.html").read_text()
    assert "Simulated." in page and f"{len(campaigns)} simulated chains" in page
    served = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    assert len(served) == 3 * len(campaigns) + len({c["seeds"][0] for c in small_campaigns().values()})
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 2 and "not empty; allowed: an empty folder" in again.stderr


def small_campaigns() -> dict[str, Any]:
    return miniature(params.load(ROOT / "params.yaml"))["campaigns"]
