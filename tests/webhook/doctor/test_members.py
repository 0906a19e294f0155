"""What agents report: whether, of which release, and by which clock."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.meta import format_time
from scorer.rollout.confirmation.policy import (
    DEFAULT_KINDS,
    NO_CONFIRMATION,
    RemovalPolicy,
    parse_kind_patterns,
)
from webhook.doctor.finding import State
from webhook.doctor.members import (
    judge_applied_works,
    judge_clocks,
    judge_confirmation,
    judge_members,
    judge_removals,
    judge_versions,
    offset_of,
)

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)


def status(heartbeat=NOW, version="1.2.0"):
    conditions = [{"type": "ReadyToJoin", "status": "True"}, {"type": "Joined", "status": "True"}]
    agent = {
        "type": "MemberAgent",
        "conditions": [{"type": "Healthy", "status": "True"}],
        "lastReceivedHeartbeat": format_time(heartbeat),
    }
    properties = {"harbormaster.dev/agent-version": {"value": version}} if version else {}
    return {"conditions": conditions, "agentStatus": [agent], "properties": properties}


def member(name="berlin", **how):
    return {"metadata": {"name": name}, "status": status(**how)}


def internal(name="berlin", ahead=0, **how):
    """What an agent has written whose clock is *ahead* seconds ahead; stored now."""
    fields = {"f:status": {"f:agentStatus": {}, "f:properties": {}}}
    managed = [
        {"time": "2025-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}}},
        {"subresource": "status", "time": format_time(NOW), "fieldsV1": fields},
        {"subresource": "status", "time": "2027-01-01T00:00:00Z", "fieldsV1": {"f:status": {"f:conditions": {}}}},
    ]
    found = member(name, heartbeat=NOW + timedelta(seconds=ahead), **how)
    return found | {"metadata": {"name": name, "managedFields": managed}}


def test_members_that_are_well():
    finding = judge_members([member(), member("paris")], {}, NOW)
    assert (finding.state, finding.found) == (State.OK, "2 members joined, healthy and reporting")
    assert judge_members([], {}, NOW).found == "there are no members yet"


def test_a_member_that_is_not_heard_of():
    silent = member("paris", heartbeat=NOW - timedelta(minutes=10))
    finding = judge_members([member(), silent], {}, NOW)
    assert finding.problems == ("paris: it had joined, but its agent has not reported since 2026-03-01T09:50:00Z",)


def test_a_member_that_leaves_is_no_problem():
    leaving = {"metadata": {"name": "paris", "deletionTimestamp": "2026-03-01T09:00:00Z"}}
    assert judge_members([leaving], {}, NOW).state is State.OK
    assert judge_versions([leaving], "1.2.0").state is State.OK


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.1.9", "berlin: its agent has release 1.1.9, older than 1.2.0"),
        ("1.10.0", "berlin: its agent has release 1.10.0, not 1.2.0"),
        ("", "berlin: its agent does not report its release: it is older than 1.2.0, or not part of harbormaster"),
    ],
)
def test_agents_of_other_releases(version, said):
    assert judge_versions([member(version=version), member("paris")], "1.2.0").problems == (said,)


def test_agents_of_this_release():
    assert judge_versions([member()], "1.2.0").found == "1 agent with release 1.2.0"
    assert judge_versions([{"metadata": {"name": "new"}}], "1.2.0").found == "no agent has reported yet"


@pytest.mark.parametrize(
    ("ahead", "said"),
    [
        (0, ()),
        (30, ()),
        (-30, ()),
        (31, ("berlin: its agent's clock is 31 s ahead of the hub's",)),
        (-3700, ("berlin: its agent's clock is 61 min behind the hub's",)),
    ],
)
def test_clocks_are_compared_with_the_hubs(ahead, said):
    assert judge_clocks([internal(ahead=ahead), internal("paris", 2)]).problems == said


def test_right_clocks():
    assert judge_clocks([internal(), internal("paris", -3)]).found == "2 clocks within 3 s of the hub's"
    assert judge_clocks([]).found == "there are no members yet"


def test_a_clock_that_cannot_be_known_is_none():
    assert offset_of({"metadata": {"name": "new"}}) is None
    assert offset_of(member()) is None


def test_applied_works_without_works_are_a_problem_with_the_command_that_removes_them():
    left = member("paris")
    message = "2 AppliedWorks on this cluster have no Work on the hub, and own 5 objects: a, b; run rm -rf"
    left["status"]["conditions"].append({"type": "WorksFound", "status": "False", "message": message})
    found = member("rome")
    found["status"]["conditions"].append({"type": "WorksFound", "status": "True", "message": "all"})
    finding = judge_applied_works([member(), left, found])
    (problem,) = finding.problems
    assert problem == "paris: 2 AppliedWorks on this cluster have no Work on the hub, and own 5 objects: a, b"
    assert "kubectl delete appliedwork NAME" in finding.advice, "ours, not what an agent has written"
    assert judge_applied_works([member(), found]).found == "each AppliedWork of 2 members has a Work on the hub"
    assert judge_applied_works([]).state is State.OK


def test_removals_that_finalizers_block_are_a_problem_of_their_member():
    message = "ConfigMap shop/rates: finalizer example.com/hold"
    condition = {"type": "Removed", "status": "False", "observedGeneration": 2, "message": message}
    blocked = {"metadata": {"name": "web-rome", "generation": 2}, "spec": {"targetCluster": "rome"}}
    blocked["status"] = {"conditions": [condition]}
    outdated = {**blocked, "metadata": {"name": "web-oslo", "generation": 3}}
    assert judge_removals([blocked, outdated]).problems == (f"rome: {message}",)
    assert judge_removals([outdated]).state is State.OK


def test_the_kinds_that_need_confirmation_are_listed():
    policy = RemovalPolicy(kinds=parse_kind_patterns(["Kafka.kafka.strimzi.io"]), exempt=("team", "ci"))
    finding = judge_confirmation(policy)
    assert finding.state is State.OK
    assert "data Confirm, many objects Confirm, objects Warn" in finding.found
    assert "Namespaces labeled team=ci are exempt" in finding.found
    assert finding.found.endswith("StatefulSet.apps, Kafka.kafka.strimzi.io")
    assert judge_confirmation(NO_CONFIRMATION).found.startswith("off: ")


def test_the_default_kinds_that_need_confirmation_are_counted():
    finding = judge_confirmation(RemovalPolicy(kinds=parse_kind_patterns([*DEFAULT_KINDS, "Boat.example.com"])))
    default = f"StatefulSet.apps, Boat.example.com and the {len(DEFAULT_KINDS)} defaults of removalConfirmationKinds"
    assert finding.found.endswith(default)
