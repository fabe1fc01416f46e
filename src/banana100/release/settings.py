"""What a release writes into .dvc/config: two remotes and the default, and nothing else; never credentials."""

from pathlib import Path
from typing import Any

from configobj import ConfigObj, ConfigObjError

from banana100.errors import UserError
from banana100.release.addresses import Addresses

PATH = Path(".dvc/config")
RELEASE, PUBLIC = "release", "public"
# Whatever else is in these sections, and in all others, is the user's.
_OURS = {'remote "release"': ("url", "endpointurl"), 'remote "public"': ("url",), "core": ("remote",)}
# What a published file must not hold; the last would lock out who has credentials.
_NEVER = {"access_key_id", "secret_access_key", "session_token", "password", "allow_anonymous_login"}


def released(text: str, addresses: Addresses) -> str:
    """The content of .dvc/config after a release.

    Args:
        text: its content before; comments and other entries are kept.
        addresses: where the release lies.

    Raises:
        UserError: it is damaged, or one of the two remotes holds what must not be published.
    """
    config = _parsed(text)
    for section in _OURS:
        if found := sorted(_NEVER.intersection(config.get(section, {}))):
            raise UserError(f"{PATH}: [{section}] has {found[0]}, which must not be published; remove it.")
    default = PUBLIC if addresses.public else RELEASE
    values = ((addresses.remote, addresses.endpoint), (addresses.public,), (default,))
    for (section, keys), of_keys in zip(_OURS.items(), values, strict=True):
        for key, value in zip(keys, of_keys, strict=True):
            if value:
                config.setdefault(section, {})[key] = value
            else:
                _forget(config, section, key)
    return "".join(f"{line}\n" for line in config.write())


def remote(text: str) -> dict[str, Any]:
    """The options of the remote `release` in the content of a .dvc/config."""
    return _parsed(text)['remote "release"'].dict()


def replaced(before: str, after: str) -> list[str]:
    """The entries that a release gives another value or removes, as `[core] remote`; values may hold secrets."""
    old, new = _parsed(before), _parsed(after)
    return [
        f"[{section}] {key}"
        for section, keys in _OURS.items()
        for key in keys
        if (value := old.get(section, {}).get(key)) and value != new.get(section, {}).get(key)
    ]


def differ(before: str, after: str) -> bool:
    """Whether two contents of .dvc/config differ by more than a release writes."""
    parsed = [_parsed(before), _parsed(after)]
    for config in parsed:
        for section, keys in _OURS.items():
            for key in keys:
                _forget(config, section, key)
    return parsed[0].dict() != parsed[1].dict()


def _forget(config: ConfigObj, section: str, key: str) -> None:
    if section in config:
        config[section].pop(key, None)
        if not config[section]:
            del config[section]


def _parsed(text: str) -> ConfigObj:
    try:
        return ConfigObj(text.splitlines(), interpolation=False)
    except ConfigObjError as error:
        raise UserError(f"{PATH}: damaged ({error}); restore it with `git checkout {PATH}`.") from None
