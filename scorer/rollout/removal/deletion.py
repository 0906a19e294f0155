"""Deletion of a placement's bindings and Works: the order, and the content that remains on members.

``deleteStrategy.propagationPolicy: Abandon`` applies when the placement itself is deleted, and to no other loss of a
cluster. The placement may no longer exist when its Works are deleted, so its policy is recorded first, on each binding
and each Work before its deletion.

This order is crash-safe: nothing is deleted without a mark. A Work that the work generator creates while the placement
is already being deleted is marked before its deletion, like all other Works of its binding.

In the same way, the loop marks bindings and Works for removal before it deletes them
(`scorer.rollout.removal.marks`). A binding that is being deleted without that mark was deleted by another client. Its
Works remain, and the scheduler recreates it.

Source: docs/specifications/rollout.md 18 and 20. KubeFleet has the field without an implementation.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scorer.api.meta import JsonObject
from scorer.api.names import ABANDON, REMOVAL_PENDING, UNSCHEDULED_AT
from scorer.api.placement.binding import BindingState, previous_state
from scorer.api.unstructured.documents import (
    annotation,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    uid_of,
    with_metadata,
    with_spec,
)
from scorer.rollout.bindings import PendingReason, pending_reason
from scorer.rollout.removal.eviction import EVICTED_BINDING, is_finished
from scorer.rollout.removal.marks import is_marked_for_removal, with_removal_mark, without_removal_mark
from scorer.rollout.writes import Write, delete, replace

_REMOVABLE: Final = (None, PendingReason.UPDATE_RUN)
"""Reasons for marking a binding for removal without an eviction: the loop or an update run removes it."""


def leaves_objects(placement: Mapping[str, Any]) -> bool:
    """Return whether the objects of a placement remain on the members when it is deleted."""
    strategy = (spec_of(placement).get("strategy") or {}).get("deleteStrategy") or {}
    return strategy.get("propagationPolicy") == "Abandon"


def plan_binding_deletion(
    placement: JsonObject, bindings: Iterable[JsonObject], *, abandoned: bool | None = None
) -> list[Write]:
    """Return the writes that delete all bindings of a placement that is being deleted, in order.

    A binding that the loop is already deleting for another reason is skipped: its objects are removed regardless of the
    placement's policy. One that another client has deleted is treated like all others of the placement.

    Args:
        placement: ClusterResourcePlacement or ResourcePlacement with a deletion timestamp.
        bindings: All of its bindings.
        abandoned: Whether its objects remain on the members. None: unset, the delete strategy decides.
    """
    writes = []
    keeps_content = leaves_objects(placement) if abandoned is None else abandoned
    for binding in sorted(bindings, key=name_of):
        if is_deleting(binding) and is_removal_requested(binding):
            continue
        marked_binding = binding
        if keeps_content and annotation(binding, ABANDON) != "true":
            marked_binding = with_metadata(marked_binding, annotations={ABANDON: "true"})
        marked_binding = with_removal_mark(marked_binding) or marked_binding
        if marked_binding is not binding:
            # Before the deletion: a binding without a finalizer is deleted immediately.
            writes.append(replace(marked_binding))
        if not is_deleting(binding):
            writes.append(delete(binding))
    return writes


def is_removal_requested(binding: Mapping[str, Any]) -> bool:
    """Return whether the loop wants the content of a binding removed from its cluster.

    The state Unscheduled is such an order, too, if the loop has written it and the removal is not pending.
    """
    if is_marked_for_removal(binding):
        return True
    return _is_unscheduled(binding) and not is_unscheduled_by_others(binding) and pending_reason(binding) is None


def is_unscheduled_by_others(binding: Mapping[str, Any]) -> bool:
    """Return whether a client other than the loop has set a binding to Unscheduled.

    The loop records the previous state, or the pending removal, in the same write.
    """
    return _is_unscheduled(binding) and previous_state(binding) is None


def awaits_restoration(binding: Mapping[str, Any]) -> bool:
    """Return whether the scheduler is about to restore the state of a binding that another client has set.

    A binding that is being deleted is not restored. Its deletion may take as long as its member is unreachable.
    """
    return is_unscheduled_by_others(binding) and not is_deleting(binding)


def _is_unscheduled(binding: Mapping[str, Any]) -> bool:
    return bool(spec_of(binding).get("state") == BindingState.UNSCHEDULED)


def plan_states_restored(bindings: Iterable[JsonObject]) -> list[Write]:
    """Return the writes that restore the state of bindings that another client has set to Unscheduled.

    Nothing else of these bindings has changed, so nothing changes on the member. A binding with a snapshot was Bound. A
    binding that the loop had dropped waits for confirmation, because another client has removed its record.

    Args:
        bindings: All bindings of a placement that is not being deleted.
    """
    restorable = filter(awaits_restoration, bindings)
    return [replace(_with_restored_state(binding)) for binding in restorable]


def _with_restored_state(binding: JsonObject) -> JsonObject:
    if since := annotation(binding, UNSCHEDULED_AT):
        return with_metadata(binding, annotations={REMOVAL_PENDING: f"{PendingReason.CONFIRMATION} {since}"})
    state = BindingState.BOUND if spec_of(binding).get("resourceSnapshotName") else BindingState.SCHEDULED
    return with_spec(binding, state=str(state))


def plan_unmarking(bindings: Iterable[JsonObject], evictions: Iterable[Mapping[str, Any]]) -> list[Write]:
    """Return the writes that remove stale marks of `with_removal_mark` from bindings.

    A mark becomes stale if an eviction is withdrawn between mark and deletion, or if the definition of a placement is
    removed while the placement is being deleted. With a stale mark, a later accidental deletion by another client would
    be mistaken for a deletion by the loop. The abandon mark is set only for a placement that is being deleted, so it is
    always removed here.

    Args:
        bindings: All bindings of a placement that is not being deleted.
        evictions: All evictions on the hub.
    """
    marked_bindings = [binding for binding in bindings if not is_deleting(binding)]
    marked_bindings = [
        binding for binding in marked_bindings if is_marked_for_removal(binding) or annotation(binding, ABANDON)
    ]
    if not marked_bindings:
        return []
    evicted_uids = {annotation(eviction, EVICTED_BINDING) for eviction in evictions if not is_finished(eviction)}
    writes = []
    for binding in marked_bindings:
        updated = with_metadata(binding, annotations={ABANDON: None})
        is_ordered = _is_unscheduled(binding) and pending_reason(binding) in _REMOVABLE
        if not is_ordered and uid_of(binding) not in evicted_uids:
            updated = without_removal_mark(updated)
        if updated != binding:
            writes.append(replace(updated))
    return writes


def is_abandoned(binding: Mapping[str, Any]) -> bool:
    """Return whether the objects that a binding has placed remain when it is deleted."""
    return annotation(binding, ABANDON) == "true"


def is_member(member: Mapping[str, Any] | None) -> bool:
    """Return whether a MemberCluster is in the fleet: no content is removed from one that is leaving or deleted."""
    return member is not None and not is_deleting(member)


def plan_work_deletion(
    works: Iterable[JsonObject], member: Mapping[str, Any] | None, *, abandoned: bool
) -> list[Write]:
    """Return the writes that delete Works, in order. Empty if all are being deleted as intended.

    Each Work is first marked for removal, even one that another client has deleted: the agent removes content only with
    the mark. For a member that is leaving or deleted, marks are removed instead, and the content remains.

    Args:
        works: The Works to delete.
        member: Their MemberCluster. None if it does not exist.
        abandoned: Whether their content remains on the member, unless the loop has already ordered its removal.
    """
    writes = []
    has_member = is_member(member)
    for work in sorted(works, key=lambda work: (namespace_of(work), name_of(work))):
        updated = (with_removal_mark(work) or work) if has_member else without_removal_mark(work)
        is_removal_ordered = is_deleting(work) and is_marked_for_removal(work)
        if abandoned and not is_removal_ordered and annotation(work, ABANDON) != "true":
            # In the same write as the order: an agent that read the order alone would remove the content.
            updated = with_metadata(updated, annotations={ABANDON: "true"})
        if updated is not work:
            writes.append(replace(updated))
        if not is_deleting(work):
            writes.append(delete(work))
    return writes
