"""The drain of one node: whose turn it is, what is held, what is forced."""

from datetime import timedelta

import pytest

from scorer.node_budgets.blockers import read_pod_guard
from scorer.node_disruption.cluster.pod import read_pod
from scorer.node_disruption.drain.eviction import EvictionLedger
from scorer.node_disruption.simulation.drain import NodeDrain
from tests.builders.pod import make_pod
from tests.builders.worker import NOW

SHORTEST = timedelta(seconds=5)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def pod(name, **more):
    return read_pod(make_pod(name, "n0", **{"owner": "ReplicaSet", **more}))


def book(*guards):
    read = [read_pod_guard(each) for each in guards]
    return EvictionLedger({"shop": read} if read else {})


def guard(name="web", allowed=0, **spec):
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        "status": {"disruptionsAllowed": allowed},
    }


def names(pods):
    return [each.name for each in pods]


def test_an_empty_node_is_gone_after_the_shortest_time():
    drain = NodeDrain((), NOW, None)
    assert drain.evict(NOW, book()) == []
    assert drain.next_at(NOW, SHORTEST) == NOW + SHORTEST
    assert not drain.is_over(NOW, SHORTEST)
    assert drain.is_over(NOW + SHORTEST, SHORTEST)


def test_tiers_follow_each_other():
    critical = {"priorityClassName": "system-node-critical"}
    pods = [
        pod("d", owner="DaemonSet", **critical),
        pod("c", **critical),
        pod("b", owner="DaemonSet"),
        pod("a", terminationGracePeriodSeconds=10),
    ]
    drain, now, order = NodeDrain(pods, NOW, None), NOW, []
    while not drain.is_over(now, SHORTEST):
        order += [(each.name, (now - NOW).total_seconds()) for each in drain.evict(now, book())]
        now = drain.next_at(now, SHORTEST) or now
    assert order == [("a", 0), ("b", 10), ("c", 40), ("d", 70)]
    assert now == NOW + timedelta(seconds=100)


def test_some_pods_are_not_drained():
    """Mirror pods, pods that tolerate the taint, and finished ones end with the node."""
    tolerant = pod("t", tolerations=[{"operator": "Exists"}])
    drain = NodeDrain([tolerant, pod("m", owner="Node"), pod("f", phase="Succeeded")], NOW, None)
    assert drain.evict(NOW, book()) == []
    assert names(drain.staying) == ["t", "m", "f"]
    assert drain.is_over(NOW + SHORTEST, SHORTEST)


def test_a_pod_that_ends_already_is_waited_for():
    drain = NodeDrain([pod("a", deleting="2026-06-10T12:00:20Z")], NOW, None)
    assert drain.evict(NOW, book()) == []
    assert drain.next_at(NOW, SHORTEST) == NOW + 20 * SECOND
    assert drain.evict(NOW + 20 * SECOND, book()) == []
    assert drain.is_over(NOW + 20 * SECOND, SHORTEST)


def test_a_protected_pod_is_waited_for():
    """It started at 11:00."""
    drain = NodeDrain([pod("a", annotations={"karpenter.sh/do-not-disrupt": "2h"})], NOW, None)
    assert drain.evict(NOW, book()) == []
    (hold,) = drain.holds(NOW, book())
    assert (hold.reason, hold.until) == ("DoNotDisrupt", NOW + 60 * MINUTE)
    assert drain.next_at(NOW, SHORTEST) == NOW + 60 * MINUTE
    assert names(drain.evict(NOW + 60 * MINUTE, book())) == ["a"]


@pytest.mark.parametrize(
    ("bound", "grace", "forced"),
    [
        pytest.param(60, 600, 50, id="spec-9-example"),
        pytest.param(0, 30, 0, id="at-once"),
        pytest.param(5, 600, 0, id="shorter-than-the-pod-takes"),
    ],
)
def test_a_bound_forces_pods(bound, grace, forced):
    """Minutes from the start; the node is gone at the bound."""
    end = NOW + bound * MINUTE
    drain = NodeDrain([pod("a", labels={"app": "web"}, terminationGracePeriodSeconds=grace)], NOW, end)
    held = book(guard())
    at = NOW + forced * MINUTE
    if forced:
        assert drain.evict(NOW, held) == []
        assert drain.next_at(NOW, SHORTEST) == at
    assert names(drain.evict(at, held)) == ["a"]
    assert drain.is_over(end, SHORTEST)
    assert not drain.is_over(end - SECOND, SHORTEST)


