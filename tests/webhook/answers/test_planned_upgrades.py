"""The plan of upgrade runs and the truth: what a plan foretells is what the loop then does."""

from random import Random

import pytest

from scorer.api.kinds import (
    DISRUPTION_BUDGET,
    MEMBER_CLUSTER,
    UPGRADE_GATE,
    UPGRADE_REQUEST,
    UPGRADE_RUN,
    UPGRADE_STRATEGY,
)
from scorer.api.meta import format_time
from scorer.api.unstructured.documents import name_of, with_metadata, with_spec
from tests.builders.placement import fixed, make_placement
from tests.thoroughness import SOAK
from tests.virtual_time import loop_now
from tests.webhook.answers.dumps import plan_on_files
from tests.webhook.answers.random_upgrades import random_strategy
from tests.webhook.controllers.upgrade_world import (
    QUICK,
    STAGES,
    answer,
    entries,
    gates,
    make_upgrade_run,
    make_upgrade_strategy,
    make_upgraded,
    make_window,
    run_of,
    state,
    states,
    upgrading,
)
from tests.webhook.controllers.world import running
from tests.webhook.edits import edit
from webhook.access.user import UserInfo
from webhook.admission.cached import CachedContext
from webhook.admission.rights import UndisputedRights
from webhook.answers.plans import HubPlanner
from webhook.answers.proposal import EVERYBODY, SHOWN_KINDS, Audience, Deleted, Proposal, ProposedObject
from webhook.kube.ports import Key
from webhook.settings.admission import AdmissionSettings

OWNER = UserInfo("owner", frozenset({"system:masters"}))
GATE = {"displayName": "go", "type": "Approval"}
GATED = ({**STAGES[0], "afterGates": [GATE]}, STAGES[1])
KINDS = {kind.kind: kind for kind in (MEMBER_CLUSTER, UPGRADE_GATE, UPGRADE_RUN, UPGRADE_STRATEGY)}


async def plan_of(world, *documents, deleted=(), audience=EVERYBODY):
    given = [ProposedObject(KINDS[document["kind"]], document) for document in documents]
    admission = CachedContext(world.cache, AdmissionSettings(), loop_now)
    planner = HubPlanner(world.cache, admission, UndisputedRights(), loop_now)
    return await planner.plan(Proposal(given, deleted=deleted), OWNER, audience)


async def planned(world, *documents, **more):
    """Return the upgrade runs of a plan, by name."""
    plan = await plan_of(world, *documents, **more)
    assert all(verdict["allowed"] for verdict in plan["admission"]), plan["admission"]
    assert (plan["complete"], plan["notJudged"]) == (True, [])
    return {entry["name"]: entry for entry in plan["upgrades"]}


def order(entry):
    """Return the members that a plan upgrades, in groups with a common start."""
    by_start = {}
    for member in entry["plan"]["members"]:
        if member["action"] == "Upgrade":
            by_start.setdefault(member["start"], []).append(member["name"])
    return [sorted(by_start[start]) for start in sorted(by_start)]


class Starts:
    """Records the members whose upgrades are requested, in order."""

    def __init__(self, world):
        self.members = []
        world.cache.subscribe(UPGRADE_RUN, self._note)

    def _note(self, change):
        if change.new is None:
            return
        for stage in change.new.get("status", {}).get("stages", ()):
            for group in stage["groups"]:
                for member in group["members"]:
                    if member["state"] == "Running" and member["name"] not in self.members:
                        self.members.append(member["name"])


def approved(gate, status="True", reason="Looked"):
    given = {"type": "Approved", "status": status, "reason": reason, "message": ""}
    given["lastTransitionTime"] = format_time(loop_now())
    return {**gate, "status": {**gate["status"], "conditions": [given]}}


async def test_a_run_starts_the_members_that_its_plan_names(tmp_path):
    async with upgrading() as world:
        entry = (await planned(world, make_upgrade_run()))["r"]
        assert (entry["phase"], entry["changed"], entry["next"]) == ("New", True, ["t1"])
        assert order(entry) == [["t1"], ["u1", "v1"], ["u2"]]
        on_files = plan_on_files(world, tmp_path, make_upgrade_run())
        assert (on_files["upgrades"], on_files["complete"]) == ([entry], True)
        starts = Starts(world)
        await world.add(make_upgrade_run())
        await world.until(lambda: state(world) == "Completed")
        assert [starts.members[:1], sorted(starts.members[1:3]), starts.members[3:]] == order(entry)


