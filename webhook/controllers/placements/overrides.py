"""Overrides: create their snapshots, and delete those that are out of date and unused.

Source: docs/specifications/rollout.md 6 and 20.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from scorer.api.event import Event
from scorer.api.family import FAMILIES, PlacementRef, family_in, placement_ref
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.names import OVERRIDE_CLEANUP, PARENT_OVERRIDE, SNAPSHOT_REFUSED
from scorer.api.unstructured.documents import (
    annotation,
    annotations_of,
    is_deleting,
    is_labelled_latest,
    label,
    metadata_of,
    namespace_of,
    spec_of,
    uid_of,
    with_finalizer,
    without_finalizer,
)
from scorer.api.values.quoting import printable, shortened
from scorer.rollout.bindings import Overrides
from scorer.rollout.overrides.matching import LONGEST_REFUSAL, placement_key
from scorer.rollout.overrides.rules import override_spec
from scorer.rollout.snapshots.overrides import plan_override_snapshots, plan_retirement, surplus_override_snapshots
from scorer.staged_update.execution.engine import is_over
from webhook.controllers.machinery.failures import Concerned
from webhook.controllers.machinery.result import DONE, Result, TerminalError
from webhook.controllers.machinery.wiring import Watch, Wiring
from webhook.kube.cache.changes import ObjectDelta, desired
from webhook.kube.cache.hub import Hub, run_concurrently
from webhook.kube.listers.overrides import planned_override_snapshots, unused_override_snapshots
from webhook.kube.ports import ForbiddenError, InvalidObjectError, Key

UNUSED_GRACE: Final = timedelta(minutes=1)
"""Time that an outdated snapshot must be unused before it is deleted.

Another controller or replica may have read it as the latest one, and be about to write a binding or a run that names
it. A lost binding that names it is about to be recreated.
"""


@dataclass(frozen=True, slots=True)
class OverrideRef:
    """Key of an override. *namespace* is empty for a ClusterResourceOverride."""

    name: str
    namespace: str = ""

    @classmethod
    def of(cls, override: JsonObject) -> "OverrideRef":
        """Return the reference of a ClusterResourceOverride or ResourceOverride."""
        return cls(override["metadata"]["name"], override["metadata"].get("namespace", ""))

    @classmethod
    def parent(cls, snapshot: JsonObject) -> "OverrideRef":
        """Return the key of a snapshot's override. Its name is empty if the snapshot has no parent label."""
        return cls(label(snapshot, PARENT_OVERRIDE), namespace_of(snapshot))

    @property
    def kind(self) -> Kind:
        """The kind of the override."""
        return family_in(self.namespace).override

    @property
    def snapshot_kind(self) -> Kind:
        """ClusterResourceOverrideSnapshot or, in a namespace, ResourceOverrideSnapshot."""
        return family_in(self.namespace).override_snapshot

    def __str__(self) -> str:
        return f"ro/{self.namespace}/{self.name}" if self.namespace else f"cro/{self.name}"


def concerned_override(ref: OverrideRef) -> Concerned:
    """Return the override of a key."""
    return Concerned(ref.kind, Key(ref.name, ref.namespace))


def owner_of_override(ref: OverrideRef) -> str:
    """Return the owner of an override and its snapshots."""
    return f"override/{ref.namespace}/{ref.name}"


def _of_override(change: ObjectDelta) -> Iterator[OverrideRef]:
    """Yield an override that was created or deleted, or whose spec or deletion mark has changed."""
    if change.touches(desired):
        yield OverrideRef.of(change.document)


def _of_snapshot(change: ObjectDelta) -> Iterator[OverrideRef]:
    """Yield the override of a snapshot. It may have been deleted while no controller was running."""
    if (ref := OverrideRef.parent(change.document)).name:
        yield ref


