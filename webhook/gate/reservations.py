"""Reservations on Leases: read, decide, and write with the resource version that was read.

The resource version is the lock for all replicas.

A change never relies on the cache: it reads the Lease itself. The watch, which covers only the namespace of the
installation, serves questions.

Source: docs/specifications/serving.md 3.1.
"""

import asyncio
import logging
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, TypeVar

from scorer.api.kinds import LEASE, Kind
from scorer.api.meta import JsonObject
from scorer.reservations import (
    Reservation,
    Thing,
    UnreadableReservationsError,
    in_force,
    lease_name,
    lease_of,
    new_lease,
    read_reservations,
    reservation_id,
    thing_of,
    with_reservations,
)
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    Key,
    Listing,
    NotFoundError,
    Store,
    StoreError,
    UnavailableError,
    WatchEvent,
    key_of,
)

Held = tuple[Reservation, ...]
Decide = Callable[[Held], Held | None]
"""Returns the desired reservations, given the active ones. None if nothing is written."""
Look = Callable[[], Awaitable[None]]
"""Refreshes the inputs of a decision."""


async def _look_nowhere() -> None:
    """Refresh nothing, for a decision that depends only on the reservations."""


MOST_ATTEMPTS: Final = 40
"""Maximum number of attempts of one change, with jittered backoff up to `LONGEST_PAUSE`."""
SHORTEST_PAUSE: Final = 0.005
LONGEST_PAUSE: Final = 0.25
CALL_SECONDS: Final = 5.0
SWEEP_SECONDS: Final = 60.0
"""Interval at which Leases are deleted whose reservations have all expired."""
_SECRET_BYTES: Final = 16

_T = TypeVar("_T")

log = logging.getLogger(__name__)


def new_id(gate: str, thing: str) -> str:
    """Return an unguessable id for a reservation of *thing*."""
    return reservation_id(gate, thing, secrets.token_hex(_SECRET_BYTES))


class BusyError(StoreError):
    """Other clients keep changing the same Lease. A later retry may help."""


