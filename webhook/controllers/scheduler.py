"""Scheduling: make the bindings of a placement match the decision of this moment.

Source: scheduling.md 2 to 4, 17.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

from scorer.api.documents import annotation, annotations_of, is_deleting, name_of, with_finalizer, without_finalizer
from scorer.api.family import FAMILY_OF, Family
from scorer.api.kinds import EVICTION, MEMBER_CLUSTER, WORK
from scorer.api.meta import JsonObject
from scorer.api.names import (
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PLACEMENT_GENERATION,
    SCHEDULER_BINDING_CLEANUP,
    SCHEDULER_CLEANUP,
    WORK_CLEANUP,
    member_namespace,
)
from scorer.api.references import PlacementRef
from scorer.placement.binding_plan import BrokenBindingError, lost_binding, plan_bindings, read_binding
from scorer.placement.holdings import Binding
from scorer.placement.record import snapshot_status
from scorer.placement.request import read_request
from scorer.placement.schedule import Schedule, hold, schedule
from scorer.rollout.deletion import is_to_go, leaves_objects, plan_binding_deletion, plan_words_taken_back
from scorer.rollout.lost_bindings import as_works_say, orphaned_works
from scorer.rollout.policy_snapshots import latest_policy_snapshots
from scorer.rollout.writes import create, replace
from scorer.selectors import InvalidPolicyError
from webhook.controllers.removal import take_away
from webhook.controllers.result import DONE, Result, TerminalError
from webhook.kube.children import children
from webhook.kube.definitions import goes_with_its_definition
from webhook.kube.hub import Hub, at_once
from webhook.kube.ports import AlreadyExistsError, NotFoundError, key_of
from webhook.kube.retry import RetryError


class SchedulerController:
    """Schedules one placement at a time.

    Args:
        hub: Where everything is.
        now: The clock.
    """

    def __init__(self, hub: Hub, now: Callable[[], datetime]) -> None:
        self._hub = hub
        self._now = now

    async def reconcile(self, ref: PlacementRef) -> Result:
        """Make the bindings of one placement match the decision of this moment."""
        family = FAMILY_OF[ref.kind]
        placement = self._hub.cache.get(family.placement, ref.name, ref.namespace)
        if placement is None:  # its bindings were deleted before its finalizer went
            return DONE
        if is_deleting(placement):
            return await self._clean_up(family, ref, placement)
        snapshot = self._latest(family, ref)
        if snapshot is None:
            return DONE
        if (held := with_finalizer(placement, SCHEDULER_CLEANUP)) is not None:
            placement = await self._hub.replace(family.placement, held)
        documents = children(self._hub.cache, family.binding, ref)
        await at_once(self._let_go(family, document) for document in documents if is_deleting(document))
        if any(is_deleting(document) and not is_to_go(document) for document in documents):
            return DONE  # deleted by somebody else: once it is gone, it is made anew before anything is decided
        name = snapshot["metadata"]["name"]
        if taken_back := plan_words_taken_back(documents, self._hub.cache.shelf(EVICTION).objects.values()):
            await self._hub.carry_out_at_once(family.binding, taken_back)
            documents = children(self._hub.cache, family.binding, ref)
        documents = await self._with_lost(family, placement, name, documents)
        run = self.decide(ref, snapshot, documents)
        blank = _blank(family)
        try:
            plan = plan_bindings(run, placement, name, documents, blank, now=self._now())
        except BrokenBindingError as error:
            raise TerminalError(str(error)) from error
        await self._hub.carry_out_at_once(family.binding, map(create, plan.create))
        going = {binding.name for binding in run.dropped}
        again = [document for document in plan.replace if name_of(document) not in going]
        await self._hub.carry_out_at_once(family.binding, map(replace, again))
        dropped = (document for document in plan.replace if name_of(document) in going)
        await self._hub.carry_out_at_once(family.binding, map(replace, dropped))
        generation = int(annotation(snapshot, PLACEMENT_GENERATION) or 0)
        status = snapshot_status(run, snapshot, generation, self._now())
        self._hub.report(family.policy_snapshot, snapshot, status)
        return DONE

    def decide(self, ref: PlacementRef, snapshot: JsonObject, documents: list[JsonObject]) -> Schedule:
        """Run the engine for one placement, without writing anything."""
        name = snapshot["metadata"]["name"]
        try:
            bindings: list[Binding] = [read_binding(document, name) for document in documents]
        except BrokenBindingError as error:
            raise TerminalError(str(error)) from error
        fleet, now = self._hub.cache.fleet, self._now()
        number = annotations_of(snapshot).get(NUMBER_OF_CLUSTERS)
        try:
            request = read_request(
                snapshot["spec"].get("policy"), number=None if number is None else int(number), namespace=ref.namespace
            )
        except InvalidPolicyError as error:
            return hold(str(error), fleet, bindings, now)
        return schedule(request, fleet, bindings, now)

    def _latest(self, family: Family, ref: PlacementRef) -> JsonObject | None:
        latest = latest_policy_snapshots(children(self._hub.cache, family.policy_snapshot, ref))
        if len(latest) > 1:
            names = ", ".join(snapshot["metadata"]["name"] for snapshot in latest)
            raise TerminalError(f"several policy snapshots are labelled latest: {names}")
        return latest[0] if latest else None

    async def _let_go(self, family: Family, document: JsonObject) -> None:
        if (free := without_finalizer(document, SCHEDULER_BINDING_CLEANUP)) is not None:
            await self._hub.replace(family.binding, free)

    async def _with_lost(
        self, family: Family, placement: JsonObject, snapshot: str, documents: list[JsonObject]
    ) -> list[JsonObject]:
        """Make the bindings anew that somebody has deleted, on members that stay; return all bindings.

        What their Works are is asked of the hub: the cache may hear of the end of a Work after that of its binding.
        """
        name, blank, made = name_of(placement), _blank(family), []
        known = self._hub.cache.labelled(WORK, PARENT_PLACEMENT, name)
        for cluster in sorted(orphaned_works(placement, documents, known)):
            member = self._hub.cache.get(MEMBER_CLUSTER, cluster)
            if member is None or is_deleting(member):
                continue
            stored = await self._hub.store.list(WORK, member_namespace(cluster), {PARENT_PLACEMENT: name})
            found = orphaned_works(placement, documents, stored.items).get(cluster, ())
            if works := [work for work in found if not is_deleting(work)]:
                document = as_works_say(lost_binding(placement, cluster, snapshot, documents, blank), works)
                with suppress(AlreadyExistsError):
                    made.append(await self._hub.create(family.binding, document))
        return [*documents, *made]

    async def _clean_up(self, family: Family, ref: PlacementRef, placement: JsonObject) -> Result:
        """Delete all bindings of a placement that is being deleted, and Works that have none, then let it go.

        Not where its definition is being deleted, which takes all placements with it: nobody has asked for the end of
        each of them, and where they are made anew they find their bindings again. Nor on hearsay: what the hub stores
        now has to be the same placement, and on its way out; with its definition gone, or restored, it is not.
        """
        if not await goes_with_its_definition(self._hub.store, family.placement):
            try:
                stored = await self._hub.store.get(family.placement, key_of(placement))
            except NotFoundError:
                return DONE
            if stored["metadata"].get("uid") != placement["metadata"].get("uid") or not is_deleting(stored):
                raise RetryError(f"what is known of placement {ref} is out of date")
            documents = children(self._hub.cache, family.binding, ref)
            await at_once(
                self._hub.carry_out(family.binding, plan_binding_deletion(placement, [document]))
                for document in documents
            )
            documents = children(self._hub.cache, family.binding, ref)
            await at_once(self._let_go(family, document) for document in documents)
            await self._take_orphans_away(placement, documents)
        if (free := without_finalizer(placement, SCHEDULER_CLEANUP)) is not None:
            await self._hub.replace(family.placement, free)
        return DONE

    async def _take_orphans_away(self, placement: JsonObject, bindings: Sequence[JsonObject]) -> None:
        """Delete the Works of clusters with no binding that waits for them: there may be no making one anew any more.

        Nothing can be created in a namespace that goes, as it does with all placements in it.
        """
        waiting = (binding for binding in bindings if with_finalizer(binding, WORK_CLEANUP) is None)
        works = self._hub.cache.labelled(WORK, PARENT_PLACEMENT, name_of(placement))
        orphans = orphaned_works(placement, waiting, works)
        abandoned = leaves_objects(placement)
        await at_once(
            take_away(self._hub, found, self._hub.cache.get(MEMBER_CLUSTER, cluster), abandoned=abandoned)
            for cluster, found in sorted(orphans.items())
        )


def _blank(family: Family) -> JsonObject:
    return {"apiVersion": family.binding.api_version, "kind": family.binding.kind}
