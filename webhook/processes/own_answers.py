"""Answers the questions below ``/v1`` for one command, from the hub of a kubeconfig.

The questions are those of `harbormaster serve`, answered by the same handlers from the same kind of cache; so both say
the same. What differs: the hub is read with the rights of the user who asks, so no others are checked; and the API
server says who that user is. No other user can reach it: it listens on a socket in a folder of this user alone.

Source: serving.md 3.
"""

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp
from aiohttp import web
from yarl import URL

from scorer.api.documents import status_of
from webhook.access.ports import PathAccess
from webhook.access.rights import Access
from webhook.access.user import UserInfo
from webhook.admission.cached import CachedContext
from webhook.admission.rights import UndisputedRights
from webhook.endpoints import upgrade_plans
from webhook.endpoints.services import Admittance
from webhook.gate.assembly import disruption_of
from webhook.gate.nodes import HubNodeGate
from webhook.gate.pools import COUNTED
from webhook.kube.cache import Cache
from webhook.kube.client import ApiServer
from webhook.kube.hub_http import Reply
from webhook.kube.paths import ApiPath
from webhook.kube.ports import StoreError, UnavailableError
from webhook.kube.store import HubStore
from webhook.processes.services import answers_of, upgrades_of
from webhook.server.app import add_disruption, make_answering_api
from webhook.server.plain import add_last_route
from webhook.settings.clock import utc_now
from webhook.settings.programs import ServerSettings

READ_SECONDS: Final = 60.0
"""How long reading the hub may take."""

_POLL_SECONDS: Final = 0.02
_REVIEWS: Final = ApiPath("apis", "authentication.k8s.io", "v1", "selfsubjectreviews")
_REVIEW: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
_TOKEN: Final = "own"  # noqa: S105 - not a secret, see below
"""The folder of the socket is what keeps others out, not this."""


class NotReadableError(Exception):
    """What the answers need of the hub cannot be read; the message says what, and why."""


class _Owner:
    """Knows who asks: always the user of the kubeconfig, who may ask everything."""

    audience = ""

    def __init__(self, user: UserInfo) -> None:
        self._user = user

    def known(self, _token: str) -> UserInfo:
        """Return the owner of the kubeconfig."""
        return self._user

    async def authenticate(self, token: str) -> UserInfo:
        """Return the owner of the kubeconfig."""
        return self.known(token)

    async def may(self, _user: UserInfo, _wanted: Access | PathAccess) -> bool:
        """Let the owner ask everything: the hub itself says what they may read."""
        return True


class OwnAnswers:
    """Answers questions about a hub; an async context manager.

    Args:
        hub: Its API server.
        settings: Those that its `harbormaster serve` has; the namespace is where reservations are.
        of_nodes: Read what the questions about budgets and gates are about, too.
        of_upgrades: Read what the plans of upgrade runs are about, too.
        now: The clock.

    Raises (on entering):
        NotReadableError: The hub does not let us read what the answers need.
    """

    def __init__(
        self,
        hub: ApiServer,
        settings: ServerSettings,
        *,
        of_nodes: bool = False,
        of_upgrades: bool = False,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._hub = hub
        self._settings = settings
        self._of_nodes = of_nodes
        self._of_upgrades = of_upgrades
        self._now = now
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession | None = None
        self.unread: list[str] = []
        """The kinds, as ``plural.group``, that the hub does not let us read, and that the answers do without."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="harbormaster-"))
            socket = str(Path(folder) / "v1")
            store = HubStore(self._hub)
            cache = Cache(store)
            owner = _Owner(await self._who())
            admission = CachedContext(cache, self._settings.admission(), self._now)
            answers = answers_of(cache, admission, Admittance(owner, owner, UndisputedRights()), self._now)
            api = make_answering_api(answers, self._settings)
            gates = disruption_of(cache, store, self._settings, self._now) if self._of_nodes else None
            if gates is not None:
                add_disruption(api, gates)
            if self._of_upgrades:
                upgrades = upgrades_of(answers, cache, store, self._settings.default_upgrader)
                upgrade_plans.add_routes(api, upgrades.planner)
            reading = [asyncio.create_task(each.run()) for each in (cache, gates) if each is not None]
            stack.push_async_callback(_end, reading)
            await self._read(cache, None if gates is None else gates.nodes)
            self.unread = cache.unread()
            add_last_route(api.app)
            runner = web.AppRunner(api.app, access_log=None)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.UnixSite(runner, socket).start()
            headers = {"Authorization": f"Bearer {_TOKEN}", "Accept": "application/json"}
            session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(socket), headers=headers)
            self._session = await stack.enter_async_context(session)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def send(self, method: str, path: str, content: bytes | None, seconds: float) -> Reply:
        """Ask; *path* comes with its query.

        Raises:
            UnavailableError: There is no answer.
        """
        assert self._session is not None
        headers = {"Content-Type": "application/json"} if content is not None else {}
        url = URL(f"http://localhost{path}", encoded=True)
        patience = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._session.request(method, url, data=content, headers=headers, timeout=patience) as answer:
                return Reply(answer.status, await answer.read())
        except aiohttp.ClientError as error:
            raise UnavailableError(f"no answer to {method} {path}: {error}") from error

    async def _who(self) -> UserInfo:
        try:
            review = await self._hub.request("POST", _REVIEWS, dict(_REVIEW))
        except StoreError as error:
            raise NotReadableError(f"cannot find out who asks: {error}") from error
        return UserInfo.read(status_of(review).get("userInfo"))

    async def _read(self, cache: Cache, nodes: HubNodeGate | None) -> None:
        """Wait until everything has been read, or the hub has refused it."""
        needed = COUNTED if nodes is not None else ()
        try:
            async with asyncio.timeout(READ_SECONDS):
                while not (cache.synced and (nodes is None or nodes.synced)):
                    if refusals := cache.refusals(needed):
                        raise NotReadableError("; ".join(refusals))
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError as error:
            left = ", ".join(each.resource for each in cache.freshness() if not each.synced)
            raise NotReadableError(f"not read within {READ_SECONDS:g} s: {left or 'reservations'}") from error


async def _end(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
