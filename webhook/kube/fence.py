"""The body of a write that may leave only while we may write.

Who may write can change while a request waits: for a connection, for a free one of the pool, or because the whole
process was stopped for a while and goes on. So it does not help to ask before the request is made; what asks is the
body itself, right before its bytes go to the socket. The library sends the headers together with the first bytes of
the body, so nothing at all has left before; between the question and the system call that sends there is no other step
of the event loop.

A long body goes out in pieces, each into the kernel as a whole before the next is begun, and the question is asked
again before each: a request that is not whole is none. What is left open is a peer who takes nothing for so long that
a piece stays in the buffer of the connection.
"""

from collections.abc import Callable
from typing import Final

from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import Payload

from webhook.kube.ports import StoreError

Fence = Callable[[], None]
"""Raises a `StoreError` when nothing may be written now."""

PIECE: Final = 64 * 1024


class FencedBody(Payload):
    """Bytes that leave only while *fence* lets them.

    Args:
        content: The body; may be empty.
        fence: Asked right before any of it leaves.

    Attributes:
        refusal: What *fence* raised the last time the body was to be sent.
    """

    def __init__(self, content: bytes, fence: Fence) -> None:
        super().__init__(content, content_type="application/octet-stream")
        self._content = content
        self._size = len(content)
        self._fence = fence
        self.refusal: StoreError | None = None

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return self._content.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write the body; what the library calls is `write_with_length`."""
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the body, in pieces; the library calls it once the connection is there."""
        content = memoryview(self._content)[:content_length]
        if len(content) > PIECE and isinstance(writer, StreamWriter) and writer.transport is not None:
            # `drain` then waits until the kernel has all of it. A limit of 0 would make TLS wait with nothing to send.
            writer.transport.set_write_buffer_limits(high=1, low=0)
        for start in range(0, max(1, len(content)), PIECE):
            if start:
                await writer.drain()
            self._ask()
            await writer.write(bytes(content[start : start + PIECE]))

    def _ask(self) -> None:
        self.refusal = None
        try:
            self._fence()
        except StoreError as error:
            self.refusal = error
            raise
