"""Answers the questions below ``/v1`` for one command, from the hub of a kubeconfig.

The questions are those of `harbormaster serve`, answered by the same handlers from the same kind of cache; so both say
the same. What differs: the hub is read as `webhook.processes.hub_reading` says. No other user can reach it: it listens
on a socket in a folder of this user alone.

Source: serving.md 3.
"""

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

from webhook.endpoints.upgrades import plans
from webhook.history.desk import HistoryService
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.cli_client import Reply
from webhook.kube.ports import UnavailableError
from webhook.processes.hub_reading import HubReading
from webhook.processes.services import upgrade_planner_of
from webhook.runtime.clock import utc_now
from webhook.server.app import add_disruption, make_answering_api
from webhook.server.plain import add_last_route
from webhook.settings.programs import ServerSettings

_TOKEN: Final = "own"  # noqa: S105 - not a secret, see below
"""The folder of the socket is what keeps others out, not this."""


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
            hub = await HubReading.begin(self._hub, self._settings, self._now, of_nodes=self._of_nodes)
            api = make_answering_api(hub.answers, self._settings)
            if hub.disruption is not None:
                add_disruption(
                    api, hub.disruption, HistoryService(hub.store, self._settings.namespace, None, self._now)
                )
            if self._of_upgrades:
                planner = upgrade_planner_of(hub.answers, hub.cache, hub.store, self._settings.default_upgrader)
                plans.add_routes(api, planner)
            await stack.enter_async_context(hub.running())
            self.unread = hub.cache.unread()
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
