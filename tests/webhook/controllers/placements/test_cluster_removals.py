"""Clusters that a placement leaves on a running hub: their content stays until the loss is confirmed or replaced."""

from datetime import timedelta

import pytest

from scorer.api.kinds import BINDING, MEMBER_CLUSTER, PLACEMENT
from scorer.api.names import REMOVAL_PENDING, REPLACEMENT
from scorer.api.unstructured.documents import annotation, name_of, with_metadata
from scorer.rollout.bindings import PendingRemoval
from tests.builders.placement import fixed, make_placement
from tests.waiting import until
from tests.webhook.controllers.placements.confirmed_world import (
    STATEFUL_SET,
    bindings,
    confirm,
    confirming,
    digests,
    on_members,
    pending,
)
from tests.webhook.controllers.world import held_up, make_member, pick_n
from tests.webhook.edits import edit
from webhook.kube.ports import Key

FIVE = ("m1", "m2", "m3", "m4", "m5")


def state(world):
    return {cluster: each["spec"]["state"] for cluster, each in sorted(bindings(world).items())}


async def test_an_edit_that_matches_no_cluster_removes_nothing():
    async with confirming() as world:
        nowhere = {"placementType": "PickFixed", "clusterNames": []}
        await world.change(PLACEMENT, "shop", policy=nowhere)
        await world.until(lambda: pending(world))
        assert "the content remains on 3 dropped clusters" in pending(world)["message"]
        assert set(state(world).values()) == {"Unscheduled"}
        assert await on_members(world, STATEFUL_SET, "db") == ["fish", "lion", "wolf"]
        (first, *_) = digests(world)
        await confirm(world, first)
        await world.until(lambda: len(bindings(world)) == 2)
        assert len(digests(world)) == 2
        assert len(await on_members(world, STATEFUL_SET, "db")) == 2
        await confirm(world)
        await world.until(lambda: not bindings(world))
        assert await on_members(world, STATEFUL_SET, "db") == []
        assert not pending(world)


async def test_pending_clusters_are_bound_again_when_the_policy_is_restored():
    async with confirming() as world:
        await world.change(PLACEMENT, "shop", policy={"placementType": "PickFixed", "clusterNames": []})
        await world.until(lambda: pending(world))
        await world.change(PLACEMENT, "shop", policy=fixed("fish", "lion", "wolf"))
        await world.until(lambda: not pending(world))
        assert set(state(world).values()) == {"Bound"}
        assert all(not annotation(each, REMOVAL_PENDING) for each in bindings(world).values())
        assert world.condition("shop", "Available")["status"] == "True"


@pytest.mark.parametrize("limit", [1, 10])
async def test_two_of_five_go_and_a_third_within_the_hour_waits(limit):
    placement = make_placement(policy=fixed(*FIVE), revisionHistoryLimit=limit)
    async with confirming(*FIVE, placement=placement) as world:
        await world.change(PLACEMENT, "shop", policy=fixed("m1", "m2", "m3", "m4"))
        await world.until(lambda: len(bindings(world)) == 4)
        await world.change(PLACEMENT, "shop", policy=fixed("m1", "m2", "m3"))
        await world.until(lambda: len(bindings(world)) == 3)
        assert not pending(world)
        await world.change(PLACEMENT, "shop", policy=fixed("m1", "m2"))
        await world.until(lambda: pending(world))
        assert "cluster m3" in pending(world)["message"]
        assert await on_members(world, STATEFUL_SET, "db", members=FIVE) == ["m1", "m2", "m3"]


async def test_a_placement_on_one_cluster_moves_without_confirmation():
    placement = make_placement(policy=fixed("fish"), strategy={"rollingUpdate": {"maxSurge": 0}})
    async with confirming(placement=placement) as world:
        await world.change(PLACEMENT, "shop", policy=fixed("lion"))
        await world.until(lambda: list(bindings(world)) == ["lion"])
        assert not world.events("RemovalPending")
        assert await on_members(world, STATEFUL_SET, "db") == ["lion"]


async def test_the_old_cluster_keeps_its_content_while_the_new_one_fails():
    async with confirming(placement=make_placement(policy=fixed("fish"))) as world:
        await world.add(make_member("sick", simulate="fail"))
        await world.until(lambda: world.has_joined("sick"))
        await world.change(PLACEMENT, "shop", policy=fixed("sick"))
        await world.until(lambda: state(world) == {"fish": "Unscheduled", "sick": "Bound"})
        assert annotation(bindings(world)["fish"], REMOVAL_PENDING).startswith("ReplacementNotAvailable ")
        assert not pending(world)
        assert await on_members(world, STATEFUL_SET, "db", members=("fish",)) == ["fish"]


async def test_all_clusters_are_replaced_one_by_one_within_the_surge():
    """The removals wait for replacements, and the limit of the surge makes the replacements wait for removals."""
    old, new = ("m1", "m2", "m3", "m4"), ("n1", "n2", "n3", "n4")
    async with confirming(*old, *new, placement=make_placement(policy=fixed(*old))) as world:
        await world.change(PLACEMENT, "shop", policy=fixed(*new))
        await world.until(lambda: tuple(bindings(world)) == new)
        assert not world.events("RemovalPending")
        assert await on_members(world, STATEFUL_SET, "db", members=(*old, *new)) == list(new)


async def test_a_member_that_leaves_is_never_pending():
    async with confirming(placement=make_placement(policy=fixed("fish"))) as world:
        await world.store.delete(MEMBER_CLUSTER, Key("fish"))
        await world.until(lambda: world.cache.get(MEMBER_CLUSTER, "fish") is None and not bindings(world))
        assert not world.events("RemovalPending")


