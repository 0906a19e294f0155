"""The controller of upgrade runs: the record is stored before a back end is called.

A leader that stops in between leaves a recorded operation that the back end does not know. The next leader requests it
again under the same id.

Source: docs/specifications/upgrade-runs.md 5 to 10 and 15.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.conditions import merge_conditions
from scorer.api.event import Event
from scorer.api.kinds import (
    MEMBER_CLUSTER,
    UPGRADE_GATE,
    UPGRADE_REQUEST,
    UPGRADE_RUN,
    UPGRADE_STRATEGY,
    VERSION_CATALOG,
)
from scorer.api.meta import JsonObject
from scorer.api.names import UPGRADE_RUN_FINALIZER
from scorer.api.unstructured.documents import (
    annotations_of,
    conditions_of,
    dicts_at,
    is_deleting,
    labels_of,
    name_of,
    owner_reference,
    spec_of,
    status_of,
    text_at,
    uid_of,
    with_finalizer,
    without_finalizer,
)
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import ClusterUpgradeRun, MemberStatus
from scorer.member_gate.holds import upgrade_holder
from scorer.upgrade.back_ends.interface import Operation, Rejected
from scorer.upgrade.evaluation.engine import advance
from scorer.upgrade.evaluation.gates import APPROVED
from scorer.upgrade.state.facts import UpgradeRunFacts
from scorer.upgrade.state.operations import operation_of, with_operation
from scorer.upgrade.state.record import OVER, status_document
from scorer.upgrade.state.step import Action, CancelUpgrade, StartUpgrade, UpgradeStep, WriteGate
from scorer.upgrade.versions.images import ImageTargets
from scorer.upgrade.views.metrics import measures
from webhook.controllers.machinery.failures import concerned_of
from webhook.controllers.machinery.result import DONE, Result, soonest
from webhook.controllers.machinery.wiring import UPGRADES, Signal, Waker, Watch, Wiring, always, watch_spec
from webhook.controllers.members.reservations import RESERVATION_POLL_INTERVAL, MemberReservations, Reserved
from webhook.controllers.upgraders.client import POLL_INTERVAL, UpgraderBackEnds
from webhook.controllers.upgraders.inventory_annotations import InventoryNotes
from webhook.controllers.upgraders.upgrade_requests import UpgradeRequestStore
from webhook.controllers.upgrades.facts import UpgradeFacts, UpgradeRunContext
from webhook.controllers.upgrades.observer import UNOBSERVED_UPGRADES, UpgradeObserver
from webhook.kube.cache.changes import ObjectDelta, desired
from webhook.kube.cache.hub import Hub, run_concurrently
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.ports import AlreadyExistsError

_POLLED_WAITS: Final = frozenset({"ClusterNotReady", "ClusterBusy", "PlacementGuard"})
"""Wait reasons whose end no watch reports. Back ends, bindings and disruption budgets are polled."""

REQUEUE_IMMEDIATELY: Final = Result(timedelta())
"""Requeue immediately: this pass produced results that the run has not seen yet."""


class ClusterUpgradeController:
    """Takes upgrade runs through their stages.

    Args:
        hub: The hub cluster.
        now: The clock.
        record: Records Events.
        facts: Gathers the inputs of a decision.
        back_ends: Calls the back ends.
        windows: Maintenance windows of the members.
        turns: Reserves members. None: disabled, runs do not wait for other disruptions.
        observer: Metrics hooks.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        facts: UpgradeFacts,
        back_ends: UpgraderBackEnds,
        windows: MaintenanceWindows,
        turns: MemberReservations | None = None,
        observer: UpgradeObserver = UNOBSERVED_UPGRADES,
    ) -> None:
        self._hub = hub
        self._now = now
        self._record = record
        self._facts = facts
        self._back_ends = back_ends
        self._windows = windows
        self._turns = turns
        self._observer = observer
        self._notes = InventoryNotes(UpgradeRequestStore(hub, now))
        self._reserved = Reserved[str](turns)
        self._deciding = asyncio.Lock()
        self._decisions = 0
        """Number of stored decisions of all runs."""
        self._waiting: dict[str, frozenset[str]] = {}
        """Held members, by the run that waits for them."""
        self._rejections: dict[str, dict[str, Rejected]] = {}
        """Starts that back ends have refused since the last pass, by run and operation."""
        self._reported_operations: dict[str, set[tuple[str, str]]] = {}
        """Recorded remarks about operations, by run."""

    def wiring(self) -> Wiring[str]:
        """Return the wiring: runs, their gates and requests, and all inputs of their next step enqueue a run."""
        turns = self._turns
        return Wiring(
            name="cluster_upgrade",
            reconcile=self.reconcile,
            concerned=concerned_of(UPGRADE_RUN),
            owner=always(UPGRADES),
            watches=tuple(self._watches()),
            resync=self._open,
            makes=(UPGRADE_GATE, UPGRADE_REQUEST),
            background=() if turns is None else turns.background,
            ends=(self._windows.end, *(() if turns is None else turns.ends)),
        )

    def _watches(self) -> Iterator[Waker[str]]:
        yield Watch(UPGRADE_RUN, self._of_run)
        yield Watch(UPGRADE_GATE, _of_gate)
        yield Watch(UPGRADE_REQUEST, _of_request)
        yield watch_spec(UPGRADE_STRATEGY, self._open)
        yield watch_spec(VERSION_CATALOG, self._open)
        yield Watch(MEMBER_CLUSTER, self._of_member)
        yield Signal(self._windows.subscribe, lambda _: self._open())
        if self._turns is not None:
            yield Signal(self._turns.subscribe, self._of_free_member)

    def _open(self) -> Iterator[str]:
        """Yield the unfinished runs."""
        for run in self._hub.cache.list(UPGRADE_RUN):
            if not _is_over(run):
                yield name_of(run)

    def _of_run(self, change: ObjectDelta) -> Iterator[str]:
        """Yield a run that was created, deleted or edited.

        If it was created or deleted, or its upgrades have changed, also yield the other unfinished runs.
        """
        if change.touches(desired):
            yield name_of(change.document)
        if change.is_added_or_deleted or change.alters(_seen_of_run):
            yield from (name for name in self._open() if name != name_of(change.document))

    def _of_member(self, change: ObjectDelta) -> Iterator[str]:
        """Yield the unfinished runs, and finished ones with an abandoned upgrade."""
        if change.touches(seen_of_member):
            yield from (name_of(run) for run in self._hub.cache.list(UPGRADE_RUN) if not _is_over(run) or _waits(run))

    def _of_free_member(self, member: str) -> Iterator[str]:
        return (name for name, members in list(self._waiting.items()) if member in members)

    async def reconcile(self, name: str) -> Result:
        """Execute the next step of a run, and requeue it if there are more.

        Raises:
            TerminalError: The run is invalid.
            StoreError: The hub refused a request, or did not respond.
        """
        document = self._hub.cache.get(UPGRADE_RUN, name)
        if document is None:
            self._observer.deleted(name)
            return await self._follow(name, None)
        if is_deleting(document):
            return await self._clean_up(name, document)
        if _is_over(document):
            waits = await self._follow(name, None), await self._let_go(document), await self._expire(document)
            return soonest(*waits)
        if (with_our_finalizer := with_finalizer(document, UPGRADE_RUN_FINALIZER)) is not None:
            document = await self._hub.amend(UPGRADE_RUN, with_our_finalizer)
        reported_inventories = self._notes.reported()
        decisions, situation = self._decisions, await self._facts.of(document)
        async with self._deciding:  # two concurrent runs must not both see a member as free
            if decisions != self._decisions:  # another run was stored in between: read its result
                situation = await self._facts.of(document)
            facts = replace(situation.facts, rejections=self._rejections.pop(name, {}))
            step, facts = await self._decide(name, situation.run, facts)
            if step.changed:
                try:
                    document = await self._hub.store_status(UPGRADE_RUN, document, status_document(step.status))
                finally:  # not earlier: a run that reads during this write must read again
                    self._decisions += 1
        self._observer.seen(name, step.status, measures(situation.run, step.status, self._now()))
        rejections = await self._carry_out(document, situation.run, facts, step)
        self._tell(name, document, step, situation)
        await self._notes.store(situation.documents, situation.facts.members, reported_inventories)
        if rejections:
            self._rejections[name] = rejections
        return soonest(self._requeue(step, rejections), await self._follow(name, step))

    def _requeue(self, step: UpgradeStep, rejections: Mapping[str, Rejected]) -> Result:
        if rejections:
            return REQUEUE_IMMEDIATELY
        waits = [] if step.again is None else [Result(max(step.again - self._now(), timedelta()))]
        if step.in_flight or any(entry.reason in _POLLED_WAITS for entry in _entries(step, UpgradeState.PENDING)):
            waits.append(Result(self._back_ends.poll))
        if step.status.start_time is None and step.status.state not in OVER:
            waits.append(Result(POLL_INTERVAL))
        return soonest(*waits)

    async def _decide(
        self, name: str, run: ClusterUpgradeRun, facts: UpgradeRunFacts
    ) -> tuple[UpgradeStep, UpgradeRunFacts]:
        """Plan a step and reserve its members. Plan again without members that cannot be reserved."""
        step = advance(run, facts)
        while refusals := await self._reserved.reserve(name, upgrade_holder(name), _started(step)):
            messages = {member: hold.message for member, hold in refusals.items()}
            facts = replace(facts, held={**facts.held, **messages})
            step = advance(run, facts)
        self._waiting[name] = frozenset(facts.held)
        return step, facts

    async def _carry_out(
        self, document: JsonObject, run: ClusterUpgradeRun, facts: UpgradeRunFacts, step: UpgradeStep
    ) -> dict[str, Rejected]:
        """Execute a step. Return the operations that back ends have refused to start."""
        rejections: dict[str, Rejected] = {}

        async def act(action: Action) -> None:
            match action:
                case StartUpgrade(operation=operation):
                    if (rejected := await self._back_ends.start(operation)) is not None:
                        rejections[operation.id] = rejected
                case CancelUpgrade():
                    await self._back_ends.cancel(_called_off(run, facts, action))
                case WriteGate():
                    await self._write_gate(document, action)

        await run_concurrently(act(action) for action in step.actions)
        return rejections

    async def _write_gate(self, run: JsonObject, action: WriteGate) -> None:
        gate = self._hub.cache.get(UPGRADE_GATE, action.name)
        if gate is None:
            try:
                gate = await self._hub.create(UPGRADE_GATE, _gate(run, action))
            except AlreadyExistsError:
                gate = self._hub.cache.get(UPGRADE_GATE, action.name)
        if gate is None or is_deleting(gate):
            return
        gate_status = action.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        ours = merge_conditions(conditions_of(gate), gate_status.pop("conditions", []))
        types = {condition["type"] for condition in ours}
        conditions = [*(condition for condition in conditions_of(gate) if condition.get("type") not in types), *ours]
        status = {**status_of(gate), **gate_status, "conditions": conditions}
        if "readiness" not in gate_status:
            status.pop("readiness", None)
        if not conditions:
            del status["conditions"]
        if status != status_of(gate):
            await self._hub.store_status(UPGRADE_GATE, gate, status)

    def _tell(self, name: str, document: JsonObject, step: UpgradeStep, situation: UpgradeRunContext) -> None:
        for event in step.events:
            self._record(document, event)
        told_operations = self._reported_operations.setdefault(name, set())
        for operation, (reason, message) in situation.remarks.items():
            if (operation, reason) not in told_operations:
                told_operations.add((operation, reason))
                self._record(document, Event(reason, message, "Warning"))

    async def _follow(self, name: str, step: UpgradeStep | None) -> Result:
        """Renew the reservations of the members that a run upgrades, and release the others."""
        if step is None:
            for table in (self._waiting, self._rejections, self._reported_operations):
                table.pop(name, None)
        busy = {entry.name for entry in _entries(step, UpgradeState.RUNNING)} if step is not None else set()
        has_reservations = await self._reserved.follow(name, upgrade_holder(name), busy)
        waits = Result(RESERVATION_POLL_INTERVAL) if self._waiting.get(name) else DONE
        return soonest(has_reservations, waits)

    async def _let_go(self, document: JsonObject) -> Result:
        """Poll upgrades that a finished run has abandoned. Until they end, other runs skip their members."""
        if not any(with_operation(self._facts.run(document).status)):
            self._back_ends.forget(uid_of(document))
            return DONE
        situation = await self._facts.of(document)
        step = advance(situation.run, situation.facts)
        if step.changed:
            await self._hub.store_status(UPGRADE_RUN, document, status_document(step.status))
            return REQUEUE_IMMEDIATELY
        return Result(self._back_ends.poll) if step.in_flight else DONE

    async def _expire(self, document: JsonObject) -> Result:
        """Delete a finished run after its ``ttlSecondsAfterFinished``.

        A run with an abandoned upgrade is kept until the end of the upgrade is reported: only the run records it.
        """
        run = self._facts.run(document)
        seconds, end = run.spec.ttl_seconds_after_finished, run.status.completion_time
        if seconds is None or end is None or any(with_operation(run.status)):
            return DONE
        remaining_time = end + timedelta(seconds=seconds) - self._now()
        if remaining_time > timedelta():
            return Result(remaining_time)
        await self._hub.delete(UPGRADE_RUN, document)
        return DONE

    async def _clean_up(self, name: str, document: JsonObject) -> Result:
        """Release a run that is being deleted. Nothing else is started, and running upgrades are not followed.

        Its gates and requests are garbage-collected with it.
        """
        self._back_ends.forget(uid_of(document))
        if (free := without_finalizer(document, UPGRADE_RUN_FINALIZER)) is not None:
            await self._hub.amend(UPGRADE_RUN, free)
        return await self._follow(name, None)


