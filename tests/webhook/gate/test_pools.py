"""The pools of a hub over a cache: every change shows in the next view."""

import asyncio
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from scorer.api import kinds
from scorer.api.node_pool import Budget
from scorer.node_budgets.answer import GateVerdict
from scorer.node_budgets.blockers import BlockReason, DisruptionClass
from scorer.node_budgets.budgets import NodeCounts
from scorer.node_budgets.gate import answer
from scorer.node_budgets.question import NodeGateQuestion
from tests.scorer.node_pool_builders import claim, guard, node, pod, pool
from tests.waiting import PATIENCE_SECONDS, until
from webhook.answers.extender import HubExtender
from webhook.embedded.storage.store import EmbeddedStore
from webhook.gate.pools import HubNodePools, read_budgets
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import ForbiddenError, NotFoundError, key_of
from webhook.settings.extender import ExtenderSettings

EXAMPLES = Path(__file__).parents[3] / "examples" / "fleet"
NOW = datetime(2026, 6, 10, 12, tzinfo=UTC)
PROTECT = {"karpenter.sh/do-not-disrupt": "true"}
HALF = [{"nodes": "50%"}]


class Hub:
    """A store with a cache over it, and the pools."""

    def __init__(self, store, cache, pools):
        self.store, self.cache, self.pools = store, cache, pools
        self.changed = []
        pools.subscribe(self.changed.append)

    async def write(self, *documents):
        """Create or change objects, with their status; a deletion mark deletes, and a finalizer holds."""
        for document in documents:
            kind = kinds.KINDS[kinds.group_kind(document)]
            wanted = deepcopy(document)
            deleting = wanted["metadata"].pop("deletionTimestamp", None)
            wanted["metadata"] |= {"finalizers": ["example.com/hold"]} if deleting else {}
            await self._store(kind, wanted)
            if deleting:
                await self.store.delete(kind, key_of(wanted))
            await self._seen(kind, key_of(wanted))

    async def delete(self, document):
        kind = kinds.KINDS[kinds.group_kind(document)]
        await self.store.delete(kind, key_of(document))
        await self._seen(kind, key_of(document))

    async def _store(self, kind, wanted):
        old = {key_of(each): each for each in (await self.store.list(kind)).items}.get(key_of(wanted))
        if old is None:
            stored = await self.store.create(kind, wanted)
        else:
            metadata = {**old["metadata"], **wanted["metadata"]}
            stored = await self.store.replace(kind, {**wanted, "metadata": metadata})
        if "status" in wanted:
            await self.store.replace_status(kind, {**stored, "status": wanted["status"]})

    async def _seen(self, kind, key):
        stored = {key_of(each): each for each in (await self.store.list(kind)).items}.get(key)
        if not self.cache.watches(kind):
            return
        await until(lambda: _version(self.cache.get(kind, *key)) == _version(stored))

    def counts(self, name="general"):
        view = self.pools.pool(name)
        counts = view.counts()
        return counts.total, counts.deleting, counts.not_ready

    def blockers(self, name, class_=DisruptionClass.GRACEFUL):
        pool_name, _ = self.pools.node(name)
        return [each.reason for each in self.pools.pool(pool_name).blockers_of(name, class_, NOW)]


def _version(document):
    return document and document["metadata"]["resourceVersion"]


