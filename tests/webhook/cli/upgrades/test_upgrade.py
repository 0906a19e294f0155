"""``harbormaster upgrade``, and the answers to gates, against a hub on which runs are carried out."""

import asyncio
import json
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

import pytest
import yaml

from scorer.api.kinds import UPGRADE_GATE, UPGRADE_RUN
from scorer.api.unstructured.documents import status_of, with_metadata
from tests.waiting import PATIENCE_SECONDS
from tests.webhook.cli.conftest import running_hub
from tests.webhook.controllers.upgrade_world import (
    annotate,
    condition,
    gates,
    make_upgrade_run,
    make_upgrade_strategy,
    state,
    states,
    upgrading,
)
from tests.webhook.controllers.world import held_up
from tests.webhook.edits import edit
from webhook.cli.hub.client import Client
from webhook.kube.ports import Key
from webhook.runtime.clock import utc_now

APPROVAL = {"type": "Approval", "displayName": "fine?"}
STAGES = (
    {"name": "test", "groups": [{"name": "t"}], "afterGates": [APPROVAL]},
    {"name": "live", "groups": [{"name": "u"}, {"name": "v"}]},
)


class Hub:
    """A hub with members in two stages, and a strategy; the loop carries runs out."""

    def __init__(self, running, world):
        self.hub = running
        self.world = world

    def get(self, kind, name):
        return self.hub.run(self.world.store.get(kind, Key(name)))

    def add(self, *documents):
        self.hub.run(self.world.add(*documents))

    def until(self, test):
        self.hub.run(self.world.until(test))

    def annotate(self, member, **annotations):
        self.hub.run(annotate(self.world, member, **annotations))

    @contextmanager
    def held_up(self, controller):
        """Let a controller begin with nothing for so long."""
        holding = held_up(self.world.loop.queues[controller])
        self.hub.run(holding.__aenter__())
        try:
            yield
        finally:
            self.hub.run(holding.__aexit__(None, None, None))


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """A hub; clients find it by the environment."""
    for module in ("staged_updates.wait", "upgrades.run_client", "upgrades.plan"):
        monkeypatch.setattr(f"webhook.cli.{module}.POLL_SECONDS", 0.02)
    worlds = []

    @asynccontextmanager
    async def world():
        async with upgrading(*STAGES) as found:
            worlds.append(found)
            yield found.store

    with running_hub(tmp_path / "hub", world) as running:
        monkeypatch.setenv("HARBORMASTER_DATA", str(running.data))
        yield Hub(running, worlds[0])


def ok(result, code=0):
    """Return what a command has printed, having ended with this code."""
    assert result.exit_code == code, (result.stdout, result.stderr)
    return result.stdout


def refused(result):
    """Return the error with which a command has ended."""
    assert (result.exit_code, result.stdout) == (1, "")
    return result.stderr


def the_gate(opened):
    opened.until(lambda: len(list(gates(opened.world))) == 1)
    (gate,) = gates(opened.world)
    return gate


def test_a_run_is_started_approved_and_waited_for(cli, opened):
    opened.add(make_upgrade_run(state="Initialize"))
    out = ok(cli("upgrade", "start", "r", "--wait", "--timeout", "2m"), 2)
    gate = the_gate(opened)
    assert out.splitlines()[0] == "clusterupgraderun.upgrade.harbormaster.dev/r started"
    assert "run r: Pending" in out
    assert out.splitlines()[-1] == f"  harbormaster approve {gate}"
    said = ok(cli("approve", gate, "-m", "error rate is flat"))
    assert said == f"{gate} approved: run r continues\n"
    assert ok(cli("upgrade", "status", "r", "--wait", "--timeout", "2m")).splitlines()[-1] == "run r: Completed"
    assert ok(cli("approve", gate)) == f"{gate} is already approved\n"
    conditions = opened.get(UPGRADE_GATE, gate)["status"]["conditions"]
    assert [each["type"] for each in conditions] == ["Approved", "ApprovalAccepted"]
    assert conditions[0]["message"].endswith(": error rate is flat")


