"""dvc.lock against dvc.yaml, params.yaml, the dependencies and the outputs as they are now.

`dvc repro -f` and `dvc commit -f` can record new params over old data, so agreement here proves nothing by itself; what
params decide is checked row by row in the other modules.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from banana100 import paths
from banana100.verify import changes
from banana100.verify.faults import Fault, State
from banana100.verify.fingerprints import Fingerprint, dvc_hash, files_below, fingerprint, listing


def check(state: State) -> Iterator[Fault]:
    """The record of every stage: command, dependencies, params, names of outputs."""
    stages, lock = state.snapshot.pipeline, state.snapshot.lock
    for name in [*stages, *sorted(lock.keys() - stages.keys())]:
        if name not in lock or name not in stages:
            there = name in lock
            yield Fault(f"{paths.LOCK} {name}", "the stage", _there(there), _there(not there), str(paths.PIPELINE))
    made = state.snapshot.outs
    deps = {dep["path"] for entry in lock.values() for dep in entry.get("deps", [])} - made.keys()
    here = {dep: _hash_of(Path(dep)) for dep in deps}
    for name in [name for name in stages if name in lock]:
        state.counted["stages"] += 1
        yield from _names(name, stages[name], lock[name])
        yield from _params(name, lock[name], state.snapshot.params)
        yield from _dependencies(name, lock[name], made, here)


def outputs(state: State, known: Mapping[Path, Fingerprint], looked_at: list[Path]) -> Iterator[Fault]:
    """The files of outputs against the hashes in dvc.lock, file by file and row by row where DVC's cache has them.

    Args:
        state: what is verified.
        known: fingerprints of all files of `looked_at`.
        looked_at: the outputs to check.
    """
    for name, recorded in state.snapshot.outs.items():
        path = Path(name)
        if path not in looked_at or (found := dvc_hash(path, known)) == recorded:
            continue
        yield Fault(name, "DVC's hash", found, recorded, str(paths.LOCK))
        if were := changes.listing(recorded):
            yield from _files(path, listing(path, known), were)
        else:
            yield from changes.rows(path, recorded)


def seed_tables(state: State) -> Iterator[Fault]:
    """The tables of seeds by themselves, where DVC's cache has the listing of their folder."""
    were = changes.listing(state.snapshot.outs.get(str(paths.SEEDS), ""))
    by = f"the listing {paths.SEEDS} of {paths.LOCK}"
    for path in (paths.SEED_TABLE, paths.SEED_REQUESTS_TABLE):
        found = fingerprint(path).md5 if path.is_file() else None
        if (recorded := were.get(path.name)) and found != recorded:
            yield Fault(str(path), "md5", found, recorded, by)
            yield from changes.rows(path, recorded)


def _files(folder: Path, found: dict[str, str], recorded: dict[str, str]) -> Iterator[Fault]:
    for name in sorted(found.keys() | recorded.keys()):
        if found.get(name) != recorded.get(name):
            by = f"the listing {folder} of {paths.LOCK}"
            yield Fault(str(folder / name), "md5", found.get(name), recorded.get(name), by)
            if name in found and name in recorded:
                yield from changes.rows(folder / name, recorded[name])


def _there(there: bool) -> str:
    return "there" if there else "absent"


def _outs(stage: dict[str, Any]) -> list[str]:
    listed = [*stage.get("outs", []), *stage.get("metrics", [])]
    return [out if isinstance(out, str) else next(iter(out)) for out in listed]


def _names(name: str, stage: dict[str, Any], entry: dict[str, Any]) -> Iterator[Fault]:
    pairs = {
        "cmd": (entry.get("cmd"), stage.get("cmd")),
        "deps": ([dep["path"] for dep in entry.get("deps", [])], stage.get("deps", [])),
        "params": (entry.get("params", {}).get(paths.PARAMS.name, {}).keys(), stage.get("params", [])),
        "outs": ([out["path"] for out in entry.get("outs", [])], _outs(stage)),
    }
    for what, (found, expected) in pairs.items():
        if (found != expected) if what == "cmd" else (sorted(found) != sorted(expected)):
            yield Fault(f"{paths.LOCK} {name}", what, found, expected, str(paths.PIPELINE))


def _params(name: str, entry: dict[str, Any], params: dict[str, Any]) -> Iterator[Fault]:
    for key, recorded in entry.get("params", {}).get(paths.PARAMS.name, {}).items():
        now: Any = params
        for part in key.split("."):
            now = now.get(part) if isinstance(now, dict) else None
        if now != recorded:
            yield Fault(f"{paths.LOCK} {name}", key, recorded, now, str(paths.PARAMS))


def _dependencies(
    name: str, entry: dict[str, Any], made: Mapping[str, str], here: Mapping[str, str | None]
) -> Iterator[Fault]:
    """Dependencies against the outputs that dvc.lock records, and against the other files as they are here."""
    for dep in entry.get("deps", []):
        path = dep["path"]
        by = f"the output of its stage in {paths.LOCK}" if path in made else "the working tree"
        now = made[path] if path in made else here[path]
        if now != dep["md5"]:
            yield Fault(f"{paths.LOCK} {name}", f"the hash of its dependency {path}", dep["md5"], now, by)


def _hash_of(path: Path) -> str | None:
    return dvc_hash(path, {file: fingerprint(file) for file in files_below(path)})
