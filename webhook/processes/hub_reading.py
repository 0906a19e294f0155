"""Reads the hub of a kubeconfig with the rights of its owner, for programs that answer from it: commands and the page.

The API server authenticates the owner and limits what they may read, so no other rights are checked here.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from scorer.api.kinds import Kind
from scorer.api.unstructured.documents import status_of
from webhook.access.user import UserInfo
from webhook.kube.cache.informer import Cache
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.paths import ApiPath
from webhook.kube.client.responses import ObjectRequests
from webhook.kube.ports import ForbiddenError, Listing, StoreError, WatchEvent

if TYPE_CHECKING:
    from webhook.gate.reservations import LeaseReservations

READ_SECONDS: Final = 60.0
"""Timeout of reading the hub."""
MORE_REFUSALS_SECONDS: Final = 2.0
"""Time from the first refusal to the error, for the refusals of other kinds."""

_POLL_SECONDS: Final = 0.02
_REVIEWS: Final = ApiPath("apis", "authentication.k8s.io", "v1", "selfsubjectreviews")
_REVIEW: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


class NotReadableError(Exception):
    """The hub cannot be read. The message names the kinds and the reason."""


class ReadForbiddenError(NotReadableError):
    """The owner lacks a right that is required for reading. Not raised for a slow or failing hub."""


class NamespaceStore(HubStore):
    """A hub store that lists and watches namespaced kinds in one namespace, for owners whose rights end there.

    Args:
        hub: Sends requests to the API server.
        namespace: The namespace.
    """

    def __init__(self, hub: ObjectRequests, namespace: str) -> None:
        super().__init__(hub)
        self._namespace = namespace

    def pages(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[Listing]:
        """See `webhook.kube.ports.PagedStore`."""
        return super().pages(kind, namespace or self._place_of(kind), labels)

    def watch(self, kind: Kind, since: str, namespace: str | None = None) -> AsyncIterator[WatchEvent]:
        """See `webhook.kube.ports.Store`."""
        return super().watch(kind, since, namespace or self._place_of(kind))

    def _place_of(self, kind: Kind) -> str | None:
        return self._namespace if kind.namespaced else None


async def read_owner(hub: ObjectRequests) -> UserInfo:
    """Return the owner of the kubeconfig, as the API server authenticates them. Raises `NotReadableError`."""
    try:
        review = await hub.request("POST", _REVIEWS, dict(_REVIEW))
    except StoreError as error:
        refusal = ReadForbiddenError if isinstance(error, ForbiddenError) else NotReadableError
        raise refusal(f"cannot determine your user name: {error}") from error
    return UserInfo.read(status_of(review).get("userInfo"))


@asynccontextmanager
async def reading(
    cache: Cache, reservations: "LeaseReservations | None" = None, kinds: Collection[Kind] = ()
) -> AsyncIterator[None]:
    """Run the cache until the block ends. The block starts once every kind has been read or refused.

    Args:
        cache: Cache of the objects.
        reservations: Cache of the reservations. None: disabled.
        kinds: Kinds that must be readable although the cache watches them as optional.

    Raises (on entering):
        NotReadableError: A required kind cannot be read. The message has the refusals of all kinds, in a fixed order,
            unless some take longer than `MORE_REFUSALS_SECONDS`.
    """
    tasks = [asyncio.create_task(cache.run())]
    if reservations is not None:
        tasks.append(asyncio.create_task(reservations.run()))
    try:
        await _wait_read(cache, reservations, kinds)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _wait_read(cache: Cache, reservations: "LeaseReservations | None", kinds: Collection[Kind]) -> None:
    clock = asyncio.get_running_loop().time
    refused_at: float | None = None
    try:
        async with asyncio.timeout(READ_SECONDS):
            while not (
                cache.synced
                and all(cache.of_kind(kind).synced.is_set() for kind in kinds)
                and (reservations is None or reservations.synced)
            ):
                if refusals := cache.refusals(kinds):
                    refused_at = clock() if refused_at is None else refused_at
                    if cache.answered or clock() - refused_at >= MORE_REFUSALS_SECONDS:
                        raise ReadForbiddenError("; ".join(refusals))
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as error:
        unread = ", ".join(freshness.resource for freshness in cache.freshness() if not freshness.synced)
        raise NotReadableError(f"not read within {READ_SECONDS:g} s: {unread or 'reservations'}") from error
