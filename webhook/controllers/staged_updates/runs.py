"""The controller of staged update runs.

Each step stores the status of the run last. The next step relies only on what is stored, so a new leader continues from
there. If a leader stops within a step, a binding may have been written but not recorded. The next leader recognizes it
by the uid of the run in its annotation ``harbormaster.dev/updated-by``.

Source: docs/specifications/staged-updates.md 2 to 11.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace as with_changes
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

from scorer.api.event import Event
from scorer.api.family import FAMILIES, Family, PlacementRef, family_in, placement_ref
from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.meta import JsonObject
from scorer.api.names import ON_FAILURE, UPDATE_RUN_FINALIZER
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    current_condition,
    dict_at,
    dicts_at,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    text_at,
    with_finalizer,
    with_metadata,
    without_finalizer,
)
from scorer.member_gate.holds import staged_update_holder, staged_update_holds
from scorer.rollout.bindings import Overrides, object_removal
from scorer.rollout.confirmation.objects import content_record, placed_selection
from scorer.rollout.removal.deletion import awaits_restoration
from scorer.rollout.selection.selector import InvalidSelection, Selection
from scorer.rollout.snapshots.content_record import NO_RECORD
from scorer.rollout.snapshots.groups import SnapshotGroup, snapshot_groups
from scorer.staged_update.approval.analysis_evaluation import ANALYZED, has_automatic_approval, is_check_pending
from scorer.staged_update.approval.requests import APPROVED, requests_of
from scorer.staged_update.execution.clusters import started_status
from scorer.staged_update.execution.engine import advance, is_over
from scorer.staged_update.facts import ClusterWait, StagedUpdateFacts
from scorer.staged_update.outcome import (
    Accept,
    Action,
    CreateApprovalRequest,
    Discard,
    Remove,
    StagedUpdateStep,
    Update,
)
from scorer.staged_update.phase import RunWaitKind, situation_of
from scorer.staged_update.plan.initialization import full_name
from scorer.staged_update.record import INITIALIZED, STARTED, cluster_name, clusters_of, status, tasks_of
from webhook.controllers.machinery.failures import Concerned
from webhook.controllers.machinery.observer import UNOBSERVED, LoopObserver
from webhook.controllers.machinery.result import DONE, Result, StuckError, soonest
from webhook.controllers.machinery.wiring import Later, Signal, Waker, Watch, Wiring
from webhook.controllers.members.reservations import RESERVATION_POLL_INTERVAL, MemberReservations, Reserved
from webhook.controllers.placements.deletion import mark_and_delete
from webhook.controllers.placements.removals import ContentRemovals
from webhook.controllers.placements.resource_selection import Selecting
from webhook.controllers.placements.resource_watches import Selectables
from webhook.kube.cache.changes import ObjectDelta, desired
from webhook.kube.cache.hub import Hub, run_concurrently
from webhook.kube.cache.live_reads import is_deleted_with_definition
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.listers.overrides import desired_overrides
from webhook.kube.listers.placements import children
from webhook.kube.ports import Key
from webhook.settings.loop import LoopSettings

APPROVAL_NEEDED: Final = "ApprovalNeeded"
"""Reason of the Event for a run that waits for a user. Upgrade runs use it for their gates."""
BINDING_WAIT: Final = timedelta(milliseconds=2)
"""Debounce per cluster in flight after a binding has changed: bindings change together."""
LONGEST_WAIT: Final = timedelta(milliseconds=500)
FEW: Final = 20
"""Up to this number of clusters in flight, binding changes are not debounced."""


class RunRef(NamedTuple):
    """Key of a run. An empty namespace means the cluster-scoped family."""

    name: str
    namespace: str = ""

    @classmethod
    def of(cls, run: JsonObject) -> "RunRef":
        """Return the reference of a run."""
        return cls(name_of(run), namespace_of(run))

    @property
    def family(self) -> Family:
        """The kinds of the run's family."""
        return family_in(self.namespace)


