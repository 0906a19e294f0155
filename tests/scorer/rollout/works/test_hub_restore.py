"""Which Works are older than what was applied, and the record that shows it."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.names import ACCEPT_OLDER_UNTIL, APPLIED_REVISION, WRITTEN
from scorer.rollout.works.hub_restore import (
    accepts_older,
    applied_revision,
    held_status,
    is_older,
    with_applied,
    with_held,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EARLY, LATE, LATER = "2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z", "2026-03-01T11:30:00Z"


def work(generation=5, *, uid="u-1", written=LATE, made=EARLY, reported=None):
    annotations = {WRITTEN: written} if written else {}
    metadata = {"name": "w", "uid": uid, "generation": generation, "creationTimestamp": made}
    conditions = [{"type": "Applied", "status": "True", "observedGeneration": reported}] if reported else []
    return {"metadata": {**metadata, "annotations": annotations}, "status": {"conditions": conditions}}


APPLIED = with_applied({"metadata": {"name": "w"}}, work(reported=5))


@pytest.mark.parametrize(
    ("seen", "older"),
    [
        pytest.param(work(reported=5), False, id="the-same"),
        pytest.param(work(reported=3), False, id="the-same-before-it-had-reported"),
        pytest.param(work(6, written=LATER, reported=5), False, id="a-newer-generation"),
        pytest.param(work(6, reported=5), False, id="edited-by-hand"),
        pytest.param(work(3, written=EARLY, reported=3), True, id="restored"),
        pytest.param(work(3, reported=3, written=""), True, id="restored-and-unsigned"),
        pytest.param(work(7, written=LATER, reported=3), True, id="restored-and-written-since"),
        pytest.param(work(7, written=LATER), False, id="status-emptied-by-hand"),
        pytest.param(work(1, uid="u-2", written=LATER, made=LATER), False, id="made-anew-by-the-loop"),
        pytest.param(work(1, uid="u-2", written=LATE, made=LATER), False, id="put-back-as-it-was"),
        pytest.param(work(1, uid="u-2", written=EARLY, made=LATER), True, id="put-back-from-an-older-file"),
        pytest.param(work(9, uid="u-0", written="", made=EARLY), True, id="restored-from-before-it-was-made-anew"),
        pytest.param(work(1, uid="u-2", written="", made=LATER), False, id="made-anew-by-a-hub-that-does-not-sign"),
        pytest.param(work(6, written="soon", made=LATER, reported=5), False, id="time-cannot-be-read"),
        pytest.param(work(5, written="", reported=5), False, id="time-taken-off-by-hand"),
        pytest.param(work(5, written=EARLY, reported=5), False, id="time-set-back-by-hand"),
        pytest.param(work(6, written="", reported=5), False, id="edited-by-hand-and-time-taken-off"),
        pytest.param(work(6, written=EARLY, reported=5), True, id="an-older-file-put-over-it"),
        pytest.param(work(4, written=LATER, reported=4), True, id="restored-whatever-it-says"),
        pytest.param(work(1, uid="u-2", written="2026-03-01T10:55:00Z"), False, id="made-anew-by-a-clock-behind"),
        pytest.param(work(1, uid="u-2", written="2026-03-01T10:54:59Z"), True, id="no-clock-is-so-far-behind"),
        pytest.param(work(9, uid="u-0", written="2026-03-01T10:30:00Z"), True, id="from-before-it-was-made-anew"),
    ],
)
def test_a_work_is_older_than_what_was_applied(seen, older):
    assert is_older(seen, APPLIED) is older


@pytest.mark.parametrize("text", ["", "{", "[]", '{"uid": "u-1"}', '{"uid": "u-1", "generation": "x"}', "null"])
def test_without_a_word_that_can_be_read_nothing_is_older(text):
    owner = {"metadata": {"name": "w", "annotations": {APPLIED_REVISION: text}}}
    assert applied_revision(owner) == (None, False)
    assert not is_older(work(1), owner)
    assert with_held(owner, work(1)) is None


def test_what_is_held_stays_held_whatever_comes_until_what_was_applied_is_back():
    held = with_held(APPLIED, work(3, written=EARLY, reported=3))
    assert with_held(held, work(3, written=EARLY, reported=3)) is None
    assert is_older(work(9, written=LATER, reported=9), held)
    assert is_older(work(1, uid="u-2", written=LATER, made=LATER), held)
    assert not is_older(work(reported=5), held)
    assert not is_older(work(9, written=LATER, reported=9), with_applied(held, work(9, written=LATER)))


def test_an_older_file_put_over_a_work_is_held_until_the_loop_writes_it_again():
    """The hub has forgotten nothing: it knows the generation that was applied."""
    assert with_held(APPLIED, work(6, written=EARLY, reported=5)) is None
    assert not is_older(work(7, written=LATER, reported=6), APPLIED)


def test_what_was_applied_is_written_down_once():
    assert with_applied(APPLIED, work()) is None
    assert applied_revision(with_applied(APPLIED, work(6)))[0].generation == 6


@pytest.mark.parametrize(
    ("until", "accepts"),
    [
        ("2026-03-01T12:00:01Z", True),
        ("2026-03-08T12:00:00Z", True),
        ("2026-03-01T12:00:00Z", False),
        ("2026-03-08T12:00:01Z", False),
        ("2026-02-01T00:00:00Z", False),
        ("true", False),
        ("", False),
    ],
)
def test_an_acceptance_holds_until_its_time_and_reaches_a_week_ahead_at_most(until, accepts):
    assert accepts_older({"metadata": {"annotations": {ACCEPT_OLDER_UNTIL: until}}}, NOW) is accepts


@pytest.mark.parametrize(("strategy", "kind"), [("ServerSideApply", "Applied"), ("ReportDiff", "DiffReported")])
def test_the_status_of_a_held_work_is_written_once(strategy, kind):
    older = {**work(3, reported=3), "spec": {"applyStrategy": {"type": strategy}}}
    status = held_status(older, "older", NOW)
    assert [(found["type"], found["status"], found["reason"]) for found in status["conditions"]] == [
        (kind, "False", "OlderThanApplied")
    ]
    assert held_status({**older, "status": status}, "older", NOW + timedelta(hours=1)) == status
