"""Rules on the sequence of an upgrade, as a strategy of its own and as part of a run."""

import pytest

from tests.webhook.validation.upgrade_objects import (
    AT_NIGHT,
    make_run,
    make_stage,
    make_strategy,
    refusal,
    said,
    warnings,
)

SCHEDULED = {"type": "ScheduledStart", "scheduledStart": AT_NIGHT}
APPROVAL = {"type": "Approval"}


def with_group(**fields):
    return [make_stage(groups=[{"name": "g", **fields}])]


def at_night(**fields):
    return [make_stage(beforeGates=[{"type": "ScheduledStart", "scheduledStart": {**AT_NIGHT, **fields}}])]


REFUSED = [
    pytest.param([], "C-01", "stages", id="no-stage"),
    pytest.param([make_stage(f"s{i}") for i in range(32)], "C-01", "stages", id="32-stages"),
    pytest.param([make_stage("")], "C-27", "stages[0].name", id="stage-name-empty"),
    pytest.param([make_stage("a" * 51)], "C-27", "stages[0].name", id="stage-name-length"),
    pytest.param([make_stage("a_b")], "C-27", "stages[0].name", id="stage-name-pattern"),
    pytest.param([make_stage("a\n")], "C-27", "stages[0].name", id="stage-name-newline"),
    pytest.param([make_stage("a"), make_stage("b"), make_stage("a")], "C-06", "stages[2].name", id="stage-name-twice"),
    pytest.param([{"name": "s"}], "C-07", "stages[0]", id="no-groups-no-selector"),
    pytest.param([{"name": "s", "groups": []}], "C-07", "stages[0]", id="empty-groups-no-selector"),
    pytest.param(
        [make_stage(groups=[{"name": f"g{i}"} for i in range(51)])], "C-01", "stages[0].groups", id="51-groups"
    ),
    pytest.param(with_group(name=""), "C-27", "stages[0].groups[0].name", id="group-name-empty"),
    pytest.param(with_group(name="a" * 51), "C-27", "stages[0].groups[0].name", id="group-name-length"),
    pytest.param(with_group(name="A"), "C-27", "stages[0].groups[0].name", id="group-name-pattern"),
    pytest.param(
        [make_stage(groups=[{"name": "g"}, {"name": "g"}])], "C-09", "stages[0].groups[1].name", id="group-twice"
    ),
    pytest.param(
        [make_stage("a", groups=[{"name": "g"}]), make_stage("b", groups=[{"name": "g"}])],
        "C-09",
        "stages[1].groups[0].name",
        id="group-in-two-stages",
    ),
    pytest.param(
        [make_stage("a"), make_stage("b", groups=[{"name": "a"}])],
        "C-09",
        "stages[1].groups[0].name",
        id="group-named-like-an-earlier-stage-without-groups",
    ),
    pytest.param(
        [make_stage("b", groups=[{"name": "a"}]), make_stage("a")],
        "C-09",
        "stages[1].name",
        id="stage-without-groups-named-like-an-earlier-group",
    ),
    *(
        pytest.param([make_stage(maxConcurrency=value)], "C-28", "stages[0].maxConcurrency", id=f"stage-{value}")
        for value in (0, -1, "0", "0%", "101%", "05", "1.5", "", "50 ", "many", "9" * 11)
    ),
    *(
        pytest.param([make_stage(maxConcurrency=value)], "C-08", "stages[0].maxConcurrency", id=f"stage-{value}")
        for value in (51, "51")
    ),
    *(
        pytest.param(
            with_group(maxConcurrency=value), "C-28", "stages[0].groups[0].maxConcurrency", id=f"group-{value}"
        )
        for value in (0, "0", "0%", "101%", "-1")
    ),
    pytest.param(
        [make_stage(maxConcurrency="2", groups=[{"name": "g", "maxConcurrency": 3}])],
        "C-29",
        "stages[0].groups[0].maxConcurrency",
        id="group-above-stage",
    ),
    pytest.param(with_group(maxConcurrency=51), "C-29", "stages[0].groups[0].maxConcurrency", id="group-above-50"),
    *(
        pytest.param(
            [make_stage(maxAllowedFailures=value)], "C-30", "stages[0].maxAllowedFailures", id=f"stage-failures-{value}"
        )
        for value in (-1, "101%", "one", "", 2**31)
    ),
    pytest.param(
        with_group(maxAllowedFailures="1.5"), "C-30", "stages[0].groups[0].maxAllowedFailures", id="group-failures"
    ),
    *(
        pytest.param(
            [make_stage(afterStageWaitSeconds=value), make_stage("last")],
            "C-01",
            "stages[0].afterStageWaitSeconds",
            id=f"wait-{value}",
        )
        for value in (-1, 2592001)
    ),
    *(
        pytest.param([make_stage(**{side: [APPROVAL] * 6})], "C-01", f"stages[0].{side}", id=f"6-{side}")
        for side in ("beforeGates", "afterGates")
    ),
    pytest.param(with_group(afterGates=[APPROVAL] * 6), "C-01", "stages[0].groups[0].afterGates", id="6-of-a-group"),
    pytest.param(
        [make_stage(afterGates=[APPROVAL, SCHEDULED])], "C-05", "stages[0].afterGates[1].type", id="scheduled-after"
    ),
    pytest.param(
        with_group(afterGates=[SCHEDULED]), "C-05", "stages[0].groups[0].afterGates[0].type", id="scheduled-after-group"
    ),
    pytest.param(
        [make_stage(beforeGates=[{"type": "ScheduledStart"}])],
        "C-04",
        "stages[0].beforeGates[0].scheduledStart",
        id="scheduled-without",
    ),
    pytest.param(
        [make_stage(beforeGates=[{"type": "Approval", "scheduledStart": AT_NIGHT}])],
        "C-04",
        "stages[0].beforeGates[0].scheduledStart",
        id="approval-with",
    ),
    pytest.param(at_night(startDay="Moonday"), "C-01", "stages[0].beforeGates[0].scheduledStart.startDay", id="day"),
    *(
        pytest.param(
            at_night(startTime=value), "C-31", "stages[0].beforeGates[0].scheduledStart.startTime", id=f"time-{value}"
        )
        for value in ("24:00", "2:00", "02:60", "")
    ),
    *(
        pytest.param(
            at_night(utcOffset=value), "C-31", "stages[0].beforeGates[0].scheduledStart.utcOffset", id=f"offset-{value}"
        )
        for value in ("+14:30", "01:00", "+15:00", "Z")
    ),
    *(
        pytest.param(
            [make_stage(beforeGates=[{**APPROVAL, "displayName": value}])],
            "C-01",
            "stages[0].beforeGates[0].displayName",
            id=f"display-name-{len(value)}",
        )
        for value in ("", "a" * 101)
    ),
    pytest.param([make_stage(beforeGates=[{"type": "Vote"}])], "C-01", "stages[0].beforeGates[0].type", id="gate-type"),
    pytest.param(
        [make_stage(memberSelector={"matchLabels": {"a b": "c"}})],
        "C-32",
        "stages[0].memberSelector.matchLabels",
        id="stage-selector",
    ),
    pytest.param(
        with_group(memberSelector={"matchExpressions": [{"key": "a", "operator": "Near"}]}),
        "C-32",
        "stages[0].groups[0].memberSelector.matchExpressions[0].operator",
        id="group-selector",
    ),
]


