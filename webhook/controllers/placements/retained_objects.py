"""Objects that Works keep until their removal from one cluster is confirmed.

Source: docs/specifications/removal.md 6.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from datetime import datetime
from itertools import chain

from scorer.api.event import Event
from scorer.api.family import Family
from scorer.api.kinds import NAMESPACE
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import (
    CARRIED_OUT,
    CONTENT_REMOVED_AT,
    LEFT_OUT,
    OBJECTS_PENDING,
    OBJECTS_REMOVAL,
    PARENT_RESOURCE_SNAPSHOT_NAME,
    RETAINED,
    SOURCES,
    SUPERSEDED_AT,
    UPDATED_BY,
    WORK_OBJECTS,
)
from scorer.api.unstructured.documents import (
    annotation,
    current_condition,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    text_at,
    uid_of,
    with_metadata,
)
from scorer.rollout.bindings import APPLIED, NO_OVERRIDES, ObjectRemoval, Overrides, object_removal
from scorer.rollout.confirmation.digests import CarriedOut, Confirmation
from scorer.rollout.confirmation.exemption import Exemptions
from scorer.rollout.confirmation.on_cluster import (
    LeavingJudgement,
    LeavingObjects,
    format_record,
    judge_leaving,
    object_record,
    objects_in,
)
from scorer.rollout.confirmation.policy import RemovalPolicy
from scorer.rollout.confirmation.report import pending_items, warning_event
from scorer.rollout.confirmation.sources import placed_objects
from scorer.rollout.object_size import ObjectIdentity, parse_left_out
from scorer.rollout.snapshots.groups import SnapshotGroup, placed_group, snapshot_groups
from scorer.rollout.snapshots.resources import history_limit
from scorer.rollout.writes import Verb, Write, applied
from scorer.staged_update.rollback import is_ordered_by_policy
from webhook.kube.cache.hub import Hub
from webhook.kube.listers.placements import children


class RetainedObjects:
    """Evaluates the objects that new Works would remove from a cluster.

    Args:
        hub: The hub cluster.
        now: The clock.
        record: Records Events.
        policy: Removal policy of the operator.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        policy: RemovalPolicy,
    ) -> None:
        self._hub = hub
        self._now = now
        self._record = record
        self._policy = policy

    def is_judged(
        self,
        family: Family,
        placement: JsonObject,
        binding: JsonObject,
        works: Sequence[JsonObject],
        writes: Iterable[Write],
    ) -> bool:
        """Return whether writes may remove objects from a cluster, so that the manifests of its Works are needed.

        Args:
            family: Family of the placement.
            placement: The placement.
            binding: Its binding on the cluster.
            works: The Works of the binding, without their manifests.
            writes: The planned writes of these Works.
        """
        if self._policy.of(placement).is_off:
            return False
        by_name = {name_of(work): work for work in works}
        is_retaining = any(annotation(work, RETAINED) for work in works)
        changes_objects = any(
            write.verb is Verb.DELETE
            or (
                write.verb is Verb.REPLACE
                and annotation(write.document, WORK_OBJECTS) != annotation(by_name[write.name], WORK_OBJECTS)
            )
            for write in writes
        )
        return is_retaining or (changes_objects and not self._only_follows(family, placement, binding, works))

    def _only_follows(
        self, family: Family, placement: JsonObject, binding: JsonObject, works: Sequence[JsonObject]
    ) -> bool:
        """Return whether the latest snapshot is known to lack every object that leaves a cluster.

        The snapshots in the cache suffice for this, unless overrides or size limits keep objects out of Works.
        """
        if Overrides.of(spec_of(binding)) != NO_OVERRIDES or any(annotation(work, LEFT_OUT) for work in works):
            return False
        groups = snapshot_groups(children(self._hub.cache, family.resource_snapshot, family.ref(placement)))
        by_name = {group.name: group for group in groups if group.is_complete}
        names = {annotation(work, PARENT_RESOURCE_SNAPSHOT_NAME) for work in works}
        desired, latest = by_name.get(text_at(binding, "spec", "resourceSnapshotName")), placed_group(groups)
        if desired is None or latest is None or not names <= by_name.keys() or _is_displaced(names, groups, latest):
            return False
        placed = {identity for name in names for identity in placed_objects(by_name[name])}
        return (placed - placed_objects(desired).keys()).isdisjoint(placed_objects(latest))

    def judge(
        self,
        family: Family,
        placement: JsonObject,
        binding: JsonObject,
        works: Sequence[JsonObject],
        writes: Iterable[Write],
    ) -> LeavingJudgement:
        """Return the verdict on the objects that writes remove from a cluster.

        Objects that the latest snapshot of the placement lacks were judged when that snapshot was made, unless another
        client has deleted its predecessors: then only the Works show what was placed. Removals by a rollback that a
        failure policy has started are not judged.

        Args:
            family: Family of the placement.
            placement: The placement.
            binding: Its binding on the cluster.
            works: The Works of the binding, with their manifests.
            writes: The planned writes of these Works.
        """
        if self._rolls_back(family, binding):
            return LeavingJudgement()
        cache, ref = self._hub.cache, family.ref(placement)
        snapshots = children(cache, family.resource_snapshot, ref)
        groups = snapshot_groups(snapshots)
        latest = placed_group(groups)
        placed = placed_objects(latest) if latest else {}
        present = objects_in(works)
        names = {annotation(work, PARENT_RESOURCE_SNAPSHOT_NAME) for work in works}
        is_unjudged = _has_lost_history(placement, names, groups) or _is_displaced(names, groups, latest)
        unjudged = present if is_unjudged else _without_source(binding)
        leaving = (present - objects_in(applied(works, writes))) & (placed.keys() | unjudged)
        if not leaving:
            return LeavingJudgement()
        shown = pending_items(snapshots, children(cache, family.binding, ref))
        retained = frozenset(chain.from_iterable(parse_left_out(annotation(work, RETAINED)) for work in works))
        objects = LeavingObjects(present, frozenset(leaving), placed, shown, retained)
        policy, now = self._policy.of(placement), self._now()
        exemptions = Exemptions.of(placement, groups, policy, self._namespace, now)
        return judge_leaving(policy, placement, binding, objects, exemptions, now)

    def _rolls_back(self, family: Family, binding: JsonObject) -> bool:
        """Return whether a failure policy has ordered the content of a binding."""
        runs = {uid_of(run): run for run in self._hub.cache.list(family.run, namespace_of(binding))}
        return is_ordered_by_policy(runs.get(annotation(binding, UPDATED_BY), {}), runs.values())

    def _namespace(self, name: str) -> JsonObject | None:
        return self._hub.cache.get(NAMESPACE, name)

    async def record(
        self,
        family: Family,
        placement: JsonObject | None,
        binding: JsonObject,
        works: Iterable[JsonObject],
        judgement: LeavingJudgement | None,
    ) -> JsonObject:
        """Record the pending and confirmed removals of a cluster on its binding. Return the binding.

        One write records them all, before the Works are written: a confirmed removal remains confirmed whenever the
        process stops.

        Raises:
            ConflictError: Another client has written the binding since it was read.
        """
        judgement, now = judgement or LeavingJudgement(), self._now()
        if judgement.warned and placement is not None:
            self._record(placement, warning_event(judgement.warned))
        removal = judgement.removal
        if removal is None and object_removal(binding) is ObjectRemoval.ORDERED and not all(map(_is_applied, works)):
            removal = ObjectRemoval.ORDERED
        desired = {OBJECTS_PENDING: format_record(judgement), OBJECTS_REMOVAL: str(removal or "")}
        annotations = {name: text or None for name, text in desired.items() if text != annotation(binding, name)}
        if removal is ObjectRemoval.ORDERED and OBJECTS_REMOVAL in annotations:
            annotations[CONTENT_REMOVED_AT] = format_time(now)
        expiry = Confirmation.of(placement, now).expiry if placement else None
        if judgement.digests and expiry is not None:
            record = CarriedOut.of(binding).without_expired(now).with_digests(judgement.digests, expiry)
            annotations[CARRIED_OUT] = record.format()
        if not annotations:
            return binding
        return await self._hub.replace(family.binding, with_metadata(binding, annotations=annotations))


