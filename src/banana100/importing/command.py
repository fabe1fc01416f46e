"""`banana100 import`: take in images that somebody else made, as campaigns with replicas and lineage of their own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from banana100 import paths
from banana100.errors import UserError
from banana100.generators.archive import digest
from banana100.generators.store import AnswerStore
from banana100.importing import campaigns
from banana100.importing.archives import listing, opened
from banana100.importing.mapping import Mapper, Numbering, Position, by_patterns, by_table
from banana100.importing.survey import Survey, archive_name, gaps, survey, unbroken, unpacked_digest
from banana100.lineage import tables
from banana100.lineage.identity import identity

_SHOWN = 10
_NAME = "[A-Za-z][A-Za-z0-9_-]{0,39}"  # a shell and YAML take it as it is


@dataclass(frozen=True)
class Asked:
    """What the user says of an archive.

    Attributes:
        name: what it is to be called here.
        path: where it lies: a folder, a zip or a tar.
        patterns, mapping: one of them says which file is which step, see `mapping`.
        model: who made the images; empty where patterns or mapping say so.
        prompts: what the steps were asked with.
        origin: where it is from; empty for its file's name.
        licence: the terms that it may be used under.
        numbering: how it counts steps and repeats.
    """

    name: str
    path: Path
    patterns: Sequence[str]
    mapping: Path | None
    model: str
    prompts: Sequence[str]
    origin: str
    licence: str
    numbering: Numbering


def run(asked: Asked, dry: bool) -> None:
    """Take an archive in: its images into the store, its table into data/archives, its campaigns into params.yaml.

    Args:
        asked: what is taken in.
        dry: only tell what would be.

    Raises:
        UserError: the archive or what the user says of it will not do; then nothing has changed but that the store may
            hold images that nothing names.
    """
    _check(asked)
    archive = opened(asked.path)
    entries = listing(archive, asked.path)
    mapper, wanted = _mapper(asked)
    store = None if dry else AnswerStore()
    found = survey(archive, entries, mapper, store.keep_object if store else _forget)
    sha256 = archive.sha256() or identity(unpacked_digest(found.rows.values()))
    print(f"{asked.path}: {archive.kind} of {len(entries):,} files, sha256 {sha256}")
    _tell(found, wanted - entries.keys())
    found.check()
    rows = _table(sha256, found)
    origin = {"origin": _origin(asked), "sha256": sha256, "table": digest(rows), "licence": asked.licence}
    made = campaigns.entries(asked.name, found, asked.prompts, origin)
    campaigns.with_entries(campaigns.read(), asked.name, made)  # refused before anything is written
    print(tabulate(_rows(made, found), headers=["campaign", "model", "seeds", "chains", "steps", "images", "gaps"]))
    if dry:
        print("dry run: nothing was written; without --dry-run it is taken in.")
        return
    tables.write(paths.archive(asked.name), tables.ARCHIVE, rows)
    campaigns.write(asked.name, made)
    print(
        f"taken in: {paths.archive(asked.name)} and params.yaml; commit both. Then:\n"
        f"dvc exp run -n {asked.name} -S {_active(asked.name, made)} -S seeds.sources={asked.name} "
        f"-S seeds.count={len(found.seeds())}"
    )


def _check(asked: Asked) -> None:
    if not re.fullmatch(_NAME, asked.name) or asked.name.lower() in ("true", "false", "null"):
        raise UserError(f"the name is {asked.name!r}; allowed: up to 40 letters, digits, - and _, a letter first.")
    if bool(asked.patterns) == bool(asked.mapping):
        raise UserError("which file is which step? allowed: --pattern once or more, or --mapping once.")
    told = {"licence": asked.licence, "origin": _origin(asked), "model": asked.model, "prompt": "".join(asked.prompts)}
    for key, value in told.items():
        if not value.isprintable():
            raise UserError(f"--{key} is {value!r}; allowed: printable text.")
    if not asked.licence:
        raise UserError("--licence is empty; allowed: the terms that the images may be used under.")


def _origin(asked: Asked) -> str:
    return asked.origin or archive_name(asked.path)


def _mapper(asked: Asked) -> tuple[Mapper, set[str]]:
    if asked.mapping:
        return by_table(asked.mapping, asked.model, asked.numbering)
    return by_patterns(asked.patterns, asked.model, asked.numbering), set()


def _forget(_: str, __: bytes) -> None:
    """In a dry run."""


def _tell(found: Survey, absent: set[str]) -> None:
    """What was matched and what was not, then gaps."""
    print(f"matched {len(found.rows):,} images")
    _list("not matched", [repr(name) for name in sorted(found.unmatched, key=_hidden)])
    _list("not usable", [f"{name!r} {why}" for name, why in sorted(found.unusable.items())])
    _list("in the mapping, not in the archive", [repr(name) for name in sorted(absent)])
    lacking = [line for group, chains in found.groups().items() for line in gaps(group, chains)]
    _list("gaps, where chains end", lacking)


def _hidden(name: str) -> bool:
    """Whether it is of no interest to those who look for images, as what `hf download` notes beside them."""
    return any(part.startswith(".") for part in name.split("/"))


def _list(what: str, lines: Sequence[str]) -> None:
    if lines:
        print(f"{what}: {len(lines):,}")
        more = [f"and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
        print(*(f"  {line}" for line in [*lines[:_SHOWN], *more]), sep="\n")


def _rows(made: dict[str, dict], found: Survey) -> list[tuple]:
    groups = found.groups()
    rows = []
    for name, campaign in made["campaigns"].items():
        group = campaigns.group_of(campaign)
        chains = groups[group]
        images = sum(map(unbroken, chains.values()))
        seeds, ends = len(campaign["seeds"]), len(list(gaps(group, chains)))
        rows.append((name, group.model, seeds, len(chains), campaign["steps"], images, ends))
    return rows


def _table(sha256: str, found: Survey) -> list[dict[str, str | int | None]]:
    seeds = set(found.seeds())
    return [
        {"archive_sha256": sha256, "member": row.member, "image_id": row.image_id} | _cells(place)
        for place, row in sorted(found.rows.items())
        if place.seed in seeds
    ]


def _cells(place: Position) -> dict[str, str | int | None]:
    if place.step == 0:
        return {"seed": place.seed, "step": 0}
    return {
        "model": place.model,
        "setting": place.setting or None,
        "seed": place.seed,
        "repeat": place.repeat,
        "step": place.step,
    }


def _active(name: str, made: dict[str, dict]) -> str:
    return f"active={name}" if "campaign_sets" in made else f"'active=[{name}]'"
