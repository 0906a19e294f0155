"""Preview of a rollout: the order of clusters, found by repeated planning, and the effect of reservations.

Every step is the result of one run of `plan_rollout`. The next run assumes that everything started so far has become
available, unless it is known to fail, and that all deletions have completed. A binding that is known to have failed
remains failed, since it may not recover. The order is therefore the real one, and the preview ends where the real
rollout would stop.

A promise is a reservation of a placement on a cluster. It counts in the plan as if it had been carried out.

Source: docs/specifications/rollout.md 7; docs/specifications/serving.md 3.1.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from scorer.api.conditions import FALSE, TRUE
from scorer.api.meta import JsonObject
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import is_deleting, spec_of
from scorer.api.values.quoting import format_share
from scorer.rollout.apply_strategy import effective_apply_strategy, plan_apply_strategy
from scorer.rollout.bindings import (
    AVAILABLE,
    DIFF_REPORTED,
    NO_OVERRIDES,
    OVERRIDDEN,
    BindingView,
    Overrides,
    PendingReason,
    is_failed,
    readiness,
    views,
)
from scorer.rollout.planner import (
    Action,
    RequestedClusters,
    RollingUpdateBudget,
    RollingUpdateLimits,
    RolloutPlan,
    cleanup_gate,
    plan_rollout,
)

MOST_STEPS: Final = 100
"""Maximum number of steps shown. A rollout of a thousand clusters, one by one, is truncated."""

EXTERNAL: Final = "External"


@dataclass(frozen=True, slots=True)
class PreviewStep:
    """Changes that one reconcile starts, with clusters in the order of the planner.

    Args:
        update: Clusters that get the latest resources.
        bind: Clusters that get the placement for the first time, or again.
        remove: Clusters that lose it.
        waiting: Clusters that would be next if the limits allowed it.
        budget: The numbers at that time.
    """

    update: tuple[str, ...]
    bind: tuple[str, ...]
    remove: tuple[str, ...]
    waiting: tuple[str, ...]
    budget: RollingUpdateBudget


@dataclass(frozen=True, slots=True)
class RolloutBlocker:
    """An obstacle that blocks the rollout until a user acts.

    Args:
        clusters: The clusters that have to wait, in the order of the planner.
        reason: ``WaitingForRun``, ``BudgetUsedUp``, ``InvalidStrategy``, or the invariant that is broken.
        message: Human-readable reason.
        budget: The numbers, if the limits of the rolling update are the obstacle.
    """

    clusters: tuple[str, ...]
    reason: str
    message: str
    budget: RollingUpdateBudget | None = None


@dataclass(frozen=True, slots=True)
class RolloutPreview:
    """Predicted course of a rollout.

    Args:
        type: ``RollingUpdate`` or ``External``.
        limits: The limits of the strategy. None if they do not apply or are invalid.
        pushed: Clusters that have the placement and whose apply strategy changes immediately, outside all limits.
        steps: Steps, in order.
        blocked: Obstacle that stops the rollout. None if it completes, or if *more* clusters follow the steps shown.
        more: Number of clusters after the last step shown.
        held: Clusters that first wait for their maintenance windows, sorted. The others come before them.
    """

    type: str
    limits: RollingUpdateLimits | None = None
    pushed: tuple[str, ...] = ()
    steps: tuple[PreviewStep, ...] = ()
    blocked: RolloutBlocker | None = None
    more: int = 0
    held: tuple[str, ...] = ()


def _nothing(_available: Collection[str]) -> Collection[str]:
    return ()


def preview_rollout(
    placement: Mapping[str, Any],
    bindings: Sequence[JsonObject],
    latest: str,
    now: datetime,
    *,
    overrides: Mapping[str, Overrides] | None = None,
    failing_clusters: Collection[str] = (),
    held_clusters: Collection[str] = (),
    released: Callable[[Collection[str]], Collection[str]] = _nothing,
) -> RolloutPreview:
    """Return the predicted course of the rollout of *placement*.

    Args:
        placement: ClusterResourcePlacement or ResourcePlacement.
        bindings: Bindings of the placement after scheduling, including those being deleted. Their states are valid.
        latest: Name of the latest master resource snapshot.
        now: Decides whether an untrackable binding has been applied for long enough. No time passes between steps.
        overrides: Desired override lists by cluster. A cluster that is missing has none. None: unset, every binding
            keeps its own.
        failing_clusters: Clusters whose Works cannot be made from the latest snapshot and overrides.
        held_clusters: Clusters that must not be changed before their maintenance windows open. They are assumed to open
            together, after everything else is done.
        released: Returns the names of the bindings whose removal no longer waits once these clusters are available.
    """
    spec = spec_of(placement)
    strategy = spec.get("strategy")
    if (strategy or {}).get("type") == EXTERNAL:
        return RolloutPreview(EXTERNAL, blocked=_run_blocker(views(bindings)))
    try:
        requested, limits = RequestedClusters.of(spec.get("policy")), RollingUpdateLimits.of(strategy)
    except (TypeError, ValueError, OverflowError) as error:
        return RolloutPreview("RollingUpdate", blocked=RolloutBlocker((), "InvalidStrategy", str(error)))
    pushed_clusters = tuple(
        spec_of(binding).get("targetCluster", "")
        for binding in plan_apply_strategy(strategy, bindings)
        if spec_of(binding).get("state") != BindingState.SCHEDULED
    )
    if _is_done(bindings, latest, overrides):
        return RolloutPreview("RollingUpdate", limits, pushed_clusters)
    ready, binding_views = ready_conditions(strategy), views(bindings)
    if overrides is None:
        overrides = {binding.cluster: binding.overrides for binding in binding_views if not binding.deleting}
    outcome = _Outcome(latest, overrides, ready, failing_clusters, released)
    steps: list[PreviewStep] = []
    closed, late = frozenset(held_clusters), set[str]()
    while True:
        plan = plan_rollout(requested, strategy, binding_views, latest, now, overrides=overrides, held_clusters=closed)
        late.update(
            binding.cluster for binding in (*plan.waiting, *plan.deferred_removals) if binding.cluster in closed
        )
        preview = RolloutPreview("RollingUpdate", limits, pushed_clusters, tuple(steps), held=tuple(sorted(late)))
        changed = {binding.name for binding in (*plan.update, *plan.bind, *plan.remove)}
        if changed and len(steps) == MOST_STEPS:
            return replace(preview, more=sum(map(len, (changed, plan.blocked, plan.deferred_removals, plan.waiting))))
        if changed:
            steps.append(_step(plan))
        later_views = _afterwards(binding_views, plan, outcome, now, limits)
        if not changed and later_views == binding_views:
            if not late or not closed:
                return replace(preview, blocked=_blocker(plan, binding_views))
            closed = frozenset()
        binding_views = later_views


@dataclass(frozen=True, slots=True)
class _Outcome:
    """State of a binding once its update is done.

    Args:
        snapshot: Name of its master resource snapshot.
        overrides: The override lists by cluster.
        ready: The conditions of a binding whose rollout has succeeded.
        failing_clusters: Clusters where it fails.
        released: Returns the names of the bindings whose removal no longer waits once these clusters are available.
    """

    snapshot: str
    overrides: Mapping[str, Overrides]
    ready: Mapping[str, Mapping[str, Any]]
    failing_clusters: Collection[str]
    released: Callable[[Collection[str]], Collection[str]]

    def of(self, binding: BindingView) -> BindingView:
        """Return an updated binding as it will be."""
        return replace(
            binding,
            state=BindingState.BOUND,
            snapshot=self.snapshot,
            overrides=self.overrides.get(binding.cluster, NO_OVERRIDES),
            conditions=_FAILED if binding.cluster in self.failing_clusters else self.ready,
        )


_FAILED: Final = {OVERRIDDEN: {"type": OVERRIDDEN, "status": FALSE, "reason": "Foreseen"}}


def _is_done(bindings: Sequence[JsonObject], latest: str, overrides: Mapping[str, Overrides] | None = None) -> bool:
    """Return whether the planner has nothing to do: every binding is Bound and up to date, on different clusters.

    This is true of most placements most of the time, and much cheaper to check than running the planner.
    """
    clusters = set()
    for binding in bindings:
        spec = spec_of(binding)
        if (
            spec.get("state") != BindingState.BOUND
            or spec.get("resourceSnapshotName") != latest
            or is_deleting(binding)
        ):
            return False
        cluster = spec.get("targetCluster")
        if overrides is not None and Overrides.of(spec) != overrides.get(cluster or "", NO_OVERRIDES):
            return False
        clusters.add(cluster)
    return len(clusters) == len(bindings)


def ready_conditions(strategy: Mapping[str, Any] | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the conditions of a binding whose rollout has succeeded."""
    applies = effective_apply_strategy((strategy or {}).get("applyStrategy"))["type"] != "ReportDiff"
    kind = AVAILABLE if applies else DIFF_REPORTED
    return {kind: {"type": kind, "status": TRUE, "reason": "Foreseen"}}


