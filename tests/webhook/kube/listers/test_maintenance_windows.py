"""Which members are closed by their maintenance windows, as cached objects change and time goes on."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, MAINTENANCE_WINDOW, MEMBER_CLUSTER
from scorer.api.names import UPGRADE_WINDOWS
from tests.waiting import PATIENCE_SECONDS
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.ports import Key, NotFoundError

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Hub:
    """A cache with members and windows, and what is told of changes."""

    def __init__(self, store):
        self.cache = Cache(store)
        for kind in (MEMBER_CLUSTER, MAINTENANCE_WINDOW):
            self.cache.of_kind(kind).synced.set()
        self.windows = MaintenanceWindows(self.cache)
        self.told = []
        self.windows.subscribe(lambda members: self.told.append(sorted(members)))
        self._version = 0

    def put(self, kind, name, *, labels=None, annotations=None, **fields):
        self._version += 1
        metadata = {"name": name, "uid": name, "resourceVersion": str(self._version), "labels": labels or {}}
        self.cache.of_kind(kind).put({"metadata": metadata | {"annotations": annotations or {}}, **fields})

    def member(self, name, named="", **labels):
        self.put(MEMBER_CLUSTER, name, labels=labels, annotations={UPGRADE_WINDOWS: named} if named else {})

    def window(self, name, begins, **spec):
        spec = {"schedule": {"daily": {"intervalDays": 1}}, "startTime": f"{begins}:00", **spec}
        self.put(MAINTENANCE_WINDOW, name, spec=spec)

    def opens(self, member, now=NOON):
        """Return when the windows of a member open; 0: they are open, or it has none."""
        closed = self.windows.closed(member, now)
        return 0 if closed is None else closed.opens and closed.opens.hour


@pytest.fixture
async def hub():
    store = EmbeddedStore.open(None)
    yield Hub(store)
    store.close()


async def test_a_member_is_closed_until_its_window_opens_and_again_when_it_closes(hub):
    hub.window("evening", 18)
    hub.member("a", "evening")
    assert [hub.opens("a", NOON + hours * HOUR) for hours in (0, 5, 6, 9, 10, 30, 5)] == [18, 18, 0, 0, 18, 0, 18]


async def test_a_member_without_windows_and_one_that_is_not_there_are_not_closed(hub):
    hub.window("evening", 18)
    hub.member("a")
    assert (hub.opens("a"), hub.opens("nobody")) == (0, 0)


async def test_changes_count_at_once(hub):
    hub.window("evening", 18)
    hub.member("a", "evening")
    assert hub.opens("a") == 18
    hub.window("evening", 20)
    assert hub.opens("a") == 20
    hub.window("noon", 12, memberSelector={"matchLabels": {"env": "prod"}})
    assert hub.opens("a") == 20
    hub.member("a", "evening", env="prod")
    assert hub.opens("a") == 0
    hub.cache.of_kind(MAINTENANCE_WINDOW).drop(hub.cache.get(MAINTENANCE_WINDOW, "noon"))
    assert hub.opens("a") == 20
    hub.member("a")
    assert hub.opens("a") == 0


async def test_those_are_told_of_whose_windows_change(hub):
    for name, named in (("a", "evening"), ("b", ""), ("c", "evening,noon")):
        hub.member(name, named, env="prod" if name == "b" else "test")
    hub.window("evening", 18)
    hub.window("noon", 12, memberSelector={"matchLabels": {"env": "prod"}})
    hub.window("noon", 12)
    hub.put(MAINTENANCE_WINDOW, "noon", spec=hub.cache.get(MAINTENANCE_WINDOW, "noon")["spec"], status={})
    hub.member("a", "noon", env="test")
    hub.member("a", "noon", env="prod")
    assert hub.told == [["a", "c"], ["b", "c"], ["b", "c"], ["a"]]
    hub.windows.end()
    hub.window("evening", 19)
    assert len(hub.told) == 4


class Older(EmbeddedStore):
    """A hub on which nobody has defined maintenance windows."""

    async def list(self, kind, namespace=None, labels=None):
        if kind == MAINTENANCE_WINDOW:
            raise NotFoundError("the server could not find the requested resource")
        return await super().list(kind, namespace, labels)

    async def get(self, kind, key):
        if kind == CUSTOM_RESOURCE_DEFINITION and key == Key(f"{MAINTENANCE_WINDOW.plural}.{MAINTENANCE_WINDOW.group}"):
            raise NotFoundError("there is no such definition")
        return await super().get(kind, key)


async def test_a_hub_that_does_not_know_the_kind_has_no_windows():
    store = Older.open(None)
    for name, named in (("a", ""), ("b", "evening")):
        head = {"apiVersion": MEMBER_CLUSTER.api_version, "kind": MEMBER_CLUSTER.kind}
        metadata = {"name": name, "annotations": {UPGRADE_WINDOWS: named}}
        await store.create(MEMBER_CLUSTER, {**head, "metadata": metadata, "spec": {"identity": {"name": name}}})
    cache = Cache(store)
    windows = MaintenanceWindows(cache)
    task = asyncio.create_task(cache.run())
    await asyncio.wait_for(cache.wait_synced(), PATIENCE_SECONDS)
    assert windows.closed("a", NOON) is None
    closed = windows.closed("b", NOON)
    assert closed is not None
    assert (closed.message, closed.opens) == ("maintenance window evening does not exist", None)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    store.close()
