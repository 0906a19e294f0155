"""Gate for member clusters: rollouts, upgrades and evictions of one member exclude each other.

An answer is advice about the present, from the cache. A guarantee needs a reservation. A reserved placement counts as
being changed until its release: in the plan of its rollout, and among the clusters that its staged update run is
updating.

A member whose maintenance windows are closed is not disrupted, but active disruptions there continue. Upgrade runs
check the windows themselves, and record what they wait for.

Source: docs/specifications/serving.md 3.1; docs/specifications/rollout.md 7.3; docs/specifications/staged-updates.md 6,
7; docs/specifications/upgrade-runs.md 6.5.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

import pydantic

from scorer.api import kinds
from scorer.api.family import FAMILIES, FAMILY_OF, Family, PlacementRef, UnknownObjectError, unknown_placement
from scorer.api.kinds import Kind
from scorer.api.meta import ApiObject, JsonObject, format_time
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.placement.placement import StrategyType
from scorer.api.placement.staged_update import ClusterStagedUpdateRun
from scorer.api.unstructured.documents import annotation, is_deleting, spec_of
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.api.values.name_grammar import label_value_error
from scorer.api.values.quoting import format_count, format_share
from scorer.member_gate.answer import RETRY_INTERVAL, MemberAnswer, MemberDetail, MemberReason
from scorer.member_gate.holds import Hold, MemberDisruption, reservation_hold, staged_update_holds, waits_for
from scorer.reservations import ROLLOUT, Reservation, UnreadableReservationsError, held_nodes
from scorer.rollout.bindings import BindingView
from scorer.rollout.planner import Action, RolloutPlan
from scorer.staged_update import gate as staged_turn
from scorer.upgrade.members.member import UPGRADE_HOLD
from scorer.upgrade.views import member_gate as upgrade_gate
from webhook.gate.errors import ReservationRefusedError
from webhook.gate.holds import HubMemberHolds, seen_in
from webhook.gate.keeper import Claimant, ReservationKeeper
from webhook.gate.reservations import Held
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.informer import Cache
from webhook.kube.cache.live_reads import refresh_list, refresh_objects
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.listers.placements import RolloutState, children, rollout_state
from webhook.kube.ports import Key, RetryError, Store, key_of
from webhook.settings.answers import DisruptionSettings

_OWN: Final = (
    kinds.MEMBER_CLUSTER,
    *(
        kind
        for family in FAMILIES
        for kind in (
            family.placement,
            family.binding,
            family.resource_snapshot,
            family.override,
            family.override_snapshot,
            family.run,
        )
    ),
    kinds.UPGRADE_RUN,
    kinds.MAINTENANCE_WINDOW,
)

WATCHED: Final = tuple(dict.fromkeys((*_OWN, *seen_in(tuple(MemberDisruption)))))
"""All kinds that answers may depend on if the setting ``gate_members`` has every kind of disruption."""

_MOST_NAMED: Final = 3
"""Maximum number of reservations that a message names."""

_Object = TypeVar("_Object", bound=ApiObject)


class HubMemberGate:
    """Answers for the member clusters of a hub.

    Regardless of the setting, an answer includes every reservation of the member. It includes active disruptions only
    of the kinds in the setting.

    Args:
        cache: Cache of the hub. The gate adds the watches that it needs.
        keeper: The reservations.
        store: The hub itself.
        settings: Settings of the operator.
        now: The clock.
    """

    def __init__(
        self,
        cache: Cache,
        keeper: ReservationKeeper,
        store: Store,
        settings: DisruptionSettings,
        now: Callable[[], datetime],
    ) -> None:
        self._cache = cache
        self._keeper = keeper
        self._reservations = keeper.reservations
        self._store = store
        self._removal_needs_budget = settings.removal_needs_budget
        self._rollouts_wait = MemberDisruption.ROLLOUT in settings.gate_members
        self._now = now
        self._parsed: dict[tuple[Kind, Key], tuple[JsonObject, ApiObject | None]] = {}
        self._watched = [cache.of_kind(kind) for kind in (*_OWN, *seen_in(settings.gate_members))]
        self._windows = MaintenanceWindows(cache)
        self.holds = HubMemberHolds(cache, settings.gate_members, self._reservations.cached)
        for kind in (*(family.run for family in FAMILIES), kinds.UPGRADE_RUN):
            cache.subscribe(kind, partial(self._forget, kind))

    @property
    def synced(self) -> bool:
        """Whether all inputs of answers have been listed once."""
        return all(cached.synced.is_set() for cached in self._watched)

    def kind_of(self, ref: PlacementRef) -> MemberDisruption:
        """Return the kind of disruption of a placement's changes: a rollout, or a staged update if runs change it."""
        placement = self._cache.get(FAMILY_OF[ref.kind].placement, ref.name, ref.namespace)
        strategy = spec_of(placement or {}).get("strategy") or {}
        rolls = strategy.get("type") in (None, StrategyType.ROLLING_UPDATE)
        return MemberDisruption.ROLLOUT if rolls else MemberDisruption.STAGED_UPDATE

    def rollout(self, ref: PlacementRef, cluster: str) -> MemberAnswer:
        """Return whether a placement may be changed on a cluster now. Unreadable reservations count as a hold.

        Raises:
            UnknownObjectError: The placement or the member cluster does not exist.
        """
        try:
            return self._rollout(ref, cluster, self._reservations.cached(ROLLOUT, str(ref)))
        except UnreadableReservationsError as error:
            return MemberAnswer.held(Hold(None, "", str(error)), self._now())

    async def reserve_rollout(self, ref: PlacementRef, cluster: str, claimant: Claimant, seconds: int) -> Reservation:
        """Evaluate as `rollout` does. If allowed, reserve the cluster of the placement, and the member.

        Raises:
            ReservationRefusedError: The change is not allowed.
            UnknownObjectError: As in `rollout`.
            MemberHeldError, UnreadableReservationsError, TooManyReservationsError, StoreError: As
                `ReservationKeeper.hold_rollout`.
        """

        def judge(held: Held) -> MemberDisruption:
            answer = self._rollout(ref, cluster, held)
            if not answer.allowed:
                raise ReservationRefusedError(answer.document())
            return self.kind_of(ref)

        look = partial(self._look_again, ref)
        return await self._keeper.hold_rollout(str(ref), cluster, claimant, seconds, judge=judge, look=look)

    async def reserve_update(self, cluster: str, run: str, claimant: Claimant, seconds: int) -> Reservation:
        """Evaluate as `cluster_update` does. If allowed, reserve the member.

        Raises:
            ReservationRefusedError, UnknownObjectError, MemberHeldError, UnreadableReservationsError,
                TooManyReservationsError, StoreError: As `reserve_rollout`.
        """
        answer = self.cluster_update(cluster, run)
        if not answer.allowed:
            raise ReservationRefusedError(answer.document())
        return await self._keeper.hold_member(cluster, MemberDisruption.UPGRADE, claimant, seconds)

    async def _look_again(self, ref: PlacementRef) -> None:
        """Refresh a placement and its bindings in the cache from the store, unless bindings cannot carry its name."""
        if label_value_error(ref.name):  # bindings carry the name of their placement in a label
            return
        family, store = FAMILY_OF[ref.kind], self._store
        bindings = children(self._cache, family.binding, ref)
        await refresh_objects(self._cache, store, family.placement, [Key(ref.name, ref.namespace)])
        await refresh_list(self._cache, store, family.binding, {PARENT_PLACEMENT: ref.name}, bindings, ref.namespace)

    def _rollout(self, ref: PlacementRef, cluster: str, reservations: Iterable[Reservation]) -> MemberAnswer:
        """Answer, given the reservations of the placement. Raises as `rollout`."""
        family = FAMILY_OF[ref.kind]
        placement = self._cache.get(family.placement, ref.name, ref.namespace)
        if placement is None:
            raise UnknownObjectError(unknown_placement(ref))
        self._member(cluster)
        if is_deleting(placement):
            return MemberAnswer(MemberReason.NOTHING_TO_DO, f"{ref} is being deleted")
        documents = children(self._cache, family.binding, ref)
        if not any(spec_of(document).get("targetCluster") == cluster for document in documents):
            return MemberAnswer(MemberReason.NOT_SELECTED, f"{ref} has not picked cluster {cluster}")
        kind, reservations = self.kind_of(ref), tuple(reservations)
        promises = held_nodes(reservations)[0] - {cluster}
        if kind is MemberDisruption.STAGED_UPDATE:
            answer = self._staged(ref, cluster, promises)
        else:
            answer = self._rolling(family, ref, placement, documents, cluster, promises)
        if promises and answer.reason is MemberReason.BUDGET_USED_UP:
            answer = replace(answer, message=f"{answer.message}; {_promises(reservations, promises)}")
        answer = self._unless_closed(answer, ref, cluster)
        return self._unless_held(answer, kind, cluster, reservation_hold(str(ref), cluster, reservations))

    def cluster_update(self, cluster: str, run: str = "") -> MemberAnswer:
        """Return whether a cluster may be upgraded now.

        Args:
            cluster: The member.
            run: Name of the run. Empty: the oldest unfinished run that includes the member.

        Raises:
            UnknownObjectError: The member cluster or the run does not exist.
        """
        member = self._member(cluster)
        if run and self._cache.get(kinds.UPGRADE_RUN, run) is None:
            raise UnknownObjectError(f"there is no ClusterUpgradeRun {run[:320]!r}")
        runs = [
            upgrade_run
            for upgrade_run in self._read_all(kinds.UPGRADE_RUN, "", ClusterUpgradeRun)
            if (upgrade_run.metadata.name == run if run else not upgrade_gate.has_ended(upgrade_run))
        ]
        chosen_run = next((run for run in runs if upgrade_gate.covers(run, cluster)), None)
        if chosen_run is None:
            message = (
                f"member {cluster} is not in run {run}"
                if run
                else f"no unfinished upgrade run includes member {cluster}"
            )
            return MemberAnswer(MemberReason.NOT_IN_RUN, message)
        are_upgrades_paused = annotation(member, UPGRADE_HOLD) == "true"
        answer = upgrade_gate.may_upgrade(chosen_run, cluster, self._now(), upgrades_paused=are_upgrades_paused)
        if answer.allowed and (busy := self._busy(cluster, chosen_run.metadata.name)):
            detail: MemberDetail = {**answer.detail, "busyWith": busy}
            message = f"member {cluster} is being upgraded by run {busy}"
            return MemberAnswer(MemberReason.CLUSTER_BUSY, message, detail)
        answer = _with_forecast(answer, chosen_run, cluster, self._now())
        return self._unless_held(answer, MemberDisruption.UPGRADE, cluster)

    def _forget(self, kind: Kind, change: ObjectDelta) -> None:
        if change.new is None:
            self._parsed.pop((kind, key_of(change.document)), None)

    def _member(self, cluster: str) -> JsonObject:
        member = self._cache.get(kinds.MEMBER_CLUSTER, cluster)
        if member is None:
            raise UnknownObjectError(f"there is no member cluster {cluster[:320]!r}")
        return member

    def _is_under_way(self, ref: PlacementRef, cluster: str) -> bool:
        """Return whether a staged update run is changing a placement on a cluster."""
        runs = self._cache.list(FAMILY_OF[ref.kind].run, ref.namespace)
        return any(
            spec_of(run).get("placementName") == ref.name and cluster in staged_update_holds(run) for run in runs
        )

    def _unless_closed(self, answer: MemberAnswer, ref: PlacementRef, cluster: str) -> MemberAnswer:
        """Return *answer*, or the member's closed window if *answer* allows the change now or later.

        A staged update that is already changing the placement there continues.
        """
        now = self._now()
        closed_window = self._windows.closed(cluster, now) if _may_wait(answer) else None
        if closed_window is None or self._is_under_way(ref, cluster):
            return answer
        after = RETRY_INTERVAL if closed_window.opens is None else closed_window.opens - now
        return MemberAnswer(MemberReason.MAINTENANCE_WINDOW_CLOSED, closed_window.message, answer.detail, after)

    def _unless_held(
        self, answer: MemberAnswer, kind: MemberDisruption, cluster: str, reservation: Hold | None = None
    ) -> MemberAnswer:
        """Return *answer*, unless it allows the change, now or later, but the member is held: then report the hold."""
        if not _may_wait(answer):
            return answer
        hold = waits_for(kind, self.holds.of(cluster)) or reservation
        if hold is None:
            return answer
        hold_answer = MemberAnswer.held(hold, self._now())
        return MemberAnswer(
            hold_answer.reason, hold_answer.message, {**answer.detail, **hold_answer.detail}, hold_answer.retry_after
        )

    def _busy(self, cluster: str, but: str) -> str:
        """Return a run other than *but* that is upgrading a member, empty if there is no such run."""
        runs = self._read_all(kinds.UPGRADE_RUN, "", ClusterUpgradeRun)
        others = (run for run in runs if run.metadata.name != but)
        return next((run.metadata.name for run in others if upgrade_gate.is_upgrading(run, cluster)), "")

    def _staged(self, ref: PlacementRef, cluster: str, promises: Collection[str]) -> MemberAnswer:
        """Answer for a placement that only staged update runs change."""
        runs = [
            run
            for run in self._read_all(FAMILY_OF[ref.kind].run, ref.namespace, ClusterStagedUpdateRun)
            if run.spec.placement_name == ref.name and not staged_turn.has_ended(run)
        ]
        run = next((run for run in runs if staged_turn.covers(run, cluster)), next(iter(runs), None))
        if run is None:
            message = f"{ref} is changed by staged update runs only, and there is no unfinished one"
            return MemberAnswer(MemberReason.WAITING_FOR_RUN, message)
        return staged_turn.may_update(run, cluster, self._now(), promises)

    def _rolling(
        self,
        family: Family,
        ref: PlacementRef,
        placement: JsonObject,
        documents: list[JsonObject],
        cluster: str,
        promises: Collection[str],
    ) -> MemberAnswer:
        """Answer from the present plan of the rollout."""
        try:
            state = rollout_state(self._cache, family, placement, documents, works_known=False)
            plan = state.plan(
                self._now(),
                promised=promises,
                held=self._left_out(state, cluster),
                removal_needs_budget=self._removal_needs_budget,
            )
        except (RetryError, ValueError) as error:
            return MemberAnswer(MemberReason.BUDGET_USED_UP, f"the rollout of {ref} cannot be planned: {error}")
        if state.overrides.awaited and any(binding.cluster == cluster for binding in plan.waiting):
            return MemberAnswer(MemberReason.BUDGET_USED_UP, f"the rollout of {ref} {state.overrides.waits()}")
        return _planned(plan, ref, cluster, state.snapshot or "")

    def _left_out(self, state: RolloutState, but: str) -> set[str]:
        """Return the clusters that the rollout skips: their windows are closed, or another disruption holds them."""
        now, others = self._now(), set(state.clusters) - {but}
        closed_members = {reservation for reservation in others if self._windows.closed(reservation, now) is not None}
        if not self._rollouts_wait:
            return closed_members
        return closed_members | {
            reservation
            for reservation in others
            if waits_for(MemberDisruption.ROLLOUT, self.holds.of(reservation)) is not None
        }

    def _read_all(self, kind: Kind, namespace: str, model: type[_Object]) -> list[_Object]:
        """Return the valid objects of a kind, the oldest first."""
        objects = (self._read(kind, document, model) for document in self._cache.list(kind, namespace))
        return sorted((instance for instance in objects if instance is not None), key=_age)

    def _read(self, kind: Kind, document: JsonObject, model: type[_Object]) -> _Object | None:
        """Parse an object, or return the cached result if it has not changed. None: unknown, the object is invalid."""
        place = (kind, key_of(document))
        cached = self._parsed.get(place)
        if cached is None or cached[0] is not document:
            cached = self._parsed[place] = (document, _read(document, model))
        return cached[1] if isinstance(cached[1], model) else None


