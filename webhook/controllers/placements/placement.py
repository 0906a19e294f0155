"""Placements: select resources, keep snapshots, report status.

Source: docs/specifications/rollout.md 2 to 4, 16, 17, 20.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from scorer.api.event import Event
from scorer.api.family import FAMILIES, FAMILY_OF, Family, PlacementRef, placement_of_work, placement_ref
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, MEMBER_CLUSTER, NAMESPACE, PLACEMENT_STATUS, WORK
from scorer.api.meta import JsonObject
from scorer.api.names import LEFT_OUT, PARENT_PLACEMENT, PLACEMENT_CLEANUP, SCHEDULER_CLEANUP, SOURCES
from scorer.api.unstructured.documents import (
    annotation,
    current_condition,
    dict_at,
    dicts_at,
    is_deleting,
    label,
    namespace_of,
    status_of,
    text_at,
    uid_of,
    with_finalizer,
    without_finalizer,
)
from scorer.membership.missed_heartbeats import is_silent
from scorer.placement.policy_hash import policy_hash, policy_in_force
from scorer.rollout.confirmation.deletion import DeletionVerdict
from scorer.rollout.confirmation.objects import ObjectJudgement, content_record, placed_selection
from scorer.rollout.confirmation.report import pending_events
from scorer.rollout.object_size import TooLarge
from scorer.rollout.removal.finalization import (
    RemainingWorks,
    describe_remaining_works,
    forgets_works,
    removal_status,
    report_delay,
)
from scorer.rollout.removal.marks import REMOVED, is_marked_for_removal
from scorer.rollout.selection.selector import InvalidSelection, Selection
from scorer.rollout.snapshots.groups import snapshot_groups
from scorer.rollout.snapshots.policies import latest_policy_snapshots, plan_policy_snapshots
from scorer.rollout.snapshots.resources import fitting_content, plan_orphaned_snapshots, plan_resource_snapshots
from scorer.rollout.status.advisories import advisory_events, with_advisories
from scorer.rollout.status.namespace_copy import (
    copy_namespace,
    moved_namespace_error,
    plan_status_copy,
    reported_namespace,
    with_status_synced,
)
from scorer.rollout.status.placement import PlacementReport, SnapshotView, invalid_selection, placement_status
from scorer.rollout.status.placement_conditions import is_stalled, with_objects_not_selected
from scorer.rollout.writes import Write
from webhook.controllers.machinery.failures import concerned_placement
from webhook.controllers.machinery.observer import UNOBSERVED, LoopObserver
from webhook.controllers.machinery.result import DONE, Result, TerminalError, soonest
from webhook.controllers.machinery.wiring import Later, Poll, Signal, Waker, Watch, Wiring
from webhook.controllers.placements.advisories import AdvisoryController, acknowledgement
from webhook.controllers.placements.listing import placement_refs, placements_in_altered
from webhook.controllers.placements.removals import (
    ContentRemovals,
    seen_of_confirmation,
)
from webhook.controllers.placements.resource_selection import Selecting
from webhook.controllers.placements.resource_watches import Selectables
from webhook.kube.cache.changes import ObjectDelta, desired
from webhook.kube.cache.hub import Hub, run_concurrently
from webhook.kube.cache.live_reads import is_deleted_with_definition
from webhook.kube.listers.placements import children, count_children, used_snapshots, works_of
from webhook.kube.ports import Key, StoreError, key_of
from webhook.settings.loop import LoopSettings

STATUS_WAIT = timedelta(milliseconds=20)
"""Debounce of the status of a placement, per binding: bindings change together, and the status lists each of them."""
SHORTEST_WAIT, LONGEST_WAIT = timedelta(milliseconds=100), timedelta(seconds=5)
POLL_INTERVAL = timedelta(seconds=15)
"""Poll interval for kinds that could not be read, and for the content that a deletion waits for."""
RETRY_COPY = timedelta(seconds=5)


class PlacementController:
    """Turns the spec of a placement into snapshots, and reports its progress in the status.

    Args:
        hub: The hub cluster.
        now: The clock.
        record: Records Events.
        selectables: Watches the selectable kinds.
        settings: Settings of the operator.
        advisories: Evaluates the warnings that the status repeats.
        observer: Reports stalled placements and pending removals.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        selectables: Selectables,
        settings: LoopSettings,
        advisories: AdvisoryController,
        observer: LoopObserver = UNOBSERVED,
    ) -> None:
        self._hub = hub
        self._now = now
        self._record = record
        self._selectables = selectables
        self._selecting = Selecting(hub, selectables, settings.selection)
        self._removals = ContentRemovals(hub, now, record, settings.removal, observer)
        self._settings = settings
        self._observer = observer
        self._advisories = advisories
        self._reported: dict[PlacementRef, str] = {}
        self._strays: dict[PlacementRef, set[Key]] = {}
        """Resource snapshots without the label of the placement that controls them."""

    def wiring(self) -> Wiring[PlacementRef]:
        """Return the wiring: all inputs of the snapshots and of the status enqueue a placement."""
        return Wiring(
            name="placement",
            reconcile=self.reconcile,
            concerned=concerned_placement,
            owner=str,
            watches=tuple(self._watches()),
            resync=self._everything,
            polls=(Poll(POLL_INTERVAL, self._selectables.recovered),),
            makes=[kind for family in FAMILIES for kind in (family.policy_snapshot, family.resource_snapshot)],
            ends=(partial(self._selectables.pause, self._settings.share),),
        )

    def _watches(self) -> Iterator[Waker[PlacementRef]]:
        for family in FAMILIES:
            yield Watch(family.placement, partial(_itself, family))
            yield Watch(family.policy_snapshot, partial(_of_policy_snapshot, family))
            yield Watch(family.resource_snapshot, partial(self._of_resource_snapshot, family))
            yield Watch(family.binding, partial(self._of_binding, family))
        yield Watch(NAMESPACE, self._of_namespace)
        yield Watch(WORK, _of_deleted_work)
        yield Watch(PLACEMENT_STATUS, _of_copy)
        yield Watch(CUSTOM_RESOURCE_DEFINITION, self._of_definition)
        yield Signal(self._selectables.subscribe, lambda touched: (touched.ref,))
        yield Signal(self._advisories.subscribe, lambda ref: (ref,))

    def _of_resource_snapshot(self, family: Family, change: ObjectDelta) -> Iterator[PlacementRef]:
        """Yield the placement of a resource snapshot that was deleted, has other records, or lacks the label."""
        if change.new is None or change.alters(_records):
            yield family.parent(change.document)
        elif (owner := _owner(family, change.new)) is not None and owner != family.parent(change.new):
            self._strays.setdefault(owner, set()).add(key_of(change.new))
            yield owner

    def _of_binding(self, family: Family, change: ObjectDelta) -> Iterator[Later[PlacementRef]]:
        """Yield the placement of a binding, debounced."""
        ref = family.parent(change.document)
        count = count_children(self._hub.cache, family.binding, ref)
        yield Later(ref, min(max(SHORTEST_WAIT, count * STATUS_WAIT), LONGEST_WAIT))

    def _of_namespace(self, change: ObjectDelta) -> Iterator[PlacementRef]:
        """Yield the placements in a namespace that is now being deleted, or whose exemption label has changed."""
        yield from placements_in_altered(self._hub.cache, change, is_deleting, self._settings.removal.exempts)

    def _of_definition(self, change: ObjectDelta) -> Iterator[PlacementRef]:
        """Return all placements, to select again, if the served kinds have changed."""
        return placement_refs(self._hub.cache) if self._selectables.redefined(change) else iter(())

    def _everything(self) -> Iterator[PlacementRef]:
        self._selectables.stale()  # no event reports that an aggregated kind, which has no definition, is served now
        yield from placement_refs(self._hub.cache)

    async def reconcile(self, ref: PlacementRef) -> Result:
        """Make the snapshots and the status of one placement match its spec, or clean up after a deleted one.

        Raises `TerminalError` for an invalid policy, `RetryError` if a selected kind is not listed now, `StoreError`.
        """
        family = FAMILY_OF[ref.kind]
        placement = self._hub.cache.get(family.placement, ref.name, ref.namespace)
        if placement is None:
            self._reported.pop(ref, None)
            self._strays.pop(ref, None)
            self._selectables.forget(ref)
            self._observer.needs_action(family.placement, ref, still=False)
            self._observer.removal_pending(family.placement, ref, None)
            return DONE
        if is_deleting(placement):
            return await self._clean_up(family, ref, placement)
        placement = await self._hold(family, placement)
        selection = await self._select(family, ref, placement)
        judgement = self._removals.judge(family, placement, selection)
        if isinstance(selection, InvalidSelection):
            return await self._hold_content(family, ref, placement, selection, judgement)
        policy = self._policy(family, ref, placement)
        # The first policy snapshot after the content, because it wakes the scheduler, which can then bind what it
        # creates. A later one before the content: clusters that are dropped must not get new content first.
        is_first = not children(self._hub.cache, family.policy_snapshot, ref)
        if not is_first:
            await self._hub.carry_out(family.policy_snapshot, policy)
        latest, pending, too_large = await self._keep_resources(family, ref, placement, selection, judgement)
        if is_first:
            await self._hub.carry_out(family.policy_snapshot, policy)
        report = self._status(family, ref, placement, latest, too_large)
        status = with_objects_not_selected(placement, report.status, selection.cluster_objects.values(), self._now())
        report = self._with_removals(family, placement, replace(report, status=status), selection, judgement)
        return soonest(await self._report(family, placement, report), pending)

    async def _hold_content(
        self,
        family: Family,
        ref: PlacementRef,
        placement: JsonObject,
        selection: InvalidSelection,
        judgement: ObjectJudgement | None,
    ) -> Result:
        """Keep the placed content while the selection is invalid, except for confirmed removals."""
        waits = DONE
        if selection.rest is not None and judgement is not None:
            _, waits, _ = await self._keep_resources(family, ref, placement, selection.rest, judgement)
        else:
            await self._collect_strays(family, ref, placement)
        report = invalid_selection(placement, selection.message, self._now())
        report = self._with_removals(family, placement, report, judgement=judgement)
        return soonest(await self._report(family, placement, report), waits)

    async def _hold(self, family: Family, placement: JsonObject) -> JsonObject:
        """Add the finalizers and the exemption record. Without finalizers, nothing would remove the snapshots."""
        finalized = with_finalizer(placement, PLACEMENT_CLEANUP) or placement
        finalized = with_finalizer(finalized, SCHEDULER_CLEANUP) or finalized
        finalized = await self._removals.prepared(family, finalized)
        return placement if finalized is placement else await self._hub.amend(family.placement, finalized)

    async def _collect_strays(self, family: Family, ref: PlacementRef, placement: JsonObject) -> None:
        """Delete the unused resource snapshots that lack the label of the placement. Restore the label of the others.

        The cache has no such snapshots until the caller next awaits: a latest one would be created again.
        """
        cache, kind = self._hub.cache, family.resource_snapshot
        while keys := sorted(self._strays.get(ref, ())):
            snapshots = (cache.get(kind, *key) for key in keys)
            strays = [entry for entry in snapshots if entry is not None and _is_stray(entry, ref, placement)]
            groups = snapshot_groups(children(cache, kind, ref))
            await self._hub.carry_out(
                kind, plan_orphaned_snapshots(placement, strays, groups, used_snapshots(cache, family, ref))
            )
            self._strays[ref] -= set(keys)

    async def _select(self, family: Family, ref: PlacementRef, placement: JsonObject) -> Selection | InvalidSelection:
        copied = not ref.namespace and bool(reported_namespace(placement))
        if copied and (error := moved_namespace_error(placement, self._copies(ref))):
            return InvalidSelection(error)
        selection = await self._selecting.select(family, ref, placement)
        if isinstance(selection, Selection):
            self._tell_left_out(ref, placement, self._selectables.unreadable(ref))
        return selection

    def _tell_left_out(
        self, ref: PlacementRef, placement: JsonObject, unreadable: Mapping[tuple[str, str], str]
    ) -> None:
        """Record an Event, once per change, with the unreadable kinds of a namespace, which are not placed."""
        if not unreadable:
            self._reported.pop(ref, None)
            return
        words = "; ".join(f"{kind}: {reason}" for (_, kind), reason in sorted(unreadable.items()))
        if self._reported.get(ref) != words:
            self._reported[ref] = words
            self._record(
                placement, Event("PlacementKindsNotRead", f"objects of these kinds are not placed: {words}", "Warning")
            )

    def _policy(self, family: Family, ref: PlacementRef, placement: JsonObject) -> tuple[Write, ...]:
        """Return the writes that make the latest policy snapshot match that of a placement. Raises `TerminalError`."""
        snapshots = children(self._hub.cache, family.policy_snapshot, ref)
        digest = policy_hash(placement["spec"].get("policy"))
        bindings = children(self._hub.cache, family.binding, ref)
        in_force = policy_in_force(placement, snapshots)
        plan = plan_policy_snapshots(placement, snapshots, digest, in_force=in_force, bindings=bindings)
        if plan.error:
            raise TerminalError(plan.error)
        return plan.writes

    async def _keep_resources(
        self,
        family: Family,
        ref: PlacementRef,
        placement: JsonObject,
        selection: Selection,
        judgement: ObjectJudgement | None,
    ) -> tuple[SnapshotView | None, Result, Sequence[TooLarge]]:
        await self._collect_strays(family, ref, placement)
        objects = placed_selection(selection, judgement).objects
        snapshots = children(self._hub.cache, family.resource_snapshot, ref)
        if dict_at(placement, "spec", "strategy").get("type") == "External":  # the next update run selects them
            return None, DONE, fitting_content(snapshot_groups(snapshots), objects)[0].too_large
        placement = await self._removals.order(family, placement, judgement)
        plan = plan_resource_snapshots(
            placement,
            snapshots,
            objects,
            self._now(),
            self._settings.snapshots,
            bindings=children(self._hub.cache, family.binding, ref),
            cluster_objects=selection.cluster_objects,
            content=content_record(judgement),
        )
        await self._hub.carry_out(family.resource_snapshot, plan.writes)
        self._removals.warn(placement, judgement, plan.writes)
        return SnapshotView(plan.name, plan.index, plan.identifiers), Result(plan.requeue_after), plan.too_large

    def _status(
        self,
        family: Family,
        ref: PlacementRef,
        placement: JsonObject,
        latest: SnapshotView | None,
        too_large: Sequence[TooLarge],
    ) -> PlacementReport:
        cache = self._hub.cache
        policies = latest_policy_snapshots(children(cache, family.policy_snapshot, ref))
        bindings = children(cache, family.binding, ref)
        snapshots = {}
        if latest is None:
            groups = snapshot_groups(children(cache, family.resource_snapshot, ref))
            snapshots = {
                group.name: SnapshotView(group.name, group.index, tuple(group.identifiers()))
                for group in groups
                if group.name
            }
        return placement_status(
            placement,
            next(iter(policies), None),
            bindings,
            latest,
            self._now(),
            snapshots=snapshots,
            stall_timeout=self._settings.stalled_after,
            too_large=too_large,
        )

    def _with_removals(
        self,
        family: Family,
        placement: JsonObject,
        report: PlacementReport,
        selection: Selection | None = None,
        judgement: ObjectJudgement | None = None,
    ) -> PlacementReport:
        """Return a report with the conditions about pending removals, an empty selection and advisories."""
        status = self._removals.status(family, placement, report.status, selection, judgement)
        status = with_advisories(placement, status, self._advisories.of(family.ref(placement)), self._now())
        events = (*report.events, *pending_events(placement, status), *advisory_events(placement, status))
        return replace(report, status=status, events=events)

    async def _report(self, family: Family, placement: JsonObject, report: PlacementReport) -> Result:
        status, copied = await self._copy_status(family.ref(placement), placement, report.status)
        self._hub.report(family.placement, placement, status)
        self._advisories.request(family.ref(placement), placement, status)
        self._observer.needs_action(family.placement, family.ref(placement), still=is_stalled(placement, status))
        for event in report.events:
            self._record(placement, event)
        return soonest(Result(report.requeue_after), copied)

    async def _copy_status(
        self, ref: PlacementRef, placement: JsonObject, status: JsonObject
    ) -> tuple[JsonObject, Result]:
        """Write the status copy for users who may read only the selected namespace. Return the status and the retry."""
        if ref.namespace or not reported_namespace({**placement, "status": status}):
            return status, DONE
        now = self._now()
        namespace = copy_namespace({**placement, "status": status}, self._copies(ref))
        copy = self._hub.cache.get(PLACEMENT_STATUS, ref.name, namespace)
        write = plan_status_copy(placement, status, copy, now)
        problem = ""
        try:  # before the status itself, which reports whether the copy was written
            await self._hub.carry_out(PLACEMENT_STATUS, [write] if write else [])
        except StoreError as error:
            problem = str(error)
        return with_status_synced(placement, status, problem, now), Result(RETRY_COPY if problem else None)

    def _copies(self, ref: PlacementRef) -> list[JsonObject]:
        copies = self._hub.cache.list(PLACEMENT_STATUS)
        return [copy for copy in copies if copy["metadata"]["name"] == ref.name]

    async def _clean_up(self, family: Family, ref: PlacementRef, placement: JsonObject) -> Result:
        """Delete the snapshots of a placement whose deletion may proceed, and release it once it waits for no Work."""
        self._selectables.forget(ref)
        self._observer.needs_action(family.placement, ref, still=False)
        if (free := without_finalizer(placement, PLACEMENT_CLEANUP)) is None:
            return DONE
        works: list[RemainingWorks] = []
        event = Event("PlacementCleanupFinalizerRemoved", "its snapshots are deleted, and it waits for no more Works")
        if await is_deleted_with_definition(self._hub.store, family.placement):
            message = (
                f"the definition {family.placement.resource} is being deleted, which does not count as a deletion of "
                "each placement: its content remains on the members. To have it managed, create the placement again"
            )
            event = Event("PlacedContentKept", message, "Warning")
        else:
            judgement = await self._removals.judge_deletion(family, placement)
            if judgement.verdict is DeletionVerdict.PENDING:
                self._removals.await_confirmation(family, placement, judgement)
                return DONE
            self._observer.removal_pending(family.placement, ref, None)
            placement = self._removals.report_progress(family, placement, judgement)
            if judgement.clusters and not self._removals.is_off(placement):
                return Result(POLL_INTERVAL)  # the scheduler still needs the snapshots to order the removals
            snapshots = [
                self._hub.delete(kind, snapshot)
                for kind in (family.policy_snapshot, family.resource_snapshot)
                for snapshot in children(self._hub.cache, kind, ref)
            ]
            await run_concurrently(snapshots)
            works = self._remnants(family, ref)
            namespace = self._hub.cache.get(NAMESPACE, ref.namespace) if ref.namespace else None
            forgets = forgets_works(placement, namespace)
            is_confirmed = bool(judgement.digest)
            ordered = [entry for entry in works if entry.is_ordered and (forgets or (is_confirmed and entry.silent))]
            if awaited := [remnant for remnant in works if remnant not in ordered]:
                return self._wait_for(family, placement, awaited)
        await self._hub.amend(family.placement, free)
        self._record(placement, event)
        if works:
            remaining = describe_remaining_works(works)
            message = f"{family.placement.kind} {ref.name} is deleted, but its Works remain: {remaining}"
            # A namespace that is being deleted accepts no Event. One about the namespace itself is in ``default``.
            self._record(namespace or placement, Event("PlacementWorksLeft", message, "Warning"))
        return DONE

    def _remnants(self, family: Family, ref: PlacementRef) -> list[RemainingWorks]:
        """Return the Works that the deletion of a placement waits for, by cluster."""
        cache, remnants = self._hub.cache, []
        for binding in children(cache, family.binding, ref):
            member = cache.get(MEMBER_CLUSTER, text_at(binding, "spec", "targetCluster"))
            silent = is_silent(status_of(member or {}))
            remnants.append(RemainingWorks(binding, tuple(works_of(cache, binding)), member, silent))
        return [remnant for remnant in remnants if remnant.is_awaited]

    def _wait_for(self, family: Family, placement: JsonObject, remnants: Sequence[RemainingWorks]) -> Result:
        """Report what a deleted placement waits for, once that takes longer than usual."""
        if (delay := report_delay(placement, remnants, self._now())) > timedelta():
            return Result(min(delay, POLL_INTERVAL))
        status = removal_status(placement, remnants, self._now())
        if status != status_of(placement):
            self._hub.report(family.placement, placement, status)
            self._record(placement, Event("PlacementNotRemoved", describe_remaining_works(remnants), "Warning"))
        return Result(POLL_INTERVAL)


