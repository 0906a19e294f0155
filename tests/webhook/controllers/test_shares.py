"""What belongs to which share of the work: every key to exactly one, and all that writes an object to the same."""

import asyncio
import gc
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import combinations

import pytest

from scorer.api import kinds
from scorer.api.family import placement_ref
from scorer.api.kinds import KINDS
from scorer.api.names import PARENT_PLACEMENT
from scorer.shards import Share
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.webhook.controllers.by_hand import Served
from tests.webhook.controllers.waking import make
from tests.webhook.controllers.world import CONFIG_MAP, NO_DEBOUNCE, make_config_map, make_member, pick_n, running
from webhook.controllers.assembly import CONTROLLERS, make_loop
from webhook.controllers.machinery.loop import Loop
from webhook.controllers.machinery.wiring import NODES, UPGRADES
from webhook.controllers.nodes.disruption import KEY
from webhook.controllers.placements.overrides import OverrideRef
from webhook.controllers.placements.resource_watches import Selectables
from webhook.controllers.placements.work_generator import BindingRef
from webhook.controllers.staged_updates.analysis import RequestRef
from webhook.controllers.staged_updates.runs import RunRef
from webhook.controllers.upgrades.profiles import UpgradeDefinitionRef
from webhook.embedded.storage.kinds import EmbeddedKinds
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Key, key_of
from webhook.settings.analysis import AnalysisOptions
from webhook.settings.gate import NodeDisruptionMode, NodeDisruptionOptions
from webhook.settings.loop import LoopSettings

COUNT = 4
OF_UPGRADES = {"upgrade_profile", "cluster_upgrade", "upgrade_plan"}
OF_NODES = {"node_pool", "node_disruption"}
KEYS = {
    "member": "hamburg",
    "override": OverrideRef("red", "team"),
    "placement": placement_ref("web"),
    "advisory": placement_ref("web"),
    "scheduler": placement_ref("web"),
    "rollout": placement_ref("web"),
    "back_report": placement_ref("web"),
    "staged_update": RunRef("run"),
    "analysis": RequestRef("run-after-canary"),
    "work": BindingRef(kinds.PLACEMENT.kind, "web-hamburg"),
    "eviction": "off",
    "upgrade_profile": UpgradeDefinitionRef(kinds.UPGRADE_PROFILE, "spring"),
    "cluster_upgrade": "spring-1",
    "upgrade_plan": "spring-1",
    "node_pool": "general",
    "node_disruption": KEY,
}
"""A key of each controller, whose object is among `OBJECTS`."""
OBJECTS = (
    make(kinds.PLACEMENT, "web"),
    make(kinds.BINDING, "web-hamburg", labels={PARENT_PLACEMENT: "web"}, spec={"targetCluster": "hamburg"}),
    make(kinds.STAGED_RUN, "run", spec={"placementName": "web"}),
    make(kinds.APPROVAL_REQUEST, "run-after-canary", spec={"parentStageRollout": "run", "targetStage": "canary"}),
    make(kinds.EVICTION, "off", spec={"placementName": "web", "clusterName": "hamburg"}),
)


@pytest.fixture
def loops():
    """The loops of all shards, over one cache with `OBJECTS`."""
    store = EmbeddedStore.open(None)
    cache = Cache(store)
    for number, each in enumerate(OBJECTS):
        group = each["apiVersion"].rpartition("/")[0]
        metadata = {**each["metadata"], "resourceVersion": str(number + 1)}
        cache.of_kind(KINDS[group, each["kind"]]).put({**each, "metadata": metadata})

    def loop(shard):
        how = LoopSettings(
            analysis=AnalysisOptions(kinds=frozenset({"jobs.batch"})),
            node_disruption=NodeDisruptionOptions(NodeDisruptionMode.ADVISE),
            share=Share(shard, COUNT),
        )
        return make_loop(Hub(store, cache), loop_now, Selectables(cache, Served(*KINDS.values()), how.selection), how)

    yield [loop(shard) for shard in range(COUNT)]
    store.close()


