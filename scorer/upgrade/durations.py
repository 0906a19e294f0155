"""How long the upgrade of a member is expected to take, as its annotation says.

Source: upgrade-runs.md 3.1 and 14.2.
"""

from datetime import timedelta
from typing import Final

from scorer.api.duration import parse_wait_time
from scorer.api.names import OURS

DURATION: Final = OURS + "upgrade-duration"
"""On a MemberCluster: how long an upgrade of it takes, until there is a history."""


def parse_expected(text: str) -> timedelta:
    """Read the annotation of a MemberCluster.

    Raises:
        ValueError: It is no duration, or zero.
    """
    expected = parse_wait_time(text)
    if not expected:
        raise ValueError(f"{text[:64]!r} is zero")
    return expected
