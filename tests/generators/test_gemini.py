"""Backend gemini: the real client over HTTP against the loopback server, each way to go wrong by its rule."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

from banana100 import images, params, paths
from banana100.cli import main
from banana100.dry_run.server import running
from banana100.generators.gemini import client
from banana100.generators.ledger import Ledger
from banana100.generators.store import AnswerStore
from banana100.lineage import tables
from helpers.servers import settle

KEY = "AIzaSy-this-key-must-be-seen-nowhere-1234"
MODEL = "gemini-3-pro-image-preview"

SetParams = Callable[[dict[str, Any]], None]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setenv("BANANA100_PAUSE", "0.02")
    monkeypatch.setenv("BANANA100_TIMEOUT", "2")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test leaves its seeds for the others, as choosing takes a second."""
    return tmp_path_factory.mktemp("chosen") / "seeds"


@pytest.fixture
def campaign(small_params: dict[str, Any], set_params: SetParams, project: Path, chosen: Path) -> dict[str, Any]:
    """A paid campaign of 2 chains of 3 steps at 96 pixels, its seeds chosen; `change` it before running."""
    paid = {
        "backend": "gemini",
        "model": MODEL,
        "prompts": ["Produce an exact replica of the provided image, with no alterations."],
        "config": {},
        "seeds": "all",
        "repeats": 1,
        "steps": 3,
        "budget_usd": 5.0,
    }
    small_params["campaigns"], small_params["active"] = {"replica": paid}, ["replica"]
    set_params(small_params)
    if not chosen.exists():
        assert main(["select_seeds"]) == 0
        shutil.copytree(paths.SEEDS, chosen)
    shutil.copytree(chosen, paths.SEEDS, dirs_exist_ok=True)
    return paid


@pytest.fixture
def change(campaign: dict[str, Any], small_params: dict[str, Any], set_params: SetParams) -> Callable[..., None]:
    def change(**values: Any) -> None:
        campaign.update(values)
        set_params(small_params)

    return change