def test_an_approval_that_the_loop_has_not_taken_in_is_not_asked_for_again(cli, opened):
    opened.add(make_upgrade_run())
    gate = the_gate(opened)
    with opened.held_up("cluster_upgrade"):
        ok(cli("approve", gate))
        shown = ok(cli("upgrade", "status", "r"))
        assert f'waits for gate {gate} "fine?" after stage test: approved, the run is about to continue' in shown
        assert "harbormaster approve" not in shown
        assert cli("upgrade", "status", "r", "--wait", "--timeout", "0s").exit_code == 3
    assert ok(cli("upgrade", "status", "r", "--wait", "--timeout", "2m")).splitlines()[-1] == "run r: Completed"


def test_a_gate_that_is_rejected_stops_the_run_and_can_be_answered_again(cli, opened):
    opened.add(make_upgrade_run())
    gate = the_gate(opened)
    assert ok(cli("reject", gate, "--reason", "too slow")) == f"{gate} rejected: run r stops\n"
    opened.until(lambda: state(opened.world) == "Stopped")
    shown = ok(cli("upgrade", "status", "r"))
    assert "too slow" in shown
    assert "  harbormaster upgrade start r" in shown.splitlines()
    waits = [line for line in shown.splitlines() if line.startswith("waits for ")]
    assert waits[0] == "waits for a start: the run is Stopped"
    assert "(rejected before: too slow), once the run is started again, since " in waits[1]
    ok(cli("upgrade", "start", "r"))
    ok(cli("approve", gate))
    opened.until(lambda: state(opened.world) == "Completed")
    assert "1.30.4 -> 1.31.2" in ok(cli("upgrade", "status", "r"))


def test_a_run_is_stopped_and_skipped_through(cli, opened):
    opened.annotate("t1", upgrade_duration="1h")
    opened.add(make_upgrade_run())
    opened.until(lambda: states(opened.world).get("t1") == "Running")
    assert ok(cli("upgrade", "stop", "r")) == "clusterupgraderun.upgrade.harbormaster.dev/r stopping\n"
    opened.annotate("t1", upgrade_duration="1s")
    out = ok(cli("upgrade", "stop", "r", "--wait", "--timeout", "2m"))
    assert out.splitlines()[-1] == "run r: Stopped"
    assert ok(cli("upgrade", "stop", "r")) == "clusterupgraderun.upgrade.harbormaster.dev/r already stopped\n"
    result = cli("upgrade", "skip", "r", "--member", "u1", "--group", "v", "--wait-after", "test", "--member", "t1")
    assert ok(result).endswith("/r will skip Member u1, Group v (v1)\n")
    assert result.stderr == "note: t1 is already upgraded\nnote: there is no wait after stage test\n"
    nothing = refused(cli("upgrade", "skip", "r", "--member", "t1"))
    assert nothing == "error: t1 is already upgraded: nothing to skip\n"
    opened.until(lambda: True)  # the loop has taken in what is skipped
    ok(cli("upgrade", "start", "r"))
    ok(cli("approve", the_gate(opened)))
    opened.until(lambda: state(opened.world) == "Completed")
    assert states(opened.world) == {"t1": "Completed", "u1": "Skipped", "u2": "Completed", "v1": "Skipped"}


def write_before(opened, monkeypatch, patches):
    """Write the run before each of the first *patches* of a command."""
    patch, left = Client.patch, list(range(patches))

    async def overtaken(client, place, document, **how):
        if left:
            label = {"write": str(left.pop())}
            opened.hub.run(
                edit(opened.world.store, UPGRADE_RUN, Key("r"), lambda run: with_metadata(run, labels=label))
            )
        return await patch(client, place, document, **how)

    monkeypatch.setattr(Client, "patch", overtaken)


