"""The reconcile loop: which change wakes which controller.

Events only carry keys; every reconcile reads again. Losing an event that a later one repeats is
harmless, and at start everything is reconciled once.

Source: scheduling.md 2; rollout.md 2.9, 7.4, 9.1.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from scorer.api.conditions import TRUE
from scorer.api.kinds import KINDS, MEMBER_CLUSTER, NAMESPACE, WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import MEMBER_NAMESPACE_PREFIX, PARENT_BINDING, PARENT_PLACEMENT_NAMESPACE
from scorer.api.placement import PlacementType
from scorer.placement.wake import Sleeper, woken
from scorer.rollout.placement_status import condition_type
from scorer.rollout.resource_snapshots import SnapshotSettings
from scorer.rollout.selection import DEFAULT_SETTINGS, is_concerned
from webhook.controllers.events import EventRecorder
from webhook.controllers.family import CLUSTER, FAMILIES, NAMESPACED, Family, is_deleting
from webhook.controllers.placement import NAMESPACED_KINDS, PlacementController
from webhook.controllers.queue import WorkQueue
from webhook.controllers.rollout import RolloutController
from webhook.controllers.scheduler import SchedulerController
from webhook.controllers.work_generator import BindingRef, WorkGenerator
from webhook.kube.cache import Handler, read_member
from webhook.kube.hub import Hub
from webhook.services import PlacementRef

RESYNC = timedelta(minutes=10)
WORKERS = 4
COALESCE = timedelta(milliseconds=100)
"""A placement's status waits so long after a binding changed: the bindings of one placement change together."""

_SELECTABLE = tuple(
    kind for kind in KINDS.values() if DEFAULT_SETTINGS.is_selectable(kind.group, kind.versions[0], kind.kind)
)

log = logging.getLogger(__name__)


