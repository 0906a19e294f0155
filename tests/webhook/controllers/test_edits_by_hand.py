"""What somebody changes by hand on the hub is put right, also what our own last write left as it was."""

import pytest

from scorer.api.family import PlacementRef
from scorer.api.kinds import BINDING, PLACEMENT, POLICY_SNAPSHOT, RESOURCE_SNAPSHOT, WORK
from scorer.api.names import IS_LATEST_SNAPSHOT, PARENT_PLACEMENT, PLACEMENT_GENERATION, WORK_CLEANUP
from tests.builders.binding import make_binding
from tests.builders.placement import make_placement
from tests.waiting import until
from tests.webhook.controllers.world import CONFIG_MAP, controller, make_config_map, make_member, running
from webhook.kube.ports import Key


async def test_an_edit_is_seen_of_a_work_that_the_last_snapshot_did_not_change():
    """Its snapshot has two shards, and only the other one has changed."""
    async with running() as world:
        await world.add(make_config_map("aa", text="a" * 500_000), make_config_map("bb", text="b" * 500_000))
        await world.add(make_member("a"), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available" and len(world.works()) == 2)
        stored = await world.store.get(CONFIG_MAP, Key("bb", "shop"))
        await world.store.replace(CONFIG_MAP, {**stored, "data": {"text": "c" * 500_000}})
        await world.until(lambda: world.view("p")["state"] == "available" and len(world.works()) == 2)
        key = Key("p-work", "fleet-member-a")
        work = await world.store.get(WORK, key)
        assert work["metadata"]["generation"] == 1
        spec = {**work["spec"], "workload": {"manifests": work["spec"]["workload"]["manifests"][:1]}}
        await world.store.replace(WORK, {**work, "spec": spec})
        await world.until(lambda: world.view("p")["state"] == "available")
        assert (await world.store.get(WORK, key))["spec"] == work["spec"]


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [({IS_LATEST_SNAPSHOT: "false"}, {}), ({}, {PLACEMENT_GENERATION: ""}), ({}, {PLACEMENT_GENERATION: "two"})],
    ids=["latest", "generation", "no-number"],
)
async def test_a_policy_snapshot_is_put_right(labels, annotations):
    async with running() as world:
        await world.add(make_member("a"), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        stored = await world.store.get(POLICY_SNAPSHOT, Key("p-0"))
        metadata = stored["metadata"]
        edited = {
            **metadata,
            "labels": {**metadata["labels"], **labels},
            "annotations": {**metadata["annotations"], **annotations},
        }
        await world.store.replace(POLICY_SNAPSHOT, {**stored, "metadata": edited})

        def is_right():
            found = world.cache.get(POLICY_SNAPSHOT, "p-0")["metadata"]
            return all(found[part] == metadata[part] for part in ("labels", "annotations"))

        await world.until(is_right)
        assert world.view("p")["state"] == "available"
        assert not any(queue.failed for queue in world.loop.queues.values())


@pytest.mark.parametrize("labels", [None, {"team": "a"}, {PARENT_PLACEMENT: "q"}], ids=["none", "others", "anothers"])
@pytest.mark.parametrize("works", [True, False], ids=["placed", "not-placed"])
async def test_a_binding_gets_its_label_back(labels, works):
    async with running() as world:
        strategy = {} if works else {"strategy": {"type": "External"}}
        await world.add(make_member("a"), make_placement("p", **strategy))
        await world.until(lambda: world.bound("p") == ["a"] and len(world.works()) == works)
        (stored,) = await bindings(world)
        metadata = {key: each for key, each in stored["metadata"].items() if key != "labels"}
        await world.store.replace(BINDING, {**stored, "metadata": metadata | ({"labels": labels} if labels else {})})
        await world.until(lambda: world.bound("p") == ["a"])
        (found,) = await bindings(world)
        assert found["metadata"]["uid"] == metadata["uid"]
        assert len(world.works()) == works
        assert not any(queue.failed for queue in world.loop.queues.values())


@pytest.mark.parametrize("labels", [{}, {PARENT_PLACEMENT: "q"}], ids=["none", "anothers"])
async def test_a_resource_snapshot_without_its_label_is_collected_unless_something_uses_it(labels):
    async with running() as world:
        await world.add(make_member("a"), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        stored = await world.store.get(CONFIG_MAP, Key("rates", "shop"))
        await world.store.replace(CONFIG_MAP, {**stored, "data": {"value": "2"}})
        await world.until(lambda: rolled_out(world) == {"p-1-snapshot"})
        await relabel(world, "p-0-snapshot", labels)
        await world.until(lambda: world.cache.get(RESOURCE_SNAPSHOT, "p-0-snapshot") is None)
        before = world.cache.get(RESOURCE_SNAPSHOT, "p-1-snapshot")["metadata"]
        await relabel(world, "p-1-snapshot", labels)
        await world.until(lambda: label_of(world, "p-1-snapshot") == "p")
        found = world.cache.get(RESOURCE_SNAPSHOT, "p-1-snapshot")["metadata"]
        assert (found["uid"], found["labels"]) == (before["uid"], before["labels"])
        assert rolled_out(world) == {"p-1-snapshot"}
        assert not any(queue.failed for queue in world.loop.queues.values())


async def test_a_label_that_is_removed_during_a_reconcile_leads_to_no_second_snapshot():
    async with running() as world:
        await world.add(make_member("a"), make_placement("p"))
        await world.until(lambda: rolled_out(world) == {"p-0-snapshot"})
        selecting = controller(world.loop, "placement")._selecting
        select, removed = selecting.select, []

        async def select_while_the_label_is_removed(*args):
            selection = await select(*args)
            if not removed:
                removed.append("p-0-snapshot")
                await relabel(world, "p-0-snapshot", {})
                await until(lambda: label_of(world, "p-0-snapshot") is None)
            return selection

        selecting.select = select_while_the_label_is_removed
        world.loop.queues["placement"].add(PlacementRef(PLACEMENT.kind, "p"))
        await world.until(lambda: bool(removed) and label_of(world, "p-0-snapshot") == "p")
        assert rolled_out(world) == {"p-0-snapshot"}
        assert world.cache.get(RESOURCE_SNAPSHOT, "p-1-snapshot") is None


def rolled_out(world):
    """The snapshots of the bindings that are available."""
    found = {binding["spec"]["resourceSnapshotName"] for binding in world.cache.list(BINDING)}
    return found if world.view("p")["state"] == "available" else set()


async def relabel(world, name, labels):
    stored = await world.store.get(RESOURCE_SNAPSHOT, Key(name))
    kept = {key: value for key, value in stored["metadata"]["labels"].items() if key != PARENT_PLACEMENT}
    await world.store.replace(
        RESOURCE_SNAPSHOT, {**stored, "metadata": {**stored["metadata"], "labels": kept | labels}}
    )


def label_of(world, name):
    return world.cache.get(RESOURCE_SNAPSHOT, name)["metadata"]["labels"].get(PARENT_PLACEMENT)


async def test_a_binding_that_nobody_knows_any_more_says_what_it_has_lost():
    async with running() as world:
        lost = make_binding("p", "a", metadata={"name": "p-a-1", "labels": {}, "finalizers": [WORK_CLEANUP]})
        await world.add(make_member("a"), lost)
        await world.until(lambda: True)
        await world.store.delete(BINDING, Key("p-a-1"))
        await world.until(lambda: True)
        (found,) = await bindings(world)
        assert found["metadata"]["finalizers"] == [WORK_CLEANUP]
        assert not any(queue.failed for queue in world.loop.queues.values())


async def bindings(world):
    return (await world.store.list(BINDING)).items
