"""The hub as seen by a controller: reads from the cache, writes to the store, and read-your-writes.

Only one process (the leader) writes for a placement at a time. The cache with that process's writes is therefore as
good as a read from the API server: the next read sees a binding that was just created. After a conflict, or if an
object already exists, the object is read immediately. A retry then starts from the stored state, even while the watch
is broken.

Statuses are write-behind. `report` shows them in the cache immediately and stores them a little later. Several changes
of one object are coalesced into one write, after the writes that controllers wait for. Statuses of placements, which
users read, come before those that they aggregate. Every status can be derived again from stored objects, so a process
that stops early loses nothing.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from scorer.api.family import FAMILIES
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.rollout.status.failures import with_current_failures
from scorer.rollout.writes import Verb, Write
from webhook.kube.cache.informer import Cache
from webhook.kube.cache.write_limiter import WriteSlots
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    Key,
    NotFoundError,
    NotServedError,
    Store,
    StoreError,
    key_of,
)

WRITE_CONCURRENCY: Final = 32
STATUS_WRITERS: Final = 8
STATUS_DELAY_SECONDS: Final = 0.1
"""Debounce of changes to one status."""
LONGEST_DELAY_SECONDS: Final = 5.0
"""Maximum delay of a status while many writes that controllers wait for are in flight."""
_FIRST: Final = frozenset(family.placement.group_kind for family in FAMILIES)
"""Kinds whose statuses are stored before all others."""
_RETRY_SECONDS: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pending:
    """A status that is not stored yet.

    Args:
        kind: Kind of the object.
        base: The object in its last known stored state. *shown* adds the status.
        shown: The object as the cache shows it.
        due: Earliest time of the write on the loop's clock.
        failures: Number of failed attempts.
    """

    kind: Kind
    base: JsonObject
    shown: JsonObject
    due: float
    failures: int = 0


_Place = tuple[str, str, Key]
"""Group, kind and key of the object of a pending status."""


class Hub:
    """Writes to a store, visible in its cache immediately.

    Args:
        store: Store of the objects.
        cache: Cache of the store.
        slots: Limits concurrent writes, and may be shared with other hubs. None means `WRITE_CONCURRENCY` slots for
            this hub alone.
    """

    def __init__(self, store: Store, cache: Cache, slots: WriteSlots | None = None) -> None:
        self.store = store
        self.cache = cache
        self.writes = 0
        """Number of attempted writes. A second reconcile of the same state adds none."""
        self._slots = slots or WriteSlots(WRITE_CONCURRENCY)
        self._few = self._slots.number // 4
        """Statuses are not delayed by other writes while `_under_way` is at most this number."""
        self._under_way = 0
        """Writes that are in flight or wait for a slot, without statuses."""
        self._pending: dict[_Place, _Pending] = {}
        self._lines: tuple[dict[_Place, None], dict[_Place, None]] = ({}, {})
        """Two queues of pending statuses that no writer has taken: those of `_FIRST` kinds, and all others."""
        self._choosing = asyncio.Lock()
        self._wake = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether every reported status is stored."""
        return not self._pending

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Create an object.

        Raises the errors of `Store.create`. If the object already exists, the stored one is cached before that.
        """
        try:
            async with self._slot(kind):
                return self._cache_stored(kind, await self.store.create(kind, document))
        except AlreadyExistsError:
            await self._read(kind, key_of(document))
            raise

    async def replace(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Replace an object at the version that was read.

        For objects that the loop owns. Use `amend` for those that users write.

        Raises the errors of `Store.replace`. On a conflict, the object is read again. A missing object is removed from
        the cache.
        """
        return await self._over(kind, document, self.store.replace)

    async def amend(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store finalizers, labels and annotations at the version that was read: see `Store.replace_metadata`.

        Raises the errors of that method. The cache is updated as by `replace`.
        """
        return await self._over(kind, document, self.store.replace_metadata)

    async def store_status(self, kind: Kind, document: JsonObject, status: JsonObject) -> JsonObject:
        """Store the status of an object immediately, at the version that was read.

        For a status that the next step relies on and that has no other writer. Use `report` for all others.

        Raises the errors of `Store.replace_status`. The cache is updated as by `replace`.
        """
        return await self._over(kind, {**document, "status": status}, self.store.replace_status)

    async def _over(
        self, kind: Kind, document: JsonObject, write: Callable[[Kind, JsonObject], Awaitable[JsonObject]]
    ) -> JsonObject:
        try:
            async with self._slot(kind):
                return self._cache_stored(kind, await write(kind, document))
        except ConflictError:
            await self._read(kind, key_of(document))
            raise
        except NotServedError:  # the kind is not served, so the object may still exist: keep it cached
            raise
        except NotFoundError:
            self.cache.of_kind(kind).drop(document)
            raise

    async def delete(self, kind: Kind, document: JsonObject, *, this_version: bool = False) -> None:
        """Delete an object. A missing object is not an error.

        Args:
            kind: Its kind.
            document: The object as read.
            this_version: Delete the object only at the version of *document*.

        Raises:
            ConflictError: The name belongs to another object, or *this_version* is outdated. The object is read again.
            StoreError: The store refused, did not respond, or does not serve the kind.
        """
        metadata, key = document["metadata"], key_of(document)
        version = metadata.get("resourceVersion", "") if this_version else ""
        try:
            async with self._slot(kind):
                # With the uid in any case: a recreated object of the same name is a different object.
                await self.store.delete(kind, key, uid=metadata.get("uid", ""), resource_version=version)
                # Finalizers may keep the object. The next read of the cache must see its deletion timestamp.
                self.cache.of_kind(kind).put(await self.store.get(kind, key))
        except ConflictError:
            await self._read(kind, key)
            raise
        except NotServedError:
            raise
        except NotFoundError:
            self.cache.of_kind(kind).drop(document)

    async def carry_out(self, kind: Kind, writes: Iterable[Write]) -> None:
        """Execute the writes of a plan in order.

        Raises the errors of `create`, `replace` and `delete`, except `AlreadyExistsError`: an earlier attempt may have
        created the object.
        """
        for write in writes:
            await self._carry_out(kind, write)

    async def carry_out_concurrently(self, kind: Kind, writes: Iterable[Write]) -> None:
        """Execute independent writes of a plan concurrently. Raises like `carry_out`, after all have finished."""
        await run_concurrently(self._carry_out(kind, write) for write in writes)

    async def _carry_out(self, kind: Kind, write: Write) -> None:
        match write.verb:
            case Verb.CREATE:
                with suppress(AlreadyExistsError):
                    await self.create(kind, write.document)
            case Verb.REPLACE:
                await self.replace(kind, write.document)
            case Verb.DELETE:
                await self.delete(kind, write.document)

    def report(
        self, kind: Kind, document: JsonObject, status: JsonObject, *, tells_failures: bool = False
    ) -> JsonObject:
        """Set the status of an object in the cache, enqueue its write, and return the object with it.

        A no-op if the cache already has the status. If the object is not cached, or its uid or generation has changed,
        the status is dropped and *document* is returned: that change triggers a reconcile.

        Args:
            kind: Its kind.
            document: The object as read when the status was decided.
            status: The complete status.
            tells_failures: Whether to replace the conditions of failing controllers, too. If False, they are kept.
        """
        cached_object = self.cache.get(kind, *key_of(document))
        if cached_object is None or cached_object["metadata"].get("uid") != document["metadata"].get("uid"):
            return document
        if cached_object["metadata"].get("generation") != document["metadata"].get("generation"):
            return document
        if not tells_failures:
            status = with_current_failures(status, cached_object)
        place = (*kind.group_kind, key_of(document))
        pending = self._pending.get(place)
        if cached_object.get("status", {}) == status and (pending is None or pending.shown is cached_object):
            return cached_object
        update = {**cached_object, "status": status}
        if pending is None:
            due_at = asyncio.get_running_loop().time() + STATUS_DELAY_SECONDS
            self._pending[place] = _Pending(kind, cached_object, update, due_at)
            self._line_up(place)
        else:
            if cached_object is not pending.shown:  # a newer version arrived by the watch or by a write
                pending.base = cached_object
            pending.shown = update
        self.cache.of_kind(kind).show(update)
        return update

    async def run(self) -> None:
        """Store reported statuses until cancelled. Statuses that are not stored by then are reverted in the cache."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(STATUS_WRITERS):
                    tasks.create_task(self._store_statuses())
        finally:
            # The cache outlives the term, and a status that is only shown looks like a stored one. In the next term,
            # `report` would find it unchanged and never write it.
            for pending in self._pending.values():
                self.cache.of_kind(pending.kind).unshow(pending.shown, pending.base)
            self._pending.clear()
            for line in self._lines:
                line.clear()

    async def _store_statuses(self) -> None:
        while True:
            place = await self._next()
            pending = self._pending[place]
            try:
                await self._store_status(place, pending)
            except StoreError as error:
                log.warning("status write failed", extra={"object": str(place[2]), "error": str(error)})
                self._again_later(place, pending)
            except Exception:  # one status that cannot be sent must not stop the loop: logged with the traceback
                log.exception("status write failed", extra={"object": str(place[2])})
                self._again_later(place, pending)
            else:
                if place in self._pending:
                    self._line_up(place)

    async def _next(self) -> _Place:
        """Wait for the next status that is due, and dequeue it."""
        loop = asyncio.get_running_loop()
        async with self._choosing:
            while True:
                soonest = None
                for line in self._lines:
                    if (place := next(iter(line), None)) is None:
                        continue
                    due = self._pending[place].due + (0.0 if self._is_calm else LONGEST_DELAY_SECONDS)
                    if due <= loop.time():
                        del line[place]
                        return place
                    soonest = due if soonest is None else min(soonest, due)
                self._wake.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(soonest):
                        await self._wake.wait()

    @property
    def _is_calm(self) -> bool:
        return self._under_way <= self._few

    def _line_up(self, place: _Place) -> None:
        self._lines[0 if place[:2] in _FIRST else 1][place] = None
        self._wake.set()

    def _again_later(self, place: _Place, pending: _Pending) -> None:
        def again() -> None:
            if self._pending.get(place) is pending:  # otherwise the term has ended
                self._line_up(place)

        delay = _RETRY_SECONDS[min(pending.failures, len(_RETRY_SECONDS) - 1)]
        pending.failures += 1
        asyncio.get_running_loop().call_later(delay, again)

    async def _store_status(self, place: _Place, pending: _Pending) -> None:
        """Store one status on top of the newest known version of its object."""
        kind, kind_cache = pending.kind, self.cache.of_kind(pending.kind)
        cached_object = kind_cache.objects.get(place[2])
        # The watch may have brought a newer version, such as a label from a user, while the status was pending. A write
        # over the old version would be a conflict, and without a rebase each retry would repeat it.
        if cached_object is not pending.shown and not self._rebase(pending, cached_object):
            del self._pending[place]
            return
        status_update = pending.shown
        if status_update.get("status", {}) == pending.base.get("status", {}):
            kind_cache.unshow(status_update, pending.base)
            del self._pending[place]
            return
        try:
            async with self._slots.acquire(kind):
                self.writes += 1
                stored_status = await self.store.replace_status(kind, status_update)
        except ConflictError:
            await self._read(kind, place[2])
            raise
        except NotServedError:
            raise
        except NotFoundError:
            kind_cache.drop(status_update)
            if pending.shown is status_update:  # otherwise it belongs to a new object of the same name
                del self._pending[place]
            return
        kind_cache.put(stored_status)
        if pending.shown is status_update:  # otherwise `report` was called during the write
            del self._pending[place]
            return
        pending.due = asyncio.get_running_loop().time() + STATUS_DELAY_SECONDS
        pending.failures = 0
        cached_object = kind_cache.objects.get(place[2])
        if cached_object is not pending.shown and not self._rebase(pending, cached_object):
            del self._pending[place]

    def _rebase(self, pending: _Pending, live: JsonObject | None) -> bool:
        """Move a status to a newer version of its object. Return False if that is deleted or has a new generation.

        Example: the status of binding ``web-1`` was decided for generation 4, and a rollout now stores generation 5.
        A status that reports the old content as applied is dropped: the change enqueues the binding, and its
        reconcile decides again. A change of labels keeps the generation, so the status still holds and moves along.
        """
        if live is None or any(
            live["metadata"].get(member) != pending.base["metadata"].get(member) for member in ("uid", "generation")
        ):
            return False
        pending.base, pending.shown = live, {**live, "status": pending.shown.get("status", {})}
        self.cache.of_kind(pending.kind).show(pending.shown)
        return True

    def _cache_stored(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Cache an object as just stored, with its pending status."""
        kind_cache = self.cache.of_kind(kind)
        kind_cache.put(document)
        pending = self._pending.get((*kind.group_kind, key_of(document)))
        # If the watch was faster than the response, the cache already has a newer version, which is kept.
        if (
            pending is not None
            and kind_cache.objects.get(key_of(document)) is document
            and self._rebase(pending, document)
        ):
            return pending.shown
        return document

    async def _read(self, kind: Kind, key: Key) -> None:
        """Refresh an object after the store contradicted the cache."""
        kind_cache = self.cache.of_kind(kind)
        try:
            kind_cache.put(await self.store.get(kind, key))
        except NotServedError:
            return
        except NotFoundError:
            if (cached_object := kind_cache.objects.get(key)) is not None:
                kind_cache.drop(cached_object)

    @asynccontextmanager
    async def _slot(self, kind: Kind) -> AsyncIterator[None]:
        self._under_way += 1
        try:
            async with self._slots.acquire(kind):
                self.writes += 1
                yield
        finally:
            self._under_way -= 1
            if self._is_calm:
                self._wake.set()


async def run_concurrently(awaitables: Iterable[Awaitable[object]]) -> None:
    """Wait until all awaitables have finished, then raise the first error, if any.

    A bare gather would raise at the first error, and leave the other writes running without an owner.
    """
    results: Sequence[object] = await asyncio.gather(*awaitables, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
