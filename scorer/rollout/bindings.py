"""Bindings for the planners: a parsed view, predicates such as failed and ready, and the updates of a rollout.

Views are parsed from raw documents, because a resync reads every binding of every placement.

Source: docs/specifications/rollout.md 5; KubeFleet pkg/utils/binding.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from scorer.api.conditions import FALSE, TRUE, make_condition, merge_conditions
from scorer.api.meta import JsonObject, format_time, parse_time, read_instant
from scorer.api.names import (
    CONTENT_REMOVED_AT,
    CONTENT_REMOVED_IN,
    OBJECTS_REMOVAL,
    OLDER_THAN_APPLIED,
    REMOVAL_PENDING,
    WORK_CLEANUP,
)
from scorer.api.placement.binding import BindingState, previous_state
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    dicts_at,
    generation_of,
    is_deleting,
    name_of,
    spec_of,
    status_of,
    text_at,
    texts_at,
    with_finalizer,
    with_metadata,
    with_spec,
)

ROLLOUT_STARTED = "RolloutStarted"
WAITS_FOR_WINDOW = "waits for the member's windows: "
"""Prefix of the message of RolloutStarted while the maintenance windows of the member are closed."""
OVERRIDDEN = "Overridden"
WORK_SYNCHRONIZED = "WorkSynchronized"
APPLIED = "Applied"
AVAILABLE = "Available"
DIFF_REPORTED = "DiffReported"

PASSING_REASONS = frozenset({"OverriddenPending", "WorkNotSynchronizedYet", "ApplyPending", "ResourceNotAvailableYet"})
"""A False condition with one of these reasons is not a failure. The set is the reference's, although the work generator
never writes these reasons on a binding. The reasons that it does write must count as failures. Otherwise,
maxUnavailable could block the fixed release that replaces a broken one (rollout.md 5.4, example R5)."""

UNTRACKABLE_REASONS = frozenset({"NotAllWorkAreAvailabilityTrackable", "WorkNotTrackable"})


@dataclass(frozen=True, slots=True)
class Overrides:
    """Override snapshots for one cluster, in the order of application.

    Args:
        cluster: Names of ClusterResourceOverrideSnapshots.
        namespaced: Namespace and name of ResourceOverrideSnapshots.
    """

    cluster: tuple[str, ...] = ()
    namespaced: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "Overrides":
        """Read both lists of a binding's spec, or of a cluster in the status of a staged update run."""
        namespaced = dicts_at(spec, "resourceOverrideSnapshots")
        return cls(
            tuple(texts_at(spec, "clusterResourceOverrideSnapshots")),
            tuple((text_at(item, "namespace"), text_at(item, "name")) for item in namespaced),
        )

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Namespace and name of each snapshot, in the order of application. Cluster-scoped ones have no namespace."""
        return (*(("", name) for name in self.cluster), *self.namespaced)

    def fields(self) -> JsonObject:
        """Return both lists as fields of a binding's spec. An empty list is None, so that the field is absent."""
        namespaced = [{"name": name, "namespace": namespace} for namespace, name in self.namespaced]
        return {
            "clusterResourceOverrideSnapshots": list(self.cluster) or None,
            "resourceOverrideSnapshots": namespaced or None,
        }


NO_OVERRIDES = Overrides()


class PendingReason(StrEnum):
    """Reason why the content of an Unscheduled binding is not removed yet."""

    CONFIRMATION = "ConfirmationRequired"
    REPLACEMENT = "ReplacementNotAvailable"
    UPDATE_RUN = "UpdateRunRequired"

    def describe(self) -> str:
        """Return the reason as the end of a sentence about a cluster."""
        match self:
            case PendingReason.CONFIRMATION:
                return "its removal waits for confirmation"
            case PendingReason.REPLACEMENT:
                return "its removal waits until a cluster picked instead is available"
            case PendingReason.UPDATE_RUN:
                return "its removal waits for an update run"


