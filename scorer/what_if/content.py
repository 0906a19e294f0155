"""The objects that a placement rolls out after changes to a hub.

The known content is that of the latest resource snapshot. The given and deleted objects are applied to it, and the
placement's selection from the result is compared with the selection before. Changed resource selectors always count as
a difference, because not every object of the hub that they would select may be known.

Source: rollout.md 2 and 3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scorer.api.meta import JsonObject, without_nulls
from scorer.api.names import RESOURCE_INDEX
from scorer.api.unstructured.documents import index_of, name_of, namespace_of, spec_of
from scorer.rollout.bindings import snapshot_index
from scorer.rollout.confirmation.objects import ObjectJudgement, content_record, placed_selection
from scorer.rollout.confirmation.sources import has_pending, selected_objects
from scorer.rollout.overrides.matching import describe_awaited, matching_overrides
from scorer.rollout.selection.selector import DocumentInventory, InvalidSelection, Selection, select_resources
from scorer.rollout.snapshots.groups import SnapshotGroup, latest_group, snapshot_groups
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots
from scorer.rollout.writes import applied
from scorer.what_if.changes import Changed
from scorer.what_if.planned import ContentRemoval
from scorer.what_if.removals import judged_selection, object_removals
from scorer.what_if.state import HubState, ObjectKey, identity_of


def group_to_roll_out(
    placement: JsonObject, old_placement: JsonObject | None, bindings: Sequence[JsonObject], hub: Changed
) -> tuple[SnapshotGroup, Sequence[ContentRemoval]]:
    """Return the snapshot group that a placement rolls out, and the objects that leave it. It may not exist yet.

    Args:
        placement: As it would be stored.
        old_placement: As it is stored. None: unset, it is new.
        bindings: Its bindings. Without resource snapshots, the newest one that a binding names counts as the latest.
        hub: The hub after the changes.
    """
    snapshots = hub.state.resource_snapshots_of(placement)
    groups = snapshot_groups(snapshots)
    latest = latest_group(groups)
    if latest is None or not latest.name:
        bound_snapshots = {str(spec_of(binding).get("resourceSnapshotName") or "") for binding in bindings}
        name = max(bound_snapshots - {""}, key=_index, default=f"{name_of(placement)}-0-snapshot")
        return _with_name(_made_group(placement, (), select_content(placement, groups, hub), None, hub.state), name), ()
    if _selectors(placement) != _selectors(old_placement or placement):
        selection = select_content(placement, groups, hub)
    elif (changed_selection := _changed_selection(placement, latest, hub.content)) is not None:
        selection = changed_selection
    elif has_pending(latest):
        selection = select_content(placement, groups, hub)
        if isinstance(selection, InvalidSelection):
            return latest, ()
    else:
        return latest, ()
    judgement = judged_selection(placement, selection, groups, hub)
    removals = object_removals(placement, judgement, selection, groups, hub)
    group = _made_group(placement, snapshots, selection, judgement, hub.state)
    if group.name != latest.name or _selectors(placement) == _selectors(old_placement or placement):
        return group, removals
    index = max(index_of(snapshot, RESOURCE_INDEX) for snapshot in snapshots) + 1
    return _with_name(group, f"{name_of(placement)}-{index}-snapshot"), removals


def awaited_overrides(placement: JsonObject, group: SnapshotGroup, hub: Changed) -> str:
    """Return a message about overrides that a rollout waits for, as they cannot have snapshots. Empty: none."""
    if not hub.unsnapshotted:
        return ""
    return describe_awaited(matching_overrides(placement, group, hub.unsnapshotted))


def select_content(
    placement: JsonObject, groups: Sequence[SnapshotGroup], hub: Changed
) -> Selection | InvalidSelection:
    """Return the selection of a placement from the known objects of a hub: not every object may be known."""
    latest = latest_group(groups)
    inventory = hub.inventory if latest is None else _with_stored(latest, hub)
    terms: Sequence[Any] = spec_of(placement).get("resourceSelectors") or ()
    return select_resources(terms, namespace_of(placement), inventory, hub.state.kinds)


def _with_stored(latest: SnapshotGroup, hub: Changed) -> DocumentInventory:
    """Return the known objects of a hub, and those of the latest snapshot that are not known otherwise."""
    stored = {identity_of(document): document for document in selected_objects(latest)}
    objects: Mapping[ObjectKey, JsonObject | None] = {**stored, **hub.objects}
    return DocumentInventory(document for document in objects.values() if document is not None)


def _made_group(
    placement: JsonObject,
    snapshots: Sequence[JsonObject],
    selection: Selection | InvalidSelection,
    judgement: ObjectJudgement | None,
    state: HubState,
) -> SnapshotGroup:
    """Return the group that the controller makes of a selection. An invalid selection counts as empty."""
    objects = placed_selection(selection, judgement).objects if isinstance(selection, Selection) else ()
    record = content_record(judgement)
    plan = plan_resource_snapshots(placement, snapshots, objects, state.now, UNTHROTTLED, content=record)
    groups = {group.name: group for group in snapshot_groups(applied(snapshots, plan.writes))}
    return groups[plan.name]


def _with_name(group: SnapshotGroup, name: str) -> SnapshotGroup:
    assert group.master is not None
    master = {**group.master, "metadata": {**group.master["metadata"], "name": name}}
    index = snapshot_index(name)
    return replace(group, index=group.index if index is None else index, master=master)


def _index(snapshot: str) -> tuple[int, str]:
    """Sort key: names of master snapshots by their index."""
    index = snapshot_index(snapshot)
    return (-1 if index is None else index), snapshot


def _selectors(placement: Mapping[str, Any]) -> Sequence[JsonObject]:
    terms = without_nulls(spec_of(placement).get("resourceSelectors") or [])
    return [{"selectionScope": "NamespaceWithResources", **term} for term in terms]


def _changed_selection(
    placement: Mapping[str, Any], latest: SnapshotGroup, content: Mapping[ObjectKey, JsonObject | None]
) -> Selection | None:
    """Return the selection after the changes, or None if it is the same or invalid: then the content is kept."""
    if not content:
        return None
    stored = {identity_of(document): document for document in selected_objects(latest)}
    documents = {identity: document for identity, document in {**stored, **content}.items() if document is not None}
    terms, namespace = spec_of(placement).get("resourceSelectors") or (), namespace_of(placement)
    old_selection = select_resources(terms, namespace, DocumentInventory(stored.values()))
    new_selection = select_resources(terms, namespace, DocumentInventory(documents.values()))
    if not (isinstance(old_selection, Selection) and isinstance(new_selection, Selection)):
        return None
    return new_selection if old_selection.objects != new_selection.objects else None
