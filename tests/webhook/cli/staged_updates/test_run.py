"""``harbormaster run``, ``approve``, ``reject`` and ``undo`` against a hub on which runs are carried out."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
import yaml

from scorer.api.kinds import (
    APPROVAL_REQUEST,
    NAMESPACED_APPROVAL_REQUEST,
    NAMESPACED_STAGED_RUN,
    STAGED_RUN,
)
from scorer.api.unstructured.documents import status_of
from scorer.staged_update.orders import RunOrder
from scorer.staged_update.record import condition
from tests.builders.placement import make_placement
from tests.webhook.cli.conftest import kubeconfig, running_hub
from tests.webhook.controllers.staged_world import STAGES, approve, make_strategy, pass_time, release, staged
from tests.webhook.controllers.world import make_config_map
from webhook.cli.errors import UserError
from webhook.cli.hub.client import Client, HubRefusedError
from webhook.kube.ports import Key, NotFoundError

START = ("run", "start", "spring", "--placement", "p", "--strategy", "careful")


class Hub:
    """A hub with a placement on members of two stages; the loop carries runs out."""

    def __init__(self, running, worlds):
        self.hub = running
        self.world = worlds[0]

    def get(self, kind, name, namespace=""):
        return self.hub.run(self.world.store.get(kind, Key(name, namespace)))

    def add(self, *documents):
        self.hub.run(self.world.add(*documents))

    def until(self, test):
        """Wait until something holds, and nothing moves any more."""
        self.hub.run(self.world.until(test))

    def pass_time(self, **units):
        self.hub.run(passed(self.world, **units))

    def release(self, value):
        self.hub.run(release(self.world, value))


async def passed(world, **units):
    """Move the clock on, within the hub's own loop."""
    pass_time(world, **units)


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Yield a function that opens a hub whose loop has these settings; clients find it by the environment."""
    monkeypatch.setattr("webhook.cli.staged_updates.wait.POLL_SECONDS", 0.02)
    worlds = []

    @asynccontextmanager
    async def world():
        async with staged() as found:
            worlds.append(found)
            yield found.store

    with running_hub(tmp_path / "hub", world) as running:
        monkeypatch.setenv("HARBORMASTER_DATA", str(running.data))
        yield Hub(running, worlds)


def ok(result, code=0):
    """Return what a command has printed, having ended with this code."""
    assert result.exit_code == code, (result.stdout, result.stderr)
    return result.stdout


def refused(result):
    """Return the error with which a command has ended."""
    assert (result.exit_code, result.stdout) == (1, "")
    return result.stderr


def test_a_run_is_started_approved_and_waited_for(cli, opened):
    out = ok(cli(*START, "--wait", "--timeout", "2m"), 2)
    assert out.splitlines()[0] == "clusterstagedupdaterun.placement.kubernetes-fleet.io/spring created"
    assert "run spring: Waiting" in out
    assert "waits for approval of spring-after-test after stage test, since " in out
    assert out.splitlines()[-1] == "  harbormaster approve spring --stage test"

    said = ok(cli("approve", "spring", "-m", "error rate is flat"))
    assert said == "spring-after-test approved: run spring continues\n"
    given = condition(status_of(opened.get(APPROVAL_REQUEST, "spring-after-test")), "Approved")
    assert (given["status"], given["reason"], given["observedGeneration"]) == ("True", "ApprovedByUser", 1)
    assert given["message"].endswith(": error rate is flat")

    assert ok(cli("run", "status", "spring", "--wait", "--timeout", "2m")).startswith("spring: Succeeded  placement p")


def test_the_command_that_is_shown_does_what_it_says(cli, opened):
    out = ok(cli(*START, "--wait", "--timeout", "2m", "--data", opened.hub.data), 2)
    program, *words = out.splitlines()[-1].split()
    assert program == "harbormaster"
    assert words[-2:] == ["--data", str(opened.hub.data)]
    assert "approved" in ok(cli(*words))


def test_a_kubeconfig_names_the_hub_as_well(cli, opened, tmp_path):
    file = kubeconfig(opened.hub, tmp_path / "hub.kubeconfig")
    out = ok(cli(*START, "--wait", "--timeout", "2m", "--kubeconfig", file, "--context", "here"), 2)
    assert f"--kubeconfig {file} --context here" in out.splitlines()[-1]
    assert "approved" in ok(cli("approve", "spring-after-test", "--kubeconfig", file))


def test_a_run_is_planned_looked_at_and_then_started(cli, opened):
    out = ok(cli(*START, "--initialize-only", "--wait", "--timeout", "2m"))
    assert out.splitlines()[-1] == "run spring: Initialized"
    table = ok(cli("run", "status", "spring"))
    assert "waits for a user to start it, since " in table
    assert "  harbormaster run start spring" in table
    assert ok(cli(*START, "--initialize-only")).endswith(" already planned\n")
    assert ok(cli("run", "start", "spring")).endswith(" started\n")
    assert ok(cli("run", "start", "spring")).endswith(" already running\n")
    assert "cannot be initialized again" in refused(cli("run", "start", "spring", "--initialize-only"))


def test_a_run_that_is_there_is_not_mistaken_for_another(cli, opened):
    ok(cli(*START, "--initialize-only", "--wait", "--timeout", "2m"))
    error = refused(cli("run", "start", "spring", "--placement", "q"))
    assert "spec.placementName is 'p', not 'q'" in error


def test_a_new_run_needs_a_placement_and_a_strategy(cli, opened):
    assert "--strategy: required, because there is no run spring yet" in refused(
        cli("run", "start", "spring", "--placement", "p")
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            ("--placement", "q", "--strategy", "careful"),
            ["--placement q: there is no such ClusterResourcePlacement; existing: p"],
            id="placement",
        ),
        pytest.param(
            ("--placement", "p", "--strategy", "carefull"),
            ["--strategy carefull: there is no such ClusterStagedUpdateStrategy; existing: careful"],
            id="strategy",
        ),
        pytest.param(
            ("--placement", "q", "--strategy", "bold"),
            [
                "--placement q: there is no such ClusterResourcePlacement; existing: p",
                "--strategy bold: there is no such ClusterStagedUpdateStrategy; existing: careful",
            ],
            id="both",
        ),
        pytest.param(
            ("--placement", "p", "--strategy", "careful", "-n", "shop"),
            [
                "--placement p: there is no such ResourcePlacement in namespace shop; there are no resourceplacements",
                "--strategy careful: there is no such StagedUpdateStrategy in namespace shop; there are no "
                "stagedupdatestrategies",
            ],
            id="other-family",
        ),
    ],
)
@pytest.mark.parametrize("more", [[], ["--initialize-only"], ["--wait"]], ids=["start", "initialise", "wait"])
def test_a_run_of_what_does_not_exist_is_refused(cli, opened, words, said, more):
    error = refused(cli("run", "start", "spring", *words, *more))
    assert error.splitlines() == [f"error: {line}" for line in said]
    namespace = "shop" if "shop" in words else ""
    with pytest.raises(NotFoundError):
        opened.get(NAMESPACED_STAGED_RUN if namespace else STAGED_RUN, "spring", namespace)


def test_what_admission_refuses_is_told(cli, opened):
    assert "resourceSnapshotIndex" in refused(cli(*START, "--snapshot", "first"))


def test_a_run_that_cannot_be_initialised_has_failed(cli, opened):
    result = cli(*START, "--snapshot", "77", "--wait", "--timeout", "2m")
    assert result.exit_code == 1
    assert "error: run spring finished as Failed: " in result.stderr
    assert "77" in result.stderr


def test_a_run_is_stopped_and_resumed(cli, opened):
    ok(cli(*START, "--wait", "--timeout", "2m"), 2)
    assert ok(cli("run", "stop", "spring", "--wait", "--timeout", "2m")).endswith("stopping\nrun spring: Stopped\n")
    assert opened.get(STAGED_RUN, "spring")["spec"]["state"] == "Stop"
    assert ok(cli("run", "stop", "spring")).endswith("already stopped\n")
    waiting = ok(cli("run", "status", "spring", "--wait", "--timeout", "2m"), 2)
    assert "  harbormaster run resume spring" in waiting
    assert "but for a user to resume it" in refused(cli("approve", "spring"))
    assert "run spring: Waiting" in ok(cli("run", "resume", "spring", "--wait", "--timeout", "2m"), 2)
    assert ok(cli("run", "resume", "spring")).endswith("already running\n")


def test_the_time_can_be_up(cli, opened):
    ok(cli(*START, "--wait", "--timeout", "2m"), 2)
    result = cli("run", "status", "spring", "--wait", "--through-approvals", "--timeout", "0.1s", "-o", "json")
    assert result.exit_code == 3
    result = cli("run", "resume", "spring", "--wait", "--through-approvals", "--timeout", "0.1s")
    assert result.exit_code == 3
    assert "error: run spring is still Waiting after" in result.stderr


def act_when_asked(opened, monkeypatch, action, *faults):
    """Have the first question answered and the next ones fail, and run *action* on the hub after the last of them."""
    read, left = Client.get, [None, *faults]

    async def get(client, place):
        if not left:
            return await read(client, place)
        error = left.pop(0)
        answer = None if error else await read(client, place)
        if not left:
            asyncio.run_coroutine_threadsafe(action(), opened.hub.loop)
        if error:
            raise error
        return answer

    monkeypatch.setattr(Client, "get", get)


def test_through_approvals_a_pipeline_waits_until_somebody_has_answered(cli, opened, monkeypatch):
    ok(cli(*START, "--wait", "--timeout", "2m"), 2)
    act_when_asked(opened, monkeypatch, lambda: approve(opened.world, "spring-after-test"))
    result = cli("run", "status", "spring", "--wait", "--through-approvals", "--timeout", "2m")
    assert ok(result).splitlines()[-1] == "run spring: Succeeded"


@pytest.mark.parametrize(
    "fault",
    [UserError("cannot reach the hub"), HubRefusedError({"code": 503, "message": "the server is starting"})],
    ids=["away", "starting"],
)
def test_a_hub_that_is_in_trouble_for_a_moment_does_not_end_a_wait(cli, opened, monkeypatch, fault):
    ok(cli(*START, "--wait", "--timeout", "2m"), 2)
    act_when_asked(opened, monkeypatch, lambda: approve(opened.world, "spring-after-test"), fault, fault)
    result = cli("run", "status", "spring", "--wait", "--through-approvals", "--timeout", "2m")
    assert ok(result).splitlines()[-1] == "run spring: Succeeded"
    assert f"waiting: {fault}" in result.stderr


def test_status_shows_stages_clusters_and_the_way_on(cli, opened):
    ok(cli(*START, "--wait", "--timeout", "2m"), 2)
    lines = ok(cli("run", "status", "spring")).splitlines()
    assert lines[0] == "spring: Waiting  placement p, strategy careful, resource snapshot 0"
    assert lines[1].split() == ["STAGE", "CLUSTER", "STATE", "SINCE", "FINISHED", "MESSAGE"]
    assert lines[2].split()[:5] == ["test", "2", "of", "2", "waiting"]
    assert [line.split()[:2] for line in lines[3:5]] == [["t1", "done"], ["t2", "done"]]
    assert [line.split()[:2] for line in lines[6:9]] == [[name, "pending"] for name in ("v1", "v2", "v3")]
    assert lines[-1] == "  harbormaster approve spring --stage test"


def test_status_has_the_documented_shape(cli, opened):
    """Every field is named in the help's section on -o json."""
    ok(cli(*START, "--wait", "--timeout", "2m"), 2)
    document = json.loads(ok(cli("run", "status", "spring", "-o", "json")))
    assert yaml.safe_load(ok(cli("run", "status", "spring", "-o", "yaml"))).keys() == document.keys()
    (wait,), stage = document["waits"], document["stages"][0]
    assert (wait["kind"], wait["needsPerson"]) == ("Approval", True)
    shown = cli("run", "status", "--help").stdout
    for field in {*document, *document["run"], *wait, *stage, *stage["clusters"][0]}:
        assert field in shown