@pytest.mark.parametrize(
    ("before", "words", "ordered"),
    [
        pytest.param("Initialize", ("start", "r"), {"state": "Run"}, id="start"),
        pytest.param("Run", ("stop", "r"), {"state": "Stop"}, id="stop"),
        pytest.param(
            "Initialize",
            ("skip", "r", "--stage", "live"),
            {"skipTargets": [{"type": "Stage", "name": "live"}]},
            id="skip",
        ),
    ],
)
def test_an_order_is_made_again_from_what_another_client_has_written(cli, opened, monkeypatch, before, words, ordered):
    opened.add(make_upgrade_run(state=before))
    opened.until(lambda: before != "Run" or "startTime" in status_of(opened.world.cache.get(UPGRADE_RUN, "r") or {}))
    write_before(opened, monkeypatch, 1)  # the loop writes it, too
    ok(cli("upgrade", *words))
    run = opened.get(UPGRADE_RUN, "r")
    assert run["metadata"]["labels"] == {"write": "0"}
    assert {name: run["spec"].get(name) for name in ordered} == ordered


def test_an_order_that_other_clients_overtake_five_times_is_refused(cli, opened, monkeypatch):
    opened.add(make_upgrade_run(state="Initialize"))
    write_before(opened, monkeypatch, 5)
    assert refused(cli("upgrade", "start", "r")).startswith("Error from server (Conflict): ")
    assert opened.get(UPGRADE_RUN, "r")["spec"]["state"] == "Initialize"


def test_a_run_that_fails_ends_the_wait_with_1_and_can_be_tried_again(cli, opened):
    opened.annotate("t1", simulate_upgrade="fail")
    opened.add(make_upgrade_run())
    result = cli("upgrade", "status", "r", "--wait", "--timeout", "2m")
    assert result.exit_code == 1
    assert "error: run r finished as Failed at stage test: t1: SimulatedFailure" in result.stderr
    made = yaml.safe_load(ok(cli("upgrade", "retry", "r", "--dry-run")))
    assert made["metadata"]["name"] == "r-retry"
    assert ok(cli("upgrade", "retry", "r")).endswith(
        "/r-retry created, not started. To start it: harbormaster upgrade start r-retry\n"
    )
    assert opened.get(UPGRADE_RUN, "r-retry")["spec"]["state"] == "Initialize"


def test_a_run_that_has_left_nothing_to_do_is_not_made_again(cli, opened):
    opened.add(make_upgrade_run(strategyRef=None))
    opened.until(lambda: state(opened.world) == "Completed")
    assert "run r has nothing to retry" in refused(cli("upgrade", "retry", "r", "--dry-run"))


def test_a_run_that_cannot_start_says_why_however_often_it_is_told_to(cli, opened):
    opened.add(make_upgrade_run(state="Initialize", strategyRef={"name": "nobody"}))
    opened.until(lambda: condition(opened.world, "Initialized").get("reason") == "StrategyNotFound")
    for _ in range(2):
        assert "/r start requested, but blocked: StrategyNotFound: " in refused(cli("upgrade", "start", "r"))
    result = cli("upgrade", "start", "r", "--wait")
    assert (result.exit_code, "start requested, but blocked" in result.stderr) == (2, True)
    opened.add(make_upgrade_strategy(*STAGES, name="nobody"))
    opened.until(lambda: state(opened.world) not in ("", "NotStarted"))
    assert ok(cli("upgrade", "start", "r")).endswith("/r already running\n")


def test_a_version_that_cannot_be_resolved_is_found_out_by_the_start(cli, opened):
    opened.add(make_upgrade_run(state="Initialize", upgrade={"type": "Full", "kubernetesVersion": "1.39"}))
    opened.until(lambda: bool(states(opened.world)))
    assert "start requested, but blocked: VersionNotResolvable: " in refused(cli("upgrade", "start", "r"))


