"""`banana100 dry-run`: a miniature of every campaign of the paper against the loopback server, without a key or a cent.

The whole pipeline runs in a copy of the project, with DVC, the real client over HTTP and a store of its own. Its images
are simulated: it shows that everything is in place before money is spent, and nothing about image models.
"""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from banana100 import paths
from banana100.dry_run.server import running
from banana100.errors import UserError
from banana100.generators import REMOTE
from banana100.params import Campaign, Params

_SIDE = 128
_STEPS = 3

_GIT = ["git", "-c", "user.name=dry run", "-c", "user.email=dry-run@example.org"]


def run(params: Params, folder: Path | None) -> int:
    """Run it all, print the verdicts and where the report lies.

    Args:
        params: the project's; its set `paper` names the campaigns.
        folder: where to; a temporary folder, which stays, by default.

    Returns:
        The exit code: 0 if every stage ran and `verify` finds no fault.

    Raises:
        UserError: the folder is not empty, or the project is no git repository.
    """
    folder = folder or Path(tempfile.mkdtemp(prefix="banana100-dry-run-"))
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder}: not empty; allowed: an empty folder, or one that does not exist.")
    project = folder.resolve() / "project"
    _copy(project)
    (project / paths.PARAMS).write_text(yaml.safe_dump(miniature(params), allow_unicode=True, sort_keys=False))
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "dry run"]):
        subprocess.run([*_GIT, *command], cwd=project, check=True)
    key = f"dry-run-{secrets.token_hex(8)}"  # the server takes this one alone
    with running(key=key, log=folder / "requests.jsonl", seconds=3600) as url:
        environment = os.environ | {
            "GEMINI_API_KEY": key,
            "BANANA100_GEMINI_BASE_URL": url,
            "BANANA100_STORE": str(folder.resolve() / "store"),
            "NO_PROXY": "127.0.0.1",
        }
        for command in (["dvc", "repro"], ["banana100", "verify"], ["banana100", "plan"], ["banana100", "summary"]):
            if code := _call(command, project, environment):
                return code
    print(f"\nSimulated by the loopback server; no image model was asked. Everything is in {folder}.")
    return 0


def miniature(params: Params) -> dict[str, Any]:
    """The content of a params.yaml with every campaign of the set `paper`: one seed, one chain, three steps each."""
    campaigns = params.named_campaigns(["paper"])
    content = params.model_dump(mode="json", exclude_none=True)
    small = {name: _small(campaign) for name, campaign in campaigns.items() if campaign.backend in REMOTE}
    seeds = sorted({seed for campaign in small.values() for seed in campaign["seeds"]})
    texts = {name: source for source in params.seed_sets.get("paper13", ()) for name in source.prompts}
    if unknown := [seed for seed in seeds if seed not in texts]:
        raise UserError(
            f"params.yaml: seed_sets.paper13 makes no seed {unknown[0]}; the dry run makes its seeds of it."
        )
    source = texts[seeds[0]].model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    source["prompts"] = {seed: texts[seed].prompts[seed] for seed in seeds}
    content["seeds"] = {"size": _SIDE, "count": len(seeds), "sources": [source]}
    content["active"], content["campaigns"], content["campaign_sets"] = list(small), small, {}
    content["seed_sets"] = {}
    content["previews"]["steps"] = [0, 1, _STEPS]
    content["scoring"] |= {"metrics": ["entropy", "niqe"], "drift": ["psnr"]}
    content["ranking"] |= {
        "metrics": ["entropy", "niqe"],
        "probe_steps": [2, _STEPS],
        "min_drift": {},
        "bootstrap": 100,
    }
    return content


def _small(campaign: Campaign) -> dict[str, Any]:
    content = campaign.model_dump(mode="json", exclude_none=True)
    seeds = ["table"] if content["seeds"] == "all" else content["seeds"][:1]
    return content | {"seeds": seeds, "repeats": 1, "steps": _STEPS}


def _copy(project: Path) -> None:
    """Copy what git tracks: what lies beside it may hold a key."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise UserError("not in a git repository; start from the project's root, cloned with git.") from None
    for name in filter(None, listed.decode().split("\0")):
        if Path(name).is_file():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, project / name)


def _call(command: list[str], project: Path, environment: Mapping[str, str]) -> int:
    print(f"\n$ {' '.join(command)}", flush=True)
    return subprocess.run([sys.executable, "-m", *command], cwd=project, env=environment, check=False).returncode
