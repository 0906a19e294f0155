"""MemberCluster: a cluster that joined the fleet, and what its agent reports.

Source: placement-api.md 3.11; KubeFleet ``apis/cluster``.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from scorer.api.conditions import Conditions
from scorer.api.label_selector import LabelKey, LabelValue
from scorer.api.meta import ALWAYS_WRITTEN, ApiModel, ApiObject, Int32, Name, Time
from scorer.api.quantity import WIRE_SCHEMA

MEMBER_AGENT = "MemberAgent"

Amount = Annotated[str | int | float, WithJsonSchema(WIRE_SCHEMA)]
"""A quantity as the API carries it: a string or a number."""


class Identity(ApiModel):
    """The identity of the member's agent on the hub: the subject of a role binding."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    kind: Name
    name: str = Field(max_length=1024)
    api_group: Name = ""
    namespace: Name = ""


class Taint(ApiModel):
    """Keeps away new placements without a matching toleration; it never removes a placement."""

    key: LabelKey
    value: LabelValue = ""
    effect: Literal["NoSchedule"]


class DeleteOptions(ApiModel):
    """How strictly the webhook checks that the member may leave the fleet."""

    validation_mode: Literal["Strict", "Skip"] = "Strict"


class MemberClusterSpec(ApiModel):
    """``spec`` of a MemberCluster."""

    identity: Identity
    heartbeat_period_seconds: Int32 = Field(default=60, ge=1, le=600)
    taints: tuple[Taint, ...] = Field(default=(), max_length=100)
    delete_options: DeleteOptions | None = None


class PropertyValue(ApiModel):
    """One reported property: its value, as text, and when it was observed."""

    value: str
    observation_time: Time | None = Field(default=None, json_schema_extra=ALWAYS_WRITTEN)


class ResourceUsage(ApiModel):
    """Sums over the nodes of the member: resource name to quantity text."""

    capacity: dict[str, Amount] = Field(default_factory=dict)
    allocatable: dict[str, Amount] = Field(default_factory=dict)
    available: dict[str, Amount] = Field(default_factory=dict)
    observation_time: Time | None = None


class AgentStatus(ApiModel):
    """What one agent on the member reports."""

    type: str
    conditions: Conditions = ()
    last_received_heartbeat: Time | None = None


class MemberClusterStatus(ApiModel):
    """``status`` of a MemberCluster; ``namespaces`` absent and empty mean different things."""

    conditions: Conditions = ()
    properties: dict[str, PropertyValue] = Field(default_factory=dict)
    resource_usage: ResourceUsage = Field(default_factory=ResourceUsage)
    agent_status: tuple[AgentStatus, ...] = ()
    namespaces: dict[str, str] | None = None


class MemberCluster(ApiObject):
    """A member of the fleet."""

    spec: MemberClusterSpec
    status: MemberClusterStatus = Field(default_factory=MemberClusterStatus)
