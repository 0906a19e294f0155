"""Workers of ``harbormaster serve --workers N``: processes that share the ports of a server, and their supervisor.

Each worker is a complete server, like a replica: it has its own connections to the hub and its own cache. To share one
cache, workers would have to pass every object and every question between processes, which costs more than the answers.
If the owner of a shared cache died, the others would have none. Workers share only the sockets of the listeners
(`webhook.server.sockets`), and the probes and metrics of the whole server (`webhook.telemetry.crew`).

The supervisor only forks them: it has no event loop and starts no thread, so it can fork at any time. It has loaded the
program by then, which saves each worker a second of CPU time, and the memory of loaded code is shared.

A dead worker is restarted with backoff. During the start, however, a worker that cannot serve stops all of them,
because an error in the settings affects each. If the supervisor exits for any reason, the workers detect the end of
file on a pipe, close the listeners and finish their requests.

Source: docs/specifications/serving.md 1.10 and 1.14.
"""

import asyncio
import gc
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, NoReturn

from webhook.server.place import WorkerSockets
from webhook.telemetry.crew import Seat

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
GOOD_SECONDS: Final = 60.0
"""After this lifetime, the restart backoff of a worker is reset."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SERVES: Final = b"+"
"""Report of a worker whose listeners are open. Any other report is an error."""
_MOST_REPORTED: Final = 4096

_log = logging.getLogger(__name__)


class WorkerError(Exception):
    """A worker could not start to serve."""


class StoppedError(Exception):
    """A signal arrived before all workers served.

    Args:
        number: Number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(slots=True)
class Errand:
    """Parameters of a worker, and its reports.

    Args:
        place: Sockets and place of the worker.
        lifeline: Read end of a pipe, at end of file once the supervisor has exited.
        report: Pipe for its reports.
    """

    place: WorkerSockets
    lifeline: int
    report: int
    _serves: bool = False

    def watch(self) -> asyncio.Event:
        """Return an event that is set once the supervisor has exited.

        A worker that does not serve yet exits immediately instead.
        """
        abandonment, loop = asyncio.Event(), asyncio.get_running_loop()

        def lifeline_closed() -> None:
            loop.remove_reader(self.lifeline)
            if not self._serves:
                os._exit(1)
            abandonment.set()

        loop.add_reader(self.lifeline, lifeline_closed)
        return abandonment

    def serves(self) -> None:
        """Report that the listeners are open."""
        self._serves = True
        self._tell(_SERVES)

    def fails(self, reason: str) -> None:
        """Report why the worker cannot serve. The caller must then exit."""
        self._tell(reason.encode(errors="replace")[:_MOST_REPORTED])

    def _tell(self, words: bytes) -> None:
        with suppress(BrokenPipeError):  # the supervisor has exited
            os.write(self.report, words)


@dataclass(slots=True)
class _Worker:
    """State of one worker number: its current process, or after its death the wait for the next start."""

    number: int
    address: bytes
    pid: int = 0
    report: int = -1
    said: bytes = b""
    began: float = 0.0
    restarts: int = -1
    deaths: int = 0
    """Consecutive deaths after a short life."""
    due: float = 0.0
    """Time of the next start, on the monotonic clock."""

    @property
    def lives(self) -> bool:
        return self.pid > 0

    @property
    def serves(self) -> bool:
        return self.said.startswith(_SERVES)

    @property
    def failure(self) -> str:
        """Reported error, empty without one."""
        return self.said.removeprefix(_SERVES).decode(errors="replace")


