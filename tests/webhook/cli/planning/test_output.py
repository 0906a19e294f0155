"""Lines of a plan that a table lacks: the numbers of further clusters, objects and fields agree with their nouns."""

import pytest

from webhook.cli.planning.output import print_plan, rollout_lines
from webhook.cli.planning.report import PlanReport
from webhook.cli.planning.run_output import run_lines

STEP = {"step": 1, "update": ["dover"], "bind": [], "remove": [], "waiting": []}
ROLLOUT = {"evictions": [], "applyStrategy": [], "waits": [], "steps": [STEP, STEP | {"step": 2}], "blocked": None}
CHANGE = {
    "change": "Changed",
    "group": "",
    "kind": "ConfigMap",
    "namespace": "shop",
    "name": "settings",
    "envelope": "",
    "fields": [{"path": "data.level", "before": "1", "after": "2"}],
}
RUN = {
    "name": "spring",
    "namespace": "",
    "placement": "web",
    "strategy": "careful",
    "phase": "New",
    "finding": None,
    "snapshot": "web-1-snapshot",
    "failurePolicy": None,
    "stages": [],
    "removed": [],
    "earliestFinish": "2026-03-01T12:00:00Z",
    "assumptions": [],
}


@pytest.mark.parametrize(
    ("coverage", "text"),
    [
        pytest.param({}, "No placements found", id="complete"),
        pytest.param({"unread": ["clusterresourceplacements"]}, "No placements that you may list", id="unread"),
        pytest.param(
            {"hidden": [{"kind": "ResourcePlacement", "namespace": "shop", "name": "web"}]},
            "No placements that you may list",
            id="hidden",
        ),
    ],
)
def test_an_empty_plan_for_an_account_without_rights_does_not_look_complete(capsys, coverage, text):
    print_plan({"placements": [], **coverage}, everything=False)
    assert capsys.readouterr().err == f"{text}\n"


def test_a_plan_that_leaves_out_a_change_is_an_error(capsys):
    left_out = {"kind": "ResourcePlacement", "namespace": "shop", "name": "web"}
    document = {"admission": [], "placements": [], "hidden": [left_out], "complete": False}
    assert PlanReport("json", {}).show(document, [], everything=False) == 1
    reason = "left out because you may not list its kind or its snapshots: ResourcePlacement shop/web"
    assert capsys.readouterr().err == f"error: the plan is not complete: {reason}\n"


@pytest.mark.parametrize(("more", "line"), [(1, "for 1 more cluster"), (2, "for 2 more clusters")])
def test_a_rollout_counts_the_clusters_after_its_last_step(more, line):
    assert f"   and so on, {line}" in list(rollout_lines(ROLLOUT | {"more": more}, ()))


@pytest.mark.parametrize(
    ("more", "objects", "fields"), [(1, "1 more object", "1 more field"), (2, "2 more objects", "2 more fields")]
)
def test_a_run_counts_further_objects_and_fields(more, objects, fields):
    content = {"from": "web-0-snapshot", "clusters": ["dover"], "known": True, "hidden": False, "more": more}
    lines = list(run_lines(RUN | {"contents": [content | {"objects": [CHANGE | {"more": more}]}]}))
    assert [line.strip() for line in lines if "more" in line] == [f"and {fields}", f"and {objects}"]


@pytest.mark.parametrize(
    ("allowed", "text"),
    [
        (0, "a cluster is not done"),
        (1, "more than 1 cluster of a stage is not done"),
        (2, "more than 2 clusters of a stage are"),
    ],
)
def test_a_run_says_when_its_failure_policy_applies(allowed, text):
    policy = {"onFailure": "Stop", "maxFailures": allowed, "clusterDeadline": "5m"}
    assert any(text in line for line in run_lines(RUN | {"contents": [], "failurePolicy": policy}))
