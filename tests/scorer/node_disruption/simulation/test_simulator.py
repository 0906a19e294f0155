"""Weeks worked out by hand: what goes when, what holds it, what it saves."""

from datetime import timedelta

import pytest

from scorer.node_disruption.methods.planner import PlannerOptions
from scorer.node_disruption.simulation.simulator import simulate
from scorer.node_disruption.simulation.timeline import EXPIRATION, PROVISIONING, SimulationAssumptions
from tests.builders.node import make_requirement
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, drifted, make_catalog, make_cluster, make_pool_of, make_worker

CATALOG = make_catalog({"large": 1.0, "small": 0.3}, cores={"small": 2})
WEEK = timedelta(days=7)
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
ONE = [{"nodes": "1"}]
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def played(*documents, catalog=CATALOG, length=WEEK, assumptions=None, **settings):
    return simulate(
        make_cluster(*documents),
        catalog,
        NOW,
        length,
        PlannerOptions(**settings),
        assumptions or SimulationAssumptions(),
    )


def told(simulated):
    """Return when, as seconds from the start, which nodes begin to go for what."""
    return [
        ((each.at - NOW).total_seconds(), str(each.reason or each.method), each.nodes) for each in simulated.happenings
    ]


def gone(simulated):
    return {each.node: (each.at - NOW).total_seconds() for each in simulated.removals}


def busy(node, cores="3", name="", **more):
    return make_pod(name or f"on-{node}", node, needs={"cpu": cores}, owner="ReplicaSet", **more)


def guard(name="web", allowed=0, app="web", **spec):
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
        "status": {"disruptionsAllowed": allowed},
    }


def test_empty_nodes_go_one_after_the_other_within_a_budget_of_one():
    """Validated after 15 s, drained within 5 s; the next look is 10 s after the last one that found nothing."""
    found = played(make_pool_of(budgets=ONE), *(make_worker(f"n{number}") for number in range(3)))
    assert told(found) == [(15, "Empty", ("n0",)), (40, "Empty", ("n1",)), (65, "Empty", ("n2",))]
    assert gone(found) == {"n0": 20, "n1": 45, "n2": 70}
    assert [each.savings for each in found.happenings] == [1.0, 1.0, 1.0]
    (pool,) = found.pools
    assert (pool.nodes_before, pool.nodes_after, pool.savings, pool.disrupted) == (3, 0, 3.0, {"Empty": 3})
    assert (pool.price_before, pool.price_after) == (3.0, 0.0)


def test_empty_nodes_go_together_without_a_budget():
    found = played(make_pool_of(), *(make_worker(f"n{number}") for number in range(3)))
    assert told(found) == [(15, "Empty", ("n0", "n1", "n2"))]


def test_consolidate_after_is_waited_for():
    """It runs from the last pod event."""
    found = played(make_pool_of(after="30m"), make_worker("n0", last_pod_event=NOW - 10 * MINUTE))
    assert told(found) == [(20 * 60 + 15, "Empty", ("n0",))]
    (blocked,) = found.blocked
    assert (blocked.reason, blocked.until) == ("ConsolidateAfter", NOW + 20 * MINUTE)


def test_a_budget_window_ends_the_waiting():
    budgets = [{"nodes": "0", "schedule": "0 11 * * *", "duration": "2h"}]
    found = played(make_pool_of(budgets=budgets), make_worker("n0"))
    assert told(found) == [(3600 + 15, "Empty", ("n0",))]
    (blocked,) = found.blocked
    assert (blocked.node, blocked.reason, blocked.since, blocked.until) == ("n0", "Budget", NOW, NOW + HOUR)


def test_drift_replaces_one_node_in_each_pass_as_far_as_budgets_let():
    """The new node is ready after 90 s; then the old one is drained, which takes the 30 s of its pod."""
    workers = [make_worker(f"n{number}", conditions=drifted(number * HOUR)) for number in range(1, 4)]
    pods = [busy(f"n{number}") for number in range(1, 4)]
    found = played(make_pool_of(budgets=ONE), workers, pods)
    assert told(found) == [(0, "Drifted", ("n3",)), (120, "Drifted", ("n2",)), (240, "Drifted", ("n1",))]
    assert gone(found) == {"n3": 120, "n2": 240, "n1": 360}
    assert [each.replaced_by for each in found.happenings] == [
        ("general-new-1",),
        ("general-new-2",),
        ("general-new-3",),
    ]
    assert [each.savings for each in found.happenings] == [0.0, 0.0, 0.0]
    assert {each.message for each in found.blocked if each.wanted == "Drifted"}


