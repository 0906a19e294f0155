"""The hub store on a real API server: the contract of all stores, and what is its own beyond it."""

import asyncio
import contextlib
import secrets
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.process import PATIENCE
from scorer.api.kinds import BINDING, KINDS, MEMBER_CLUSTER, PLACEMENT, WORK, Kind
from tests.contracts import store_contract as contract
from tests.contracts.store_contract import *  # noqa: F403 - every class of the contract, also the next one
from webhook.kube.cache.informer import Cache
from webhook.kube.client import hub_store
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.login.kubeconfig import ConfigurationError
from webhook.kube.ports import (
    ConflictError,
    ForbiddenError,
    InvalidObjectError,
    Key,
    NotFoundError,
    StoreError,
    UnavailableError,
    key_of,
)

CONFIG_MAP = KINDS["", "ConfigMap"]
ROLE = KINDS["rbac.authorization.k8s.io", "Role"]
LEASE = KINDS["coordination.k8s.io", "Lease"]


@pytest.fixture(scope="module")
def cluster(own_hub: Cluster) -> Cluster:
    """A hub that asks nobody, with those who collect dependents and empty namespaces."""
    return own_hub


@pytest.fixture
async def store(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HubStore]:
    """The store, with pages so short that every longer list has several."""
    monkeypatch.setattr(hub_store, "PAGE", 4)
    async with await ApiServer.connect(cluster.kubeconfig) as server:
        found = HubStore(server)
        yield found
        for kind in (PLACEMENT, BINDING, MEMBER_CLUSTER, WORK):
            await contract.eventually(lambda kind=kind: emptied(found, kind))


@pytest.fixture
async def forgotten(store: HubStore, cluster: Cluster) -> str:
    """From before our kinds were defined, and compacted away since."""
    cluster.etcd.compact(int((await store.list(MEMBER_CLUSTER)).resource_version))
    return "1"


async def emptied(store: HubStore, kind: Kind) -> bool:
    """Delete the objects of a kind, whoever holds them; say whether none is left."""
    items = (await store.list(kind)).items
    for item in items:
        with contextlib.suppress(ConflictError, NotFoundError):
            if item["metadata"].get("finalizers"):
                await store.replace(kind, contract.altered(item, finalizers=None))
            await store.delete(kind, key_of(item))
    return not items or not (await store.list(kind)).items


