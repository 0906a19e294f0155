"""Rules on the annotation that says what approves the stages of a staged update by itself."""

import json

import pytest

from webhook.access.user import UserInfo
from webhook.settings.admission import OWN_CONTROLLER
from webhook.validation.framework.context import Context
from webhook.validation.staged_update import run as staged_run
from webhook.validation.staged_update import strategy as staged_strategy

ANALYSIS = "harbormaster.dev/analysis"
QUERY = {"query": {"endpoint": "main", "expr": "errors", "below": 5, "for": "10m"}}
JOB = {"object": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "b", "name": "smoke", "condition": "Complete"}}
STAGE = {"name": "test", "labelSelector": {}, "afterStageTasks": [{"type": "Approval"}]}


def make_strategy(text, namespace="", **stage):
    kind = "StagedUpdateStrategy" if namespace else "ClusterStagedUpdateStrategy"
    meta = {"name": "careful", "annotations": {ANALYSIS: text}} | ({"namespace": namespace} if namespace else {})
    spec = {"stages": [{**STAGE, **stage}]}
    return {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": kind, "metadata": meta, "spec": spec}


def make_run(text):
    spec = {"placementName": "p", "stagedRolloutStrategyName": "careful", "state": "Run"}
    meta = {"name": "r", "annotations": {ANALYSIS: text}}
    found = {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterStagedUpdateRun", "metadata": meta}
    return {**found, "spec": spec}


def judged(document, old=None, context=None):
    """Return rule and text of every finding."""
    rules = staged_strategy if document["kind"].endswith("Strategy") else staged_run
    return [(each.rule, str(each)) for each in rules.validate(document, old, context or Context())]


def test_a_check_of_a_stage_that_waits_for_an_approval_passes():
    assert judged(make_strategy(json.dumps({"test": QUERY}))) == []
    assert judged(make_run(json.dumps({"test": QUERY, "live": JOB}))) == []


@pytest.mark.parametrize("make", [make_strategy, make_run])
def test_an_annotation_that_cannot_be_read_is_refused_with_the_field_and_its_value(make):
    [(rule, text)] = judged(make(json.dumps({"test": {"query": {**QUERY["query"], "for": "soon"}}})))
    assert rule == "X-52"
    assert f"metadata.annotations[{ANALYSIS}]" in text
    assert 'test.query.for: "soon": ' in text


@pytest.mark.parametrize("text", ["{", "null", '{"test": {}}', "x" * 20000])
def test_what_is_no_map_of_checks_is_refused(text):
    assert [rule for rule, _ in judged(make_run(text))] == ["X-52"]


def test_an_empty_annotation_says_nothing():
    assert judged(make_strategy("")) == []


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        pytest.param({"name": "other"}, '"test" is not a stage of the strategy', id="unknown"),
        pytest.param({"afterStageTasks": []}, "stage test has no Approval", id="no-task"),
        pytest.param({"afterStageTasks": [{"type": "TimedWait", "waitTime": "1h"}]}, "has no Approval", id="a-wait"),
    ],
)
def test_a_check_that_could_approve_nothing_is_refused(stage, told):
    [(rule, text)] = judged(make_strategy(json.dumps({"test": QUERY}), **stage))
    assert rule == "X-53"
    assert told in text


def test_a_strategy_of_a_namespace_looks_at_objects_there_only():
    assert judged(make_strategy(json.dumps({"test": JOB}), "b")) == []
    [(rule, text)] = judged(make_strategy(json.dumps({"test": JOB}), "a"))
    assert rule == "X-52"
    assert 'test.object.namespace: "b": must be a' in text


def test_the_loop_may_copy_what_was_stored_before_there_was_a_rule():
    bare = {**make_run(""), "metadata": {"name": "r"}}
    assert judged(make_run("{"), bare, Context().with_user(UserInfo(OWN_CONTROLLER))) == []
    assert [rule for rule, _ in judged(make_run("{"), bare, Context().with_user(UserInfo("ada")))] == ["X-52"]
