"""The catalogue: every metric of pyiqa with its direction and weights."""

from pathlib import Path
from typing import Any

import pyiqa
from pyiqa.default_model_configs import DEFAULT_CONFIGS

from banana100 import params
from banana100.catalogue.metrics import DRIFT_METRICS, METRICS
from banana100.catalogue.weights import WeightFile


def test_every_single_image_metric_of_pyiqa_is_there_with_its_direction() -> None:
    not_of_one_image = {"fid", "sfid", "fid_dinov2", "inception_score", "clipscore"}
    theirs = {name for name, config in DEFAULT_CONFIGS.items() if config["metric_mode"] == "NR"} - not_of_one_image
    ours = {
        name
        for name, row in METRICS.items()
        if row.implementation.split(":")[0] not in ("cnniqa_live", "visualquality_r1")
    }
    assert len(theirs) == 69 and ours == theirs
    for name, row in (METRICS | DRIFT_METRICS).items():
        if name in DEFAULT_CONFIGS:
            assert row.higher_is_better != DEFAULT_CONFIGS[name].get("lower_better", False), name


def test_pyiqa_knows_every_weight_file_under_its_name() -> None:
    sources = "".join(file.read_text() for file in Path(pyiqa.__file__).parent.rglob("*.py"))
    for name, row in (METRICS | DRIFT_METRICS).items():
        for file in row.weights:
            if isinstance(file, WeightFile) and "IQA-PyTorch-Weights" in file.url:
                assert f"'{file.name}'" in sources, (name, file.name)


def test_the_papers_21_metrics_are_a_set(default_params: dict[str, Any]) -> None:
    changed = {key: default_params[key] | {"metrics": "paper21"} for key in ("scoring", "ranking")}
    checked = params.check(default_params | changed)
    assert len(set(checked.scored_metrics())) == 21 and checked.ranked_metrics() == checked.scored_metrics()