def test_watching_shows_every_change_until_the_run_is_over(cli, opened):
    ok(cli(*START, "--wait", "--timeout", "2m"), 2)
    ok(cli("approve", "spring"))
    out = ok(cli("run", "status", "spring", "-w"))
    assert "spring: " in out.splitlines()[0]
    assert opened.get(STAGED_RUN, "spring")["status"]["conditions"][-1]["reason"] == "UpdateRunSucceeded"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["approve", "spring", "--stage", ""], "'--stage'"),
        (["approve", "spring", "-n", ""], "'-n' / '--namespace'"),
        (["approve", ""], "'RUN|REQUEST|GATE'"),
        (["reject", "spring", "--stage", "", "--reason", "no"], "'--stage'"),
        (["run", "status", ""], "'RUN'"),
        (["run", "start", "summer", "--placement", "p", "--strategy", "careful", "--snapshot", ""], "'--snapshot'"),
        (["undo", ""], "'RUN'"),
    ],
)
def test_an_empty_text_as_of_an_unset_variable_means_no_other_run_stage_or_snapshot(cli, words, named):
    assert f"Invalid value for {named}: '' is empty" in refused(cli(*words))


class TestApprove:
    """What is approved, and what is not."""

    def test_a_request_can_be_named(self, cli, opened):
        ok(cli(*START, "--wait", "--timeout", "2m"), 2)
        assert "spring-after-test approved" in ok(cli("approve", "spring-after-test"))

    def test_approving_again_changes_nothing(self, cli, opened):
        ok(cli(*START, "--wait", "--timeout", "2m"), 2)
        ok(cli("approve", "spring"))
        ok(cli("run", "status", "spring", "--wait", "--timeout", "2m"))
        for words in (["spring-after-test"], ["spring", "--stage", "test"]):
            assert ok(cli("approve", *words)) == "spring-after-test is already approved\n"

    def test_a_run_that_waits_for_none(self, cli, opened):
        ok(cli(*START, "--initialize-only", "--wait", "--timeout", "2m"))
        assert "run spring is not waiting for an approval, but for a user to start it" in refused(
            cli("approve", "spring")
        )

    def test_a_run_that_is_over(self, cli, opened):
        ok(cli(*START, "--wait", "--timeout", "2m"), 2)
        ok(cli("approve", "spring"))
        ok(cli("run", "status", "spring", "--wait", "--timeout", "2m"))
        assert "run spring is finished (Succeeded" in refused(cli("approve", "spring"))

    def test_another_stage(self, cli, opened):
        ok(cli(*START, "--wait", "--timeout", "2m"), 2)
        assert "run spring waits for another approval: spring-after-test" in refused(
            cli("approve", "spring", "--stage", "live")
        )
        assert "has no stage 'sea'. Its stages: test, live" in refused(cli("approve", "spring", "--stage", "sea"))

    def test_a_name_that_is_that_of_a_run_and_of_a_request_is_not_guessed_at(self, cli, opened):
        ok(cli(*START, "--wait", "--timeout", "2m"), 2)
        opened.hub.run(
            opened.world.store.create(STAGED_RUN, RunOrder("spring-after-test", "", "p", "careful").document())
        )
        for command in (["approve"], ["reject", "--reason", "no"]):
            error = refused(cli(*command, "spring-after-test"))
            assert "spring-after-test is both a run and an approval request of run spring: name the run" in error
        assert "spring-after-test approved: run spring continues" in ok(cli("approve", "spring", "--stage", "test"))

    def test_nothing_of_that_name(self, cli, opened):
        assert "there is no run and no approval request nobody. For a run of a namespace: -n NAMESPACE" in refused(
            cli("approve", "nobody")
        )


