"""Brings what a cache knows of a few objects up to the present state of the store.

A watch is a little behind, and minutes behind when its connection was cut. A caller whose decision must hold first
keeps others from deciding (by a lock, or by a version that it writes over) and then looks: so it knows all that was
done under earlier decisions.
"""

import asyncio
from collections.abc import Iterable, Mapping

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from webhook.kube.cache import Cache
from webhook.kube.ports import Key, NotFoundError, Store, key_of


async def look_again(cache: Cache, store: Store, kind: Kind, keys: Iterable[Key]) -> None:
    """Read single objects from the store into the cache.

    Raises:
        StoreError: Other than that the object, or its kind, does not exist.
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
    """List the objects with these labels from the store into the cache.

    Args:
        cache: Takes them in.
        store: Where they are.
        kind: Of all of them.
        labels: Valid as such.
        known: The objects that the cache has with these labels; those that are not listed are read one by one.
        namespace: Of all of them; empty for kinds that have none.

    Raises:
        StoreError: Other than that the kind does not exist.
    """
    before = {key_of(document) for document in known}
    try:
        listing = await store.list(kind, namespace or None, labels)
    except NotFoundError:  # not served: no objects
        return
    shelf = cache.shelf(kind)
    for document in listing.items:
        shelf.put(document)
    # What is not listed has been deleted, or has lost its label: only a read tells which.
    await look_again(cache, store, kind, sorted(before - {key_of(document) for document in listing.items}))


async def _look_again(cache: Cache, store: Store, kind: Kind, key: Key) -> None:
    shelf = cache.shelf(kind)
    known = shelf.objects.get(key)  # before the read: only this one is gone then, not one that is created meanwhile
    try:
        shelf.put(await store.get(kind, key))
    except NotFoundError:
        if known is not None:
            shelf.drop(known)
