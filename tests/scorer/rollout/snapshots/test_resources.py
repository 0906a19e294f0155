"""Resource snapshots: sharding, reuse, throttle, history, and continuing after a crash."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.api.placement.snapshots import ClusterResourceSnapshot
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.snapshots.groups import latest_group, snapshot_groups
from scorer.rollout.snapshots.resources import (
    SHARD_LIMIT,
    UNTHROTTLED,
    SnapshotSettings,
    plan_orphaned_snapshots,
    plan_resource_snapshots,
    resource_hash,
    shard_lengths,
)
from scorer.rollout.writes import Verb
from tests.builders.go_texts import GO_TEXTS
from tests.thoroughness import examples

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
MONTH = timedelta(days=30)
PLACEMENT = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "shop", "uid": "u1"},
    "spec": {},
}
LATEST = "kubernetes-fleet.io/is-latest-snapshot"
DETECTED = "kubernetes-fleet.io/next-resource-snapshot-candidate-detection-time"


def make_object(name, size=10):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "x"},
        "data": {"a": "y" * size},
    }


class Hub:
    """Snapshots as a store would keep them."""

    def __init__(self, placement=PLACEMENT):
        self.placement = placement
        self.stored = {}

    def plan(self, objects, now=NOW, throttle=UNTHROTTLED):
        return plan_resource_snapshots(self.placement, self.stored.values(), objects, now, throttle)

    def apply(self, plan, now=NOW, stop_after=None):
        for write in plan.writes[:stop_after]:
            document = write.document
            match write.verb:
                case Verb.DELETE:
                    del self.stored[write.name]
                case Verb.CREATE:
                    assert write.name not in self.stored
                    metadata = {**document["metadata"], "creationTimestamp": now.isoformat()}
                    self.stored[write.name] = {**document, "metadata": metadata}
                case Verb.REPLACE:
                    assert document["spec"] == self.stored[write.name]["spec"]
                    self.stored[write.name] = document
        return plan

    def run(self, objects, now=NOW, throttle=UNTHROTTLED):
        return self.apply(self.plan(objects, now, throttle), now)


@pytest.mark.parametrize(
    ("sizes", "lengths"),
    [
        pytest.param([500, 250, 200, 900], [2, 1, 1], id="the-example-of-3.3"),
        pytest.param([], [0], id="nothing-selected"),
        pytest.param([800], [1], id="exactly-the-limit"),
        pytest.param([400, 400, 1], [2, 1], id="one-byte-more"),
        pytest.param([900, 900], [1, 1], id="two-too-large"),
        pytest.param([1, 900, 1], [1, 1, 1], id="a-large-one-stands-alone"),
    ],
)
def test_shards(sizes, lengths):
    assert shard_lengths([size * 1024 for size in sizes]) == lengths


@given(st.lists(st.integers(0, 2 * SHARD_LIMIT), max_size=60))
def test_shards_hold_everything_within_the_limit(sizes):
    lengths = shard_lengths(sizes)
    assert sum(lengths) == len(sizes)
    start = 0
    for length in lengths:
        assert length <= 1 or sum(sizes[start : start + length]) <= SHARD_LIMIT
        start += length


def test_a_first_snapshot_group():
    hub = Hub()
    envelope = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceEnvelope",
        "metadata": {"name": "e"},
    }
    objects = [make_object("a", 500_000), make_object("b", 500_000), envelope]
    plan = hub.run(objects)
    assert [write.name for write in plan.writes] == ["shop-0-0", "shop-0-snapshot"]
    master, shard = hub.stored["shop-0-snapshot"], hub.stored["shop-0-0"]
    assert master["metadata"]["labels"] == {
        "kubernetes-fleet.io/parent-CRP": "shop",
        "kubernetes-fleet.io/resource-index": "0",
        LATEST: "true",
    }
    assert master["metadata"]["annotations"] == {
        "kubernetes-fleet.io/resource-hash": resource_hash(objects),
        "kubernetes-fleet.io/number-of-resource-snapshots": "2",
        "kubernetes-fleet.io/number-of-enveloped-object": "1",
    }
    assert shard["metadata"]["annotations"] == {"kubernetes-fleet.io/subindex-of-resource-snapshot": "0"}
    assert LATEST not in shard["metadata"]["labels"]
    assert shard["metadata"]["ownerReferences"][0]["uid"] == "u1"
    group = latest_group(snapshot_groups(hub.stored.values()))
    assert group.objects() == objects
    assert group.is_complete
    assert (plan.name, plan.index, plan.requeue_after) == ("shop-0-snapshot", 0, None)
    ClusterResourceSnapshot.read(master)
    assert hub.plan(objects).writes == ()


def test_nothing_selected_makes_one_empty_master():
    hub = Hub()
    hub.run([])
    assert [document["spec"] for document in hub.stored.values()] == [{"selectedResources": []}]


def test_older_content_makes_a_new_index():
    hub = Hub()
    for name in ("a", "b", "a"):
        plan = hub.run([make_object(name)])
    assert plan.index == 2
    assert [group.index for group in snapshot_groups(hub.stored.values())] == [0, 1, 2]
    assert [document["metadata"]["labels"].get(LATEST) for document in hub.stored.values()] == [
        "false",
        "false",
        "true",
    ]


def test_key_order_does_not_count_as_a_change():
    first, second = make_object("a"), dict(reversed(make_object("a").items()))
    assert resource_hash([first]) == resource_hash([second])


@pytest.mark.parametrize(
    ("seen", "due"),
    [
        pytest.param(timedelta(seconds=5), timedelta(seconds=30), id="the-interval-decides"),
        pytest.param(timedelta(minutes=5), timedelta(minutes=5, seconds=15), id="the-collection-decides"),
    ],
)
def test_a_change_waits_for_the_interval_and_the_collection(seen, due):
    """The example of rollout.md 3.5."""
    hub, throttle = Hub(), SnapshotSettings()
    hub.run([make_object("a")], throttle=throttle)
    waiting = hub.run([make_object("b")], NOW + seen, throttle)
    assert (waiting.index, waiting.requeue_after) == (0, due - seen)
    assert [item["name"] for item in waiting.identifiers] == ["a"]
    assert hub.plan([make_object("c")], NOW + seen, throttle).writes == ()
    early = hub.plan([make_object("c")], NOW + due - timedelta(seconds=1), throttle)
    assert (early.writes, early.requeue_after) == ((), timedelta(seconds=1))
    made = hub.run([make_object("c")], NOW + due, throttle)
    assert (made.index, made.requeue_after) == (1, None)


@pytest.mark.parametrize(
    ("throttle", "due"),
    [
        pytest.param(SnapshotSettings(timedelta(), timedelta(seconds=15)), timedelta(seconds=20), id="collection"),
        pytest.param(SnapshotSettings(timedelta(seconds=30), timedelta()), timedelta(seconds=30), id="interval"),
    ],
)
def test_one_throttle_alone_holds_a_change(throttle, due):
    hub, seen = Hub(), timedelta(seconds=5)
    hub.run([make_object("a")], throttle=throttle)
    assert hub.run([make_object("b")], NOW + seen, throttle).requeue_after == due - seen


def test_the_labelled_group_is_the_latest_one_also_before_a_greater_index():
    hub = Hub()
    hub.run([make_object("a")])
    hub.run([make_object("b")])
    older, newer = (hub.stored[f"shop-{index}-snapshot"]["metadata"]["labels"] for index in (0, 1))
    older[LATEST], newer[LATEST] = "true", "false"
    assert latest_group(snapshot_groups(hub.stored.values())).index == 0
    older[LATEST] = "false"
    assert latest_group(snapshot_groups(hub.stored.values())).index == 1


def test_a_change_that_is_undone_is_forgotten():
    hub, throttle = Hub(), SnapshotSettings()
    hub.run([make_object("a")], throttle=throttle)
    hub.run([make_object("b")], NOW + timedelta(seconds=5), throttle)
    assert DETECTED in hub.stored["shop-0-snapshot"]["metadata"]["annotations"]
    hub.run([make_object("a")], NOW + timedelta(seconds=6), throttle)
    assert DETECTED not in hub.stored["shop-0-snapshot"]["metadata"]["annotations"]
    assert hub.plan([make_object("a")], NOW + timedelta(seconds=7), throttle).writes == ()


@pytest.mark.parametrize(
    ("created", "detected", "now"),
    [
        pytest.param(NOW, NOW + MONTH, NOW + timedelta(minutes=1), id="ahead-when-the-change-was-detected"),
        pytest.param(NOW + MONTH, NOW + MONTH, NOW, id="ahead-when-the-snapshot-was-created-too"),
        pytest.param(NOW, NOW - MONTH, NOW - MONTH, id="behind-the-api-server"),
    ],
)
def test_a_clock_that_is_or_was_wrong_by_a_month_holds_up_no_change(created, detected, now):
    hub, throttle = Hub(), SnapshotSettings()
    hub.run([make_object("a")], created, throttle)
    hub.run([make_object("b")], detected, throttle)
    waiting = hub.run([make_object("b")], now, throttle)
    assert waiting.requeue_after == timedelta(seconds=15)
    assert hub.plan([make_object("b")], now + timedelta(seconds=14), throttle).writes == ()
    made = hub.run([make_object("b")], now + timedelta(seconds=15), throttle)
    assert made.index == 1


def test_without_throttle_nothing_is_marked():
    hub = Hub()
    hub.run([make_object("a")])
    plan = hub.run([make_object("b")], NOW)
    assert [(write.verb, write.name) for write in plan.writes] == [
        (Verb.REPLACE, "shop-0-snapshot"),
        (Verb.CREATE, "shop-1-snapshot"),
    ]


@pytest.mark.parametrize(("limit", "kept"), [pytest.param(1, [4], id="one"), pytest.param(3, [2, 3, 4], id="three")])
def test_history_is_trimmed_by_groups(limit, kept):
    hub = Hub({**PLACEMENT, "spec": {"revisionHistoryLimit": limit}})
    for name in "abcde":
        hub.run([make_object(name, 500_000), make_object(name + "2", 500_000)])
    assert [group.index for group in snapshot_groups(hub.stored.values())] == kept
    assert all(group.is_complete for group in snapshot_groups(hub.stored.values()))


@settings(max_examples=examples(25))
@given(stops=st.lists(st.integers(0, 4), min_size=1, max_size=6), limit=st.integers(2, 4))
def test_a_crash_at_any_write_is_made_good(stops, limit):
    """Whatever was written before a crash, the next plans end with the wanted content and one latest group."""
    hub = Hub({**PLACEMENT, "spec": {"revisionHistoryLimit": limit}})
    big = [make_object("a", 500_000), make_object("b", 500_000), make_object("c", 500_000)]
    for at, stop in enumerate(stops):
        objects = [*big, make_object(f"n{at}")]
        hub.apply(hub.plan(objects, NOW, SnapshotSettings()), NOW - timedelta(hours=1), stop_after=stop)
        throttled = SnapshotSettings(timedelta(seconds=30), timedelta())
        hub.apply(hub.plan(objects, NOW, throttled), NOW - timedelta(hours=1))
        assert hub.plan(objects, NOW, throttled).writes == ()
        groups = snapshot_groups(hub.stored.values())
        latest = latest_group(groups)
        assert latest.objects() == objects
        assert latest is groups[-1]
        labelled = [d for d in hub.stored.values() if d["metadata"]["labels"].get(LATEST) == "true"]
        assert [d["metadata"]["name"] for d in labelled] == [latest.name]
        assert len(groups) <= limit


def test_an_unlabelled_latest_is_not_throttled():
    hub = Hub()
    hub.run([make_object("a")])
    hub.apply(hub.plan([make_object("b")]), stop_after=1)
    assert hub.plan([make_object("c")], NOW, SnapshotSettings()).index == 1
    assert (
        hub.plan([make_object("a")], NOW, SnapshotSettings()).writes[0].document["metadata"]["labels"][LATEST] == "true"
    )


def test_a_resource_placement_has_namespaced_snapshots():
    placement = {**PLACEMENT, "kind": "ResourcePlacement", "metadata": {"name": "web", "namespace": "x", "uid": "u2"}}
    hub = Hub(placement)
    hub.run([make_object("a")])
    document = hub.stored["web-0-snapshot"]
    assert (document["kind"], document["metadata"]["namespace"]) == ("ResourceSnapshot", "x")


def test_strays_are_collected_unless_they_are_used():
    """Each has lost the label of its placement; shard 2-0 has a master that kept it."""
    hub = Hub()
    for name in "abcd":
        hub.run([make_object(name, 500_000), make_object(name + "2", 500_000)])
    kept = {"shop-2-snapshot", "shop-3-snapshot", "shop-3-0"}
    groups = snapshot_groups(hub.stored[name] for name in kept)
    foreign = {**hub.stored["shop-0-0"], "metadata": {**hub.stored["shop-0-0"]["metadata"], "name": "shop-copy"}}
    strays = [
        {**hub.stored[name], "metadata": {"name": name, "labels": {LATEST: "true"}}}
        for name in hub.stored.keys() - kept
    ]
    writes = plan_orphaned_snapshots(PLACEMENT, [*strays, foreign], groups, {"shop-1-snapshot"})
    found = {write.name: (write.verb, write.document["metadata"]["labels"]) for write in writes}
    of = {"kubernetes-fleet.io/parent-CRP": "shop"}
    assert {name: verb for name, (verb, _) in found.items()} == {
        "shop-0-snapshot": Verb.DELETE,
        "shop-0-0": Verb.DELETE,
        "shop-1-snapshot": Verb.REPLACE,
        "shop-1-0": Verb.REPLACE,
        "shop-2-0": Verb.REPLACE,
    }
    assert found["shop-1-snapshot"][1] == {**of, "kubernetes-fleet.io/resource-index": "1", LATEST: "false"}


@given(st.lists(GO_TEXTS, min_size=1, max_size=3), st.lists(GO_TEXTS, max_size=3))
@settings(max_examples=examples(60))
def test_only_a_change_of_the_content_makes_a_new_index(before, after):
    hub = Hub()
    objects = [{**make_object(str(at)), "data": {"a": text}} for at, text in enumerate(before)]
    changed = [{**make_object(str(at)), "data": {"a": text}} for at, text in enumerate(after)]
    hub.run(objects)
    assert hub.run(changed).index == (before != after)


@pytest.mark.parametrize("recorded", ["0" * 64, ""], ids=["of-another-encoding", "lost"])
def test_content_that_was_hashed_otherwise_stays_in_force(recorded):
    """Earlier releases did not escape as Go does. Nothing may be rolled out again after an upgrade."""
    hub = Hub()
    objects = [make_object("a", 500_000), {**make_object("b", 500_000), "replicas": 1.0}]
    hub.run(objects)
    digest = hub.stored["shop-0-snapshot"]["metadata"]["annotations"]["kubernetes-fleet.io/resource-hash"]
    master = with_metadata(hub.stored["shop-0-snapshot"], annotations={"kubernetes-fleet.io/resource-hash": recorded})
    hub.stored["shop-0-snapshot"] = master
    plan = hub.run(objects)
    assert (plan.index, [(write.verb, write.name) for write in plan.writes]) == (0, [(Verb.REPLACE, "shop-0-snapshot")])
    assert hub.stored["shop-0-snapshot"]["metadata"]["annotations"]["kubernetes-fleet.io/resource-hash"] == digest
    assert hub.plan(objects).writes == ()


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param([make_object("a")], id="an-object-less"),
        pytest.param([make_object("a"), {**make_object("b"), "immutable": 1}], id="a-number-for-true"),
    ],
)
def test_other_content_is_a_change_whatever_the_hash_was_made_by(changed):
    hub = Hub()
    hub.run([make_object("a"), {**make_object("b"), "immutable": True}])
    master = with_metadata(hub.stored["shop-0-snapshot"], annotations={"kubernetes-fleet.io/resource-hash": "0" * 64})
    hub.stored["shop-0-snapshot"] = master
    assert hub.run(changed).index == 1
