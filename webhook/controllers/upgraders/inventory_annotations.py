"""Annotations on members with the inventories that their back ends observed, for plans and admission.

Source: docs/specifications/upgrade-runs.md 3.1 and 13.1.
"""

from collections.abc import Mapping
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import annotation, name_of
from scorer.upgrade.back_ends.interface import Inventory
from scorer.upgrade.back_ends.inventories import OBSERVED
from scorer.upgrade.members.member import Member
from webhook.controllers.upgraders.upgrade_requests import UpgradeRequestStore
from webhook.kube.cache.hub import run_concurrently
from webhook.kube.ports import ConflictError, Key

_NOTHING: Final = ("", None)


class InventoryNotes:
    """Keeps the annotations up to date.

    Args:
        requests: Writes the annotations.
    """

    def __init__(self, requests: UpgradeRequestStore) -> None:
        self._requests = requests
        self._cache: dict[str, tuple[str, Inventory | None]] = {}
        """By member: its annotation, and the inventory that the annotation matches."""

    def reported(self) -> Mapping[Key, JsonObject]:
        """Return all present requests, for `store`."""
        return self._requests.all()

    async def store(
        self, documents: Mapping[str, JsonObject], members: Mapping[str, Member], before: Mapping[Key, JsonObject]
    ) -> None:
        """Write changed annotations. A member that is written or reported concurrently is written on a later call.

        Args:
            documents: The MemberClusters, by name.
            members: The parsed members.
            before: The result of `reported` before the inspection.
        """
        due_notes = []
        for name, document in documents.items():
            inventory = members[name].inventory if name in members else None
            note, previous = self._cache.get(name, _NOTHING)
            if inventory is None or (previous is inventory and note == annotation(document, OBSERVED)):
                continue
            self._cache[name] = annotation(document, OBSERVED), inventory
            if not self._requests.has_news_of(name, before):  # otherwise the inspection may be older: wait for the next
                due_notes.append((document, inventory))
        for removed_name in self._cache.keys() - documents.keys():
            del self._cache[removed_name]
        await run_concurrently(self._note(document, inventory) for document, inventory in due_notes)

    async def _note(self, document: JsonObject, inventory: Inventory) -> None:
        try:
            await self._requests.note_inspected(document, inventory)
        except ConflictError:
            self._cache.pop(name_of(document), None)
