"""The copy of a placement's status in the namespace that it places, for users without rights to cluster-scoped objects.

Source: docs/specifications/rollout.md 16.6; KubeFleet pkg/controllers/placement, ClusterResourcePlacementStatus.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from scorer.api.conditions import FALSE, TRUE, make_condition, merge_conditions
from scorer.api.kinds import NAMESPACE, PLACEMENT_STATUS
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import (
    conditions_of,
    dicts_at,
    generation_of,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
)
from scorer.rollout.status.placement_conditions import STATUS_SYNCED, condition_type
from scorer.rollout.writes import Write, create, replace


def reported_namespace(placement: JsonObject) -> str:
    """Return the namespace that should hold the copy, empty if disabled or if no namespace is selected yet."""
    spec = spec_of(placement)
    if spec.get("statusReportingScope") != "NamespaceAccessible":
        return ""
    for term in spec.get("resourceSelectors") or ():
        if (term.get("group") or "", term.get("kind")) == NAMESPACE.group_kind and term.get("name"):
            return str(term["name"])
    for item in dicts_at(placement, "status", "selectedResources"):
        if (item.get("group") or "", item.get("kind")) == NAMESPACE.group_kind:
            return str(item.get("name") or "")
    return ""


def copy_namespace(placement: JsonObject, copies: Iterable[JsonObject]) -> str:
    """Return the namespace of the copy. It never moves, even if the placement now selects another namespace.

    Args:
        placement: A ClusterResourcePlacement with `reported_namespace`.
        copies: The ClusterResourcePlacementStatus objects of its name, in any namespace.
    """
    namespace = reported_namespace(placement)
    return min(_elsewhere(namespace, copies), default=namespace)


def _elsewhere(namespace: str, copies: Iterable[JsonObject]) -> list[str]:
    return [namespace_of(copy) for copy in copies if namespace_of(copy) != namespace]


def moved_namespace_error(placement: JsonObject, copies: Iterable[JsonObject]) -> str:
    """Return why the placement is invalid: its copy cannot move to another namespace. Empty if it need not move.

    Args:
        placement: A ClusterResourcePlacement.
        copies: The ClusterResourcePlacementStatus objects of its name, in any namespace.
    """
    namespace = reported_namespace(placement)
    other_namespaces = sorted(_elsewhere(namespace, copies))
    if not namespace or not other_namespaces:
        return ""
    return (
        f"statusReportingScope is NamespaceAccessible and the status is reported in namespace {other_namespaces[0]}: "
        f"the selected namespace cannot change to {namespace}"
    )


def plan_status_copy(
    placement: JsonObject, status: Mapping[str, Any], copy: JsonObject | None, now: datetime
) -> Write | None:
    """Return the write that makes the copy match *status*, or None if it matches already.

    Args:
        placement: A ClusterResourcePlacement with `reported_namespace`.
        status: New status of the placement.
        copy: The ClusterResourcePlacementStatus of its name in that namespace. None if it does not exist.
        now: ``lastUpdatedTime`` of a changed copy.
    """
    synced_type = condition_type(placement, STATUS_SYNCED)
    conditions = [condition for condition in status.get("conditions") or () if condition.get("type") != synced_type]
    source = {**status, "conditions": conditions}
    if copy is not None:
        is_current = copy.get("sourceStatus") == source
        return None if is_current else replace({**copy, "sourceStatus": source, "lastUpdatedTime": format_time(now)})
    return create(
        {
            "apiVersion": PLACEMENT_STATUS.api_version,
            "kind": PLACEMENT_STATUS.kind,
            "metadata": {
                "name": name_of(placement),
                "namespace": reported_namespace(placement),
                "ownerReferences": [owner_reference(placement)],
            },
            "sourceStatus": source,
            "lastUpdatedTime": format_time(now),
        }
    )


def with_status_synced(placement: JsonObject, status: JsonObject, error: str, now: datetime) -> JsonObject:
    """Return *status* with the condition StatusSynced. *error* is the failure to write the copy, if any."""
    kind = condition_type(placement, STATUS_SYNCED)
    reason, message = ("StatusSyncFailed", error) if error else ("StatusSyncSucceeded", "the copy is up to date")
    condition = make_condition(
        kind, FALSE if error else TRUE, reason, message, generation=generation_of(placement), now=now
    )
    other_conditions = [condition for condition in status.get("conditions") or () if condition.get("type") != kind]
    return {**status, "conditions": [*other_conditions, *merge_conditions(conditions_of(placement), [condition])]}
