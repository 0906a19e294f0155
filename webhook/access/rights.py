"""Rights to ask about, and the answers."""

from dataclasses import dataclass, replace
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.values.quoting import quote

MOST_REVIEWED: Final = 500
"""How many rights are reviewed for one write: none that passes validation needs more, and other writes wait, too."""


@dataclass(frozen=True, slots=True, order=True)
class Access:
    """One thing that the author must be allowed to do.

    Args:
        verb: ``get``, ``create``, ``update``, ``delete``, ``place``, ``patch``, ``ignorewindows``
            or ``confirmremoval``.
        group: API group.
        resource: Plural, with ``/status`` for the status alone.
        name: One object; empty: all of them.
        namespace: Where; empty: everywhere, or cluster-scoped.
        or_place: The verb ``place`` on the same object will do as well.
        advisory: Without the right there is a warning, never a refusal.
    """

    verb: str
    group: str
    resource: str
    name: str = ""
    namespace: str = ""
    or_place: bool = False
    advisory: bool = False

    @property
    def alternatives(self) -> tuple["Access", ...]:
        """The questions to ask: one of them has to be answered with yes."""
        plain = replace(self, or_place=False, advisory=False)
        return (plain, replace(plain, verb="place")) if self.or_place else (plain,)

    def __str__(self) -> str:
        resource, slash, subresource = self.resource.partition("/")
        subject = (f"{resource}.{self.group}" if self.group else resource) + slash + subresource
        name_part = f" {quote(self.name)}" if self.name else ""
        suffix = f" in namespace {quote(self.namespace)}" if self.namespace else ""
        instead = f" or place {'it' if self.name else 'them'}" if self.or_place else ""
        return f"{self.verb} {subject}{name_part}{suffix}{instead}"


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The answer to questions about rights.

    Args:
        denied: What the author may not do.
        unanswered: Why some of it could not be found out; empty when all of it was.
        binding: Nothing goes on without all of it, whatever the operator has set for placements.
        advisory: A missing right is a warning, also with ``Enforce``.
    """

    denied: tuple[Access, ...] = ()
    unanswered: str = ""
    binding: bool = False
    advisory: bool = False

    @property
    def is_undisputed(self) -> bool:
        """Whether the author may do all that was asked about."""
        return not self.denied and not self.unanswered


UNDISPUTED: Final = Reviewed()


def resource_attributes(access: Access) -> JsonObject:
    """Write one question as the ``resourceAttributes`` of a SubjectAccessReview."""
    resource, _, subresource = access.resource.partition("/")
    attributes = {
        "group": access.group,
        "resource": resource,
        "subresource": subresource,
        "name": access.name,
        "namespace": access.namespace,
    }
    return {"verb": access.verb, "version": "*"} | {key: value for key, value in attributes.items() if value}


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
