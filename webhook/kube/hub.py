"""The hub as a controller sees it: reads from the cache, writes to the store, and its own writes at once.

One process writes for a placement at a time (the leader), so the cache plus one's own writes is as
good as reading the API server: a binding just made is seen by the very next read.
"""

from collections.abc import Iterable
from contextlib import suppress

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.rollout.writes import Verb, Write
from webhook.kube.cache import Cache
from webhook.kube.ports import AlreadyExistsError, NotFoundError, Store, key_of


class Hub:
    """Store and cache as one.

    Args:
        store: Where everything is kept.
        cache: What is known of it.
    """

    def __init__(self, store: Store, cache: Cache) -> None:
        self.store = store
        self.cache = cache
        self.writes = 0
        """How many writes were sent; a second reconcile of anything adds none."""

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store a new object. Raises as the store does."""
        self.writes += 1
        return self._known(kind, await self.store.create(kind, document))

    async def replace(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store an object anew over the version it was read at. Raises as the store does."""
        self.writes += 1
        return self._known(kind, await self.store.replace(kind, document))

    async def replace_status(self, kind: Kind, document: JsonObject, status: JsonObject) -> JsonObject:
        """Store *status* on the object as it was read; nothing is sent when it says so already."""
        if document.get("status", {}) == status:
            return document
        self.writes += 1
        return self._known(kind, await self.store.replace_status(kind, {**document, "status": status}))

    async def delete(self, kind: Kind, document: JsonObject) -> None:
        """Delete an object; one that is gone already is fine."""
        metadata = document["metadata"]
        self.writes += 1
        shelf = self.cache.shelf(kind)
        try:
            await self.store.delete(kind, key_of(document), uid=metadata.get("uid", ""))
            shelf.put(await self.store.get(kind, key_of(document)))
        except NotFoundError:
            shelf.drop(document)

    async def carry_out(self, kind: Kind, writes: Iterable[Write]) -> None:
        """Do what a plan asks for, in its order; an object that is there already was made by an earlier attempt."""
        for write in writes:
            match write.verb:
                case Verb.CREATE:
                    with suppress(AlreadyExistsError):
                        await self.create(kind, write.document)
                case Verb.REPLACE:
                    await self.replace(kind, write.document)
                case Verb.DELETE:
                    await self.delete(kind, write.document)

    def _known(self, kind: Kind, document: JsonObject) -> JsonObject:
        self.cache.shelf(kind).put(document)
        return document
