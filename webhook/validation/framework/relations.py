"""Related objects on the hub: a placement with its snapshots and bindings, a run with the objects it names.

Documents may have any structure.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from scorer.api.family import FAMILIES, Family
from scorer.api.kinds import Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.unstructured.documents import dict_at, dicts_at, is_deleting, name_of, namespace_of, text_at
from webhook.validation.framework.context import Context, UnknownStateError

WRITTEN: Final[Mapping[tuple[str, str], Family]] = {
    kind.group_kind: family for family in FAMILIES for kind in (family.placement, family.strategy, family.run)
}
"""The family of each placement, strategy and run kind, by group and kind."""


def family_of(document: JsonObject) -> Family:
    """Return the kinds around a placement, strategy or run.

    Raises:
        UnknownStateError: The document has another kind. The stored object of a review has another kind only if the
            review is forged.
    """
    family = WRITTEN.get(group_kind(document))
    if family is None:
        raise UnknownStateError(document.get("kind"))
    return family


def children(kind: Kind, name: str, namespace: str, context: Context) -> Collection[JsonObject]:
    """Return the snapshots or bindings of a placement.

    Raises:
        UnknownStateError: The hub cannot list the objects of *kind*.
    """
    return context.hub.labelled(kind, PARENT_PLACEMENT, name, namespace)


def cluster_of(binding: JsonObject) -> str:
    """Return the member cluster that a binding is for."""
    return text_at(binding, "spec", "targetCluster")


def holds_cluster(binding: JsonObject) -> bool:
    """Return whether a binding holds its cluster: it is Scheduled or Bound, and not being deleted."""
    return text_at(binding, "spec", "state") in {"Scheduled", "Bound"} and not is_deleting(binding)


def is_unfinished(run: JsonObject) -> bool:
    """Return whether a run may still make changes: not finished, not failed to initialize, and not being deleted.

    Generations are ignored: a finished run remains finished, even if a user sets another state.
    """
    status = {
        str(condition.get("type")): condition.get("status") for condition in dicts_at(run, "status", "conditions")
    }
    is_over = status.get("Succeeded") in {"True", "False"} or status.get("Initialized") == "False"
    return not is_over and not is_deleting(run)


def is_same_object(document: JsonObject, other: JsonObject) -> bool:
    """Return whether two documents of a kind are the same object. A document without a name is a new object."""
    name = name_of(document)
    return bool(name) and (name, namespace_of(document)) == (name_of(other), namespace_of(other))


def placements_named(name: str, placements: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield the placements with this name."""
    return (placement for placement in placements if name_of(placement) == name)


def placement_type_of(placement: Mapping[str, Any]) -> str:
    """Return the type of a stored placement. The default is PickAll."""
    kind = dict_at(placement, "spec", "policy").get("placementType")
    return kind if isinstance(kind, str) else "PickAll"
