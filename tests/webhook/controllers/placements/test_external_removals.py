"""Clusters that a placement with an External strategy leaves: update runs remove the content, and nothing else does."""

from scorer.api.kinds import BINDING, PLACEMENT
from scorer.api.names import REMOVAL_PENDING
from scorer.api.unstructured.documents import annotation
from scorer.rollout.removal.marks import is_marked_for_removal, with_removal_mark
from tests.builders.placement import fixed
from tests.webhook.controllers.placements.confirmed_world import (
    MEMBERS,
    STATEFUL_SET,
    bindings,
    confirm,
    confirming,
    digests,
    on_members,
    pending,
)
from tests.webhook.controllers.staged_world import make_run, make_stage, run_of, said, staged
from tests.webhook.controllers.world import CONFIG_MAP
from tests.webhook.edits import edit
from webhook.kube.ports import Key

NOWHERE = {"placementType": "PickFixed", "clusterNames": []}
EXTERNAL, ROLLING = {"type": "External"}, {"type": "RollingUpdate"}


async def drop_under_external(world, policy=NOWHERE):
    """Drop clusters while update runs roll out."""
    await world.change(PLACEMENT, "shop", strategy=EXTERNAL)
    await world.change(PLACEMENT, "shop", policy=policy)
    await world.until(lambda: pending(world))
    assert pending(world)["reason"] == "UpdateRunRequired"


async def test_dropped_clusters_are_judged_when_the_strategy_changes_back():
    async with confirming() as world:
        await drop_under_external(world)
        message = "the content remains on 3 dropped clusters until an update run removes it: fish, lion, wolf"
        assert pending(world)["message"] == message
        assert not world.events("RemovalPending"), "no user has to confirm it"
        await world.change(PLACEMENT, "shop", strategy=ROLLING)
        await world.until(lambda: pending(world).get("reason") == "ConfirmationRequired")
        assert len(digests(world)) == 3
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)
        await confirm(world)
        await world.until(lambda: not bindings(world))
        assert await on_members(world, STATEFUL_SET, "db") == []


async def test_few_clusters_are_removed_when_the_strategy_changes_back():
    async with confirming() as world:
        await drop_under_external(world, fixed("fish", "lion"))
        await world.change(PLACEMENT, "shop", strategy=ROLLING)
        await world.until(lambda: sorted(bindings(world)) == ["fish", "lion"])
        assert not world.events("RemovalPending")
        assert await on_members(world, STATEFUL_SET, "db") == ["fish", "lion"]


async def test_a_change_to_external_confirms_nothing():
    async with confirming() as world:
        await world.change(PLACEMENT, "shop", policy=NOWHERE)
        await world.until(lambda: pending(world))
        await world.change(PLACEMENT, "shop", strategy=EXTERNAL)
        await world.until(lambda: pending(world)["reason"] == "UpdateRunRequired")
        await world.change(PLACEMENT, "shop", policy=fixed("fish", "lion"))
        await world.until(lambda: "on 1 dropped cluster until" in pending(world)["message"])
        await world.change(PLACEMENT, "shop", strategy=ROLLING)
        await world.until(lambda: pending(world).get("reason") == "ConfirmationRequired")
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS), "the cluster that waited does so again"


async def test_a_second_pass_writes_nothing_and_a_mark_without_a_run_removes_nothing():
    async with confirming() as world:
        await drop_under_external(world)
        key = Key(bindings(world)["fish"]["metadata"]["name"])
        await edit(world.store, BINDING, key, with_removal_mark)
        await world.change(PLACEMENT, "shop", strategy=ROLLING)
        await world.until(lambda: len(digests(world)) == 3)
        before = world.store.resource_version
        world.again()
        await world.until(lambda: True)
        assert world.store.resource_version == before
        assert not is_marked_for_removal(bindings(world)["fish"]), "the stale mark is taken off"
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)


async def test_a_run_removes_dropped_clusters():
    async with staged(make_stage("test"), make_stage("live")) as world:
        await world.add(make_run("first"))
        await world.until(lambda: said(world, "Succeeded", "first").startswith("True"))
        await world.change(PLACEMENT, "p", policy=fixed("t1"))
        await world.until(lambda: pending(world, "p"))
        dropped = [each for each in bindings(world, "p").values() if annotation(each, REMOVAL_PENDING)]
        assert len(dropped) == 4
        await world.add(make_run("second"))
        await world.until(lambda: said(world, "Succeeded", "second").startswith("True"))
        assert list(bindings(world, "p")) == ["t1"]
        assert len(run_of(world, "second")["status"]["deletionStageStatus"]["clusters"]) == 4
        assert await on_members(world, CONFIG_MAP, "rates", members=("t1", "t2", "v1", "v2", "v3")) == ["t1"]
        assert not pending(world, "p")
