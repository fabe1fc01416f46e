"""Command verify: does everything here belong together?"""

import json
from collections.abc import Generator, Iterator
from pathlib import Path

from banana100 import paths, snapshot
from banana100.errors import UserError
from banana100.params import Params
from banana100.verify import archives, cells, chains, files, pipeline, ranking, samples, scores, seeds
from banana100.verify.faults import Fault, State
from banana100.verify.fingerprints import Fingerprints

_IMAGES = (paths.SEEDS, paths.REPLICAS, paths.PREVIEWS, paths.REPORT)
_TABLES = (paths.LINEAGE, paths.SCORES, paths.CURVES, paths.RANKING_TABLES, paths.RANKING)


def run(params: Params, quick: bool = False, rescore: int = 0, as_json: bool = False) -> int:
    """Check everything, print one line a fault and what was looked at.

    Args:
        params: the checked params.
        quick: tables only; no image file is opened.
        rescore: how many scores, drawn at random, to compute again from their images.
        as_json: print one JSON document instead.

    Returns:
        0, or 1 if there is a fault.
    """
    state = State(snapshot.of_workspace(), params)
    faults = []
    for fault in _faults(state, quick, rescore):
        faults.append(fault)
        if not as_json:
            print(fault.sentence())
    if as_json:
        told = [fault.as_json() for fault in faults]
        git = {"revision": state.snapshot.revision, "modified": state.snapshot.modified}
        print(json.dumps({"ok": not faults, "git": git, "checked": state.counted, "faults": told}, indent=2))
    else:
        looked_at = ", ".join(f"{number} {what}" for what, number in state.counted.items())
        skipped = " (tables only: no image file was opened)" if quick else ""
        print(f"{len(faults) or 'no'} fault{'s' * (len(faults) != 1)}; checked {looked_at}{skipped}")
    return int(bool(faults))


def _faults(state: State, quick: bool, rescore: int) -> Iterator[Fault]:
    looked_at = [*_TABLES, *(() if quick else _IMAGES)]
    hashing = Fingerprints(looked_at)
    try:
        yield from _all(state, quick, rescore, looked_at, hashing)
    finally:
        hashing.stop()


def _all(state: State, quick: bool, rescore: int, looked_at: list[Path], hashing: Fingerprints) -> Iterator[Fault]:
    faulty = yield from _told(cells.check(state), False)
    for check in (
        pipeline.check,
        seeds.check,
        chains.check,
        archives.check,
        scores.check,
        files.of_tables,
        ranking.check,
    ):
        faulty |= yield from _told(check(state), faulty)
    if not quick:
        faulty |= yield from _told(seeds.again(state), faulty)
    known = hashing.wait()
    for path, why in hashing.unreadable.items():
        faulty = True
        yield Fault(str(path), "the file", f"cannot be read ({why})", None, "")
    if quick:
        faulty |= yield from _told(pipeline.seed_tables(state), faulty)
    else:
        faulty |= yield from _told(files.images(state, known), faulty)
    faulty |= yield from _told(pipeline.outputs(state, known, looked_at), faulty)
    if rescore:
        yield from _told(samples.rescored(state, rescore), faulty)


def _told(faults: Iterator[Fault], faulty: bool) -> Generator[Fault, None, bool]:
    """Pass on what a check finds; that it cannot be made is a fault too, and the others go on.

    Args:
        faults: what the check finds.
        faulty: whether earlier checks found faults: then a check that stumbles does so over what they named.

    Returns:
        Whether there was a fault.
    """
    found = False
    try:
        for fault in faults:
            found = True
            yield fault
    except UserError as error:
        where, _, why = str(error).partition(": ")
        yield Fault(where, "the check", why, None, "")
        return True
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if not (faulty or found):
            raise
        why = f"a check ended early over the faults above ({type(error).__name__}: {str(error).splitlines()[0]})"
        yield Fault("verify", "the check", why, None, "")
        return True
    return found
