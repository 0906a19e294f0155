"""Status of a MemberCluster from the reports of its agents."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.conditions import make_condition
from scorer.api.meta import format_time
from scorer.membership.heartbeats import record_heartbeats
from scorer.membership.identity import DISCOVERED_WORKS, IDENTITY_ACCEPTED
from scorer.membership.member_status import MemberEvent, joined_state, member_status

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SKEW = timedelta(minutes=10)
"""The agent's clock is that far ahead."""
REPORTS = {
    "properties": {"kubernetes-fleet.io/node-count": {"value": "4", "observationTime": "2026-03-01T12:10:00Z"}},
    "resourceUsage": {"capacity": {"cpu": "16"}, "observationTime": "2026-03-01T12:10:00Z"},
    "namespaces": {},
}


def agent(kind="MemberAgent", joined="True", healthy="True", now=NOW):
    """Make the report of an agent at *now* by the hub's clock."""
    said = now + SKEW
    conditions = [
        make_condition("Joined", joined, "Said", "", generation=1, now=said),
        make_condition("Healthy", healthy, "Said", "", generation=1, now=said),
    ]
    return {"type": kind, "conditions": conditions, "lastReceivedHeartbeat": format_time(said)}


def internal(*agents, **reports):
    return {"metadata": {"name": "lion"}, "status": {"agentStatus": list(agents), **reports}}


def member(status=None, generation=3):
    return {"metadata": {"name": "lion", "generation": generation}, **({"status": status} if status else {})}


class Hub:
    """A hub that stores the reports."""

    def __init__(self):
        self.stored, self.heard, self.events = None, {}, ()

    def take(self, reported, now=NOW, generation=3, **options):
        document = member(self.stored, generation)
        self.heard = record_heartbeats((reported or {}).get("status") or {}, self.stored or {}, self.heard, now)
        report = member_status(document, reported, self.heard, now, **options)
        self.stored, self.events = report.status, report.events
        return report.status


def condition(status, kind):
    return next(entry for entry in status["conditions"] if entry["type"] == kind)


def agent_condition(status, kind):
    return condition(status["agentStatus"][0], kind)


def test_reports_are_copied_for_the_generation_of_the_member_cluster():
    reported = internal(agent(), **REPORTS)
    extra = make_condition("ClusterPropertyCollectionSucceeded", "True", "Succeeded", "all", generation=1, now=NOW)
    reported["status"]["conditions"] = [extra]
    status = Hub().take(reported)
    assert {name: status[name] for name in REPORTS} == REPORTS
    assert condition(status, "ClusterPropertyCollectionSucceeded") == {**extra, "observedGeneration": 3}
    found = [*status["conditions"], *status["agentStatus"][0]["conditions"]]
    assert {entry["observedGeneration"] for entry in found} == {3}
    assert [entry["type"] for entry in status["conditions"]][:2] == ["ReadyToJoin", "Joined"]


def test_namespaces_that_are_not_reported_are_absent():
    assert "namespaces" not in Hub().take(internal(agent()))


def test_times_are_the_hubs():
    hub = Hub()
    hub.take(internal(agent(), **REPORTS))
    later = NOW + timedelta(minutes=1)
    status = hub.take(internal(agent(healthy="False", now=later)), later)
    assert status["agentStatus"][0]["lastReceivedHeartbeat"] == format_time(later)
    assert agent_condition(status, "Healthy")["lastTransitionTime"] == format_time(later)
    assert agent_condition(status, "Joined")["lastTransitionTime"] == format_time(NOW)


def test_a_second_pass_changes_nothing():
    hub = Hub()
    first = hub.take(internal(agent(), **REPORTS))
    assert hub.take(internal(agent(), **REPORTS), NOW + timedelta(minutes=3)) == first
    assert hub.events == ()


def test_a_restart_changes_nothing():
    hub = Hub()
    first = hub.take(internal(agent(), **REPORTS))
    hub.heard = {}
    assert hub.take(internal(agent(), **REPORTS), NOW + timedelta(minutes=30)) == first


NETWORKING = frozenset({"MemberAgent", "ServiceExportImportAgent"})


@pytest.mark.parametrize(
    ("agents", "expected", "status", "reason"),
    [
        pytest.param([agent()], {"MemberAgent"}, "True", "MemberClusterJoined", id="joined"),
        pytest.param([agent(joined="False")], {"MemberAgent"}, "False", "MemberClusterLeft", id="left"),
        pytest.param(
            [agent(joined="Unknown")], {"MemberAgent"}, "Unknown", "MemberClusterJoinStateUnknown", id="unknown"
        ),
        pytest.param([], {"MemberAgent"}, "Unknown", "MemberClusterJoinStateUnknown", id="no-agent"),
        pytest.param(
            [{"type": "MemberAgent"}], {"MemberAgent"}, "Unknown", "MemberClusterJoinStateUnknown", id="no-condition"
        ),
        pytest.param([agent()], NETWORKING, "Unknown", "MemberClusterJoinStateUnknown", id="one-of-two"),
        pytest.param(
            [agent(), agent("ServiceExportImportAgent", "False")],
            NETWORKING,
            "Unknown",
            "MemberClusterJoinStateUnknown",
            id="mixed",
        ),
        pytest.param(
            [agent(), agent("Stranger", "False")], {"MemberAgent"}, "True", "MemberClusterJoined", id="stranger"
        ),
    ],
)
def test_joined(agents, expected, status, reason):
    stored = Hub().take(internal(*agents), expected=expected)
    found = condition(stored, "Joined")
    assert (found["status"], found["reason"]) == (status, reason)
    ready = condition(stored, "ReadyToJoin")
    left = status == "False"
    assert ready["status"] == ("False" if left else "True")
    assert ready["reason"] == ("MemberClusterNotReadyToJoin" if left else "MemberClusterReadyToJoin")


