"""Requests of a store whose objects a command reads once: over urllib3, without watches.

aiohttp (`webhook.kube.client.api_server`) takes longer to load than such a command takes for everything else. A watch
per kind would be a useless connection per kind, because the command ends before any change.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from scorer.api.unstructured.json_object import JsonObject, dump_json
from webhook.kube.client.cli_client import HubHttp
from webhook.kube.client.paths import ApiPath
from webhook.kube.client.responses import REQUEST_SECONDS, decode, error_of, retry_after


class CommandRequests:
    """Requests of one command to an API server (`webhook.kube.client.responses.ObjectRequests`).

    Args:
        http: The connection, which its owner closes.
    """

    def __init__(self, http: HubHttp) -> None:
        self._http = http

    async def request(
        self,
        method: str,
        path: ApiPath,
        body: JsonObject | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        seconds: float = REQUEST_SECONDS,
        fence: Callable[[], None] | None = None,
    ) -> JsonObject:
        """Send one request and return the document of the response. Raises `StoreError`."""
        if fence is not None:
            fence()
        content = None if body is None else dump_json(body)
        reply = await self._http.send(method, path, content, query, content_type, seconds)
        document = decode(reply.content)
        if reply.status >= 300:
            raise error_of(reply.status, document, reply.content, retry_after(reply.retry_after, document))
        return document

    async def watch(self, _path: ApiPath, _query: Mapping[str, str]) -> AsyncIterator[tuple[JsonObject, bool]]:
        """Block until cancelled, without yielding any event."""
        await asyncio.Event().wait()
        yield {}, False