def test_drift_without_limit_takes_all_at_once():
    workers = [make_worker(f"n{number}", conditions=drifted(number * HOUR)) for number in range(1, 4)]
    pods = [busy(f"n{number}", str(3 + number / 4)) for number in range(1, 4)]
    found = played(make_pool_of(), workers, pods)
    assert told(found) == [(0, "Drifted", (f"n{number}",)) for number in (3, 2, 1)]


def test_a_drifted_node_waits_where_its_pods_would_take_the_new_node_of_another():
    """Both pods are planned together, and the smaller one is planned after the one whose node could stay."""
    workers = make_worker("n1", conditions=drifted(HOUR)), make_worker("n2", conditions=drifted(2 * HOUR))
    first, second = told(played(make_pool_of(), workers, busy("n1", "3.5"), busy("n2", "3")))
    assert (first, second[1:]) == ((0, "Drifted", ("n2",)), ("Drifted", ("n1",)))
    assert second[0] > 0


def test_a_new_node_has_not_drifted_and_lives_anew():
    """It has the digest and the labels that its pool asks for, and expires later."""
    pool = make_pool_of("general", make_requirement("team", "In", "blue", "red"), digest="1")
    old = make_worker("n0", claim={"karpenter.sh/nodepool-hash": "0", "karpenter.sh/nodepool-hash-version": "v3"})
    found = played(pool, old, busy("n0"))
    assert told(found) == [(0, "Drifted", ("n0",))]


def test_expiration_is_not_held_by_budgets():
    """Nor does it wait for a replacement: the pod is evicted at once, and waits until the new node is ready."""
    worker = make_worker("n0", created=NOW - 23 * HOUR, expireAfter="24h")
    pool = make_pool_of(budgets=[{"nodes": "0"}], template=None)
    found = played(pool, worker, busy("n0"), length=timedelta(hours=2))
    (happening,) = found.happenings
    assert (happening.at, happening.method, happening.reason) == (NOW + HOUR, EXPIRATION, "Expired")
    assert (happening.replaced_by, happening.limit, happening.disrupting) == (("general-new-1",), None, 1)
    assert gone(found) == {"n0": 3630}
    (launch,) = found.launches
    assert (launch.at, launch.ready) == (NOW + HOUR, NOW + HOUR + timedelta(seconds=90))


def test_expiration_can_be_held_by_budgets():
    worker = make_worker("n0", created=NOW - 23 * HOUR, expireAfter="24h")
    pool = make_pool_of(budgets=[{"nodes": "0", "schedule": "0 12 * * *", "duration": "3h"}])
    found = played(pool, worker, busy("n0"), length=timedelta(hours=6), graceful_expiration=True)
    assert told(found) == [(3 * 3600, "Expired", ("n0",))]
    assert [(each.wanted, each.until) for each in found.blocked if each.wanted == "Expired"] == [
        ("Expired", NOW + 3 * HOUR)
    ]


def test_expired_nodes_use_up_the_budget():
    """One expires at the moment at which another has drifted: only when it is gone may that one go."""
    workers = [make_worker("a", created=NOW - 24 * HOUR, expireAfter="24h"), make_worker("b", conditions=drifted())]
    found = played(make_pool_of(budgets=ONE), workers, [busy("a"), busy("b")], length=HOUR)
    assert told(found) == [(0, "Expired", ("a",)), (30, "Drifted", ("b",))]


def test_a_disruption_budget_of_pods_holds_a_node_for_the_whole_week():
    found = played(
        make_pool_of(),
        guard(allowed=0),
        make_worker("n0", conditions=drifted()),
        busy("n0", labels={"app": "web"}),
    )
    assert found.happenings == ()
    held = [each for each in found.blocked if each.wanted == "Drifted"]
    assert [(each.node, each.reason, each.since, each.until) for each in held] == [
        ("n0", "PodDisruptionBudget", NOW, None)
    ]
    assert "shop/web" in held[0].message
    assert found.pools[0].longest.length(found.end) == WEEK


def test_a_bounded_drain_ends_all_the_same():
    """With 1 h to drain, a pod that takes 10 min to end is deleted after 50 min; the node is gone after the hour."""
    worker = make_worker("n0", created=NOW - 24 * HOUR, expireAfter="24h", terminationGracePeriod="1h")
    pod = busy("n0", labels={"app": "web"}, terminationGracePeriodSeconds=600)
    found = played(make_pool_of(), guard(allowed=0), worker, pod, length=timedelta(hours=3))
    assert told(found) == [(0, "Expired", ("n0",)), (3000, PROVISIONING, ())]
    assert gone(found) == {"n0": 3600}
    (held,) = [each for each in found.blocked if each.draining]
    assert (held.since, held.until, held.reason) == (NOW, NOW + 50 * MINUTE, "PodDisruptionBudget")


