"""The report's page in a real browser, offline, against the tables that it was made from."""

import base64
import contextlib
import copy
import hashlib
import io
import itertools
import json
import math
import re
import shlex
import shutil
import subprocess
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from banana100 import cli, paths
from banana100.lineage import tables

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
CHAIN = ["campaign", "seed", "repeat"]
NUMBER = re.compile(r"[-+−]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
Visit = Callable[..., Any]


# --- what the page must agree with


@dataclass(frozen=True)
class Study:
    """A finished run, read back from its tables."""

    folder: Path

    @property
    def page(self) -> Path:
        return self.folder / paths.REPORT_PAGE

    @cached_property
    def params(self) -> dict[str, Any]:
        return yaml.safe_load((self.folder / paths.PARAMS).read_text())

    @cached_property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.folder / paths.RANKING).read_text())["summary"]

    @cached_property
    def ranking(self) -> dict[str, dict[str, Any]]:
        """By metric; no detection is infinite, which JSON cannot say."""
        ranking = json.loads((self.folder / paths.RANKING).read_text())["ranking"]
        never = self.csv(paths.VERDICTS_TABLE).set_index("metric")["detection"].map(math.isinf)
        for metric, row in ranking.items():
            if never[metric]:
                row["detection"] = math.inf
        return ranking

    @cached_property
    def images(self) -> pd.DataFrame:
        return tables.read(self.folder / paths.IMAGES_TABLE, tables.IMAGES).sort_values([*CHAIN, "step"])

    @cached_property
    def scorers(self) -> pd.DataFrame:
        return tables.read(self.folder / paths.SCORERS_TABLE, tables.SCORERS).set_index("metric")

    @cached_property
    def seeds(self) -> pd.DataFrame:
        seeds = tables.read(self.folder / paths.SEED_TABLE, tables.SEEDS)
        return seeds[seeds["chosen"]].set_index("seed")

    @cached_property
    def _scores(self) -> dict[tuple[str, str], float]:
        found = [tables.read(self.folder / paths.scores(metric), tables.SCORES) for metric in self.ranking]
        return {(row.metric, row.image_id): row.score for row in pd.concat(found).itertuples()}

    def csv(self, path: Path) -> pd.DataFrame:
        names = dict.fromkeys(("metric", "campaign", "seed", "other"), str)
        return pd.read_csv(self.folder / path, dtype=names, keep_default_na=False, na_values=[""])

    def image(self, chain: tuple[str, str, int], step: int) -> Any:
        campaign, seed, repeat = chain
        rows = self.images.set_index([*CHAIN, "step"]).loc[[(campaign, seed, repeat, step)]]
        return next(rows.itertuples())

    def score(self, metric: str, chain: tuple[str, str, int], step: int) -> float | None:
        """As the metric gives it."""
        return self._scores.get((metric, self.image(chain, step).image_id))

    def gain(self, metric: str, chain: tuple[str, str, int], before: int, after: int) -> float | None:
        """Above 0 where the metric calls the later image better."""
        first, last = (self.score(metric, chain, step) for step in (before, after))
        if first is None or last is None:
            return None
        return last - first if self.scorers.loc[metric, "higher_is_better"] else first - last

    def preview(self, chain: tuple[str, str, int], step: int) -> bytes:
        return (self.folder / paths.preview(*chain, step)).read_bytes()

    def preview_steps(self, chain: tuple[str, str, int]) -> list[int]:
        """The asked for ones that the chain is long enough for."""
        taken = self.images.set_index(CHAIN).loc[[chain], "step"].tolist()
        return [step for step in self.params["previews"]["steps"] if step in taken]

    @property
    def baseline_step(self) -> int:
        return self.params["ranking"]["baseline_step"]


def agrees(text: str, value: float, slack: float = 0.0) -> bool:
    """Whether a number as shown is `value` rounded to as many decimals; percent count as such."""
    if not (found := NUMBER.search(text)):
        return False
    number, decimals = found[0].replace("−", "-"), len((found[0] + ".").split(".")[1])
    factor = 100 if re.match(r"\s*%", text[found.end() :]) else 1
    return abs(float(number) - factor * value) <= 0.5 * 10.0**-decimals + factor * slack + 1e-9


def shows(text: str, value: float | bool | None) -> bool:
    """Whether a cell's text says `value`, which ranking.json has to 4 decimals."""
    if isinstance(value, bool):
        return ("✓" in text, "✗" in text) == (value, not value)
    if value is None or math.isnan(value):
        return bool(text.strip()) and not re.search(r"\d|nan|none|null|undefined", text, re.IGNORECASE)
    if math.isinf(value):
        return "∞" in text
    fine = value == round(value) or "." in text or "%" in text  # 0.3 is not to be shown as 0
    return agrees(text, value, slack=5e-5) and fine


def holds(text: str, value: float) -> bool:
    """Whether a text has `value`, rounded to at least two decimals, among its numbers."""
    parts = [text[found.start() : found.end() + 2] for found in NUMBER.finditer(text)]
    return any(agrees(part, value) and (value == round(value) or "." in part or "%" in part) for part in parts)


def says(cell: str, value: Any) -> bool:
    """Whether a cell is that word or number."""
    return squeezed(cell) == value if isinstance(value, str) else bool(holds(cell, value))


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


# --- pages


@pytest.fixture(scope="module")
def small(browser: Any, small_clone: Any) -> Study:
    """4 chains of 20 steps, with their images."""
    return Study(small_clone.folder)


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    """Open a page from disk, without a network; afterwards nothing may have gone wrong in it."""
    troubles: list[str] = []

    def watch(page: Any, absent: bool) -> None:
        def told(message: Any) -> None:
            expected = absent and "ERR_FILE_NOT_FOUND" in message.text
            if message.type in ("error", "warning") and not expected:
                troubles.append(f"console {message.type}: {message.text}")

        def asked(request: Any) -> None:
            if not request.url.startswith(("file:", "data:", "blob:")):
                troubles.append(f"request: {request.url}")

        def interrupted(dialog: Any) -> None:
            troubles.append(f"{dialog.type}: {dialog.message}")
            dialog.dismiss()

        page.on("console", told)
        page.on("request", asked)
        page.on("dialog", interrupted)
        page.on("pageerror", lambda error: troubles.append(f"page error: {error}"))

    def visit(
        file: Path,
        *,
        absent: bool = False,
        size: dict[str, int] | None = None,
        before: Callable[[Any], object] = lambda page: None,
        **options: Any,
    ) -> Any:
        """`absent`: files that the page shows on demand may be missing; `before`: to be done before it is opened."""
        context = browser.new_context(offline=True, viewport=size or WIDE, reduced_motion="reduce", **options)
        context.set_default_timeout(5000)
        contexts.callback(context.close)
        page = context.new_page()
        watch(page, absent)
        before(page)
        page.goto(file.as_uri())
        return page

    with contextlib.ExitStack() as contexts:
        yield visit
    assert not troubles, "\n".join(troubles)


