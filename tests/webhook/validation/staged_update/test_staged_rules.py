"""Rules on staged update strategies, runs and approval requests, by their ids."""

import pytest

from scorer.api.placement.staged_update import RunState
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import FieldError, FieldWarning
from webhook.validation.staged_update import approval_request
from webhook.validation.staged_update import run as staged_run
from webhook.validation.staged_update import strategy as staged_strategy

STAGE = {"name": "pilot", "labelSelector": {"matchLabels": {"env": "pilot"}}}


def make_object(kind, **spec):
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": kind,
        "metadata": {"name": "waves"},
        "spec": spec,
    }


def strategy_of(*stages):
    return make_object("ClusterStagedUpdateStrategy", stages=[{**STAGE, **stage} for stage in stages])


def make_run(**spec):
    spec = {"placementName": "shop", "stagedRolloutStrategyName": "waves", "state": "Run", **spec}
    return make_object("ClusterStagedUpdateRun", **spec)


def split(findings):
    found = list(findings)
    return (
        {(finding.rule, str(finding.field)) for finding in found if isinstance(finding, FieldError)},
        {(finding.rule, str(finding.field)) for finding in found if isinstance(finding, FieldWarning)},
    )


def stage_path(rest):
    return f"spec.stages[0].{rest}"


@pytest.mark.parametrize(
    ("stage", "wanted"),
    [
        pytest.param({"name": "pilot-eu"}, ("S-02", "name"), id="S-02-dash"),
        pytest.param({"name": "a" * 64}, ("S-02", "name"), id="S-02-length"),
        pytest.param({"name": "pilot\n"}, ("S-02", "name"), id="S-02-newline"),
        pytest.param({"maxConcurrency": 0}, ("S-03", "maxConcurrency"), id="S-03-zero"),
        pytest.param({"maxConcurrency": "05%"}, ("S-03", "maxConcurrency"), id="S-03-leading-zero"),
        pytest.param({"maxConcurrency": "0%"}, ("S-03", "maxConcurrency"), id="S-03-zero-percent"),
        pytest.param({"maxConcurrency": "50"}, ("S-03", "maxConcurrency"), id="S-03-digits"),
        pytest.param({"maxConcurrency": True}, ("S-03", "maxConcurrency"), id="S-03-bool"),
        pytest.param({"afterStageTasks": [{"type": "Approval"}] * 3}, ("S-04", "afterStageTasks"), id="S-04"),
        pytest.param({"beforeStageTasks": [{"type": "Approval"}] * 2}, ("S-05", "beforeStageTasks"), id="S-05"),
        pytest.param({"afterStageTasks": [{}]}, ("S-06", "afterStageTasks[0].type"), id="S-06"),
        pytest.param(
            {"afterStageTasks": [{"type": "Approval", "waitTime": "1h"}]},
            ("S-07", "afterStageTasks[0].waitTime"),
            id="S-07-after",
        ),
        pytest.param(
            {"beforeStageTasks": [{"type": "Approval", "waitTime": "1h"}]},
            ("S-07", "beforeStageTasks[0].waitTime"),
            id="S-07-before",
        ),
        pytest.param({"afterStageTasks": [{"type": "TimedWait"}]}, ("S-08", "afterStageTasks[0].waitTime"), id="S-08"),
        pytest.param(
            {"beforeStageTasks": [{"type": "TimedWait", "waitTime": "1h"}]},
            ("S-09", "beforeStageTasks[0].type"),
            id="S-09",
        ),
        pytest.param(
            {"afterStageTasks": [{"type": "TimedWait", "waitTime": "01h"}]},
            ("S-10", "afterStageTasks[0].waitTime"),
            id="S-10",
        ),
        pytest.param(
            {"labelSelector": {"matchLabels": {"a b": "c"}}}, ("X-32", "labelSelector.matchLabels"), id="X-32"
        ),
        pytest.param({"sortingLabelKey": "a b"}, ("X-33", "sortingLabelKey"), id="X-33"),
    ],
)
def test_stages(stage, wanted):
    errors, _ = split(staged_strategy.validate(strategy_of(stage), None, Context()))
    assert errors == {(wanted[0], stage_path(wanted[1]))}


