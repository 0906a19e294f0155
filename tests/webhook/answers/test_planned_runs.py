"""The plan of a run and the truth: what a plan foretells is what the loop then does."""

import pytest

from scorer.api.kinds import (
    APPROVAL_REQUEST,
    BINDING,
    MAINTENANCE_WINDOW,
    MEMBER_CLUSTER,
    PLACEMENT,
    RESOURCE_SNAPSHOT,
    STAGED_RUN,
    STAGED_STRATEGY,
)
from scorer.api.meta import format_time
from scorer.api.names import UPGRADE_WINDOWS
from scorer.api.unstructured.documents import spec_of, status_of, with_metadata
from scorer.staged_update.approval.requests import TaskPlace, make_request
from scorer.staged_update.record import cluster_names, stage_name
from scorer.what_if.state import ObjectKey
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.webhook.answers.dumps import plan_on_files
from tests.webhook.controllers.staged_world import (
    APPROVAL,
    approve,
    contents,
    make_run,
    make_stage,
    make_strategy,
    message,
    release,
    run_of,
    said,
    staged,
)
from tests.webhook.controllers.upgrade_world import make_window
from tests.webhook.controllers.world import CONFIG_MAP, make_config_map
from tests.webhook.edits import edit
from webhook.access.user import UserInfo
from webhook.admission.cached import CachedContext
from webhook.admission.rights import UndisputedRights
from webhook.answers.plans import HubPlanner
from webhook.answers.proposal import EVERYBODY, SHOWN_KINDS, Audience, Proposal, ProposalError, ProposedObject
from webhook.kube.ports import Key
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


async def test_content_that_changed_before_is_part_of_a_run():
    """The placement has no snapshot of it yet: the run makes one."""
    async with staged(make_stage("test"), make_stage("live", maxConcurrency=3)) as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Succeeded") == DONE)
        await release(world, "2")
        await world.until(lambda: (world.cache.get(CONFIG_MAP, "rates", "shop") or {})["data"] == {"value": "2"})
        (entry,) = await planned(world, (STAGED_RUN, make_run("next")))
        (content,) = entry["contents"]
        assert (content["from"], content["to"], entry["changed"]) == ("p-0-snapshot", "p-1-snapshot", True)
        await world.add(make_run("next"))
        await world.until(lambda: said(world, "Succeeded", "next") == DONE)
        assert set(contents(world).values()) == {"1"}


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


GATED = (make_stage("test", afterStageTasks=APPROVAL), make_stage("live", maxConcurrency=2, beforeStageTasks=APPROVAL))


def approved(request, *, generation=1, **spec):
    """Return an approval request as a user who approves it writes it."""
    given = {"type": "Approved", "status": "True", "reason": "LooksGood", "observedGeneration": generation}
    given["lastTransitionTime"] = format_time(loop_now())
    return {**request, "spec": {**request["spec"], **spec}, "status": {"conditions": [given]}}


async def request_of(world, name):
    await world.until(lambda: world.cache.get(APPROVAL_REQUEST, name) is not None)
    return world.cache.get(APPROVAL_REQUEST, name)


async def approval(world, *documents):
    """Return the plan of writing approval requests."""
    given = [ProposedObject(APPROVAL_REQUEST, document) for document in documents]
    plan = await planner_of(world).plan(Proposal(given), OWNER, EVERYBODY)
    assert plan["complete"]
    return plan


def reasons(plan):
    return {outcome["name"]: outcome["reason"] for outcome in plan["outcomes"]}


async def waiting_for_approval(world, *runs):
    await world.add(*(runs or (make_run("r"),)))
    await world.until(lambda: said(world, "Progressing") == "False UpdateRunWaiting")


class Starts:
    """Records the clusters that get content, in order."""

    def __init__(self, world):
        self.clusters = []
        world.cache.subscribe(BINDING, self._note, changes_only=True)

    def _note(self, change):
        if change.new is not None and change.alters(lambda binding: binding["spec"].get("resourceSnapshotName")):
            self.clusters.append(change.new["spec"]["targetCluster"])


async def test_an_approval_starts_the_clusters_that_its_plan_names(tmp_path):
    async with staged() as world:
        await waiting_for_approval(world)
        request = await request_of(world, "r-after-test")
        assert [entry["next"] for entry in await planned(world)] == [[]]
        plan = await approval(world, approved(request))
        (entry,) = plan["runs"]
        assert (entry["next"], entry["changed"], reasons(plan)) == (["v1", "v2"], True, {"r-after-test": "Accepted"})
        assert [task["done"] for task in entry["stages"][0]["tasks"]] == [True]
        on_files = plan_on_files(world, tmp_path, approved(request))
        assert (on_files["runs"], on_files["outcomes"]) == (plan["runs"], plan["outcomes"])
        starts = Starts(world)
        await approve(world, "r-after-test")
        await world.until(lambda: said(world, "Succeeded") == DONE)
        assert sorted(starts.clusters[:2]) == entry["next"]
        assert starts.clusters[2:] == ["v3"]


