"""Bindings as the scheduler sees them: classes (scheduling.md 4) and the order of scaling down (15)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.fleet import Fleet
from scorer.placement.holdings import classify, scale_down
from tests.scorer.builders import BOUND, SCHEDULED, UNSCHEDULED, held, make_cluster, modest, obsolete

FLEET = Fleet.of(
    [
        make_cluster("well"),
        make_cluster("silent", heartbeat=None),
        make_cluster("tainted", taints=[("gpu", "")]),
        make_cluster("leaving", leaving=True),
    ]
)


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        pytest.param(held("well"), "taken", id="bound"),
        pytest.param(held("well", SCHEDULED), "taken", id="scheduled"),
        pytest.param(held("silent"), "taken", id="silent-cluster-keeps-it"),
        pytest.param(held("tainted"), "taken", id="tainted-cluster-keeps-it"),
        pytest.param(obsolete("well"), "obsolete", id="earlier-policy"),
        pytest.param(held("gone"), "dangling", id="cluster-gone"),
        pytest.param(held("leaving"), "dangling", id="cluster-leaving"),
        pytest.param(obsolete("leaving"), "dangling", id="dangling-before-obsolete"),
        pytest.param(held("well", UNSCHEDULED), "unscheduled", id="unscheduled"),
        pytest.param(held("gone", UNSCHEDULED), "unscheduled", id="unscheduled-before-dangling"),
        pytest.param(held("well", deleting=True), "deleting", id="deleting"),
        pytest.param(held("gone", UNSCHEDULED, deleting=True), "deleting", id="deleting-before-all"),
    ],
)
def test_classes(binding, expected):
    holdings = classify([binding], FLEET)
    found = [name for name in ("deleting", "unscheduled", "dangling", "obsolete", "taken") if getattr(holdings, name)]
    assert found == [expected]


def test_an_unscheduled_binding_is_reused_unless_there_is_a_live_one():
    waiting, live = held("well", UNSCHEDULED, name="a"), held("well", name="b", current=False)
    assert classify([waiting], FLEET).by_cluster == {"well": waiting}
    assert classify([waiting, live], FLEET).by_cluster == {"well": live}
    assert classify([held("well", UNSCHEDULED, name="c"), live], FLEET).by_cluster == {"well": live}
    assert classify([held("well", deleting=True)], FLEET).by_cluster == {}


ORDER = [
    held("m", SCHEDULED),
    held("n", SCHEDULED),
    held("z", SCHEDULED, topology=-1000, affinity=90),
    held("y", SCHEDULED, topology=-1, affinity=10),
    held("x", SCHEDULED, topology=-1, affinity=40),
    held("a", SCHEDULED, topology=0, affinity=-5),
    held("b", SCHEDULED, topology=0, affinity=-5),
    held("k", BOUND),
    held("l", BOUND, topology=-2, affinity=100),
    held("c", BOUND, topology=0, affinity=0),
    held("d", BOUND, topology=0, affinity=0),
]
"""Who goes first: waiting before rolled out; no scores, topology, affinity, name."""


@given(st.permutations(ORDER), st.integers(0, len(ORDER)))
@modest(60)
def test_scale_down_order(shuffled, surplus):
    assert [binding.cluster for binding in scale_down(shuffled, surplus)] == [
        binding.cluster for binding in ORDER[:surplus]
    ]
