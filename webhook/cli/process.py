"""The process before a command is read: signal handlers, the limit of core dumps, and its name under kubectl.

While Python imports a command, and while the command only computes, there is nothing to clean up: Ctrl-C ends the
process at once, without output. A KeyboardInterrupt during an import would show a traceback, and some libraries crash.
Once a command has connections, Ctrl-C raises KeyboardInterrupt as usual, so that the command can close them.

SIGTERM ends it at once as well, until `webhook.server.listening.serve` takes it over. The first process of a
container is not sent a signal that it has no handler for: without one, a container that is deleted while it starts
would go on until its grace period is over.

A core dump would hold private keys and tokens, and outlive both. The limit is set first, because the key of the
authority is in memory by the time a server listens.

Source: serving.md 1.14; serving.md 8, "CA key theft"; Linux ``fs/coredump.c``.
"""

import os
import resource
import signal
from types import FrameType
from typing import Final

KUBECTL: Final = "kubectl "
"""Prefix of the program's name when users call it through kubectl."""

INTERRUPTED: Final = 130
"""The exit code of an interrupted command, as in shells: 128 + SIGINT."""


def exit_on_signal() -> None:
    """Have Ctrl-C and SIGTERM end the process at once, unless another handler is already installed."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)


def end_in_order() -> None:
    """Have Ctrl-C raise `KeyboardInterrupt` from here on."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


_TOO_SMALL: Final = 1
"""Bytes. Less than a page, so that no file is written. Where the system pipes core dumps to a program, as on many nodes
of Kubernetes, it disregards every limit but this one, 0 included."""


def leave_none() -> None:
    """Have the system write no core dump of this process and of those that it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    lowest = _TOO_SMALL if hard == resource.RLIM_INFINITY else min(_TOO_SMALL, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (lowest, hard))
