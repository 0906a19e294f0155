"""What a kubeconfig's owner may read of a hub, for programs that answer from it themselves: questions, and the page.

The hub is read with the rights of the user who asks, so no others are checked, and the API server says who that is.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from scorer.api.unstructured.documents import status_of
from webhook.access.ports import PathAccess
from webhook.access.rights import Access
from webhook.access.user import UserInfo
from webhook.admission.cached import CachedContext
from webhook.admission.rights import UndisputedRights
from webhook.endpoints.http.services import Admittance, Answers
from webhook.gate.assembly import DisruptionGate, disruption_of
from webhook.gate.pools import COUNTED
from webhook.kube.cache.informer import Cache
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.paths import ApiPath
from webhook.kube.ports import StoreError
from webhook.processes.services import answers_of
from webhook.settings.programs import ServerSettings

READ_SECONDS: Final = 60.0
"""How long reading the hub may take."""

_POLL_SECONDS: Final = 0.02
_REVIEWS: Final = ApiPath("apis", "authentication.k8s.io", "v1", "selfsubjectreviews")
_REVIEW: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


class NotReadableError(Exception):
    """What the answers need of the hub cannot be read; the message says what, and why."""


class _Owner:
    """Knows who asks: always the user of the kubeconfig, who may ask everything."""

    audience = ""

    def __init__(self, user: UserInfo) -> None:
        self._user = user

    def cached(self, _token: str) -> UserInfo:
        """Return the owner of the kubeconfig."""
        return self._user

    async def authenticate(self, token: str) -> UserInfo:
        """Return the owner of the kubeconfig."""
        return self.cached(token)

    async def may(self, _user: UserInfo, _wanted: Access | PathAccess) -> bool:
        """Let the owner ask everything: the hub itself says what they may read."""
        return True


@dataclass(frozen=True, slots=True)
class HubReading:
    """A hub that is being read.

    Args:
        cache: What has been read.
        store: The hub itself.
        answers: The questions about placements and clusters.
        disruption: The questions about budgets and gates; None: they are not asked.
    """

    cache: Cache
    store: HubStore
    answers: Answers
    disruption: DisruptionGate | None

    @classmethod
    async def begin(
        cls, hub: ApiServer, settings: ServerSettings, now: Callable[[], datetime], *, of_nodes: bool
    ) -> Self:
        """Find out who asks; nothing else is read yet.

        Args:
            hub: Its API server.
            settings: Those that its `harbormaster serve` has; the namespace is where reservations are.
            now: The clock.
            of_nodes: Read what the questions about budgets and gates are about, too.

        Raises:
            NotReadableError: The API server does not say who asks.
        """
        store = HubStore(hub)
        cache = Cache(store)
        owner = _Owner(await _who(hub))
        admission = CachedContext(cache, settings.admission(), now)
        answers = answers_of(cache, store, admission, Admittance(owner, owner, UndisputedRights()), now)
        return cls(cache, store, answers, disruption_of(cache, store, settings, now) if of_nodes else None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read until the block ends; it begins once everything has been read, or the hub has refused it.

        Raises (on entering):
            NotReadableError: The hub does not let us read what the answers need.
        """
        reading = [asyncio.create_task(each.run()) for each in (self.cache, self.disruption) if each is not None]
        try:
            await self._read()
            yield
        finally:
            for task in reading:
                task.cancel()
            await asyncio.wait(reading)

    async def _read(self) -> None:
        nodes = None if self.disruption is None else self.disruption.nodes
        needed = COUNTED if nodes is not None else ()
        try:
            async with asyncio.timeout(READ_SECONDS):
                while not (self.cache.synced and (nodes is None or nodes.synced)):
                    if refusals := self.cache.refusals(needed):
                        raise NotReadableError("; ".join(refusals))
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError as error:
            left = ", ".join(each.resource for each in self.cache.freshness() if not each.synced)
            raise NotReadableError(f"not read within {READ_SECONDS:g} s: {left or 'reservations'}") from error


async def _who(hub: ApiServer) -> UserInfo:
    try:
        review = await hub.request("POST", _REVIEWS, dict(_REVIEW))
    except StoreError as error:
        raise NotReadableError(f"cannot find out who asks: {error}") from error
    return UserInfo.read(status_of(review).get("userInfo"))
