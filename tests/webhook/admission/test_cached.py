"""The context out of a cache: what is known, and what is not."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from scorer.api import kinds
from scorer.api.kinds import KINDS
from scorer.api.unstructured.documents import SELECTED_OBJECTS, selection_key
from tests.builders.binding import make_binding
from tests.builders.placement import fixed, make_placement
from tests.builders.worker import make_pool_of, make_worker
from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.validation.live_objects import JANE, NOW, SHOP, make_eviction, make_member
from tests.webhook.validation.upgrade_objects import make_run, make_stage, make_strategy
from webhook.admission.cached import ADMISSION_KINDS, CachedContext
from webhook.admission.judge import judge
from webhook.embedded.simulation.annotations import status_in_annotation
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import ForbiddenError, Key
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import UnknownStateError

CLUSTER_ROLE = KINDS["rbac.authorization.k8s.io", "ClusterRole"]
WISH = make_placement(policy=fixed("bravelion", "typo"))
UNKNOWN = 'spec.policy.clusterNames[1]: there is no member cluster "typo" yet'


@pytest.fixture
def store():
    opened = EmbeddedStore.open(None)
    yield opened
    opened.close()


@asynccontextmanager
async def following(cache):
    task = asyncio.create_task(cache.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await cache.wait_synced()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def make_context(cache, **options):
    return CachedContext(cache, options.pop("settings", AdmissionSettings()), lambda: NOW, **options)


async def fill(store, *documents):
    for document in documents:
        kind = KINDS[document["apiVersion"].rpartition("/")[0], document["kind"]]
        await store.create(kind, status_in_annotation(document))


async def test_nothing_is_said_before_the_cache_has_been_filled(store):
    await fill(store, make_member("bravelion"))
    cache = Cache(store)
    context = make_context(cache)
    assert judge("CREATE", WISH, None, context().with_user(JANE)).warnings == ()
    async with following(cache):
        assert judge("CREATE", WISH, None, context().with_user(JANE)).warnings[0] == UNKNOWN


async def test_a_kind_that_is_not_watched_is_not_known_and_not_watched_for_that(store):
    cache = Cache(store)
    context = make_context(cache)
    async with following(cache):
        with pytest.raises(UnknownStateError):
            context().hub.list(CLUSTER_ROLE)
        with pytest.raises(UnknownStateError):
            context().hub.get(CLUSTER_ROLE, "viewer")
        assert not cache.watches(CLUSTER_ROLE)


async def test_a_selectable_kind_is_known(store):
    await fill(store, {"apiVersion": CLUSTER_ROLE.api_version, "kind": "ClusterRole", "metadata": {"name": "viewer"}})
    cache = Cache(store)
    context = make_context(cache, selectable=[CLUSTER_ROLE])
    async with following(cache):
        assert context().hub.get(CLUSTER_ROLE, "viewer") is not None
        assert [document["metadata"]["name"] for document in context().hub.list(CLUSTER_ROLE)] == ["viewer"]


async def test_objects_are_found_by_namespace_and_by_label(store):
    inside, outside = (make_binding("shop", "bravelion", namespace=name) for name in ("dock", "quay"))
    await fill(store, *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in ("dock", "quay")))
    await fill(store, inside, outside, make_binding("shop", "bravelion"))
    cache = Cache(store)
    context = make_context(cache)
    async with following(cache):
        hub = context().hub
        assert len(hub.list(kinds.NAMESPACED_BINDING)) == 2
        assert len(hub.list(kinds.NAMESPACED_BINDING, "dock")) == 1
        parent = "kubernetes-fleet.io/parent-CRP"
        assert len(hub.labelled(kinds.NAMESPACED_BINDING, parent, "shop", "dock")) == 1
        assert len(hub.labelled(kinds.BINDING, parent, "shop")) == 1
        assert not hub.labelled(kinds.BINDING, parent, "dock")


async def test_placements_are_found_by_what_they_select(store):
    """Also after the selectors have changed."""
    role = {"group": CLUSTER_ROLE.group, "version": "v1", "kind": CLUSTER_ROLE.kind}
    cache = Cache(store)
    hub = make_context(cache)().hub

    def found(name):
        key = selection_key(CLUSTER_ROLE.group, CLUSTER_ROLE.kind, name)
        return [each["metadata"]["name"] for each in hub.labelled(kinds.PLACEMENT, SELECTED_OBJECTS, key)]

    async with following(cache):
        await fill(store, make_placement("a", selectors=[{**role, "name": "x"}]), make_placement("b", selectors=[role]))
        await until(lambda: (found("x"), found("")) == (["a"], ["b"]))
        stored = await store.get(kinds.PLACEMENT, Key("a"))
        selectors = [{**role, "name": "y"}]
        await store.replace(kinds.PLACEMENT, {**stored, "spec": {**stored["spec"], "resourceSelectors": selectors}})
        await until(lambda: (found("x"), found("y")) == ([], ["a"]))
        await store.delete(kinds.PLACEMENT, Key("a"))
        await until(lambda: found("y") == [])


async def test_what_reviews_ask_for_leaves_nothing_behind_in_the_fleet(store):
    """Else made-up label keys would fill the memory."""
    await fill(store, make_member("bravelion", env="prod"))
    cache = Cache(store)
    context = make_context(cache)
    async with following(cache):
        cache.fleet.label("env")
        fleet = context().hub.fleet
        assert fleet.label("env") is cache.fleet.label("env")
        assert fleet.label("env").values == ("prod",)
        fleet.quantity("made-up")
        assert cache.fleet.column_count == 1
        assert cache.fleet.eligibility is cache.fleet.eligibility
        assert context().hub.fleet is fleet
        for number in range(300):
            context().hub.fleet.label(f"made-up-{number}")
        assert context().hub.fleet.column_count < 300


async def test_custom_kinds_are_learned_when_they_come(store):
    cache = Cache(store)
    context = make_context(cache)
    async with following(cache):
        assert context().kinds.find("toys.example.org", "Widget") is None
        assert context().kinds is context().kinds
        names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        spec = {"group": "toys.example.org", "names": names, "scope": "Cluster", "versions": [version]}
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.toys.example.org"},
            "spec": spec,
        }
        await fill(store, definition)
        await until(lambda: context().kinds.find("toys.example.org", "Widget") is not None)


async def test_a_stale_cache_warns_and_never_refuses(store):
    """An object that has not come yet is missed, said so, and nothing more."""
    cache = Cache(store)
    context = make_context(cache)
    async with following(cache):
        judgement = judge("CREATE", make_eviction(), None, context().with_user(JANE))
        assert judgement.allowed
        assert judgement.warnings == (
            'spec.placementName: there is no ClusterResourcePlacement "shop": the eviction becomes invalid',
        )


async def test_a_check_that_breaks_is_counted_and_logged(store, caplog):
    await fill(store, make_member("bravelion"), SHOP)
    cache = Cache(store)
    context = make_context(cache)
    async with following(cache):
        broken = replace(context(), hub=None).with_user(JANE)
        assert judge("CREATE", WISH, None, broken).allowed
    assert context.failures["warn_about_unknown_clusters"] == 1
    assert len([record for record in caplog.records if record.message == "live check failed"]) == sum(
        context.failures.values()
    )


async def test_the_clock_is_the_one_handed_in(store):
    await fill(store, make_member("bravelion"))
    cache = Cache(store)
    times = iter(range(1000))
    context = make_context(cache, clock=lambda: float(next(times)))
    async with following(cache):
        assert judge("CREATE", WISH, None, context().with_user(JANE)).warnings == ()


async def test_all_kinds_that_rules_and_checks_ask_for_are_watched(store):
    cache = Cache(store)
    context = make_context(cache)
    async with following(cache):
        assert all(cache.of_kind(kind).synced.is_set() for kind in ADMISSION_KINDS)
        assert context().existing(kinds.PLACEMENT) == []
        await fill(store, SHOP, make_placement())
        await until(lambda: cache.get(kinds.PLACEMENT, "shop") is not None)
        assert len(context().existing(kinds.PLACEMENT)) == 1
        assert (await store.get(kinds.PLACEMENT, Key("shop")))["metadata"]["name"] == "shop"


@pytest.mark.parametrize("watched", [False, True])
async def test_claims_are_read_only_if_the_gate_watches_them(store, watched):
    pool, (_, claim) = make_pool_of(), make_worker("a")
    await fill(store, claim)
    cache = Cache(store)
    context = make_context(cache, clock=lambda: 0.0)
    if watched:
        cache.watch_if_allowed((kinds.NODE_CLAIM,))
    async with following(cache):
        changed = make_pool_of(template={"labels": {"team": "new"}})
        warnings = judge("UPDATE", changed, pool, context().with_user(JANE)).warnings
        assert (bool(warnings), cache.watches(kinds.NODE_CLAIM)) == (watched, watched)


class WithoutUpgrades:
    """A store whose role for us is that of an older release: upgrades may not be read."""

    def __init__(self, store):
        self._store = store

    async def list(self, kind, namespace=None, labels=None):
        if kind.group == kinds.UPGRADE_GROUP:
            raise ForbiddenError(f"{kind.resource} is forbidden")
        return await self._store.list(kind, namespace, labels)

    def watch(self, kind, since, namespace=None):
        return self._store.watch(kind, since, namespace)


RINGS = make_strategy(make_stage(groups=[{"name": "canary"}]))
FOLLOWER = make_run(strategyRef={"name": "rings"})


async def test_what_upgrades_would_find_is_known(store):
    await fill(store, make_member("bravelion"), RINGS)
    member = await store.get(kinds.MEMBER_CLUSTER, Key("bravelion"))
    joined = {"conditions": [{"type": "Joined", "status": "True"}]}
    await store.replace_status(kinds.MEMBER_CLUSTER, {**member, "status": joined})
    cache = Cache(store)
    context = make_context(cache)
    async with following(cache):
        said = judge("CREATE", FOLLOWER, None, context().with_user(JANE)).warnings
        assert said == ('spec.strategyRef.name: there is no ClusterUpgradeStrategy "rings" yet',)
        said = judge("CREATE", RINGS, None, context().with_user(JANE)).warnings
        assert said == ('spec.stages[0].groups[0]: no member has the group label "canary"',)


async def test_a_role_that_does_not_know_upgrades_keeps_nothing_from_starting(store):
    cache = Cache(WithoutUpgrades(store))
    context = make_context(cache)
    task = asyncio.create_task(cache.run())
    try:
        await until(lambda: cache.synced)
        assert judge("CREATE", FOLLOWER, None, context().with_user(JANE)).warnings == ()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