def test_stages_and_tasks_that_repeat():
    approvals = {"afterStageTasks": [{"type": "Approval"}, {"type": "Approval"}]}
    errors, _ = split(staged_strategy.validate(strategy_of({}, approvals), None, Context()))
    assert errors == {("X-30", "spec.stages[1].name"), ("X-31", "spec.stages[1].afterStageTasks[1].type")}


def test_number_of_stages():
    many = strategy_of(*({"name": f"s{i}"} for i in range(32)))
    assert split(staged_strategy.validate(many, None, Context()))[0] == {("S-01", "spec.stages")}
    missing = make_object("ClusterStagedUpdateStrategy")
    assert split(staged_strategy.validate(missing, None, Context()))[0] == {("S-01", "spec.stages")}
    assert split(staged_strategy.validate(strategy_of(), None, Context())) == (set(), {("X-34", "spec.stages")})


@pytest.mark.parametrize(
    ("stage", "field"),
    [
        pytest.param({"labelSelector": None}, "labelSelector", id="no-clusters"),
        pytest.param(
            {"afterStageTasks": [{"type": "TimedWait", "waitTime": "0s"}]},
            "afterStageTasks[0].waitTime",
            id="zero-wait",
        ),
        pytest.param(
            {"afterStageTasks": [{"type": "TimedWait", "waitTime": "721h"}]}, "afterStageTasks[0].waitTime", id="month"
        ),
    ],
)
def test_suspicious_stages(stage, field):
    assert split(staged_strategy.validate(strategy_of(stage), None, Context())) == (
        set(),
        {("X-34", stage_path(field))},
    )


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param({"placementName": None}, {("R-02", "spec.placementName")}, id="R-02"),
        pytest.param({"placementName": "a" * 256}, {("R-02", "spec.placementName")}, id="R-02-length"),
        pytest.param({"stagedRolloutStrategyName": None}, {("R-03", "spec.stagedRolloutStrategyName")}, id="R-03"),
        pytest.param({"state": "Paused"}, {("R-04", "spec.state")}, id="R-04"),
        pytest.param({"resourceSnapshotIndex": 1}, {("R-06", "spec.resourceSnapshotIndex")}, id="R-06-number"),
        pytest.param({"resourceSnapshotIndex": "01"}, {("X-40", "spec.resourceSnapshotIndex")}, id="X-40-leading-zero"),
        pytest.param({"resourceSnapshotIndex": "-1"}, {("X-40", "spec.resourceSnapshotIndex")}, id="X-40-sign"),
        pytest.param({"resourceSnapshotIndex": "٣"}, {("X-40", "spec.resourceSnapshotIndex")}, id="X-40-other-digits"),
        pytest.param({"resourceSnapshotIndex": "0"}, set(), id="X-40-zero"),
        pytest.param({"placementName": ""}, {("X-45", "spec.placementName")}, id="X-45"),
    ],
)
def test_runs(spec, wanted):
    assert split(staged_run.validate(make_run(**spec), None, Context()))[0] == wanted


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param({}, {"placementName": "other"}, {("R-05", "spec.placementName")}, id="R-05"),
        pytest.param(
            {"resourceSnapshotIndex": "1"},
            {"resourceSnapshotIndex": "2"},
            {("R-06", "spec.resourceSnapshotIndex")},
            id="R-06",
        ),
        pytest.param({}, {"resourceSnapshotIndex": "2"}, {("X-44", "spec.resourceSnapshotIndex")}, id="X-44-added"),
        pytest.param({"resourceSnapshotIndex": "2"}, {}, {("X-44", "spec.resourceSnapshotIndex")}, id="X-44-removed"),
        pytest.param({}, {"resourceSnapshotIndex": ""}, set(), id="X-44-empty-is-absent"),
        pytest.param({}, {"stagedRolloutStrategyName": "b"}, {("R-07", "spec.stagedRolloutStrategyName")}, id="R-07"),
        pytest.param({"state": None}, {"state": "Stop"}, {("R-08", "spec.state")}, id="R-08-absent-is-Initialize"),
        pytest.param({"state": "Initialize"}, {"state": "Run"}, set(), id="R-08-starts"),
        pytest.param({"state": "Run"}, {"state": "Stop"}, set(), id="R-08-stops"),
        pytest.param({"state": "Stop"}, {"state": "Run"}, set(), id="R-08-resumes"),
        pytest.param({"state": "Run"}, {"state": "Initialize"}, {("R-08", "spec.state")}, id="R-08-back"),
        pytest.param({"state": "Stop"}, {"state": "Initialize"}, {("R-08", "spec.state")}, id="R-08-back-from-stop"),
    ],
)
def test_updates_of_runs(old, new, wanted):
    assert split(staged_run.validate(make_run(**new), make_run(**old), Context()))[0] == wanted


