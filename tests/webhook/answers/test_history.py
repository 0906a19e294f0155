"""The last decisions on placements, as a whole hub in memory makes them."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.family import PlacementRef
from scorer.api.kinds import BINDING, MEMBER_CLUSTER, PLACEMENT, POLICY_SNAPSHOT
from scorer.api.unstructured.documents import label
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.controllers.world import held_up, make_member, pick_n, running
from webhook.answers.advisor import HubAdvisor
from webhook.answers.history import LONGEST, MOST_DECISIONS, MOST_MEMBERS, MOST_RUNS, RunHistory
from webhook.answers.questions import PlacementQuestion
from webhook.controllers.placements.deletion import mark_and_delete
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import ConflictError, Key

PAYMENTS = PlacementRef("ClusterResourcePlacement", "payments")


@pytest.fixture
async def world():
    """Four members of 10, 20, 30 and 40 nodes."""
    async with running() as made:
        await made.add(
            *(
                make_member(name, nodes=nodes)
                for name, nodes in [("oslo", 40), ("faro", 30), ("cork", 20), ("bergen", 10)]
            )
        )
        await made.until(lambda: len(made.cache.fleet) == 4)
        yield made


async def place(world, name="payments", policy=None):
    await world.add(make_placement(name, policy or pick_n(2)))
    await world.until(lambda: world.condition(name, "Scheduled").get("status") in ("True", "False"))


async def reschedule(world, policy):
    await world.change(PLACEMENT, "payments", policy=policy)
    await world.until(lambda: world.condition("payments", "Scheduled").get("observedGeneration") is not None)


def ascending(number):
    sorter = {"name": "kubernetes-fleet.io/node-count", "sortOrder": "Ascending"}
    preferred = [{"weight": 100, "preference": {"propertySorter": sorter}}]
    return pick_n(number, affinity={"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})


async def test_a_change_of_mind_is_compared_with_the_run_before(world):
    history = RunHistory(world.cache, loop_now)
    await place(world)
    await reschedule(world, ascending(2))
    await world.until(lambda: len(history.runs(PAYMENTS)) == 2 and set(world.bound("payments")) == {"bergen", "cork"})
    latest, first = history.runs(PAYMENTS)
    assert first["difference"] == ["the first recorded decision"]
    assert [entry["cluster"] for entry in first["picked"]] == ["oslo", "faro"]
    assert (first["snapshot"], first["wanted"], first["found"]) == ("payments-0", 2, 2)
    assert first["trigger"]["event"] == "SnapshotCreated"
    assert latest["trigger"] == {
        "event": "SnapshotCreated",
        "objects": ["payments-1"],
        "message": "policy snapshot payments-0 → payments-1: affinity changed",
    }
    assert (latest["gained"], latest["lost"]) == (["bergen", "cork"], ["oslo", "faro"])
    assert latest["difference"] == [
        "bergen instead of oslo: affinity 100 > 0",
        "cork instead of faro: affinity 67 > 33",
    ]
    assert latest["fleetSize"] == 4
    assert latest["counts"] == {"ScoreTooLow": 2}
    assert latest["picked"][0] == {"cluster": "bergen", "score": {"affinity": 100, "topologySpread": 0}}


async def test_the_first_decision_is_not_blamed_on_members_that_joined_before_the_placement(world):
    history = RunHistory(world.cache, loop_now)
    await place(world)
    (first,) = history.runs(PAYMENTS)
    assert first["trigger"]["message"] == "policy snapshot payments-0"


async def test_a_later_decision_is_not_blamed_on_members_that_were_there_when_the_process_started(world):
    await place(world)
    cache = Cache(world.store)
    history = RunHistory(cache, loop_now)
    watching = asyncio.create_task(cache.run())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await cache.wait_synced()
        await reschedule(world, ascending(2))
        await world.until(lambda: len(history.runs(PAYMENTS)) == 2)
        assert "new" not in history.runs(PAYMENTS)[0]["trigger"]["message"]
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def test_a_larger_number_adds_and_says_so(world):
    history = RunHistory(world.cache, loop_now)
    await place(world)
    await reschedule(world, pick_n(3))
    await world.until(lambda: len(history.runs(PAYMENTS)) == 2)
    latest = history.runs(PAYMENTS)[0]
    assert latest["trigger"]["event"] == "NumberChanged"
    assert latest["trigger"]["message"] == "numberOfClusters 2 → 3"
    assert latest["difference"] == ["requests 3 instead of 2", "cork added, with affinity 33"]
    assert (latest["gained"], latest["lost"]) == (["cork"], [])


async def test_a_member_that_made_the_difference_is_named_first(world):
    """PickAll takes what becomes suitable; the member that did is named, whatever else changed."""
    history = RunHistory(world.cache, loop_now)
    terms = [{"labelSelector": {"matchLabels": {"env": "prod"}}}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}
    await place(world, policy={"placementType": "PickAll", "affinity": {"clusterAffinity": required}})
    assert history.runs(PAYMENTS)[0]["found"] == 0
    async with held_up(world.loop.queues["scheduler"]):  # until all three have been heard of
        for name, labels in (("faro", {"env": "dev"}), ("cork", {"env": "prod"}), ("bergen", {"env": "test"})):
            stored = await world.store.get(MEMBER_CLUSTER, Key(name))
            metadata = {**stored["metadata"], "labels": labels}
            await world.store.replace(MEMBER_CLUSTER, {**stored, "metadata": metadata})
        await until(lambda: label(world.cache.get(MEMBER_CLUSTER, "bergen"), "env") == "test")
    await world.until(lambda: history.runs(PAYMENTS)[0]["found"] == 1)
    latest = history.runs(PAYMENTS)[0]
    assert latest["trigger"]["event"] == "MembersChanged"
    assert latest["trigger"]["objects"][0] == "cork"
    assert "cork (labels" in latest["trigger"]["message"]
    assert latest["gained"] == ["cork"]


async def test_an_eviction_is_a_trigger(world):
    history = RunHistory(world.cache, loop_now)
    await place(world)
    stored = await world.store.get(MEMBER_CLUSTER, Key("oslo"))
    spec = {**stored["spec"], "taints": [{"key": "dock", "value": "dry", "effect": "NoSchedule"}]}
    await world.store.replace(MEMBER_CLUSTER, {**stored, "spec": spec})
    name = next(one for one in world.cache.list(BINDING) if one["spec"]["targetCluster"] == "oslo")["metadata"]["name"]

    async def is_removed():
        with suppress(ConflictError):  # the loop writes it, too
            await mark_and_delete(world.hub, BINDING, await world.store.get(BINDING, Key(name)))
            return True
        return False

    await until(is_removed)
    await world.until(lambda: set(world.bound("payments")) == {"cork", "faro"})
    latest = history.runs(PAYMENTS)[0]
    assert latest["trigger"]["event"] == "BindingDeleted"
    assert latest["trigger"]["objects"] == [name, "oslo"]
    assert "oslo changed (taints)" in latest["trigger"]["message"]
    assert latest["difference"] == ["cork instead of oslo: TaintNotTolerated: taint dock=dry:NoSchedule not tolerated"]


async def test_who_comes_later_begins_with_what_is_recorded(world):
    """A second replica that starts now knows the last decision on each policy snapshot, in their order."""
    await place(world)
    await reschedule(world, ascending(2))
    await world.until(lambda: set(world.bound("payments")) == {"bergen", "cork"})
    cache = Cache(world.store)
    history = RunHistory(cache, loop_now)
    watching = asyncio.create_task(cache.run())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await cache.wait_synced()
        runs = history.runs(PAYMENTS)
        assert [run["snapshot"] for run in runs] == ["payments-1", "payments-0"]
        assert all(run["trigger"]["event"] == "Recorded" for run in runs)
        assert [run["fleetSize"] for run in runs] == [None, None]
        assert runs[0]["difference"][0].startswith("bergen instead of oslo: affinity 100 > ")
    finally:
        watching.cancel()
        await asyncio.wait([watching])


@pytest.mark.parametrize("first", [BINDING, POLICY_SNAPSHOT], ids=lambda kind: kind.kind)
async def test_a_recorded_decision_was_made_when_the_last_that_tells_of_it_was(first):
    """A larger number keeps the snapshot, and the condition as satisfied as it was; kinds are listed in any order."""
    records = Records(synced=(PLACEMENT, MEMBER_CLUSTER))
    try:
        for kind in (first, *({BINDING, POLICY_SNAPSHOT} - {first})):
            if kind is BINDING:
                records.bind("payments", "a", "payments-0", "2026-11-01T00:00:00Z")
                records.bind("payments", "b", "payments-0", "2026-11-03T00:00:00Z")
                records.bind("payments", "c", "payments-1", "2026-11-09T00:00:00Z")
                records.bind("other", "d", "payments-0", "2026-11-10T00:00:00Z")
            else:
                records.decide("payments", "a", "b", created="2026-10-31T00:00:00Z", since="2026-11-02T00:00:00Z")
            records.cache.of_kind(kind).synced.set()
        (run,) = records.runs("payments")
        assert (run["time"], run["trigger"]["event"]) == ("2026-11-03T00:00:00Z", "Recorded")
        records.bind("payments", "e", "payments-0", "2026-11-15T00:00:00Z")  # made while somebody watches
        assert records.runs("payments")[0]["time"] == "2026-11-03T00:00:00Z"
    finally:
        records.store.close()


@pytest.mark.parametrize(
    ("created", "since", "time"),
    [
        ("2026-11-02T00:00:00Z", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"),
        ("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "2026-11-02T00:00:00Z"),
        ("2026-11-01T00:00:00Z", "yesterday", "2026-11-01T00:00:00Z"),
        ("?", "yesterday", "2026-11-20T12:00:00Z"),
    ],
)
async def test_without_bindings_the_snapshot_tells_the_time(created, since, time):
    records = Records(synced=(PLACEMENT, MEMBER_CLUSTER))
    try:
        records.decide("payments", "a", created=created, since=since)
        assert records.runs("payments")[0]["time"] == time
    finally:
        records.store.close()


async def test_explanations_name_the_snapshot_and_the_trigger(world):
    history = RunHistory(world.cache, loop_now)
    advisor = HubAdvisor(world.cache, loop_now, history)
    await place(world)
    answer = advisor.explain(PlacementQuestion(PAYMENTS))
    assert (answer["placement"], answer["snapshot"]) == ("crp/payments", "payments-0")
    assert answer["trigger"] == history.runs(PAYMENTS)[0]["trigger"]
    kept = next(item for item in answer["items"] if item["cluster"] == "oslo")["binding"]
    stored = next(one for one in world.cache.list(BINDING) if one["spec"]["targetCluster"] == "oslo")
    assert kept["since"] == stored["metadata"]["creationTimestamp"]
    assert kept["snapshot"] == "payments-0"
    assert kept["recordedScore"] == {"topologySpread": 0, "affinity": 100}


async def test_a_deleted_placement_is_forgotten(world):
    history = RunHistory(world.cache, loop_now)
    await place(world)
    await world.delete_placement("payments")
    await world.until(lambda: world.cache.get(PLACEMENT, "payments") is None)
    assert history.runs(PAYMENTS) is None
    assert history.last_trigger(PAYMENTS) is None
    assert history._pasts == {}
    assert history._weight == 0


async def test_an_unknown_placement_has_no_runs(world):
    history = RunHistory(world.cache, loop_now)
    assert history.runs(PlacementRef("ClusterResourcePlacement", "nobody")) is None
    assert history.runs(PlacementRef("Pod", "payments")) is None


async def test_heartbeats_change_nothing(world):
    """An ordinary report of a member is not remembered; one that scheduling looks at is."""
    history = RunHistory(world.cache, loop_now)
    await world.until(lambda: True)
    stored = world.cache.get(MEMBER_CLUSTER, "oslo")
    before = history._members.counter
    agents = [{**agent, "lastReceivedHeartbeat": "2026-11-20T12:00:00Z"} for agent in stored["status"]["agentStatus"]]
    history._members.note(ObjectDelta(stored, {**stored, "status": {**stored["status"], "agentStatus": agents}}))
    assert history._members.counter == before
    history._members.note(ObjectDelta(stored, {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}))
    assert history._members.since(before, set()) == [("oslo", ["labels"])]


class Records:
    """A cache that is told what the hub would tell it, and a clock; a running loop is what the cache needs."""

    def __init__(self, synced=(PLACEMENT, POLICY_SNAPSHOT, MEMBER_CLUSTER)):
        self.now = datetime(2026, 11, 20, 12, tzinfo=UTC)
        self.store = EmbeddedStore.open(None)
        self.cache = Cache(self.store)
        self.history = RunHistory(self.cache, lambda: self.now)
        self.version = 0
        for kind in synced:
            self.cache.of_kind(kind).synced.set()

    def put(self, kind, name, **parts):
        self.version += 1
        metadata = {"name": name, "uid": name, "resourceVersion": str(self.version), **parts.pop("metadata", {})}
        self.cache.of_kind(kind).put({"kind": kind.kind, "metadata": metadata, **parts})

    def bind(self, name, cluster, snapshot, created):
        """Make a binding as the scheduler does."""
        metadata = {"labels": {"kubernetes-fleet.io/parent-CRP": name}, "creationTimestamp": created}
        spec = {"state": "Bound", "targetCluster": cluster, "schedulingPolicySnapshotName": snapshot}
        self.put(BINDING, f"{name}-{cluster}", metadata=metadata, spec=spec)

    def decide(self, name, *clusters, message="found all clusters needed", created=None, since=None):
        """Record a decision as the scheduler does."""
        if self.cache.get(PLACEMENT, name) is None:
            self.put(PLACEMENT, name, spec={})
        labels = {
            "kubernetes-fleet.io/parent-CRP": name,
            "kubernetes-fleet.io/is-latest-snapshot": "true",
            "kubernetes-fleet.io/policy-index": "0",
        }
        entries = [{"clusterName": one, "selected": True, "reason": "x"} for one in clusters]
        status = {
            "conditions": [{"type": "Scheduled", "status": "True", "message": message}],
            "targetClusters": entries,
        }
        if since is not None:
            status["conditions"][0]["lastTransitionTime"] = since
        metadata = {"labels": labels} | ({"creationTimestamp": created} if created else {})
        self.put(POLICY_SNAPSHOT, f"{name}-0", metadata=metadata, spec={"policy": {}}, status=status)

    def runs(self, name):
        return self.history.runs(PlacementRef("ClusterResourcePlacement", name))


@pytest.fixture
async def records():
    made = Records()
    yield made
    made.store.close()


async def test_so_many_runs_are_kept(records):
    for number in range(MOST_RUNS + 5):
        records.decide("payments", f"c{number}")
    runs = records.runs("payments")
    assert len(runs) == MOST_RUNS
    assert [run["picked"][0]["cluster"] for run in runs] == [f"c{number}" for number in range(24, 4, -1)]
    assert runs[0]["difference"] == ["c24 instead of c23: c23 is no longer in the record"]


async def test_old_runs_go_but_the_last_one_stays(records):
    records.decide("payments", "a")
    records.now += timedelta(days=1)
    records.decide("payments", "b")
    assert len(records.runs("payments")) == 2
    records.now += LONGEST - timedelta(hours=1)
    assert [run["picked"][0]["cluster"] for run in records.runs("payments")] == ["b"]
    records.now += LONGEST
    assert [run["picked"][0]["cluster"] for run in records.runs("payments")] == ["b"]


async def test_a_decision_that_is_made_again_counts_once(records):
    """Words about the clusters that were not selected change with every heartbeat; what was decided does not."""
    records.decide("payments", "a", message="found 1 of 2 clusters needed; 3 of 4 do not qualify: 3 HeartbeatStale")
    records.now += timedelta(minutes=1)
    records.decide(
        "payments", "a", message="found 1 of 2 clusters needed; 3 of 4 do not qualify: 2 X, 1 HeartbeatStale"
    )
    (run,) = records.runs("payments")
    assert (run["time"], run["until"], run["times"]) == ("2026-11-20T12:00:00Z", "2026-11-20T12:01:00Z", 2)
    assert run["counts"] == {"X": 2, "HeartbeatStale": 1}


async def test_there_is_an_end_to_it_over_all_placements(records):
    clusters = [f"cluster-{number}" for number in range(999)]
    for number in range(120):
        records.decide(f"p{number % 60}", *clusters, f"only-{number}")
    history = records.history
    assert history._weight <= MOST_DECISIONS
    assert history._weight == sum(1 + len(run.picked) for past in history._pasts.values() for run in past.runs)
    assert records.runs("p59")[0]["picked"][-1]["cluster"] == "only-119"


async def test_so_many_members_are_remembered(records):
    for number in range(MOST_MEMBERS + 10):
        records.put(MEMBER_CLUSTER, f"m{number}", spec={})
    assert len(records.history._members._changed) == MOST_MEMBERS
    records.decide("payments", "a")
    (run,) = records.runs("payments")
    assert run["trigger"]["objects"] == ["payments-0"]  # the policy is what the placement came with


async def test_the_mark_of_a_run_is_where_the_next_one_begins(records):
    records.decide("payments", "a")
    records.put(MEMBER_CLUSTER, "a", spec={})
    records.decide("payments", "b")
    assert records.runs("payments")[0]["trigger"]["objects"] == ["a"]
    records.decide("payments", "c")
    assert records.runs("payments")[0]["trigger"]["event"] == "Unknown"


async def test_what_is_no_member_as_it_should_be_does_no_harm(records):
    """The hub may hold anything; a broken member must not end the history of the placements."""
    records.put(MEMBER_CLUSTER, "a", spec={}, status={"agentStatus": None, "properties": None})
    records.put(MEMBER_CLUSTER, "a", spec={}, status={"agentStatus": [{"type": "MemberAgent"}]})
    late = {"type": "MemberAgent", "lastReceivedHeartbeat": "yesterday"}
    records.put(MEMBER_CLUSTER, "a", spec={}, status={"agentStatus": [late]})
    records.put(MEMBER_CLUSTER, "a", spec={}, status={"agentStatus": [{**late, "lastReceivedHeartbeat": "today"}]})
    records.decide("payments", "a")
    assert len(records.runs("payments")) == 1