class Served:
    """A running server: its log, and what it answered."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self.log = url, log

    def lines(self) -> list[dict[str, Any]]:
        """All of the log."""
        settle(self.url, self.log)
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [line for line in self.lines() if "n" in line]

    @property
    def jobs(self) -> list[dict[str, Any]]:
        return [line for line in self.lines() if "job" in line]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Served]]:
    """Start a server with faults in order; it ends with the test."""
    started = []

    def start(*faults: str, **more: Any) -> Served:
        log = tmp_path / f"served-{len(started)}.jsonl"
        rates = more.pop("rates", {})
        script = {"seed": 1, "sequence": list(faults), "rates": rates}
        server = running(script=script, log=log, key=KEY, **{"hang_seconds": 4} | more)
        url = server.__enter__()
        monkeypatch.setenv("BANANA100_GEMINI_BASE_URL", url)
        started.append(server)
        return Served(url, log)

    yield start
    for server in started:
        server.__exit__(None, None, None)


def requests_table() -> pd.DataFrame:
    return tables.read(paths.REQUESTS_TABLE, tables.REQUESTS)


def refusals_table() -> pd.DataFrame:
    return tables.read(paths.REFUSALS_TABLE, tables.REFUSALS)


def parked_table() -> pd.DataFrame:
    return tables.read(paths.PARKED_TABLE, tables.PARKED)


def spent(store: Path, campaign: str = "replica") -> float:
    return Ledger(AnswerStore(store), {}).spent(campaign)


def assert_key_nowhere(*texts: str, folders: tuple[Path, ...] = ()) -> None:
    for text in texts:
        assert KEY not in text
    for folder in folders:
        for file in folder.rglob("*"):
            assert not file.is_file() or KEY.encode() not in file.read_bytes(), file


# --- the plain way


def test_replicas_come_through_the_real_client_with_all_that_is_told(
    change: Callable[..., None], serve: Callable[..., Served], store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(config={"aspect_ratio": "1:1", "image_size": "2K", "seed": 7, "temperature": 0.5, "thinking_level": "low"})
    served = serve()
    assert main(["replicate"]) == 0
    rows = requests_table()
    assert len(rows) == 6 and len(served.requests) == 6
    answered = {line["image_sha256"] for line in served.requests}
    assert set(rows["image_id"]) == answered  # verbatim
    for row in rows.itertuples():
        assert row.model_answered and row.response_id and row.finish_reason == "STOP" and row.reasoning
        assert row.input_tokens > 560 and row.output_tokens >= 1120 and row.attempts == 1 and row.seconds > 0
        assert json.loads(row.config)["image_size"] == "2K"
        assert row.cost_usd > params.load().prices.models[MODEL].images["2K"]
    assert spent(store) == pytest.approx(rows["cost_usd"].sum())
    shown = capsys.readouterr()
    assert "replica: 6 requests to send, about $0." in shown.out and "of budget_usd 5" in shown.out
    assert main(["replicate"]) == 0 and len(served.requests) == 6
    assert main(["plan"]) == 0
    # another clone needs neither the key nor the server for what is stored
    os.environ.pop("GEMINI_API_KEY")
    assert main(["replicate"]) == 0


def test_prompts_are_asked_in_turn_and_a_fresh_conversation_holds_one_image(
    change: Callable[..., None], serve: Callable[..., Served]
) -> None:
    change(prompts=["Turn it grey.", "Colourise it."], seeds=["rocket"])
    served = serve()
    assert main(["replicate"]) == 0
    assert [line["prompt"] for line in served.requests] == ["Turn it grey.", "Colourise it.", "Turn it grey."]
    assert {(line["turns"], line["images"]) for line in served.requests} == {(1, 1)}


def test_one_conversation_goes_on_with_signatures_also_after_a_restart(
    change: Callable[..., None], serve: Callable[..., Served]
) -> None:
    change(config={"history": 2}, seeds=["rocket"], steps=2)
    served = serve()
    assert main(["replicate"]) == 0
    change(steps=4)
    assert main(["replicate"]) == 0
    assert [(line["turns"], line["images"]) for line in served.requests] == [(1, 1), (3, 2), (5, 3), (5, 3)]
    rows = requests_table().sort_values("step")
    assert rows["previous_id"].iloc[1:].tolist() == rows["request_id"].iloc[:-1].tolist()


# --- faults, one by one

FIRST_TRY = "first try"
REFUSAL, RETRY = "refusal", "retry"
RULES = {
    "too_many": (RETRY, "429"),
    "too_many_retry_after": (RETRY, "429"),
    "too_many_retry_info": (RETRY, "429"),
    "server_error": (RETRY, "500"),
    "unavailable": (RETRY, "503"),
    "reset_mid_body": (RETRY, ""),
    "hang": (RETRY, "no whole answer within 2 s"),
    "trickle": (RETRY, "no whole answer within 2 s"),
    "truncated_base64": (REFUSAL, "UNREADABLE"),
    "not_json": (RETRY, "no JSON came"),
    "corrupt_image": (REFUSAL, "UNREADABLE"),
    "bomb_image": (REFUSAL, "UNREADABLE"),
    "huge_body": (REFUSAL, "UNREADABLE"),
    "no_image": (REFUSAL, "NO_IMAGE"),
    "no_candidates": (REFUSAL, "NO_IMAGE"),
    "no_parts": (REFUSAL, "NO_IMAGE"),
    "only_thoughts": (REFUSAL, "NO_IMAGE"),
    "prompt_blocked": (REFUSAL, "PROHIBITED_CONTENT"),
    "image_safety": (REFUSAL, "IMAGE_SAFETY"),
    "image_prohibited": (REFUSAL, "IMAGE_PROHIBITED_CONTENT"),
    "image_recitation": (REFUSAL, "IMAGE_RECITATION"),
    "image_other": (REFUSAL, "IMAGE_OTHER"),
    "no_image_reason": (REFUSAL, "NO_IMAGE"),
    "safety": (REFUSAL, "SAFETY"),
    "future_reason": (REFUSAL, "IMAGE_TELEPORTATION"),
    "two_images": (FIRST_TRY, ""),
    "other_size": (FIRST_TRY, ""),
    "other_aspect": (FIRST_TRY, ""),
    "jpeg_as_png": (FIRST_TRY, ""),
}


@pytest.mark.parametrize("fault", RULES)
def test_each_fault_has_its_rule_and_none_loses_a_chain(
    fault: str, change: Callable[..., None], serve: Callable[..., Served], store: Path, project: Path
) -> None:
    rule, reason = RULES[fault]
    change(seeds=["rocket"], steps=2)
    served = serve(fault)
    assert main(["replicate"]) == 0
    rows, refusals = requests_table().sort_values("step"), refusals_table()
    assert rows["attempts"].tolist() == [1 if rule == FIRST_TRY else 2, 1]
    assert refusals["finish_reason"].tolist() == ([reason] if rule == REFUSAL else [])
    assert parked_table().empty
    valid = [line["image_sha256"] for line in served.requests if line["image_sha256"]]
    assert rows["image_id"].tolist() == valid  # of two images the last; bytes as they came
    if fault == "jpeg_as_png":
        assert [file.name for file in sorted(paths.REPLICAS.rglob("*.*"))] == ["000.png", "001.jpg", "002.png"]
    if fault in ("other_size", "other_aspect"):
        sizes = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
        assert (sizes["width"].iloc[1], sizes["height"].iloc[1]) != (96, 96)  # size got; size asked is in the config
    # billed: every answer, and what may have been one
    answered = rows["cost_usd"].sum() + refusals["cost_usd"].sum()
    lost = spent(store) - answered
    maybe = fault in ("reset_mid_body", "hang", "trickle", "not_json")
    assert lost == pytest.approx(0.1387, abs=0.002) if maybe else abs(lost) < 1e-9
    if rule == REFUSAL and fault != "prompt_blocked":
        assert refusals["cost_usd"].iloc[0] > 0.13


def test_a_hint_how_long_to_wait_is_heeded(change: Callable[..., None], serve: Callable[..., Served]) -> None:
    change(seeds=["rocket"], steps=1)
    served = serve("too_many_retry_after", "too_many_retry_info")
    assert main(["replicate"]) == 0
    moments = [pd.Timestamp(line["at"]) if isinstance(line["at"], str) else line["at"] for line in served.requests]
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert all((gap.total_seconds() if hasattr(gap, "total_seconds") else gap) >= 0.9 for gap in gaps)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("expired_key", "does not take the key in GEMINI_API_KEY (400 INVALID_ARGUMENT: API key expired"),
        ("unauthorised", "does not take the key in GEMINI_API_KEY (401"),
        ("forbidden", "does not take the key in GEMINI_API_KEY (403 PERMISSION_DENIED"),
        ("gone_model", f"does not know the model {MODEL} (404 NOT_FOUND"),
    ],
)
def test_what_stops_all_stops_at_once_in_one_sentence_without_the_key(
    fault: str, words: str, change: Callable[..., None], serve: Callable[..., Served], store: Path,
    project: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    change(seeds=["rocket"])
    served = serve("none", fault)
    capsys.readouterr()
    assert main(["replicate"]) == 2
    shown = capsys.readouterr()
    assert words in shown.err and len(shown.err.splitlines()) == 1
    assert_key_nowhere(shown.out, shown.err, folders=(store, project))
    assert len(served.requests) == 2 and len(list((store / "answers").rglob("*.json"))) == 1
    assert main(["replicate"]) == 0  # the first answer was kept, nobody is parked
    assert len(served.requests) == 4 and parked_table().empty and refusals_table().empty


def test_a_wrong_key_is_never_shown(
    change: Callable[..., None], serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    change(seeds=["rocket"])
    serve()
    monkeypatch.setenv("GEMINI_API_KEY", "AIzaSy-another-key")
    capsys.readouterr()
    assert main(["replicate"]) == 2
    shown = capsys.readouterr()
    assert "API key not valid" in shown.err and "another-key" not in shown.err + shown.out


def test_a_request_that_is_not_taken_parks_its_chain_alone(
    change: Callable[..., None], serve: Callable[..., Served], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("BANANA100_CONCURRENCY", "1")
    serve("bad_request")
    change()
    capsys.readouterr()
    assert main(["replicate"]) == 1
    shown = capsys.readouterr()
    assert "not all chains could be finished (chains parked: 1 rejected)" in shown.err
    assert len(requests_table()) == 3 and parked_table()["cause"].tolist() == ["rejected"]
    assert "400 INVALID_ARGUMENT" in parked_table()["reason"].iloc[0]
    assert main(["replicate"]) == 0 and parked_table().empty and len(requests_table()) == 6


def test_refusals_park_a_chain_as_a_result_and_the_next_run_asks_again(
    change: Callable[..., None], serve: Callable[..., Served], capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    change(seeds=["rocket"])
    serve("none", *["image_safety"] * 3, "image_other")
    capsys.readouterr()
    assert main(["replicate"]) == 0
    shown = capsys.readouterr().out
    assert "IMAGE_SAFETY" in shown and "refusals are results" in shown
    row = parked_table().iloc[0]
    assert (row["step"], row["cause"], row["attempts"]) == (2, "refused", 3)
    assert len(refusals_table()) == 3 and len(tables.read(paths.IMAGES_TABLE, tables.IMAGES)) == 2
    assert main(["replicate"]) == 0 and parked_table().empty
    assert refusals_table()["finish_reason"].tolist() == ["IMAGE_SAFETY"] * 3 + ["IMAGE_OTHER"]
    assert refusals_table()["number"].tolist() == [1, 2, 3, 4]
    # a clone with the tables and an empty store knows all of it, and asks nothing
    before = {path: path.read_bytes() for path in (paths.REFUSALS_TABLE, paths.REQUESTS_TABLE)}
    shutil.rmtree(store)
    os.environ.pop("GEMINI_API_KEY")
    assert main(["replicate"]) == 0
    assert before == {path: path.read_bytes() for path in before}


# --- money and keys


def test_without_a_key_nothing_happens(
    change: Callable[..., None], serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    change()
    served = serve()
    monkeypatch.delenv("GEMINI_API_KEY")
    capsys.readouterr()
    assert main(["replicate"]) == 2
    assert capsys.readouterr().err == (
        f"banana100 replicate: environment: GEMINI_API_KEY is not set, and {MODEL} is to be asked; nothing was sent "
        "and nothing is lost.\n"
    )
    assert not served.requests and not paths.REPLICAS.exists()


def test_more_than_the_budget_is_refused_with_the_numbers(
    change: Callable[..., None], serve: Callable[..., Served], capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    change(budget_usd=0.5)
    served = serve()
    assert main(["replicate"]) == 3
    assert (
        "replica: 6 requests to send, about $0.84; spent $0.00 of budget_usd 0.5: not allowed"
        in capsys.readouterr().err
    )
    assert not served.requests and spent(store) == 0
    change(budget_usd=1)
    assert main(["replicate"]) == 0


def test_a_run_that_meets_its_budget_stops_cleanly_and_goes_on_when_it_is_raised(
    change: Callable[..., None], serve: Callable[..., Served], capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    """Refusals are billed, so that a run may cost more than was expected."""
    change(budget_usd=0.9)
    served = serve("image_safety", "image_safety", "none", "none")
    assert main(["replicate"]) == 3
    shown = capsys.readouterr()
    assert "the budget of replica is used up" in shown.err and "run again to go on" in shown.err
    assert spent(store) <= 0.9 and 2 <= len(requests_table()) < 6
    bought = len(served.requests)
    change(budget_usd=5)
    assert main(["replicate"]) == 0 and len(requests_table()) == 6
    assert len(served.requests) == 8 > bought  # six images and two refusals, nothing twice


def test_the_key_is_in_no_process_list_and_no_file(
    change: Callable[..., None], serve: Callable[..., Served], store: Path, project: Path
) -> None:
    change(steps=4)
    serve("forbidden", latency=0.3)
    run = subprocess.Popen(
        [sys.executable, "-m", "banana100", "replicate"], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    seen = set()
    while run.poll() is None:
        for process in [psutil.Process(run.pid), *psutil.Process(run.pid).children(recursive=True)]:
            try:
                seen.add(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        time.sleep(0.05)
    out, err = run.communicate()
    assert seen and run.returncode == 2
    assert_key_nowhere(*seen, out.decode(), err.decode(), folders=(store, project))


def test_an_unforeseen_error_does_not_show_the_key(
    change: Callable[..., None], serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.genai import models

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"bug at https://x/?key={KEY}")

    change()
    serve()
    monkeypatch.setattr(models.AsyncModels, "generate_content", broken)
    with pytest.raises(RuntimeError, match=r"RuntimeError: bug at https://x/\?key=\[key\]") as raised:
        main(["replicate"])
    assert KEY not in str(raised.getrepr(style="long", chain=True, funcargs=False, showlocals=False))


@pytest.mark.parametrize("url", ["localhost:1", "ftp://x"])
def test_a_wrong_base_url_is_told(
    url: str, change: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change()
    monkeypatch.setenv(client.BASE_URL, url)
    assert main(["replicate"]) == 2
    assert f"BANANA100_GEMINI_BASE_URL is {url!r}; allowed: a URL" in capsys.readouterr().err


def test_a_server_that_is_not_there_parks_the_chains(
    change: Callable[..., None], monkeypatch: pytest.MonkeyPatch, store: Path
) -> None:
    change(seeds=["rocket"])
    monkeypatch.setenv(client.BASE_URL, "http://127.0.0.1:9")
    assert main(["replicate"]) == 1
    assert parked_table()["cause"].tolist() == ["unavailable"] and parked_table()["attempts"].tolist() == [8]
    assert spent(store) == 0  # no connection, no answer, no bill


def test_the_first_ctrl_c_waits_for_what_is_paid(
    change: Callable[..., None], serve: Callable[..., Served], store: Path
) -> None:
    change(steps=20, budget_usd=9.0)
    served = serve(latency=0.5)
    run = subprocess.Popen([sys.executable, "-m", "banana100", "replicate"], stderr=subprocess.PIPE, text=True)
    while len(served.requests) < 2 and run.poll() is None:
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    assert run.wait(timeout=20) == 130
    assert "waiting for the requests under way" in (run.stderr.read() if run.stderr else "")
    answers = AnswerStore(store)
    assert len(list((store / "answers").rglob("*.json"))) == len(served.requests)
    assert Counter(line["event"] for line in answers.journal())["asked"] == len(served.requests)


# --- the Batch API


def test_the_batch_api_takes_a_step_of_all_chains_at_half_the_price(
    change: Callable[..., None], serve: Callable[..., Served], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(repeats=2)
    served = serve()
    monkeypatch.setenv("BANANA100_BATCH", "1")
    assert main(["replicate"]) == 0
    assert [job["requests"] for job in served.jobs] == [4, 4, 4] and len(served.requests) == 12
    rows = requests_table()
    assert set(rows["image_id"]) == {line["image_sha256"] for line in served.requests}
    assert rows["cost_usd"].max() < 0.08 and spent(store) == pytest.approx(rows["cost_usd"].sum())
    monkeypatch.delenv("BANANA100_BATCH")
    assert main(["replicate"]) == 0 and len(served.requests) == 12  # one and the same request either way
    assert not list((store / "jobs").glob("*.json"))


def test_single_faults_in_a_batch_have_the_same_rules(
    change: Callable[..., None], serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    change(repeats=2, steps=2)
    served = serve("image_safety", "server_error", "corrupt_image", "too_many", "jpeg_as_png")
    monkeypatch.setenv("BANANA100_BATCH", "1")
    assert main(["replicate"]) == 0
    rows = requests_table()
    assert len(rows) == 8 and sorted(refusals_table()["finish_reason"]) == ["IMAGE_SAFETY", "UNREADABLE"]
    assert sorted(rows["attempts"]) == [1, 1, 1, 1, 2, 2, 2, 2] and len(served.requests) == 12


@pytest.mark.parametrize("moment", ["recorded", "submitted", "running"])
def test_no_job_is_submitted_twice_whenever_the_run_is_killed(
    moment: str, change: Callable[..., None], serve: Callable[..., Served], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from banana100.generators import batches
    from banana100.generators.gemini.jobs import Jobs

    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    change(steps=2)
    served = serve(job_seconds=0.3)
    monkeypatch.setenv("BANANA100_BATCH", "1")
    with monkeypatch.context() as patch:
        keep, calls = batches.JobRecords.keep, []

        def keep_first(self: batches.JobRecords, job: batches.Job) -> None:
            calls.append(job)
            if len(calls) == 2:  # the job was submitted, and its name is not yet written
                raise Killed
            keep(self, job)

        if moment == "recorded":
            patch.setattr(Jobs, "submit", killed)
        elif moment == "submitted":
            patch.setattr(batches.JobRecords, "keep", keep_first)
        else:
            patch.setattr(Jobs, "results", killed)
        with pytest.raises(Killed):
            main(["replicate"])
    assert len(served.jobs) == (0 if moment == "recorded" else 1)
    if moment != "recorded":  # one by one the requests would be paid twice
        monkeypatch.setenv("BANANA100_BATCH", "0")
        assert main(["replicate"]) == 2
        monkeypatch.setenv("BANANA100_BATCH", "1")
    assert main(["replicate"]) == 0
    assert len(served.jobs) == 2 and len(served.requests) == 4
    assert spent(store) == pytest.approx(requests_table()["cost_usd"].sum())


def test_a_job_serves_whichever_campaign_asks_the_same(
    change: Callable[..., None], small_params: dict[str, Any], set_params: SetParams, serve: Callable[..., Served],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from banana100.generators.gemini.jobs import Jobs

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    change(steps=1, budget_usd=0.15)
    served = serve()
    monkeypatch.setenv("BANANA100_BATCH", "1")
    with monkeypatch.context() as patch:
        patch.setattr(Jobs, "results", stopped)
        assert main(["replicate"]) == 130
    small_params["campaigns"] = {"renamed": small_params["campaigns"].pop("replica")}
    small_params["active"] = ["renamed"]
    set_params(small_params)
    assert main(["replicate"]) == 0 and len(served.jobs) == 1 and len(served.requests) == 2


@pytest.mark.parametrize("value", ["", "2", "yes", "16"])
def test_a_wrong_batch_switch_is_told(
    value: str, change: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change()
    monkeypatch.setenv("BANANA100_BATCH", value)
    assert main(["replicate"]) == 2
    assert f"BANANA100_BATCH is {value!r}; allowed: 0 or 1" in capsys.readouterr().err


# --- the storm


@pytest.mark.parametrize(("chains", "steps", "kills"), [(4, 10, 2), pytest.param(20, 20, 10, marks=pytest.mark.long)])
def test_a_storm_of_faults_and_kills_loses_and_buys_nothing_twice(
    change: Callable[..., None], serve: Callable[..., Served], store: Path, project: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], chains: int, steps: int, kills: int,
) -> None:  # fmt: skip
    """Again and again kill -9 of two processes at once while each fault in turn hits 5 to 20 % of the answers."""
    chance = random.Random(1)
    monkeypatch.setenv("BANANA100_TIMEOUT", "1.5")
    change(repeats=chains // 2, steps=steps, budget_usd=10_000.0)
    other = tmp_path / "other"  # a second clone on the same store
    shutil.copytree(project, other)
    faults, served, in_flight = list(RULES), [], 0
    chance.shuffle(faults)
    for number in range(kills):
        rates = {fault: chance.uniform(0.05, 0.2) for fault in faults[number::10]}
        served.append(serve(rates=rates, latency=0.02, hang_seconds=3))
        runs = [start_replicating(folder) for folder in (project, other)]
        while len(served[-1].requests) < chains * steps // kills and any(run.poll() is None for run in runs):
            time.sleep(0.02)
        for run in runs:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        asked = [line for line in AnswerStore(store).journal() if line["event"] == "asked"]
        in_flight += len(asked) - sum(line["event"] != "asked" for line in AnswerStore(store).journal()) - in_flight
    served.append(serve(rates=dict.fromkeys(["unavailable", "image_safety", "corrupt_image"], 0.05)))
    for _ in range(6):
        runs = [start_replicating(folder) for folder in (project, other)]
        assert {run.wait(timeout=120) for run in runs} <= {0, 1}
        if parked_table().empty:
            break
    requests = [line for part in served for line in part.requests]
    valid = {line["image_sha256"] for line in requests if line["image_sha256"]}
    kept = {json.loads(file.read_text())["image_id"] for file in (store / "answers").rglob("*.json")}
    lost = valid - kept
    with capsys.disabled():
        print(
            f"\nstorm: {len(requests)} requests, {len(valid)} answered with a valid image, {len(kept)} images in the "
            f"store, {len(lost)} lost where a kill or the time-out cut in ({in_flight} requests under way at kills)"
        )
    assert parked_table().empty and len(kept) == len(requests_table()) == chains * steps
    assert kept <= valid and len(lost) <= in_flight
    assert set(requests_table()["image_id"]) == kept
    for file in paths.REPLICAS.rglob("*.*"):
        images.decode(file.read_bytes())
    for refusal in tables.records(refusals_table()):
        assert refusal["finish_reason"] in {reason for rule, reason in RULES.values() if rule == REFUSAL}
    # two clones, one store: the same outputs
    assert (other / paths.REQUESTS_TABLE).read_bytes() == paths.REQUESTS_TABLE.read_bytes()
    assert_key_nowhere(folders=(store, project, other))


def start_replicating(folder: Path) -> "subprocess.Popen[bytes]":
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "banana100", "replicate"]
    return subprocess.Popen(command, cwd=folder, start_new_session=True, stdout=quiet, stderr=quiet)
