"""Comparison of versions of Kubernetes and of node images.

Source: docs/specifications/upgrade-runs.md 3.2 and 3.6.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

_VERSION: Final = re.compile(
    r"v?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9})(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.+-]+))?)?", re.ASCII
)

LONGEST_VERSION: Final = 64
"""Maximum length of a Kubernetes version, in characters. A longer text is not a version."""

Pieces: TypeAlias = tuple[tuple[int, int, str], ...]
"""Sort key of a text: its parts, with numbers compared as numbers and before words, which compare alphabetically."""


class Version(NamedTuple):
    """A Kubernetes version, sorted by precedence.

    Attributes:
        major: First number.
        minor: Second number.
        patch: Third number, 0 if missing.
        released: False for a prerelease such as ``-rc.1``, which sorts before the release.
        before: Sort key of the prerelease.
        build: Sort key of the build metadata after ``+``, which some distributions add. A version without it sorts
            first.
    """

    major: int
    minor: int
    patch: int = 0
    released: bool = True
    before: Pieces = ()
    build: Pieces = ()

    @property
    def line(self) -> tuple[int, int]:
        """The major and minor version. Releases of one line differ only in their patch."""
        return self.major, self.minor


@lru_cache(maxsize=4096)
def parse_version(text: str) -> Version:
    """Parse a Kubernetes version such as ``1.31.2``, ``v1.31.2+k3s1`` or ``1.31``.

    Raises:
        ValueError: *text* is not a version.
    """
    match = _VERSION.fullmatch(text) if len(text) <= LONGEST_VERSION else None
    if match is None:
        raise ValueError(f"{text[:64]!r} is not a Kubernetes version such as 1.31.2")
    major, minor, patch, prerelease, build = match.groups()
    return Version(int(major), int(minor), int(patch or 0), prerelease is None, _pieces(prerelease), _pieces(build))


def is_version(text: str) -> bool:
    """Return whether *text* is a Kubernetes version."""
    try:
        parse_version(text)
    except ValueError:
        return False
    return True


def is_alias(text: str) -> bool:
    """Return whether *text* is an alias for the newest patch of a minor version, such as ``1.31``."""
    return text.count(".") == 1


@lru_cache(maxsize=8192)
def image_order(version: str) -> Pieces:
    """Return the sort key of a node image version."""
    return _pieces(version)


def _pieces(text: str | None) -> Pieces:
    return tuple(map(_piece, text.replace("-", ".").replace("+", ".").split("."))) if text else ()


def _piece(part: str) -> tuple[int, int, str]:
    return (0, int(part), "") if part.isascii() and part.isdigit() and len(part) < 20 else (1, 0, part)
