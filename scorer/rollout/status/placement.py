"""The status of a placement, made from the policy snapshot, the bindings and the resource snapshots.

A second call with the stored result changes nothing: a condition keeps its transition time while its status is the
same.

Source: docs/specifications/rollout.md 16 and 17; docs/specifications/scheduling.md 17; KubeFleet
pkg/controllers/placement/placement_status.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from scorer.api.conditions import FALSE, TRUE, UNKNOWN, ConditionStatus, make_condition, merge_conditions
from scorer.api.event import Event
from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import PlacementType, StrategyType
from scorer.api.unstructured.documents import (
    conditions_of,
    current_condition,
    find_current,
    generation_of,
    is_deleting,
    metadata_of,
    name_of,
    spec_of,
    status_of,
)
from scorer.rollout.bindings import (
    APPLIED,
    AVAILABLE,
    DIFF_REPORTED,
    OVERRIDDEN,
    ROLLOUT_STARTED,
    holds_older,
    pending_reason,
)
from scorer.rollout.object_size import (
    OBJECT_SIZE_LIMIT,
    OBJECTS_TOO_LARGE,
    TOO_LARGE_REASON,
    TooLarge,
    describe,
    stored_size,
)
from scorer.rollout.planner import RequestedClusters, RollingUpdateLimits
from scorer.rollout.removal.marks import FINALIZERS_REMAIN, REMOVED
from scorer.rollout.status.placement_conditions import (
    CONDITION_WORDS,
    SCHEDULED,
    STATUS_SYNCED,
    condition_type,
    expected_conditions,
    is_complete,
    messages_of_clusters,
    placement_condition,
)
from scorer.rollout.status.progress import STALLED, STALLED_REASON, find_stall
from scorer.rollout.works.hub_restore import NEXT_STEP

RESYNC = timedelta(minutes=30)
"""Resync period of a placement that is not complete."""

_LISTS_OF_AGENTS = frozenset({"failedPlacements", "driftedPlacements", "diffedPlacements"})
"""The part of a cluster's entry that its agent reports."""


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """The parts of a resource snapshot group that a status needs.

    Args:
        name: Name of the master.
        index: Its index.
        identifiers: The content, as ``status.selectedResources`` names it.
    """

    name: str
    index: int
    identifiers: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacementReport:
    """The status to store, and the events to record.

    Args:
        status: The complete ``status``.
        events: Only for new transitions.
        complete: Whether Scheduled and all expected conditions are True.
        look_again: Time until the rollout counts as stalled if it makes no progress. None: disabled, because it cannot
            stall or has stalled already.
    """

    status: JsonObject
    events: tuple[Event, ...]
    complete: bool
    look_again: timedelta | None = None

    @property
    def requeue_after(self) -> timedelta | None:
        """Delay before a requeue without an event. None: disabled, because the rollout is complete and cannot stall."""
        if self.look_again is not None:
            return min(self.look_again, RESYNC)
        return None if self.complete else RESYNC


def invalid_selection(placement: JsonObject, message: str, now: datetime) -> PlacementReport:
    """Report an error in the resource selectors: Scheduled is False, all else is unchanged (rollout.md 2.8).

    Only the condition Stalled is removed: the rollout may continue, and this controller does not evaluate it until the
    user corrects the error.
    """
    scheduled = placement_condition(placement, SCHEDULED, FALSE, "InvalidResourceSelectors", message, now)
    old = conditions_of(placement)
    over = (scheduled["type"], condition_type(placement, STALLED))
    other_conditions = [condition for condition in old if condition.get("type") not in over]
    status = {**status_of(placement), "conditions": [*merge_conditions(old, [scheduled]), *other_conditions]}
    return PlacementReport(status, tuple(_scheduling_events(placement, scheduled)), complete=False)


