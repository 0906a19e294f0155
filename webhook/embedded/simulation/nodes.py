"""Simulated nodes of pools: no kubelet reports on them, so their status comes from an annotation.

A Node's status comes from its kubelet, a NodeClaim's from the provisioner. The store accepts no status from the client
that creates the object. The manifest therefore has the status in an annotation, as for a MemberCluster, and the
simulation copies it to the status.

Source: docs/specifications/nodepool-disruption.md 4.1.
"""

import asyncio
import logging
from contextlib import suppress
from functools import partial

import orjson

from scorer.api.kinds import NODE, NODE_CLAIM, Kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import annotations_of
from webhook.embedded.simulation.annotations import SIMULATE_STATUS
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import ConflictError, Key, NotFoundError, key_of

REPORTED = (NODE, NODE_CLAIM)
"""Kinds whose status is simulated."""

log = logging.getLogger(__name__)


class SimulatedNodes:
    """Reports the status of nodes and their claims.

    Args:
        store: Store of the hub.
    """

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self._changed: asyncio.Queue[tuple[Kind, Key]] = asyncio.Queue()
        self._waiting: set[tuple[Kind, Key]] = set()

    @property
    def busy(self) -> bool:
        """Whether any status is still pending."""
        return bool(self._waiting)

    async def run(self) -> None:
        """Report the status of nodes and their claims until cancelled."""
        cache = Cache(self._store)
        for kind in REPORTED:
            cache.subscribe(kind, partial(self._note, kind))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(cache.run())
            tasks.create_task(self._report())

    def _note(self, kind: Kind, change: ObjectDelta) -> None:
        if change.new is None or desired_status(change.new) in (None, change.new.get("status")):
            return
        place = kind, key_of(change.new)
        if place not in self._waiting:
            self._waiting.add(place)
            self._changed.put_nowait(place)

    async def _report(self) -> None:
        while True:
            kind, key = await self._changed.get()
            with suppress(NotFoundError, ConflictError):  # deleted or changed: that change enqueues it again
                document = await self._store.get(kind, key)
                status = desired_status(document)
                if status is not None and status != document.get("status"):
                    await self._store.replace_status(kind, {**document, "status": status})
            self._waiting.discard((kind, key))


def desired_status(document: JsonObject) -> JsonObject | None:
    """Return the status in a document's annotation. None: unset, or not a JSON object."""
    text = annotations_of(document).get(SIMULATE_STATUS)
    if text is None:
        return None
    try:
        status = orjson.loads(text)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict):
        name = document["metadata"]["name"]
        log.warning("annotation ignored: not a JSON object", extra={"object": name, "annotation": SIMULATE_STATUS})
        return None
    return status