def _step(plan: RolloutPlan) -> PreviewStep:
    return PreviewStep(
        _clusters(plan.update),
        _clusters(plan.bind),
        _clusters(plan.remove),
        _clusters((*plan.blocked, *plan.deferred_removals)),
        plan.budget,
    )


def _clusters(bindings: Sequence[BindingView]) -> tuple[str, ...]:
    return tuple(binding.cluster for binding in bindings)


def _afterwards(
    binding_views: Sequence[BindingView],
    plan: RolloutPlan,
    outcome: _Outcome,
    now: datetime,
    limits: RollingUpdateLimits,
) -> list[BindingView]:
    """Return the bindings as they will be once everything started is done."""
    bound_names = {binding.name for binding in (*plan.update, *plan.bind)}
    removed_names = {binding.name for binding in plan.remove}
    later_views = []
    for binding in binding_views:
        if binding.deleting or binding.name in removed_names:
            continue
        if binding.name in bound_names:
            later_views.append(outcome.of(binding))
        elif _is_on_its_way(binding, now, limits):
            later_views.append(replace(binding, conditions=outcome.ready))
        else:
            later_views.append(binding)
    released = outcome.released({view.cluster for view in later_views if view.status(AVAILABLE) == TRUE})
    return [
        replace(view, pending=None) if view.pending is PendingReason.REPLACEMENT and view.name in released else view
        for view in later_views
    ]


