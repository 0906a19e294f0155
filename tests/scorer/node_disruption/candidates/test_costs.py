"""Figures of nodes and pods; the examples of nodepool-disruption.md 6.1 and 6.2."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.node_disruption.candidates.candidate import (
    Circumstances,
    candidates,
    disruption_cost,
    eviction_cost,
    is_empty,
    lifetime_remaining,
    reschedule_cost,
    savings_ratio,
)
from scorer.node_disruption.cluster.pod import read_pod
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, make_catalog, make_cluster, make_pool_of, make_worker

COST, OLDER_COST = "karpenter.sh/disruption-cost", "controller.kubernetes.io/pod-deletion-cost"


def pod(cost=None, priority=None, key=OLDER_COST, **more):
    annotations = {} if cost is None else {key: str(cost)}
    spec = {} if priority is None else {"priority": priority}
    return read_pod(make_pod("p", "n", annotations=annotations, **spec, **more))


@pytest.mark.parametrize(
    ("cost", "priority", "expected"),
    [
        pytest.param(None, None, 1.0, id="6.1-none"),
        pytest.param(50_000_000, None, 1.3725, id="6.1-deletion-cost"),
        pytest.param(2**31 - 1, None, 10.0, id="6.1-largest-is-clamped"),
        pytest.param(-134_217_728, None, 0.0, id="6.1-no-cost"),
        pytest.param(-(2**31), -(2**31), -10.0, id="smallest-is-clamped"),
        pytest.param(None, 100_000, 1.0030, id="6.1-priority"),
        pytest.param(None, 1_000_000_000, 10.0, id="6.1-largest-priority-is-clamped"),
        pytest.param("2147483648", None, 1.0, id="more-than-32-bits-counts-as-0"),
        pytest.param("1.5", None, 1.0, id="a-fraction-counts-as-0"),
    ],
)
def test_eviction_cost(cost, priority, expected):
    assert eviction_cost(pod(cost, priority)) == pytest.approx(expected, abs=5e-5)


def test_the_newer_annotation_counts_before_the_older():
    both = make_pod("p", "n", annotations={COST: "134217728", OLDER_COST: "-134217728"})
    assert eviction_cost(read_pod(both)) == 2.0


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], 1.0, id="6.2-nothing-runs"),
        pytest.param([pod(), pod(), pod()], 4.0, id="three-pods"),
        pytest.param([pod(-(2**31))], 1.0, id="negative-costs-are-no-discount"),
        pytest.param([pod(owner="DaemonSet"), pod(owner="Node")], 1.0, id="daemons-and-mirror-pods-stay"),
        pytest.param([pod(phase="Succeeded")], 1.0, id="finished-pods-cost-nothing"),
        pytest.param([pod(deleting="2026-06-10T11:59:00Z")], 1.0, id="terminating-pods-cost-nothing"),
        pytest.param(
            [pod(deleting="2026-06-10T11:59:00Z", owner="StatefulSet")], 2.0, id="terminating-pods-of-stateful-sets-do"
        ),
    ],
)
def test_reschedule_cost(pods, expected):
    cost = reschedule_cost(pods)
    assert cost == expected
    assert is_empty(cost) is (expected == 1.0)


@pytest.mark.parametrize(
    ("age", "expire_after", "expected"),
    [
        pytest.param(180, 720, 0.75, id="6.2-example"),
        pytest.param(0, 720, 1.0, id="new"),
        pytest.param(-5, 720, 1.0, id="made-in-the-future"),
        pytest.param(800, 720, 0.0, id="too-old"),
        pytest.param(800, None, 1.0, id="lives-for-ever"),
        pytest.param(1, 0, 0.0, id="no-life-at-all"),
    ],
)
def test_lifetime_remaining(age, expire_after, expected):
    life = None if expire_after is None else timedelta(hours=expire_after)
    assert lifetime_remaining(NOW - timedelta(hours=age), life, NOW) == expected


def test_disruption_cost_of_the_example():
    """Three default pods, a quarter of the life of the node gone: 3 * 0.75."""
    remaining = lifetime_remaining(NOW - timedelta(hours=180), timedelta(hours=720), NOW)
    assert disruption_cost([pod(), pod(), pod()], remaining) == 2.25


def test_a_node_has_its_figures():
    cluster = make_cluster(
        make_pool_of(), make_worker("a"), make_worker("b", "unheard-of"), make_pod("p", "a"), make_pod("q", "b")
    )
    found = candidates(Circumstances(cluster, make_catalog({"large": 3.0}), NOW))
    assert (found["a"].price, found["a"].cost, found["a"].savings_ratio) == (3.0, 2.0, 1.5)
    assert (found["b"].price, found["b"].savings_ratio) == (None, 0.0)


@given(cost=st.integers(-(2**31), 2**31 - 1), priority=st.none() | st.integers(-(2**31), 2**31 - 1))
def test_a_cost_is_within_bounds(cost, priority):
    assert -10.0 <= eviction_cost(pod(cost, priority)) <= 10.0


@given(price=st.floats(0, 1e6), costs=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5))
def test_a_ratio_never_exceeds_the_price(price, costs):
    assert 0 <= savings_ratio(price, reschedule_cost(pod(cost) for cost in costs)) <= price
