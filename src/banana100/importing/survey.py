"""What an archive holds: images with their places in chains, gaps, and files that are neither."""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from banana100 import images
from banana100.errors import UserError
from banana100.files import sha256_of
from banana100.importing.guards import MAX_BYTES, Archive, Entry, shown
from banana100.importing.mapping import Mapper, Position, Unusable
from banana100.workers import progress, worker_count


class Group(NamedTuple):
    """What becomes one campaign: all chains of one model in one setting."""

    model: str
    setting: str


class Row(NamedTuple):
    """An image: its file in the archive, and the sha256 of that."""

    member: str
    image_id: str


@dataclass
class Survey:
    """What was found.

    Attributes:
        rows: images by place.
        unmatched: files that are not meant.
        unusable: why a file that is meant is not taken, by its name.
    """

    rows: dict[Position, Row] = field(default_factory=dict)
    unmatched: list[str] = field(default_factory=list)
    unusable: dict[str, str] = field(default_factory=dict)

    def groups(self) -> dict[Group, dict[tuple[str, int], list[int]]]:
        """The steps (from 1, sorted) of every chain, by seed and repeat, of every group."""
        found: dict[Group, dict[tuple[str, int], list[int]]] = defaultdict(lambda: defaultdict(list))
        for place in sorted(self.rows):
            if place.step:
                found[Group(place.model, place.setting)][place.seed, place.repeat].append(place.step)
        return found

    def seeds(self) -> list[str]:
        """The seeds that chains start from, sorted."""
        return sorted({place.seed for place in self.rows if place.step})

    def check(self) -> None:
        """Refuse what no campaign can be made of.

        Raises:
            UserError: no image was matched, or a chain has no seed.
        """
        _check(self.rows)


def survey(
    archive: Archive, entries: Mapping[str, Entry], mapper: Mapper, keep: Callable[[str, bytes], None]
) -> Survey:
    """Find every image's place, and look at every image that has one.

    Args:
        archive: what is read.
        entries: its files.
        mapper: gives places.
        keep: called with sha256 and content of every image that is taken.

    Raises:
        UserError: the archive is damaged, or two images claim one place.
    """
    found = Survey()
    places = _places(entries, mapper, found)
    _check(places.values())
    for name, data, fault in _decoded(_content(archive, entries, places)):
        if fault:
            found.unusable[name] = fault
            continue
        image_id, place = sha256_of(data), places[name]
        first = found.rows.setdefault(place, Row(name, image_id))
        if first.image_id != image_id:
            raise UserError(f"{shown(first.member)} and {shown(name)} are both the seed {place.seed}, and differ.")
        keep(image_id, data)
        # the same on every file system, whatever order it lists files in
        found.rows[place] = min(first, Row(name, image_id))
    return found


def _check(places: Collection[Position]) -> None:
    started = {place.seed for place in places if place.step}
    if not started:
        raise UserError("no file is a step of a chain; allowed: a --pattern or a --mapping that fits some.")
    by_case: dict[str, str] = {}
    for seed in sorted(started):
        if (other := by_case.setdefault(seed.casefold(), seed)) != seed:
            raise UserError(f"the seeds {other} and {seed} differ by case alone; allowed: names that differ by more.")
    if missing := sorted(started - {place.seed for place in places if place.step == 0}):
        raise UserError(
            f"no image is the seed of the chains of {', '.join(missing[:8])}; allowed: chains with the image "
            "that they start from, as step 0 (see --seed-step) or by a --pattern without a step."
        )


def _places(entries: Mapping[str, Entry], mapper: Mapper, found: Survey) -> dict[str, Position]:
    places: dict[str, Position] = {}
    taken: dict[Position, str] = {}
    for name in entries:
        try:
            place = mapper(name)
        except Unusable as error:
            found.unusable[name] = str(error)
            continue
        if place is None:
            found.unmatched.append(name)
            continue
        if entries[name].bytes > MAX_BYTES:
            found.unusable[name] = f"has {entries[name].bytes:,} bytes; allowed: at most {MAX_BYTES:,}"
            continue
        if place.step and place in taken:
            raise UserError(
                f"{shown(taken[place])} and {shown(name)} are both step {place.step} of {_chain(place)}; "
                "allowed: one image a step."
            )
        taken[place] = name
        places[name] = place
    return places


def _content(
    archive: Archive, entries: Mapping[str, Entry], places: Mapping[str, Position]
) -> Iterator[tuple[str, bytes]]:
    total = sum(entries[name].bytes for name in places) // 1_000_000
    read = archive.read(places.keys())
    return progress(read, total=total, what="read images", unit="MB", size=lambda item: len(item[1]) / 1_000_000)


def _decoded(content: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes, str | None]]:
    """Name, content, and why it is no image that can be decoded; all cores look at a few at a time."""
    waiting: deque[tuple[str, bytes, Future[str | None]]] = deque()
    with ThreadPoolExecutor(worker_count()) as pool:
        for name, data in content:
            waiting.append((name, data, pool.submit(_fault, data)))
            if len(waiting) > worker_count():
                yield _result(*waiting.popleft())
        yield from (_result(*item) for item in waiting)


def _result(name: str, data: bytes, fault: "Future[str | None]") -> tuple[str, bytes, str | None]:
    return name, data, fault.result()


def _fault(data: bytes) -> str | None:
    try:
        images.decode(data)
    except images.ImageError as error:
        return str(error)
    return None


def _chain(place: Position) -> str:
    return " ".join(filter(None, [place.model, place.setting, place.seed, f"r{place.repeat}"]))


def unpacked_digest(rows: Iterable[Row]) -> list[list[str]]:
    """What a folder is known by: the names and digests of its images."""
    return sorted([row.member, row.image_id] for row in rows)


def gaps(group: Group, chains: Mapping[tuple[str, int], list[int]]) -> Iterator[str]:
    """A line for every chain that is shorter than the longest of its group, or lacks steps."""
    longest, repeats = max(steps[-1] for steps in chains.values()), max(repeat for _, repeat in chains)
    for seed in sorted({seed for seed, _ in chains}):
        for repeat in range(1, repeats + 1):
            steps = chains.get((seed, repeat), [])
            last = unbroken(steps)
            if last < longest:
                lost = len(steps) - last
                more = f", and the {lost} after it are left out" if lost else ""
                yield f"{' '.join(filter(None, [*group, seed]))} r{repeat}: no step {last + 1} of {longest}{more}"


def unbroken(steps: Sequence[int]) -> int:
    """How many of a chain's steps, sorted, there are before the first that is missing."""
    return sum(step == place for place, step in enumerate(steps, start=1))


def archive_name(path: Path) -> str:
    """What a path is called where only its name matters."""
    return path.resolve().name