class TestReject:
    """The run stops, and says why."""

    def test_the_run_stops_and_keeps_the_reason(self, cli, opened):
        ok(cli(*START, "--wait", "--timeout", "2m"), 2)
        said = ok(cli("reject", "spring", "--reason", "error rate has doubled"))
        assert said == "spring-after-test rejected: run spring stops\n"
        run = opened.get(STAGED_RUN, "spring")
        assert run["spec"]["state"] == "Stop"
        why = run["metadata"]["annotations"]["harbormaster.dev/rejected"]
        assert why == "spring-after-test: error rate has doubled"
        assert f"rejected: {why}" in ok(cli("run", "status", "spring"))

    def test_a_run_that_goes_on_is_not_rejected_any_more(self, cli, opened):
        ok(cli(*START, "--wait", "--timeout", "2m"), 2)
        ok(cli("reject", "spring-after-test", "--reason", "not yet"))
        ok(cli("run", "resume", "spring", "--wait", "--timeout", "2m"), 2)
        assert "harbormaster.dev/rejected" not in opened.get(STAGED_RUN, "spring")["metadata"].get("annotations", {})

    def test_where_nothing_waits_there_is_nothing_to_reject(self, cli, opened):
        ok(cli(*START, "--initialize-only", "--wait", "--timeout", "2m"))
        assert "is not waiting for an approval" in refused(cli("reject", "spring", "--reason", "no"))

    def test_a_reason_is_needed(self, cli, opened):
        ok(cli(*START, "--wait", "--timeout", "2m"), 2)
        assert "the reason must not be empty" in refused(cli("reject", "spring", "--reason", " "))
        assert opened.get(STAGED_RUN, "spring")["spec"]["state"] == "Run"


