"""Placements: select resources, keep snapshots, report status.

Source: rollout.md 2 to 4, 16, 17, 20.
"""

from collections.abc import Callable
from datetime import datetime

from scorer.api.kinds import KINDS, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import PLACEMENT_CLEANUP
from scorer.placement.policy_hash import policy_hash
from scorer.rollout.placement_status import (
    Event,
    PlacementReport,
    SnapshotView,
    invalid_selection,
    placement_status,
)
from scorer.rollout.policy_snapshots import latest_policy_snapshots, plan_policy_snapshots
from scorer.rollout.resource_snapshots import SnapshotSettings, plan_resource_snapshots, snapshot_groups
from scorer.rollout.selection import DEFAULT_SETTINGS as DEFAULT_SELECTION
from scorer.rollout.selection import SelectionError, select_resources
from webhook.controllers.family import FAMILY_OF, Family, is_deleting, with_finalizer, without_finalizer
from webhook.controllers.result import DONE, Result, TerminalError, soonest
from webhook.kube.hub import Hub
from webhook.services import PlacementRef

NAMESPACED_KINDS = tuple(kind for kind in KINDS.values() if kind.namespaced and kind.built_in)


class PlacementController:
    """Turns what a placement says into snapshots, and what has become of it into its status.

    Args:
        hub: Where everything is.
        now: The clock.
        record: Takes the events that are worth telling.
        throttle: How often content may change.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        throttle: SnapshotSettings,
    ) -> None:
        self._hub = hub
        self._now = now
        self._record = record
        self._throttle = throttle

    async def reconcile(self, ref: PlacementRef) -> Result:
        """Make snapshots and status of one placement match what it says now."""
        family = FAMILY_OF[ref.kind]
        placement = self._hub.cache.get(family.placement, ref.name, ref.namespace)
        if placement is None:
            return DONE
        if is_deleting(placement):
            return await self._clean_up(family, ref, placement)
        if (held := with_finalizer(placement, PLACEMENT_CLEANUP)) is not None:
            placement = await self._hub.replace(family.placement, held)
        await self._watch_selected(placement)
        terms = placement["spec"].get("resourceSelectors") or []
        settings = DEFAULT_SELECTION
        selection = select_resources(terms, ref.namespace, self._hub.cache, KINDS, settings)
        if isinstance(selection, SelectionError):
            report = invalid_selection(placement, selection.message, self._now())
            return await self._report(family, placement, report)
        await self._keep_policy(family, ref, placement)
        latest, pending = await self._keep_resources(family, ref, placement, selection.objects)
        report = self._status(family, ref, placement, latest)
        return soonest(await self._report(family, placement, report), pending)

    async def _watch_selected(self, placement: JsonObject) -> None:
        """Watch the kinds that the selectors reach, and wait until they have been listed."""
        wanted: list[Kind] = []
        for term in placement["spec"].get("resourceSelectors") or ():
            kind = KINDS.get((term.get("group") or "", term.get("kind") or ""))
            if kind is not None:
                wanted.append(kind)
                if kind.group_kind == ("", "Namespace"):
                    wanted += NAMESPACED_KINDS
        await self._hub.cache.wait_synced(wanted)

    async def _keep_policy(self, family: Family, ref: PlacementRef, placement: JsonObject) -> None:
        snapshots = family.children(self._hub.cache, family.policy_snapshot, ref)
        plan = plan_policy_snapshots(placement, snapshots, policy_hash(placement["spec"].get("policy")))
        if plan.error:
            raise TerminalError(plan.error)
        await self._hub.carry_out(family.policy_snapshot, plan.writes)

    async def _keep_resources(
        self, family: Family, ref: PlacementRef, placement: JsonObject, objects: tuple[JsonObject, ...]
    ) -> tuple[SnapshotView | None, Result]:
        if (placement["spec"].get("strategy") or {}).get("type") == "External":
            return None, DONE
        snapshots = family.children(self._hub.cache, family.resource_snapshot, ref)
        plan = plan_resource_snapshots(placement, snapshots, objects, self._now(), self._throttle)
        await self._hub.carry_out(family.resource_snapshot, plan.writes)
        return SnapshotView(plan.name, plan.index, plan.identifiers), Result(plan.requeue_after)

    def _status(
        self, family: Family, ref: PlacementRef, placement: JsonObject, latest: SnapshotView | None
    ) -> PlacementReport:
        cache = self._hub.cache
        policies = latest_policy_snapshots(family.children(cache, family.policy_snapshot, ref))
        bindings = family.children(cache, family.binding, ref)
        snapshots = {}
        if latest is None:
            groups = snapshot_groups(family.children(cache, family.resource_snapshot, ref))
            snapshots = {
                group.name: SnapshotView(group.name, group.index, tuple(group.identifiers())) for group in groups
            }
        policy = policies[0] if policies else None
        return placement_status(placement, policy, bindings, latest, self._now(), snapshots=snapshots)

    async def _report(self, family: Family, placement: JsonObject, report: PlacementReport) -> Result:
        await self._hub.replace_status(family.placement, placement, report.status)
        for event in report.events:
            self._record(placement, event)
        return Result(report.requeue_after)

    async def _clean_up(self, family: Family, ref: PlacementRef, placement: JsonObject) -> Result:
        """Delete the snapshots of a placement that is being deleted, then let it go."""
        for kind in (family.policy_snapshot, family.resource_snapshot):
            for snapshot in family.children(self._hub.cache, kind, ref):
                await self._hub.delete(kind, snapshot)
        if (free := without_finalizer(placement, PLACEMENT_CLEANUP)) is not None:
            await self._hub.replace(family.placement, free)
            event = Event("PlacementCleanupFinalizerRemoved", "all snapshots of the placement are gone")
            self._record(placement, event)
        return DONE
