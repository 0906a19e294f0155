"""RollingUpdate: bring bindings to the latest snapshot within the limits of the strategy.

If members are reserved, a member is reserved before its binding is changed, until the binding is available or has
failed. Bindings on members that another disruption holds report what they wait for, and the rollout continues with the
others. Bindings that another client has reserved for a change count as changed.

Source: docs/specifications/rollout.md 7 and 8.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as with_changes
from datetime import datetime, timedelta
from functools import partial

from scorer.api.conditions import TRUE
from scorer.api.family import FAMILIES, FAMILY_OF, Family, PlacementRef
from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.meta import JsonObject
from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import StrategyType
from scorer.api.unstructured.documents import (
    conditions_of,
    current_condition,
    dict_at,
    has_current_status,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    text_at,
)
from scorer.member_gate.holds import Hold, rollout_holder
from scorer.rollout.apply_strategy import plan_apply_strategy
from scorer.rollout.bindings import (
    APPLIED,
    AVAILABLE,
    DIFF_REPORTED,
    NO_OVERRIDES,
    PASSING_REASONS,
    ROLLOUT_STARTED,
    WAITS_FOR_WINDOW,
    BindingView,
    bound,
    is_recreated,
    is_rolling,
    losing_content,
    object_removal,
    pending_reason,
    rollout_started_status,
    views,
    waits_for_window,
)
from scorer.rollout.overrides.matching import ignores_resource_overrides
from scorer.rollout.planner import Action, RolloutPlan, blocked_reason
from scorer.rollout.removal.deletion import awaits_restoration
from scorer.rollout.works.records import are_made_for
from scorer.rollout.writes import replace
from scorer.windows.member_windows import ClosedWindow
from webhook.controllers.machinery.failures import concerned_placement
from webhook.controllers.machinery.result import DONE, Result, StuckError, soonest
from webhook.controllers.machinery.wiring import Later, Signal, Waker, Watch, Wiring
from webhook.controllers.members.reservations import RENEWED_BELOW, RESERVATION_POLL_INTERVAL, MemberReservations
from webhook.controllers.placements.deletion import mark_and_delete
from webhook.controllers.placements.listing import bindings_on, bindings_on_relabelled, placement_refs
from webhook.controllers.placements.overrides import placement_of
from webhook.kube.cache.changes import ObjectDelta, desired
from webhook.kube.cache.hub import Hub, run_concurrently
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.listers.placements import RolloutState, children, count_children, rollout_state, works_of
from webhook.kube.ports import RetryError
from webhook.settings.loop import LoopSettings

BINDING_WAIT = timedelta(milliseconds=5)
"""Debounce of a rollout per binding: it evaluates all of them, and they change together."""
SHORTEST_WAIT, LONGEST_WAIT = timedelta(milliseconds=50), timedelta(seconds=5)
WAITS_FOR_MEMBER = "waits until the member is free: "
"""Prefix of the message of a binding whose member is held."""

log = logging.getLogger(__name__)


class RolloutController:
    """Rolls out one placement at a time.

    Args:
        hub: The hub cluster.
        now: The clock.
        settings: Settings of the operator.
        windows: Maintenance windows of the members.
        turns: Reserves members. None: disabled, rollouts wait only for their limits.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        settings: LoopSettings,
        windows: MaintenanceWindows,
        turns: MemberReservations | None = None,
    ) -> None:
        self._hub = hub
        self._now = now
        self._settings = settings
        self._windows = windows
        self._turns = turns
        self._reserved: dict[PlacementRef, set[str]] = {}
        """Members that this process has reserved, by placement."""
        self._numbers: dict[PlacementRef, tuple[object, datetime]] = {}
        """Numbers in the messages of blocked bindings, with the time of their last change."""
        self._awaiting: set[PlacementRef] = set()
        """Placements whose rollout waits for snapshots of overrides."""

    def wiring(self) -> Wiring[PlacementRef]:
        """Return the wiring: content, progress, open maintenance windows and free members enqueue a placement."""
        turns = self._turns
        return Wiring(
            name="rollout",
            reconcile=self.reconcile,
            concerned=concerned_placement,
            owner=str,
            watches=tuple(self._watches()),
            resync=lambda: placement_refs(self._hub.cache),
            background=() if turns is None else turns.background,
            ends=(self._windows.end, *(() if turns is None else turns.ends)),
        )

    def _watches(self) -> Iterator[Waker[PlacementRef]]:
        for family in FAMILIES:
            yield Watch(family.placement, partial(_itself, family))
            yield Watch(family.resource_snapshot, partial(_of_snapshot, family))
            yield Watch(family.binding, partial(self._of_binding, family))
            yield Watch(family.override_snapshot, _of_override_snapshot)
            for kind in (family.override, family.override_snapshot):
                yield Watch(kind, self._of_awaited)
        yield Watch(MEMBER_CLUSTER, self._of_relabelled)
        yield Signal(self._windows.subscribe, self._of_windows)
        if self._turns is not None:
            yield Signal(self._turns.subscribe, self._of_member)
            yield Signal(self._turns.subscribe_to_placements, self._of_promise)

    def _of_binding(self, family: Family, change: ObjectDelta) -> Iterator[Later[PlacementRef]]:
        """Yield the placement of a binding whose rollout has made progress or failed, debounced."""
        if not change.touches(_seen_of_binding) and not _is_unsaid(change):
            return
        ref = family.parent(change.document)
        count = count_children(self._hub.cache, family.binding, ref)
        yield Later(ref, min(max(SHORTEST_WAIT, count * BINDING_WAIT), LONGEST_WAIT))

    def _of_awaited(self, _: ObjectDelta) -> Iterator[PlacementRef]:
        """Yield the placements that wait for snapshots of overrides, after any change of an override or a snapshot."""
        yield from sorted(self._awaiting, key=str)

    def _of_relabelled(self, change: ObjectDelta) -> Iterator[PlacementRef]:
        """Yield the placements on a relabelled member, whose overrides may have changed."""
        for family, binding in bindings_on_relabelled(self._hub.cache, change):
            yield family.parent(binding)

    def _of_windows(self, members: frozenset[str]) -> Iterator[PlacementRef]:
        """Yield the placements on members whose maintenance windows have changed."""
        for member in members:
            for family, binding in bindings_on(self._hub.cache, member):
                yield family.parent(binding)

    def _of_member(self, member: str) -> Iterator[PlacementRef]:
        """Yield the placements with a binding that waits for a member that may be free now."""
        for family, binding in bindings_on(self._hub.cache, member):
            if waits_for_member(binding):
                yield family.parent(binding)

    def _of_promise(self, name: str) -> Iterator[PlacementRef]:
        """Yield the placement *name*, as ``crp/web``: other clients have reserved or released clusters of it."""
        yield from (ref for ref in placement_refs(self._hub.cache) if str(ref) == name)

    async def reconcile(self, ref: PlacementRef) -> Result:
        """Apply as much of the rollout as the strategy allows, then requeue.

        Raises:
            StuckError: The rollout cannot be planned, for example because a binding is invalid.
            RetryError: Resource snapshots are incomplete, or the MemberCluster of a binding does not exist.
            StoreError: The hub refused a request, or did not respond.
        """
        family = FAMILY_OF[ref.kind]
        self._awaiting.discard(ref)
        placement = self._hub.cache.get(family.placement, ref.name, ref.namespace)
        if placement is None or is_deleting(placement):
            self._numbers.pop(ref, None)
            return await self._follow(ref, [])
        spec = placement["spec"]
        documents = children(self._hub.cache, family.binding, ref)
        if any(map(awaits_restoration, documents)):
            return DONE  # the scheduler restores them first, and that write requeues the placement
        if (spec.get("strategy") or {}).get("type") not in (None, StrategyType.ROLLING_UPDATE):
            for document in documents:
                if is_recreated(document) or self._is_as_before(document):
                    self._mark(family, document, started=True, message="on the previous snapshots")
            return await self._follow(ref, [])
        if outdated := plan_apply_strategy(spec.get("strategy"), documents):
            await self._hub.carry_out_concurrently(family.binding, map(replace, outdated))
            return Result(timedelta())
        state = rollout_state(self._hub.cache, family, placement, documents, works_known=True)
        if state.overrides.awaited:
            self._awaiting.add(ref)
        promised = self._promised(ref, state)
        holds, closed = self._holds(state) | promised, self._closed(state)
        unsaid = DONE
        plan = self._plan(state, held={*holds, *closed}, promised=promised)
        if plan.error is not None:
            log.error("rollout is stopped", extra={"placement": str(ref), "error": plan.error.message})
            raise StuckError(plan.error.message)
        if state.snapshot is not None:
            by_name = {document["metadata"]["name"]: document for document in documents}
            if self._turns is not None and plan.action is Action.ROLL:
                plan = await self._take_turns(ref, plan, holds)
            unsaid = self._until_told(ref, plan)
            waits = dict.fromkeys(state.clusters_awaiting_overrides, state.overrides.waits()) | _waits(holds, closed)
            await self._carry_out(family, plan, by_name, state, waits, renew=unsaid.requeue_after is None)
        return soonest(
            Result(plan.requeue_after),
            unsaid,
            self._until_open(plan, closed),
            Result(RESERVATION_POLL_INTERVAL) if holds else DONE,
            # The bindings as cached now: those just written keep their members reserved.
            await self._follow(ref, views(children(self._hub.cache, family.binding, ref))),
        )

    def _is_as_before(self, binding: JsonObject) -> bool:
        """Return whether a write has left the content of a binding unchanged, and its report is out of date.

        The scheduler makes such a write if it picks the cluster again, or restores a state that a user has set.
        """
        if text_at(binding, "spec", "state") != BindingState.BOUND or is_deleting(binding):
            return False
        has_started = any(condition.get("type") == ROLLOUT_STARTED for condition in conditions_of(binding))
        if not has_started or current_condition(binding, ROLLOUT_STARTED) is not None:
            return False
        return are_made_for(works_of(self._hub.cache, binding), binding)

    def first_bindings(self, family: Family, placement: JsonObject, bindings: Sequence[JsonObject]) -> list[JsonObject]:
        """Return the first bindings of a placement as they will be created: bound, if the rollout would start there.

        The rollout then need not write them again. They are returned unbound if the rollout first has to reserve
        members or to wait, or if staged update runs bind them.

        Args:
            family: Family of the placement.
            placement: It has no bindings yet, so no concurrent rollout of it uses the same limits.
            bindings: All bindings that are about to be created.
        """
        strategy = dict_at(placement, "spec", "strategy")
        if self._turns is not None or strategy.get("type") not in (None, StrategyType.ROLLING_UPDATE):
            return list(bindings)
        with_strategy = {name_of(document): document for document in plan_apply_strategy(strategy, bindings)}
        documents = {name_of(document): with_strategy.get(name_of(document), document) for document in bindings}
        try:
            state = rollout_state(self._hub.cache, family, placement, tuple(documents.values()), works_known=True)
        except (RetryError, ValueError):  # the rollout waits or reports the error: the placement has just changed
            return list(documents.values())
        plan = self._plan(state, held=self._closed(state))
        if plan.action is Action.ROLL and state.snapshot is not None:
            for binding in plan.bind:
                overrides = state.overrides.by_cluster.get(binding.cluster, NO_OVERRIDES)
                documents[binding.name] = bound(documents[binding.name], state.snapshot, overrides)
        return list(documents.values())

    def say_started(self, family: Family, document: JsonObject) -> None:
        """Report on a binding, if it is bound, that its rollout has started."""
        if text_at(document, "spec", "state") == BindingState.BOUND:
            self._mark(family, document, started=True, message=_rolling_out(document))

    def _plan(self, state: RolloutState, *, held: Collection[str], promised: Collection[str] = ()) -> RolloutPlan:
        needs_budget = self._settings.removal_needs_budget
        return state.plan(self._now(), promised=promised, held=held, removal_needs_budget=needs_budget)

    def _holds(self, state: RolloutState) -> dict[str, Hold]:
        """Return the holds on members of a placement, empty if members are not reserved here."""
        if self._turns is None:
            return {}
        return {member: hold for member in state.clusters if (hold := self._turns.waits(member)) is not None}

    def _closed(self, state: RolloutState) -> dict[str, ClosedWindow]:
        """Return the members of a placement whose maintenance windows are closed."""
        now = self._now()
        return {
            member: closed_windows
            for member in state.clusters
            if (closed_windows := self._windows.closed(member, now)) is not None
        }

    def _until_open(self, plan: RolloutPlan, closed: Mapping[str, ClosedWindow]) -> Result:
        """Return the time until the next opening of a window that the plan waits for."""
        closings = (closed.get(binding.cluster) for binding in (*plan.waiting, *plan.deferred_removals))
        opens = [window.opens for window in closings if window is not None and window.opens is not None]
        return Result(max(min(opens) - self._now(), timedelta())) if opens else DONE

    def _promised(self, ref: PlacementRef, state: RolloutState) -> dict[str, Hold]:
        """Return the members that other clients have reserved for a change of the placement.

        They count against its limits.
        """
        if self._turns is None:
            return {}
        return self._turns.reserved_members(str(ref), state.clusters)

    async def _take_turns(self, ref: PlacementRef, plan: RolloutPlan, holds: dict[str, Hold]) -> RolloutPlan:
        """Reserve the members of a plan. Return the plan without members that cannot be reserved now.

        Their holds are added to *holds*.
        """
        turns, holder = self._turns, rollout_holder(str(ref))
        assert turns is not None
        members = sorted({binding.cluster for binding in (*plan.update, *plan.bind, *plan.remove)})
        # Before the requests: a request may fail here although it was stored, and must be released, too.
        self._reserved.setdefault(ref, set()).update(members)

        async def take(member: str) -> None:
            if (hold := await turns.reserve(member, holder)) is not None:
                holds[member] = hold

        await run_concurrently(take(member) for member in members)

        def free(bindings: Iterable[BindingView]) -> tuple[BindingView, ...]:
            return tuple(binding for binding in bindings if binding.cluster not in holds)

        late = (binding for binding in (*plan.update, *plan.bind) if binding.cluster in holds)
        return with_changes(
            plan,
            update=free(plan.update),
            bind=free(plan.bind),
            remove=free(plan.remove),
            waiting=tuple(sorted((*plan.waiting, *late), key=lambda binding: binding.name)),
        )

    def _until_told(self, ref: PlacementRef, plan: RolloutPlan) -> Result:
        """Return the delay before blocked bindings get a changed reason. DONE: write it now, or none is blocked.

        While a rollout makes progress, the reasons change with every step. Writing each on all blocked bindings would
        take more writes than the rollout itself.
        """
        if not plan.blocked:
            self._numbers.pop(ref, None)
            return DONE
        numbers = plan.budget, plan.update, plan.bind, plan.remove, plan.unready
        previous_numbers, since = self._numbers.get(ref, (None, self._now()))
        if previous_numbers != numbers:
            since = self._now()
        self._numbers[ref] = numbers, since
        delay = since + self._settings.renewed_after - self._now()
        return DONE if delay <= timedelta() else Result(delay)

    async def _follow(self, ref: PlacementRef, bindings: Sequence[BindingView]) -> Result:
        """Renew the reservations of the members that the rollout still works on, and release the others."""
        if self._turns is None:
            return DONE
        holder = rollout_holder(str(ref))
        busy = {binding.cluster for binding in bindings if is_rolling(binding) or binding.deleting}
        tracked = self._reserved.pop(ref, set()) | {binding.cluster for binding in bindings}
        reserved = {member for member in tracked if self._turns.holds(member, holder)}
        if reserved & busy:
            self._reserved[ref] = reserved & busy
        await run_concurrently(self._turns.release(member, holder) for member in sorted(reserved - busy))
        await run_concurrently(self._turns.renew(member, holder) for member in sorted(reserved & busy))
        return Result(RENEWED_BELOW) if reserved & busy else DONE

    async def _carry_out(
        self,
        family: Family,
        plan: RolloutPlan,
        documents: Mapping[str, JsonObject],
        state: RolloutState,
        waits: Mapping[str, str],
        *,
        renew: bool,
    ) -> None:
        for binding in plan.waiting:
            self._mark(family, documents[binding.name], started=False, message=waits[binding.cluster])
        for binding in plan.blocked:
            document, message = documents[binding.name], blocked_reason(plan, binding)
            self._mark(family, document, started=False, message=message, renew=renew or waits_for_member(document))
        for binding in plan.up_to_date:
            self._mark(family, documents[binding.name], started=True, message="on the latest resources")
        self._tell_leaving(family, plan, documents, waits)
        snapshot, overrides = state.snapshot, state.overrides.by_cluster
        if plan.action is not Action.ROLL or snapshot is None:
            return
        namespace = next(map(namespace_of, documents.values()), "")
        master = self._hub.cache.get(family.resource_snapshot, snapshot, namespace) or {}
        losing = {binding.name: losing_content(documents[binding.name], master, self._now()) for binding in plan.update}
        bind = (
            self._bind(family, bound(document, snapshot, overrides.get(binding.cluster, NO_OVERRIDES)))
            for binding in (*plan.update, *plan.bind)
            if (document := losing.get(binding.name, documents[binding.name]))
        )
        remove = (mark_and_delete(self._hub, family.binding, documents[binding.name]) for binding in plan.remove)
        await run_concurrently([*bind, *remove])

    def _tell_leaving(
        self, family: Family, plan: RolloutPlan, documents: Mapping[str, JsonObject], waits: Mapping[str, str]
    ) -> None:
        """Report on bindings to be removed that they wait for windows, and what they will wait for afterwards."""
        for binding in plan.deferred_removals:
            document, message = documents[binding.name], waits.get(binding.cluster, "")
            if message.startswith(WAITS_FOR_WINDOW):
                self._mark(family, document, started=False, message=message)
            elif waits_for_window(current_condition(document, ROLLOUT_STARTED) or {}):
                self._mark(family, document, started=False, message=message or blocked_reason(plan, binding))

    async def _bind(self, family: Family, document: JsonObject) -> None:
        self.say_started(family, await self._hub.replace(family.binding, document))

    def _mark(self, family: Family, document: JsonObject, *, started: bool, message: str, renew: bool = True) -> None:
        status = rollout_started_status(document, is_started=started, message=message, now=self._now(), renew=renew)
        if status is not None:
            self._hub.report(family.binding, document, status)


