"""Which change of an object wakes which Work, and how soon."""

import asyncio
from dataclasses import replace

import pytest

from scorer.api.kinds import APPLIED_WORK, KINDS, NAMESPACE, Kind
from webhook.kube.ports import EventType, ForbiddenError, NotFoundError, WatchEvent
from webhook.member.works.object_watches import (
    CALM_SECONDS,
    CHANGED_SECONDS,
    DELETED_SECONDS,
    LONGEST_SECONDS,
    STATUS_SECONDS,
    AppliedObjects,
)

CONFIG_MAP, DEPLOYMENT = KINDS["", "ConfigMap"], KINDS["apps", "Deployment"]
OLD = Kind("example.com", ("v2", "v1"), "Boat", "boats", namespaced=True)
NEW = replace(OLD, versions=("v1",))


class Served:
    def __init__(self, *kinds):
        self.kinds = {kind.group_kind: kind for kind in kinds}
        self.coming = {}
        self.refreshed = 0

    async def refresh(self):
        self.refreshed += 1
        self.kinds = {name: kind for name, kind in (self.kinds | self.coming).items() if kind is not None}


class Member:
    """Answers lists and watches; tells what is watched."""

    def __init__(self, *forbidden):
        self.forbidden = set(forbidden)
        self.unserved = set()
        self.watched = []
        self.listed = []

    async def list(self, kind, namespace=None, labels=None):
        self.listed.append((kind.kind, labels))
        if kind in self.forbidden:
            raise ForbiddenError(f"may not list {kind}")
        if kind.versions[0] in self.unserved:
            raise NotFoundError(f"the server could not find {kind}")
        return type("Listing", (), {"items": (), "resource_version": "1"})()

    async def watch(self, kind, since, namespace=None):
        self.watched.append(kind)
        try:
            await asyncio.Event().wait()
        finally:
            self.watched.remove(kind)
        yield


class World:
    def __init__(self, member=None, *kinds):
        self.time = 0.0
        self.woken = []
        self.served = Served(*kinds)
        self.member = member or Member()
        self.objects = AppliedObjects(
            self.member, self.served, lambda work, seconds: self.woken.append((work, seconds)), clock=lambda: self.time
        )

    def tell(self, document, type_=EventType.MODIFIED, kind=CONFIG_MAP):
        self.woken.clear()
        self.objects.changed(kind, WatchEvent(type_, document, "1"))
        return list(self.woken)


def config_map(name="a", space="s", version="1", **data):
    metadata = {"name": name, "namespace": space, "uid": "1", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def deployment(version="1", ready=0, generation=1):
    metadata = {"name": "a", "namespace": "s", "resourceVersion": version, "generation": generation}
    status = {"readyReplicas": ready}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {}, "status": status}


def test_only_the_works_that_hold_the_object_are_woken():
    world = World()
    world.objects.hold("one", [config_map("a"), config_map("b")])
    world.objects.hold("two", [config_map("b")])
    assert world.tell(config_map("a")) == [("one", CHANGED_SECONDS)]
    assert world.tell(config_map("b"), EventType.DELETED) == [("one", DELETED_SECONDS), ("two", DELETED_SECONDS)]
    assert world.tell(config_map("c")) == []
    assert world.tell(config_map("a", "elsewhere")) == []


def test_what_a_work_no_longer_holds_does_not_wake_it():
    world = World()
    world.objects.hold("one", [config_map("a"), config_map("b")])
    world.objects.hold("one", [config_map("b")])
    assert world.tell(config_map("a"), EventType.DELETED) == []
    world.objects.forget("one")
    assert world.tell(config_map("b"), EventType.DELETED) == []


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param("text", id="text"),
        pytest.param({}, id="empty"),
        pytest.param({"kind": "ConfigMap", "apiVersion": "v1", "metadata": None}, id="no-name"),
        pytest.param({"kind": 3, "apiVersion": [], "metadata": {"name": "a"}}, id="wrong-types"),
    ],
)
def test_manifests_that_cannot_be_read_do_no_harm(manifest):
    World().objects.hold("one", [manifest])


def test_a_namespace_in_a_manifest_of_a_cluster_scoped_kind_does_not_count():
    world = World()
    world.objects.hold("one", [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "namespace": "b"}}])
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    assert world.tell(document, kind=NAMESPACE) == [("one", CHANGED_SECONDS)]


def test_the_same_content_again_is_no_change():
    """Only the version and the field managers differ: somebody wrote what was there."""
    world = World()
    world.objects.hold("one", [config_map()])
    assert world.tell(config_map(key="1"))
    assert world.tell(config_map(version="2", key="1")) == []
    assert world.tell(config_map(version="3", key="2")) == [("one", CHANGED_SECONDS)]