def finished(cli, opened, name="spring", *more):
    """Take a run to its end."""
    ok(cli("run", "start", name, "--placement", "p", "--strategy", "careful", "--wait", "--timeout", "2m", *more), 2)
    ok(cli("approve", name))
    ok(cli("run", "status", name, "--wait", "--timeout", "2m"))


class TestUndo:
    """Another run takes it back."""

    def test_the_clusters_get_the_snapshot_they_had_before(self, cli, opened):
        finished(cli, opened, "first")
        opened.pass_time(minutes=1)  # of two runs of one second, none is the newest
        opened.release("2")
        finished(cli, opened, "second")
        assert "second-undo created: it rolls back second to resource snapshot 0" in ok(cli("undo", "second"))
        made = opened.get(STAGED_RUN, "second-undo")
        assert made["metadata"]["annotations"]["harbormaster.dev/rollback-of"] == "second"
        assert made["spec"] == {
            "placementName": "p",
            "resourceSnapshotIndex": "0",
            "stagedRolloutStrategyName": "careful",
            "state": "Run",
        }
        assert "rolls back run second" in ok(cli("run", "status", "second-undo"))
        assert "run second-undo already undoes run second" in refused(cli("undo", "second"))

    def test_a_run_that_newer_ones_have_followed_is_taken_back_only_by_force(self, cli, opened):
        for value, name in (("1", "first"), ("2", "second"), ("3", "third")):
            opened.release(value)
            finished(cli, opened, name)
            opened.pass_time(minutes=1)
        said = refused(cli("undo", "second"))
        assert "run second is not the newest: the placement was changed since then by third, which would be" in said
        assert "second-undo created: it rolls back second" in ok(cli("undo", "second", "--force"))

    def test_a_run_that_has_changed_nothing(self, cli, opened):
        ok(cli(*START, "--initialize-only", "--wait", "--timeout", "2m"))
        assert "run spring has changed no cluster (Initialized): nothing to undo" in refused(cli("undo", "spring"))

    def test_a_run_that_is_under_way_is_stopped_first(self, cli, opened):
        ok(cli(*START, "--wait", "--timeout", "2m"), 2)
        assert "run spring is not finished (Waiting). Stop it first" in refused(cli("undo", "spring"))

    def test_the_first_run_of_a_placement_has_nothing_to_go_back_to(self, cli, opened):
        finished(cli, opened)
        assert "no resource snapshot other than 0" in refused(cli("undo", "spring"))


