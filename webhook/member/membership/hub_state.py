"""The state of this member on the hub, read immediately before an irreversible action.

The agent reads from the hub itself, not from its watch: the watch may lag, and content that was removed by mistake is
lost. If the hub does not respond, or denies the read, the agent does nothing.
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
    """The state of a member on the hub.

    Args:
        leaving: Whether the hub requests leaving, does not know the member, or is deleting its namespace.
        accepts_older: Whether the member accepts Works that are older than the applied ones.
    """

    leaving: bool = False
    accepts_older: bool = False


MemberStateReader: TypeAlias = Callable[[], Awaitable[HubMemberState]]


async def always_remains() -> HubMemberState:
    """Return the state of a member that is not leaving, for callers without a hub."""
    return HubMemberState()


async def read_member_state(hub: Store, cluster: str, now: datetime) -> HubMemberState:
    """Read the state of a member from the hub.

    Args:
        hub: The hub.
        cluster: The member.
        now: The time of day.

    Raises:
        StoreError: The hub refused the request or did not respond.
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
