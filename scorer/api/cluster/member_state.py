"""What the hub asks of the agent of a member.

Source: placement-api.md 3.11.
"""

from enum import StrEnum


class MemberState(StrEnum):
    """What the hub wants the member to do."""

    JOIN = "Join"
    LEAVE = "Leave"
