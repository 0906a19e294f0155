"""Departure of a member: its agent releases the Works first, and their objects are kept on the member.

The hub waits until the agent reports that it has left, but no longer than the force-delete wait. Then it removes the
finalizers of the remaining Works before it deletes them. The order matters: a running agent treats the deletion of a
Work with a finalizer as an order to delete its objects.

Source: docs/specifications/rollout.md 20 and 21.2.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from scorer.api.cluster.member_state import MemberState
from scorer.api.meta import JsonObject, parse_time
from scorer.api.unstructured.documents import is_deleting, spec_of, status_of
from scorer.membership.member_status import EXPECTED_AGENTS, joined_state

FORCE_DELETE_AFTER: Final = timedelta(minutes=15)
"""Maximum wait, counted from the deletion timestamp, for a member whose agent does not report that it has left."""


class DepartureStage(Enum):
    """Progress of the departure of a member."""

    ASKED = "its agent has been ordered to leave"
    CLEARING = "its Works and its namespace are being deleted"
    GONE = "all of its objects on the hub are deleted"


@dataclass(frozen=True, slots=True)
class Departure:
    """The next step for a leaving member.

    Args:
        stage: The next step.
        remaining: Remaining time to wait for the agent. None: disabled, no wait.
        forced: Whether the wait ended without a report from the agent.
    """

    stage: DepartureStage
    remaining: timedelta | None = None
    forced: bool = False


def departure(
    member: JsonObject,
    namespace: JsonObject | None,
    internal: JsonObject | None,
    now: datetime,
    *,
    wait: timedelta = FORCE_DELETE_AFTER,
    expected: Iterable[str] = EXPECTED_AGENTS,
) -> Departure:
    """Return the next step for a member that is being deleted.

    Args:
        member: The MemberCluster.
        namespace: The member's namespace on the hub, None if deleted.
        internal: InternalMemberCluster of the member, None if deleted.
        now: The time by the hub's clock.
        wait: Longest wait for the agent, counted from the deletion timestamp.
        expected: Types of agents that have to leave.
    """
    if namespace is None:
        return Departure(DepartureStage.GONE)
    if is_deleting(namespace):
        return Departure(DepartureStage.CLEARING)
    if internal is None:
        # Without a report, no agent was ever told to join. With a report, a user has deleted the InternalMemberCluster
        # by hand and the agent may still run, so the hub waits as if the InternalMemberCluster existed.
        is_left = joined_state(status_of(member), expected)[0] is False
        if is_left or not status_of(member).get("agentStatus"):
            return Departure(DepartureStage.CLEARING)
    elif _has_left(internal, expected):
        return Departure(DepartureStage.CLEARING)
    remaining_time = parse_time(member["metadata"]["deletionTimestamp"]) + wait - now
    if remaining_time <= timedelta():
        return Departure(DepartureStage.CLEARING, forced=True)
    return Departure(DepartureStage.ASKED, remaining_time)


def _has_left(internal: JsonObject, expected: Iterable[str]) -> bool:
    """Return whether the agents have left by order of the hub."""
    # The report alone is not proof: until the hub has ordered the agent to leave, the report can only be an old one.
    is_ordered = spec_of(internal).get("state") == MemberState.LEAVE
    return is_ordered and joined_state(status_of(internal), expected)[0] is False


def released(work: JsonObject) -> JsonObject | None:
    """Return a Work with its finalizers removed, or None if it has none."""
    metadata = work["metadata"]
    if not metadata.get("finalizers"):
        return None
    return {**work, "metadata": {**metadata, "finalizers": []}}
