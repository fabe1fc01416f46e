"""The command line: one thin command a stage, and what a user asks beside the stages."""

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from banana100 import params
from banana100.errors import UserError
from banana100.params import Params

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
    """Run one command.

    Returns:
        The exit code: 0; 1 if `verify` finds a fault or not all could be done; 2 for a user's mistake, told in one
        sentence on stderr; 3 where a budget does not allow it.
    """
    asked = _parser().parse_args(arguments)
    command = asked.command
    try:
        # Params first, whatever the command: a mistake must not cost an output.
        code = asked.run(params.load(), asked) or 0
        sys.stdout.flush()
    except UserError as error:
        print(f"banana100 {command}: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # as in `banana100 metrics | head`: the reader has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
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
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="banana100",
        description="Banana100: images rot under repeated AI replication, and no-reference metrics do not notice.",
        epilog="`dvc repro` runs the stages in order; call one by hand only to look closer.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(
        name: str, help_text: str, run: Callable[[Params, argparse.Namespace], int | None]
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=help_text, description=help_text)
        command.set_defaults(run=run)
        return command

    for name, (module, help_text) in STAGES.items():
        stage = add(name, f"stage: {help_text}", _stage(module))
        if name == "score":
            part = stage.add_mutually_exclusive_group()
            part.add_argument("--shard", metavar="I/N", help="score part I of N only, for a batch scheduler's arrays")
            part.add_argument("--merge", action="store_true", help="write the tables from what all shards scored")
    add(
        "summary",
        "print the verdict table of the last run and where its report lies",
        _stage("banana100.report.summary"),
    )
    planned = add("plan", "list campaigns: what is missing, what it will cost and take", _run_plan)
    planned.add_argument("names", nargs="*", metavar="CAMPAIGN", help="campaigns or sets; the active ones by default")
    dry = add("dry-run", "run a miniature of the paper's campaigns against a server on this machine", _run_dry)
    dry.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="where to; a temporary folder by default")
    subsets = add("subsets", "search all subsets of the ranked metrics for those that see the rot best", _run_subsets)
    subsets.add_argument("--size", type=int, default=2, metavar="K", help="metrics in a subset; 2 by default")
    subsets.add_argument("--top", type=int, default=10, metavar="N", help="how many to show; 10 by default")
    traced = add("trace", "print the whole way back from an image, a score or a verdict to its params", _run_trace)
    traced.add_argument(
        "what",
        metavar="WHAT",
        help="a path, the first digits of a sha256, METRIC:PATH, or a cell as in ranking:niqe.failures",
    )
    traced.add_argument("--revision", metavar="REV", help="ask a commit or experiment instead of the working tree")
    form = traced.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_const", dest="form", const="json", default="text", help="print JSON")
    form.add_argument("--dot", action="store_const", dest="form", const="dot", help="print a graph for Graphviz")
    proof = add("verify", "prove that files, tables, params, dvc.lock and ranking belong together", _run_verify)
    proof.add_argument("--quick", action="store_true", help="tables only; open no image file")
    proof.add_argument(
        "--rescore", type=_count, default=0, metavar="N", help="also compute N scores, drawn at random, again"
    )
    proof.add_argument("--json", action="store_true", help="print JSON")
    _describe_import(add("import", "take in images that were made elsewhere, as campaigns of their own", _run_import))
    exported = add("export", "describe the outputs in another tool's format", _run_export)
    exported.add_argument("form", choices=("croissant", "prov", "datapackage", "ro-crate", "hf"))
    exported.add_argument("folder", type=Path, metavar="DIR", help="where to; absent or empty")
    exported.add_argument("--images", action="store_true", help="copy seeds and replicas too; hf has them inside")
    _release_options(add("release", "publish a commit's data on S3, proved by a clone that fetches it", _run_release))
    add("metrics", "list every metric: direction, kind, what it needs", lambda _, __: _weights().list_metrics())
    wanted = add("weights", "fetch, list or check the trained weights of metrics", _run_weights)
    wanted.add_argument("action", choices=("fetch", "status", "verify"))
    wanted.add_argument("names", nargs="*", metavar="METRIC", help="metrics or sets; those of params.yaml by default")
    check = add("selfcheck", "compare this machine's scores with the published ones", _run_selfcheck)
    check.add_argument("names", nargs="*", metavar="METRIC", help="metrics or sets; all by default")
    return parser