def owners(loops):
    """Which loops reconcile the key of each controller."""
    return {
        name: [shard for shard, loop in enumerate(loops) if name in loop.queues and loop.queues[name].owns(key)]
        for name, key in KEYS.items()
    }


async def test_every_kind_of_key_has_exactly_one_owner(loops):
    assert KEYS.keys() == set(CONTROLLERS)
    found = owners(loops)
    assert all(len(shards) == 1 for shards in found.values()), found


async def test_all_that_writes_the_objects_of_a_placement_belongs_to_it(loops):
    writers = (
        "placement",
        "advisory",
        "scheduler",
        "rollout",
        "back_report",
        "staged_update",
        "analysis",
        "work",
        "eviction",
    )
    named = {each.name: each.owner(KEYS[each.name]) for each in loops[0].controllers}
    assert {named[name] for name in writers} == {"crp/web"}


async def test_what_is_gone_is_nobodys_and_each_forgets_it(loops):
    gone = {
        "staged_update": RunRef("gone"),
        "analysis": RequestRef("gone"),
        "work": BindingRef(kinds.PLACEMENT.kind, "gone"),
        "eviction": "gone",
    }
    for name, key in gone.items():
        assert all(loop.queues[name].owns(key) for loop in loops)


async def test_what_decides_for_the_whole_hub_runs_once(loops):
    for shard, loop in enumerate(loops):
        share = Share(shard, COUNT)
        assert (loop.queues.keys() >= OF_UPGRADES) == (not loop.queues.keys().isdisjoint(OF_UPGRADES))
        assert (loop.queues.keys() >= OF_UPGRADES) == share.owns(UPGRADES)
        assert (loop.queues.keys() >= OF_NODES) == share.owns(NODES)
        assert loop.queues.keys() >= set(CONTROLLERS) - OF_UPGRADES - OF_NODES


async def test_keys_of_a_family_are_spread_over_all_shards(loops):
    for name, keys in {
        "placement": [placement_ref(f"app-{number}") for number in range(100)],
        "member": [f"member-{number}" for number in range(100)],
        "override": [OverrideRef(f"override-{number}") for number in range(100)],
    }.items():
        counts = [sum(map(loop.queues[name].owns, keys)) for loop in loops]
        assert sum(counts) == 100
        assert min(counts) >= 10, name


async def test_what_is_not_ours_never_gets_in_line(loops):
    ref = placement_ref("web")
    queues = [loop.queues["placement"] for loop in loops]
    for queue in queues:
        queue.add(ref)
    assert sorted(map(len, queues)) == [0, 0, 0, 1]


class Noting:
    """A store that notes which objects are written through it."""

    def __init__(self, store):
        self._store = store
        self.written = set()

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def _write(self, verb, kind, document):
        stored = await getattr(self._store, verb)(kind, document)
        self.written.add((kind.kind, key_of(stored)))
        return stored

    async def create(self, kind, document):
        return await self._write("create", kind, document)

    async def replace(self, kind, document):
        return await self._write("replace", kind, document)

    async def replace_metadata(self, kind, document):
        return await self._write("replace_metadata", kind, document)

    async def replace_status(self, kind, document):
        return await self._write("replace_status", kind, document)

    async def delete(self, kind, key, **preconditions):
        self.written.add((kind.kind, key))
        await self._store.delete(kind, key, **preconditions)


