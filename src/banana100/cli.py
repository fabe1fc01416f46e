"""The command line: one thin command a stage, and what a user asks of a finished run."""

import argparse
import errno
import importlib
import sys
from collections.abc import Sequence

from banana100 import params
from banana100.errors import UserError

STAGES = {
    "select_seeds": ("banana100.seeds.stage", "choose seed images that differ as much as possible"),
    "replicate": ("banana100.replication.stage", "replicate each seed step by step, from the store where it can"),
    "score": ("banana100.scoring.stage", "score every image with every NR-IQA metric"),
    "rank": ("banana100.ranking.stage", "judge the metrics: does each score degraded images below clean ones?"),
    "report": ("banana100.report.stage", "write the page that shows the rot and the verdicts"),
}

# Not our bug and not worth a traceback: a full disk, a used-up quota, a place that cannot be read or written.
_MACHINE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EISDIR, errno.ENOTDIR}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, or 2 for a user's mistake, told in one sentence on stderr."""
    command = _parser().parse_args(arguments).command
    try:
        # Params first, whatever the command: a mistake must not cost an output.
        checked = params.load()
        module = STAGES[command][0] if command in STAGES else "banana100.report.summary"
        importlib.import_module(module).run(checked)
    except UserError as error:
        print(f"banana100 {command}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.errno not in _MACHINE_ERRORS:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(
            f"banana100 {command}: {where}{error.strerror}; what was finished is kept, run it again.", file=sys.stderr
        )
        return 2
    except KeyboardInterrupt:
        print(f"banana100 {command}: stopped; what was finished is kept, run it again to go on.", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="banana100",
        description="Banana100: images rot under repeated AI replication, and no-reference metrics do not notice.",
        epilog="`dvc repro` runs the stages in order; call one by hand only to look closer.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, help_text) in STAGES.items():
        commands.add_parser(name, help=f"stage: {help_text}")
    commands.add_parser("summary", help="print the verdict table of the last run and where its report lies")
    return parser
