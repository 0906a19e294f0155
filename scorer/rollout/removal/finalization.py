"""Finalization of a placement: the Works that its deletion waits for, and the obstacles to their removal.

A placement remains until its Works are deleted, so that its status can name the cluster, the object and the finalizer
that block the removal. Without the placement, no status would report a Work that is stuck.

The placement does not wait for a member that is leaving or deleted: nothing is removed there. Finalizers of the
placement would block the deletion of its namespace. In a namespace that is being deleted, or with the annotation of a
user, it therefore waits only until every Work carries its order. The agents execute the order without the placement.

Source: docs/specifications/rollout.md 20.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from scorer.api.conditions import FALSE, LONGEST_MESSAGE, make_condition, merge_conditions
from scorer.api.family import family_in
from scorer.api.meta import JsonObject, parse_time
from scorer.api.names import FORGET_WORKS, REMOVAL_PENDING_CONDITION, WORK_CLEANUP
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    current_condition,
    finalizers_of,
    generation_of,
    is_deleting,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from scorer.api.values.quoting import format_count
from scorer.rollout.bindings import pending_reason
from scorer.rollout.removal.deletion import is_member, is_removal_requested
from scorer.rollout.removal.marks import REMOVED, is_marked_for_removal

UNREPORTED_FOR: Final = timedelta(seconds=5)
"""Time until a placement reports that it waits for its Works, unless an agent has named an obstacle before."""
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class RemainingWorks:
    """The Works of a deleted placement that are left on one cluster.

    Args:
        binding: The binding that waits for them.
        works: The Works.
        member: The MemberCluster. None if it is deleted.
        silent: Whether the agent of the member does not report.
    """

    binding: JsonObject
    works: tuple[JsonObject, ...]
    member: Mapping[str, Any] | None
    silent: bool = False

    @property
    def is_awaited(self) -> bool:
        """Whether the placement waits for these Works."""
        return is_member(self.member) and WORK_CLEANUP in finalizers_of(self.binding)

    @property
    def is_ordered(self) -> bool:
        """Whether the agent needs nothing else from the loop to remove, or to keep, the content of every Work."""
        are_ordered = all(
            is_deleting(work) and (is_marked_for_removal(work) or not is_member(self.member)) for work in self.works
        )
        return is_removal_requested(self.binding) and are_ordered

    def describe(self) -> str:
        """Return the cluster, and the obstacles to the removal of its Works."""
        obstacles = [condition for work in self.works if (condition := current_condition(work, REMOVED))]
        if obstacles:
            reason = "; ".join(str(condition.get("message") or "") for condition in obstacles)
        elif self.silent:
            reason = f"{self._names()}: the agent does not report"
        else:
            reason = f"{self._names()}: the agent has not removed the content yet"
        return f"{spec_of(self.binding).get('targetCluster')}: {reason[:LONGEST_MESSAGE]}"

    @property
    def has_obstacle(self) -> bool:
        """Whether the agent has named an object that cannot be deleted."""
        return any(current_condition(work, REMOVED) for work in self.works)

    def _names(self) -> str:
        names = sorted(map(name_of, self.works))
        if not names:
            return "binding " + name_of(self.binding)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"Work {names[0]}{more}"


def forgets_works(placement: Mapping[str, Any], namespace: Mapping[str, Any] | None) -> bool:
    """Return whether a deleted placement waits only until every Work carries its order.

    Args:
        placement: It is being deleted.
        namespace: Its namespace. None if it is cluster-scoped.
    """
    return annotation(placement, FORGET_WORKS) == "true" or (namespace is not None and is_deleting(namespace))


def describe_remaining_works(remnants: Iterable[RemainingWorks]) -> str:
    """Return the first few clusters with their obstacles, in order, and the number of the others."""
    sorted_remnants = sorted(remnants, key=lambda remnant: (not remnant.has_obstacle, remnant.describe()))
    rest = len(sorted_remnants) - _MOST_NAMED
    more = f"; and {format_count(rest, 'more cluster')}" if rest > 0 else ""
    return "; ".join(remnant.describe() for remnant in sorted_remnants[:_MOST_NAMED]) + more


def removal_status(placement: JsonObject, remnants: Iterable[RemainingWorks], now: datetime) -> JsonObject:
    """Return the status of a placement that waits for its Works.

    Args:
        placement: It is being deleted.
        remnants: The Works that it waits for, on at least one cluster.
        now: Transition time of conditions that change.
    """
    kind = _condition_type(placement)
    message = f"waiting until its Works are deleted: {describe_remaining_works(remnants)}"
    condition = make_condition(kind, FALSE, "WorksRemain", message, generation=generation_of(placement), now=now)
    old = conditions_of(placement)
    other_conditions = [condition for condition in old if condition.get("type") != kind]
    return {**status_of(placement), "conditions": [*other_conditions, *merge_conditions(old, [condition])]}


def removal_detail(placement: JsonObject, failure: str) -> str:
    """Return a message about a placement that is being deleted: its state, and what it waits for.

    Args:
        placement: It is being deleted.
        failure: The failure of its controller. Empty: none.
    """
    kinds = REMOVAL_PENDING_CONDITION, _condition_type(placement)
    conditions = (current_condition(placement, kind) or {} for kind in kinds)
    messages = (str(condition.get("message") or "") for condition in conditions)
    return "; ".join(filter(None, ("the placement is being deleted", failure, *messages)))


def describe_removal_wait(binding: Mapping[str, Any], message: str = "") -> str:
    """Return a message about what the removal of an Unscheduled binding's content waits for.

    Args:
        binding: The binding.
        message: Message of its condition RolloutStarted. Empty: unset.
    """
    pending = pending_reason(binding)
    return pending.describe() if pending else message or "waiting for the limits of the rollout"


def _condition_type(placement: JsonObject) -> str:
    return family_in(namespace_of(placement)).placement.kind + REMOVED


def report_delay(placement: JsonObject, remnants: Iterable[RemainingWorks], now: datetime) -> timedelta:
    """Return the time until the placement reports what it waits for. Zero or less: it reports now."""
    if any(remnant.has_obstacle for remnant in remnants):
        return timedelta()
    return parse_time(metadata_of(placement)["deletionTimestamp"]) + UNREPORTED_FOR - now
