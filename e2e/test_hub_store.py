"""The hub store against a real API server: pages, watches, conflicts, and what the API server says of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from e2e.controlplane.cluster import Cluster
from scorer.api.kinds import KINDS, MEMBER_CLUSTER, Kind
from webhook.kube import store as hub_store
from webhook.kube.client import ApiServer, ConfigurationError, ForbiddenError, UnavailableError
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    EventType,
    ExpiredError,
    InvalidObjectError,
    Key,
    NotFoundError,
)
from webhook.kube.store import HubStore

CONFIG_MAP = KINDS["", "ConfigMap"]
NAMESPACE = "default"


def config_map(name: str, **data: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"of": "store"}},
        "data": data,
    }


@pytest.fixture
async def store(bare_hub: Cluster) -> AsyncIterator[HubStore]:
    async with await ApiServer.connect(bare_hub.kubeconfig) as server:
        found = HubStore(server)
        yield found
        for item in (await found.list(CONFIG_MAP, NAMESPACE, {"of": "store"})).items:
            await found.delete(CONFIG_MAP, Key(item["metadata"]["name"], NAMESPACE))


async def test_what_is_written_is_read(store):
    made = await store.create(CONFIG_MAP, config_map("a", x="1"))
    assert "managedFields" not in made["metadata"]
    assert (await store.get(CONFIG_MAP, Key("a", NAMESPACE)))["data"] == {"x": "1"}
    with pytest.raises(AlreadyExistsError):
        await store.create(CONFIG_MAP, config_map("a"))
    changed = await store.replace(CONFIG_MAP, {**made, "data": {"x": "2"}})
    with pytest.raises(ConflictError):
        await store.replace(CONFIG_MAP, {**made, "data": {"x": "3"}})
    with pytest.raises(ConflictError):
        await store.delete(CONFIG_MAP, Key("a", NAMESPACE), uid="00000000-0000-4000-8000-000000000000")
    await store.delete(CONFIG_MAP, Key("a", NAMESPACE), uid=changed["metadata"]["uid"])
    with pytest.raises(NotFoundError):
        await store.get(CONFIG_MAP, Key("a", NAMESPACE))


async def test_status_is_written_apart(store):
    document = {
        "apiVersion": MEMBER_CLUSTER.api_version,
        "kind": "MemberCluster",
        "metadata": {"name": "of-the-store"},
        "spec": {"identity": {"kind": "User", "name": "agent"}},
    }
    made = await store.create(MEMBER_CLUSTER, document)
    try:
        status = {"resourceUsage": {"capacity": {"cpu": "4"}}}
        assert (await store.replace_status(MEMBER_CLUSTER, {**made, "status": status}))["status"] == status
        with pytest.raises(InvalidObjectError):
            await store.create(MEMBER_CLUSTER, {**document, "metadata": {"name": "Not A Name"}})
    finally:
        await store.delete(MEMBER_CLUSTER, Key("of-the-store"))


async def test_long_lists_come_in_pages_and_whole(store, monkeypatch):
    monkeypatch.setattr(hub_store, "PAGE", 3)
    for number in range(8):
        await store.create(CONFIG_MAP, config_map(f"p{number}"))
    listing = await store.list(CONFIG_MAP, NAMESPACE, {"of": "store"})
    assert [item["metadata"]["name"] for item in listing.items] == [f"p{number}" for number in range(8)]
    assert {(item["apiVersion"], item["kind"]) for item in listing.items} == {("v1", "ConfigMap")}


async def test_a_watch_tells_every_change_in_order_and_outlives_its_requests(store, monkeypatch):
    monkeypatch.setattr(hub_store, "WATCH_SECONDS", (1, 1))
    since = (await store.list(CONFIG_MAP)).resource_version
    events = store.watch(CONFIG_MAP, since)
    made = await store.create(CONFIG_MAP, config_map("w"))
    seen = [await mine(events)]
    await asyncio.sleep(1.5)  # the request that began the watch has ended
    await store.replace(CONFIG_MAP, {**made, "data": {"x": "2"}})
    seen.append(await mine(events))
    await store.delete(CONFIG_MAP, Key("w", NAMESPACE))
    seen.append(await mine(events))
    assert seen == [EventType.ADDED, EventType.MODIFIED, EventType.DELETED]
    await events.aclose()


async def mine(events) -> EventType:
    async with asyncio.timeout(20):
        async for event in events:
            if event.document["metadata"].get("labels", {}).get("of") == "store":
                return event.type
    raise AssertionError("the watch has ended")


async def test_a_version_too_old_asks_for_a_new_list(store, bare_hub):
    """From before our kinds were defined, and compacted away since: a watch cannot begin there."""
    latest = (await store.list(MEMBER_CLUSTER)).resource_version
    bare_hub.etcd.compact(int(latest))
    events = store.watch(MEMBER_CLUSTER, "1")
    async with asyncio.timeout(20):
        with pytest.raises(ExpiredError):
            await anext(events)


async def test_kinds_that_are_not_there_and_places_that_are_closed(store, bare_hub):
    with pytest.raises(NotFoundError):
        await store.list(Kind("example.com", ("v1",), "Toy", "toys", namespaced=True))
    async with await ApiServer.connect(bare_hub.kubeconfigs["bob"]) as server:
        with pytest.raises(ForbiddenError, match="bob"):
            await HubStore(server).list(KINDS["", "Secret"])


async def test_a_server_that_does_not_answer_is_said_so(bare_hub, tmp_path):
    text = bare_hub.kubeconfig.read_text(encoding="utf-8").replace(str(bare_hub.port), "1")
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(text, encoding="utf-8")
    async with await ApiServer.connect(nowhere) as server:
        with pytest.raises(UnavailableError, match=r"https://127\.0\.0\.1:1 does not answer GET"):
            await HubStore(server).list(CONFIG_MAP)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="missing"),
        pytest.param("", id="empty"),
        pytest.param("{", id="no-yaml"),
        pytest.param("[]", id="a-list"),
        pytest.param('{"apiVersion":"v1","kind":"Config","clusters":[],"contexts":[],"users":[]}', id="no-context"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path, content):
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=f"kubeconfig {path}: "), contextlib.suppress(StopIteration):
        await ApiServer.connect(path)