def test_the_kinds_of_a_namespace_are_meant_where_one_is_named(cli, opened):
    finished(cli, opened, "first")  # brings the namespace to the members
    strategy = make_strategy(*STAGES)
    opened.add(
        make_config_map("tides", value="1"),
        {**strategy, "kind": "StagedUpdateStrategy", "metadata": {"name": "careful", "namespace": "shop"}},
        make_placement(
            "p",
            namespace="shop",
            selectors=[{"group": "", "version": "v1", "kind": "ConfigMap", "name": "tides"}],
            strategy={"type": "External"},
        ),
    )
    opened.until(lambda: True)
    out = ok(cli(*START, "-n", "shop", "--wait", "--timeout", "2m"), 2)
    assert out.splitlines()[-1] == "  harbormaster approve spring --stage test -n shop"
    assert "there is no ClusterStagedUpdateRun spring. For a run of a namespace: -n NAMESPACE" in refused(
        cli("run", "status", "spring")
    )
    ok(cli("reject", "spring", "-n", "shop", "--reason", "not yet"))
    ok(cli("run", "stop", "spring", "-n", "shop", "--wait", "--timeout", "2m"))
    assert opened.get(NAMESPACED_STAGED_RUN, "spring", "shop")["spec"]["state"] == "Stop"
    ok(cli("run", "resume", "spring", "-n", "shop", "--wait", "--timeout", "2m"), 2)
    ok(cli("approve", "spring-after-test", "-n", "shop"))
    ok(cli("run", "status", "spring", "-n", "shop", "--wait", "--timeout", "2m"))
    request = opened.get(NAMESPACED_APPROVAL_REQUEST, "spring-after-test", "shop")
    assert condition(status_of(request), "ApprovalAccepted")["status"] == "True"