@pytest.mark.parametrize("state", [None, "Initialize", "Stop"])
def test_a_run_that_does_not_start_warns(state):
    assert split(staged_run.validate(make_run(state=state), None, Context())) == (set(), {("X-42", "spec.state")})


def test_the_state_that_absence_means_is_a_setting():
    """F-14."""
    starts = Context(settings=AdmissionSettings(staged_run_default_state=RunState.RUN))
    assert split(staged_run.validate(make_run(state=None), None, starts)) == (set(), set())
    back = staged_run.validate(make_run(state="Initialize"), make_run(state=None), starts)
    assert split(back)[0] == {("R-08", "spec.state")}


@pytest.mark.parametrize(
    ("status", "warns"),
    [
        pytest.param([], True, id="not-begun"),
        pytest.param([{"type": "Succeeded", "status": "True", "observedGeneration": 1}], False, id="succeeded"),
        pytest.param([{"type": "Succeeded", "status": "False", "observedGeneration": 1}], False, id="failed"),
        pytest.param([{"type": "Succeeded", "status": "True", "observedGeneration": 0}], True, id="stale"),
        pytest.param(
            [{"type": "Initialized", "status": "False", "observedGeneration": 1}], False, id="not-initialized"
        ),
        pytest.param([{"type": "Initialized", "status": "True", "observedGeneration": 1}], True, id="initialized"),
    ],
)
def test_deleting_a_run(status, warns):
    """X-46: only an unfinished run leaves something half-way."""
    run = make_run()
    run["metadata"]["generation"] = 1
    run["status"] = {"conditions": status}
    assert bool(list(staged_run.warn_about_deletion(run))) is warns


def test_approval_requests():
    request = make_object("ClusterApprovalRequest", parentStageRollout="run", targetStage="pilot")
    assert split(approval_request.validate(request, None, Context()))[0] == set()
    changed = make_object("ClusterApprovalRequest", parentStageRollout="run", targetStage="prod")
    assert split(approval_request.validate(changed, request, Context()))[0] == {("Q-02", "spec")}
    incomplete = make_object("ClusterApprovalRequest", parentStageRollout="run")
    assert split(approval_request.validate(incomplete, None, Context()))[0] == {("Q-01", "spec.targetStage")}


def test_an_approval_of_another_generation_warns():
    request = make_object("ClusterApprovalRequest", parentStageRollout="run", targetStage="pilot")
    request["metadata"]["generation"] = 2
    request["status"] = {"conditions": [{"type": "Approved", "status": "True", "observedGeneration": 1}]}
    assert [warning.rule for warning in approval_request.warn_about_status(request)] == ["X-51"]
    request["status"]["conditions"][0]["observedGeneration"] = 2
    assert list(approval_request.warn_about_status(request)) == []
