"""InternalMemberCluster: what hub and member agents tell each other about one member cluster.

Source: placement-api.md 3.11.
"""

from pydantic import Field

from scorer.api.conditions import Condition
from scorer.api.member_cluster import MemberClusterStatus
from scorer.api.member_state import MemberState
from scorer.api.meta import ApiModel, ApiObject, Int32


class InternalMemberClusterSpec(ApiModel):
    """``spec`` of an InternalMemberCluster.

    The state is free text here and an enum in the CRD: existing hubs do not check it (X-94).
    """

    state: str = Field(json_schema_extra={"enum": [state.value for state in MemberState]})
    """What the member's agent is to do. Join: be part of the fleet. Leave: take everything off the member and stop."""
    heartbeat_period_seconds: Int32 = Field(default=60, ge=1, le=600)
    """Time between two reports of the agent, in seconds."""


class InternalMemberClusterStatus(MemberClusterStatus):
    """``status`` of an InternalMemberCluster: as that of a MemberCluster, with a plain list of conditions."""

    conditions: tuple[Condition, ...] = ()
    """What the agent has concluded about itself, in no particular order."""


class InternalMemberCluster(ApiObject):
    """A member cluster as its agents see it; lives in the member's namespace on the hub."""

    spec: InternalMemberClusterSpec
    """What the hub asks of the member's agent."""
    status: InternalMemberClusterStatus = Field(default_factory=InternalMemberClusterStatus)
    """What the member's agent reports."""
