"""MemberCluster and InternalMemberCluster: a member of the fleet, and the state that hub and agents exchange.

Source: docs/specifications/placement-api.md 3.11; KubeFleet ``apis/cluster``.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from scorer.api.cluster.member_state import (
    DEFAULT_HEARTBEAT_PERIOD_SECONDS,
    LONGEST_HEARTBEAT_PERIOD_SECONDS,
    SHORTEST_HEARTBEAT_PERIOD_SECONDS,
    MemberState,
)
from scorer.api.conditions import Condition, Conditions
from scorer.api.meta import ALWAYS_WRITTEN, ApiModel, ApiObject, Int32, Name, Time, shared_default
from scorer.api.values.label_selector import LabelKey, LabelValue
from scorer.api.values.quantity import WIRE_SCHEMA

Amount = Annotated[str | int | float, WithJsonSchema(WIRE_SCHEMA)]
"""A quantity as the API carries it: a string or a number."""


class Identity(ApiModel):
    """The identity of the member's agent on the hub: the subject of a role binding."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    kind: Name
    """User, Group or ServiceAccount."""
    name: str = Field(max_length=1024)
    """Name of that user, group or service account."""
    api_group: Name = ""
    """API group of the kind. Absent or empty: ``rbac.authorization.k8s.io`` for User and Group, the core group for
    ServiceAccount."""
    namespace: Name = ""
    """Namespace of a ServiceAccount. Absent: none, as for users and groups."""


class Taint(ApiModel):
    """Repels new placements without a matching toleration. Never removes a placement."""

    key: LabelKey
    """Key of the taint, a qualified name such as ``example.com/maintenance``."""
    value: LabelValue = ""
    """Value of the taint. Absent: the empty value."""
    effect: Literal["NoSchedule"]
    """NoSchedule: the member gets no new placements. Existing placements remain."""


CORDON: Final = Taint(key="cordon-key", value="cordon-value", effect="NoSchedule")
"""The taint that ``kubectl fleet drain`` puts on a member cluster."""


def is_cordon(taint: Mapping[str, Any]) -> bool:
    """Return whether a taint in wire form cordons its member, regardless of its value."""
    return taint.get("key") == CORDON.key and taint.get("effect") == CORDON.effect


class DeleteOptions(ApiModel):
    """Strictness of the webhook's checks before the member may leave the fleet."""

    validation_mode: Literal["Strict", "Skip"] = "Strict"
    """Strict: the member cannot be deleted while it exports services to others. Skip: no check."""


class MemberClusterSpec(ApiModel):
    """``spec`` of a MemberCluster."""

    identity: Identity
    """Identity of the member's agent on the hub, which gets the rights on the member's namespace there."""
    heartbeat_period_seconds: Int32 = Field(
        default=DEFAULT_HEARTBEAT_PERIOD_SECONDS,
        ge=SHORTEST_HEARTBEAT_PERIOD_SECONDS,
        le=LONGEST_HEARTBEAT_PERIOD_SECONDS,
    )
    """Time between two reports of the member's agent, in seconds."""
    taints: tuple[Taint, ...] = Field(default=(), max_length=100)
    """Taints that repel new placements without a matching toleration. Absent: none."""
    delete_options: DeleteOptions | None = None
    """Strictness of the check of a deletion of this object. Absent: Strict."""


class PropertyValue(ApiModel):
    """One reported property: its value, as text, and when it was observed."""

    value: str
    """The value, a Kubernetes quantity where it is an amount."""
    observation_time: Time | None = Field(default=None, json_schema_extra=ALWAYS_WRITTEN)
    """Time when it was observed on the member."""


class ResourceUsage(ApiModel):
    """Sums over the nodes of the member: resource name to quantity text."""

    capacity: dict[str, Amount] = Field(default_factory=dict)
    """Total capacity of the nodes, by resource name, as quantities."""
    allocatable: dict[str, Amount] = Field(default_factory=dict)
    """Amounts that pods may use, by resource name, as quantities."""
    available: dict[str, Amount] = Field(default_factory=dict)
    """Allocatable amounts that no pod has requested, by resource name, as quantities."""
    observation_time: Time | None = None
    """Time when the sums were taken."""


