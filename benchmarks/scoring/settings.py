"""What the engine's settings are worth: the same command with one of them changed."""

import shutil
import sys
from statistics import median

from banana100 import paths
from benchmarks.measure import environment, ratio, table, take_turns, timed
from benchmarks.scoring.command import Contest, contest
from benchmarks.scoring.options import LIGHT, Case, Options

_SHIPPED = "from banana100.cli import main; raise SystemExit(main(['score']))"
_HANDED_BACK = (
    "from banana100 import workers; "
    "[workers.ENVIRONMENT.pop(name) for name in list(workers.ENVIRONMENT) if name.startswith('MALLOC')]; "
)
_BY_PROCESSOR = "from banana100.scoring import scorers; scorers.KERNELS.clear(); "

# what is put before the command, and variables
SETTINGS: dict[str, tuple[str, dict[str, str]]] = {
    "as shipped": ("", {}),
    "one worker": ("", {"BANANA100_WORKERS": "1"}),
    "freed memory handed back": (_HANDED_BACK, {}),
    "kernels by processor": (_BY_PROCESSOR, {}),
}


def run(options: Options) -> None:
    """Print images a second under each setting, start-up included."""
    case = contest(options, "settings", Case("light", LIGHT, 512, options.images))
    contenders = {name: lambda name=name: _seconds(case, *SETTINGS[name]) for name in SETTINGS}
    seconds = take_turns("settings", contenders, options.runs)
    first = seconds["as shipped"]
    rows = [[name, options.images / median(of), ratio(first, of)] for name, of in seconds.items()]
    title = f"settings: {options.images} images of 512x512, {', '.join(LIGHT)}, with start-up"
    table(title, ["setting", "images/s", "times as fast"], rows)


def _seconds(case: Contest, before: str, variables: dict[str, str]) -> float:
    store, project = case.folder / "store", case.folder / "project"
    shutil.rmtree(store, ignore_errors=True)
    shutil.rmtree(project / paths.SCORES, ignore_errors=True)
    chosen = environment(BANANA100_STORE=store, BANANA100_WEIGHTS=case.weights, **variables)
    return timed([sys.executable, "-c", before + _SHIPPED], project, chosen)[0]