def _is_on_its_way(binding: BindingView, now: datetime, limits: RollingUpdateLimits) -> bool:
    """Return whether a binding that the plan does not change becomes available without a change."""
    if binding.state is BindingState.SCHEDULED or is_failed(binding):
        return False
    return not readiness(binding, now, limits.unavailable_period).ready


def _blocker(plan: RolloutPlan, binding_views: Sequence[BindingView]) -> RolloutBlocker | None:
    if plan.error is not None:
        return RolloutBlocker((), str(plan.error.invariant), plan.error.message)
    waiting_clusters = _clusters((*plan.blocked, *plan.deferred_removals))
    if plan.action is not Action.ROLL or not waiting_clusters:
        return None
    picked = sum(view.state is not BindingState.UNSCHEDULED for view in binding_views)
    return RolloutBlocker(waiting_clusters, "BudgetUsedUp", _blocker_text(plan.budget, picked), plan.budget)


def _blocker_text(budget: RollingUpdateBudget, picked: int) -> str:
    """Return the message about a blocked rollout, with its numbers and those of requested clusters not picked."""
    removable = max(0, budget.max_to_remove)
    if budget.target == 0:
        ready = "is ready" if budget.ready == 1 else "are ready"
        return (
            f"no cluster is selected. Of the remaining ones, {budget.ready} {ready}, and the limits allow "
            f"{removable} to be removed"
        )
    lacking = max(0, budget.target - picked)
    absent = f"{lacking} cannot be picked, " if lacking else ""
    return (
        f"{format_share(budget.ready, budget.target, 'cluster')} ready, {budget.can_be_ready} can be, {absent}and the "
        f"limits allow {removable} to be updated or removed, and {max(0, budget.max_to_add)} to be added"
    )


def _run_blocker(binding_views: Sequence[BindingView]) -> RolloutBlocker | None:
    waiting_clusters = tuple(
        binding.cluster for binding in binding_views if binding.state is not BindingState.BOUND and not binding.deleting
    )
    if not waiting_clusters:
        return None
    return RolloutBlocker(
        waiting_clusters, "WaitingForRun", "the strategy is External: nothing changes until a staged update run"
    )


def with_reserved_changes(bindings: Iterable[BindingView], promised_clusters: Container[str]) -> list[BindingView]:
    """Return the bindings as they will be once these clusters have been changed, and have not reported yet.

    Without this, the holder of a reservation and the rollout would both use the same room in the limits. While two
    bindings of one cluster conflict there is no plan, even with reservations.

    Args:
        bindings: All bindings of a placement.
        promised_clusters: Names of the reserved clusters.
    """
    views_by_name = sorted(bindings, key=lambda binding: binding.name)
    if cleanup_gate(views_by_name) is not None:
        return views_by_name
    return [
        replace(view, state=BindingState.BOUND if view.state is BindingState.SCHEDULED else view.state, conditions={})
        if view.cluster in promised_clusters and not view.deleting
        else view
        for view in views_by_name
    ]
