"""When member clusters, and with them nodes, may be disrupted."""

from typing import Annotated

from pydantic import Field

from scorer.member_gate.holds import MemberDisruption
from webhook.settings.admission import ReviewSettings
from webhook.settings.environment import Settings
from webhook.settings.node_gate import NodeGateSettings
from webhook.settings.rollout import RemovalSettings
from webhook.settings.values import COMMAS


class HeldMemberSettings(Settings):
    """What holds a member cluster."""

    gate_members: Annotated[tuple[MemberDisruption, ...], COMMAS] = Field(
        default=(MemberDisruption.EVICTION, MemberDisruption.UPGRADE),
        description="Disruptions of a member cluster that wait while another kind of disruption holds it; empty: none "
        "waits.",
    )


class MemberGateSettings(HeldMemberSettings, RemovalSettings):
    """The gate of member clusters."""


class DisruptionSettings(ReviewSettings, NodeGateSettings, MemberGateSettings):
    """Both gates, and whether admission enforces the budgets."""