@pytest.fixture
def page(small: Study, visit: Visit) -> Any:
    return visit(small.page)


def rows_of(page: Any) -> list[dict[str, Any]]:
    """The verdict table as it stands: (machine value, text) by column, and the metric."""
    return page.eval_on_selector_all(
        "#verdicts tr[data-metric]",
        """rows => rows.map(row => Object.fromEntries([["metric", row.dataset.metric],
           ...[...row.querySelectorAll("td[data-column]")].map(
               cell => [cell.dataset.column, [cell.dataset.value, cell.innerText]])]))""",
    )


# --- the page opens, and says what the tables say


def test_the_page_opens_from_disk_and_asks_for_no_other_file(small: Study, visit: Visit) -> None:
    """`visit` fails on any message, error or request to elsewhere."""
    asked: list[str] = []
    page = visit(small.page, before=lambda page: page.on("request", lambda request: asked.append(request.url)))
    page.wait_for_load_state("networkidle")
    page.mouse.wheel(0, 100_000)  # what is loaded when it comes into view
    page.wait_for_timeout(200)
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [small.page.as_uri()]
    assert page.title() and page.locator("html").get_attribute("lang") == "en"


def test_the_headline_and_what_it_rests_on_come_from_the_tables(small: Study, page: Any) -> None:
    headline = page.locator("h1").inner_text()
    consistent = [metric for metric, row in small.ranking.items() if row["consistent"]]
    assert all(metric in headline for metric in consistent) and ("none" in headline) == (not consistent)
    assert {small.summary["metrics"], small.summary["eligible_chains"]} <= {
        int(n) for n in re.findall(r"\d+", headline)
    }
    assert "imulated" in page.locator("p#simulated").inner_text()
    basis = squeezed(page.locator("dl#basis").inner_text())
    facts = [small.summary["seeds"], small.summary["chains"], len(small.images), small.summary["metrics"]]
    assert {str(fact) for fact in facts} <= set(re.findall(r"\d+", basis.replace(",", ""))), basis
    campaign = small.params["campaigns"]["simulated-replica"]
    assert "simulated-replica" in basis and campaign["model"] in basis
    commits = subprocess.check_output(["git", "rev-list", "--all"], cwd=small.folder, text=True).split()
    digits = re.findall(r"\b[0-9a-f]{7,40}\b", basis)
    assert any(commit.startswith(named) for named in digits for commit in commits), basis
    assert page.locator("dl#basis dt").count() == page.locator("dl#basis dd").count() >= 7


def test_links_lead_somewhere_and_the_first_one_skips_to_the_content(page: Any, small: Study) -> None:
    assert (
        page.eval_on_selector_all(
            "a[href^='#']", "links => links.filter(a => !document.getElementById(a.hash.slice(1))).map(a => a.hash)"
        )
        == []
    )
    sections = {"verdicts", "curves", "rot", "findings", "cost", "method"}
    assert sections <= {a.lstrip("#") for a in page.eval_on_selector_all("nav a", "l => l.map(a => a.hash)")}
    for link in page.eval_on_selector_all("a[href]", "links => links.map(a => a.getAttribute('href'))"):
        if not re.match(r"https?:|#|mailto:", link):
            assert (small.page.parent / urllib.parse.unquote(link)).is_file(), link
    page.keyboard.press("Tab")
    target = page.evaluate("document.activeElement.hash")
    assert page.locator(":focus").is_visible() and page.locator(target).locator("h1").count() == 1
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("id => document.querySelector(id).contains(document.activeElement)", target)


def test_the_verdicts_are_those_of_ranking_json(small: Study, page: Any) -> None:
    rows = rows_of(page)
    assert {row["metric"] for row in rows} == small.ranking.keys() and len(rows) == len(small.ranking)
    columns = {"consistent", "failures", "chains", "not_judged", "failed_scores", "tau", "accuracy", "auc"}
    columns |= {"detection", "p_permutation_holm"}
    for row in rows:
        assert columns <= row.keys()
        for column in columns:
            value, (machine, text) = small.ranking[row["metric"]][column], row[column]
            assert shows(text, value), (row["metric"], column, text, value)
            if not isinstance(value, bool):
                assert float(machine) == pytest.approx(value, abs=5e-5), (row["metric"], column)
    colour = """cells => cells.map(cell => [cell.innerText, getComputedStyle(cell.firstElementChild ?? cell).color])"""
    shown = {tuple(one) for one in page.eval_on_selector_all("#verdicts td[data-column=consistent]", colour)}
    outcomes = {row["consistent"] for row in small.ranking.values()}
    assert len(shown) == len({colour for _, colour in shown}) == len(outcomes)


def value_of(study: Study, metric: str, column: str) -> Any:
    """What a row is sorted by; None where there is nothing."""
    value = metric if column == "metric" else study.ranking[metric][column]
    return None if isinstance(value, float) and math.isnan(value) else value


def assert_sorted(study: Study, page: Any, column: str, direction: str) -> None:
    found = [value_of(study, row["metric"], column) for row in rows_of(page)]
    known = sorted((value for value in found if value is not None), reverse=direction == "descending")
    assert found == known + [None] * (len(found) - len(known)), (column, direction)  # the unknown stay at the end
    marked = page.eval_on_selector_all(
        "#verdicts [aria-sort]:not([aria-sort=none])", "heads => heads.map(h => [h.dataset.column, h.ariaSort])"
    )
    assert marked == [[column, direction]]


def sort_twice(study: Study, page: Any, column: str, press: Callable[[Any], None]) -> None:
    directions = []
    for _ in range(2):
        head = page.locator(f"#verdicts thead th[data-column={column}]")
        press(head.locator("button"))
        directions.append(head.get_attribute("aria-sort"))
        assert_sorted(study, page, column, directions[-1])
    assert set(directions) == {"ascending", "descending"}


def test_a_click_on_a_column_sorts_and_another_turns_it_round(small: Study, page: Any) -> None:
    columns = page.eval_on_selector_all("#verdicts thead th[data-column]", "heads => heads.map(h => h.dataset.column)")
    assert {"metric", "consistent", "tau", "detection"} <= set(columns)
    for column in columns:
        sort_twice(study=small, page=page, column=column, press=lambda button: button.click())


@pytest.mark.parametrize(("column", "key"), [("metric", "Enter"), ("tau", "Space"), ("detection", "Enter")])
def test_columns_sort_by_keyboard_and_keep_the_focus(small: Study, page: Any, column: str, key: str) -> None:
    def press(button: Any) -> None:
        button.focus()
        page.keyboard.press(key)
        assert button.evaluate("it => it === document.activeElement")

    sort_twice(small, page, column, press)


