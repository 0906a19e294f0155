"""Live reads around the cache: refresh a few objects before a decision, or check a kind's definition.

A kind whose definition is being deleted loses its objects for that reason.

Catching up: a watch is a little behind, and minutes behind when its connection was cut. A caller whose decision must
hold first keeps others from deciding (by a lock, or by a version that it writes over) and then looks: so it knows all
that was done under earlier decisions.
"""

import asyncio
from collections.abc import Iterable, Mapping

from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import is_deleting
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Key, NotFoundError, Store, key_of


async def refresh_objects(cache: Cache, store: Store, kind: Kind, keys: Iterable[Key]) -> None:
    """Read single objects from the store into the cache.

    Raises:
        StoreError: Other than that the object, or its kind, does not exist.
    """
    await asyncio.gather(*(_look_again(cache, store, kind, key) for key in keys))


async def refresh_list(
    cache: Cache,
    store: Store,
    kind: Kind,
    labels: Mapping[str, str],
    objects: Iterable[JsonObject],
    namespace: str = "",
) -> None:
    """List the objects with these labels from the store into the cache.

    Args:
        cache: Takes them in.
        store: Where they are.
        kind: Of all of them.
        labels: Valid as such.
        objects: The cached objects with these labels. Those that the list lacks are read one by one.
        namespace: Of all of them; empty for kinds that have none.

    Raises:
        StoreError: Other than that the kind does not exist.
    """
    before = {key_of(document) for document in objects}
    try:
        listing = await store.list(kind, namespace or None, labels)
    except NotFoundError:  # not served: no objects
        return
    shelf = cache.of_kind(kind)
    for document in listing.items:
        shelf.put(document)
    # What is not listed has been deleted, or has lost its label: only a read tells which.
    await refresh_objects(cache, store, kind, sorted(before - {key_of(document) for document in listing.items}))


async def _look_again(cache: Cache, store: Store, kind: Kind, key: Key) -> None:
    shelf = cache.of_kind(kind)
    cached_object = shelf.objects.get(key)  # before the read: an object that is created during it must remain cached
    try:
        shelf.put(await store.get(kind, key))
    except NotFoundError:
        if cached_object is not None:
            shelf.drop(cached_object)


async def is_deleted_with_definition(store: Store, kind: Kind) -> bool:
    """Ask whether all objects of a kind are being deleted with their definition.

    The API server marks the definition first, so when an object is seen that is marked for that reason, its definition
    is marked already. A store that keeps no definitions (the embedded one) does not delete any.

    Raises:
        ForbiddenError: We may not read definitions.
        StoreError: The store does not say.
    """
    try:
        return is_deleting(await store.get(CUSTOM_RESOURCE_DEFINITION, Key(kind.resource)))
    except NotFoundError:
        return False