def _scheduling_events(placement: JsonObject, scheduled: JsonObject) -> Iterator[Event]:
    """Yield an Event if a placement got its clusters or did not, once per decision on one generation."""
    previous = find_current(conditions_of(placement), scheduled["type"], generation_of(placement)) or {}
    if all(previous.get(member) == scheduled[member] for member in ("status", "reason")):
        return
    if scheduled["status"] == TRUE:
        yield Event("PlacementScheduled", scheduled["message"])
    elif scheduled["status"] == FALSE:
        yield Event("PlacementNotScheduled", scheduled["message"], "Warning")


def placement_status(
    placement: JsonObject,
    policy_snapshot: JsonObject | None,
    bindings: Iterable[JsonObject],
    latest: SnapshotView | None,
    now: datetime,
    *,
    snapshots: Mapping[str, SnapshotView] = MappingProxyType({}),
    stall_timeout: timedelta | None = None,
    too_large: Sequence[TooLarge] = (),
) -> PlacementReport:
    """Return the status of a placement with valid selectors.

    Args:
        placement: ClusterResourcePlacement or ResourcePlacement, with its current status.
        policy_snapshot: The latest one. None before the first one exists.
        bindings: All bindings of the placement.
        latest: The content in force. None before there is any. Not used with an External strategy.
        now: Transition time of conditions that change.
        snapshots: The groups that bindings point at, by name of the master. Only needed for an External strategy.
        stall_timeout: Time without progress after which a rolling update counts as stalled. None: disabled.
        too_large: Selected objects whose current content does not fit into a snapshot.
    """
    reporter = _Reporter(placement, policy_snapshot, bindings, latest, now, snapshots, stall_timeout)
    return reporter.report(too_large)


