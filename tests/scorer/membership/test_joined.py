"""What a member still lacks, in the order in which it comes about."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.meta import format_time
from scorer.membership.joined import missing_for_joining

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def condition(kind, status="True", message="because"):
    return {"type": kind, "status": status, "message": message}


def make_member(*conditions, age=timedelta(seconds=30), healthy="True", deleting=False):
    agent = {
        "type": "MemberAgent",
        "lastReceivedHeartbeat": format_time(NOW - age),
        "conditions": [condition("Joined"), condition("Healthy", healthy)],
    }
    metadata = {"name": "berlin"} | ({"deletionTimestamp": format_time(NOW)} if deleting else {})
    return {"metadata": metadata, "status": {"conditions": [*conditions], "agentStatus": [agent]}}


READY, JOINED = condition("ReadyToJoin"), condition("Joined")


@pytest.mark.parametrize(
    ("member", "internal", "lacks"),
    [
        pytest.param(None, None, "no MemberCluster of that name exists", id="none"),
        pytest.param(make_member(READY, JOINED, deleting=True), None, "is being deleted", id="leaving"),
        pytest.param(
            {"metadata": {"name": "berlin"}}, None, "Check that `harbormaster reconcile` is running", id="no-loop"
        ),
        pytest.param(make_member(condition("ReadyToJoin", "False")), None, "not ready for it: because", id="not-ready"),
        pytest.param(make_member(READY), None, "its agent has not reported to the hub", id="no-agent"),
        pytest.param(
            make_member(READY, condition("Joined", "Unknown")),
            None,
            "its agent has not reported to the hub",
            id="silent",
        ),
        pytest.param(
            make_member(READY),
            {"status": {"conditions": [condition("IdentityAccepted", "False")]}},
            "its agent refuses to join: because",
            id="refused",
        ),
        pytest.param(
            make_member(READY, JOINED, age=timedelta(minutes=6)),
            None,
            "it had joined, but its agent has not reported since 2026-03-01T11:54:00Z",
            id="stale",
        ),
        pytest.param(make_member(READY, JOINED, healthy="False"), None, "is not healthy: because", id="unhealthy"),
    ],
)
def test_what_is_missing_is_said(member, internal, lacks):
    assert lacks in missing_for_joining(member, internal, NOW)


@pytest.mark.parametrize("age", [timedelta(minutes=5), timedelta(minutes=-5)], ids=["just-fresh", "clock-behind"])
def test_a_member_that_is_joined_and_healthy_lacks_nothing(age):
    accepted = {"status": {"conditions": [condition("IdentityAccepted")]}}
    assert missing_for_joining(make_member(READY, JOINED, age=age), accepted, NOW) == ""
