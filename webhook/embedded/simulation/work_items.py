"""Work items of simulated members: the entries of the queue, and the state of one member."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from scorer.api.cluster.member_state import MemberState
from scorer.api.kinds import Kind
from webhook.embedded.simulation.annotations import Behaviour
from webhook.kube.ports import Key
from webhook.member.apply.contention import Memory


class MemberItem(NamedTuple):
    """The member's state or behavior may have changed."""

    cluster: str
    what: str = "member"


class HeartbeatItem(NamedTuple):
    """A heartbeat is due."""

    cluster: str
    what: str = "heartbeat"


class WorkItem(NamedTuple):
    """A Work must be reconciled."""

    cluster: str
    work: str
    what: str = "work"


class ObjectItem(NamedTuple):
    """An object on the member may have reached its next state."""

    cluster: str
    kind: Kind
    key: Key
    what: str = "object"


Item: TypeAlias = MemberItem | HeartbeatItem | WorkItem | ObjectItem


@dataclass(slots=True)
class SimulatedMember:
    """In-memory state of a member. It need not survive a restart."""

    mark: tuple[Any, ...]
    behaviour: Behaviour
    state: MemberState | None = None
    has_beaten: bool = False
    counted: bool = False
    memory: Memory = field(default_factory=Memory)
    placed: dict[str, int] = field(default_factory=dict)
    namespaces: dict[str, str] = field(default_factory=dict)

    @property
    def applies(self) -> bool:
        """Whether its agent applies Works."""
        return self.state is MemberState.JOIN and not self.behaviour.silent

    @property
    def beats(self) -> bool:
        """Whether its agent sends heartbeats. A leaving one does not, unless it simulates a hanging leave."""
        return self.state is MemberState.JOIN or (self.state is MemberState.LEAVE and self.behaviour.leaving)
