"""Bounded counts of the content of placed namespaces, for the user who decides about their removal.

Deleting a namespace on a member deletes more than its placed objects: volume claims with their data, and objects of
other clients. The hub cannot see such objects, so the agent counts them and reports the counts with their time in
``status.namespaceContents`` of its MemberCluster. There are three reasons for that field:

- Admission and ``/v1`` have MemberClusters in their caches, but no Works.
- The status is written with every heartbeat anyway, so the counts require no additional write.
- A namespace that several Works share is reported once.

An entry has about 100 bytes, so 1,000 members with `MOST_NAMESPACES` each add 5 MB to the hub.

Limits: at most `MOST_NAMESPACES` namespaces, one page of `PAGE` objects per kind, only metadata, and one request at a
time with a pause in between. A namespace that cannot be counted has no entry: its content is unknown. If the account
has no right to list a kind other than claims, the counts are a lower bound.

Source: docs/specifications/removal.md 4.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from scorer.api.kinds import KINDS, Kind
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import dicts_at, metadata_of, name_of
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import path_of
from webhook.kube.ports import ForbiddenError, StoreError
from webhook.kube.transport.serialization import METADATA_LIST
from webhook.member.objects.owner_references import is_applied_work, owners

MOST_NAMESPACES: Final = 50
"""Maximum number of counted namespaces. The first by name are counted."""
PAGE: Final = 200
"""Maximum number of counted objects per kind and namespace. With more, the count is a lower bound."""
PERIOD: Final = timedelta(minutes=10)
"""Interval between two counts of one namespace."""
RETRY: Final = timedelta(seconds=30)
"""Delay before a namespace is counted again after a failed request. A missing right waits for `PERIOD`."""
POLL: Final = timedelta(seconds=5)
"""Interval between two checks for namespaces that are due, so that a new one is counted soon."""
PAUSE: Final = timedelta(milliseconds=250)
"""Pause between two requests: at most four per second, a negligible load on the member's API server."""
_CLAIM: Final = KINDS["", "PersistentVolumeClaim"]
_KINDS: Final = tuple(
    KINDS[group, kind]
    for group, kind in (
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("batch", "CronJob"),
        ("batch", "Job"),
        ("", "ConfigMap"),
        ("", "Service"),
    )
)
"""Counted kinds besides claims. Secrets are left out: an agent need not have the right to list them."""
_EVERYWHERE: Final = frozenset({"kube-root-ca.crt"})
"""ConfigMaps that a cluster's controllers create in every namespace."""


class NamespaceCounter:
    """Counts the content of placed namespaces.

    Args:
        server: The member's API server.
        placed: Returns the names of the namespaces that Works placed.
        now: The clock.
        pause: Pause between two requests.
    """

    def __init__(
        self,
        server: ApiServer,
        placed: Callable[[], Iterable[str]],
        now: Callable[[], datetime],
        *,
        pause: timedelta = PAUSE,
    ) -> None:
        self._server = server
        self._placed = placed
        self._now = now
        self._pause = pause.total_seconds()
        self._counted: dict[str, JsonObject] = {}
        self._attempted: dict[str, tuple[datetime, timedelta]] = {}
        """Time of the last attempt and the wait after it, by namespace."""

    @property
    def contents(self) -> dict[str, JsonObject]:
        """The last counts, by namespace, as a heartbeat reports them."""
        placed = set(self._placed())
        return {name: counts for name, counts in sorted(self._counted.items()) if name in placed}

    async def run(self) -> None:
        """Count the namespaces that are due, until cancelled."""
        while True:
            await self.count()
            await asyncio.sleep(POLL.total_seconds())

    async def count(self) -> None:
        """Count each placed namespace that is due. One that cannot be counted loses its counts."""
        names, now = sorted(self._placed())[:MOST_NAMESPACES], self._now()
        self._counted = {name: counts for name, counts in self._counted.items() if name in names}
        self._attempted = {name: attempt for name, attempt in self._attempted.items() if name in names}
        for name in names:
            if name in self._attempted:
                then, wait = self._attempted[name]
                if timedelta() <= now - then < wait:
                    continue
            self._attempted[name] = now, PERIOD
            try:
                self._counted[name] = await self._count(name)
            except StoreError as error:
                self._counted.pop(name, None)
                if not isinstance(error, ForbiddenError):
                    self._attempted[name] = now, RETRY

    async def _count(self, namespace: str) -> JsonObject:
        claims, more = await self._objects(_CLAIM, namespace)
        others = 0
        for kind in _KINDS:
            try:
                objects, further = await self._objects(kind, namespace)
            except ForbiddenError:  # the role does not cover this kind: uncounted objects may exist
                objects, further = [], True
            others += sum(map(_is_of_others, objects))
            more = more or further
        counts: JsonObject = {"volumeClaims": len(claims), "others": others}
        return {**counts, **({"atLeast": True} if more else {}), "observationTime": format_time(self._now())}

    async def _objects(self, kind: Kind, namespace: str) -> tuple[list[JsonObject], bool]:
        """Return the metadata of the first objects of a kind, and whether there are more."""
        await asyncio.sleep(self._pause)
        query = {"limit": str(PAGE)}
        answer = await self._server.request("GET", path_of(kind, namespace), query=query, accept=METADATA_LIST)
        return dicts_at(answer, "items"), bool(metadata_of(answer).get("continue"))


def _is_of_others(document: JsonObject) -> bool:
    """Return whether an object was neither placed nor made by a controller for another object."""
    owned = any(is_applied_work(owner) or owner.get("controller") for owner in owners(document))
    return not owned and name_of(document) not in _EVERYWHERE
