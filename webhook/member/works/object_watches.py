"""Watches on applied objects: a change or deletion by another client enqueues the Work.

The agent watches AppliedWorks and the kinds that the Works hold. It keeps the Works of each object and two checksums of
the object: one of its status and one of all the rest. Works with a kind that the agent has no right to watch are
polled. If the member stops serving the watched version, the watch is restarted on another one.

The agent's own writes trigger a pass, too. That pass writes nothing, and therefore triggers no further one. While
another client keeps reverting the applied state, the passes back off.

Source: docs/specifications/rollout.md 11.7; the reference only polls.
"""

import asyncio
import logging
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from scorer.api.kinds import APPLIED_WORK, KINDS, Kind, split_api_version
from scorer.api.meta import JsonObject, dump_json
from scorer.api.unstructured.documents import is_deleting, list_at, name_of, namespace_of
from scorer.membership.identity import HubMember, is_owned_by
from webhook.kube.ports import EventType, NotFoundError, ServedKinds, Store, StoreError, WatchEvent, key_of
from webhook.member.objects.manifests import ManifestIdentity
from webhook.member.store.reflector import Sleep, follow

Requeue = Callable[[str, float], None]
"""Enqueues the Work of this name after that number of seconds."""

DELETED_SECONDS: Final = 0.1
CHANGED_SECONDS: Final = 0.5
STATUS_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 15.0
"""Debounce delay after a deletion, a change and a change of only the status, and its maximum for repeated changes."""

CALM_SECONDS: Final = 60.0
"""Time without a change after which the debounce is reset."""

