"""The body of a write, sent only while this process may write.

The permission to write can expire while a request waits: for a connection, for a free place in the pool, or because the
whole process was suspended. A check before the request would be too early. Therefore the body itself checks, right
before its bytes are written to the socket. The library sends the headers together with the first bytes of the body, so
no byte was sent before. No other step of the event loop runs between the check and the system call that sends.

Example: a leader whose term has 2 s left creates a binding, and the request waits 8 s for a free connection in the
pool. By then another replica may be picking clusters for the same placement. The body refuses, so the placement does
not get two sets of bindings.

A long body is sent in pieces. Each is handed to the kernel as a whole before the next starts, and the check is repeated
before each: a server does not execute an incomplete request. Two gaps remain. A peer that stops reading leaves a piece
in the buffer of the connection. And the kernel can suspend the process between the check and the system call, so that
one write is sent late. Such a write carries the resourceVersion of what it replaces, or the fixed name of what it
creates, so the API server rejects it once the next leader has written there.
"""

from collections.abc import Callable
from typing import Final

from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import Payload

from webhook.kube.ports import StoreError

LeaseGuard = Callable[[], None]
"""Raises a `StoreError` while writes are forbidden."""

PIECE: Final = 64 * 1024


class FencedBody(Payload):
    """Bytes that are only sent while *fence* permits it.

    Args:
        content: The body, may be empty.
        fence: Called right before any of it is sent.

    Attributes:
        refusal: Error of *fence* at its last call. None: unset.
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
        """Write the body. The library itself calls `write_with_length`."""
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the body in pieces. The library calls it once connected."""
        content = memoryview(self._content)[:content_length]
        if len(content) > PIECE and isinstance(writer, StreamWriter) and writer.transport is not None:
            # With these limits `drain` waits until the kernel has all of it, so that no piece is sent long after its
            # check. A high limit of 0 would make TLS wait without data to send.
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