def test_an_unbounded_drain_waits_for_ever():
    worker = make_worker("n0", created=NOW - 24 * HOUR, expireAfter="24h")
    found = played(make_pool_of(), guard(allowed=0), worker, busy("n0", labels={"app": "web"}))
    assert (gone(found), found.pools[0].nodes_after) == ({}, 1)
    assert [each.until for each in found.blocked if each.draining] == [None]


def test_guarded_pods_go_one_after_the_other():
    """The second goes when the first runs again: its new node is ready after 90 s."""
    worker = make_worker("n0", created=NOW - 24 * HOUR, expireAfter="24h")
    pods = [busy("n0", "1", name, labels={"app": "web"}) for name in ("a", "b")]
    found = played(make_pool_of(after="Never"), guard(allowed=1), worker, pods, length=HOUR)
    assert gone(found) == {"n0": 90 + 30}


def test_a_timed_annotation_ends():
    """The pod started an hour ago."""
    pod = busy("n0", annotations={DO_NOT_DISRUPT: "3h"})
    found = played(make_pool_of(), make_worker("n0", conditions=drifted()), pod, length=timedelta(hours=6))
    assert told(found) == [(2 * 3600, "Drifted", ("n0",))]


def test_critical_pods_are_drained_last():
    """An hour for the pod, then a minute for the critical one."""
    worker = make_worker("n0", created=NOW - 24 * HOUR, expireAfter="24h")
    first = busy("n0", "1", "a", terminationGracePeriodSeconds=3600)
    last = busy("n0", "1", "b", priorityClassName="system-cluster-critical", terminationGracePeriodSeconds=60)
    found = played(make_pool_of(after="Never"), worker, first, last, length=timedelta(hours=2))
    assert gone(found) == {"n0": 3660}


def test_pods_move_together_and_save():
    """Two half-empty nodes: one takes the pods of the other."""
    found = played(make_pool_of(), make_worker("a"), make_worker("b"), busy("a", "1.9"), busy("b", "1.9"))
    assert told(found) == [(15, "Underutilized", ("a",))]
    assert (found.happenings[0].savings, found.pools[0].price_after) == (1.0, 1.0)


def test_a_cheaper_node_comes_first():
    """Validated after 15 s, the small node is ready after 90 s, then the large one is drained."""
    found = played(make_pool_of(), make_worker("a"), busy("a", "1.5"))
    (happening,) = found.happenings
    assert (happening.at, happening.nodes) == (NOW + timedelta(seconds=15), ("a",))
    assert (happening.savings, happening.replaced_by) == (pytest.approx(0.7), ("general-new-1",))
    assert gone(found) == {"a": 15 + 90 + 30}
    assert found.launches[0].instance_type == "small"


def test_moved_pods_start_the_clock_of_their_new_node():
    """consolidateAfter runs anew from then on: the last node has become empty only to be filled."""
    workers = [make_worker("a", created=NOW - 24 * HOUR, expireAfter="24h"), make_worker("b")]
    found = played(make_pool_of(after="1h", policy="WhenEmpty"), workers, busy("a", "1"), length=timedelta(hours=4))
    assert told(found)[0] == (0, "Expired", ("a",))
    assert len(found.happenings) == 1


def test_without_prices_nothing_is_consolidated_and_new_nodes_are_like_those_there():
    worker = make_worker("a", created=NOW - 24 * HOUR, expireAfter="24h")
    found = played(make_pool_of(), worker, make_worker("b"), busy("a", "1.5"), busy("b", "3"), catalog=None)
    (happening,) = found.happenings
    assert (happening.reason, happening.savings) == ("Expired", None)
    assert (found.launches[0].instance_type, found.launches[0].price) == ("large", None)
    assert found.pools[0].price_before is None


def test_a_node_that_is_being_deleted_is_drained_from_the_start():
    found = played(make_pool_of(), make_worker("n0", deleting=NOW - MINUTE), busy("n0"))
    (happening,) = found.happenings
    assert (happening.at, happening.method, happening.reason) == (NOW, "Deletion", "")
    assert gone(found) == {"n0": 30}


def test_pending_pods_get_a_node():
    found = played(make_pool_of(), make_pod("waits", needs={"cpu": "1"}, owner="ReplicaSet"), length=HOUR)
    (happening,) = found.happenings
    assert (happening.method, happening.nodes, happening.pods_of) == (PROVISIONING, (), ())


