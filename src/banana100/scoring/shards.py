"""Shards: one run split over the tasks of a batch scheduler."""

import re
from collections.abc import Sequence
from typing import TypeVar

from banana100.errors import UserError

Item = TypeVar("Item")


def parse(text: str) -> tuple[int, int]:
    """Read "i/n", i from 1 to n.

    Raises:
        UserError: it is not that.
    """
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"--shard is {text!r}; allowed: i/n with i from 1 to n, as in 3/16.")
    return int(match[1]), int(match[2])


def part(items: Sequence[Item], shard: tuple[int, int]) -> list[Item]:
    """The items of a shard: every n-th, so that the parts are alike whatever the order means."""
    index, count = shard
    return list(items[index - 1 :: count])
