"""The hub store: a real API server behind the same Protocol as the embedded store.

Lists are read in pages, from the server's watch cache or from etcd as the server chooses. Watches use bookmarks and are
renewed before the server ends them. ``managedFields`` are dropped, except for the few kinds whose managers matter.

Source: docs/specifications/serving.md 7.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from scorer.api.kinds import OUR_KINDS, Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.rollout.ownership.fields import WITH_MANAGERS
from webhook.kube.client.paths import ApiPath, path_of, path_of_object
from webhook.kube.client.responses import REQUEST_SECONDS, ObjectRequests
from webhook.kube.ports import (
    EventType,
    InvalidObjectError,
    Key,
    Listing,
    NotFoundError,
    UnavailableError,
    WatchEvent,
    key_of,
)
from webhook.kube.transport.serialization import MERGE_PATCH

PAGE: Final = 500
WATCH_SECONDS: Final = (55, 80)
"""Bounds of the random duration of a watch, so that watches do not all end together.

Shorter than the silence after which a connection counts as dead: a quiet kind gets few bookmarks.
"""

SHORTEST_WATCH_SECONDS: Final = 0.5
"""A shorter watch is followed by a pause."""

READS: Final = ((10.0, 0.1), (10.0, 0.4), (REQUEST_SECONDS, 0.0))
"""Timeout of each attempt of a read, and the pause after it, in seconds.

A dropped connection never responds, whereas a busy or restarting server often responds to the next request. A caller
that gave up would also have to repeat its other requests. The last attempt has the timeout of any other request, for a
slow server. Writes are not retried here: a failed one may have been stored.
"""
_CUSTOM_GROUPS: Final = frozenset(kind.group for kind in OUR_KINDS)
_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion")
LONGEST_PAUSE_SECONDS: Final = 5.0
"""Limit of a server's Retry-After. A longer one is left to the caller."""


