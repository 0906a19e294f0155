"""A watch of the embedded API server: one JSON object per line, until the client disconnects or the watch times out."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from aiohttp import web

from scorer.api.meta import JsonObject
from scorer.api.values.label_selector import LabelSelector
from webhook.embedded.api_server.request_info import RequestInfo
from webhook.embedded.api_server.status import of_store
from webhook.embedded.storage.store import EmbeddedStore
from webhook.embedded.storage.watcher import Watcher
from webhook.kube.ports import EventType, StoreError, WatchEvent
from webhook.kube.transport.serialization import encode

BOOKMARK_EVERY: Final = timedelta(seconds=15)
_END_OF_LIST: Final = {"k8s.io/initial-events-end": "true"}


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The options of a client's request.

    Args:
        since: Resource version to start after. Empty or ``0`` to start with all objects as ADDED.
        labels: Selects objects by their labels.
        accepts: Returns whether an object is selected by its fields.
        present: Returns an object in the requested form.
        bookmarks: Whether to send bookmarks.
        marks_end_of_list: Whether to send a bookmark after the existing objects.
        seconds: Timeout of the watch. None: unlimited.
    """

    since: str
    labels: LabelSelector
    accepts: Callable[[JsonObject], bool]
    present: Callable[[JsonObject], JsonObject]
    bookmarks: bool = False
    marks_end_of_list: bool = False
    seconds: int | None = None


async def stream(
    request: web.Request,
    store: EmbeddedStore,
    target: RequestInfo,
    options: WatchOptions,
    on_start: Callable[[Watcher], None],
) -> web.StreamResponse:
    """Respond with a stream of changes.

    Args:
        request: The request.
        store: The store to watch.
        target: The objects to watch.
        options: Options of the watch.
        on_start: Called with the watcher, which must be stopped at shutdown.

    Raises:
        ExpiredError: The start version is too old, in the future or malformed. No response was sent.
    """
    selects = options.labels.matches if options.labels.requirements() else None
    since, initial = options.since, []
    if since in ("", "0"):
        listing = await store.list(target.kind, target.namespace)
        since = listing.resource_version
        initial = [document for document in listing.items if _is_selected(document, options)]
    watcher = store.watch(target.kind, since, selects=selects, bookmark_every=BOOKMARK_EVERY)
    on_start(watcher)
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    with suppress(ConnectionResetError, TimeoutError):
        async with asyncio.timeout(options.seconds), aclosing(_lines(request, watcher, target, options)) as lines:
            for document in initial:
                await response.write(_line(EventType.ADDED, options.present(document)))
            if options.marks_end_of_list:
                await response.write(_bookmark(target, since, _END_OF_LIST))
            async for line in lines:
                await response.write(line)
    with suppress(ConnectionResetError):
        await response.write_eof()
    return response


async def _lines(
    request: web.Request, watcher: Watcher, target: RequestInfo, options: WatchOptions
) -> AsyncGenerator[bytes, None]:
    try:
        async for event in watcher:
            if request.transport is None or request.transport.is_closing():
                return
            if line := _encoded_event(event, target, options):
                yield line
    except StoreError as error:
        yield encode({"type": "ERROR", "object": of_store(error, target.kind, "").body()}) + b"\n"


def _encoded_event(event: WatchEvent, target: RequestInfo, options: WatchOptions) -> bytes:
    if event.type is EventType.BOOKMARK:
        return _bookmark(target, event.resource_version) if options.bookmarks else b""
    document = event.document
    in_namespace = target.namespace is None or document["metadata"].get("namespace") == target.namespace
    return _line(event.type, options.present(document)) if in_namespace and options.accepts(document) else b""


def _is_selected(document: JsonObject, options: WatchOptions) -> bool:
    return options.accepts(document) and options.labels.matches(document["metadata"].get("labels", {}))


def _bookmark(target: RequestInfo, version: str, annotations: JsonObject | None = None) -> bytes:
    metadata: JsonObject = {"resourceVersion": version} | ({"annotations": annotations} if annotations else {})
    document = {"kind": target.kind.kind, "apiVersion": target.api_version, "metadata": metadata}
    return _line(EventType.BOOKMARK, document)


def _line(event: EventType, document: JsonObject) -> bytes:
    return encode({"type": event.value, "object": document}) + b"\n"
