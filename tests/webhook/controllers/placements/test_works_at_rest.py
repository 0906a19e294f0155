"""A pass over a binding that reads just what an earlier one has read is left out, and only then.

The rule: whatever has changed, after a pass by a generator that remembers, one that remembers nothing finds nothing to
do either.
"""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

import webhook.controllers.placements.work_generator as under_test
from scorer.api.kinds import BINDING, KINDS, MEMBER_CLUSTER, PLACEMENT, RESOURCE_SNAPSHOT, WORK
from scorer.api.unstructured.documents import with_metadata, with_spec
from tests.builders.placement import make_placement
from tests.thoroughness import SOAK
from tests.virtual_time import loop_now
from tests.webhook.controllers.by_hand import Served, life
from tests.webhook.controllers.world import World, make_config_map, make_member
from webhook.controllers.placements.work_generator import BindingRef, WorkGenerator
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import RetryError, StoreError
from webhook.kube.work_signing_keys import WorkKeys

READ = (BINDING, WORK, RESOURCE_SNAPSHOT, PLACEMENT, MEMBER_CLUSTER)


@asynccontextmanager
async def placed():
    """A store with a placement that is available on two members, on which nothing runs any more."""
    world = World()
    for name in ("default", "shop"):
        await world.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await world.add(make_config_map("rates", value="1"), make_member("a"), make_member("b"), make_placement("p"))
    running = [asyncio.create_task(each.run()) for each in (world.cache, world.loop, world.members)]
    try:
        await world.until(lambda: world.view("p")["state"] == "available" and len(world.works()) == 2)
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        yield world.store
    finally:
        for task in running:
            task.cancel()
        world.store.close()


def generator(process):
    return WorkGenerator(process.hub, loop_now, Served(*KINDS.values()), lambda *_: None, WorkKeys(process.store, ""))


async def passes(process, generator):
    """Let a generator look at all bindings; return what it could not do, and the version of the store then."""
    problems = []
    for binding in process.cache.list(BINDING):
        try:
            await generator.reconcile(BindingRef(PLACEMENT.kind, binding["metadata"]["name"]))
        except (RetryError, StoreError) as error:
            problems.append(str(error))
    await process.settle()
    return problems, process.store.inner.resource_version


@pytest.fixture
def plans(monkeypatch):
    """How many plans were made."""
    made = []
    plan = under_test.plan_content
    monkeypatch.setattr(under_test, "plan_content", lambda *args, **how: made.append(args[0]) or plan(*args, **how))
    return made


async def test_a_second_pass_over_what_has_not_changed_plans_nothing(plans):
    async with placed() as store, life(store, *READ) as process:
        plans.clear()
        remembering = generator(process)
        await passes(process, remembering)
        assert len(plans) == 2
        await process.hear()  # the list brings the same objects once more
        assert (await passes(process, remembering))[0] == []
        assert len(plans) == 2


async def test_what_one_binding_reads_wakes_no_other(plans):
    async with placed() as store, life(store, *READ) as process:
        remembering = generator(process)
        await passes(process, remembering)
        plans.clear()
        work = store.objects(WORK)[0]
        await store.replace(WORK, with_spec(work, workload={"manifests": []}))
        await process.hear()
        await passes(process, remembering)
        assert len(plans) == 1
        assert all(each["spec"]["workload"]["manifests"] for each in store.objects(WORK))


async def test_what_was_read_is_held_no_longer_than_a_pass_can_be_left_out():
    """Of a binding whose member is gone, no old snapshots and Works stay in memory."""
    async with placed() as store, life(store, *READ) as process:
        remembering = generator(process)
        await passes(process, remembering)
        process.hub.cache.of_kind(MEMBER_CLUSTER).drop(store.objects(MEMBER_CLUSTER)[0])
        snapshot = process.cache.list(RESOURCE_SNAPSHOT)[0]
        await passes(process, remembering)
        holders = [read for read in remembering._at_rest.values() if any(part is snapshot for part in read)]
        assert len(holders) == 1  # that on the other member


async def _edit_work(store: EmbeddedStore, dice: random.Random) -> None:
    work = dice.choice(store.objects(WORK))
    await store.replace(WORK, with_spec(work, workload={"manifests": []}))


async def _relabel_work(store: EmbeddedStore, dice: random.Random) -> None:
    work = dice.choice(store.objects(WORK))
    await store.replace(WORK, with_metadata(work, labels={"kubernetes-fleet.io/parent-resource-snapshot-index": "7"}))


async def _report_work(store: EmbeddedStore, dice: random.Random) -> None:
    work = dice.choice(store.objects(WORK))
    said = dice.choice(("True", "False", "Unknown"))
    conditions = [{**each, "status": said} for each in (work.get("status") or {}).get("conditions") or ()]
    await store.replace_status(WORK, {**work, "status": {**(work.get("status") or {}), "conditions": conditions}})


async def _forget_status(store: EmbeddedStore, dice: random.Random) -> None:
    binding = dice.choice(store.objects(BINDING))
    await store.replace_status(BINDING, {**binding, "status": {"conditions": binding["status"]["conditions"][:1]}})


async def _change_content(store: EmbeddedStore, dice: random.Random) -> None:
    snapshot = dice.choice(store.objects(RESOURCE_SNAPSHOT))
    index = {"kubernetes-fleet.io/resource-index": str(dice.randrange(3))}
    await store.replace(RESOURCE_SNAPSHOT, with_metadata(snapshot, labels=index))


async def _report_back(store: EmbeddedStore, dice: random.Random) -> None:
    placement = dice.choice(store.objects(PLACEMENT))
    how = dice.choice((None, {"type": "Disabled"}, {"type": "Mirror", "destination": "OriginalResource"}))
    await store.replace(PLACEMENT, with_spec(placement, strategy={"reportBackStrategy": how} if how else None))


async def _override(store: EmbeddedStore, dice: random.Random) -> None:
    binding = dice.choice(store.objects(BINDING))
    names = dice.choice((None, ["rules-0"]))
    await store.replace(BINDING, with_spec(binding, clusterResourceOverrideSnapshots=names))


async def _relabel_member(store: EmbeddedStore, dice: random.Random) -> None:
    member = dice.choice(store.objects(MEMBER_CLUSTER))
    await store.replace(MEMBER_CLUSTER, with_metadata(member, labels={"tier": str(dice.randrange(3))}))


async def _nothing(_store: EmbeddedStore, _dice: random.Random) -> None:
    pass


CHANGES = (
    *(_edit_work, _relabel_work, _report_work, _forget_status, _change_content),
    *(_report_back, _override, _relabel_member, _nothing),
)


@pytest.mark.parametrize("seed", range(6 if SOAK else 2))
async def test_whatever_has_changed_nothing_is_left_undone(seed, plans):
    dice = random.Random(seed)
    async with placed() as store, life(store, *READ) as process:
        remembering = generator(process)
        await passes(process, remembering)
        for _ in range(25):
            change = dice.choice(CHANGES)
            await change(store, dice)
            await process.hear()
            before, after = None, await passes(process, remembering)
            while before != after:  # what a pass writes may ask for another
                before, after = after, await passes(process, remembering)
            assert await passes(process, generator(process)) == after, change.__name__
    assert plans
