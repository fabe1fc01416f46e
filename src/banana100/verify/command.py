"""Command verify: does everything here belong together?"""

import json
from collections.abc import Iterator

from banana100 import paths, snapshot
from banana100.errors import UserError
from banana100.params import Params
from banana100.verify import chains, files, pipeline, ranking, samples, scores, seeds
from banana100.verify.faults import Fault, State
from banana100.verify.fingerprints import Fingerprints

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
        print(f"{len(faults) or 'no'} faults; checked {looked_at}{skipped}")
    return int(bool(faults))


def _faults(state: State, quick: bool, rescore: int) -> Iterator[Fault]:
    looked_at = list(_TABLES) if quick else pipeline.output_paths(state)
    hashing = Fingerprints(looked_at)
    try:
        for check in (pipeline.check, seeds.check, chains.check, scores.check, files.of_tables, ranking.check):
            yield from _told(check(state))
        if not quick:
            yield from _told(seeds.again(state))
        known = hashing.wait()
        if not quick:
            yield from _told(files.images(state, known))
        yield from _told(pipeline.outputs(state, known, looked_at))
        if rescore:
            yield from _told(samples.rescored(state, rescore))
    finally:
        hashing.stop()


def _told(faults: Iterator[Fault]) -> Iterator[Fault]:
    """What a check cannot even read is a fault too; the others go on."""
    try:
        yield from faults
    except UserError as error:
        where, _, why = str(error).partition(": ")
        yield Fault(where, "the check", why.rstrip("."), "possible", "verify")
