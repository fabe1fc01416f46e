"""Command trace: where does this image, score or verdict come from?"""

import json

from banana100 import snapshot
from banana100.params import Params
from banana100.trace import show
from banana100.trace.subjects import ways_of


def run(params: Params, what: str, revision: str | None = None, form: str = "text") -> None:
    """Print the whole way back.

    Args:
        params: the checked params.
        what: see trace/subjects.py.
        revision: a commit or experiment to ask instead of the working tree.
        form: text, json or dot.

    Raises:
        UserError: `what` names nothing or several things, or a table is missing or damaged.
    """
    state = snapshot.of_workspace() if revision is None else snapshot.of_revision(revision)
    ways = ways_of(state, what)
    if form == "json":
        git = {"revision": state.revision, "modified": state.modified}
        print(json.dumps({"what": what, "git": git, "ways": ways}, ensure_ascii=False, indent=2))
    elif form == "dot":
        print(show.dot(ways))
    else:
        print(f"{what}\ngit {state.revision or 'none'}{', modified since' if state.modified else ''}")
        for way in ways:
            print(f"\n{show.text(way)}")
