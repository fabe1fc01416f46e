"""The entries of params.yaml that make campaigns of an archive."""

import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from ruamel.yaml import YAML, YAMLError

from banana100 import params, paths
from banana100.errors import UserError
from banana100.files import write_atomically
from banana100.importing.survey import Group, Survey
from banana100.params import is_name
from banana100.yaml12 import Loader


def entries(name: str, found: Survey, prompts: Sequence[str], origin: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What goes into params.yaml.

    Args:
        name: the archive's; its one campaign is called so, several begin with it and are a set of that name.
        found: what it holds.
        prompts: what the steps were asked with.
        origin: the fields origin, sha256, table and licence of `params.ArchiveConfig`.

    Returns:
        Entries of campaigns, campaign_sets and seed_sets, by name.

    Raises:
        UserError: a campaign would have a name that it cannot have.
    """
    groups = found.groups()
    campaigns = {}
    for group, chains in groups.items():
        told = [part for part, others in zip(group, zip(*groups, strict=True), strict=True) if len(set(others)) > 1]
        called = "-".join([name, *filter(None, told)]).replace("/", "-")
        if not is_name(called) or called in campaigns:
            raise UserError(f"a campaign would be called {called!r}; allowed: {params.NAME_RULE}, each once.")
        setting = {"setting": group.setting} if group.setting else {}
        campaigns[called] = {
            "backend": "archive",
            "model": group.model,
            "prompts": list(prompts),
            "config": {"archive": name} | dict(origin) | setting,
            "seeds": sorted({seed for seed, _ in chains}),
            "repeats": max(repeat for _, repeat in chains),
            "steps": max(steps[-1] for steps in chains.values()),
        }
    terms = {key: origin[key] for key in ("origin", "licence")}
    made: dict[str, dict[str, Any]] = {
        "campaigns": campaigns,
        "seed_sets": {name: [{"kind": "archive", "archive": name} | terms]},
    }
    return made | ({"campaign_sets": {name: list(campaigns)}} if len(campaigns) > 1 else {})


def with_entries(text: str, archive: str, made: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of params.yaml with these entries, in place of those of the same archive; all other lines stay.

    Raises:
        UserError: params.yaml would hold what it must not hold.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    text = text if text.endswith("\n") else f"{text}\n"
    try:
        for block, name in _of_archive(yaml.load(text, Loader=Loader), archive, made):
            text = _without_entry(text, block, name)
        for block, members in made.items():
            for name, value in members.items():
                text = _with_entry(text, block, name, value)
        content = yaml.load(text, Loader=Loader)
    except (YAMLError, yaml.YAMLError, KeyError, AttributeError, TypeError):
        raise UserError(
            f"{paths.PARAMS}: cannot be added to; allowed: each block on lines of its own, each key once."
        ) from None
    params.check(content)
    return text.replace("\n", end)


def _of_archive(content: Any, archive: str, made: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The entries that an earlier import of the archive made and that are no more: block and name.

    Raises:
        UserError: an entry to be made has the name of one that is somebody else's.
    """
    campaigns = {name for name, of in content["campaigns"].items() if of.get("config", {}).get("archive") == archive}
    ours = {
        "campaigns": campaigns,
        "seed_sets": {n for n, of in content["seed_sets"].items() if {s.get("archive") for s in of} == {archive}},
        "campaign_sets": {name for name, of in content["campaign_sets"].items() if set(of) <= campaigns},
    }
    for block, members in made.items():
        if taken := sorted((members.keys() & content[block].keys()) - ours[block]):
            raise UserError(f"params.yaml: {block}.{taken[0]} is there already; allowed: another NAME for the archive.")
    ours["campaign_sets"] &= {archive}  # others may be the user's
    return [(block, name) for block, names in ours.items() for name in sorted(names - made.get(block, {}).keys())]


def _without_entry(text: str, block: str, name: str) -> str:
    whole = _YAML.load(text)
    lines, holder = text.splitlines(keepends=True), whole[block]
    first, end = _lines_of(whole, block, lines, len(lines))
    if holder.fa.flow_style() or len(holder) == 1:
        left = {key: value for key, value in holder.items() if key != name}
        return "".join([*lines[:first], _dumped({block: left}), *lines[end:]])
    start, last = _lines_of(holder, name, lines, end)
    return "".join([*lines[:start], *lines[last:]])


def _with_entry(text: str, block: str, name: str, value: Any) -> str:
    # ruamel tells the lines of keys; writing the file with it would move the comments between entries
    whole = _YAML.load(text)
    lines, holder = text.splitlines(keepends=True), whole[block]
    first, end = _lines_of(whole, block, lines, len(lines))
    if holder.fa.flow_style() or not holder:  # as in {}
        return "".join([*lines[:first], _dumped({block: dict(holder) | {name: value}}), *lines[end:]])
    column = holder.lc.key(next(iter(holder)))[1]
    start, end = _lines_of(holder, name, lines, end) if name in holder else (end, end)
    return "".join([*lines[:start], textwrap.indent(_dumped({name: value}), " " * column), *lines[end:]])


def _lines_of(holder: Any, key: str, lines: Sequence[str], end: int) -> tuple[int, int]:
    """Where an entry begins and ends, without the comments that belong to the next one."""
    keys = list(holder)
    first = holder.lc.key(key)[0]
    following = keys[keys.index(key) + 1 :]
    end = holder.lc.key(following[0])[0] if following else end
    while end > first + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return first, end


def _dumped(entry: dict[str, Any]) -> str:
    stream = io.StringIO()
    _YAML.dump(entry, stream)
    return stream.getvalue()


_YAML = YAML()
_YAML.width = 1_000_000
_YAML.indent(mapping=2, sequence=4, offset=2)


def write(archive: str, made: Mapping[str, Mapping[str, Any]]) -> None:
    """Put entries into params.yaml.

    Raises:
        UserError: see `with_entries`; params.yaml stays as it was.
    """
    write_atomically(paths.PARAMS, with_entries(read(), archive, made).encode())


def read() -> str:
    """The text of params.yaml, with the ends of lines that it has."""
    return paths.PARAMS.read_bytes().decode()


def group_of(campaign: Mapping[str, Any]) -> Group:
    """The group that a campaign was made of."""
    return Group(campaign["model"], campaign["config"].get("setting", ""))
