"""The conditions of an object on which a controller fails."""

from datetime import UTC, datetime, timedelta

from scorer.api.conditions import LONGEST_MESSAGE
from scorer.rollout.status.failures import (
    failing_status,
    failure_of,
    failure_type,
    passed_status,
    with_current_failures,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
READY = {"type": "Ready", "status": "True"}


def make(conditions, generation=1):
    return {"metadata": {"name": "a", "generation": generation}, "status": {"conditions": conditions, "more": 1}}


def test_a_failure_is_one_condition_beside_the_others():
    status = failing_status(make([READY]), "back_report", "OverflowError", "days=1000000000", NOW)
    failure = {
        "type": "harbormaster.dev/BackReportFailed",
        "status": "True",
        "reason": "OverflowError",
        "message": "days=1000000000",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-03-01T12:00:00Z",
    }
    assert status == {"conditions": [READY, failure], "more": 1}


def test_the_same_failure_again_writes_nothing():
    failed = {"metadata": {"generation": 1}, "status": failing_status(make([]), "rollout", "KeyError", "x", NOW)}
    assert failing_status(failed, "rollout", "KeyError", "x", NOW + timedelta(hours=1)) is None


def test_another_failure_and_another_generation_are_said_with_the_time_of_the_first():
    failed = {"metadata": {"generation": 2}, "status": failing_status(make([]), "rollout", "KeyError", "x", NOW)}
    for reason, message in (("KeyError", "x"), ("KeyError", "y"), ("OSError", "x")):
        status = failing_status(failed, "rollout", reason, message, NOW + timedelta(hours=1))
        (condition,) = status["conditions"]
        assert (condition["reason"], condition["message"], condition["observedGeneration"]) == (reason, message, 2)
        assert condition["lastTransitionTime"] == "2026-03-01T12:00:00Z"


def test_controllers_fail_and_pass_on_their_own():
    document = make([READY])
    for controller in ("rollout", "scheduler"):
        document = {**document, "status": failing_status(document, controller, "KeyError", "x", NOW)}
    status = passed_status(document, "rollout")
    assert [entry["type"] for entry in status["conditions"]] == ["Ready", failure_type("scheduler")]
    assert passed_status({**document, "status": status}, "rollout") is None


def test_a_failure_says_no_more_than_fits():
    status = failing_status({"metadata": {}}, "rollout", "ValueError", "x" * 100_000, NOW)
    assert len(status["conditions"][0]["message"]) == LONGEST_MESSAGE


def test_who_makes_a_status_anew_neither_takes_failures_away_nor_brings_them_back():
    healthy = make([READY])
    failed = make(failing_status(healthy, "rollout", "KeyError", "x", NOW)["conditions"])
    renewed = {"conditions": [{**READY, "status": "False"}]}
    assert with_current_failures(renewed, healthy) is renewed
    kept = with_current_failures(renewed, failed)["conditions"]
    assert [entry["type"] for entry in kept] == ["Ready", failure_type("rollout")]
    assert with_current_failures(failed["status"], healthy)["conditions"] == [READY]
    assert with_current_failures(failed["status"], make([])) == {"conditions": [READY], "more": 1}


def test_an_object_says_why_its_controllers_fail_the_first_by_name():
    document = make([READY])
    assert failure_of(document) == ""
    for controller, message in (("scheduler", "x"), ("rollout", "y")):
        document = {**document, "status": failing_status(document, controller, "KeyError", message, NOW)}
    assert failure_of({**document, "metadata": {"name": "a", "generation": 2}}) == "y"
    assert failure_of({"status": passed_status(document, "rollout")}) == "x"
    assert failure_of(make([{"type": failure_type("rollout"), "status": "False", "message": "y"}])) == ""
