"""No core dump of any process: it would hold private keys and tokens, and outlive both.

This comes before the command is read, because by the time a server listens the key of its authority is in memory.

Source: serving.md 8, "CA key theft"; Linux ``fs/coredump.c``.
"""

import resource
from typing import Final

_TOO_SMALL: Final = 1
"""Bytes. Less than a page, so that no file is written. Where the system pipes core dumps to a program, as on many nodes
of Kubernetes, it disregards every limit but this one, 0 included."""


def leave_none() -> None:
    """Have the system write no core dump of this process and of those that it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    lowest = _TOO_SMALL if hard == resource.RLIM_INFINITY else min(_TOO_SMALL, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (lowest, hard))
