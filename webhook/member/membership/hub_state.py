"""The hub's state of this member, read directly before an irreversible action.

The agent asks the hub itself, not its watch: that may lag, and content removed on an old word does not come back. If
the hub does not answer, or does not let us read, the agent does nothing.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from scorer.api.cluster.member_state import MemberState
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, NAMESPACE
from scorer.api.names import member_namespace
from scorer.api.unstructured.documents import is_deleting, spec_of
from scorer.rollout.works.hub_restore import accepts_older
from webhook.kube.ports import Key, NotFoundError, Store


@dataclass(frozen=True, slots=True)
class HubMemberState:
    """What the hub says about a member.

    Args:
        leaving: It is to leave, or the hub no longer knows it, or its namespace on the hub is being deleted.
        accepts_older: It accepts Works that are older than what was applied.
    """

    leaving: bool = False
    accepts_older: bool = False


MemberStateReader: TypeAlias = Callable[[], Awaitable[HubMemberState]]


async def always_remains() -> HubMemberState:
    """Say that the member stays, for callers without a hub to ask."""
    return HubMemberState()


async def read_member_state(hub: Store, cluster: str, now: datetime) -> HubMemberState:
    """Ask the hub about a member.

    Args:
        hub: Where to ask.
        cluster: The member.
        now: The time of day.

    Raises:
        StoreError: The hub did not answer.
    """
    space = member_namespace(cluster)
    try:
        document = await hub.get(INTERNAL_MEMBER_CLUSTER, Key(cluster, space))
        namespace = await hub.get(NAMESPACE, Key(space))
    except NotFoundError:
        return HubMemberState(leaving=True)
    is_joined = spec_of(document).get("state") == MemberState.JOIN
    leaving = not is_joined or is_deleting(namespace)
    return HubMemberState(leaving=leaving, accepts_older=accepts_older(document, now))
