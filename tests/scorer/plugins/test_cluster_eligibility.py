"""ClusterEligibility: categories and words. The six tests themselves: tests/scorer/test_fleet.py."""

from datetime import timedelta

import pytest
from hypothesis import given

from scorer.fleet import Fleet
from scorer.framework.status import Category
from scorer.plugins.cluster_eligibility import eligible, ineligibility
from tests.scorer.builders import MINUTE, NOW, make_cluster, members, modest, policy, run


@pytest.mark.parametrize(
    ("facts", "category", "words"),
    [
        pytest.param({"leaving": True}, Category.CLUSTER_LEAVING, ["leaving"], id="leaving"),
        pytest.param({"agents": ()}, Category.AGENT_NOT_REPORTING, ["no member agent"], id="no-agent"),
        pytest.param({"heartbeat": 14 * MINUTE}, Category.HEARTBEAT_STALE, ["14m ago", "limit 5m"], id="silent"),
        pytest.param({"heartbeat": None}, Category.HEARTBEAT_STALE, ["no heartbeat yet", "5m"], id="never-heard-of"),
        pytest.param({"joined": "False"}, Category.AGENT_NOT_JOINED, ["Joined", "False"], id="not-joined"),
        pytest.param({"joined": None}, Category.AGENT_NOT_JOINED, ["Joined", "absent"], id="no-joined-condition"),
        pytest.param({"healthy": None}, Category.HEALTH_UNKNOWN, ["no health"], id="no-health"),
        pytest.param(
            {"healthy": "False", "health_since": 9 * MINUTE},
            Category.CLUSTER_UNHEALTHY,
            ["Healthy is False for 9m", "limit 5m"],
            id="unhealthy",
        ),
        pytest.param(
            {"healthy": "Unknown", "health_since": None},
            Category.CLUSTER_UNHEALTHY,
            ["Healthy is Unknown", "unknown time"],
            id="unhealthy-since-unknown",
        ),
    ],
)
def test_refusals(facts, category, words):
    refusal = ineligibility(Fleet.of([make_cluster("a", **facts)]), 0, NOW)
    assert refusal.category is category
    assert refusal.plugin == "ClusterEligibility"
    assert str(refusal).startswith(f"{category}: ")
    assert all(word in refusal.message for word in words)


@given(members())
@modest(60)
def test_a_reason_is_given_exactly_for_those_that_cannot_be_picked(clusters):
    fleet = Fleet.of(clusters)
    judged = run(policy(), fleet)
    assert eligible(fleet, NOW).tolist() == [ineligibility(fleet, row, NOW) is None for row in range(len(fleet))]
    refused = [ineligibility(fleet, row, NOW) for row in range(len(fleet))]
    counts = judged.request.profile.eligibility.categories(judged.last.cycle, ~eligible(fleet, NOW))
    assert counts == {
        category: sum(refusal is not None and refusal.category == category for refusal in refused)
        for category in counts
    }
    assert sum(counts.values()) == sum(refusal is not None for refusal in refused)


def test_a_reason_can_be_worded_for_times_far_away():
    cluster = make_cluster("a", heartbeat=timedelta(days=700_000))
    assert "ago" in ineligibility(Fleet.of([cluster]), 0, NOW).message
