"""Permissions to review, and the answers."""

from dataclasses import dataclass, replace
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.values.quoting import quote

MOST_REVIEWED: Final = 500
"""Maximum number of reviews for one write. No valid write needs more, and the reviews of a write delay others."""


@dataclass(frozen=True, slots=True, order=True)
class Access:
    """One permission that the author of a write or the caller of an endpoint needs.

    Args:
        verb: ``get``, ``list``, ``create``, ``update``, ``patch``, ``delete``, ``place``, ``ignorewindows`` or
            ``confirmremoval``.
        group: API group.
        resource: Plural of the kind, with ``/status`` for the status subresource.
        name: Name of one object. Empty for all objects.
        namespace: Namespace. Empty for all namespaces, or for cluster-scoped kinds.
        or_place: Whether the verb ``place`` on the same object is also sufficient.
        advisory: Whether a missing permission is only a warning, never a refusal.
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
        """The permissions to review. At least one must be allowed."""
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
    """The answer to reviews of permissions.

    Args:
        denied: Denied permissions.
        unanswered: Reason why some permissions could not be determined, empty if all were determined.
        binding: Whether all permissions are required, regardless of the operator's setting for placements.
        advisory: Whether a missing permission is a warning, even with ``Enforce``.
    """

    denied: tuple[Access, ...] = ()
    unanswered: str = ""
    binding: bool = False
    advisory: bool = False

    @property
    def is_undisputed(self) -> bool:
        """Whether the user has all reviewed permissions."""
        return not self.denied and not self.unanswered


UNDISPUTED: Final = Reviewed()


def resource_attributes(access: Access) -> JsonObject:
    """Return one permission as the ``resourceAttributes`` of a SubjectAccessReview."""
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
    """An optional permission of an installation.

    Args:
        what: Feature that needs the permission.
        value: Chart value that grants it.
        chart: Name of the chart.
        command: Command that prints it for installations without the chart.
    """

    what: str
    value: str
    chart: str
    command: str

    @property
    def advice(self) -> str:
        """Instruction for granting the right."""
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
"""API groups whose objects affect every request to a cluster.

Webhooks, admission policies, API services, certificate requests, flow schemas and priority levels.
"""
