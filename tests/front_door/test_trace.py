"""Params that trace names, put into another clone."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from banana100 import snapshot
from banana100.files import sha256_of
from banana100.trace.subjects import ways_of


def test_params_that_trace_names_make_the_same_images_and_scores_in_another_clone(
    tiny_clone: Any,
    new_clone: Callable[[str], Any],
    default_params: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    put_back: Callable[[dict[str, Any], dict[str, Any]], None],
) -> None:
    """Put into the params.yaml of a new clone, in which all else is something else, they give equal bytes."""
    monkeypatch.chdir(tiny_clone.folder)
    state = snapshot.of_workspace()
    images = {path: ways_of(state, path)[0] for path in state.images["path"]}
    scores = {
        (metric, path): ways_of(state, f"{metric}:{path}")[0]
        for path in images
        for metric in ("entropy", "niqe", "psnr")
        if metric != "psnr" or not path.endswith("/000.png")
    }
    other = copy.deepcopy(default_params)
    other["seeds"] |= {"size": 200, "count": 5}
    other["campaigns"]["simulated-replica"] |= {"repeats": 1, "steps": 2, "config": {"noise": 1, "green": 2}}
    other["scoring"] |= {"metrics": ["piqe"], "drift": [], "precision": "tf32"}
    other["ranking"] |= {"metrics": ["niqe"], "min_drift": {}}
    for way in [*images.values(), *scores.values()]:
        put_back(other, way)
    clone = new_clone("put-back")
    clone.set_params(other)
    clone("dvc", "repro", "-q", "score")
    monkeypatch.chdir(clone.folder)
    for path, way in images.items():
        assert sha256_of(Path(path).read_bytes()) == way["chain"][0]["image_id"], path
    again = snapshot.of_workspace()
    for (metric, path), way in scores.items():
        found = ways_of(again, f"{metric}:{path}")[0]
        assert (found["score"]["score"], found["scorer"]) == (way["score"]["score"], way["scorer"]), (metric, path)