@pytest.mark.parametrize("seed", range(40 if SOAK else 8))
async def test_a_run_starts_its_members_in_the_order_of_its_plan(seed):
    random = Random(seed)
    async with running(upgraders=QUICK) as world:
        for number in range(6):
            version = random.choice(["1.30.4", "1.30.4", "1.31.1", "1.31.2", "1.29.3"])
            member = make_upgraded(f"m{number}", version=version)
            await world.add(with_metadata(member, labels={"zone": random.choice(["west", "east"])}))
        await world.add(random_strategy(random, gates=False))
        await world.until(lambda: all(world.has_joined(f"m{number}") for number in range(6)))
        run = make_upgrade_run(versionPolicy={"onUnsupportedJump": "Skip"})
        entry = (await planned(world, run))["r"]
        expected, starts = order(entry), Starts(world)
        await world.add(run)
        await world.until(lambda: state(world) in ("Completed", "Failed", "Skipped") or entry["phase"] == "Refused")
        actual, left = [], list(starts.members)
        for group in expected:
            actual.append(sorted(left[: len(group)]))
            left = left[len(group) :]
        assert (actual, left) == (expected, [])


async def test_the_plan_of_a_run_whose_member_leaves():
    async with upgrading() as world:
        await world.add(make_upgrade_run(state="Initialize"))
        await world.until(lambda: state(world) == "NotStarted")
        run = with_spec(run_of(world), state="Run")
        entry = (await planned(world, run, deleted=[Deleted("MemberCluster", "u1")]))["r"]
        assert order(entry) == [["t1"], ["u2", "v1"]]
        await world.store.delete(MEMBER_CLUSTER, Key("u1"))
        await world.change(UPGRADE_RUN, "r", state="Run")
        await world.until(lambda: state(world) == "Completed")
        assert {name for name, found in states(world).items() if found == "Completed"} == {"t1", "u2", "v1"}


async def test_a_run_that_waits_for_the_placement_guard_starts_once_the_budget_allows_it():
    async with upgrading(members={"t1": "t", "u1": "u"}) as world:
        await planned(world)  # the cache watches the kinds of plans from now on
        budget = {"apiVersion": DISRUPTION_BUDGET.api_version, "kind": DISRUPTION_BUDGET.kind}
        await world.add({**budget, "metadata": {"name": "p"}, "spec": {"minAvailable": 2}})
        await world.add(make_placement("p", fixed("t1", "u1")))
        await world.until(lambda: world.view("p")["state"] == "available")
        await world.add(make_upgrade_run(placementGuard={"mode": "Enforce"}))
        await world.until(lambda: entries(world)["t1"].get("reason") == "PlacementGuard")
        assert (await planned(world))["r"]["next"] == []
        assert (await planned(world, deleted=[Deleted(DISRUPTION_BUDGET.kind, "p")]))["r"]["next"] == ["t1"]
        await world.store.delete(DISRUPTION_BUDGET, Key("p"))
        await world.until(lambda: state(world) == "Completed")


async def test_a_run_over_clusters_in_a_closed_window_waits_as_its_plan_says():
    async with upgrading(members={"t1": "t", "u1": "u"}) as world:
        await world.add(make_window("nights", f"{(loop_now().hour + 6) % 24:02}:00"))
        closed = {"harbormaster.dev/upgrade-windows": "nights"}
        await edit(world.store, MEMBER_CLUSTER, Key("t1"), lambda it: with_metadata(it, annotations=closed))
        await world.until(lambda: "harbormaster.dev/upgrade-windows" in _annotations(world, "t1"))
        entry = (await planned(world, make_upgrade_run()))["r"]
        assert (entry["next"], entry["changed"]) == ([], True)
        (first, *_) = entry["plan"]["members"]
        assert (first["name"], first["boundBy"]) == ("t1", "Window")
        await world.add(make_upgrade_run())
        await world.until(lambda: state(world) == "Pending")
        assert entries(world)["t1"]["nextWindowOpen"] == first["start"]


def _annotations(world, member):
    return world.cache.get(MEMBER_CLUSTER, member)["metadata"].get("annotations", {})


async def test_a_run_that_refers_to_nothing_cannot_be_initialized():
    async with upgrading() as world:
        run = make_upgrade_run(strategyRef={"name": "nowhere"})
        entry = (await planned(world, run))["r"]
        await world.add(run)
        await world.until(lambda: _initialized(world).get("status") == "False")
        found = _initialized(world)
        assert (entry["phase"], entry["finding"]["cause"]) == ("Refused", found["reason"])
        assert (entry["finding"]["message"], entry["changed"]) == (found["message"], False)


def _initialized(world):
    conditions = run_of(world).get("status", {}).get("conditions", ())
    return next((item for item in conditions if item["type"] == "Initialized"), {})


