"""The term of a leader, during which it may write, and the candidate's access to the Lease.

Leading is a deadline on the monotonic clock. Every successful renewal extends it, counted from before the renewal was
sent. Another candidate starts to wait only when it sees the renewed Lease, which is later. After the deadline,
`Term.check` raises, regardless of any other state of this process: it reads the clock, not a flag that a stalled task
might fail to set. The work of a term is cancelled at the deadline, some seconds before another candidate may start. If
it does not stop in time, the process exits.

Example, with the default times: a renewal is sent at 100.0 s and stored at 100.4 s, and is the last one. The term ends
at 110.0 s, and every write is refused from then on. The work has until 113.0 s to stop. The other candidate sees the
renewal at 100.4 s at the earliest, so it may acquire the Lease at 115.4 s at the earliest.

Liveness of another process is judged by observed renewals, not by the times in the Lease, because clocks differ. The
duration that a holder asks for is respected up to `LONGEST_LEASE`, even after the Lease was deleted. Otherwise, any
client with permission to write Leases could stop the loop for a day.

Unlike in client-go, a Lease is released at shutdown only after the work has stopped, and the same identity in another
process is another candidate.

Source: docs/specifications/serving.md 7, own elector; client-go tools/leaderelection.
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

from scorer.api.kinds import LEASE
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import spec_of
from webhook.kube.events import own_name
from webhook.kube.leader_election.lease import LONGEST_LEASE, RELEASED_SECONDS, holder_of
from webhook.kube.ports import ConflictError, ForbiddenError, Key, NotFoundError, NotServedError, Store, StoreError

Body = Callable[["Term"], Coroutine[Any, Any, None]]
"""The work of a leader. It must stop with all of its tasks when cancelled."""
log = logging.getLogger(__name__)


class NotLeaderError(StoreError):
    """Another process may lead by now, so no write is allowed."""


def own_identity(name: str = "") -> str:
    """Return the unique identity of this process in the Lease, prefixed with its name."""
    return f"{own_name(name)}_{uuid4()}"


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Timings of a leader election, in seconds.

    Args:
        lease: A Lease without renewal for this long may be acquired. At most `LONGEST_LEASE`.
        renew: The leader stops this long after its last renewal.
        retry: Pause between two attempts, with a jitter of 20 %.
        call: Timeout of one request.
        stop: Timeout for the work of a term to stop after it was cancelled.
    """

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0
    call: float = 5.0
    stop: float = 3.0

    def __post_init__(self) -> None:
        # renew + stop < lease: the work of the old leader has stopped before another candidate may acquire the Lease.
        if not 0 < self.retry * 1.2 < self.renew or not self.renew + self.stop < self.lease or self.call <= 0:
            raise ValueError(
                f"{self}: retry must be positive and 1.2 times retry less than renew, renew and stop together must be "
                "less than lease, and call must be positive"
            )
        if self.lease > LONGEST_LEASE:
            raise ValueError(f"{self}: lease must be at most {LONGEST_LEASE:g}")


