"""Removal of objects from placements: judged before a resource snapshot is created, and recorded before it is executed.

Source: docs/specifications/removal.md 5, 6 and 9.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime

from scorer.api.event import Event
from scorer.api.family import Family, PlacementRef
from scorer.api.kinds import MEMBER_CLUSTER, NAMESPACE
from scorer.api.meta import JsonObject, parse_time
from scorer.api.names import (
    CARRIED_OUT,
    CONFIRM_REMOVAL,
    EXEMPT_SINCE,
    ORPHANED_CONTENT,
    REMOVAL_CONFIRMATION,
    REMOVAL_PENDING_CONDITION,
)
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    dict_at,
    dicts_at,
    metadata_of,
    namespace_of,
    status_of,
    text_at,
    with_metadata,
)
from scorer.rollout.apply_strategy import effective_apply_strategy
from scorer.rollout.confirmation.deletion import DeletionJudgement, DeletionVerdict, has_content, judge_deletion
from scorer.rollout.confirmation.digests import CarriedOut, Confirmation
from scorer.rollout.confirmation.exemption import Exemptions, exemption_record
from scorer.rollout.confirmation.objects import ObjectJudgement, judge_selection
from scorer.rollout.confirmation.orphans import OrphanedContent, format_orphaned, orphan_record
from scorer.rollout.confirmation.policy import RemovalPolicy
from scorer.rollout.confirmation.report import (
    bypassed_event,
    oldest,
    orphaned_event,
    pending_events,
    pending_items,
    warning_event,
    with_removal_in_progress,
    with_removal_pending,
    with_resources_selected,
)
from scorer.rollout.selection.selector import InvalidSelection, Selection
from scorer.rollout.snapshots.groups import latest_group, snapshot_groups
from scorer.rollout.writes import Verb, Write
from webhook.controllers.machinery.observer import UNOBSERVED, LoopObserver
from webhook.kube.cache.hub import Hub
from webhook.kube.listers.placements import children
from webhook.kube.ports import Key, NotFoundError


class ContentRemovals:
    """Evaluates the objects that leave a placement.

    Args:
        hub: The hub cluster.
        now: The clock.
        record: Records Events.
        policy: Removal policy of the operator.
        observer: Receives the age of pending removals.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        policy: RemovalPolicy,
        observer: LoopObserver = UNOBSERVED,
    ) -> None:
        self._hub = hub
        self._now = now
        self._record = record
        self._policy = policy
        self._observer = observer
        self._recording = asyncio.Lock()

    def judge(
        self, family: Family, placement: JsonObject, selection: Selection | InvalidSelection
    ) -> ObjectJudgement | None:
        """Return the verdict on objects that are placed and no longer selected. None: disabled.

        For an invalid selection, only confirmed objects are removed, and the result is also None if no removals
        are pending or confirmed.
        """
        groups = snapshot_groups(children(self._hub.cache, family.resource_snapshot, family.ref(placement)))
        policy = self._policy.of(placement)
        return judge_selection(policy, placement, selection, groups, self.namespace, self._now())

    async def prepared(self, family: Family, placement: JsonObject) -> JsonObject:
        """Return a placement with the record of its Namespace's exemption label, or the same object if unchanged.

        A new namespaced placement may take over the content that was orphaned when an earlier one of its name was
        released. Unless its strategy excludes that, the record of the orphaned content is dropped from the members.
        """
        cache, ref = self._hub.cache, family.ref(placement)
        is_new = not children(cache, family.resource_snapshot, ref) and not any(
            map(has_content, children(cache, family.binding, ref))
        )
        home = self.namespace(ref.namespace) if ref.namespace else None
        strategy = dict_at(placement, "spec", "strategy", "applyStrategy")
        if is_new and home is not None and effective_apply_strategy(strategy)["whenToTakeOver"] != "Never":
            await self._record_orphaned(ref, cache.fleet.names, None)
        record = exemption_record(self._policy.of(placement), placement, home, self._now(), is_new=is_new)
        if record == annotation(placement, EXEMPT_SINCE):
            return placement
        return with_metadata(placement, annotations={EXEMPT_SINCE: record})

    def status(
        self,
        family: Family,
        placement: JsonObject,
        status: JsonObject,
        selection: Selection | None,
        judgement: ObjectJudgement | None,
    ) -> JsonObject:
        """Return the status of a placement with its pending removals. Without a verdict, the recorded ones count.

        If confirmation was switched off, an Event reports what was pending.
        """
        cache, ref, now = self._hub.cache, family.ref(placement), self._now()
        snapshots = children(cache, family.resource_snapshot, ref)
        bindings = children(cache, family.binding, ref)
        items = pending_items([] if judgement else snapshots, bindings)
        pending = (*(judgement.pending if judgement else ()), *items)
        self._observer.removal_pending(family.placement, ref, oldest(pending))
        if self.is_off(placement):
            self._report_bypass(placement)
        status = with_removal_pending(placement, status, pending, now, bindings, snapshots)
        return status if selection is None else with_resources_selected(placement, status, len(selection.objects), now)

    def await_confirmation(self, family: Family, placement: JsonObject, judgement: DeletionJudgement) -> None:
        """Report that the removal of all content of a deleted placement waits for confirmation."""
        status = with_removal_pending(placement, status_of(placement), judgement.confirmable, self._now())
        for event in pending_events(placement, status):
            self._record(placement, event)
        self._hub.report(family.placement, placement, status)
        since = parse_time(metadata_of(placement)["deletionTimestamp"])
        self._observer.removal_pending(family.placement, family.ref(placement), since)

    def report_progress(self, family: Family, placement: JsonObject, judgement: DeletionJudgement) -> JsonObject:
        """Report which clusters still have content of a placement with a confirmed deletion. Return the placement.

        A no-op if no binding is left, or if the placement did not wait for confirmation.
        """
        bindings = children(self._hub.cache, family.binding, family.ref(placement))
        clusters = sorted(text_at(binding, "spec", "targetCluster") for binding in bindings)
        is_reported = any(condition.get("type") == REMOVAL_PENDING_CONDITION for condition in conditions_of(placement))
        if not (clusters and judgement.digest and is_reported):
            return placement
        status = with_removal_in_progress(placement, status_of(placement), clusters, self._now())
        return self._hub.report(family.placement, placement, status)

    def is_off(self, placement: JsonObject) -> bool:
        """Return whether no removal of a placement needs confirmation."""
        return self._policy.of(placement).is_off

    def namespace(self, name: str) -> JsonObject | None:
        """Return a Namespace on the hub, or None if it does not exist."""
        return self._hub.cache.get(NAMESPACE, name)

    async def order(self, family: Family, placement: JsonObject, judgement: ObjectJudgement | None) -> JsonObject:
        """Record the confirmed removals that the next resource snapshot carries out. Return the placement."""
        if judgement is None or not judgement.confirmed:
            return placement
        groups = snapshot_groups(children(self._hub.cache, family.resource_snapshot, family.ref(placement)))
        latest = latest_group(groups)
        index = latest.index + 1 if latest else 0
        return await self.record_confirmed(family, placement, judgement.confirmed, index)

    async def record_confirmed(
        self, family: Family, placement: JsonObject, digests: Iterable[str], index: int | None = None
    ) -> JsonObject:
        """Record on a placement which confirmed removals are about to be carried out. Return the placement.

        A no-op if its confirmation is missing or has expired, or if the record is unchanged.
        """
        now = self._now()
        before, expiry = CarriedOut.of(placement).without_expired(now), Confirmation.of(placement, now).expiry
        if expiry is None:
            return placement
        after = before.with_digests(digests, expiry, "" if index is None else str(index))
        if after == before:
            return placement
        return await self._hub.amend(
            family.placement, with_metadata(placement, annotations={CARRIED_OUT: after.format()})
        )

    async def judge_deletion(self, family: Family, placement: JsonObject) -> DeletionJudgement:
        """Return the verdict on the content of a placement that is being deleted.

        Its Namespace is read from the hub: the cache may lag, and a placement that is deleted with its Namespace would
        look like one that was deleted alone.

        Raises:
            StoreError: The hub refused to return the Namespace, or did not respond.
        """
        cache, ref = self._hub.cache, family.ref(placement)
        policy = self._policy.of(placement)
        groups = snapshot_groups(children(cache, family.resource_snapshot, ref))
        exempt = (
            not policy.is_off and Exemptions.of(placement, groups, policy, self.namespace, self._now()).covers_all()
        )
        bindings, snapshots = children(cache, family.binding, ref), children(cache, family.policy_snapshot, ref)
        namespace = None
        if ref.namespace and not policy.is_off:
            with suppress(NotFoundError):
                namespace = await self._hub.store.get(NAMESPACE, Key(ref.namespace))
        now = self._now()
        return judge_deletion(placement, bindings, policy, namespace, now, exempt=exempt, snapshots=snapshots)

    async def order_deletion(self, family: Family, placement: JsonObject, judgement: DeletionJudgement) -> JsonObject:
        """Record a confirmed deletion before it is carried out. Return the placement."""
        if not judgement.digest:
            return placement
        return await self.record_confirmed(family, placement, [judgement.digest])

    async def report_deletion(self, family: Family, placement: JsonObject, judgement: DeletionJudgement) -> None:
        """Record content that is orphaned, and emit an Event about it or about content removed with a warning."""
        namespace = self.namespace(namespace_of(placement)) if namespace_of(placement) else None
        if judgement.clusters and not judgement.digest and self.is_off(placement):
            self._report_bypass(placement)
        if judgement.verdict is DeletionVerdict.ABANDONED and judgement.clusters:
            content = OrphanedContent(self._now(), len(dicts_at(placement, "status", "selectedResources")))
            await self._record_orphaned(family.ref(placement), judgement.clusters, content)
            self._record(namespace or placement, orphaned_event(placement, judgement.clusters))
        elif judgement.warned:
            self._record(placement, warning_event((), judgement.clusters))

    async def _record_orphaned(
        self, ref: PlacementRef, clusters: Iterable[str], content: OrphanedContent | None
    ) -> None:
        """Record the orphaned content of a placement on its members, or drop the record.

        Calls are serialized: the placements of a namespace are deleted together, and their records are on the same
        members.
        """
        async with self._recording:
            for cluster in clusters:
                member = self._hub.cache.get(MEMBER_CLUSTER, cluster)
                recorded = orphan_record(member) if member else {}
                if member is None or (ref in recorded) is (content is not None):
                    continue
                others = {owner: recorded[owner] for owner in recorded if owner != ref}
                record = format_orphaned({**others, ref: content} if content else others)
                await self._hub.amend(MEMBER_CLUSTER, with_metadata(member, annotations={ORPHANED_CONTENT: record}))

    def _report_bypass(self, placement: JsonObject) -> None:
        """Emit an Event about pending removals that are carried out because confirmation was switched off."""
        if (event := bypassed_event(placement)) is not None:
            self._record(placement, event)

    def warn(self, placement: JsonObject, judgement: ObjectJudgement | None, writes: Iterable[Write]) -> None:
        """Emit an Event about objects that a new snapshot removes with a warning."""
        if judgement and judgement.warned and any(write.verb is Verb.CREATE for write in writes):
            self._record(placement, warning_event(judgement.warned))


def seen_of_confirmation(placement: JsonObject) -> tuple[str, ...]:
    """Return the annotations of a placement that determine whether removals are confirmed or exempt."""
    return tuple(annotation(placement, name) for name in (CONFIRM_REMOVAL, REMOVAL_CONFIRMATION, EXEMPT_SINCE))
