"""Seeds made from texts: asked once, kept for good, refused in a sentence, and proved by verify."""

import copy
import io
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from skimage import data

import banana100.generators
from banana100 import params, paths, snapshot
from banana100.cli import main
from banana100.dry_run.server import running
from banana100.files import sha256_of
from banana100.generators.base import Answer, Refusal, Refused, Rejected, Turn
from banana100.generators.store import AnswerStore
from banana100.lineage import tables
from banana100.lineage.identity import Request
from banana100.seeds import generated
from banana100.verify import files, seeds
from banana100.verify.faults import State
from banana100.verify.fingerprints import files_below, fingerprint

MODEL = "gemini-3-pro-image-preview"
PROMPTS = {"moss": "A cushion of moss.", "table": "An empty table.", "anime street": "Ein Gäßchen 花"}


def picture(seed: str, kind: str = "PNG", side: int = 128) -> bytes:
    """An image that differs from seed to seed."""
    top = sum(seed.encode()) % 300
    stream = io.BytesIO()
    Image.fromarray(data.astronaut()[top : top + side, top : top + side]).save(stream, kind)
    return stream.getvalue()


class Fake:
    """Answers with `picture`, after `trouble` has had its say."""

    asked: Sequence[str] = ()
    trouble: Callable[[Request], Exception | None] = staticmethod(lambda _: None)

    def __init__(self, model: str, prices: params.Prices, batch: bool = False) -> None:
        assert model == MODEL and not batch

    async def ask(self, request: Request, turns: Sequence[Turn], timeout: float) -> Answer:
        assert turns == [Turn(request.prompt, None)]
        Fake.asked = [*Fake.asked, request.seed]
        if error := Fake.trouble(request):
            raise error
        kind = "JPEG" if request.seed == "table" else "PNG"
        image = picture(request.seed, kind)
        return Answer(image=image, model_answered="simulated/test", cost_usd=0.14, asked_at="2026-07-01T00:00:00+00:00")

    def estimate(self, request: Request, turns: int) -> float:
        return 0.14

    async def close(self) -> None: ...


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[Fake]:
    """A generator that answers; each test sees only its own questions."""
    monkeypatch.setenv("BANANA100_PAUSE", "0.001")
    monkeypatch.setitem(banana100.generators.REMOTE, "gemini", Fake)
    monkeypatch.setattr(Fake, "asked", [])
    monkeypatch.setattr(Fake, "trouble", staticmethod(lambda _: None))
    return Fake


@pytest.fixture
def source() -> dict[str, Any]:
    return {"kind": "gemini", "model": MODEL, "prompts": PROMPTS, "licence": "Google's terms", "budget_usd": 1.0}


@pytest.fixture
def ask_for(
    project: Path, small_params: dict[str, Any], set_params: Callable[[dict[str, Any]], None]
) -> Callable[..., int]:
    """Run the stage on some sources; without any on those before."""

    def run(*sources: dict[str, Any], count: int = 2) -> int:
        if sources:
            small_params["seeds"] |= {"sources": copy.deepcopy(list(sources)), "count": count}
            set_params(small_params)
        return main(["select_seeds"])

    return run


def requests() -> list[dict[str, Any]]:
    return tables.records(tables.read(paths.SEED_REQUESTS_TABLE, tables.REQUESTS))


def candidates() -> dict[str, dict[str, Any]]:
    return {row["seed"]: row for row in tables.records(tables.read(paths.SEED_TABLE, tables.SEEDS))}


def content(folder: Path = paths.SEEDS) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def events() -> list[str]:
    return [line["event"] for line in AnswerStore().journal()]


