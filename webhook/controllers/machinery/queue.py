"""A work queue of keys, with coalescing, delays and backoff.

The queue holds keys, never events: a reconcile reads the current state, so a hundred changes of one object need one
reconcile. Three guarantees follow from the phase of a key:

- It is in line at most once. Adding a key that is in line changes nothing.
- At most one worker has it. Two concurrent reconciles of one placement would only cause conflicts.
- No event is lost. A key that is added while a worker has it is *dirty*: its reconcile may have read the object before
  the change, so the key goes back in line as soon as that reconcile ends.

The life cycle of a key::

    IDLE     is added, or its timer fires  ->  QUEUED
    QUEUED   a worker takes it             ->  RUNNING
    RUNNING  its reconcile ends            ->  IDLE
    RUNNING  is added, or its timer fires  ->  DIRTY
    DIRTY    its reconcile ends            ->  QUEUED

The table has no entry for an idle key without a timer and counters, so it does not grow with every key ever added.

A timer is set by `WorkQueue.add_after`, by a result that asks for a requeue, and by a failure. It does not depend on
the phase: a key may have one while it is queued or running. There is one timer per key, the earliest. Adding the key
cancels it, because the reconcile that follows sets it again if it is still needed.

The counters count consecutive results, so they outlast a reconcile.

Keys whose timer has fired have a separate line, and workers take from both lines in turn. Otherwise the next step of
one rollout would wait behind a thousand placements that a restart has just added.

Source: docs/specifications/scheduling.md 2; docs/specifications/serving.md 7.
"""

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

from webhook.controllers.machinery.observer import UNOBSERVED, QueueObserver, ReconcileOutcome
from webhook.controllers.machinery.result import Result, StuckError, TerminalError, is_cancelled
from webhook.kube.ports import ConflictError, RetryError, StoreError, UnavailableError

K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF = 0.005
LONGEST_BACKOFF = 300.0
SHORTEST_REQUEUE_SECONDS = 0.05
"""Minimum delay of a requeue, in seconds. A key that requests an immediate requeue must not spin, so from one request
to the next the delay grows as after failures."""

REPORTED_AFTER_FAILURES = 3
"""Consecutive failures after which they are reported on the object."""

log = logging.getLogger(__name__)


class _Phase(Enum):
    """Phase of a key: queued at most once, with at most one worker."""

    IDLE = auto()
    QUEUED = auto()
    RUNNING = auto()
    DIRTY = auto()
    """Running, and added since. Requeued afterwards."""