class HubStore:
    """Objects on an API server.

    Args:
        server: The connection.
        fence: Called right before a write is sent. If it raises, the write is not sent. None: disabled.
        keep_managers: Keep ``managedFields`` of every kind that is read.
    """

    def __init__(
        self, server: ObjectRequests, *, fence: Callable[[], None] | None = None, keep_managers: bool = False
    ) -> None:
        self._server = server
        self._fence = fence
        self._keep_managers = keep_managers

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        """See `webhook.kube.ports.Store`."""
        try:
            path = path_of_object(kind, key)
        except InvalidObjectError as error:  # no object can have that name
            raise NotFoundError(str(error)) from error
        return self._read(await self._ask(path), f"GET {path}")

    async def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        """See `webhook.kube.ports.Store`."""
        items: list[JsonObject] = []
        version = ""
        async for page in self.pages(kind, namespace, labels):
            items += page.items
            version = page.resource_version
        items.sort(key=lambda item: (key_of(item).namespace, key_of(item).name))
        return Listing(tuple(items), version)

    async def pages(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[Listing]:
        """See `webhook.kube.ports.PagedStore`."""
        query = {"limit": str(PAGE)}
        if labels:
            query["labelSelector"] = ",".join(f"{key}={value}" for key, value in labels.items())
        path = path_of(kind, namespace or "")
        while True:
            page = await self._ask(path, query)
            metadata = _metadata(page, f"GET {path}")
            items = tuple(self._typed(kind, item) for item in page.get("items") or ())
            yield Listing(items, str(metadata["resourceVersion"]))
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    async def watch(self, kind: Kind, since: str, namespace: str | None = None) -> AsyncIterator[WatchEvent]:
        """See `webhook.kube.ports.Store`."""
        loop = asyncio.get_running_loop()
        while True:
            start = loop.time()
            query = {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": since,
                "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),  # noqa: S311 - spreads load, hides nothing
            }
            path = path_of(kind, namespace or "")
            async for event, more in self._server.watch(path, query):
                document = event["object"]
                since = str(_metadata(document, f"the watch of {path}")["resourceVersion"])  # the next one resumes here
                yield WatchEvent(EventType(event["type"]), self._typed(kind, document), since, more)
            if loop.time() - start < SHORTEST_WATCH_SECONDS:  # a server that ends every watch immediately
                await asyncio.sleep(SHORTEST_WATCH_SECONDS)

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `webhook.kube.ports.Store`."""
        return await self._write("POST", path_of(kind, document["metadata"].get("namespace", "")), document)

    async def replace(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `webhook.kube.ports.Store`."""
        return await self._write("PUT", path_of_object(kind, key_of(document)), document)

    async def replace_metadata(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `webhook.kube.ports.Store`."""
        stored_metadata = document["metadata"]
        metadata: JsonObject = {
            "resourceVersion": stored_metadata["resourceVersion"],
            "finalizers": stored_metadata.get("finalizers") or [],
        }
        metadata |= {name: stored_metadata[name] for name in ("labels", "annotations") if stored_metadata.get(name)}
        path = path_of_object(kind, key_of(document))
        change = {"metadata": metadata}
        return self._read(
            await self._server.request("PATCH", path, change, content_type=MERGE_PATCH, fence=self._fence),
            f"PATCH {path}",
        )

    async def replace_status(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `webhook.kube.ports.Store`."""
        if kind.group in _CUSTOM_GROUPS:  # the status is enough for a custom object
            stored = document["metadata"]
            metadata = {name: stored[name] for name in _IDENTITY if name in stored}
            desired = {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata}
            document = desired | ({"status": document["status"]} if "status" in document else {})
        return await self._write("PUT", path_of_object(kind, key_of(document), "status"), document)

    async def apply(
        self, kind: Kind, document: JsonObject, *, manager: str, force: bool, dry_run: bool = False
    ) -> JsonObject:
        """Apply an object by server-side apply, which creates a missing object.

        Args:
            kind: Kind of the object.
            document: The fields that *manager* owns. A ``resourceVersion`` is a precondition.
            manager: Field manager.
            force: Take over fields of other managers.
            dry_run: Return the result without storing it.

        Raises:
            ConflictError: Another manager owns a field, or the version does not match.
            InvalidObjectError: The object cannot be stored.
            StoreError: The server refused, or did not respond.
        """
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        if dry_run:
            query["dryRun"] = "All"
        path = path_of_object(kind, key_of(document))
        return self._read(
            await self._server.request(
                "PATCH",
                path,
                document,
                query=query,
                content_type="application/apply-patch+yaml",
                fence=self._fence,
            ),
            f"PATCH {path}",
        )

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "") -> None:
        """See `webhook.kube.ports.Store`."""
        conditions = {"uid": uid, "resourceVersion": resource_version}
        options: JsonObject = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {name: value for name, value in conditions.items() if value},
        }
        await self._server.request("DELETE", path_of_object(kind, key), options, fence=self._fence)

    async def _ask(self, path: ApiPath, query: Mapping[str, str] | None = None) -> JsonObject:
        *others, (last, _) = READS
        for seconds, pause in others:
            try:
                return await self._server.request("GET", path, query=query, seconds=seconds)
            except UnavailableError as error:
                pause = max(pause, error.retry_after or 0.0)
                if pause > LONGEST_PAUSE_SECONDS:
                    raise
            await asyncio.sleep(pause)
        return await self._server.request("GET", path, query=query, seconds=last)

    async def _write(self, method: str, path: ApiPath, document: JsonObject) -> JsonObject:
        return self._read(await self._server.request(method, path, document, fence=self._fence), f"{method} {path}")

    def _typed(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Return an item of a list with its type, which lists of built-in kinds omit."""
        document.setdefault("apiVersion", kind.api_version)
        document.setdefault("kind", kind.kind)
        return self._read(document, f"a list or watch of {kind.resource}")

    def _read(self, document: JsonObject, request: str) -> JsonObject:
        metadata = _metadata(document, request)
        if not self._keep_managers and group_kind(document) not in WITH_MANAGERS:
            metadata.pop("managedFields", None)
        return document


def _metadata(document: JsonObject, request: str) -> JsonObject:
    """Return the metadata of a document. Raise `UnavailableError` if it has none, as in a response from a proxy."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise UnavailableError(f"the response to {request} is not a document of an API server")
    return metadata
