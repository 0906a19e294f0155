"""Live reads around the cache: refresh a few objects before a decision, or check for the deletion of a definition.

A watch normally lags a little, and by minutes after its connection was cut. A caller that needs the current state
therefore first excludes concurrent decisions, with a lock or the resource version of its write, and then refreshes the
objects. It then sees the effects of all earlier decisions.

The deletion of a definition deletes all objects of its kind.
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
        StoreError: Any error except a missing object or kind.
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
        cache: The cache to update.
        store: The store to list.
        kind: Kind of the objects.
        labels: Valid label pairs.
        objects: The cached objects with these labels. Those that the list lacks are read one by one.
        namespace: Namespace of the objects, empty for cluster-scoped kinds.

    Raises:
        StoreError: Any error except a missing kind.
    """
    before = {key_of(document) for document in objects}
    try:
        listing = await store.list(kind, namespace or None, labels)
    except NotFoundError:  # not served: no objects
        return
    kind_cache = cache.of_kind(kind)
    for document in listing.items:
        kind_cache.put(document)
    # An object that is not listed has been deleted or has lost its label. Only a read can distinguish the two.
    await refresh_objects(cache, store, kind, sorted(before - {key_of(document) for document in listing.items}))


async def _look_again(cache: Cache, store: Store, kind: Kind, key: Key) -> None:
    kind_cache = cache.of_kind(kind)
    cached_object = kind_cache.objects.get(
        key
    )  # before the read: an object that is created during it must remain cached
    try:
        kind_cache.put(await store.get(kind, key))
    except NotFoundError:
        if cached_object is not None:
            kind_cache.drop(cached_object)


async def is_deleted_with_definition(store: Store, kind: Kind) -> bool:
    """Return whether all objects of a kind are being deleted with their definition.

    The API server sets the deletionTimestamp of the definition before those of the objects. False if the definition
    does not exist, as for the built-in kinds of the embedded store.

    Raises:
        ForbiddenError: Reading definitions is denied.
        StoreError: The store does not respond.
    """
    try:
        return is_deleting(await store.get(CUSTOM_RESOURCE_DEFINITION, Key(kind.resource)))
    except NotFoundError:
        return False
