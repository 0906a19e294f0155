"""Members without clusters: what the agents of a large fleet write on the hub, once a period each.

A heartbeat is made and written by the code of the agent: it reads the member's InternalMemberCluster and replaces its
status, which the loop then carries into the MemberCluster. The members come in groups; within a group each has another
grade, which no other member of the hub has. The processor time that is left changes with every heartbeat.
"""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from e2e.controlplane.cluster import Cluster, JsonObject
from e2e.fleet.objects import Objects, condition_of
from e2e.fleet.waiting import wait_until
from e2e.load.tally import Tally
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER
from scorer.api.names import member_namespace
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.ports import Key, StoreError
from webhook.member.membership.heartbeat import HeartbeatFigures, report

GROUP = "example.com/group"
GROUP_SIZE = 50
GRADE = "example.com/grade"
"""A property, from 1 to the size of a group."""
LEAST_MILLICORES = 500
CONCURRENCY = 16
JOINING_SECONDS = 600.0


class SimulatedMembers:
    """The members of one hub.

    Args:
        hub: Where.
        count: How many; a multiple of `GROUP_SIZE`.
        period_seconds: Between two heartbeats of one of them.
    """

    def __init__(self, hub: Cluster, count: int, period_seconds: int) -> None:
        self._hub = hub
        self._period_seconds = period_seconds
        self._count = count
        self._beats: dict[int, int] = {}
        self._last: dict[str, JsonObject] = {}

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self._count // GROUP_SIZE

    async def join(self) -> None:
        """Create them, and have each report once: they have joined when the loop has taken that over."""
        async with await ApiServer.connect(self._hub.kubeconfig) as server:
            store, turns = HubStore(server), asyncio.Semaphore(CONCURRENCY)

            async def joining(number: int) -> None:
                async with turns:
                    await store.create(MEMBER_CLUSTER, self._document(number))

            async with asyncio.TaskGroup() as tasks:
                for number in range(self._count):
                    tasks.create_task(joining(number))
            await asyncio.to_thread(wait_until, "the loop is ready for the members", self._unprepared, JOINING_SECONDS)
            for number in range(self._count):
                await self._beat(store, number)
        await asyncio.to_thread(wait_until, "the members join", self.behind, JOINING_SECONDS, 1.0)

    async def beat(self, tally: Tally, seconds: float) -> None:
        """Have them report in turn for so long, at the rate that their number and their period make."""
        begin = time.perf_counter()
        async with await ApiServer.connect(self._hub.kubeconfig) as server:
            store, turns = HubStore(server), asyncio.Semaphore(CONCURRENCY)

            async def beating(number: int) -> None:
                async with turns:
                    began = time.perf_counter()
                    try:
                        await self._beat(store, number)
                    except StoreError as error:
                        tally.fail(f"{_name(number)}: {error!r}")
                    else:
                        tally.took(time.perf_counter() - began)

            async with asyncio.TaskGroup() as tasks:
                for turn in range(int(seconds * tally.rate)):
                    await asyncio.sleep(max(0.0, begin + turn / tally.rate - time.perf_counter()))
                    tasks.create_task(beating(turn % self._count))

    @property
    def rate(self) -> float:
        """How many heartbeats a second they send."""
        return self._count / self._period_seconds

    def ranking(self, group: int) -> list[str]:
        """The members of a group, the one of the highest grade first."""
        numbers = range(group * GROUP_SIZE, (group + 1) * GROUP_SIZE)
        return [_name(number) for number in sorted(numbers, key=_grade, reverse=True)]

    def behind(self) -> str:
        """Say which MemberCluster does not have what its member has reported last, or has not joined."""
        found = {item["metadata"]["name"]: item for item in Objects(self._hub).all(MEMBER_CLUSTER)}
        for number in range(self._count):
            document = found[_name(number)]
            if condition_of(document, "Joined").get("status") != "True":
                return f"{_name(number)} has not joined: {document.get('status')}"
            available = document["status"]["resourceUsage"]["available"]
            if available != self._last[_name(number)]:
                return f"{_name(number)} has {available} left, it has reported {self._last[_name(number)]}"
        return ""

    async def _beat(self, store: HubStore, number: int) -> None:
        name = _name(number)
        beat = self._beats[number] = self._beats.get(number, -1) + 1
        cores = 8
        figures = HeartbeatFigures(
            properties={GRADE: str(_grade(number)), "kubernetes-fleet.io/node-count": "2"},
            capacity={"cpu": str(cores), "memory": f"{4 * cores}Gi"},
            allocatable={"cpu": f"{950 * cores}m", "memory": f"{3 * cores}Gi"},
            available={"cpu": f"{LEAST_MILLICORES + beat * 7919 % 400}m", "memory": f"{cores}Gi"},
        )
        key = Key(name, member_namespace(name))
        await report(store, INTERNAL_MEMBER_CLUSTER, key, figures, datetime.now(UTC))
        self._last[name] = dict(figures.available)

    def _document(self, number: int) -> JsonObject:
        name = _name(number)
        return {
            "apiVersion": MEMBER_CLUSTER.api_version,
            "kind": MEMBER_CLUSTER.kind,
            "metadata": {"name": name, "labels": {GROUP: group_name(number // GROUP_SIZE)}},
            "spec": {
                "identity": {"kind": "User", "name": f"{name}-agent", "apiGroup": "rbac.authorization.k8s.io"},
                "heartbeatPeriodSeconds": self._period_seconds,
            },
        }

    def _unprepared(self) -> str:
        there = {item["metadata"]["name"] for item in Objects(self._hub).all(INTERNAL_MEMBER_CLUSTER)}
        missing = [name for name in self._names() if name not in there]
        return f"{len(missing)} have no InternalMemberCluster, the first is {missing[0]}" if missing else ""

    def _names(self) -> Iterator[str]:
        return map(_name, range(self._count))


def group_name(group: int) -> str:
    """The value of the label of a group."""
    return f"group-{group:03}"


def _name(number: int) -> str:
    return f"simulated-{number:04}"


def _grade(number: int) -> int:
    """Each of a group has another one, in no order of names: 7 and the size of a group have no common factor."""
    return 1 + number * 7 % GROUP_SIZE
