"""List and watch of one kind, passed to a listener until cancelled.

No object is cached here, unless the listener keeps it. Failed reads are retried with backoff, and each error is logged
once.

Source: docs/specifications/serving.md 7.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.names import OURS
from webhook.kube.ports import (
    EventType,
    ExpiredError,
    ForbiddenError,
    NotFoundError,
    Store,
    StoreError,
    WatchEvent,
)

RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Backoff after consecutive failures. The last value repeats."""

REFUSED_SECONDS: Final = (1.0, 2.0, 5.0, 10.0)
"""Backoff while reading is denied or the kind is not served, until an administrator changes that."""

_NO_OBJECT: Final = {OURS + "nobody": "true"}
"""A label that no object has: a list with this selector returns only the resource version to watch from."""

Sleep = Callable[[float], Awaitable[None]]

_log = logging.getLogger(__name__)


class ResourceEventHandler(Protocol):
    """Receives the objects of a kind. Called on the event loop, and must not block."""

    def listed(self, items: Sequence[JsonObject]) -> None:
        """Replace all objects by these. Changes that the watch missed are only visible in this list."""
        ...

    def changed(self, event: WatchEvent) -> None:
        """Handle one change. Bookmarks are not forwarded."""
        ...

    def failed(self, error: StoreError) -> None:
        """Record that the objects cannot be read now."""
        ...


async def follow(
    store: Store,
    kind: Kind,
    listener: ResourceEventHandler,
    *,
    namespace: str | None = None,
    changes_only: bool = False,
    refused_seconds: Sequence[float] = REFUSED_SECONDS,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Forward all objects of *kind* to *listener*, until cancelled.

    Args:
        store: Store of the objects.
        kind: Kind of the objects.
        listener: Receives them.
        namespace: Only objects in this namespace.
        changes_only: Do not list: `ResourceEventHandler.listed` is called with an empty list before each watch.
        refused_seconds: Backoff after a refusal, as `REFUSED_SECONDS`.
        sleep: Sleeps for a number of seconds.
    """
    failures, logged_error = 0, ""

    def listed(items: Sequence[JsonObject]) -> None:
        nonlocal failures, logged_error
        listener.listed(items)
        failures, logged_error = 0, ""

    labels = _NO_OBJECT if changes_only else None
    while True:
        try:
            await list_and_watch(store, kind, listed, listener.changed, namespace=namespace, labels=labels)
        except ExpiredError:  # the server no longer has that version: relist immediately
            continue
        except StoreError as error:
            listener.failed(error)
            if str(error) != logged_error:
                logged_error = str(error)
                _log.warning("watch failed", extra={"resource": kind.resource, "error": logged_error})
            waits = refused_seconds if isinstance(error, ForbiddenError | NotFoundError) else RETRY_SECONDS
            await sleep(waits[min(failures, len(waits) - 1)])
            failures += 1


async def list_and_watch(
    store: Store,
    kind: Kind,
    on_list: Callable[[Sequence[JsonObject]], None],
    changed: Callable[[WatchEvent], None],
    *,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> None:
    """Pass all objects of *kind* to *on_list*, then each change to *changed*, until the watch fails.

    Args:
        store: Store of the objects.
        kind: Kind of the objects.
        on_list: Called with all objects.
        changed: Called with each later change, except for bookmarks.
        namespace: Only objects in this namespace.
        labels: Only objects with these labels are listed. The watch is not limited to these labels.

    Raises:
        StoreError: The objects cannot be read, or the watch must be restarted with a list.
    """
    listing = await store.list(kind, namespace, labels)
    # Before the watch, which starts at this version, so that no change is missed in between.
    on_list(listing.items)
    version = listing.resource_version
    del listing  # otherwise it would remain in memory for as long as the watch lasts
    async for event in store.watch(kind, version, namespace):
        if event.type is not EventType.BOOKMARK:
            changed(event)
