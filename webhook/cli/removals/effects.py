"""Removals that wait or would wait for confirmation: as recorded by placements, or from a dry run of admission."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scorer.api.family import FAMILIES, FAMILY_OF, family_in
from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.unstructured.documents import dicts_at, name_of, namespace_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.rollout.confirmation.digests import REMOVAL_NOT_CONFIRMED
from scorer.rollout.confirmation.member_contents import namespace_counts
from scorer.rollout.confirmation.orphans import orphaned_content
from scorer.rollout.status.placement_conditions import is_removal_pending
from scorer.rollout.views.removals import PlacementRemovals, orphaned_removal, unconfirmed_removals
from webhook.cli.hub.client import FORBIDDEN, Client, HubRefusedError, ResourcePath
from webhook.runtime.clock import utc_now


@dataclass(frozen=True, slots=True)
class PendingGroup:
    """A removal that needs confirmation.

    Args:
        ref: The placement or NodePool that gets the confirmation.
        digest: The digest.
        effect: The removal that it confirms.
    """

    ref: str
    digest: str
    effect: str


async def recorded(client: Client, placement: JsonObject) -> PlacementRemovals:
    """Return the pending removals of a placement, whose document includes its kind."""
    members = await _members(client) if is_removal_pending(placement) else None
    return await _recorded(client, placement, members or ())


async def _recorded(client: Client, placement: JsonObject, members: Sequence[JsonObject]) -> PlacementRemovals:
    family = FAMILY_OF[str(placement["kind"])]
    ref = str(family.ref(placement))
    if not is_removal_pending(placement):
        return {"placement": ref, "removals": []}
    namespace = namespace_of(placement) or None
    selector = f"{PARENT_PLACEMENT}={name_of(placement)}"
    snapshots, bindings = [
        dicts_at(await client.list(ResourcePath(kind, namespace), selector), "items")
        for kind in (family.resource_snapshot, family.binding)
    ]
    counts = {name_of(member): namespace_counts(member) for member in members}
    return {
        "placement": ref,
        "removals": unconfirmed_removals(family, placement, snapshots, bindings, counts.get, utc_now()),
    }


async def _members(client: Client) -> Sequence[JsonObject] | None:
    """Return all MemberClusters. None: unknown, the caller may not list them."""
    try:
        return dicts_at(await client.list(ResourcePath(MEMBER_CLUSTER)), "items")
    except HubRefusedError as error:
        if error.code != FORBIDDEN:
            raise
        return None


class RecordedRemovals(NamedTuple):
    """Pending removals and orphaned content.

    Args:
        placements: Removals and orphaned content of each placement.
        unread: Kinds that the caller may not list, as ``plural.group``. *placements* lacks the data from their objects.
    """

    placements: list[PlacementRemovals]
    unread: tuple[str, ...]


async def all_recorded(client: Client, namespace: str = "") -> RecordedRemovals:
    """Return the pending removals and the orphaned content on the hub.

    Args:
        client: Client of the hub.
        namespace: Only placements of this namespace. Other namespaces are not read. Empty: all placements.

    Raises:
        HubRefusedError: The caller may not list the placements, or the hub fails.
    """
    members = await _members(client)
    recorded_removals: list[PlacementRemovals] = []
    for family in (family_in(namespace),) if namespace else FAMILIES:
        place = ResourcePath(family.placement, namespace or None)
        for placement in dicts_at(await client.list(place), "items"):
            kind = {"kind": family.placement.kind, "apiVersion": family.placement.api_version}
            recorded_removals.append(await _recorded(client, {**placement, **kind}, members or ()))
    for ref, on_clusters in orphaned_content(members or ()).items():
        if namespace in ("", ref.namespace):
            recorded_removals.append({"placement": str(ref), "removals": [orphaned_removal(on_clusters, utc_now())]})
    return RecordedRemovals(recorded_removals, () if members is not None else (MEMBER_CLUSTER.resource,))


async def would_remove(client: Client, place: ResourcePath) -> list[PendingGroup]:
    """Return the removals that make admission refuse the deletion of an object, from a dry run.

    Raises:
        HubRefusedError: The deletion is refused for another reason.
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
