"""Programs that the tests start: each with its own log, ended by its process id, its last words shown when it fails."""

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

LAST_LINES = 30
PATIENCE = 120.0
"""Seconds that anything may take which takes some on an idle machine: only what never comes about takes so long."""

FEW_COLLECTIONS: Mapping[str, str] = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
"""For the programs in Go, which take most of the processor: up to a gibibyte each rather than a fifth of their time."""

_HELD_PORTS = contextlib.ExitStack()
atexit.register(_HELD_PORTS.close)


class ProgramError(Exception):
    """A program did not start or ended too soon; the text has the end of its log."""


class Program:
    """One running program.

    Args:
        command: What to run.
        log: Where its output goes.
        environment: Added to that of the tests.
    """

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.command = [str(word) for word in command]
        self.log = log
        self.name = Path(self.command[0]).name
        self._environment = {**FEW_COLLECTIONS, **os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def of_release(self, folder: Path) -> None:
        """Have it run from another folder of programs, from its next start on."""
        self.command[0] = str(folder / self.name)

    def start(self) -> None:
        """Start it; a log that is there already is continued."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def wait_ready(self, check: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait until *check* says yes; an `OSError` of it counts as no.

        Raises:
            ProgramError: It ended, or took too long.
        """
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError):
                if check():
                    return
            if not self.running:
                raise ProgramError(f"{self.name} has ended: {self.last_words()}")
            if time.monotonic() > end:
                raise ProgramError(f"{self.name} is not ready after {seconds:g} s: {self.last_words()}")
            time.sleep(0.1)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self, seconds: float = PATIENCE, number: signal.Signals = signal.SIGTERM) -> int | None:
        """End it and wait; after *seconds* it is killed. Returns its exit code, None when it never ran."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
        return self._process.wait()

    def last_words(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-LAST_LINES:])


def kill(*programs: Program) -> None:
    """End programs without asking them, all at once: what each would still tidy up goes with the tests."""
    for program in programs:
        if program.running:
            program.send(signal.SIGKILL)
    for program in programs:
        program.stop()


def free_port() -> int:
    """A loopback port for a program that listens with SO_REUSEADDR, as all of ours do: nobody else gets it before.

    A port that is only looked up may become that of any outgoing connection before its program listens. So a socket
    stays bound to it, without listening, for as long as this process lives: the system then gives it to nobody who
    does not ask for it by number.
    """
    holder = _HELD_PORTS.enter_context(socket.socket())
    holder.bind(("127.0.0.1", 0))
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # only now: two holders never get the same port
    return int(holder.getsockname()[1])
