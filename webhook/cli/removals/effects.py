"""Removals that wait for confirmation, or would: as placements record them, and as admission answers a dry run."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from scorer.api.family import FAMILIES, FAMILY_OF, Family
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.unstructured.documents import (
    conditions_of,
    dicts_at,
    is_deleting,
    metadata_of,
    name_of,
    namespace_of,
    text_at,
    uid_of,
)
from scorer.api.unstructured.json_object import parse_time
from scorer.rollout.confirmation.deletion import placement_item
from scorer.rollout.confirmation.digests import REMOVAL_NOT_CONFIRMED, RemovalItem, confirmable_groups
from scorer.rollout.confirmation.report import pending_items
from scorer.rollout.removal.marks import REMOVAL_PENDING_CONDITION
from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath


@dataclass(frozen=True, slots=True)
class PendingGroup:
    """One digest of one placement, or NodePool.

    Args:
        ref: The placement.
        digest: The digest.
        effect: The removal that it confirms.
        since: When the oldest of it became pending. None: unset, nothing is pending yet.
    """

    ref: str
    digest: str
    effect: str
    since: datetime | None = None


async def recorded(client: Client, placement: JsonObject) -> list[PendingGroup]:
    """Return what waits for confirmation on a placement."""
    if not _is_pending(placement):
        return []
    family = FAMILY_OF[str(placement["kind"])]
    ref, items = str(family.ref(placement)), await _items(client, family, placement)
    return [
        PendingGroup(
            ref, group.digest, str(group), min((each.since for each in group.items if each.since), default=None)
        )
        for group in confirmable_groups(uid_of(placement), items)
    ]


async def all_recorded(client: Client) -> list[PendingGroup]:
    """Return what waits for confirmation on the hub, the oldest first."""
    found: list[PendingGroup] = []
    for family in FAMILIES:
        for placement in dicts_at(await client.list(ResourcePath(family.placement)), "items"):
            kind = {"kind": family.placement.kind, "apiVersion": family.placement.api_version}
            found += await recorded(client, {**placement, **kind})
    return sorted(found, key=lambda group: (group.since.timestamp() if group.since else 0, group.ref, group.digest))


async def would_remove(client: Client, place: ResourcePath) -> list[PendingGroup]:
    """Return what deleting an object would remove and admission refuses, from a dry run.

    Raises:
        HubRefusedError: It is refused for another reason.
    """
    try:
        await client.delete(place, dry_run=True)
    except HubRefusedError as error:
        causes = list(_causes(error))
        if not causes:
            raise
        return causes
    return []


def _causes(error: HubRefusedError) -> Iterable[PendingGroup]:
    for cause in error.details.get("causes") or ():
        if cause.get("reason") == REMOVAL_NOT_CONFIRMED:
            digest, _, effect = str(cause.get("message", "")).partition(" ")
            yield PendingGroup(str(cause.get("field", "")), digest, effect)


def _is_pending(placement: JsonObject) -> bool:
    return any(
        (each.get("type"), each.get("status")) == (REMOVAL_PENDING_CONDITION, "True")
        for each in conditions_of(placement)
    )


async def _items(client: Client, family: Family, placement: JsonObject) -> tuple[RemovalItem, ...]:
    if is_deleting(placement):
        since = parse_time(text_at(metadata_of(placement), "deletionTimestamp"))
        item = placement_item(placement)
        return (RemovalItem(item.effect, item.identity, item.uid, since=since),)
    namespace = namespace_of(placement) or None
    selector = f"{PARENT_PLACEMENT}={name_of(placement)}"
    snapshots, bindings = [
        dicts_at(await client.list(ResourcePath(kind, namespace), selector), "items")
        for kind in (family.resource_snapshot, family.binding)
    ]
    kind = {"kind": family.binding.kind, "apiVersion": family.binding.api_version}
    return pending_items(snapshots, [{**each, **kind} for each in bindings])
