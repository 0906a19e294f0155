"""Objects of a store in memory: list, then watch. Own writes appear immediately.

Handlers are called once per change, on the event loop, with the object before and after. They only enqueue. Objects are
shared and read-only.

Objects remain cached while the store cannot be read. A new list replaces the old contents in one step, after all pages
have arrived, so no reader sees an empty fleet during a relist.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from pydantic import ValidationError

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, MEMBER_CLUSTER, Kind
from scorer.api.meta import JsonObject
from scorer.eligibility import EligibilityLimits
from scorer.fleet import Fleet
from webhook.kube.cache.changes import Handler, ObjectDelta
from webhook.kube.cache.indexer import KindCache, KindCacheSnapshot, Revision, Trim
from webhook.kube.cache.memory import Interner, untracked
from webhook.kube.ports import (
    ExpiredError,
    ForbiddenError,
    Key,
    NotFoundError,
    NotServedError,
    PagedStore,
    Store,
    StoreError,
    UnavailableError,
)

_RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_PASSING_REFUSALS: Final = 4
"""Tolerated number of consecutive refusals of a kind that was listed before: a starting API server may refuse."""
_FOLD_SECONDS: Final = 0.02
"""Debounce of member changes before they are folded into the fleet. A read of the fleet folds immediately.

Not longer, because answers wait while many members are read into columns. Not shorter, because folding copies the
columns.
"""
_FOLDING: Final = 0.2
"""Maximum share of time spent on folding, because an added or deleted member rebuilds all columns."""
_TURN_SECONDS: Final = 0.002
"""Time for processing a backlog of changes before yielding to other tasks."""

log = logging.getLogger(__name__)


class Freshness(NamedTuple):
    """Freshness of one kind, for the metrics.

    Args:
        resource: The kind, as ``plural.group``.
        synced: Whether it has been listed once.
        events: Changes received by the watch.
        relists: Number of relists.
        age_seconds: Time since the store last sent anything, infinite before that.
        behind_seconds: Age of the backlog of unprocessed changes, 0 without a backlog.
    """

    resource: str
    synced: bool
    events: int
    relists: int
    age_seconds: float
    behind_seconds: float = 0.0


class Cache:
    """Caches the kinds of a store, and the fleet built from its member clusters.

    Args:
        store: The cached store.
        limits: Limits for the eligibility of members.
    """

    def __init__(self, store: Store, limits: EligibilityLimits | None = None) -> None:
        self._store = store
        self._kind_caches: dict[tuple[str, str], KindCache] = {}
        self._sharing = Interner()
        self._is_away = False
        """Whether the outage of the store is already logged."""
        self._tasks: asyncio.TaskGroup | None = None
        self.limits = limits or EligibilityLimits()
        self._fleet = Fleet([], limits=self.limits)
        self._changed_members: dict[str, MemberCluster | None] = {}
        self._folding: asyncio.TimerHandle | None = None
        self._fold_took = 0.0
        """Duration of the last fold in seconds."""
        self._was_synced = False
        self._revision = Revision()

    @property
    def revision(self) -> int:
        """Number that increases with every change of any cached object."""
        return self._revision.number

    async def run(self) -> None:
        """Watch all requested kinds until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for kind_cache in self._kind_caches.values():
                kind_cache.watching = tasks.create_task(self._follow(kind_cache.kind, kind_cache))
            tasks.create_task(asyncio.Event().wait())  # keeps the group open for kinds that are requested later

    def require(self, kinds: Iterable[Kind]) -> None:
        """Watch *kinds* as well, and make them required even if another consumer watches them as optional."""
        for kind in kinds:
            self.of_kind(kind).optional = False

    def watch_if_allowed(self, kinds: Iterable[Kind]) -> None:
        """Watch *kinds* as well, if allowed: `synced` does not wait for kinds that this account must not read.

        Kinds that are watched already remain as they are, required or optional.
        """
        for kind in kinds:
            if kind.group_kind not in self._kind_caches:
                self.of_kind(kind).optional = True

    async def wait_synced(self, kinds: Iterable[Kind] | None = None) -> None:
        """Wait until each of *kinds*, by default all watched kinds, has been listed once or is not served."""
        for kind_cache in (
            tuple(self._kind_caches.values()) if kinds is None else [self.of_kind(kind) for kind in kinds]
        ):
            await kind_cache.synced.wait()

    async def wait_answered(self, kinds: Iterable[Kind]) -> None:
        """Wait until each of *kinds* has been listed once, is denied (`refusal`), is not served, or is released."""
        for kind_cache in [self.of_kind(kind) for kind in kinds]:
            await kind_cache.answered.wait()

    async def catch_up(self, kinds: Iterable[Kind]) -> None:
        """List *kinds* again, so that everything written before this call is cached afterwards.

        A watch may lag, and a new leader must see the last writes of its predecessor. Otherwise it would create the
        same objects again. Retries until every list succeeds, except those of kinds without a definition.
        """
        await asyncio.gather(*(self._list(self.of_kind(kind)) for kind in kinds))

    async def _list(self, kind_cache: KindCache) -> None:
        failures = 0
        while True:
            # Before the request: the watch continues during the list. Example: the list is as of version 100, and an
            # event of version 103 arrives before its last page. Compared with 103, the list would seem to come from a
            # restored store, and would overwrite newer objects.
            before = kind_cache.snapshot()
            try:
                items, version = await self._read_all(kind_cache, before)
            except StoreError as error:
                if isinstance(error, NotFoundError) and not await self._is_defined(kind_cache.kind):
                    return
                failures = await self._pause(kind_cache.kind, error, failures)
                continue
            kind_cache.replace_all(items, version, before=before)
            return

    async def _read_all(self, kind_cache: KindCache, before: KindCacheSnapshot) -> tuple[list[JsonObject], str]:
        """Return all objects of a kind in reduced form, and the resource version of the list."""
        if not isinstance(self._store, PagedStore):
            listing = await self._store.list(kind_cache.kind)
            return kind_cache.reduced_page(listing.items, listing.resource_version, before), listing.resource_version
        items: list[JsonObject] = []
        version = ""
        async for page in self._store.pages(kind_cache.kind):
            items += kind_cache.reduced_page(page.items, page.resource_version, before)
            version = page.resource_version
        return items, version

    @property
    def synced(self) -> bool:
        """Whether all kinds have been listed once or are not served. Remains true if another kind is requested later.

        An optional kind also counts after the store has denied reading it.
        """
        self._was_synced = self._was_synced or all(
            (kind_cache.answered if kind_cache.optional else kind_cache.synced).is_set()
            for kind_cache in self._kind_caches.values()
        )
        return self._was_synced

    def freshness(self) -> Iterator[Freshness]:
        """Yield the freshness of every kind."""
        now = time.monotonic()
        for kind_cache in self._kind_caches.values():
            age = max(0.0, now - kind_cache.seen)
            behind = 0.0 if kind_cache.behind_since is None else max(0.0, now - kind_cache.behind_since)
            lists = max(0, kind_cache.lists - 1)
            yield Freshness(kind_cache.kind.resource, kind_cache.synced.is_set(), kind_cache.events, lists, age, behind)

    def shared_bytes(self) -> int:
        """Return the estimated size of the table of interned parts."""
        return self._sharing.bytes

    def of_kind(self, kind: Kind) -> KindCache:
        """Return the cache of *kind*. The kind is watched from then on, while `run` runs."""
        kind_cache = self._kind_caches.get(kind.group_kind)
        if kind_cache is None:
            kind_cache = self._kind_caches[kind.group_kind] = KindCache(kind, self._sharing, self._revision)
            if kind == MEMBER_CLUSTER:
                kind_cache.handlers.append(self._note_member)
            if self._tasks is not None:
                kind_cache.watching = self._tasks.create_task(self._follow(kind, kind_cache))
        return kind_cache

    def watches(self, kind: Kind) -> bool:
        """Return whether *kind* has been requested, and not been released since."""
        return kind.group_kind in self._kind_caches

    def holds_whole(self, kind: Kind) -> bool:
        """Return whether all objects of *kind* are cached untrimmed. Does not start a watch."""
        kind_cache = self._kind_caches.get(kind.group_kind)
        return (
            kind_cache is not None and kind_cache.synced.is_set() and not kind_cache.refusal and kind_cache.trim is None
        )

    def release(self, kind: Kind) -> None:
        """Stop watching *kind* and drop its objects. Handlers are not called."""
        kind_cache = self._kind_caches.pop(kind.group_kind, None)
        if kind_cache is None:
            return
        kind_cache.answered.set()  # releases `wait_answered`, which would otherwise wait forever for a list
        if kind_cache.watching is not None:
            kind_cache.watching.cancel()

    def refusal(self, kind: Kind) -> str:
        """Return why reading *kind* is denied. Empty if it is allowed, not known yet, or the kind is not watched."""
        kind_cache = self._kind_caches.get(kind.group_kind)
        return kind_cache.refusal if kind_cache is not None else ""

    def refusals(self, kinds: Iterable[Kind] = ()) -> list[str]:
        """Return why required kinds cannot be read: those that are not optional, and *kinds*."""
        group_kinds = {kind.group_kind for kind in kinds}
        return [
            kind_cache.refusal
            for group_kind, kind_cache in self._kind_caches.items()
            if kind_cache.refusal and not (kind_cache.optional and group_kind not in group_kinds)
        ]

    def unread(self) -> list[str]:
        """Return the optional kinds that this account must not read, as ``plural.group``."""
        return sorted(
            kind_cache.kind.resource
            for kind_cache in self._kind_caches.values()
            if kind_cache.refusal and kind_cache.optional
        )

    @property
    def answered(self) -> bool:
        """Whether each watched kind has been listed, is denied (`refusal`), or is not served."""
        return all(kind_cache.answered.is_set() for kind_cache in self._kind_caches.values())

    def has_answered(self, kind: Kind) -> bool:
        """Return whether *kind* has been listed, is denied (`refusal`), or is not served."""
        kind_cache = self._kind_caches.get(kind.group_kind)
        return kind_cache is not None and (kind_cache.synced.is_set() or bool(kind_cache.refusal))

    def subscribe(self, kind: Kind, handler: Handler, *, changes_only: bool = False) -> Callable[[], None]:
        """Call *handler* after every change to an object of *kind*. Cached objects come first, as added.

        Args:
            kind: Kind to watch from now on.
            handler: Called with each change.
            changes_only: Skip cached objects and the first list.

        Returns:
            A function that unsubscribes.
        """
        kind_cache = self.of_kind(kind)
        if changes_only:
            listener = handler

            def handler(change: ObjectDelta) -> None:
                if kind_cache.synced.is_set():
                    listener(change)

        else:
            for document in list(kind_cache.objects.values()):
                handler(ObjectDelta(None, document))
        kind_cache.handlers.append(handler)

        def end() -> None:
            with suppress(ValueError):
                kind_cache.handlers.remove(handler)

        return end

    def on_return(self, kind: Kind, tell: Callable[[], None]) -> Callable[[], None]:
        """Call *tell* when a list of *kind* succeeds after failed ones. Return a function that unsubscribes."""
        kind_cache = self.of_kind(kind)
        kind_cache.returned.append(tell)

        def end() -> None:
            with suppress(ValueError):
                kind_cache.returned.remove(tell)

        return end

    def trim(self, kind: Kind, trim: Trim) -> None:
        """Watch *kind*, and keep only the result of *trim* for each object. It must include the metadata."""
        self.of_kind(kind).trim_by(trim)

    def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """Return one object, or None if it is not cached."""
        return self.of_kind(kind).objects.get(Key(name, namespace))

    def labelled(self, kind: Kind, label: str, value: str, namespace: str | None = None) -> list[JsonObject]:
        """Return the objects of *kind* by an indexed label or field, sorted by namespace and name.

        Args:
            kind: Kind of the objects.
            label: One of `INDEXED_LABELS`, or the name of another index of `KindCache.labelled`.
            value: Value of the label.
            namespace: Namespace of the objects. None means all namespaces.
        """
        objects = self.of_kind(kind).labelled.get((label, value))
        if not objects:
            return []
        keys = (key for key in objects if namespace is None or key.namespace == namespace)
        return [objects[key] for key in sorted(keys, key=lambda key: (key.namespace, key.name))]

    def list(self, kind: Kind, namespace: str = "") -> list[JsonObject]:
        """Return the objects of *kind*, optionally of one namespace, sorted by namespace and name."""
        kind_cache = self.of_kind(kind)
        objects = kind_cache.namespaces.get(namespace, {}) if namespace else kind_cache.objects
        return [objects[key] for key in sorted(objects, key=lambda key: (key.namespace, key.name))]

    @property
    def fleet(self) -> Fleet:
        """All member clusters, each in its last valid state."""
        if self._changed_members:
            changes, self._changed_members = self._changed_members, {}
            removed_names = [name for name, member in changes.items() if member is None]
            self._fleet = self._fleet.updated(
                (member for member in changes.values() if member is not None), removed_names
            )
        return self._fleet

    def _note_member(self, change: ObjectDelta) -> None:
        """Parse a member as soon as it changes, so that the next read of the fleet is cheap."""
        if change.new is None:
            self._changed_members[change.document["metadata"]["name"]] = None
        elif (member := read_member(change.new)) is not None:
            self._changed_members[member.metadata.name] = member
        if self._folding is None:
            pause = max(_FOLD_SECONDS, self._fold_took * (1 / _FOLDING - 1))
            self._folding = asyncio.get_running_loop().call_later(pause, self._fold)

    def _fold(self) -> None:
        self._folding = None
        start = time.monotonic()
        _ = self.fleet
        self._fold_took = time.monotonic() - start

    async def _follow(self, kind: Kind, kind_cache: KindCache) -> None:
        failures = refusals = 0
        turn = 0.0
        while True:
            kind_cache.behind_since = None  # a list leaves no backlog
            try:
                before = kind_cache.snapshot()
                kind_cache.tries += 1
                items, version = await self._read_all(kind_cache, before)
                self._answers()
                kind_cache.refusal = ""
                kind_cache.replace_all(items, version, before=before)
                del items  # otherwise a large kind would be in memory twice, as listed and as cached
                was_away, kind_cache.tries = kind_cache.away, 0
                for tell in kind_cache.returned if was_away else ():
                    tell()
                kind_cache.synced.set()
                kind_cache.answered.set()
                failures = refusals = 0
                # Watch from the version of the list, so that no change in between is missed.
                async for event in self._store.watch(kind, version):
                    kind_cache.apply_event(event)
                    if event.more and time.monotonic() - turn > _TURN_SECONDS:
                        # Reading a backlog never suspends. Example: the heartbeats of a large fleet arrive during a
                        # relist. Without this pause, every admission request would wait for the last of them.
                        await asyncio.sleep(0)
                        turn = time.monotonic()
            except NotFoundError as error:
                if not kind_cache.synced.is_set() and await self._is_defined(kind):
                    failures = await self._pause(kind, error, failures)
                    continue
                if not kind_cache.synced.is_set():
                    log.info("kind not served", extra={"resource": kind.resource})
                    kind_cache.synced.set()
                    kind_cache.answered.set()
                await asyncio.sleep(_RETRY_SECONDS[-1])
            except ForbiddenError as error:
                if kind_cache.synced.is_set() and refusals < _PASSING_REFUSALS:
                    refusals = await self._pause(kind, error, refusals)
                    continue
                if not kind_cache.refusal:
                    log.warning("kind not readable", extra={"resource": kind.resource, "error": str(error)})
                kind_cache.refusal = str(error)
                kind_cache.answered.set()
                await asyncio.sleep(_RETRY_SECONDS[-1])
            except ExpiredError:
                log.info("watch expired", extra={"resource": kind.resource})
            except StoreError as error:
                failures = await self._pause(kind, error, failures)
            except Exception as error:  # a bug that one kind triggers must not stop the watches of all others
                log.exception("objects not processed", extra={"resource": kind.resource})
                failures = await self._pause(kind, error, failures)

    async def _pause(self, kind: Kind, error: Exception, failures: int) -> int:
        """Back off before the next attempt, and return the number of failures.

        An unavailable store is logged once, not for every kind and attempt.
        """
        if not isinstance(error, UnavailableError):
            log.warning("watch failed", extra={"resource": kind.resource, "error": str(error)})
        elif not self._is_away:
            self._is_away = True
            log.warning("store not responding", extra={"resource": kind.resource, "error": str(error)})
        await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
        return failures + 1

    def _answers(self) -> None:
        if self._is_away:
            self._is_away = False
            log.warning("store responding again")

    async def _is_defined(self, kind: Kind) -> bool:
        """Return whether a kind that is not served may have a definition, as while an API server starts.

        Only a kind without a definition has no objects. For any other kind, NotFound means that the caller must wait.
        The caller must also wait if the definition cannot be read, or if not even definitions are served: the server
        that answers is then not the API server.
        """
        try:
            await self._store.get(CUSTOM_RESOURCE_DEFINITION, Key(f"{kind.plural}.{kind.group}"))
        except NotServedError:
            return True
        except NotFoundError:
            return False
        except StoreError as error:
            log.warning("definition not read", extra={"resource": kind.resource, "error": str(error)})
        return True


def read_member(document: JsonObject) -> MemberCluster | None:
    """Parse a member cluster, or return None on invalid content, so that its last valid state remains in the fleet."""
    try:
        return untracked(MemberCluster.read(document))
    except ValidationError as error:
        log.warning("read failed", extra={"member": document["metadata"]["name"], "error": str(error)[:1000]})
        return None
