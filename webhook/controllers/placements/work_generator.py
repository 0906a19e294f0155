"""Bindings: one Work per snapshot in the member's namespace, and the status that the Works report.

Source: docs/specifications/rollout.md 9, 10 and 15.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from operator import is_
from sys import intern

from scorer.api.event import Event
from scorer.api.family import FAMILIES, FAMILY_OF, Family, PlacementRef, placement_of_work
from scorer.api.kinds import KINDS, MEMBER_CLUSTER, NAMESPACE, WORK
from scorer.api.meta import JsonObject
from scorer.api.names import (
    PARENT_BINDING,
    PARENT_PLACEMENT,
    PLACEMENT_CLEANUP,
    RETAINED,
    SOURCES,
    WORK_CLEANUP,
    member_namespace,
)
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    dict_at,
    finalizers_of,
    is_deleting,
    label,
    spec_of,
    status_of,
    with_finalizer,
    without_finalizer,
)
from scorer.membership.missed_heartbeats import unheard
from scorer.rollout.bindings import NO_OVERRIDES, Overrides, object_removal
from scorer.rollout.confirmation.on_cluster import LeavingJudgement
from scorer.rollout.confirmation.policy import DEFAULT_POLICY, RemovalPolicy
from scorer.rollout.object_size import parse_left_out
from scorer.rollout.removal.deletion import is_abandoned, is_removal_requested
from scorer.rollout.removal.finalization import RemainingWorks
from scorer.rollout.removal.marks import is_marked_for_removal
from scorer.rollout.selection.exclusions import DEFAULT_SETTINGS, SelectionSettings
from scorer.rollout.status.binding import binding_status, removal_status
from scorer.rollout.views.rendering import ContentSources, plan_content
from scorer.rollout.works.plan import Placeable, WorkCause, WorkPlan, WorkProblem, needs_works
from scorer.rollout.writes import Verb, Write, replace
from webhook.controllers.machinery.failures import Concerned
from webhook.controllers.machinery.result import DONE, Result, TerminalError
from webhook.controllers.machinery.wiring import Waker, Watch, Wiring
from webhook.controllers.placements.deletion import delete_works, whole
from webhook.controllers.placements.listing import all_bindings, bindings_on, bindings_on_relabelled
from webhook.controllers.placements.removals import seen_of_confirmation
from webhook.controllers.placements.retained_objects import RetainedObjects
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.hub import Hub
from webhook.kube.listers.overrides import named_override_snapshots
from webhook.kube.listers.placements import children, works_of
from webhook.kube.ports import ForbiddenError, InvalidObjectError, Key, RetryError, ServedKinds, key_of
from webhook.kube.work_signing_keys import WorkKeys

FOREIGN_WORK = timedelta(seconds=5)

POLL_DELETION = timedelta(seconds=30)
"""Poll interval for the deletion of Works, besides their events."""


@dataclass(frozen=True, slots=True)
class BindingRef:
    """Key of a binding. *kind* is that of its placement."""

    kind: str
    name: str
    namespace: str = ""

    @classmethod
    def of(cls, family: Family, binding: JsonObject) -> "BindingRef":
        """Return the reference of a binding of a family."""
        metadata = binding["metadata"]
        return cls(family.placement.kind, metadata["name"], metadata.get("namespace", ""))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def without_manifests(work: JsonObject) -> JsonObject:
    """Trim a Work: drop the manifests, which are most of it and can be generated again."""
    spec = {name: value for name, value in spec_of(work).items() if name != "workload"}
    return {**work, "spec": spec}


def _in_turn(writes: Sequence[Write]) -> tuple[list[Write], list[Write], list[Write]]:
    """Split writes into Works to create, to replace and to delete, in the order of execution.

    An object that moves to a new Work, or from a Work that is deleted, is therefore in its next Work before it leaves
    the old one. Otherwise the agent would delete the object in between. Replaced Works are written concurrently: for
    moves between those, see `webhook.member.deletion.handover`.
    """
    order = (Verb.CREATE, Verb.REPLACE, Verb.DELETE)
    creations, updates, deletions = ([write for write in writes if write.verb is verb] for verb in order)
    return creations, updates, deletions


class WorkGenerator:
    """Keeps the Works of one binding.

    Args:
        hub: The hub cluster.
        now: The clock.
        served: Scopes of the kinds in envelopes.
        record: Records Events.
        keys: Signs the Works.
        selection: Limits of the selection.
        removal: Removal policy of the operator.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        served: ServedKinds,
        record: Callable[[JsonObject, Event], None],
        keys: WorkKeys,
        selection: SelectionSettings = DEFAULT_SETTINGS,
        removal: RemovalPolicy = DEFAULT_POLICY,
    ) -> None:
        self._hub = hub
        self._now = now
        self._served = served
        self._record = record
        self._keys = keys
        self._selection = selection
        self._retained = RetainedObjects(hub, now, record, removal)
        self._at_rest: dict[BindingRef, tuple[object, ...]] = {}
        """Inputs of the last pass over a binding, if that pass had nothing to do."""

    def wiring(self) -> Wiring[BindingRef]:
        """Return the wiring: the inputs of the Works, and the Works, enqueue a binding."""
        return Wiring(
            name="work",
            reconcile=self.reconcile,
            concerned=lambda ref: Concerned(FAMILY_OF[ref.kind].binding, Key(ref.name, ref.namespace)),
            owner=self._owner,
            watches=tuple(self._watches()),
            resync=lambda: (BindingRef.of(family, binding) for family, binding in all_bindings(self._hub.cache)),
            makes=(WORK,),
            trims={WORK: without_manifests},
            prepares=(self._keys.load,),
            background=(self._keys.refresh_periodically,),
        )

    def _watches(self) -> Iterator[Waker[BindingRef]]:
        for family in FAMILIES:
            yield Watch(family.placement, partial(self._of_placement, family))
            yield Watch(family.binding, partial(_itself, family))
            yield Watch(family.resource_snapshot, partial(self._of_snapshot, family))
        yield Watch(WORK, _of_work)
        yield Watch(MEMBER_CLUSTER, self._of_relabelled)
        yield Watch(MEMBER_CLUSTER, self._of_unheard)

    def _owner(self, ref: BindingRef) -> str | None:
        family = FAMILY_OF[ref.kind]
        binding = self._hub.cache.get(family.binding, ref.name, ref.namespace)
        return None if binding is None else str(family.parent(binding))

    def _of_placement(self, family: Family, change: ObjectDelta) -> Iterator[BindingRef]:
        """Yield the bindings of a placement that was released, or whose confirmation or back-reporting has changed.

        Each Work carries the back-report strategy.
        """
        if change.new is None or change.alters(_seen_of_placement):
            for binding in children(self._hub.cache, family.binding, family.ref(change.document)):
                yield BindingRef.of(family, binding)

    def _of_snapshot(self, family: Family, change: ObjectDelta) -> Iterator[BindingRef]:
        """Yield the bindings of a placement whose snapshot records other objects as pending."""
        if change.old is not None and change.new is not None and change.alters(_pending_of_snapshot):
            for binding in children(self._hub.cache, family.binding, family.parent(change.document)):
                yield BindingRef.of(family, binding)

    def _of_relabelled(self, change: ObjectDelta) -> Iterator[BindingRef]:
        """Yield the bindings on a relabelled member, whose overrides may have changed."""
        for family, binding in bindings_on_relabelled(self._hub.cache, change):
            yield BindingRef.of(family, binding)

    def _of_unheard(self, change: ObjectDelta) -> Iterator[BindingRef]:
        """Yield the bindings on a member whose agent has missed heartbeats or has resumed reporting."""
        if change.alters(_silence):
            for family, binding in bindings_on(self._hub.cache, change.document["metadata"]["name"]):
                yield BindingRef.of(family, binding)

    async def reconcile(self, ref: BindingRef) -> Result:
        """Make the Works of one binding match its snapshot, and its status match the Works.

        Raises:
            TerminalError: The binding does not name its placement.
            RetryError: The Works cannot be made yet, or a Work with the name of a new one exists.
            StoreError: The hub did not respond, or refused a request. A refused Work is reported in the status of the
                binding.
        """
        family = FAMILY_OF[ref.kind]
        binding = self._hub.cache.get(family.binding, ref.name, ref.namespace)
        before = self._at_rest.pop(ref, None)  # dropped as soon as it is outdated: it references snapshots and Works
        if binding is None:
            return DONE
        if not family.parent(binding).name:
            raise TerminalError(f"binding {ref.name} has no label {PARENT_PLACEMENT}, which names its placement")
        if is_deleting(binding):
            return await self._clean_up(family, binding)
        member = self._hub.cache.get(MEMBER_CLUSTER, binding["spec"]["targetCluster"])
        works = works_of(self._hub.cache, binding)
        if not needs_works(binding, works) or member is None:
            return DONE
        snapshots = children(self._hub.cache, family.resource_snapshot, family.parent(binding))
        placement = self._hub.cache.get(family.placement, family.parent(binding).name, ref.namespace)
        strategy = (placement or {}).get("spec", {}).get("strategy") or {}
        # Interned: `_are_the_same` compares identities, and every heartbeat replaces the MemberCluster.
        silence = intern(unheard(status_of(member)))
        confirmation = intern(" ".join(seen_of_confirmation(placement or {})))
        read = self._read_for(binding, works, snapshots, strategy, silence, confirmation)
        if before is not None and _are_the_same(read, before):
            self._at_rest[ref] = before
            return DONE
        plan_from = partial(
            plan_content,
            ContentSources(binding, member, snapshots, named_override_snapshots(self._hub.cache, binding)),
            report_back=strategy.get("reportBackStrategy"),
            is_taken=partial(self._is_taken, family.parent(binding), binding["spec"]["targetCluster"]),
            placeable=Placeable(self._served.kinds or KINDS, self._selection),
            now=self._now(),
        )
        plan = plan_from(works)
        if plan.needs_manifests:
            plan = plan_from(await self._with_manifests(works))
        plan, judgement = await self._retain(family, placement, binding, works, plan, plan_from)
        plan = self._keys.of(placement).sign_plan(plan, works)
        # The finalizer before the first Work: a deletion in between would leave Works that nothing removes.
        if plan.writes and (finalized := with_finalizer(binding, WORK_CLEANUP)) is not None:
            binding = await self._hub.replace(family.binding, finalized)
        if plan.problem is None:
            binding = await self._retained.record(family, placement, binding, works, judgement)
        try:
            writes = [await whole(self._hub, write) for write in (*plan.writes, *plan.signatures)]
            creations, updates, deletions = _in_turn(writes)
            await self._hub.carry_out_concurrently(WORK, creations)
            await self._adopt(family, binding, creations)
            await self._hub.carry_out_concurrently(WORK, updates)
            await delete_works(self._hub, (write.document for write in deletions), member, abandoned=False)
        except (ForbiddenError, InvalidObjectError) as error:  # no retry helps, so the status must report it
            refused = WorkPlan(problem=WorkProblem(WorkCause.SYNCHRONIZED, str(error)))
            self._report(family, binding, refused)
            raise
        self._report(family, binding, plan)
        if plan.problem and plan.problem.cause is WorkCause.DUPLICATE_ENVELOPE_WORKS:
            self._record(binding, Event(str(plan.problem.cause), plan.problem.message, "Warning"))
        if plan.problem and plan.problem.retry:
            raise RetryError(plan.problem.message)
        is_told = self._hub.cache.get(family.binding, *key_of(binding)) is binding
        if read and is_told and not plan.changed and plan.problem is None:
            self._at_rest[ref] = read
        return DONE

    async def _with_manifests(self, works: Iterable[JsonObject]) -> list[JsonObject]:
        return [(await whole(self._hub, replace(work))).document for work in works]

    async def _retain(
        self,
        family: Family,
        placement: JsonObject | None,
        binding: JsonObject,
        works: Sequence[JsonObject],
        plan: WorkPlan,
        plan_from: Callable[..., WorkPlan],
    ) -> tuple[WorkPlan, LeavingJudgement | None]:
        """Return a plan that keeps objects whose removal from the cluster is pending, and the verdict on removals.

        The verdict is None if none was needed: the plan has a problem or removes nothing, or the placement is missing.
        """
        if plan.problem is not None:
            return plan, None
        kinds = self._served.kinds or KINDS
        if placement is None:
            retained = frozenset(chain.from_iterable(parse_left_out(annotation(work, RETAINED)) for work in works))
            if not retained:
                return plan, None
            complete = await self._with_manifests(works)
            return plan_from(complete, placeable=Placeable(kinds, self._selection, retained)), None
        if not self._retained.is_judged(family, placement, binding, works, plan.writes):
            return plan, None
        complete = await self._with_manifests(works)
        plan = plan_from(complete)
        judgement = self._retained.judge(family, placement, binding, complete, plan.writes)
        if judgement.retained:
            plan = plan_from(complete, placeable=Placeable(kinds, self._selection, judgement.retained))
        return plan, judgement

    def _read_for(
        self,
        binding: JsonObject,
        works: list[JsonObject],
        snapshots: list[JsonObject],
        strategy: JsonObject,
        silence: str,
        confirmation: str,
    ) -> tuple[object, ...]:
        """Return all cached inputs of a pass. Empty if the binding has overrides.

        If they equal the inputs of a pass that had nothing to do, this pass has nothing to do either: plan and status
        depend only on them and on the time, which is never written alone. Cached objects are never modified, so
        comparing identities suffices.
        """
        if Overrides.of(binding["spec"]) != NO_OVERRIDES:  # the member and the override snapshots would be inputs, too
            return ()
        parts = strategy.get("reportBackStrategy"), self._served.kinds, self._keys.current, silence, confirmation
        return binding, *parts, len(works), *works, *snapshots

    def _report(self, family: Family, binding: JsonObject, plan: WorkPlan) -> None:
        works = works_of(self._hub.cache, binding)
        member = self._hub.cache.get(MEMBER_CLUSTER, binding["spec"]["targetCluster"])
        silence = unheard(status_of(member or {}))
        self._hub.report(family.binding, binding, binding_status(binding, works, plan, self._now(), silence))

    async def _adopt(self, family: Family, binding: JsonObject, writes: Iterable[Write]) -> None:
        """Adopt existing Works that have the name of a new one, but belong to no binding as their labels were edited.

        Raises:
            RetryError: A Work belongs to another placement, and the next pass chooses another name. Or it belongs to
                another binding that may be about to delete it.
        """
        parent = family.parent(binding)
        ours = {work["metadata"]["name"] for work in works_of(self._hub.cache, binding)}
        for write in writes:
            if write.verb is not Verb.CREATE or write.name in ours:
                continue
            key = key_of(write.document)
            cached = self._hub.cache.get(WORK, key.name, key.namespace)
            if self._is_taken(parent, binding["spec"]["targetCluster"], write.name):
                raise RetryError(f"Work {write.name} of another placement has appeared")
            owner = placement_of_work(cached or {})
            holder = FAMILY_OF[owner.kind].binding, label(cached or {}, PARENT_BINDING), owner.namespace
            if cached is None or is_deleting(cached) or self._hub.cache.get(*holder):
                raise RetryError(f"Work {write.name} of another binding still exists", FOREIGN_WORK)
            planned_metadata = write.document["metadata"]
            metadata = {
                **cached["metadata"],
                "labels": planned_metadata["labels"],
                "annotations": planned_metadata["annotations"],
            }
            await self._hub.replace(WORK, {**write.document, "metadata": metadata})

    def _is_taken(self, parent: PlacementRef, cluster: str, name: str) -> bool:
        """Return whether a Work of another existing placement has the name *name* on a cluster."""
        work = self._hub.cache.get(WORK, name, member_namespace(cluster))
        if work is None or (owner := placement_of_work(work)) == parent:
            return False
        return self._hub.cache.get(FAMILY_OF[owner.kind].placement, owner.name, owner.namespace) is not None

    async def _clean_up(self, family: Family, binding: JsonObject) -> Result:
        """Delete the Works of a binding that is being deleted, and remove the finalizer when none is left (DR-1).

        In a namespace that is being deleted, the Works only need their removal mark.

        If another client has deleted the binding, its Works remain, and the scheduler creates it again.
        """
        if not is_removal_requested(binding):
            if self._goes_with_its_placement(family, binding):
                return Result(POLL_DELETION)  # the scheduler is about to mark it for removal
            return await self._let_go(family, binding)
        works = works_of(self._hub.cache, binding)
        member = self._hub.cache.get(MEMBER_CLUSTER, binding["spec"]["targetCluster"])
        await delete_works(self._hub, works, member, abandoned=is_abandoned(binding))
        remnant = RemainingWorks(binding, tuple(works_of(self._hub.cache, binding)), member)
        # The binding is deleted last: without it no controller handles its Works. Only a namespace that is being
        # deleted does not wait for them, once the placement has reported them.
        forgets = self._is_in_deleted_namespace(family, binding) and self._is_released(family, binding)
        if remnant.works and not (remnant.is_ordered and forgets):
            self._hub.report(family.binding, binding, removal_status(binding, remnant.works, self._now()))
            return Result(POLL_DELETION)
        return await self._let_go(family, binding)

    def _goes_with_its_placement(self, family: Family, binding: JsonObject) -> bool:
        """Return whether the placement is being deleted, or will be because its namespace is."""
        parent = family.parent(binding)
        placement = self._hub.cache.get(family.placement, parent.name, parent.namespace)
        if placement is None:
            return False
        return is_deleting(placement) or self._is_in_deleted_namespace(family, binding)

    def _is_released(self, family: Family, binding: JsonObject) -> bool:
        parent = family.parent(binding)
        placement = self._hub.cache.get(family.placement, parent.name, parent.namespace)
        return placement is None or _released(placement)

    def _is_in_deleted_namespace(self, family: Family, binding: JsonObject) -> bool:
        name = family.parent(binding).namespace
        namespace = self._hub.cache.get(NAMESPACE, name) if name else None
        return namespace is not None and is_deleting(namespace)

    async def _let_go(self, family: Family, binding: JsonObject) -> Result:
        if (free := without_finalizer(binding, WORK_CLEANUP)) is not None:
            await self._hub.replace(family.binding, free)
        return DONE


