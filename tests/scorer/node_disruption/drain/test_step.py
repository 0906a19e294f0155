"""Steps of a drain: whose turn it is, what is waited for, what is deleted when time is up, and when to look again."""

from datetime import timedelta

import pytest

from scorer.node_budgets.blockers import PodGuard
from scorer.node_disruption.cluster.pod import read_pod
from scorer.node_disruption.drain.step import SHORTEST, STUCK, drain_deadline, drain_step
from tests.builders.pod import make_pod
from tests.builders.worker import NOW

KEEP = {"karpenter.sh/do-not-disrupt": "true"}
TAINT = {"key": "karpenter.sh/disrupted", "operator": "Exists"}
CRITICAL = {"priorityClassName": "system-node-critical"}


def later(**delta):
    return (NOW + timedelta(**delta)).isoformat().replace("+00:00", "Z")


def pods(*documents):
    return [read_pod(each) for each in documents]


def step(*documents, after=timedelta(), deadline=None, guards=None):
    return drain_step(pods(*documents), guards or {}, NOW + after, since=NOW, deadline=deadline)


def names(found):
    return [each.name for each in found]


@pytest.mark.parametrize(
    ("left", "turn"),
    [
        pytest.param(["plain", "daemon", "critical", "critical-daemon"], ["plain"], id="pods-first"),
        pytest.param(["daemon", "critical", "critical-daemon"], ["daemon"], id="then-daemons"),
        pytest.param(["critical", "critical-daemon"], ["critical"], id="then-critical-pods"),
        pytest.param(["critical-daemon"], ["critical-daemon"], id="then-critical-daemons"),
        pytest.param([], [], id="nothing-left"),
    ],
)
def test_a_tier_goes_when_the_one_before_is_gone(left, turn):
    made = {
        "plain": make_pod("plain", "a"),
        "daemon": make_pod("daemon", "a", owner="DaemonSet"),
        "critical": make_pod("critical", "a", **CRITICAL),
        "critical-daemon": make_pod("critical-daemon", "a", owner="DaemonSet", **CRITICAL),
    }
    assert names(step(*(made[name] for name in left)).evict) == turn


def test_a_pod_that_is_ending_keeps_the_next_tier_waiting():
    found = step(make_pod("going", "a", deleting=later(seconds=20)), make_pod("daemon", "a", owner="DaemonSet"))
    assert (names(found.evict), found.left) == ([], 2)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(make_pod("p", "a", phase="Succeeded"), id="finished"),
        pytest.param(make_pod("p", "a", owner="Node"), id="mirror"),
        pytest.param(make_pod("p", "a", tolerations=[TAINT]), id="tolerating"),
        pytest.param(make_pod("p", "a", deleting="2026-06-10T11:58:59Z"), id="stuck-for-more-than-a-minute"),
    ],
)
def test_what_is_not_drained(pod):
    found = step(pod, after=SHORTEST)
    assert (found.left, found.is_over) == (0, True)


def test_a_pod_that_should_have_ended_a_minute_ago_is_still_waited_for():
    found = step(make_pod("p", "a", deleting=later(seconds=-60)))
    assert (found.left, found.is_over) == (1, False)
    assert found.next_at is None
    assert step(make_pod("p", "a", deleting=later(seconds=-59))).next_at == NOW - timedelta(seconds=59) + STUCK


def test_a_protected_pod_is_waited_for_and_not_evicted():
    found = step(make_pod("kept", "a", annotations=KEEP))
    assert (names(found.evict), found.left, found.is_over) == ([], 1, False)
    assert [(each.pod, each.reason, each.until) for each in found.holds] == [("shop/kept", "DoNotDisrupt", None)]


def test_protection_for_a_time_ends():
    pod = make_pod("kept", "a", annotations={"karpenter.sh/do-not-disrupt": "90m"})
    found = step(pod)
    assert found.next_at == NOW + timedelta(minutes=30)
    assert found.holds[0].until == found.next_at
    assert names(step(pod, after=timedelta(minutes=30)).evict) == ["kept"]


def test_a_guarded_pod_is_tried_and_the_guard_explains():
    guard = PodGuard("shop", "web", {}, disruptions_allowed=0)
    found = step(make_pod("web", "a"), guards={"shop": (guard,)})
    assert names(found.evict) == ["web"]
    assert [each.message for each in found.holds] == ["PodDisruptionBudget shop/web allows no evictions: pod shop/web"]


def test_with_an_hour_a_pod_that_takes_ten_minutes_is_forced_at_fifty():
    pod = make_pod("slow", "a", annotations=KEEP, terminationGracePeriodSeconds=600)
    deadline = NOW + timedelta(hours=1)
    before = step(pod, after=timedelta(minutes=49, seconds=59), deadline=deadline)
    assert (before.delete, before.next_at) == ((), NOW + timedelta(minutes=50))
    [forced] = step(pod, after=timedelta(minutes=50), deadline=deadline).delete
    assert forced.grace == timedelta(minutes=10)
    [late] = step(pod, after=timedelta(minutes=55), deadline=deadline).delete
    assert late.grace == timedelta(minutes=5)
    [last] = step(pod, after=timedelta(hours=2), deadline=deadline).delete
    assert last.grace == timedelta(seconds=1)


def test_all_tiers_are_forced_at_once_when_there_is_no_time():
    found = step(
        make_pod("plain", "a", annotations=KEEP), make_pod("system", "a", owner="DaemonSet", **CRITICAL), deadline=NOW
    )
    assert [(each.pod.name, each.grace.total_seconds()) for each in found.delete] == [("plain", 1), ("system", 1)]
    assert found.evict == ()


def test_an_end_beyond_the_deadline_is_shortened_once():
    deadline = NOW + timedelta(seconds=10)
    [forced] = step(make_pod("slow", "a", deleting=later(minutes=5)), deadline=deadline).delete
    assert forced.grace == timedelta(seconds=10)
    assert step(make_pod("slow", "a", deleting=later(seconds=10)), deadline=deadline).delete == ()


def test_an_empty_node_goes_after_five_seconds_or_at_its_deadline():
    assert not step(after=timedelta(seconds=4)).is_over
    assert step().next_at == NOW + SHORTEST
    assert step(after=SHORTEST).is_over
    assert step(deadline=NOW).is_over


@pytest.mark.parametrize(
    ("bound", "announced", "found"),
    [
        pytest.param(None, None, None, id="waits-for-ever"),
        pytest.param(timedelta(hours=1), None, NOW + timedelta(hours=1), id="from-its-beginning"),
        pytest.param(timedelta(0), None, NOW, id="at-once"),
        pytest.param(timedelta(hours=1), NOW, NOW, id="an-announced-one-is-never-moved"),
        pytest.param(timedelta(days=3_000_000), None, None, id="beyond-all-calendars"),
    ],
)
def test_when_a_drain_ends(bound, announced, found):
    assert drain_deadline(NOW, bound, announced) == found