def test_each_text_gives_a_candidate_with_its_original_and_its_request(
    ask_for: Callable[..., int], source: dict[str, Any], fake: type[Fake], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask_for(source | {"config": {"aspect_ratio": "1:1"}}) == 0
    assert f"seeds ({MODEL}): 3 requests to send, about $0.42; spent $0.00 of budget_usd 1" in capsys.readouterr().out
    originals = content(paths.GENERATED_SEEDS)
    kinds = {"moss": "PNG", "table": "JPEG", "anime street": "PNG"}
    suffix = {"PNG": "png", "JPEG": "jpg"}
    assert originals == {f"{name}.{suffix[kind]}": picture(name, kind) for name, kind in kinds.items()}
    assert {row["seed"] for row in requests()} == PROMPTS.keys()
    for row in requests():
        request = Request.of_row(row)
        assert request and request.id == row["request_id"] and row["model_answered"] == "simulated/test"
        assert row["config"] == '{"aspect_ratio":"1:1","history":0,"reasoning":true}'
        assert (row["parent_id"], row["step"], row["repeat"], row["prompt"]) == (None, 0, 1, PROMPTS[row["seed"]])
        candidate = candidates()[row["seed"]]
        assert candidate["source"] == "gemini" and candidate["licence"] == "Google's terms"
        assert candidate["origin"] == f"{MODEL}, request {row['request_id']}"
        assert candidate["source_sha256"] == row["image_id"] == sha256_of(AnswerStore().image(row["image_id"]))
    assert sum(row["chosen"] for row in candidates().values()) == 2
    assert {line["campaign"] for line in AnswerStore().journal()} == {f"seeds ({MODEL})"}


def test_the_second_run_asks_nothing_and_gives_the_same_bytes(
    ask_for: Callable[..., int], source: dict[str, Any], fake: type[Fake]
) -> None:
    assert ask_for(source) == 0
    before, told = content(), events()
    assert sorted(told) == ["asked"] * 3 + ["stored"] * 3
    (paths.GENERATED_SEEDS / "stray.png").write_bytes(b"left by another run")
    assert ask_for() == 0
    assert content() == before and events() == told and sorted(fake.asked) == sorted(PROMPTS)


def test_answers_in_the_store_need_no_key(
    ask_for: Callable[..., int], source: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    store_by_hand(source)
    told = events()
    assert ask_for(source) == 0
    before = content()
    assert ask_for() == 0
    assert content() == before and events() == told and "asked" not in told
    assert len(content(paths.GENERATED_SEEDS)) == 3


def store_by_hand(source: dict[str, Any], side: int = 128) -> None:
    for text in generated.texts(params.Source(**source)):
        answer = Answer(image=picture(text.request.seed, side=side), model_answered="simulated/test")
        AnswerStore().put(text.request, answer)


def test_without_a_key_nothing_is_lost(
    ask_for: Callable[..., int],
    source: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    assert ask_for({"kind": "bundled", "names": ["coffee", "rocket"]}) == 0
    before = content()
    assert ask_for(source) == 2
    sentence = capsys.readouterr().err
    assert "GEMINI_API_KEY is not set" in sentence and sentence.count("\n") == 1
    assert content() == before and events() == []


def test_what_cannot_be_answered_is_named_and_the_rest_is_kept(
    ask_for: Callable[..., int], source: dict[str, Any], fake: type[Fake], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask_for({"kind": "bundled", "names": ["coffee", "rocket"]}) == 0
    before = content()

    def trouble(request: Request) -> Exception | None:
        told = {
            "moss": Refused(Refusal("m", "IMAGE_SAFETY", cost_usd=0.1, detail="no moss")),
            "table": Rejected("400: no."),
        }
        return told.get(request.seed)

    fake.trouble = staticmethod(trouble)
    assert ask_for(source) == 1
    sentence = capsys.readouterr().err
    assert "moss (refused: IMAGE_SAFETY: no moss)" in sentence and "table (rejected: 400: no)" in sentence
    assert "every answer is kept" in sentence and sentence.count("\n") == 1
    assert content() == before
    assert events().count("stored") == 1 and events().count("refused") == 3

    fake.trouble, fake.asked = staticmethod(lambda _: None), []
    assert ask_for() == 0
    assert sorted(fake.asked) == ["moss", "table"]  # the third is not paid for again


def test_a_budget_that_is_too_small_sends_nothing(
    ask_for: Callable[..., int], source: dict[str, Any], fake: type[Fake], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask_for(source | {"budget_usd": 0.4}) == 3
    assert "budget_usd 0.4: not allowed, nothing was sent" in capsys.readouterr().err
    assert not fake.asked and not paths.SEEDS.exists()
    # two sources of one model share what both may cost
    halves = [{"moss": "A cushion of moss."}, {"table": "An empty table."}]
    assert ask_for(*(source | {"budget_usd": 0.14, "prompts": half} for half in halves)) == 0
    assert len(fake.asked) == 2


def test_a_budget_that_refusals_use_up_parks(
    ask_for: Callable[..., int], source: dict[str, Any], fake: type[Fake], capsys: pytest.CaptureFixture[str]
) -> None:
    fake.trouble = staticmethod(lambda _: Refused(Refusal("m", "NO_IMAGE", cost_usd=0.14)))
    assert ask_for(source | {"budget_usd": 0.5}) == 3
    sentence = capsys.readouterr().err
    assert "(budget: seeds (gemini-3-pro-image-preview) has spent" in sentence and "raise budget_usd" in sentence
    assert not paths.SEEDS.exists()


def test_what_can_be_told_before_costs_nothing(
    ask_for: Callable[..., int], source: dict[str, Any], fake: type[Fake], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = {"kind": "directory", "path": "data/own_seeds", "licence": "mine"}
    for sources, count, told in (
        ([source, folder], 2, "data/own_seeds, which does not exist"),
        ([source], 4, "seeds.count is 4; allowed: at most 3, the number of candidates"),
        ([source, source], 2, "two prompts that make the seed"),
        ([source | {"prompts": {"Moss": "a", "moss": "b"}}], 2, "seed Moss and moss"),
        ([source | {"prompts": {"../../moss": "a"}}], 1, "prompts has the name"),
        ([source | {"prompts": {"": "a"}}], 1, "prompts has the name"),
        ([source | {"prompts": {".hidden": "a"}}], 1, "prompts has the name"),
        ([source | {"model": "gemini-9"}], 1, "a name under prices.models"),
    ):
        assert ask_for(*sources, count=count) == 2
        sentence = capsys.readouterr().err
        assert told in sentence and sentence.count("\n") == 1, sentence
    assert not fake.asked and events() == [] and not paths.SEEDS.exists()


def test_images_that_are_too_small_are_refused_by_name(
    ask_for: Callable[..., int], source: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    store_by_hand(source, side=64)
    assert ask_for(source, {"kind": "bundled", "names": ["coffee", "rocket"]}) == 0
    assert all("is 64x64 pixels" in candidates()[name]["refused"] for name in PROMPTS)
    assert len(content(paths.GENERATED_SEEDS)) == 3  # paid for, and the proof of the row
    assert ask_for(source) == 2
    assert "allowed: at most 0, the number of usable candidates" in capsys.readouterr().err


def test_an_empty_store_takes_the_answers_of_released_data(
    ask_for: Callable[..., int],
    source: dict[str, Any],
    fake: type[Fake],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ask_for(source) == 0
    before = content()
    monkeypatch.setenv("BANANA100_STORE", str(tmp_path / "another"))
    assert ask_for({"kind": "bundled", "names": ["coffee", "rocket"]}) == 0  # they are kept though nobody asks now
    assert "3 answers taken over" in capsys.readouterr().out
    assert not paths.GENERATED_SEEDS.exists() and tables.read(paths.SEED_REQUESTS_TABLE, tables.REQUESTS).empty
    assert ask_for(source) == 0
    assert content() == before and len(fake.asked) == 3

    # what does not prove true is not taken
    monkeypatch.setenv("BANANA100_STORE", str(tmp_path / "third"))
    (paths.GENERATED_SEEDS / "moss.png").write_bytes(picture("not moss"))
    rows = requests()
    next(row for row in rows if row["seed"] == "table")["prompt"] = "Another text."
    tables.write(paths.SEED_REQUESTS_TABLE, tables.REQUESTS, rows)
    assert ask_for() == 0
    assert sorted(fake.asked[3:]) == ["moss", "table"]


def test_the_real_client_makes_seeds_over_http(
    ask_for: Callable[..., int],
    source: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = "a-key-for-this-test"
    monkeypatch.setenv("GEMINI_API_KEY", key)
    monkeypatch.setenv("BANANA100_PAUSE", "0.01")
    log = tmp_path / "served.jsonl"
    with running(script={"sequence": ["too_many", "no_image", "jpeg_as_png"]}, key=key, log=log) as url:
        monkeypatch.setenv("BANANA100_GEMINI_BASE_URL", url)
        assert ask_for(source | {"config": {"image_size": "2K"}}) == 0
    monkeypatch.delenv("GEMINI_API_KEY")
    before = content()
    assert sorted(Path(name).suffix for name in content(paths.GENERATED_SEEDS)) == [".jpg", ".png", ".png"]
    assert sorted(row["attempts"] for row in requests())[-1] > 1 and all(row["cost_usd"] for row in requests())
    assert sorted(events()) == ["asked"] * 5 + ["failed", "refused"] + ["stored"] * 3
    assert key not in str([requests(), events(), capsys.readouterr()]) and check() == []
    assert ask_for() == 0 and content() == before  # without the server, and without a key


# --- verify


def check(only_tables: bool = False) -> list[str]:
    """What verify finds in the tables and images of seeds, as sentences."""
    content = params.load()
    state = State(snapshot.of_workspace(), content)
    found = [*seeds.check(state), *(() if only_tables else seeds.again(state))]
    return [fault.sentence() for fault in found]


@pytest.fixture
def made(ask_for: Callable[..., int], source: dict[str, Any]) -> None:
    """A project with seeds from three texts."""
    store_by_hand(source)
    assert ask_for(source) == 0
    assert check() == []


def edit(seed: str, path: Path = paths.SEED_REQUESTS_TABLE, **cells: Any) -> dict[str, Any]:
    schema = tables.REQUESTS if path == paths.SEED_REQUESTS_TABLE else tables.SEEDS
    rows = tables.records(tables.read(path, schema))
    row = next(row for row in rows if row["seed"] == seed)
    row |= cells
    tables.write(path, schema, rows)
    return row


def test_verify_needs_no_store(made: None, store: Path) -> None:
    shutil.rmtree(store)
    assert check() == [] and not store.exists()


def test_verify_finds_an_edited_original(made: None) -> None:
    path = paths.GENERATED_SEEDS / "moss.png"
    path.write_bytes(picture("not moss"))
    found = "\n".join(check())
    assert f"{path}: sha256 is {sha256_of(picture('not moss'))}; {paths.SEED_REQUESTS_TABLE} says" in found
    assert "source_sha256 is" in found and "choosing again says" in found


def test_verify_finds_two_originals_that_changed_places(made: None) -> None:
    here, there = (paths.GENERATED_SEEDS / f"{name}.png" for name in ("moss", "table"))
    first, second = here.read_bytes(), there.read_bytes()
    here.write_bytes(second)
    there.write_bytes(first)
    found = check()
    assert sum("/generated/" in sentence and "sha256 is" in sentence for sentence in found) == 2


def test_verify_names_a_missing_original(made: None) -> None:
    (paths.GENERATED_SEEDS / "moss.png").unlink()
    state = State(snapshot.of_workspace(), params.load())
    assert "data/seeds/generated/moss: the image is absent" in next(seeds.again(state)).sentence()


def test_verify_finds_a_forged_request(made: None) -> None:
    row = edit("moss", prompt="A lawn.")
    found = check(only_tables=True)
    assert f"{paths.SEED_REQUESTS_TABLE} seed moss: prompt is A lawn.; seeds.sources in params.yaml says" in found[0]
    assert f"request_id is {row['request_id']}; the hash of its row says" in found[1]
    forged = Request.of_row(row)
    assert forged
    edit("moss", request_id=forged.id)  # which makes the row agree with itself, and with nothing else
    found = "\n".join(check(only_tables=True))
    assert f"request_id is {forged.id}; seeds.sources in params.yaml says {row['request_id']}" in found
    assert "image_id is" in found and "source_sha256 in data/seeds/seeds.parquet says missing" in found


def test_verify_finds_a_config_that_is_no_json(made: None) -> None:
    edit("moss", config="{")
    assert "the hash of its row says none, as its config is no JSON" in "\n".join(check(only_tables=True))


def test_verify_finds_an_image_that_is_not_the_seeds(made: None) -> None:
    edit("moss", image_id="0" * 64)
    where = f"{paths.SEED_REQUESTS_TABLE} seed moss: image_id is {'0' * 64}"
    assert check(only_tables=True) == [
        f"{where}; source_sha256 in {paths.SEED_TABLE} says {candidates()['moss']['source_sha256']}"
    ]


def test_verify_names_missing_rows_extra_ones_and_doubles(made: None) -> None:
    rows = requests()
    kept = [row for row in rows if row["seed"] != "moss"]
    extra = Request.of_row(rows[0] | {"seed": "lawn"})
    assert extra
    kept += [kept[0], rows[0] | {"seed": "lawn", "request_id": extra.id}]
    tables.write(paths.SEED_REQUESTS_TABLE, tables.REQUESTS, kept)
    found = "\n".join(check(only_tables=True))
    assert "seed moss: the row is absent; seeds.sources in params.yaml says there" in found
    assert "seed lawn: the row is there; seeds.sources in params.yaml says absent" in found
    assert f"seed {kept[0]['seed']} row 2: the row is there; seeds.sources in params.yaml says absent" in found


def test_verify_finds_rows_that_no_source_asks_for(made: None, ask_for: Callable[..., int]) -> None:
    rows = requests()
    assert ask_for({"kind": "bundled", "names": ["coffee", "rocket"]}) == 0
    assert check() == []
    tables.write(paths.SEED_REQUESTS_TABLE, tables.REQUESTS, rows)
    assert sum("the row is there" in sentence for sentence in check()) == 3


def test_verify_calls_no_generated_file_extra_but_strays(made: None) -> None:
    tables.write(paths.IMAGES_TABLE, tables.IMAGES, [])
    stray = paths.GENERATED_SEEDS / "stray.png"

    def told() -> list[str]:
        known = {path: fingerprint(path) for path in files_below(paths.SEEDS)}
        state = State(snapshot.of_workspace(), params.load())
        return [fault.sentence() for fault in files.images(state, known)]

    assert told() == []
    stray.write_bytes(b"left by another run")
    assert len(told()) == 1 and str(stray) in told()[0]
