"""Deleting a placement whose objects are to stay: no Work goes unmarked, whenever the process dies."""

from contextlib import suppress

import pytest

from scorer.api.family import PlacementRef
from scorer.api.kinds import BINDING, MEMBER_CLUSTER, NAMESPACE, PLACEMENT, WORK
from scorer.api.names import (
    ABANDON,
    PARENT_BINDING,
    PARENT_PLACEMENT,
    SCHEDULER_BINDING_CLEANUP,
    SCHEDULER_CLEANUP,
    WORK_CLEANUP,
    member_namespace,
)
from scorer.api.unstructured.documents import annotation
from scorer.rollout.confirmation.policy import NO_CONFIRMATION
from scorer.rollout.removal.marks import is_marked_for_removal, with_removal_mark
from tests.webhook.controllers.by_hand import CrashError, Life, Served
from webhook.controllers.placements.scheduler import SchedulerController
from webhook.controllers.placements.work_generator import BindingRef, WorkGenerator, without_manifests
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import Key, RetryError, StoreError, key_of

REF = PlacementRef(PLACEMENT.kind, "p")
CLUSTERS = ("a", "b")
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rates", "namespace": "shop"}}


@pytest.fixture
async def store():
    store = EmbeddedStore.open(None)
    yield store
    store.close()


async def add(store, kind, metadata, spec):
    await store.create(
        kind,
        {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **({"spec": spec} if spec else {})},
    )


async def add_work(store, cluster, name):
    labels = {PARENT_PLACEMENT: "p", PARENT_BINDING: f"p-{cluster}"}
    metadata = {"name": name, "namespace": member_namespace(cluster), "labels": labels, "finalizers": [WORK_CLEANUP]}
    await add(store, WORK, metadata, {"workload": {"manifests": [MANIFEST]}})


async def add_world(store, policy="Abandon"):
    """Add a placement on two clusters, two Works on each."""
    strategy = {"deleteStrategy": {"propagationPolicy": policy}}
    spec = {"resourceSelectors": [], "policy": {"placementType": "PickAll"}, "strategy": strategy}
    await add(store, PLACEMENT, {"name": "p", "finalizers": [SCHEDULER_CLEANUP]}, spec)
    for cluster in CLUSTERS:
        await add(store, NAMESPACE, {"name": member_namespace(cluster)}, None)
        await add(store, MEMBER_CLUSTER, {"name": cluster}, {"identity": {"kind": "User", "name": cluster}})
        finalizers = [SCHEDULER_BINDING_CLEANUP, WORK_CLEANUP]
        metadata = {"name": f"p-{cluster}", "labels": {PARENT_PLACEMENT: "p"}, "finalizers": finalizers}
        await add(store, BINDING, metadata, {"state": "Bound", "targetCluster": cluster})
        for name in ("p-work", "p-0"):
            await add_work(store, cluster, name)


def make_scheduler(process):
    return SchedulerController(process.hub, lambda: None, lambda *_: None, None, process.keys, removal=NO_CONFIRMATION)


async def clean_up(store, writes=None, *, lands=False, deleted=None):
    """Let a process do its part of the deletion; it dies after so many writes.

    Args:
        store: The hub.
        writes: None: it lives.
        lands: The last write is stored, and only the answer is lost.
        deleted: Takes the mark that each Work has when it is deleted.

    Returns:
        Whether it lived.
    """
    process = Life(store, (PLACEMENT, BINDING, WORK, MEMBER_CLUSTER))

    async def watch(verb, kind, subject):
        if kind == WORK and verb == "delete" and deleted is not None:
            stored = await store.get(WORK, subject)
            deleted.append((stored["metadata"].get("annotations") or {}).get(ABANDON))

    process.store.before_write = watch
    process.cache.trim(WORK, without_manifests)
    try:
        await process.hear()
        process.store.writes_left, process.store.last_one_lands = writes, lands
        await make_scheduler(process).reconcile(REF)
        works = WorkGenerator(process.hub, lambda: None, Served(), lambda *_: None, process.keys)
        for cluster in CLUSTERS:
            await works.reconcile(BindingRef(PLACEMENT.kind, f"p-{cluster}"))
    except CrashError:
        return False
    else:
        return True
    finally:
        await process.end()


