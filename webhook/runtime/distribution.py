"""The installed distribution: its name and its version."""

from typing import Final

DISTRIBUTION: Final = "harbormaster-fleet"
"""Name of the distribution. On the Python package index, ``harbormaster`` belongs to an unrelated project."""


def installed_version() -> str:
    """Return the version that is running."""
    from importlib.metadata import version  # only now: the import takes a part of the start of every command

    return version(DISTRIBUTION)
