"""Data files that ship inside installed packages."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PackagedFile:
    """A data file that ships inside an installed package.

    Attributes:
        package: import name of the package (or subpackage) that holds the file.
        distribution: its name on the package index.
        name: the file's path inside `package`.
        licence: the terms the file may be used under, as its package states them.
        sha256: hex digest the file must have; None where any version of the file will do.
    """

    package: str
    distribution: str
    name: str
    licence: str
    sha256: str | None = None