def _is_applied(work: JsonObject) -> bool:
    """Return whether the agent has applied a Work, so that objects that have left it are removed from the member."""
    return not is_deleting(work) and current_condition(work, APPLIED) is not None


def _has_lost_history(placement: JsonObject, names: Set[str], groups: Sequence[SnapshotGroup]) -> bool:
    """Return whether another client has deleted one of the snapshots *names*. The loop only deletes over the limit."""
    missing = names - {group.name for group in groups}
    return bool(missing) and len(groups) < history_limit(placement)


def _is_displaced(names: Set[str], groups: Iterable[SnapshotGroup], latest: SnapshotGroup | None) -> bool:
    """Return whether another client has put the latest snapshot in place of one of the snapshots *names*.

    The loop records on a snapshot when the next one superseded it. A snapshot without recorded sources is ignored: it
    was created by a release without confirmation, or while the settings disabled confirmation. The removals that
    followed it were intended.
    """
    return any(
        group is not latest and annotation(group.master, SOURCES) and not annotation(group.master, SUPERSEDED_AT)
        for group in groups
        if group.master is not None and group.name in names
    )


def _without_source(binding: JsonObject) -> frozenset[ObjectIdentity]:
    """Return the objects on the record of a cluster that no snapshot has."""
    return frozenset(item.identity for item in object_record(binding) if not item.uid)