@pytest.mark.parametrize(("stages", "rule", "field"), REFUSED)
def test_a_sequence_is_refused(stages, rule, field):
    assert refusal(make_strategy(*stages)) == [(rule, f"spec.{field}")]


@pytest.mark.parametrize(("stages", "rule", "field"), REFUSED)
def test_the_sequence_of_a_run_follows_the_same_rules(stages, rule, field):
    assert refusal(make_run(strategy={"stages": stages})) == [(rule, f"spec.strategy.{field}")]


ADMITTED = [
    pytest.param([make_stage(f"s{i}") for i in range(31)], id="31-stages"),
    pytest.param([make_stage("a" * 50), make_stage("0-9")], id="names"),
    pytest.param([make_stage(groups=[{"name": f"g{i}"} for i in range(50)])], id="50-groups"),
    *(pytest.param([make_stage(maxConcurrency=value)], id=f"stage-{value}") for value in (1, 50, "50", "1%", "100%")),
    pytest.param(
        [make_stage(maxConcurrency="1%", groups=[{"name": "g", "maxConcurrency": 400}])], id="share-and-count"
    ),
    pytest.param(
        [make_stage(maxConcurrency=2, groups=[{"name": "g", "maxConcurrency": "100%"}])], id="count-and-share"
    ),
    *(pytest.param([make_stage(maxAllowedFailures=value)], id=f"failures-{value}") for value in (0, "0", "0%", "100%")),
    pytest.param([make_stage(beforeGates=[SCHEDULED] * 5, afterGates=[APPROVAL] * 5)], id="gates"),
    pytest.param(at_night(utcOffset="-14:00", startTime="23:59"), id="times"),
    pytest.param([make_stage(afterStageWaitSeconds=2592000), make_stage("last")], id="wait"),
]


