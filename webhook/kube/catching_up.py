"""What a cache knows of a few objects, brought up to the store's state of this moment.

A watch is a little behind, and minutes when its connection was cut. Whoever decides something that must hold, while
nobody else decides it, looks before: what was done before the decision is known then.
"""

import asyncio
from collections.abc import Iterable, Mapping

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from webhook.kube.cache import Cache
from webhook.kube.ports import Key, NotFoundError, Store, key_of


async def look_again(cache: Cache, store: Store, kind: Kind, keys: Iterable[Key]) -> None:
    """Read single objects.

    Raises:
        StoreError: Other than that there is no such object, or no such kind.
    """
    await asyncio.gather(*(_look_again(cache, store, kind, key) for key in keys))


async def list_again(
    cache: Cache,
    store: Store,
    kind: Kind,
    labels: Mapping[str, str],
    known: Iterable[JsonObject],
    namespace: str = "",
) -> None:
    """List the objects with these labels.

    Args:
        cache: What is to know them.
        store: Where they are.
        kind: Of all of them.
        labels: Valid as such.
        known: The objects that have been thought to have them; those that are not listed are looked at one by one.
        namespace: Of all of them; empty for kinds that have none.

    Raises:
        StoreError: Other than that there is no such kind.
    """
    before = {key_of(document) for document in known}
    try:
        listing = await store.list(kind, namespace or None, labels)
    except NotFoundError:  # not served: no objects
        return
    shelf = cache.shelf(kind)
    for document in listing.items:
        shelf.put(document)
    await look_again(cache, store, kind, sorted(before - {key_of(document) for document in listing.items}))


async def _look_again(cache: Cache, store: Store, kind: Kind, key: Key) -> None:
    shelf = cache.shelf(kind)
    known = shelf.objects.get(key)
    try:
        shelf.put(await store.get(kind, key))
    except NotFoundError:
        if known is not None:
            shelf.drop(known)
