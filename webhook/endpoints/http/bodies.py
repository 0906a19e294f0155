"""Reading request bodies within limits of size, time and memory.

Source: docs/specifications/serving.md 1.8 part A.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

THREAD_BYTES: Final = 256 * 1024
"""Larger bodies are parsed and written in a thread, so that they do not block the event loop."""

SHORT_BYTES: Final = 64 * 1024
"""Maximum size of a complete body that is not counted: it is parsed before the next iteration of the event loop."""

ResultT = TypeVar("ResultT")


class BodyError(Exception):
    """A body that could not be read. The message may be shown to the caller."""


class BodyTooLargeError(BodyError):
    """More bytes than allowed, announced or sent."""


class BodyTimeoutError(BodyError):
    """The body did not arrive in time."""


class BrokenBodyError(BodyError):
    """The body ended early or its framing is wrong."""


class BodyMemoryError(BodyError):
    """All memory for bodies is in use."""


class _Reading:
    """A body that is being read, or that is complete and in use.

    Args:
        address: The sender's address.
        vouched: Whether the sender has authenticated.
        patience: The timeout for reading it.
    """

    __slots__ = ("address", "given_up", "patience", "size", "vouched")

    def __init__(self, address: str, vouched: bool, patience: asyncio.Timeout) -> None:
        self.address = address
        self.vouched = vouched
        self.patience = patience
        self.size = 0
        self.given_up = False


class Bodies:
    """The memory of a server for request bodies.

    A short body that arrives together with its headers is exempt: it is read and judged immediately. All others share
    *most* bytes. Senders that have not authenticated may use three quarters of them. If no memory is left, an
    incomplete body is dropped: the oldest one of the address that uses most memory, bodies of unauthenticated senders
    first.

    Args:
        most: Bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_of_strangers = most * 3 // 4
        self._held = 0
        self._of_strangers = 0
        self._by_address: Counter[str] = Counter()
        self._unfinished: dict[_Reading, None] = {}

    @property
    def held(self) -> int:
        """Bytes in use."""
        return self._held

    @asynccontextmanager
    async def read(
        self, request: web.Request, limit: int, seconds: float, *, vouched: bool = False
    ) -> AsyncIterator[bytes]:
        """Read the whole body, and count its memory as used until the context exits.

        Args:
            request: A request whose body is unread.
            limit: Bytes.
            seconds: Timeout for the arrival of the body.
            vouched: Whether the sender has authenticated.

        Raises:
            BodyTooLargeError: The body is longer than *limit*. If Content-Length already exceeds it, nothing is read.
            BodyTimeoutError: The body did not arrive within *seconds*.
            BrokenBodyError: The client disconnected, or its chunks are malformed.
            BodyMemoryError: No memory is left for it.
        """
        length = request.content_length
        if length is not None and length > limit:
            raise BodyTooLargeError(f"the body has {length} bytes, more than {limit}")
        patience = asyncio.timeout(seconds)
        reading = _Reading(request.remote or "", vouched, patience)
        try:
            yield await self._all_of(request, limit, reading, seconds)
        finally:
            self._unfinished.pop(reading, None)
            self._count(reading, -reading.size)

    async def _all_of(self, request: web.Request, limit: int, reading: _Reading, seconds: float) -> bytes:
        content = request.content
        try:
            if content.is_eof():  # arrived together with the headers, as usual
                body = content.read_nowait()
                if len(body) > SHORT_BYTES:
                    self._add(reading, len(body))
            else:
                async with reading.patience:
                    self._unfinished[reading] = None
                    chunks, size = [], 0
                    while chunk := await content.readany():
                        size += len(chunk)
                        if size > limit:
                            raise BodyTooLargeError(f"the body has more than {limit} bytes")
                        chunks.append(chunk)
                        self._add(reading, len(chunk))
                    del self._unfinished[reading]
                body = b"".join(chunks)
        except TimeoutError as error:
            if reading.given_up:
                raise BodyMemoryError("all memory for bodies is in use, and this body arrived too slowly") from error
            raise BodyTimeoutError(f"timed out: the body did not arrive within {seconds:g} s") from error
        except (web.RequestPayloadError, HttpProcessingError, ConnectionError) as error:
            raise BrokenBodyError("the body is truncated or its framing is invalid") from error
        if len(body) > limit:
            raise BodyTooLargeError(f"the body has more than {limit} bytes")
        return body

    def _add(self, reading: _Reading, size: int) -> None:
        """Count memory as used. Raises `BodyMemoryError`."""
        self._count(reading, size)
        while not reading.vouched and self._of_strangers > self._most_of_strangers:
            self._give_up_one(reading, strangers=True)
        while self._held > self._most:
            self._give_up_one(reading, strangers=False)

    def _give_up_one(self, reading: _Reading, *, strangers: bool) -> None:
        """Free the memory of another body, or raise `BodyMemoryError` for *reading* without a candidate."""
        others = [body for body in self._unfinished if body is not reading and not body.given_up]
        victims = [body for body in others if not body.vouched] or ([] if strangers else others)
        if not victims:
            raise BodyMemoryError("all memory for bodies is in use")
        victim = max(
            victims, key=lambda reading: self._by_address[reading.address]
        )  # among equals the first: the oldest
        victim.given_up = True
        if not victim.patience.expired():  # an expired timeout cannot be rescheduled, and that task ends by itself
            victim.patience.reschedule(asyncio.get_running_loop().time())
        # Its task ends only in the next iteration of the event loop, but *reading* needs the memory now. So the bytes
        # are released here, which leaves `size` at 0: the end of the victim's `read` does not release them again.
        self._count(victim, -victim.size)

    def _count(self, reading: _Reading, size: int) -> None:
        reading.size += size
        self._held += size
        self._of_strangers += 0 if reading.vouched else size
        self._by_address[reading.address] += size
        if not self._by_address[reading.address]:
            del self._by_address[reading.address]


async def off_loop(size: int, work: Callable[[], ResultT]) -> ResultT:
    """Run *work* on *size* bytes, in a thread if they are more than `THREAD_BYTES`."""
    return await asyncio.to_thread(work) if size > THREAD_BYTES else work()
