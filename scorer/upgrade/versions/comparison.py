"""Comparison of versions of Kubernetes and of node images.

Source: upgrade-runs.md 3.2 and 3.6.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

_VERSION: Final = re.compile(
    r"v?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9})(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.+-]+))?)?", re.ASCII
)

LONGEST_VERSION: Final = 64
"""Characters of a Kubernetes version; something longer is none."""

Pieces: TypeAlias = tuple[tuple[int, int, str], ...]
"""The parts of a text in an order: numbers as numbers and before other parts, which are in the order of letters."""


class Version(NamedTuple):
    """A Kubernetes version, in the order of releases.

    Attributes:
        major: The first number.
        minor: The second.
        patch: The third; 0 where it is not given.
        released: False for what comes before a release, such as ``-rc.1``; it is lower than the release.
        before: What comes before the release, in order.
        build: What a distribution adds after ``+``, in order; a version without it is lower.
    """

    major: int
    minor: int
    patch: int = 0
    released: bool = True
    before: Pieces = ()
    build: Pieces = ()

    @property
    def line(self) -> tuple[int, int]:
        """Return major and minor: releases of one line differ in their patch alone."""
        return self.major, self.minor


@lru_cache(maxsize=4096)
def parse_version(text: str) -> Version:
    """Read a Kubernetes version such as ``1.31.2``, ``v1.31.2+k3s1`` or ``1.31``.

    Raises:
        ValueError: It is none.
    """
    match = _VERSION.fullmatch(text) if len(text) <= LONGEST_VERSION else None
    if match is None:
        raise ValueError(f"{text[:64]!r} is not a Kubernetes version such as 1.31.2")
    major, minor, patch, before, build = match.groups()
    return Version(int(major), int(minor), int(patch or 0), before is None, _pieces(before), _pieces(build))


def is_version(text: str) -> bool:
    """Say whether *text* is a Kubernetes version."""
    try:
        parse_version(text)
    except ValueError:
        return False
    return True


def is_alias(text: str) -> bool:
    """Say whether *text* names a minor version alone, such as ``1.31``: the newest patch of it is meant."""
    return text.count(".") == 1


@lru_cache(maxsize=8192)
def image_order(version: str) -> Pieces:
    """Return the key by which versions of node images compare, part by part."""
    return _pieces(version)


def _pieces(text: str | None) -> Pieces:
    return tuple(map(_piece, text.replace("-", ".").replace("+", ".").split("."))) if text else ()


def _piece(part: str) -> tuple[int, int, str]:
    return (0, int(part), "") if part.isascii() and part.isdigit() and len(part) < 20 else (1, 0, part)
