"""A binding as the planners see it, and the questions they ask about it.

Read from the raw document: a resync looks at every binding of every placement.

Source: rollout.md 5; KubeFleet pkg/utils/binding.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from scorer.api.binding import BindingState
from scorer.api.conditions import FALSE, TRUE, make_condition, merge_conditions
from scorer.api.documents import (
    annotation,
    conditions_of,
    generation_of,
    is_deleting,
    name_of,
    spec_of,
    status_of,
    with_finalizer,
    with_spec,
)
from scorer.api.meta import JsonObject, parse_time
from scorer.api.names import PREVIOUS_BINDING_STATE, WORK_CLEANUP

ROLLOUT_STARTED = "RolloutStarted"
OVERRIDDEN = "Overridden"
WORK_SYNCHRONIZED = "WorkSynchronized"
APPLIED = "Applied"
AVAILABLE = "Available"
DIFF_REPORTED = "DiffReported"

PASSING_REASONS = frozenset({"OverriddenPending", "WorkNotSynchronizedYet", "ApplyPending", "ResourceNotAvailableYet"})
"""A False condition with one of these reasons is no failure. The set is literal: the work generator never writes
these words on a binding, and adding the ones it does write would put a broken release under maxUnavailable, so that
no fixed one could replace it (rollout.md 5.4, example R5)."""

UNTRACKABLE_REASONS = frozenset({"NotAllWorkAreAvailabilityTrackable", "WorkNotTrackable"})


@dataclass(frozen=True, slots=True)
class Overrides:
    """The override snapshots that apply on one cluster, in the order they are applied.

    Args:
        cluster: Names of ClusterResourceOverrideSnapshots.
        namespaced: Namespace and name of ResourceOverrideSnapshots.
    """

    cluster: tuple[str, ...] = ()
    namespaced: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "Overrides":
        """Read both lists of a binding's spec."""
        namespaced = spec.get("resourceOverrideSnapshots") or ()
        return cls(
            tuple(spec.get("clusterResourceOverrideSnapshots") or ()),
            tuple((item.get("namespace") or "", item.get("name") or "") for item in namespaced),
        )

    def fields(self) -> JsonObject:
        """Return both lists as fields of a binding's spec; an empty one is None, that is absent."""
        namespaced = [{"name": name, "namespace": namespace} for namespace, name in self.namespaced]
        return {
            "clusterResourceOverrideSnapshots": list(self.cluster) or None,
            "resourceOverrideSnapshots": namespaced or None,
        }


NO_OVERRIDES = Overrides()


