"""Whether the changes affect the objects that a placement places: then every cluster has to be updated.

The known content is that of the latest resource snapshot. The given and deleted objects are applied to it, and the
placement's selection from the result is compared with the selection before. Changed resource selectors count as a
difference, because the objects that they would select are not known.

Source: rollout.md 2 and 3.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scorer.api.meta import JsonObject, without_nulls
from scorer.api.names import RESOURCE_INDEX
from scorer.api.unstructured.documents import index_of, name_of, namespace_of, spec_of
from scorer.rollout.bindings import snapshot_index
from scorer.rollout.selection.selector import DocumentInventory, Selection, select_resources
from scorer.rollout.snapshots.groups import SnapshotGroup, latest_group, snapshot_groups
from scorer.what_if.state import ObjectKey, identity_of


def snapshot_to_roll_out(
    placement: Mapping[str, Any],
    old_placement: Mapping[str, Any] | None,
    snapshots: Sequence[JsonObject],
    bindings: Sequence[JsonObject],
    content: Mapping[ObjectKey, JsonObject | None],
) -> str:
    """Return the name of the master resource snapshot that the placement rolls out.

    Args:
        placement: As it would be stored.
        old_placement: As it is stored. None: unset, it is new.
        snapshots: Its resource snapshots. Without any, the newest one that a binding names counts as the latest.
        bindings: Its bindings.
        content: The given objects, and None for deleted ones.
    """
    latest = latest_group(snapshot_groups(snapshots))
    name = name_of(placement)
    if latest is None or not latest.name:
        bound_snapshots = {str(spec_of(binding).get("resourceSnapshotName") or "") for binding in bindings}
        return max(bound_snapshots - {""}, key=_index, default=f"{name}-0-snapshot")
    if _selectors(placement) == _selectors(old_placement or placement) and not _content_differs(
        placement, latest, content
    ):
        return latest.name
    index = max((index_of(snapshot, RESOURCE_INDEX) for snapshot in snapshots), default=latest.index) + 1
    return f"{name}-{index}-snapshot"


def _index(snapshot: str) -> tuple[int, str]:
    """Sort key: names of master snapshots by their index."""
    index = snapshot_index(snapshot)
    return (-1 if index is None else index), snapshot


def _selectors(placement: Mapping[str, Any]) -> Sequence[JsonObject]:
    terms = without_nulls(spec_of(placement).get("resourceSelectors") or [])
    return [{"selectionScope": "NamespaceWithResources", **term} for term in terms]


def _content_differs(
    placement: Mapping[str, Any], latest: SnapshotGroup, content: Mapping[ObjectKey, JsonObject | None]
) -> bool:
    if not content:
        return False
    stored = {identity_of(document): document for document in latest.objects()}
    documents = {identity: document for identity, document in {**stored, **content}.items() if document is not None}
    terms, namespace = spec_of(placement).get("resourceSelectors") or (), namespace_of(placement)
    old_selection = select_resources(terms, namespace, DocumentInventory(stored.values()))
    new_selection = select_resources(terms, namespace, DocumentInventory(documents.values()))
    return (
        isinstance(old_selection, Selection)
        and isinstance(new_selection, Selection)
        and old_selection.objects != new_selection.objects
    )