def test_a_run_may_be_named_in_place_of_its_only_gate(cli, opened):
    opened.add(make_upgrade_run())
    gate = the_gate(opened)
    assert "has no stage 'sea'. Its stages: test, live" in refused(cli("approve", "r", "--stage", "sea"))
    assert "is not waiting for an approval at stage live" in refused(cli("approve", "r", "--stage", "live"))
    assert f"gate {gate} belongs to stage test, not to live" in refused(cli("approve", gate, "--stage", "live"))
    assert ok(cli("reject", "r", "--reason", "too slow")) == f"{gate} rejected: run r stops\n"
    opened.until(lambda: state(opened.world) == "Stopped")
    ok(cli("upgrade", "start", "r"))
    assert ok(cli("approve", "r", "--stage", "test")) == f"{gate} approved: run r continues\n"
    opened.until(lambda: state(opened.world) == "Completed")
    assert ok(cli("approve", "r", "--stage", "test")) == f"{gate} is already approved\n"
    assert "run r is not waiting for an approval: it is Completed" in refused(cli("approve", "r"))


def test_of_several_open_gates_one_has_to_be_named(cli, opened):
    twice = {"name": "test", "groups": [{"name": "t"}], "beforeGates": [APPROVAL, {"type": "Approval"}]}
    opened.add(make_upgrade_run(strategyRef=None, strategy={"stages": [twice]}))
    opened.until(lambda: len(list(gates(opened.world))) == 2)
    told = refused(cli("approve", "r")).splitlines()
    assert told[0] == "error: run r waits for 2 approvals. Name one of these gates:"
    assert [line.split()[1] for line in told[1:]] == sorted(gates(opened.world))
    assert told[1].endswith('"fine?" before stage test')


def test_a_gate_that_opens_by_itself_is_opened_early_only_by_its_name(cli, opened):
    day = (utc_now() + timedelta(days=2)).strftime("%A")
    scheduled = {"type": "ScheduledStart", "scheduledStart": {"startDay": day, "startTime": "01:00"}}
    stages = [{"name": "test", "groups": [{"name": "t"}], "beforeGates": [scheduled]}]
    opened.add(make_upgrade_run(strategyRef=None, strategy={"stages": stages}))
    gate = the_gate(opened)
    assert "run r is not waiting for an approval but for timed gates" in refused(cli("approve", "r"))
    assert ok(cli("approve", gate)) == f"{gate} approved: run r continues\n"


def test_without_a_name_all_runs_are_listed(cli, opened):
    assert cli("upgrade", "status").stderr == "No upgrade runs found\n"
    opened.add(make_upgrade_run("done", strategyRef=None, memberSelector={"matchLabels": {"is": "nobody"}}))
    opened.add(make_upgrade_run("later", state="Initialize"))
    opened.until(lambda: state(opened.world, "done") == "Skipped" and bool(states(opened.world, "later")))
    header, later, done = ok(cli("upgrade", "status")).splitlines()
    assert header.split()[:5] == ["RUN", "STATE", "STAGE", "UPGRADE", "DONE"]
    assert later.split() == ["later", "NotStarted", "-", "Full", "to", "1.31.2", "0", "of", "4", "-", "its", "start"]
    assert done.split()[:2] == ["done", "Skipped"]
    items = json.loads(ok(cli("upgrade", "status", "-o", "json")))["items"]
    assert [each["run"]["name"] for each in items] == ["later", "done"]
    assert "specify the run to watch" in refused(cli("upgrade", "status", "-w"))


def test_a_plan_that_the_loop_is_about_to_make_is_waited_for(cli, opened):
    opened.add(make_upgrade_run(state="Initialize"))
    lines = ok(cli("upgrade", "plan", "r")).splitlines()
    assert lines[0].startswith("r: finishes at ")
    assert 'gate "fine?" after stage test' in next(line for line in lines if line.startswith("critical path: "))
    assert not [line for line in ok(cli("upgrade", "status", "r")).splitlines() if line.startswith("expected")]


def test_the_time_is_up(cli, opened):
    opened.annotate("t1", simulate_upgrade="hang")
    opened.add(make_upgrade_run())
    result = cli("upgrade", "status", "r", "--wait", "--timeout", "1s")
    assert result.exit_code == 3
    assert "run r is still Running after 1s" in result.stderr