def monotonic() -> float:
    """Return seconds on a monotonic clock that continues during suspend, so that a term expires then, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def utc_now() -> datetime:
    """Return the time of day for users who read the Lease. No decision depends on it."""
    return datetime.now(UTC)


def end_process(reason: str) -> NoReturn:
    """Log *reason* and exit the process with status 1, without cleanup."""
    log.critical("process terminated", extra={"reason": reason})
    logging.shutdown()
    os._exit(1)


class Term:
    """One period of leading. A later period is another term, even of the same process.

    Args:
        until: End of the term on *clock* unless it is renewed.
        clock: Monotonic, in seconds.
    """

    def __init__(self, until: float, clock: Callable[[], float]) -> None:
        self.until = until
        self._clock = clock

    def check(self) -> None:
        """Check that a write may be sent now. Call it right before the write is sent.

        Raises:
            NotLeaderError: The term has expired.
        """
        if self._clock() >= self.until:
            raise NotLeaderError("no longer the leader")

    @property
    def left(self) -> float:
        """Seconds until the term expires, 0 afterwards."""
        return max(0.0, self.until - self._clock())


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """Configuration of a candidate besides its Lease.

    Args:
        times: Timings.
        clock: Monotonic, in seconds, with the same rate as the event loop's.
        now: Time of day, for users only.
        end: Ends the process, given the reason.
    """

    times: LeaseTimes = LeaseTimes()
    clock: Callable[[], float] = monotonic
    now: Callable[[], datetime] = utc_now
    end: Callable[[str], object] = end_process


USUAL: Final = LeaderElectionConfig()


class LeaseClient:
    """Reads and writes one Lease, each call with a timeout, and reports failures.

    Args:
        store: Store of the Lease.
        lease: Name and namespace.
        identity: Unique identity of this process. Must change on restart.
        around: Times, clocks, and the function that ends the process.
    """

    def __init__(self, store: Store, lease: Key, identity: str, around: LeaderElectionConfig = USUAL) -> None:
        self._store = store
        self._lease = lease
        self.identity = identity
        self._times = around.times
        self._clock = around.clock
        self._now = around.now
        self._end = around.end
        self.trouble = ""
        """Why the Lease cannot be read or written, or blocks this process. Empty without a problem."""
        self._led: float | None = None
        """Time when a replica was last seen leading, or when `run` was called. None: unset."""

    @property
    def leaderless_seconds(self) -> float:
        """Seconds since a replica was last seen leading, or since `run` was called. 0 before that."""
        return 0.0 if self._led is None else self._clock() - self._led

    async def _get(self) -> JsonObject | None:
        """Return the stored Lease, or None if it does not exist."""
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
        except NotFoundError as error:  # deleted since it was read: read again, as after any concurrent write
            raise ConflictError(str(error)) from error

    async def _within_call(self, call: Awaitable[JsonObject]) -> JsonObject:
        async with asyncio.timeout(self._times.call):
            return await call

    def _held_by(self, holder: str, record: JsonObject | None = None) -> JsonObject:
        """Return the spec of the Lease, renewed now for *holder*, who may have held it before."""
        lease = {
            "holderIdentity": holder,
            "leaseDurationSeconds": round(self._times.lease),
            "renewTime": self._micro_time(),
        }
        if record is None:
            return {**lease, "acquireTime": lease["renewTime"], "leaseTransitions": 0}
        spec = {**spec_of(record), **lease}
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
            return (
                f"there is no namespace {namespace!r} for the Lease {self._lease.name}. Create it, or set namespace to "
                "another one"
            )
        if isinstance(error, ForbiddenError):
            return f"not allowed to use the Lease {self._lease.name} in namespace {namespace!r}: {error}"
        if isinstance(error, TimeoutError):
            return f"no answer within {self._times.call:g} s"
        return str(error)

    def _note(self, trouble: str) -> None:
        """Log a problem, once per reason."""
        if trouble and trouble != self.trouble:
            log.warning("lease out of reach", extra={"lease": str(self._lease), "reason": trouble})
        self.trouble = trouble


async def stop_work(tasks: Iterable[asyncio.Task[None]], seconds: float, end: Callable[[str], object]) -> None:
    """Cancel *tasks* and wait until they have stopped, even if the caller is cancelled: each task needs an owner.

    Args:
        tasks: The work of a term.
        seconds: Timeout for them to stop.
        end: Called with the reason on timeout.

    Raises:
        asyncio.CancelledError: The caller was cancelled in the meantime.
    """
    tasks = tuple(tasks)
    reason = f"the work of a leader did not stop within {seconds:g} s"
    # A task that swallows its cancellation would run on into the next leader's term. The process must exit then.
    limit = asyncio.get_running_loop().call_later(seconds, end, reason)
    is_cancelled = False
    for task in tasks:
        task.cancel()
    while any(not task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            is_cancelled = True
    limit.cancel()
    if is_cancelled:
        raise asyncio.CancelledError


async def expired(term: Term) -> None:
    """Wait until a term has expired. Renewals extend it in the meantime."""
    while term.left > 0:  # noqa: ASYNC110 - only time ends a term, and renewals extend it
        await asyncio.sleep(term.left)