def _are_the_same(read: tuple[object, ...], before: tuple[object, ...]) -> bool:
    return len(read) == len(before) and all(map(is_, read, before))


def _itself(family: Family, change: ObjectDelta) -> Iterator[BindingRef]:
    """Yield a binding whose desired Works have changed."""
    if change.touches(_seen_of_binding):
        yield BindingRef.of(family, change.document)


def _of_work(change: ObjectDelta) -> Iterator[BindingRef]:
    """Yield the binding of a Work, and the one that its labels named before."""
    for document in change:
        if document is not None and (binding := label(document, PARENT_BINDING)):
            ref = placement_of_work(document)
            yield BindingRef(ref.kind, binding, ref.namespace)


def _pending_of_snapshot(snapshot: JsonObject) -> str:
    text = annotation(snapshot, SOURCES)
    return text if "{" in text else ""


def _silence(member: JsonObject) -> str:
    return unheard(status_of(member))


def _seen_of_placement(placement: JsonObject) -> tuple[object, ...]:
    reported_back = dict_at(placement, "spec", "strategy").get("reportBackStrategy")
    return reported_back, _released(placement), seen_of_confirmation(placement)


def _released(placement: JsonObject) -> bool:
    """Return whether the placement controller has released a placement that is being deleted."""
    return is_deleting(placement) and PLACEMENT_CLEANUP not in finalizers_of(placement)


def _seen_of_binding(binding: JsonObject) -> tuple[object, ...]:
    """Return the parts of a binding that trigger a reconcile of the work generator (rollout.md 9.1)."""
    metadata = binding["metadata"]
    started = [
        (condition["status"], condition.get("observedGeneration"))
        for condition in conditions_of(binding)
        if condition["type"] == "RolloutStarted"
    ]
    ordered = is_marked_for_removal(binding), object_removal(binding)
    return metadata.get("generation"), metadata.get("deletionTimestamp"), ordered, started