@pytest.mark.parametrize("stages", ADMITTED)
def test_a_sequence_passes_without_a_word(stages):
    assert warnings(make_strategy(*stages)) == []
    assert warnings(make_run(strategy={"stages": stages})) == []


def test_a_refusal_names_field_and_value():
    assert said(make_strategy(make_stage(maxConcurrency="51"))) == (
        'spec.stages[0].maxConcurrency: Invalid value: "51": must be at most 50, or 1% to 100%'
    )


def test_all_mistakes_are_named_at_once():
    stages = [make_stage("A", maxConcurrency=0), {"name": "b"}]
    assert refusal(make_strategy(*stages)) == [
        ("C-28", "spec.stages[0].maxConcurrency"),
        ("C-27", "spec.stages[0].name"),
        ("C-07", "spec.stages[1]"),
    ]


def test_a_wait_that_nothing_follows_gets_a_warning():
    (warning,) = warnings(
        make_strategy(make_stage("a", afterStageWaitSeconds=60), make_stage("b", afterStageWaitSeconds=60))
    )
    assert warning.startswith("spec.stages[1].afterStageWaitSeconds: ")


def test_failures_that_the_stage_does_not_allow_get_a_warning():
    (warning,) = warnings(make_strategy(*with_group(maxAllowedFailures="2")))
    assert warning.startswith("spec.stages[0].groups[0].maxAllowedFailures: ")
    assert warnings(make_strategy(*with_group(maxAllowedFailures="1"))) == []
    assert warnings(make_strategy(*with_group(maxAllowedFailures="50%"))) == []
    assert (
        warnings(make_strategy(make_stage(maxAllowedFailures=0, groups=[{"name": "g", "maxAllowedFailures": 2}]))) == []
    )


@pytest.mark.parametrize("name", ["a" * 51, "Rings", "a.b"])
def test_the_name_of_a_strategy_is_short_enough_to_make_others_of_it(name):
    strategy = make_strategy(make_stage())
    strategy["metadata"]["name"] = name
    assert ("C-02", "metadata.name") in refusal(strategy)


def test_a_stored_mistake_does_not_keep_the_labels_of_a_strategy_from_changing():
    old = make_strategy({"name": "s"})
    new = {**old, "metadata": {"name": "x", "labels": {"team": "a"}}}
    assert warnings(new, old) == [
        "spec.stages[0]: Required value: a stage needs groups or a memberSelector (left as it is)"
    ]
    worse = {**old, "spec": {"stages": [{"name": "s"}, make_stage("t")]}}
    assert refusal(worse, old) == [("C-07", "spec.stages[0]")]