@dataclass(frozen=True, slots=True)
class BindingView:
    """What a planner reads of a binding.

    Args:
        name: Planners go through bindings in the order of their names.
        cluster: ``spec.targetCluster``.
        state: ``spec.state``.
        snapshot: Name of the master resource snapshot, empty until bound.
        overrides: The override lists it was bound with.
        deleting: Whether it has a deletion mark.
        previous_state: The state an Unscheduled one had before; empty when not recorded.
        conditions: The current ones by type; a stale condition counts as absent.
        empty: Unscheduled and without Works: its cluster has nothing of it, and gets nothing any more.
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

    @classmethod
    def of(cls, document: JsonObject, *, empty: bool = False) -> "BindingView":
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
            previous_state=annotation(document, PREVIOUS_BINDING_STATE),
            conditions={
                condition.get("type", ""): condition
                for condition in conditions_of(document)
                if (condition.get("observedGeneration") or 0) == generation
            },
            empty=empty,
        )

    def status(self, kind: str) -> str:
        """Return the status of the current condition of type *kind*, empty when there is none."""
        return str((self.conditions.get(kind) or {}).get("status") or "")


def is_rolling(binding: BindingView) -> bool:
    """Say whether the binding has been rolled out and it is still open what comes of it: neither available nor failed.

    Of one that only reports differences nothing is disrupted.
    """
    return (
        binding.state is BindingState.BOUND
        and not binding.deleting
        and binding.status(ROLLOUT_STARTED) == TRUE
        and binding.status(AVAILABLE) != TRUE
        and not is_failed(binding)
        and not has_diff_reported(binding)
    )


class Readiness(NamedTuple):
    """Whether a binding is ready, and if not, after how long it is by itself; None: not without an event."""

    ready: bool
    wait: timedelta | None


def is_failed(binding: BindingView) -> bool:
    """Say whether the binding is known to have gone wrong: ``failed(b)`` of rollout.md 5.4.

    DiffReported takes no part, nor does a status Unknown.
    """
    for kind in (OVERRIDDEN, WORK_SYNCHRONIZED, APPLIED, AVAILABLE):
        condition = binding.conditions.get(kind)
        if condition and condition.get("status") == FALSE and condition.get("reason") not in PASSING_REASONS:
            return True
    return False


def has_diff_reported(binding: BindingView) -> bool:
    """Say whether differences were reported, or could not be: ``diffReported(b)`` of rollout.md 5.4."""
    return DIFF_REPORTED in binding.conditions


def readiness(binding: BindingView, now: datetime, unavailable_period: timedelta) -> Readiness:
    """Say whether the binding counts as available: ``ready(b, now, U)`` of rollout.md 5.4.

    Where availability cannot be tracked, the binding is ready when it has been applied for longer than
    *unavailable_period*; at exactly that age it is not, and the wait is zero.
    """
    if binding.status(DIFF_REPORTED) == TRUE:
        return Readiness(ready=True, wait=timedelta())
    available = binding.conditions.get(AVAILABLE)
    if not available or available.get("status") != TRUE:
        return Readiness(ready=False, wait=None)
    since = available.get("lastTransitionTime")
    if available.get("reason") not in UNTRACKABLE_REASONS or not since:
        return Readiness(ready=True, wait=timedelta())
    age = now - parse_time(since)
    if age > unavailable_period:
        return Readiness(ready=True, wait=timedelta())
    return Readiness(ready=False, wait=unavailable_period - age)


def bound(document: JsonObject, snapshot: str, overrides: Overrides) -> JsonObject:
    """Return the binding in state Bound, on master snapshot *snapshot* and with these override lists.

    It also gets the finalizer that has to be there before its first Work: in the same write. One that is being deleted
    may not be given any, and gets no Work.
    """
    if not is_deleting(document):
        document = with_finalizer(document, WORK_CLEANUP) or document
    return with_spec(document, state=str(BindingState.BOUND), resourceSnapshotName=snapshot, **overrides.fields())


def is_lost_and_found(document: JsonObject) -> bool:
    """Say whether a binding was Bound when it was made, and nobody has spoken of its rollout since.

    So it is one that was made anew in place of a lost one (`scorer.rollout.lost_bindings`), or was restored: it has
    been rolled out before.
    """
    return (
        spec_of(document).get("state") == BindingState.BOUND
        and generation_of(document) == 1
        and not is_deleting(document)
        and all(condition.get("type") != ROLLOUT_STARTED for condition in conditions_of(document))
    )


def rollout_started_status(
    document: JsonObject, *, started: bool, message: str, now: datetime, renew: bool = True
) -> JsonObject | None:
    """Return the binding's ``status`` with RolloutStarted set, None when it says so already.

    Args:
        document: The binding as stored; the condition is made for its present generation.
        started: False: held back by the limits of the rolling update.
        message: For people. Why it is held back is renewed when it changes; of one that has started, new words alone
            are no reason to write.
        now: The time of a transition.
        renew: Whether a change of words alone is a reason to write now.
    """
    generation, status = generation_of(document), TRUE if started else FALSE
    reason = "RolloutStarted" if started else "RolloutNotStartedYet"
    old = conditions_of(document)
    for condition in old:
        same = (condition.get("status"), condition.get("reason"), condition.get("observedGeneration"))
        if condition.get("type") != ROLLOUT_STARTED or same != (status, reason, generation):
            continue
        if started or not renew or condition.get("message") == message:
            return None
    made = make_condition(ROLLOUT_STARTED, status, reason, message, generation=generation, now=now)
    others = [condition for condition in old if condition.get("type") != ROLLOUT_STARTED]
    return {**status_of(document), "conditions": [*merge_conditions(old, [made]), *others]}


def views(documents: Sequence[JsonObject], empty: Container[str] = ()) -> list[BindingView]:
    """Read *documents*, in the order of their names; those named in *empty* are Unscheduled and have no Works."""
    found = (BindingView.of(document, empty=name_of(document) in empty) for document in documents)
    return sorted(found, key=lambda view: view.name)
