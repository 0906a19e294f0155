"""An upgrade run as it is drawn: bands, bars, marks, what is expected, and windows."""

from datetime import timedelta

import pytest

from scorer.api.meta import format_time, parse_time
from scorer.api.upgrade.maintenance_window import MaintenanceWindowSpec
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.rollout.views.timeline import TimeSpan
from scorer.upgrade.views.timeline import upgrade_timeline
from scorer.windows.maintenance import MaintenanceWindow, openings

BEGIN = parse_time("2026-01-05T00:00:00Z")


def at(minutes):
    return format_time(BEGIN + timedelta(minutes=minutes))


def member(name, state, **more):
    return {"name": name, "state": state, "attempt": 0 if state in ("NotStarted", "Pending") else 1, **more}


def group(name, state, *members, **more):
    return {"name": name, "state": state, "members": list(members), "maxConcurrency": 1, **more}


def run(*stages, state="Running", **status):
    return ClusterUpgradeRun.read(
        {
            "apiVersion": "upgrade.harbormaster.dev/v1alpha1",
            "kind": "ClusterUpgradeRun",
            "metadata": {"name": "r", "generation": 1},
            "spec": {"state": "Run", "upgrade": {"type": "Full", "kubernetesVersion": "1.31.2"}},
            "status": {"state": state, "startTime": at(0), "stages": list(stages), **status},
        }
    )


DONE = member("a", "Completed", startTime=at(0), completionTime=at(30))
GOING = member("b", "Running", startTime=at(30))
WAITS = member("c", "Pending", reason="MaintenanceWindowClosed", message="closed until 3:00", pendingSince=at(30))
FAILED = member(
    "d", "Failed", startTime=at(0), completionTime=at(5), error={"code": "X", "message": "no"}, message="no"
)
LEFT_OUT = member("e", "Skipped", reason="SkippedByUser", completionTime=at(1))
LATER = member("f", "NotStarted")


@pytest.mark.parametrize(
    ("entry", "state", "started", "ended", "detail"),
    [
        (DONE, "updated", at(0), at(30), ""),
        (GOING, "updating", at(30), None, ""),
        (WAITS, "waiting", None, None, "closed until 3:00"),
        (FAILED, "failed", at(0), at(5), "no"),
        ({**LEFT_OUT, "attempt": 0}, "skipped", None, None, "SkippedByUser"),
        (LATER, "not reached", None, None, ""),
    ],
)
def test_a_bar_for_every_member(entry, state, started, ended, detail):
    stage = {"name": "s", "state": "Running", "groups": [group("g", "Running", entry)]}
    (band,) = upgrade_timeline(run(stage), {}).document()["bands"]
    assert band["bars"] == [
        {"cluster": entry["name"], "state": state, "startedAt": started, "endedAt": ended, "detail": detail}
    ]


def test_a_band_for_every_group_or_for_a_stage_with_one():
    one = {"name": "one", "state": "Completed", "startTime": at(0), "groups": [group("g", "Completed", DONE)]}
    groups = [group("x", "Failed", FAILED, message="too many"), group("y", "NotStarted", LATER, maxConcurrency=3)]
    two = {"name": "two", "state": "Failed", "groups": groups}
    first, x, y = upgrade_timeline(run(one, two), {}).document()["bands"]
    assert (first["name"], first["state"]) == ("one", "done")
    assert (x["name"], x["state"], x["detail"]) == ("two / x", "failed", "too many")
    assert (y["name"], y["state"], y["atOnce"], y["detail"]) == ("two / y", "not reached", 3, "")


def test_gates_and_waits_are_marks_where_they_stand():
    def gate(name, kind="Approval", state="Pending", **more):
        return {"type": kind, "state": state, "gate": name, **more}

    groups = [
        group("x", "NotStarted", LATER, beforeGates=[gate("x-before", startTime=at(1))]),
        group("y", "NotStarted", afterGates=[gate("y-after", state="NotStarted")]),
    ]
    stage = {
        "name": "s",
        "state": "Pending",
        "groups": groups,
        "beforeGates": [gate("at-two", "ScheduledStart", absoluteStartTime=at(120), startTime=at(1))],
        "afterGates": [gate("s-after", state="Completed", startTime=at(5), completionTime=at(6))],
        "afterStageWait": {"seconds": 600, "state": "Running", "startTime": at(6)},
    }
    x, y = upgrade_timeline(run(stage), {}).document()["bands"]
    assert [(mark["kind"], mark["request"], mark["until"], mark["over"]) for mark in x["marks"]] == [
        ("scheduled before", "at-two", at(120), False),
        ("approval before", "x-before", None, False),
    ]
    assert [(mark["kind"], mark["request"], mark["until"], mark["over"]) for mark in y["marks"]] == [
        ("approval after", "y-after", None, False),
        ("approval after", "s-after", at(6), True),
        ("timed wait", "", at(16), False),
    ]


def test_what_is_expected_and_windows_are_told_of_what_is_to_come():
    planned = [
        {"name": "a", "action": "Upgrade", "start": at(0), "end": at(30)},
        {"name": "b", "action": "Upgrade", "start": at(30), "end": at(60)},
        {"name": "c", "action": "Upgrade", "start": at(180), "end": at(210)},
        {"name": "f", "action": "Blocked", "reason": "ClusterNotReady"},
    ]
    stage = {"name": "s", "state": "Running", "groups": [group("g", "Running", DONE, GOING, WAITS, LATER)]}
    windows = {name: (TimeSpan(BEGIN, BEGIN + timedelta(hours=1)),) for name in ("a", "c")}
    (band,) = upgrade_timeline(run(stage, plan={"members": planned}), windows).document()["bands"]
    found = {bar["cluster"]: (bar.get("forecast"), bar.get("windows")) for bar in band["bars"]}
    opened = [{"from": at(0), "to": at(60)}]
    assert found == {
        "a": (None, None),
        "b": ({"from": at(30), "to": at(60)}, None),
        "c": ({"from": at(180), "to": at(210)}, opened),
        "f": (None, None),
    }


def test_a_run_that_is_over_expects_nothing():
    stage = {"name": "s", "state": "Completed", "groups": [group("g", "Completed", DONE)]}
    plan = {"members": [{"name": "a", "action": "Upgrade", "start": at(0), "end": at(30)}]}
    found = upgrade_timeline(run(stage, state="Completed", completionTime=at(30), plan=plan), {})
    assert found.document()["endedAt"] == at(30)
    assert "forecast" not in found.document()["bands"][0]["bars"][0]
    assert upgrade_timeline(run(), {}).document()["bands"] == []


def window(start, hours):
    spec = {"schedule": {"daily": {"intervalDays": 1}}, "startTime": start, "durationHours": hours}
    return MaintenanceWindow.of(MaintenanceWindowSpec.read(spec))


def test_openings_are_merged_cut_and_counted():
    end = BEGIN + timedelta(days=2)
    both = [window("02:00", 2), window("03:00", 3)]

    def hours(found):
        return [((a - BEGIN).total_seconds() / 3600, (b - BEGIN).total_seconds() / 3600) for a, b in found]

    assert hours(openings(both, BEGIN, end, 20)) == [(2, 6), (26, 30)]
    assert hours(openings(both, BEGIN + timedelta(hours=5), BEGIN + timedelta(hours=27), 20)) == [(5, 6), (26, 30)]
    assert hours(openings(both, BEGIN, end, 1)) == [(2, 6)]
    assert hours(openings([], BEGIN, end, 20)) == []
