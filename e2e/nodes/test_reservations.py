"""Two replicas are asked for reservations at once, and one of them dies now and then: the budget is never exceeded."""

import asyncio
import json
import random
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.conftest import StartService
from e2e.controlplane.client_certificate import ClientCertificate
from e2e.controlplane.cluster import Cluster, JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import Service
from e2e.nodes.node_pool import ignoring, pool_of_nodes
from tests.thoroughness import SOAK

pytestmark = pytest.mark.soak

ROUNDS = 1000 if SOAK else 100
BETWEEN_DEATHS = (50, 150) if SOAK else (20, 40)
"""Rounds from one replica's return to the next death."""
LIMIT = 3
NODES = 10
CONCURRENT_REQUESTS = 4
POOL = "reserved"
NAMESPACE = "harbormaster-system"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
RESERVE = "/v1/gate/reservations"


@pytest.fixture(scope="module")
def hub(bare_hub: Cluster) -> Any:
    """The hub with a pool of ten ready nodes, of which three may be disrupted at a time."""
    ignoring(409, bare_hub.request, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    with pool_of_nodes(bare_hub, POOL, NODES, LIMIT):
        yield bare_hub


Score = tuple[int, int]


@dataclass
class Taken:
    """A reservation that somebody has."""

    id: str
    granted: list[str] | int

    @property
    def nodes(self) -> int:
        """How many nodes it is about."""
        return self.granted if isinstance(self.granted, int) else len(self.granted)


class Replica:
    """One of the two, and a client of it that keeps its connections."""

    def __init__(self, service: Service, session: aiohttp.ClientSession) -> None:
        self.service = service
        self._session = session

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, JsonObject]:
        """Return status and answer; status 0: it did not answer."""
        try:
            async with self._session.request(method, self.service.url + path, json=body) as answer:
                return answer.status, await answer.json(content_type=None) if answer.status != 204 else {}
        except (aiohttp.ClientError, OSError):
            return 0, {}

    async def reserve(self, wanted: list[str] | int) -> Taken | None:
        """Take as many as wanted, or nothing."""
        nodes = {"count": wanted} if isinstance(wanted, int) else {"nodes": wanted}
        question = {"pool": POOL, "reason": "Drifted", **nodes}
        body = {"gate": "disruption", "question": question, "holder": "e2e", "ttlSeconds": 3600}
        status, told = await self.ask("POST", RESERVE, body)
        assert status in {0, 201, 409, 503}, told
        return Taken(told["id"], told["granted"]) if status == 201 else None


@asynccontextmanager
async def client_of(service: Service, certificate: ClientCertificate) -> AsyncIterator[Replica]:
    trust = ssl.create_default_context(cafile=str(service.ca_file))
    certificate.show(trust)
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield Replica(service, session)


def in_force(hub: Cluster) -> dict[str, int]:
    """What the hub itself says is reserved: how many nodes, by the id of the reservation."""
    found = {}
    for lease in hub.request("GET", LEASES)[0]["items"]:
        annotations = lease["metadata"].get("annotations") or {}
        if annotations.get("harbormaster.dev/reserved-thing") != POOL:
            continue
        for entry in json.loads(annotations["harbormaster.dev/reservations"]):
            granted = entry["granted"]
            found[entry["id"]] = granted if isinstance(granted, int) else len(granted)
    return found


@pytest.fixture
def replicas(hub: Cluster, start_service: StartService) -> list[Service]:
    settings = {"requests_per_second": 1e6, "request_burst": 10**6}
    return [start_service(hub, **settings) for _ in range(2)]


def test_the_budget_holds_whoever_asks_and_whoever_dies(hub: Cluster, replicas: list[Service], tmp_path: Path) -> None:
    """Each round some callers ask both replicas at once, for nodes by name or by number; some are given back.

    What is in force, as the hub stores it, never sums up to more than the budget, and everything that a caller was
    told to have is in it. Now and then a replica is killed in the middle of a round, and comes back while the other
    goes on. What it has granted and could not say any more is given back here.
    """
    certificate = hub.issue_client_certificate("root", ("system:masters",), tmp_path)
    dice = random.Random(20260610)
    granted, deaths = asyncio.run(play(hub, replicas, certificate, dice))
    assert granted > ROUNDS / 4
    assert deaths >= 2
    assert in_force(hub) == {}


async def play(hub: Cluster, services: list[Service], certificate: ClientCertificate, dice: random.Random) -> Score:
    """Play all rounds; returns how often something was granted, and how often a replica was killed."""
    names = [f"{POOL}-{number}" for number in range(NODES)]
    granted = deaths = 0
    next_death = ROUNDS // 20
    async with client_of(services[0], certificate) as first, client_of(services[1], certificate) as second:
        there = [first, second]
        await asyncio.gather(*(seen_all_nodes(replica) for replica in there))
        taken: list[Taken] = []
        returning: asyncio.Task[Replica] | None = None
        for turn in range(ROUNDS):
            if returning is not None and returning.done():
                there.append(returning.result())
                returning, next_death = None, turn + dice.randint(*BETWEEN_DEATHS)
            wanted: list[list[str] | int] = [
                dice.randint(1, 2) if dice.random() < 0.5 else dice.sample(names, dice.randint(1, 2))
                for _ in range(CONCURRENT_REQUESTS)
            ]
            asked = [asyncio.create_task(dice.choice(there).reserve(each)) for each in wanted]
            if turn >= next_death and returning is None:
                dying = there.pop(dice.randrange(2))
                await asyncio.sleep(dice.uniform(0, 0.02))
                dying.service.program.send(signal.SIGKILL)
                deaths += 1
                returning = asyncio.create_task(come_back(dying))
            told = [found for found in await asyncio.gather(*asked) if found is not None]
            taken += told
            granted += len(told)
            held = await asyncio.to_thread(in_force, hub)
            assert sum(held.values()) <= LIMIT, (turn, held)
            assert {each.id: each.nodes for each in taken}.items() <= held.items(), (turn, taken, held)
            unheard = held.keys() - {each.id for each in taken}
            assert not unheard or deaths, (turn, unheard)
            giving = {each.id for each in taken if dice.random() < 0.7} | unheard
            await asyncio.gather(*(give_back(dice.choice(there), identifier) for identifier in giving))
            taken = [each for each in taken if each.id not in giving]
        if returning is not None:
            await returning
        for identifier in await asyncio.to_thread(in_force, hub):
            await give_back(there[0], identifier)
    return granted, deaths


async def come_back(replica: Replica) -> Replica:
    """Start a replica that was killed, and wait until it knows the pool."""
    await asyncio.to_thread(replica.service.program.stop)
    await asyncio.to_thread(replica.service.start)
    await seen_all_nodes(replica)
    return replica


async def give_back(replica: Replica, identifier: str) -> None:
    """Give one reservation back."""
    status, answer = await replica.ask("DELETE", f"{RESERVE}/{identifier}")
    assert status == 204, answer


async def seen_all_nodes(replica: Replica) -> None:
    """Wait until a replica knows all nodes of the pool."""
    question = {"pool": POOL, "reason": "Drifted", "count": 0}
    async with asyncio.timeout(PATIENCE):
        while True:
            status, told = await replica.ask("POST", "/v1/gate/disruption", question)
            if status == 200 and told["total"] == NODES:
                return
            await asyncio.sleep(0.1)
