"""What a heartbeat reports."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER, NAMESPACE
from scorer.membership.heartbeats import NAMESPACE_LIMIT
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import ConflictError, Key, NotFoundError
from webhook.member.membership.heartbeat import (
    LONGEST_MESSAGE,
    MOST_ATTEMPTS,
    HeartbeatFigures,
    Statement,
    heartbeat_status,
    next_heartbeat,
    report,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FIGURES = HeartbeatFigures(
    properties={"kubernetes-fleet.io/node-count": "3"},
    capacity={"cpu": "12"},
    allocatable={"cpu": "11"},
    available={"cpu": "5"},
)


def status(figures=FIGURES, old=None, now=NOW, *, kind=MEMBER_CLUSTER, joined=True):
    return heartbeat_status(kind, old or {}, figures, now, generation=4, is_joined=joined)


def by_type(conditions):
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in conditions}


def test_a_first_heartbeat_says_everything():
    found = status()
    assert by_type(found["conditions"]) == {
        "ReadyToJoin": ("True", "MemberClusterReadyToJoin"),
        "Joined": ("True", "MemberClusterJoined"),
        "ClusterPropertyCollectionSucceeded": ("True", "Succeeded"),
    }
    (agent,) = found["agentStatus"]
    assert agent["lastReceivedHeartbeat"] == "2026-03-01T12:00:00Z"
    assert by_type(agent["conditions"]) == {
        "Joined": ("True", "InternalMemberClusterJoined"),
        "Healthy": ("True", "InternalMemberClusterHealthy"),
    }
    assert found["properties"] == {
        "kubernetes-fleet.io/node-count": {"value": "3", "observationTime": "2026-03-01T12:00:00Z"}
    }
    assert found["resourceUsage"]["available"] == {"cpu": "5"}
    assert "namespaces" not in found
    spec = {"identity": {"kind": "User", "name": "x"}}
    assert MemberCluster.read({"spec": spec, "status": found}).status.properties


def test_the_agent_does_not_speak_for_the_hub():
    assert "Joined" not in by_type(status(kind=INTERNAL_MEMBER_CLUSTER)["conditions"])


def test_times_of_transition_stay_while_nothing_changes():
    first = status()
    later = status(old=first, now=NOW + timedelta(minutes=1))
    assert later["agentStatus"][0]["lastReceivedHeartbeat"] == "2026-03-01T12:01:00Z"
    assert [c["lastTransitionTime"] for c in later["agentStatus"][0]["conditions"]] == ["2026-03-01T12:00:00Z"] * 2
    sick = status(HeartbeatFigures(healthy=False), later, NOW + timedelta(minutes=2))
    healthy = sick["agentStatus"][0]["conditions"][1]
    assert (healthy["status"], healthy["lastTransitionTime"]) == ("False", "2026-03-01T12:02:00Z")


def test_a_leaving_agent_says_so():
    found = status(joined=False)
    assert by_type(found["conditions"])["Joined"] == ("False", "MemberClusterLeft")
    assert by_type(found["agentStatus"][0]["conditions"])["Joined"] == ("False", "InternalMemberClusterLeft")


def test_other_agents_keep_their_entries():
    other = {"type": "ServiceExportImportAgent", "conditions": []}
    assert status(old={"agentStatus": [other]})["agentStatus"][1:] == [other]


def test_namespaces_are_limited_and_the_report_says_so():
    few = status(HeartbeatFigures(namespaces={"b": "", "a": "work"}))
    assert few["namespaces"] == {"a": "work", "b": ""}
    assert by_type(few["conditions"])["NamespaceCollectionSucceeded"] == ("True", "Succeeded")
    many = status(HeartbeatFigures(namespaces={f"n{n:03}": "" for n in range(NAMESPACE_LIMIT + 1)}))
    assert len(many["namespaces"]) == NAMESPACE_LIMIT
    assert by_type(many["conditions"])["NamespaceCollectionSucceeded"] == ("False", "Degraded")


def test_a_problem_is_shown():
    found = status(HeartbeatFigures(problem="no answer"))
    assert by_type(found["conditions"])["ClusterPropertyCollectionSucceeded"] == ("False", "Failed")


@pytest.mark.parametrize(("jitter", "seconds"), [(0, 60), (1, 63), (-1, 57), (0.5, 61.5)])
def test_the_next_heartbeat_is_a_period_away_give_or_take_a_twentieth(jitter, seconds):
    assert next_heartbeat(NOW, 60, jitter) - NOW == timedelta(seconds=seconds)


@pytest.mark.parametrize("kind", [MEMBER_CLUSTER, INTERNAL_MEMBER_CLUSTER])
async def test_report_writes_only_the_status(kind):
    hub = EmbeddedStore.open(None, now=lambda: NOW)
    namespace = "fleet-member-a" if kind.namespaced else ""
    if namespace:
        await hub.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    spec = {"identity": {"kind": "User", "name": "a"}, "state": "Join"}
    metadata = {"name": "a", **({"namespace": namespace} if namespace else {})}
    made = await hub.create(
        kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
    )
    stored = await report(hub, kind, Key("a", namespace), FIGURES, NOW)
    assert stored["spec"] == made["spec"]
    assert stored["metadata"]["generation"] == made["metadata"]["generation"]
    assert stored["status"]["agentStatus"][0]["lastReceivedHeartbeat"] == "2026-03-01T12:00:00Z"
    with pytest.raises(NotFoundError):
        await report(hub, kind, Key("b", namespace), FIGURES, NOW)
    hub.close()


def test_what_was_not_collected_stays_as_it_was_reported():
    before = status()
    figures = HeartbeatFigures(
        properties={"b": "2"}, keeps_others=True, usage_known=False, problem="no", problem_reason="TimedOut"
    )
    after = status(figures, before, NOW + timedelta(minutes=1))
    assert (
        after["properties"]["kubernetes-fleet.io/node-count"] == before["properties"]["kubernetes-fleet.io/node-count"]
    )
    assert after["properties"]["b"]["observationTime"] == "2026-03-01T12:01:00Z"
    assert after["resourceUsage"] == before["resourceUsage"]
    assert by_type(after["conditions"])["ClusterPropertyCollectionSucceeded"] == ("False", "TimedOut")


def test_a_source_speaks_for_itself():
    said = Statement("ClusterPropertyProviderStarted", "True", "Started", "x" * 5000)
    found = status(HeartbeatFigures(statements=(said,)))["conditions"][-1]
    assert (found["type"], found["status"], found["reason"]) == ("ClusterPropertyProviderStarted", "True", "Started")
    assert len(found["message"]) == 1024


class Contended:
    """A hub where somebody else writes first, so many times."""

    def __init__(self, conflicts):
        self.conflicts = conflicts
        self.written = 0

    async def get(self, kind, key):
        return {"metadata": {"name": key.name, "resourceVersion": "1"}}

    async def replace_status(self, kind, document):
        assert document["metadata"]["resourceVersion"] == "1"
        if self.conflicts:
            self.conflicts -= 1
            raise ConflictError("late")
        self.written += 1
        return document


async def test_whoever_writes_between_does_not_lose_us_a_heartbeat():
    hub = Contended(MOST_ATTEMPTS - 1)
    await report(hub, INTERNAL_MEMBER_CLUSTER, Key("a", "fleet-member-a"), FIGURES, NOW)
    assert hub.written == 1
    with pytest.raises(ConflictError):
        await report(Contended(MOST_ATTEMPTS), INTERNAL_MEMBER_CLUSTER, Key("a", "b"), FIGURES, NOW)


def works_found(found):
    return next((each for each in found["conditions"] if each["type"] == "WorksFound"), None)


def test_applied_works_without_works_are_reported_until_there_are_none():
    assert works_found(status(replace(FIGURES, without_work={}))) is None
    missing = status(replace(FIGURES, without_work={"shop-work": 3, "desk-work": 2}))
    condition = works_found(missing)
    assert (condition["status"], condition["reason"]) == ("False", "WorksMissing")
    assert "2 AppliedWorks" in condition["message"]
    assert "5 objects" in condition["message"]
    assert "desk-work, shop-work" in condition["message"]
    assert "kubectl annotate appliedwork NAME harbormaster.dev/remove=" in condition["message"]
    assert works_found(status(FIGURES, missing)) == condition, "nothing new is known"
    again = works_found(status(replace(FIGURES, without_work={}), missing))
    assert (again["status"], again["reason"]) == ("True", "WorksFound")


def test_many_long_names_leave_room_for_the_command():
    message = works_found(status(replace(FIGURES, without_work={f"{number}{'n' * 240}": 1 for number in range(99)})))[
        "message"
    ]
    assert len(message) <= LONGEST_MESSAGE
    assert message.endswith("kubectl delete appliedwork NAME")