def _with_forecast(answer: MemberAnswer, run: ClusterUpgradeRun, cluster: str, now: datetime) -> MemberAnswer:
    """Return an answer with the planned start of the member. A retry before that is pointless."""
    plan = run.status.plan
    start = (
        next((member.start for member in plan.members if member.name == cluster), None) if plan is not None else None
    )
    if answer.allowed or answer.reason is MemberReason.NOTHING_TO_DO or start is None or start <= now:
        return answer
    after = answer.retry_after if answer.retry_after != RETRY_INTERVAL else start - now
    return replace(answer, detail={**answer.detail, "expectedAt": format_time(start)}, retry_after=after)


def _may_wait(answer: MemberAnswer) -> bool:
    """Return whether an answer allows the change, now or as soon as the budget permits it."""
    return answer.allowed or answer.reason is MemberReason.BUDGET_USED_UP


def _planned(plan: RolloutPlan, ref: PlacementRef, cluster: str, snapshot: str) -> MemberAnswer:
    budget = plan.budget
    detail: MemberDetail = {
        "snapshot": snapshot,
        "wanted": budget.target,
        "ready": budget.ready,
        "mayBeTakenAway": max(0, budget.max_to_remove),
        "mayBeAdded": max(0, budget.max_to_add),
    }
    after = plan.requeue_after or RETRY_INTERVAL

    def among(bindings: tuple[BindingView, ...]) -> bool:
        return any(binding.cluster == cluster for binding in bindings)

    if plan.action is Action.ERROR:
        assert plan.error is not None
        return MemberAnswer(MemberReason.BUDGET_USED_UP, f"the rollout of {ref} is stopped: {plan.error.message}")
    if plan.action is Action.WAIT_CLEANUP:
        message = f"{ref} waits until the old binding of a cluster that was picked again is deleted"
        return MemberAnswer(MemberReason.BUDGET_USED_UP, message, retry_after=after)
    for bindings, action in ((plan.update, "be updated"), (plan.bind, "be placed"), (plan.remove, "be removed")):
        if among(bindings):
            return MemberAnswer(MemberReason.ALLOWED, f"{ref} may {action} on cluster {cluster}", detail)
    if among(plan.blocked) or among(plan.deferred_removals):
        first = ", and other clusters come first" if plan.update or plan.bind or plan.remove else ""
        message = (
            f"{ref}: {format_share(budget.ready, budget.target, 'cluster')} ready, so {detail['mayBeTakenAway']} may "
            f"be updated or removed, and {detail['mayBeAdded']} added{first}"
        )
        return MemberAnswer(MemberReason.BUDGET_USED_UP, message, detail, after)
    if plan.action is Action.NO_SNAPSHOT:
        message = f"nothing of {ref} has been selected yet"
    elif among(plan.up_to_date):
        message = f"{ref} is on its latest resources on cluster {cluster}"
    else:
        message = f"{ref} is leaving cluster {cluster}"
    return MemberAnswer(MemberReason.NOTHING_TO_DO, message, detail, after)


def _promises(reservations: Iterable[Reservation], clusters: Collection[str]) -> str:
    """Return holder and expiry of the reservations of *clusters*, sorted by expiry."""
    time = [
        f"{', '.join(sorted(names))} reserved by {reservation.holder} until {format_time(reservation.expires)}"
        for reservation in sorted(reservations, key=lambda reservation: reservation.expires)
        if not isinstance(reservation.granted, int) and (names := set(reservation.granted).intersection(clusters))
    ]
    further = len(time) - _MOST_NAMED
    more = f" and {format_count(further, 'more reservation')}" if further > 0 else ""
    return "; ".join(time[:_MOST_NAMED]) + more


def _read(document: JsonObject, model: type[_Object]) -> _Object | None:
    try:
        return model.read(document)
    except pydantic.ValidationError:  # an invalid run is never executed
        return None


def _age(model: ApiObject) -> tuple[float, str]:
    created = model.metadata.creation_timestamp
    return (created.timestamp() if created is not None else 0.0, model.metadata.name)
