"""``harbormaster unregister``: removes the hooks from the API server, and reports the objects that wait for a loop.

Source: serving.md 5.1, hooks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from scorer.api.kinds import MEMBER_CLUSTER, PLACEMENT, RESOURCE_PLACEMENT
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.paths import path_of
from webhook.kube.ports import ForbiddenError, NotFoundError
from webhook.kube.webhook_configurations.ca_bundles import CONFIGURATIONS

WAITING: Final = (MEMBER_CLUSTER, PLACEMENT, RESOURCE_PLACEMENT)
"""Kinds whose deletion requires the loop."""


@dataclass(frozen=True, slots=True)
class Unregistered:
    """Result of unregistering.

    Args:
        removed: Whether each configuration existed, by ``Kind/name``.
        waiting: Number of objects with finalizers, by kind. None: unknown, they must not be listed.
    """

    removed: Mapping[str, bool]
    waiting: Mapping[str, int | None]

    def lines(self) -> Iterator[str]:
        """Yield the result as text."""
        for name, was_present in self.removed.items():
            yield f"{name} {'removed' if was_present else 'not found'}"
        for kind, count in self.waiting.items():
            if count is None:
                yield f"{kind}: you may not list them, so those with finalizers are not counted"
            elif count:
                yield f"{kind}: {count} with finalizers, which cannot be deleted while no loop runs"


async def unregister(server: ApiServer, name: str) -> Unregistered:
    """Remove both webhook configurations, then count the objects whose deletion waits for a loop.

    Args:
        server: The hub.
        name: Name of both configurations.

    Raises:
        webhook.kube.ports.StoreError: A configuration could not be removed, or the hub does not answer.
    """
    removed: dict[str, bool] = {}
    for kind in CONFIGURATIONS:
        try:
            await server.request("DELETE", path_of(kind, name=name))
            removed[f"{kind.kind}/{name}"] = True
        except NotFoundError:
            removed[f"{kind.kind}/{name}"] = False
    store = HubStore(server)
    finalizer_counts: dict[str, int | None] = {}
    for kind in WAITING:
        try:
            items = (await store.list(kind)).items
            finalizer_counts[kind.kind] = sum(bool(item["metadata"].get("finalizers")) for item in items)
        except ForbiddenError:
            finalizer_counts[kind.kind] = None
        except NotFoundError:  # this hub does not have the kind
            finalizer_counts[kind.kind] = 0
    return Unregistered(removed, finalizer_counts)
