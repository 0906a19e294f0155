"""The status of a hub as the answer of ``/v1/status`` has it, from the objects of a hub."""

from datetime import timedelta

import pytest

from scorer.api.kinds import BINDING, MEMBER_CLUSTER, PLACEMENT, RESOURCE_SNAPSHOT, STAGED_RUN
from scorer.api.names import REMOVAL_PENDING
from tests.builders.condition import condition
from tests.builders.update_run import Moments
from tests.scorer.builders import NOW, cluster_document
from tests.webhook.placed import make_binding, make_placement, make_snapshot
from webhook.answers.advisor import HubAdvisor
from webhook.answers.status.fleet_status import MOST_ITEMS
from webhook.answers.status.hub_status import RESTRICTED_KINDS, HubStatus
from webhook.answers.update_runs import HubRuns
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache

MOMENTS = Moments()
SCHEDULED = "ClusterResourcePlacementScheduled"


@pytest.fixture
def cache():
    store = EmbeddedStore.open(None)
    yield Cache(store)
    store.close()


def put(cache, kind, document, **metadata):
    metadata = {"resourceVersion": "1", "generation": 1, **document["metadata"], **metadata}
    cache.of_kind(kind).put({**document, "metadata": metadata})


async def status_of(cache, kinds=RESTRICTED_KINDS, now=NOW):
    return await HubStatus(HubAdvisor(cache, lambda: now), HubRuns(cache, lambda: now)).status(kinds)


def entries(section):
    return [(item["ref"], item["state"], item["since"], item["command"]) for item in section["items"]]


async def test_nothing_needs_attention_on_a_hub_without_problems(cache):
    put(cache, MEMBER_CLUSTER, cluster_document("east"))
    put(cache, PLACEMENT, make_placement(condition(SCHEDULED)))
    status = await status_of(cache)
    assert status["verdict"] == "ok"
    assert status["clusters"] == {"total": 1, "states": {"eligible": 1}}
    assert status["placements"]["total"] == 1
    assert [status[name]["total"] for name in ("waiting", "failing", "stuck", "removals", "windows")] == [0] * 5


async def test_a_run_that_waits_for_a_user_has_the_command_that_continues_it(cache):
    put(cache, STAGED_RUN, MOMENTS.at_twelve(name="spring"))
    assert (await status_of(cache, now=MOMENTS.at("12:30")))["waiting"]["total"] == 0
    put(cache, STAGED_RUN, MOMENTS.unstarted(name="spring"), resourceVersion="2")
    status, since = await status_of(cache), "2026-11-23T08:00:00Z"
    assert entries(status["waiting"]) == [("csur/spring", "initialized", since, "harbormaster run start spring")]
    assert (status["verdict"], status["runs"]) == ("attention", {"total": 1, "states": {"initialized": 1}})


async def test_only_the_latest_run_of_a_placement_counts_as_failing(cache):
    put(cache, STAGED_RUN, MOMENTS.aborted(name="old"), creationTimestamp="2026-11-23T08:00:00Z")
    assert [entry[0] for entry in entries((await status_of(cache))["failing"])] == ["csur/old"]
    put(cache, STAGED_RUN, MOMENTS.succeeded(name="new"), creationTimestamp="2026-11-23T09:00:00Z")
    assert (await status_of(cache))["failing"]["total"] == 0


async def test_failing_and_stuck_placements_name_the_time_and_the_command_with_the_reasons(cache):
    since = "2026-02-28T10:00:00Z"
    short = condition(SCHEDULED, "False", "SchedulingPolicyUnfulfilled", "found 1 of 2", since=since)
    put(cache, PLACEMENT, make_placement(short), name="short")
    failure = condition("harbormaster.dev/SchedulerFailed", "True", "Failed", "no policy")
    put(cache, PLACEMENT, make_placement(condition(SCHEDULED), failure), name="failed")
    status = await status_of(cache)
    assert entries(status["failing"]) == [("crp/failed", "failed", None, "harbormaster tree crp/failed")]
    assert entries(status["stuck"]) == [("crp/short", "short", since, "harbormaster explain crp/short")]


