"""Which objects belong together: a placement and what is made for it, runs and what they name."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from scorer.api import kinds
from scorer.api.documents import dicts_at, is_deleting, labels_of, name_of, namespace_of, text_at
from scorer.api.kinds import Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT
from webhook.validation.context import Context, NotKnownError


@dataclass(frozen=True, slots=True)
class Relations:
    """The kinds of one scope; everything holds for both scopes."""

    placement: Kind
    policy_snapshot: Kind
    resource_snapshot: Kind
    binding: Kind
    strategy: Kind
    run: Kind
    short: str

    def children(self, kind: Kind, name: str, namespace: str, context: Context) -> Collection[JsonObject]:
        """Return the snapshots or bindings of a placement."""
        return context.hub.labelled(kind, PARENT_PLACEMENT, name, namespace)

    def parent(self, document: JsonObject) -> str:
        """Return the reference of the placement that a binding belongs to, such as ``crp/shop``."""
        names = [self.short, namespace_of(document), labels_of(document).get(PARENT_PLACEMENT, "")]
        return "/".join(filter(None, names))


CLUSTER: Final = Relations(
    kinds.PLACEMENT,
    kinds.POLICY_SNAPSHOT,
    kinds.RESOURCE_SNAPSHOT,
    kinds.BINDING,
    kinds.STAGED_STRATEGY,
    kinds.STAGED_RUN,
    "crp",
)
NAMESPACED: Final = Relations(
    kinds.RESOURCE_PLACEMENT,
    kinds.NAMESPACED_POLICY_SNAPSHOT,
    kinds.NAMESPACED_RESOURCE_SNAPSHOT,
    kinds.NAMESPACED_BINDING,
    kinds.NAMESPACED_STAGED_STRATEGY,
    kinds.NAMESPACED_STAGED_RUN,
    "rp",
)
SCOPES: Final = (CLUSTER, NAMESPACED)
RELATIONS: Final[Mapping[tuple[str, str], Relations]] = {
    kind.group_kind: scope for scope in SCOPES for kind in (scope.placement, scope.strategy, scope.run)
}
"""By the kind that is written."""


def relations_of(document: JsonObject) -> Relations:
    """Return the kinds around a placement, strategy or run.

    Raises:
        NotKnownError: It is none; only a made-up review holds a stored object of another kind.
    """
    relations = RELATIONS.get(group_kind(document))
    if relations is None:
        raise NotKnownError(document.get("kind"))
    return relations


def cluster_of(binding: JsonObject) -> str:
    """Return the member cluster that a binding is for."""
    return text_at(binding, "spec", "targetCluster")


def holds_cluster(binding: JsonObject) -> bool:
    """Say whether a binding keeps its cluster: picked or rolled out, and not being deleted."""
    return text_at(binding, "spec", "state") in {"Scheduled", "Bound"} and not is_deleting(binding)


def is_unfinished(run: JsonObject) -> bool:
    """Say whether a run may still change something: neither succeeded nor failed nor refused, nor being deleted.

    Generations are left aside: a finished run stays finished, whatever its state is set to.
    """
    status = {
        str(condition.get("type")): condition.get("status") for condition in dicts_at(run, "status", "conditions")
    }
    is_over = status.get("Succeeded") in {"True", "False"} or status.get("Initialized") == "False"
    return not is_over and not is_deleting(run)


def is_same(document: JsonObject, other: JsonObject) -> bool:
    """Say whether two documents of a kind are states of the same object; one without a name is nobody's."""
    name = name_of(document)
    return bool(name) and (name, namespace_of(document)) == (name_of(other), namespace_of(other))