# --- the trace panel


@pytest.fixture
def asked(
    small_clone: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Any], Any]:
    """Run the command that the open panel shows; gives what it is about and what `--json` says of it."""
    monkeypatch.chdir(small_clone.folder)
    return lambda page: ask(page, capsys)


def ask(page: Any, capsys: pytest.CaptureFixture[str]) -> tuple[str, dict[str, Any]]:
    command = page.locator("dialog#trace:modal code").filter(has_text="banana100 trace").first.inner_text().strip()
    words = shlex.split(command)
    assert words[:2] == ["banana100", "trace"] and len(words) == 3, command
    capsys.readouterr()
    assert cli.main([*words[1:], "--json"]) == 0, command
    return words[2], json.loads(capsys.readouterr().out)["ways"][0]


def assert_panel_agrees(page: Any, way: dict[str, Any]) -> None:
    """Everything that `banana100 trace` says of an image or score stands in the panel."""
    body = page.locator("#trace-body")
    text = squeezed(body.text_content())
    chain, seed = way["chain"], way["seed"]
    for image in chain:  # the image and every parent back to the seed
        assert image["image_id"][:8] in text and squeezed(image["path"]) in text, image["step"]
    if request := chain[0]["request"]:
        assert request["request_id"][:8] in text and request["model"] in text and squeezed(request["prompt"]) in text
        assert (request["model_answered"] or "") in text
        for key, value in json.loads(request["config"]).items():
            assert key in text and str(value) in text
    for name in ("seed", "origin", "licence"):
        assert squeezed(seed[name]) in text, name
    if score := way.get("score"):
        scorer = way["scorer"]
        assert score["metric"] in text and scorer["scorer_id"][:8] in text
        if score["score"] is None:
            assert squeezed(score["reason"]) in text
        else:
            assert holds(body.inner_text(), score["score"])
        for name in ("pyiqa", "torch", "parameters", "preprocessing"):
            assert squeezed(scorer[name] or "") in text, name


def frames(page: Any) -> Any:
    return page.locator("#rot article.strip button.frame")


def test_an_image_opens_its_way_back_as_the_command_tells_it(small: Study, page: Any, asked: Any) -> None:
    for index in (frames(page).count() - 1, 0):  # a last step, and a seed
        step = int(frames(page).nth(index).get_attribute("data-step"))
        frames(page).nth(index).click()
        assert page.locator("dialog#trace:modal").count() == 1
        what, way = asked(page)
        assert way["chain"][0]["path"] == what and way["chain"][0]["step"] == step and len(way["chain"]) == step + 1
        assert_panel_agrees(page, way)
        page.keyboard.press("Escape")
        assert not page.locator("dialog#trace").is_visible()


def test_a_score_opens_its_way_back_as_the_command_tells_it(small: Study, page: Any, asked: Any) -> None:
    buttons = page.locator("#rot article.strip button.score")
    seen = set()
    for index in (0, buttons.count() // 2, buttons.count() - 1):
        buttons.nth(index).click()
        what, way = asked(page)
        metric, _, path = what.partition(":")
        assert (way["score"]["metric"], way["chain"][0]["path"]) == (metric, path)
        assert agrees(buttons.nth(index).inner_text(), way["score"]["score"])
        assert_panel_agrees(page, way)
        seen.add(metric)
        page.get_by_role("button", name="Close").click()
        assert not page.locator("dialog#trace").is_visible()
    assert len(seen) > 1


def test_the_panel_is_closed_by_keyboard_or_button_and_gives_the_focus_back(page: Any) -> None:
    for opener, close in (
        (frames(page).nth(1), lambda: page.keyboard.press("Escape")),
        (page.locator("button.score").nth(2), lambda: page.get_by_role("button", name="Close").click()),
    ):
        opener.focus()
        page.keyboard.press("Enter")
        assert page.locator("dialog#trace:modal").count() == 1
        assert page.evaluate("document.getElementById('trace').contains(document.activeElement)")
        close()
        assert not page.locator("dialog#trace").is_visible()
        assert opener.evaluate("it => it === document.activeElement")


def test_the_command_is_copied(page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("navigator.clipboard.writeText('something else')")
    frames(page).nth(2).click()
    command = page.locator("dialog#trace:modal code").filter(has_text="banana100 trace").first.inner_text().strip()
    page.locator("dialog#trace").get_by_role("button", name=re.compile("copy", re.IGNORECASE)).click()
    page.wait_for_timeout(100)
    assert page.evaluate("navigator.clipboard.readText()") == command


def hover_a_curve(page: Any, metric: str) -> tuple[float, float]:
    """Move over the figure until a score is named; gives where."""
    figure = page.locator(f"#curves figure[data-metric='{metric}'] svg")
    figure.scroll_into_view_if_needed()
    box = figure.bounding_box()
    for across, down in itertools.product(range(60, 100, 10), range(50, 5, -5)):
        at = box["x"] + box["width"] * across / 100, box["y"] + box["height"] * down / 100
        page.mouse.move(*at)
        if page.locator("#hover").is_visible() and page.locator("#hover").inner_text().strip():
            return at
    raise AssertionError("the pointer meets no curve")


def test_the_pointer_over_a_curve_names_the_score_and_a_click_opens_its_way_back(
    small: Study, page: Any, asked: Any
) -> None:
    metrics = page.eval_on_selector_all("#curves figure[data-metric]", "figures => figures.map(f => f.dataset.metric)")
    assert set(metrics) == small.ranking.keys()
    for metric in (metrics[0], metrics[-1]):
        at = hover_a_curve(page, metric)
        told = squeezed(page.locator("#hover").inner_text())
        page.mouse.click(*at)
        what, way = asked(page)
        image = way["chain"][0]
        assert what == f"{metric}:{image['path']}"
        assert image["seed"] in told and image["campaign"] in told, told
        numbers = [int(number) for number in re.findall(r"\b\d+\b(?!\.)", told)]
        assert image["repeat"] in numbers and image["step"] in numbers and holds(told, way["score"]["score"]), told
        page.keyboard.press("Escape")
        page.mouse.move(0, 0)
        assert not page.locator("#hover").is_visible()


def test_curves_are_walked_by_keyboard_too(small: Study, page: Any, asked: Any) -> None:
    figure = page.locator("#curves figure[data-metric]").first
    figure.focus()
    told = set()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        told.add(page.locator("#hover").inner_text())
    assert len(told) == 3
    page.keyboard.press("Enter")
    what, way = asked(page)
    assert what.startswith(figure.get_attribute("data-metric")) and way["chain"][0]["seed"] in told.pop()


# --- the rot: strips, and two images side by side


def loaded(image: Any) -> None:
    """Wait for an <img>; not with `wait_for_function`, whose second look the page's policy of no `eval` forbids."""
    image.evaluate("it => it.decode()")


def content_of(image: Any) -> bytes:
    """The bytes that an <img> shows."""
    url = image.evaluate("it => it.currentSrc")
    if url.startswith("data:"):
        head, _, data = url.partition(",")
        return base64.b64decode(data) if head.endswith(";base64") else urllib.parse.unquote_to_bytes(data)
    return Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path)).read_bytes()


