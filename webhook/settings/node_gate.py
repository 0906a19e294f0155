"""When nodes may be disrupted."""

from enum import StrEnum

from pydantic import Field

from webhook.settings.installation import NamespaceSettings


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
