"""Texts about pending removals: the condition, its message, and Events.

Source: docs/specifications/removal.md 9.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from scorer.api.conditions import FALSE, TRUE, make_condition, merge_conditions
from scorer.api.event import Event
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import (
    ACCEPT_OLDER_UNTIL,
    CONFIRM_REMOVAL,
    CONTENT_REMOVED_IN,
    REMOVAL_CONFIRMATION,
    REMOVAL_PENDING_CONDITION,
    RESOURCES_SELECTED,
)
from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import StrategyType
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    generation_of,
    is_deleting,
    name_of,
    spec_of,
    status_of,
    text_at,
    uid_of,
)
from scorer.rollout.bindings import PendingReason, holds_older, object_removal, pending_reason, snapshot_index
from scorer.rollout.confirmation.clusters import cluster_item
from scorer.rollout.confirmation.digests import (
    CarriedOut,
    ConfirmableGroup,
    Confirmation,
    RemovalEffect,
    RemovalItem,
    confirmable_groups,
    room_for_digests,
    validity_error,
)
from scorer.rollout.confirmation.objects import pending_objects
from scorer.rollout.confirmation.on_cluster import pending_binding_items
from scorer.rollout.snapshots.groups import placed_group, snapshot_groups

CONFIRMATION_REQUIRED: Final = str(PendingReason.CONFIRMATION)
REMOVAL_IN_PROGRESS: Final = "RemovalInProgress"
NO_RESOURCES_SELECTED: Final = "NoResourcesSelected"
CONTENT_ORPHANED: Final = "PlacementContentOrphaned"
"""Reason of the Event about content that remains when its namespace on the hub is deleted."""
REMOVED_WITH_WARNING: Final = "ContentRemoved"
"""Reason of the Event about a removal that proceeds with a warning."""
CONFIRMATION_BYPASSED: Final = "RemovalConfirmationBypassed"
"""Reason of the Event about pending removals that proceed because confirmation was switched off."""
UNCONFIRMED_REASONS: Final = (REMOVED_WITH_WARNING, CONFIRMATION_BYPASSED, CONTENT_ORPHANED)
"""Reasons of the Events about content whose removal no user has confirmed."""
_UNTIL_CONFIRMED: Final = " until confirmed: "
_LONGEST_MESSAGE: Final = 16_384
_MOST_NAMED: Final = 10


def pending_items(snapshots: Iterable[JsonObject], bindings: Iterable[JsonObject]) -> tuple[RemovalItem, ...]:
    """Return the objects and clusters of a placement that wait for confirmation, as the loop has recorded them.

    Args:
        snapshots: All resource snapshots of the placement.
        bindings: All of its bindings.
    """
    objects = pending_objects(placed_group(snapshot_groups(snapshots)))
    live_bindings = [binding for binding in bindings if not is_deleting(binding)]
    binding_items = {item for binding in live_bindings for item in pending_binding_items(binding)}
    unconfirmed_bindings = (
        binding for binding in live_bindings if pending_reason(binding) is PendingReason.CONFIRMATION
    )
    return (*objects, *sorted(binding_items), *sorted(map(cluster_item, unconfirmed_bindings)))


def oldest(items: Iterable[RemovalItem]) -> datetime | None:
    """Return when the oldest of *items* became pending. None if there are no pending items."""
    return min((item.since for item in items if item.since), default=None)


def pending_message(
    placement: JsonObject, items: Sequence[RemovalItem], now: datetime, bindings: Iterable[JsonObject] = ()
) -> str:
    """Return the message about pending removals.

    It contains the effect, the digests, the reason why a confirmation does not count, and the clusters that hold older
    Works.

    Args:
        placement: With its annotations.
        items: The pending items.
        now: The current time.
        bindings: All of its bindings.
    """
    groups = confirmable_groups(uid_of(placement), items)
    effects = ", ".join(_effects(items))
    entries, size = [], 0
    for group in groups:
        entry = f"{group} ({group.digest})"
        size += len(entry) + 2
        if size > _LONGEST_MESSAGE:
            break
        entries.append(entry)
    more = f" and {len(groups) - len(entries)} more" if len(groups) > len(entries) else ""
    message = f"{effects}{_UNTIL_CONFIRMED}{', '.join(entries)}{more}"
    bindings = list(bindings)
    problem = confirmation_problem(placement, now) or _spent_problem(placement, groups, now, bindings)
    problems = [f"{CONFIRM_REMOVAL}: {problem}"] if problem else []
    return "; ".join([message, *problems, *_restored_hub(bindings)])


def _restored_hub(bindings: Iterable[JsonObject]) -> Iterator[str]:
    """Yield a message about the clusters that hold Works older than what was applied: the hub was restored."""
    bindings_behind = (binding for binding in bindings if holds_older(conditions_of(binding)))
    if names := sorted(text_at(binding, "spec", "targetCluster") for binding in bindings_behind):
        yield f"older Works are held on {_name_list(names)}: {ACCEPT_OLDER_UNTIL} accepts them, but confirms no removal"


def _effects(items: Sequence[RemovalItem]) -> Iterable[str]:
    objects = sum(item.objects for item in items if item.effect is RemovalEffect.OBJECT)
    clusters = sum(item.effect is RemovalEffect.CLUSTER for item in items)
    if objects:
        yield f"{objects} object{'s' if objects > 1 else ''} remain{'' if objects > 1 else 's'} on the members"
    if clusters:
        yield f"the content remains on {clusters} dropped cluster{'s' if clusters > 1 else ''}"
    if any(item.effect is RemovalEffect.PLACEMENT for item in items):
        yield "the content of the deleted placement remains"


def confirmation_problem(placement: JsonObject, now: datetime) -> str:
    """Return why the confirmation on a placement does not count. Empty: it counts, or is unset."""
    text = annotation(placement, CONFIRM_REMOVAL)
    if not text:
        return ""
    try:
        return validity_error(Confirmation.parse(text), now)
    except ValueError as error:
        return str(error)


def _spent_problem(
    placement: JsonObject, groups: Iterable[ConfirmableGroup], now: datetime, bindings: Iterable[JsonObject]
) -> str:
    """Return why a confirmed digest is still pending. Empty: none is, or the cause is unknown."""
    confirmation = Confirmation.of(placement, now)
    confirmed_digests = sorted(confirmation.digests.intersection(group.digest for group in groups))
    if not confirmed_digests or confirmation.expiry is None:
        return ""
    waiting_bindings = (binding for binding in bindings if pending_binding_items(binding) or pending_reason(binding))
    records = [CarriedOut.of(document).without_expired(now) for document in (placement, *waiting_bindings)]
    spent_digests = [
        digest
        for digest in confirmed_digests
        if not all(record.is_renewed(digest, confirmation.expiry) for record in records)
    ]
    if spent_digests:
        until = max(record.until[spent_digests[0]] for record in records if spent_digests[0] in record.until)
        return (
            f"{spent_digests[0]} has been carried out before. To confirm it again, set an expiry after "
            f"{format_time(until)}"
        )
    if room_for_digests(placement, now) == 0:
        until = min(records[0].until.values(), default=confirmation.expiry)
        return f"the record of carried-out removals is full until {format_time(until)}"
    return ""


def with_removal_pending(
    placement: JsonObject,
    status: JsonObject,
    items: Sequence[RemovalItem],
    now: datetime,
    bindings: Iterable[JsonObject] = (),
    snapshots: Iterable[JsonObject] = (),
) -> JsonObject:
    """Return a status with the condition RemovalPending.

    The condition is absent if nothing is pending, left to update runs, or being removed after a confirmation.

    Args:
        placement: With its stored status, which has the time of the last transition.
        status: The status to store.
        items: The pending items. The condition has the time of the oldest one as its transition time.
        now: The current time. It is the transition time if no item has a time.
        bindings: All of its bindings, which also record digests that were carried out.
        snapshots: All of its resource snapshots.
    """
    conditions, bindings = [], tuple(bindings)
    run_bindings = [binding for binding in bindings if pending_reason(binding) is PendingReason.UPDATE_RUN]
    if items:
        message = pending_message(placement, items, now, bindings)
        since = oldest(items) or now
        conditions.append(_condition(placement, REMOVAL_PENDING_CONDITION, TRUE, CONFIRMATION_REQUIRED, message, since))
    elif run_bindings:
        conditions.append(_update_run_condition(placement, run_bindings, now))
    elif clusters := clusters_in_removal(placement, bindings, snapshots):
        conditions.append(_progress_condition(placement, clusters, now))
    return _with_conditions(placement, status, conditions, REMOVAL_PENDING_CONDITION)


def _update_run_condition(placement: JsonObject, bindings: Sequence[JsonObject], now: datetime) -> JsonObject:
    """Return the condition about the dropped clusters of an External placement. Update runs remove their content."""
    items = sorted(map(cluster_item, bindings))
    clusters = _name_list([item.cluster for item in items])
    message = f"{', '.join(_effects(items))} until an update run removes it: {clusters}"
    reason = str(PendingReason.UPDATE_RUN)
    return _condition(placement, REMOVAL_PENDING_CONDITION, TRUE, reason, message, oldest(items) or now)


def clusters_in_removal(
    placement: JsonObject, bindings: Iterable[JsonObject], snapshots: Iterable[JsonObject] = ()
) -> tuple[str, ...]:
    """Return the clusters that still have content whose removal is confirmed, sorted.

    Update runs may roll back to a snapshot with the content, so snapshots of an External placement do not count.

    Args:
        placement: The placement.
        bindings: All of its bindings.
        snapshots: All of its resource snapshots.
    """
    is_external = text_at(placement, "spec", "strategy", "type") == StrategyType.EXTERNAL
    indices = [annotation(snapshot, CONTENT_REMOVED_IN) for snapshot in ([] if is_external else snapshots)]
    first = max((int(index) for index in indices if index.isdecimal()), default=0)

    def has_confirmed_removal(binding: JsonObject) -> bool:
        if spec_of(binding).get("state") == BindingState.UNSCHEDULED:
            carried_out_digests = CarriedOut.of(binding).until
            return (
                pending_reason(binding) is None
                and cluster_item(binding).digest(uid_of(placement)) in carried_out_digests
            )
        index = snapshot_index(spec_of(binding).get("resourceSnapshotName"))
        return object_removal(binding) is not None or (index is not None and index < first)

    return tuple(
        sorted(text_at(binding, "spec", "targetCluster") for binding in bindings if has_confirmed_removal(binding))
    )


def with_removal_in_progress(
    placement: JsonObject, status: JsonObject, clusters: Sequence[str], now: datetime
) -> JsonObject:
    """Return a status with the condition RemovalPending False: the removal of all content is confirmed.

    Args:
        placement: With its stored status. It is being deleted.
        status: The status to store.
        clusters: The clusters that still have content.
        now: Transition time of conditions that change.
    """
    conditions = [_progress_condition(placement, clusters, now)]
    return _with_conditions(placement, status, conditions, REMOVAL_PENDING_CONDITION)


def _progress_condition(placement: JsonObject, clusters: Sequence[str], now: datetime) -> JsonObject:
    subject = "1 cluster still has" if len(clusters) == 1 else f"{len(clusters)} clusters still have"
    message = f"{subject} content whose removal is confirmed: {_name_list(clusters)}"
    return _condition(placement, REMOVAL_PENDING_CONDITION, FALSE, REMOVAL_IN_PROGRESS, message, now)


def with_resources_selected(placement: JsonObject, status: JsonObject, count: int, now: datetime) -> JsonObject:
    """Return a status with the condition ResourcesSelected False if a placement selects nothing, else without it."""
    message = "no object on the hub matches spec.resourceSelectors"
    empty = [_condition(placement, RESOURCES_SELECTED, FALSE, NO_RESOURCES_SELECTED, message, now)]
    return _with_conditions(placement, status, [] if count else empty, RESOURCES_SELECTED)


def _condition(placement: JsonObject, kind: str, status: Any, reason: str, message: str, since: datetime) -> JsonObject:
    return make_condition(kind, status, reason, message, generation=generation_of(placement), now=since)


def _with_conditions(
    placement: JsonObject, status: JsonObject, new_conditions: Sequence[JsonObject], kind: str
) -> JsonObject:
    other_conditions = [condition for condition in status.get("conditions") or () if condition.get("type") != kind]
    conditions = [*other_conditions, *merge_conditions(conditions_of(placement), new_conditions)]
    return {**status, "conditions": conditions} if conditions or "conditions" in status else status


def pending_events(placement: JsonObject, status: Mapping[str, Any]) -> Iterable[Event]:
    """Yield an Event when the message about pending removals changes, or a placement no longer selects anything."""
    old = {condition.get("type"): condition for condition in conditions_of(placement)}
    new = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    pending, previous = new.get(REMOVAL_PENDING_CONDITION), old.get(REMOVAL_PENDING_CONDITION)
    if (
        pending
        and pending.get("reason") == CONFIRMATION_REQUIRED
        and pending.get("message") != (previous or {}).get("message")
    ):
        yield Event(REMOVAL_PENDING_CONDITION, str(pending.get("message"))[:1024], "Warning")
    had_content = bool(status_of(placement).get("selectedResources"))
    if RESOURCES_SELECTED in new and RESOURCES_SELECTED not in old and had_content:
        yield Event(NO_RESOURCES_SELECTED, str(new[RESOURCES_SELECTED].get("message")), "Warning")


def orphaned_event(placement: JsonObject, clusters: Sequence[str]) -> Event:
    """Return the Event about content that remains because its namespace was deleted without a confirmation."""
    message = (
        f"the content of ResourcePlacement {name_of(placement)} remains on {_name_list(clusters)}, "
        "because its removal was not confirmed. To have it managed, create the placement again"
    )
    return Event(CONTENT_ORPHANED, message, "Warning")


def warning_event(items: Sequence[RemovalItem], clusters: Sequence[str] = ()) -> Event:
    """Return the Event about content that is removed with a warning."""
    subjects = [*map(str, items), *(f"cluster {cluster}" for cluster in clusters)]
    return Event(REMOVED_WITH_WARNING, f"removed without confirmation: {_name_list(subjects)}", "Warning")


def bypassed_event(placement: JsonObject) -> Event | None:
    """Return the Event about removals that were pending when confirmation was switched off. None if nothing was."""
    kinds = {condition.get("type"): condition for condition in conditions_of(placement)}
    pending = kinds.get(REMOVAL_PENDING_CONDITION)
    if pending is None or pending.get("reason") != CONFIRMATION_REQUIRED:
        return None
    source = f"the annotation {REMOVAL_CONFIRMATION}" if annotation(placement, REMOVAL_CONFIRMATION) else "the settings"
    # The effect is left out, because it no longer applies.
    _, _, removals_text = str(pending.get("message")).rpartition(_UNTIL_CONFIRMED)
    message = f"{source} switched confirmation off. These pending removals proceed: {removals_text}"
    return Event(CONFIRMATION_BYPASSED, message[:1024], "Warning")


def _name_list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"
