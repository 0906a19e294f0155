"""``/v1/upgrade`` over real HTTPS, on a hub whose members are upgraded."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest
import pytest_asyncio

from scorer.api.kinds import DISRUPTION_BUDGET, PLACEMENT, UPGRADE_GATE, UPGRADE_RUN, VERSION_CATALOG
from scorer.api.meta import format_time, parse_time
from scorer.api.unstructured.documents import annotation, dict_at, name_of, status_of
from tests.builders.placement import make_placement
from tests.webhook.controllers.upgrade_world import (
    API,
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
    upgrading,
)
from tests.webhook.controllers.world import pick_n
from tests.webhook.endpoints.asking import assert_problem, get
from tests.webhook.endpoints.world_server import serving
from webhook.access.ports import NotReviewedError
from webhook.access.rights import Access
from webhook.admission.judge import judge
from webhook.answers import upgrade_orders, upgrade_plans
from webhook.kube.client.paths import path_of_object
from webhook.kube.ports import ConflictError, Key
from webhook.runtime.clock import utc_now
from webhook.validation.framework.context import Context

pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUESTED_BY = "harbormaster.dev/requested-by"
OWNER_NAME = "harbormaster:up"
LONG_AGO = parse_time("2026-01-05T00:00:00Z")


GATE = {"runName": "planned", "stage": "test", "timing": "Before", "index": 0, "type": "Approval"}


def of_upgrades(kind, name, **spec):
    """Return an object of the group of upgrades."""
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def publishing(version):
    """Return a catalog with one version."""
    return of_upgrades(
        "ClusterVersionCatalog", "c", regions=[{"name": "default", "kubernetesVersions": [{"version": version}]}]
    )


class Rights:
    """Lets everybody do everything but what is named, as ``verb resource``."""

    def __init__(self, *denied):
        self.denied = denied

    async def may(self, user, wanted):
        return not isinstance(wanted, Access) or f"{wanted.verb} {wanted.resource}" not in self.denied


class Away(Rights):
    """Does not know what anybody may do with objects."""

    async def may(self, user, wanted):
        if isinstance(wanted, Access) and wanted.verb in ("update", "create"):
            raise NotReviewedError("the hub is away")
        return True


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world():
    """Four members in two stages, a placement on two of them, and a run that has not been started.

    For tests that upgrade no member: the others have a world of their own.
    """
    async with upgrading() as found:
        await found.add(make_placement("web", pick_n(2)))
        await found.until(lambda: found.view("web")["state"] == "available")
        await found.add(make_upgrade_run("planned", state="Initialize"))
        await found.add(of_upgrades("ClusterUpgradeGate", "g", **GATE))
        await found.add(of_upgrades("ClusterUpgradeProfile", "q", channel="Stable", disabled=True))
        await found.until(lambda: entries(found, "planned"))
        yield found


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def port(world):
    """A server over it."""
    async with serving(world) as found:
        yield found


async def ask(port, path, body=None):
    data = b"" if body is None else json.dumps(body).encode()
    async with port.dial() as connection:
        return await connection.post(path, data)


async def actions_on(port, run):
    """Return reason and author of the actions of users on a run, from the history."""
    items = (await get(port, f"/v1/history?type=action&name={run}")).json["items"]
    return [(each["reason"], each["by"]) for each in items]


async def end(world, name):
    """Delete a run; other tests share the world, and plan with members that no run has."""
    await world.store.delete(UPGRADE_RUN, Key(name))
    await world.until(lambda: not run_of(world, name))


async def plan(port, **body):
    answer = await ask(port, "/v1/upgrade/plan", body)
    assert answer.status == 200, answer.body
    return answer.json


async def what_if(port, *changes, **body):
    return await ask(port, "/v1/upgrade/whatif", {"run": "planned", **body, "changes": list(changes)})


def turns(found):
    return {each["name"]: each for each in found["members"]}


async def test_the_plan_of_a_run_is_what_the_loop_has_written(world, port):
    await world.until(lambda: dict_at(status_of(run_of(world, "planned")), "plan"))
    found = await plan(port, run="planned")
    assert [each["name"] for each in found["members"]] == ["t1", "u1", "u2", "v1"]
    assert {each["action"] for each in found["members"]} == {"Upgrade"}
    written = turns(dict_at(status_of(run_of(world, "planned")), "plan"))
    begun, then = (
        {name: parse_time(each["start"]) for name, each in each_of.items()} for each_of in (turns(found), written)
    )
    later = begun["t1"] - then["t1"]
    assert begun == {name: at + later for name, at in then.items()}
    assert turns(found)["u2"]["boundBy"] == "Sequence"
    assert found["eta"] == format_time(begun["u2"] + timedelta(seconds=1))
    (test, live) = found["blastRadius"]["stages"]
    assert [each["name"] for each in (*test["placements"], *live["placements"])]


async def test_a_run_that_is_not_on_the_hub(port):
    run = make_upgrade_run("imagined", memberSelector={"matchLabels": {"harbormaster.dev/upgrade-group": "u"}})
    found = await plan(port, run=run)
    assert [each["name"] for each in found["members"]] == ["u1", "u2"]
    found = await plan(port, run=run | {"status": {"state": "Completed", "startTime": "2026-01-01T00:00:00Z"}})
    assert [each["action"] for each in found["members"]] == ["Upgrade", "Upgrade"], "its status does not count"


async def test_everything_may_be_given(world, port):
    """A strategy, windows, catalogs and members that the hub does not have."""
    opens = (utc_now() + timedelta(hours=5)).replace(microsecond=0)
    window = make_window("mine", opens.strftime("%H:%M"), memberSelector={"matchLabels": {"env": "prod"}})
    ships = [make_upgraded("a"), make_upgraded("b")]
    ships[1]["metadata"]["labels"]["env"] = "prod"
    strategy = make_upgrade_strategy({"name": "only", "memberSelector": {}, "maxConcurrency": 2})
    body = {"strategy": strategy, "windows": [window], "catalogs": [publishing("1.31.2")], "members": ships}
    found = turns(await plan(port, run=make_upgrade_run("imagined"), **body))
    assert found.keys() == {"a", "b"}
    assert found["a"]["boundBy"] == "Sequence"
    assert found["b"]["boundBy"] == "Window"
    assert parse_time(found["b"]["start"]) == opens.replace(second=0)
    old = {**body, "catalogs": [publishing("1.30.9")]}
    found = turns(await plan(port, run=make_upgrade_run("imagined"), **old))
    assert {each["action"] for each in found.values()} == {"Blocked"}
    assert world.cache.get(UPGRADE_RUN, "imagined") is None


async def test_approvals_take_as_long_as_is_assumed(port):
    stage = {"name": "only", "groups": [{"name": "t"}], "beforeGates": [{"type": "Approval", "displayName": "go"}]}
    run = make_upgrade_run("imagined", strategyRef=None, strategy={"stages": [stage]})
    soon, late = await plan(port, run=run), await plan(port, run=run, assume={"approveAfter": "2h"})
    assert parse_time(late["eta"]) - parse_time(soon["eta"]) >= timedelta(hours=1, minutes=59)


async def test_what_would_come_of_a_change(port):
    answer = await what_if(port, {"op": "skip", "targets": [{"type": "Member", "name": "u1"}]})
    assert answer.status == 200, answer.body
    assert turns(answer.json["before"])["u1"]["action"] == "Upgrade"
    assert turns(answer.json["after"])["u1"]["action"] == "Skip"
    found = answer.json["difference"]
    assert found["etaSeconds"] == -1
    assert {each["name"] for each in found["members"]} == {"u1", "u2"}


@pytest.mark.parametrize(
    ("change", "pointer", "says"),
    [
        ({"op": "fail", "member": "nobody", "after": "1m"}, "/changes/0/member", "nobody"),
        ({"op": "setWait", "stage": "nowhere", "seconds": 5}, "/changes/0/stage", "nowhere"),
        ({"op": "approveAfter", "value": "soon"}, "/changes/0/value", "soon"),
        ({"op": "explode"}, "/changes/0", "explode"),
        ({"op": "durationFactor", "value": -1}, "/changes/0/value", "greater than 0"),
        ({"op": "durationFactor"}, "/changes/0/value", "must be set"),
        ({"op": "durationFactor", "value": 1, "x": 2}, "/changes/0/x", "unknown field"),
        ({"op": "skip", "targets": [{"type": "Ship", "name": "t1"}]}, "/changes/0/targets/0/type", "Ship"),
        ({"op": "skip", "targets": [{"type": "Member", "name": "zz"}]}, "/changes/0/targets/0", "no Member 'zz'"),
        ({"op": "setConcurrency", "stage": "live", "value": 51}, "/changes/0/value", "at most 50"),
        ({"op": "setConcurrency", "stage": "live", "value": {}}, "/changes/0/value", "must be an integer"),
        ({"op": "setConcurrency", "stage": "live", "group": "u", "value": 2**31}, "/changes/0/value", "neither"),
    ],
)
async def test_a_change_that_cannot_be_made_is_named(port, change, pointer, says):
    body = assert_problem(await what_if(port, change), "validation-failed", 422)
    assert body["errors"][0]["pointer"] == pointer
    assert says in body["detail"] + body["errors"][0]["detail"]


async def test_there_is_no_what_if_without_a_change(port):
    assert_problem(await what_if(port), "validation-failed", 422)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/run"),
        ({"run": 3}, "/run"),
        ({"run": "planned", "windows": {"a": 1}}, "/windows"),
        ({"run": "planned", "colour": "red"}, "/colour"),
        ({"run": "planned", "assume": {"approveAfter": "soon"}}, "/assume/approveAfter"),
        ({"run": make_window("w", "10:00")}, "/run/kind"),
        ({"run": {"spec": {}}}, "/run/kind"),
        ({"run": make_upgrade_run("r", upgrade={"type": "Full", "kubernetesVersion": "1.31.x"})}, None),
        ({"run": "planned", "windows": [make_window("w", "25:00")]}, "/windows/0/spec/startTime"),
        ({"run": "planned", "members": [make_upgraded("a"), make_upgraded("a")]}, "/members/1/metadata/name"),
        ({"run": "planned", "strategy": make_upgrade_strategy({"name": ""})}, "/strategy/spec/stages/0/name"),
    ],
)
async def test_a_mistake_is_named_with_its_place(port, body, pointer):
    found = assert_problem(await ask(port, "/v1/upgrade/plan", body), "validation-failed", 422)
    places = [each["pointer"] for each in found["errors"]]
    assert places[0].startswith("/run/spec/upgrade/kubernetesVersion") if pointer is None else pointer in places, places


async def test_runs_that_are_not_there_or_not_for_the_caller(world, port):
    change = {"op": "durationFactor", "value": 2}
    for path, more in (("plan", {}), ("whatif", {"changes": [change]})):
        body = {"run": "nowhere", **more}
        missing = assert_problem(await ask(port, f"/v1/upgrade/{path}", body), "not-found", 404)
        async with serving(world, authorizer=Rights("get clusterupgraderuns")) as other:
            body = {"run": "planned", **more}
            hidden = assert_problem(await ask(other, f"/v1/upgrade/{path}", body), "not-found", 404)
        assert hidden["detail"] == missing["detail"].replace("nowhere", "planned"), "nobody can tell them apart"


async def test_a_strategy_that_the_caller_may_not_read_is_as_if_not_there(world):
    async with serving(world, authorizer=Rights("get clusterupgradestrategies")) as other:
        body = {"run": make_upgrade_run("imagined")}
        found = assert_problem(await ask(other, "/v1/upgrade/plan", body), "not-found", 404)
        assert "rings" in found["detail"]
        assert (await ask(other, "/v1/upgrade/plan", {**body, "strategy": make_upgrade_strategy()})).status == 200
        one_by_one = {"run": make_upgrade_run("imagined", strategyRef=None)}
        assert (await ask(other, "/v1/upgrade/plan", one_by_one)).status == 200


@pytest.mark.parametrize(
    ("run", "says"),
    [
        pytest.param(make_upgrade_run("x", strategyRef={"name": "other"}), 'refers to strategy "other"', id="another"),
        pytest.param(make_upgrade_run("x", strategyRef=None), "refers to no strategy", id="none"),
        pytest.param(
            make_upgrade_run("x", strategyRef=None, strategy={"stages": [{"name": "s", "memberSelector": {}}]}),
            "follows the strategy in its spec",
            id="its-own",
        ),
        pytest.param("planned", "", id="the-one-that-it-refers-to"),
    ],
)
async def test_a_strategy_that_the_run_does_not_follow_is_refused(port, run, says):
    answer = await ask(port, "/v1/upgrade/plan", {"run": run, "strategy": make_upgrade_strategy()})
    if not says:
        assert answer.status == 200
        return
    found = assert_problem(answer, "validation-failed", 422)
    assert [each["pointer"] for each in found["errors"]] == ["/strategy"]
    assert says in found["detail"]


async def test_a_run_that_has_started_takes_no_other_strategy(world, port):
    stage = {"name": "only", "groups": [{"name": "t"}], "beforeGates": [{"type": "Approval", "displayName": "go"}]}
    await world.add(make_upgrade_strategy(stage, name="gated"))
    await world.add(make_upgrade_run("begun", strategyRef={"name": "gated"}))
    await world.until(lambda: state(world, "begun") == "Pending")
    body = {"run": "begun", "strategy": make_upgrade_strategy(name="gated")}
    found = assert_problem(await ask(port, "/v1/upgrade/plan", body), "validation-failed", 422)
    assert "has started" in found["detail"]
    await end(world, "begun")


async def test_absurd_numbers_do_not_break_a_plan(port):
    """A member may say of itself whatever it likes; dates have an end."""
    observed = {"controlPlaneVersion": "1.30.4", "pools": [{"name": "p", "nodes": 2**31 - 1}]}
    huge = make_upgraded("huge", "t", upgrade_observed=json.dumps(observed))
    del huge["metadata"]["annotations"]["harbormaster.dev/upgrade-duration"]
    run = make_upgrade_run("imagined", timeouts={"memberUpgradeSeconds": 0})
    found = await plan(port, run=run, members=[huge, make_upgraded("t1", "t")])
    assert found["blastRadius"]["stages"][0]["nodes"] == 2**31 - 1
    assert (turns(found)["huge"]["action"], found.get("eta")) == ("Upgrade", None)


async def test_budgets_are_asked_for_once_in_a_plan(world, monkeypatch):
    asked, list_ = [], world.store.list

    async def counted(kind, *more, **options):
        asked.append(kind)
        return await list_(kind, *more, **options)

    async def nobody(kind, key):
        raise AssertionError(f"asked for {kind.kind} {key}")

    async with serving(world) as port:
        monkeypatch.setattr(world.store, "list", counted)
        monkeypatch.setattr(world.store, "get", nobody)
        assert (await plan(port, run=make_upgrade_run("imagined", placementGuard={"mode": "Warn"})))["members"]
        assert asked.count(DISRUPTION_BUDGET) == 1
        assert (await plan(port, run=make_upgrade_run("imagined")))["members"]
        assert asked.count(DISRUPTION_BUDGET) == 1


async def test_a_hub_that_does_not_answer_keeps_no_other_plan_waiting(world, monkeypatch):
    async def never(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr(upgrade_plans, "HUB_SECONDS", 0.05)
    async with serving(world) as port:
        monkeypatch.setattr(world.store, "list", never)
        guarded = {"run": make_upgrade_run("imagined", placementGuard={"mode": "Warn"})}
        late = assert_problem(await ask(port, "/v1/upgrade/plan", guarded), "deadline-exceeded", 503)
        assert "the hub did not answer" in late["detail"]
        assert (await plan(port, run=make_upgrade_run("imagined")))["members"]


async def test_plans_take_the_back_end_that_the_loop_takes():
    """How long upgrades took by it counts for members that name none."""
    lone = make_upgraded("lone", "t", upgrade_duration="3h")
    run = make_upgrade_run("imagined")
    async with upgrading(members={"t1": "t"}) as world:
        await world.add(make_upgrade_run("before"))
        await world.until(lambda: state(world, "before") == "Completed")
        ends = {}
        for upgrader in ("simulated", "handoff"):
            async with serving(world, default_upgrader=upgrader) as port:
                found = turns(await plan(port, run=run, members=[lone, make_upgraded("t1", "t")]))["lone"]
                ends[upgrader] = parse_time(found["end"]) - parse_time(found["start"])
    assert ends["handoff"] == timedelta(hours=3)
    assert ends["simulated"] < timedelta(minutes=5)


async def test_placements_that_the_caller_may_not_list_are_not_told(world):
    async with serving(world, authorizer=Rights(f"list {PLACEMENT.plural}")) as other:
        found = await plan(other, run="planned")
    assert [stage["placements"] for stage in found["blastRadius"]["stages"]] == [[], []]


async def test_a_plan_without_end_is_given_up(port, monkeypatch):
    monkeypatch.setattr(upgrade_plans, "LONGEST_SECONDS", -1.0)
    body = assert_problem(await ask(port, "/v1/upgrade/plan", {"run": "planned"}), "deadline-exceeded", 503)
    assert "longer than" in body["detail"]


async def test_a_run_is_started_stopped_and_skipped_through():
    async with upgrading() as world, serving(world) as port:
        await world.add(make_upgrade_run("ordered", state="Initialize"))
        await world.until(lambda: entries(world, "ordered"))
        early = assert_problem(await ask(port, "/v1/upgrade/runs/ordered:stop"), "conflict", 409)
        assert "has not started" in early["detail"]
        left_out = {"targets": [{"type": "Member", "name": "u1"}, {"type": "Group", "name": "v"}]}
        skipped = await ask(port, "/v1/upgrade/runs/ordered:skip", left_out)
        assert (skipped.status, skipped.json["changed"]) == (200, True), skipped.body
        started = await ask(port, "/v1/upgrade/runs/ordered:start")
        assert started.json == {"name": "ordered", "changed": True, "generation": 3, "state": "NotStarted"}
        assert annotation(run_of(world, "ordered"), REQUESTED_BY) == OWNER_NAME
        actions = await actions_on(port, "ordered")
        assert sorted(actions) == [("RunPartsSkipped", OWNER_NAME), ("RunStarted", OWNER_NAME)]
        await world.until(lambda: state(world, "ordered") == "Completed")
        assert states(world, "ordered") == {"t1": "Completed", "u1": "Skipped", "u2": "Completed", "v1": "Skipped"}
        late = assert_problem(await ask(port, "/v1/upgrade/runs/ordered:start"), "conflict", 409)
        assert "Completed" in late["detail"]
        over = assert_problem(await ask(port, "/v1/upgrade/plan", {"run": "ordered"}), "conflict", 409)
        assert "nothing remains to be planned" in over["detail"]
        retried = (await ask(port, "/v1/upgrade/runs/ordered:retry", {"name": "second"})).json["object"]
        assert (name_of(retried), retried["spec"]["state"]) == ("second", "Initialize")
        assert world.cache.get(UPGRADE_RUN, "second") is None, "it is for review"
        assert name_of((await ask(port, "/v1/upgrade/runs/ordered:retry")).json["object"]) == "ordered-retry"
        bad = await ask(port, "/v1/upgrade/runs/ordered:retry", {"name": "Not A Name"})
        assert_problem(bad, "validation-failed", 422)


async def test_a_run_that_is_going_on_is_not_started_again(world, port, monkeypatch):
    """Nor is one that has not noticed its stop: that would take the stop back unseen."""
    stage = {"name": "only", "groups": [{"name": "t"}], "beforeGates": [{"type": "Approval", "displayName": "go"}]}
    await world.add(make_upgrade_run("going", strategyRef=None, strategy={"stages": [stage]}))
    await world.until(lambda: state(world, "going") == "Pending")
    again = assert_problem(await ask(port, "/v1/upgrade/runs/going:start"), "conflict", 409)
    assert f"is Pending, and was started at {status_of(run_of(world, 'going'))['startTime']}" in again["detail"]
    slow, replace_status = asyncio.Event(), world.store.replace_status

    async def held(kind, document):
        if kind == UPGRADE_RUN:
            await slow.wait()
        return await replace_status(kind, document)

    monkeypatch.setattr(world.store, "replace_status", held)
    assert (await ask(port, "/v1/upgrade/runs/going:stop")).json["changed"] is True
    early = assert_problem(await ask(port, "/v1/upgrade/runs/going:start"), "conflict", 409)
    assert "is stopping and still" in early["detail"]
    slow.set()
    await world.until(lambda: state(world, "going") == "Stopped")
    await end(world, "going")


async def test_a_run_is_stopped_and_started_again(world, port):
    stage = {"name": "only", "groups": [{"name": "t"}], "beforeGates": [{"type": "Approval", "displayName": "go"}]}
    await world.add(make_upgrade_run("halted", strategyRef=None, strategy={"stages": [stage]}))
    await world.until(lambda: state(world, "halted") == "Pending")
    stopped = await ask(port, "/v1/upgrade/runs/halted:stop")
    assert (stopped.status, stopped.json["changed"]) == (200, True), stopped.body
    await world.until(lambda: state(world, "halted") == "Stopped")
    assert (await ask(port, "/v1/upgrade/runs/halted:stop")).json["changed"] is False
    assert (await ask(port, "/v1/upgrade/runs/halted:start")).json["changed"] is True
    await world.until(lambda: state(world, "halted") == "Pending")
    assert dict_at(run_of(world, "halted"), "spec")["restartToken"]
    await end(world, "halted")


@pytest.mark.parametrize(
    "body",
    [{"targets": []}, {"targets": [{"type": "Ship", "name": "x"}]}, {}, {"targets": [{"type": "Member", "name": 3}]}],
)
async def test_a_skip_says_what(port, body):
    assert_problem(await ask(port, "/v1/upgrade/runs/planned:skip", body), "validation-failed", 422)


async def test_a_gate_is_answered():
    async with upgrading() as world, serving(world) as port:
        gate = [{"type": "Approval", "displayName": "go"}]
        stages = [{"name": "test", "groups": [{"name": "t"}], "beforeGates": gate}]
        await world.add(make_upgrade_run("gated", strategyRef=None, strategy={"stages": stages}))
        await world.until(lambda: list(gates(world)))
        (name,) = gates(world)
        answer = await ask(port, f"/v1/upgrade/gates/{name}:approve", {"message": "looks good"})
        assert (answer.status, answer.json["changed"]) == (200, True), answer.body
        await world.until(lambda: state(world, "gated") in ("Completed", "Skipped"))
        stored = await world.store.get(UPGRADE_GATE, Key(name))
        assert annotation(stored, REQUESTED_BY) == OWNER_NAME
        (said,) = [each for each in status_of(stored)["conditions"] if each["type"] == "Approved"]
        assert (said["status"], said["message"]) == ("True", "looks good")
        assert await actions_on(port, "gated") == [("ApprovalGiven", OWNER_NAME)]
        again = await ask(port, f"/v1/upgrade/gates/{name}:approve")
        assert again.json["changed"] is False
        rejected = assert_problem(await ask(port, f"/v1/upgrade/gates/{name}:reject"), "conflict", 409)
        assert "only a Pending gate" in rejected["detail"]


async def test_an_answer_that_admission_refuses_leaves_no_note(world, port, monkeypatch):
    await world.add(of_upgrades("ClusterUpgradeGate", "refused", **GATE))
    stored = await world.store.get(UPGRADE_GATE, Key("refused"))
    await world.store.replace_status(UPGRADE_GATE, {**stored, "status": {"state": "Pending"}})
    refused = replace(judge("CREATE", stored, None, Context()), allowed=False, message="not like that")
    monkeypatch.setattr(upgrade_orders, "judge", lambda *_, **__: refused)
    answer = assert_problem(await ask(port, "/v1/upgrade/gates/refused:approve"), "conflict", 409)
    assert "not like that" in answer["detail"]
    stored = await world.store.get(UPGRADE_GATE, Key("refused"))
    assert annotation(stored, REQUESTED_BY) == ""
    await world.store.delete(UPGRADE_GATE, Key("refused"))


async def test_an_order_that_admission_refuses_leaves_the_run_as_it_is(world, port, monkeypatch):
    stored = await world.store.get(UPGRADE_RUN, Key("planned"))

    def refused(operation, new, old, *_, **__):
        assert (operation, new["spec"]["state"], old["spec"]["state"]) == ("UPDATE", "Run", "Initialize")
        return replace(judge("CREATE", stored, None, Context()), allowed=False, message="not like that")

    monkeypatch.setattr(upgrade_orders, "judge", refused)
    answer = assert_problem(await ask(port, "/v1/upgrade/runs/planned:start"), "conflict", 409)
    assert "not like that" in answer["detail"]
    assert (await world.store.get(UPGRADE_RUN, Key("planned")))["spec"] == stored["spec"]


async def test_an_order_that_is_refused_is_told_on_the_run():
    """Also one of a gate: its run is what people look at."""
    async with upgrading() as world:
        stage = {"name": "only", "groups": [{"name": "t"}], "beforeGates": [{"type": "Approval", "displayName": "go"}]}
        await world.add(make_upgrade_run("told", strategyRef=None, strategy={"stages": [stage]}))
        await world.until(lambda: state(world, "told") == "Pending")
        (gate,) = (name for name in gates(world) if name.startswith("told-"))
        told = []
        async with serving(world, record=lambda document, event: told.append((document, event))) as port:
            assert (await ask(port, f"/v1/upgrade/gates/{gate}:approve")).status == 200
            assert not told
            await world.until(lambda: state(world, "told") in ("Completed", "Skipped"))
            assert_problem(await ask(port, "/v1/upgrade/runs/told:stop"), "conflict", 409)
            assert_problem(await ask(port, f"/v1/upgrade/gates/{gate}:reject"), "conflict", 409)
        run = run_of(world, "told")
        assert [
            (each["apiVersion"], each["kind"], name_of(each), each["metadata"]["uid"], event.reason, event.type)
            for each, event in told
        ] == [(API, "ClusterUpgradeRun", "told", run["metadata"]["uid"], "CommandRefused", "Warning")] * 2
        (stop, reject) = (event.message for _, event in told)
        assert stop == f"order of {OWNER_NAME} refused: run told is {state(world, 'told')}: nothing to stop"
        assert f"gate {gate} is Completed: only a Pending gate can be approved or rejected" in reject


@pytest.mark.parametrize("denied", ["get clusterupgraderuns", "update clusterupgraderuns"])
async def test_nothing_is_told_of_an_order_of_somebody_who_may_not_give_it(world, denied):
    told = []
    async with serving(world, authorizer=Rights(denied), record=lambda *each: told.append(each)) as port:
        assert (await ask(port, "/v1/upgrade/runs/planned:stop")).status in (403, 404)
    assert not told


async def test_a_profile_generates_a_run_for_what_is_published():
    async with upgrading() as world, serving(world) as port:
        channel = {"channel": "TargetKubernetesVersion", "targetKubernetesVersion": "1.31", "disabled": True}
        await world.add(of_upgrades("ClusterUpgradeProfile", "p", **channel))
        nothing = assert_problem(await ask(port, "/v1/upgrade/profiles/p:generate"), "conflict", 409)
        assert "TargetVersionNotReleased" in nothing["detail"]
        await world.add(publishing("1.31.2"))
        await world.until(lambda: world.cache.list(VERSION_CATALOG))
        made = await ask(port, "/v1/upgrade/profiles/p:generate")
        assert (made.status, made.json["changed"]) == (200, True), made.body
        run = await world.store.get(UPGRADE_RUN, Key(made.json["name"]))
        assert run["spec"]["state"] == "Initialize"
        assert annotation(run, REQUESTED_BY) == OWNER_NAME
        assert (await ask(port, "/v1/upgrade/profiles/p:generate")).json["changed"] is False


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("runs/nowhere:start", None),
        ("runs/nowhere:skip", {"targets": [{"type": "Member", "name": "x"}]}),
        ("runs/nowhere:retry", None),
        ("gates/nowhere:approve", None),
        ("profiles/nowhere:generate", None),
        ("runs/NOWHERE:start", None),
        ("gates/nowhere%00:reject", None),
        ("profiles/nowhere%22%3E:generate", None),
    ],
)
async def test_what_is_not_there_is_not_found(world, port, monkeypatch, path, body):
    """No more than what can have no such name: an API server is not even asked for that."""
    get = world.store.get

    async def strict(kind, key):
        path_of_object(kind, key)
        return await get(kind, key)

    monkeypatch.setattr(world.store, "get", strict)
    assert "nowhere" in assert_problem(await ask(port, f"/v1/upgrade/{path}", body), "not-found", 404)["detail"].lower()


@pytest.mark.parametrize("path", ["runs/planned:explode", "runs/planned", "runs/a%2Fb:start", "runs/:start"])
async def test_other_paths_are_not_there(port, path):
    answer = await ask(port, f"/v1/upgrade/{path}")
    assert answer.status == 404


def ordered_of(world, name):
    """Return what callers can change of a run; the loop goes on writing when its members may be reached."""
    run = run_of(world, name)
    return run["spec"], run["metadata"].get("annotations"), run["metadata"]["generation"]


@pytest.mark.parametrize(
    ("denied", "path", "problem", "code"),
    [
        ("update clusterupgraderuns", "runs/planned:start", "forbidden", 403),
        ("get clusterupgraderuns", "runs/planned:start", "not-found", 404),
        ("get clusterupgraderuns", "runs/planned:retry", "not-found", 404),
        ("update clusterupgradegates/status", "gates/g:approve", "forbidden", 403),
        ("get clusterupgradegates", "gates/g:approve", "not-found", 404),
        ("create clusterupgraderuns", "profiles/q:generate", "forbidden", 403),
    ],
)
async def test_who_may_not_is_told_and_nothing_changes(world, denied, path, problem, code):
    before = ordered_of(world, "planned")
    async with serving(world, authorizer=Rights(denied)) as other:
        body = assert_problem(await ask(other, f"/v1/upgrade/{path}"), problem, code)
    if code == 403:
        assert denied.split()[1].split("/")[0] in body["detail"]
    assert ordered_of(world, "planned") == before


async def test_rights_that_cannot_be_reviewed_change_nothing(world):
    before = ordered_of(world, "planned")
    async with serving(world, authorizer=Away()) as other:
        assert_problem(await ask(other, "/v1/upgrade/runs/planned:start"), "not-ready", 503)
    assert ordered_of(world, "planned") == before


async def test_an_order_begins_again_when_others_write_at_the_same_time(monkeypatch):
    async with upgrading() as world, serving(world) as port:
        await world.add(make_upgrade_run("busy", state="Initialize"))
        await world.until(lambda: entries(world, "busy"))
        replace, lost = world.store.replace, []

        async def losing(kind, document):
            if len(lost) < 2 and name_of(document) == "busy":
                lost.append(document)
                raise ConflictError("somebody else")
            return await replace(kind, document)

        monkeypatch.setattr(world.store, "replace", losing)
        answer = await ask(port, "/v1/upgrade/runs/busy:start")
        assert (answer.status, len(lost)) == (200, 2), answer.body
        await world.until(lambda: state(world, "busy") in ("Completed", "Skipped"))
        assert len({each["metadata"]["name"] for each in requests(world)}) == len(requests(world))
