"""``harbormaster upgrade``, and the answers to gates, against a hub on which runs are carried out."""

import json
from contextlib import asynccontextmanager

import pytest
import yaml

from scorer.api.kinds import UPGRADE_GATE, UPGRADE_RUN
from tests.webhook.cli.conftest import running_hub
from tests.webhook.controllers.upgrade_world import annotate, gates, make_upgrade_run, state, states, upgrading
from webhook.kube.ports import Key

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


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """A hub; clients find it by the environment."""
    monkeypatch.setattr("webhook.cli.run_following.POLL_SECONDS", 0.02)
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
    out = ok(cli("upgrade", "start", "r", "--wait", "--timeout", "30s"), 2)
    gate = the_gate(opened)
    assert out.splitlines()[0] == "clusterupgraderun.upgrade.harbormaster.dev/r started"
    assert "run r: Pending" in out
    assert out.splitlines()[-1] == f"  harbormaster approve {gate}"
    said = ok(cli("approve", gate, "-m", "error rate is flat"))
    assert said == f"{gate} approved: run r goes on\n"
    assert ok(cli("upgrade", "status", "r", "--wait", "--timeout", "40s")).splitlines()[-1] == "run r: Completed"
    assert ok(cli("approve", gate)) == f"{gate} was approved already\n"
    conditions = opened.get(UPGRADE_GATE, gate)["status"]["conditions"]
    assert [each["type"] for each in conditions] == ["Approved", "ApprovalAccepted"]
    assert conditions[0]["message"].endswith(": error rate is flat")


def test_a_gate_that_is_rejected_stops_the_run_and_can_be_answered_again(cli, opened):
    opened.add(make_upgrade_run())
    gate = the_gate(opened)
    assert ok(cli("reject", gate, "--reason", "too slow")) == f"{gate} rejected: run r stops\n"
    opened.until(lambda: state(opened.world) == "Stopped")
    shown = ok(cli("upgrade", "status", "r"))
    assert "too slow" in shown
    assert "  harbormaster upgrade start r" in shown.splitlines()
    ok(cli("upgrade", "start", "r"))
    ok(cli("approve", gate))
    opened.until(lambda: state(opened.world) == "Completed")


def test_a_run_is_stopped_and_skipped_through(cli, opened):
    opened.annotate("t1", upgrade_duration="3s")
    opened.add(make_upgrade_run())
    opened.until(lambda: states(opened.world).get("t1") == "Running")
    out = ok(cli("upgrade", "stop", "r", "--wait", "--timeout", "30s"))
    assert out.splitlines()[-1] == "run r: Stopped"
    assert ok(cli("upgrade", "stop", "r")) == "clusterupgraderun.upgrade.harbormaster.dev/r stopped already\n"
    said = ok(cli("upgrade", "skip", "r", "--member", "u1", "--group", "v", "--wait-after", "test"))
    assert said.endswith("/r is to leave out Member u1, Group v, AfterStageWait test\n")
    ok(cli("upgrade", "start", "r"))
    ok(cli("approve", the_gate(opened)))
    opened.until(lambda: state(opened.world) == "Completed")
    assert states(opened.world) == {"t1": "Completed", "u1": "Skipped", "u2": "Completed", "v1": "Skipped"}


def test_a_run_that_fails_ends_the_wait_with_1_and_can_be_tried_again(cli, opened):
    opened.annotate("t1", simulate_upgrade="fail")
    opened.add(make_upgrade_run())
    result = cli("upgrade", "status", "r", "--wait", "--timeout", "30s")
    assert result.exit_code == 1
    assert "error: run r has ended as Failed at stage test: t1: SimulatedFailure" in result.stderr
    made = yaml.safe_load(ok(cli("upgrade", "retry", "r", "--dry-run")))
    assert made["metadata"]["name"] == "r-retry"
    assert ok(cli("upgrade", "retry", "r")).endswith(
        "/r-retry created, not started: harbormaster upgrade start r-retry\n"
    )
    assert opened.get(UPGRADE_RUN, "r-retry")["spec"]["state"] == "Initialize"


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
    assert lines[-1] == "no end is in sight: harbormaster upgrade plan says why"
    document = json.loads(ok(cli("upgrade", "status", "r", "-o", "json")))
    assert document["run"]["counts"]["pending"] == 1
    assert document["waits"][0]["members"] == ["t1"]


def test_the_plan_says_when_each_member_is_reached(cli, opened):
    opened.annotate("u2", upgrade_hold="true")
    opened.add(make_upgrade_run(state="Initialize"))
    opened.until(lambda: "plan" in opened.world.cache.get(UPGRADE_RUN, "r").get("status", {}))
    lines = ok(cli("upgrade", "plan", "r")).splitlines()
    assert lines[0].startswith("r: no end in sight, as of ")
    rows = {line.split()[0]: line.split()[1:] for line in lines[3:7]}
    assert [rows[name][0] for name in ("t1", "u1", "u2", "v1")] == ["Upgrade", "Upgrade", "Blocked", "Upgrade"]
    assert rows["u1"][-2:] == ["Gate", "-"]
    assert "warning: MemberOnHold: Pending in the end: u2" in lines
    document = json.loads(ok(cli("upgrade", "plan", "r", "-o", "json")))
    assert document["exposure"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("upgrade", "start", "nobody"), "there is no ClusterUpgradeRun nobody"),
        (("upgrade", "status", "nobody"), "there is no ClusterUpgradeRun nobody"),
        (("upgrade", "plan", "nobody"), "there is no ClusterUpgradeRun nobody"),
        (("upgrade", "retry", "nobody"), "there is no ClusterUpgradeRun nobody"),
        (("upgrade", "stop", "r"), "run r has not started"),
        (("upgrade", "skip", "r"), "say what to skip"),
        (("upgrade", "skip", "r", "--member", ""), "'' is empty"),
        (("upgrade", "skip", "r", "--member", "nobody"), "run r has no Member 'nobody'"),
        (("upgrade", "start", "r", "--timeout", "3s"), "--timeout: only with --wait"),
        (("approve", "nobody"), "there is no run and no approval request nobody"),
    ],
)
def test_mistakes_are_named(cli, opened, arguments, message):
    opened.add(make_upgrade_run(state="Initialize"))
    opened.until(lambda: bool(states(opened.world)))
    assert message in refused(cli(*arguments))


def test_every_change_is_shown_until_the_run_is_over(cli, opened):
    opened.add(make_upgrade_run(strategyRef=None))
    shown = ok(cli("upgrade", "status", "r", "-w"))
    assert "member t1: Completed" in shown
    assert shown.splitlines()[-1].endswith("r: Completed") or "stage default: Completed" in shown
