"""Messages: truncation, and lists and counts in words.

Back ends, upgraders and users write messages of any length. Without truncation, a status with all of them could exceed
the maximum object size, and every write of the run would fail.

Source: docs/specifications/upgrade-runs.md 3.4.
"""

from typing import Final

from scorer.api.values.quoting import printable

MOST_NAMED: Final = 20
"""Maximum number of members that a message names."""

LONGEST_MESSAGE: Final = 240
"""Maximum length of a message of a member, in characters. The status of a run with 1,000 members must fit into one
object."""
LONGEST_FAILURE: Final = 112
"""Longest reason and message of a failed member together. Its entry has both twice, and more timestamps than others."""
LONGEST_REASON: Final = 40
"""Longest machine-readable word, such as an error code."""
LONGEST_TOLD: Final = 1000
"""Longest message about the run as a whole. Events allow about 1,024 characters."""


def shortened(text: str, longest: int) -> str:
    """Return a text truncated to *longest* characters, without control characters."""
    return printable(text if len(text) <= longest else f"{text[: longest - 1]}…")


def format_names(names: list[str]) -> str:
    """Return a comma-separated list of the first 20 names, with the number of the others."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
