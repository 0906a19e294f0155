"""Scheduling: make the bindings of a placement match the present decision.

Source: docs/specifications/scheduling.md 2 to 4, 17.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Protocol

from scorer.api.conditions import TRUE
from scorer.api.event import Event
from scorer.api.family import FAMILIES, FAMILY_OF, Family, PlacementRef, placement_ref
from scorer.api.kinds import EVICTION, MEMBER_CLUSTER, NAMESPACE, WORK
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
from scorer.api.placement.placement import PlacementType
from scorer.api.unstructured.documents import (
    annotation,
    annotations_of,
    current_condition,
    dict_at,
    has_current_status,
    is_deleting,
    name_of,
    spec_of,
    text_at,
    with_finalizer,
    with_metadata,
    without_finalizer,
)
from scorer.placement.binding_plan import (
    BrokenBindingError,
    Drops,
    binding_name,
    is_readable,
    lost_binding,
    plan_bindings,
    read_binding,
)
from scorer.placement.holdings import Binding
from scorer.placement.record import decision_text, snapshot_status
from scorer.placement.request import read_request
from scorer.placement.schedule import ScheduleResult, confirm, hold, schedule
from scorer.placement.wake import RequeueCandidate, placements_to_requeue
from scorer.rollout.confirmation.deletion import DeletionVerdict
from scorer.rollout.confirmation.dropped_bindings import seen_of_replacement
from scorer.rollout.confirmation.policy import DEFAULT_POLICY, RemovalPolicy
from scorer.rollout.removal.deletion import (
    is_removal_requested,
    is_unscheduled_by_others,
    leaves_objects,
    plan_binding_deletion,
    plan_states_restored,
    plan_unmarking,
)
from scorer.rollout.removal.eviction import EVICTED_BINDING
from scorer.rollout.removal.marks import is_marked_for_removal
from scorer.rollout.snapshots.policies import latest_policy_snapshots
from scorer.rollout.status.placement_conditions import condition_type
from scorer.rollout.works.orphans import as_works_say, orphaned_works, unproven_works
from scorer.rollout.writes import replace
from scorer.selectors import InvalidPolicyError
from webhook.controllers.machinery.failures import concerned_placement
from webhook.controllers.machinery.result import DONE, Result, TerminalError
from webhook.controllers.machinery.wiring import Waker, Watch, Wiring
from webhook.controllers.placements.cluster_removals import ClusterRemovals
from webhook.controllers.placements.deletion import delete_works
from webhook.controllers.placements.listing import all_placements, placement_refs, placements_in_altered
from webhook.controllers.placements.removals import ContentRemovals, seen_of_confirmation
from webhook.history.entry import CLUSTERS_PICKED
from webhook.kube.cache.changes import ObjectDelta, desired
from webhook.kube.cache.hub import Hub, run_concurrently
from webhook.kube.cache.informer import read_member
from webhook.kube.cache.live_reads import is_deleted_with_definition
from webhook.kube.listers.placements import children
from webhook.kube.ports import AlreadyExistsError, NotFoundError, RetryError, key_of
from webhook.kube.work_signing_keys import WorkKeys


class FirstRollout(Protocol):
    """Starts the rollout of a placement with the creation of its bindings."""

    def first_bindings(self, family: Family, placement: JsonObject, bindings: Sequence[JsonObject]) -> list[JsonObject]:
        """Return the first bindings of a placement as they will be created."""
        ...

    def say_started(self, family: Family, document: JsonObject) -> None:
        """Report on a created binding, if it is bound, that its rollout has started."""
        ...


class SchedulerController:
    """Schedules one placement at a time.

    Args:
        hub: The hub cluster.
        now: The clock.
        record: Records Events.
        rollout: Starts the rollout of new placements.
        keys: Verifies Works without a binding.
        removal: Removal policy of the operator.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        rollout: FirstRollout,
        keys: WorkKeys,
        removal: RemovalPolicy = DEFAULT_POLICY,
    ) -> None:
        self._hub = hub
        self._now = now
        self._record = record
        self._rollout = rollout
        self._keys = keys
        self._removals = ClusterRemovals(hub, now, record, removal)
        self._content = ContentRemovals(hub, now, record, removal)

    def wiring(self) -> Wiring[PlacementRef]:
        """Return the wiring: policies, members, and bindings that another client has changed enqueue a placement."""
        return Wiring(
            name="scheduler",
            reconcile=self.reconcile,
            concerned=concerned_placement,
            owner=str,
            watches=tuple(self._watches()),
            resync=lambda: placement_refs(self._hub.cache),
            makes=[family.binding for family in FAMILIES],
            prepares=(self._keys.load,),
        )

    def _watches(self) -> Iterator[Waker[PlacementRef]]:
        for family in FAMILIES:
            yield Watch(family.placement, partial(_itself, family))
            yield Watch(family.policy_snapshot, partial(_of_policy_snapshot, family))
            yield Watch(family.binding, partial(_of_binding, family))
        yield Watch(NAMESPACE, self._of_namespace)
        yield Watch(EVICTION, _of_eviction)
        yield Watch(MEMBER_CLUSTER, self._of_member)

    def _of_namespace(self, change: ObjectDelta) -> Iterator[PlacementRef]:
        """Yield the placements in a namespace that is now being deleted: they do not wait for confirmation."""
        yield from placements_in_altered(self._hub.cache, change, is_deleting)

    def _of_member(self, change: ObjectDelta) -> Iterator[PlacementRef]:
        """Yield the placements that a member leaves, or that may pick it now. See `scorer.placement.wake`."""
        cache = self._hub.cache
        before, after = (None if document is None else read_member(document) for document in change)
        if change.new is None:
            yield from placement_refs(cache)
        elif after is not None:  # an invalid member keeps its last valid state in the fleet
            sleepers = (self._sleeper(ref, document) for ref, document in all_placements(cache))
            if names := set(placements_to_requeue(before, after, sleepers, self._now(), cache.limits)):
                yield from (ref for ref in placement_refs(cache) if str(ref) in names)

    def _sleeper(self, ref: PlacementRef, document: JsonObject) -> RequeueCandidate:
        kind = dict_at(document, "spec", "policy").get("placementType") or PlacementType.PICK_ALL.value
        placement_type = kind if kind in tuple(PlacementType) else PlacementType.PICK_ALL
        return RequeueCandidate(str(ref), PlacementType(placement_type), self._is_fully_scheduled(ref, document))

    def _is_fully_scheduled(self, ref: PlacementRef, document: JsonObject) -> bool:
        """Return whether the condition of a placement and its latest policy snapshot report full scheduling."""
        condition = current_condition(document, condition_type(document, "Scheduled")) or {}
        if condition.get("status") != TRUE:
            return False
        family = FAMILY_OF[ref.kind]
        records = latest_policy_snapshots(children(self._hub.cache, family.policy_snapshot, ref))
        return all(has_current_status(record, "Scheduled", TRUE) for record in records)

    async def reconcile(self, ref: PlacementRef) -> Result:
        """Make the bindings of one placement match the present decision.

        Raises:
            TerminalError: A binding contradicts itself, or several policy snapshots are labeled latest.
            RetryError: The cache lags behind the hub, or the name of a new binding is taken.
            StoreError: The hub refused a request, or did not respond.
        """
        family = FAMILY_OF[ref.kind]
        placement = self._hub.cache.get(family.placement, ref.name, ref.namespace)
        if placement is None:  # its bindings were deleted before its finalizer was removed
            return DONE
        if is_deleting(placement):
            return await self._clean_up(family, ref, placement)
        snapshot = self._latest(family, ref)
        if snapshot is None:
            return DONE
        # The finalizer before the first binding: a deletion in between would leave bindings that nothing removes.
        if (finalized := with_finalizer(placement, SCHEDULER_CLEANUP)) is not None:
            placement = await self._hub.amend(family.placement, finalized)
        documents = children(self._hub.cache, family.binding, ref)
        await run_concurrently(self._let_go(family, document) for document in documents if is_deleting(document))
        if any(is_deleting(document) and not is_removal_requested(document) for document in documents):
            return DONE  # deleted by another client: after the deletion it is created again, before any decision
        name = snapshot["metadata"]["name"]
        if restored := plan_states_restored(documents):  # before the decision, which would treat the cluster as dropped
            await self._hub.carry_out_concurrently(family.binding, restored)
            names = ", ".join(write.name for write in restored)
            message = f"bindings restored, because a client other than the loop had set them to Unscheduled: {names}"
            self._record(placement, Event("BindingsRestored", message, "Warning"))
            documents = children(self._hub.cache, family.binding, ref)
        if taken_back := plan_unmarking(documents, self._hub.cache.of_kind(EVICTION).objects.values()):
            await self._hub.carry_out_concurrently(family.binding, taken_back)
            documents = children(self._hub.cache, family.binding, ref)
        lost_bindings = await self._lost(family, ref, placement, name, documents)
        run = self.decide(ref, snapshot, documents, lost_bindings)
        judged = self._removals.judge(family, placement, snapshot, run, [*documents, *lost_bindings])
        try:
            is_taken = partial(self._is_taken, family, ref)
            drops = Drops(self._now(), judged.marks, judged.replacing)
            plan = plan_bindings(
                run,
                placement,
                name,
                documents,
                _blank(family),
                lost_bindings=lost_bindings,
                is_taken=is_taken,
                drops=drops,
            )
        except BrokenBindingError as error:
            raise TerminalError(str(error)) from error
        # New bindings first, dropped ones last: after a crash in between, the placement has one cluster too many, which
        # the next decision drops. The reverse order could leave one too few.
        if documents or lost_bindings or not plan.create:
            await run_concurrently(self._create(family, document) for document in plan.create)
        else:
            first = self._rollout.first_bindings(family, placement, plan.create)
            await run_concurrently(self._create_first(family, document) for document in first)
        going = {binding.name for binding in run.dropped}
        remaining = [document for document in plan.replace if name_of(document) not in going]
        await self._hub.carry_out_concurrently(family.binding, map(replace, remaining))
        snapshot = await self._removals.order(family, placement, snapshot, judged)
        dropped = [document for document in plan.replace if name_of(document) in going]
        await self._hub.carry_out_concurrently(family.binding, map(replace, (*dropped, *judged.changed)))
        generation = _placement_generation(snapshot)
        status = snapshot_status(run, snapshot, generation, self._now())
        self._hub.report(family.policy_snapshot, snapshot, status)
        if text := decision_text(run):
            self._record(placement, Event(CLUSTERS_PICKED, text))
        return DONE

    def decide(
        self, ref: PlacementRef, snapshot: JsonObject, documents: list[JsonObject], lost: Iterable[JsonObject] = ()
    ) -> ScheduleResult:
        """Run the engine for one placement, without writing anything. An invalid policy only drops dangling bindings.

        Raises:
            TerminalError: A binding is invalid.
        """
        name = snapshot["metadata"]["name"]
        try:
            bindings: list[Binding] = [read_binding(document, name) for document in documents]
            missing = [read_binding(document, name) for document in lost]
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
        return schedule(request, fleet, [*bindings, *confirm(request, fleet, missing, now)], now)

    def _latest(self, family: Family, ref: PlacementRef) -> JsonObject | None:
        latest = latest_policy_snapshots(children(self._hub.cache, family.policy_snapshot, ref))
        if len(latest) > 1:
            names = ", ".join(snapshot["metadata"]["name"] for snapshot in latest)
            raise TerminalError(f"several policy snapshots are labeled latest: {names}")
        return latest[0] if latest else None

    async def _let_go(self, family: Family, document: JsonObject) -> None:
        if (free := without_finalizer(document, SCHEDULER_BINDING_CLEANUP)) is not None:
            await self._hub.replace(family.binding, free)

    async def _lost(
        self, family: Family, ref: PlacementRef, placement: JsonObject, snapshot: str, documents: list[JsonObject]
    ) -> list[JsonObject]:
        """Return the bindings that another client deleted, reconstructed from their Works (`lost_bindings`).

        They are not stored: the decision judges their clusters first (`scorer.placement.schedule.confirm`).

        Bindings and Works are read from the hub. The cache may lag: a Work whose binding was just deleted or created
        would look like an orphan.

        Raises:
            RetryError: A binding exists that the cache does not have yet.
        """
        blank, provenance = _blank(family), self._keys.of(placement)
        is_taken = partial(self._is_taken, family, ref)
        lost_bindings: list[JsonObject] = []
        orphaned = orphaned_works(placement, documents, self._hub.cache.labelled(WORK, PARENT_PLACEMENT, ref.name))
        members = {cluster: self._hub.cache.get(MEMBER_CLUSTER, cluster) for cluster in orphaned}
        clusters = sorted(cluster for cluster, member in members.items() if member and not is_deleting(member))
        if not clusters:
            return lost_bindings
        labels = {PARENT_PLACEMENT: ref.name}
        listing = await self._hub.store.list(family.binding, ref.namespace or None, labels)
        if unseen := {text_at(binding, "spec", "targetCluster") for binding in listing.items}.intersection(clusters):
            raise RetryError(f"the cache does not have the binding of {ref} on {min(unseen)} yet")
        for cluster in clusters:
            claims = await self._hub.store.list(WORK, member_namespace(cluster), labels)
            works = [
                work
                for work in orphaned_works(placement, documents, claims.items).get(cluster, ())
                if not is_deleting(work)
            ]
            if proven := list(filter(provenance.proves, works)):
                binding = lost_binding(placement, cluster, snapshot, documents, blank, is_taken)
                lost_bindings.append(as_works_say(binding, proven))
            elif works:
                self._record(placement, unproven_works(cluster, works))
        return lost_bindings

    async def _create_first(self, family: Family, document: JsonObject) -> None:
        if (created := await self._create(family, document)) is not None:
            self._rollout.say_started(family, created)

    def _is_taken(self, family: Family, ref: PlacementRef, name: str) -> bool:
        """Return whether a binding of another placement has the name *name*.

        The label alone proves nothing, because users edit it: the placement must exist, and *name* must have the form
        that its bindings have.
        """
        binding = self._hub.cache.get(family.binding, name, ref.namespace)
        if binding is None or (owner := family.parent(binding)) == ref or not owner.name:
            return False
        if self._hub.cache.get(family.placement, owner.name, owner.namespace) is None:
            return False
        return name == binding_name(owner.name, text_at(binding, "spec", "targetCluster"), name[-8:])

    async def _create(self, family: Family, document: JsonObject) -> JsonObject | None:
        """Create a binding, or restore the labels of an existing one: its name identifies placement and cluster.

        Return the created binding, or None if it existed. Then either the cache was behind and has read it now, or a
        user has removed its labels.

        Raises:
            RetryError: The name belongs to another placement. The next pass chooses another one.
        """
        try:
            return await self._hub.create(family.binding, document)
        except AlreadyExistsError:
            cached = self._hub.cache.get(family.binding, *key_of(document))
            if self._is_taken(family, family.parent(document), name_of(document)):
                raise RetryError(f"binding {name_of(document)} of another placement has appeared") from None
            if cached is not None and family.parent(cached) != family.parent(document):
                await self._hub.replace(family.binding, with_metadata(cached, labels=document["metadata"]["labels"]))
            return None

    async def _clean_up(self, family: Family, ref: PlacementRef, placement: JsonObject) -> Result:
        """Delete the bindings of a deleted placement and its orphaned Works, then remove the finalizer.

        Nothing is deleted if its definition is being deleted, which deletes all placements: no user has requested the
        deletion of each of them, and placements that are created again find their bindings. The cache is not trusted:
        the hub must still store the same placement, marked as deleted. It does not if the definition was deleted or
        restored.

        Raises:
            RetryError: The hub stores another placement of this name, or one that is not being deleted.
        """
        if not await is_deleted_with_definition(self._hub.store, family.placement):
            try:
                current = await self._hub.store.get(family.placement, key_of(placement))
            except NotFoundError:
                return DONE
            if current["metadata"].get("uid") != placement["metadata"].get("uid") or not is_deleting(current):
                raise RetryError(f"the cached state of placement {ref} is out of date")
            judgement = await self._content.judge_deletion(family, placement)
            if judgement.verdict is DeletionVerdict.PENDING:
                return DONE  # the controller of placements reports it, and a confirmation requeues the key
            placement = await self._content.order_deletion(family, placement, judgement)
            abandoned = judgement.verdict is DeletionVerdict.ABANDONED or leaves_objects(placement)
            await self._content.report_deletion(family, placement, judgement)
            documents = children(self._hub.cache, family.binding, ref)
            await run_concurrently(
                self._hub.carry_out(family.binding, plan_binding_deletion(placement, [document], abandoned=abandoned))
                for document in documents
            )
            documents = children(self._hub.cache, family.binding, ref)
            await run_concurrently(self._let_go(family, document) for document in documents)
            await self._take_orphans_away(placement, documents, abandoned=abandoned)
        if (free := without_finalizer(placement, SCHEDULER_CLEANUP)) is not None:
            await self._hub.amend(family.placement, free)
        return DONE

    async def _take_orphans_away(
        self, placement: JsonObject, bindings: Sequence[JsonObject], *, abandoned: bool
    ) -> None:
        """Delete the Works of clusters without a binding that waits for them.

        A lost binding cannot always be created again: a namespace that is being deleted accepts no new objects.
        """
        waiting = (binding for binding in bindings if with_finalizer(binding, WORK_CLEANUP) is None)
        works = self._hub.cache.labelled(WORK, PARENT_PLACEMENT, name_of(placement))
        orphans = orphaned_works(placement, waiting, works)
        await run_concurrently(
            delete_works(self._hub, orphan, self._hub.cache.get(MEMBER_CLUSTER, cluster), abandoned=abandoned)
            for cluster, orphan in sorted(orphans.items())
        )


