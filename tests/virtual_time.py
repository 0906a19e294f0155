"""An event loop with virtual time: where a test would only wait for a timer, the clock moves to that timer.

The clock stands still while there is work, so a slow or busy machine changes nothing. It moves only if nothing but a
timer can wake the loop: no thread works for it, and its selector holds no file but its own. The work of a thread takes
no virtual time either. With a socket, the loop waits in real time, as every loop does. It starts no child processes,
and knows nothing of threads that a test starts by itself.
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple

from webhook.runtime.clock import utc_now

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START: Final = datetime(2026, 11, 20, 12, tzinfo=UTC)
"""Wall clock of a new loop."""


BUSY_PASSES: Final = 10_000
"""Consecutive passes with work after which work takes time: a test that polls without a pause may wait for a timer."""
_BUSY_SECONDS: Final = 0.001
"""Duration of each further pass."""

_THREAD_SECONDS: Final = 30
"""Real time that a thread may work while virtual time stands still. One that works for longer may wait for a timer."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock starts at 0 and moves to the next timer when the loop is idle."""

    def __init__(self) -> None:
        self._idle = _Idle()
        super().__init__(self._idle)

    def time(self) -> float:
        """Return the seconds that the loop has waited, in virtual or in real time."""
        return self._idle.seconds

    def advance(self, seconds: float) -> None:
        """Move the clock without running what is due meanwhile, as on a machine that is suspended."""
        self._idle.seconds += seconds

    def now(self) -> datetime:
        """Return the wall clock of this time."""
        return START + timedelta(seconds=self.time())

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run a function in a thread, and wait in real time until it returns."""
        future = super().run_in_executor(executor, func, *args)
        self._idle.threads += 1
        future.add_done_callback(self._returned)
        return future

    async def subprocess_exec(self, *args: Any, **options: Any) -> NoReturn:
        """Refuse to start a process: where a thread waits for its end, nothing shows that the loop may not go on.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("child processes end in real time: run this test on another loop")

    subprocess_shell = subprocess_exec

    async def shutdown_default_executor(self, *args: Any) -> None:
        """End the threads, and wait for them in real time."""
        self._idle.threads += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._idle.threads -= 1

    def _returned(self, _: object) -> None:
        self._idle.threads -= 1


class _Idle(selectors.DefaultSelector):
    """Where the loop waits for files, other threads, and its next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.threads = 0
        self.passes = 0
        """Consecutive passes of the loop that had work to do."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if timeout is not None and timeout <= 0:
            self.passes += 1
            if self.passes > BUSY_PASSES:
                self.seconds += _BUSY_SECONDS
            return ready
        self.passes = 0
        if ready:
            return ready
        if not self.threads and len(self.get_map()) == 1:  # the pipe of the loop itself
            if timeout is None:
                raise RuntimeError("every task waits for another one")
            self.seconds += timeout
            return ready
        if self.threads and (ready := super().select(_THREAD_SECONDS)):
            return ready
        start = time.monotonic()
        ready = super().select(timeout)
        self.seconds += time.monotonic() - start
        return ready


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Run *main* to its end."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def loop_clock() -> Callable[[], datetime]:
    """Return the wall clock of the running loop: virtual if its time is. Outside of a loop, it stands at `START`."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return lambda: START
    return loop.now if isinstance(loop, VirtualTimeLoop) else utc_now


def loop_now() -> datetime:
    """Return the present time of the running loop."""
    return loop_clock()()
