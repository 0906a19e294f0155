"""The hub as a controller sees it: it reads from the cache, writes to the store, and sees its own writes at once.

One process writes for a placement at a time (the leader), so the cache plus its own writes is as good as reading the
API server: the very next read sees a binding that was just created. When the store disagrees, by a conflict or because
an object exists already, that object is read at once, so that the next attempt begins with the truth even while the
watch is broken.

Statuses are stored behind: `report` shows them in the cache at once and stores them a little later, several changes of
one object in one write, and after the writes that others wait for; those of placements, which people read, before those
that they sum up. Every status can be derived again from what is stored, so a process that ends before has lost nothing.
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
"""How long changes of one status are collected into one write."""
LONGEST_DELAY_SECONDS: Final = 5.0
"""How long a status waits at most while many other writes are under way: controllers wait for those, not for it."""
_FIRST: Final = frozenset(family.placement.group_kind for family in FAMILIES)
"""Kinds whose statuses are stored before all others."""
_RETRY_SECONDS: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pending:
    """A status that is not stored yet.

    Args:
        kind: Of the object.
        base: The object as it is stored, as far as is known; *shown* is it with the status.
        shown: The object as the cache shows it.
        due: When to store it, in the loop's time.
        failures: Attempts that failed.
    """

    kind: Kind
    base: JsonObject
    shown: JsonObject
    due: float
    failures: int = 0


_Place = tuple[str, str, Key]
"""Where a pending status belongs: group, kind and key of its object."""


class Hub:
    """Store and cache as one.

    Args:
        store: Where everything is kept.
        cache: What is known of it.
        slots: How many writes may be under way, of all that share them; None: as many as usual, of this one alone.
    """

    def __init__(self, store: Store, cache: Cache, slots: WriteSlots | None = None) -> None:
        self.store = store
        self.cache = cache
        self.writes = 0
        """How many writes were sent; a second reconcile of anything adds none."""
        self._slots = slots or WriteSlots(WRITE_CONCURRENCY)
        self._few = self._slots.number // 4
        """With no more writes under way than this, statuses hold up none."""
        self._under_way = 0
        """Writes that are under way or wait for their turn, statuses left out."""
        self._pending: dict[_Place, _Pending] = {}
        self._lines: tuple[dict[_Place, None], dict[_Place, None]] = ({}, {})
        """Those of them that no writer has: statuses of placements, and all others; each in the order of arrival."""
        self._choosing = asyncio.Lock()
        self._wake = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether every status that was reported is stored."""
        return not self._pending

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store a new object. Raises as the store does; an object that exists already is read."""
        try:
            async with self._slot(kind):
                return self._known(kind, await self.store.create(kind, document))
        except AlreadyExistsError:
            await self._read(kind, key_of(document))
            raise

    async def replace(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store an object over the version it was read at. Raises as the store does; after a conflict it is read.

        For objects that are made here. One that users write is `amend`-ed.
        """
        return await self._over(kind, document, self.store.replace)

    async def amend(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store the metadata of an object, over the version it was read at: see `Store.replace_metadata`.

        Raises as the store does; after a conflict the object is read.
        """
        return await self._over(kind, document, self.store.replace_metadata)

    async def store_status(self, kind: Kind, document: JsonObject, status: JsonObject) -> JsonObject:
        """Store the status of an object now, over the version it was read at.

        For a status that what comes next relies on, and that nobody else writes; others are `report`-ed. Raises as the
        store does; after a conflict the object is read.
        """
        return await self._over(kind, {**document, "status": status}, self.store.replace_status)

    async def _over(
        self, kind: Kind, document: JsonObject, write: Callable[[Kind, JsonObject], Awaitable[JsonObject]]
    ) -> JsonObject:
        try:
            async with self._slot(kind):
                return self._known(kind, await write(kind, document))
        except ConflictError:
            await self._read(kind, key_of(document))
            raise
        except NotServedError:  # says nothing about the object, so the cache keeps it
            raise
        except NotFoundError:
            self.cache.of_kind(kind).drop(document)
            raise

    async def delete(self, kind: Kind, document: JsonObject, *, this_version: bool = False) -> None:
        """Delete an object; one that is gone already is fine.

        Args:
            kind: Its kind.
            document: As it was read.
            this_version: Only if no client has written it since. Otherwise `ConflictError`, and it is read again.
        """
        metadata, key = document["metadata"], key_of(document)
        version = metadata.get("resourceVersion", "") if this_version else ""
        try:
            async with self._slot(kind):
                # By uid in any case: an object of that name that was created since is another one.
                await self.store.delete(kind, key, uid=metadata.get("uid", ""), resource_version=version)
                # Finalizers may hold it: then the next read of the cache has to see that it is being deleted.
                self.cache.of_kind(kind).put(await self.store.get(kind, key))
        except ConflictError:
            await self._read(kind, key)
            raise
        except NotServedError:
            raise
        except NotFoundError:
            self.cache.of_kind(kind).drop(document)

    async def carry_out(self, kind: Kind, writes: Iterable[Write]) -> None:
        """Do what a plan asks for, in its order; an object that exists already was created by an earlier attempt."""
        for write in writes:
            await self._carry_out(kind, write)

    async def carry_out_concurrently(self, kind: Kind, writes: Iterable[Write]) -> None:
        """Do what a plan asks for, all at once: no write depends on another. Raises the first error, after the last."""
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
        """Set the status of an object, and return the object with it.

        Nothing happens when it has that status already, nor when its uid or generation is another by now: the status
        was decided for what the object was, and the change wakes its controller to decide again.

        Args:
            kind: Its kind.
            document: As it was when the status was decided.
            status: The whole of it.
            tells_failures: The conditions of failing controllers are as in *status*, too; else they stay as they are.
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
            if cached_object is not pending.shown:  # the watch or a write has brought a newer version since
                pending.base = cached_object
            pending.shown = update
        self.cache.of_kind(kind).show(update)
        return update

    async def run(self) -> None:
        """Store reported statuses until cancelled; what is not stored by then is taken out of the cache again."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(STATUS_WRITERS):
                    tasks.create_task(self._store_statuses())
        finally:
            # The cache outlives the term: in the next one these would pass for stored, and never be.
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
                log.warning("cannot store a status", extra={"object": str(place[2]), "error": str(error)})
                self._again_later(place, pending)
            except Exception:  # one status that cannot be sent must not end the loop: logged with the traceback
                log.exception("cannot store a status", extra={"object": str(place[2])})
                self._again_later(place, pending)
            else:
                if place in self._pending:
                    self._line_up(place)

    async def _next(self) -> _Place:
        """Take the next status out of line that is to be stored now; wait until there is one."""
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
            if self._pending.get(place) is pending:  # else the term has ended
                self._line_up(place)

        delay = _RETRY_SECONDS[min(pending.failures, len(_RETRY_SECONDS) - 1)]
        pending.failures += 1
        asyncio.get_running_loop().call_later(delay, again)

    async def _store_status(self, place: _Place, pending: _Pending) -> None:
        """Store one status over the newest version of its object that is known."""
        kind, shelf = pending.kind, self.cache.of_kind(pending.kind)
        cached_object = shelf.objects.get(place[2])
        # The watch may have brought a newer version since: writing over the old one would only be a conflict.
        if cached_object is not pending.shown and not self._rebase(pending, cached_object):
            del self._pending[place]
            return
        status_update = pending.shown
        if status_update.get("status", {}) == pending.base.get("status", {}):
            shelf.unshow(status_update, pending.base)
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
            shelf.drop(status_update)
            if pending.shown is status_update:  # else it is that of a new object of the same name
                del self._pending[place]
            return
        shelf.put(stored_status)
        if pending.shown is status_update:  # else `report` was called while the write was under way
            del self._pending[place]
            return
        pending.due = asyncio.get_running_loop().time() + STATUS_DELAY_SECONDS
        pending.failures = 0
        cached_object = shelf.objects.get(place[2])
        if cached_object is not pending.shown and not self._rebase(pending, cached_object):
            del self._pending[place]

    def _rebase(self, pending: _Pending, live: JsonObject | None) -> bool:
        """Put a status on a newer version of its object; False: its uid or generation is another, so is its status."""
        if live is None or any(
            live["metadata"].get(member) != pending.base["metadata"].get(member) for member in ("uid", "generation")
        ):
            return False
        pending.base, pending.shown = live, {**live, "status": pending.shown.get("status", {})}
        self.cache.of_kind(pending.kind).show(pending.shown)
        return True

    def _known(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Take in an object as it was just stored, with the status that is still to be stored."""
        shelf = self.cache.of_kind(kind)
        shelf.put(document)
        pending = self._pending.get((*kind.group_kind, key_of(document)))
        # If the watch was faster than the answer, the shelf has kept a newer version: that is left alone.
        if pending is not None and shelf.objects.get(key_of(document)) is document and self._rebase(pending, document):
            return pending.shown
        return document

    async def _read(self, kind: Kind, key: Key) -> None:
        """Read an object that the store says is not as we know it."""
        shelf = self.cache.of_kind(kind)
        try:
            shelf.put(await self.store.get(kind, key))
        except NotServedError:
            return
        except NotFoundError:
            if (cached_object := shelf.objects.get(key)) is not None:
                shelf.drop(cached_object)

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


async def run_concurrently(doings: Iterable[Awaitable[object]]) -> None:
    """Wait for all of them, whatever becomes of each; then raise the first error, if there was one.

    A bare gather would raise at the first error, and leave the other writes to go on without an owner.
    """
    results: Sequence[object] = await asyncio.gather(*doings, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
