"""A hub for the actions of the page: an embedded store behind its REST interface, over TLS."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiohttp import web

from certs.authority import Authority
from certs.context import ServerContext
from scorer.api.kinds import MEMBER_CLUSTER, Kind
from scorer.api.unstructured.json_object import JsonObject
from tests.loopback import on_loopback
from webhook.access.user import UserInfo
from webhook.actions.page_actions import PageActions
from webhook.actions.planned import HubRefusalError, HubWrite
from webhook.actions.viewer_hub import ForwardingHubs
from webhook.embedded.api_server.handlers import add_routes
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.login.connection import ApiServerEndpoint
from webhook.runtime.clock import utc_now
from webhook.validation.framework.context import Context

TOKEN = "the-token-of-a-viewer"
USER = UserInfo("ann", frozenset({"system:masters"}))


@asynccontextmanager
async def actions_on(
    store: EmbeddedStore,
    context: Callable[[], Context] = lambda: Context.of_objects([]),
    now: Callable[[], datetime] = utc_now,
) -> AsyncIterator[PageActions]:
    """Serve a store to viewers with `TOKEN`, and yield the actions on it."""
    begin = datetime.now(UTC)
    authority = Authority.new(begin)
    app = web.Application()
    add_routes(app, store, lambda: context().with_user(USER), TOKEN)
    listener = ServerContext(authority.issue(("localhost",), ("127.0.0.1",), begin)).listener
    async with on_loopback(app, tls=listener) as address:

        async def endpoint() -> ApiServerEndpoint:
            return ApiServerEndpoint(address, authority.pem.decode())

        yield PageActions(ForwardingHubs(endpoint), now)


@dataclass
class KnownHubs:
    """A hub with one member, which knows one token and counts what is written to it.

    Args:
        known: The token.
        refusal: Refuses every write, if set.
    """

    known: str = TOKEN
    refusal: HubRefusalError | None = None
    tokens: list[str] = field(default_factory=list)
    written: list[HubWrite] = field(default_factory=list)
    version: int = 1
    taints: list[JsonObject] = field(default_factory=list)

    @asynccontextmanager
    async def open(self, token: str) -> AsyncIterator["KnownHubs"]:
        self.tokens.append(token)
        yield self

    async def get(self, kind: Kind, name: str, _namespace: str = "") -> JsonObject:
        if self.tokens[-1] != self.known:
            raise HubRefusalError(401, "Unauthorized")
        if (kind, name) != (MEMBER_CLUSTER, "east"):
            raise HubRefusalError(404, f'memberclusters.cluster.kubernetes-fleet.io "{name}" not found')
        metadata = {"name": name, "uid": "u-1", "resourceVersion": str(self.version)}
        return {"kind": kind.kind, "metadata": metadata, "spec": {"taints": list(self.taints)}}

    async def list_all(self, _kind: Kind, _namespace: str = "", _selector: str = "") -> list[JsonObject]:
        return []

    async def write(self, write: HubWrite, *, dry_run: bool) -> list[str]:
        if self.refusal is not None:
            raise self.refusal
        if not dry_run:
            self.written.append(write)
            self.version += 1
            self.taints = list(write.body["spec"]["taints"])
        return ["mind the gap"]