async def agents_act(store):
    """Let the agents finish the Works that are going; returns those that were left to them, with their manifests."""
    seen = []
    for work in (await store.list(WORK)).items:
        assert "deletionTimestamp" in work["metadata"]
        seen.append(work["spec"]["workload"]["manifests"])
        await store.replace(WORK, {**work, "metadata": {**work["metadata"], "finalizers": []}})
    return seen


async def is_empty(store):
    return not [item for kind in (PLACEMENT, BINDING, WORK) for item in (await store.list(kind)).items]


@pytest.mark.parametrize("lands", [True, False], ids=["stored", "lost"])
@pytest.mark.parametrize("writes", range(16))
async def test_every_work_is_marked_before_it_is_deleted(store, writes, lands):
    await add_world(store)
    await store.delete(PLACEMENT, Key("p"))
    deleted = []
    await clean_up(store, writes, lands=lands, deleted=deleted)
    while not await clean_up(store, deleted=deleted):
        pass
    assert await agents_act(store) == [[MANIFEST]] * 4
    await clean_up(store, deleted=deleted)
    assert await is_empty(store)
    assert set(deleted) == {"true"}


async def test_a_work_that_was_made_while_the_placement_was_going_is_marked_too(store):
    await add_world(store)
    await store.delete(PLACEMENT, Key("p"))
    assert not await clean_up(store, 7)
    await add_work(store, "b", "p-1")
    deleted = []
    await clean_up(store, deleted=deleted)
    assert len(await agents_act(store)) == 5
    assert set(deleted) == {"true"}


async def test_works_that_somebody_had_deleted_before_are_marked_with_their_order(store):
    """Their agents were away meanwhile, and read both at once."""
    await add_world(store)
    for work in (await store.list(WORK)).items:
        await store.delete(WORK, key_of(work))
    await store.delete(PLACEMENT, Key("p"))
    await clean_up(store)
    works = (await store.list(WORK)).items
    assert [(is_marked_for_removal(work), annotation(work, ABANDON)) for work in works] == [(True, "true")] * 4


async def test_without_the_wish_nothing_is_marked(store):
    await add_world(store, "Delete")
    await store.delete(PLACEMENT, Key("p"))
    deleted = []
    await clean_up(store, deleted=deleted)
    assert deleted == [None] * 4


async def test_a_cluster_that_is_lost_in_another_way_loses_its_objects(store):
    await add_world(store)
    said = with_removal_mark(await store.get(BINDING, Key("p-a")))
    await store.replace(BINDING, said)
    await store.delete(BINDING, Key("p-a"))
    deleted = []
    await clean_up(store, deleted=deleted)
    assert deleted == [None] * 2
    await store.delete(PLACEMENT, Key("p"))
    await clean_up(store, deleted=deleted)
    assert deleted == [None] * 2 + ["true"] * 2


@pytest.mark.parametrize("again", [False, True], ids=["gone", "restored"])
async def test_the_end_of_a_placement_is_not_ordered_on_hearsay(store, again):
    """It was let go of by force with its definition, or restored, and this process has not heard of that yet."""
    await add_world(store, policy="")
    await store.delete(PLACEMENT, Key("p"))
    process = Life(store, (PLACEMENT, BINDING, WORK, MEMBER_CLUSTER))
    try:
        await process.hear()
        going = await store.get(PLACEMENT, Key("p"))
        await store.replace(PLACEMENT, {**going, "metadata": {**going["metadata"], "finalizers": []}})
        if again:
            await add(store, PLACEMENT, {"name": "p"}, going["spec"])
        before = [await store.get(BINDING, Key(f"p-{cluster}")) for cluster in CLUSTERS]
        with suppress(RetryError, StoreError):
            await make_scheduler(process).reconcile(REF)
        assert [await store.get(BINDING, Key(f"p-{cluster}")) for cluster in CLUSTERS] == before
    finally:
        await process.end()
