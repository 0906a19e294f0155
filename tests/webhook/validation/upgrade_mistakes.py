"""Mistakes in upgrade objects: what is given, the rule that refuses it, and the field that is named."""

import pytest

from tests.webhook.validation.upgrade_objects import AT_NIGHT, FULL, IMAGES_ONLY, make_stage

SCHEDULED = {"type": "ScheduledStart", "scheduledStart": AT_NIGHT}
APPROVAL = {"type": "Approval"}


def with_group(**fields):
    return [make_stage(groups=[{"name": "g", **fields}])]


def at_night(**fields):
    return [make_stage(beforeGates=[{"type": "ScheduledStart", "scheduledStart": {**AT_NIGHT, **fields}}])]


SEQUENCES = [
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
"""Of stages, below ``spec``."""

CUSTOM = {"selection": "Custom", "customVersions": [{"family": "ubuntu", "version": "1"}]}

RUNS = [
    pytest.param({"upgrade": {"kubernetesVersion": "1.31"}}, "C-01", "upgrade.type", id="no-type"),
    pytest.param({"upgrade": {**FULL, "type": "Part"}}, "C-01", "upgrade.type", id="unknown-type"),
    pytest.param({"upgrade": None}, "C-01", "upgrade.type", id="no-upgrade"),
    *(
        pytest.param({"upgrade": {"type": type_}}, "C-15", "upgrade.kubernetesVersion", id=f"{type_}-no-version")
        for type_ in ("Full", "ControlPlaneOnly")
    ),
    pytest.param(
        {"upgrade": {**IMAGES_ONLY, "kubernetesVersion": "1.31.2"}},
        "C-15",
        "upgrade.kubernetesVersion",
        id="images-with-version",
    ),
    *(
        pytest.param(
            {"upgrade": {"type": "Full", "kubernetesVersion": version}},
            "C-35",
            "upgrade.kubernetesVersion",
            id=f"version-{version}",
        )
        for version in ("1", "latest", "", "1.31.x", "1.31.2-", "1.31.2\n", "V1.31")
    ),
    pytest.param(
        {"upgrade": {**FULL, "type": "ControlPlaneOnly", "nodeImage": {"selection": "Latest"}}},
        "C-16",
        "upgrade.nodeImage",
        id="control-plane-with-images",
    ),
    pytest.param(
        {"upgrade": {**FULL, "nodeImage": {"selection": "Custom"}}},
        "C-17",
        "upgrade.nodeImage.customVersions",
        id="custom-without-versions",
    ),
    pytest.param(
        {"upgrade": {**FULL, "nodeImage": {**CUSTOM, "selection": "Latest"}}},
        "C-17",
        "upgrade.nodeImage.customVersions",
        id="versions-without-custom",
    ),
    pytest.param(
        {"upgrade": {**FULL, "nodeImage": {**CUSTOM, "customVersions": CUSTOM["customVersions"] * 2}}},
        "C-36",
        "upgrade.nodeImage.customVersions[1].family",
        id="family-twice",
    ),
    pytest.param(
        {"strategyRef": {"name": "a"}, "strategy": {"stages": [make_stage()]}},
        "C-12",
        "strategy",
        id="two-sequences",
    ),
    *(
        pytest.param({"strategyRef": {"name": name}}, "C-01", "strategyRef.name", id=f"strategy-{name[:5]}")
        for name in ("Rings", "a" * 51, "")
    ),
    pytest.param({"state": "Stop"}, "C-37", "state", id="stopped-at-once"),
    pytest.param({"state": "Pause"}, "C-01", "state", id="unknown-state"),
    pytest.param({"skipTargets": [{"type": "All", "name": "a"}]}, "C-01", "skipTargets[0].type", id="skip-type"),
    pytest.param({"skipTargets": [{"type": "Member", "name": ""}]}, "C-01", "skipTargets[0].name", id="skip-name"),
    *(
        pytest.param(
            {"timeouts": {"memberUpgradeSeconds": value}}, rule, "timeouts.memberUpgradeSeconds", id=f"{value}s"
        )
        for value, rule in ((1, "C-18"), (299, "C-18"), (-1, "C-01"), (604801, "C-01"))
    ),
    pytest.param({"timeouts": {"pendingSeconds": -1}}, "C-01", "timeouts.pendingSeconds", id="pending"),
    pytest.param({"timeouts": {"gateSeconds": -1}}, "C-01", "timeouts.gateSeconds", id="gate"),
    pytest.param({"restartToken": "a" * 65}, "C-01", "restartToken", id="token"),
    pytest.param(
        {"memberSelector": {"matchLabels": {"a": "b c"}}}, "C-32", "memberSelector.matchLabels.a", id="selector"
    ),
    pytest.param({"windowPolicy": {"mode": "Maybe"}}, "C-01", "windowPolicy.mode", id="window-mode"),
]

PROFILES = [
    pytest.param({"targetKubernetesVersion": "1.31"}, "C-19", "targetKubernetesVersion", id="target-elsewhere"),
    pytest.param({"channel": "TargetKubernetesVersion"}, "C-19", "targetKubernetesVersion", id="target-missing"),
    *(
        pytest.param(
            {"channel": "TargetKubernetesVersion", "targetKubernetesVersion": version},
            "C-48",
            "targetKubernetesVersion",
            id=f"target-{version}",
        )
        for version in ("1.31.2", "v1.31", "1", "newest")
    ),
    pytest.param({"longTermSupport": True}, "C-20", "longTermSupport", id="long-term"),
    *(
        pytest.param(
            {"channel": channel, "nodeImage": {"selection": "Latest"}},
            "C-21",
            "nodeImage.selection",
            id=f"images-{channel}",
        )
        for channel in ("NodeImage", "SecurityPatch")
    ),
    pytest.param({"nodeImage": {"selection": "Custom"}}, "C-01", "nodeImage.selection", id="custom"),
    *(pytest.param({"channel": channel}, "C-01", "channel", id=f"channel-{channel}") for channel in ("Nightly", None)),
    pytest.param({"memberSelector": {"matchLabels": {"": "a"}}}, "C-32", "memberSelector.matchLabels", id="selector"),
    pytest.param({"strategyRef": {"name": "Rings"}}, "C-01", "strategyRef.name", id="strategy"),
    pytest.param({"runHistoryLimit": -1}, "C-01", "runHistoryLimit", id="history"),
]

DAY = {"dayOfWeek": "Monday"}
INTERVALS = [
    ("daily", {"intervalDays": 0}, "intervalDays"),
    ("daily", {"intervalDays": 8}, "intervalDays"),
    ("daily", {}, "intervalDays"),
    ("weekly", {"intervalWeeks": 5, **DAY}, "intervalWeeks"),
    ("weekly", {"intervalWeeks": 0, **DAY}, "intervalWeeks"),
    ("weekly", {"intervalWeeks": 1, "dayOfWeek": "Mon"}, "dayOfWeek"),
    ("absoluteMonthly", {"intervalMonths": 7, "dayOfMonth": 1}, "intervalMonths"),
    ("absoluteMonthly", {"intervalMonths": 1, "dayOfMonth": 32}, "dayOfMonth"),
    ("absoluteMonthly", {"intervalMonths": 1, "dayOfMonth": 0}, "dayOfMonth"),
    ("relativeMonthly", {"intervalMonths": 0, "weekIndex": "First", **DAY}, "intervalMonths"),
    ("relativeMonthly", {"intervalMonths": 1, "weekIndex": "Fifth", **DAY}, "weekIndex"),
    ("relativeMonthly", {"intervalMonths": 1, "weekIndex": "Last", "dayOfWeek": ""}, "dayOfWeek"),
]
BACKWARDS = {"start": "2025-12-20", "end": "2025-12-19"}
HOLIDAY = {"start": "2025-12-20", "end": "2025-12-20"}

WINDOWS = [
    pytest.param({"schedule": {}}, "C-22", "schedule", id="no-schedule"),
    pytest.param({"schedule": None}, "C-01", "schedule", id="schedule-missing"),
    pytest.param(
        {"schedule": {"daily": {"intervalDays": 1}, "weekly": {"intervalWeeks": 1, **DAY}}},
        "C-22",
        "schedule",
        id="two-schedules",
    ),
    *(
        pytest.param({"schedule": {kind: value}}, "C-01", f"schedule.{kind}.{field}", id=f"{kind}-{value}")
        for kind, value, field in INTERVALS
    ),
    *(pytest.param({"startTime": value}, "C-31", "startTime", id=f"time-{value}") for value in ("24:00", "8:00", "")),
    pytest.param({"startTime": None}, "C-31", "startTime", id="no-time"),
    *(pytest.param({"utcOffset": value}, "C-31", "utcOffset", id=f"offset-{value}") for value in ("1:00", "+14:01")),
    *(pytest.param({"durationHours": value}, "C-01", "durationHours", id=f"{value}h") for value in (0, 25, "4")),
    pytest.param({"startDate": "2025-02-30"}, "C-01", "startDate", id="start-date"),
    pytest.param({"target": "Nodes"}, "C-01", "target", id="target"),
    pytest.param({"notAllowedDates": [HOLIDAY, BACKWARDS]}, "C-23", "notAllowedDates[1]", id="backwards"),
    pytest.param({"notAllowedDates": [HOLIDAY] * 51}, "C-01", "notAllowedDates[50]", id="51-ranges"),
    pytest.param({"memberSelector": {"matchLabels": {"": "a"}}}, "C-32", "memberSelector.matchLabels", id="selector"),
]

REGIONS = [
    ([{"name": "a"}, {"name": "a"}], "C-54", "regions[1].name"),
    (
        [{"name": "a", "kubernetesVersions": [{"version": "newest"}]}],
        "C-35",
        "regions[0].kubernetesVersions[0].version",
    ),
    (
        [{"name": "a", "kubernetesVersions": [{"version": "1.31.2"}] * 2}],
        "C-54",
        "regions[0].kubernetesVersions[1].version",
    ),
    (
        [{"name": "a", "kubernetesVersions": [{"version": "1.31.2", "phase": "Beta"}]}],
        "C-01",
        "regions[0].kubernetesVersions[0].phase",
    ),
    ([{"name": "a", "nodeImages": [{"family": "f"}] * 2}], "C-54", "regions[0].nodeImages[1].family"),
    (
        [{"name": "a", "nodeImages": [{"family": "f", "versions": [{"version": "1"}] * 2}]}],
        "C-54",
        "regions[0].nodeImages[0].versions[1].version",
    ),
]