class Workers:
    """Runs the workers of one server, from a process without threads and without an event loop.

    Args:
        count: Number of workers.
        https: Sockets of the HTTPS listener.
        http: Sockets of the plain listener.
        work: Runs in each worker until the worker is stopped. Returns the exit code.
        on_start: Called once all of them serve.
    """

    def __init__(
        self,
        count: int,
        https: list[socket.socket],
        http: list[socket.socket],
        work: Callable[[Errand], int],
        on_start: Callable[[], None],
    ) -> None:
        self._https, self._http = tuple(https), tuple(http)
        self._work = work
        self._started = on_start
        self._selector = selectors.PollSelector()
        self._signals: list[int] = []
        self._handlers: dict[int, Any] = {}
        self._lifeline, self._held = os.pipe()
        self._woken, self._wake = os.pipe()
        meetings = [_meeting(b"") for _ in range(count)]
        self._crew = [_Worker(number, channel.getsockname()) for number, channel in enumerate(meetings, 1)]
        for channel in meetings:
            channel.close()

    def run(self) -> None:
        """Keep the workers running until SIGTERM or SIGINT, then until all of them have exited.

        Raises:
            WorkerError: One of them could not start to serve. All have exited.
            StoppedError: A signal arrived before all of them served. All have exited.
        """
        gc.freeze()  # existing objects and their shared memory are kept: no worker's collector writes to them
        os.set_blocking(self._wake, False)
        self._handlers = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        woken_before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        try:
            self._begin()
            self._started()
            self._keep()
            self._drain()
        finally:
            os.close(self._held)
            self._wait_for_all()
            signal.set_wakeup_fd(woken_before)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    def _begin(self) -> None:
        """Start all workers, and wait until they serve. Raises as `run`."""
        for worker in self._crew:
            try:
                self._start(worker)
            except OSError as error:
                raise WorkerError(f"worker {worker.number} could not be started: {error.strerror}") from error
        while not all(worker.serves for worker in self._crew):
            dead = self._look(None)
            if self._signals:
                raise StoppedError(self._signals[0])
            for worker, end in dead:
                raise WorkerError(worker.failure or f"worker {worker.number} {end}")

    def _keep(self) -> None:
        """Restart dead workers until a signal arrives."""
        while not self._signals:
            now = time.monotonic()
            for worker in self._crew:
                if not worker.lives and worker.due <= now:
                    self._restart(worker)
            due_times = [worker.due for worker in self._crew if not worker.lives]
            for worker, end in self._look(max(0.0, min(due_times) - time.monotonic()) if due_times else None):
                self._mourn(worker, end)

    def _drain(self) -> None:
        """Drain all workers. Another signal aborts the drain."""
        for listener in (*self._https, *self._http):  # from here on the last worker to exit closes them
            listener.close()
        passed_on = 0
        while any(worker.lives for worker in self._crew):
            if len(self._signals) > passed_on:
                passed_on = len(self._signals)
                for worker in self._crew:
                    if worker.lives:
                        os.kill(worker.pid, signal.SIGTERM)
            for worker, end in self._look(None):
                if end != "ended":
                    _log.error("worker died while it drained", extra={"worker": worker.number, "reason": end})

    def _wait_for_all(self) -> None:
        """Wait until all workers have exited. They stop because the supervisor has closed the lifeline."""
        for worker in self._crew:
            if worker.lives:
                os.waitpid(worker.pid, 0)

    def _mourn(self, worker: _Worker, end: str) -> None:
        lifetime = time.monotonic() - worker.began
        worker.deaths = 1 if lifetime >= GOOD_SECONDS else worker.deaths + 1
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(worker.deaths - 1, 10))
        worker.due = time.monotonic() + pause
        about = {
            "worker": worker.number,
            "reason": worker.failure or end,
            "livedSeconds": round(lifetime, 1),
            "pauseSeconds": pause,
        }
        _log.error("worker ended, will restart", extra=about)

    def _restart(self, worker: _Worker) -> None:
        try:
            self._start(worker)
        except OSError as error:  # out of memory, processes or sockets: a later attempt may succeed
            worker.said, worker.began = b"", time.monotonic()
            self._mourn(worker, f"could not be started: {error.strerror}")
            return
        _log.info("worker restarted", extra={"worker": worker.number, "restarts": worker.restarts})

    def _start(self, worker: _Worker) -> None:
        """Fork a worker.

        Raises:
            OSError: The system denies it.
        """
        addresses = {member.number: member.address for member in self._crew}
        with _meeting(worker.address) as channel:
            hears, tells = os.pipe()
            # Blocked until the worker has its own handlers: the supervisor's only record a signal.
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            try:
                sys.stdout.flush()
                sys.stderr.flush()
                pid = os.fork()
                if pid == 0:
                    seat = Seat(worker.number, channel, addresses, worker.restarts + 1)
                    self._be(Errand(WorkerSockets(seat, self._https, self._http), self._lifeline, tells), hears)
            except OSError:
                os.close(hears)
                raise
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
                os.close(tells)
        worker.pid, worker.report, worker.said = pid, hears, b""
        worker.began = time.monotonic()
        worker.restarts += 1
        self._selector.register(hears, selectors.EVENT_READ, worker)

    def _be(self, errand: Errand, hears: int) -> NoReturn:
        """Run as a worker. Never returns to the supervisor's code."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            os.setpgid(0, 0)  # Ctrl-C is for the supervisor, which drains the workers
            for other in (self._held, self._wake, self._woken, hears, *(w.report for w in self._crew if w.lives)):
                os.close(other)
            _name_in_log(errand.place.seat.number)
            code = self._work(errand)
        except Exception:  # noqa: BLE001 - the worker exits: no caller may handle it, and the supervisor restarts it
            _log.exception("worker failed")
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _look(self, seconds: float | None) -> list[tuple[_Worker, str]]:
        """Wait for an event. Return the workers that have exited, with the outcome.

        Args:
            seconds: Timeout. None: unlimited.
        """
        ended_workers = []
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                os.read(self._woken, 4096)
                continue
            worker: _Worker = key.data
            if words := os.read(worker.report, _MOST_REPORTED):
                worker.said += words
                continue
            self._selector.unregister(worker.report)
            os.close(worker.report)
            _, status = os.waitpid(worker.pid, 0)
            worker.pid = 0
            ended_workers.append((worker, _how(status)))
        return ended_workers


def _meeting(address: bytes) -> socket.socket:
    """Listen on a worker's address for other workers. Empty: a new abstract address."""
    channel = socket.socket(socket.AF_UNIX)
    try:
        channel.bind(address)
        channel.listen()
    except OSError:
        channel.close()
        raise
    channel.setblocking(False)
    return channel


def _how(status: int) -> str:
    """Return how a process has exited, as text."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"was terminated by signal {-code}, {signal.Signals(-code).name}"
    if code in {0, 128 + signal.SIGTERM}:  # the second is the code of a worker that is stopped before it serves
        return "ended"
    return f"failed with exit code {code}"


def _name_in_log(number: int) -> None:
    """Add the worker number to every log record of this process."""
    make = logging.getLogRecordFactory()

    def record(*args: object, **words: object) -> logging.LogRecord:
        record = make(*args, **words)
        record.worker = number
        return record

    logging.setLogRecordFactory(record)


def processors() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))
