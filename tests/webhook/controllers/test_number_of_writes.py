"""What the loop writes for a placement, from its creation until all of its Works exist: each object once."""

from collections import Counter
from datetime import timedelta

import pytest

from scorer.api.family import CLUSTER, PlacementRef
from scorer.api.kinds import BINDING, PLACEMENT, WORK
from scorer.member_gate.holds import MemberDisruption
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.waiting import until
from tests.webhook.controllers.upgrade_world import annotate, make_window
from tests.webhook.controllers.world import controller, held_up, make_config_map, make_member, pick_n, running
from webhook.embedded.simulation.annotations import SIMULATE_APPLY
from webhook.kube.ports import Key, UnavailableError

POLICY, CONTENT = CLUSTER.policy_snapshot, CLUSTER.resource_snapshot
WRITES = ("create", "replace", "replace_metadata", "replace_status", "delete")
COUNTED = (PLACEMENT, POLICY, CONTENT, BINDING, WORK)


class Counting:
    """A store that counts the writes of one of its clients, by verb and kind, and notes what was created."""

    def __init__(self, inner):
        self.writes = Counter()
        self.created, self.order = [], []
        self._inner = inner

    def __getattr__(self, name):
        method = getattr(self._inner, name)
        if name not in WRITES:
            return method

        async def counted(kind, *arguments, **options):
            if kind in COUNTED:
                self.writes[name, kind.kind] += 1
            if (name, kind) == ("create", BINDING):
                self.created.append(arguments[0])
            if name == "create" and kind in (POLICY, CONTENT):
                self.order.append(kind.kind)
            return await method(kind, *arguments, **options)

        return counted


@pytest.fixture(autouse=True)
def _what_changes_together_is_stored_together(monkeypatch):
    monkeypatch.setattr("webhook.kube.cache.hub.STATUS_DELAY_SECONDS", 1.0)


async def counting(world, *members):
    """Let members join that apply nothing for now, and count the writes of the loop from then on."""
    for member in map(make_member, members):
        member["metadata"]["annotations"][SIMULATE_APPLY] = "slow=600s"
        await world.add(member)
    await world.until(lambda: all(member.status.properties for member in world.cache.fleet.members))
    world.hub.store = Counting(world.store)
    return world.hub.store


async def soon(test):
    """Wait until *test* holds, while queues are held up."""
    await until(test)


def started(world, name):
    return world.condition(name, "WorkSynchronized").get("status") == "True"


async def test_a_new_placement_costs_three_writes_for_each_cluster_and_six_more():
    async with running() as world:
        store = await counting(world, *"abc")
        await world.add(make_placement("p", pick_n(3)))
        await world.until(lambda: started(world, "p"))
        assert store.writes == {
            ("replace_metadata", PLACEMENT.kind): 1,
            ("create", CONTENT.kind): 1,
            ("create", POLICY.kind): 1,
            ("create", BINDING.kind): 3,
            ("create", WORK.kind): 3,
            ("replace_status", POLICY.kind): 1,
            ("replace_status", BINDING.kind): 3,
            ("replace_status", PLACEMENT.kind): 1,
        }
        store.writes.clear()
        world.again()
        await world.until(lambda: True)
        assert store.writes == {}


async def test_the_first_bindings_are_created_as_the_rollout_wants_them():
    async with running() as world:
        store = await counting(world, *"ab")
        strategy = {"type": "RollingUpdate", "applyStrategy": {"type": "ReportDiff"}}
        await world.add(make_placement("p", pick_n(2), strategy=strategy))
        await world.until(lambda: started(world, "p"))
        assert store.writes["replace", BINDING.kind] == 0
        for binding in store.created:
            assert binding["spec"]["state"] == "Bound"
            assert binding["spec"]["resourceSnapshotName"] == "p-0-snapshot"
            assert binding["spec"]["applyStrategy"]["type"] == "ReportDiff"
            assert "kubernetes-fleet.io/work-cleanup" in binding["metadata"]["finalizers"]
        said = [condition for binding in world.cache.list(BINDING) for condition in binding["status"]["conditions"]]
        messages = sorted(condition["message"] for condition in said if condition["type"] == "RolloutStarted")
        assert messages == ["rolling out p-0-snapshot to a", "rolling out p-0-snapshot to b"]


