"""`banana100 release`: publish the data of a commit on S3, and prove that others can fetch it, before saying so.

Everything that can be wrong is looked at before the first byte is sent. .dvc/config is written last, when a clone has
fetched and verified everything; a run that fails or is killed leaves it as it was, and the next one sends the rest.
"""

from banana100 import snapshot
from banana100.files import write_atomically
from banana100.params import Params
from banana100.release import checks, proof, settings
from banana100.release.addresses import Addresses
from banana100.release.remote import Remote


def run(params: Params, addresses: Addresses) -> None:
    """Release the commit that is checked out.

    Args:
        params: the checked params.
        addresses: where to.

    Raises:
        UserError: the project is not fit to be released, or the remote does not do what it must.
    """
    commit = checks.committed()
    with proof.alone():
        before = checks.read_config()
        config = settings.released(before, addresses)
        there = Remote(addresses, settings.remote(config))
        checks.up_to_date(there.repo)
        objects = checks.cached(there.repo)
        size = checks.room(objects, proof.FOLDER)
        checks.proved(params)
        there.probe()
        if found := settings.replaced(before, config):
            _say(f"{settings.PATH}: {', '.join(found)} will be replaced")
        _say(f"push to {addresses}")
        sent = there.push()
        _say(f"{sent} of {len(objects)} objects sent; fetch and verify all of them in a clone")
        proof.prove(commit, config, addresses)
        write_atomically(settings.PATH, settings.released(checks.read_config(), addresses).encode())
    _say(
        f"released: commit {commit[:12]}, {len(objects)} objects, {size / 1e6:,.1f} MB, fetched and verified by a clone"
    )
    _say(_what_now(addresses, committed=config == before and not snapshot.of_workspace().modified))


def _what_now(addresses: Addresses, *, committed: bool) -> str:
    publish = "  git push" if committed else f"  git add {settings.PATH}\n  git commit -m 'Release'\n  git push"
    need = "" if addresses.public else " (with credentials for the remote in their environment)"
    return f"""
To publish it:
{publish}

What others type then{need}:
  git clone <this repository> && cd <its folder>
  make env && source .venv/bin/activate
  dvc pull
  banana100 verify

Tables, scores and verdicts alone, no image:
  dvc pull data/lineage score rank"""


def _say(what: str) -> None:
    print(what, flush=True)
