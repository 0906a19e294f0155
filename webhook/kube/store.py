"""The hub store: a real API server behind the same Protocol as the embedded store.

Lists are read in pages from the server's watch cache or etcd as the server likes, watches carry bookmarks and are
renewed before the server ends them; ``managedFields`` are dropped, nobody here reads them.

Source: serving.md 7.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from typing import Final

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from webhook.kube.client import ApiServer
from webhook.kube.ports import EventType, Key, Listing, WatchEvent, key_of

PAGE: Final = 500
WATCH_SECONDS: Final = (240, 300)
"""Bounds between which the length of a watch is drawn, so that not all of them end at once."""

SHORTEST_WATCH_SECONDS: Final = 0.5
"""A watch that ends sooner is not begun again at once."""


class HubStore:
    """Objects on an API server.

    Args:
        server: The connection.
    """

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        """See `webhook.kube.ports.Store`."""
        return _plain(await self._server.request("GET", path_of(kind, key.namespace, key.name)))

    async def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        """See `webhook.kube.ports.Store`."""
        query = {"limit": str(PAGE)}
        if labels:
            query["labelSelector"] = ",".join(f"{key}={value}" for key, value in labels.items())
        items: list[JsonObject] = []
        while True:
            page = await self._server.request("GET", path_of(kind, namespace or ""), query=query)
            metadata = page["metadata"]
            items += [_typed(kind, item) for item in page.get("items") or ()]
            if not metadata.get("continue"):
                items.sort(key=lambda item: (key_of(item).namespace, key_of(item).name))
                return Listing(tuple(items), str(metadata["resourceVersion"]))
            query["continue"] = metadata["continue"]

    async def watch(self, kind: Kind, since: str) -> AsyncIterator[WatchEvent]:
        """See `webhook.kube.ports.Store`."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            query = {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": since,
                "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),  # noqa: S311 - spreads load, hides nothing
            }
            async for event in self._server.watch(path_of(kind), query):
                document = event["object"]
                since = str(document["metadata"]["resourceVersion"])
                yield WatchEvent(EventType(event["type"]), _typed(kind, document), since)
            if loop.time() - started < SHORTEST_WATCH_SECONDS:  # a server that ends every watch at once
                await asyncio.sleep(SHORTEST_WATCH_SECONDS)

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `webhook.kube.ports.Store`."""
        namespace = document["metadata"].get("namespace", "")
        return _plain(await self._server.request("POST", path_of(kind, namespace), document))

    async def replace(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `webhook.kube.ports.Store`."""
        return _plain(await self._server.request("PUT", _path_of(kind, document), document))

    async def replace_status(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `webhook.kube.ports.Store`."""
        return _plain(await self._server.request("PUT", f"{_path_of(kind, document)}/status", document))

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "") -> None:
        """See `webhook.kube.ports.Store`."""
        conditions = {"uid": uid, "resourceVersion": resource_version}
        options: JsonObject = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {name: value for name, value in conditions.items() if value},
        }
        await self._server.request("DELETE", path_of(kind, key.namespace, key.name), options)


def path_of(kind: Kind, namespace: str = "", name: str = "") -> str:
    """Return the path of an object, or of all objects of a kind, of one namespace when it is given."""
    parts = ["/apis", kind.api_version] if kind.group else ["/api", kind.versions[0]]
    if namespace:
        parts += ["namespaces", namespace]
    return "/".join([*parts, kind.plural, *([name] if name else [])])


def _path_of(kind: Kind, document: JsonObject) -> str:
    key = key_of(document)
    return path_of(kind, key.namespace, key.name)


def _typed(kind: Kind, document: JsonObject) -> JsonObject:
    """Return an item of a list with the type that lists of built-in kinds leave out."""
    document.setdefault("apiVersion", kind.api_version)
    document.setdefault("kind", kind.kind)
    return _plain(document)


def _plain(document: JsonObject) -> JsonObject:
    document["metadata"].pop("managedFields", None)
    return document