@dataclass(slots=True)
class KeyState:
    """State of one key. A state that equals a new instance can be dropped from the table.

    Args:
        phase: The phase of the key.
        timer: Adds the key when it fires. None: unset.
        failures: Consecutive failures that were retried with backoff. A `RetryError` with a delay of its own does not
            count: after a minute of waiting for a namespace, the first conflict is still retried within milliseconds.
        requeues: Consecutive immediate requeues. They are not failures: a rollout that requests one after each of
            twelve steps does not wait longer after its first conflict.
        reported_failures: Consecutive failures that count towards the report on the object. Conflicts, outages and
            a `RetryError` that is not a `StuckError` do not count: they are expected to be temporary.
    """

    phase: _Phase = _Phase.IDLE
    timer: asyncio.TimerHandle | None = None
    failures: int = 0
    requeues: int = 0
    reported_failures: int = 0

    def cancel_timer(self) -> None:
        """Cancel the timer, if one is set."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


K_contra = TypeVar("K_contra", contravariant=True)


class FailureListener(Protocol[K_contra]):
    """Reports repeated failures of a controller on the object. Calls must be quick."""

    def failing(self, key: K_contra, error: BaseException) -> None:
        """Report that the reconcile fails, and will fail again unless something changes."""
        ...

    def passed(self, key: K_contra) -> None:
        """Remove the report, if there is one: the reconcile has succeeded."""
        ...


class WorkQueue(Generic[K]):
    """Keys of one controller.

    Args:
        name: Name of the controller, for logs and metrics.
        reconcile: Reconciles one key.
        observer: Called after each reconcile and each retry.
        teller: Called on each success, on failures from the third consecutive one, and on every `TerminalError`.
        owns: Returns whether this shard owns a key. Called when the key is added and again before it is reconciled, as
            its owner may have changed. None means that all keys are owned.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[Result]],
        observer: QueueObserver = UNOBSERVED,
        teller: FailureListener[K] | None = None,
        owns: Callable[[K], bool] | None = None,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._observer = observer
        self._teller = teller
        self._owns = owns
        self._states: defaultdict[K, KeyState] = defaultdict(KeyState)
        self._lines: tuple[deque[tuple[K, float]], deque[tuple[K, float]]] = (deque(), deque())
        """Queued keys, each with the time of its arrival: those just added, and those whose timer has fired."""
        self._turn = 0
        """The line that the next key is taken from."""
        self._running = 0
        """Number of keys that are running or dirty."""
        self._wake = asyncio.Event()
        self.reconciled = 0
        self.failed = 0
        observer.watch(self)

    @property
    def idle(self) -> bool:
        """Whether no key is queued or running. Timers may still be pending."""
        return not len(self) and not self._running

    def __len__(self) -> int:
        return sum(map(len, self._lines))

    @property
    def longest_wait_seconds(self) -> float:
        """Maximum waiting time of a queued key, or 0 if none is queued."""
        return max((time.monotonic() - line[0][1] for line in self._lines if line), default=0.0)

    def add(self, key: K) -> None:
        """Enqueue *key*, unless another shard owns it."""
        self._add(key, self._lines[0])

    def _add(self, key: K, line: deque[tuple[K, float]]) -> None:
        if not self.owns(key):
            return
        state = self._states[key]
        state.cancel_timer()
        # A running key must not be queued, as a second worker would take it, and must not be ignored. Example: a
        # reconcile reads a placement that asks for 3 clusters, and a user changes it to 5 before the reconcile ends.
        # Without the phase DIRTY, the other 2 clusters would have to wait for the next resync.
        if state.phase is _Phase.RUNNING:
            state.phase = _Phase.DIRTY
        elif state.phase is _Phase.IDLE:
            state.phase = _Phase.QUEUED
            line.append((key, time.monotonic()))
            self._wake.set()

    def add_after(self, key: K, delay: timedelta) -> None:
        """Enqueue *key* after *delay*, unless its timer fires earlier."""
        if self.owns(key):
            self._set_timer(key, max(delay.total_seconds(), SHORTEST_REQUEUE_SECONDS))

    def owns(self, key: K) -> bool:
        """Return whether this shard owns *key*."""
        return self._owns is None or self._owns(key)

    def _set_timer(self, key: K, seconds: float) -> None:
        loop, state = asyncio.get_running_loop(), self._states[key]
        # The earliest timer wins. Example: a rollout that waits 6 hours for a window learns that a binding has changed
        # (`Later`, 1 s). Its reconcile then sets the 6 hours anew. The other way round, the result of a reconcile, 6
        # hours, must not replace a `Later` of 1 s that arrived while the reconcile ran.
        if state.timer is None or state.timer.when() > loop.time() + seconds:
            state.cancel_timer()
            state.timer = loop.call_later(seconds, self._due, key)

    def _due(self, key: K) -> None:
        self._states[key].timer = None
        self._add(key, self._lines[1])
        self._forget_if_idle(key)

    def _forget_if_idle(self, key: K) -> None:
        """Remove a key from the table if it is idle without timer and counters, or belongs to another shard now."""
        state = self._states[key]
        if state == KeyState() or (state.phase is _Phase.IDLE and state.timer is None and not self.owns(key)):
            del self._states[key]

    async def run(self, workers: int = 4) -> None:
        """Reconcile keys until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(self._work())
        finally:
            for state in self._states.values():
                state.cancel_timer()

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        # Not `while True`: a library below a reconcile may turn the cancellation into an error of its own, which
        # `_process_key` logs as a failure. The worker would then continue to reconcile after its leadership has ended.
        while not task.cancelling():
            # A loop: one event wakes all workers, and another worker may have taken the key.
            while not len(self):
                self._wake.clear()
                await self._wake.wait()
            key = self._take()
            state = self._states[key]
            state.phase = _Phase.RUNNING
            self._running += 1
            try:
                if self.owns(key):
                    await self._process_key(key)
            finally:
                is_dirty = state.phase is _Phase.DIRTY
                state.phase = _Phase.IDLE
                self._running -= 1
            if is_dirty:
                self.add(key)
            self._forget_if_idle(key)
            await asyncio.sleep(0)  # an embedded store never suspends this task: let other tasks run

    def _take(self) -> K:
        """Take the next key, alternating between both lines. If one line is empty, take from the other."""
        line = self._lines[self._turn] or self._lines[1 - self._turn]
        self._turn = 1 - self._turn
        return line.popleft()[0]

    async def _process_key(self, key: K) -> None:
        state = self._states[key]
        self.reconciled += 1
        start = time.monotonic()
        outcome = ReconcileOutcome.ERROR
        try:
            with self._observer.span(self.name, key):
                result = await self._reconcile(key)
        except TerminalError as error:
            state.failures = 0
            # Reported now: without a retry there will be no third failure.
            self._tell(key, error, REPORTED_AFTER_FAILURES)
            log.warning("waiting for a change", extra={"controller": self.name, "key": str(key), "error": str(error)})
        except RetryError as error:
            outcome = ReconcileOutcome.REQUEUE
            self._back_off(key, error.after)
            if isinstance(error, StuckError):
                self._tell(key, error)
            log.info(
                "reconcile failed, will retry", extra={"controller": self.name, "key": str(key), "error": str(error)}
            )
        except ConflictError as error:  # usually passes on the first retry
            self._back_off(key)
            if state.failures >= REPORTED_AFTER_FAILURES:
                log.info(
                    "reconcile failed, will retry",
                    extra={"controller": self.name, "key": str(key), "error": str(error)},
                )
        except UnavailableError as error:
            self._back_off(key, None if error.retry_after is None else timedelta(seconds=error.retry_after))
            log.warning("store error", extra={"controller": self.name, "key": str(key), "error": str(error)})
        except StoreError as error:
            self._back_off(key)
            self._tell(key, error)
            log.warning("store error", extra={"controller": self.name, "key": str(key), "error": str(error)})
        except (Exception, asyncio.CancelledError) as error:  # a bug must not stop the loop: log and retry with backoff
            if is_cancelled(error):
                raise
            self.failed += 1
            self._back_off(key)
            log.exception("reconcile failed", extra={"controller": self.name, "key": str(key)})
            self._tell(key, error)
        else:
            state.failures = state.reported_failures = 0
            if self._teller is not None:
                self._report(key, self._teller.passed)
            outcome = ReconcileOutcome.SUCCESS if result.requeue_after is None else ReconcileOutcome.REQUEUE
            if result.requeue_after is not None and result.requeue_after <= timedelta():
                self._set_timer(key, max(_backoff_seconds(state.requeues), SHORTEST_REQUEUE_SECONDS))
                state.requeues += 1
            else:
                state.requeues = 0
                if result.requeue_after is not None:
                    self.add_after(key, result.requeue_after)
        finally:
            self._observer.finished(self.name, outcome, time.monotonic() - start)

    def _tell(self, key: K, error: BaseException, times: int = 1) -> None:
        state = self._states[key]
        state.reported_failures += times
        if self._teller is not None and state.reported_failures >= REPORTED_AFTER_FAILURES:
            self._report(key, self._teller.failing, error)

    def _report(self, key: K, report: Callable[..., None], *error: BaseException) -> None:
        try:
            report(key, *error)
        except Exception:  # as for a reconcile: a bug must not stop the workers
            log.exception("failure report failed", extra={"controller": self.name, "key": str(key)})

    def _back_off(self, key: K, after: timedelta | None = None) -> None:
        """Retry after *after*, which does not count as a failure. None means that the backoff of failures applies."""
        self._observer.retried(self.name)
        if after is not None:
            self.add_after(key, after)
            return
        state = self._states[key]
        self._set_timer(key, _backoff_seconds(state.failures))
        state.failures += 1


def _backoff_seconds(times: int) -> float:
    """Return the backoff after *times* earlier consecutive failures or immediate requeues."""
    return min(FIRST_BACKOFF * 2.0 ** min(times, 20), LONGEST_BACKOFF)
