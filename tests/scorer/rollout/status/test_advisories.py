"""The condition Advisories: what is stored, when it changes, and what it keeps."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.names import ACKNOWLEDGE, ADVISORIES
from scorer.rollout.status.advisories import (
    CHANGED,
    CLEARED,
    LONGEST_ADVISORY,
    MOST_ADVISORIES,
    Advisories,
    acknowledged,
    advisory_events,
    advisory_lines,
    with_advisories,
)

NOW, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
OTHER = {"type": "ClusterResourcePlacementScheduled", "status": "True", "observedGeneration": 1}


def make_placement(status=None, **annotations):
    annotations = {f"harbormaster.dev/{key}": value for key, value in annotations.items()}
    return {"metadata": {"name": "p", "generation": 1, "annotations": annotations}, "status": status or {}}


def stored(lines, now=NOW, generation=1, placement=None, others=(OTHER,)):
    status = {"conditions": list(others)}
    return with_advisories(placement or make_placement(), status, Advisories.of(generation, lines), now)


def test_the_condition_is_last_and_has_a_line_for_each():
    conditions = stored(["X-05 a: one", "X-25 b: two", "X-05 a: one"])["conditions"]
    assert [condition["type"] for condition in conditions] == [OTHER["type"], ADVISORIES]
    assert conditions[-1]["message"] == "X-05 a: one\nX-25 b: two"
    assert conditions[-1]["status"] == "True"


def test_without_advisories_there_is_no_condition():
    assert stored([])["conditions"] == [OTHER]
    assert with_advisories(make_placement(), {}, Advisories(1), NOW) == {}


def test_unknown_advisories_keep_the_condition():
    placement = make_placement(stored(["X-05 a: one"]))
    assert (
        with_advisories(placement, {"conditions": [OTHER]}, None, LATER)["conditions"]
        == placement["status"]["conditions"]
    )


def test_the_time_is_that_of_the_first_advisory():
    placement = make_placement(stored(["X-05 a: one"]))
    condition = stored(["X-25 b: two"], LATER, 2, placement)["conditions"][-1]
    assert condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert condition["observedGeneration"] == 2


@pytest.mark.parametrize(
    ("old", "new", "events"),
    [
        pytest.param([], [], [], id="none"),
        pytest.param([], ["a", "b"], [(CHANGED, "a; b")], id="first"),
        pytest.param(["a"], ["a", "b"], [(CHANGED, "b")], id="another"),
        pytest.param(["a", "b"], ["a"], [], id="one-less"),
        pytest.param(["a"], ["a"], [], id="unchanged"),
        pytest.param(["a"], [], [(CLEARED, "no warnings about the placement remain")], id="all-gone"),
    ],
)
def test_events(old, new, events):
    placement = make_placement(stored(old))
    found = advisory_events(placement, stored(new, LATER, placement=placement))
    assert [(event.reason, event.message) for event in found] == events


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        pytest.param("X-14", {"X-14"}, id="one"),
        pytest.param(" X-14 ,,X-25,", {"X-14", "X-25"}, id="several"),
        pytest.param("", set(), id="empty"),
    ],
)
def test_acknowledged_rules(text, ids):
    assert acknowledged(make_placement(acknowledge=text)) == ids
    assert ACKNOWLEDGE == "harbormaster.dev/acknowledge"


@pytest.mark.parametrize(
    ("status", "generation", "lines", "is_stored"),
    [
        pytest.param(stored([]), 1, (), True, id="none"),
        pytest.param(stored(["a"]), 1, ("a",), True, id="the-same"),
        pytest.param(stored(["a"]), 2, ("a",), False, id="another-generation"),
        pytest.param(stored(["a"]), 1, ("b",), False, id="another-text"),
        pytest.param(stored(["a"]), 1, (), False, id="to-be-removed"),
        pytest.param(
            {"conditions": [{"type": ADVISORIES, "status": "True", "message": 1}]}, 1, ("a",), False, id="odd"
        ),
    ],
)
def test_whether_a_status_holds_them(status, generation, lines, is_stored):
    assert Advisories(generation, lines).is_stored(make_placement(status)) is is_stored


@given(st.lists(st.text(min_size=1), max_size=30))
def test_the_condition_is_bounded_and_the_same_lines_change_nothing(lines):
    advisories = Advisories.of(1, lines)
    assert len(advisories.lines) <= MOST_ADVISORIES
    assert all(len(line) <= LONGEST_ADVISORY and "\n" not in line for line in advisories.lines)
    status = stored(lines)
    assert advisory_lines(make_placement(status)) == advisories.lines
    assert stored(lines, LATER, placement=make_placement(status)) == status
