"""What admission fills in for upgrade runs and maintenance windows."""

from datetime import UTC, datetime

import pytest

from tests.webhook.validation.upgrade_objects import DAILY, FULL, IMAGES_ONLY, make_run, make_window
from webhook.admission.judge import mutate
from webhook.defaulting.defaulted import DefaultingContext

MONDAY_NOON = datetime(2025, 1, 6, 12, tzinfo=UTC)
REQUEST = DefaultingContext(MONDAY_NOON, "11111111-2222-3333-4444-555555555555")
EVERY_OTHER_DAY = {"daily": {"intervalDays": 2}}


def filled(document, old=None, occasion=REQUEST):
    """The spec as it would be stored; a second call of the hook must change nothing."""
    operation = "CREATE" if old is None else "UPDATE"
    once = mutate(document, old, operation, occasion).document
    again = occasion and DefaultingContext(MONDAY_NOON, "another call")
    assert mutate(once, old, operation, again).document is once
    return once["spec"]


def test_a_run_gets_every_default():
    assert filled(make_run()) == {
        "state": "Initialize",
        "upgrade": {**FULL, "nodeImage": {"selection": "Latest"}},
        "timeouts": {
            "memberUpgradeSeconds": 14400,
            "pendingSeconds": 0,
            "onPendingTimeout": "Wait",
            "gateSeconds": 0,
            "cancelOnTimeout": False,
        },
        "versionPolicy": {"onUnsupportedJump": "Fail", "onNotReady": "Wait"},
        "windowPolicy": {"mode": "Respect", "reservation": "None", "tieBreak": "Name", "requireFit": False},
        "placementGuard": {"mode": "Off"},
    }


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (IMAGES_ONLY, {**IMAGES_ONLY, "nodeImage": {"selection": "Latest"}}),
        ({**FULL, "nodeImage": {}}, {**FULL, "nodeImage": {"selection": "Latest"}}),
        ({**FULL, "nodeImage": None}, {**FULL, "nodeImage": {"selection": "Latest"}}),
        ({**FULL, "nodeImage": {"selection": "Consistent"}}, {**FULL, "nodeImage": {"selection": "Consistent"}}),
        ({**FULL, "type": "ControlPlaneOnly"}, {**FULL, "type": "ControlPlaneOnly"}),
    ],
)
def test_nodes_get_the_latest_image_where_they_are_upgraded(given, wanted):
    assert filled(make_run(upgrade=given))["upgrade"] == wanted


@pytest.mark.parametrize(("given", "wanted"), [("v1.31.2", "1.31.2"), ("v1.31", "1.31"), ("vanilla", "vanilla")])
def test_a_version_is_written_without_v(given, wanted):
    assert filled(make_run(upgrade={**FULL, "kubernetesVersion": given}))["upgrade"]["kubernetesVersion"] == wanted


def test_the_stages_of_a_run_get_their_defaults_and_no_limits():
    (stage,) = filled(make_run(strategy={"stages": [{"name": "s", "groups": [{"name": "g"}]}]}))["strategy"]["stages"]
    assert stage == {"name": "s", "groups": [{"name": "g", "maxConcurrency": 1}]}


def stored(state, **spec):
    run = make_run("Stopped", state=state, **spec)
    return mutate(run, None, "CREATE").document


def test_a_run_that_is_started_again_gets_a_token_of_its_own():
    old = stored("Stop")
    assert filled({**old, "spec": {**old["spec"], "state": "Run"}}, old)["restartToken"] == REQUEST.uid


@pytest.mark.parametrize("token", ["first", None, ""])
def test_the_token_of_the_last_start_starts_nothing(token):
    old = stored("Stop", restartToken="first")
    again = {**old, "spec": {**old["spec"], "state": "Run", "restartToken": token}}
    assert filled(again, old)["restartToken"] == REQUEST.uid