class Loop:
    """All controllers of the hub, with their queues.

    Args:
        hub: Where everything is.
        now: The clock.
        suffix: Makes 8 hexadecimal characters for a new name.
        throttle: How often placed content may change.
    """

    def __init__(
        self, hub: Hub, now: Callable[[], datetime], suffix: Callable[[], str], throttle: SnapshotSettings
    ) -> None:
        self._hub = hub
        self._now = now
        self.events = EventRecorder(hub, now)
        self.scheduler = SchedulerController(hub, now, suffix)
        self.placements: WorkQueue[PlacementRef] = WorkQueue(
            "placement", PlacementController(hub, now, self.events.record, throttle).reconcile
        )
        self.scheduling: WorkQueue[PlacementRef] = WorkQueue("scheduler", self.scheduler.reconcile)
        self.rollouts: WorkQueue[PlacementRef] = WorkQueue("rollout", RolloutController(hub, now).reconcile)
        self.works: WorkQueue[BindingRef] = WorkQueue("work", WorkGenerator(hub, now).reconcile)

    @property
    def queues(self) -> tuple[WorkQueue[PlacementRef] | WorkQueue[BindingRef], ...]:
        """All queues, in the order of the pipeline."""
        return self.placements, self.scheduling, self.rollouts, self.works

    @property
    def idle(self) -> bool:
        """Whether nothing is being reconciled or in line."""
        return all(queue.idle for queue in self.queues)

    async def run(self) -> None:
        """Reconcile until cancelled. The cache must be running."""
        self._require()
        await self._hub.cache.wait_synced()
        self._subscribe()
        async with asyncio.TaskGroup() as tasks:
            for queue in self.queues:
                tasks.create_task(queue.run(WORKERS))
            tasks.create_task(self.events.run())
            tasks.create_task(self._resync())

    def _require(self) -> None:
        kinds: list[Kind] = [MEMBER_CLUSTER, WORK, NAMESPACE, *NAMESPACED_KINDS]
        for family in FAMILIES:
            kinds += [family.placement, family.policy_snapshot, family.resource_snapshot, family.binding]
        self._hub.cache.require(kinds)

    def _subscribe(self) -> None:
        cache = self._hub.cache
        for family in FAMILIES:
            cache.subscribe(family.placement, self._on_placement(family))
            cache.subscribe(family.policy_snapshot, self._on_policy_snapshot(family))
            cache.subscribe(family.resource_snapshot, self._on_resource_snapshot(family))
            cache.subscribe(family.binding, self._on_binding(family))
        cache.subscribe(WORK, self._on_work)
        cache.subscribe(MEMBER_CLUSTER, self._on_member)
        for kind in _SELECTABLE:
            cache.subscribe(kind, self._on_selectable)

    def _on_placement(self, family: Family) -> Handler:
        def handle(old: JsonObject | None, new: JsonObject | None) -> None:
            document = new or old
            assert document is not None
            ref = family.ref(document)
            if old is None or new is None or _spec_changed(old, new):
                self.placements.add(ref)
                self.rollouts.add(ref)
                if new is not None and is_deleting(new):
                    self.scheduling.add(ref)

        return handle

    def _on_policy_snapshot(self, family: Family) -> Handler:
        def handle(old: JsonObject | None, new: JsonObject | None) -> None:
            document = new or old
            assert document is not None
            ref = family.parent(document)
            if old is None or new is None or _labels_and_annotations(old) != _labels_and_annotations(new):
                self.scheduling.add(ref)
            if new is None or (old is not None and old.get("status") != new.get("status")):
                self.placements.add(ref)

        return handle

    def _on_resource_snapshot(self, family: Family) -> Handler:
        def handle(old: JsonObject | None, new: JsonObject | None) -> None:
            document = new or old
            assert document is not None
            self.rollouts.add(family.parent(document))
            if new is None:
                self.placements.add(family.parent(document))

        return handle

    def _on_binding(self, family: Family) -> Handler:
        def handle(old: JsonObject | None, new: JsonObject | None) -> None:
            document = new or old
            assert document is not None
            ref = family.parent(document)
            self.placements.add_after(ref, COALESCE)
            if old is None or new is None or _rollout_view(old) != _rollout_view(new):
                self.rollouts.add(ref)
            if new is None or is_deleting(new):
                self.scheduling.add(ref)
            metadata = document["metadata"]
            self.works.add(BindingRef(ref.kind, metadata["name"], metadata.get("namespace", "")))

        return handle

    def _on_work(self, old: JsonObject | None, new: JsonObject | None) -> None:
        document = new or old
        assert document is not None
        labels = document["metadata"].get("labels") or {}
        if PARENT_BINDING in labels:
            namespace = labels.get(PARENT_PLACEMENT_NAMESPACE, "")
            family = NAMESPACED if namespace else CLUSTER
            self.works.add(BindingRef(family.placement.kind, labels[PARENT_BINDING], namespace))

    def _on_member(self, old: JsonObject | None, new: JsonObject | None) -> None:
        before, after = (None if document is None else read_member(document) for document in (old, new))
        if new is not None and after is None:  # unreadable: its last good state stays in the fleet
            return
        sleepers = (_sleeper(ref, document) for ref, document in self._all_placements())
        if names := set(woken(before, after, sleepers, self._now(), self._hub.cache.limits)):
            for ref, _ in self._all_placements():
                if str(ref) in names:
                    self.scheduling.add(ref)
        if old is None and new is not None:
            self._wake_bindings(new["metadata"]["name"])

    def _wake_bindings(self, cluster: str) -> None:
        """Let bindings whose cluster has just appeared make their Works."""
        for family in FAMILIES:
            for binding in self._hub.cache.list(family.binding):
                if binding["spec"].get("targetCluster") == cluster:
                    metadata = binding["metadata"]
                    self.works.add(BindingRef(family.placement.kind, metadata["name"], metadata.get("namespace", "")))

    def _on_selectable(self, old: JsonObject | None, new: JsonObject | None) -> None:
        document = new or old
        assert document is not None
        namespace = document["metadata"].get("namespace", "")
        if namespace.startswith(MEMBER_NAMESPACE_PREFIX) or (old and new and not _content_changed(old, new)):
            return
        home = self._hub.cache.get(NAMESPACE, namespace) if namespace else None
        for ref, placement in self._all_placements():
            if is_concerned(placement, document, home, deleted=new is None):
                self.placements.add(ref)

    def _all_placements(self) -> Iterator[tuple[PlacementRef, JsonObject]]:
        for family in FAMILIES:
            for document in self._hub.cache.list(family.placement):
                yield family.ref(document), document

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC.total_seconds())
            for ref, _ in self._all_placements():
                self.placements.add(ref)
                self.rollouts.add(ref)


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
    conditions = (binding.get("status") or {}).get("conditions") or ()
    seen = tuple(
        (condition["type"], condition["status"], condition.get("reason"), condition.get("observedGeneration"))
        for condition in conditions
        if condition["type"] in ("Available", "DiffReported", "Applied", "RolloutStarted")
    )
    return metadata.get("generation"), metadata.get("deletionTimestamp"), seen


def _sleeper(ref: PlacementRef, document: JsonObject) -> Sleeper:
    policy = document["spec"].get("policy") or {}
    kind = policy.get("placementType") or "PickAll"
    scheduled = any(
        condition.get("type") == condition_type(document, "Scheduled")
        and condition.get("status") == TRUE
        and condition.get("observedGeneration") == document["metadata"].get("generation")
        for condition in (document.get("status") or {}).get("conditions") or ()
    )
    known = kind if kind in tuple(PlacementType) else PlacementType.PICK_ALL
    return Sleeper(str(ref), PlacementType(known), scheduled)