class OverrideController:
    """Keeps the snapshots of one override.

    Args:
        hub: The hub cluster.
        now: The clock.
        record: Records Events.
    """

    def __init__(self, hub: Hub, now: Callable[[], datetime], record: Callable[[JsonObject, Event], None]) -> None:
        self._hub = hub
        self._now = now
        self._record = record
        self._unused: dict[OverrideRef, dict[str, datetime]] = {}
        """Outdated unused snapshots, by uid, with the time since which each is unused."""

    def wiring(self) -> Wiring[OverrideRef]:
        """Return the wiring: the override, its snapshots, and bindings and runs that no longer name one enqueue it."""
        return Wiring(
            name="override",
            reconcile=self.reconcile,
            concerned=concerned_override,
            owner=owner_of_override,
            watches=tuple(self._watches()),
            makes=[family.override_snapshot for family in FAMILIES],
        )

    def _watches(self) -> Iterator[Watch[OverrideRef]]:
        for family in FAMILIES:
            yield Watch(family.override, _of_override)
            yield Watch(family.override_snapshot, _of_snapshot)
            yield Watch(family.binding, self._of_binding)
            yield Watch(family.run, self._of_run)

    def _of_binding(self, change: ObjectDelta) -> Iterator[OverrideRef]:
        """Yield the overrides of outdated snapshots that a binding no longer names."""
        if change.old is not None:
            before, after = (Overrides.of(spec_of(document or {})).keys for document in (change.old, change.new))
            if before != after:
                yield from self._of_outdated(key for key in before if key not in after)

    def _of_run(self, change: ObjectDelta) -> Iterator[OverrideRef]:
        """Yield the overrides of outdated snapshots that a run has planned, once it has finished or was deleted."""
        if change.old is not None and (change.new is None or is_over(change.new)) and not is_over(change.old):
            yield from self._of_outdated(planned_override_snapshots(change.old))

    def _of_outdated(self, keys: Iterable[tuple[str, str]]) -> Iterator[OverrideRef]:
        for namespace, name in dict.fromkeys(keys):
            snapshot = self._hub.cache.get(family_in(namespace).override_snapshot, name, namespace)
            if snapshot is None or is_labelled_latest(snapshot):
                continue
            if unused_override_snapshots(self._hub.cache, [snapshot]):
                yield OverrideRef.parent(snapshot)

    async def reconcile(self, ref: OverrideRef) -> Result:
        """Make the latest snapshot of one override match its spec, and delete outdated ones that are unused.

        A deleted override has no latest snapshot. Clusters that wait for their turn in a rollout keep the content that
        they have, made from the snapshots that their bindings name.

        Raises:
            TerminalError: The override cannot have snapshots.
            StoreError: A write has failed. If the API server refuses a snapshot, the reason is noted on the override.
        """
        override = self._hub.cache.get(ref.kind, ref.name, ref.namespace)
        if override is None or is_deleting(override):
            await self._hub.carry_out(ref.snapshot_kind, plan_retirement(self.snapshots(ref)))
            # The finalizer after the labels: when `kubectl delete` returns, no rollout picks the override any more.
            if override is not None and (free := without_finalizer(override, OVERRIDE_CLEANUP)) is not None:
                await self._hub.amend(ref.kind, free)
            return await self._delete_unused(ref, self.snapshots(ref))
        plan = plan_override_snapshots(override, self._hub.cache.list(ref.snapshot_kind, ref.namespace))
        if plan.error:
            self._record(override, Event("OverrideWithoutSnapshot", plan.error, type="Warning"))
            raise TerminalError(plan.error)
        # The finalizer before the first snapshot: a deletion in between would leave a latest snapshot in force.
        if (finalized := with_finalizer(override, OVERRIDE_CLEANUP)) is not None:
            await self._hub.amend(ref.kind, finalized)
        try:
            await self._hub.carry_out(ref.snapshot_kind, plan.writes)
        except (ForbiddenError, InvalidObjectError) as error:  # no retry helps, so rollouts must report it
            await self._note_refusal(ref, shortened(printable(str(error)), LONGEST_REFUSAL))
            raise
        await self._note_refusal(ref, None)
        return await self._delete_unused(ref, surplus_override_snapshots(self.snapshots(ref)))

    async def _note_refusal(self, ref: OverrideRef, reason: str | None) -> None:
        """Write on an override why the API server has refused its snapshot, for the rollouts that wait for it."""
        override = self._hub.cache.get(ref.kind, ref.name, ref.namespace)
        if override is not None and (annotation(override, SNAPSHOT_REFUSED) or None) != reason:
            annotations = {**annotations_of(override), SNAPSHOT_REFUSED: reason}
            await self._hub.amend(
                ref.kind, {**override, "metadata": {**metadata_of(override), "annotations": annotations}}
            )

    def snapshots(self, ref: OverrideRef) -> list[JsonObject]:
        """Return the snapshots of an override, sorted by name."""
        return self._hub.cache.labelled(ref.snapshot_kind, PARENT_OVERRIDE, ref.name, ref.namespace)

    async def _delete_unused(self, ref: OverrideRef, outdated: Iterable[JsonObject]) -> Result:
        """Delete the outdated snapshots that have been unused for the grace period."""
        now, earlier = self._now(), self._unused.pop(ref, {})
        snapshots = [snapshot for snapshot in outdated if not is_deleting(snapshot)]
        unused = unused_override_snapshots(self._hub.cache, snapshots)
        since = {uid_of(snapshot): earlier.get(uid_of(snapshot), now) for snapshot in unused}
        due = [snapshot for snapshot in unused if since[uid_of(snapshot)] + UNUSED_GRACE <= now]
        # Only this version: a recreated override may have made the snapshot its latest one.
        delete = partial(self._hub.delete, ref.snapshot_kind, this_version=True)
        await run_concurrently(map(delete, due))
        waiting = {uid: time for uid, time in since.items() if time + UNUSED_GRACE > now}
        if not waiting:
            return DONE
        self._unused[ref] = waiting
        return Result(min(waiting.values()) + UNUSED_GRACE - now)


def placement_of(snapshot: JsonObject) -> PlacementRef | None:
    """Return the placement whose rollout must react to an override snapshot immediately. None: unset in the override.

    An override without a placement is picked up at the next reconcile of each rollout (rollout.md 6.5).
    """
    return _placement_in(override_spec(snapshot), namespace_of(snapshot))


def named_placement(override: JsonObject) -> PlacementRef | None:
    """Return the placement that an override names, or None if it is for any placement."""
    return _placement_in(spec_of(override), namespace_of(override))


def _placement_in(spec: Mapping[str, Any], namespace: str) -> PlacementRef | None:
    home, _, name = placement_key(spec, namespace).rpartition("/")
    return placement_ref(name, home) if name else None
