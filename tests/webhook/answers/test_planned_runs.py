"""The plan of a run and the truth: what a plan foretells is what the loop then does."""

import pytest

from scorer.api.kinds import PLACEMENT, RESOURCE_SNAPSHOT, STAGED_RUN, STAGED_STRATEGY
from scorer.api.unstructured.documents import status_of
from scorer.staged_update.record import cluster_names, stage_name
from scorer.what_if.state import ObjectKey
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.webhook.controllers.staged_world import (
    APPROVAL,
    approve,
    contents,
    make_run,
    make_stage,
    make_strategy,
    run_of,
    said,
    staged,
)
from tests.webhook.controllers.world import CONFIG_MAP, make_config_map
from webhook.access.user import UserInfo
from webhook.admission.cached import CachedContext
from webhook.admission.rights import UndisputedRights
from webhook.answers.plans import HubPlanner
from webhook.answers.proposal import EVERYBODY, Audience, Proposal, ProposalError, ProposedObject
from webhook.settings.admission import AdmissionSettings

OWNER = UserInfo("owner", frozenset({"system:masters"}))
DONE = "True UpdateRunSucceeded"
R = ObjectKey(*STAGED_RUN.group_kind, "r")


TERM = {"labelSelector": {"matchLabels": {"stage": "test"}}}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [TERM]}}
ONLY_TESTS = {"placementType": "PickAll", "affinity": {"clusterAffinity": REQUIRED}}


def planner_of(world):
    admission = CachedContext(world.cache, AdmissionSettings(), loop_now)
    return HubPlanner(world.cache, admission, UndisputedRights(), loop_now)


async def planned(world, *objects, audience=EVERYBODY):
    """Return what the runs of a hub would do once *objects* were written."""
    given = [ProposedObject(kind, document) for kind, document in objects]
    return (await planner_of(world).plan(Proposal(given), OWNER, audience))["runs"]


def stages(entry):
    return {each["name"]: [cluster["cluster"] for cluster in each["clusters"]] for each in entry["stages"]}


async def test_a_run_does_what_its_plan_says_to_the_clusters_that_it_names():
    async with staged() as world:
        (before,) = await planned(world, (STAGED_RUN, make_run("r")))
        assert (before["phase"], before["changed"]) == ("New", True)
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunWaiting")
        found = status_of(run_of(world))
        assert stages(before) == {stage_name(each): list(cluster_names(each)) for each in found["stagesStatus"]}
        assert before["snapshot"] == f"p-{found['resourceSnapshotIndexUsed']}-snapshot"
        (task,) = before["stages"][0]["tasks"]
        assert task["request"] == found["stagesStatus"][0]["afterStageTaskStatus"][0]["approvalRequestName"]


async def test_of_a_run_under_way_only_what_is_still_to_come_is_told():
    async with staged() as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunWaiting")
        (entry,) = await planned(world)
        assert (entry["phase"], entry["changed"]) == ("UnderWay", True)
        assert [each["batches"] for each in entry["stages"]] == [[], [["v1", "v2"], ["v3"]]]
        assert [content["clusters"] for content in entry["contents"]] == [["v1", "v2", "v3"]]
        await approve(world, "r-after-test")
        await world.until(lambda: said(world, "Succeeded") == DONE)
        assert set(contents(world).values()) == {"0"}
        assert await planned(world) == []


async def test_a_change_that_would_end_a_run_is_told_with_the_plan_of_the_change():
    async with staged() as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunWaiting")
        few = make_placement("p", ONLY_TESTS, strategy={"type": "External"})
        (entry,) = await planned(world, (PLACEMENT, few))
        assert (entry["phase"], entry["finding"]["cause"], entry["changed"]) == ("Aborted", "policy-changed", True)


async def test_what_changes_is_compared_with_what_each_cluster_has():
    async with staged(make_stage("test"), make_stage("live", maxConcurrency=3)) as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Succeeded") == DONE)
        rates = make_config_map("rates", value="2")
        (entry,) = await planned(world, (CONFIG_MAP, rates), (STAGED_RUN, make_run("next")))
        (content,) = entry["contents"]
        assert (content["from"], content["to"], len(content["clusters"])) == ("p-0-snapshot", "p-1-snapshot", 5)
        (change,) = content["objects"]
        assert [(field["path"], field["after"]) for field in change["fields"]] == [("data.value", '"2"')]


async def test_nothing_is_written_by_planning():
    async with staged() as world:
        before = world.hub.writes
        await planned(world, (STAGED_RUN, make_run("r")))
        assert world.hub.writes == before
        assert world.cache.list(RESOURCE_SNAPSHOT) == []


async def test_runs_are_told_only_to_those_who_may_list_them():
    async with staged() as world:
        await world.add(make_run("r", "Initialize"))
        await world.until(lambda: said(world, "Initialized") == "True UpdateRunInitializedSuccessfully")
        assert [entry["name"] for entry in await planned(world)] == ["r"]
        blind = Audience(kinds=frozenset({PLACEMENT}))
        assert await planned(world, audience=blind) == []
        with pytest.raises(ProposalError, match='/runs/0: there is no ClusterStagedUpdateRun "r"'):
            await planned(world, audience=Audience(kinds=frozenset({PLACEMENT}), runs=[R]))


async def test_content_is_shown_only_to_those_who_may_list_snapshots():
    async with staged() as world:
        audience = Audience(contents=frozenset())
        (entry,) = await planned(world, (STAGED_RUN, make_run("r")), audience=audience)
        assert [(content["hidden"], content["objects"]) for content in entry["contents"]] == [(True, [])]


async def test_a_strategy_that_is_not_written_yet_counts():
    async with staged() as world:
        other = make_strategy(make_stage("test", beforeStageTasks=APPROVAL), make_stage("live"))
        (entry,) = await planned(world, (STAGED_RUN, make_run("r")), (STAGED_STRATEGY, other))
        assert [task["place"] for task in entry["stages"][0]["tasks"]] == ["Before"]