class _Reporter:
    def __init__(
        self,
        placement: JsonObject,
        policy_snapshot: JsonObject | None,
        bindings: Iterable[JsonObject],
        latest: SnapshotView | None,
        now: datetime,
        snapshots: Mapping[str, SnapshotView],
        stall_timeout: timedelta | None,
    ) -> None:
        strategy = spec_of(placement).get("strategy") or {}
        self._placement = placement
        self._policy_snapshot = policy_snapshot
        self._latest = latest
        self._now = now
        self._snapshots = snapshots
        self._stalled_after = stall_timeout
        self._external = strategy.get("type") == StrategyType.EXTERNAL
        self._expected = expected_conditions(placement)
        self._wanted = RequestedClusters.of(spec_of(placement).get("policy"))
        policy = name_of(policy_snapshot or {})
        self._all = tuple(bindings)
        counted_bindings = (
            binding
            for binding in self._all
            if not is_deleting(binding) and spec_of(binding).get("schedulingPolicySnapshotName") == policy
        )
        # A live binding hides an Unscheduled one of the same cluster.
        self._bindings = {
            str(spec_of(binding).get("targetCluster")): binding
            for binding in sorted(
                counted_bindings, key=lambda binding: spec_of(binding).get("state") != BindingState.UNSCHEDULED
            )
        }
        old = status_of(placement).get("placementStatuses") or ()
        self._old_clusters = {entry["clusterName"]: entry for entry in old if entry.get("clusterName")}
        self._old_shortfall = [entry for entry in old if not entry.get("clusterName")]

    def report(self, too_large: Sequence[TooLarge]) -> PlacementReport:
        old_status = status_of(self._placement)
        scheduled = self._scheduled_condition()
        status: JsonObject = {**old_status}
        if self._latest is not None and not self._external:
            status["selectedResources"] = list(self._latest.identifiers)
            status["observedResourceIndex"] = str(self._latest.index)
        old = conditions_of(self._placement)
        if scheduled["status"] == UNKNOWN:
            status.pop("placementStatuses", None)
            conditions = [scheduled, *self._too_large(too_large), *self._not_removed()]
            over = (
                scheduled["type"],
                *(condition_type(self._placement, word) for word in (STALLED, OBJECTS_TOO_LARGE, REMOVED)),
            )
            other_conditions = [condition for condition in old if condition.get("type") not in over]
            status["conditions"] = [*merge_conditions(old, conditions), *other_conditions]
            return PlacementReport(status, tuple(self._object_events(old, conditions)), complete=False)
        decisions = status_of(self._policy_snapshot or {}).get("targetClusters") or ()
        selected = [decision for decision in decisions if decision.get("selected")]
        unselected_decisions = [decision for decision in decisions if not decision.get("selected")]
        entries = [self._entry(decision) for decision in selected]
        status["placementStatuses"] = [*entries, *self._shortfall(len(selected), unselected_decisions)]
        conditions = [scheduled]
        if self._external:
            conditions += self._external_conditions(entries, status)
        else:
            conditions += self._conditions(entries)
        requeue_after = self._stall(entries, conditions)
        conditions += [*self._too_large(too_large), *self._not_removed()]
        synced_type = condition_type(self._placement, STATUS_SYNCED)
        retained = [condition for condition in old if condition.get("type") == synced_type and self._is_synced()]
        stalled_type = condition_type(
            self._placement, STALLED
        )  # its transition time is that of the last progress, so the stored one is not kept
        old_conditions = [condition for condition in old if condition.get("type") != stalled_type]
        status["conditions"] = [*merge_conditions(old_conditions, conditions), *retained]
        status = _fit_status(self._placement, status)
        complete = is_complete(self._placement, status)
        changes = self._events(old_status, conditions, complete=complete)
        events = (*_scheduling_events(self._placement, scheduled), *changes)
        return PlacementReport(status, events, complete, requeue_after)

    def _stall(self, entries: Sequence[JsonObject], conditions: list[JsonObject]) -> timedelta | None:
        """Add the condition Stalled to *conditions* if the rollout is stalled.

        Otherwise return the time until it will be stalled, if it makes no progress now.
        """
        if self._stalled_after is None or self._external:
            return None
        picked = {entry["clusterName"] for entry in entries}
        other_bindings = (binding for binding in self._all if spec_of(binding).get("targetCluster") not in picked)
        leaving_bindings = (
            binding
            for binding in other_bindings
            if is_deleting(binding)
            or (spec_of(binding).get("state") == BindingState.UNSCHEDULED and pending_reason(binding) is None)
        )
        creation_time = parse_time(metadata_of(self._placement).get("creationTimestamp") or format_time(self._now))
        stall = find_stall(entries, self._expected[-1], leaving_bindings, creation_time)
        if stall is None:
            return None
        remaining_time = stall.since + self._stalled_after + _unavailable_period(self._placement) - self._now
        if remaining_time > timedelta():
            return remaining_time
        message = f"no progress since {format_time(stall.since)}. {stall.cluster}: {stall.why}"
        stalled_condition = placement_condition(self._placement, STALLED, TRUE, STALLED_REASON, message, stall.since)
        conditions.append(stalled_condition)
        return None

    def _too_large(self, too_large: Sequence[TooLarge]) -> Iterator[JsonObject]:
        """Yield the condition about objects too large for a snapshot, or made too large for a Work by overrides."""
        messages = [describe(too_large)] if too_large else []
        if messages := [*messages, *messages_of_clusters(self._bindings.values(), OBJECTS_TOO_LARGE)]:
            message = f"larger than the limit of etcd: {'; '.join(messages)}"
            yield placement_condition(self._placement, OBJECTS_TOO_LARGE, TRUE, TOO_LARGE_REASON, message, self._now)

    def _not_removed(self) -> Iterator[JsonObject]:
        """Yield the condition about objects that are no longer placed and cannot be deleted on clusters."""
        if messages := messages_of_clusters(self._all, REMOVED):
            message = f"objects that are no longer placed cannot be deleted: {'; '.join(messages)}"
            yield placement_condition(self._placement, REMOVED, FALSE, FINALIZERS_REMAIN, message, self._now)

    def _object_events(self, old: Sequence[JsonObject], conditions: Sequence[JsonObject]) -> Iterator[Event]:
        """Warn of objects that are too large or cannot be removed, and again when the message changes."""
        messages = {(condition.get("type"), condition.get("message")) for condition in old}
        for condition in conditions:
            if (condition["type"], condition["message"]) in messages:
                continue
            if condition["type"] == condition_type(self._placement, OBJECTS_TOO_LARGE):
                yield Event("PlacementObjectsTooLarge", condition["message"], "Warning")
            elif condition["type"] == condition_type(self._placement, REMOVED):
                yield Event("PlacementObjectsRemain", condition["message"], "Warning")

    def _is_synced(self) -> bool:
        return spec_of(self._placement).get("statusReportingScope") == "NamespaceAccessible"

    def _scheduled_condition(self) -> JsonObject:
        snapshot = self._policy_snapshot or {}
        condition = current_condition(snapshot, SCHEDULED)
        observed_generation = status_of(snapshot).get("observedCRPGeneration") or 0
        if not condition or condition.get("status") == UNKNOWN or observed_generation < generation_of(self._placement):
            message = "the scheduler has not evaluated the current policy yet"
            return placement_condition(self._placement, SCHEDULED, UNKNOWN, "SchedulePending", message, self._now)
        reason, message = str(condition.get("reason") or ""), str(condition.get("message") or "")
        return placement_condition(self._placement, SCHEDULED, condition["status"], reason, message, self._now)

    def _entry(self, decision: Mapping[str, Any]) -> JsonObject:
        cluster = str(decision.get("clusterName"))
        binding = self._bindings.get(cluster)
        old = (self._old_clusters.get(cluster) or {}).get("conditions") or ()
        conditions = [self._own(SCHEDULED, TRUE, "Scheduled", str(decision.get("reason") or ""))]
        conditions += self._cluster_conditions(binding)
        entry: JsonObject = {"clusterName": cluster, "observedResourceIndex": self._observed_index(binding)}
        if binding is not None:
            entry.update(_lists(binding, {condition["type"]: condition["status"] for condition in conditions}))
        entry["conditions"] = merge_conditions(old, conditions)
        return {key: value for key, value in entry.items() if value not in ("", [])}

    def _observed_index(self, binding: JsonObject | None) -> str:
        """Return the index to report for a cluster: the latest (DR-4), or that of its binding if External."""
        if not self._external:
            return str(self._latest.index) if self._latest else ""
        name = spec_of(binding or {}).get("resourceSnapshotName") or ""
        return str(self._snapshots[name].index) if name in self._snapshots else ""

    def _own(self, word: str, status: ConditionStatus, reason: str, message: str) -> JsonObject:
        """Return a condition of one cluster."""
        generation = generation_of(self._placement)
        return make_condition(word, status, reason, message, generation=generation, now=self._now)

    def _cluster_conditions(self, binding: JsonObject | None) -> Iterator[JsonObject]:
        started_condition = current_condition(binding, ROLLOUT_STARTED) if binding is not None else None
        is_latest = binding is not None and (
            self._external
            or (self._latest is not None and spec_of(binding).get("resourceSnapshotName") == self._latest.name)
        )
        if binding is None or not is_latest:
            if started_condition and started_condition.get("status") == FALSE:
                message = str(started_condition.get("message") or "")
                yield self._own(ROLLOUT_STARTED, FALSE, CONDITION_WORDS[ROLLOUT_STARTED].no, message)
            else:
                message = "no report yet on whether the rollout of the latest content has started"
                yield self._own(ROLLOUT_STARTED, UNKNOWN, CONDITION_WORDS[ROLLOUT_STARTED].unknown, message)
            return
        for word in self._expected:
            condition = current_condition(binding, word)
            if not condition or condition.get("status") not in (TRUE, FALSE):
                message = f"no report yet on whether {CONDITION_WORDS[word].good}"
                if self._external and word == ROLLOUT_STARTED:
                    message = "waiting for a staged update run"
                yield self._own(word, UNKNOWN, CONDITION_WORDS[word].unknown, message)
                return
            yield self._own(
                word, condition["status"], str(condition.get("reason") or ""), str(condition.get("message") or "")
            )
            if condition["status"] == FALSE:
                return

    def _shortfall(self, count: int, unselected_decisions: Sequence[Mapping[str, Any]]) -> Iterator[JsonObject]:
        missing = 0 if self._wanted.type is PlacementType.PICK_ALL else max(0, (self._wanted.number or 0) - count)
        for at, decision in enumerate(unselected_decisions[:missing]):
            message = f"{decision.get('clusterName')}: {decision.get('reason') or ''}"
            old = self._old_shortfall[at].get("conditions") or () if at < len(self._old_shortfall) else ()
            yield {"conditions": merge_conditions(old, [self._own(SCHEDULED, FALSE, "ScheduleFailed", message)])}

    def _conditions(self, entries: Sequence[JsonObject]) -> Iterator[JsonObject]:
        """Summarize the clusters, type by type, up to the first that is not True everywhere."""
        if not entries:
            return
        for word in self._expected:
            words = CONDITION_WORDS[word]
            statuses = [_status(entry, word) for entry in entries]
            unknown, bad = statuses.count(UNKNOWN), statuses.count(FALSE)
            if unknown:
                message = f"no report yet on whether {words.good} on {_clusters(unknown)}"
                yield self._summary(word, UNKNOWN, words.unknown, message, len(entries))
                return
            if bad:
                can_be_held = word in (APPLIED, DIFF_REPORTED)
                held_count = sum(can_be_held and holds_older(entry["conditions"]) for entry in entries)
                restore = (
                    f". Hub restored: Works are held on {_clusters(held_count)}. {NEXT_STEP}" if held_count else ""
                )
                yield self._summary(word, FALSE, words.no, f"on {_clusters(bad)} {words.bad}{restore}", len(entries))
                return
            reason, good = words.yes, words.good
            if word == OVERRIDDEN and not any(_overrides(entry) for entry in entries):
                reason, good = "NoOverrideSpecified", "no override applies"
            yield self._summary(word, TRUE, reason, f"on {_clusters(len(entries))} {good}", len(entries))

    def _summary(self, word: str, status: ConditionStatus, reason: str, message: str, placed_count: int) -> JsonObject:
        requested = self._wanted.number
        if word == ROLLOUT_STARTED and requested is not None and placed_count < requested:
            verb = "is" if 1 in (placed_count, requested) else "are"
            message += f". Only {placed_count} of {_clusters(requested)} {verb} picked"
        return placement_condition(self._placement, word, status, reason, message, self._now)

    def _external_conditions(self, entries: Sequence[JsonObject], status: JsonObject) -> Iterable[JsonObject]:
        """Summarize the clusters under an External strategy: only when all of them have the same content."""
        names = {self._snapshot_of(str(entry["clusterName"])) for entry in entries}
        common = self._snapshots.get(next(iter(names))) if len(names) == 1 else None
        status["observedResourceIndex"] = str(common.index) if common else ""
        status["selectedResources"] = list(common.identifiers) if common else []
        if not entries:
            return []
        reason = "RolloutControlledByExternalController"
        if common is None:
            message = f"{_clusters(len(entries))} do not have the same content. Update runs control the rollout"
            return [self._summary(ROLLOUT_STARTED, UNKNOWN, reason, message, len(entries))]
        unknown = [_status(entry, ROLLOUT_STARTED) for entry in entries].count(UNKNOWN)
        if unknown:
            message = f"no report yet on whether an update run has started on {_clusters(unknown)}"
            return [self._summary(ROLLOUT_STARTED, UNKNOWN, reason, message, len(entries))]
        return self._conditions(entries)

    def _snapshot_of(self, cluster: str) -> str:
        return str(spec_of(self._bindings.get(cluster) or {}).get("resourceSnapshotName") or "")

    def _events(
        self, old_status: Mapping[str, Any], conditions: Sequence[JsonObject], *, complete: bool
    ) -> Iterator[Event]:
        generation, old = generation_of(self._placement), old_status.get("conditions") or ()
        by_type = {condition_type(self._placement, word): word for word in self._expected}
        for condition in conditions:
            word = by_type.get(condition["type"])
            previous = find_current(old, condition["type"], generation)
            if word and condition["status"] == TRUE and not (previous and previous.get("status") == TRUE):
                yield Event(CONDITION_WORDS[word].event, condition["message"])
        kind = condition_type(self._placement, STALLED)
        if (now := find_current(conditions, kind, generation)) and not find_current(old, kind, generation):
            yield Event("PlacementRolloutStalled", now["message"], "Warning")
        yield from self._object_events(old, conditions)
        if complete and not is_complete(self._placement, old_status):
            yield Event("PlacementRolloutCompleted", "the rollout is complete")


