"""Upgrade runs in a whole hub in memory, with the simulated back end and the one that hands off."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import orjson
import pytest

from scorer.api.kinds import (
    DISRUPTION_BUDGET,
    KINDS,
    MAINTENANCE_WINDOW,
    MEMBER_CLUSTER,
    UPGRADE_GATE,
    UPGRADE_REQUEST,
    UPGRADE_RUN,
)
from scorer.api.meta import format_time, parse_time
from scorer.api.unstructured.documents import annotation, conditions_of, name_of, status_of
from scorer.member_gate.holds import MemberDisruption
from scorer.reservations import MEMBER
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.waiting import until
from tests.webhook.controllers.upgrade_world import (
    OURS,
    QUICK,
    annotate,
    answer,
    condition,
    entries,
    gates,
    make_upgrade_run,
    make_upgrade_strategy,
    make_upgraded,
    make_window,
    requests,
    run_of,
    state,
    states,
    tell,
    upgrading,
)
from tests.webhook.controllers.world import controller
from webhook.kube.ports import Key
from webhook.settings.upgraders import HandOffOptions

HANDED_OFF = replace(QUICK, default="handoff")
DONE = {"t1": "Completed", "u1": "Completed", "u2": "Completed", "v1": "Completed"}


async def test_a_run_goes_through_its_stages_and_upgrades_every_member_once():
    async with upgrading() as world:
        await world.add(make_upgrade_run())
        await world.until(lambda: state(world) == "Completed")
        assert states(world) == DONE
        found = entries(world)
        assert found["t1"]["completionTime"] <= min(found["u1"]["startTime"], found["v1"]["startTime"])
        assert found["u1"]["completionTime"] <= found["u2"]["startTime"]
        assert sorted(each["spec"]["memberName"] for each in requests(world)) == ["t1", "u1", "u2", "v1"]
        assert condition(world, "Succeeded")["status"] == "True"
        assert "plan" not in status_of(run_of(world))


async def test_a_second_reconcile_writes_nothing():
    async with upgrading() as world:
        await annotate(world, "u1", upgrade_hold="true")
        await world.add(make_upgrade_run(), make_upgrade_run("later", "Initialize"))
        await world.until(lambda: states(world).get("u1") == "Pending" and states(world)["v1"] == "Completed")
        await world.until(lambda: "plan" in status_of(run_of(world)) and "plan" in status_of(run_of(world, "later")))
        writes = world.hub.writes
        world.again()
        await world.until(lambda: True)
        assert world.hub.writes == writes


async def test_what_a_member_runs_outlives_the_run():
    async with upgrading() as world:
        await world.add(make_upgrade_run(ttlSecondsAfterFinished=0))
        await until(lambda: run_of(world))
        await world.until(lambda: not run_of(world))
        assert not requests(world)
        observed = annotation(world.cache.get(MEMBER_CLUSTER, "t1"), OURS + "upgrade-observed")
        assert '"controlPlaneVersion":"1.31.2"' in observed
        await world.add(make_upgrade_run("again"))
        await world.until(lambda: state(world, "again") == "Skipped")


async def test_a_failure_halts_the_run_and_a_restart_goes_on():
    async with upgrading() as world:
        await annotate(world, "u1", simulate_upgrade="fail")
        await world.add(make_upgrade_run())
        await world.until(lambda: state(world) == "Failed")
        assert states(world) == {"t1": "Completed", "u1": "Failed", "u2": "NotStarted", "v1": "Completed"}
        assert entries(world)["u1"]["error"]["code"] == "SimulatedFailure"
        await annotate(world, "u1", simulate_upgrade="")
        await world.change(UPGRADE_RUN, "r", restartToken="again")
        await world.until(lambda: state(world) == "Completed")
        assert (entries(world)["u1"]["attempt"], entries(world)["v1"]["attempt"]) == (2, 1)
        assert len(requests(world, "u1")) == 2


async def test_stop_start_and_skip():
    async with upgrading() as world:
        await annotate(world, "t1", simulate_upgrade="hang")
        await world.add(make_upgrade_run())
        await world.until(lambda: states(world).get("t1") == "Running")
        await world.change(UPGRADE_RUN, "r", state="Stop")
        await world.until(lambda: state(world) == "Stopping")
        await annotate(world, "t1", simulate_upgrade="")
        await world.until(lambda: state(world) == "Stopped")
        assert states(world) == {"t1": "Completed", "u1": "NotStarted", "u2": "NotStarted", "v1": "NotStarted"}
        skipped = [{"type": "Member", "name": "u1"}, {"type": "Group", "name": "v"}]
        await world.change(UPGRADE_RUN, "r", state="Run", restartToken="go", skipTargets=skipped)
        await world.until(lambda: state(world) == "Completed")
        assert states(world) == {"t1": "Completed", "u1": "Skipped", "u2": "Completed", "v1": "Skipped"}


async def test_gates_are_made_when_they_are_reached_and_answered():
    stages = (
        {"name": "test", "groups": [{"name": "t"}], "afterGates": [{"type": "Approval", "displayName": "fine?"}]},
        {"name": "live", "groups": [{"name": "u"}], "beforeGates": [{"type": "Approval"}]},
    )
    async with upgrading(*stages) as world:
        await world.add(make_upgrade_run())
        await world.until(lambda: len(list(gates(world))) == 1)
        (first,) = gates(world)
        assert world.cache.get(UPGRADE_GATE, first)["metadata"]["ownerReferences"][0]["name"] == "r"
        await answer(world, first)
        await world.until(lambda: list(gates(world)) not in ([], [first]))
        (second,) = gates(world)
        assert status_of(world.cache.get(UPGRADE_GATE, second))["readiness"]["start"] == 2
        told = {each["type"] for each in conditions_of(world.cache.get(UPGRADE_GATE, first))}
        assert told == {"Approved", "ApprovalAccepted"}
        await answer(world, second, approve=False)
        await world.until(lambda: state(world) == "Stopped")
        assert "by hand" in condition(world, "Progressing")["message"]


async def test_a_member_waits_for_its_window_and_goes_as_it_opens():
    async with upgrading({"name": "test", "groups": [{"name": "t"}]}) as world:
        opens = (loop_now() + timedelta(hours=3)).replace(second=0)
        await world.add(make_window("night", opens.strftime("%H:%M")))
        await annotate(world, "t1", upgrade_windows="night")
        await world.add(make_upgrade_run())
        await world.until(lambda: states(world).get("t1") == "Pending")
        found = entries(world)["t1"]
        assert found["reason"] == "MaintenanceWindowClosed"
        assert parse_time(found["nextWindowOpen"]) - opens < timedelta(minutes=1)
        assert status_of(run_of(world))["nextWakeup"] == found["nextWindowOpen"]
        await world.change(MAINTENANCE_WINDOW, "night", startTime=loop_now().strftime("%H:00"), durationHours=2)
        await world.until(lambda: state(world) == "Completed")


@pytest.mark.parametrize(("behaviour", "reason"), [("reject", "UpgradeRejected"), ("fail", "SimulatedFailure")])
async def test_what_a_back_end_does_not_do_fails(behaviour, reason):
    async with upgrading() as world:
        await annotate(world, "t1", simulate_upgrade=behaviour)
        await world.add(make_upgrade_run())
        await world.until(lambda: state(world) == "Failed")
        assert entries(world)["t1"]["reason"] == reason


async def test_a_back_end_that_is_busy_is_asked_again_as_the_same_attempt():
    async with upgrading() as world:
        await annotate(world, "t1", simulate_upgrade="busy")
        await world.add(make_upgrade_run())
        await world.until(lambda: states(world).get("t1") == "Pending")
        assert entries(world)["t1"]["reason"] == "ClusterBusy"
        await annotate(world, "t1", simulate_upgrade="")
        world.ahead = timedelta(minutes=1)
        world.again()
        await world.until(lambda: states(world)["t1"] == "Completed")
        assert entries(world)["t1"]["attempt"] == 1


async def test_an_upgrade_that_hangs_is_given_up_in_time_and_holds_the_member_until_it_ends():
    async with upgrading() as world:
        await annotate(world, "t1", simulate_upgrade="hang")
        await world.add(make_upgrade_run(timeouts={"memberUpgradeSeconds": 300}))
        await world.until(lambda: states(world).get("t1") == "Running")
        world.ahead = timedelta(minutes=6)
        world.again()
        await world.until(lambda: state(world) == "Failed")
        assert entries(world)["t1"]["reason"] == "UpgradeTimeout"
        await world.change(UPGRADE_RUN, "r", restartToken="again")
        await world.until(lambda: states(world)["t1"] == "Pending")
        assert f"abandoned upgrade {entries(world)['t1']['operationID']}" in entries(world)["t1"]["message"]


GIVES_UP = {"memberUpgradeSeconds": 300}


async def given_up(world, reached, **spec):
    """Let a run begin whose upgrader takes it up and says nothing more; wait until the run has given it up."""
    await world.add(make_upgrade_run(timeouts=GIVES_UP, **spec))
    await world.until(lambda: bool(requests(world)))
    await tell(world, requests(world)[0], phase="InProgress")
    world.ahead = timedelta(minutes=6)
    world.again()
    await world.until(lambda: state(world) == reached)
    assert entries(world)["t1"]["operationOpen"] is True
    return requests(world)[0]


@pytest.mark.parametrize("tolerated", [False, True], ids=["failed", "over"])
async def test_another_run_waits_for_what_a_run_has_given_up_and_says_so(tolerated):
    allowed = {"maxAllowedFailures": "1"} if tolerated else {}
    stage = {"name": "test", "groups": [{"name": "t", **allowed}], **allowed}
    async with upgrading(stage, members={"t1": "t"}, upgraders=HANDED_OFF) as world:
        request = await given_up(world, "Completed" if tolerated else "Failed")
        await world.add(make_upgrade_run("s"))
        await world.until(lambda: states(world, "s").get("t1") == "Pending")
        waiting = entries(world, "s")["t1"]
        assert waiting["reason"] == "ClusterBusy"
        assert f"run r has abandoned upgrade {request['spec']['operationID']}" in waiting["message"]
        await world.store.delete(UPGRADE_RUN, Key("r"))  # the way out, whatever the upgrader does
        await world.until(lambda: states(world, "s")["t1"] == "Running")


@pytest.mark.parametrize("tolerated", [False, True], ids=["failed", "over"])
async def test_another_run_goes_on_when_the_end_of_what_was_given_up_is_reported(tolerated):
    allowed = {"maxAllowedFailures": "1"} if tolerated else {}
    stage = {"name": "test", "groups": [{"name": "t", **allowed}], **allowed}
    async with upgrading(stage, members={"t1": "t"}, upgraders=HANDED_OFF) as world:
        request = await given_up(world, "Completed" if tolerated else "Failed")
        await world.add(make_upgrade_run("s"))
        await world.until(lambda: states(world, "s").get("t1") == "Pending")
        await tell(world, request, phase="Failed")
        await world.until(lambda: states(world, "s")["t1"] == "Running")
        assert "operationOpen" not in entries(world)["t1"]
        stored = entries(world)
        world.again()
        await world.until(lambda: True)
        assert entries(world) == stored


async def test_a_run_is_not_cleaned_up_before_the_end_of_what_it_has_given_up():
    stage = {"name": "test", "maxAllowedFailures": "1", "groups": [{"name": "t", "maxAllowedFailures": "1"}]}
    async with upgrading(stage, members={"t1": "t"}, upgraders=HANDED_OFF) as world:
        request = await given_up(world, "Completed", ttlSecondsAfterFinished=0)
        await tell(world, request, phase="Cancelled")
        await world.until(lambda: not run_of(world))


async def test_a_new_leader_knows_what_was_given_up_before_it_has_asked():
    async with upgrading(
        {"name": "test", "groups": [{"name": "t"}]}, members={"t1": "t"}, upgraders=HANDED_OFF
    ) as world:
        await given_up(world, "Failed")
        upgrades = controller(world.loop, "cluster_upgrade")
        known, upgrades._back_ends._observations = upgrades._facts.of, {}

        async def only_the_other(document, **how):
            if name_of(document) == "r":
                await asyncio.Event().wait()
            return await known(document, **how)

        upgrades._facts.of = only_the_other
        await world.add(make_upgrade_run("s"))
        await until(lambda: states(world, "s").get("t1") == "Pending")
        assert entries(world, "s")["t1"]["reason"] == "ClusterBusy"


async def test_a_member_that_leaves_is_skipped_and_its_upgrade_called_off():
    async with upgrading() as world:
        await annotate(world, "t1", simulate_upgrade="hang")
        await world.add(make_upgrade_run())
        await world.until(lambda: states(world).get("t1") == "Running")
        await world.store.delete(MEMBER_CLUSTER, Key("t1"))
        await world.until(lambda: states(world)["t1"] == "Skipped")
        assert entries(world)["t1"]["reason"] == "MemberRemoved"
        assert requests(world, "t1")[0]["spec"]["cancelRequested"] is True


async def test_a_run_whose_member_left_during_its_upgrade_is_kept_until_the_end_is_reported():
    stage = {"name": "test", "maxAllowedFailures": "1", "groups": [{"name": "t", "maxAllowedFailures": "1"}]}
    async with upgrading(stage, members={"t1": "t"}, upgraders=HANDED_OFF) as world:
        await world.add(make_upgrade_run(ttlSecondsAfterFinished=0))
        await world.until(lambda: bool(requests(world)))
        await tell(world, requests(world)[0], phase="InProgress")
        await world.store.delete(MEMBER_CLUSTER, Key("t1"))
        await world.until(lambda: state(world) == "Skipped")
        assert entries(world)["t1"]["operationOpen"] is True
        await tell(world, requests(world)[0], phase="Cancelled")
        world.again()
        await world.until(lambda: not run_of(world))


async def test_two_runs_share_their_members_one_after_the_other():
    async with upgrading() as world:
        await world.add(
            make_upgrade_run(), make_upgrade_run("s", upgrade={"type": "Full", "kubernetesVersion": "1.31.3"})
        )
        await world.until(lambda: {state(world), state(world, "s")} <= {"Completed", "Skipped"})
        spans = {}
        for name in ("r", "s"):
            for member, entry in entries(world, name).items():
                if entry.get("attempt"):
                    spans.setdefault(member, []).append((entry["startTime"], entry["completionTime"]))
        for found in spans.values():
            ordered = sorted(found)
            assert all(before[1] <= after[0] for before, after in pairwise(ordered))


async def test_a_run_that_looks_while_another_is_taking_a_member_waits_for_it():
    """What the other has decided is on its way to the store: neither there nor undone."""
    async with upgrading() as world:
        replace_status, on_its_way = world.store.replace_status, asyncio.Event()

        async def slowly(kind, document, **how):
            if kind == UPGRADE_RUN and name_of(document) == "r" and b'"Running"' in orjson.dumps(document["status"]):
                on_its_way.set()
                await asyncio.sleep(0.3)
            return await replace_status(kind, document, **how)

        world.store.replace_status = slowly
        await world.add(make_upgrade_run())
        await on_its_way.wait()
        await world.add(make_upgrade_run("s", upgrade={"type": "Full", "kubernetesVersion": "1.31.3"}))
        await world.until(lambda: state(world, "s") == "Completed")
        assert entries(world, "s")["t1"]["fromVersion"] == "1.31.2"


# Hand-off.


async def handed_off(world):
    await annotate(world, "t1", upgrader="handoff")
    await world.add(make_upgrade_run(strategyRef=None, memberSelector={"matchLabels": {OURS + "upgrade-group": "t"}}))
    await world.until(lambda: bool(requests(world)))
    return requests(world)[0]


async def test_an_upgrader_outside_is_asked_by_a_request_and_answers_in_its_status():
    async with upgrading() as world:
        request = await handed_off(world)
        assert request["spec"]["operationID"] == entries(world)["t1"]["operationID"]
        assert request["metadata"]["labels"][OURS + "member-cluster"] == "t1"
        assert (request["spec"]["kubernetesVersion"], request["spec"]["upgradeType"]) == ("1.31.2", "Full")
        await tell(world, request, phase="Accepted")
        await tell(world, request, phase="InProgress", progressPercent=40)
        await world.until(lambda: states(world)["t1"] == "Running")
        pools = [{"name": "p", "kubernetesVersion": "1.31.2", "imageFamily": "linux", "imageVersion": "1", "nodes": 2}]
        await tell(
            world,
            request,
            phase="Succeeded",
            controlPlaneVersion="1.31.2",
            pools=pools,
            finishedTime=format_time(loop_now()),
        )
        await world.until(lambda: state(world) == "Completed")


async def test_an_upgrader_that_says_so_without_having_done_it_is_not_believed():
    async with upgrading() as world:
        request = await handed_off(world)
        await tell(world, request, phase="Succeeded", controlPlaneVersion="1.30.4")
        await world.until(lambda: state(world) == "Failed")
        assert entries(world)["t1"]["reason"] == "VerificationFailed"


async def test_an_upgrader_that_fails_says_why():
    async with upgrading() as world:
        request = await handed_off(world)
        await tell(world, request, phase="Failed", error={"code": "QuotaExceeded", "message": "no more nodes"})
        await world.until(lambda: state(world) == "Failed")
        assert entries(world)["t1"]["error"] == {"code": "QuotaExceeded", "message": "no more nodes"}


async def test_a_request_that_nobody_takes_up_is_told_of():
    async with upgrading() as world:
        await handed_off(world)
        world.ahead = timedelta(minutes=16)
        world.again()
        await world.until(lambda: "HandoffNotAccepted" in reasons(world))


async def test_an_upgrader_that_cannot_be_reached_is_told_of_and_named_in_the_end(tmp_path):
    secrets = tmp_path / "secrets"
    secrets.write_text("x" * 40 + "\n")
    outside = replace(HANDED_OFF, hand_off=HandOffOptions("http://127.0.0.1:9/", secrets))
    async with upgrading({"name": "test", "groups": [{"name": "t"}]}, members={"t1": "t"}, upgraders=outside) as world:
        await world.add(make_upgrade_run(timeouts={"memberUpgradeSeconds": 1800}))
        await world.until(lambda: bool(requests(world)))
        for minutes, told in ((16, "HandoffNotAccepted"), (31, "RunFailed")):
            world.ahead = timedelta(minutes=minutes)
            world.again()
            await world.until(lambda: told in reasons(world))  # noqa: B023 - waited for here
        assert entries(world)["t1"]["reason"] == "UpgraderNotResponding"


async def test_a_request_that_nobody_has_taken_up_in_time_holds_the_member_no_longer():
    async with upgrading(
        {"name": "test", "groups": [{"name": "t"}]}, members={"t1": "t"}, upgraders=HANDED_OFF
    ) as world:
        await world.add(make_upgrade_run(timeouts=GIVES_UP))
        await world.until(lambda: bool(requests(world)))
        world.ahead = timedelta(minutes=6)
        world.again()
        await world.until(lambda: status_of(requests(world)[0]).get("phase") == "Cancelled")
        assert entries(world)["t1"]["reason"] == "UpgraderNotResponding"
        await world.change(UPGRADE_RUN, "r", restartToken="again")
        await world.until(lambda: len(requests(world)) == 2)


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
async def test_an_end_that_cannot_be_true_is_none(when):
    async with upgrading() as world:
        request = await handed_off(world)
        await tell(world, request, phase="Failed", finishedTime=when, heartbeatTime=when)
        await world.until(lambda: state(world) == "Failed")
        found = entries(world)["t1"]
        assert found["startTime"] <= found["completionTime"] <= format_time(loop_now())


def reasons(world):
    return [each["reason"] for each in world.store.objects(KINDS["events.k8s.io", "Event"])]


# What else goes on.


async def test_a_member_that_something_else_has_reserved_is_busy():
    async with upgrading(gate_members=tuple(MemberDisruption), members={"t1": "t"}) as world:
        turns = next(each.reconcile.__self__ for each in world.loop.controllers if each.name == "staged_update")._turns
        assert await turns.reserve("t1", "staged-update/other") is None
        await world.add(make_upgrade_run())
        await world.until(lambda: states(world).get("t1") == "Pending")
        assert entries(world)["t1"]["reason"] == "ClusterBusy"
        assert "staged-update/other" in entries(world)["t1"]["message"]
        await turns.release("t1", "staged-update/other")
        await world.until(lambda: state(world) == "Completed")
        assert not list(turns._reservations.cached(MEMBER, "t1"))


async def test_a_run_that_is_deleted_starts_nothing_more_and_takes_its_requests_along():
    async with upgrading() as world:
        await annotate(world, "t1", simulate_upgrade="hang")
        await world.add(make_upgrade_run())
        await world.until(lambda: bool(requests(world)))
        await world.store.delete(UPGRADE_RUN, Key("r"))
        await world.until(lambda: not run_of(world) and not requests(world))
        assert not world.cache.list(UPGRADE_REQUEST)


async def test_a_run_without_a_strategy_that_is_there_says_so():
    async with upgrading() as world:
        await world.add(make_upgrade_run(strategyRef={"name": "nobody"}))
        await world.until(lambda: condition(world, "Initialized").get("reason") == "StrategyNotFound")
        await world.add(make_upgrade_strategy(name="nobody"))
        await world.until(lambda: state(world) == "Completed")


async def test_a_run_that_cannot_be_read_says_which_field_is_wrong():
    async with upgrading() as world:
        await world.add(make_upgrade_run(state="Sideways"))
        field = "cluster_upgrade controller keeps failing: spec.state: "

        def told():
            return [each["note"] for each in world.store.objects(KINDS["events.k8s.io", "Event"])]

        await world.until(lambda: any(field in note for note in told()))


async def test_an_upgrader_that_is_not_there_fails_the_member_and_is_named():
    async with upgrading() as world:
        await annotate(world, "t1", upgrader="magic")
        await world.add(make_upgrade_run())
        await world.until(lambda: state(world) == "Failed")
        assert entries(world)["t1"]["message"] == "there is no upgrader magic"


async def test_new_members_are_told_of_and_not_upgraded():
    async with upgrading() as world:
        await annotate(world, "t1", upgrade_duration="5s")
        await world.add(make_upgrade_run())
        await world.until(lambda: states(world).get("t1") == "Running")
        await world.add(make_upgraded("u9", "u"))
        await world.until(lambda: condition(world, "MembershipDrifted").get("status") == "True")
        assert "u9" in condition(world, "MembershipDrifted")["message"]
        assert "u9" not in states(world)


async def test_names_of_requests_are_those_of_their_operations():
    async with upgrading() as world:
        await world.add(make_upgrade_run())
        await world.until(lambda: state(world) == "Completed")
        assert all(name_of(each).startswith(f"r-{each['spec']['memberName']}-1-") for each in requests(world))
        assert QUICK.default == "simulated"


# Placements.

BUDGET = {
    "apiVersion": DISRUPTION_BUDGET.api_version,
    "kind": DISRUPTION_BUDGET.kind,
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 1},
}


async def test_the_guard_keeps_a_placement_from_losing_too_many_clusters_at_once():
    stages = ({"name": "all", "groups": [{"name": "t"}, {"name": "u", "maxConcurrency": 2}]},)
    async with upgrading(*stages, members={"t1": "t", "u1": "u", "u2": "u"}) as world:
        await world.add(make_placement("web", {"placementType": "PickAll"}))
        await world.until(lambda: len(world.bound("web")) == 3)
        for name in ("t1", "u1", "u2"):
            await annotate(world, name, simulate_upgrade="hang")
        await world.add(make_upgrade_run(placementGuard={"mode": "Enforce"}))
        await world.until(lambda: sorted(states(world).values()) == ["Pending", "Pending", "Running"])
        waiting = [entry for entry in entries(world).values() if entry["state"] == "Pending"]
        assert {entry["reason"] for entry in waiting} == {"PlacementGuard"}
        assert waiting[0]["message"] == "placement web allows at most 1 cluster to be upgraded concurrently"
        await world.add(BUDGET)
        await world.until(lambda: sorted(states(world).values()) == ["Pending", "Running", "Running"])


async def test_the_plan_names_what_is_placed_on_the_members():
    async with upgrading(members={"t1": "t", "u1": "u"}) as world:
        await world.add(make_placement("web", {"placementType": "PickAll"}))
        await world.until(lambda: len(world.bound("web")) == 2)
        await world.add(make_upgrade_run(state="Initialize"))
        await world.until(lambda: "plan" in status_of(run_of(world)))
        stages = status_of(run_of(world))["plan"]["blastRadius"]["stages"]
        assert stages[0]["placements"] == [
            {"name": "web", "namespace": "", "clusters": 2, "inUpgrade": 1, "fullyExposed": False}
        ]