@dataclass(frozen=True, slots=True)
class PendingRemoval:
    """The record on a binding whose content must not be removed yet.

    Args:
        reason: Reason for waiting.
        since: Start of the wait. None: unknown.
        groups: Digests of the roll-ups that included it when shown to users, the latest first.
        was_unconfirmed: The removal waited for confirmation before *reason* took precedence, and waits for it again
            when *reason* no longer applies.
    """

    reason: PendingReason
    since: datetime | None
    groups: tuple[str, ...] = ()
    was_unconfirmed: bool = False

    @classmethod
    def of(cls, binding: Mapping[str, Any]) -> "PendingRemoval | None":
        """Return the record of a binding. None if the removal is ordered, or the binding is not Unscheduled.

        A record with an unknown reason or time waits for confirmation since an unknown time. Neither a replacement nor
        an update run ends that wait.
        """
        text = annotation(binding, REMOVAL_PENDING)
        if not text or spec_of(binding).get("state") != BindingState.UNSCHEDULED:
            return None
        reason, _, rest = text.partition(" ")
        time, *words = rest.split(" ")
        groups = tuple(word for word in words if word != PendingReason.CONFIRMATION)
        try:
            return cls(PendingReason(reason), parse_time(time), groups, len(groups) < len(words))
        except ValueError:
            return cls(PendingReason.CONFIRMATION, None)

    @property
    def is_asked(self) -> bool:
        """Whether the removal waits for a user's confirmation, or waited for it before."""
        return self.was_unconfirmed or self.reason is PendingReason.CONFIRMATION

    def format(self) -> str:
        """Return the value of the annotation."""
        is_noted = self.is_asked and self.reason is not PendingReason.CONFIRMATION
        marker = [str(PendingReason.CONFIRMATION)] if is_noted else []
        time = [format_time(self.since)] if self.since else []
        return " ".join([str(self.reason), *time, *marker, *self.groups])


def pending_reason(binding: Mapping[str, Any]) -> PendingReason | None:
    """Return why the content of a binding is not removed yet. None if its removal is ordered, or not planned."""
    pending = PendingRemoval.of(binding)
    return pending.reason if pending else None


class ObjectRemoval(StrEnum):
    """Progress of a confirmed removal of objects that only one cluster loses."""

    CONFIRMED = "Confirmed"
    """The objects remain until the rollout, or an update run, updates the binding."""
    ORDERED = "Ordered"
    """The objects are removed from the Works of the binding now."""


_OBJECT_REMOVALS: Final = frozenset(ObjectRemoval)


def object_removal(binding: Mapping[str, Any]) -> ObjectRemoval | None:
    """Return the progress of a confirmed removal of objects from one cluster. None without a valid record."""
    text = annotation(binding, OBJECTS_REMOVAL)
    return ObjectRemoval(text) if text in _OBJECT_REMOVALS else None


def ordering_objects(document: JsonObject) -> JsonObject:
    """Return a binding with its confirmed removal of objects ordered, or the same binding if it has none."""
    if object_removal(document) is not ObjectRemoval.CONFIRMED:
        return document
    return with_metadata(document, annotations={OBJECTS_REMOVAL: str(ObjectRemoval.ORDERED)})


@dataclass(frozen=True, slots=True)
class BindingView:
    """A binding as parsed for planners.

    Args:
        name: Name, the sort key of planners.
        cluster: ``spec.targetCluster``.
        state: ``spec.state``.
        snapshot: Name of the master resource snapshot, empty until bound.
        overrides: The override lists it was bound with.
        deleting: Whether it has a deletion timestamp.
        previous_state: The state of an Unscheduled binding before it was dropped, empty if not recorded.
        conditions: The conditions for its current generation, by type.
        empty: Whether it is Unscheduled and has no Works: its cluster has none of its content, and will not get any.
        superseded: Whether its snapshot group is incomplete and has been replaced by a later one. No Works are created
            from such a group.
        pending: Reason why its content is not removed yet. None if the removal is ordered, or it is not Unscheduled.
        content_removed: Time at which its cluster lost content by a confirmed removal. None: unset.
        object_removal: Progress of a confirmed removal of objects from its cluster alone. None: unset.
    """

    name: str
    cluster: str
    state: BindingState
    snapshot: str = ""
    overrides: Overrides = NO_OVERRIDES
    deleting: bool = False
    previous_state: str = ""
    conditions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    empty: bool = False
    superseded: bool = False
    pending: PendingReason | None = None
    content_removed: datetime | None = None
    object_removal: ObjectRemoval | None = None

    @classmethod
    def of(cls, document: JsonObject, *, empty: bool = False, is_superseded: bool = False) -> "BindingView":
        """Read a ClusterResourceBinding or ResourceBinding.

        Raises:
            ValueError: ``spec.state`` is none of the three states.
        """
        spec = spec_of(document)
        generation = generation_of(document)
        return cls(
            name=name_of(document),
            cluster=spec.get("targetCluster") or "",
            state=BindingState(spec.get("state") or ""),
            snapshot=spec.get("resourceSnapshotName") or "",
            overrides=Overrides.of(spec),
            deleting=is_deleting(document),
            previous_state=previous_state(document) or "",
            conditions={
                condition.get("type", ""): condition
                for condition in conditions_of(document)
                if (condition.get("observedGeneration") or 0) == generation
            },
            empty=empty,
            superseded=is_superseded,
            pending=pending_reason(document),
            content_removed=read_instant(annotation(document, CONTENT_REMOVED_AT)),
            object_removal=object_removal(document),
        )

    def status(self, kind: str) -> str:
        """Return the status of the current condition of type *kind*, or an empty string."""
        return str((self.conditions.get(kind) or {}).get("status") or "")


