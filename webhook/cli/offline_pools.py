"""Node pools made of files, read by the same code as those of a hub."""

from collections.abc import Iterable

from webhook.cli.documents import Loaded
from webhook.embedded.store import EmbeddedStore
from webhook.gate.pools import WATCHED, HubNodePools
from webhook.kube.cache import Cache


def offline_pools(loaded: Iterable[Loaded]) -> HubNodePools:
    """Return the pools among *loaded*, with their nodes, claims, pods and PodDisruptionBudgets."""
    store = EmbeddedStore.open(None)
    try:
        cache = Cache(store)
        pools = HubNodePools(cache)
        known = {kind.group_kind: kind for kind in WATCHED}
        for one in loaded:
            if (kind := known.get(one.kind.group_kind)) is not None:
                metadata = {**one.document["metadata"], "resourceVersion": "1"}
                cache.shelf(kind).put({**one.document, "metadata": metadata})
        for kind in WATCHED:
            cache.shelf(kind).synced.set()
    finally:
        store.close()
    return pools
