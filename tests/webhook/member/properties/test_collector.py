"""What a heartbeat tells about the member."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.kinds import MEMBER_CLUSTER, NAMESPACE, NODE, POD
from scorer.prices import PriceList
from webhook.kube.ports import EventType, StoreError, WatchEvent
from webhook.member.membership.heartbeat import Statement, heartbeat_status
from webhook.member.properties.collector import COSTS_COLLECTED, Collector, MemberCache
from webhook.member.properties.provider import CollectionError, Provided

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def make_node(name, cpu="4", memory="16Gi", sku="small", region=""):
    labels = {"beta.kubernetes.io/instance-type": sku, "topology.kubernetes.io/region": region}
    amounts = {"cpu": cpu, "memory": memory}
    return {"metadata": {"name": name, "labels": labels}, "status": {"capacity": amounts, "allocatable": amounts}}


def make_observed(nodes=(), pods=(), namespaces=()):
    observed = MemberCache()
    for kind, items in ((NODE, nodes), (POD, pods), (NAMESPACE, namespaces)):
        listener(observed, kind).listed(items)
    return observed


def listener(observed, kind):
    return dict(observed.listeners)[kind]


class Prices:
    """A price list in memory."""

    def __init__(self, **prices):
        self.list = PriceList(prices)
        self.problem = ""

    async def current(self):
        return self.list


class Provider:
    """Answers with what it is given, one after the other; the last one for ever."""

    def __init__(self, *answers, started="True"):
        self._answers = list(answers)
        self.started = None
        self._will = Statement("ClusterPropertyProviderStarted", started, "Started", "")

    def has_failed(self):
        return self.started is not None and self.started.status == "False"

    async def collect(self):
        self.started = self._will
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Clock:
    def __init__(self):
        self.time = NOW
        self.asked = 0
        self.version = "v1.36.3"

    def now(self):
        return self.time

    async def ask(self):
        self.asked += 1
        if not self.version:
            raise StoreError("no answer")
        return self.version


def make_collector(observed, clock=None, **more):
    clock = clock or Clock()
    return Collector(observed, clock.now, version=clock.ask, release="1.2.3", **more)


def reported(figures, old=None):
    return heartbeat_status(MEMBER_CLUSTER, old or {}, figures, NOW, generation=1)


def reasons(status):
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


async def test_the_built_in_figures():
    owned = {
        "name": "shop",
        "ownerReferences": [{"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "AppliedWork", "name": "w"}],
    }
    observed = make_observed([make_node("a"), make_node("b")], [], [{"metadata": {"name": "x"}}, {"metadata": owned}])
    status = reported(await make_collector(observed).collect())
    assert {name: entry["value"] for name, entry in status["properties"].items()} == {
        "harbormaster.dev/agent-version": "1.2.3",
        "k8s.io/k8s-version": "v1.36.3",
        "kubernetes-fleet.io/node-count": "2",
    }
    assert status["resourceUsage"]["capacity"] == {"cpu": "8", "memory": "32Gi"}
    assert status["namespaces"] == {"x": "", "shop": "w"}
    assert "ClusterPropertyProviderStarted" not in reasons(status)
    assert reasons(status)["ClusterPropertyCollectionSucceeded"] == ("True", "Succeeded")


async def test_the_properties_of_azure_are_reported():
    node = make_node("a", region="westus")
    path = "subscriptions/8ecadfc9-d1a3-4ea4-b844-0d9f87e4d7c8/resourceGroups/rg/providers/Microsoft.Compute/x"
    node["spec"] = {"providerID": f"azure:///{path}"}
    figures = await make_collector(make_observed([node])).collect()
    assert {name: value for name, value in figures.properties.items() if name.startswith("fleet.azure.com/")} == {
        "fleet.azure.com/location": "westus",
        "fleet.azure.com/resource-group": "rg",
        "fleet.azure.com/subscription-id": "8ecadfc9-d1a3-4ea4-b844-0d9f87e4d7c8",
    }


async def test_changes_are_followed():
    observed = make_observed([make_node("a")], [], [{"metadata": {"name": "x"}}])
    for kind, type_, item in (
        (NODE, EventType.ADDED, make_node("b")),
        (NODE, EventType.DELETED, make_node("a")),
        (NAMESPACE, EventType.DELETED, {"metadata": {"name": "x"}}),
        (NAMESPACE, EventType.MODIFIED, {"metadata": {"name": "y"}}),
    ):
        listener(observed, kind).changed(WatchEvent(type_, item, "1"))
    figures = await make_collector(observed).collect()
    assert (figures.properties["kubernetes-fleet.io/node-count"], figures.namespaces) == ("1", {"y": ""})


async def test_the_version_is_asked_for_every_quarter_of_an_hour():
    clock = Clock()
    collector = make_collector(make_observed(), clock)
    for minutes, asked in ((0, 1), (14, 1), (15, 2), (16, 2), (-60, 3)):
        clock.time = NOW + timedelta(minutes=minutes)
        assert (await collector.collect()).properties["k8s.io/k8s-version"] == "v1.36.3"
        assert clock.asked == asked
    clock.version, clock.time = "", NOW + timedelta(hours=1)
    assert (await collector.collect()).properties["k8s.io/k8s-version"] == "v1.36.3"


async def test_what_is_not_known_yet_leaves_the_last_report_as_it_is():
    """A restart must not make a cluster look empty."""
    before = reported(await make_collector(make_observed([make_node("a")])).collect())
    observed = MemberCache()
    listener(observed, NODE).failed(StoreError("forbidden"))
    after = reported(await make_collector(observed).collect(), before)
    assert after["properties"] == before["properties"]
    assert after["resourceUsage"] == before["resourceUsage"]
    assert reasons(after)["ClusterPropertyCollectionSucceeded"] == ("False", "Failed")


async def test_an_outage_keeps_the_figures_and_says_so():
    observed = make_observed([make_node("a")])
    collector = make_collector(observed)
    listener(observed, POD).failed(StoreError("connection refused"))
    figures = await collector.collect()
    assert figures.problem == "pods: connection refused"
    assert figures.capacity["cpu"] == "4"
    listener(observed, POD).listed([])
    assert (await collector.collect()).problem == ""


@pytest.mark.parametrize(
    ("nodes", "prices", "cost", "reason"),
    [
        pytest.param(
            [make_node(f"s{n}") for n in range(3)] + [make_node(f"l{n}", "8", "32Gi", "large") for n in range(2)],
            {"small": 0.192, "large": 0.384},
            ("0.048", "0.012"),
            "CostsCalculated",
            id="scheduling-18-example",
        ),
        pytest.param([], {}, ("0.000", "0.000"), "CostsCalculated", id="no-nodes"),
        pytest.param([make_node("a", sku="new")], {"small": 1.0}, None, "CostsCalculationFailed", id="unknown-sku"),
        pytest.param([make_node("a", sku="")], {"small": 1.0}, None, "CostsCalculationFailed", id="without-label"),
        pytest.param([make_node("a")], {"small": 999.0}, None, "CostsCalculationFailed", id="not-for-sale"),
        pytest.param([make_node("a", cpu="1m")], {"small": 1.0}, None, "CostsCalculationFailed", id="no-capacity"),
    ],
)
async def test_cost(nodes, prices, cost, reason):
    status = reported(await make_collector(make_observed(nodes), prices=Prices(**prices)).collect())
    names = ("kubernetes.azure.com/per-cpu-core-cost", "kubernetes.azure.com/per-gb-memory-cost")
    found = tuple(status["properties"][name]["value"] for name in names if name in status["properties"])
    assert found == (cost or ())
    assert reasons(status)[COSTS_COLLECTED] == ("True" if cost else "False", reason)


async def test_cost_follows_the_price_list_its_age_and_the_region():
    clock, prices = Clock(), Prices(small=4.0)
    observed = make_observed([make_node("a", region="north")])
    collector = make_collector(observed, clock, prices=prices)

    async def cost():
        status = reported(await collector.collect())
        return status["properties"]["kubernetes.azure.com/per-cpu-core-cost"]["value"], reasons(status)[COSTS_COLLECTED]

    assert await cost() == ("1.000", ("True", "CostsCalculated"))
    prices.list = PriceList({"small": 4.0}, {"north": {"small": 8.0}}, NOW)
    assert await cost() == ("2.000", ("True", "CostsCalculated"))
    clock.time += timedelta(hours=25)
    assert await cost() == ("2.000", ("True", "CostsCalculationDegraded"))
    listener(observed, NODE).changed(WatchEvent(EventType.MODIFIED, make_node("a", cpu="8"), "1"))
    assert (await cost())[0] == "0.500"


async def test_a_provider_has_the_last_word():
    provided = Provided({"a": "1", "kubernetes-fleet.io/node-count": "7"}, {"available": {"gpu": "2"}}, "hm")
    collector = make_collector(make_observed([make_node("a")]), provider=Provider(provided))
    status = reported(await collector.collect())
    assert status["properties"]["kubernetes-fleet.io/node-count"]["value"] == "7"
    assert status["resourceUsage"]["available"] == {"cpu": "4", "memory": "16Gi", "gpu": "2"}
    assert reasons(status)["ClusterPropertyProviderStarted"] == ("True", "Started")
    (said,) = [each["message"] for each in status["conditions"] if each["type"].endswith("CollectionSucceeded")][:1]
    assert said.endswith(": hm")


async def test_when_a_provider_fails_its_last_values_stay():
    late = CollectionError("TimedOut", "no response within 10 s")
    collector = make_collector(make_observed(), provider=Provider(Provided({"a": "1"}), late))
    await collector.collect()
    status = reported(await collector.collect())
    assert status["properties"]["a"]["value"] == "1"
    assert reasons(status)["ClusterPropertyCollectionSucceeded"] == ("False", "TimedOut")


async def test_after_a_restart_those_of_the_last_report_do():
    collector = make_collector(make_observed(), provider=Provider(CollectionError("Failed", "no")))
    old = {"properties": {"a": {"value": "1", "observationTime": "2026-01-01T00:00:00Z"}}}
    status = reported(await collector.collect(), old)
    assert status["properties"]["a"] == old["properties"]["a"]


async def test_a_provider_that_does_not_start_leaves_what_is_built_in():
    provider = Provider(CollectionError("Failed", "no such file"), started="False")
    collector = make_collector(make_observed([make_node("a")]), provider=provider)
    for _ in range(2):
        status = reported(await collector.collect(), {"properties": {"old": {"value": "1"}}})
        assert "old" not in status["properties"]
        assert reasons(status)["ClusterPropertyProviderStarted"][0] == "False"
        assert reasons(status)["ClusterPropertyCollectionSucceeded"] == ("True", "Succeeded")
