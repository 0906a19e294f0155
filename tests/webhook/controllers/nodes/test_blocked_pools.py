"""Events of pools that stay shut: once for each time, and once more when that is over."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from scorer.api.kinds import NODE, NODE_CLAIM, NODE_POOL, POD
from tests.virtual_time import loop_now
from tests.waiting import until
from tests.webhook.controllers.world import NO_DEBOUNCE, running
from tests.webhook.gate.gates import put_pool
from webhook.controllers.assembly import make_loop, required
from webhook.controllers.machinery.result import DONE
from webhook.controllers.nodes.blocked_pools import POLL_INTERVAL, NodePoolController
from webhook.controllers.placements.resource_watches import Selectables
from webhook.embedded.storage.kinds import EmbeddedKinds
from webhook.embedded.storage.store import EmbeddedStore
from webhook.gate.pools import HubNodePools
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import ForbiddenError, Key
from webhook.processes.reconcile import Reconciliation
from webhook.settings.loop import HubLoopSettings, LoopSettings
from webhook.telemetry.loop_metrics import LoopMetrics
from webhook.telemetry.metrics import Metrics

FRIDAY = datetime(2026, 6, 12, 12, tzinfo=UTC)
WEEKEND = {"nodes": "0", "schedule": "30 18 * * 5", "duration": "62h"}
"""From Friday 18:30 to Monday 08:30."""
HOUR = timedelta(hours=1)


class Harbour:
    """One pool, its controller, and what it has told."""

    def __init__(self, store, cache, pools):
        self.store, self.cache, self.pools = store, cache, pools
        self.hub = Hub(store, cache)
        self.now = FRIDAY
        self.told = []
        self.registry = CollectorRegistry()
        self.metrics = LoopMetrics(self.registry, lambda: True)
        self.observer = self.metrics.term()
        self.restart()

    def restart(self):
        """Let another process take over, which remembers nothing."""
        self.observer.ended()
        self.observer = self.metrics.term()
        self.controller = NodePoolController(
            self.hub,
            self.pools,
            lambda: self.now,
            lambda document, event: self.told.append((document, event)),
            self.observer,
        )

    async def look(self, **advance):
        self.now += timedelta(**advance)
        return await self.controller.reconcile("a")

    async def walk(self, until):
        """Look whenever it is asked for, up to an instant."""
        while (result := await self.look()).requeue_after and self.now + result.requeue_after <= until:
            self.now += result.requeue_after
        self.now = until

    async def set_budgets(self, *budgets):
        stored = await self.store.get(NODE_POOL, Key("a"))
        await self.store.replace(NODE_POOL, stored | {"spec": {"disruption": {"budgets": list(budgets)}}})
        await self._until(lambda: len(self.pools.pool("a").budgets) == len(budgets))

    async def add_node(self, name):
        claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name}, "spec": {}}
        stored = await self.store.create(NODE_CLAIM, claim)
        await self._write_status(NODE_CLAIM, stored, {"nodeName": name})
        labels = {"karpenter.sh/nodepool": "a", "karpenter.sh/initialized": "true"}
        stored = await self.store.create(
            NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}}
        )
        await self._write_status(NODE, stored, {"conditions": [{"type": "Ready", "status": "True"}]})
        await self._until(lambda: name in self.pools.pool("a").nodes and self.pools.pool("a").nodes[name].counts)

    async def _write_status(self, kind, stored, status):
        await self.store.replace_status(kind, stored | {"status": status})

    async def _until(self, condition):
        await until(condition)

    @property
    def shut(self):
        return self.registry.get_sample_value("harbormaster_node_pools_shut", {"kind": "NodePool"})

    @property
    def events(self):
        return [(event.reason, event.message) for _, event in self.told]


@pytest.fixture
async def harbour():
    @asynccontextmanager
    async def start(*budgets, nodes=2, age=30):
        store = EmbeddedStore.open(None, now=lambda: FRIDAY - timedelta(days=age))
        spec = {"disruption": {"budgets": list(budgets)}}
        await store.create(
            NODE_POOL, {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": spec}
        )
        cache = Cache(store)
        pools = HubNodePools(cache)
        task = asyncio.create_task(cache.run())
        await cache.wait_synced((NODE_POOL, NODE_CLAIM, NODE))
        made = Harbour(store, cache, pools)
        for number in range(nodes):
            await made.add_node(f"n{number}")
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.wait([task])
            store.close()

    return start


async def test_a_pool_that_is_open_is_looked_at_now_and_then_and_nothing_is_told(harbour):
    async with harbour({"nodes": "1"}) as world:
        assert (await world.look()).requeue_after == POLL_INTERVAL
        assert (await world.look(days=3)).requeue_after == POLL_INTERVAL
    assert world.told == []


async def test_a_pool_that_has_been_shut_for_a_day_is_counted_until_it_is_open_also_by_the_next_leader(harbour):
    async with harbour(WEEKEND) as world:
        await world.walk(datetime(2026, 6, 13, 18, 29, tzinfo=UTC))
        assert (world.told, world.shut) == ([], 0)
        await world.look(minutes=1)
        assert (len(world.told), world.shut) == (1, 1)
        world.restart()
        assert world.shut == 0
        await world.look(hours=1)
        assert (len(world.told), world.shut) == (1, 1)
        await world.walk(datetime(2026, 6, 15, 8, 30, tzinfo=UTC))
        await world.look()
        assert world.shut == 0


async def test_a_pool_is_counted_until_it_is_deleted(harbour):
    async with harbour({"nodes": "0"}) as world:
        await world.look()
        assert world.shut == 1
        await world.store.delete(NODE_POOL, Key("a"))
        await world._until(lambda: world.pools.pool("a") is None)
        await world.look()
        assert world.shut == 0


async def test_a_new_pool_that_lets_no_node_go_is_counted_after_a_day(harbour):
    async with harbour({"nodes": "0"}, age=0) as world:
        await world.look()
        assert world.shut == 0
        await world.look(days=1)
        assert world.shut == 1


async def test_a_window_of_more_than_a_day_is_told_a_day_after_it_began_and_when_it_is_over(harbour):
    async with harbour(WEEKEND) as world:
        await world.walk(datetime(2026, 6, 13, 18, 29, tzinfo=UTC))
        assert world.told == []
        await world.walk(datetime(2026, 6, 13, 18, 30, tzinfo=UTC))
        await world.look()
        [(document, event)] = world.told
        assert (document["metadata"]["name"], event.type) == ("a", "Warning")
        assert event.message == (
            "Budgets have allowed 0 disruptions (Underutilized, Empty, Drifted, Unhealthy) for more than a day, "
            'because of budgets[0] (nodes "0", schedule "30 18 * * 5", duration 62h), until '
            "2026-06-15T08:30:00Z"
        )
        await world.walk(datetime(2026, 6, 19, 12, tzinfo=UTC))
        assert [reason for reason, _ in world.events] == ["DisruptionBlocked", "DisruptionUnblocked"]
        assert world.events[1][1] == "Nodes may be disrupted again: Underutilized, Empty, Drifted, Unhealthy"
        await world.walk(datetime(2026, 6, 21, 12, tzinfo=UTC))
        assert [reason for reason, _ in world.events] == [
            "DisruptionBlocked",
            "DisruptionUnblocked",
            "DisruptionBlocked",
        ]


async def test_a_night_is_not_worth_a_word(harbour):
    async with harbour({"nodes": "0", "schedule": "0 18 * * *", "duration": "14h"}) as world:
        await world.walk(FRIDAY + timedelta(days=5))
    assert world.told == []


async def test_what_is_told_once_is_not_told_at_every_look(harbour):
    async with harbour({"nodes": "0"}) as world:
        await world.look()
        for _ in range(10):
            await world.look(hours=12)
    [(reason, message)] = world.events
    assert reason == "DisruptionBlocked"
    assert message.endswith('because of budgets[0] (nodes "0"), until its budgets change')


async def test_who_takes_over_repeats_nothing_at_once(harbour):
    async with harbour({"nodes": "0"}) as world:
        await world.look()
        await world.look(hours=24)
        world.restart()
        await world.look(hours=1)
        await world.look(hours=23)
        assert len(world.told) == 1
        await world.look(hours=1)
    assert [message for _, message in world.events] == [world.events[0][1]] * 2


async def test_a_day_that_began_before_the_process_counts(harbour):
    async with harbour(WEEKEND) as world:
        assert (await world.look(hours=20)).requeue_after == timedelta(hours=10, minutes=30)  # since 18:30
        await world.look(hours=10, minutes=30)
    assert [reason for reason, _ in world.events] == ["DisruptionBlocked"]


async def test_reasons_for_other_causes_are_told_apart(harbour):
    budgets = [{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "0", "reasons": ["Empty"]}]
    async with harbour(*budgets) as world:
        await world.look()
        await world.look(hours=24)
    [(_, message)] = world.events  # further ones would only be counted
    assert sorted(sentence.partition(",")[0] for sentence in message.split(". ")) == [
        "Budgets have allowed 0 disruptions (Drifted) for more than a day",
        "Budgets have allowed 0 disruptions (Empty) for more than a day",
    ]


async def test_a_budget_that_cannot_be_used_is_told_with_its_mistake(harbour):
    async with harbour({"nodes": "1", "schedule": "soon", "duration": "1h"}) as world:
        await world.look()
        await world.look(hours=24)
    [(_, message)] = world.events
    assert 'budgets[0] (nodes "1", schedule "soon", duration 1h), which is invalid: ' in message


async def test_a_pool_that_is_opened_by_hand_is_told_to_be_open(harbour):
    async with harbour({"nodes": "0"}) as world:
        await world.look()
        await world.look(hours=24)
        await world.set_budgets({"nodes": "1"}, {"nodes": "0", "reasons": ["Empty"]})
        await world.look()
        await world.look()
    assert world.events[1:] == [
        ("DisruptionUnblocked", "Nodes may be disrupted again: Underutilized, Drifted, Unhealthy")
    ]


async def test_a_pool_without_nodes_is_not_shut(harbour):
    async with harbour({"nodes": "0"}, nodes=0) as world:
        await world.look()
        await world.look(hours=30)
        assert world.told == []
        await world.add_node("n1")
        await world.look()
        assert (await world.look(hours=23)).requeue_after == HOUR
        await world.look(hours=1)
    assert len(world.told) == 1


async def test_a_pool_that_is_gone_is_forgotten(harbour):
    async with harbour({"nodes": "0"}) as world:
        await world.look()
        await world.store.delete(NODE_POOL, Key("a"))
        await world._until(lambda: world.pools.pool("a") is None)
        assert await world.look(hours=24) == DONE
    assert world.told == []


async def test_a_term_of_the_loop_counts_nodes_without_pods_and_leaves_nothing_behind():
    """Pods are many and tell nothing here; the next term has a loop of its own on the same cache."""
    async with running() as world:
        await put_pool(world.store, "a", 2, {"nodes": "0"})
        await world.until(lambda: bool(world.loop.queues["node_pool"].idle and world.cache.get(NODE_CLAIM, "a-1")))
        assert not world.cache.watches(POD)
        handlers = {kind: list(world.cache.of_kind(kind).handlers) for kind in (NODE_POOL, NODE_CLAIM, NODE)}
        settings = LoopSettings(snapshots=NO_DEBOUNCE)
        following = make_loop(world.hub, loop_now, world.selectables, settings)
        term = asyncio.create_task(following.run())
        await world.until(lambda: following.idle)
        assert len(world.cache.of_kind(NODE).handlers) == len(handlers[NODE]) + 1
        term.cancel()
        await asyncio.wait([term])
        assert {kind: world.cache.of_kind(kind).handlers for kind in handlers} == handlers


async def test_a_hub_on_which_pools_may_not_be_read_is_reconciled_all_the_same(harbour):
    class Denied:
        def __init__(self, store):
            self._store = store

        def __getattr__(self, name):
            return getattr(self._store, name)

        async def list(self, kind, namespace=None, labels=None):
            if kind in (NODE_POOL, NODE_CLAIM, NODE):
                raise ForbiddenError(f"{kind.plural} is forbidden")
            return await self._store.list(kind, namespace, labels)

    async with harbour({"nodes": "0"}) as world:
        store = Denied(world.store)
        cache = Cache(store)
        reconciliation = Reconciliation(store, store, cache, HubLoopSettings(), Metrics())
        settings = LoopSettings(snapshots=NO_DEBOUNCE)
        selectables = Selectables(cache, EmbeddedKinds(world.store.kinds), settings.selection)
        make_loop(Hub(store, cache), loop_now, selectables, settings)
        assert reconciliation.problem() == "not synced yet"
        watching = asyncio.create_task(cache.run())
        await cache.wait_answered((NODE_POOL, NODE_CLAIM, NODE))
        await cache.wait_synced(required(HubLoopSettings().loop()))
        assert reconciliation.problem() == ""
        watching.cancel()
        await asyncio.wait([watching])
