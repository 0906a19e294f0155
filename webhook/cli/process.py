"""The process around a command: signal handlers, the limit of core dumps, and its end.

While Python imports a command, and while the command only computes, no clean-up is needed: Ctrl-C terminates the
process immediately, without output. A KeyboardInterrupt during an import would show a traceback, and some libraries
crash. Once a command has connections, Ctrl-C raises KeyboardInterrupt as usual, so that the command can close them.

SIGTERM also terminates it immediately, until `webhook.server.listening.serve` installs its handler. The kernel drops
signals without a handler for the first process of a container: if such a container were deleted during startup, the
process would run until its grace period expires.

A core dump would hold private keys and tokens, and outlive both. The limit is set first, because the key of the
authority is in memory by the time a server listens.

At its end, the process exits without freeing its objects one by one, which takes a fifth of the CPU time of a short
command.

Source: docs/specifications/serving.md 1.14; docs/specifications/serving.md 8, "CA key theft"; Linux ``fs/coredump.c``.
"""

import atexit
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Final

from webhook.processes.garbage import collect_rarely

INTERRUPTED: Final = 130
"""The exit code of an interrupted command, as in shells: 128 + SIGINT."""
_OF_LIBRARIES: Final = {
    "PYDANTIC_DISABLE_PLUGINS": "__all__",  # otherwise it reads the metadata of every installed distribution
    "OPENBLAS_NUM_THREADS": "1",  # otherwise numpy starts a thread per core, for linear algebra that we do not use
}
"""Environment variables that make libraries load faster. Values of the user take precedence."""


def prepare() -> None:
    """Set up the process. Must be called before other modules are imported."""
    leave_none()
    exit_on_signal()
    open_closed_streams()
    collect_rarely()
    for name, value in _OF_LIBRARIES.items():
        os.environ.setdefault(name, value)


@contextmanager
def ending_quickly() -> Iterator[None]:
    """End the process when the block exits, without freeing its objects. Exit functions are still called.

    If other threads are running, if a standard stream cannot be written to, or under a profiler or debugger, Python
    ends the process as usual.
    """
    try:
        yield
    except SystemExit as end:
        from threading import active_count  # most commands have loaded it by now

        if not isinstance(end.code, int) or active_count() > 1 or sys.getprofile() or sys.gettrace():
            raise
        atexit._run_exitfuncs()  # os._exit does not call them
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            raise end from None
        os._exit(end.code)


def exit_on_signal() -> None:
    """Terminate the process immediately on Ctrl-C and SIGTERM, unless another handler is already installed."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Raise `KeyboardInterrupt` on Ctrl-C within the block. Afterwards, Ctrl-C terminates the process again."""
    ends = signal.getsignal(signal.SIGINT) is _end
    end_in_order()
    try:
        yield
    finally:
        if ends:
            signal.signal(signal.SIGINT, _end)


def end_in_order() -> None:
    """Raise `KeyboardInterrupt` on Ctrl-C from now on, so that the command can close its connections."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def open_closed_streams() -> None:
    """Open ``/dev/null`` for each standard stream that the caller has closed.

    Otherwise the first file or socket that the program opens would get its descriptor, and receive the output.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8")  # the lowest free descriptor
            setattr(sys, name, stream)


def discard(*streams: IO[str]) -> None:
    """Discard the unwritten output of streams that cannot be written to. Otherwise the exit would report it."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(null, stream.fileno())


def _end(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


_TOO_SMALL: Final = 1
"""Bytes. Less than a page, so that no file is written.

The limit must be 1: if the kernel pipes core dumps to a program, as on many Kubernetes nodes, it ignores every other
limit, including 0.
"""


def leave_none() -> None:
    """Disable core dumps of this process and of its children."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    lowest = _TOO_SMALL if hard == resource.RLIM_INFINITY else min(_TOO_SMALL, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (lowest, hard))
