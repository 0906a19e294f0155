"""A real server on the example fleet, and a client that asks it with the owner's token."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import aiohttp
from multidict import CIMultiDictProxy

from tests.waiting import PATIENCE_SECONDS
from tests.webhook.services import LISTENERS, make_server
from webhook.access.ports import Authenticator, Authorizer
from webhook.cli.files.documents import load
from webhook.cli.files.search import Files
from webhook.cli.hub.client import Client
from webhook.cli.objects.patcher import apply_all
from webhook.cli.options.hub import HubOptions
from webhook.processes.up import Up
from webhook.server.server import Server
from webhook.settings.programs import UpSettings

FLEET = Path(__file__).parents[3] / "examples" / "fleet"
WITH_PAGE: Final = LISTENERS | {"page_on_http": True, "page_actions": True}


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Caller:
    """Asks a server, as somebody."""

    def __init__(self, up: Up, url: str, session: aiohttp.ClientSession, token: str | None) -> None:
        self.up = up
        self.url = url
        self._session = session
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def anonymous(self) -> "Caller":
        """Return a caller without credentials on the same server."""
        return Caller(self.up, self.url, self._session, None)

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send one request; *body* is written as JSON unless it is bytes, or comes bit by bit."""
        sent = self._headers | {name.replace("_", "-"): value for name, value in headers.items()}
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            self._session.request(method, self.url + path, data=data, headers=sent) as got,
        ):
            return Answer(got.status, got.headers, await got.read())

    async def first_event(self) -> tuple[Answer, bytes]:
        """Return the head of the stream of events, and its first event."""
        stream = self._session.get(self.url + "/v1/events", headers=self._headers)
        async with asyncio.timeout(PATIENCE_SECONDS), stream as got:
            text = await got.content.readuntil(b"\n\n")
            return Answer(got.status, got.headers, b""), text


@asynccontextmanager
async def calling(up: Up, server: Server | None = None) -> AsyncIterator[Caller]:
    """Yield the owner of a hub, asking its own server, or another *server* on the same hub."""
    chosen = server or up.server
    trust = ssl.create_default_context(cadata=chosen.certificates.trust_pem.decode())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
        yield Caller(up, chosen.addresses.https_url, session, up.token_file.read_text(encoding="ascii").strip())


@asynccontextmanager
async def changed(
    caller: Caller, authenticator: Authenticator | None = None, authorizer: Authorizer | None = None, **answers: Any
) -> AsyncIterator[Caller]:
    """Yield the owner, asking another server on the same hub, which lets others in or answers otherwise."""
    whole = caller.up.services
    known = whole.admittance
    admittance = replace(
        known,
        authenticator=authenticator or known.authenticator,
        authorizer=authorizer or known.authorizer,
    )
    services = replace(whole, admittance=admittance, answers=replace(whole.answers, **answers))
    server = make_server(services, caller.up.settings)
    async with server, calling(caller.up, server) as other:
        yield other


@asynccontextmanager
async def serving(folder: Path, **settings: Any) -> AsyncIterator[Caller]:
    """Run a server on an empty hub."""
    async with Up(UpSettings(**(WITH_PAGE | settings)), folder) as up, calling(up) as caller:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not up.cache.synced:
                await asyncio.sleep(0.02)
        yield caller


@asynccontextmanager
async def serving_example_fleet(folder: Path, **settings: Any) -> AsyncIterator[Caller]:
    """Run a server on the example fleet, at rest."""
    async with serving(folder, **settings) as caller:
        async with Client(HubOptions(data=folder).find({})) as client:
            outcomes = [outcome async for outcome in apply_all(client, load(Files((str(FLEET),))), keep_edits=True)]
        assert [str(outcome.refusal) for outcome in outcomes if outcome.refusal] == []
        assert await caller.up.settled(PATIENCE_SECONDS)
        yield caller
