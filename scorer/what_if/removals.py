"""Removals of content after changes to a hub: objects that leave a placement, and deleted placements.

The verdicts are those of the loop. A confirmation in the annotations of the changed placement counts.

Source: docs/specifications/what-if.md 9; docs/specifications/removal.md 6 and 8.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from scorer.api.kinds import NAMESPACE
from scorer.api.meta import JsonObject
from scorer.api.names import CONFIRM_REMOVAL
from scorer.api.unstructured.documents import namespace_of, uid_of, with_metadata
from scorer.rollout.confirmation.deletion import DeletionJudgement, DeletionVerdict, judge_deletion
from scorer.rollout.confirmation.digests import RemovalItem, confirmable_groups
from scorer.rollout.confirmation.exemption import Exemptions
from scorer.rollout.confirmation.objects import ObjectJudgement, judge_selection
from scorer.rollout.confirmation.sources import placed_objects
from scorer.rollout.removal.deletion import leaves_objects
from scorer.rollout.selection.selector import InvalidSelection, Selection
from scorer.rollout.snapshots.groups import SnapshotGroup, placed_group, snapshot_groups
from scorer.what_if.changed import Changed
from scorer.what_if.planned import ContentRemoval, ContentVerdict
from scorer.what_if.state import ObjectKey


def judged_selection(
    placement: JsonObject, selection: Selection | InvalidSelection, groups: Sequence[SnapshotGroup], hub: Changed
) -> ObjectJudgement | None:
    """Return the verdict on the objects that leave a placement. None: disabled.

    Also None if the selection is invalid and no removal is pending or confirmed.

    Args:
        placement: As it would be stored.
        selection: Its selection after the changes.
        groups: All of its resource snapshots.
        hub: The hub after the changes.
    """
    policy = hub.state.removal.of(placement)
    return judge_selection(policy, placement, selection, groups, partial(namespace_after, hub), hub.state.now)


def object_removals(
    placement: JsonObject,
    judgement: ObjectJudgement | None,
    selection: Selection | InvalidSelection,
    groups: Sequence[SnapshotGroup],
    hub: Changed,
) -> list[ContentRemoval]:
    """Return the objects that leave a placement, those that wait for confirmation first.

    Args:
        placement: As it would be stored.
        judgement: The result of `judged_selection`.
        selection: Its selection after the changes.
        groups: All of its resource snapshots.
        hub: The hub after the changes.
    """
    if judgement is None:
        return []
    confirmed: set[RemovalItem] = set()
    if judgement.confirmed:
        unconfirmed = with_metadata(placement, annotations={CONFIRM_REMOVAL: None})
        earlier = judged_selection(unconfirmed, selection, groups, hub)
        confirmed = {*(earlier.pending if earlier else ())} - {*judgement.pending}
    return [
        *removal_entries(placement, judgement.pending, "Pending"),
        *removal_entries(placement, confirmed, "Confirmed"),
        *removal_entries(placement, judgement.warned, "Warned"),
    ]


def removal_entries(
    placement: JsonObject, items: Iterable[RemovalItem], verdict: ContentVerdict, clusters: Sequence[str] = ()
) -> Iterator[ContentRemoval]:
    """Yield removals in the units that a user can confirm. *clusters* are those of the removal. Empty: all."""
    for group in confirmable_groups(uid_of(placement), items):
        yield {
            "kind": str(group.items[0].effect),
            "effect": str(group),
            "verdict": verdict,
            "objects": sum(item.objects for item in group.items),
            "digest": group.digest,
            "clusters": list(clusters),
        }


def judged_deletion(placement: JsonObject, hub: Changed) -> DeletionJudgement:
    """Return the verdict on the content of a placement that is being deleted, or would be."""
    state, groups = hub.state, snapshot_groups(hub.state.resource_snapshots_of(placement))
    policy, now, namespace = state.removal.of(placement), state.now, partial(namespace_after, hub)
    exempt = not policy.is_off and Exemptions.of(placement, groups, policy, namespace, now).covers_all()
    home = namespace(namespace_of(placement)) if namespace_of(placement) and not policy.is_off else None
    return judge_deletion(
        placement,
        state.bindings_of(placement),
        policy,
        home,
        now,
        exempt=exempt,
        snapshots=state.policy_snapshots_of(placement),
    )


def placement_removals(placement: JsonObject, judgement: DeletionJudgement, hub: Changed) -> list[ContentRemoval]:
    """Return the removal of all content of a deleted placement, or nothing if it has none or keeps it on purpose."""
    if not judgement.clusters or leaves_objects(placement):
        return []
    verdict: ContentVerdict = "Removed"
    if judgement.verdict is DeletionVerdict.PENDING:
        verdict = "Pending"
    elif judgement.verdict is DeletionVerdict.ABANDONED:
        verdict = "Orphaned"
    elif judgement.digest:
        verdict = "Confirmed"
    elif judgement.warned:
        verdict = "Warned"
    group = placed_group(snapshot_groups(hub.state.resource_snapshots_of(placement)))
    objects = len(placed_objects(group)) if group else 0
    return [{**entry, "objects": objects} for entry in removal_entries(placement, judgement.confirmable[:1], verdict)]


def namespace_after(hub: Changed, name: str) -> JsonObject | None:
    """Return a Namespace after the changes, or None if it is deleted. An unknown one is assumed to have no labels."""
    namespace = hub.objects.get(ObjectKey(*NAMESPACE.group_kind, name), _UNKNOWN)
    return {"metadata": {"name": name}} if namespace is _UNKNOWN else namespace


_UNKNOWN: JsonObject = {}
