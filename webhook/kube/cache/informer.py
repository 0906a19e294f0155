"""The objects of a store in memory: listed once, then watched; our own writes go in at once.

Handlers are called once per change, on the event loop, with the object before and after; they only enqueue. Objects
are shared and read-only.

What is known stays known while the store cannot be read: a new list replaces the old contents in one step, and only
once all of it has arrived. So no reader ever sees an empty fleet just because it is being listed again.
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
"""How often in a row the store may refuse a kind that was listed before: an API server that starts does for a while."""
_FOLD_SECONDS: Final = 0.02
"""How long reports of members are collected before they go into the fleet together; a reader of the fleet ends that.

Short, as answers wait meanwhile, for so many members to be read into columns; not shorter, as the columns are copied.
"""
_FOLDING: Final = 0.2
"""Which part of the time goes into that at most: where members come or go, all columns are made anew."""
_TURN_SECONDS: Final = 0.002
"""How long changes are taken in, when many have arrived, until other tasks have their turn."""

log = logging.getLogger(__name__)


class Freshness(NamedTuple):
    """How one kind is doing: for the metrics.

    Args:
        resource: Its resource and group.
        synced: Whether it has been listed once.
        events: Changes that the watch has brought.
        relists: How often it was listed again.
        age_seconds: Time since the store last sent anything; infinite before that.
        behind_seconds: Time since everything that had arrived was taken in; 0 when it is.
    """

    resource: str
    synced: bool
    events: int
    relists: int
    age_seconds: float
    behind_seconds: float = 0.0


class Cache:
    """Keeps shelves filled from a store, and the fleet made of the member clusters on them.

    Args:
        store: What is cached.
        limits: What eligibility is judged by.
    """

    def __init__(self, store: Store, limits: EligibilityLimits | None = None) -> None:
        self._store = store
        self._shelves: dict[tuple[str, str], KindCache] = {}
        self._sharing = Interner()
        self._is_away = False
        """Whether the log says already that the store does not answer."""
        self._tasks: asyncio.TaskGroup | None = None
        self.limits = limits or EligibilityLimits()
        self._fleet = Fleet([], limits=self.limits)
        self._changed_members: dict[str, MemberCluster | None] = {}
        self._folding: asyncio.TimerHandle | None = None
        self._fold_took = 0.0
        """Seconds, the last time."""
        self._was_synced = False
        self._revision = Revision()

    @property
    def revision(self) -> int:
        """Grows with every change of any object."""
        return self._revision.number

    async def run(self) -> None:
        """Watch the kinds asked for until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for shelf in self._shelves.values():
                shelf.watching = tasks.create_task(self._follow(shelf.kind, shelf))
            tasks.create_task(asyncio.Event().wait())  # keeps the group open for kinds that are asked for later

    def require(self, kinds: Iterable[Kind]) -> None:
        """Watch *kinds* as well; who only wants one of them does not make it optional."""
        for kind in kinds:
            self.of_kind(kind).optional = False

    def watch_if_allowed(self, kinds: Iterable[Kind]) -> None:
        """Watch *kinds* as well, if we may: `synced` does not wait for the right to read them."""
        for kind in kinds:
            if kind.group_kind not in self._shelves:
                self.of_kind(kind).optional = True

    async def wait_synced(self, kinds: Iterable[Kind] | None = None) -> None:
        """Wait until *kinds*, all by default, have been listed once."""
        for shelf in tuple(self._shelves.values()) if kinds is None else [self.of_kind(kind) for kind in kinds]:
            await shelf.synced.wait()

    async def wait_answered(self, kinds: Iterable[Kind]) -> None:
        """Wait until each of *kinds* has been listed once, or `refusal` says why it cannot be."""
        for shelf in [self.of_kind(kind) for kind in kinds]:
            await shelf.answered.wait()

    async def catch_up(self, kinds: Iterable[Kind]) -> None:
        """List *kinds* once more, so that everything written before this call is known after it.

        A watch may be a little behind, and a new leader has to know the last writes of the one before: else it would
        create again what that has just created. Retries until the store answers.
        """
        await asyncio.gather(*(self._list(self.of_kind(kind)) for kind in kinds))

    async def _list(self, shelf: KindCache) -> None:
        failures = 0
        while True:
            # Before the request: the watch goes on meanwhile, and what it brings must not make the list look older than
            # what was known when it was asked for, as that of a restored store does.
            before = shelf.snapshot()
            try:
                items, version = await self._read_all(shelf, before)
            except StoreError as error:
                if isinstance(error, NotFoundError) and not await self._is_defined(shelf.kind):
                    return
                failures = await self._pause(shelf.kind, error, failures)
                continue
            shelf.replace_all(items, version, before=before)
            return

    async def _read_all(self, shelf: KindCache, before: KindCacheSnapshot) -> tuple[list[JsonObject], str]:
        """Return what is kept of all objects of a kind, and the version of the list."""
        if not isinstance(self._store, PagedStore):
            listing = await self._store.list(shelf.kind)
            return shelf.reduced_page(listing.items, listing.resource_version, before), listing.resource_version
        items: list[JsonObject] = []
        version = ""
        async for page in self._store.pages(shelf.kind):
            items += shelf.reduced_page(page.items, page.resource_version, before)
            version = page.resource_version
        return items, version

    @property
    def synced(self) -> bool:
        """Whether all kinds have been listed once; stays true when another kind is asked for later.

        For an optional kind it is enough that the store has refused to let us read it.
        """
        self._was_synced = self._was_synced or all(
            (shelf.answered if shelf.optional else shelf.synced).is_set() for shelf in self._shelves.values()
        )
        return self._was_synced

    def freshness(self) -> Iterator[Freshness]:
        """Yield how every kind is doing."""
        now = time.monotonic()
        for shelf in self._shelves.values():
            age = max(0.0, now - shelf.seen)
            behind = 0.0 if shelf.behind_since is None else max(0.0, now - shelf.behind_since)
            lists = max(0, shelf.lists - 1)
            yield Freshness(shelf.kind.resource, shelf.synced.is_set(), shelf.events, lists, age, behind)

    def shared_bytes(self) -> int:
        """Return the estimated size of the table of parts that objects share."""
        return self._sharing.bytes

    def of_kind(self, kind: Kind) -> KindCache:
        """Return the shelf of *kind*, which is watched from then on."""
        shelf = self._shelves.get(kind.group_kind)
        if shelf is None:
            shelf = self._shelves[kind.group_kind] = KindCache(kind, self._sharing, self._revision)
            if kind == MEMBER_CLUSTER:
                shelf.handlers.append(self._note_member)
            if self._tasks is not None:
                shelf.watching = self._tasks.create_task(self._follow(kind, shelf))
        return shelf

    def watches(self, kind: Kind) -> bool:
        """Say whether *kind* is watched."""
        return kind.group_kind in self._shelves

    def holds_whole(self, kind: Kind) -> bool:
        """Say whether all objects of *kind* are here, each with all that it has; nothing is watched for asking."""
        shelf = self._shelves.get(kind.group_kind)
        return shelf is not None and shelf.synced.is_set() and not shelf.refusal and shelf.trim is None

    def release(self, kind: Kind) -> None:
        """Stop watching *kind* and forget its objects; handlers are not told."""
        shelf = self._shelves.pop(kind.group_kind, None)
        if shelf is None:
            return
        shelf.answered.set()  # ends `wait_answered`, which would wait without end: no list will come for this shelf
        if shelf.watching is not None:
            shelf.watching.cancel()

    def refusal(self, kind: Kind) -> str:
        """Return why the store does not let us read *kind*; empty when it does, or has not been asked yet."""
        shelf = self._shelves.get(kind.group_kind)
        return shelf.refusal if shelf is not None else ""

    def refusals(self, kinds: Iterable[Kind] = ()) -> list[str]:
        """Return why the store does not let us read required kinds: those that are not optional, and *kinds*."""
        group_kinds = {kind.group_kind for kind in kinds}
        return [
            shelf.refusal
            for group_kind, shelf in self._shelves.items()
            if shelf.refusal and not (shelf.optional and group_kind not in group_kinds)
        ]

    def unread(self) -> list[str]:
        """Return the kinds, as ``plural.group``, that would be read if the store let us, and are done without."""
        return sorted(shelf.kind.resource for shelf in self._shelves.values() if shelf.refusal and shelf.optional)

    def has_answered(self, kind: Kind) -> bool:
        """Say whether *kind* has been listed, or `refusal` says why it cannot be."""
        shelf = self._shelves.get(kind.group_kind)
        return shelf is not None and (shelf.synced.is_set() or bool(shelf.refusal))

    def subscribe(self, kind: Kind, handler: Handler, *, changes_only: bool = False) -> Callable[[], None]:
        """Call *handler* after every change of an object of *kind*; what is there already comes first, as new.

        Args:
            kind: What to follow; it is watched from then on.
            handler: Told of each change.
            changes_only: Not for what is there already, nor for what the first list brings.

        Returns:
            What ends that.
        """
        shelf = self.of_kind(kind)
        if changes_only:
            listener = handler

            def handler(change: ObjectDelta) -> None:
                if shelf.synced.is_set():
                    listener(change)

        else:
            for document in list(shelf.objects.values()):
                handler(ObjectDelta(None, document))
        shelf.handlers.append(handler)

        def end() -> None:
            with suppress(ValueError):
                shelf.handlers.remove(handler)

        return end

    def on_return(self, kind: Kind, tell: Callable[[], None]) -> Callable[[], None]:
        """Call *tell* whenever *kind* can be read again after it could not be; returns what ends that."""
        shelf = self.of_kind(kind)
        shelf.returned.append(tell)

        def end() -> None:
            with suppress(ValueError):
                shelf.returned.remove(tell)

        return end

    def trim(self, kind: Kind, trim: Trim) -> None:
        """Watch *kind*, and keep of each object only what *trim* returns; its metadata has to be in it."""
        self.of_kind(kind).trim_by(trim)

    def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """Return one object, None when there is none."""
        return self.of_kind(kind).objects.get(Key(name, namespace))

    def labelled(self, kind: Kind, label: str, value: str, namespace: str | None = None) -> list[JsonObject]:
        """Return the objects of *kind* with one of the indexed labels, by namespace and name."""
        objects = self.of_kind(kind).labelled.get((label, value), {})
        keys = (key for key in objects if namespace is None or key.namespace == namespace)
        return [objects[key] for key in sorted(keys, key=lambda key: (key.namespace, key.name))]

    def list(self, kind: Kind, namespace: str = "") -> list[JsonObject]:
        """Return the objects of *kind*, of one namespace when it is given, by namespace and name."""
        shelf = self.of_kind(kind)
        objects = shelf.namespaces.get(namespace, {}) if namespace else shelf.objects
        return [objects[key] for key in sorted(objects, key=lambda key: (key.namespace, key.name))]

    @property
    def fleet(self) -> Fleet:
        """All member clusters as they are now."""
        if self._changed_members:
            changes, self._changed_members = self._changed_members, {}
            removed_names = [name for name, member in changes.items() if member is None]
            self._fleet = self._fleet.updated(
                (member for member in changes.values() if member is not None), removed_names
            )
        return self._fleet

    def _note_member(self, change: ObjectDelta) -> None:
        """Read a member as soon as it changes, so that the next reader of the fleet finds little left to do."""
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

    async def _follow(self, kind: Kind, shelf: KindCache) -> None:
        failures = refusals = 0
        turn = 0.0
        while True:
            shelf.behind_since = None  # with the list all is known
            try:
                before = shelf.snapshot()
                shelf.tries += 1
                items, version = await self._read_all(shelf, before)
                self._answers()
                shelf.refusal = ""
                shelf.replace_all(items, version, before=before)
                del items  # else a kind of many objects would be held twice, as it was listed and as it is now
                was_away, shelf.tries = shelf.away, 0
                for tell in shelf.returned if was_away else ():
                    tell()
                shelf.synced.set()
                shelf.answered.set()
                failures = refusals = 0
                # From the version of the list on, so that no change between list and watch is missed.
                async for event in self._store.watch(kind, version):
                    shelf.apply_event(event)
                    if event.more and time.monotonic() - turn > _TURN_SECONDS:
                        # What has arrived is read without a pause: questions would wait until all of a storm is taken.
                        await asyncio.sleep(0)
                        turn = time.monotonic()
            except NotFoundError as error:
                if not shelf.synced.is_set() and await self._is_defined(kind):
                    failures = await self._pause(kind, error, failures)
                    continue
                if not shelf.synced.is_set():
                    log.info("not served by the hub", extra={"resource": kind.resource})
                    shelf.synced.set()
                    shelf.answered.set()
                await asyncio.sleep(_RETRY_SECONDS[-1])
            except ForbiddenError as error:
                if shelf.synced.is_set() and refusals < _PASSING_REFUSALS:
                    refusals = await self._pause(kind, error, refusals)
                    continue
                if not shelf.refusal:
                    log.warning("not allowed to read", extra={"resource": kind.resource, "error": str(error)})
                shelf.refusal = str(error)
                shelf.answered.set()
                await asyncio.sleep(_RETRY_SECONDS[-1])
            except ExpiredError:
                log.info("watch expired, listing again", extra={"resource": kind.resource})
            except StoreError as error:
                failures = await self._pause(kind, error, failures)
            except Exception as error:  # a bug that one kind brings to light must not end the watches of all the others
                log.exception("cannot process objects", extra={"resource": kind.resource})
                failures = await self._pause(kind, error, failures)

    async def _pause(self, kind: Kind, error: Exception, failures: int) -> int:
        """Wait before the next attempt, longer each time; return the number of failures.

        That the store does not answer is logged once, not for every kind and attempt.
        """
        if not isinstance(error, UnavailableError):
            log.warning("cannot watch", extra={"resource": kind.resource, "error": str(error)})
        elif not self._is_away:
            self._is_away = True
            log.warning("the store does not answer", extra={"resource": kind.resource, "error": str(error)})
        await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
        return failures + 1

    def _answers(self) -> None:
        if self._is_away:
            self._is_away = False
            log.warning("the store answers again")

    async def _is_defined(self, kind: Kind) -> bool:
        """Say whether the hub defines a kind that it does not serve, as an API server that starts does for a while.

        Only a kind without a definition has no objects; for any other, not found means that we have to wait. The same
        holds when not even definitions are served: then what answers is no API server.
        """
        try:
            await self._store.get(CUSTOM_RESOURCE_DEFINITION, Key(f"{kind.plural}.{kind.group}"))
        except NotServedError:
            return True
        except NotFoundError:
            return False
        except StoreError as error:
            log.warning("cannot read the definition", extra={"resource": kind.resource, "error": str(error)})
        return True


def read_member(document: JsonObject) -> MemberCluster | None:
    """Read a member cluster; None when it cannot be read, so that its last good state stays in the fleet."""
    try:
        return untracked(MemberCluster.read(document))
    except ValidationError as error:
        log.warning("cannot read", extra={"member": document["metadata"]["name"], "error": str(error)[:1000]})
        return None