def test_a_guard_lets_pods_go_as_others_come_back():
    kept, drain = book(guard(allowed=1)), NodeDrain([pod(name, labels={"app": "web"}) for name in "abc"], NOW, None)
    assert names(drain.evict(NOW, kept)) == ["a"]
    assert [each.pod for each in drain.holds(NOW, kept)] == ["shop/b", "shop/c"]
    kept.record_restart("shop/a")
    assert names(drain.evict(NOW, kept)) == ["b"]


def test_two_guards_hold_for_ever():
    kept = book(guard("one", 5), guard("two", 5))
    drain = NodeDrain([pod("a", labels={"app": "web"})], NOW, None)
    assert drain.evict(NOW, kept) == []
    assert [each.reason for each in drain.holds(NOW, kept)] == ["SeveralPodDisruptionBudgets"]


def test_a_guard_lets_pods_go_that_are_not_ready():
    made = make_pod("a", "n0", labels={"app": "web"}, owner="ReplicaSet")
    made["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    drain = NodeDrain([read_pod(made)], NOW, None)
    assert names(drain.evict(NOW, book(guard(unhealthyPodEvictionPolicy="AlwaysAllow")))) == ["a"]


def test_the_planner_sees_what_guards_still_allow():
    kept, away = book(guard(allowed=2)), pod("a", labels={"app": "web"})
    before = kept.guards()
    kept.leave(away)
    kept.leave(away)  # only once
    assert [each.disruptions_allowed for each in kept.guards()["shop"]] == [1]
    kept.record_restart(away.key)
    assert kept.guards() == before


def unready(name):
    made = make_pod(name, "n0", labels={"app": "web"}, owner="ReplicaSet")
    made["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return read_pod(made)


def healthy(current, desired, allowed=0, **spec):
    found = guard(allowed=allowed, **spec)
    found["status"] |= {"currentHealthy": current, "desiredHealthy": desired}
    return found


def test_a_pod_that_does_not_run_yet_goes_whatever_guards_it():
    drain = NodeDrain([pod("a", labels={"app": "web"}, phase="Pending")], NOW, None)
    assert names(drain.evict(NOW, book(guard("one"), guard("two")))) == ["a"]


@pytest.mark.parametrize(
    ("current", "desired", "goes"),
    [
        pytest.param(2, 2, ["a"], id="has-what-it-wants"),
        pytest.param(1, 2, [], id="lacks-one"),
        pytest.param(0, 0, [], id="wants-none"),
    ],
)
def test_a_guard_that_has_what_it_wants_lets_go_what_is_not_ready(current, desired, goes):
    """The default policy, IfHealthyBudget."""
    drain = NodeDrain([unready("a")], NOW, None)
    assert names(drain.evict(NOW, book(healthy(current, desired)))) == goes


def test_what_is_not_ready_takes_nothing_of_what_is_allowed():
    drain = NodeDrain([unready("a"), pod("b", labels={"app": "web"})], NOW, None)
    kept = book(healthy(2, 1, allowed=1, unhealthyPodEvictionPolicy="AlwaysAllow"))
    assert names(drain.evict(NOW, kept)) == ["a", "b"]


def test_a_pod_that_runs_at_last_adds_to_what_is_allowed():
    kept, waits = book(healthy(1, 1)), read_pod(make_pod("w", labels={"app": "web"}))
    kept.leave(waits)
    assert [each.disruptions_allowed for each in kept.guards()["shop"]] == [0]
    kept.record_restart(waits.key)
    assert [each.disruptions_allowed for each in kept.guards()["shop"]] == [1]


def test_a_guard_that_lacks_pods_allows_none_until_it_has_them():
    kept = book(healthy(0, 1))
    for name, allowed in (("v", 0), ("w", 1)):
        waits = read_pod(make_pod(name, labels={"app": "web"}))
        kept.leave(waits)
        kept.record_restart(waits.key)
        assert [each.disruptions_allowed for each in kept.guards()["shop"]] == [allowed]


def test_a_guard_of_which_nothing_is_known_stays_as_it_is():
    kept, waits = book(guard()), read_pod(make_pod("w", labels={"app": "web"}))
    kept.leave(waits)
    kept.record_restart(waits.key)
    assert [each.disruptions_allowed for each in kept.guards()["shop"]] == [0]