def holds_older(conditions: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the conditions of a binding report Works that are older than the state applied on its member."""
    return any(condition.get("reason") == OLDER_THAN_APPLIED for condition in conditions)


def is_rolling(binding: BindingView) -> bool:
    """Return whether a Bound binding is being rolled out: started, and neither available nor failed yet.

    An available binding is being rolled out while an ordered removal takes objects from its Works. A binding with the
    condition DiffReported is not, because it disrupts nothing.
    """
    return (
        binding.state is BindingState.BOUND
        and not binding.deleting
        and binding.status(ROLLOUT_STARTED) == TRUE
        and (binding.status(AVAILABLE) != TRUE or binding.object_removal is ObjectRemoval.ORDERED)
        and not is_failed(binding)
        and not has_diff_reported(binding)
    )


class BindingReadiness(NamedTuple):
    """Whether a binding is ready, and the time until it is. None: unknown, only an event makes it ready."""

    ready: bool
    wait: timedelta | None


def is_failed(binding: BindingView) -> bool:
    """Return whether the binding is known to have failed: ``failed(b)`` of rollout.md 5.4.

    DiffReported, a status Unknown and `PASSING_REASONS` are not failures. A superseded binding without the
    condition WorkSynchronized has failed, because it cannot get Works any more.
    """
    if binding.superseded and WORK_SYNCHRONIZED not in binding.conditions:
        return True
    for kind in (OVERRIDDEN, WORK_SYNCHRONIZED, APPLIED, AVAILABLE):
        condition = binding.conditions.get(kind)
        if condition and condition.get("status") == FALSE and condition.get("reason") not in PASSING_REASONS:
            return True
    return False


def has_diff_reported(binding: BindingView) -> bool:
    """Return whether differences were reported, or reporting failed: ``diffReported(b)`` of rollout.md 5.4."""
    return DIFF_REPORTED in binding.conditions


def readiness(binding: BindingView, now: datetime, unavailable_period: timedelta) -> BindingReadiness:
    """Return whether the binding counts as available: ``ready(b, now, U)`` of rollout.md 5.4.

    The first of these rules that applies decides:

    - A cluster that loses content by a confirmed removal is not ready while the content leaves its Works.
    - A binding is ready if DiffReported is True.
    - It is not ready unless Available is True.
    - It is not ready for *unavailable_period* after Available became True if availability is untrackable, nor after an
      update that removed content by a confirmed removal. At exactly that age it is not ready yet, and the wait is zero.

    A time that is further in the future than the period comes from a wrong clock and is ignored. Otherwise, the wait
    would be as long as the clock error.
    """
    if binding.object_removal is ObjectRemoval.ORDERED:
        return BindingReadiness(ready=False, wait=None)
    if binding.status(DIFF_REPORTED) == TRUE:
        return BindingReadiness(ready=True, wait=timedelta())
    available = binding.conditions.get(AVAILABLE)
    if not available or available.get("status") != TRUE:
        return BindingReadiness(ready=False, wait=None)
    since = available.get("lastTransitionTime") if available.get("reason") in UNTRACKABLE_REASONS else None
    times = [*([parse_time(since)] if since else []), *([binding.content_removed] if binding.content_removed else [])]
    ages = [age for time in times if abs(age := now - time) <= unavailable_period]
    if not ages:
        return BindingReadiness(ready=True, wait=timedelta())
    return BindingReadiness(ready=False, wait=unavailable_period - min(ages))


def losing_content(document: JsonObject, master: Mapping[str, Any], now: datetime) -> JsonObject:
    """Return a binding with its confirmed removals ordered and their time recorded, before an update to *master*.

    If the update removes no content by a confirmed removal, the binding is returned unchanged.

    Args:
        document: The binding before the update.
        master: The master snapshot to roll out.
        now: The current time.
    """
    removed_in = annotation(master, CONTENT_REMOVED_IN)
    index = snapshot_index(spec_of(document).get("resourceSnapshotName"))
    after = ordering_objects(document)
    if after is document and (not removed_in.isdecimal() or index is None or index >= int(removed_in)):
        return document
    return with_metadata(after, annotations={CONTENT_REMOVED_AT: format_time(now)})


def snapshot_index(master: object) -> int | None:
    """Return the index in the name of a master snapshot. None: unknown."""
    index = str(master or "").removesuffix("-snapshot").rpartition("-")[2]
    return int(index) if index.isascii() and index.isdigit() else None


def bound(document: JsonObject, snapshot: str, overrides: Overrides) -> JsonObject:
    """Return the binding in state Bound, with master snapshot *snapshot* and the override lists *overrides*.

    The same write adds the finalizer, which must exist before the first Work: without it the binding could be deleted
    right after the Works were created, and no controller would clean them up. The API server accepts no new
    finalizer on a binding that is being deleted. Such a binding gets no Works either.
    """
    if not is_deleting(document):
        document = with_finalizer(document, WORK_CLEANUP) or document
    return with_spec(document, state=str(BindingState.BOUND), resourceSnapshotName=snapshot, **overrides.fields())


def is_recreated(document: JsonObject) -> bool:
    """Return whether a binding was created in state Bound, and the rollout controller has not reported on it since.

    Such a binding was recreated in place of a lost one (`scorer.rollout.works.orphans`), or restored from a backup: its
    content has been rolled out before.
    """
    return (
        spec_of(document).get("state") == BindingState.BOUND
        and generation_of(document) == 1
        and not is_deleting(document)
        and all(condition.get("type") != ROLLOUT_STARTED for condition in conditions_of(document))
    )


def rollout_started_status(
    document: JsonObject, *, is_started: bool, message: str, now: datetime, renew: bool = True
) -> JsonObject | None:
    """Return the binding's ``status`` with RolloutStarted set, or None if unchanged.

    Args:
        document: The binding as stored. The condition is made for its current generation.
        is_started: False: held back by the limits of the rolling update.
        message: Human-readable message. If only the message has changed, it is written while the rollout is held back,
            but not once it has started.
        now: Transition time of conditions that change.
        renew: False: do not write if only the message has changed.
    """
    generation, status = generation_of(document), TRUE if is_started else FALSE
    reason = "RolloutStarted" if is_started else "RolloutNotStartedYet"
    old = conditions_of(document)
    for condition in old:
        state = (condition.get("status"), condition.get("reason"), condition.get("observedGeneration"))
        if condition.get("type") != ROLLOUT_STARTED or state != (status, reason, generation):
            continue
        if is_started or not renew or condition.get("message") == message:
            return None
    new_condition = make_condition(ROLLOUT_STARTED, status, reason, message, generation=generation, now=now)
    other_conditions = [condition for condition in old if condition.get("type") != ROLLOUT_STARTED]
    return {**status_of(document), "conditions": [*merge_conditions(old, [new_condition]), *other_conditions]}


def waits_for_window(condition: Mapping[str, Any]) -> bool:
    """Return whether a condition reports that the maintenance windows of the member are closed."""
    return str(condition.get("message") or "").startswith(WAITS_FOR_WINDOW)


def views(
    documents: Sequence[JsonObject], empty: Container[str] = (), superseded_names: Container[str] = ()
) -> list[BindingView]:
    """Return views of bindings, sorted by name.

    Args:
        documents: The bindings.
        empty: Names of those that are Unscheduled and have no Works.
        superseded_names: Names of master snapshots whose groups are incomplete and not the latest.

    Raises:
        ValueError: The ``spec.state`` of a binding is none of the three states.
    """
    views = (
        BindingView.of(
            document,
            empty=name_of(document) in empty,
            is_superseded=spec_of(document).get("resourceSnapshotName") in superseded_names,
        )
        for document in documents
    )
    return sorted(views, key=lambda view: view.name)