def chain_named(study: Study, text: str) -> tuple[str, str, int]:
    """The chain that a text names: by its seed, its campaign, and its repeat, which is the first if it is not said."""
    text, repeat = squeezed(text), re.search(r"repeat (\d+)", text)
    found = [
        (str(campaign), str(seed), int(number))
        for campaign, seed, number in study.images[CHAIN].drop_duplicates().itertuples(index=False)
        if squeezed(seed) in text and campaign in text and number == (int(repeat[1]) if repeat else 1)
    ]
    assert len(found) == 1, (text, found)
    return found[0]


def test_every_seed_has_a_strip_of_its_previews_and_of_what_metrics_say_of_them(small: Study, page: Any) -> None:
    strips = page.locator("#rot article.strip")
    assert strips.count() == len(small.images[["campaign", "seed"]].drop_duplicates())
    wrongs = 0
    for strip in strips.all():
        chain = chain_named(small, strip.inner_text())
        steps = strip.locator("button.frame").evaluate_all("all => all.map(button => Number(button.dataset.step))")
        assert steps == small.preview_steps(chain)
        for step, image in zip(steps, strip.locator("button.frame img").all(), strict=True):
            assert content_of(image) == small.preview(chain, step)
            alt = image.get_attribute("alt")
            assert chain[1] in alt and re.search(rf"\b{step}\b", alt) and ("simulated" in alt or step == 0), alt
        rows = strip.locator("tbody tr, tr:has(button.score)").filter(has=page.locator("button.score"))
        assert rows.count() == len(small.ranking)
        for row in rows.all():
            metric = squeezed(row.locator("th, td").first.inner_text()).split()[0]
            cells = row.locator("td:has(button.score)")
            for step, cell in zip(steps, cells.all(), strict=True):
                text, classes = cell.inner_text(), (cell.get_attribute("class") or "").split()
                gain = small.gain(metric, chain, small.baseline_step, step)
                assert agrees(text, small.score(metric, chain, step)), (metric, step, text)
                wrong = step > small.baseline_step and gain > 0
                assert ("wrong" in classes, "better" in text) == (wrong, wrong), (metric, step, text)
                wrongs += wrong
    assert wrongs  # entropy rises with noise


def choose(page: Any, *, chain: int = 0, before: int = 0, after: int = -1) -> None:
    """Choose a chain and two steps by their places in the lists."""
    for name, place in (("chain", chain), ("before", before), ("after", after)):
        options = page.locator(f"select#{name} option")
        page.locator(f"select#{name}").select_option(index=place % options.count())


def chosen(study: Study, page: Any) -> tuple[tuple[str, str, int], int, int]:
    texts = [page.locator(f"select#{name} option:checked").inner_text() for name in ("chain", "before", "after")]
    return chain_named(study, texts[0]), *(int(re.search(r"\d+", text)[0]) for text in texts[1:])


def mode(page: Any, name: str) -> None:
    """As by a click on its label, as the button itself may be hidden."""
    page.locator(f"#compare input[name=mode][value={name}]").check(force=True)