def test_a_stop_waits_for_no_approval_and_has_no_option_for_it(cli):
    assert "--through-approvals" in ok(cli("run", "resume", "--help"))
    assert "--through-approvals" not in ok(cli("run", "stop", "--help"))


def test_how_long_to_wait_needs_a_wait(cli, opened):
    assert "--timeout: requires --wait" in refused(cli("run", "status", "spring", "--timeout", "2m"))
    assert "'soon' is not a duration" in refused(cli("run", "status", "spring", "--wait", "--timeout", "soon"))


def test_a_run_that_is_deleted_while_it_is_waited_for_is_gone(cli, opened, monkeypatch):
    ok(cli(*START, "--wait", "--timeout", "2m"), 2)
    act_when_asked(opened, monkeypatch, lambda: opened.world.store.delete(STAGED_RUN, Key("spring")))
    result = cli("run", "status", "spring", "--wait", "--through-approvals", "--timeout", "2m")
    assert result.exit_code == 1
    assert "was deleted" in result.stderr


def test_runs_are_listed_and_named_by_reference(cli, opened):
    assert cli("run", "list").stderr == "No runs found\n"
    ok(cli(*START, "--wait", "--timeout", "2m"), 2)
    for words in (("run", "list"), ("run", "status")):
        header, row = ok(cli(*words)).splitlines()
        assert header.split()[:3] == ["RUN", "STATE", "STAGE"]
        assert row.split()[:3] == ["csur/spring", "waiting", "test"]
    (item,) = json.loads(ok(cli("run", "list", "-o", "json")))["items"]
    assert item["waits"][0]["command"] == "harbormaster approve spring --stage test"
    for words in (["csur/spring"], ["csur", "spring"], ["spring"]):
        assert ok(cli("run", "status", *words)).startswith("spring: Waiting")
    assert cli("run", "list", "-n", "shop").stderr == "No runs found\n"
    assert "approved" in ok(cli("approve", "csur/spring"))