def _describe_import(taken: argparse.ArgumentParser) -> None:
    taken.add_argument("name", metavar="NAME", help="what the archive is to be called here")
    taken.add_argument("path", type=Path, metavar="ARCHIVE", help="a folder, a zip, a tar or a Parquet file")
    rule = taken.add_mutually_exclusive_group(required=True)
    rule.add_argument(
        "--pattern",
        action="append",
        default=[],
        metavar="REGEX",
        help="fits a whole path in it; groups seed, repeat, step, model, setting; a seed without step; may be repeated",
    )
    rule.add_argument("--mapping", type=Path, metavar="CSV", help="columns path, seed, repeat, step, model, setting")
    taken.add_argument("--licence", required=True, help="the terms that the images may be used under")
    taken.add_argument("--origin", default="", help="where it is from, as an address; its file's name by default")
    taken.add_argument("--model", default="", help="who made the images, where no group or column says so")
    taken.add_argument("--prompt", action="append", help="what the steps were asked with, in turns; may be repeated")
    taken.add_argument("--seed-step", type=_count, default=0, metavar="N", help="the number of the seeds; 0 by default")
    taken.add_argument("--first-repeat", type=_count, default=1, metavar="N", help="of each seed; 1 by default")
    taken.add_argument("--dry-run", action="store_true", help="only tell what is matched, what is not, and gaps")


def _stage(module: str) -> Callable[[Params, argparse.Namespace], None]:
    def run(checked: Params, asked: argparse.Namespace) -> None:
        options = {name: value for name in ("shard", "merge") if (value := getattr(asked, name, None)) is not None}
        importlib.import_module(module).run(checked, **options)

    return run


def _weights() -> ModuleType:
    return importlib.import_module("banana100.scoring.weights_command")


def _run_plan(checked: Params, asked: argparse.Namespace) -> None:
    importlib.import_module("banana100.replication.plan_command").run(checked, asked.names)


def _run_dry(checked: Params, asked: argparse.Namespace) -> int:
    return importlib.import_module("banana100.dry_run.command").run(checked, asked.folder)


def _run_trace(checked: Params, asked: argparse.Namespace) -> None:
    importlib.import_module("banana100.trace.command").run(checked, asked.what, asked.revision, asked.form)


def _run_verify(checked: Params, asked: argparse.Namespace) -> int:
    return importlib.import_module("banana100.verify.command").run(checked, asked.quick, asked.rescore, asked.json)


def _run_import(_: Params, asked: argparse.Namespace) -> None:
    command, mapping = (importlib.import_module(f"banana100.importing.{name}") for name in ("command", "mapping"))
    described = command.Asked(
        name=asked.name,
        path=asked.path,
        patterns=asked.pattern,
        mapping=asked.mapping,
        model=asked.model,
        prompts=asked.prompt or ["not known"],
        origin=asked.origin,
        licence=asked.licence,
        numbering=mapping.Numbering(asked.seed_step, asked.first_repeat),
    )
    command.run(described, asked.dry_run)


def _run_export(checked: Params, asked: argparse.Namespace) -> None:
    importlib.import_module("banana100.export.command").run(checked, asked.form, asked.folder, asked.images)


def _release_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("remote", metavar="REMOTE", help="where to: s3://bucket/prefix")
    command.add_argument("--endpoint", metavar="URL", help="the S3 server; Amazon's by default")
    command.add_argument("--public-url", metavar="URL", help="where anybody can read what lies at REMOTE")


def _run_release(checked: Params, asked: argparse.Namespace) -> None:
    given = importlib.import_module("banana100.release.addresses")  # soon imported, so a mistake is told at once
    addresses = given.checked(asked.remote, asked.endpoint, asked.public_url)
    importlib.import_module("banana100.release.command").run(checked, addresses)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a whole number of at least 0")
    return int(text)


def _run_weights(checked: Params, asked: argparse.Namespace) -> None:
    _weights().run(checked, asked.action, asked.names)


def _run_subsets(checked: Params, asked: argparse.Namespace) -> None:
    importlib.import_module("banana100.ranking.subsets_command").run(checked, asked.size, asked.top)


def _run_selfcheck(checked: Params, asked: argparse.Namespace) -> None:
    importlib.import_module("banana100.scoring.selfcheck").run(checked, asked.names)