async def test_an_approval_before_which_another_one_is_asked_for_starts_nothing():
    async with staged(*GATED) as world:
        await waiting_for_approval(world)
        plan = await approval(world, approved(await request_of(world, "r-after-test")))
        assert (plan["runs"][0]["next"], reasons(plan)) == ([], {"r-after-test": "Accepted"})
        starts = Starts(world)
        await approve(world, "r-after-test")
        await request_of(world, "r-before-live")
        assert starts.clusters == []


async def test_an_approval_of_a_stage_that_has_not_begun_is_not_accepted():
    async with staged(*GATED) as world:
        await waiting_for_approval(world)
        early = make_request(run_of(world), "live", TaskPlace.BEFORE)
        await world.add(early)
        plan = await approval(world, approved(await request_of(world, "r-before-live")))
        assert (plan["runs"][0]["next"], reasons(plan)) == ([], {"r-before-live": "NotAccepted"})
        await approve(world, "r-before-live")
        both = await approval(world, approved(await request_of(world, "r-after-test")))
        assert (both["runs"][0]["next"], reasons(both)) == ([], {"r-after-test": "Accepted"})
        starts = Starts(world)
        await approve(world, "r-after-test")
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunWaiting" and _is_asked_again(world))
        assert starts.clusters == []


def _is_asked_again(world):
    request = world.cache.get(APPROVAL_REQUEST, "r-before-live")
    return request is not None and not status_of(request)


async def test_an_approval_that_does_not_count_has_a_reason():
    async with staged() as world:
        await waiting_for_approval(world)
        request = await request_of(world, "r-after-test")
        stale = await approval(world, approved(request, generation=7))
        assert (stale["runs"][0]["next"], reasons(stale)) == ([], {"r-after-test": "NotApproved"})
        new = await approval(world, approved({**request, "metadata": {"name": "other"}}))
        assert ([verdict["allowed"] for verdict in new["admission"]], new["outcomes"]) == ([False], [])
        await world.add({**make_request(make_run("gone"), "test", TaskPlace.AFTER)})
        lost = await approval(world, approved(await request_of(world, "gone-after-test")))
        assert reasons(lost) == {"gone-after-test": "UnknownRun"}
        await approve(world, "r-after-test")
        await world.until(lambda: said(world, "Succeeded") == DONE)
        again = await approval(world, approved(await request_of(world, "r-after-test")))
        assert reasons(again) == {"r-after-test": "RunFinished"}


async def test_an_approval_request_of_another_stage_aborts_the_run():
    async with staged(make_stage("test", beforeStageTasks=APPROVAL), make_stage("live")) as world:
        taken = {**make_request(make_run("r"), "live", TaskPlace.BEFORE), "metadata": {"name": "r-before-test"}}
        await world.add(taken)
        await request_of(world, "r-before-test")
        (entry,) = await planned(world, (STAGED_RUN, make_run("r")))
        assert (entry["phase"], entry["finding"]["cause"]) == ("Aborted", "approval-request-taken")
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Succeeded") == "False UpdateRunFailed")


async def test_approvals_of_two_runs_of_one_placement_start_their_own_clusters():
    async with staged() as world:
        await waiting_for_approval(world, make_run("r"), make_run("s"))
        await world.until(lambda: said(world, "Progressing", "s") == "False UpdateRunWaiting")
        plan = await approval(world, approved(await request_of(world, "s-after-test")))
        assert [(entry["name"], entry["next"]) for entry in plan["runs"]] == [("r", []), ("s", ["v1", "v2"])]


async def test_approvals_are_left_out_for_those_who_may_not_list_them():
    async with staged() as world:
        await waiting_for_approval(world)
        request = await request_of(world, "r-after-test")
        blind = Audience(kinds=frozenset(SHOWN_KINDS) - {APPROVAL_REQUEST})
        proposal = Proposal([ProposedObject(APPROVAL_REQUEST, approved(request))])
        plan = await planner_of(world).plan(proposal, OWNER, blind)
        assert plan["hidden"] == [{"kind": "ClusterApprovalRequest", "namespace": "", "name": "r-after-test"}]
        assert (plan["runs"][0]["next"], plan["outcomes"], plan["complete"]) == ([], [], False)


async def test_a_window_that_the_change_opens_no_longer_holds_back_a_cluster():
    def night(hours):
        return make_window("nights", f"{(loop_now().hour + hours) % 24:02}:00", durationHours=2)

    async with staged(make_stage("test"), make_stage("live")) as world:
        await world.add(night(6))
        windows = {UPGRADE_WINDOWS: "nights"}
        await edit(world.store, MEMBER_CLUSTER, Key("t1"), lambda it: with_metadata(it, annotations=windows))
        await world.add(make_run("r"))
        await world.until(lambda: "window nights is closed" in message(world, "Progressing"))
        (closed,) = await planned(world)
        assert _waiting(closed) == ["t1"]
        (opened,) = await planned(world, (MAINTENANCE_WINDOW, night(-1)))
        assert (_waiting(opened), opened["next"][:1]) == ([], ["t1"])
        window = spec_of(night(-1))
        await world.change(MAINTENANCE_WINDOW, "nights", **window)
        await world.until(lambda: "t1" in contents(world) and contents(world)["t1"] == "0")


def _waiting(entry):
    return [cluster["cluster"] for stage in entry["stages"] for cluster in stage["clusters"] if cluster["waitsFor"]]
