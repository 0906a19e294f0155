"""A pass that is handed what an earlier one decided answers as it would without."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from scorer.api.meta import format_time
from scorer.node_disruption.methods.command import Command
from scorer.node_disruption.methods.planner import PlannerOptions, decide, pool_views, validate
from scorer.node_disruption.scheduling.node_load import Load
from tests.builders.pod import make_pod
from tests.builders.random_cluster import KINDS, PRICES, ZONES, clusters
from tests.builders.worker import NOW, kept, make_catalog, make_cluster, make_pool_of, make_worker
from tests.thoroughness import examples

CATALOG = make_catalog(PRICES, cores=KINDS, zones=ZONES, capacity=("on-demand", "spot"))
SETTINGS = st.builds(
    PlannerOptions,
    spot_to_spot=st.booleans(),
    graceful_expiration=st.sampled_from((False, False, True)),
    single_node_simulations=st.sampled_from((2000, 2000, 1)),
)
CATALOGS = st.sampled_from([CATALOG, CATALOG, CATALOG, None])


def full(name, pool="general"):
    """A node that has no room, and that nothing is cheaper than."""
    worker = make_worker(name, "small", pool=pool, cores=2, capacity="spot")
    return [*worker, make_pod(f"p-{name}", name, needs={"cpu": "2"})]


FULL = [full("a"), full("b"), full("c")]
OTHER = [make_pool_of("other"), full("d", "other")]
SELDOM = st.sampled_from([False] * 4 + [True])
WAITS = st.sampled_from([timedelta(seconds=each) for each in (0, 0, 1, 9, 240, 600, 3600, 7200, 40_000, -60)])


@settings(max_examples=examples(200))
@given(st.data())
def test_an_earlier_decision_makes_no_difference(data):
    """Whatever changes between the two: nodes and pods come, go and change, time passes, budgets change."""
    parts, now, cluster, unseen = by_owner(data.draw(clusters())), NOW, None, frozenset()
    catalog, chosen, earlier = data.draw(CATALOGS), data.draw(SETTINGS), [None]
    for _ in range(data.draw(st.integers(3, 5))):
        found = make_cluster([each for part in parts.values() for each in part])
        cluster = found if cluster is None or data.draw(SELDOM) else kept(cluster, found)
        views = pool_views(cluster, chosen)
        for node in data.draw(st.sampled_from(((), (), (), ("n0",), ("n0", "n1")))):
            if node in cluster.nodes and cluster.nodes[node].pool in views:
                views[cluster.nodes[node].pool] = views[cluster.nodes[node].pool].with_held([node])
        before = data.draw(st.sampled_from([earlier[-1], *earlier]))
        decision = decide(cluster, catalog, now, chosen, views=views, unseen_pools=unseen, previous=before)
        assert decision == decide(cluster, catalog, now, chosen, views=views, unseen_pools=unseen)
        event(f"the decision stayed: {before is not None and decision.memory is before.memory}")
        for command in decision.commands:
            again = validate(command, cluster, catalog, now, chosen, views=views)
            assert validate(command, cluster, catalog, now, chosen, views=views, previous=decision) == again
        earlier, unseen = [*earlier, decision], decision.unseen
        now += data.draw(WAITS)
        if data.draw(SELDOM):
            catalog, chosen = data.draw(CATALOGS), data.draw(SETTINGS)
        if not data.draw(SELDOM):  # what is decided is done, so that there are passes that find nothing
            gone = {name for each in decision.commands for name in each.nodes}.union(decision.expired)
            parts = {name: part for name, part in parts.items() if name not in gone}
        if data.draw(st.booleans()):
            parts = changed(parts, by_owner(data.draw(clusters())), data)


def test_while_nothing_changes_the_decision_stays():
    """Up to the instant from which time alone can change it."""
    node = make_worker("a", "small", cores=2, last_pod_event=NOW - timedelta(minutes=5))
    cluster = make_cluster(make_pool_of("general", after="10m"), *node, make_pod("p", "a", needs={"cpu": "1"}))
    first = decide(cluster, CATALOG, NOW)
    assert first.next_at == NOW + timedelta(minutes=5)
    later = decide(cluster, CATALOG, NOW + timedelta(minutes=4), previous=first)
    assert later.memory is first.memory
    assert later.now == NOW + timedelta(minutes=4)
    assert decide(cluster, CATALOG, first.next_at, previous=later).memory is not first.memory


def test_equal_objects_are_as_good_as_the_same():
    documents = [make_pool_of("general"), FULL]
    first = decide(make_cluster(documents), CATALOG, NOW)
    assert decide(make_cluster(documents), CATALOG, NOW, previous=first).memory is first.memory


@pytest.mark.parametrize(
    ("documents", "chosen"),
    [
        pytest.param([make_worker("a", "small", cores=2)], PlannerOptions(), id="a-command"),
        pytest.param([FULL, OTHER], PlannerOptions(single_node_simulations=1), id="a-pool-that-was-not-come-to"),
    ],
)
def test_what_is_to_be_done_soon_is_decided_anew(documents, chosen):
    """The next pass is due some seconds after this one, whenever this one is."""
    cluster, later = make_cluster(make_pool_of("general"), documents), NOW + timedelta(seconds=5)
    first = decide(cluster, CATALOG, NOW, chosen)
    assert first.next_at > later
    found = decide(cluster, CATALOG, later, chosen, previous=first)
    assert found == decide(cluster, CATALOG, later, chosen)
    assert found.next_at == first.next_at + timedelta(seconds=5)


def test_what_a_change_does_not_touch_is_taken_over():
    """The figures of a node are made anew when it, its pods, its pool or the guards of its pods change."""
    cluster = make_cluster(make_pool_of("general"), FULL)
    first = decide(cluster, CATALOG, NOW)
    moved = replace(cluster, pods={**cluster.pods, "b": ()})
    found = decide(moved, CATALOG, NOW, previous=first)
    assert [name for name in "abc" if found.nodes[name] is first.nodes[name]] == ["a", "c"]
    pools = {name: replace(pool) for name, pool in cluster.pools.items()}
    other = decide(replace(cluster, pools=pools, notes=("new",)), CATALOG, NOW, previous=first)
    assert not any(other.nodes[name] is first.nodes[name] for name in "abc")


def test_what_pods_take_is_added_up_again_where_they_changed(monkeypatch):
    cluster = make_cluster(make_pool_of("general"), FULL)
    first, added_up = decide(cluster, CATALOG, NOW), []
    monkeypatch.setattr(Load, "of", lambda node, pods: added_up.append(node) or Load(pods))
    decide(replace(cluster, pods={**cluster.pods, "b": cluster.pods["b"] * 2}), CATALOG, NOW, previous=first)
    assert added_up == ["b"]


def test_what_pods_take_is_not_added_up_again_to_validate(monkeypatch):
    """As long as they stay the same."""
    cluster = make_cluster(make_pool_of("general"), make_worker("a", "small", cores=2), make_pod("p", "a"))
    first, added_up = decide(cluster, CATALOG, NOW), []
    monkeypatch.setattr(Load, "of", lambda node, pods: added_up.append(node) or Load(pods))
    assert isinstance(validate(first.command, cluster, CATALOG, NOW, previous=first), Command)
    assert not added_up


def test_the_end_of_do_not_disrupt_on_a_node_that_goes_is_waited_for():
    """Its pod needs a place from then on, and the node to which it will come is no candidate."""
    pod = make_pod("p", "a", annotations={"karpenter.sh/do-not-disrupt": "2h"}, needs={"cpu": "1"})
    pod["status"]["startTime"] = "2026-06-10T11:00:00Z"
    cluster = make_cluster(make_pool_of("general"), *make_worker("a", "small", cores=2, deleting=NOW), pod)
    assert decide(cluster, None, NOW).next_at == NOW + timedelta(hours=1)


def by_owner(documents):
    """Sort the objects of a cluster: each pool, each node with its claim and its pods, what is pending, the guard."""
    parts = {}
    for each in documents:
        spec, status, name = each.get("spec", {}), each.get("status", {}), each["metadata"]["name"]
        match each["kind"]:
            case "Pod":
                owner = spec.get("nodeName", "")
                each["status"]["startTime"] = format_time(NOW - timedelta(hours=1))  # protection for 2h ends in 1h
            case "NodeClaim":
                owner = status["nodeName"]
            case _:
                owner = name
        parts.setdefault(owner, []).append(each)
    return parts


def changed(parts, others, data):
    """Take some parts from elsewhere, or only their pods; those that are not there go."""
    names = sorted({*parts, *others})
    if not names:
        return parts
    name, whole = data.draw(st.sampled_from(names)), data.draw(st.booleans())
    old, new = parts.get(name, []), others.get(name, [])
    is_pod = [each["kind"] == "Pod" for each in old]
    if not whole and not all(is_pod):
        kept = [each for each, of_pod in zip(old, is_pod, strict=True) if not of_pod]
        new = kept + [each for each in new if each["kind"] == "Pod"]
    return {each: part for each, part in {**parts, name: new}.items() if part}
