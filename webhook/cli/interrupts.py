"""Ctrl-C, from the first moment on.

While Python imports a command, and while the command only computes, there is nothing to clean up: Ctrl-C ends the
process at once, without output. A KeyboardInterrupt during an import would show a traceback, and some libraries crash.
Once a command has connections, Ctrl-C raises KeyboardInterrupt as usual, so that the command can close them.
"""

import os
import signal
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""The exit code of an interrupted command, as in shells: 128 + SIGINT."""


def end_at_once() -> None:
    """Have Ctrl-C end the process at once, unless another handler is already installed."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def end_in_order() -> None:
    """Have Ctrl-C raise `KeyboardInterrupt` from here on."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
