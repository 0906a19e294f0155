"""A hub with the controller of members, on a real store in time that the test moves."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, KINDS, MEMBER_CLUSTER, NAMESPACE, WORK
from scorer.api.names import WORK_CLEANUP
from scorer.membership.access import ROLE, ROLE_BINDING
from tests.waiting import PATIENCE_SECONDS
from webhook.controllers.members.membership import WATCHES, MemberController
from webhook.controllers.placements.work_generator import without_manifests
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import ConflictError, Key, NotFoundError, UnavailableError, key_of
from webhook.member.membership.heartbeat import HeartbeatFigures, report

CACHED = (*(watch.kind for watch in WATCHES), WORK)

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPACE = "fleet-member-lion"
MOST_CONFLICTS = 10
LION, INTERNAL, HOME = Key("lion"), Key("lion", SPACE), Key(SPACE)
ROLE_KEY, BINDING_KEY = Key("fleet-role-lion", SPACE), Key("fleet-rolebinding-lion", SPACE)
PIECES = ((NAMESPACE, HOME), (ROLE, ROLE_KEY), (ROLE_BINDING, BINDING_KEY), (INTERNAL_MEMBER_CLUSTER, INTERNAL))
FIGURES = HeartbeatFigures(properties={"kubernetes-fleet.io/node-count": "4"}, capacity={"cpu": "16"})
CONFIG_MAP = KINDS["", "ConfigMap"]
SPEC = {"workload": {"manifests": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}]}}


class UnsteadyStore(EmbeddedStore):
    """A store that does not always let a kind be read."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.unreadable = None
        self.watches_end = False

    async def list(self, kind, namespace=None, labels=None):
        if kind == self.unreadable:
            raise UnavailableError("not now")
        return await super().list(kind, namespace, labels)

    async def watch(self, kind, since, namespace=None):
        async for event in super().watch(kind, since, namespace):
            if kind == self.unreadable or self.watches_end:
                self.watches_end = False
                raise UnavailableError("broken off")
            yield event


class Stage:
    """A hub with one controller, which is started anew at will."""

    def __init__(self):
        self.time = START
        self.store = UnsteadyStore.open(None, now=self.now)
        self.cache = Cache(self.store)
        self.hub = Hub(self.store, self.cache)
        self.events = []
        self.start()

    def start(self):
        self.controller = MemberController(self.hub, self.now, self.record)

    def now(self):
        return self.time

    def record(self, document, event):
        assert document["kind"] == "MemberCluster"
        self.events.append((event.type, event.reason))

    async def reconcile(self, name="lion"):
        """Reconcile when the cache knows everything, again after a conflict, and wait until everything is stored.

        A status that is written late makes the version of its object out of date; the queue tries again, too.
        """
        for _ in range(MOST_CONFLICTS):
            await self.known()
            try:
                return await self.controller.reconcile(name)
            except ConflictError:
                continue
            finally:
                await self.known()
        raise AssertionError(f"{name} is written all the time")

    async def known(self):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.hub.idle or not await self.cache_is_fresh():
                await asyncio.sleep(0.01)

    async def cache_is_fresh(self):
        for kind in CACHED:
            if versions(self.cache.list(kind)) != versions((await self.store.list(kind)).items):
                return False
        return True

    async def add(self, name="lion", **spec):
        document = {"apiVersion": MEMBER_CLUSTER.api_version, "kind": "MemberCluster", "metadata": {"name": name}}
        document["spec"] = {"identity": {"kind": "User", "name": name}, **spec}
        await self.store.create(MEMBER_CLUSTER, document)

    async def change(self, kind, key, **members):
        document = await self.store.get(kind, key)
        metadata = {**document["metadata"], **members.pop("metadata", {})}
        await self.store.replace(kind, {**document, **members, "metadata": metadata})

    async def beat(self, *, skew=timedelta(), figures=FIGURES, joined=True):
        """Let the agent report, by a clock that is *skew* ahead."""
        await report(self.store, INTERNAL_MEMBER_CLUSTER, INTERNAL, figures, self.time + skew, is_joined=joined)

    async def work(self, name, **metadata):
        space = {"name": name, "namespace": SPACE, "finalizers": [WORK_CLEANUP, "example.com/other"], **metadata}
        await self.store.create(WORK, {"apiVersion": WORK.api_version, "kind": "Work", "metadata": space, "spec": SPEC})

    async def exists(self, kind, key):
        try:
            await self.store.get(kind, key)
        except NotFoundError:
            return False
        return True

    async def status(self):
        return (await self.store.get(MEMBER_CLUSTER, LION)).get("status", {})

    async def heartbeat(self):
        return (await self.status())["agentStatus"][0]["lastReceivedHeartbeat"]

    async def condition(self, kind):
        found = next(entry for entry in (await self.status())["conditions"] if entry["type"] == kind)
        return found["status"], found["reason"]


def versions(documents):
    return {key_of(document): document["metadata"]["resourceVersion"] for document in documents}


@asynccontextmanager
async def staged():
    stage = Stage()
    stage.cache.require(CACHED)
    stage.cache.trim(WORK, without_manifests)

    async def run():
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stage.cache.run())
            tasks.create_task(stage.hub.run())

    task = asyncio.create_task(run())
    await stage.cache.wait_synced()
    try:
        yield stage
    finally:
        task.cancel()
        await asyncio.wait([task])
        stage.store.close()
