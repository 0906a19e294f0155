"""A running server over real sockets and real TLS, and two clients: one polite, one that writes raw bytes."""

import asyncio
import json
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import aiohttp
import pytest
import pytest_asyncio

from scorer.api.family import PlacementRef, UnknownObjectError
from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.services import LISTENERS, OWNER, TOKEN, admit, make_server, make_services
from webhook.answers.questions import Eligible, InvalidQuestionError, PlacementVerdict, RejectedCandidate, ViewChange
from webhook.server.server import Server
from webhook.settings.programs import ServerSettings
from webhook.validation.framework.context import Context

EVALUATED = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)


@dataclass
class Harbour:
    """A fleet small enough to check by hand: an advisor and a source of changes that keep state.

    ``scores`` are the affinity scores of the eligible clusters; ``closed`` are turned away.
    """

    scores: dict[str, int] = field(default_factory=lambda: {"bravelion": 20, "jumpingcat": 5, "smartfish": -5})
    closed: tuple[str, ...] = ("oslo", "zeebrugge")
    revision: int = 12
    handlers: list = field(default_factory=list)
    questions: list = field(default_factory=list)

    @property
    def fleet_revision(self) -> str:
        return str(self.revision)

    def _known(self, question):
        self.questions.append(question)
        name = getattr(question.placement, "name", "payments")
        if name == "broken":
            raise RuntimeError("a secret of the engine")
        if name == "unusable":
            raise InvalidQuestionError("/placement/ref", "the policy of crp/unusable cannot be used")
        if name not in {"payments", ""}:
            raise UnknownObjectError(f"there is no placement crp/{name}")
        for name in question.names or ():
            if name not in self.scores and name not in self.closed:
                raise UnknownObjectError(f"there is no member cluster {name!r}")
        return question

    def evaluate(self, question):
        names = self._known(question).names
        ranked = sorted(self.scores, key=lambda name: -self.scores[name])
        eligible = [
            Eligible(name, rank, selected=rank == 1, topology_spread=-1, affinity=self.scores[name])
            for rank, name in enumerate(ranked, 1)
            if names is None or name in names
        ]
        rejected = [
            RejectedCandidate(name, "ClusterAffinity", "RequirementNotMet", "no node", resolvable=False)
            for name in sorted(self.closed)
            if names is None or name in names
        ]
        turned_away = {"ClusterAffinity": len(self.closed)}
        return PlacementVerdict(self.fleet_revision, "sha256:00", EVALUATED, eligible, rejected, turned_away)

    def explain(self, question):
        names = self._known(question).names
        wanted = names if names is not None else (*self.scores, *self.closed)
        items = [{"cluster": name, "verdict": "Picked" if name == "bravelion" else "ScoreTooLow"} for name in wanted]
        return {
            "fleetRevision": self.fleet_revision,
            "policyHash": "sha256:00",
            "wanted": 1,
            "found": 1,
            "items": items,
        }

    def explaining(self, question):
        return partial(self.explain, question)

    def cluster_names(self):
        return sorted((*self.scores, *self.closed))

    def clusters(self, names):
        placements = ["crp/payments", "rp/shop/cart"]
        return [
            {"name": name, "state": "eligible" if name in self.scores else "silent", "placements": placements}
            for name in names
            if name in self.cluster_names()
        ]

    def placement_refs(self):
        return [PlacementRef("ClusterResourcePlacement", "payments"), PlacementRef("ResourcePlacement", "cart", "shop")]

    def placements(self, refs):
        return [{"ref": str(ref)} for ref in refs]

    def placement(self, ref):
        known = str(ref) in {"crp/payments", "rp/shop/cart"}
        return {"ref": str(ref), "kind": ref.kind, "selectedResources": []} if known else None

    def everything(self):
        return ViewChange(
            self.revision, clusters=None, runs=True, placements=frozenset({"crp/payments", "rp/shop/cart"})
        )

    def subscribe(self, handler):
        self.handlers.append(handler)
        return lambda: self.handlers.remove(handler)

    def announce(self, *placements, clusters=(), runs=False):
        self.revision += 1
        for handler in tuple(self.handlers):
            handler(ViewChange(self.revision, frozenset(clusters), frozenset(placements), runs))


@dataclass
class Answer:
    """One HTTP answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Connection:
    """A client that writes what it is told, byte by byte if need be."""

    def __init__(self, reader, writer, token: str = ""):
        self._reader, self._writer = reader, writer
        self.credentials = {"Authorization": f"Bearer {token}"} if token else {}

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def post(self, path: str, body: bytes, **headers: str) -> Answer:
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **self.credentials, **headers}
        await self.send(head("POST", path, headers) + body)
        return await self.answer()

    async def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        await self.send(head(method, path, {**self.credentials, **headers}))
        return await self.answer(has_body=method != "HEAD")

    async def answer(self, *, has_body: bool = True) -> Answer:
        async with asyncio.timeout(PATIENCE_SECONDS):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            members = dict(line.split(": ", 1) for line in lines[1:] if line)
            length = int(members.get("Content-Length", 0)) if has_body else 0
            return Answer(int(lines[0].split()[1]), members, await self._reader.readexactly(length))

    async def line(self) -> bytes:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._reader.readline()

    async def ended(self) -> bool:
        """Say whether the server has closed the connection."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._reader.read(1) == b""

    def close(self) -> None:
        self._writer.transport.abort()