async def test_a_pick_all_placement_without_clusters_is_stuck_since_its_decision(cache):
    since = "2026-02-28T10:00:00Z"
    everywhere = make_placement(condition(SCHEDULED, since=since), policy={"placementType": "PickAll"})
    put(cache, PLACEMENT, everywhere, name="nowhere")
    status = await status_of(cache)
    assert entries(status["stuck"]) == [("crp/nowhere", "available", since, "harbormaster explain crp/nowhere")]
    assert status["stuck"]["items"][0]["message"] == "no member cluster meets its policy"
    assert status["verdict"] == "attention"


async def test_a_silent_cluster_fails_since_its_last_heartbeat(cache):
    put(cache, MEMBER_CLUSTER, cluster_document("east", heartbeat=timedelta(hours=1)))
    status = await status_of(cache)
    (entry,) = entries(status["failing"])
    assert (entry[0], entry[1], entry[3]) == ("cluster/east", "silent", "harbormaster describe cluster/east")
    assert entry[2] == "2026-11-20T11:00:00Z"


async def test_a_removal_has_the_command_that_confirms_it(cache):
    waits = condition("RemovalPending", "True", "ConfirmationRequired", "waits")
    put(cache, PLACEMENT, make_placement(condition(SCHEDULED), waits))
    record = "ConfirmationRequired 2026-02-28T12:00:00Z"
    put(cache, BINDING, make_binding("oslo", state="Unscheduled", uid="oslo", annotations={REMOVAL_PENDING: record}))
    put(cache, RESOURCE_SNAPSHOT, make_snapshot())
    (removal,) = (await status_of(cache))["removals"]["items"]
    assert (removal["ref"], removal["effect"], removal["since"]) == ("crp/web", "cluster oslo", "2026-02-28T12:00:00Z")
    assert removal["command"] == f"harbormaster confirm crp/web --digest {removal['digest']}"


async def test_a_removal_whose_details_are_unknown_is_still_shown(cache):
    waits = condition("RemovalPending", "True", "ConfirmationRequired", "waits", since="2026-02-28T12:00:00Z")
    put(cache, PLACEMENT, make_placement(condition(SCHEDULED), waits))

    async def no_removals(_refs):
        return []

    advisor, runs = HubAdvisor(cache, lambda: NOW), HubRuns(cache, lambda: NOW)
    (removal,) = (await HubStatus(advisor, runs, no_removals).status(RESTRICTED_KINDS))["removals"]["items"]
    assert (removal["digest"], removal["command"]) == ("", "harbormaster confirm crp/web")


async def test_kinds_that_a_caller_may_not_list_are_named_and_not_counted(cache):
    put(cache, PLACEMENT, make_placement(condition(SCHEDULED)))
    put(cache, STAGED_RUN, MOMENTS.unstarted(name="spring"))
    status = await status_of(cache, {PLACEMENT})
    assert (status["placements"]["total"], status["runs"]["total"], status["waiting"]["total"]) == (1, 0, 0)
    assert STAGED_RUN.resource in status["unread"]
    assert PLACEMENT.resource not in status["unread"]


async def test_a_section_counts_all_and_names_those_that_wait_longest(cache):
    for number in range(MOST_ITEMS + 5):
        since = f"2026-01-01T00:{number:02}:00Z"
        short = condition(SCHEDULED, "False", "SchedulingPolicyUnfulfilled", "too few", since=since)
        put(cache, PLACEMENT, make_placement(short), name=f"p{number:02}")
    stuck = (await status_of(cache))["stuck"]
    assert (stuck["total"], len(stuck["items"])) == (MOST_ITEMS + 5, MOST_ITEMS)
    assert stuck["items"][0]["ref"] == "crp/p00"


async def test_a_cluster_that_refuses_everything_fails_although_it_is_eligible(cache):
    refusal = condition(
        "ContentApplied", "False", "AllContentRefused", "refuses all content", since="2026-11-20T11:00:00Z"
    )
    document = cluster_document("east")
    conditions = [*document["status"].get("conditions", ()), refusal]
    put(cache, MEMBER_CLUSTER, {**document, "status": {**document["status"], "conditions": conditions}})
    (cluster,) = HubAdvisor(cache, lambda: NOW).clusters(["east"])
    assert (cluster["state"], cluster["stateDetail"], cluster["eligible"]) == ("refusing", "refuses all content", True)
    command = "harbormaster describe cluster/east"
    assert entries((await status_of(cache))["failing"]) == [
        ("cluster/east", "refusing", "2026-11-20T11:00:00Z", command)
    ]