async def test_a_pending_binding_that_another_client_deletes_comes_back_pending():
    async with confirming() as world:
        await world.change(PLACEMENT, "shop", policy={"placementType": "PickFixed", "clusterNames": []})
        await world.until(lambda: pending(world))
        await world.store.delete(BINDING, Key(bindings(world)["fish"]["metadata"]["name"]))
        uid = bindings(world)["fish"]["metadata"]["uid"]
        await world.until(
            lambda: bindings(world).get("fish", {"metadata": {}})["metadata"].get("uid") not in (uid, None)
        )
        await world.until(lambda: "cluster fish" in pending(world).get("message", ""))
        assert await on_members(world, STATEFUL_SET, "db") == ["fish", "lion", "wolf"]


async def test_an_unreadable_record_does_not_count_an_earlier_replacement():
    async with confirming(placement=make_placement(policy=fixed("fish"))) as world:
        await world.change(PLACEMENT, "shop", policy=fixed("lion"))
        await world.until(lambda: list(bindings(world)) == ["lion"])
        assert annotation(bindings(world)["lion"], REPLACEMENT)
        await world.change(PLACEMENT, "shop", policy=fixed("lion", "wolf"))
        await world.until(lambda: state(world) == {"lion": "Bound", "wolf": "Bound"})
        await world.change(PLACEMENT, "shop", policy={"placementType": "PickFixed", "clusterNames": []})
        await world.until(lambda: set(state(world).values()) == {"Unscheduled"})
        await world.change(PLACEMENT, "shop", policy=fixed("lion"))
        await world.until(lambda: state(world) == {"lion": "Bound", "wolf": "Unscheduled"})
        unreadable = {REMOVAL_PENDING: "ConfirmationRequired yesterday"}
        key = Key(name_of(bindings(world)["wolf"]))
        await edit(world.store, BINDING, key, lambda binding: with_metadata(binding, annotations=unreadable))
        await world.until(lambda: PendingRemoval.of(bindings(world)["wolf"]).since is not None)
        assert await on_members(world, STATEFUL_SET, "db") == ["lion", "wolf"]


async def strip_the_record(world, key):
    await edit(world.store, BINDING, key, lambda it: with_metadata(it, annotations={REMOVAL_PENDING: None}))


async def strip_all_annotations(world, key):
    def stripped(binding):
        return {**binding, "metadata": {**binding["metadata"], "annotations": {}}}

    await edit(world.store, BINDING, key, stripped)


async def strip_the_record_after_the_window(world, key):
    world.ahead = timedelta(hours=2)
    await strip_the_record(world, key)


async def strip_the_record_and_delete(world, key):
    async with held_up(world.loop.queues["scheduler"]):
        await strip_the_record(world, key)
        await world.store.delete(BINDING, key)
        await until(lambda: world.loop.queues["rollout"].idle and world.loop.queues["work"].idle)


@pytest.mark.parametrize(
    "act", [strip_the_record, strip_all_annotations, strip_the_record_after_the_window, strip_the_record_and_delete]
)
async def test_a_record_that_another_client_takes_off_orders_nothing(act):
    async with confirming(*FIVE, placement=make_placement(policy=fixed(*FIVE))) as world:
        await world.change(PLACEMENT, "shop", policy=fixed("m1", "m2", "m3"))
        await world.until(lambda: sorted(bindings(world)) == ["m1", "m2", "m3"])
        await world.change(PLACEMENT, "shop", policy=fixed("m1", "m2"))
        await world.until(lambda: pending(world))
        await act(world, Key(bindings(world)["m3"]["metadata"]["name"]))
        await world.until(lambda: pending(world) and annotation(bindings(world)["m3"], REMOVAL_PENDING))
        assert await on_members(world, STATEFUL_SET, "db", members=FIVE) == ["m1", "m2", "m3"]
        assert bool(world.events("BindingsRestored")) is (act is not strip_the_record_and_delete)
        before = world.store.resource_version
        world.again()
        await world.until(lambda: True)
        assert world.store.resource_version == before or world.ahead, "agents count as silent then"


async def test_new_clusters_are_added_while_others_wait():
    async with confirming(*FIVE, placement=make_placement(policy=pick_n(5))) as world:
        await world.change(PLACEMENT, "shop", policy=pick_n(1))
        await world.until(lambda: pending(world))
        assert len(digests(world)) == 4
        await world.change(PLACEMENT, "shop", policy=pick_n(2))
        await world.until(lambda: list(state(world).values()).count("Bound") == 2)
        assert len(digests(world)) == 3
        assert await on_members(world, STATEFUL_SET, "db", members=FIVE) == list(FIVE)


@pytest.mark.parametrize("label", ["a", "b"])
async def test_taking_a_label_off_members_in_a_loop(label):
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"use": label}}}]
        }
    }
    policy = {"placementType": "PickAll", "affinity": {"clusterAffinity": affinity}}
    async with confirming(*FIVE, placement=make_placement(policy=fixed(*FIVE))) as world:
        for member in FIVE:
            await edit(world.store, MEMBER_CLUSTER, Key(member), lambda it: with_metadata(it, labels={"use": label}))
        await world.change(PLACEMENT, "shop", policy=policy)
        await world.until(lambda: set(state(world).values()) == {"Bound"} and len(state(world)) == 5)
        for member in FIVE:
            await edit(world.store, MEMBER_CLUSTER, Key(member), lambda it: with_metadata(it, labels={"use": None}))
        tolerant = {**policy, "tolerations": [{"key": "x", "operator": "Exists"}]}
        await world.change(PLACEMENT, "shop", policy=tolerant)
        await world.until(lambda: pending(world))
        assert await on_members(world, STATEFUL_SET, "db", members=FIVE) == list(FIVE)
