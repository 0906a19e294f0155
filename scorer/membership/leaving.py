"""How a member leaves: its agent lets go of the Works first, and what they placed stays on the member.

The hub waits for the agent to say that it has left, and no longer than the force-delete wait. Then the remaining Works
lose their finalizers before they are deleted: an agent that is still there must not take their end for an order to
delete what they placed.

Source: rollout.md 20 and 21.2.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from scorer.api.documents import is_deleting, spec_of, status_of
from scorer.api.internal_member_cluster import MemberState
from scorer.api.meta import JsonObject, parse_time
from scorer.membership.member_status import EXPECTED_AGENTS, joined_state

FORCE_DELETE_AFTER: Final = timedelta(minutes=15)
"""So long after its deletion a member that does not answer is waited for."""


class Stage(Enum):
    """How far a member has got."""

    ASKED = "its agent is to leave"
    CLEARING = "its Works and its namespace go"
    GONE = "nothing of it is left on the hub"


@dataclass(frozen=True, slots=True)
class Departure:
    """Where a leaving member stands.

    Args:
        stage: What is to be done now.
        remaining: So long the agent is still waited for; None: not at all.
        forced: The agent was waited for in vain.
    """

    stage: Stage
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
    """Say what comes next for a member that has a deletion mark.

    Args:
        member: The MemberCluster.
        namespace: The member's namespace on the hub; None: gone.
        internal: Its InternalMemberCluster; None: gone.
        now: The hub's clock.
        wait: How long after the deletion mark the agent is waited for.
        expected: Types of agents that have to leave.
    """
    if namespace is None:
        return Departure(Stage.GONE)
    if is_deleting(namespace):
        return Departure(Stage.CLEARING)
    if internal is None:  # nobody was told to join, unless there are reports: then somebody deleted it by hand
        has_left = joined_state(status_of(member), expected)[0] is False
        if has_left or not status_of(member).get("agentStatus"):
            return Departure(Stage.CLEARING)
    elif _has_left(internal, expected):
        return Departure(Stage.CLEARING)
    left = parse_time(member["metadata"]["deletionTimestamp"]) + wait - now
    if left <= timedelta():
        return Departure(Stage.CLEARING, forced=True)
    return Departure(Stage.ASKED, left)


def _has_left(internal: JsonObject, expected: Iterable[str]) -> bool:
    """Say whether the agents have left because they were told to."""
    told = spec_of(internal).get("state") == MemberState.LEAVE
    return told and joined_state(status_of(internal), expected)[0] is False


def released(work: JsonObject) -> JsonObject | None:
    """Return a Work without finalizers, None when it has none."""
    metadata = work["metadata"]
    if not metadata.get("finalizers"):
        return None
    return {**work, "metadata": {**metadata, "finalizers": []}}
