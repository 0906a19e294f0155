"""``harbormaster unregister``: removes the hooks from the API server, and counts the objects that users have created.

Source: docs/specifications/serving.md 5.1, hooks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from scorer.api.kinds import (
    APPLIED_WORK,
    BINDING,
    INTERNAL_MEMBER_CLUSTER,
    NAMESPACED_BINDING,
    NAMESPACED_OVERRIDE_SNAPSHOT,
    NAMESPACED_POLICY_SNAPSHOT,
    NAMESPACED_RESOURCE_SNAPSHOT,
    NODE_POOL,
    OUR_KINDS,
    OVERRIDE_SNAPSHOT,
    PLACEMENT_STATUS,
    POLICY_SNAPSHOT,
    RESOURCE_SNAPSHOT,
    WORK,
    Kind,
)
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import PAGE
from webhook.kube.client.paths import path_of
from webhook.kube.ports import ForbiddenError, NotFoundError
from webhook.kube.transport.serialization import METADATA_LIST
from webhook.kube.webhook_configurations.ca_bundles import CONFIGURATIONS

_NOT_COUNTED: Final = frozenset(
    {
        *(APPLIED_WORK, NODE_POOL, INTERNAL_MEMBER_CLUSTER, PLACEMENT_STATUS, WORK, BINDING, NAMESPACED_BINDING),
        *(OVERRIDE_SNAPSHOT, NAMESPACED_OVERRIDE_SNAPSHOT, POLICY_SNAPSHOT, NAMESPACED_POLICY_SNAPSHOT),
        *(RESOURCE_SNAPSHOT, NAMESPACED_RESOURCE_SNAPSHOT),
    }
)
COUNTED: Final = tuple(kind for kind in OUR_KINDS if kind not in _NOT_COUNTED)
"""Kinds whose objects users create. The loop creates and removes the others, and NodePools belong to Karpenter."""


class Remaining(NamedTuple):
    """Number of objects of a kind.

    Args:
        objects: Number of objects.
        finalized: Number of those with finalizers, whose deletion requires the loop.
    """

    objects: int
    finalized: int


@dataclass(frozen=True, slots=True)
class Unregistered:
    """Result of unregistering.

    Args:
        removed: Whether each configuration existed, by ``Kind/name``.
        remaining: Remaining objects, by kind. None: unknown, the caller may not list them.
    """

    removed: Mapping[str, bool]
    remaining: Mapping[str, Remaining | None]

    def lines(self) -> Iterator[str]:
        """Yield the result as text."""
        for name, was_present in self.removed.items():
            yield f"{name} {'removed' if was_present else 'not found'}"
        for kind, count in self.remaining.items():
            if count is None:
                yield f"{kind}: you may not list them, so they are not counted"
            elif count.finalized:
                finalized = f"{count.finalized} with finalizers, which cannot be deleted while no loop runs"
                yield f"{kind}: {count.objects} remaining, {finalized}"
            elif count.objects:
                yield f"{kind}: {count.objects} remaining"


async def unregister(server: ApiServer, name: str) -> Unregistered:
    """Remove both webhook configurations, then count the objects that users have created.

    Args:
        server: The hub.
        name: Name of both configurations.

    Raises:
        webhook.kube.ports.StoreError: A configuration could not be removed, or the hub does not respond.
    """
    removed: dict[str, bool] = {}
    for kind in CONFIGURATIONS:
        try:
            await server.request("DELETE", path_of(kind, name=name))
            removed[f"{kind.kind}/{name}"] = True
        except NotFoundError:
            removed[f"{kind.kind}/{name}"] = False
    remaining: dict[str, Remaining | None] = {}
    for kind in COUNTED:
        try:
            remaining[kind.kind] = await _count(server, kind)
        except ForbiddenError:
            remaining[kind.kind] = None
        except NotFoundError:  # this hub does not have the kind
            remaining[kind.kind] = Remaining(0, 0)
    return Unregistered(removed, remaining)


async def _count(server: ApiServer, kind: Kind) -> Remaining:
    """Count the objects of a kind. Reads only their metadata: an envelope can have more than 1 MB."""
    objects = finalized = 0
    query = {"limit": str(PAGE)}
    while True:
        page = await server.request("GET", path_of(kind), query=query, accept=METADATA_LIST)
        items = page.get("items") or ()
        objects += len(items)
        finalized += sum(bool(item["metadata"].get("finalizers")) for item in items)
        if not (token := page["metadata"].get("continue")):
            return Remaining(objects, finalized)
        query["continue"] = token
