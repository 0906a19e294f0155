"""The hub as one viewer may use it: every request has the viewer's own credential, and none of ours.

The connection is made for one action, and presents no client certificate: an API server prefers a certificate to a
token, so ours would give the viewer our rights.

Source: docs/specifications/serving.md 3.5.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

import aiohttp

from scorer.api.kinds import Kind
from scorer.api.unstructured.documents import dicts_at, text_at
from scorer.api.unstructured.json_object import JsonObject, dump_json
from webhook.actions.planned import HubRefusalError, HubWrite
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import path_of
from webhook.kube.client.responses import decode, warnings_in
from webhook.kube.login.connection import ApiServerEndpoint
from webhook.kube.transport.serialization import MERGE_PATCH

SECONDS: Final = 30.0
"""Timeout of a request."""
_PAGE: Final = "500"
_CONNECTIONS: Final = 4
_JSON: Final = "application/json"


class ViewerHubs(Protocol):
    """Opens the hub for one viewer."""

    def open(self, token: str) -> AbstractAsyncContextManager["ViewerHub"]:
        """Return the hub for the viewer with *token*. Raises `webhook.kube.login.kubeconfig.ConfigurationError`."""
        ...


class ViewerHub:
    """Requests of one viewer.

    Args:
        server: The API server, with the credential of the viewer.
    """

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject:
        """Return an object. Raises `HubRefusalError`, and `webhook.kube.ports.StoreError` without an answer."""
        document, _ = await self._request("GET", path_of(kind, namespace, name))
        return {"apiVersion": kind.api_version, "kind": kind.kind, **document}

    async def list_all(self, kind: Kind, namespace: str = "", selector: str = "") -> list[JsonObject]:
        """Return all objects of a kind, page by page. Raises as `get`."""
        query = {"limit": _PAGE} | ({"labelSelector": selector} if selector else {})
        items: list[JsonObject] = []
        while True:
            page, _ = await self._request("GET", path_of(kind, namespace), query=query)
            items += [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in dicts_at(page, "items")]
            if not (token := text_at(page, "metadata", "continue")):
                return items
            query["continue"] = token

    async def write(self, write: HubWrite, *, dry_run: bool) -> list[str]:
        """Send a write, and return the warnings of the API server. In a dry run, it stores nothing. Raises as `get`."""
        path = path_of(write.kind, write.namespace, write.name, write.subresource)
        query = {"dryRun": "All"} if dry_run else {}
        if write.name:
            return (await self._request("PATCH", path, write.body, query=query, content_type=MERGE_PATCH))[1]
        return (await self._request("POST", path, write.body, query=query))[1]

    async def _request(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = _JSON,
    ) -> tuple[JsonObject, list[str]]:
        content, patience = None if body is None else dump_json(body), aiohttp.ClientTimeout(total=SECONDS)
        async with self._server.send(method, path, content, query, content_type, patience) as response:
            answer = await response.read()
            document = decode(answer)
            if response.status >= 300:
                message = text_at(document, "message") or f"HTTP {response.status}"
                raise HubRefusalError(response.status, message)
            return document, list(warnings_in(response.headers.getall("Warning", [])))


class ForwardingHubs:
    """Forwards the token of the viewer to the API server of the hub, whose certificate is verified.

    Args:
        endpoint: Returns the API server, without our credentials. Called for each action, because authorities are
            rotated.
    """

    def __init__(self, endpoint: Callable[[], Awaitable[ApiServerEndpoint]]) -> None:
        self._endpoint = endpoint

    @asynccontextmanager
    async def open(self, token: str) -> AsyncIterator[ViewerHub]:
        """See `ViewerHubs.open`."""

        async def credentials() -> Mapping[str, str]:
            return {"Authorization": f"Bearer {token}"}

        login = (await self._endpoint()).login(credentials)
        async with ApiServer(login, connections=_CONNECTIONS) as server:
            yield ViewerHub(server)


class OwnHubs:
    """The hub with the credentials of this process, which belong to its only viewer, as in ``dashboard``.

    Args:
        server: The API server.
    """

    def __init__(self, server: ApiServer) -> None:
        self._hub = ViewerHub(server)

    @asynccontextmanager
    async def open(self, token: str) -> AsyncIterator[ViewerHub]:
        """See `ViewerHubs.open`. *token* is that of the page, and never forwarded."""
        del token
        yield self._hub
