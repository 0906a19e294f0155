"""Bindings that somebody deletes, and what is placed meanwhile."""

from scorer.api.kinds import BINDING
from scorer.api.names import PARENT_PLACEMENT
from tests.webhook.controllers.world import (
    CONFIG_MAP,
)
from webhook.kube.ports import Key


async def placed(world, *clusters):
    """Return the uid of what is placed on each of the clusters, None where it is not there."""
    found = {cluster: await world.on_member(cluster, CONFIG_MAP, "rates", "shop") for cluster in clusters}
    return {cluster: item and item["metadata"]["uid"] for cluster, item in found.items()}


def bindings(world):
    return world.cache.labelled(BINDING, PARENT_PLACEMENT, "web")


async def delete_bindings(world):
    """Delete all bindings as ``kubectl delete --all`` does; wait until none of them is left."""
    before = {item["metadata"]["uid"] for item in bindings(world)}
    for item in bindings(world):
        await world.store.delete(BINDING, Key(item["metadata"]["name"]))
    await world.until(lambda: not before & {item["metadata"]["uid"] for item in bindings(world)})