FORBIDDEN_SECONDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Backoff after a refusal. Short at first, because a starting API server refuses everything for a while."""

_KINDS_SECONDS: Final = 30.0

NO_MEMBER: Final = HubMember("", "")

_log = logging.getLogger(__name__)


class _Sums(NamedTuple):
    """Checksums of an object: of its status, and of all other content without bookkeeping metadata."""

    rest: int
    status: int


class _Watch:
    """The watch on one kind. Forwards changes to `AppliedObjects`."""

    def __init__(self, kind: Kind, objects: "AppliedObjects") -> None:
        self.kind = kind
        self.forbidden = ""
        self._objects = objects

    def listed(self, items: Sequence[JsonObject]) -> None:
        """Enqueue the Works that hold objects of the kind: changes may have been missed. *items*: all AppliedWorks."""
        self.forbidden = ""
        self._objects.missed(self.kind, items)

    def changed(self, event: WatchEvent) -> None:
        """See `webhook.member.store.reflector.ResourceEventHandler`."""
        self._objects.changed(self.kind, event)

    def failed(self, error: StoreError) -> None:
        """See `webhook.member.store.reflector.ResourceEventHandler`."""
        self.forbidden = str(error)
        if isinstance(error, NotFoundError):
            self._objects.unserved(self.kind)


class AppliedObjects:
    """Tracks the objects that the Works hold, and watches their kinds.

    Args:
        member: Store of the objects.
        served: The kinds that the member serves.
        wake: Enqueues a Work.
        us: The identity of this member. Only its AppliedWorks count as `applied_works`.
        clock: A monotonic clock, in seconds.
        sleep: Sleeps for a number of seconds.
    """

    def __init__(
        self,
        member: Store,
        served: ServedKinds,
        wake: Requeue,
        *,
        us: HubMember = NO_MEMBER,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._member = member
        self._served = served
        self._wake = wake
        self._clock = clock
        self._sleep = sleep
        self._us = us
        self.applied_works: dict[str, int] | None = None
        """Number of objects in each of our AppliedWorks. None: unknown, the member has not listed them yet."""
        self._held: dict[str, frozenset[ManifestIdentity]] = {}
        self._works: dict[ManifestIdentity, dict[str, None]] = defaultdict(dict)
        self._kinds: dict[tuple[str, str], dict[ManifestIdentity, None]] = defaultdict(dict)
        self._sums: dict[ManifestIdentity, _Sums] = {}
        self._recent: dict[tuple[str, bool], tuple[int, float]] = {}
        self._watches: dict[tuple[str, str], tuple[Kind, asyncio.Task[None]]] = {}
        self._unserved: set[Kind] = set()
        self._news = asyncio.Event()
        self._refreshed = float("-inf")

    def hold(self, work: str, manifests: Iterable[object]) -> None:
        """Set the objects that a Work holds."""
        now = frozenset(identity for manifest in manifests if (identity := _identity(manifest)) is not None)
        before = self._held.get(work, frozenset())
        for identity in before - now:
            self._let_go(work, identity)
        for identity in now - before:
            self._works[identity][work] = None
            self._kinds[identity.group, identity.kind][identity] = None
        self._held[work] = now
        if {identity[:2] for identity in now ^ before}:
            self._news.set()

    def forget(self, work: str) -> None:
        """Drop a Work that no longer exists."""
        for identity in self._held.pop(work, ()):
            self._let_go(work, identity)
        for of_status in (True, False):
            self._recent.pop((work, of_status), None)
        self._news.set()

    def _let_go(self, work: str, identity: ManifestIdentity) -> None:
        self._works[identity].pop(work, None)
        if self._works[identity]:
            return
        del self._works[identity]
        self._sums.pop(identity, None)
        group_kind = identity.group, identity.kind
        self._kinds[group_kind].pop(identity, None)
        if not self._kinds[group_kind]:
            del self._kinds[group_kind]

    async def run(self) -> None:
        """Watch the kinds that the Works hold, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(APPLIED_WORK))
            while True:
                # Before the watches are adjusted: `_adjust` awaits, and a change during it needs another round.
                self._news.clear()
                unknown = await self._adjust(group)
                try:
                    async with asyncio.timeout(_KINDS_SECONDS if unknown else None):
                        await self._news.wait()
                except TimeoutError:
                    continue

    async def _adjust(self, group: asyncio.TaskGroup) -> bool:
        """Start and stop watches. Return whether a Work holds a kind that the member does not serve yet."""
        for group_kind in self._watches.keys() - self._kinds.keys():
            self._stop(group_kind)
        unserved_kinds, self._unserved = self._unserved, set()
        if unserved_kinds or any(self._find(group_kind) is None for group_kind in self._missing()):
            await self._refresh()
        for unwatched_kind in unserved_kinds.intersection(self._watched()):
            # Discovery lags: while it still lists the version, the watch keeps retrying.
            if self._find(unwatched_kind.group_kind) != unwatched_kind:
                self._stop(unwatched_kind.group_kind)
        for group_kind in self._missing():
            if (kind := self._find(group_kind)) is not None:
                self._watches[group_kind] = kind, group.create_task(self._follow(kind))
        return bool(self._missing())

    def _missing(self) -> list[tuple[str, str]]:
        """Return the kinds that Works hold and that are not watched."""
        return [group_kind for group_kind in self._kinds if group_kind not in self._watches]

    def _watched(self) -> list[Kind]:
        return [kind for kind, _ in self._watches.values()]

    def _stop(self, group_kind: tuple[str, str]) -> None:
        _, task = self._watches.pop(group_kind)
        task.cancel()

    def _find(self, group_kind: tuple[str, str]) -> Kind | None:
        return self._served.kinds.get(group_kind)

    async def _refresh(self) -> None:
        """Refresh the member's kinds, throttled. A failure is logged."""
        if self._clock() - self._refreshed < _KINDS_SECONDS / 10:
            return
        self._refreshed = self._clock()
        try:
            await self._served.refresh()
        except StoreError as error:
            _log.warning("discovery of the member's kinds failed", extra={"error": str(error)})

    async def _follow(self, kind: Kind) -> None:
        await follow(
            self._member,
            kind,
            _Watch(kind, self),
            changes_only=kind != APPLIED_WORK,
            refused_seconds=FORBIDDEN_SECONDS,
            sleep=self._sleep,
        )

    def unserved(self, kind: Kind) -> None:
        """Record that the member does not serve the watched version of *kind*, so that `run` finds another one."""
        if kind in self._watched():
            self._unserved.add(kind)
            self._news.set()

    def missed(self, kind: Kind, items: Sequence[JsonObject] = ()) -> None:
        """Enqueue all Works that hold objects of *kind*: the watch may have missed changes to them.

        Args:
            kind: The kind of the objects.
            items: All AppliedWorks if *kind* is AppliedWork, otherwise empty. An AppliedWork that is being deleted may
                belong to a Work that no longer exists, so its name is enqueued as well.
        """
        if kind == APPLIED_WORK:
            self.applied_works = {name_of(item): _size(item) for item in items if self._stays(item)}
            works = dict.fromkeys([*self._held, *(name_of(item) for item in items if is_deleting(item))])
        else:
            works = dict.fromkeys(
                work for identity in self._kinds.get(kind.group_kind, ()) for work in self._works[identity]
            )
        for work in works:
            self._wake(work, CHANGED_SECONDS)

    def changed(self, kind: Kind, event: WatchEvent) -> None:
        """Enqueue the Works that hold a changed object, or the Work of a deleted AppliedWork."""
        key = key_of(event.document)
        is_deleted = event.type is EventType.DELETED
        if kind == APPLIED_WORK:
            if self.applied_works is not None:
                self.applied_works.pop(key.name, None)
                if not is_deleted and self._stays(event.document):
                    self.applied_works[key.name] = _size(event.document)
            if (is_deleted and key.name in self._held) or is_deleting(event.document):
                self._wake_soon(key.name, DELETED_SECONDS)
            return
        identity = ManifestIdentity(kind.group, kind.kind, key.namespace, key.name)
        works = self._works.get(identity)
        if not works:
            return
        if is_deleted:
            self._sums.pop(identity, None)
            seconds = DELETED_SECONDS
        else:
            sums, before = _sums(event.document), self._sums.get(identity)
            self._sums[identity] = sums
            if sums == before:
                return
            seconds = STATUS_SECONDS if before is not None and sums.rest == before.rest else CHANGED_SECONDS
        for work in works:
            self._wake_soon(work, seconds)

    def _stays(self, applied_work: JsonObject) -> bool:
        return is_owned_by(applied_work, self._us) and not is_deleting(applied_work)

    def _wake_soon(self, work: str, seconds: float) -> None:
        """Enqueue a Work after *seconds*, or later if recent changes have already enqueued it repeatedly."""
        now, entry = self._clock(), (work, seconds == STATUS_SECONDS)
        count, last = self._recent.get(entry, (0, float("-inf")))
        if now - last > CALM_SECONDS:
            count = 0
        wait = min(seconds * 2 ** max(0, count - 3), LONGEST_SECONDS)
        if now - last > wait or not count:
            self._recent[entry] = count + 1, now
        self._wake(work, wait)


def _identity(manifest: object) -> ManifestIdentity | None:
    """Return the object that a manifest names, or None if it cannot be parsed."""
    if not isinstance(manifest, Mapping):
        return None
    group, _ = split_api_version(str(manifest.get("apiVersion") or ""))
    kind, name = str(manifest.get("kind") or ""), name_of(manifest)
    builtin = KINDS.get((group, kind))
    namespace = "" if builtin is not None and not builtin.namespaced else namespace_of(manifest)
    return ManifestIdentity(group, kind, namespace, name) if kind and name else None


def _size(applied_work: JsonObject) -> int:
    return len(list_at(applied_work, "status", "appliedResources"))


def _sums(document: Mapping[str, Any]) -> _Sums:
    """Return the checksums of an object, without the metadata that changes with every write."""
    metadata = {
        name: value
        for name, value in document["metadata"].items()
        if name not in {"resourceVersion", "generation", "managedFields"}
    }
    rest = {name: value for name, value in document.items() if name not in {"metadata", "status"}}
    return _Sums(zlib.crc32(dump_json([metadata, rest])), zlib.crc32(dump_json(document.get("status"))))