@asynccontextmanager
async def hub(*documents, store=None, before=(), **options):
    """Run a hub with *documents* that come in while it runs; *before*: those that are there already."""
    store = store or EmbeddedStore.open(None, now=lambda: NOW)
    cache = Cache(store)
    found = Hub(store, cache, HubNodePools(cache, **options))
    await store.create(kinds.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    for document in before:
        await found._store(kinds.KINDS[kinds.group_kind(document)], document)
    assert not found.pools.synced
    task = asyncio.create_task(cache.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await cache.wait_synced((kinds.NODE_POOL, kinds.NODE_CLAIM, kinds.NODE))
    assert found.pools.synced
    try:
        await found.write(*documents)
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        store.close()


async def pods_listed(there):
    async with asyncio.timeout(PATIENCE_SECONDS):
        await there.cache.wait_synced((kinds.POD, kinds.POD_DISRUPTION_BUDGET))


def nodes(*names, **options):
    """Return nodes with their claims."""
    return [each for name in names for each in (claim(f"c-{name}", name), node(name, **options))]


async def test_counts_follow_nodes_and_claims():
    async with hub(pool(budgets=HALF), *nodes("a", "b", "c", "d")) as there:
        assert there.counts() == (4, 0, 0)
        await there.write(node("a", ready="Unknown"))
        assert there.counts() == (4, 0, 1)
        await there.write(claim("c-a", "a", deleting="now"))
        assert there.counts() == (4, 1, 0)
        await there.write(node("b", initialized=False), node("c", pool="other"))
        assert there.counts() == (2, 1, 0)
        await there.delete(node("d"))
        assert there.counts() == (1, 1, 0)
        await there.write(claim("c-a", "a", conditions=[("InstanceTerminating", "True")]))
        assert there.counts() == (0, 0, 0)
        assert set(there.pools.pool("general").nodes) == {"a", "b"}


async def test_what_is_there_already_is_read_too():
    async with hub(before=[*nodes("a", "b"), pool(budgets=HALF)]) as there:
        assert there.counts() == (2, 0, 0)
        assert there.pools.names() == ("general",)


async def test_the_condition_and_the_instance_survive_the_extender():
    """Both trim nodes the same way; what is left has all that a pool needs, and claims are kept whole."""
    store = EmbeddedStore.open(None, now=lambda: NOW)
    cache = Cache(store)
    there = Hub(store, cache, HubNodePools(cache))
    HubExtender(cache, ExtenderSettings(), lambda: NOW)
    task = asyncio.create_task(cache.run())
    tainted = node("b", instance="i-b", taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}])
    tainted["status"]["images"] = [{"names": ["large"]}]
    tainted["spec"]["unschedulable"] = True
    whole = claim("c-b", instance="i-b")
    whole["spec"]["requirements"] = []
    await there.write(
        pool(),
        *(claim("c-a", instance="i-a"), node("a", ready="False", instance="i-a")),
        *(whole, tainted),
        *(claim("c-c", instance="i-c"), node("c", instance="i-c", annotations=PROTECT)),
    )
    assert there.counts() == (3, 1, 1)
    kept = cache.get(kinds.NODE, "b")
    assert kept["status"] == {"conditions": [{"type": "Ready", "status": "True"}]}
    assert kept["spec"] == tainted["spec"] | {"unschedulable": True}
    assert cache.get(kinds.NODE_CLAIM, "c-b")["spec"] == {"requirements": []}
    assert BlockReason.DO_NOT_DISRUPT in there.blockers("c")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    store.close()


class TestLinks:
    """Which claim is whose."""

    async def test_the_name_goes_before_the_instance(self):
        documents = [claim("x", "a", instance="i-1"), claim("y", instance="i-1"), node("a", instance="i-1")]
        async with hub(pool(), *documents) as there:
            assert there.pools.node("a")[1].claim == "x"
            await there.delete(claim("x"))
            assert there.pools.node("a")[1].claim == "y"
            await there.delete(claim("y"))
            assert (there.pools.node("a")[1].claim, there.counts()) == ("", (0, 0, 0))

    async def test_a_name_that_has_come_back_is_not_that_of_the_former_machine(self):
        documents = [claim("x", "a", instance="i-1"), claim("y", "a", instance="i-2"), node("a", instance="i-2")]
        async with hub(pool(), *documents) as there:
            assert there.pools.node("a")[1].claim == "y"
            await there.delete(claim("y"))
            assert there.pools.node("a")[1].claim == ""
            await there.write(node("a", instance="i-1"))
            assert there.pools.node("a")[1].claim == "x"

    async def test_a_claim_may_come_first_or_last_or_change(self):
        async with hub(pool(), claim("x", instance="i-1"), node("a", instance="i-1")) as there:
            assert there.counts() == (1, 0, 0)
            assert there.pools.node_of_claim("x") == "a"
            await there.write(node("b"))
            await there.write(claim("x", "b", instance="i-1"))
            assert [there.pools.node(name)[1].claim for name in "ab"] == ["", "x"]
            assert there.pools.node_of_claim("x") == "b"

    async def test_a_node_may_get_its_instance_late(self):
        async with hub(pool(), node("a"), claim("x", instance="i-1")) as there:
            assert (there.counts(), there.pools.node_of_claim("x")) == ((0, 0, 0), "")
            await there.write(node("a", instance="i-1"))
            assert there.counts() == (1, 0, 0)
            await there.write(node("a", instance="i-2"))
            assert there.counts() == (0, 0, 0)

    async def test_what_is_not_there_is_none(self):
        async with hub(pool(), node("stray", pool="")) as there:
            assert there.pools.node("x") is None
            assert there.pools.node("stray") is None
            assert there.pools.node_of_claim("x") == ""
            assert there.pools.pool("x") is None