class LeaseReservations:
    """The reservations of all replicas.

    Args:
        store: Store of the Leases.
        namespace: Namespace of the Leases.
        now: The clock that decides about expiry.
    """

    def __init__(self, store: Store, namespace: str, now: Callable[[], datetime]) -> None:
        self._store = store
        self._namespace = namespace
        self._now = now
        self._cache = Cache(_InNamespace(store, namespace))
        self._cache.require((LEASE,))
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}
        self._written: dict[str, tuple[JsonObject, Held]] = {}
        """Leases by name as last parsed, with their reservations."""
        self._cache.subscribe(LEASE, self._forget)

    async def run(self) -> None:
        """Watch the Leases, and delete those whose reservations have all expired, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cache.run(), name="reservations")
            tasks.create_task(self._sweep(), name="expired reservations")

    @property
    def refusal(self) -> str:
        """Reason why reading the Leases is denied, empty if it is not."""
        return self._cache.refusal(LEASE)

    @property
    def synced(self) -> bool:
        """Whether the Leases have been listed, or `refusal` has a reason."""
        return self._cache.has_answered(LEASE)

    def subscribe(self, handler: Callable[[Thing], None]) -> Callable[[], None]:
        """Call *handler* with each object whose reservations change. Return the unsubscriber."""

        def changed(change: ObjectDelta) -> None:
            try:
                thing = thing_of(change.document)
            except ValueError:
                return
            if thing is not None:
                handler(thing)

        return self._cache.subscribe(LEASE, changed)

    def cached(self, gate: str, thing: str) -> Held:
        """Return the active reservations of an object, according to the cache.

        Raises:
            UnreadableReservationsError: The Lease is invalid.
        """
        lease = self._cache.get(LEASE, lease_name(gate, thing), self._namespace)
        return () if lease is None else self._known(lease)

    def all_cached(self) -> tuple[tuple[tuple[Thing, Held], ...], tuple[str, ...]]:
        """Return all active reservations by object, according to the cache, and errors for unreadable ones."""
        things: list[tuple[Thing, Held]] = []
        mistakes: list[str] = []
        for lease in self._cache.list(LEASE, self._namespace):
            try:
                thing = thing_of(lease)
                if thing is not None and (reservations := self._known(lease)):
                    things.append((thing, reservations))
            except UnreadableReservationsError as error:
                mistakes.append(str(error))
        return tuple(sorted(things)), tuple(sorted(mistakes))

    async def change(self, gate: str, thing: str, decide: Decide, look: Look = _look_nowhere) -> Held:
        """Change the reservations of an object.

        Args:
            gate: Gate of the object.
            thing: Name of the object at that gate.
            decide: Called with the active reservations, again in each attempt after a conflict. Its exceptions
                propagate. If an earlier attempt was stored and its answer lost, *decide* finds its own reservation
                among them.
            look: Called in each attempt after the Lease was read, and before *decide*. So it sees every change made
                under a reservation that is no longer in the Lease.

        Returns:
            The active reservations afterwards.

        Raises:
            UnreadableReservationsError: The Lease is invalid. *decide* is not called.
            TooManyReservationsError: The reservations do not fit into the Lease.
            StoreError: The Lease cannot be read or written.
        """
        name = lease_name(gate, thing)
        return await self._change(name, lambda _thing, held: decide(held), Thing(gate, thing), look)

    async def change_one(self, identity: str, decide: Callable[[Thing, Held], Held | None]) -> Held:
        """Change the reservations on the Lease of this id, as `change`.

        *decide* is not called if *identity* is malformed or the Lease does not exist: then no reservation is active.
        """
        name = lease_of(identity)
        return await self._change(name, decide, None) if name else ()

    async def _change(
        self,
        name: str,
        decide: Callable[[Thing, Held], Held | None],
        new: Thing | None,
        look: Look = _look_nowhere,
    ) -> Held:
        async with self._turn(name):
            for attempt in range(MOST_ATTEMPTS):
                if attempt:
                    await asyncio.sleep(_pause(attempt))
                try:
                    return await self._attempt(name, decide, new, look)
                except (ConflictError, AlreadyExistsError):
                    continue  # another replica wrote first, or a write of this one was stored and its answer was lost
        raise BusyError(f"conflict: other clients keep changing the Lease {self._namespace}/{name}")

    async def _attempt(
        self, name: str, decide: Callable[[Thing, Held], Held | None], new: Thing | None, look: Look
    ) -> Held:
        key = Key(name, self._namespace)
        try:
            lease: JsonObject | None = await self._call(self._store.get(LEASE, key))
        except NotFoundError:
            lease = None
        if lease is None and new is None:
            return ()
        thing = new if lease is None else thing_of(lease)
        assert thing is not None
        recorded_reservations = () if lease is None else read_reservations(lease)
        # After the read: otherwise a caller could disrupt something after the look and release its reservation before
        # the read, and neither would show it. A reservation written from here on makes this write a conflict.
        await look()
        active = in_force(recorded_reservations, self._now())
        desired = decide(thing, active)
        if desired is None:
            return active
        await self._write(key, thing, lease, desired)
        return desired

    async def _write(self, key: Key, thing: Thing, lease: JsonObject | None, reservations: Held) -> None:
        if lease is None:
            if reservations:
                document = with_reservations(new_lease(thing, self._namespace), reservations)
                try:
                    created = await self._call(self._store.create(LEASE, document))
                except NotFoundError as error:
                    raise UnavailableError(
                        f"there is no namespace {self._namespace!r} for reservations. Create it, or set namespace to "
                        "another one"
                    ) from error
                self._cache.of_kind(LEASE).put(created)
            return
        try:
            if reservations:
                created = await self._call(self._store.replace(LEASE, with_reservations(lease, reservations)))
                self._cache.of_kind(LEASE).put(created)
            else:
                await self._delete(key, lease)
        except NotFoundError as error:  # deleted since it was read, maybe by a sweep: read again
            raise ConflictError(str(error)) from error

    async def _delete(self, key: Key, lease: JsonObject) -> None:
        metadata = lease["metadata"]
        # With both preconditions: a reservation that another replica has written since must not be deleted with it.
        await self._call(
            self._store.delete(LEASE, key, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
        )
        self._cache.of_kind(LEASE).drop(lease)

    def _known(self, lease: JsonObject) -> Held:
        """Return the active reservations of a cached Lease, which is parsed once.

        Raises `UnreadableReservationsError`.
        """
        name = lease["metadata"]["name"]
        if name not in self._written or self._written[name][0] is not lease:
            self._written[name] = lease, read_reservations(lease)
        return in_force(self._written[name][1], self._now())

    def _forget(self, change: ObjectDelta) -> None:
        if change.new is None:
            self._written.pop(change.document["metadata"]["name"], None)

    async def _call(self, call: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await call
        except TimeoutError as error:
            raise UnavailableError(f"no answer about a reservation within {CALL_SECONDS:g} s") from error
        except ForbiddenError as error:
            raise ForbiddenError(
                f"not allowed to write reservations in namespace {self._namespace!r}: {error}"
            ) from error

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load, hides nothing
            await self.clear()

    async def clear(self) -> None:
        """Delete the Leases whose reservations have all expired. Unreadable ones are kept."""
        for lease in self._cache.list(LEASE, self._namespace):
            try:
                if thing_of(lease) is not None and not self._known(lease):
                    await self._delete(key_of(lease), lease)
            except (NotFoundError, ConflictError):  # another replica was faster, or a caller has just reserved
                continue
            except (ValueError, StoreError) as error:
                log.warning("reservations not cleared", extra={"lease": str(key_of(lease)), "reason": str(error)})
            except Exception:  # a bug that one Lease triggers must not stop the watch of all of them
                log.exception("reservations not cleared", extra={"lease": str(key_of(lease))})

    @asynccontextmanager
    async def _turn(self, name: str) -> AsyncIterator[None]:
        """Serialize the changes of one Lease, so that this process causes itself no conflicts."""
        lock, waiters = self._turns.get(name, (asyncio.Lock(), 0))
        self._turns[name] = (lock, waiters + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiters = self._turns[name]
            if waiters == 1:
                del self._turns[name]
            else:
                self._turns[name] = (lock, waiters - 1)


class _InNamespace:
    """A store that lists and watches only one namespace."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        return await self._store.get(kind, key)

    async def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        return await self._store.list(kind, namespace or self._namespace, labels)

    def watch(self, kind: Kind, since: str, namespace: str | None = None) -> AsyncIterator[WatchEvent]:
        return self._store.watch(kind, since, namespace or self._namespace)

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        return await self._store.create(kind, document)

    async def replace(self, kind: Kind, document: JsonObject) -> JsonObject:
        return await self._store.replace(kind, document)

    async def replace_metadata(self, kind: Kind, document: JsonObject) -> JsonObject:
        return await self._store.replace_metadata(kind, document)

    async def replace_status(self, kind: Kind, document: JsonObject) -> JsonObject:
        return await self._store.replace_status(kind, document)

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "") -> None:
        await self._store.delete(kind, key, uid=uid, resource_version=resource_version)


def _pause(attempt: int) -> float:
    longest = min(LONGEST_PAUSE, SHORTEST_PAUSE * 2.0**attempt)
    return random.uniform(0, longest)  # noqa: S311 - jitter between replicas
