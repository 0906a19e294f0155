"""Texts of others in what we record and tell: never longer than there is room for.

Back ends, upgraders and people say how an upgrade goes; what they say may be as long as they like. A status with it
would not fit into an object any more, and the run would stand still.

Source: upgrade-runs.md 3.4.
"""

from typing import Final

from scorer.api.quoting import printable

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
