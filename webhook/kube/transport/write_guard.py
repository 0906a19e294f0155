"""The body of a write, sent only while this process may write.

The right to write can end while a request waits: for a connection, for a free place in the pool, or because the whole
process was suspended. A check before the request is made would be too early. So the body itself checks, right before
its bytes go to the socket. The library sends the headers together with the first bytes of the body, so nothing has left
before; and no other step of the event loop runs between the check and the system call that sends.

A long body goes out in pieces. Each is handed to the kernel as a whole before the next begins, and the check is made
again before each: a server does not carry out a request that it has not received whole. One gap remains: a peer that
reads nothing for so long that a piece stays in the buffer of the connection.
"""

from collections.abc import Callable
from typing import Final

from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import Payload

from webhook.kube.ports import StoreError

LeaseGuard = Callable[[], None]
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

    def __init__(self, content: bytes, fence: LeaseGuard) -> None:
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
            # With these limits `drain` waits until the kernel has all of it, so that no piece leaves after its check.
            # A high limit of 0 would make TLS wait with nothing to send.
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