def _rolling_out(binding: JsonObject) -> str:
    spec = spec_of(binding)
    return f"rolling out {spec.get('resourceSnapshotName')} to {spec.get('targetCluster')}"


def _waits(holds: Mapping[str, Hold], closed: Mapping[str, ClosedWindow]) -> dict[str, str]:
    """Return the wait reason by member. Closed windows win over holds, as they last longer."""
    messages = {member: WAITS_FOR_MEMBER + hold.message for member, hold in holds.items()}
    return messages | {member: WAITS_FOR_WINDOW + window.message for member, window in closed.items()}


def waits_for_member(binding: JsonObject) -> bool:
    """Return whether a binding's status reports a wait for its member or for maintenance windows."""
    condition = current_condition(binding, ROLLOUT_STARTED) or {}
    return waits_for_window(condition) or str(condition.get("message") or "").startswith(WAITS_FOR_MEMBER)


def _itself(family: Family, change: ObjectDelta) -> Iterator[PlacementRef]:
    """Yield a placement that was created or deleted, or whose spec, deletion mark or use of overrides has changed."""
    if change.touches(desired) or change.alters(ignores_resource_overrides):
        yield family.ref(change.document)


def _of_snapshot(family: Family, change: ObjectDelta) -> Iterator[PlacementRef]:
    """Yield the placement of a snapshot, which may have new content."""
    yield family.parent(change.document)