def pixels(page: Any) -> np.ndarray:
    """What is seen where the images lie; the outermost pixels may be a frame's."""
    image = page.locator("#stage #before-image")
    image.scroll_into_view_if_needed()
    box = image.bounding_box()
    clip = {"x": box["x"] + 2, "y": box["y"] + 2, "width": box["width"] - 4, "height": box["height"] - 4}
    return np.asarray(Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")).astype(int)


def unlike(one: np.ndarray, other: np.ndarray) -> float:
    """The share of pixels that differ: the divider itself covers some."""
    return float((np.abs(one - other).max(axis=2) > 8).mean())


def test_the_two_images_are_the_previews_of_the_chosen_steps(small: Study, page: Any) -> None:
    for places in ({"chain": 0, "before": 0, "after": -1}, {"chain": -1, "before": 1, "after": 2}):
        choose(page, **places)
        chain, before, after = chosen(small, page)
        assert before < after
        assert content_of(page.locator("#before-image")) == small.preview(chain, before)
        assert content_of(page.locator("#after-image")) == small.preview(chain, after)
        for name, step in (("before", before), ("after", after)):
            alt = page.locator(f"#{name}-image").get_attribute("alt")
            assert chain[1] in alt and re.search(rf"\b{step}\b", alt), alt
    assert page.locator("#compare input[name=mode]").evaluate_all("all => all.map(radio => radio.value)") == [
        *("slider", "difference", "native")
    ]


def test_the_table_below_says_what_each_metric_makes_of_the_two(small: Study, page: Any) -> None:
    verdicts = set()
    for places in ({"chain": 0, "before": 0, "after": -1}, {"chain": 2, "before": 1, "after": 1}):
        choose(page, **places)
        chain, before, after = chosen(small, page)
        told = {}
        for row in page.locator("table#compare-scores tbody tr").all():
            cells = [squeezed(cell.inner_text()) for cell in row.locator("th, td").all()]
            told[cells[0].split()[0]] = cells
        assert told.keys() >= small.ranking.keys()
        for metric in small.ranking:
            assert agrees(told[metric][1], small.score(metric, chain, before)), told[metric]
            assert agrees(told[metric][2], small.score(metric, chain, after)), told[metric]
            gain = small.gain(metric, chain, before, after)
            said = re.search(r"better|worse", told[metric][-1])
            assert (said and said[0]) == ("better" if gain > 0 else "worse" if gain < 0 else None), told[metric]
            verdicts.add(said and said[0])
    assert verdicts == {"better", "worse", None}


def test_the_divider_moves_by_keyboard_and_parts_the_two_images(page: Any) -> None:
    choose(page)
    mode(page, "slider")
    divider = page.locator("input#divider")
    divider.focus()
    seen = {}
    for key, value in (("Home", "0"), ("End", "100")):
        page.keyboard.press(key)
        assert divider.input_value() == value
        seen[value] = pixels(page)
    page.keyboard.press("ArrowLeft")
    assert 90 <= float(divider.input_value()) < 100
    assert unlike(seen["0"], seen["100"]) > 0.2
    divider.fill("50")
    half = pixels(page)
    middle, edge = half.shape[1] // 2, half.shape[1] // 20
    left, right = (slice(None), slice(0, middle - edge)), (slice(None), slice(middle + edge, None))
    of_left, of_right = (min(seen, key=lambda at: unlike(half[part], seen[at][part])) for part in (left, right))
    assert of_left != of_right
    assert unlike(half[left], seen[of_left][left]) < 0.05 and unlike(half[right], seen[of_right][right]) < 0.05
    assert page.get_by_role("slider", name=re.compile("[a-z]")).count() == 1


def test_the_difference_is_black_for_equal_images_and_grows_with_amplification(page: Any) -> None:
    amplify, divider = page.locator("input#amplify"), page.locator("input#divider")
    mode(page, "slider")
    assert divider.is_visible() and not amplify.is_visible()
    mode(page, "difference")
    assert amplify.is_visible() and not divider.is_visible()
    choose(page)
    means = []
    for key in ("Home", "End"):
        amplify.focus()
        page.keyboard.press(key)
        means.append(pixels(page).mean())
    assert 1 < means[0] < means[1] - 5
    names = [page.locator(f"select#{name} option").all_inner_texts() for name in ("before", "after")]
    common = next(text for text in names[1] if text in names[0])
    for name in ("before", "after"):
        page.locator(f"select#{name}").select_option(label=common)
    assert pixels(page).mean() < 1


def test_native_shows_the_files_themselves_pixel_by_pixel(small: Study, page: Any) -> None:
    choose(page, chain=-1)
    mode(page, "native")
    chain, *steps = chosen(small, page)
    missing = page.locator("#native-missing")
    for name, step in zip(("before", "after"), steps, strict=True):
        image, row = page.locator(f"#{name}-image"), small.image(chain, step)
        loaded(image)
        source = image.get_attribute("src")
        assert source.startswith("../../data/"), source
        file = (small.page.parent / urllib.parse.unquote(source)).resolve()
        assert hashlib.sha256(file.read_bytes()).hexdigest() == row.image_id
        assert image.evaluate("it => [it.naturalWidth, it.naturalHeight]") == [row.width, row.height]
        assert image.evaluate("it => getComputedStyle(it).imageRendering") == "pixelated"
        for zoom in ("2", "4", "1"):
            page.locator("select#zoom").select_option(value=zoom)
            box = image.bounding_box()
            assert (box["width"], box["height"]) == (row.width * int(zoom), row.height * int(zoom))
    assert not missing.is_visible()
    mode(page, "slider")
    assert not page.locator("select#zoom").is_visible()
    assert content_of(page.locator("#after-image")) == small.preview(chain, steps[1])


def test_without_the_images_native_names_the_command_that_fetches_them(
    small: Study, visit: Visit, tmp_path: Path
) -> None:
    """The page's folder alone, as mailed or published."""
    folder = shutil.copytree(small.page.parent, tmp_path / "a b #1 ü" / "metrics" / "report")
    page = visit(folder / "index.html", absent=True)
    choose(page)
    assert not page.locator("#native-missing").is_visible()
    mode(page, "native")
    page.locator("#native-missing").wait_for(state="visible")
    assert "dvc pull replicate" in page.locator("#native-missing").inner_text()
    mode(page, "slider")
    assert not page.locator("#native-missing").is_visible()
    chain, _, after = chosen(small, page)
    assert content_of(page.locator("#after-image")) == small.preview(chain, after)
    frames(page).first.click()
    assert page.locator("#trace-body").inner_text().strip()


# --- findings, cost, method


def test_findings_are_figures_with_their_numbers_and_files_beside_the_page(small: Study, page: Any) -> None:
    shown = {}
    for figure in page.locator("#findings figure").all():
        drawn = figure.locator("svg[role=img]")
        assert drawn.count() == 1 and drawn.first.is_visible()
        links = figure.locator("a[href]").evaluate_all("all => all.map(a => a.getAttribute('href'))")
        vector = next(link for link in links if re.fullmatch(r"figures/[\w-]+\.svg", link))
        assert vector.replace(".svg", ".png") in links
        assert ET.parse(small.page.parent / vector).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        with Image.open(small.page.parent / vector.replace(".svg", ".png")) as raster:
            assert min(raster.size) > 100
        assert squeezed(figure.locator("figcaption").inner_text())
        figure.locator("details summary").first.click()
        rows = figure.locator("details table tbody tr").all()
        shown[Path(vector).stem] = [row.locator("th, td").all_inner_texts() for row in rows]
    failures = small.csv(paths.FAILURES_BY_SEED_TABLE).groupby(["metric", "seed"])[["failures", "chains"]].sum()
    for path, values in (
        ("failures", failures.reset_index()),
        ("ranks", small.csv(paths.RANKS_TABLE)[["metric", "average_rank"]]),
        ("correlation", small.csv(paths.REDUNDANCY_TABLE)[["metric", "other", "rho"]]),
        ("ensemble", small.csv(paths.SUBSET_TABLE)[["seed", "auc"]]),
    ):
        wanted = values.astype(object).to_numpy().tolist()
        assert len(shown[path]) == len(wanted), path
        for row in wanted:
            same = [cells for cells in shown[path] if all(map(says, cells, row))]
            assert len(same) == 1, (path, row)


def test_every_figure_has_a_name_of_its_own(page: Any) -> None:
    names = page.evaluate(
        """() => [...document.querySelectorAll("svg[role=img]")].map(svg => {
            const by = svg.getAttribute("aria-labelledby");
            return svg.getAttribute("aria-label") || (by && by.split(" ").map(
                id => document.getElementById(id)?.textContent).join(" ")) || svg.querySelector("title")?.textContent;
        })"""
    )
    assert len(names) >= 8 and all(names) and len(set(names)) == len(names)
    assert page.locator("#curves figure[data-metric] svg[role=img]").count() == page.locator("#curves figure").count()
    # shapes that several figures use bear the same id: then they must be the same
    other = "all => all.filter(it => it.outerHTML !== document.getElementById(it.id).outerHTML).map(it => it.id)"
    assert page.eval_on_selector_all("[id]", other) == []


def test_the_method_names_params_versions_licences_and_the_paper(small: Study, page: Any) -> None:
    text = squeezed(page.locator("#method").text_content())
    ranking = small.params["ranking"]
    for name in ("baseline_step", "probe_steps", "spread", "bootstrap", "random_state"):
        for value in np.ravel(ranking[name]):
            assert re.search(rf"\b{re.escape(str(value))}\b", text), name
    versions = {version for name in ("pyiqa", "torch") for version in small.scorers[name].dropna()}
    licences = {*small.seeds["licence"], *small.scorers.loc[list(small.ranking), "parameters_licence"].dropna()}
    for word in (*versions, *licences, "2604.03400"):
        assert squeezed(word) in text, word
    assert re.search(r"@\w+\s*\{", text)
    assert "simulated-replica" in page.locator("#cost").inner_text()


# --- how it looks


def lightness(page: Any, selector: str, what: str) -> float:
    """0 (black) to 1 of a computed colour."""
    colour = page.locator(selector).first.evaluate(f"it => getComputedStyle(it).{what}")
    red, green, blue, *alpha = (float(part) for part in re.findall(r"[\d.]+", colour))
    scale = 1 if colour.startswith("color(") else 255
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / scale if not alpha or alpha[0] else math.nan


def is_dark(page: Any) -> bool:
    paper = [lightness(page, name, "backgroundColor") for name in ("body", "html")]
    return next(value for value in paper if not math.isnan(value)) < 0.5 < lightness(page, "h1", "color")


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_theme_follows_the_system_until_a_button_says_otherwise(small: Study, visit: Visit, system: str) -> None:
    page = visit(small.page, color_scheme=system)
    theme = "document.documentElement.dataset.theme ?? null"
    assert page.evaluate(theme) is None and is_dark(page) == (system == "dark")
    for expected in ("light", "dark", None):
        page.locator("button#theme").click()
        dark = (expected or system) == "dark"
        assert (page.evaluate(theme), is_dark(page)) == (expected, dark)
        page.reload()  # remembered
        assert (page.evaluate(theme), is_dark(page)) == (expected, dark)


def test_the_page_works_where_nothing_can_be_remembered(small: Study, visit: Visit) -> None:
    """Storage is forbidden, as in a sandboxed frame."""
    forbid = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError'); }})"
    page = visit(small.page, before=lambda page: page.add_init_script(forbid))
    page.locator("button#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    sort_twice(small, page, "tau", lambda button: button.click())


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(small: Study, visit: Visit, scheme: str, size: dict[str, int]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = visit(small.page, color_scheme=scheme, size=size)
    page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
    assert not serious(Axe().run(page))
    mode(page, "difference")
    page.locator("button.score").last.click()
    assert not serious(Axe().run(page))


def serious(found: Any) -> list[tuple[str, str, list[Any]]]:
    return [
        (one["id"], one["help"], [node["target"] for node in one["nodes"]][:5])
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


OVERFLOWING = """() => [...document.querySelectorAll("body *")].filter(it =>
    it.scrollWidth > it.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(it).overflowX))
    .map(it => [it.outerHTML.slice(0, 80), it.tabIndex])"""


@pytest.mark.parametrize("native", [False, True], ids=["previews", "native"])
def test_on_a_phone_the_page_does_not_scroll_sideways_and_wide_parts_do(
    small: Study, visit: Visit, native: bool
) -> None:
    page = visit(small.page, size=NARROW)
    page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
    if native:
        mode(page, "native")
        page.locator("select#zoom").select_option(value="4")
        loaded(page.locator("#after-image"))
    width = "[document.documentElement.scrollWidth, innerWidth]"
    wide, inner = page.evaluate(width)
    assert wide <= inner == NARROW["width"]
    scrolling = page.evaluate(OVERFLOWING)
    assert scrolling and all(tab >= 0 for _, tab in scrolling), scrolling
    page.locator("button.score").first.click()
    box = page.locator("dialog#trace").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= inner
    wide, inner = page.evaluate(width)
    assert wide <= inner


def test_on_paper_there_is_nothing_to_click_and_everything_to_read(small: Study, visit: Visit) -> None:
    page = visit(small.page, color_scheme="dark")
    page.emulate_media(media="print")
    hidden = "nav, button#theme, #compare select, #compare input, dialog"
    seen = [it for it in page.locator(hidden).all() if it.is_visible()]
    assert [it.evaluate("it => it.outerHTML.slice(0, 60)") for it in seen] == []
    strips = page.locator("article.strip")
    assert all(strip.is_visible() for strip in strips.all()) and strips.count()
    assert all(image.is_visible() for image in strips.locator("img").all())
    for selector in ("h1", "#verdicts", "#curves svg", "#findings svg", "#cost", "#method"):
        assert page.locator(selector).first.is_visible(), selector
    # printers leave backgrounds out: the ink must not be white, whatever the screen has
    assert all(lightness(page, selector, "color") < 0.5 for selector in ("h1", "p", "#verdicts td", "figcaption"))
    page.set_viewport_size({"width": 794, "height": 1123})  # A4
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# --- a study whose every text is hostile, and of which much is missing

SEEDS = ("<script>alert(1)<script>", '"><img src=x onerror=alert(2)>', "渋谷の夜", "50% of a#1 & b?c")
PAID = "<img src=x onerror=alert(3)>"
PROMPT = """Say "it's" </script><script>alert(4)</script> <!-- & `so` \\u003c {{ 7*7 }} \u2028 """.ljust(200, "é")
MARKUP = "</td></script><script>alert(5)</script><b id=bold>bold</b>"


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def write_hostile(params: dict[str, Any]) -> None:
    """Tables, previews and images in the current directory: two campaigns, one of them paid and refused at times.

    brisque scored nothing; niqe and piqe see the rot in most chains, entropy in none; the last paid chain is parked.
    """
    simulated = params["campaigns"]["simulated-replica"] | {"prompts": [PROMPT]}
    paid = simulated | {"backend": "gemini", "model": "gemini-3-pro-image-preview", "repeats": 1, "budget_usd": 9.0}
    params["campaigns"] = {"simulated-replica": simulated, PAID: paid | {"config": {"image_size": "2K"}}}
    params["active"] = list(params["campaigns"])
    params["ranking"] |= {"bootstrap": 100}
    paths.PARAMS.write_text(yaml.safe_dump(params, allow_unicode=True))
    images = [image for chain in enumerate(chains_of(params)) for image in write_chain(*chain)]
    requests = [request(image) for image in images if image["step"]]
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, images)
    tables.write(paths.REQUESTS_TABLE, tables.REQUESTS, requests)
    write_refusals(requests)
    tables.write(paths.SEED_REQUESTS_TABLE, tables.REQUESTS, [])
    tables.write(paths.SEED_TABLE, tables.SEEDS, [seed_row(order, seed) for order, seed in enumerate(SEEDS)])
    write_scores(list({image["image_id"]: image for image in images}.values()))


def chains_of(params: dict[str, Any]) -> list[tuple[str, str, int]]:
    repeats = {name: campaign["repeats"] for name, campaign in params["campaigns"].items()}
    return [(name, seed, n + 1) for name in repeats for seed in SEEDS for n in range(repeats[name])]


def write_chain(number: int, chain: tuple[str, str, int]) -> Iterator[dict[str, Any]]:
    """Previews and images of a chain; gives their rows, with the chain's number."""
    campaign, seed, repeat = chain
    parent = None
    for step in range(3 if (campaign, seed) == (PAID, SEEDS[-1]) else 4):
        path, preview = paths.replica(*chain, step, "png"), paths.preview(*chain, step)
        width = 60 if step and campaign == PAID else 40  # models answer in other shapes than they are asked for
        content = picture((*chain, step) if step else seed, "png", width)
        for file, data in ((path, content), (preview, picture((*chain, step), "webp", width // 2))):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        row = {"image_id": hashlib.sha256(content).hexdigest(), "path": path.as_posix(), "bytes": len(content)}
        row |= {"width": width, "height": 40, "mode": "RGB", "campaign": campaign, "seed": seed, "repeat": repeat}
        row |= {"step": step, "parent_id": parent, "request_id": digest(chain, step) if step else None}
        yield row | {"number": number}
        parent = row["image_id"]


def request(image: dict[str, Any]) -> dict[str, Any]:
    names = ("request_id", "parent_id", "seed", "repeat", "step", "image_id")
    row = {name: image[name] for name in names} | {"prompt": PROMPT, "attempts": 1}
    if image["campaign"] != PAID:
        return row | {"backend": "simulated", "model": "rot-1", "config": '{"green":100,"noise":100}'}
    row |= {"backend": "gemini", "model": "gemini-3-pro-image-preview", "model_answered": "gemini-3-pro-image-007"}
    row |= {"config": '{"image_size":"2K"}', "finish_reason": "STOP", "reasoning": MARKUP, "response_id": MARKUP}
    return row | {"input_tokens": 560, "output_tokens": 1120, "cost_usd": 0.134, "asked_at": "2026-07-02T10:00:00Z"}


def write_refusals(requests: list[dict[str, Any]]) -> None:
    """Two before the last answer, and one that parked its chain."""
    last = {name: requests[-1][name] for name in tables.REFUSALS.names if name in requests[-1]}
    refused = last | {"finish_reason": "IMAGE_SAFETY", "detail": MARKUP, "reasoning": MARKUP, "cost_usd": 0.02}
    parked = {"campaign": PAID, "seed": SEEDS[-1], "repeat": 1, "step": 3, "request_id": digest("parked")}
    parked |= {"cause": "refused", "reason": f"IMAGE_SAFETY: {MARKUP}", "attempts": 3}
    refusals = [refused | {"number": number} for number in (1, 2)]
    refusals.append(refused | {"request_id": digest("parked"), "step": 3, "number": 1})
    tables.write(paths.REFUSALS_TABLE, tables.REFUSALS, refusals)
    tables.write(paths.PARKED_TABLE, tables.PARKED, [parked])


def write_scores(images: list[dict[str, Any]]) -> None:
    formulas: dict[str, Callable[[int, int], float]] = {
        "niqe": lambda number, step: 3 + step + number % 2 / 8,
        "piqe": lambda number, step: 9 + step if number % 3 else 9 - step,
        "entropy": lambda number, step: 4 + step,
    }
    for metric, score in formulas.items():
        rows = [{"image_id": row["image_id"], "score": float(score(row["number"], row["step"]))} for row in images]
        rows = [row | {"metric": metric, "scorer_id": digest(metric)} for row in rows]
        tables.write(paths.scores(metric), tables.SCORES, rows)
    failed = [
        {"image_id": row["image_id"], "reason": f"no luck at step {row['step']} {MARKUP}", "metric": "brisque"}
        for row in images
    ]
    failures = [row | {"scorer_id": digest("brisque")} for row in failed]
    tables.write(paths.scores("brisque"), tables.SCORES, [])
    tables.write(paths.FAILURES_TABLE, tables.FAILURES, failures)
    tables.write(paths.DRIFT_TABLE, tables.DRIFT, [])
    scorer = {"pyiqa": "0.1.16", "torch": "2", "parameters": "a.npz", "parameters_sha256": digest("a"), "decimals": 4}
    scorer |= {"parameters_licence": MARKUP, "preprocessing": MARKUP, "precision": "float32", "libraries": ""}
    scorers = [
        scorer | {"scorer_id": digest(metric), "metric": metric, "higher_is_better": metric == "entropy"}
        for metric in ("brisque", *formulas)
    ]
    tables.write(paths.SCORERS_TABLE, tables.SCORERS, scorers)


def picture(of: object, kind: str, width: int) -> bytes:
    """Noise, the same for the same argument."""
    shape = (40 if kind == "png" else 20, width, 3)
    colours = np.random.default_rng(int(digest(of)[:8], 16)).integers(0, 256, shape, dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(colours).save(stream, kind)
    return stream.getvalue()


def seed_row(order: int, seed: str) -> dict[str, Any]:
    row = {"seed": seed, "source": "directory", "origin": f"data/own_seeds/{seed}.png", "licence": MARKUP}
    row |= {"source_sha256": digest("source", seed), "source_width": 40, "source_height": 40, "chosen": True}
    path = paths.seed_image(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture(seed, "png", 40))
    return row | {"order": order, "image_id": hashlib.sha256(path.read_bytes()).hexdigest(), "path": path.as_posix()}


@pytest.fixture(scope="module")
def make_hostile(browser: Any, tmp_path_factory: pytest.TempPathFactory, default_params: dict[str, Any]) -> Any:
    """Make the study anew, after a change to its tables."""

    def make(change: Callable[[], None] | None = None) -> Study:
        folder = tmp_path_factory.mktemp("hostile")
        params = copy.deepcopy(default_params)
        campaign = params["campaigns"]["simulated-replica"] | {"repeats": 2, "steps": 3}
        params |= {"campaigns": {"simulated-replica": campaign}, "campaign_sets": {}}
        params["previews"] = {"steps": [0, 1, 3], "side": 32}
        params["scoring"]["drift"] = []
        params["ranking"] |= {"probe_steps": [2, 3], "min_drift": {}}
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            write_hostile(params)
            if change:
                change()
            assert [cli.main([stage]) for stage in ("rank", "report")] == [0, 0]
        return Study(folder)

    return make


@pytest.fixture(scope="module")
def hostile(make_hostile: Any) -> Study:
    return make_hostile()


@pytest.fixture
def hostile_page(hostile: Study, visit: Visit) -> Any:
    """`visit` fails if an alert shows."""
    return visit(hostile.page)


def test_hostile_texts_are_shown_and_not_run(hostile: Study, hostile_page: Any) -> None:
    page = hostile_page
    page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
    assert page.locator("img[src=x], #bold, [onerror]").count() == 0
    strips = [squeezed(strip.inner_text()) for strip in page.locator("article.strip").all()]
    for campaign, seed in itertools.product(hostile.params["active"], SEEDS):
        found = [text for text in strips if squeezed(seed) in text and campaign in text]
        assert len(found) == 1, (campaign, seed)
    assert {alt.count("simulated") > 0 for alt in alts(page, "simulated-replica")} == {True}
    assert {alt.count("simulated") > 0 for alt in alts(page, PAID)} == {False}
    text = squeezed(page.locator("body").inner_text())
    assert squeezed(MARKUP) in text and PAID in page.locator("dl#basis").inner_text()
    assert "2026-07-02" in page.locator("dl#basis").inner_text()
    assert str(hostile.summary["simulated_chains"]) in page.locator("p#simulated").inner_text()


def alts(page: Any, campaign: str) -> list[str]:
    """Of the images after step 0 in the strips of a campaign."""
    images = page.locator("article.strip").filter(has_text=campaign).locator("button.frame:not([data-step='0']) img")
    return images.evaluate_all("all => all.map(image => image.alt)")


def test_the_pictures_beside_the_page_run_nothing_either(hostile: Study, visit: Visit) -> None:
    drawn = sorted((hostile.page.parent / "figures").glob("*.svg"))
    written = ""
    for file in drawn:
        visit(file)
        written += squeezed("".join(ET.parse(file).getroot().itertext()))
    assert all(seed in written for seed in SEEDS)


def test_what_is_missing_is_a_dash_and_sorts_last(hostile: Study, hostile_page: Any) -> None:
    rows = {row["metric"]: row for row in rows_of(hostile_page)}
    assert rows["brisque"]["auc"][0] == "" and "∞" in rows["entropy"]["detection"][1]
    for metric, row in rows.items():
        for column in ("tau", "accuracy", "auc", "detection", "p_permutation_holm", "failed_scores", "consistent"):
            assert shows(row[column][1], hostile.ranking[metric][column]), (metric, column, row[column])
    assert all(shows(text, None) for text in hostile_page.locator("tr[data-metric=brisque] .score").all_inner_texts())
    for column in ("metric", "tau", "auc", "detection", "failed_scores"):
        sort_twice(hostile, hostile_page, column, lambda button: button.click())


def test_the_way_back_of_a_hostile_image_is_a_command_that_a_shell_can_run(
    hostile: Study, hostile_page: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(hostile.folder)
    page = hostile_page
    traced = set()
    for strip in page.locator("article.strip").all():
        row = strip.locator("tr[data-metric=niqe], tr:has(th:text-is('niqe'))")
        for opener in (strip.locator("button.frame").last, row.locator("button.score").last):
            opener.click()
            what, way = ask(page, capsys)
            assert_panel_agrees(page, way)
            traced.add((way["chain"][0]["campaign"], way["chain"][0]["seed"], ":" in what))
            page.keyboard.press("Escape")
    assert len(traced) == 2 * len(SEEDS) * 2


def test_an_image_without_a_score_tells_its_own_reason(
    hostile: Study, hostile_page: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(hostile.folder)
    row = hostile_page.locator("tr[data-metric=brisque]:has(button.score), tr:has(th:text-is('brisque')):has(.score)")
    row.first.locator("button.score").last.click()
    _, way = ask(hostile_page, capsys)
    assert_panel_agrees(hostile_page, way)
    step = way["chain"][0]["step"]
    told = hostile_page.locator("#trace-body").inner_text()
    assert re.findall(r"no luck at step (\d)", told) == [str(step)]


def test_files_of_hostile_names_are_found(hostile: Study, hostile_page: Any) -> None:
    page = hostile_page
    mode(page, "native")
    for number in range(page.locator("select#chain option").count()):
        choose(page, chain=number)
        chain, *steps = chosen(hostile, page)
        for name, step in zip(("before", "after"), steps, strict=True):
            image, image_id = page.locator(f"#{name}-image"), hostile.image(chain, step).image_id
            loaded(image)
            assert hashlib.sha256(content_of(image)).hexdigest() == image_id
        assert not page.locator("#native-missing").is_visible()


def test_the_divider_parts_images_of_other_shapes_where_its_line_is(hostile: Study, hostile_page: Any) -> None:
    """Left of it only the first image is seen, also where the second is the smaller one."""
    page = hostile_page
    names = page.locator("select#chain option").all_inner_texts()
    choose(page, chain=next(place for place, name in enumerate(names) if PAID in name), before=1, after=0)
    mode(page, "native")
    page.locator("select#zoom").select_option(value="4")
    image = page.locator("#before-image")
    loaded(image)
    assert image.evaluate("it => it.naturalWidth") == 60
    seen = {}
    for value in ("100", "50"):
        page.locator("input#divider").fill(value)
        seen[value] = pixels(page)
    left = (slice(None), slice(0, seen["50"].shape[1] * 9 // 20))
    assert unlike(seen["50"][left], seen["100"][left]) < 0.02


def test_cost_and_refusals_are_told_by_campaign(hostile: Study, hostile_page: Any) -> None:
    requests = tables.read(hostile.folder / paths.REQUESTS_TABLE, tables.REQUESTS)
    refusals = tables.read(hostile.folder / paths.REFUSALS_TABLE, tables.REFUSALS)
    section = hostile_page.locator("section#cost")
    row = squeezed(section.locator("tr").filter(has_text=PAID).first.inner_text())
    paid = requests[requests["backend"] == "gemini"]
    assert holds(row.replace(",", ""), paid["cost_usd"].sum() + refusals["cost_usd"].sum()), row
    assert {str(len(paid)), str(len(refusals))} <= set(re.findall(r"\d+", row)), row
    assert "IMAGE_SAFETY" in section.text_content()


def only_seeds() -> None:
    images = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, images[images["step"] == 0])
    for path, schema in ((paths.REQUESTS_TABLE, tables.REQUESTS), (paths.REFUSALS_TABLE, tables.REFUSALS)):
        tables.write(path, schema, [])
    tables.write(paths.PARKED_TABLE, tables.PARKED, [])
    shutil.rmtree(paths.PREVIEWS)


def test_a_study_with_nothing_to_show_is_a_whole_page_all_the_same(make_hostile: Any, visit: Visit) -> None:
    page = visit(make_hostile(only_seeds).page)
    assert "othing" in page.locator("h1").inner_text()
    shown = page.locator("main").evaluate(
        "main => { main.querySelectorAll('pre').forEach(it => it.remove()); return main.innerText; }"
    )
    assert not re.search(r"\b(nan|None|undefined|null|Infinity)\b", shown)
    for section in ("verdicts", "curves", "rot", "findings", "cost", "method"):
        assert page.locator(f"section#{section}").is_visible()
    page.locator("button#theme").click()
    page.locator("#verdicts th[data-column=tau] button").click()