class TestServersOwnWays:
    """Where an API server differs from the embedded store, as `Store` says."""

    async def test_a_free_name_is_one_object_and_no_way_out_of_its_place(self, store):
        """Names of roles are any segment of a path; what is none is never sent."""
        key = Key("system:Große Fähre?a=b#c+d", "default")
        metadata = {"name": key.name, "namespace": key.namespace}
        created = await store.create(
            ROLE, {"apiVersion": ROLE.api_version, "kind": ROLE.kind, "metadata": metadata, "rules": []}
        )
        assert await store.get(ROLE, key) == created
        await store.delete(ROLE, key, uid=created["metadata"]["uid"])
        with pytest.raises(NotFoundError):
            await store.get(ROLE, key)
        for name in ("../../../namespaces/kube-system/configmaps", "..", "a%2f..", ""):
            with pytest.raises(NotFoundError, match="name"):
                await store.get(ROLE, Key(name, "default"))
            with pytest.raises(InvalidObjectError, match="name"):
                await store.delete(ROLE, Key(name, "default"))

    async def test_defaults_are_filled_in_and_unknown_fields_left_out(self, store):
        given = contract.placement("payments")
        given["spec"] = {"resourceSelectors": given["spec"]["resourceSelectors"], "unheardOf": 1}
        stored = await store.create(PLACEMENT, given)
        assert stored["spec"]["revisionHistoryLimit"] == 10
        assert "unheardOf" not in stored["spec"]

    async def test_the_schema_is_checked(self, store):
        given = contract.placement("payments")
        await contract.assert_refused(store.create(PLACEMENT, {**given, "spec": {}}), InvalidObjectError, "spec")

    async def test_some_built_in_kinds_have_no_generation(self, store, space):
        stored = await store.create(CONFIG_MAP, contract.config_map("a", space))
        assert "generation" not in stored["metadata"]

    async def test_a_version_that_is_not_the_preferred_one_is_refused(self, store):
        given = contract.placement("payments") | {"apiVersion": "placement.kubernetes-fleet.io/v1"}
        await contract.assert_refused(store.create(PLACEMENT, given), StoreError, "does not match")

    async def test_some_built_in_kinds_are_made_anew_by_a_replace_without_uid(self, store, space):
        document = contract.make(ROLE, "reader", space) | {"rules": []}
        first = await store.create(ROLE, document)
        await store.delete(ROLE, key_of(first))
        await contract.assert_refused(store.replace(ROLE, first), ConflictError, "reader")
        again = await store.replace(ROLE, document)
        assert again["metadata"]["uid"] != first["metadata"]["uid"]

    async def test_some_built_in_kinds_are_written_over_a_version_only(self, store, space):
        document = contract.make(LEASE, "leader", space) | {"spec": {}}
        await store.create(LEASE, document)
        await contract.assert_refused(store.replace(LEASE, document), InvalidObjectError, "metadata.resourceVersion")

    async def test_a_watch_from_the_future_is_silent(self, store):
        events = store.watch(PLACEMENT, "999999999")
        waiting = asyncio.create_task(anext(events))
        await store.create(PLACEMENT, contract.placement("payments"))
        _, silent = await asyncio.wait([waiting], timeout=1)
        assert silent
        waiting.cancel()
        await asyncio.wait([waiting])

    @pytest.mark.parametrize("since", ["", "0"])
    async def test_a_watch_from_no_version_begins_with_what_is_there(self, store, since):
        await store.create(PLACEMENT, contract.placement("payments"))
        await contract.eventually(lambda: self.begins_with(store, since, "payments"))

    @staticmethod
    async def begins_with(store: HubStore, since: str, name: str) -> bool:
        """A watch from ``0`` begins with what the server's cache holds, which may be a little behind."""
        async with asyncio.timeout(PATIENCE), contract.watching(store, PLACEMENT, since) as watch:
            return await watch.seen(1) == [("ADDED", name)]

    @pytest.mark.parametrize("since", ["abc", "-1", "9" * 30])
    async def test_a_version_that_is_none_is_refused(self, store, since):
        await contract.assert_refused(anext(store.watch(PLACEMENT, since)), StoreError, "resourceVersion")

    async def test_the_last_write_returns_what_goes_at_the_version_before(self, store):
        await store.create(PLACEMENT, contract.placement("payments", finalizers=["a/b"]))
        await store.delete(PLACEMENT, Key("payments"))
        held = await store.get(PLACEMENT, Key("payments"))
        gone = await store.replace(PLACEMENT, contract.altered(held, finalizers=None))
        assert contract.version(gone) == contract.version(held)


async def test_a_watch_outlives_its_requests(store, space, monkeypatch):
    monkeypatch.setattr(hub_store, "WATCH_SECONDS", (1, 1))
    since = (await store.list(CONFIG_MAP)).resource_version
    async with contract.watching(store, CONFIG_MAP, since, space) as watch:
        made = await store.create(CONFIG_MAP, contract.config_map("w", space))
        assert await watch.seen(1) == [("ADDED", "w")]
        await asyncio.sleep(1.5)  # the request that began the watch has ended
        await store.replace(CONFIG_MAP, {**made, "data": {"x": "2"}})
        assert await watch.seen(1) == [("MODIFIED", "w")]
        await store.delete(CONFIG_MAP, Key("w", space))
        assert await watch.seen(1) == [("DELETED", "w")]


async def test_the_cache_keeps_one_version_of_large_content(store, space):
    """A ConfigMap of 300 KB that changes again and again, in a cache that shares equal parts of objects."""
    cache, size, versions = Cache(store), 300_000, 20
    shelf = cache.of_kind(CONFIG_MAP)
    stored = await store.create(CONFIG_MAP, contract.config_map("page", space))
    key = key_of(stored)

    async def is_known():
        return shelf.objects.get(key) == stored

    running = asyncio.create_task(cache.run())
    try:
        await cache.wait_synced()
        tracemalloc.start()
        for _ in range(versions):
            stored = await store.replace(CONFIG_MAP, {**stored, "data": {"page": secrets.token_hex(size // 2)}})
            await contract.eventually(is_known)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        running.cancel()
        await asyncio.wait([running])
        await store.delete(CONFIG_MAP, key)
    assert held < versions / 2 * size


async def test_kinds_that_are_not_there_and_places_that_are_closed(store, cluster):
    with pytest.raises(NotFoundError):
        await store.list(Kind("example.com", ("v1",), "Toy", "toys", namespaced=True))
    async with await ApiServer.connect(cluster.kubeconfigs["bob"]) as server:
        with pytest.raises(ForbiddenError, match="bob"):
            await HubStore(server).list(KINDS["", "Secret"])


async def test_a_server_that_does_not_answer_is_said_so(cluster, tmp_path):
    text = cluster.kubeconfig.read_text(encoding="utf-8").replace(str(cluster.port), "1")
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
