"""The objects that a placement rolls out after changes to a hub.

The snapshots of the selection are planned as the controller does. The latest resource snapshot provides the objects
that are not known otherwise.

Source: docs/specifications/what-if.md 6; docs/specifications/rollout.md 2 and 3.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import namespace_of, spec_of
from scorer.rollout.confirmation.objects import content_record, placed_selection
from scorer.rollout.confirmation.sources import selected_objects
from scorer.rollout.overrides.matching import describe_awaited, matching_overrides
from scorer.rollout.selection.selector import DocumentInventory, InvalidSelection, Selection, select_resources
from scorer.rollout.snapshots.groups import SnapshotGroup, latest_group, placed_group, snapshot_groups
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots
from scorer.rollout.writes import applied
from scorer.what_if.changed import Changed
from scorer.what_if.planned import ContentRemoval
from scorer.what_if.removals import judged_selection, object_removals
from scorer.what_if.state import ObjectKey, identity_of


class ContentToRollOut(NamedTuple):
    """The content of a placement once its controller has processed it.

    Args:
        snapshots: The resource snapshots of the placement.
        group: The group of them that is rolled out, or None if the placement has none.
        problem: Why the selection is invalid, so that the latest complete group is kept. Empty: it is valid.
        removals: The objects that leave the placement.
        waits: Overrides that the rollout waits for, because they cannot have snapshots, in words. Empty: none.
        uncertain: The resource selectors change, but select the same of the known objects. Some of the objects that
            they select may be unknown.
    """

    snapshots: Sequence[JsonObject]
    group: SnapshotGroup | None
    problem: str = ""
    removals: Sequence[ContentRemoval] = ()
    waits: str = ""
    uncertain: bool = False


def content_to_roll_out(
    placement: JsonObject, bindings: Sequence[JsonObject], hub: Changed, *, confirmed: bool = False
) -> ContentToRollOut:
    """Return the content that a placement rolls out. Its group may not exist yet.

    Args:
        placement: As it would be stored.
        bindings: Its bindings.
        hub: The hub after the changes.
        confirmed: Whether every removal of objects counts as confirmed.
    """
    snapshots = hub.state.resource_snapshots_of(placement)
    groups = snapshot_groups(snapshots)
    selection = select_content(placement, groups, hub)
    if isinstance(selection, InvalidSelection):
        group = placed_group(groups)
        return ContentToRollOut(snapshots, group, selection.message, waits=_waits(placement, group, hub))
    judgement = None if confirmed else judged_selection(placement, selection, groups, hub)
    removals = object_removals(placement, judgement, selection, groups, hub)
    plan = plan_resource_snapshots(
        placement,
        snapshots,
        placed_selection(selection, judgement).objects,
        hub.state.now,
        UNTHROTTLED,
        bindings=bindings,
        cluster_objects=selection.cluster_objects,
        content=content_record(judgement),
    )
    snapshots = applied(snapshots, plan.writes)
    group = next(group for group in snapshot_groups(snapshots) if group.name == plan.name)
    uncertain = identity_of(placement) in hub.reselecting and any(old.name == plan.name for old in groups)
    return ContentToRollOut(snapshots, group, "", removals, _waits(placement, group, hub), uncertain)


def _waits(placement: JsonObject, group: SnapshotGroup | None, hub: Changed) -> str:
    if group is None or not hub.unsnapshotted:
        return ""
    return describe_awaited(matching_overrides(placement, group, hub.unsnapshotted))


def select_content(
    placement: JsonObject, groups: Sequence[SnapshotGroup], hub: Changed
) -> Selection | InvalidSelection:
    """Return the selection of a placement from the known objects of a hub. It may lack objects that are unknown."""
    latest = latest_group(groups)
    inventory = hub.inventory if latest is None else _with_stored(latest, hub)
    terms: Sequence[Any] = spec_of(placement).get("resourceSelectors") or ()
    return select_resources(terms, namespace_of(placement), inventory, hub.state.kinds)


def _with_stored(latest: SnapshotGroup, hub: Changed) -> DocumentInventory:
    """Return the known objects of a hub, and those of the latest snapshot that are not known otherwise."""
    stored = {identity_of(document): document for document in selected_objects(latest)}
    if stored.keys() <= hub.objects.keys():
        return hub.inventory
    objects: Mapping[ObjectKey, JsonObject | None] = {**stored, **hub.objects}
    return DocumentInventory(document for document in objects.values() if document is not None)
