"""Who leads: one of several processes, by a Lease on the hub.

Leading is a deadline on the monotonic clock. Every successful renewal pushes it, counted from before the renewal was
sent: another candidate starts to wait only when it sees the renewed Lease, which is later. Once the deadline is past,
`Term.check` refuses, whatever else this process has noticed: it reads the clock, not a flag that a stalled task would
have had to set. The work of a term is cancelled at the deadline, some seconds before another candidate may begin; if it
does not stop in time, the process ends itself.

Whether another process still leads is judged by whether it renews the Lease, not by the times written in it: clocks
differ. The duration that a holder asks for is believed up to `LONGEST_LEASE`, also after the Lease was deleted: any
client with the right to write Leases could otherwise stop the loop for a day.

Source: serving.md 7, own elector; client-go tools/leaderelection. Unlike there, a Lease is released at shutdown only
after the work has stopped, and the same identity in another process is another candidate.
"""

import asyncio
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NoReturn
from uuid import uuid4

from scorer.api.documents import spec_of
from scorer.api.kinds import LEASE
from scorer.api.meta import JsonObject
from webhook.kube.event_documents import own_name
from webhook.kube.lease_record import (
    LONGEST_LEASE,
    RELEASED_SECONDS,
    believed_duration,
    excess_of,
    holder_of,
    is_released,
    parted_into,
)
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    Key,
    NotFoundError,
    NotServedError,
    Store,
    StoreError,
)

Body = Callable[["Term"], Coroutine[Any, Any, None]]
"""The work of a leader; it ends when it is cancelled, with every task of its own."""

log = logging.getLogger(__name__)


class NotLeaderError(StoreError):
    """Another process may lead by now, so nothing may be written."""


def own_identity(name: str = "") -> str:
    """Return who this process is in the Lease: its name, and what no other process has."""
    return f"{own_name(name)}_{uuid4()}"


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long things may take, in seconds.

    Args:
        lease: A Lease that has not been renewed for this long may be taken. At most `LONGEST_LEASE`.
        renew: The leader stops this long after its last renewal.
        retry: Between two attempts, give or take a fifth.
        call: One request.
        stop: What the work of a term may take to end, once it is cancelled.
    """

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0
    call: float = 5.0
    stop: float = 3.0

    def __post_init__(self) -> None:
        # renew + stop < lease: the work of the old leader has ended before another candidate may take the Lease.
        if not 0 < self.retry * 1.2 < self.renew or not self.renew + self.stop < self.lease or self.call <= 0:
            raise ValueError(f"{self}: retry must be less than renew, and renew and stop together less than lease")
        if self.lease > LONGEST_LEASE:
            raise ValueError(f"{self}: lease must be at most {LONGEST_LEASE:g}")


def monotonic() -> float:
    """Return seconds on a clock that is never set, and that runs on while the machine sleeps: then a term ends, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def utc_now() -> datetime:
    """Return the time of day, for people who read the Lease; no decision depends on it."""
    return datetime.now(UTC)


def end_process(reason: str) -> NoReturn:
    """End the process at once, whatever it is doing."""
    log.critical("ending the process", extra={"reason": reason})
    logging.shutdown()
    os._exit(1)