@asynccontextmanager
async def sharing(world):
    """Run, beside a world of no share of its own, a process for each shard; yields their stores."""
    stores = [Noting(world.store) for _ in range(COUNT)]
    tasks = []
    for shard, store in enumerate(stores):
        cache, how = Cache(store), LoopSettings(snapshots=NO_DEBOUNCE, share=Share(shard, COUNT))
        selectables = Selectables(cache, EmbeddedKinds(world.store.kinds), how.selection)
        loop = make_loop(Hub(store, cache), loop_now, selectables, how)
        tasks += [asyncio.create_task(cache.run()), asyncio.create_task(loop.run())]
    try:
        yield stores
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_processes_that_share_the_work_do_all_of_it_and_never_write_the_same_object():
    """Placed, changed, evicted, deleted, and a member that leaves: what was written through each store is disjoint.

    All but the Works on the member that leaves: at the end its own controller clears them away, see `owner_of_member`.
    """
    async with running(share=Share(0, 64)) as world:  # which owns none of what follows
        names = [f"app-{number}" for number in range(8)]
        assert not any(Share(0, 64).owns(f"crp/{name}") for name in names)
        assert not any(Share(0, 64).owns(f"member/{name}") for name in "abcd")
        async with sharing(world) as stores:
            await world.add(*(make_member(name) for name in "abcd"))
            for name in names:
                await world.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
                await world.add(make_config_map("rates", name, value="1"))
            await world.add(*(make_placement(name, pick_n(2), home=name) for name in names))
            await world.until(lambda: all(world.view(name)["available"] == 2 for name in names))
            rates = await world.store.get(CONFIG_MAP, Key("rates", "app-2"))
            await world.store.replace(CONFIG_MAP, {**rates, "data": {"value": "2"}})
            await world.add(
                make(kinds.EVICTION, "off", spec={"placementName": "app-0", "clusterName": world.bound("app-0")[0]})
            )
            await world.delete_placement("app-1")
            await world.until(lambda: world.cache.get(kinds.PLACEMENT, "app-1") is None)
            await world.until(lambda: "True" in str(world.cache.get(kinds.EVICTION, "off")))
            before = [set(store.written) for store in stores]
            await world.store.delete(kinds.MEMBER_CLUSTER, Key("d"))
            await world.until(lambda: world.cache.get(kinds.MEMBER_CLUSTER, "d") is None)
        assert not written_twice(before)
        cleared = written_twice(store.written for store in stores)
        assert {(kind, key.namespace) for kind, key in cleared} <= {("Work", "fleet-member-d")}
        assert all(store.written for store in stores)
        assert {kind for store in stores for kind, _ in store.written} >= {
            "ClusterResourcePlacement",
            "ClusterResourceBinding",
            "Work",
            "MemberCluster",
            "ClusterResourcePlacementEviction",
        }


async def test_shares_that_have_moved_write_nothing_again_and_leave_nothing_of_their_loops_behind():
    async with running(share=Share(0, 64)) as world:
        names = [f"app-{number}" for number in range(6)]
        await world.add(*(make_member(name) for name in "abc"))
        async with sharing(world):
            await world.add(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names))
            await world.add(*(make_placement(name, pick_n(2), home=name) for name in names))
            await world.until(lambda: all(world.view(name)["available"] == 2 for name in names))
        store = Noting(world.store)
        cache, how = Cache(store), LoopSettings(snapshots=NO_DEBOUNCE)
        selectables = Selectables(cache, EmbeddedKinds(world.store.kinds), how.selection)
        reading = asyncio.create_task(cache.run())
        left = []
        for _ in range(3):  # all shares come to one process, and go again
            shares = [Share(shard, COUNT) for shard in range(COUNT)]
            loops = [make_loop(Hub(store, cache), loop_now, selectables, replace(how, share=share)) for share in shares]
            tasks = [asyncio.create_task(loop.run()) for loop in loops]
            await world.until(
                lambda loops=loops: sum(map(done, loops)) >= len(names) and all(each.idle for each in loops)
            )
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            del loops, tasks
            gc.collect()
            left.append(sum(isinstance(each, (Hub, Loop)) for each in gc.get_objects()))
        assert store.written == set()
        assert left == [left[0]] * 3
        reading.cancel()
        await asyncio.wait([reading])


def done(loop):
    """How often it has reconciled a placement."""
    return loop.queues["placement"].reconciled


def written_twice(parts):
    """What is in more than one of these sets."""
    return {each for one, other in combinations(list(parts), 2) for each in one & other}
