"""Return of memory that the C library's allocator retains after free.

glibc serves each thread from its own arena, and retains every freed block below one in use. A process that has listed a
large hub once would keep that memory. Fewer arenas and fixed thresholds limit the retained memory, and a trim in a
thread returns the rest once a minute.

Environment variables take precedence, as the image sets them: glibc reads them before Python runs. musl and macOS have
none of these functions, so the module does nothing there.

Source: mallopt(3), malloc_trim(3), mallinfo(3).
"""

import asyncio
import ctypes
from collections.abc import Mapping
from typing import Final, NamedTuple

LIMITS: Final[Mapping[str, int]] = {
    "MALLOC_ARENA_MAX": 2,
    "MALLOC_MMAP_THRESHOLD_": 131_072,
    "MALLOC_TRIM_THRESHOLD_": 131_072,
}
"""Environment variables of glibc.

Both thresholds have their default values. Setting one explicitly keeps glibc from raising it when large blocks are
freed. The buffer of a TLS connection, 256 KiB, is therefore always mapped, and takes only the pages that it uses.
"""
_OPTIONS: Final = {"MALLOC_ARENA_MAX": -8, "MALLOC_MMAP_THRESHOLD_": -3, "MALLOC_TRIM_THRESHOLD_": -1}
"""Numbers of the options in malloc.h."""
TRIM_SECONDS: Final = 60.0
_WORTH_A_TRIM: Final = 4 * 2**20
"""Free bytes below which a trim is skipped."""


class Allocated(NamedTuple):
    """The memory of the C library's allocator.

    Args:
        used: Bytes of blocks in use.
        free: Bytes of blocks that were freed and are retained, including those returned by a trim.
    """

    used: int
    free: int


class _Mallinfo(ctypes.Structure):
    """``struct mallinfo2``."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _library() -> ctypes.CDLL | None:
    """Return the C library if it is a glibc with all functions used here (2.33 or newer), else None."""
    try:
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = _Mallinfo
        library.malloc_trim.argtypes = (ctypes.c_size_t,)
        library.mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    except (AttributeError, OSError, TypeError):
        return None
    return library


_LIBRARY: Final = _library()


def allocated() -> Allocated | None:
    """Return the memory of the allocator. None: unknown, because the C library is not a recent glibc."""
    if _LIBRARY is None:
        return None
    info = _LIBRARY.mallinfo2()
    return Allocated(info.uordblks + info.hblkhd, info.fordblks)


def limit_allocator(environment: Mapping[str, str]) -> None:
    """Set `LIMITS`, except those that the environment sets. A no-op without a recent glibc."""
    if _LIBRARY is None:
        return
    for name, value in LIMITS.items():
        if name not in environment:
            _LIBRARY.mallopt(_OPTIONS[name], value)


def trim() -> None:
    """Return free memory to the system, if there is enough of it."""
    memory = allocated()
    if _LIBRARY is not None and memory is not None and memory.free >= _WORTH_A_TRIM:
        _LIBRARY.malloc_trim(0)


async def keep_trimming() -> None:
    """Trim once a minute until cancelled. Without a recent glibc, return immediately."""
    while _LIBRARY is not None:
        await asyncio.sleep(TRIM_SECONDS)
        await asyncio.to_thread(trim)
