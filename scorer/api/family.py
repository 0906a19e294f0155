"""Families of kinds, one for each scope, and references to placements.

Objects of a ClusterResourcePlacement are cluster-scoped, those of a ResourcePlacement are in its namespace. So the
namespace, empty or not, determines the family. Requests and answers write a reference as ``crp/web`` or
``rp/team/web``.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scorer.api import kinds
from scorer.api.kinds import Kind
from scorer.api.names import PARENT_PLACEMENT, PARENT_PLACEMENT_NAMESPACE
from scorer.api.unstructured.documents import label, name_of, namespace_of


@dataclass(frozen=True, slots=True)
class PlacementRef:
    """Names a placement on the hub. *namespace* is empty for a ClusterResourcePlacement."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"rp/{self.namespace}/{self.name}" if self.namespace else f"crp/{self.name}"


def ref_prefixes(kinds: Collection[Kind]) -> tuple[str, ...]:
    """Return the prefixes of references to placements of these kinds."""
    return tuple("rp/" if kind.namespaced else "crp/" for kind in kinds)


def unknown_placement(ref: PlacementRef) -> str:
    """Return the message about a placement that does not exist or that the caller may not read.

    It is the same for both, so that a caller cannot find out which placements exist.
    """
    return f"there is no placement {str(ref)[:320]}"


class UnknownObjectError(Exception):
    """The request names a placement or cluster that does not exist. The message has its name."""


@dataclass(frozen=True, slots=True)
class Family:
    """The kinds of one scope.

    Args:
        placement: Places objects on members.
        policy_snapshot: One version of the policy of a placement, with the decisions under that version.
        resource_snapshot: Objects that a placement selected at one time.
        binding: Presence of a placement on one member.
        override: Changes objects on their way to some members.
        override_snapshot: One version of an override.
        envelope: Holds objects to place that must not take effect on the hub.
        strategy: The stages of a staged update.
        run: A staged update.
        approval_request: Request for the approval of a stage of a run.
    """

    placement: Kind
    policy_snapshot: Kind
    resource_snapshot: Kind
    binding: Kind
    override: Kind
    override_snapshot: Kind
    envelope: Kind
    strategy: Kind
    run: Kind
    approval_request: Kind

    def ref(self, document: Mapping[str, Any]) -> PlacementRef:
        """Return the reference of a placement of this family."""
        return PlacementRef(self.placement.kind, name_of(document), namespace_of(document))

    def parent(self, document: Mapping[str, Any]) -> PlacementRef:
        """Return the placement that a snapshot or binding of this family belongs to."""
        return PlacementRef(self.placement.kind, label(document, PARENT_PLACEMENT), namespace_of(document))


CLUSTER: Final = Family(
    placement=kinds.PLACEMENT,
    policy_snapshot=kinds.POLICY_SNAPSHOT,
    resource_snapshot=kinds.RESOURCE_SNAPSHOT,
    binding=kinds.BINDING,
    override=kinds.OVERRIDE,
    override_snapshot=kinds.OVERRIDE_SNAPSHOT,
    envelope=kinds.ENVELOPE,
    strategy=kinds.STAGED_STRATEGY,
    run=kinds.STAGED_RUN,
    approval_request=kinds.APPROVAL_REQUEST,
)
NAMESPACED: Final = Family(
    placement=kinds.RESOURCE_PLACEMENT,
    policy_snapshot=kinds.NAMESPACED_POLICY_SNAPSHOT,
    resource_snapshot=kinds.NAMESPACED_RESOURCE_SNAPSHOT,
    binding=kinds.NAMESPACED_BINDING,
    override=kinds.NAMESPACED_OVERRIDE,
    override_snapshot=kinds.NAMESPACED_OVERRIDE_SNAPSHOT,
    envelope=kinds.NAMESPACED_ENVELOPE,
    strategy=kinds.NAMESPACED_STAGED_STRATEGY,
    run=kinds.NAMESPACED_STAGED_RUN,
    approval_request=kinds.NAMESPACED_APPROVAL_REQUEST,
)
FAMILIES: Final = (CLUSTER, NAMESPACED)
FAMILY_OF: Final[Mapping[str, Family]] = {family.placement.kind: family for family in FAMILIES}
"""By the kind of placement."""
PLACEMENTS: Final = tuple(family.placement for family in FAMILIES)
"""The kinds of placements."""


def family_in(namespace: str) -> Family:
    """Return the family of the objects in a namespace. Empty: of cluster-scoped objects."""
    return NAMESPACED if namespace else CLUSTER


def placement_ref(name: str, namespace: str = "") -> PlacementRef:
    """Return the reference of a placement, of the family that its namespace determines."""
    return PlacementRef(family_in(namespace).placement.kind, name, namespace)


def placement_of_work(work: Mapping[str, Any]) -> PlacementRef:
    """Return the placement of either family that a Work's labels name. Users may have edited the labels."""
    return placement_ref(label(work, PARENT_PLACEMENT), label(work, PARENT_PLACEMENT_NAMESPACE))