def test_what_finds_no_place_waits():
    """No instance type is large enough."""
    worker = make_worker("n0", cores=16, created=NOW - 24 * HOUR, expireAfter="24h")
    found = played(make_pool_of(), worker, busy("n0", "10"), length=HOUR)
    assert [(each.pod, each.since) for each in found.waiting] == [("shop/on-n0", NOW)]
    assert "nodes are available" in found.waiting[0].reason


def test_it_stops_at_its_bound():
    """Nodes that live for a minute go on for ever."""
    pool = make_pool_of(after="Never")
    pool["spec"]["template"]["spec"]["expireAfter"] = "2m"
    worker = make_worker("n0", created=NOW, expireAfter="2m")
    found = played(pool, worker, busy("n0"), assumptions=SimulationAssumptions(most_happenings=10))
    assert len(found.happenings) == 10
    assert found.stopped.endswith(", after 10 events")
    assert found.end < NOW + WEEK


def test_no_pool_no_happening():
    found = played(make_worker("n0"), busy("n0"))
    assert (found.happenings, found.blocked) == ((), ())


@pytest.mark.parametrize("days", [0, -1])
def test_a_length_must_be_positive(days):
    with pytest.raises(ValueError, match="must be positive"):
        played(length=timedelta(days=days))


def test_nodes_of_two_pools_share_what_they_save():
    """One new node takes the pods of both: the savings are split by price."""
    pools = [make_pool_of("p"), make_pool_of("q")]
    workers = [make_worker("a", pool="p", cores=3), make_worker("b", pool="q", cores=3)]
    catalog = make_catalog({"large": 1.0, "huge": 1.5}, cores={"large": 3, "huge": 8})
    found = played(*pools, *workers, busy("a", "2.9"), busy("b", "2.9"), catalog=catalog)
    assert {each.pool: each.savings for each in found.happenings} == {"p": 0.25, "q": 0.25}
    assert {each.replaced_by for each in found.happenings} == {found.happenings[0].replaced_by}


def test_static_pools_are_replaced_by_their_template():
    pool = make_pool_of(replicas=1)
    found = played(pool, make_worker("n0", conditions=drifted()), busy("n0"))
    (happening,) = found.happenings
    assert (happening.method, happening.nodes, len(happening.replaced_by)) == ("StaticDrift", ("n0",), 1)


def test_limits_leave_pods_waiting_until_there_is_room():
    """A pool of at most one node: the new one can only come when the old one is gone."""
    worker = make_worker("n0", created=NOW - 24 * HOUR, expireAfter="24h")
    found = played(make_pool_of(limits={"nodes": "1"}), worker, busy("n0"), length=HOUR)
    assert gone(found) == {"n0": 30}
    (launch,) = found.launches
    assert launch.at in (NOW, NOW + timedelta(seconds=30))


def test_pods_that_tolerate_the_taint_end_with_the_node():
    """Then they need a new place."""
    worker = make_worker("n0", created=NOW - 24 * HOUR, expireAfter="24h")
    found = played(make_pool_of(), worker, busy("n0", tolerations=[{"operator": "Exists"}]), length=HOUR)
    assert (gone(found), [each.at for each in found.launches]) == ({"n0": 5}, [NOW + timedelta(seconds=5)])


def test_a_node_that_is_not_initialized_becomes_ready():
    """It is taken to be on its way."""
    found = played(make_pool_of(), make_worker("n0", without=["karpenter.sh/initialized"]), length=HOUR)
    assert told(found) == [(90 + 15, "Empty", ("n0",))]


def test_large_clusters_are_looked_at_less_often():
    assert SimulationAssumptions().poll_interval(100) == timedelta(seconds=10)
    assert SimulationAssumptions().poll_interval(2000) == timedelta(seconds=4000)
    assert SimulationAssumptions(look_again=MINUTE).poll_interval(2000) == MINUTE


def test_windows_end_on_time_however_seldom_the_planner_looks():
    """The day is looked at anew every two hours, but the window ends at one."""
    budgets = [{"nodes": "0", "schedule": "0 11 * * *", "duration": "2h"}]
    found = played(
        make_pool_of(budgets=budgets),
        make_worker("n0"),
        assumptions=SimulationAssumptions(look_again=timedelta(hours=2)),
    )
    assert told(found) == [(3600 + 15, "Empty", ("n0",))]