def test_a_status_is_less_urgent():
    world = World()
    world.objects.hold("one", [deployment()])
    world.tell(deployment(), kind=DEPLOYMENT)
    assert world.tell(deployment("2", 1), kind=DEPLOYMENT) == [("one", STATUS_SECONDS)]


def test_changes_that_keep_coming_are_looked_at_further_and_further_apart():
    world = World()
    world.objects.hold("one", [deployment()])
    waits = []
    for number in range(40):
        ((_, seconds),) = world.tell(deployment(str(number), number), kind=DEPLOYMENT)
        waits.append(seconds)
        world.time += seconds + 0.01
    assert waits[0] == CHANGED_SECONDS
    assert waits[-1] == LONGEST_SECONDS
    assert waits[1:] == sorted(waits[1:])
    assert world.tell(deployment(), EventType.DELETED, DEPLOYMENT) == [("one", DELETED_SECONDS)]
    world.tell(deployment(), EventType.ADDED, DEPLOYMENT)
    world.time += CALM_SECONDS + 1
    assert world.tell(deployment("x", 99), kind=DEPLOYMENT) == [("one", STATUS_SECONDS)]


def test_an_applied_work_that_is_deleted_wakes_its_work():
    world = World()
    world.objects.hold("one", [])
    document = {"metadata": {"name": "one"}}
    assert world.tell(document, EventType.MODIFIED, APPLIED_WORK) == []
    assert world.tell(document, EventType.DELETED, APPLIED_WORK) == [("one", DELETED_SECONDS)]
    assert world.tell({"metadata": {"name": "two"}}, EventType.DELETED, APPLIED_WORK) == []


async def breathe():
    for _ in range(30):
        await asyncio.sleep(0)


async def test_kinds_are_watched_as_long_as_a_work_holds_objects_of_them():
    world = World(None, CONFIG_MAP, DEPLOYMENT)
    task = asyncio.create_task(world.objects.run())
    await breathe()
    assert world.member.watched == [APPLIED_WORK]
    world.objects.hold("one", [config_map()])
    world.objects.hold("two", [config_map(), deployment()])
    await breathe()
    assert set(world.member.watched) == {APPLIED_WORK, CONFIG_MAP, DEPLOYMENT}
    assert dict(world.member.listed)["ConfigMap"] == {"harbormaster.dev/nobody": "true"}
    assert ("one", CHANGED_SECONDS) in world.woken  # what happened before the watch was not seen
    world.objects.forget("two")
    await breathe()
    assert set(world.member.watched) == {APPLIED_WORK, CONFIG_MAP}
    task.cancel()
    await asyncio.wait([task])
    assert world.member.watched == []


async def test_a_kind_that_may_not_be_watched_is_left_alone():
    world = World(Member(DEPLOYMENT), CONFIG_MAP, DEPLOYMENT)
    world.objects.hold("one", [config_map(), deployment()])
    task = asyncio.create_task(world.objects.run())
    await breathe()
    assert set(world.member.watched) == {APPLIED_WORK, CONFIG_MAP}
    assert [kind for kind, _ in world.member.listed].count("Deployment") == 1
    task.cancel()
    await asyncio.wait([task])


async def test_a_kind_that_is_defined_later_is_found():
    world = World(None)
    world.served.coming = {CONFIG_MAP.group_kind: CONFIG_MAP}
    world.objects.hold("one", [config_map()])
    task = asyncio.create_task(world.objects.run())
    await breathe()
    assert world.served.refreshed == 1
    assert set(world.member.watched) == {APPLIED_WORK, CONFIG_MAP}
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(
    ("coming", "watched"),
    [
        pytest.param({OLD.group_kind: NEW}, {APPLIED_WORK, NEW}, id="another-version-is-watched"),
        pytest.param({OLD.group_kind: None}, {APPLIED_WORK}, id="no-version-is-left"),
    ],
)
async def test_a_version_that_the_member_stops_serving_is_not_watched_for_ever(coming, watched):
    world = World(None, OLD)
    world.member.unserved = {"v2"}
    world.served.coming = coming
    world.objects.hold("one", [{"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "a"}}])
    task = asyncio.create_task(world.objects.run())
    await breathe()
    assert set(world.member.watched) == watched
    task.cancel()
    await asyncio.wait([task])


async def test_a_kind_that_discovery_still_lists_keeps_its_watch_and_the_member_is_not_asked_again_and_again():
    world = World(None, OLD)
    world.member.unserved = {"v2"}
    world.objects.hold("one", [{"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "a"}}])
    task = asyncio.create_task(world.objects.run())
    await breathe()
    assert (world.member.listed.count(("Boat", {"harbormaster.dev/nobody": "true"})), world.served.refreshed) == (1, 1)
    task.cancel()
    await asyncio.wait([task])
