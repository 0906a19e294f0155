"""Ctrl-C, from the first moment on.

While a command is being imported, and while it merely computes, there is nothing to put in order: it ends at once,
without a word. An exception would come out of whatever is being imported, as a traceback, and some libraries crash of
it. Once a command talks to others, it is interrupted as Python does it, so that it can let go of what it holds.
"""

import os
import signal
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""The exit code of a command that was interrupted, as shells have it."""


def end_at_once() -> None:
    """Have Ctrl-C end the process at once, unless somebody has said what else it is to do."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def end_in_order() -> None:
    """Have Ctrl-C raise `KeyboardInterrupt` from here on."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