def test_a_token_that_the_user_chooses_stays():
    old = stored("Stop", restartToken="first")
    again = {**old, "spec": {**old["spec"], "state": "Run", "restartToken": "second"}}
    assert filled(again, old)["restartToken"] == "second"


@pytest.mark.parametrize(("before", "after"), [("Initialize", "Run"), ("Run", "Stop"), ("Run", "Run")])
def test_any_other_update_keeps_the_token(before, after):
    old = stored(before, restartToken="first")
    spec = {**old["spec"], "state": after}
    del spec["restartToken"]
    assert filled({**old, "spec": spec}, old)["restartToken"] == "first"


def test_a_new_run_has_no_token():
    assert "restartToken" not in filled(make_run(state="Run"))


def test_no_token_is_made_up_where_nothing_is_written():
    old = stored("Stop")
    assert "restartToken" not in filled({**old, "spec": {**old["spec"], "state": "Run"}}, old, None)


def test_an_upgrade_that_was_stored_without_defaults_is_left_alone():
    """The API server refuses a change of it once the run has started, and here nobody has asked for one."""
    old = make_run("Running", upgrade={**FULL, "kubernetesVersion": "v1.31.2"}, state="Run")
    new = {**old, "spec": {**old["spec"], "state": "Stop"}}
    assert filled(new, old)["upgrade"] == old["spec"]["upgrade"]


@pytest.mark.parametrize("spec", [None, 5, [], {"upgrade": 5}, {"upgrade": {"type": "Full", "nodeImage": 5}}])
def test_a_broken_run_stays_as_it_is(spec):
    document = {**make_run(), "spec": spec}
    assert mutate(document, None, "CREATE", REQUEST).document == document


def test_a_window_gets_every_default():
    assert filled(make_window()) == {
        "schedule": DAILY,
        "startTime": "22:00",
        "target": "All",
        "durationHours": 4,
        "utcOffset": "+00:00",
    }


@pytest.mark.parametrize(
    "schedule",
    [
        EVERY_OTHER_DAY,
        {"weekly": {"intervalWeeks": 2, "dayOfWeek": "Monday"}},
        {"absoluteMonthly": {"intervalMonths": 3, "dayOfMonth": 1}},
        {"relativeMonthly": {"intervalMonths": 2, "weekIndex": "Last", "dayOfWeek": "Monday"}},
    ],
)
def test_a_rhythm_counts_from_the_day_on_which_it_is_written(schedule):
    assert filled(make_window(schedule=schedule))["startDate"] == "2025-01-06"


@pytest.mark.parametrize(
    ("offset", "day"), [("+14:00", "2025-01-07"), ("-12:30", "2025-01-05"), ("nonsense", "2025-01-06")]
)
def test_today_is_that_of_the_window(offset, day):
    assert filled(make_window(schedule=EVERY_OTHER_DAY, utcOffset=offset))["startDate"] == day


def test_a_start_date_that_is_given_stays():
    assert filled(make_window(schedule=EVERY_OTHER_DAY, startDate="2024-12-24"))["startDate"] == "2024-12-24"


def test_an_update_that_leaves_the_start_date_out_keeps_it():
    old = make_window(schedule=EVERY_OTHER_DAY, startDate="2024-12-24")
    assert filled(make_window(schedule=EVERY_OTHER_DAY, durationHours=6), old)["startDate"] == "2024-12-24"


def test_a_rhythm_that_was_stored_without_its_anchor_stays():
    old = make_window(schedule=EVERY_OTHER_DAY)
    assert "startDate" not in filled(make_window(schedule=EVERY_OTHER_DAY, durationHours=6), old)


def test_a_window_that_gets_a_rhythm_gets_an_anchor():
    assert filled(make_window(schedule=EVERY_OTHER_DAY), make_window())["startDate"] == "2025-01-06"


def test_no_date_is_made_up_where_nothing_is_written():
    assert "startDate" not in filled(make_window(schedule=EVERY_OTHER_DAY), occasion=None)
