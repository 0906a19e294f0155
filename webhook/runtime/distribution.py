"""The installed distribution: its name and its version."""

from typing import Final

DISTRIBUTION: Final = "harbormaster-fleet"
"""Name of the distribution. On the Python package index, ``harbormaster`` belongs to an unrelated project."""

HOMEPAGE: Final = "https://harbormaster.dev"
"""The site of the documents: paths are those of the repository, with ``.html`` in place of ``.md``."""


def installed_version() -> str:
    """Return the version of the running installation."""
    from importlib.metadata import version  # imported lazily: the import would slow down the start of every command

    return version(DISTRIBUTION)
