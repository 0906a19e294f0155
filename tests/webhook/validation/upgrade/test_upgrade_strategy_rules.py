"""Rules on the sequence of an upgrade, as a strategy of its own and as part of a run."""

import pytest

from tests.webhook.validation.upgrade_mistakes import APPROVAL, SCHEDULED, SEQUENCES, at_night, with_group
from tests.webhook.validation.upgrade_objects import (
    make_run,
    make_stage,
    make_strategy,
    refusal,
    said,
    warnings,
)


@pytest.mark.parametrize(("stages", "rule", "field"), SEQUENCES)
def test_a_sequence_is_refused(stages, rule, field):
    assert refusal(make_strategy(*stages)) == [(rule, f"spec.{field}")]


@pytest.mark.parametrize(("stages", "rule", "field"), SEQUENCES)
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


@pytest.mark.parametrize("name", ["a" * 51, "a" * 254, "Rings", "a.b", "-", "a/b"])
def test_the_name_of_a_strategy_is_short_enough_to_make_others_of_it(name):
    """It is one mistake also where no object at all may have the name."""
    strategy = make_strategy(make_stage())
    strategy["metadata"] |= {"name": name, "labels": {"-": ""}}
    assert refusal(strategy) == [("A-02", "metadata.labels"), ("C-02", "metadata.name")]


def test_a_stored_mistake_does_not_keep_the_labels_of_a_strategy_from_changing():
    old = make_strategy({"name": "s"})
    new = {**old, "metadata": {"name": "x", "labels": {"team": "a"}}}
    assert warnings(new, old) == [
        "spec.stages[0]: Required value: groups or memberSelector must be set (unchanged, not refused)"
    ]
    worse = {**old, "spec": {"stages": [{"name": "s"}, make_stage("t")]}}
    assert refusal(worse, old) == [("C-07", "spec.stages[0]")]