def test_events_tell_of_changes_only():
    hub = Hub()
    hub.take(internal())
    assert [event.reason for event in hub.events] == ["MemberClusterReadyToJoin"], "nobody has reported yet: no warning"
    hub.take(internal(agent()))
    assert [event.reason for event in hub.events] == ["MemberClusterJoined"]
    hub.take(internal(agent(joined="Unknown")))
    assert hub.events == (
        MemberEvent("MemberClusterJoinStateUnknown", "not all agents report that they have joined", warning=True),
    )


def test_who_cannot_be_let_in_is_said():
    found = condition(Hub().take(None, problem="spec.identity is 7"), "ReadyToJoin")
    assert found["status"] == "False"
    assert found["message"] == "spec.identity is 7"


def test_reports_outlive_an_internal_member_cluster_that_was_made_anew():
    hub = Hub()
    first = hub.take(internal(agent(), **REPORTS))
    for lost in (None, internal()):
        assert hub.take(lost, NOW + timedelta(minutes=2)) == first
    later = NOW + timedelta(minutes=3)
    status = hub.take(internal(agent(now=later), **REPORTS), later)
    assert status["agentStatus"][0]["lastReceivedHeartbeat"] == format_time(later)


@pytest.mark.parametrize("kind", [IDENTITY_ACCEPTED, DISCOVERED_WORKS])
def test_a_trouble_that_is_over_before_the_first_report_to_a_new_internal_member_cluster_is_removed(kind):
    hub, trouble = Hub(), make_condition(kind, "False", "Bad", "", generation=1, now=NOW)
    hub.take(internal(agent(), conditions=[trouble]))
    for lost in (None, internal()):
        assert condition(hub.take(lost), kind)["status"] == "False", "no agent has reported since"
    status = hub.take(internal(agent(), conditions=[]))
    assert kind not in {entry["type"] for entry in status["conditions"]}


def test_conditions_of_others_stay():
    hub = Hub()
    mine = make_condition("Audited", "True", "Yes", "", generation=1, now=NOW)
    hub.stored = {"conditions": [mine], "other": 1}
    status = hub.take(internal(agent()))
    assert condition(status, "Audited") == mine
    assert status["other"] == 1


def test_an_agent_cannot_say_the_hubs_part():
    reported = internal()
    reported["status"]["conditions"] = [make_condition("Joined", "True", "Hacked", "", generation=3, now=NOW)]
    assert condition(Hub().take(reported), "Joined")["status"] == "Unknown"


def test_the_state_of_nobody_is_unknown():
    assert joined_state({})[0] is None


@pytest.mark.parametrize(
    ("reports", "field"),
    [
        pytest.param({"properties": {"a/b": {"value": 1}}}, "status.properties[a/b].value", id="value"),
        pytest.param(
            {"properties": {"a/b": {"value": "1", "observationTime": "0000-01-01T00:00:00Z"}}},
            "status.properties[a/b].observationTime",
            id="instant",
        ),
        pytest.param({"resourceUsage": {"capacity": {"cpu": []}}}, "status.resourceUsage.capacity.cpu", id="amount"),
        pytest.param({"namespaces": {"a": 1}}, "status.namespaces.a", id="namespaces"),
        pytest.param({"conditions": [{"type": "X", "status": "Maybe"}]}, "status.conditions[0].status", id="condition"),
    ],
)
def test_a_report_that_cannot_be_read_is_not_copied(reports, field):
    hub = Hub()
    before = hub.take(internal(agent(), **REPORTS))
    later = NOW + timedelta(minutes=1)
    status = hub.take(internal(agent(now=later), **REPORTS | reports), later)
    assert {name: status[name] for name in REPORTS} == REPORTS
    assert status["conditions"] == before["conditions"]
    assert status["agentStatus"][0]["lastReceivedHeartbeat"] == format_time(later)
    (event,) = hub.events
    assert (event.reason, event.warning) == ("UnreadableReport", True)
    assert field in event.message


def test_a_joined_member_that_refuses_everything_is_reported_once():
    hub = Hub()
    refused = {"conditions": [make_condition("Applied", "False", "RefusedByAgent", "no", generation=1, now=NOW)]}
    works = [{"metadata": {"name": "w"}, "status": {"manifestConditions": [refused]}}]
    hub.take(internal(agent()), works=works)
    assert condition(hub.stored, "ContentApplied")["status"] == "False"
    assert next(event for event in hub.events if event.reason == "AllContentRefused").warning
    hub.take(internal(agent()), works=works)
    assert hub.events == ()
    hub.take(internal(agent()))
    assert [event.reason for event in hub.events] == ["ContentAccepted"]
    joining = Hub()
    joining.take(internal(agent(joined="False")), works=works)
    assert "ContentApplied" not in {entry["type"] for entry in joining.stored["conditions"]}
