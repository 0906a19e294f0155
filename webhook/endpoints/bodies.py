"""Reading request bodies within limits of size, time and memory.

Source: serving.md 1.8 part A.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

THREAD_BYTES: Final = 256 * 1024
"""What is longer than this is read and written beside the event loop, so that it does not hold up the others."""

SHORT_BYTES: Final = 64 * 1024
"""A complete body that is no longer than this is counted nowhere: it is in use only while nobody else has a turn."""

ResultT = TypeVar("ResultT")


class BodyError(Exception):
    """A body that could not be read; the message is fit for the caller."""


class BodyTooLargeError(BodyError):
    """More bytes than allowed, announced or sent."""


class BodyTimeoutError(BodyError):
    """The body did not arrive in time."""


class BrokenBodyError(BodyError):
    """The body ended early or its framing is wrong."""


class BodyMemoryError(BodyError):
    """All memory for bodies is taken."""


class _Reading:
    """A body that is being read, or that is complete and in use.

    Args:
        address: Who sends it.
        vouched: The sender has shown who it is.
        patience: Of the reading.
    """

    __slots__ = ("address", "given_up", "patience", "size", "vouched")

    def __init__(self, address: str, vouched: bool, patience: asyncio.Timeout) -> None:
        self.address = address
        self.vouched = vouched
        self.patience = patience
        self.size = 0
        self.given_up = False


class Bodies:
    """The memory for bodies of a server.

    A short body that comes together with its headers needs none of it: it is read and judged at once. For the others
    there are *most* bytes, of which those who have shown nothing may take three quarters. When they are used up, a body
    that is not complete yet is given up: the oldest of the address that holds most, of strangers first.

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
        """Bytes that are taken."""
        return self._held

    @asynccontextmanager
    async def read(
        self, request: web.Request, limit: int, seconds: float, *, vouched: bool = False
    ) -> AsyncIterator[bytes]:
        """Read the whole body, and hold the memory for it until the context ends.

        Args:
            request: Its body must not have been touched.
            limit: Bytes.
            seconds: How long the body may take to arrive.
            vouched: The sender has shown who it is.

        Raises:
            BodyTooLargeError: Longer than *limit*; nothing is read when the length is announced.
            BodyTimeoutError: Not there within *seconds*.
            BrokenBodyError: The client broke off or its chunks are malformed.
            BodyMemoryError: There is no memory for it.
        """
        length = request.content_length
        if length is not None and length > limit:
            raise BodyTooLargeError(f"the body has {length} bytes; at most {limit} are accepted")
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
            if content.is_eof():  # came together with the headers, as is usual
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
                            raise BodyTooLargeError(f"the body has more than the {limit} bytes accepted")
                        chunks.append(chunk)
                        self._add(reading, len(chunk))
                    del self._unfinished[reading]
                body = b"".join(chunks)
        except TimeoutError as error:
            if reading.given_up:
                raise BodyMemoryError("all memory for bodies is taken, and this one came too slowly") from error
            raise BodyTimeoutError(f"the body did not arrive within {seconds:g} s") from error
        except (web.RequestPayloadError, HttpProcessingError, ConnectionError) as error:
            raise BrokenBodyError("the body ended early or its framing is wrong") from error
        if len(body) > limit:
            raise BodyTooLargeError(f"the body has more than the {limit} bytes accepted")
        return body

    def _add(self, reading: _Reading, size: int) -> None:
        """Take memory. Raises `BodyMemoryError`."""
        self._count(reading, size)
        while not reading.vouched and self._of_strangers > self._most_of_strangers:
            self._give_up_one(reading, strangers=True)
        while self._held > self._most:
            self._give_up_one(reading, strangers=False)

    def _give_up_one(self, reading: _Reading, *, strangers: bool) -> None:
        """Free the memory of one body; when there is no other, raise `BodyMemoryError` for *reading*."""
        others = [each for each in self._unfinished if each is not reading and not each.given_up]
        victims = [each for each in others if not each.vouched] or ([] if strangers else others)
        if not victims:
            raise BodyMemoryError("all memory for bodies is taken")
        victim = max(victims, key=lambda each: self._by_address[each.address])  # of equal ones the first, the oldest
        victim.given_up = True
        if not victim.patience.expired():  # else its time is up, and it goes by itself
            victim.patience.reschedule(asyncio.get_running_loop().time())
        self._count(victim, -victim.size)

    def _count(self, reading: _Reading, size: int) -> None:
        reading.size += size
        self._held += size
        self._of_strangers += 0 if reading.vouched else size
        self._by_address[reading.address] += size
        if not self._by_address[reading.address]:
            del self._by_address[reading.address]


async def beside_loop(size: int, work: Callable[[], ResultT]) -> ResultT:
    """Do *work* on so many bytes: in a thread when they are many."""
    return await asyncio.to_thread(work) if size > THREAD_BYTES else work()
