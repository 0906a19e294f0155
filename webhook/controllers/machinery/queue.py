"""A queue of keys: each at most once in line, each with one worker at a time, failures with backoff.

A key that is added while a worker has it is reconciled once more afterwards. Keys that have waited for their time stand
in a line of their own, and the two lines take turns: what goes on with a placement is not kept waiting by all the
others that are new.

Source: scheduling.md 2; serving.md 7.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from webhook.controllers.machinery.observer import UNOBSERVED, QueueObserver, ReconcileOutcome
from webhook.controllers.machinery.result import Result, StuckError, TerminalError, is_cancelled
from webhook.kube.ports import ConflictError, RetryError, StoreError, UnavailableError

K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF = 0.005
LONGEST_BACKOFF = 300.0
AT_ONCE = 0.05
"""Shortest pause, in seconds, of a key that asks to be reconciled again at once: it must not spin, so with each time in
a row the pause grows as after failures."""

TOLD_AFTER = 3
"""After how many failures in a row the object says that its controller fails on it."""

log = logging.getLogger(__name__)


K_contra = TypeVar("K_contra", contravariant=True)


class FailureListener(Protocol[K_contra]):
    """Says on objects that a controller fails on them; quick."""

    def failing(self, key: K_contra, error: BaseException) -> None:
        """It fails, and will again unless something changes."""
        ...

    def passed(self, key: K_contra) -> None:
        """It works again, or always has."""
        ...


class WorkQueue(Generic[K]):
    """Keys of one controller.

    Args:
        name: Of the controller, for logs and metrics.
        reconcile: Does the work for one key.
        observer: Is told what is done.
        teller: Is told what fails, from the third time in a row on.
        owns: Says whether a key is ours, when it comes and again when its turn comes; None: all are.
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
        self._broken: dict[K, int] = {}
        """How often in a row a key has failed, not counting the times when something was just not ready."""
        self._lines: tuple[deque[tuple[K, float]], deque[tuple[K, float]]] = (deque(), deque())
        """Keys and since when they are there: those just added, and those whose time has come."""
        self._turn = 0
        self._waiting: set[K] = set()
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._at_once: dict[K, int] = {}
        """How often in a row a key has asked to be reconciled again at once. That is no failure: a failure that follows
        is retried as soon as any first one."""
        self._wake = asyncio.Event()
        self.reconciled = 0
        self.failed = 0
        observer.watch(self)

    @property
    def idle(self) -> bool:
        """Whether no key is in line and no worker is busy; keys may still wait for their time."""
        return not len(self) and not self._working

    def __len__(self) -> int:
        return sum(map(len, self._lines))

    @property
    def longest_wait_seconds(self) -> float:
        """How long the first key in line has been there; 0 when there is none."""
        return max((time.monotonic() - line[0][1] for line in self._lines if line), default=0.0)

    def add(self, key: K) -> None:
        """Put *key* in line."""
        self._add(key, self._lines[0])

    def _add(self, key: K, line: deque[tuple[K, float]]) -> None:
        if not self.owns(key):
            return
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key in self._working:  # two workers on one key would only meet each other's conflicts
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            line.append((key, time.monotonic()))
            self._wake.set()

    def add_after(self, key: K, delay: timedelta) -> None:
        """Put *key* in line after *delay*; an earlier time that is already set stands."""
        if self.owns(key):
            self._set_timer(key, max(delay.total_seconds(), AT_ONCE))

    def owns(self, key: K) -> bool:
        """Say whether *key* is reconciled here."""
        return self._owns is None or self._owns(key)

    def _set_timer(self, key: K, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self._add(key, self._lines[1])

    async def run(self, workers: int = 4) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def _work(self) -> None:
        while True:
            while not len(self):  # asked again after the wait: another worker may have been faster
                self._wake.clear()
                await self._wake.wait()
            key = self._take()
            self._waiting.discard(key)
            self._working.add(key)
            try:
                if self.owns(key):  # what it names may be another's by now
                    await self._one(key)
            finally:
                self._working.discard(key)
            if key in self._again:  # what woke it may have come after the reconcile had read
                self._again.discard(key)
                self.add(key)
            await asyncio.sleep(0)  # with a store in this process nothing else waits: let other tasks run

    def _take(self) -> K:
        """Take the next key out of its line: the lines take turns while there is something in both."""
        line = self._lines[self._turn] or self._lines[1 - self._turn]
        self._turn = 1 - self._turn
        return line.popleft()[0]

    async def _one(self, key: K) -> None:
        self.reconciled += 1
        begun = time.monotonic()
        outcome = ReconcileOutcome.ERROR
        try:
            with self._observer.around(self.name, key):
                result = await self._reconcile(key)
        except TerminalError as error:
            self._failures.pop(key, None)
            self._tell(key, error, TOLD_AFTER)
            log.warning("waits for a change", extra={"controller": self.name, "key": str(key), "error": str(error)})
        except RetryError as error:
            outcome = ReconcileOutcome.REQUEUE
            self._back_off(key, error.after)
            if isinstance(error, StuckError):
                self._tell(key, error)
            log.info("tries again", extra={"controller": self.name, "key": str(key), "error": str(error)})
        except ConflictError as error:  # nearly always passes at once
            self._back_off(key)
            if self._failures[key] >= TOLD_AFTER:
                log.info("tries again", extra={"controller": self.name, "key": str(key), "error": str(error)})
        except UnavailableError as error:
            self._back_off(key, None if error.retry_after is None else timedelta(seconds=error.retry_after))
            log.warning("store error", extra={"controller": self.name, "key": str(key), "error": str(error)})
        except StoreError as error:
            self._back_off(key)
            self._tell(key, error)
            log.warning("store error", extra={"controller": self.name, "key": str(key), "error": str(error)})
        except (Exception, asyncio.CancelledError) as error:  # the loop outlives our bugs: logged, retried with backoff
            if is_cancelled(error):
                raise
            self.failed += 1
            self._back_off(key)
            log.exception("reconcile failed", extra={"controller": self.name, "key": str(key)})
            self._tell(key, error)
        else:
            self._broken.pop(key, None)
            if self._teller is not None:
                self._teller.passed(key)
            outcome = ReconcileOutcome.SUCCESS if result.requeue_after is None else ReconcileOutcome.REQUEUE
            self._failures.pop(key, None)
            if result.requeue_after is not None and result.requeue_after <= timedelta():
                self._set_timer(key, max(_next_backoff(self._at_once, key), AT_ONCE))
            else:
                self._at_once.pop(key, None)
                if result.requeue_after is not None:
                    self.add_after(key, result.requeue_after)
        finally:
            self._observer.finished(self.name, outcome, time.monotonic() - begun)

    def _tell(self, key: K, error: BaseException, times: int = 1) -> None:
        self._broken[key] = self._broken.get(key, 0) + times
        if self._teller is not None and self._broken[key] >= TOLD_AFTER:
            self._teller.failing(key, error)

    def _back_off(self, key: K, after: timedelta | None = None) -> None:
        """Try again later: after *after*, which leaves the backoff of failures as it is, or else after the backoff."""
        self._observer.retried(self.name)
        if after is None:
            self._set_timer(key, _next_backoff(self._failures, key))
        else:
            self.add_after(key, after)


def _next_backoff(times: dict[K, int], key: K) -> float:
    """Count another time for *key*, and return how long to wait after it."""
    before = times.get(key, 0)
    times[key] = before + 1
    return min(FIRST_BACKOFF * 2.0 ** min(before, 20), LONGEST_BACKOFF)
