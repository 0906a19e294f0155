"""A keep-alive connection over TLS that costs the machine next to nothing: requests are made before they are sent."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson

from e2e.controlplane.cluster import LOOPBACK, JsonObject


class Connection:
    """A keep-alive connection that asks one thing at a time.

    Attributes:
        is_closing: Whether the last answer said that it is the last.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.is_closing = False

    async def ask(self, asked: bytes) -> tuple[int, bytes]:
        """Return status and body of the answer.

        Raises:
            OSError: The connection has ended; `EOFError` when that was before the end of the answer.
        """
        self._writer.write(asked)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        self.is_closing = b"\r\nconnection: close\r\n" in head
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(head.split()[1]), await self._reader.readexactly(length)

    def close(self) -> None:
        """Hang up."""
        self._writer.transport.abort()


@asynccontextmanager
async def dial(port: int, trust: ssl.SSLContext) -> AsyncIterator[Connection]:
    """Open a connection."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=trust, server_hostname="localhost")
    connection = Connection(reader, writer)
    try:
        yield connection
    finally:
        connection.close()


def request(path: str, body: JsonObject, token: str = "") -> bytes:
    """Return a whole request that posts *body*, as the bearer of *token* if there is one."""
    content = orjson.dumps(body)
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode("ascii") + content
