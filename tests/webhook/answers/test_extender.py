"""The extender over a cache: every change on the hub shows in the next answer."""

import asyncio
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import timedelta

import pytest

from scorer.api import kinds
from scorer.api.placement.placement import PreferredClusterSelector
from scorer.member_gate.holds import upgrade_holds
from tests.scorer.builders import COST, NOW, cluster_document, pick_n, policy, prefer, term
from tests.scorer.extender_builders import node, placement, pod
from tests.vector_families.extender import write
from tests.waiting import PATIENCE_SECONDS, until
from webhook.answers.extender import HubExtender
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Key
from webhook.settings.extender import ExtenderSettings

PRICE, WEIGHT = "harbormaster.dev/price-per-hour", "karpenter.sh/nodepool-weight"


class Hub:
    """A store with a cache over it, and what the extender says."""

    def __init__(self, store, cache, extender):
        self.store, self.cache, self.extender = store, cache, extender
        self.now = NOW

    async def write(self, kind, document):
        await write(self.store, kind, {"apiVersion": kind.api_version, "kind": kind.kind, **document})
        await self.seen(kind, document["metadata"]["name"], document["metadata"].get("namespace", ""))

    async def change(self, kind, name, change, namespace=""):
        """Have *change* alter an object in place; the status goes the way of a status."""
        current = await self.store.get(kind, Key(name, namespace))
        changed = deepcopy(current)
        change(changed)
        stored = await self.store.replace(kind, changed)
        if kind.has_status and "status" in changed:
            await self.store.replace_status(kind, {**stored, "status": changed["status"]})
        await self.seen(kind, name, namespace)

    async def delete(self, kind, name, namespace=""):
        await self.store.delete(kind, Key(name, namespace))
        await self.seen(kind, name, namespace)

    async def seen(self, kind, name, namespace=""):
        """Wait until the cache has what the store has."""
        stored = {item["metadata"]["name"]: item for item in (await self.store.list(kind, namespace or None)).items}
        await until(lambda: _metadata(self.cache.get(kind, name, namespace)) == _metadata(stored.get(name)))

    def filter(self, asked, *names):
        answer = self.extender.filter(self.extender.read_args({"Pod": asked, "NodeNames": list(names)}))
        failed = answer["FailedNodes"] | answer["FailedAndUnresolvableNodes"]
        return {name: failed.get(name, "").removeprefix("harbormaster: ") for name in names}

    def scores(self, asked, *names):
        answer = self.extender.prioritize(self.extender.read_args({"Pod": asked, "NodeNames": list(names)}))
        return {entry["Host"]: entry["Score"] for entry in answer}


def _metadata(document):
    return document and document["metadata"]