def _started(step: UpgradeStep) -> list[str]:
    return [action.operation.member for action in step.actions if isinstance(action, StartUpgrade)]


def _entries(step: UpgradeStep, state: UpgradeState) -> Iterator[MemberStatus]:
    for stage in step.status.stages:
        for group in stage.groups:
            yield from (entry for entry in group.members if entry.state is state)


def _called_off(run: ClusterUpgradeRun, facts: UpgradeRunFacts, action: CancelUpgrade) -> Operation:
    """Return the operation to cancel. Its member may have left."""
    entry = next(
        member
        for stage in run.status.stages
        for group in stage.groups
        for member in group.members
        if member.operation_id == action.id
    )
    images = ImageTargets(run.spec.upgrade, run.status.resolved.node_images, facts.catalog)
    return operation_of(run, entry, facts.members.get(action.member), images, None)


def _gate(run: JsonObject, action: WriteGate) -> JsonObject:
    return {
        "apiVersion": run["apiVersion"],
        "kind": UPGRADE_GATE.kind,
        "metadata": {"name": action.name, "ownerReferences": [owner_reference(run)]},
        "spec": action.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _is_over(run: JsonObject) -> bool:
    return text_at(run, "status", "state") in OVER


def _waits(run: JsonObject) -> bool:
    """Return whether the end of an abandoned upgrade is still unreported."""
    return any(
        entry.get("operationOpen") is True
        for stage in dicts_at(run, "status", "stages")
        for group in dicts_at(stage, "groups")
        for entry in dicts_at(group, "members")
    )


def _of_gate(change: ObjectDelta) -> Iterator[str]:
    """Yield the run of a gate that was created, deleted or edited, or whose approval or state has changed."""
    if change.touches(_seen_of_gate):
        yield text_at(change.document, "spec", "runName")


def _seen_of_gate(gate: JsonObject) -> object:
    approvals = [condition for condition in conditions_of(gate) if condition.get("type") == APPROVED]
    return desired(gate), approvals, text_at(gate, "status", "state")


def _of_request(change: ObjectDelta) -> Iterator[str]:
    """Yield the run of a request that was created or deleted, or whose phase or cancellation has changed."""
    if change.touches(_seen_of_request):
        yield text_at(change.document, "spec", "runName")


def _seen_of_request(request: JsonObject) -> object:
    return text_at(request, "status", "phase"), spec_of(request).get("cancelRequested")


def _seen_of_run(run: JsonObject) -> object:
    """Return the parts of a run that other runs depend on: its state, and its counts of members."""
    counts = status_of(run).get("counts")
    return text_at(run, "status", "state"), counts


def seen_of_member(member: JsonObject) -> object:
    """Return the parts of a member that runs depend on."""
    joined_statuses = [
        condition.get("status") for condition in conditions_of(member) if condition.get("type") == "Joined"
    ]
    return labels_of(member), annotations_of(member), joined_statuses, is_deleting(member)
