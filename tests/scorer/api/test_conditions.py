"""Conditions: currency, and the time of the last transition."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.conditions import (
    Condition,
    current_condition,
    find_condition,
    is_false,
    is_true,
    make_condition,
    merge_conditions,
)

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def test_a_made_condition_reads_back():
    document = make_condition("Applied", "True", "Done", "all there", generation=3, now=NOW)
    condition = Condition.read(document)
    assert condition.last_transition_time == NOW
    assert document["lastTransitionTime"] == "2026-11-20T12:00:00Z"
    assert (condition.type, condition.status, condition.observed_generation) == ("Applied", "True", 3)


@pytest.mark.parametrize(
    ("status", "observed", "true", "false"),
    [("True", 2, True, False), ("True", 1, False, False), ("False", 2, False, True), ("Unknown", 2, False, False)],
)
def test_only_a_current_condition_counts(status, observed, true, false):
    conditions = [Condition(type="Applied", status=status, observed_generation=observed)]
    assert is_true(conditions, "Applied", 2) is true
    assert is_false(conditions, "Applied", 2) is false


def test_a_condition_that_is_not_there_is_neither():
    assert find_condition([], "Applied") is None
    assert current_condition([], "Applied", 1) is None
    assert not is_true([], "Applied", 1)
    assert not is_false([], "Applied", 1)


def condition(status="True", *, generation=1, now=NOW, kind="Applied"):
    return make_condition(kind, status, "Reason", "", generation=generation, now=now)


def test_the_time_stays_while_the_status_does():
    (merged,) = merge_conditions([condition()], [condition(generation=2, now=LATER)])
    assert merged["lastTransitionTime"] == condition()["lastTransitionTime"]
    assert merged["observedGeneration"] == 2


def test_the_time_moves_with_the_status():
    (merged,) = merge_conditions([condition("False")], [condition(now=LATER)])
    assert merged == condition(now=LATER)


def test_the_time_can_restart_with_the_generation():
    (merged,) = merge_conditions([condition()], [condition(generation=2, now=LATER)], restart_on_generation=True)
    assert merged == condition(generation=2, now=LATER)


def test_what_is_not_wanted_any_more_goes_and_the_order_is_the_new_one():
    old = [condition(kind="A"), condition(kind="B"), condition(kind="C")]
    merged = merge_conditions(old, [condition(kind="C", now=LATER), condition(kind="D", now=LATER)])
    assert [entry["type"] for entry in merged] == ["C", "D"]
    assert [entry["lastTransitionTime"] for entry in merged] == ["2026-11-20T12:00:00Z", "2026-11-20T12:05:00Z"]


def test_merging_changes_neither_argument():
    old, new = [condition()], [condition(now=LATER)]
    merge_conditions(old, new)
    assert (old, new) == ([condition()], [condition(now=LATER)])