@asynccontextmanager
async def hub(**settings):
    store = EmbeddedStore.open(None, now=lambda: NOW)
    cache = Cache(store)
    found = Hub(store, cache, None)
    found.extender = HubExtender(cache, ExtenderSettings(**settings), lambda: found.now)
    assert not found.extender.synced
    task = asyncio.create_task(cache.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await cache.wait_synced()
    assert found.extender.synced
    try:
        await found.write(kinds.NAMESPACE, {"metadata": {"name": "shop"}})
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        store.close()


def member(name, **facts):
    annotations = facts.pop("annotations", {})
    document = cluster_document(name, **facts)
    document["metadata"]["annotations"] = annotations
    return document


async def test_time_alone_takes_a_member_away_and_a_heartbeat_brings_it_back():
    async with hub() as there:
        await there.write(kinds.MEMBER_CLUSTER, member("oslo", heartbeat=timedelta()))
        await there.write(kinds.NODE, node("n", "oslo"))
        there.now = NOW + timedelta(minutes=5)
        assert there.filter(pod(), "n") == {"n": ""}
        there.now += timedelta(microseconds=1)
        assert there.filter(pod(), "n") == {"n": "member cluster is not connected"}
        beat = member("oslo", heartbeat=-timedelta(minutes=5))["status"]
        await there.change(kinds.MEMBER_CLUSTER, "oslo", lambda document: document.update(status=beat))
        assert there.filter(pod(), "n") == {"n": ""}


async def test_members_and_nodes_come_change_and_go():
    async with hub() as there:
        assert there.filter(pod(), "n") == {"n": ""}
        await there.write(kinds.NODE, node("n", "oslo"))
        assert there.filter(pod(), "n") == {"n": "member cluster not found"}
        await there.write(kinds.MEMBER_CLUSTER, member("oslo"))
        assert there.filter(pod(), "n") == {"n": ""}
        await there.write(kinds.MEMBER_CLUSTER, member("bergen"))
        assert there.filter(pod(), "n") == {"n": ""}
        labels = node("n", "rome")["metadata"]["labels"]
        await there.change(kinds.NODE, "n", lambda document: document["metadata"].update(labels=labels))
        assert there.filter(pod(), "n") == {"n": "member cluster not found"}
        await there.delete(kinds.NODE, "n")
        assert there.filter(pod(), "n") == {"n": ""}


async def test_a_node_that_is_being_deleted():
    async with hub() as there:
        held = node("n")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await there.write(kinds.NODE, held)
        await there.delete(kinds.NODE, "n")
        assert there.filter(pod(), "n") == {"n": "node is being removed"}


async def test_aliases_follow_the_annotation():
    """A name outranks an alias; of two members that claim one alias the first by name has it."""
    alias = "harbormaster.dev/node-aliases"
    async with hub() as there:
        for name, aliases in (("oslo", "liqo-1, liqo-2 ,,bergen"), ("bergen", ""), ("tromso", "liqo-1")):
            annotations = {alias: aliases} if aliases else {}
            await there.write(kinds.MEMBER_CLUSTER, member(name, annotations=annotations, labels={"name": name}))
        for number in (1, 2, 3):
            await there.write(kinds.NODE, node(f"n{number}", f"liqo-{number}"))
        await there.write(kinds.NODE, node("b", "bergen"))
        for name in ("oslo", "bergen"):
            wanted = placement(name, policy(required=[term({"name": name})]))
            await there.write(kinds.PLACEMENT, wanted)
        missing, elsewhere = "member cluster not found", "member cluster not selected by placement"
        assert there.filter(pod("oslo"), "n1", "n2", "n3", "b") == {"n1": "", "n2": "", "n3": missing, "b": elsewhere}
        assert there.filter(pod("bergen"), "n1", "b") == {"n1": elsewhere, "b": ""}
        await there.change(
            kinds.MEMBER_CLUSTER, "oslo", lambda document: document["metadata"].update(annotations={alias: "liqo-3"})
        )
        assert there.filter(pod("oslo"), "n1", "n2", "n3") == {"n1": elsewhere, "n2": missing, "n3": ""}
        await there.delete(kinds.MEMBER_CLUSTER, "tromso")
        assert there.filter(pod("oslo"), "n1") == {"n1": missing}


def run(name, *members):
    entries = [{"name": member, "state": state} for member, state in members]
    stages = [{"groups": [{"members": entries[:1]}, {"members": entries[1:]}]}]
    return {"metadata": {"name": name}, "spec": {}, "status": {"state": "Running", "stages": stages}}


async def test_members_that_any_run_is_working_on():
    updating = "member cluster is being upgraded"
    async with hub() as there:
        for name in ("oslo", "rome"):
            await there.write(kinds.MEMBER_CLUSTER, member(name))
            await there.write(kinds.NODE, node(name, name))
        await there.write(kinds.UPGRADE_RUN, run("a", ("oslo", "Running"), ("rome", "Pending")))
        assert there.filter(pod(), "oslo", "rome") == {"oslo": updating, "rome": ""}
        await there.write(kinds.UPGRADE_RUN, run("b", ("oslo", "Running"), ("rome", "Running")))
        assert there.filter(pod(), "oslo", "rome") == {"oslo": updating, "rome": updating}
        done = run("a", ("oslo", "Completed"), ("rome", "Failed"))["status"]
        await there.change(kinds.UPGRADE_RUN, "a", lambda document: document.update(status=done))
        assert there.filter(pod(), "oslo", "rome") == {"oslo": updating, "rome": updating}
        await there.delete(kinds.UPGRADE_RUN, "b")
        assert there.filter(pod(), "oslo", "rome") == {"oslo": "", "rome": ""}


async def test_upgrades_do_not_matter_where_the_settings_say_so():
    async with hub(extender_during_update="Ignore") as there:
        await there.write(kinds.MEMBER_CLUSTER, member("oslo"))
        await there.write(kinds.NODE, node("n", "oslo"))
        await there.write(kinds.UPGRADE_RUN, run("a", ("oslo", "Running")))
        assert there.filter(pod(), "n") == {"n": ""}


@pytest.mark.parametrize(
    "status",
    [
        None,
        [],
        {"stages": None},
        {"stages": {"groups": []}},
        {"stages": ["x", {"groups": 5}, {"groups": [None, {"members": [[], {"name": 5, "state": "Running"}, {}]}]}]},
    ],
)
def test_a_status_that_nobody_can_read_names_no_members(status):
    assert list(upgrade_holds({"metadata": {"name": "odd"}, "status": status})) == []


async def test_a_changed_placement_is_read_again():
    async with hub() as there:
        for name in ("east", "west"):
            await there.write(kinds.MEMBER_CLUSTER, member(name, labels={"region": name}))
            await there.write(kinds.NODE, node(name, name))
        elsewhere = "member cluster not selected by placement"
        await there.write(kinds.PLACEMENT, placement("p", policy(required=[term({"region": "east"})])))
        assert there.filter(pod("p"), "east", "west") == {"east": "", "west": elsewhere}
        changed = placement("p", policy(required=[term({"region": "west"})]))["spec"]
        await there.change(kinds.PLACEMENT, "p", lambda document: document.update(spec=changed))
        assert there.filter(pod("p"), "east", "west") == {"east": elsewhere, "west": ""}
        await there.delete(kinds.PLACEMENT, "p")
        assert there.filter(pod("p"), "east") == {"east": "placement not found"}


def binding(kind, name, cluster, state, **metadata):
    labels = {"kubernetes-fleet.io/parent-CRP": name}
    document = {"metadata": {"name": f"{name}-{cluster}", "labels": labels, **metadata}}
    return document | {"spec": {"state": state, "targetCluster": cluster}}


async def test_decisions_are_the_live_bindings_of_the_placement():
    clusters = ("bound", "scheduled", "unscheduled", "deleting", "other", "none")
    async with hub() as there:
        for name in clusters:
            await there.write(kinds.MEMBER_CLUSTER, member(name))
            await there.write(kinds.NODE, node(name, name))
        for kind, namespace in ((kinds.PLACEMENT, ""), (kinds.RESOURCE_PLACEMENT, "shop")):
            await there.write(kind, placement("p", namespace=namespace))
        for name, state in (("bound", "Bound"), ("scheduled", "Scheduled"), ("unscheduled", "Unscheduled")):
            await there.write(kinds.BINDING, binding(kinds.BINDING, "p", name, state))
        mark = {"deletionTimestamp": NOW.isoformat()}
        await there.write(kinds.BINDING, binding(kinds.BINDING, "p", "deleting", "Bound", **mark))
        await there.write(kinds.BINDING, binding(kinds.BINDING, "q", "other", "Bound"))
        inside = binding(kinds.NAMESPACED_BINDING, "p", "other", "Bound", namespace="shop")
        await there.write(kinds.NAMESPACED_BINDING, inside)

        def open_to(text):
            found = there.filter(pod(text, mode="Decisions"), *clusters)
            assert set(found.values()) == {"", "member cluster not selected by placement"}
            return [name for name in clusters if not found[name]]

        assert open_to("p") == ["bound", "scheduled"]
        assert open_to("shop/p") == ["other"]
        await there.delete(kinds.BINDING, "p-bound")
        assert open_to("p") == ["scheduled"]


async def test_scores_follow_the_properties():
    async with hub() as there:
        for name, cost in (("oslo", "1"), ("rome", "2")):
            await there.write(kinds.MEMBER_CLUSTER, member(name, properties={COST: cost}))
            await there.write(kinds.NODE, node(name, name))
        await there.write(kinds.PLACEMENT, placement("p", pick_n(1, preferred=[prefer(10, COST, "Ascending")])))
        assert there.scores(pod("p"), "oslo", "rome") == {"oslo": 10, "rome": 0}
        status = member("rome", properties={COST: "0.5"})["status"]
        await there.change(kinds.MEMBER_CLUSTER, "rome", lambda document: document.update(status=status))
        assert there.scores(pod("p"), "oslo", "rome") == {"oslo": 0, "rome": 10}


async def test_nodes_of_pools_follow_their_pool_their_price_and_their_taints():
    likes = [prefer(10, WEIGHT), prefer(5, PRICE, "Ascending")]
    async with hub(extender_node_pool_preferences=tuple(map(PreferredClusterSelector.read, likes))) as there:
        await there.write(kinds.NODE, node("a", pool="one", annotations={PRICE: "1"}))
        await there.write(kinds.NODE, node("b", pool="two", annotations={PRICE: "2"}))
        assert there.scores(pod(), "a", "b") == {"a": 10, "b": 0}
        await there.write(kinds.NODE_POOL, {"metadata": {"name": "two"}, "spec": {"weight": 7}})
        assert there.scores(pod(), "a", "b") == {"a": 5, "b": 10}
        await there.change(kinds.NODE, "a", lambda document: document["metadata"].update(annotations={PRICE: "3"}))
        assert there.scores(pod(), "a", "b") == {"a": 0, "b": 10}
        await there.write(kinds.NODE, node("c", pool="two", annotations={PRICE: "0"}))
        assert there.scores(pod(), "a", "b", "c") == {"a": 0, "b": 8, "c": 10}
        await there.delete(kinds.NODE, "c")
        assert there.scores(pod(), "a", "b", "c") == {"a": 0, "b": 10, "c": 0}
        await there.change(
            kinds.NODE, "b", lambda document: document["spec"].update(taints=[{"key": "karpenter.sh/disrupted"}])
        )
        assert there.filter(pod(), "a", "b") == {"a": "", "b": "node is being disrupted"}
        await there.delete(kinds.NODE_POOL, "two")
        assert there.scores(pod(), "a", "b") == {"a": 0, "b": 10}


async def test_a_pool_that_is_being_deleted():
    async with hub() as there:
        await there.write(kinds.NODE, node("a", pool="one"))
        pool = {"metadata": {"name": "one", "finalizers": ["karpenter.sh/termination"]}, "spec": {}}
        await there.write(kinds.NODE_POOL, pool)
        assert there.filter(pod(), "a") == {"a": ""}
        await there.delete(kinds.NODE_POOL, "one")
        assert there.filter(pod(), "a") == {"a": "node pool is being deleted"}
        await there.change(kinds.NODE_POOL, "one", lambda document: document["metadata"].update(finalizers=[]))
        assert there.filter(pod(), "a") == {"a": ""}


async def test_whether_ordinary_nodes_take_pods_of_placements_is_a_setting():
    async with hub() as there:
        await there.write(kinds.NODE, node("plain"))
        assert there.filter(pod("later"), "plain") == {"plain": "node is not part of a member cluster"}
        assert there.filter(pod(), "plain") == {"plain": ""}
    async with hub(extender_ordinary_nodes="Allow") as there:
        await there.write(kinds.NODE, node("plain"))
        assert there.filter(pod("later"), "plain") == {"plain": ""}


async def test_a_node_that_nobody_can_read_is_an_unknown_one(caplog):
    async with hub(extender_unknown_nodes="Reject") as there:
        await there.write(kinds.NODE, node("a", pool="one"))
        assert there.filter(pod(), "a") == {"a": ""}
        await there.change(kinds.NODE, "a", lambda document: document["spec"].update(taints="none"))
        assert there.filter(pod(), "a") == {"a": "node not known yet"}
        assert "cannot read" in caplog.text
