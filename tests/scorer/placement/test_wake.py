"""Which placements a change of a member cluster wakes (scheduling.md 2)."""

from datetime import timedelta

import pytest

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.placement.placement import PlacementType
from scorer.eligibility import EligibilityLimits
from scorer.placement.wake import RequeueCandidate, placements_to_requeue
from tests.scorer.builders import LATENCY, MINUTE, NODES, NOW, cluster_document, external, make_cluster

SLEEPERS = [
    RequeueCandidate("all", PlacementType.PICK_ALL, fully_scheduled=True),
    RequeueCandidate("all-short", PlacementType.PICK_ALL, fully_scheduled=False),
    RequeueCandidate("n", PlacementType.PICK_N, fully_scheduled=True),
    RequeueCandidate("n-short", PlacementType.PICK_N, fully_scheduled=False),
    RequeueCandidate("fixed", PlacementType.PICK_FIXED, fully_scheduled=True),
    RequeueCandidate("fixed-short", PlacementType.PICK_FIXED, fully_scheduled=False),
]
EVERYBODY = [sleeper.name for sleeper in SLEEPERS]
THE_NEEDY = ["all", "all-short", "n-short", "fixed-short"]
NOBODY: list[str] = []

TAINTS = [("gpu", ""), ("dock", "dry")]
BASE = {
    "labels": {"env": "prod"},
    "taints": TAINTS,
    "properties": {NODES: "5"},
    "capacity": {"cpu": "8", "memory": "1Gi"},
    "available": {"cpu": "2"},
    "collects": "True",
    "namespaces": ["shop"],
}


def facts(**changes):
    return {**BASE, **changes}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({}, {}, NOBODY, id="nothing"),
        pytest.param({}, {"labels": {"env": "dev"}}, THE_NEEDY, id="label-value"),
        pytest.param({}, {"labels": {"env": "prod", "tier": "1"}}, THE_NEEDY, id="label-added"),
        pytest.param({}, {"labels": {}}, THE_NEEDY, id="label-removed"),
        pytest.param({}, {"taints": TAINTS[:1]}, THE_NEEDY, id="taint-removed"),
        pytest.param({}, {"taints": [("gpu", ""), ("dock", "wet")]}, THE_NEEDY, id="taint-edited"),
        pytest.param({}, {"taints": [*TAINTS, ("night", "")]}, NOBODY, id="taint-added"),
        pytest.param({}, {"taints": TAINTS[::-1]}, NOBODY, id="taints-reordered"),
        pytest.param({}, {"properties": {NODES: "6"}}, THE_NEEDY, id="property-value"),
        pytest.param({}, {"properties": {NODES: "5.0"}}, THE_NEEDY, id="property-text-though-equal"),
        pytest.param({}, {"properties": {NODES: "5", "load": "1"}}, THE_NEEDY, id="property-added"),
        pytest.param({}, {"properties": {}}, THE_NEEDY, id="property-removed"),
        pytest.param({}, {"observed": timedelta(0)}, NOBODY, id="newer-observation"),
        pytest.param({}, {"annotations": {LATENCY: external("1")}}, THE_NEEDY, id="score-added"),
        pytest.param({"annotations": {LATENCY: external("1")}}, {}, THE_NEEDY, id="score-removed"),
        pytest.param(
            {"annotations": {LATENCY: external("1", MINUTE)}},
            {"annotations": {LATENCY: external("1", 9 * MINUTE)}},
            NOBODY,
            id="score-renewed",
        ),
        pytest.param(
            {"annotations": {LATENCY: external("1", -MINUTE)}},
            {"annotations": {LATENCY: external("1", MINUTE)}},
            THE_NEEDY,
            id="score-renewed-too-late",
        ),
        pytest.param(
            {"annotations": {LATENCY: external("1")}},
            {"annotations": {LATENCY: external("2")}},
            THE_NEEDY,
            id="score-value",
        ),
        pytest.param({}, {"annotations": {LATENCY: "junk"}}, THE_NEEDY, id="unreadable-score-added"),
        pytest.param({}, {"annotations": {"who": "ann"}}, NOBODY, id="another-annotation"),
        pytest.param({}, {"namespaces": ["shop", "till"]}, THE_NEEDY, id="namespace-added"),
        pytest.param({"namespaces": None}, {"namespaces": []}, NOBODY, id="namespaces-absent-is-empty"),
        pytest.param({}, {"capacity": {"cpu": "8000m", "memory": "1024Mi"}}, NOBODY, id="amounts-spelled-otherwise"),
        pytest.param({}, {"capacity": {"cpu": "9", "memory": "1Gi"}}, THE_NEEDY, id="capacity"),
        pytest.param({}, {"capacity": {"cpu": "8"}}, THE_NEEDY, id="capacity-key-removed"),
        pytest.param({}, {"allocatable": {"cpu": "7"}}, THE_NEEDY, id="allocatable"),
        pytest.param({}, {"available": {"cpu": "1"}}, THE_NEEDY, id="available"),
        pytest.param({"heartbeat": 9 * MINUTE}, {}, THE_NEEDY, id="eligible-again"),
        pytest.param({"healthy": None}, {}, THE_NEEDY, id="health-reported"),
        pytest.param({}, {"heartbeat": 9 * MINUTE}, NOBODY, id="no-longer-eligible"),
        pytest.param({}, {"healthy": "False", "health_since": 9 * MINUTE}, NOBODY, id="turned-unhealthy"),
        pytest.param({"heartbeat": 4 * MINUTE}, {"heartbeat": MINUTE}, NOBODY, id="a-heartbeat-like-any-other"),
        pytest.param({}, {"collects": None}, NOBODY, id="condition-only"),
        pytest.param({}, {"leaving": True}, EVERYBODY, id="DV-13-leaving"),
        pytest.param({"leaving": True}, {"leaving": True, "labels": {}}, NOBODY, id="change-while-leaving"),
    ],
)
def test_who_wakes(old, new, expected):
    assert (
        placements_to_requeue(make_cluster("a", **facts(**old)), make_cluster("a", **facts(**new)), SLEEPERS, NOW)
        == expected
    )


def test_a_new_cluster_wakes_nobody():
    assert placements_to_requeue(None, make_cluster("a"), SLEEPERS, NOW) == NOBODY


def test_a_cluster_that_is_gone_wakes_everybody():
    assert placements_to_requeue(make_cluster("a"), None, SLEEPERS, NOW) == EVERYBODY
    assert placements_to_requeue(make_cluster("a", leaving=True), None, SLEEPERS, NOW) == EVERYBODY


def test_eligibility_is_judged_at_the_time_of_the_event():
    before, after = make_cluster("a", heartbeat=MINUTE), make_cluster("a", heartbeat=timedelta(0))
    assert placements_to_requeue(before, after, SLEEPERS, NOW) == NOBODY
    assert placements_to_requeue(before, after, SLEEPERS, NOW + 4 * MINUTE + timedelta(seconds=30)) == THE_NEEDY
    assert (
        placements_to_requeue(before, after, SLEEPERS, NOW, EligibilityLimits(heartbeat=timedelta(seconds=30)))
        == THE_NEEDY
    )


def test_a_taint_is_its_key_value_and_effect():
    document = cluster_document("a", taints=[("gpu", "")])
    spelled = cluster_document("a", taints=[("gpu", "")])
    del spelled["spec"]["taints"][0]["value"]
    assert placements_to_requeue(MemberCluster.read(document), MemberCluster.read(spelled), SLEEPERS, NOW) == NOBODY
