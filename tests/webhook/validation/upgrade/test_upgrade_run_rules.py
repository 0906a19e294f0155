"""Rules on upgrade runs: what is upgraded to what, and what the state of a run lets a user change."""

import pytest

from tests.webhook.validation.upgrade_mistakes import CUSTOM, RUNS
from tests.webhook.validation.upgrade_objects import FULL, IMAGES_ONLY, make_run, make_stage, refusal, said, warnings


@pytest.mark.parametrize(("spec", "rule", "field"), RUNS)
def test_a_new_run_is_refused(spec, rule, field):
    assert refusal(make_run(**spec)) == [(rule, f"spec.{field}")]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"state": "Run"},
        {"upgrade": IMAGES_ONLY},
        {"upgrade": {"type": "ControlPlaneOnly", "kubernetesVersion": "v1.31"}},
        {"upgrade": {**FULL, "kubernetesVersion": "1.31.0-rc.1+k3s1"}},
        {"upgrade": {**FULL, "nodeImage": CUSTOM}},
        {"strategyRef": {"name": "is-not-there"}},
        {"timeouts": {"memberUpgradeSeconds": 0}},
        {"timeouts": {"memberUpgradeSeconds": 300}},
        {"skipTargets": [{"type": "Member", "name": "a"}] * 2},
    ],
)
def test_a_new_run_passes(spec):
    assert warnings(make_run(**spec)) == []


def test_a_refusal_says_which_version_was_given_and_why_it_cannot_be():
    assert said(make_run(upgrade={**IMAGES_ONLY, "kubernetesVersion": "1.31.2"})) == (
        'spec.upgrade.kubernetesVersion: Forbidden: "1.31.2": must not be set when type is NodeImageOnly'
    )


def updated(before, after, state, *, started=True, **status):
    """What an update of the spec of a run in *state* is refused for."""
    old = make_run(state, started=started)
    old["spec"].update(before)
    old["status"].update(status)
    new = {**make_run(), "status": old["status"]}
    new["spec"].update(after)
    return refusal(new, old)


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [("Initialize", "Stop", "NotStarted"), ("Run", "Initialize", "Running"), ("Stop", "Initialize", "Stopped")],
)
def test_a_state_that_cannot_follow(before, after, state):
    assert updated({"state": before}, {"state": after}, state) == [("C-13", "spec.state")]


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [("Initialize", "Run", "NotStarted"), ("Run", "Stop", "Running"), ("Stop", "Run", "Stopped")],
)
def test_a_state_that_can_follow(before, after, state):
    assert updated({"state": before}, {"state": after}, state) == []


def test_an_absent_state_is_initialize():
    assert updated({}, {"state": "Stop"}, "NotStarted", started=False) == [("C-13", "spec.state")]
    assert updated({"state": "Run"}, {}, "Running") == [("C-13", "spec.state")]


def test_a_run_that_is_stopping_is_not_started_again():
    """Whether or not admission has given it a token: there is one thing to correct, the state."""
    again = {"state": "Run", "restartToken": "again"}
    assert updated({"state": "Stop"}, {"state": "Run"}, "Stopping") == [("C-38", "spec.state")]
    assert updated({"state": "Stop"}, again, "Stopping") == [("C-38", "spec.state")]


@pytest.mark.parametrize("state", ["Running", "Pending", "Stopping"])
def test_a_run_at_work_takes_no_new_token(state):
    assert updated({"state": "Run"}, {"state": "Run", "restartToken": "a"}, state) == [("C-39", "spec.restartToken")]


@pytest.mark.parametrize("state", ["NotStarted", "Stopped", "Failed"])
def test_a_run_that_rests_takes_a_new_token(state):
    assert updated({"state": "Run"}, {"state": "Run", "restartToken": "a"}, state) == []


def test_a_token_that_is_empty_or_known_restarts_nothing():
    run, token = {"state": "Run"}, {"state": "Run", "restartToken": "a"}
    assert updated(token, token, "Running") == []
    assert updated(token, run, "Running") == []
    assert updated(token, {**run, "restartToken": ""}, "Running") == []
    assert updated(run, token, "Running", observedRestartToken="a") == []