class StagedUpdateController:
    """Takes runs through their stages.

    Args:
        hub: The hub cluster.
        now: The clock.
        record: Records Events.
        selectables: Lists selectable objects.
        settings: Settings of the operator.
        windows: Maintenance windows of the members.
        turns: Reserves members. None: disabled, runs wait only for their stages.
        observer: Reports runs that wait for an approval.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        selectables: Selectables,
        settings: LoopSettings,
        windows: MaintenanceWindows,
        turns: MemberReservations | None = None,
        observer: LoopObserver = UNOBSERVED,
    ) -> None:
        self._hub = hub
        self._now = now
        self._record = record
        self._selecting = Selecting(hub, selectables, settings.selection)
        self._removals = ContentRemovals(hub, now, record, settings.removal)
        self._windows = windows
        self._turns = turns
        self._observer = observer
        self._analyses = settings.analysis.is_on
        self._open: dict[PlacementRef, set[RunRef]] = {}
        """Unfinished runs by placement."""
        self._waiting: dict[RunRef, frozenset[str]] = {}
        """Members that each run waits for."""
        self._in_flight: dict[RunRef, int] = {}
        """Number of clusters in flight per run."""
        self._reserved = Reserved[RunRef](turns)
        self._reported_waits: dict[RunRef, str] = {}
        """Last reported reason of each run that cannot be initialized yet."""
        self._analysis_questions: dict[RunRef, frozenset[str]] = {}
        """Approval requests of each run that a user must answer."""

    def wiring(self) -> Wiring[RunRef]:
        """Return the wiring: runs, their approvals, and all inputs of their next step enqueue a run."""
        turns = self._turns
        return Wiring(
            name="staged_update",
            reconcile=self.reconcile,
            concerned=lambda ref: Concerned(ref.family.run, Key(ref.name, ref.namespace)),
            owner=self._owner,  # its placement: a run writes the bindings that the placement's controllers write
            watches=tuple(self._watches()),
            resync=self._all_open,
            background=() if turns is None else turns.background,
            ends=(self._windows.end, *(() if turns is None else turns.ends)),
        )

    def _watches(self) -> Iterator[Waker[RunRef]]:
        for family in FAMILIES:
            yield Watch(family.run, self._of_run)
            yield Watch(family.approval_request, _of_request)
            yield Watch(family.placement, partial(self._of_placement, family))
            yield Watch(family.policy_snapshot, partial(self._of_policy_snapshot, family))
            yield Watch(family.binding, partial(self._of_binding, family))
        yield Watch(MEMBER_CLUSTER, self._of_member)
        yield Signal(self._windows.subscribe, self._of_windows)
        if self._turns is not None:
            yield Signal(self._turns.subscribe, self._of_free_member)

    def _of_run(self, change: ObjectDelta) -> Iterator[RunRef]:
        """Yield a run that was created, deleted or edited by a user. Update the table of unfinished runs."""
        ref, run = RunRef.of(change.document), change.document
        if change.alters(_placement_of) and change.old is not None:  # only possible if admission was bypassed
            self._close(_placement_of(change.old), ref)
        if change.new is not None and (is_deleting(run) or not is_over(run)):
            self._open.setdefault(_placement_of(run), set()).add(ref)
        else:
            self._close(_placement_of(run), ref)
        if change.touches(desired):
            yield ref

    def _owner(self, ref: RunRef) -> str | None:
        run = self._hub.cache.get(ref.family.run, ref.name, ref.namespace)
        return None if run is None else str(_placement_of(run))

    def _close(self, placement: PlacementRef, ref: RunRef) -> None:
        if (cached := self._open.get(placement)) is not None:
            cached.discard(ref)
            if not cached:
                del self._open[placement]

    def _all_open(self) -> Iterator[RunRef]:
        return (ref for refs in list(self._open.values()) for ref in list(refs))

    def _of_placement(self, family: Family, change: ObjectDelta) -> Iterator[RunRef]:
        if change.touches(desired):
            yield from self._open.get(family.ref(change.document), ())

    def _of_policy_snapshot(self, family: Family, change: ObjectDelta) -> Iterator[RunRef]:
        """Yield the runs of a placement after a scheduling decision."""
        if change.touches(_seen_of_snapshot):
            yield from self._open.get(family.parent(change.document), ())

    def _of_binding(self, family: Family, change: ObjectDelta) -> Iterator[RunRef | Later[RunRef]]:
        """Yield the runs of the placement of a changed binding, debounced if more than `FEW` clusters are in flight."""
        if not change.touches(_seen_of_binding):
            return
        parent = family.parent(change.document)
        for ref in self._open.get(parent, ()):
            count = self._in_flight.get(ref, 0)
            yield ref if count <= FEW else Later(ref, min(count * BINDING_WAIT, LONGEST_WAIT))

    def _of_member(self, change: ObjectDelta) -> Iterator[RunRef]:
        """Yield all open runs if a member is created, deleted or relabelled: its stage may have changed."""
        if change.touches(labels_of):
            yield from self._all_open()

    def _of_windows(self, members: frozenset[str]) -> Iterator[RunRef]:
        """Yield the runs that wait for one of these members, whose maintenance windows have changed."""
        return (ref for ref, members_awaited in list(self._waiting.items()) if members_awaited & members)

    def _of_free_member(self, member: str) -> Iterator[RunRef]:
        """Yield the runs that wait for a member."""
        return (ref for ref, members in list(self._waiting.items()) if member in members)

    async def reconcile(self, ref: RunRef) -> Result:
        """Execute the next step of a run, and requeue it if there are more.

        Raises `RetryError` if a run that starts waits for overrides or for the list of a kind, and `StoreError`.
        """
        family = ref.family
        run = self._hub.cache.get(family.run, ref.name, ref.namespace)
        if run is None:
            return await self._follow(ref, None)
        if is_deleting(run):
            return await self._clean_up(ref, run)
        if is_over(run):
            return await self._follow(ref, run)
        if (with_our_finalizer := with_finalizer(run, UPDATE_RUN_FINALIZER)) is not None:
            run = await self._hub.amend(family.run, with_our_finalizer)
        facts = await self._facts(ref, run)
        if _awaits_scheduler(facts):
            return Result(RESERVATION_POLL_INTERVAL)
        step = await self._decide(ref, run, facts)
        cached_questions = self._analysis_questions.get(ref)
        # Requests recorded before this term were reported then.
        known_requests: Collection[str] = self._asks(ref, run) if cached_questions is None else cached_questions
        run = await self._carry_out(family, run, step)
        self._tell(ref, run, step)
        self._ask(ref, run, known_requests)
        waits = Result(RESERVATION_POLL_INTERVAL) if self._waiting.get(ref) else DONE
        return soonest(Result(step.again), waits, await self._follow(ref, run))

    async def _facts(self, ref: RunRef, run: JsonObject) -> StagedUpdateFacts:
        """Gather the inputs of a decision."""
        cache, family, spec = self._hub.cache, ref.family, spec_of(run)
        parent = placement_ref(text_at(spec, "placementName"), ref.namespace)
        placement = cache.get(family.placement, parent.name, parent.namespace)
        bindings = children(cache, family.binding, parent)
        facts = StagedUpdateFacts(
            now=self._now(),
            placement=placement,
            policy_snapshots=children(cache, family.policy_snapshot, parent),
            bindings=bindings,
            members={name_of(member): labels_of(member) for member in cache.list(MEMBER_CLUSTER)},
            requests=self._requests(ref, run),
            runs=cache.list(family.run, ref.namespace) if annotation(run, ON_FAILURE) else (),
            waits=self._waits(run),
        )
        if status(status_of(run), INITIALIZED):
            return facts
        return await self._first_facts(ref, run, facts, parent)

    async def _first_facts(
        self, ref: RunRef, run: JsonObject, facts: StagedUpdateFacts, parent: PlacementRef
    ) -> StagedUpdateFacts:
        """Record the confirmed removals of the current selection, and add the inputs for the initialization."""
        cache, family, placement = self._hub.cache, ref.family, facts.placement
        if placement is None:
            return facts
        selection = None
        if not text_at(run, "spec", "resourceSnapshotIndex") and not is_deleting(placement):
            selection = await self._selecting.select(family, parent, placement)
        record = NO_RECORD
        judgement = self._removals.judge(family, placement, selection) if selection is not None else None
        if isinstance(selection, InvalidSelection) and judgement is not None and judgement.confirmed:
            selection = selection.rest
        if isinstance(selection, Selection):
            placement = await self._removals.order(family, placement, judgement)
            selection, record = placed_selection(selection, judgement), content_record(judgement)

        def overrides(group: SnapshotGroup) -> Mapping[str, Overrides]:
            desired = desired_overrides(cache, placement, group, facts.bindings)
            if desired.awaited:
                raise StuckError(desired.waits())
            return desired.by_cluster

        return with_changes(
            facts,
            strategy=cache.get(family.strategy, text_at(run, "spec", "stagedRolloutStrategyName"), ref.namespace),
            groups=snapshot_groups(children(cache, family.resource_snapshot, parent)),
            selection=selection,
            content=record,
            overrides=overrides,
        )

    def _requests(self, ref: RunRef, run: JsonObject) -> dict[str, JsonObject]:
        """Return the approval requests that the tasks of a run name."""
        names = (text_at(task, "approvalRequestName") for stage in _stages(run) for task in tasks_of(stage))
        requests = {
            name: self._hub.cache.get(ref.family.approval_request, name, ref.namespace) for name in names if name
        }
        return {name: request for name, request in requests.items() if request is not None}

    def _waits(self, run: JsonObject) -> dict[str, ClusterWait]:
        """Return the clusters of a run that have not been started and must not be disrupted now."""
        names = (
            cluster_name(entry)
            for stage in _stages(run)
            for entry in clusters_of(stage)
            if status(entry, STARTED) != "True"
        )
        now = self._now()
        waits = ((name, self._wait(name, now)) for name in names)
        return {name: wait for name, wait in waits if wait is not None}

    def _wait(self, member: str, now: datetime) -> ClusterWait | None:
        """Return why a member must not be disrupted now. None if it may be."""
        if (closed := self._windows.closed(member, now)) is not None:
            return ClusterWait(closed.message, closed.opens)
        hold = None if self._turns is None else self._turns.waits(member)
        return None if hold is None else ClusterWait(hold.message, hold.until)

    async def _decide(self, ref: RunRef, run: JsonObject, facts: StagedUpdateFacts) -> StagedUpdateStep:
        """Plan a step and reserve its members. Plan again without members that cannot be reserved."""
        step = advance(run, facts)
        while refusals := await self._take(ref, run, step):
            facts = with_changes(facts, waits={**facts.waits, **refusals})
            step = advance(run, facts)
        self._waiting[ref] = frozenset(facts.waits)
        return step

    async def _take(self, ref: RunRef, run: JsonObject, step: StagedUpdateStep) -> dict[str, ClusterWait]:
        """Reserve the members of a step. Return those that are held."""
        members = filter(None, map(_touched, step.actions))
        refusals = await self._reserved.reserve(ref, staged_update_holder(full_name(run)), members)
        return {member: ClusterWait(hold.message, hold.until) for member, hold in refusals.items()}

    async def _carry_out(self, family: Family, run: JsonObject, step: StagedUpdateStep) -> JsonObject:
        """Execute a step, and store the record of the run last. Return the stored run."""
        if step.annotations:
            run = await self._hub.amend(family.run, with_metadata(run, annotations=step.annotations))
        await self._hub.carry_out(family.resource_snapshot, step.snapshots)
        await run_concurrently(self._act(family, action) for action in step.actions)
        if step.rollback is not None:
            await self._hub.create(family.run, step.rollback)
        if step.status is not None:
            run = await self._hub.store_status(family.run, run, step.status)
        return run

    async def _act(self, family: Family, action: Action) -> None:
        match action:
            case Update(binding=binding, wanted=wanted, message=message):
                current = binding if wanted is binding else await self._hub.replace(family.binding, wanted)
                self._hub.report(family.binding, current, started_status(current, message, self._now()))
            case Remove(binding=binding):
                await mark_and_delete(self._hub, family.binding, binding)
            case CreateApprovalRequest(request=request):
                await self._hub.create(family.approval_request, request)
            case Discard(request=request):
                await self._hub.delete(family.approval_request, request)
            case Accept(request=request, status=accepted):
                await self._hub.store_status(family.approval_request, request, accepted)

    def _tell(self, ref: RunRef, run: JsonObject, step: StagedUpdateStep) -> None:
        for event in step.events:
            self._record(run, event)
        if not step.waits_for:
            self._reported_waits.pop(ref, None)
        elif self._reported_waits.get(ref) != step.waits_for:
            self._reported_waits[ref] = step.waits_for
            self._record(run, Event("UpdateRunPending", step.waits_for))

    def _ask(self, ref: RunRef, run: JsonObject, known_requests: Collection[str]) -> None:
        """Record an Event per approval that needs a user, except *known_requests*."""
        questions = self._asks(ref, run)
        for request, message in questions.items():
            if request not in known_requests:
                self._record(run, Event(APPROVAL_NEEDED, f"waiting for {message}"))
        self._analysis_questions[ref] = frozenset(questions)
        self._observer.needs_action(ref.family.run, ref, still=bool(questions))

    def _asks(self, ref: RunRef, run: JsonObject) -> dict[str, str]:
        """Return the approval requests of a run that a user must answer, with their messages."""
        requests = self._requests(ref, run)
        return {
            wait.request: wait.message
            for wait in situation_of(run, requests.values(), self._now()).waits
            if wait.kind is RunWaitKind.APPROVAL
            and wait.needs_person
            and not (self._analyses and is_check_pending(run, requests.get(wait.request, {})))
        }

    async def _follow(self, ref: RunRef, run: JsonObject | None) -> Result:
        """Renew the reservations of the members that a run works on, and release the others."""
        busy = set(staged_update_holds(run)) if run is not None else set()
        self._in_flight[ref] = len(busy)
        if run is None or is_over(run):
            for table in (self._waiting, self._reported_waits, self._in_flight, self._analysis_questions):
                table.pop(ref, None)
            self._observer.needs_action(ref.family.run, ref, still=False)
        holder = staged_update_holder(f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name)
        return await self._reserved.follow(ref, holder, busy)

    async def _clean_up(self, ref: RunRef, run: JsonObject) -> Result:
        """Delete the approval requests of a run that is being deleted, then remove the run's finalizer."""
        family = ref.family
        if not await is_deleted_with_definition(self._hub.store, family.run):
            requests = requests_of(run, self._hub.cache.list(family.approval_request, ref.namespace))
            await run_concurrently(self._hub.delete(family.approval_request, request) for request in requests)
        if (free := without_finalizer(run, UPDATE_RUN_FINALIZER)) is not None:
            await self._hub.amend(family.run, free)
        return await self._follow(ref, None)


