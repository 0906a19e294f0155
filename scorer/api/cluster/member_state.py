"""What the hub asks of the agent of a member.

Source: placement-api.md 3.11.
"""

from enum import StrEnum
from typing import Final

DEFAULT_HEARTBEAT_PERIOD_SECONDS: Final = 60
SHORTEST_HEARTBEAT_PERIOD_SECONDS: Final = 1
LONGEST_HEARTBEAT_PERIOD_SECONDS: Final = 600


class MemberState(StrEnum):
    """What the hub wants the member to do."""

    JOIN = "Join"
    LEAVE = "Leave"