def _unavailable_period(placement: JsonObject) -> timedelta:
    """Return how long a cluster may take to count as available. That wait is not a stall."""
    try:
        return RollingUpdateLimits.of(spec_of(placement).get("strategy")).unavailable_period
    except (ValueError, TypeError):  # an invalid period that got past admission
        return timedelta()


def _status(entry: JsonObject, word: str) -> str:
    """Return the status of a cluster's condition; Unknown if the chain of conditions ended before it."""
    return next((condition["status"] for condition in entry["conditions"] if condition["type"] == word), UNKNOWN)


def _clusters(count: int) -> str:
    return "1 cluster" if count == 1 else f"{count} clusters"


def _overrides(entry: JsonObject) -> bool:
    return bool(entry.get("applicableClusterResourceOverrides") or entry.get("applicableResourceOverrides"))


def _fit_status(placement: JsonObject, status: JsonObject) -> JsonObject:
    """Return a status that fits into one object: the longest lists of a cluster are omitted first.

    Their length is up to the agents. If the API server refused the status for its size, the reports of all other
    clusters would be lost.
    """
    entries: list[JsonObject] = status["placementStatuses"]
    if not any(_LISTS_OF_AGENTS & entry.keys() for entry in entries):
        return status
    surplus = stored_size({**placement, "status": status}) - OBJECT_SIZE_LIMIT
    if surplus <= 0:
        return status
    short = [_without_lists(entry) for entry in entries]
    savings = [stored_size(entry) - stored_size(short_entry) for entry, short_entry in zip(entries, short, strict=True)]
    shortened_entries = list(entries)
    for at in sorted(range(len(entries)), key=lambda at: -savings[at]):
        if surplus > 0:
            shortened_entries[at], surplus = short[at], surplus - savings[at]
    return {**status, "placementStatuses": shortened_entries}


def _without_lists(entry: JsonObject) -> JsonObject:
    return {name: value for name, value in entry.items() if name not in _LISTS_OF_AGENTS}


def _lists(binding: JsonObject, statuses: Mapping[str, str]) -> JsonObject:
    """Return the lists of a binding that its cluster's entry shows, given the statuses in that entry."""
    spec, status = spec_of(binding), status_of(binding)
    lists: JsonObject = {}
    if statuses.get(ROLLOUT_STARTED) == TRUE:
        lists["applicableClusterResourceOverrides"] = spec.get("clusterResourceOverrideSnapshots") or []
        lists["applicableResourceOverrides"] = spec.get("resourceOverrideSnapshots") or []
    bad = FALSE in (statuses.get(APPLIED), statuses.get(AVAILABLE))
    if bad or statuses.get(DIFF_REPORTED) == FALSE:
        lists["failedPlacements"] = status.get("failedPlacements") or []
    if statuses.get(APPLIED) in (TRUE, FALSE):
        lists["driftedPlacements"] = status.get("driftedPlacements") or []
    if bad or statuses.get(DIFF_REPORTED) == TRUE:
        lists["diffedPlacements"] = status.get("diffedPlacements") or []
    return lists
