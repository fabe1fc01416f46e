"""`banana100 plan` and `dry-run`: what the paper's campaigns are and cost, and whether they run from end to end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from banana100 import params
from banana100.cli import main
from helpers.clones import ROOT


def test_the_papers_campaigns_are_its_28000_images_at_its_price(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The paper: 56 settings, 5 repeats, 100 steps, 28,000 images, over $4,000."""
    monkeypatch.chdir(ROOT)
    assert main(["plan", "paper"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].split()[:5] == ["all", "56", "280", "28,000", "28,000"]
    assert 4000 < float(lines[-2].split()[5]) < 4200
    checked = params.load()
    assert len(lines) == len(checked.campaign_sets["paper"]) + 4
    assert all(campaign.budget_usd > 0 for campaign in checked.named_campaigns(["paper"]).values())
    # the README explains this very sum
    assert f"${float(lines[-2].split()[5]):,.0f}" in (ROOT / "README.md").read_text()


def test_the_papers_prompt_is_verbatim_and_the_kinds_are_all_there() -> None:
    checked = params.load(ROOT / "params.yaml")
    campaigns = checked.named_campaigns(["paper"])
    assert campaigns["replica"].prompts == ["Produce an exact replica of the provided image, with no alterations."]
    assert len(campaigns["replica"].seeds) == 13 == len(checked.seed_sets["paper13"][0].prompts)
    assert {seed for campaign in campaigns.values() for seed in campaign.seeds} == set(
        checked.seed_sets["paper13"][0].prompts
    )
    configs = [campaign.config for campaign in campaigns.values()]
    assert {config.seed for config in configs} > {None} and {config.temperature for config in configs} >= {0, 2}
    assert {config.image_size for config in configs} == {"1K", "2K", "4K"}
    assert {config.history for config in configs} == {0, 13}
    assert len(campaigns["decolour-colour"].prompts) == 2 and len(campaigns["add-100-fruits"].prompts) == 10


def test_an_unknown_campaign_is_told(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "papre"]) == 2
    assert "papre is no campaign and no set of params.yaml; allowed: simulated-replica" in capsys.readouterr().err


def test_what_the_store_holds_is_not_missing(
    project: Path, small_params: dict[str, Any], set_params: Callable[[dict[str, Any]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def missing() -> list[str]:
        capsys.readouterr()
        assert main(["plan"]) == 0
        return capsys.readouterr().out.splitlines()[2].split()[1:]

    assert missing() == ["2", "4", "3", "12", "12"]  # no seed chosen yet
    assert main(["select_seeds"]) == 0 and main(["replicate"]) == 0
    assert missing() == ["2", "4", "3", "12", "0"]
    small_params["campaigns"]["simulated-replica"]["steps"] = 5
    set_params(small_params)
    assert missing() == ["2", "4", "5", "20", "8"]
