"""A viewer of the stream of changes."""

import json

from tests.webhook.endpoints.conftest import head


async def open_stream(connection, *, plain_host: str = "localhost"):
    await connection.send(head("GET", "/v1/events", {"Host": plain_host, **connection.credentials}))
    lines = []
    while (line := (await connection.line()).rstrip()) != b"":
        lines.append(line)
    return lines


async def next_change(connection) -> dict:
    """Skip over the framing of chunks up to the data of the next event."""
    while not (line := await connection.line()).startswith(b"data: "):
        assert line, "the stream has ended"
    return json.loads(line.removeprefix(b"data: "))