def _placement_of(run: JsonObject) -> PlacementRef:
    return placement_ref(text_at(run, "spec", "placementName"), namespace_of(run))


def _awaits_scheduler(facts: StagedUpdateFacts) -> bool:
    """Return whether the scheduler is about to restore a binding that another client has set to Unscheduled.

    Its write requeues the run. The bindings of a placement that is being deleted are not restored.
    """
    if facts.placement is None or is_deleting(facts.placement):
        return False
    return any(map(awaits_restoration, facts.bindings))


def _stages(run: JsonObject) -> list[JsonObject]:
    status = status_of(run)
    return [*dicts_at(status, "stagesStatus"), dict_at(status, "deletionStageStatus")]


def _touched(action: Action) -> str:
    """Return the cluster whose content an action changes, empty if it changes none."""
    match action:
        case Update(cluster=cluster, binding=binding, wanted=wanted) if wanted is not binding:
            return cluster
        case Remove(cluster=cluster):
            return cluster
        case _:
            return ""


def _of_request(change: ObjectDelta) -> Iterator[RunRef]:
    """Yield the run of an approval request that was created, deleted or answered, or that a user must answer now."""
    if change.touches(_seen_of_request):
        request = change.document
        yield RunRef(text_at(request, "spec", "parentStageRollout"), namespace_of(request))


def _seen_of_request(request: JsonObject) -> object:
    approvals = [condition for condition in conditions_of(request) if condition.get("type") == APPROVED]
    analyses = current_condition(request, ANALYZED) is not None, has_automatic_approval(request)
    return desired(request), approvals, analyses


def _seen_of_snapshot(snapshot: JsonObject) -> object:
    """Return the parts of a policy snapshot that a run depends on."""
    scheduled = [
        (condition.get("status"), condition.get("observedGeneration"))
        for condition in conditions_of(snapshot)
        if condition.get("type") == "Scheduled"
    ]
    metadata = snapshot["metadata"]
    return (
        metadata.get("labels"),
        metadata.get("annotations"),
        scheduled,
        status_of(snapshot).get("observedCRPGeneration"),
    )


def _seen_of_binding(binding: JsonObject) -> object:
    """Return the parts of a binding that a run depends on."""
    conditions = tuple(
        (condition.get("type"), condition.get("status"), condition.get("reason"), condition.get("observedGeneration"))
        for condition in conditions_of(binding)
    )
    return desired(binding), object_removal(binding), conditions