class AgentStatus(ApiModel):
    """Report of one agent on the member."""

    type: str
    """Type of the agent, such as MemberAgent."""
    conditions: Conditions = ()
    """Conditions of the agent: Joined, Healthy."""
    last_received_heartbeat: Time | None = None
    """Time when the agent last reported."""


class NamespaceContents(ApiModel):
    """Bounded counts of what a placed namespace holds on a member."""

    volume_claims: Int32 = Field(default=0, ge=0, json_schema_extra=ALWAYS_WRITTEN)
    """PersistentVolumeClaims in the namespace."""
    others: Int32 = Field(default=0, ge=0, json_schema_extra=ALWAYS_WRITTEN)
    """Workloads, ConfigMaps and Services in the namespace that neither a Work nor another object owns."""
    at_least: bool = False
    """Whether the namespace may contain more than was counted. Absent: false."""
    observation_time: Time | None = Field(default=None, json_schema_extra=ALWAYS_WRITTEN)
    """Time when they were counted."""


class MemberClusterStatus(ApiModel):
    """``status`` of a MemberCluster. Absent and empty ``namespaces`` differ."""

    conditions: Conditions = ()
    """Conditions of the member, written by the hub: ReadyToJoin, Joined, and whether properties could be collected.
    Reporting and ContentApplied exist only after the first problem."""
    properties: dict[str, PropertyValue] = Field(default_factory=dict)
    """Properties that the agent reports, by name. Placements can select and sort by them."""
    resource_usage: ResourceUsage = Field(default_factory=shared_default(ResourceUsage))
    """Sums over the nodes of the member."""
    agent_status: tuple[AgentStatus, ...] = ()
    """Reports of the agents on the member, one entry per agent."""
    namespaces: dict[str, str] | None = None
    """Namespaces on the member, by name. The value is the name of the Work that placed the namespace, or empty. Absent
    if they are not collected."""
    namespace_contents: dict[str, NamespaceContents] | None = None
    """Counts of the contents of the first 50 placed namespaces. A namespace without an entry has not been counted."""


class MemberCluster(ApiObject):
    """A member of the fleet."""

    spec: MemberClusterSpec
    """Identity of the member, and its settings."""
    status: MemberClusterStatus = Field(default_factory=shared_default(MemberClusterStatus))
    """Reports of the member's agents and conditions of the hub, written by harbormaster."""


class InternalMemberClusterSpec(ApiModel):
    """``spec`` of an InternalMemberCluster.

    The state is free text here and an enum in the CRD: existing hubs do not check it (X-94).
    """

    state: str = Field(json_schema_extra={"enum": [state.value for state in MemberState]})
    """Desired state of the member's agent. Join: be part of the fleet. Leave: release the placed objects, which remain
    on the member, and stop."""
    heartbeat_period_seconds: Int32 = Field(
        default=DEFAULT_HEARTBEAT_PERIOD_SECONDS,
        ge=SHORTEST_HEARTBEAT_PERIOD_SECONDS,
        le=LONGEST_HEARTBEAT_PERIOD_SECONDS,
    )
    """Time between two reports of the agent, in seconds."""


class InternalMemberClusterStatus(MemberClusterStatus):
    """``status`` of an InternalMemberCluster: as that of a MemberCluster, with a plain list of conditions."""

    conditions: tuple[Condition, ...] = ()
    """The agent's conditions, in no particular order."""


class InternalMemberCluster(ApiObject):
    """A member cluster as its agents see it. It is in the member's namespace on the hub."""

    spec: InternalMemberClusterSpec
    """The hub's instructions for the member's agent."""
    status: InternalMemberClusterStatus = Field(default_factory=shared_default(InternalMemberClusterStatus))
    """Report of the member's agent."""
