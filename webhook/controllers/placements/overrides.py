"""Overrides: keep their snapshots, and find the overrides that a placement and its bindings need.

Source: rollout.md 6 and 20.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scorer.api.event import Event
from scorer.api.family import FAMILIES, PlacementRef, family_in, placement_ref
from scorer.api.kinds import (
    Kind,
)
from scorer.api.meta import JsonObject
from scorer.api.names import OVERRIDE_CLEANUP, PARENT_OVERRIDE
from scorer.api.unstructured.documents import (
    is_deleting,
    label,
    namespace_of,
    spec_of,
    with_finalizer,
    without_finalizer,
)
from scorer.rollout.overrides.matching import placement_key
from scorer.rollout.overrides.rules import override_spec
from scorer.rollout.snapshots.overrides import plan_override_snapshots
from webhook.controllers.machinery.failures import Concerned
from webhook.controllers.machinery.result import DONE, Result, TerminalError
from webhook.controllers.machinery.wiring import Watch, Wiring
from webhook.kube.cache.changes import ObjectDelta, desired
from webhook.kube.cache.hub import Hub, run_concurrently
from webhook.kube.ports import Key


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
        """Return the override of a snapshot."""
        return cls(label(snapshot, PARENT_OVERRIDE), namespace_of(snapshot))

    @property
    def kind(self) -> Kind:
        """The kind of the override."""
        return family_in(self.namespace).override

    @property
    def snapshot_kind(self) -> Kind:
        """The kind of its snapshots."""
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
    """Yield the override of a changed or deleted snapshot."""
    if change.old is not None:
        yield OverrideRef.parent(change.document)


WATCHES: Final = tuple(
    watch
    for family in FAMILIES
    for watch in (Watch(family.override, _of_override), Watch(family.override_snapshot, _of_snapshot))
)
"""Watches that enqueue an override."""


class OverrideController:
    """Keeps the snapshots of one override.

    Args:
        hub: The hub cluster.
        record: Records Events.
    """

    def __init__(self, hub: Hub, record: Callable[[JsonObject, Event], None]) -> None:
        self._hub = hub
        self._record = record

    def wiring(self) -> Wiring[OverrideRef]:
        """Return the wiring: the override and its snapshots enqueue it."""
        return Wiring(
            name="override",
            reconcile=self.reconcile,
            concerned=concerned_override,
            owner=owner_of_override,
            watches=WATCHES,
            makes=[family.override_snapshot for family in FAMILIES],
        )

    async def reconcile(self, ref: OverrideRef) -> Result:
        """Make the latest snapshot of one override match its spec."""
        override = self._hub.cache.get(ref.kind, ref.name, ref.namespace)
        if override is None:  # its snapshots were deleted before its finalizer was removed
            return DONE
        if is_deleting(override):
            return await self._clean_up(ref, override)
        plan = plan_override_snapshots(override, self._hub.cache.list(ref.snapshot_kind, ref.namespace))
        if plan.error:
            self._record(override, Event("OverrideWithoutSnapshot", plan.error, type="Warning"))
            raise TerminalError(plan.error)
        # The finalizer before the first snapshot: a deletion in between would leave snapshots that nothing removes.
        if (finalized := with_finalizer(override, OVERRIDE_CLEANUP)) is not None:
            await self._hub.amend(ref.kind, finalized)
        await self._hub.carry_out(ref.snapshot_kind, plan.writes)
        return DONE

    def snapshots(self, ref: OverrideRef) -> list[JsonObject]:
        """Return the snapshots of an override, by name."""
        snapshots = self._hub.cache.list(ref.snapshot_kind, ref.namespace)
        return [snapshot for snapshot in snapshots if OverrideRef.parent(snapshot) == ref]

    async def _clean_up(self, ref: OverrideRef, override: JsonObject) -> Result:
        """Delete the snapshots of a deleted override. Once none is left, remove the finalizer."""
        snapshots = (snapshot for snapshot in self.snapshots(ref) if not is_deleting(snapshot))
        await run_concurrently(self._hub.delete(ref.snapshot_kind, snapshot) for snapshot in snapshots)
        if self.snapshots(ref):  # a finalizer of another client holds one: its deletion requeues the override
            return DONE
        if (free := without_finalizer(override, OVERRIDE_CLEANUP)) is not None:
            await self._hub.amend(ref.kind, free)
        return DONE


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
