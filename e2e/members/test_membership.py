"""The hub's part of a member on a real API server, by an identity that may do no more than that part needs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.process import PATIENCE
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER, NAMESPACE, WORK
from scorer.membership.access import ROLE, ROLE_BINDING
from webhook.controllers.machinery.queue import WorkQueue
from webhook.controllers.members.membership import WATCHES, MemberController
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.ports import ForbiddenError, Key, NotFoundError
from webhook.member.membership.heartbeat import HeartbeatFigures, report

CACHED = (*(watch.kind for watch in WATCHES), WORK)

SPACE = "fleet-member-lion"
INTERNAL = Key("lion", SPACE)
CLUSTER, PLACEMENT, RBAC = "cluster.kubernetes-fleet.io", "placement.kubernetes-fleet.io", "rbac.authorization.k8s.io"


def rule(group: str, resources: str, verbs: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


KEEPER = [
    rule(CLUSTER, "memberclusters", "get list watch update patch"),
    rule(CLUSTER, "memberclusters/status", "update"),
    rule(CLUSTER, "internalmemberclusters", "get list watch create update"),
    rule(CLUSTER, "internalmemberclusters/status", "get update patch"),
    rule("", "namespaces", "get list watch create update delete"),
    rule(RBAC, "roles rolebindings", "get list create update delete"),
    rule(PLACEMENT, "works", "get list watch update patch delete"),
    rule(PLACEMENT, "works/status", "get update patch"),
    rule("events.k8s.io", "events", "create"),
]
"""All that the member controller needs; what of Works and statuses it never does itself it has to have to give it."""


@pytest.fixture(scope="module")
def cluster(own_hub: Cluster) -> Cluster:
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "keeper"}}
    own_hub.request("POST", f"/apis/{RBAC}/v1/clusterroles", {**head, "kind": "ClusterRole", "rules": KEEPER})
    bound = {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "keeper"}}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": "keeper"}]
    binding = {**head, "kind": "ClusterRoleBinding", **bound, "subjects": subjects}
    own_hub.request("POST", f"/apis/{RBAC}/v1/clusterrolebindings", binding)
    return own_hub


class Keeper:
    """The controller in its queue."""

    def __init__(self, store: HubStore) -> None:
        self.store = store
        self.cache = Cache(store)
        self.hub = Hub(store, self.cache)
        self.events: list[str] = []
        self.skew = timedelta()
        self.controller = MemberController(self.hub, self.now, lambda _, event: self.events.append(event.reason))
        self.queue = WorkQueue("member", self.controller.reconcile)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.skew

    async def run(self) -> None:
        self.cache.require(CACHED)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.cache.run())
            await self.cache.wait_synced()
            for watch in WATCHES:
                watch.start(self.cache, self.queue)
            tasks.create_task(self.hub.run())
            tasks.create_task(self.queue.run())


@contextlib.asynccontextmanager
async def kept(cluster: Cluster) -> AsyncIterator[Keeper]:
    async with await ApiServer.connect(cluster.kubeconfigs["keeper"]) as server:
        keeper = Keeper(HubStore(server))
        task = asyncio.create_task(keeper.run())
        try:
            yield keeper
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[HubStore]:
    async with await ApiServer.connect(cluster.kubeconfig) as server:
        yield HubStore(server)


@pytest.fixture
async def agent(cluster: Cluster) -> AsyncIterator[HubStore]:
    async with await ApiServer.connect(cluster.kubeconfigs["lion"]) as server:
        yield HubStore(server)


async def until(test: Any, seconds: float = PATIENCE) -> Any:
    async with asyncio.timeout(seconds):
        while True:
            with contextlib.suppress(NotFoundError, ForbiddenError, KeyError, StopIteration):
                if found := await test():
                    return found
            await asyncio.sleep(0.05)


async def gone(store: HubStore, kind: Any, key: Key) -> bool:
    try:
        await store.get(kind, key)
    except NotFoundError:
        return True
    return False


async def condition(store: HubStore, kind: str) -> tuple[str, str]:
    found = (await store.get(MEMBER_CLUSTER, Key("lion")))["status"]["conditions"]
    return next((entry["status"], entry["reason"]) for entry in found if entry["type"] == kind)


def member(**spec: Any) -> dict[str, Any]:
    given = {"identity": {"kind": "User", "name": "lion"}, **spec}
    head = {"apiVersion": MEMBER_CLUSTER.api_version, "kind": "MemberCluster", "metadata": {"name": "lion"}}
    return {**head, "spec": given}


def work(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": SPACE, "finalizers": ["kubernetes-fleet.io/work-cleanup"]}
    return {"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": {"workload": {}}}


async def beat(agent: HubStore, *, joined: bool = True, skew: timedelta = timedelta()) -> None:
    figures = HeartbeatFigures(properties={"kubernetes-fleet.io/node-count": "3"}, capacity={"cpu": "8"})
    await report(agent, INTERNAL_MEMBER_CLUSTER, INTERNAL, figures, datetime.now(UTC) + skew, is_joined=joined)


def may(cluster: Cluster, verb: str, group: str, resource: str, namespace: str = SPACE) -> bool:
    """Ask the API server what the agent may do."""
    resource, _, sub = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": sub, "namespace": namespace}
    spec = {"spec": {"resourceAttributes": asked}}
    answer, _ = cluster.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", spec, user="lion")
    return bool(answer["status"]["allowed"])


VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
GIVEN = {
    (PLACEMENT, "works"): {"get", "list", "watch", "update", "patch"},
    (PLACEMENT, "works/status"): {"get", "update", "patch"},
    (CLUSTER, "internalmemberclusters"): {"get", "list", "watch"},
    (CLUSTER, "internalmemberclusters/status"): {"get", "update", "patch"},
    (CLUSTER, "memberclusters"): set(),
    (PLACEMENT, "clusterresourceplacements"): set(),
    ("", "namespaces"): {"get"},
    ("events.k8s.io", "events"): {"create"},
    ("", "secrets"): set(),
    ("", "configmaps"): set(),
    (RBAC, "roles"): set(),
}


def written_since(cluster: Cluster, mark: int) -> list[tuple[str, str, str]]:
    """Return what the keeper has written since a mark of the audit log: verb, resource, subresource."""
    return [
        (entry["verb"], entry["objectRef"]["resource"], entry["objectRef"].get("subresource", ""))
        for entry in cluster.audit(mark)
        if entry["user"]["username"] == "keeper"
    ]


async def test_a_member_joins_reports_and_leaves(cluster: Cluster, admin: HubStore, agent: HubStore) -> None:
    async with kept(cluster) as keeper:
        await admin.create(MEMBER_CLUSTER, member(heartbeatPeriodSeconds=5))
        await until(lambda: condition(admin, "ReadyToJoin"))
        assert await condition(admin, "Joined") == ("Unknown", "MemberClusterJoinStateUnknown")
        for (group, resource), verbs in GIVEN.items():
            assert {verb for verb in VERBS if may(cluster, verb, group, resource)} == verbs, resource
            for elsewhere in ("", "default", "fleet-member-hare"):
                assert not any(may(cluster, verb, group, resource, elsewhere) for verb in VERBS), (resource, elsewhere)

        await beat(agent, skew=timedelta(minutes=-10))
        await until(lambda: _is(admin, "Joined", "True"))
        await beat(agent, skew=timedelta(minutes=-10) + timedelta(seconds=1))
        await until(lambda: _heard_lately(admin))
        status = (await admin.get(MEMBER_CLUSTER, Key("lion")))["status"]
        assert status["resourceUsage"]["capacity"] == {"cpu": "8"}

        await another_pass(keeper)
        mark = cluster.audit_mark()
        await another_pass(keeper)
        await beat(agent)
        await until(lambda: _async(written_since(cluster, mark)))
        await another_pass(keeper)
        assert written_since(cluster, mark) == [("update", "memberclusters", "status")], "one heartbeat, one write"

        role = await admin.get(ROLE, Key("fleet-role-lion", SPACE))
        await admin.replace(ROLE, {**role, "rules": []})
        binding = Key("fleet-rolebinding-lion", SPACE)
        stored = await admin.get(ROLE_BINDING, binding)
        await admin.delete(ROLE_BINDING, binding)
        metadata = {key: stored["metadata"][key] for key in ("name", "namespace")}
        other = {**stored, "metadata": metadata, "roleRef": {**stored["roleRef"], "name": "other"}}
        await admin.create(ROLE_BINDING, other)
        keeper.skew = timedelta(minutes=10)
        keeper.queue.add("lion")
        await until(lambda: _async(may(cluster, "update", PLACEMENT, "works/status")))
        assert (await admin.get(ROLE_BINDING, binding))["roleRef"] == stored["roleRef"]
        keeper.skew = timedelta()

        for name in ("w1", "w2"):
            await admin.create(WORK, work(name))
        await admin.delete(MEMBER_CLUSTER, Key("lion"))
        await until(lambda: _told(agent, "Leave"))
        await another_pass(keeper)
        assert not await gone(admin, MEMBER_CLUSTER, Key("lion"))
        first = await agent.get(WORK, Key("w1", SPACE))
        await agent.replace(WORK, {**first, "metadata": {**first["metadata"], "finalizers": []}})
        await beat(agent, joined=False)
        await until(lambda: gone(admin, MEMBER_CLUSTER, Key("lion")))
        assert await gone(admin, NAMESPACE, Key(SPACE))
        assert keeper.queue.failed == 0
        assert keeper.events[:5] == [
            "NamespaceCreated",
            "RoleCreated",
            "RoleBindingCreated",
            "InternalMemberClusterCreated",
            "MemberClusterReadyToJoin",
        ]


async def test_a_member_that_does_not_answer_goes_by_force(cluster: Cluster, admin: HubStore) -> None:
    async with kept(cluster) as keeper:
        await admin.create(MEMBER_CLUSTER, member())
        await until(lambda: condition(admin, "ReadyToJoin"))
        await admin.create(WORK, work("w1"))
        await force_out(admin, keeper)
        assert await gone(admin, NAMESPACE, Key(SPACE))


async def test_a_namespace_that_is_deleted_comes_back_with_the_agents_access(cluster: Cluster, admin: HubStore) -> None:
    """While the member stays: its Works are let go of, so that the namespace can end at all."""
    home = Key(SPACE)
    async with kept(cluster) as keeper:
        await admin.create(MEMBER_CLUSTER, member())
        await until(lambda: condition(admin, "ReadyToJoin"))
        await until(lambda: _async(may(cluster, "update", PLACEMENT, "works/status")))
        await admin.create(WORK, work("w1"))
        before = (await admin.get(NAMESPACE, home))["metadata"]["uid"]
        await admin.delete(NAMESPACE, home)

        async def is_new() -> bool:
            found = [item for item in (await admin.list(NAMESPACE)).items if item["metadata"]["name"] == SPACE]
            return bool(found) and found[0]["metadata"]["uid"] != before

        await until(is_new)
        await until(lambda: _async(may(cluster, "update", PLACEMENT, "works/status")))
        assert await gone(admin, WORK, Key("w1", SPACE))
        await force_out(admin, keeper)


async def force_out(admin: HubStore, keeper: Keeper) -> None:
    """Delete the member, and wait until the hub has given up waiting for its agent."""
    await admin.delete(MEMBER_CLUSTER, Key("lion"))
    await until(lambda: _told(admin, "Leave"))
    keeper.skew = timedelta(minutes=15)
    keeper.queue.add("lion")
    await until(lambda: gone(admin, MEMBER_CLUSTER, Key("lion")))


async def test_a_refused_identity_is_reported(cluster: Cluster, admin: HubStore) -> None:
    async with kept(cluster) as keeper:
        await admin.create(
            MEMBER_CLUSTER, member(identity={"kind": "ServiceAccount", "name": "No Such", "namespace": "x"})
        )
        await until(lambda: _is(admin, "ReadyToJoin", "False"))
        found = (await admin.get(MEMBER_CLUSTER, Key("lion")))["status"]["conditions"]
        assert "spec.identity was refused: " in found[0]["message"]
        assert "No Such" in found[0]["message"]
        stored = await admin.get(MEMBER_CLUSTER, Key("lion"))
        await admin.replace(MEMBER_CLUSTER, {**stored, "spec": member()["spec"]})
        await until(lambda: _is(admin, "ReadyToJoin", "True"))
        await force_out(admin, keeper)


async def _async(value: Any) -> Any:
    return value


async def another_pass(keeper: Keeper) -> None:
    """Reconcile the member once more, and wait until everything is written: what was not done then is not to come."""
    before = keeper.queue.reconciled
    keeper.queue.add("lion")
    await until(lambda: _async(keeper.queue.reconciled > before and keeper.queue.idle and keeper.hub.idle))


async def _is(store: HubStore, kind: str, status: str) -> bool:
    return (await condition(store, kind))[0] == status


async def _told(store: HubStore, state: str) -> bool:
    return bool((await store.get(INTERNAL_MEMBER_CLUSTER, INTERNAL))["spec"]["state"] == state)


async def _heard_lately(store: HubStore) -> bool:
    (found,) = (await store.get(MEMBER_CLUSTER, Key("lion")))["status"]["agentStatus"]
    return datetime.now(UTC) - datetime.fromisoformat(found["lastReceivedHeartbeat"]) < timedelta(seconds=10)