def head(method: str, path: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1"]
    if "Host" not in headers:
        lines.append("Host: localhost")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def wait_until(condition) -> None:
    await until(condition)


class Port:
    """A running server with its clients."""

    def __init__(self, server: Server, harbour: Harbour, clock: "Clock"):
        self.server, self.harbour, self.clock = server, harbour, clock
        self.trust = ssl.create_default_context(cadata=server.certificates.trust_pem.decode())
        self.trust.verify_flags |= ssl.VERIFY_X509_STRICT

    def renew(self) -> None:
        """Make the harbour what it was at first, and let enough time pass that no caller has asked too much."""
        vars(self.harbour).update(vars(Harbour()) | {"handlers": self.harbour.handlers})
        self.clock.advance(minutes=1)

    @property
    def url(self) -> str:
        return self.server.addresses.https_url

    @property
    def http_url(self) -> str:
        return self.server.addresses.http_url

    @asynccontextmanager
    async def dial(self, *, plain: bool = False, token: str | None = None):
        """Connect; over TLS with the good token unless another one, or none, is given."""
        host, port = self.server.addresses.http if plain else self.server.addresses.https
        tls = {} if plain else {"ssl": self.trust, "server_hostname": "localhost"}
        token = token if token is not None else "" if plain else TOKEN
        connection = Connection(*await asyncio.open_connection(host, port, **tls), token)
        try:
            yield connection
        finally:
            connection.close()

    @property
    def in_flight(self) -> float:
        """Admission reviews being handled."""
        return self.sample("harbormaster_http_in_flight", surface="admission")

    @property
    def bodies_bytes(self) -> float:
        """Of bodies that are being read."""
        return self.sample("harbormaster_http_body_bytes")

    def sample(self, name: str, **labels: str) -> float:
        """One value of the metrics."""
        return self.server.metrics.registry.get_sample_value(name, labels)

    async def until(self, condition) -> None:
        """Wait for something that happens on the server's side."""
        await wait_until(condition)

    def session(self) -> aiohttp.ClientSession:
        credentials = {"Authorization": f"Bearer {TOKEN}"}
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.trust, limit=0), headers=credentials)


class Clock:
    """Stands still unless it is moved."""

    def __init__(self, behind: timedelta):
        self.now = datetime.now(UTC) - behind

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **duration: float) -> None:
        self.now += timedelta(**duration)


@asynccontextmanager
async def launched(
    *,
    context=Context,
    synced=lambda: True,
    extend=None,
    behind=timedelta(),
    authenticator=OWNER,
    authorizer=OWNER,
    access=None,
    client_authorities=None,
    proxy_authorities=None,
    front_proxy=None,
    leaves=None,
    tracing=None,
    sign_in=None,
    calls=None,
    actions=None,
    **settings,
):
    """Run a server with the settings given."""
    harbour, clock = Harbour(), Clock(behind)
    services = make_services(
        advisor=harbour,
        changes=harbour,
        admission=context,
        synced=synced,
        now=clock,
        admittance=admit(authenticator, authorizer, access, sign_in, front_proxy),
    )
    services = replace(services, actions=actions)
    chosen = ServerSettings(**(LISTENERS | settings))
    server = make_server(
        services,
        chosen,
        leaves=leaves,
        client_authorities=client_authorities,
        proxy_authorities=proxy_authorities,
        extend=extend,
        tracing=tracing,
        calls=calls,
    )
    await server.start()
    try:
        yield Port(server, harbour, clock)
    finally:
        await server.stop()


@pytest.fixture
def launch():
    """`launched`, for the tests."""
    return launched


@pytest.fixture
async def port():
    """A server with default limits."""
    async with launched() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_port():
    """A server with default limits for a whole module, whose tests run on the module's event loop."""
    async with launched() as running:
        yield running


def make_review(uid: str = "7b1d0d5e", **request) -> dict:
    """A review of a sound placement."""
    kind = {"group": "placement.kubernetes-fleet.io", "version": "v1", "kind": "ClusterResourcePlacement"}
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
    placement = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "payments"},
        "spec": {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}},
    }
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": kind,
            "resource": {"group": kind["group"], "version": "v1", "resource": "clusterresourceplacements"},
            "name": "payments",
            "operation": "CREATE",
            "userInfo": {"username": "ann"},
            "object": placement,
            "oldObject": None,
            **request,
        },
    }


@pytest.fixture
def review():
    """`make_review`, for the tests."""
    return make_review


@pytest.fixture
def review_bytes():
    """A sound review on the wire."""

    def dump(uid: str = "7b1d0d5e", **request) -> bytes:
        return json.dumps(make_review(uid, **request)).encode()

    return dump