def test_an_expired_node_of_a_static_pool_is_made_up_for():
    """At once, and with as many nodes as before; its pods find a place there."""
    pool = make_pool_of(replicas=2, expireAfter="24h")
    found = played(
        pool, [make_worker(name, expireAfter="24h", created=NOW - 23 * HOUR) for name in "ab"], busy("a", "1")
    )
    assert [(each.reason, each.replaced_by) for each in found.happenings[:2]] == [
        ("Expired", ("general-new-1",)),
        ("Expired", ("general-new-2",)),
    ]
    (summary,) = found.pools
    assert (summary.nodes_before, summary.nodes_after, found.waiting) == (2, 2, ())


def test_nodes_beyond_the_replicas_of_a_static_pool_go():
    """Whatever budgets say; those that stay are replaced after that, when they have drifted."""
    pool = make_pool_of(replicas=1, budgets=[{"nodes": "0", "reasons": ["Empty"]}])
    found = played(pool, make_worker("a", conditions=drifted()), make_worker("b"), busy("a"))
    assert told(found) == [(0, "Overprovisioned", ("b",)), (0, "Drifted", ("a",))]
    assert found.happenings[0].limit is None


def test_a_static_pool_with_too_few_nodes_gets_more():
    found = played(make_pool_of(replicas=2), make_worker("a"))
    (only,) = found.happenings
    assert (only.method, only.replaced_by, only.why) == (
        PROVISIONING,
        ("general-new-1",),
        "NodePool general should have 2 nodes",
    )


def test_without_prices_a_new_node_is_what_its_pool_asks_for_now():
    """One of the old kind would have drifted at once, and the next one as well, without end."""
    pool = make_pool_of("general", make_requirement("node.kubernetes.io/instance-type", "In", "other"))
    found = played(pool, make_worker("a"), busy("a"), catalog=None)
    assert told(found) == [(0, "Drifted", ("a",))]
    assert [each.instance_type for each in found.launches] == ["other"]


def test_a_node_of_no_pool_does_not_expire():
    node, claim = make_worker("a", expireAfter="1h", created=NOW - 2 * HOUR)
    del node["metadata"]["labels"]["karpenter.sh/nodepool"]
    assert told(played(make_pool_of(), node, claim)) == []


def test_a_drain_that_would_end_after_the_year_9999():
    node, claim = make_worker("a", deleting=NOW, terminationGracePeriod="1h")
    claim["metadata"]["deletionTimestamp"] = "9999-12-31T23:59:59Z"
    assert gone(played(make_pool_of(), node, claim)) == {"a": 5}


def test_pods_behind_scheduling_gates_get_no_node():
    gated = make_pod("p", needs={"cpu": "1"}, owner="ReplicaSet", schedulingGates=[{"name": "g"}])
    assert told(played(make_pool_of(), make_worker("a"), busy("a", "4"), gated)) == []


def test_a_guard_allows_more_once_its_pods_run():
    """At the start, one of its two pods waits for a node."""
    web = {"app": "web"}
    held = guard(allowed=0)
    held["status"] |= {"currentHealthy": 1, "desiredHealthy": 1}
    waits = make_pod("w2", needs={"cpu": "1"}, owner="ReplicaSet", labels=web)
    pods = [make_pod("w1", "a", needs={"cpu": "1"}, owner="ReplicaSet", labels=web), waits]
    pool = make_pool_of(policy="WhenEmpty", after="Never")
    found = played(pool, make_worker("a", conditions=drifted()), make_worker("b"), pods, held)
    assert [each for each in told(found) if each[1] == "Drifted"] == [(0, "Drifted", ("a",))]


def test_nodes_beyond_the_limit_of_their_pool_come_one_after_the_other():
    """A claim is made while no more is used than the limit says; what goes counts until it is gone."""
    pool = make_pool_of(limits={"cpu": "8"})
    found = played(pool, [make_worker(name, conditions=drifted()) for name in "ab"], busy("a", "4"), busy("b", "4"))
    first, second = (each for each in found.launches)
    assert second.at == NOW + timedelta(seconds=gone(found)["a"])
    assert (first.at, [each.nodes for each in found.happenings]) == (NOW, [("a",), ("b",)])


@pytest.mark.parametrize(
    ("pool", "catalog"),
    [
        pytest.param({"policy": "WhenEmpty"}, CATALOG, id="policy"),
        pytest.param({"after": "Never"}, CATALOG, id="never"),
        pytest.param({}, None, id="no-prices"),
    ],
)
def test_what_is_never_consolidated_is_not_held_from_it(pool, catalog):
    web = {"app": "web"}
    found = played(make_pool_of(**pool), make_worker("a"), busy("a", labels=web), guard(), catalog=catalog)
    assert found.blocked == ()
