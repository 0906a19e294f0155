"""A Work is deleted in the moment in which its agent takes hold of it, on a store as hasty as kube-apiserver."""

from datetime import timedelta

import pytest

from scorer.api.kinds import (
    BINDING,
    INTERNAL_MEMBER_CLUSTER,
    MEMBER_CLUSTER,
    NAMESPACE,
    PLACEMENT,
    WORK,
)
from scorer.api.kinds import RESOURCE_SNAPSHOT as SNAPSHOT
from scorer.api.names import (
    ABANDON,
    IS_LATEST_SNAPSHOT,
    MEMBER_CLUSTER_FINALIZER,
    NUMBER_OF_RESOURCE_SNAPSHOTS,
    PARENT_BINDING,
    PARENT_PLACEMENT,
    PREVIOUS_BINDING_STATE,
    RESOURCE_INDEX,
    WORK_CLEANUP,
    member_namespace,
)
from tests.virtual_time import loop_now
from tests.webhook.controllers.by_hand import Life, MortalStore, Served
from webhook.controllers.members.membership import MemberController
from webhook.controllers.placements.work_generator import BindingRef, WorkGenerator, without_manifests
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import ConflictError, Key, NotFoundError

SPACE = member_namespace("lion")
SHOP = Key("shop", SPACE)
REF = BindingRef(PLACEMENT.kind, "p-lion")


class HastyStore(MortalStore):
    """Settles whether an object has finalizers before it removes it, and between the two an agent writes.

    kube-apiserver compares the preconditions with what it removes, but the finalizers with what it read before.
    """

    def __init__(self, store):
        super().__init__(store)
        self.agents = []

    async def delete(self, kind, key, *, uid="", resource_version=""):
        seen = (await self.inner.get(kind, key))["metadata"]
        if kind == WORK and self.agents:
            await hold(self.inner, self.agents.pop())
            stored = await self.inner.get(kind, key)
            if resource_version not in {"", stored["metadata"]["resourceVersion"]}:
                raise ConflictError(f"{kind} {key} is of another version")
            if not seen.get("finalizers"):
                await self.inner.replace(kind, {**stored, "metadata": {**stored["metadata"], "finalizers": []}})
        await super().delete(kind, key, uid=uid, resource_version=resource_version)


async def hold(store, key):
    """Put the agent's finalizer on a Work."""
    work = await store.get(WORK, key)
    await store.replace(WORK, {**work, "metadata": {**work["metadata"], "finalizers": [WORK_CLEANUP]}})


@pytest.fixture
async def store():
    store = EmbeddedStore.open(None)
    await add(store, NAMESPACE, {"name": SPACE})
    yield store
    store.close()


@pytest.fixture
async def hasty(store):
    return HastyStore(store)


@pytest.fixture
async def process(hasty):
    process = Life(hasty, (PLACEMENT, BINDING, WORK, MEMBER_CLUSTER, NAMESPACE, INTERNAL_MEMBER_CLUSTER, SNAPSHOT))
    process.cache.trim(WORK, without_manifests)
    yield process
    await process.end()


async def add(store, kind, metadata, **members):
    await store.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **members})


async def add_member(store, **metadata):
    identity = {"kind": "User", "name": "lion"}
    await add(store, MEMBER_CLUSTER, {"name": "lion", **metadata}, spec={"identity": identity})


async def add_work(store):
    labels = {PARENT_PLACEMENT: "p", PARENT_BINDING: REF.name}
    await add(store, WORK, {"name": SHOP.name, "namespace": SPACE, "labels": labels}, spec={"workload": {}})


async def add_binding(store, state, **annotations):
    if state == "Unscheduled":
        annotations[PREVIOUS_BINDING_STATE] = "Bound"  # as the loop records it
    metadata = {"name": REF.name, "labels": {PARENT_PLACEMENT: "p"}, "finalizers": [WORK_CLEANUP]}
    await add(
        store,
        BINDING,
        {**metadata, "annotations": annotations},
        spec={"state": state, "targetCluster": "lion", "resourceSnapshotName": "p-0-snapshot"},
    )


async def is_held(store):
    """Whether the Work waits for its agent."""
    metadata = (await store.get(WORK, SHOP))["metadata"]
    return bool(metadata.get("deletionTimestamp")) and metadata["finalizers"] == [WORK_CLEANUP]


def generator(process):
    return WorkGenerator(process.hub, loop_now, Served(), lambda *_: None, process.keys)


@pytest.mark.parametrize("annotations", [{}, {ABANDON: "true"}], ids=["delete", "abandon"])
async def test_the_works_of_a_binding_that_goes_wait_for_their_agent(store, hasty, process, annotations):
    await add_work(store)
    await add_binding(store, "Unscheduled", **annotations)
    await store.delete(BINDING, Key(REF.name))
    await process.hear()
    hasty.agents = [SHOP]
    with pytest.raises(ConflictError):
        await generator(process).reconcile(REF)
    assert "deletionTimestamp" not in (await store.get(WORK, SHOP))["metadata"]
    await generator(process).reconcile(REF)  # as the queue does, with what the first attempt has read
    assert await is_held(store)
    assert (await store.get(WORK, SHOP))["metadata"].get("annotations", {}) == annotations


async def test_a_work_that_is_not_wanted_any_more_waits_for_its_agent(store, hasty, process):
    await add_member(store)
    await add_work(store)
    await add_binding(store, "Unscheduled")
    labels = {PARENT_PLACEMENT: "p", RESOURCE_INDEX: "0", IS_LATEST_SNAPSHOT: "true"}
    metadata = {"name": "p-0-snapshot", "labels": labels, "annotations": {NUMBER_OF_RESOURCE_SNAPSHOTS: "1"}}
    await add(store, SNAPSHOT, metadata, spec={"selectedResources": []})
    await process.hear()
    hasty.agents = [SHOP]
    with pytest.raises(ConflictError):
        await generator(process).reconcile(REF)
    await generator(process).reconcile(REF)
    assert await is_held(store)


async def test_a_work_that_its_agent_takes_hold_of_again_while_it_leaves_is_let_go_again(store, hasty, process):
    await add_member(store, finalizers=[MEMBER_CLUSTER_FINALIZER])
    await add_work(store)
    await store.delete(MEMBER_CLUSTER, Key("lion"))
    members = MemberController(process.hub, loop_now, lambda *_: None, timedelta())
    await process.hear()
    hasty.agents = [SHOP]
    with pytest.raises(ConflictError):
        await members.reconcile("lion")
    assert (await store.get(WORK, SHOP))["metadata"]["finalizers"] == [WORK_CLEANUP]
    await process.settle()  # otherwise the status that this has reported may be stored just before the finalizer is off
    await members.reconcile("lion")
    with pytest.raises(NotFoundError):
        await store.get(WORK, SHOP)
