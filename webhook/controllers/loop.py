"""The reconcile loop: which change wakes which controller.

Events only carry keys; every reconcile reads again. Losing an event that a later one repeats is
harmless, and at start everything is reconciled once.

Source: scheduling.md 2; rollout.md 2.9, 7.4, 9.1.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from scorer.api.conditions import TRUE
from scorer.api.documents import (
    annotation,
    conditions_of,
    current_condition,
    dict_at,
    is_deleting,
    label,
    spec_of,
    status_of,
)
from scorer.api.family import CLUSTER, FAMILIES, FAMILY_OF, Family, placement_of_work
from scorer.api.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    EVICTION,
    INTERNAL_MEMBER_CLUSTER,
    MEMBER_CLUSTER,
    NAMESPACE,
    NAMESPACED_OVERRIDE,
    NAMESPACED_OVERRIDE_SNAPSHOT,
    NODE,
    NODE_POOL,
    OVERRIDE,
    OVERRIDE_SNAPSHOT,
    PLACEMENT_STATUS,
    WORK,
    Kind,
)
from scorer.api.meta import JsonObject
from scorer.api.names import MEMBER_NAMESPACE_PREFIX, PARENT_BINDING
from scorer.api.placement import PlacementType
from scorer.api.references import PlacementRef
from scorer.member_gate.holds import MemberDisruption
from scorer.placement.binding_plan import is_readable
from scorer.placement.wake import Sleeper, woken
from scorer.reservations import MEMBER, ROLLOUT, Thing
from scorer.rollout.back_report import reports_to_originals
from scorer.rollout.eviction import EVICTED_BINDING
from scorer.rollout.failing import failure_of
from scorer.rollout.intent import is_meant
from scorer.rollout.placement_status import condition_type
from scorer.rollout.policy_snapshots import latest_policy_snapshots
from scorer.rollout.selection import is_concerned
from webhook.controllers.back_reports import BackReportController
from webhook.controllers.events import EventRecorder
from webhook.controllers.evictions import EvictionController
from webhook.controllers.failures import Concerned, FailureTeller
from webhook.controllers.members import WATCHED as WATCHED_OF_MEMBERS
from webhook.controllers.members import MemberController, concerned_member
from webhook.controllers.node_pools import NodePoolController
from webhook.controllers.observer import NOBODY, QueueObserver
from webhook.controllers.overrides import OverrideController, OverrideRef, placement_of
from webhook.controllers.placement import PlacementController
from webhook.controllers.queue import WorkQueue
from webhook.controllers.result import Result
from webhook.controllers.rollout import RolloutController, waits_for_member
from webhook.controllers.scheduler import SchedulerController
from webhook.controllers.selectables import Selectables
from webhook.controllers.turns import Turns
from webhook.controllers.work_generator import BindingRef, WorkGenerator, without_manifests
from webhook.gate.holds import HubMemberHolds, seen_in
from webhook.gate.pools import HubNodePools
from webhook.gate.reservations import LeaseReservations
from webhook.kube.cache import read_member
from webhook.kube.change import Change, Handler
from webhook.kube.children import children, count_children
from webhook.kube.hub import Hub
from webhook.kube.ports import Key, ServedKinds, StoreError
from webhook.settings.loop import LoopSettings

RESYNC = timedelta(minutes=10)
LOOK_AGAIN_SECONDS = 15.0
"""So often it is looked whether a kind that could not be read can be read now."""
STATUS_WAIT = timedelta(milliseconds=20)
"""A placement's status waits so long for each binding after one of them changed: they change together, and a status
says something of each of them."""
ROLLOUT_WAIT = timedelta(milliseconds=5)
"""The same for the rollout, which looks at all of them, too."""
FEW = 20
"""With no more bindings than that the rollout does not wait."""
SHORTEST_WAIT, LONGEST_WAIT = timedelta(milliseconds=100), timedelta(seconds=5)

WRITTEN: tuple[Kind, ...] = (
    OVERRIDE_SNAPSHOT,
    NAMESPACED_OVERRIDE_SNAPSHOT,
    *(kind for family in FAMILIES for kind in (family.policy_snapshot, family.resource_snapshot, family.binding)),
    WORK,
)
"""What a leader before us may have written just before its end, and what must not be made twice."""

REQUIRED: tuple[Kind, ...] = (
    MEMBER_CLUSTER,
    INTERNAL_MEMBER_CLUSTER,
    NAMESPACE,
    OVERRIDE,
    NAMESPACED_OVERRIDE,
    EVICTION,
    PLACEMENT_STATUS,
    CUSTOM_RESOURCE_DEFINITION,
    *(family.placement for family in FAMILIES),
    *WRITTEN,
)
"""What the loop watches, besides the kinds that placements select."""

_WAITING: Final = frozenset({MemberDisruption.EVICTION, MemberDisruption.ROLLOUT})
"""The disruptions of members that are ours."""

K = TypeVar("K", bound=Hashable)

log = logging.getLogger(__name__)


def required(settings: LoopSettings) -> tuple[Kind, ...]:
    """Return what the loop watches with these settings, besides the kinds that placements select."""
    return tuple(dict.fromkeys((*REQUIRED, *seen_in(_gated(settings)))))


def _gated(settings: LoopSettings) -> tuple[MemberDisruption, ...]:
    """Return the disruptions of members that wait for one another, when one of them is ours."""
    return settings.gate_members if _WAITING & set(settings.gate_members) else ()


def _keeps_nodes_trimmed(settings: LoopSettings) -> bool:
    """Say whether nodes may be kept in part: not where placements select them, which need them whole."""
    return not settings.selection.is_selectable(NODE.group, NODE.versions[0], NODE.kind)


class Loop:
    """All controllers of the hub, with their queues.

    One that has ended is not run again: the next term of leadership makes another.

    Args:
        hub: Where everything is.
        now: The clock.
        served: What the hub serves.
        settings: What the operator decided.
        observer: Is told what the queues do.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        served: ServedKinds,
        settings: LoopSettings,
        observer: QueueObserver = NOBODY,
    ) -> None:
        self._hub = hub
        self._now = now
        self._settings = settings
        self._subscriptions: list[Callable[[], None]] = []
        self._reservations, turns = self._gate()
        self.events = EventRecorder(hub, now)
        self.selectables = Selectables(hub.cache, served, settings.selection, self._on_selectable)
        record = self.events.record
        self.scheduler = SchedulerController(hub, now)
        placements = PlacementController(hub, now, record, self.selectables, settings)
        works = WorkGenerator(hub, now, served, record, settings.selection)
        members = MemberController(hub, now, record, settings.force_delete_after)
        rollouts = RolloutController(hub, now, settings, turns.get(MemberDisruption.ROLLOUT))
        evictions = EvictionController(hub, now, turns.get(MemberDisruption.EVICTION), record)
        back_reports = BackReportController(hub, served, record)

        def queue(
            name: str, reconcile: Callable[[K], Awaitable[Result]], concerned: Callable[[K], Concerned]
        ) -> WorkQueue[K]:
            return WorkQueue[K](name, reconcile, observer, FailureTeller[K](hub, now, record, name, concerned))

        self.members = queue("member", members.reconcile, _of_kind(MEMBER_CLUSTER))
        self.overrides = queue("override", OverrideController(hub, record).reconcile, _override_of)
        self.placements = queue("placement", placements.reconcile, _placement_of)
        self.scheduling = queue("scheduler", self.scheduler.reconcile, _placement_of)
        self.rollouts = queue("rollout", rollouts.reconcile, _placement_of)
        self.works = queue("work", works.reconcile, _binding_of)
        self.evictions = queue("eviction", evictions.reconcile, _of_kind(EVICTION))
        self.back_reports = queue("back_report", back_reports.reconcile, _placement_of)
        self._pools = HubNodePools(hub.cache, with_pods=False) if _keeps_nodes_trimmed(settings) else None
        self.node_pools: WorkQueue[str] | None = None
        if self._pools is not None:
            controller = NodePoolController(hub, self._pools, now, record)
            self.node_pools = queue("node_pool", controller.reconcile, _of_kind(NODE_POOL))
            self._subscriptions += [self._pools.end, self._pools.subscribe(self.node_pools.add)]

    def _gate(self) -> tuple[LeaseReservations | None, Mapping[MemberDisruption, Turns]]:
        """Make what lets disruptions of a member wait for one another: nothing when none of ours is to wait."""
        gated = _gated(self._settings)
        if not gated:
            return None, {}
        reservations = LeaseReservations(self._hub.store, self._settings.namespace, self._now)
        holds = HubMemberHolds(self._hub.cache, gated, reservations.known, self._wake_waiting)
        self._subscriptions += [holds.end, reservations.subscribe(self._on_reservation)]
        waiting = _WAITING & set(gated)
        return reservations, {kind: Turns(kind, holds, reservations, self._now) for kind in waiting}

    @property
    def queues(self) -> tuple[WorkQueue[Any], ...]:
        """All queues, in the order of the pipeline."""
        return (
            self.members,
            self.overrides,
            self.placements,
            self.scheduling,
            self.rollouts,
            self.works,
            self.evictions,
            self.back_reports,
            *([] if self.node_pools is None else [self.node_pools]),
        )

    @property
    def idle(self) -> bool:
        """Whether nothing is being reconciled, in line, or waiting to be stored."""
        return self._hub.idle and all(queue.idle for queue in self.queues)

    @property
    def idle_but_for_members(self) -> bool:
        """Whether at most members and their reports are being reconciled, in line, or waiting to be stored."""
        return all(queue.idle for queue in self.queues if queue is not self.members)

    async def run(self) -> None:
        """Reconcile until cancelled. The cache must be running."""
        self._hub.cache.trim(WORK, without_manifests)
        watched = required(self._settings)
        self._hub.cache.require(watched)
        try:
            await self._hub.cache.wait_synced(watched)
            await self._hub.cache.catch_up(WRITTEN)
            self._subscribe()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._hub.run())
                for queue in self.queues:
                    tasks.create_task(queue.run(1 if queue is self.evictions else self._settings.workers))
                tasks.create_task(self.events.run())
                if self._reservations is not None:
                    tasks.create_task(self._reservations.run())
                tasks.create_task(self._resync())
                tasks.create_task(self._look_again())
        finally:
            for end in self._subscriptions:
                end()
            self.selectables.end()

    def _subscribe(self) -> None:
        for family in FAMILIES:
            self._on(family.placement, self._on_placement(family))
            self._on(family.policy_snapshot, self._on_policy_snapshot(family))
            self._on(family.resource_snapshot, self._on_resource_snapshot(family))
            self._on(family.binding, self._on_binding(family))
        self._on(WORK, self._on_work)
        self._on(MEMBER_CLUSTER, self._on_member)
        for kind in WATCHED_OF_MEMBERS:
            self._on(kind, self._on_membership(kind))
        for kind in (OVERRIDE, NAMESPACED_OVERRIDE):
            self._on(kind, self._on_override)
        for kind in (OVERRIDE_SNAPSHOT, NAMESPACED_OVERRIDE_SNAPSHOT):
            self._on(kind, self._on_override_snapshot)
        self._on(EVICTION, self._on_eviction)
        self._on(PLACEMENT_STATUS, self._on_status_copy)
        self._on(CUSTOM_RESOURCE_DEFINITION, self._on_definition)
        self._look_at_pools()

    def _on(self, kind: Kind, handler: Handler) -> None:
        self._subscriptions.append(self._hub.cache.subscribe(kind, handler))

    def _on_placement(self, family: Family) -> Handler:
        def handle(change: Change) -> None:
            old, new, document = *change, change.document
            ref = family.ref(document)
            if old is None or new is None or _spec_changed(old, new):
                self.placements.add(ref)
                self.rollouts.add(ref)
                if new is not None and is_deleting(new):
                    self.scheduling.add(ref)
            if new is not None and (old is None or _selected(old) != _selected(new) or _spec_changed(old, new)):
                self._mirror(ref)
            if old is not None and new is not None and _report_back(old) != _report_back(new):  # Works carry it
                for binding in children(self._hub.cache, family.binding, ref):
                    self.works.add(_binding_ref(family, binding))

        return handle

    def _on_policy_snapshot(self, family: Family) -> Handler:
        def handle(change: Change) -> None:
            old, new, document = *change, change.document
            ref = family.parent(document)
            changed = old is None or new is None or _labels_and_annotations(old) != _labels_and_annotations(new)
            if changed:
                self.scheduling.add(ref)
            if new is None or (old is not None and (changed or old.get("status") != new.get("status"))):
                self.placements.add(ref)

        return handle

    def _on_resource_snapshot(self, family: Family) -> Handler:
        def handle(change: Change) -> None:
            ref = family.parent(change.document)
            self.rollouts.add(ref)
            if change.new is None:
                self.placements.add(ref)

        return handle

    def _on_binding(self, family: Family) -> Handler:
        def handle(change: Change) -> None:
            old, new, document = *change, change.document
            ref = family.parent(document)
            count = count_children(self._hub.cache, family.binding, ref)
            self.placements.add_after(ref, min(max(SHORTEST_WAIT, count * STATUS_WAIT), LONGEST_WAIT))
            if old is None or new is None or _rollout_view(old) != _rollout_view(new):
                if count > FEW:
                    self.rollouts.add_after(ref, min(count * ROLLOUT_WAIT, LONGEST_WAIT))
                else:
                    self.rollouts.add(ref)
            if new is None or is_deleting(new) or is_meant(new):  # a word that nobody stands behind is taken back
                self.scheduling.add(ref)
            if old is not None and new is not None and _scheduling_view(old) != _scheduling_view(new):
                self.scheduling.add(ref)
            if new is None and self._reservations is not None:
                self._wake_evictor(document)
            self._mirror(ref)
            if old is None or new is None or _work_view(old) != _work_view(new):
                self.works.add(_binding_ref(family, document))

        return handle

    def _on_work(self, change: Change) -> None:
        old, new = change
        for document in (old, new):
            if document is not None and (binding := label(document, PARENT_BINDING)):
                ref = placement_of_work(document)
                self.works.add(BindingRef(ref.kind, binding, ref.namespace))
                self._mirror(ref)

    def _mirror(self, ref: PlacementRef) -> None:
        """Have the statuses of a placement brought back that asks for it, or did when that failed."""
        placement = self._hub.cache.get(FAMILY_OF[ref.kind].placement, ref.name, ref.namespace)
        if placement is not None and (reports_to_originals(placement) or failure_of(placement)):
            self.back_reports.add(ref)

    def _on_membership(self, kind: Kind) -> Handler:
        def handle(change: Change) -> None:
            if (name := concerned_member(kind, change)) is not None:
                self.members.add(name)

        return handle

    def _on_override(self, change: Change) -> None:
        old, new, document = *change, change.document
        if old is None or new is None or _spec_changed(old, new):
            self.overrides.add(OverrideRef.of(document))

    def _on_override_snapshot(self, change: Change) -> None:
        if change.old is not None:
            self.overrides.add(OverrideRef.parent(change.document))
        if (ref := placement_of(change.document)) is not None:
            self.rollouts.add(ref)

    def _on_eviction(self, change: Change) -> None:
        old, new = change
        if new is not None and (old is None or _spec_changed(old, new)):
            self.evictions.add(new["metadata"]["name"])
        if new is None and old is not None and annotation(old, EVICTED_BINDING):  # it may have left a word
            self.scheduling.add(PlacementRef(CLUSTER.placement.kind, str(old["spec"].get("placementName") or "")))
        if new is None and self._reservations is not None and old is not None:
            self.evictions.add(old["metadata"]["name"])

    def _on_reservation(self, thing: Thing) -> None:
        """Look again at what waits for a member, or has reserved it, or a cluster of its placement."""
        if thing.gate == MEMBER:
            self._wake_waiting(thing.name)
        elif thing.gate == ROLLOUT and MemberDisruption.ROLLOUT in self._settings.gate_members:
            for ref, _ in self._all_placements():
                if str(ref) == thing.name:
                    self.rollouts.add(ref)

    def _wake_waiting(self, member: str) -> None:
        """Let evictions from a member, and rollouts that wait for it, find out whether it is their turn."""
        for eviction in self._hub.cache.shelf(EVICTION).objects.values():
            if eviction["spec"].get("clusterName") == member:
                self.evictions.add(eviction["metadata"]["name"])
        if MemberDisruption.ROLLOUT not in self._settings.gate_members:
            return
        for family in FAMILIES:
            for binding in self._hub.cache.shelf(family.binding).objects.values():
                if binding["spec"].get("targetCluster") == member and waits_for_member(binding):
                    self.rollouts.add(family.parent(binding))

    def _wake_evictor(self, binding: JsonObject) -> None:
        """Let the eviction that has deleted a binding give its member back."""
        uid = binding["metadata"].get("uid")
        for eviction in self._hub.cache.shelf(EVICTION).objects.values():
            if annotation(eviction, EVICTED_BINDING) == uid:
                self.evictions.add(eviction["metadata"]["name"])

    def _on_member(self, change: Change) -> None:
        old, new = change
        before, after = (None if document is None else read_member(document) for document in (old, new))
        if new is not None and after is None:  # unreadable: its last good state stays in the fleet
            return
        if new is None:
            for ref, _ in self._all_placements():
                self.scheduling.add(ref)
            return
        sleepers = (self._sleeper(ref, document) for ref, document in self._all_placements())
        if names := set(woken(before, after, sleepers, self._now(), self._hub.cache.limits)):
            for ref, _ in self._all_placements():
                if str(ref) in names:
                    self.scheduling.add(ref)
        if old is None or old["metadata"].get("labels") != new["metadata"].get("labels"):
            self._wake_bindings(new["metadata"]["name"])

    def _sleeper(self, ref: PlacementRef, document: JsonObject) -> Sleeper:
        policy = dict_at(document, "spec", "policy")
        kind = policy.get("placementType") or "PickAll"
        known = kind if kind in tuple(PlacementType) else PlacementType.PICK_ALL
        return Sleeper(str(ref), PlacementType(known), self._is_fully_scheduled(ref, document))

    def _is_fully_scheduled(self, ref: PlacementRef, document: JsonObject) -> bool:
        """Whether a placement says so, and the scheduler's record, which it copies a little later, does too."""
        said = current_condition(document, condition_type(document, "Scheduled")) or {}
        if said.get("status") != TRUE:
            return False
        family = FAMILY_OF[ref.kind]
        records = latest_policy_snapshots(children(self._hub.cache, family.policy_snapshot, ref))
        return all((current_condition(record, "Scheduled") or {}).get("status") == TRUE for record in records)

    def _wake_bindings(self, cluster: str) -> None:
        """Let bindings whose cluster is new, or has other labels, find their overrides and make their Works."""
        for family in FAMILIES:
            for binding in self._hub.cache.list(family.binding):
                if binding["spec"].get("targetCluster") == cluster:
                    self.rollouts.add(family.parent(binding))
                    self.works.add(_binding_ref(family, binding))

    def _on_selectable(self, change: Change) -> None:
        old, new, document = *change, change.document
        namespace = document["metadata"].get("namespace", "")
        if namespace.startswith(MEMBER_NAMESPACE_PREFIX) or (old and new and not _content_changed(old, new)):
            return
        home = self._hub.cache.get(NAMESPACE, namespace) if namespace else None
        for ref, placement in self._all_placements():
            if is_concerned(placement, document, home, deleted=new is None):
                self.placements.add(ref)
                if old is None:  # made anew, without the status it had
                    self._mirror(ref)

    def _on_status_copy(self, change: Change) -> None:
        """Have a copy made again, or put right, that somebody deleted or changed."""
        if change.old is not None:
            self.placements.add(PlacementRef(CLUSTER.placement.kind, change.document["metadata"]["name"]))

    def _on_definition(self, change: Change) -> None:
        """Let placements select again: the hub serves other kinds now."""
        old, new = change
        if old is not None and new is not None and _served(old) == _served(new):
            return
        self.selectables.stale()
        if new is None and old is not None:
            self.selectables.undefined(old)
        for ref, _ in self._all_placements():
            self.placements.add(ref)

    def _all_placements(self) -> Iterator[tuple[PlacementRef, JsonObject]]:
        for family in FAMILIES:
            for document in self._hub.cache.list(family.placement):
                yield family.ref(document), document

    async def _look_again(self) -> None:
        """Let placements select what could not be read when they were looked at."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            try:
                for ref in await self.selectables.recovered():
                    self.placements.add(ref)
            except StoreError as error:
                log.warning("cannot look again", extra={"error": str(error)})

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC.total_seconds())
            self.selectables.stale()  # of kinds without a definition nobody tells that they have come
            for ref, _ in self._all_placements():
                self.placements.add(ref)
                self.scheduling.add(ref)
                self.rollouts.add(ref)
                self._mirror(ref)
            for eviction in self._hub.cache.list(EVICTION):
                self.evictions.add(eviction["metadata"]["name"])
            for member in self._hub.cache.list(MEMBER_CLUSTER):
                self.members.add(member["metadata"]["name"])
            for family in FAMILIES:
                for binding in self._hub.cache.list(family.binding):
                    self.works.add(_binding_ref(family, binding))
            self._look_at_pools()

    def _look_at_pools(self) -> None:
        if self._pools is not None and self.node_pools is not None:
            for name in self._pools.names():
                self.node_pools.add(name)


def _of_kind(kind: Kind) -> Callable[[str], Concerned]:
    return lambda name: Concerned(kind, Key(name, ""))


def _override_of(ref: OverrideRef) -> Concerned:
    return Concerned(ref.kind, Key(ref.name, ref.namespace))


def _placement_of(ref: PlacementRef) -> Concerned:
    return Concerned(FAMILY_OF[ref.kind].placement, Key(ref.name, ref.namespace))


def _binding_of(ref: BindingRef) -> Concerned:
    return Concerned(FAMILY_OF[ref.kind].binding, Key(ref.name, ref.namespace))


def _binding_ref(family: Family, binding: JsonObject) -> BindingRef:
    metadata = binding["metadata"]
    return BindingRef(family.placement.kind, metadata["name"], metadata.get("namespace", ""))


def _served(definition: JsonObject) -> tuple[object, ...]:
    conditions = conditions_of(definition)
    return definition["metadata"].get("generation"), [
        (condition.get("type"), condition.get("status")) for condition in conditions
    ]


def _selected(placement: JsonObject) -> object:
    return status_of(placement).get("selectedResources")


def _report_back(placement: JsonObject) -> object:
    return dict_at(placement, "spec", "strategy").get("reportBackStrategy")


def _spec_changed(old: JsonObject, new: JsonObject) -> bool:
    before, after = old["metadata"], new["metadata"]
    return any(before.get(key) != after.get(key) for key in ("generation", "deletionTimestamp"))


def _labels_and_annotations(document: JsonObject) -> tuple[object, object]:
    return document["metadata"].get("labels"), document["metadata"].get("annotations")


def _content_changed(old: JsonObject, new: JsonObject) -> bool:
    """Say whether anything but the status and the bookkeeping of the store differs."""

    def content(document: JsonObject) -> JsonObject:
        ignored = ("resourceVersion", "managedFields", "generation")
        metadata = {key: value for key, value in document["metadata"].items() if key not in ignored}
        return {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}

    return content(old) != content(new)


def _rollout_view(binding: JsonObject) -> tuple[object, ...]:
    """Return what of a binding makes the rollout look again (rollout.md 7.4)."""
    metadata = binding["metadata"]
    conditions = conditions_of(binding)
    seen = tuple(
        (condition["type"], condition["status"], condition.get("reason"), condition.get("observedGeneration"))
        for condition in conditions
        if condition["type"] in ("Available", "DiffReported", "Applied", "RolloutStarted")
    )
    return metadata.get("generation"), metadata.get("deletionTimestamp"), seen


def _scheduling_view(binding: JsonObject) -> tuple[object, ...]:
    """Return what of a binding makes the scheduler look again: nothing that the loop itself changes."""
    return spec_of(binding).get("targetCluster"), is_readable(binding)


def _work_view(binding: JsonObject) -> tuple[object, ...]:
    """Return what of a binding makes the work generator look again (rollout.md 9.1)."""
    metadata = binding["metadata"]
    conditions = conditions_of(binding)
    started = [
        (condition["status"], condition.get("observedGeneration"))
        for condition in conditions
        if condition["type"] == "RolloutStarted"
    ]
    return metadata.get("generation"), metadata.get("deletionTimestamp"), is_meant(binding), started
