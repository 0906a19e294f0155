"""All maintenance windows with their next change and the number of their members."""

from datetime import UTC, datetime

from scorer.windows.member_windows import WindowDefinition
from scorer.windows.overview import window_overviews
from tests.webhook.controllers.upgrade_world import make_window

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def overviews(*windows, members=()):
    definitions = [WindowDefinition.of(window) for window in windows]
    return window_overviews(members, {definition.name: definition for definition in definitions}, NOON)


def test_windows_that_change_first_are_first_and_unreadable_ones_last():
    late, early = make_window("late", "18:00"), make_window("early", "11:30")
    broken = make_window("broken", "25:00")
    found = [(each["name"], each["open"], each["until"]) for each in overviews(late, broken, early)]
    assert found == [
        ("early", True, "2026-03-02T12:30:00Z"),
        ("late", False, "2026-03-02T18:00:00Z"),
        ("broken", False, None),
    ]


def test_members_count_by_annotation_and_by_labels():
    members = [
        {"metadata": {"name": "a", "annotations": {"harbormaster.dev/upgrade-windows": "night"}}},
        {"metadata": {"name": "b", "labels": {"env": "prod"}}},
        {"metadata": {"name": "c"}},
    ]
    night = make_window("night", "22:00", memberSelector={"matchLabels": {"env": "prod"}})
    assert [each["members"] for each in overviews(night, members=members)] == [2]
