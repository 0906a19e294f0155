"""When nodes and member clusters may be disrupted."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from scorer.member_gate.holds import MemberDisruption
from webhook.settings.admission import ReviewSettings
from webhook.settings.environment import Settings
from webhook.settings.installation import NamespaceSettings
from webhook.settings.rollout import RemovalSettings
from webhook.settings.values import COMMAS


class ExpirationMode(StrEnum):
    """Whether nodes that have reached their maximum age wait for budgets."""

    FORCEFUL = "Forceful"
    GRACEFUL = "Graceful"


class NodeGateSettings(NamespaceSettings):
    """The gate of nodes; its reservations are in the namespace of the installation."""

    expiration_mode: ExpirationMode = Field(
        default=ExpirationMode.FORCEFUL,
        description="Expired nodes: `Forceful` lets them go at any time, as Karpenter does; `Graceful` makes them wait "
        "for budgets without reasons, and for what forbids the disruption of a node.",
    )
    template_do_not_disrupt: bool = Field(
        default=True,
        description="`karpenter.sh/do-not-disrupt` in the template of a pool holds for nodes that are older than it as "
        "well.",
    )


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