def _placement_generation(snapshot: JsonObject) -> int:
    """Return the placement's generation that a policy snapshot was made from, or 0 if the annotation is invalid."""
    text = annotation(snapshot, PLACEMENT_GENERATION)
    return int(text) if text.isascii() and text.isdigit() else 0


def _blank(family: Family) -> JsonObject:
    return {"apiVersion": family.binding.api_version, "kind": family.binding.kind}


def _itself(family: Family, change: ObjectDelta) -> Iterator[PlacementRef]:
    """Yield a placement that is being deleted, or whose confirmation or exemption of removals has changed."""
    if change.new is None:
        return
    if (is_deleting(change.new) and change.touches(desired)) or change.alters(seen_of_confirmation):
        yield family.ref(change.new)


def _of_policy_snapshot(family: Family, change: ObjectDelta) -> Iterator[PlacementRef]:
    """Yield the placement of a policy snapshot that is new or deleted, or has other labels or annotations.

    Its status is ignored, because the scheduler itself writes it.
    """
    if change.touches(_labels_and_annotations):
        yield family.parent(change.document)


def _of_binding(family: Family, change: ObjectDelta) -> Iterator[PlacementRef]:
    """Yield the placement of a binding that needs a decision, and the placement that its old label named.

    Such a binding was deleted, is being deleted, is marked for removal, or has been changed by another client.
    """
    new = change.new
    if change.alters(family.parent) and change.old is not None:
        yield family.parent(change.old)
    if (
        new is None
        or is_deleting(new)
        or is_marked_for_removal(new)  # without an eviction behind the mark, the scheduler removes it
        or is_unscheduled_by_others(new)
        or change.alters(_seen_of_binding)
    ):
        yield family.parent(change.document)


def _of_eviction(change: ObjectDelta) -> Iterator[PlacementRef]:
    """Yield the placement of a deleted eviction: it may have left its mark on a binding."""
    if change.new is None and annotation(change.document, EVICTED_BINDING):
        yield placement_ref(text_at(change.document, "spec", "placementName"))


def _labels_and_annotations(snapshot: JsonObject) -> tuple[object, object]:
    return snapshot["metadata"].get("labels"), snapshot["metadata"].get("annotations")


def _seen_of_binding(binding: JsonObject) -> tuple[object, ...]:
    """Return the parts of a binding that only other clients change, and that the scheduler reacts to."""
    return spec_of(binding).get("targetCluster"), is_readable(binding), seen_of_replacement(binding)
