"""The policies of a deletion for dependents: background, foreground, orphan, as of the garbage collector."""

from datetime import UTC, datetime

import pytest

from scorer.api.kinds import NODE, NODE_CLAIM, NODE_POOL, Kind
from scorer.api.meta import JsonObject
from webhook.embedded.storage.lifecycle import Propagation
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import Key

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
KINDS = (NODE_POOL, NODE_CLAIM, NODE)
POOL, CLAIM, HOST = (Key(name) for name in ("pool", "claim", "node"))
TERMINATION = "karpenter.sh/termination"


@pytest.fixture
def store():
    opened = EmbeddedStore.open(None, now=lambda: NOW)
    yield opened
    opened.close()


async def create(store: EmbeddedStore, kind: Kind, name: str, *owners: JsonObject, blocks: bool = True, **metadata):
    references = [
        {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "blockOwnerDeletion": blocks}
        | {member: owner["metadata"][member] for member in ("name", "uid")}
        for owner in owners
    ]
    metadata = {"name": name, "ownerReferences": references, **metadata}
    return await store.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata})


@pytest.fixture
async def chain(store):
    """A pool, its claim and the node of the claim, as Karpenter makes them."""
    pool = await create(store, NODE_POOL, "pool")
    claim = await create(store, NODE_CLAIM, "claim", pool, finalizers=[TERMINATION])
    return pool, claim, await create(store, NODE, "node", claim)


async def names(store: EmbeddedStore) -> list[str]:
    return [item["metadata"]["name"] for kind in KINDS for item in (await store.list(kind)).items]


async def owners_of(store: EmbeddedStore, kind: Kind, key: Key) -> list[str]:
    return [owner["name"] for owner in (await store.get(kind, key))["metadata"].get("ownerReferences", [])]


async def finish(store: EmbeddedStore, kind: Kind, key: Key) -> None:
    """Remove the finalizer of an object, as its controller does once it is done."""
    document = await store.get(kind, key)
    assert "deletionTimestamp" in document["metadata"]
    finalizers = [name for name in document["metadata"]["finalizers"] if name != TERMINATION]
    await store.replace(kind, {**document, "metadata": {**document["metadata"], "finalizers": finalizers}})


@pytest.mark.parametrize("policy", [None, Propagation.BACKGROUND])
async def test_background_deletes_the_owner_first(store, chain, policy):
    await store.delete(NODE_POOL, POOL, propagation=policy)
    assert await names(store) == ["claim", "node"]
    await finish(store, NODE_CLAIM, CLAIM)
    assert await names(store) == []


async def test_foreground_deletes_the_owner_last(store, chain):
    await store.delete(NODE_POOL, POOL, propagation=Propagation.FOREGROUND)
    pool = await store.get(NODE_POOL, POOL)
    assert (pool["metadata"]["finalizers"], "deletionTimestamp" in pool["metadata"]) == (["foregroundDeletion"], True)
    assert await names(store) == ["pool", "claim"]  # the node blocked the claim, and had no finalizer
    await finish(store, NODE_CLAIM, CLAIM)
    assert await names(store) == []


async def test_foreground_does_not_wait_for_dependents_that_do_not_block(store):
    pool = await create(store, NODE_POOL, "pool")
    await create(store, NODE_CLAIM, "claim", pool, blocks=False, finalizers=[TERMINATION])
    await store.delete(NODE_POOL, POOL, propagation=Propagation.FOREGROUND)
    assert await names(store) == ["claim"]
    assert "deletionTimestamp" in (await store.get(NODE_CLAIM, CLAIM))["metadata"]


async def test_orphan_keeps_the_dependents(store, chain):
    await store.delete(NODE_POOL, POOL, propagation=Propagation.ORPHAN)
    assert await names(store) == ["claim", "node"]
    assert await owners_of(store, NODE_CLAIM, CLAIM) == []
    assert await owners_of(store, NODE, HOST) == ["claim"]
    assert "deletionTimestamp" not in (await store.get(NODE_CLAIM, CLAIM))["metadata"]


@pytest.mark.parametrize("policy", list(Propagation))
async def test_a_dependent_with_another_owner_remains(store, policy):
    one, two = [await create(store, NODE_POOL, name) for name in ("one", "two")]
    await create(store, NODE_CLAIM, "claim", one, two)
    await store.delete(NODE_POOL, Key("one"), propagation=policy)
    assert await names(store) == ["two", "claim"]
    assert await owners_of(store, NODE_CLAIM, CLAIM) == ["two"]


@pytest.mark.parametrize(
    ("finalizer", "remaining"),
    [pytest.param("orphan", ["claim"], id="orphan"), pytest.param("foregroundDeletion", ["pool", "claim"], id="front")],
)
async def test_a_finalizer_of_the_collector_is_the_policy_of_a_deletion_without_one(store, finalizer, remaining):
    pool = await create(store, NODE_POOL, "pool", finalizers=[finalizer])
    await create(store, NODE_CLAIM, "claim", pool, finalizers=[TERMINATION])
    await store.delete(NODE_POOL, POOL)
    assert await names(store) == remaining


async def test_a_second_deletion_changes_the_policy(store, chain):
    await store.delete(NODE_POOL, POOL, propagation=Propagation.FOREGROUND)
    await store.delete(NODE_POOL, POOL, propagation=Propagation.BACKGROUND)
    assert await names(store) == ["claim"]


async def test_a_dependent_that_leaves_its_owner_no_longer_blocks_it(store, chain):
    await store.delete(NODE_POOL, POOL, propagation=Propagation.FOREGROUND)
    claim = await store.get(NODE_CLAIM, CLAIM)
    await store.replace(NODE_CLAIM, {**claim, "metadata": {**claim["metadata"], "ownerReferences": []}})
    assert await names(store) == ["claim"]


async def test_owners_in_a_circle_are_deleted_in_the_foreground(store):
    one = await create(store, NODE_POOL, "one")
    two = await create(store, NODE_POOL, "two", one)
    three = await create(store, NODE_POOL, "three", two)
    reference = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "three", "blockOwnerDeletion": True}
    owners = [{**reference, "uid": three["metadata"]["uid"]}]
    await store.replace(NODE_POOL, {**one, "metadata": {**one["metadata"], "ownerReferences": owners}})
    await store.delete(NODE_POOL, Key("one"), propagation=Propagation.FOREGROUND)
    assert await names(store) == []


async def test_a_dry_run_keeps_everything(store, chain):
    await store.delete(NODE_POOL, POOL, propagation=Propagation.FOREGROUND, dry_run=True)
    assert [await store.get(kind, key) for kind, key in zip(KINDS, (POOL, CLAIM, HOST), strict=True)] == list(chain)
