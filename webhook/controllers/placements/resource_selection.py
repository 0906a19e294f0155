"""Resource selection for one placement on a hub where some kinds may be unreadable.

Source: docs/specifications/rollout.md 2.
"""

from collections.abc import Iterable, Mapping

from scorer.api.family import Family, PlacementRef
from scorer.api.kinds import split_api_version
from scorer.api.meta import JsonObject
from scorer.rollout.selection.exclusions import SelectionSettings
from scorer.rollout.selection.selector import InvalidSelection, Selection, select_resources
from scorer.rollout.snapshots.groups import latest_group, snapshot_groups
from webhook.controllers.placements.resource_watches import Selectables
from webhook.kube.cache.hub import Hub
from webhook.kube.listers.placements import children


class Selecting:
    """Selects resources for placements.

    Args:
        hub: The hub cluster.
        selectables: Watches the selectable kinds.
        settings: Limits of the selection.
    """

    def __init__(self, hub: Hub, selectables: Selectables, settings: SelectionSettings) -> None:
        self._hub = hub
        self._selectables = selectables
        self._settings = settings

    async def select(self, family: Family, ref: PlacementRef, placement: JsonObject) -> Selection | InvalidSelection:
        """Return the selection of a placement.

        Raises:
            RetryError: A required kind is not served or not listed now.
            StoreError: Discovery failed.
        """
        terms = placement["spec"].get("resourceSelectors") or []
        placed = self._placed(family, ref)
        kinds = await self._selectables.watch(ref, terms, placed)
        unreadable = self._selectables.unreadable(ref)
        if refused := _needed([*terms, *placed], unreadable):
            return InvalidSelection(refused)
        readable = {identity: kind for identity, kind in kinds.items() if identity not in unreadable}
        return select_resources(terms, ref.namespace, self._hub.cache, readable, self._settings)

    def _placed(self, family: Family, ref: PlacementRef) -> list[JsonObject]:
        """Return group, version and kind of the placed objects, without duplicates."""
        latest = latest_group(snapshot_groups(children(self._hub.cache, family.resource_snapshot, ref)))
        objects = latest.objects() if latest else ()
        kinds_placed = sorted({(str(content.get("apiVersion")), str(content.get("kind"))) for content in objects})
        names = ((*split_api_version(version), kind) for version, kind in kinds_placed)
        return [{"group": group, "version": version, "kind": kind} for group, version, kind in names]


def _needed(items: Iterable[JsonObject], unreadable: Mapping[tuple[str, str], str]) -> str:
    """Return why nothing can be selected while these kinds are unreadable, empty if no item needs one of them.

    A kind is required if a term names it, or if objects of it are placed. Otherwise a revoked permission would remove
    those objects from all clusters. A kind that only occurs in a selected namespace is skipped.
    """
    for item in items:
        identity = item.get("group") or "", str(item.get("kind"))
        if words := unreadable.get(identity):
            return f"harbormaster cannot read {identity[1]} objects on the hub: {words}"
    return ""