async def test_a_view_stays_as_it_was_and_is_kept_while_nothing_changes():
    async with hub(pool(budgets=HALF), *nodes("a", "b")) as there:
        view = there.pools.pool("general")
        heard = len(there.changed)
        beating = node("a")
        beating["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-06-10T12:00:00Z"
        await there.write(beating)
        assert there.pools.pool("general") is view
        assert len(there.changed) == heard
        await there.delete(node("a"))
        assert view.counts() == NodeCounts(2)
        assert there.counts() == (1, 0, 0)
        assert there.changed[heard:] == ["general"]


async def test_only_the_pools_of_a_node_that_moves_change():
    async with hub(pool(), pool("other"), pool("third"), *nodes("a")) as there:
        third = there.pools.pool("third")
        there.changed.clear()
        await there.write(node("a", pool="other"))
        assert sorted(there.changed) == ["general", "other"]
        assert there.pools.pool("third") is third
        assert [view.name for view in there.pools.views()] == ["general", "other", "third"]
        assert [there.counts(name) for name in there.pools.names()] == [(0, 0, 0), (1, 0, 0), (0, 0, 0)]


async def test_a_pool_that_is_deleted_is_gone_and_its_nodes_are_not():
    async with hub(pool(), *nodes("a")) as there:
        await there.delete(pool())
        assert (there.pools.pool("general"), there.pools.names()) == (None, ())
        assert there.pools.node("a")[0] == "general"
        await there.write(pool())
        assert there.counts() == (1, 0, 0)


class TestBudgets:
    """What a pool says of its budgets, and what it does when that makes no sense."""

    @pytest.mark.parametrize(
        ("budgets", "read"),
        [
            pytest.param(None, (Budget(nodes="10%"),), id="absent"),
            pytest.param([], (), id="none-is-no-limit"),
            pytest.param([{}], (Budget(nodes="10%"),), id="nodes-are-defaulted"),
            pytest.param([{"nodes": None}], (Budget(nodes="10%"),), id="null-is-absent"),
            pytest.param([{"nodes": "1", "reasons": ["Empty"]}], (Budget(nodes="1", reasons=("Empty",)),), id="plain"),
            pytest.param([{"nodes": "1", "reasons": []}], (Budget(nodes="1", reasons=()),), id="no-reasons"),
        ],
    )
    async def test_defaults(self, budgets, read):
        async with hub(pool(budgets=budgets)) as there:
            assert there.pools.pool("general").budgets == read
            assert there.pools.view_of(pool("new", budgets)).budgets == read

    @pytest.mark.parametrize(
        "budgets",
        [
            pytest.param([{"nodes": 5}], id="number"),
            pytest.param([{"nodes": "50%"}, {"nodes": "1", "reasons": "Empty"}], id="reasons"),
            pytest.param([{"nodes": "50%"}, "1"], id="text"),
            pytest.param("1", id="no-list"),
            pytest.param({"nodes": "50%"}, id="object"),
            pytest.param([{"nodes": "50%", "schedule": 9, "duration": "8h"}], id="schedule"),
        ],
    )
    @pytest.mark.parametrize("reason", ["Drifted", "Empty"])
    async def test_what_cannot_be_read_holds_everything(self, budgets, reason):
        async with hub(pool(budgets=budgets), *nodes("a", "b")) as there:
            found = answer(NodeGateQuestion("general", reason, count=1), there.pools.pool("general"), NOW)
            assert found.verdict is GateVerdict.INVALID_BUDGET
            assert "cannot be read" in found.message

    @pytest.mark.parametrize(
        "document", [{"spec": 1}, {"spec": {"disruption": []}}, {"spec": {"disruption": {"budgets": 1}}}]
    )
    def test_no_block_is_too_broken(self, document):
        (budget,) = read_budgets(document)
        assert "cannot be read" in budget.nodes

    @pytest.mark.parametrize("document", [{}, {"spec": None}, {"spec": {"disruption": None}}])
    def test_a_block_that_is_absent_is_defaulted(self, document):
        assert read_budgets(document) == (Budget(nodes="10%"),)

    async def test_an_inline_pool_has_the_nodes_of_its_name(self):
        async with hub(pool(budgets=[{"nodes": "0"}]), *nodes("a", "b")) as there:
            await pods_listed(there)
            asked = there.pools.view_of(pool(budgets=HALF))
            assert answer(NodeGateQuestion("general", "Empty", nodes=("a",)), asked, NOW).allowed
            assert not answer(NodeGateQuestion("general", "Empty", nodes=("a", "b")), asked, NOW).allowed
            assert there.pools.view_of(pool("other")).nodes == {}
            assert there.pools.view_of({"metadata": "?"}).name == ""

    @pytest.mark.parametrize("honoured", [True, False])
    async def test_the_template_protects_nodes_that_are_there(self, honoured):
        async with hub(pool(annotations=PROTECT), *nodes("a"), template_do_not_disrupt=honoured) as there:
            assert (BlockReason.DO_NOT_DISRUPT in there.blockers("a")) is honoured


class TestPods:
    """What pods hold."""

    async def test_pods_are_watched_only_where_there_are_pools(self):
        async with hub(*nodes("a")) as there:
            assert not there.cache.watches(kinds.POD)
            view = there.pools.view_of(pool(budgets=HALF))
            (blocker,) = view.blockers_of("a", DisruptionClass.GRACEFUL, NOW)
            assert blocker.reason == BlockReason.PODS_UNKNOWN
            await there.write(pool())
            assert there.cache.watches(kinds.POD)
            assert there.cache.watches(kinds.POD_DISRUPTION_BUDGET)

    async def test_blockers_follow_pods_and_their_budgets(self):
        async with hub(pool(), *nodes("a", "b")) as there:
            await pods_listed(there)
            assert there.blockers("a") == []
            await there.write(pod("web", "a", annotations=PROTECT))
            assert (there.blockers("a"), there.blockers("b")) == ([BlockReason.DO_NOT_DISRUPT], [])
            await there.write(pod("web", "a", annotations={"karpenter.sh/do-not-disrupt": "false"}))
            assert there.blockers("a") == []
            await there.write(guard("web"))
            assert there.blockers("a") == [BlockReason.POD_DISRUPTION_BUDGET]
            await there.write(guard("also", selector={}))
            assert there.blockers("a") == [BlockReason.SEVERAL_POD_DISRUPTION_BUDGETS]
            await there.delete(guard("also"))
            await there.write(guard("web", allowed=1))
            assert there.blockers("a") == []
            await there.write(guard("web"))
            await there.delete(pod("web"))
            assert there.blockers("a") == []

    async def test_pods_are_kept_trimmed(self):
        async with hub(pool(), *nodes("a")) as there:
            await pods_listed(there)
            await there.write(pod("web", "a"), pod("pending", None))
            assert "containers" not in there.cache.get(kinds.POD, "web", "shop")["spec"]
            assert there.blockers("a") == []

    async def test_eventual_disruption_with_a_bounded_drain_does_not_wait(self):
        async with hub(pool(), claim("c", "a", grace="10m"), node("a")) as there:
            await pods_listed(there)
            await there.write(pod("web", "a", annotations=PROTECT))
            assert there.blockers("a") == [BlockReason.DO_NOT_DISRUPT]
            assert there.blockers("a", DisruptionClass.EVENTUAL) == []


class Refusing:
    """A store that answers some kinds with an error, and does not know their definitions."""

    def __init__(self, store, error, refused):
        self._store, self._error, self._refused = store, error, refused

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def list(self, kind, namespace=None):
        if kind in self._refused:
            raise self._error
        return await self._store.list(kind, namespace)

    async def get(self, kind, key):
        if kind == kinds.CUSTOM_RESOURCE_DEFINITION:
            raise NotFoundError(str(key))
        return await self._store.get(kind, key)


@pytest.mark.parametrize("refused", [kinds.POD, kinds.POD_DISRUPTION_BUDGET], ids=str)
async def test_pods_that_may_not_be_read_hold_named_nodes_and_no_others(refused):
    store = EmbeddedStore.open(None, now=lambda: NOW)
    for document in (pool(budgets=HALF), *nodes("a", "b")):
        kind = kinds.KINDS[kinds.group_kind(document)]
        await store.replace_status(kind, {**await store.create(kind, document), "status": document.get("status", {})})
    async with hub(store=Refusing(store, ForbiddenError("not for you"), {refused})) as there:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await there.cache.wait_answered([kinds.POD, kinds.POD_DISRUPTION_BUDGET])
        view = there.pools.pool("general")
        (blocker,) = view.blockers_of("a", DisruptionClass.GRACEFUL, NOW)
        assert blocker.reason == BlockReason.PODS_UNKNOWN
        assert refused.plural in blocker.message
        assert "not for you" in blocker.message
        assert answer(NodeGateQuestion("general", "Drifted", count=1), view, NOW).allowed


async def test_a_hub_without_node_pools_has_none():
    store = EmbeddedStore.open(None, now=lambda: NOW)
    error = NotFoundError("the server could not find the requested resource")
    refusing = Refusing(store, error, {kinds.NODE_POOL, kinds.NODE_CLAIM})
    async with hub(node("a"), store=refusing) as there:
        assert there.pools.names() == ()
        assert there.pools.pool("general") is None
        assert not there.cache.watches(kinds.POD)


SATURDAY, MONDAY = datetime(2026, 6, 13, 12, tzinfo=UTC), datetime(2026, 6, 15, 12, tzinfo=UTC)


@pytest.fixture
async def examples():
    """Return the example pools with their nodes, as on a hub where all of them report."""
    files = [EXAMPLES / "node-pools.yaml", EXAMPLES / "nodes.yaml"]
    documents = [each for path in files for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
    async with hub(*documents) as there:
        await pods_listed(there)
        yield there


@pytest.mark.parametrize(
    ("name", "counts", "reason", "now", "verdict"),
    [
        pytest.param("general", (5, 1, 0), "Drifted", MONDAY, GateVerdict.IN_FLIGHT, id="one-goes-already"),
        pytest.param("default", (3, 0, 1), "Drifted", SATURDAY, GateVerdict.IN_FLIGHT, id="one-is-not-ready"),
        pytest.param("default", (3, 0, 1), "Unhealthy", SATURDAY, GateVerdict.ALLOWED, id="which-may-be-repaired"),
        pytest.param("spot", (3, 0, 0), "Drifted", SATURDAY, GateVerdict.ALLOWED, id="cordoned-is-not-disrupted"),
        pytest.param("stepwise", (1, 0, 0), "Empty", SATURDAY, GateVerdict.ALLOWED, id="by-the-hour"),
        pytest.param("weekends", (1, 0, 0), "Empty", SATURDAY, GateVerdict.ALLOWED, id="saturday"),
        pytest.param("weekends", (1, 0, 0), "Empty", MONDAY, GateVerdict.WINDOW_CLOSED, id="monday"),
        pytest.param("pinned", (1, 0, 0), "Empty", SATURDAY, GateVerdict.ALLOWED, id="no-budget-pins"),
    ],
)
async def test_the_examples_show_what_their_comments_say(examples, name, counts, reason, now, verdict):
    assert examples.counts(name) == counts
    assert answer(NodeGateQuestion(name, reason, count=1), examples.pools.pool(name), now).verdict is verdict


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        pytest.param("general-5", [BlockReason.DELETING], id="goes"),
        pytest.param("general-6", [BlockReason.NOT_INITIALIZED], id="new"),
        pytest.param("default-2", [BlockReason.DO_NOT_DISRUPT], id="protected"),
        pytest.param("pinned-1", [BlockReason.DO_NOT_DISRUPT], id="pinned"),
        pytest.param("spot-1", [], id="free"),
    ],
)
async def test_the_examples_have_nodes_that_are_held(examples, name, reasons):
    assert examples.blockers(name) == reasons
