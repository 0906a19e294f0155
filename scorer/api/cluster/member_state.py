"""Desired state of a member's agent.

Source: docs/specifications/placement-api.md 3.11.
"""

from enum import StrEnum
from typing import Final

DEFAULT_HEARTBEAT_PERIOD_SECONDS: Final = 60
SHORTEST_HEARTBEAT_PERIOD_SECONDS: Final = 1
LONGEST_HEARTBEAT_PERIOD_SECONDS: Final = 600


class MemberState(StrEnum):
    """Desired state of a member."""

    JOIN = "Join"
    LEAVE = "Leave"
