"""Messages: limits on their length, and lists and counts in words.

Back ends, upgraders and people say how an upgrade goes; what they say may be as long as they like. A status with it
would not fit into an object any more, and the run would stand still.

Source: upgrade-runs.md 3.4.
"""

from typing import Final

from scorer.api.values.quoting import printable

MOST_NAMED: Final = 20
"""How many members a message names."""

LONGEST_MESSAGE: Final = 240
"""Characters of a member's message, so that the status of a run with 1,000 members fits into one object."""
LONGEST_FAILURE: Final = 112
"""Of reason and message of a member that has failed together: both stand there twice, beside more times."""
LONGEST_REASON: Final = 40
"""Of a word for programs, such as the code of a failure."""
LONGEST_TOLD: Final = 1000
"""Of what is told of a run as a whole: an Event takes about this much."""


def shortened(text: str, longest: int) -> str:
    """Return a text with at most that many characters, and none that control a terminal."""
    return printable(text if len(text) <= longest else f"{text[: longest - 1]}…")


def format_count(count: int, what: str) -> str:
    """Return how many of something there are, such as ``1 member`` and ``2 members``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def format_names(names: list[str]) -> str:
    """Return a list of names for people, of which at most 20 are written."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