def _of_override_snapshot(change: ObjectDelta) -> Iterator[PlacementRef]:
    """Yield the placement that the override of a snapshot names, if any."""
    if (ref := placement_of(change.document)) is not None:
        yield ref


def _seen_of_binding(binding: JsonObject) -> tuple[object, ...]:
    """Return the parts of a binding that trigger a reconcile of the rollout (rollout.md 7.4)."""
    metadata = binding["metadata"]
    seen_conditions = tuple(
        (kind, condition["status"], condition.get("reason") in PASSING_REASONS, condition.get("observedGeneration"))
        if kind == APPLIED
        else (kind, condition["status"], condition.get("reason"), condition.get("observedGeneration"))
        for condition in conditions_of(binding)
        if (kind := condition["type"]) in (AVAILABLE, DIFF_REPORTED, APPLIED)
    )
    removal = pending_reason(binding), object_removal(binding)
    return metadata.get("generation"), metadata.get("deletionTimestamp"), removal, seen_conditions


def _is_unsaid(change: ObjectDelta) -> bool:
    """Return whether a binding has lost its RolloutStarted condition. Setting it does not trigger a reconcile."""
    return change.alters(_started) and not _started(change.document)


def _started(binding: JsonObject) -> bool:
    return has_current_status(binding, ROLLOUT_STARTED, TRUE)