def test_status_shows_members_and_what_they_wait_for(cli, opened):
    opened.annotate("t1", upgrade_hold="true")
    opened.add(make_upgrade_run())
    opened.until(lambda: states(opened.world).get("t1") == "Pending")
    opened.until(lambda: "plan" in opened.world.cache.get(UPGRADE_RUN, "r")["status"])
    lines = ok(cli("upgrade", "status", "r")).splitlines()
    assert lines[0] == "r: Pending  Full to 1.31.2, 0 of 4 done"
    assert lines[1].split() == ["STAGE", "GROUP", "MEMBER", "STATE", "SINCE", "FINISHED", "MESSAGE"]
    row = next(line for line in lines if line.split()[:2] == ["t1", "Pending"])
    assert "MemberOnHold: member t1 is on hold" in row
    assert any(line.startswith("waits for t1: MemberOnHold: member t1 is on hold, since ") for line in lines)
    assert lines[-1] == "no end time can be predicted. For the reason, run: harbormaster upgrade plan r"
    document = json.loads(ok(cli("upgrade", "status", "r", "-o", "json")))
    assert document["run"]["counts"]["pending"] == 1
    assert document["waits"][0]["members"] == ["t1"]


def test_the_plan_says_when_each_member_is_reached(cli, opened):
    opened.annotate("u2", upgrade_hold="true")
    opened.add(make_upgrade_run(state="Initialize"))
    opened.until(lambda: "plan" in opened.world.cache.get(UPGRADE_RUN, "r").get("status", {}))
    lines = ok(cli("upgrade", "plan", "r")).splitlines()
    assert lines[0].startswith("r: no end time can be predicted, as of ")
    rows = {line.split()[0]: line.split()[1:] for line in lines[3:7]}
    assert [rows[name][0] for name in ("t1", "u1", "u2", "v1")] == ["Upgrade", "Upgrade", "Blocked", "Upgrade"]
    assert rows["u1"][-2:] == ["Gate", "-"]
    assert "warning: MemberOnHold: Pending at the end: u2" in lines
    document = json.loads(ok(cli("upgrade", "plan", "r", "-o", "json")))
    assert document["exposure"] == 1


MISTAKES = [
    (("upgrade", "start", "nobody"), "there is no ClusterUpgradeRun nobody"),
    (("upgrade", "status", "nobody"), "there is no ClusterUpgradeRun nobody"),
    (("upgrade", "plan", "nobody"), "there is no ClusterUpgradeRun nobody"),
    (("upgrade", "retry", "nobody"), "there is no ClusterUpgradeRun nobody"),
    (("upgrade", "stop", "r"), "run r has not started"),
    (("upgrade", "skip", "r"), "specify what to skip"),
    (("upgrade", "skip", "r", "--member", ""), "must not be empty"),
    (("upgrade", "skip", "r", "--member", "nobody"), "run r has no Member 'nobody'"),
    (("upgrade", "start", "r", "--timeout", "3s"), "--timeout: requires --wait"),
    (("approve", "nobody"), "there is no run and no approval request nobody"),
]


def test_mistakes_are_named(cli, opened):
    """One hub for all of them: none changes it."""
    opened.add(make_upgrade_run(state="Initialize"))
    opened.until(lambda: bool(states(opened.world)))
    for arguments, message in MISTAKES:
        assert message in refused(cli(*arguments)), arguments


def test_every_change_is_shown_until_the_run_is_over(cli, opened):
    opened.add(make_upgrade_run(state="Initialize", strategyRef=None))
    opened.until(lambda: bool(states(opened.world)))
    store = opened.world.store
    get, asked = store.get, asyncio.Event()

    async def noting(kind, key):
        if kind == UPGRADE_RUN:
            asked.set()
        return await get(kind, key)

    async def start_when_followed():
        await asked.wait()
        await opened.world.change(UPGRADE_RUN, "r", state="Run")

    store.get = noting
    started = asyncio.run_coroutine_threadsafe(start_when_followed(), opened.hub.loop)
    shown = ok(cli("upgrade", "status", "r", "-w"))
    started.result(PATIENCE_SECONDS)
    assert "member t1: Completed" in shown
    assert shown.splitlines()[-1].endswith("r: Completed") or "stage default: Completed" in shown
