"""One reconcile of a rolling update: which bindings to update, bind and remove now.

The plan is a function of the current bindings. Two budgets are computed once, before any binding is picked: the number
of ready clusters that may be disrupted, and the number of clusters that may be added.

Source: docs/specifications/rollout.md 7; KubeFleet pkg/controllers/rollout.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import (
    DEFAULT_MAX_SURGE,
    DEFAULT_MAX_UNAVAILABLE,
    DEFAULT_UNAVAILABLE_PERIOD_SECONDS,
    LONGEST_PERIOD_SECONDS,
    PlacementType,
    StrategyType,
)
from scorer.api.values.int_or_percent import scaled_up
from scorer.api.values.quoting import format_share
from scorer.rollout.bindings import (
    NO_OVERRIDES,
    BindingView,
    ObjectRemoval,
    Overrides,
    PendingReason,
    has_diff_reported,
    is_failed,
    readiness,
)

CLEANUP_RETRY = timedelta(seconds=5)
"""Time to wait until a binding that is being deleted makes room for its successor (rollout.md 7.5)."""


_MOST_NAMED = 3
"""Maximum number of clusters that a message names."""


@dataclass(frozen=True, slots=True)
class RequestedClusters:
    """Number of clusters that the placement requests.

    Args:
        type: ``placementType``.
        number: ``numberOfClusters`` of PickN, or number of names in PickFixed. None: unlimited, as for PickAll.
    """

    type: PlacementType
    number: int | None = None

    @classmethod
    def of(cls, policy: Mapping[str, Any] | None) -> "RequestedClusters":
        """Parse ``spec.policy``. A missing policy means PickAll.

        Raises:
            ValueError: ``placementType`` is none of the three types.
        """
        spec = policy or {}
        kind = PlacementType(spec.get("placementType") or PlacementType.PICK_ALL)
        match kind:
            case PlacementType.PICK_N:
                return cls(kind, spec.get("numberOfClusters"))
            case PlacementType.PICK_FIXED:
                return cls(kind, len(spec.get("clusterNames") or ()))
            case _:
                return cls(kind)

    def target(self, placed_count: int) -> int:
        """Return N, the base of percentages.

        Args:
            placed_count: Number of Scheduled and Bound bindings, which is N for PickAll.
        """
        return placed_count if self.type is PlacementType.PICK_ALL or self.number is None else self.number


@dataclass(frozen=True, slots=True)
class RollingUpdateLimits:
    """``strategy.rollingUpdate`` with its defaults."""

    max_unavailable: int | str = DEFAULT_MAX_UNAVAILABLE
    max_surge: int | str = DEFAULT_MAX_SURGE
    unavailable_period: timedelta = timedelta(seconds=DEFAULT_UNAVAILABLE_PERIOD_SECONDS)

    @classmethod
    def of(cls, strategy: Mapping[str, Any] | None) -> "RollingUpdateLimits":
        """Parse ``spec.strategy``. Absent and null fields take their defaults.

        Raises:
            ValueError: The unavailable period is not a valid number of seconds.
        """
        rolling_update = (strategy or {}).get("rollingUpdate") or {}
        values = {key: value for key, value in rolling_update.items() if value is not None}
        return cls(
            values.get("maxUnavailable", DEFAULT_MAX_UNAVAILABLE),
            values.get("maxSurge", DEFAULT_MAX_SURGE),
            _period(values.get("unavailablePeriodSeconds", DEFAULT_UNAVAILABLE_PERIOD_SECONDS)),
        )


def _period(seconds: object) -> timedelta:
    if not isinstance(seconds, int) or not 0 <= seconds <= LONGEST_PERIOD_SECONDS:
        raise ValueError(f"unavailablePeriodSeconds {seconds!r} must be an integer from 0 to {LONGEST_PERIOD_SECONDS}")
    return timedelta(seconds=seconds)


class Action(StrEnum):
    """Outcome of a reconcile. Only `ROLL` picks bindings."""

    ROLL = "roll"
    NOTHING_TO_ROLL = "nothing-to-roll"
    IGNORED = "ignored"
    NO_SNAPSHOT = "no-snapshot"
    WAIT_CLEANUP = "wait-cleanup"
    ERROR = "error"


class Invariant(StrEnum):
    """States that must never occur. Each of them stops the rollout of the whole placement."""

    TWO_LIVE_BINDINGS = "two-live-bindings"
    BOUND_WITH_DELETING = "bound-with-deleting"
    UNSCHEDULED_FROM_BOUND_WITH_DELETING = "unscheduled-from-bound-with-deleting"
    INVALID_STRATEGY = "invalid-strategy"


@dataclass(frozen=True, slots=True)
class RolloutError:
    """A broken invariant. Nothing is planned. The caller retries with backoff and reports it to the user."""

    invariant: Invariant
    message: str


@dataclass(frozen=True, slots=True)
class RollingUpdateBudget:
    """The numbers of rollout.md 7.3.

    Args:
        target: N.
        ready: Size of Ready.
        can_be_ready: Size of CanBeReady.
        may_vanish: Size of MayVanish.
        max_to_remove: Number of ready clusters that may be disrupted. May be negative.
        max_to_add: Number of clusters that may be added. May be negative.
    """

    target: int = 0
    ready: int = 0
    can_be_ready: int = 0
    may_vanish: int = 0
    max_to_remove: int = 0
    max_to_add: int = 0


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """Decision of one reconcile. Every list is sorted by binding name.

    Args:
        action: The outcome of the reconcile.
        update: Bound bindings to update to the latest snapshot and overrides.
        bind: Scheduled bindings to bind to the latest snapshot and overrides.
        remove: Unscheduled bindings to delete. Those without Works ignore the limits, since they have no content to
            remove.
        blocked: Bindings that the limits keep from being updated or bound: RolloutStarted False.
        deferred_removals: Bindings whose removal the limits, another disruption or closed windows delay. Only a wait
            for windows is written to their status.
        up_to_date: Bound bindings without differences: RolloutStarted True, even with `Action.NOTHING_TO_ROLL`.
        unready: Bindings that count as unavailable: not available, or not for long enough.
        waiting: Bindings whose cluster is held by another disruption or closed windows: RolloutStarted False, also with
            `Action.NOTHING_TO_ROLL`.
        budget: The numbers behind the plan.
        requeue_after: Delay before the next plan. Zero: immediately, rate limited. None if only an event requeues.
        error: Set only with `Action.ERROR`.
    """

    action: Action
    update: tuple[BindingView, ...] = ()
    bind: tuple[BindingView, ...] = ()
    remove: tuple[BindingView, ...] = ()
    blocked: tuple[BindingView, ...] = ()
    deferred_removals: tuple[BindingView, ...] = ()
    up_to_date: tuple[BindingView, ...] = ()
    unready: tuple[BindingView, ...] = ()
    waiting: tuple[BindingView, ...] = ()
    budget: RollingUpdateBudget = RollingUpdateBudget()
    requeue_after: timedelta | None = None
    error: RolloutError | None = None


def plan_rollout(
    requested: RequestedClusters,
    strategy: Mapping[str, Any] | None,
    bindings: Iterable[BindingView],
    latest_snapshot: str | None,
    now: datetime,
    *,
    overrides: Mapping[str, Overrides] = MappingProxyType({}),
    removal_needs_budget: bool = True,
    held_clusters: Container[str] = (),
) -> RolloutPlan:
    """Plan one reconcile of a placement that is not being deleted.

    The caller first pushes a changed apply strategy (`plan_apply_strategy`). If that writes anything, it does not plan.

    Args:
        requested: Number of clusters that the placement requests.
        strategy: The placement's ``spec.strategy``, None if absent.
        bindings: All bindings of the placement, in any order, including those being deleted.
        latest_snapshot: Name of the latest master resource snapshot. None if it does not exist yet.
        now: Decides whether an untrackable binding has been applied for long enough.
        overrides: Desired override lists by cluster. A cluster that is missing has no overrides.
        removal_needs_budget: If False, the limits do not apply to removals of failed bindings, nor to any removal when
            N = 0 (``HARBORMASTER_REMOVAL_NEEDS_BUDGET``, rollout.md 7.6).
        held_clusters: Clusters under another disruption, or with closed maintenance windows. They count in their
            current state, but the rollout skips them and picks others.
    """
    if (strategy or {}).get("type") not in (None, StrategyType.ROLLING_UPDATE):
        return RolloutPlan(Action.IGNORED)
    sorted_bindings = sorted(bindings, key=lambda binding: binding.name)
    gate = cleanup_gate(sorted_bindings)
    if gate is not None:
        return gate
    if latest_snapshot is None:
        return RolloutPlan(Action.NO_SNAPSHOT)
    try:
        limits = RollingUpdateLimits.of(strategy)
    except ValueError as error:
        return _broken_plan(Invariant.INVALID_STRATEGY, f"spec.strategy.rollingUpdate: {error}")
    classes = _classify(sorted_bindings, latest_snapshot, now, limits.unavailable_period, overrides, held_clusters)
    try:
        budget = _budget(classes, requested, limits)
    except ValueError as error:
        return _broken_plan(Invariant.INVALID_STRATEGY, f"spec.strategy.rollingUpdate: {error}")
    if not classes.has_candidates():
        return RolloutPlan(
            Action.NOTHING_TO_ROLL,
            deferred_removals=tuple(classes.deferred_removals),
            up_to_date=tuple(classes.up_to_date),
            unready=tuple(classes.unready),
            waiting=tuple(classes.waiting),
            budget=budget,
        )
    free, budgeted = [], classes.removable
    if not removal_needs_budget:
        free = [binding for binding in budgeted if budget.target == 0 or is_failed(binding)]
        budgeted = [binding for binding in budgeted if not (budget.target == 0 or is_failed(binding))]
    room_to_remove, room_to_add = max(0, budget.max_to_remove), max(0, budget.max_to_add)
    room_to_update = max(0, room_to_remove - len(budgeted))
    return RolloutPlan(
        Action.ROLL,
        update=_by_name(classes.failed, classes.updatable[:room_to_update]),
        bind=tuple(classes.bindable[:room_to_add]),
        remove=_by_name(classes.empty, free, budgeted[:room_to_remove]),
        blocked=_by_name(classes.updatable[room_to_update:], classes.bindable[room_to_add:]),
        deferred_removals=_by_name(budgeted[room_to_remove:], classes.deferred_removals),
        up_to_date=tuple(classes.up_to_date),
        unready=tuple(classes.unready),
        waiting=tuple(classes.waiting),
        budget=budget,
        requeue_after=_requeue_after(classes.waits, limits.unavailable_period),
    )


def blocked_reason(plan: RolloutPlan, binding: BindingView) -> str:
    """Return why one of ``plan.blocked`` has to wait: the limits, and the clusters that come first or are not ready."""
    budget = plan.budget
    room = f"{max(0, budget.max_to_remove)} may be updated or removed now"
    if binding.state is BindingState.SCHEDULED:
        room = f"{max(0, budget.max_to_add)} may be added now"
    message = f"waiting: {format_share(budget.ready, budget.target, 'cluster')} ready, so {room}"
    if first := (*plan.update, *plan.bind, *plan.remove):
        return f"{message}; {_clusters(first)} first"
    return f"{message}; not ready: {_clusters(plan.unready)}" if plan.unready else message


def _clusters(bindings: Iterable[BindingView]) -> str:
    names = sorted({binding.cluster for binding in bindings})
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def cleanup_gate(bindings: Sequence[BindingView]) -> RolloutPlan | None:
    """Return the plan that stops the rollout while several bindings of one cluster conflict, or None.

    The Works of both bindings have the same names, so the successor waits until its predecessor's are deleted. The
    three broken invariants are states that this order never leads to (rollout.md 7.5).
    """
    by_cluster: dict[str, list[BindingView]] = defaultdict(list)
    for binding in bindings:
        by_cluster[binding.cluster].append(binding)
    is_waiting = False
    for cluster, bindings_of_cluster in sorted(by_cluster.items()):
        live = [binding for binding in bindings_of_cluster if not binding.deleting]
        if len(live) > 1:
            names = ", ".join(binding.name for binding in live)
            return _broken_plan(Invariant.TWO_LIVE_BINDINGS, f"cluster {cluster} has several bindings: {names}")
        if not live or len(live) == len(bindings_of_cluster):
            continue
        match live[0].state, live[0].previous_state:
            case BindingState.BOUND, _:
                invariant = Invariant.BOUND_WITH_DELETING
            case BindingState.UNSCHEDULED, BindingState.BOUND:
                invariant = Invariant.UNSCHEDULED_FROM_BOUND_WITH_DELETING
            case _:
                is_waiting = True
                continue
        text = f"binding {live[0].name} was bound on cluster {cluster} while its predecessor is being deleted"
        return _broken_plan(invariant, text)
    return RolloutPlan(Action.WAIT_CLEANUP, requeue_after=CLEANUP_RETRY) if is_waiting else None


def _broken_plan(invariant: Invariant, message: str) -> RolloutPlan:
    return RolloutPlan(Action.ERROR, error=RolloutError(invariant, message))


@dataclass(slots=True)
class _Classes:
    """The sets of rollout.md 7.3, in name order."""

    targeted: int = 0
    bound: int = 0
    awaited: int = 0
    ready: int = 0
    can_be_ready: int = 0
    may_vanish: int = 0
    empty: list[BindingView] = field(default_factory=list)
    removable: list[BindingView] = field(default_factory=list)
    bindable: list[BindingView] = field(default_factory=list)
    failed: list[BindingView] = field(default_factory=list)
    updatable: list[BindingView] = field(default_factory=list)
    up_to_date: list[BindingView] = field(default_factory=list)
    waiting: list[BindingView] = field(default_factory=list)
    deferred_removals: list[BindingView] = field(default_factory=list)
    unready: list[BindingView] = field(default_factory=list)
    waits: list[timedelta | None] = field(default_factory=list)

    def has_candidates(self) -> bool:
        return bool(self.empty or self.removable or self.bindable or self.failed or self.updatable)


def _classify(
    bindings: Iterable[BindingView],
    latest: str,
    now: datetime,
    period: timedelta,
    overrides: Mapping[str, Overrides],
    held_clusters: Container[str],
) -> _Classes:
    classes = _Classes()
    for binding in bindings:
        is_held = binding.cluster in held_clusters
        if binding.pending not in (None, PendingReason.REPLACEMENT) and not binding.deleting:
            continue  # it may remain for long, so it neither makes room for updates nor takes any from new clusters
        if binding.state is not BindingState.UNSCHEDULED:
            classes.targeted += 1
        if binding.state is BindingState.BOUND:
            classes.bound += not binding.deleting
        if binding.state is BindingState.SCHEDULED:
            (classes.waiting if is_held else classes.bindable).append(binding)
            continue
        if binding.empty:  # never becomes ready: in can_be_ready, it would keep new clusters out
            if not binding.deleting:
                classes.empty.append(binding)
            continue
        ready, wait = readiness(binding, now, period)
        failed = is_failed(binding)
        classes.can_be_ready += not failed and not has_diff_reported(binding)
        if ready:
            classes.ready += 1
            classes.may_vanish += binding.deleting
        else:
            classes.unready.append(binding)
            classes.waits.append(wait)
        if binding.deleting:
            continue
        outdated = binding.snapshot != latest or binding.overrides != overrides.get(binding.cluster, NO_OVERRIDES)
        outdated = outdated or binding.object_removal is ObjectRemoval.CONFIRMED
        if binding.pending is PendingReason.REPLACEMENT:
            classes.awaited += 1
        elif binding.state is BindingState.UNSCHEDULED:
            (classes.deferred_removals if is_held else classes.removable).append(binding)
        elif not outdated:
            classes.up_to_date.append(binding)
        elif is_held:
            classes.waiting.append(binding)
        elif failed:
            classes.failed.append(binding)
        else:
            classes.updatable.append(binding)
    return classes


def _budget(classes: _Classes, requested: RequestedClusters, limits: RollingUpdateLimits) -> RollingUpdateBudget:
    target = requested.target(classes.targeted)
    # After N was lowered, the surplus clusters make no room for updates until the scheduler has dropped them.
    lowest = max(target, classes.bound) - scaled_up(limits.max_unavailable, target)
    # A removal that waits for a replacement cannot make room for it.
    highest = target + max(scaled_up(limits.max_surge, target), 1 if classes.awaited else 0)
    return RollingUpdateBudget(
        target=target,
        ready=classes.ready,
        can_be_ready=classes.can_be_ready,
        may_vanish=classes.may_vanish,
        max_to_remove=classes.ready - classes.may_vanish - lowest,
        max_to_add=highest - classes.can_be_ready,
    )


def _requeue_after(waits: Sequence[timedelta | None], period: timedelta) -> timedelta:
    if not waits:
        return timedelta()
    return min((wait for wait in waits if wait is not None and wait < period), default=period)


def _by_name(*lists: Iterable[BindingView]) -> tuple[BindingView, ...]:
    return tuple(sorted((binding for bindings in lists for binding in bindings), key=lambda binding: binding.name))
