"""Agents that cannot do their work, and hubs that were restored: the cause reaches the placement and the member."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from e2e.controlplane.cluster import JsonObject
from e2e.fleet.joining import ACCOUNT_ON_HUB, AGENT, CLUSTER_ROLE_BINDING, CONFIG_MAP, MEMBER, NAMESPACE, Pair
from e2e.fleet.objects import condition_of, make_config_map, make_namespace, make_placement
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import APPLIED_WORK, MEMBER_CLUSTER, PLACEMENT
from scorer.api.meta import format_time
from scorer.api.names import ACCEPT_OLDER_UNTIL, APPLIED_REVISION

NAME = "unheard"


@pytest.fixture
def joined(pair_with_loop: Pair) -> Iterator[Pair]:
    """The two clusters, one a member of the other with a heartbeat each second, and a placement that is available."""
    pair = pair_with_loop
    pair.join()
    pair.on_hub.patch(MEMBER_CLUSTER, MEMBER, {"spec": {"heartbeatPeriodSeconds": 1}})
    pair.start_agent()
    pair.on_hub.create(make_namespace(NAME))
    pair.on_hub.create(make_config_map("settings", NAME, round="0"))
    pair.on_hub.create(make_placement(NAME))
    wait_until("the placement is available", available(pair))
    yield pair
    if pair.agent is None:
        pair.start_agent()
    pair.on_hub.delete(PLACEMENT, NAME)
    wait_until("the placement goes", lambda: "it is there" if pair.on_hub.find(PLACEMENT, NAME) else "")
    for objects in (pair.on_hub, pair.in_member):
        objects.delete(NAMESPACE, NAME)


def change_content(pair: Pair) -> None:
    """Give the agent something to do."""
    pair.on_hub.patch(CONFIG_MAP, "settings", {"data": {"round": "1"}}, NAME)


def entry(pair: Pair) -> JsonObject:
    """What the placement says of the member."""
    statuses = (pair.on_hub.get(PLACEMENT, NAME).get("status") or {}).get("placementStatuses") or [{}]
    return dict(statuses[0])


def available(pair: Pair) -> Callable[[], str]:
    """A problem until the placement is available."""

    def problem() -> str:
        found = condition_of(pair.on_hub.get(PLACEMENT, NAME), "ClusterResourcePlacementAvailable")
        return "" if found.get("status") == "True" else f"it says {entry(pair)}"

    return problem


def failed(pair: Pair, reason: str, *words: str) -> Callable[[], str]:
    """A problem until the placement lists the Work as failed for a reason, with all words."""

    def problem() -> str:
        found = [item["condition"] for item in entry(pair).get("failedPlacements") or () if item["kind"] == "Work"]
        said = [condition["message"] for condition in found if condition["reason"] == reason]
        return "" if said and all(word in said[0] for word in words) else f"it says {entry(pair)}"

    return problem


def missed(pair: Pair, *words: str) -> Callable[[], str]:
    """A problem until the member says that its agent is not heard, with all words."""

    def problem() -> str:
        found = condition_of(pair.on_hub.get(MEMBER_CLUSTER, MEMBER), "Reporting")
        said = found.get("message", "")
        return "" if found.get("status") != "True" and all(word in said for word in words) else f"it says {found}"

    return problem


def unready(pair: Pair) -> Callable[[], str]:
    """A problem until the agent is unready."""
    return lambda: "it is ready" if pair.agent is not None and pair.agent.ready() else ""


def test_a_wrong_identity_reaches_the_member_and_the_placement(joined: Pair) -> None:
    agent, identity = joined.agent, joined.on_hub.get(MEMBER_CLUSTER, MEMBER)["spec"]["identity"]
    assert identity["name"] == ACCOUNT_ON_HUB
    joined.on_hub.patch(MEMBER_CLUSTER, MEMBER, {"spec": {"identity": {"name": "another"}}})
    wait_until("the agent is unready", unready(joined))
    change_content(joined)
    wait_until("the member says so", missed(joined, "ServiceAccount another", "spec.identity"))
    wait_until("the placement says so", failed(joined, "AgentNotReporting", "ServiceAccount another"))
    assert agent is not None
    assert 'harbormaster_agent_heartbeats_total{result="failure"} 0.0' not in agent.metrics()
    joined.on_hub.patch(MEMBER_CLUSTER, MEMBER, {"spec": {"identity": identity}})
    wait_until("the placement heals", available(joined))
    wait_until("the agent is ready", lambda: "" if agent.ready() else "it is not")


def test_rights_that_an_agent_has_lost_on_its_member_reach_the_placement(joined: Pair) -> None:
    binding = joined.in_member.get(CLUSTER_ROLE_BINDING, AGENT)
    joined.in_member.delete(CLUSTER_ROLE_BINDING, AGENT)
    change_content(joined)
    wait_until("the placement says so", failed(joined, "ForbiddenByMember", "forbidden"))
    kept = {key: value for key, value in binding["metadata"].items() if key in ("name", "labels", "annotations")}
    joined.in_member.create({**binding, "metadata": kept})
    wait_until("the placement heals", available(joined))


def test_a_restored_hub_says_so_on_the_placement_with_the_next_step(joined: Pair) -> None:
    work = f"{NAME}-work"
    stand = json.loads(joined.in_member.get(APPLIED_WORK, work)["metadata"]["annotations"][APPLIED_REVISION])
    # As if the member had applied a later Work, which the hub has forgotten with its backup.
    later = json.dumps({**stand, "generation": stand["generation"] + 1000})
    joined.in_member.patch(APPLIED_WORK, work, {"metadata": {"annotations": {APPLIED_REVISION: later}}})
    change_content(joined)
    wait_until("the placement says so", failed(joined, "OlderThanApplied", ACCEPT_OLDER_UNTIL))
    placement = joined.on_hub.get(PLACEMENT, NAME)
    for said in (
        condition_of(placement, "ClusterResourcePlacementApplied"),
        condition_of({"status": entry(joined)}, "Applied"),
    ):
        assert "hub restored" in said["message"].lower()
        assert ACCEPT_OLDER_UNTIL in said["message"]
    until = {ACCEPT_OLDER_UNTIL: format_time(datetime.now(UTC) + timedelta(hours=1))}
    joined.on_hub.patch(MEMBER_CLUSTER, MEMBER, {"metadata": {"annotations": until}})
    wait_until("the placement heals", available(joined))
