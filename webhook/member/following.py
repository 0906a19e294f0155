"""Everything of one kind on an API server, told to a listener: list, then watch, for ever.

Nothing is kept here: what a listener does not take note of is forgotten. What cannot be read is tried again, longer
and longer apart, and said once.

Source: serving.md 7.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
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
"""How long to wait after so many failures in a row; at last, always the longest."""

REFUSED_SECONDS: Final = (1.0, 2.0, 5.0, 10.0)
"""The same when we may not read, or there is no such kind: somebody has to change that first."""

_NOBODY: Final = {OURS + "nobody": "true"}
"""Labels that no object carries: a list of those is empty, and still says from which version to watch."""

Sleep = Callable[[float], Awaitable[None]]

_log = logging.getLogger(__name__)


class Listener(Protocol):
    """Who hears of the objects of a kind; calls are on the event loop and return at once."""

    def listed(self, items: Sequence[JsonObject]) -> None:
        """Take these for all that there are; what happened since the last event is not told in any other way."""
        ...

    def changed(self, event: WatchEvent) -> None:
        """Take note of one change; no bookmarks come here."""
        ...

    def failed(self, error: StoreError) -> None:
        """Take note that the objects cannot be read now."""
        ...


async def follow(
    store: Store,
    kind: Kind,
    listener: Listener,
    *,
    namespace: str | None = None,
    changes_only: bool = False,
    refused_seconds: Sequence[float] = REFUSED_SECONDS,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Tell *listener* of all objects of *kind*, for ever.

    Args:
        store: Where they are.
        kind: Which ones.
        listener: Who is told.
        namespace: Only those in it.
        changes_only: List nothing: `Listener.listed` is called with an empty list before each watch.
        refused_seconds: Waits after a refusal, as `REFUSED_SECONDS`.
        sleep: Waits.
    """
    failures, said = 0, ""
    while True:
        try:
            listing = await store.list(kind, namespace, _NOBODY if changes_only else None)
            listener.listed(listing.items)
            failures, said = 0, ""
            async for event in store.watch(kind, listing.resource_version, namespace):
                if event.type is not EventType.BOOKMARK:
                    listener.changed(event)
        except ExpiredError:
            continue
        except StoreError as error:
            listener.failed(error)
            if str(error) != said:
                said = str(error)
                _log.warning("cannot watch", extra={"resource": kind.resource, "error": said})
            waits = refused_seconds if isinstance(error, ForbiddenError | NotFoundError) else RETRY_SECONDS
            await sleep(waits[min(failures, len(waits) - 1)])
            failures += 1
