"""The cache over a real store: what it knows, and whom it tells; and the fleet that it makes of its members."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from scorer.api.kinds import BINDING, MEMBER_CLUSTER, NAMESPACE, NODE_CLAIM, PLACEMENT, WORK
from scorer.api.names import PARENT_BINDING
from scorer.eligibility import EligibilityLimits
from tests.scorer.builders import MINUTE, cluster_document
from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.kube.cache.diary import Diary
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.indexer import TARGET_CLUSTER
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import ExpiredError, ForbiddenError, Key, NotFoundError, NotServedError, StoreError


@pytest.fixture
def store():
    opened = EmbeddedStore.open(None)
    yield opened
    opened.close()


def make(kind, name, namespace="", **metadata):
    named = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": named | metadata, "spec": {}}


@asynccontextmanager
async def running(cache, *kinds):
    cache.require(kinds)
    task = asyncio.create_task(cache.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await cache.wait_synced()
    try:
        yield cache
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def names(documents):
    return [document["metadata"]["name"] for document in documents]


async def test_what_is_there_at_the_start_is_known_when_synced(store):
    await store.create(PLACEMENT, make(PLACEMENT, "b"))
    await store.create(PLACEMENT, make(PLACEMENT, "a"))
    cache = Cache(store)
    cache.require([PLACEMENT, BINDING])
    assert not cache.synced
    async with running(cache):
        assert cache.synced
        assert names(cache.list(PLACEMENT)) == ["a", "b"]
        assert cache.list(BINDING) == []
        assert cache.get(PLACEMENT, "a")["metadata"]["name"] == "a"
        assert cache.get(PLACEMENT, "c") is None


async def test_changes_arrive(store):
    async with running(Cache(store), PLACEMENT) as cache:
        diary = Diary()
        cache.subscribe(PLACEMENT, diary)
        made = await store.create(PLACEMENT, make(PLACEMENT, "a"))
        await until(lambda: cache.get(PLACEMENT, "a"))
        changed = await store.replace(PLACEMENT, {**made, "spec": {"revisionHistoryLimit": 3}})
        await until(lambda: cache.get(PLACEMENT, "a") == changed)
        await store.delete(PLACEMENT, Key("a"))
        await until(lambda: cache.get(PLACEMENT, "a") is None)
        first, second = (document["metadata"]["resourceVersion"] for document in (made, changed))
        assert diary.changes == [(None, first), (first, second), (second, None)]
        assert cache.revision == 3


async def test_subscribers_are_told_of_what_is_there_already(store):
    made = await store.create(PLACEMENT, make(PLACEMENT, "a"))
    async with running(Cache(store), PLACEMENT) as cache:
        diary = Diary()
        cache.subscribe(PLACEMENT, diary)
        assert diary.changes == [(None, made["metadata"]["resourceVersion"])]


async def test_a_kind_asked_for_later_is_watched_from_then_on(store):
    await store.create(PLACEMENT, make(PLACEMENT, "a"))
    async with running(Cache(store), BINDING) as cache:
        assert cache.get(PLACEMENT, "a") is None
        async with asyncio.timeout(PATIENCE_SECONDS):
            await cache.wait_synced([PLACEMENT])
        assert cache.get(PLACEMENT, "a")


async def test_namespaces_and_labels(store):
    for namespace in ("fleet-member-b", "fleet-member-a"):
        await store.create(NAMESPACE, make(NAMESPACE, namespace))
        for name, parent in [("w2", "x"), ("w1", "x"), ("w3", "y")]:
            await store.create(WORK, make(WORK, name, namespace, labels={PARENT_BINDING: parent}))
    async with running(Cache(store), WORK) as cache:
        every = [(found["metadata"]["namespace"][-1], found["metadata"]["name"]) for found in cache.list(WORK)]
        assert every == [(space, name) for space in "ab" for name in ("w1", "w2", "w3")]
        assert names(cache.list(WORK, "fleet-member-b")) == ["w1", "w2", "w3"]
        assert cache.list(WORK, "nowhere") == []
        found = cache.labelled(WORK, PARENT_BINDING, "x")
        assert [document["metadata"]["namespace"][-1] for document in found] == ["a", "a", "b", "b"]
        assert names(cache.labelled(WORK, PARENT_BINDING, "x", "fleet-member-a")) == ["w1", "w2"]
        assert cache.labelled(WORK, PARENT_BINDING, "nobody") == []
        assert cache.get(WORK, "w1", "fleet-member-a")
        assert cache.get(WORK, "w1") is None


class Interrupted:
    """A store whose watches end with an error when the test says so, and which counts the lists."""

    def __init__(self, store, error):
        self._store = store
        self._error = error
        self.lists = 0
        self.interrupt = asyncio.Event()

    async def list(self, kind, namespace=None, labels=None):
        self.lists += 1
        return await self._store.list(kind, namespace, labels)

    async def watch(self, kind, since):
        if self.lists > 1:
            async for event in self._store.watch(kind, since):
                yield event
        await self.interrupt.wait()
        raise self._error


@pytest.mark.parametrize("error", [ExpiredError("too old"), StoreError("connection lost")], ids=["expired", "lost"])
async def test_after_a_broken_watch_everything_is_listed_again(store, error):
    kept = await store.create(PLACEMENT, make(PLACEMENT, "kept"))
    gone = await store.create(PLACEMENT, make(PLACEMENT, "gone"))
    flaky = Interrupted(store, error)
    async with running(Cache(flaky), PLACEMENT) as cache:
        diary = Diary()
        cache.subscribe(PLACEMENT, diary)
        diary.changes.clear()
        await store.delete(PLACEMENT, Key("gone"))
        new = await store.create(PLACEMENT, make(PLACEMENT, "new"))
        flaky.interrupt.set()
        await until(lambda: cache.get(PLACEMENT, "new"))
        assert names(cache.list(PLACEMENT)) == ["kept", "new"]
        assert diary.changes == [
            (gone["metadata"]["resourceVersion"], None),
            (None, new["metadata"]["resourceVersion"]),
        ]
        await store.replace(PLACEMENT, {**kept, "spec": {"revisionHistoryLimit": 3}})
        await until(lambda: cache.get(PLACEMENT, "kept")["spec"])  # the watch goes on
        assert flaky.lists == 2


class Starting:
    """A hub that finds nothing of a kind until it has started, as an API server that is just coming up."""

    def __init__(self, store, *, defined):
        self._store = store
        self._defined = defined
        self.started = False

    async def list(self, kind, namespace=None, labels=None):
        if not self.started:
            raise NotFoundError("the server could not find the requested resource")
        return await self._store.list(kind, namespace, labels)

    async def get(self, kind, key):
        assert (kind.kind, key.name) == ("CustomResourceDefinition", f"{MEMBER_CLUSTER.plural}.{MEMBER_CLUSTER.group}")
        if not self._defined:
            raise NotFoundError("there is no such definition")
        return {}

    def watch(self, kind, since):
        return self._store.watch(kind, since)


async def assert_waited_for(hub):
    """A cache over *hub*, which has member a, knows nothing before it has started, and then everything."""
    cache = Cache(hub)
    cache.require([MEMBER_CLUSTER])
    task = asyncio.create_task(cache.run())
    try:
        for _ in range(50):
            await asyncio.sleep(0.001)
            assert not cache.synced
        hub.started = True
        await until(lambda: cache.synced)
        assert cache.fleet.names == ("a",)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_kind_that_is_defined_and_not_served_yet_is_waited_for(store, monkeypatch):
    """Else a replica that starts together with its API server would answer from an empty fleet."""
    monkeypatch.setattr("webhook.kube.cache.informer._RETRY_SECONDS", (0.001,))
    await join(store, "a")
    hub = Starting(store, defined=True)
    await assert_waited_for(hub)


async def test_of_a_kind_that_nobody_defined_there_is_nothing(store):
    async with running(Cache(Starting(store, defined=False)), MEMBER_CLUSTER) as cache:
        assert cache.synced
        assert len(cache.fleet) == 0


class Relisting:
    """A store whose every list comes in two halves: the caller has to wait for the second."""

    def __init__(self, store):
        self._store = store
        self.lists = 0

    async def list(self, kind, namespace=None, labels=None):
        self.lists += 1
        listing = await self._store.list(kind, namespace, labels)
        await asyncio.sleep(0.005)
        return listing

    async def watch(self, kind, since):
        await asyncio.sleep(0.002)
        raise ExpiredError("too old")
        yield


async def test_a_cache_that_lists_again_always_knows_the_whole_fleet(store):
    for number in range(20):
        await join(store, f"m{number:02}")
    hub = Relisting(store)
    async with running(Cache(hub), MEMBER_CLUSTER) as cache:
        revision = cache.fleet.revision
        async with asyncio.timeout(PATIENCE_SECONDS):
            while hub.lists < 30:
                assert len(cache.fleet) == 20
                assert cache.synced
                await asyncio.sleep(0)
        assert cache.fleet.revision == revision  # nothing had changed, so nothing was told
        (freshness,) = cache.freshness()
        assert freshness.relists >= 28


async def test_what_cannot_be_taken_in_ends_no_other_watch(store, monkeypatch):
    monkeypatch.setattr("webhook.kube.cache.informer._RETRY_SECONDS", (0.001,))
    flaky = Interrupted(store, KeyError("metadata"))
    async with running(Cache(flaky), PLACEMENT) as cache:
        flaky.interrupt.set()
        await until(lambda: flaky.lists == 2)
        await store.create(PLACEMENT, make(PLACEMENT, "a"))
        await until(lambda: cache.get(PLACEMENT, "a"))


class Overtaken(Relisting):
    """A store whose first list after the cache is filled comes after those asked for later."""

    def __init__(self, store):
        super().__init__(store)
        self.hold = asyncio.Event()
        self.held = asyncio.Event()

    async def list(self, kind, namespace=None, labels=None):
        listing = await self._store.list(kind, namespace, labels)
        self.lists += 1
        if self.lists == 2:
            self.held.set()
            await self.hold.wait()
        return listing

    def watch(self, kind, since):
        return self._store.watch(kind, since)


async def test_catching_up_beside_a_new_list_takes_nothing_away(store):
    """Whoever takes over lists what was written, while the watches of an API server that comes back list as well."""
    hub = Overtaken(store)
    async with running(Cache(hub), PLACEMENT) as cache:
        late = asyncio.create_task(cache.catch_up([PLACEMENT]))
        await hub.held.wait()
        await store.create(PLACEMENT, make(PLACEMENT, "a"))
        await cache.catch_up([PLACEMENT])
        hub.hold.set()
        await late
        assert names(cache.list(PLACEMENT)) == ["a"]


async def test_catching_up_does_not_wait_for_a_kind_that_nobody_defined(store):
    async with running(Cache(Starting(store, defined=False)), MEMBER_CLUSTER) as cache:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await cache.catch_up([MEMBER_CLUSTER])


class Behind(Starting):
    """A hub behind something that answers in its place as long as it does not run."""

    async def get(self, kind, key):
        if not self.started:
            raise NotServedError("default backend - 404")
        return await super().get(kind, key)


async def test_what_answers_in_place_of_a_hub_knows_nothing_of_its_objects(store, monkeypatch):
    monkeypatch.setattr("webhook.kube.cache.informer._RETRY_SECONDS", (0.001,))
    await join(store, "a")
    hub = Behind(store, defined=False)
    await assert_waited_for(hub)


class Refusing(Interrupted):
    """A hub that starts again and, for a moment, does not know yet what we may read."""

    async def list(self, kind, namespace=None, labels=None):
        if self.lists == 1:
            self.lists += 1
            raise ForbiddenError("RBAC: clusterrole not found")
        return await super().list(kind, namespace, labels)


async def test_a_passing_refusal_of_what_was_listed_before_is_no_refusal(store, monkeypatch):
    monkeypatch.setattr("webhook.kube.cache.informer._RETRY_SECONDS", (0.01,))
    hub = Refusing(store, ExpiredError("too old"))
    async with running(Cache(hub), PLACEMENT) as cache:
        hub.interrupt.set()
        await until(lambda: hub.lists >= 3 or cache.refusal(PLACEMENT))
        assert cache.refusal(PLACEMENT) == ""


async def test_what_is_known_already_is_trimmed_too(store):
    await store.create(PLACEMENT, make(PLACEMENT, "a"))
    async with running(Cache(store), PLACEMENT) as cache:
        cache.trim(PLACEMENT, lambda document: {"metadata": document["metadata"]})
        assert cache.get(PLACEMENT, "a").keys() == {"metadata"}


async def test_how_fresh_the_cache_is(store):
    async with running(Cache(store), PLACEMENT) as cache:
        made = await store.create(PLACEMENT, make(PLACEMENT, "a"))
        await store.replace(PLACEMENT, {**made, "spec": {"revisionHistoryLimit": 3}})
        await until(lambda: (cache.get(PLACEMENT, "a") or {}).get("spec"))
        (freshness,) = cache.freshness()
        assert freshness[:4] == (PLACEMENT.resource, True, 2, 0)
        assert 0 <= freshness.age_seconds < 60


async def test_once_filled_it_stays_filled_while_another_kind_is_still_to_come(store):
    async with running(Cache(store), PLACEMENT) as cache:
        assert cache.synced
        cache.require([BINDING])
        assert not cache.of_kind(BINDING).synced.is_set()
        assert cache.synced


async def test_falling_behind_the_stores_memory_ends_in_a_new_list():
    store = EmbeddedStore.open(None, retention=2)
    try:
        async with running(Cache(store), PLACEMENT, BINDING) as cache:
            await asyncio.gather(*(store.create(PLACEMENT, make(PLACEMENT, f"p{number}")) for number in range(40)))
            await store.delete(PLACEMENT, Key("p7"))
            await until(lambda: len(cache.list(PLACEMENT)) == 39)
            assert cache.get(PLACEMENT, "p7") is None
    finally:
        store.close()


# The fleet


def member(name, **facts):
    return cluster_document(name, **facts)


async def join(store, name, **facts):
    document = member(name, **facts)
    made = await store.create(MEMBER_CLUSTER, document)
    return await store.replace_status(MEMBER_CLUSTER, {**made, "status": document["status"]})


async def test_the_fleet_follows_the_member_clusters(store):
    await join(store, "b", labels={"region": "n"})
    async with running(Cache(store), MEMBER_CLUSTER) as cache:
        first = cache.fleet
        assert first.names == ("b",)
        assert cache.fleet is first
        made = await join(store, "a")
        await until(lambda: cache.fleet.names == ("a", "b"))
        await store.replace(MEMBER_CLUSTER, {**made, "metadata": {**made["metadata"], "labels": {"region": "s"}}})
        await until(lambda: cache.fleet.label("region").value(0) == "s")
        assert cache.fleet.label("region").value(1) == "n"
        await store.delete(MEMBER_CLUSTER, Key("a"))
        await until(lambda: cache.fleet.names == ("b",))
        assert first.names == ("b",)
        assert cache.fleet.revision == first.revision  # that of the same members at the same versions


async def test_the_fleet_takes_reports_in_while_nobody_asks(store):
    """Else whoever asks first after a quiet minute would wait for all of them."""
    async with running(Cache(store), MEMBER_CLUSTER) as cache:
        await join(store, "a")
        await until(lambda: cache._fleet.names == ("a",))


async def test_the_fleet_is_judged_by_the_limits_given(store):
    limits = EligibilityLimits(heartbeat=MINUTE)
    await join(store, "a")
    async with running(Cache(store, limits), MEMBER_CLUSTER) as cache:
        assert cache.fleet.limits == limits


async def test_a_member_cluster_that_cannot_be_read_spoils_nothing_else(store):
    """One bad object must not freeze the fleet: others still come, and the last good state of it stays."""
    bad = await join(store, "bad", labels={"region": "n"})
    async with running(Cache(store), MEMBER_CLUSTER) as cache:
        assert cache.fleet.names == ("bad",)
        status = {"agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": "yesterday"}]}
        await store.replace_status(MEMBER_CLUSTER, {**bad, "status": status})
        await store.create(MEMBER_CLUSTER, {**member("worse"), "spec": {"identity": 7}})
        await join(store, "good")
        await until(lambda: cache.get(MEMBER_CLUSTER, "good") and cache.get(MEMBER_CLUSTER, "good").get("status"))
        assert cache.fleet.names == ("bad", "good")
        assert cache.fleet.label("region").value(0) == "n"


class WithoutClaims:
    """A store that lets nobody read node claims."""

    def __init__(self, store):
        self._store = store

    async def list(self, kind, namespace=None, labels=None):
        if kind == NODE_CLAIM:
            raise ForbiddenError("nodeclaims.karpenter.sh is forbidden")
        return await self._store.list(kind, namespace, labels)

    def watch(self, kind, since, namespace=None):
        return self._store.watch(kind, since, namespace)


async def test_what_one_requires_is_not_optional_because_another_wants_it(store):
    """Whoever comes first."""
    early, late = Cache(store), Cache(store)
    early.require([NODE_CLAIM])
    early.watch_if_allowed([NODE_CLAIM])
    late.watch_if_allowed([NODE_CLAIM])
    late.require([NODE_CLAIM])
    assert not early.of_kind(NODE_CLAIM).optional
    assert not late.of_kind(NODE_CLAIM).optional


@pytest.mark.parametrize("optional", [True, False])
async def test_only_what_is_optional_may_be_refused(store, optional):
    """Roles that are older than the program must not keep it from doing what they are enough for."""
    cache = Cache(WithoutClaims(store))
    cache.require([PLACEMENT])
    (cache.watch_if_allowed if optional else cache.require)([NODE_CLAIM])
    task = asyncio.create_task(cache.run())
    try:
        assert not cache.synced
        await until(lambda: cache.refusal(NODE_CLAIM) and cache.has_answered(PLACEMENT))
        assert cache.synced is optional
    finally:
        task.cancel()


async def test_bindings_are_found_by_their_cluster(store):
    async def bind(name, cluster):
        return await store.create(BINDING, {**make(BINDING, name), "spec": {"targetCluster": cluster}})

    async with running(Cache(store), BINDING) as cache:
        moved = await bind("a", "east")
        await bind("b", "west")
        await until(lambda: len(cache.list(BINDING)) == 2)
        assert names(cache.labelled(BINDING, TARGET_CLUSTER, "east")) == ["a"]
        await store.replace(BINDING, {**moved, "spec": {"targetCluster": "west"}})
        await until(lambda: names(cache.labelled(BINDING, TARGET_CLUSTER, "west")) == ["a", "b"])
        assert cache.labelled(BINDING, TARGET_CLUSTER, "east") == []