def test_a_run_that_has_not_noticed_its_stop_cannot_be_restarted_yet():
    again = {"state": "Run", "restartToken": "made-by-admission"}
    assert updated({"state": "Stop"}, again, "Running") == [("C-39", "spec.restartToken")]


A, B = {"type": "Member", "name": "a"}, {"type": "Stage", "name": "b"}


@pytest.mark.parametrize("after", [[], None, [B], [B, A], [A, {**B, "name": "c"}], [A]])
def test_skip_targets_that_are_there_stay(after):
    assert updated({"skipTargets": [A, B]}, {"skipTargets": after}, "Running") == [("C-14", "spec.skipTargets")]


def test_skip_targets_are_added_at_the_end():
    assert updated({"skipTargets": [A]}, {"skipTargets": [A, B, A]}, "Running") == []


STAGES = {"stages": [make_stage()]}


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ({}, {"upgrade": {**FULL, "kubernetesVersion": "1.31.3"}}, "upgrade"),
        ({}, {"upgrade": {**FULL, "nodeImage": CUSTOM}}, "upgrade"),
        ({"strategyRef": {"name": "a"}}, {"strategyRef": {"name": "b"}}, "strategyRef"),
        ({"strategyRef": {"name": "a"}}, {}, "strategyRef"),
        ({}, {"strategy": STAGES}, "strategy"),
        ({"strategy": STAGES}, {"strategy": {"stages": [make_stage(maxConcurrency=2)]}}, "strategy"),
        ({}, {"memberSelector": {}}, "memberSelector"),
        (
            {"memberSelector": {"matchLabels": {"a": "b"}}},
            {"memberSelector": {"matchLabels": {"a": "c"}}},
            "memberSelector",
        ),
    ],
)
def test_goal_sequence_and_members_are_fixed_by_the_start(before, after, field):
    assert updated(before, after, "Running") == [("C-10", f"spec.{field}")]
    assert updated(before, after, "NotStarted", started=False) == []


def test_the_same_goal_in_other_words_is_no_change():
    spelled_out = {"upgrade": {**FULL, "kubernetesVersion": "v1.31.2", "nodeImage": {"selection": "Latest"}}}
    assert updated({}, spelled_out, "Running") == []


def test_policies_and_timeouts_of_a_run_at_work_may_change():
    after = {
        "timeouts": {"pendingSeconds": 60, "onPendingTimeout": "Skip"},
        "versionPolicy": {"onNotReady": "Skip"},
        "placementGuard": {"mode": "Warn"},
        "ttlSecondsAfterFinished": 60,
    }
    assert updated({}, after, "Running") == []


@pytest.mark.parametrize("state", ["Completed", "Skipped"])
@pytest.mark.parametrize(
    "after",
    [
        {"state": "Stop"},
        {"restartToken": "a"},
        {"skipTargets": [A]},
        {"upgrade": {**FULL, "kubernetesVersion": "nonsense"}},
        {"timeouts": {"gateSeconds": 60}},
        {"strategyRef": {"name": "a"}, "ttlSecondsAfterFinished": 60},
    ],
)
def test_a_finished_run_is_over(state, after):
    """Only the spec as a whole is named, whatever else could be said about it."""
    assert updated({"state": "Run"}, {"state": "Run", **after}, state) == [("C-11", "spec")]


def test_how_long_a_finished_run_is_kept_may_change():
    assert updated({"state": "Run"}, {"state": "Run", "ttlSecondsAfterFinished": 60}, "Completed") == []
    assert updated({"ttlSecondsAfterFinished": 60}, {}, "Skipped") == []


def test_a_finished_run_can_be_labelled():
    old = make_run("Completed")
    new = {**old, "metadata": {"name": "x", "labels": {"team": "a"}}}
    assert warnings(new, old) == []


def test_a_refused_update_says_in_which_state_the_run_is():
    old = make_run("Completed")
    new = {**old, "spec": {**old["spec"], "state": "Run"}}
    assert said(new, old) == "spec: Forbidden: the run is Completed: only ttlSecondsAfterFinished can be changed"


@pytest.mark.parametrize("status", [{"state": "Odd"}, {"state": 5}, {}, None, "gone"])
def test_a_stored_status_of_any_shape_gets_a_verdict(status):
    old = {**make_run(), "status": status}
    new = {**old, "spec": {**old["spec"], "state": "Run"}}
    assert refusal(new, old) == []