async def test_a_gate_that_is_approved_starts_the_members_that_the_plan_names():
    async with upgrading(*GATED) as world:
        await world.add(make_upgrade_run())
        await world.until(lambda: list(gates(world)))
        (gate,) = world.cache.list(UPGRADE_GATE)
        assert (await planned(world))["r"]["next"] == []
        plan = await plan_of(world, approved(gate))
        (entry,) = plan["upgrades"]
        assert (sorted(entry["next"]), entry["changed"]) == (["u1", "v1"], True)
        assert [outcome["reason"] for outcome in plan["outcomes"]] == ["Accepted"]
        starts = Starts(world)
        await answer(world, name_of(gate))
        await world.until(lambda: state(world) == "Completed")
        assert sorted(starts.members[:2]) == sorted(entry["next"])
        again = await plan_of(world, approved(world.cache.get(UPGRADE_GATE, name_of(gate))))
        assert [outcome["reason"] for outcome in again["outcomes"]] == ["RunFinished"]


async def test_a_gate_that_is_rejected_starts_nothing():
    async with upgrading(*GATED) as world:
        await world.add(make_upgrade_run())
        await world.until(lambda: list(gates(world)))
        (gate,) = world.cache.list(UPGRADE_GATE)
        doubt = await plan_of(world, approved(gate, "False"))
        assert [one["reason"] for one in doubt["outcomes"]] == ["NotApproved"]
        plan = await plan_of(world, approved(gate, "False", "Rejected"))
        assert (plan["upgrades"][0]["next"], [one["reason"] for one in plan["outcomes"]]) == ([], ["Rejected"])
        await answer(world, name_of(gate), approve=False)
        await world.until(lambda: state(world) == "Stopped")
        assert {name for name, found in states(world).items() if found == "Completed"} == {"t1"}


async def test_a_run_that_is_stopped_or_deleted_starts_nothing_more():
    async with upgrading(*GATED) as world:
        await world.add(make_upgrade_run())
        await world.until(lambda: list(gates(world)))
        stopped = (await planned(world, with_spec(run_of(world), state="Stop")))["r"]
        assert (stopped["next"], stopped["changed"], stopped["state"]) == ([], True, "Stop")
        assert stopped["assumptions"][0] == "the run is Stopped: it is assumed to be started now"
        gone = (await planned(world, deleted=[Deleted("ClusterUpgradeRun", "r")]))["r"]
        assert (gone["phase"], gone["finding"]["cause"], gone["changed"]) == ("Over", "Deleted", True)
        assert (gone["next"], gone["plan"]) == ([], None)


async def test_two_runs_do_not_start_an_upgrade_of_one_member():
    async with upgrading() as world:
        runs = make_upgrade_run("r"), make_upgrade_run("s")
        both = await planned(world, *runs)
        assert {name: entry["next"] for name, entry in both.items()} == {"r": ["t1"], "s": []}
        first, *_ = both["s"]["plan"]["members"]
        assert (first["name"], first["start"] > both["r"]["plan"]["members"][0]["start"]) == ("t1", True)
        await world.add(*runs)
        await world.until(lambda: state(world, "r") == state(world, "s") == "Completed")


async def test_a_member_affects_a_run_that_waits_and_an_edit_of_its_copied_strategy_does_not():
    async with upgrading(*GATED) as world:
        await world.add(make_upgrade_run("r", "Initialize"))
        await world.until(lambda: state(world) == "NotStarted")
        held = with_metadata(make_upgraded("t1", "t"), annotations={"harbormaster.dev/upgrade-hold": "true"})
        del held["status"]
        assert (await planned(world, held))["r"]["changed"]
        other = make_upgrade_strategy({"name": "all", "groups": [{"name": "t"}, {"name": "u"}, {"name": "v"}]})
        both = await planned(world, other, make_upgrade_run("s"))
        assert not both["r"]["changed"]
        assert order(both["s"])[0] == ["t1", "u1", "v1"]


async def test_upgrades_are_left_out_for_those_who_may_not_list_them():
    async with upgrading() as world:
        blind = Audience(kinds=frozenset(SHOWN_KINDS) - {UPGRADE_RUN})
        plan = await plan_of(world, make_upgrade_run(), audience=blind)
        assert plan["hidden"] == [{"kind": "ClusterUpgradeRun", "namespace": "", "name": "r"}]
        assert (plan["upgrades"], plan["unread"], plan["complete"]) == ([], [UPGRADE_RUN.resource], False)


async def test_requests_of_upgrades_are_not_judged():
    async with upgrading() as world:
        await world.add(make_upgrade_run())
        await world.until(lambda: bool(world.cache.list(UPGRADE_REQUEST)) or state(world) == "Completed")
        assert (await plan_of(world))["complete"]