async def test_a_cluster_that_is_added_later_is_bound_by_the_rollout():
    """Its limits count what else goes on by then."""
    async with running() as world:
        store = await counting(world, *"abc")
        await world.add(make_placement("p", pick_n(2)))
        await world.until(lambda: started(world, "p"))
        store.created.clear()
        await world.change(PLACEMENT, "p", policy=pick_n(3))
        await world.until(lambda: started(world, "p") and len(world.works()) == 3)
        assert [binding["spec"]["state"] for binding in store.created] == ["Scheduled"]
        assert store.writes["replace", BINDING.kind] == 1


@pytest.mark.parametrize("why", ["gated", "external", "closed"])
async def test_where_something_comes_before_the_rollout_the_first_bindings_are_created_unbound(why):
    gated = (MemberDisruption.ROLLOUT,) if why == "gated" else ()
    async with running(gate_members=gated) as world:
        store = await counting(world, "a", "b")
        if why == "closed":
            await world.add(make_window("night", f"{loop_now() + timedelta(hours=3):%H:%M}"))
            await annotate(world, "a", upgrade_windows="night")
            await world.until(lambda: True)
        strategy = {"type": "External" if why == "external" else "RollingUpdate"}
        await world.add(make_placement("p", pick_n(2), strategy=strategy))
        await world.until(lambda: len(store.created) == 2)
        states = {binding["spec"]["targetCluster"]: binding["spec"]["state"] for binding in store.created}
        assert states == {"a": "Scheduled", "b": "Bound" if why == "closed" else "Scheduled"}


async def test_a_binding_that_exists_already_is_left_as_it_is():
    """A first attempt may have created it, and its answer was lost."""
    async with running() as world:
        store = await counting(world, *"ab")
        create, lost = world.store.create, []

        async def losing(kind, document):
            stored = await create(kind, document)
            if kind == BINDING and not lost:
                lost.append(stored)
                raise UnavailableError("the answer is lost")
            return stored

        world.store.create = losing
        await world.add(make_placement("p", pick_n(2)))
        await world.until(lambda: started(world, "p") and len(world.works()) == 2)
        assert len(lost) == 1
        assert len(store.created) == 2
        assert (await world.store.get(BINDING, Key(lost[0]["metadata"]["name"])))["metadata"]["generation"] == 1


async def test_a_policy_that_nobody_can_read_any_more_is_scheduled_as_it_was_recorded():
    """Past admission, right after its snapshot was made: the rollout says so, and the scheduler creates what it has."""
    async with running() as world:
        store = await counting(world, *"ab")
        async with held_up(world.loop.queues["scheduler"]):
            await world.add(make_placement("p", pick_n(2)))
            await soon(lambda: len(world.cache.list(POLICY)) == 1)
            async with held_up(world.loop.queues["placement"]):
                await world.change(PLACEMENT, "p", policy={"placementType": "PickSome"})
                await soon(lambda: world.cache.get(PLACEMENT, "p")["metadata"]["generation"] == 2)
                scheduler = controller(world.loop, "scheduler")
                await scheduler.reconcile(PlacementRef(PLACEMENT.kind, "p"))
        assert [binding["spec"]["state"] for binding in store.created] == ["Scheduled", "Scheduled"]


async def test_a_later_policy_is_recorded_before_new_content():
    """What is to leave a cluster does not get the new content there first."""
    async with running() as world:
        store = await counting(world, *"ab")
        await world.add(make_placement("p", pick_n(2)))
        await world.until(lambda: started(world, "p"))
        assert store.order == [CONTENT.kind, POLICY.kind]
        store.order.clear()
        async with held_up(world.loop.queues["placement"]):
            await world.add(make_config_map("more", value="1"))
            await world.change(PLACEMENT, "p", policy={"placementType": "PickFixed", "clusterNames": ["a"]})
            await soon(lambda: world.cache.get(PLACEMENT, "p")["metadata"]["generation"] == 2)
        await world.until(lambda: world.bound("p") == ["a"] and len(store.order) == 2)
        assert store.order == [POLICY.kind, CONTENT.kind]
