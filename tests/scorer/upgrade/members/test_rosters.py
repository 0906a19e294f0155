"""What one evaluation has counted may be kept for the next: that makes no difference but for the time it takes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.api.upgrade.run import SkipTarget, SkipTargetType
from scorer.upgrade.members.rosters import Rosters
from scorer.upgrade.simulation.hub import ChangeMember, Skip
from scorer.windows.member_windows import MemberWindows
from tests.scorer.upgrade.random_runs import INSTANTS, NAMES, WINDOWS, made, scenarios
from tests.scorer.upgrade.scenarios import at, daily, entry, event, member, prepared, stage, started
from tests.thoroughness import examples

EDITS = st.builds(
    lambda instant, name, changes: event(instant, "setMember", name=name, set=changes),
    INSTANTS,
    NAMES,
    st.fixed_dictionaries({}, optional={"order": st.integers(-1, 1), "windows": WINDOWS}),
)
ORDERS = st.builds(event, INSTANTS, st.sampled_from(["stop", "start", "crash"]))


@settings(max_examples=examples(120))
@given(scenarios(), st.lists(EDITS, max_size=6), st.lists(ORDERS, max_size=4))
def test_a_run_goes_as_if_everything_were_counted_anew_at_every_instant(given, edits, orders):
    given = {**given, "events": [*given["events"], *edits, *orders]}
    kept, anew = made(given), made(given)
    for moment, other in zip(kept.moments(), anew.moments(), strict=True):
        assert moment == other
        anew.hub._rosters = Rosters()


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        pytest.param({"c": {"order": -1}}, "c", id="goes-first-now"),
        pytest.param({"b": {"order": 1}}, "c", id="lets-others-go-first"),
        pytest.param({"d": {"windows": MemberWindows(())}}, "d", id="has-no-window-any-more"),
        pytest.param({"b": {"upgrades_paused": True}}, "c", id="is-held"),
        pytest.param({"b": {"region": "r2"}}, "b", id="is-the-same-for-its-turn"),
    ],
)
def test_members_that_are_edited_have_their_turns_by_what_they_are_now(changes, first):
    members = [member(name) for name in "abc"] + [member("d", order=-1, windows=[daily("12:00")])]
    hub, _ = started(*members)
    edits = [ChangeMember(name, lambda known, to=to: replace(known, **to)) for name, to in changes.items()]
    hub.evaluate(at("10m"), edits)
    run = hub.evaluate(at("30m")).run
    assert [name for name in "abcd" if entry(run, name).state == "Running"] == [first]


def test_a_member_that_gets_another_turn_is_in_line_again():
    failing = [member(name, outcomes=["fail"]) for name in "ab"]
    tolerant = stage("s", {"name": "g", "maxAllowedFailures": 1}, maxAllowedFailures=1)
    scenario = prepared(*failing, member("c"), stages=[tolerant], events=[event("2h", "start")])
    scenario.play()
    assert scenario.started == ["a", "b", "a", "b", "c"]


def test_nothing_is_due_any_more_for_a_member_that_no_longer_waits():
    hub, moment = started(member("a", windows=[daily("03:00")]), member("b"))
    assert moment.step.again == at("3h")
    skipped = hub.evaluate(at("10m"), [Skip((SkipTarget(type=SkipTargetType.MEMBER, name="a"),))])
    assert skipped.step.again is None


def test_what_was_counted_for_a_status_that_was_not_stored_does_not_count():
    hub, _ = started(member("a"), member("b"))
    stored = hub.run
    wanted = hub.evaluate(at("30m"))
    hub.run = stored
    assert hub.evaluate(at("30m")) == wanted
