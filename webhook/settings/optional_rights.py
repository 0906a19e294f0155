"""Rights that most installations do not need: an operator gives them by a value of a chart, or by what ``rbac`` prints.

They are given by default, because an upgrade must not take away a right in use. The values that the charts ship for new
installations leave them out.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class OptionalRight:
    """A right that can be left out.

    Args:
        what: What takes it.
        value: Of the chart that gives it.
        chart: Its name.
        command: That prints it for installations without the chart.
    """

    what: str
    value: str
    chart: str
    command: str

    @property
    def advice(self) -> str:
        """How to give it."""
        return f"set {self.value}=true in the values of the chart {self.chart}, or apply what `{self.command}` prints"


UPGRADE_ORDERS: Final = OptionalRight(
    "orders on upgrade runs", "rbac.upgradeOrders", "harbormaster", "harbormaster rbac serve"
)
NODE_POOLS: Final = OptionalRight(
    "questions about node pools", "rbac.nodePools", "harbormaster", "harbormaster rbac serve"
)
CONTROL_PLANE: Final = OptionalRight(
    "kinds that act on every request to the member",
    "rbac.applyControlPlane",
    "harbormaster-agent",
    "harbormaster rbac agent",
)
CONTROL_PLANE_GROUPS: Final = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiregistration.k8s.io",
        "certificates.k8s.io",
        "flowcontrol.apiserver.k8s.io",
    }
)
"""API groups whose objects act on every request to a cluster: webhooks, admission policies, API services, certificate
requests, flow schemas and priority levels."""
