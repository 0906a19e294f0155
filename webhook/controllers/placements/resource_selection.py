"""Resource selection for one placement on a hub where some kinds may be unreadable.

Source: rollout.md 2.
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
    """Selects for placements.

    Args:
        hub: Where the objects are.
        selectables: Knows which kinds can be selected, and watches them.
        settings: What may be placed.
    """

    def __init__(self, hub: Hub, selectables: Selectables, settings: SelectionSettings) -> None:
        self._hub = hub
        self._selectables = selectables
        self._settings = settings

    async def select(self, family: Family, ref: PlacementRef, placement: JsonObject) -> Selection | InvalidSelection:
        """Return what a placement selects.

        Raises:
            RetryError: A kind that is needed is not served, or not listed, now.
            StoreError: The hub does not say what it serves.
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
        """Return group, version and kind of what is placed now, each once."""
        latest = latest_group(snapshot_groups(children(self._hub.cache, family.resource_snapshot, ref)))
        objects = latest.objects() if latest else ()
        kinds_placed = sorted({(str(content.get("apiVersion")), str(content.get("kind"))) for content in objects})
        names = ((*split_api_version(version), kind) for version, kind in kinds_placed)
        return [{"group": group, "version": version, "kind": kind} for group, version, kind in names]


def _needed(items: Iterable[JsonObject], unreadable: Mapping[tuple[str, str], str]) -> str:
    """Say why nothing can be selected while these kinds cannot be read; empty when it can.

    A kind has to be read if a term names it, or if objects of it are placed: else a lost permission would take these
    away from all clusters. A kind that only happens to be in a selected namespace is left out.
    """
    for item in items:
        identity = item.get("group") or "", str(item.get("kind"))
        if words := unreadable.get(identity):
            return f"harbormaster cannot read {identity[1]} objects on the hub: {words}"
    return ""
