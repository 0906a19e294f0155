"""The gate of nodes and member clusters, and node disruption.

The operator sets `NodeDisruptionSettings`. The controller receives `NodeDisruptionOptions`.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from scorer.member_gate.holds import MemberDisruption
from webhook.settings.installation import InstallationSettings
from webhook.settings.values import COMMAS


class ExpirationMode(StrEnum):
    """Whether nodes that have reached their maximum age wait for budgets."""

    FORCEFUL = "Forceful"
    GRACEFUL = "Graceful"


class GateSettings(InstallationSettings):
    """The gate. Its reservations are in the namespace of the installation."""

    expiration_mode: ExpirationMode = Field(
        default=ExpirationMode.FORCEFUL,
        description=(
            "Handling of expired nodes. `Forceful` disrupts them at any time, as Karpenter does. `Graceful` respects "
            "budgets without reasons and everything else that blocks the disruption of a node."
        ),
    )
    template_do_not_disrupt: bool = Field(
        default=True,
        description=(
            "Apply the annotation `karpenter.sh/do-not-disrupt` of a pool's template to existing nodes as well, not "
            "only to nodes that are created later."
        ),
    )
    gate_members: Annotated[tuple[MemberDisruption, ...], COMMAS] = Field(
        default=(MemberDisruption.EVICTION, MemberDisruption.UPGRADE),
        description="Kinds of disruption that wait while another kind is in progress on the same member cluster. "
        "Empty: none.",
    )


DEFAULT_LEASE: Final = "karpenter-leader-election"
_LEASE: Final = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


class NodeDisruptionMode(StrEnum):
    """Mode of the node disruption controller."""

    OFF = "Off"
    ADVISE = "Advise"
    ACT = "Act"


@dataclass(frozen=True, slots=True)
class NodeDisruptionOptions:
    """Options of the node disruption controller.

    Args:
        mode: Mode of the controller.
        prices: File with instance types and prices. None: disabled, no node is consolidated.
        spot_to_spot: Whether spot nodes may be replaced with cheaper spot nodes.
        karpenter_lease: Name of Karpenter's leader election Lease.
        karpenter_namespace: Namespace of that Lease. Empty: any.
        gate: Settings of the gate, including those for expiration and do-not-disrupt in templates.
    """

    mode: NodeDisruptionMode = NodeDisruptionMode.OFF
    prices: Path | None = None
    spot_to_spot: bool = False
    karpenter_lease: str = DEFAULT_LEASE
    karpenter_namespace: str = ""
    gate: GateSettings = field(default_factory=GateSettings)

    @property
    def graceful_expiration(self) -> bool:
        """Whether expired nodes wait for budgets."""
        return self.gate.expiration_mode is ExpirationMode.GRACEFUL


class NodeDisruptionSettings(GateSettings):
    """The node disruption controller. Its rights depend on the mode."""

    node_disruption_mode: NodeDisruptionMode = Field(
        default=NodeDisruptionMode.ADVISE,
        description=(
            "Mode of the node disruption controller. `Off`: disabled. `Advise`: reports the nodes that would be "
            "disrupted, in conditions of the pools, Events and metrics. `Act`: disrupts them, but only advises while "
            "Karpenter is the leader in the same cluster."
        ),
    )
    node_disruption_karpenter_lease: Annotated[str, Field(pattern=_LEASE, max_length=317)] = Field(
        default=DEFAULT_LEASE,
        description="Karpenter's leader election Lease, as `NAME` in any namespace or `NAMESPACE/NAME`.",
    )
    node_disruption_prices: Path | None = Field(
        default=None,
        description="File with instance types and prices, in YAML, JSON or CSV (`docs/node-disruption.md`), "
        "reloaded when it changes. Unset: nodes are not consolidated, but empty, drifted and expired nodes are "
        "still disrupted.",
    )
    node_disruption_spot_to_spot: bool = Field(
        default=False, description="Allow spot nodes to be replaced by cheaper spot nodes."
    )

    def node_disruption(self) -> NodeDisruptionOptions:
        """Return the options of the node disruption controller."""
        namespace, _, name = self.node_disruption_karpenter_lease.rpartition("/")
        gate = GateSettings(
            namespace=self.namespace,
            expiration_mode=self.expiration_mode,
            template_do_not_disrupt=self.template_do_not_disrupt,
        )
        return NodeDisruptionOptions(
            self.node_disruption_mode,
            self.node_disruption_prices,
            self.node_disruption_spot_to_spot,
            name,
            namespace,
            gate,
        )
