"""The annotation that says what approves a stage."""

import json
from datetime import timedelta

import pytest

from scorer.api.placement.staged_update import StageConfig, StageTask, StageTaskType
from scorer.staged_update.approval.analysis import (
    AnalysisError,
    ObjectCheck,
    QueryCheck,
    ThresholdComparison,
    digest,
    read_analysis,
    stage_problems,
)

QUERY = {"endpoint": "main", "expr": "errors", "below": 5}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "smoke-{run}", "condition": "Complete"}


def read(stage, namespace=""):
    return read_analysis(json.dumps({"test": stage}), namespace)["test"]


def test_a_query_is_asked_every_half_minute_and_counts_at_once_unless_it_says_otherwise():
    usual = QueryCheck("main", "errors", ThresholdComparison.BELOW, 5.0, timedelta(), timedelta(seconds=30))
    assert read({"query": QUERY}) == usual
    told = read({"query": {**QUERY, "for": "1h30m", "every": "5s"}})
    assert (told.hold, told.every) == (timedelta(minutes=90), timedelta(seconds=5))


def test_an_object_belongs_to_the_run_and_its_namespace():
    check = read({"object": JOB}, "team")
    assert check == ObjectCheck("batch/v1", "Job", "", "smoke-{run}", "Complete", "True")
    assert check.group == "batch"
    assert check.of_run("r7", "team") == ObjectCheck("batch/v1", "Job", "team", "smoke-r7", "Complete", "True")


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        pytest.param({}, "must have exactly one of query and object", id="neither"),
        pytest.param({"query": QUERY, "object": JOB}, "must have exactly one of query and object", id="both"),
        pytest.param({"query": {**QUERY, "above": 1}}, "exactly one of above, below and equals", id="two-limits"),
        pytest.param({"query": {"endpoint": "main", "expr": "x"}}, "exactly one of above", id="no-limit"),
        pytest.param({"query": {**QUERY, "below": "5"}}, 'query.below: "5": input should be a valid number', id="text"),
        pytest.param({"query": {**QUERY, "below": True}}, "query.below: true", id="boolean"),
        pytest.param({"query": {**QUERY, "for": "10 minutes"}}, 'query.for: "10 minutes": \'10 min', id="duration"),
        pytest.param({"query": {**QUERY, "for": "721h"}}, "for is 721h, must be at most 720h", id="too-long"),
        pytest.param({"query": {**QUERY, "every": "1s"}}, "every is 1s, must be from 5s to 1h", id="too-often"),
        pytest.param({"query": {**QUERY, "endpoint": "http://x"}}, 'query.endpoint: "http://x"', id="url"),
        pytest.param({"query": {**QUERY, "expr": ""}}, 'query.expr: ""', id="nothing-asked"),
        pytest.param({"query": {**QUERY, "expr": "x" * 1025}}, "at most 1024 characters", id="long-question"),
        pytest.param({"query": {**QUERY, "url": "http://x"}}, 'query.url: "http://x": extra inputs', id="unknown"),
        pytest.param({"object": {**JOB, "name": "No"}}, 'object.name: "No"', id="name"),
        pytest.param({"object": {**JOB, "name": "{cluster}"}}, 'object.name: "{cluster}"', id="placeholder"),
        pytest.param({"object": {**JOB, "status": "yes"}}, 'object.status: "yes"', id="status"),
        pytest.param({"object": {**JOB, "condition": "Done\x1b[31m"}}, 'object.condition: "Done', id="condition"),
        pytest.param({"query": {**QUERY, "hold": "0s"}}, 'query.hold: "0s": extra inputs', id="name-of-ours"),
        pytest.param({"object": {"kind": "Job"}}, "object.apiVersion: field required", id="missing"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_value(stage, message):
    with pytest.raises(AnalysisError) as caught:
        read(stage)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '"x"', '{"test": 1}', '{"test": {"query": {"below": 1e999}}}', "1" * 17000]
)
def test_what_is_no_map_of_checks_is_refused(text):
    with pytest.raises(AnalysisError):
        read_analysis(text, "")


def test_what_is_in_a_namespace_looks_at_objects_of_that_namespace_only():
    abroad = {"object": {**JOB, "namespace": "other"}}
    with pytest.raises(AnalysisError, match=r'test\.object\.namespace: "other": must be team'):
        read(abroad, "team")
    assert read(abroad, "other").namespace == "other"
    assert read(abroad).namespace == "other"


def test_a_check_needs_a_stage_that_waits_for_an_approval():
    approval = StageTask(type=StageTaskType.APPROVAL)
    stages = [
        StageConfig(name="a", after_stage_tasks=(approval,)),
        StageConfig(name="b", before_stage_tasks=(approval,)),
    ]
    checks = read_analysis(json.dumps({key: {"query": QUERY} for key in "abc"}), "")
    assert list(stage_problems(checks, stages)) == [
        "stage b has no Approval in afterStageTasks",
        '"c" is not a stage of the strategy',
    ]


@pytest.mark.parametrize(
    ("comparison", "met"),
    [("above", [6.0]), ("below", [4.0]), ("equals", [5.0])],
)
def test_a_limit_itself_is_neither_above_nor_below(comparison, met):
    check = read({"query": {"endpoint": "main", "expr": "x", comparison: 5}})
    assert [value for value in (4.0, 5.0, 6.0) if check.is_met_by(value)] == met


def test_checks_that_differ_in_anything_are_told_apart():
    variants = [{"query": QUERY}, {"query": {**QUERY, "below": 6}}, {"query": {**QUERY, "for": "1s"}}, {"object": JOB}]
    assert len({digest(read(each)) for each in variants}) == len(variants)
    assert digest(read(variants[0])) == digest(read(variants[0]))
