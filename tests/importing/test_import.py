"""Images made elsewhere: taken in, replicated, verified; hostile archives refused by name."""

import bz2
import csv
import gzip
import io
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from banana100 import paths
from banana100.cli import main
from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.generators.store import AnswerStore
from banana100.importing import guards
from banana100.importing.campaigns import with_entries
from banana100.importing.mapping import Numbering, Unusable, by_patterns, by_table
from banana100.lineage import tables
from helpers.archives import SEEDS, STARTS, STEPS, TERMS, WRITERS, members, picture, write_folder, write_zip
from helpers.clones import ROOT


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "images.zip"
    write_zip(path, members())
    return path


@pytest.fixture
def take_in(project: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run `banana100 import mine ARCHIVE`; gives the exit code, stdout and stderr."""

    def run(path: Path, *options: str, patterns: tuple[str, ...] = (STEPS, STARTS)) -> Any:
        asked = [part for pattern in patterns for part in ("--pattern", pattern)]
        code = main(["import", "mine", str(path), *asked, *TERMS, *options])
        return code, *capsys.readouterr()

    return run


def activate(*campaigns: str) -> None:
    content = yaml.safe_load(paths.PARAMS.read_text())
    content["active"], content["seeds"]["sources"] = list(campaigns), "mine"
    content["seeds"]["count"] = len(SEEDS)
    paths.PARAMS.write_text(yaml.safe_dump(content, allow_unicode=True))


def tree(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): sha256_of(file.read_bytes())
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.is_symlink()
    }


# --- the front door -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WRITERS)
def test_images_of_an_archive_become_chains_byte_by_byte(take_in: Any, tmp_path: Path, kind: str) -> None:
    WRITERS[kind](tmp_path / kind, members())
    code, told, _ = take_in(tmp_path / kind)
    assert code == 0
    assert "not matched: 1" in told and "'README.md'" in told
    assert "moss r2: no step 3 of 3" in told
    activate("mine")
    assert main(["select_seeds"]) == 0
    assert main(["replicate"]) == 0
    for seed in SEEDS:
        first = (paths.REPLICAS / "mine" / seed / "r1/000.jpg").read_bytes()
        assert first == members()[f"initial/{seed}.jpg"] == paths.seed_image(seed, "jpg").read_bytes()
    replicas = {name: data for name, data in members().items() if "/run" in name}
    for name, data in replicas.items():
        seed, run, file = name.split("/")
        assert (paths.REPLICAS / "mine" / seed / run.replace("un", "") / file).read_bytes() == data
    rows = tables.read(paths.IMAGES_TABLE, tables.IMAGES)
    assert len(rows) == len(replicas) + 4
    chain = rows[(rows["seed"] == "moss") & (rows["repeat"] == 1)].sort_values("step")
    assert list(chain["parent_id"])[1:] == list(chain["image_id"])[:-1]
    requests = tables.read(paths.REQUESTS_TABLE, tables.REQUESTS)
    for fact in ("https://example.org/images", "CC BY-NC-SA 4.0"):
        assert requests["config"].str.contains(fact).all()
    if kind != "folder":
        assert requests["config"].str.contains(sha256_of((tmp_path / kind).read_bytes())).all()
    parked = tables.read(paths.PARKED_TABLE, tables.PARKED)
    assert parked[["seed", "repeat", "step", "cause"]].to_numpy().tolist() == [["moss", 2, 3, "absent"]]


def test_a_dry_run_tells_the_same_and_writes_nothing(take_in: Any, archive: Path, project: Path, store: Path) -> None:
    before = tree(project)
    code, told, _ = take_in(archive, "--dry-run")
    assert code == 0 and "dry run" in told
    assert tree(project) == before and not store.exists()
    _, again, _ = take_in(archive)
    assert again.splitlines()[:8] == told.splitlines()[:8]


def test_it_is_done_anew_without_harm(take_in: Any, archive: Path, project: Path) -> None:
    take_in(archive)
    before = tree(project)
    assert take_in(archive)[0] == 0
    assert tree(project) == before


def test_a_corrected_rule_gives_corrected_chains(take_in: Any, archive: Path, tmp_path: Path) -> None:
    take_in(archive)
    activate("mine")
    assert main(["select_seeds"]) == main(["replicate"]) == 0
    table = tmp_path / "mapping.csv"
    lines = ["path,seed,repeat,step"]
    for name in members():
        if name.startswith("initial/"):
            lines.append(f"{name},{Path(name).stem},,0")
        elif "/run" in name:
            seed, run, file = name.split("/")
            lines.append(f"{name},{seed},{3 - int(run[3:])},{int(file[:3])}")  # the repeats change places
    table.write_text("\n".join(lines))
    assert take_in(archive, "--mapping", str(table), patterns=())[0] == 0
    assert main(["select_seeds"]) == main(["replicate"]) == 0
    assert (paths.REPLICAS / "mine/moss/r2/001.png").read_bytes() == members()["moss/run1/001.png"]


def test_chains_do_not_start_from_a_namesake(take_in: Any, tmp_path: Path, capsys: Any) -> None:
    content = {name.replace("moss", "rocket"): data for name, data in members().items() if "moss" in name}
    write_zip(tmp_path / "a.zip", content)
    assert take_in(tmp_path / "a.zip")[0] == 0
    params = yaml.safe_load(paths.PARAMS.read_text())
    params |= {"active": ["mine"]}
    params["seeds"] |= {"count": 3}
    paths.PARAMS.write_text(yaml.safe_dump(params, allow_unicode=True))
    assert main(["select_seeds"]) == 0  # the photograph of a rocket
    assert main(["replicate"]) == 2
    assert "seed rocket is not the image that the archive mine starts its chains from" in capsys.readouterr().err


def test_all_seeds_of_an_archive_are_chosen(take_in: Any, archive: Path, capsys: Any) -> None:
    take_in(archive)
    activate("mine")
    params = yaml.safe_load(paths.PARAMS.read_text())
    params["seeds"]["count"] = 1
    paths.PARAMS.write_text(yaml.safe_dump(params, allow_unicode=True))
    assert main(["select_seeds"]) == 2
    assert "seeds.count is 1; allowed: 2, as an archive's seeds are all needed" in capsys.readouterr().err


def test_a_model_that_the_archive_lacks_is_refused(take_in: Any, archive: Path, capsys: Any) -> None:
    take_in(archive)
    activate("mine")
    assert main(["select_seeds"]) == 0
    params = yaml.safe_load(paths.PARAMS.read_text())
    params["campaigns"]["mine"]["model"] = "painter-2"
    paths.PARAMS.write_text(yaml.safe_dump(params, allow_unicode=True))
    assert main(["replicate"]) == 2
    assert "asks for the model painter-2" in capsys.readouterr().err


def test_what_is_somebody_elses_in_params_is_not_replaced(take_in: Any, archive: Path, project: Path) -> None:
    content = yaml.safe_load(paths.PARAMS.read_text())
    content["seed_sets"]["mine"] = content["seeds"]["sources"]
    paths.PARAMS.write_text(yaml.safe_dump(content, allow_unicode=True))
    before = tree(project)
    code, _, error = take_in(archive)
    assert code == 2 and "seed_sets.mine is there already" in error
    assert tree(project) == before


def test_campaigns_that_an_archive_no_longer_makes_are_removed(take_in: Any, tmp_path: Path) -> None:
    content = {"table.png": picture(0)} | {f"{m}/table/{k}.png": picture(k) for m in ("m1", "m2") for k in (1, 2)}
    patterns = (r"(?P<model>m.)/(?P<seed>\w+)/(?P<step>\d+)\.png", r"(?P<seed>\w+)\.png")
    write_zip(tmp_path / "a.zip", content)
    assert take_in(tmp_path / "a.zip", patterns=patterns)[0] == 0
    write_zip(tmp_path / "b.zip", {name: data for name, data in content.items() if "m2" not in name})
    assert take_in(tmp_path / "b.zip", patterns=patterns)[0] == 0
    params = yaml.safe_load(paths.PARAMS.read_text())
    assert [name for name in params["campaigns"] if name.startswith("mine")] == ["mine"]
    assert params["campaign_sets"] == {}


# --- which file is which step ---------------------------------------------------------------------------------------


def test_models_and_settings_become_campaigns_and_a_set(take_in: Any, tmp_path: Path) -> None:
    content = {"start/table.png": picture(0)}
    for model, setting in (("m1", "apples"), ("m1", "pears"), ("m2", "pears")):
        content |= {f"{model}/{setting}/table/{step}.png": picture(step) for step in (2, 3)}
    write_zip(tmp_path / "a.zip", content)
    pattern = r"(?P<model>m.)/(?P<setting>\w+)/(?P<seed>\w+)/(?P<step>\d+)\.png"
    patterns = (pattern, r"start/(?P<seed>\w+)\.png")
    code, told, _ = take_in(tmp_path / "a.zip", "--seed-step", "1", patterns=patterns)
    assert code == 0 and "-S active=mine " in told
    params = yaml.safe_load(paths.PARAMS.read_text())
    assert params["campaign_sets"]["mine"] == ["mine-m1-apples", "mine-m1-pears", "mine-m2-pears"]
    assert params["campaigns"]["mine-m2-pears"]["config"]["setting"] == "pears"
    assert params["campaigns"]["mine-m1-apples"]["steps"] == 2


@pytest.mark.parametrize("mapped", [False, True])
def test_repeats_may_be_counted_from_zero(take_in: Any, tmp_path: Path, mapped: bool) -> None:
    content = {"table.png": picture(0)} | {f"table/{run}/1.png": picture(run + 1) for run in (0, 1)}
    write_zip(tmp_path / "a.zip", content)
    options, patterns = [], (r"(?P<seed>\w+)/(?P<repeat>\d+)/(?P<step>\d+)\.png", r"(?P<seed>\w+)\.png")
    if mapped:
        lines = ["path,seed,repeat,step", "table.png,table,,0", "table/0/1.png,table,,1", "table/1/1.png,table,1,1"]
        (tmp_path / "mapping.csv").write_text("\n".join(lines))
        options, patterns = ["--mapping", str(tmp_path / "mapping.csv")], ()
    else:
        _, told, _ = take_in(tmp_path / "a.zip", patterns=patterns)
        assert "'table/0/1.png' has the repeat '0'; allowed: a whole number from 1 to 999" in told
    code, told, _ = take_in(tmp_path / "a.zip", "--first-repeat", "0", *options, patterns=patterns)
    assert code == 0 and "matched 3 images" in told and "gaps" not in told.split("campaign")[0]
    rows = tables.read(paths.archive("mine"), tables.ARCHIVE)
    rows = rows[rows["step"] == 1].set_index("member")["repeat"]
    assert rows.to_dict() == {"table/0/1.png": 1, "table/1/1.png": 2}


def test_hidden_files_do_not_hide_what_is_not_matched(take_in: Any, tmp_path: Path) -> None:
    write_folder(tmp_path / "a", members() | {f".cache/huggingface/{place}.metadata": b"" for place in range(20)})
    _, told, _ = take_in(tmp_path / "a")
    assert "not matched: 21\n  'README.md'\n" in told


def test_a_table_says_which_file_is_which_step(take_in: Any, tmp_path: Path, archive: Path) -> None:
    table = tmp_path / "mapping.csv"
    with table.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "seed", "repeat", "step"])
        rows.writerow(["initial/moss.jpg", "moss", "", "0"])
        rows.writerow(["moss/run1/001.png", "moss", "1", "1"])
        rows.writerow(["moss/run1/009.png", "moss", "1", "2"])
    code, told, _ = take_in(archive, "--mapping", str(table), patterns=())
    assert code == 0
    assert "matched 2 images" in told and "in the mapping, not in the archive: 1" in told


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("path,seed\na,b\n", "has the columns path, seed"),
        ("path,seed,step\na,b,1\na,b,2\n", "line 3 names a file that a line above names"),
        ("path,seed,step\na,b\n", "line 2 lacks a path, or has another length"),
        ("path,seed,step\na,b,1,2\n", "line 2 lacks a path, or has another length"),
        ("path,seed,step\n\n\na,b\n", "line 4 lacks a path, or has another length"),
        ("path,seed,step,step\na,b,1,2\n", "has the columns path, seed, step, step; allowed: .* each once"),
        ('path,seed,step\n"a,b,1\n', "no CSV file"),
        (b"\xff\xfe\x00", "no CSV file"),
    ],
)
def test_a_table_that_will_not_do_is_refused(tmp_path: Path, content: str | bytes, told: str) -> None:
    path = tmp_path / "mapping.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=told):
        by_table(path, "m", Numbering())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--pattern", "("], "no regular expression"),
        (["--pattern", "(?P<step>.)"], "has the groups step"),
        (["--pattern", "(?P<seed>.)(?P<colour>.)"], "has the groups colour, seed"),
        (["--pattern", "nothing(?P<seed>)"], "no file is a step of a chain"),
        (["--pattern", STEPS], "no image is the seed of the chains of moss, sand dunes"),
        (["--pattern", STEPS, "--pattern", STARTS, "--licence", ""], "--licence is empty"),
        (["--pattern", STEPS, "--pattern", STARTS, "--model", "a\nb"], "printable"),
        (["--mapping", "nowhere.csv"], "cannot be read"),
    ],
)
def test_a_request_that_will_not_do_is_refused_in_a_sentence(
    take_in: Any, archive: Path, project: Path, options: list[str], told: str
) -> None:
    before = tree(project)
    code, _, error = take_in(archive, *options, patterns=())
    assert code == 2 and told in error and error.count("\n") == 1
    assert tree(project) == before


@pytest.mark.parametrize("name", ["../mine", "", ".mine", "a/b", "x" * 90, "a b", "123", "null", "it's", "${x}"])
def test_an_archive_has_a_name_that_a_file_can_have(project: Path, archive: Path, name: str, capsys: Any) -> None:
    assert main(["import", name, str(archive), "--pattern", STEPS, *TERMS]) == 2
    assert "the name is" in capsys.readouterr().err


def test_two_images_for_one_step_are_refused_by_name(take_in: Any, tmp_path: Path) -> None:
    write_zip(tmp_path / "a.zip", members() | {"moss/run1/1.jpg": picture(5)})
    code, _, error = take_in(tmp_path / "a.zip")
    assert code == 2 and "moss/run1/001.png" in error and "moss/run1/1.jpg" in error and "step 1" in error


def test_seeds_that_differ_from_chain_to_chain_are_refused(take_in: Any, tmp_path: Path) -> None:
    same = members() | {"moss/run1/000.png": picture(7), "moss/run2/000.png": picture(7)}
    del same["initial/moss.jpg"]
    write_zip(tmp_path / "a.zip", same)
    assert take_in(tmp_path / "a.zip")[0] == 0
    write_zip(tmp_path / "b.zip", same | {"moss/run2/000.png": picture(8)})
    code, _, error = take_in(tmp_path / "b.zip")
    assert code == 2 and "both the seed moss, and differ" in error


def test_what_is_no_image_is_named_and_ends_its_chain(take_in: Any, tmp_path: Path) -> None:
    write_zip(tmp_path / "a.zip", members() | {"moss/run1/002.png": picture(3)[:-500], "moss/run1/x.png": b""})
    code, told, _ = take_in(tmp_path / "a.zip")
    assert code == 0 and "not usable: 1" in told and "'moss/run1/002.png' cannot be decoded" in told
    assert "moss r1: no step 2 of 3, and the 1 after it are left out" in told
    row = next(line.split() for line in told.splitlines() if line.startswith("mine "))
    assert row == ["mine", "painter-1", "2", "4", "3", "9", "2"]  # the last: nine images, two gaps
    activate("mine")
    assert main(["select_seeds"]) == main(["replicate"]) == 0
    assert sorted(file.name for file in (paths.REPLICAS / "mine/moss/r1").iterdir()) == ["000.jpg", "001.png"]


NAMES = st.text(st.characters(blacklist_categories=[]), max_size=30)


@given(NAMES, NAMES, NAMES, NAMES)
def test_any_names_are_places_or_clauses(seed: str, repeat: str, step: str, model: str) -> None:
    place = by_patterns([r"(?P<seed>[^|]*)\|(?P<repeat>[^|]*)\|(?P<step>[^|]*)\|(?P<model>.*)"], "", Numbering())
    try:
        found = place(f"{seed}|{repeat}|{step}|{model}")
    except Unusable as error:
        assert str(error)
    else:
        if found and found.step:
            assert (found.seed, found.model) == (seed, model)
            assert (found.repeat, found.step) == (int(repeat), int(step))


@given(NAMES)
@example("./")  # what `tar c .` starts with: the archive's own folder
def test_no_name_leads_out_of_the_archive(name: str) -> None:
    try:
        checked = guards.checked(name, Path("a.zip"))
    except UserError as error:
        assert "a.zip" in str(error)
    else:
        root = Path("/root of all")
        assert Path(os.path.normpath(root / checked)).is_relative_to(root)
        checked.encode()


def test_new_campaigns_leave_all_other_lines_of_params_alone(default_params: dict[str, Any]) -> None:
    text = (ROOT / "params.yaml").read_text()
    config = {
        "archive": "x",
        "origin": "o # no comment",
        "sha256": "1e" + "0" * 62,
        "table": "0" * 64,
        "licence": "c: d",
    }
    campaign = {"backend": "archive", "model": "1e5", "prompts": ["yes", "1:1"], "config": config}
    campaign |= {"seeds": ["a"], "repeats": 1, "steps": 2}
    source = {"kind": "archive", "archive": "x", "origin": "o", "licence": "l"}
    made = {"campaigns": {"x": campaign}, "seed_sets": {"x": [source]}, "campaign_sets": {"x": ["x"]}}
    once = with_entries(text, "x", made)
    kept = iter(once.splitlines())
    assert all(line in kept for line in text.splitlines())  # in the same order
    assert len(once.splitlines()) - len(text.splitlines()) == 16 + 5 + 2
    made["campaigns"]["x"]["steps"] = 7
    assert with_entries(once, "x", made) == once.replace("    steps: 2\n\n# Named sets", "    steps: 7\n\n# Named sets")
    empty = yaml.safe_dump(default_params | {"campaign_sets": {}}, allow_unicode=True)
    assert yaml.safe_load(with_entries(empty, "x", made))["campaign_sets"] == {"x": ["x"]}
    assert with_entries(text.replace("\n", "\r\n"), "x", made) == with_entries(text, "x", made).replace("\n", "\r\n")
    assert with_entries(text.rstrip("\n"), "x", made) == with_entries(text, "x", made)
    for odd in (f"{text}\nactive: [a]\n", yaml.safe_dump(default_params, default_flow_style=True)):
        with pytest.raises(UserError, match="cannot be added to"):
            with_entries(odd, "x", made)


# --- hostile and broken archives ------------------------------------------------------------------------------------


def zip_of(*infos: tuple[zipfile.ZipInfo | str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in infos:
            archive.writestr(info, data)
    return stream.getvalue()


def zip_link() -> bytes:
    info = zipfile.ZipInfo("out.png")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    return zip_of((info, b"/etc/passwd"))


def zip_encrypted() -> bytes:
    data = bytearray(zip_of(("a.png", b"abc")))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + place] |= 1
    return bytes(data)


def tar_of(*changed: dict[str, Any], data: bytes = b"") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for fields in changed:
            info = tarfile.TarInfo("a.png")
            info.size = len(data)
            for key, value in fields.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return stream.getvalue()


def tar_of_a_header_that_claims_memory() -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 8 * 2**30
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))


def tar_of_a_file_that_claims_memory() -> bytes:
    info = tarfile.TarInfo("a.png")
    info.size = 8 * 2**30
    return bz2.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))


def tar_of_too_many() -> bytes:
    header = tarfile.TarInfo("AAAAAAA.png").tobuf(tarfile.GNU_FORMAT)
    total = sum(header[:148]) + 8 * 32 + sum(header[156:])
    blocks = []
    for number in range(guards.MAX_ENTRIES + 1):
        name = b"%07d" % number
        checksum = b"%06o\0 " % (total - sum(b"AAAAAAA") + sum(name))
        blocks.append(name + header[7:148] + checksum + header[156:])
    return gzip.compress(b"".join(blocks) + bytes(1024), 1)


def tar_folder() -> bytes:
    info = tarfile.TarInfo("folder")
    info.type = tarfile.DIRTYPE
    return info.tobuf(tarfile.GNU_FORMAT)


def zip_with_a_directory_elsewhere() -> bytes:
    data = bytearray(zip_of(("moss/run1/001.png", picture(1)), ("initial/moss.jpg", picture(2, "JPEG"))))
    place = data.rindex(b"PK\x05\x06") + 16
    data[place : place + 4] = (int.from_bytes(data[place : place + 4], "little") + 50).to_bytes(4, "little")
    return bytes(data)


def zip_bomb() -> bytes:
    zeros = bytes(100 * 2**20)
    return zip_of(*((f"{number}.png", zeros) for number in range(3)))


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "zip that leads out": (lambda: zip_of(("../out.png", b"x")), "the name '../out.png'"),
    "zip that leads out by a detour": (lambda: zip_of(("a/../../out.png", b"x")), "the name 'a/../../out.png'"),
    "zip with an absolute name": (lambda: zip_of(("/tmp/out.png", b"x")), "the name '/tmp/out.png'"),
    "zip with backslashes": (lambda: zip_of(("..\\out.png", b"x")), "the name '..\\\\\\\\out.png'"),
    "zip with a drive": (lambda: zip_of(("C:out.png", b"x")), "the name 'C:out.png'"),
    "zip with a NUL": (
        lambda: zip_of(("aQ.png", b"x")).replace(b"aQ.png", b"a\0.png"),
        "the name 'a\\\\x00.png'",
    ),
    "zip with a link": (zip_link, "the link 'out.png'"),
    "zip with a name twice": (lambda: zip_of(("a.png", b"x"), ("./a.png", b"y")), "'a.png' twice"),
    "zip with a password": (zip_encrypted, "'a.png' encrypted"),
    "zip bomb": (zip_bomb, "unpacks to more than 50 times its size"),
    "zip cut off": (lambda: zip_of(("moss/run1/001.png", picture(1)))[:-40], "no archive"),
    "zip with a wrong checksum": (
        lambda: zip_of(
            (zipfile.ZipInfo("moss/run1/001.png"), b"abcd"), (zipfile.ZipInfo("initial/moss.jpg"), b"q")
        ).replace(b"abcd", b"abce"),
        "damaged",
    ),
    "tar that leads out": (lambda: tar_of({"name": "../out.png"}), "the name '../out.png'"),
    "tar with an absolute name": (lambda: tar_of({"name": "/tmp/out.png"}), "the name '/tmp/out.png'"),
    "tar with a link": (lambda: tar_of({"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}), "the link 'a.png'"),
    "tar with a hard link": (lambda: tar_of({"type": tarfile.LNKTYPE, "linkname": "../x"}), "the link 'a.png'"),
    "tar with a device": (lambda: tar_of({"type": tarfile.CHRTYPE}), "'a.png', which is no plain file"),
    "tar with a pipe": (lambda: tar_of({"type": tarfile.FIFOTYPE}), "'a.png', which is no plain file"),
    "tar with a name twice": (lambda: tar_of({}, {"name": "./a.png"}), "'a.png' twice"),
    "tar with a large header": (tar_of_a_header_that_claims_memory, "header of 8,589"),
    "tar with a large file": (tar_of_a_file_that_claims_memory, "a file of 8,589,934,592 bytes"),
    "tar of too many files": (tar_of_too_many, "more than 200,000 files"),
    "tar of too many folders": (
        lambda: gzip.compress(tar_folder() * (guards.MAX_ENTRIES + 1) + bytes(1024), 1),
        "more than 200,000 files",
    ),
    "zip with a directory elsewhere": (zip_with_a_directory_elsewhere, "damaged"),
    "tar cut off": (lambda: gzip.compress(tar_of({"name": "a.png"}, data=os.urandom(5000)))[:-3000], "damaged"),
    "nothing": (lambda: b"", "no archive"),
    "text": (lambda: b"not an archive at all" * 100, "no archive"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archives_are_refused_by_name_and_nothing_is_written(
    take_in: Any, tmp_path: Path, store: Path, kind: str
) -> None:
    make, told = HOSTILE[kind]
    path = tmp_path / "hostile"
    path.write_bytes(make())
    before = tree(tmp_path)
    code, _, error = take_in(path)
    assert code == 2, error
    assert told.replace("\\\\", "\\") in error and error.count("\n") == 1
    assert {name: digest for name, digest in tree(tmp_path).items() if not name.startswith("store")} == before


def test_links_and_pipes_in_a_folder_are_refused(take_in: Any, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    write_folder(folder, members())
    (folder / "out").symlink_to("/etc")
    code, _, error = take_in(folder)
    assert code == 2 and "the link 'out'" in error
    (folder / "out").unlink()
    os.mkfifo(folder / "pipe.png")
    code, _, error = take_in(folder)
    assert code == 2 and "'pipe.png', which is no plain file" in error


def test_archives_in_a_folder_are_looked_into(take_in: Any, tmp_path: Path) -> None:
    content = members()
    folder = tmp_path / "images"
    write_folder(folder, {name: data for name, data in content.items() if "/run" not in name})
    for seed in SEEDS:
        of_seed = {name.removeprefix(f"{seed}/"): data for name, data in content.items() if name.startswith(f"{seed}/")}
        write_zip(folder / f"{seed}.zip", of_seed)
    pattern = r"(?P<seed>[^/]+)\.zip/run(?P<repeat>\d+)/(?P<step>\d+)\.png"
    code, told, _ = take_in(folder, patterns=(pattern, STARTS))
    assert code == 0 and "matched 13 images" in told
    (folder / "bad.zip").write_bytes(zip_of(("../out.png", b"x")))
    code, _, error = take_in(folder, patterns=(pattern, STARTS))
    assert code == 2 and "bad.zip" in error and "'../out.png'" in error


def test_a_parquet_file_is_a_folder_of_its_rows(take_in: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for name, data in members().items():
        seed, run, file = name.split("/") if "/run" in name else (Path(name).stem, "run0", "0.jpg")
        image = {"bytes": data, "path": file}
        rows.append({"image": image, "seed": seed, "repeat": int(run[3:]), "prompt": "again, " * 30})
    (tmp_path / "shards").mkdir()
    pq.write_table(pa.Table.from_pylist(rows[:6]), tmp_path / "shards/0.parquet")
    pq.write_table(pa.Table.from_pylist(rows[6:]), tmp_path / "shards/1.parquet")
    pattern = r".\.parquet/seed=(?P<seed>[^/]+)/repeat=(?P<repeat>[1-9])/\d+-(?P<step>\d+)\.png"
    starts = r".\.parquet/seed=(?P<seed>[^/]+)/repeat=0/\d+-0\.jpg"
    code, told, _ = take_in(tmp_path / "shards", patterns=(pattern, starts))
    assert code == 0 and "matched 13 images" in told and "not usable: 1" in told
    code, _, error = take_in(tmp_path / "shards/0.parquet", patterns=(pattern, starts))
    assert code == 2 and "no file is a step" in error
    pq.write_table(pa.table({"a": [1]}), tmp_path / "none.parquet")
    assert "no column of images" in take_in(tmp_path / "none.parquet")[2]
    whole = (tmp_path / "shards/0.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-100])
    assert "damaged" in take_in(tmp_path / "cut.parquet")[2]


def test_a_picture_of_too_many_pixels_is_no_image_to_take(take_in: Any, tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    png = bytearray(picture(1))
    png[16:29] = header
    png[29:33] = struct.pack(">I", zlib.crc32(b"IHDR" + header))
    write_zip(tmp_path / "a.zip", members() | {"moss/run1/002.png": bytes(png)})
    code, told, _ = take_in(tmp_path / "a.zip")
    assert code == 0 and "'moss/run1/002.png' has" in told and "megapixels" in told


def test_a_campaign_on_another_archive_than_its_sha256_says_is_refused(
    take_in: Any, archive: Path, capsys: Any
) -> None:
    take_in(archive)
    activate("mine")
    assert main(["select_seeds"]) == 0
    content = yaml.safe_load(paths.PARAMS.read_text())
    content["campaigns"]["mine"]["config"]["sha256"] = "0" * 64
    paths.PARAMS.write_text(yaml.safe_dump(content, allow_unicode=True))
    assert main(["replicate"]) == 2
    assert "has other digests than data/archives/mine.parquet" in capsys.readouterr().err
    paths.archive("mine").unlink()
    assert main(["replicate"]) == 2
    assert "`banana100 import mine ARCHIVE` makes it" in capsys.readouterr().err


def test_a_damaged_image_of_the_store_is_told(take_in: Any, archive: Path, capsys: Any) -> None:
    take_in(archive)
    activate("mine")
    main(["select_seeds"])
    image_id = sha256_of(members()["moss/run1/001.png"])
    AnswerStore().root.joinpath("objects", image_id[:2], image_id).write_bytes(b"rot")
    capsys.readouterr()
    assert main(["replicate"]) == 2
    assert "damaged object in the store" in capsys.readouterr().err
