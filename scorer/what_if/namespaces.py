"""Namespaces that ClusterResourcePlacements put on members: the ResourcePlacements in them can go to these members.

The agent of a member reports its namespaces. A namespace that is placed on it later is in a later report.

Source: docs/specifications/what-if.md 10; scheduling.md 10.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.kinds import NAMESPACE
from scorer.api.meta import JsonObject
from scorer.api.placement.placement import SelectionScope
from scorer.api.unstructured.documents import dict_at, dicts_at, is_deleting, name_of, namespace_of, text_at
from scorer.fleet import Fleet, collects_namespaces
from scorer.placement.binding_plan import BrokenBindingError
from scorer.rollout.selection.selector import DocumentInventory, InvalidSelection, is_namespace, select_resources
from scorer.what_if.scheduling import scheduled
from scorer.what_if.state import HubState, ObjectKey

_UNKNOWN: Final[JsonObject] = {}


def fleet_with_namespaces(state: HubState, content: Callable[[], Mapping[ObjectKey, JsonObject | None]]) -> Fleet:
    """Return the fleet of a hub once members report the namespaces that its placements put on them.

    Only the namespaces of ResourcePlacements matter, and only members that collect namespaces. A placement with type
    External adds none: a run rolls it out.

    Args:
        state: The hub.
        content: Returns the known objects that placements may select, None for deleted ones.
    """
    homes = {namespace_of(placement) for placement in state.placements} - {""}
    if not homes:
        return state.fleet
    collecting = {member.metadata.name: member for member in state.fleet.members if collects_namespaces(member)}
    if not collecting:
        return state.fleet
    additions: defaultdict[str, set[str]] = defaultdict(set)
    namespaces = DocumentInventory(_namespaces(homes, content()))
    for placement in state.placements:
        selected = _selected(placement, namespaces, state)
        for cluster in _clusters(state, placement) if selected else ():
            additions[cluster] |= selected
    members = [
        _with_namespaces(member, additions[name])
        for name, member in collecting.items()
        if not additions[name] <= (member.status.namespaces or {}).keys()
    ]
    return state.fleet.updated(members) if members else state.fleet


def _namespaces(homes: set[str], content: Mapping[ObjectKey, JsonObject | None]) -> Iterator[JsonObject]:
    """Yield the known namespaces, and those of ResourcePlacements that are not known: they must exist."""
    for home in sorted(homes):
        known = content.get(ObjectKey(*NAMESPACE.group_kind, home), _UNKNOWN)
        if known is not None:
            yield known or {"apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": {"name": home}}


def _selected(placement: JsonObject, namespaces: DocumentInventory, state: HubState) -> set[str]:
    """Return the namespaces that a placement selects, without their content."""
    if (
        namespace_of(placement)
        or is_deleting(placement)
        or text_at(placement, "spec", "strategy", "type") == "External"
    ):
        return set()
    terms: list[Any] = [
        {**term, "selectionScope": str(SelectionScope.NAMESPACE_ONLY)}
        for term in dicts_at(placement, "spec", "resourceSelectors")
        if is_namespace(term)
    ]
    selection = select_resources(terms, "", namespaces, state.kinds)
    return set() if isinstance(selection, InvalidSelection) else set(map(name_of, selection.objects))


def _clusters(state: HubState, placement: JsonObject) -> Iterator[str]:
    try:
        bindings = scheduled(state, placement).bindings
    except BrokenBindingError:
        return
    for binding in bindings:
        if dict_at(binding, "spec").get("state") in ("Scheduled", "Bound") and not is_deleting(binding):
            yield text_at(binding, "spec", "targetCluster")


def _with_namespaces(member: MemberCluster, names: set[str]) -> MemberCluster:
    namespaces = {**dict.fromkeys(sorted(names), ""), **(member.status.namespaces or {})}
    status = member.status.model_copy(update={"namespaces": namespaces})
    return member.model_copy(update={"status": status})