class Term:
    """One time of leading; a later one is another term, even of the same process.

    Args:
        until: When it ends on *clock* unless it is renewed.
        clock: Monotonic, in seconds.
    """

    def __init__(self, until: float, clock: Callable[[], float]) -> None:
        self.until = until
        self._clock = clock

    def check(self) -> None:
        """Return if a write may leave now; call it right before the write leaves.

        Raises:
            NotLeaderError: The term is over.
        """
        if self._clock() >= self.until:
            raise NotLeaderError("no longer the leader")

    @property
    def left(self) -> float:
        """Seconds until it ends, 0 when it has."""
        return max(0.0, self.until - self._clock())


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a candidate needs besides its Lease.

    Args:
        times: How long things may take.
        clock: Monotonic, in seconds, of the same pace as the event loop's.
        now: Time of day, only for people to read.
        end: Ends the process; given the reason.
    """

    times: LeaseTimes = LeaseTimes()
    clock: Callable[[], float] = monotonic
    now: Callable[[], datetime] = utc_now
    end: Callable[[str], object] = end_process


USUAL: Final = Surroundings()


class Candidate:
    """Reads and writes one Lease, each call within its time, and says why that fails.

    Args:
        store: Where the Lease is.
        lease: Its name and namespace.
        identity: Of this process alone; after a restart it has to be another one.
        around: Times, clocks, and what ends the process.
    """

    def __init__(self, store: Store, lease: Key, identity: str, around: Surroundings = USUAL) -> None:
        self._store = store
        self._lease = lease
        self.identity = identity
        self._times = around.times
        self._clock = around.clock
        self._now = around.now
        self._end = around.end
        self.trouble = ""
        """Why the Lease cannot be read or written, or does not let this process work; empty when all is well."""
        self._led: float | None = None
        """When a replica was last seen to lead, or when `run` was called; None: not yet."""

    @property
    def leaderless_seconds(self) -> float:
        """How long no replica has been seen to lead."""
        return 0.0 if self._led is None else self._clock() - self._led

    async def _get(self) -> JsonObject | None:
        """Return the Lease as it is stored; None: there is none."""
        try:
            return await self._within_call(self._store.get(LEASE, self._lease))
        except NotServedError:
            raise
        except NotFoundError:
            return None

    async def _create(self, spec: JsonObject, annotations: Mapping[str, str] | None = None) -> JsonObject:
        metadata: JsonObject = {"name": self._lease.name, "namespace": self._lease.namespace}
        if annotations:
            metadata["annotations"] = dict(annotations)
        document = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}
        return await self._within_call(self._store.create(LEASE, document))

    async def _replace(self, document: JsonObject) -> JsonObject:
        try:
            return await self._within_call(self._store.replace(LEASE, document))
        except NotFoundError as error:  # deleted since it was read: read again, as after any other write
            raise ConflictError(str(error)) from error

    async def _within_call(self, call: Awaitable[JsonObject]) -> JsonObject:
        async with asyncio.timeout(self._times.call):
            return await call

    def _held_by(self, holder: str, record: JsonObject | None = None) -> JsonObject:
        """Return the spec of the Lease, renewed now for *holder*, who may have held it before."""
        held = {
            "holderIdentity": holder,
            "leaseDurationSeconds": round(self._times.lease),
            "renewTime": self._micro_time(),
        }
        if record is None:
            return {**held, "acquireTime": held["renewTime"], "leaseTransitions": 0}
        spec = {**spec_of(record), **held}
        if holder_of(record) != holder:
            before = spec.get("leaseTransitions")
            spec["leaseTransitions"] = (before if isinstance(before, int) else 0) + 1
            spec["acquireTime"] = spec["renewTime"]
        return spec

    def _freed(self, record: JsonObject) -> JsonObject:
        """Return the spec of the Lease, free from now on."""
        free = {"holderIdentity": "", "leaseDurationSeconds": RELEASED_SECONDS, "renewTime": self._micro_time()}
        return {**record["spec"], **free}

    def _pause(self) -> float:
        return self._times.retry * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, hides nothing

    def _micro_time(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _describe(self, error: StoreError | TimeoutError) -> str:
        namespace = self._lease.namespace
        if isinstance(error, NotServedError):
            return f"the hub does not serve Leases ({LEASE.api_version}): {error}"
        if isinstance(error, NotFoundError):
            return f"there is no namespace {namespace!r} for the Lease {self._lease.name}; create it or name another"
        if isinstance(error, ForbiddenError):
            return f"may not use the Lease {self._lease.name} in the namespace {namespace!r}: {error}"
        if isinstance(error, TimeoutError):
            return f"no answer within {self._times.call:g} s"
        return str(error)

    def _note(self, trouble: str) -> None:
        """Log what is wrong, once per reason."""
        if trouble and trouble != self.trouble:
            log.warning("lease out of reach", extra={"lease": str(self._lease), "reason": trouble})
        self.trouble = trouble


class Leader(Candidate):
    """A candidate for the Lease, and the leader while it holds it. Arguments as of `Candidate`."""

    def __init__(self, store: Store, lease: Key, identity: str, around: Surroundings = USUAL) -> None:
        super().__init__(store, lease, identity, around)
        self._record: JsonObject | None = None
        self._is_fresh = False  # whether the record may be written over without reading it again
        self._taken_until = float("-inf")  # until then the Lease counts as another candidate's
        self._term: Term | None = None

    @property
    def leading(self) -> bool:
        """Whether this process leads now."""
        return self._term is not None and self._term.left > 0

    @property
    def holder(self) -> str:
        """Who held the Lease when it was last seen; empty: it was free, or has not been seen."""
        return holder_of(self._record)

    def check(self) -> None:
        """Return if this process leads now. Raises `NotLeaderError`."""
        if self._term is None:
            raise NotLeaderError("not the leader")
        self._term.check()

    async def run(self, body: Body) -> None:
        """Wait until the Lease is free, lead, and wait again, until cancelled or until *body* ends by itself.

        Raises:
            Exception: What *body* raises; the Lease is released.
        """
        self._led = self._clock()
        while True:
            term = await self._win()
            try:
                if await self._lead(term, body):
                    return
            finally:
                self._term = None

    async def _win(self) -> Term:
        while True:
            until = await self._attempt()
            if until is not None and until > self._clock():
                self._term = Term(until, self._clock)
                log.info("leads", extra={"lease": str(self._lease), "identity": self.identity})
                return self._term
            await asyncio.sleep(self._pause())

    async def _lead(self, term: Term, body: Body) -> bool:
        """Do the work of one term. Returns whether it ended by itself; else the term was lost."""
        work = asyncio.create_task(body(term), name="term")
        renewing = asyncio.create_task(self._keep_renewing(term), name="renewing")
        expiring = asyncio.create_task(expired(term), name="expiring")
        ended = False
        try:
            await asyncio.wait((work, renewing, expiring), return_when=asyncio.FIRST_COMPLETED)
            ended = work.done() and term.left > 0
            if not ended:
                # From here on the fence refuses every write, also those that leave while the work is being cancelled.
                term.until = min(term.until, self._clock())
                log.warning("leadership lost", extra={"lease": str(self._lease), "holder": self.holder})
        finally:
            # Stop first, release second: the next leader may write as soon as the Lease is free.
            await stop_work((work, renewing, expiring), self._times.stop, self._end)
            await self._release(term)
        if ended:
            work.result()
        elif not work.cancelled() and (error := work.exception()) is not None:
            log.error("the work of a leader failed while it stopped", exc_info=error)
        if not renewing.cancelled():
            renewing.result()
        return ended

    async def _keep_renewing(self, term: Term) -> None:
        """Push the end of the term until it is over, or the Lease is seen to be no longer ours."""
        while True:
            await asyncio.sleep(self._pause())
            until = await self._attempt(term)
            # A renewal that succeeds after the deadline does not revive the term: its work is being cancelled already.
            if term.left == 0 or self.holder != self.identity:
                return
            if until is not None:
                term.until = until

    async def _attempt(self, term: Term | None = None) -> float | None:
        """Take the Lease, or renew it when *term* is given.

        Returns:
            Until when we lead then; None: another candidate holds it, or it is out of reach, as `trouble` says.
        """
        for _ in range(2):
            try:
                until = await self._take() if term is None else await self._renew()
            except (ConflictError, AlreadyExistsError):
                # Another candidate wrote first, or a write of ours was stored and its answer was lost: read, once more.
                self._is_fresh = False
            except (StoreError, TimeoutError) as error:
                self._is_fresh = False
                self._note(self._describe(error))
                return None
            else:
                self._note(self._clash())
                return until
        return None

    def _clash(self) -> str:
        """Return why others keep this process from leading, if that is not just one that leads before it."""
        if self._record is not None and (excess := excess_of(self._record)):
            return excess
        parts = parted_into(self.holder)
        if parts is None:
            return ""
        return f"{parts} shards hold it, and this replica has 1 shard: it does nothing until those replicas are gone"

    async def _take(self) -> float | None:
        record = await self._read()
        if self._clock() < self._taken_until:
            return None
        sent = self._clock()  # before the request: other candidates count from when they see it stored, never earlier
        if record is None:
            self._observe(await self._create(self._held_by(self.identity)))
        else:
            await self._write(self._renewed(record))
        return sent + self._times.renew

    async def _renew(self) -> float | None:
        # Written over the version last seen, which saves a read: a conflict tells if another candidate has written.
        record = self._record if self._is_fresh else await self._read()
        if record is None or holder_of(record) != self.identity:
            return None
        sent = self._clock()
        await self._write(self._renewed(record))
        return sent + self._times.renew

    async def _read(self) -> JsonObject | None:
        record = await self._get()
        if record is None:  # deleted; its holder may not have noticed yet, so `_taken_until` stays as it is
            self._record = None
        else:
            self._observe(record)
        return record

    async def _write(self, document: JsonObject) -> None:
        self._observe(await self._replace(document))

    def _observe(self, record: JsonObject) -> None:
        """Remember the Lease, and when it was last renewed."""
        self._is_fresh = True
        before, self._record = self._record, record
        if before is not None and spec_of(record) == spec_of(before):
            return  # only metadata has changed, and a renewal changes renewTime: the time of its holder runs on
        holder = holder_of(record)
        if is_released(record):
            self._taken_until = float("-inf")
        elif holder not in {"", self.identity}:  # else a user may have written that while another candidate leads
            self._taken_until = self._clock() + believed_duration(record, self._times.lease)
            if holder != holder_of(before):
                log.info("follows", extra={"lease": str(self._lease), "holder": holder})
        if before is not None and holder and not excess_of(record):
            self._led = self._clock()

    def _renewed(self, record: JsonObject) -> JsonObject:
        return {**record, "spec": self._held_by(self.identity, record)}

    async def _release(self, term: Term) -> None:
        """Let others begin at once, after the work has stopped; if that fails, they wait until the Lease expires."""
        in_time = term.left > 0  # else it is left to expire: another candidate may be about to take it
        term.until = float("-inf")
        self._term = None
        for _ in range(2):
            try:
                record = self._record if self._is_fresh else await self._read()
                if not in_time or record is None or holder_of(record) != self.identity:
                    return
                await self._write({**record, "spec": self._freed(record)})
            except ConflictError:  # a renewal that was cancelled under way has been stored all the same
                self._is_fresh = False
            except (StoreError, TimeoutError) as error:
                log.warning("lease not released", extra={"lease": str(self._lease), "reason": self._describe(error)})
                return
            else:
                log.info("lease released", extra={"lease": str(self._lease)})
                return


async def stop_work(tasks: Iterable[asyncio.Task[None]], seconds: float, end: Callable[[str], object]) -> None:
    """Cancel *tasks* and wait until they end, also when cancelled meanwhile: none may go on without an owner.

    Args:
        tasks: The work of a term.
        seconds: What they may take to end.
        end: Called with the reason if they take longer.
    """
    tasks = tuple(tasks)
    reason = f"the work of a leader did not stop within {seconds:g} s"
    # A task that swallows its cancellation would go on into the next leader's term: then the process has to end.
    limit = asyncio.get_running_loop().call_later(seconds, end, reason)
    cancelled = False
    for task in tasks:
        task.cancel()
    while any(not task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            cancelled = True
    limit.cancel()
    if cancelled:
        raise asyncio.CancelledError


async def expired(term: Term) -> None:
    """Return when a term has ended; renewals push its end meanwhile."""
    while term.left > 0:  # noqa: ASYNC110 - time ends it, and renewals push its end meanwhile
        await asyncio.sleep(term.left)