def _itself(family: Family, change: ObjectDelta) -> Iterator[PlacementRef]:
    """Yield a placement that was created or deleted, or whose spec, deletion mark or relevant annotations changed."""
    if change.touches(desired) or change.alters(seen_of_confirmation) or change.alters(acknowledgement):
        yield family.ref(change.document)


def _of_policy_snapshot(family: Family, change: ObjectDelta) -> Iterator[PlacementRef]:
    """Yield the placement of a policy snapshot that was deleted, or has other labels, annotations or status."""
    if change.new is None or change.alters(_record):
        yield family.parent(change.document)


def _owner(family: Family, snapshot: JsonObject) -> PlacementRef | None:
    """Return the placement that controls a snapshot, by its owner references. None: unknown."""
    references = dicts_at(snapshot, "metadata", "ownerReferences")
    name = next(
        (str(reference.get("name")) for reference in references if reference.get("kind") == family.placement.kind), ""
    )
    return placement_ref(name, namespace_of(snapshot)) if name else None


def _records(snapshot: JsonObject) -> tuple[str, str]:
    return annotation(snapshot, LEFT_OUT), annotation(snapshot, SOURCES)


def _is_stray(snapshot: JsonObject, ref: PlacementRef, placement: JsonObject) -> bool:
    """Return whether a snapshot of this very placement lacks the label with its name, and is not being deleted."""
    uids = {owner_reference.get("uid") for owner_reference in dicts_at(snapshot, "metadata", "ownerReferences")}
    return label(snapshot, PARENT_PLACEMENT) != ref.name and uid_of(placement) in uids and not is_deleting(snapshot)


def _of_deleted_work(change: ObjectDelta) -> Iterator[PlacementRef]:
    """Yield the placement of a deleted Work whose deletion, removal mark or removal report is new."""
    if change.new is not None and is_deleting(change.new) and change.alters(_seen_of_deleted_work):
        yield placement_of_work(change.new)


def _of_copy(change: ObjectDelta) -> Iterator[PlacementRef]:
    """Yield the placement whose status copy was changed or deleted."""
    if change.old is not None:
        yield placement_ref(change.document["metadata"]["name"])


def _record(snapshot: JsonObject) -> tuple[object, ...]:
    metadata = snapshot["metadata"]
    return metadata.get("labels"), metadata.get("annotations"), snapshot.get("status")


def _seen_of_deleted_work(work: JsonObject) -> tuple[object, ...]:
    return is_deleting(work), is_marked_for_removal(work), current_condition(work, REMOVED)
