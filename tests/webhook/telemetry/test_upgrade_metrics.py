"""The metrics of upgrade runs."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from scorer.upgrade.views.metrics import measures
from tests.scorer.upgrade.scenarios import at, daily, member, prepared, stage
from webhook.telemetry.upgrade_metrics import UpgradeMetrics

APPROVAL = {"type": "Approval"}


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return UpgradeMetrics(registry)


def play(metrics, scenario):
    """Let a scenario happen, and tell the metrics of every pass."""
    before = scenario.hub.run
    for moment in scenario.moments():
        metrics.seen("r", moment.run.status, measures(before, moment.run.status, moment.now))
        before = moment.run


def samples(registry):
    """Return all series that are not 0, with their values."""
    found = {}
    for line in generate_latest(registry).decode().splitlines():
        name, _, value = line.rpartition(" ")
        if not line.startswith("#") and "_created" not in name and "_bucket" not in name and float(value):
            found[name.removeprefix("harbormaster_upgrade_")] = float(value)
    return found


def waiting(registry):
    labels = {"kind": "ClusterUpgradeRun"}
    return registry.get_sample_value("harbormaster_upgrade_runs_waiting_for_approval", labels)


def test_a_run_waits_for_approval_while_a_gate_of_that_kind_is_open(registry, metrics):
    timed = {"type": "ScheduledStart", "scheduledStart": {"startDay": "Monday", "startTime": "02:00"}}
    approve = {"at": "1h", "do": "approve", "stage": "s", "timing": "Before"}
    scenario = prepared(member("a"), stages=[stage("s", "g", beforeGates=[APPROVAL, timed])], events=[approve])
    found = set()
    for moment in scenario.moments():
        metrics.seen("r", moment.run.status, ())
        found.add((moment.now < at("1h"), waiting(registry)))
    assert found == {(True, 1), (False, 0)}


@pytest.mark.parametrize("end", [lambda metrics: metrics.deleted("r"), UpgradeMetrics.ended], ids=["run", "term"])
def test_nothing_waits_for_approval_when_the_run_or_the_term_is_gone(registry, metrics, end):
    scenario = prepared(member("a"), stages=[stage("s", "g", beforeGates=[APPROVAL])])
    play(metrics, scenario)
    assert waiting(registry) == 1
    end(metrics)
    assert waiting(registry) == 0


def test_a_run_from_its_start_to_its_end(registry, metrics):
    stages = [stage("s", "g", beforeGates=[APPROVAL])]
    approve = {"at": "1h", "do": "approve", "stage": "s", "timing": "Before"}
    scenario = prepared(
        member("a"),
        member("b", outcomes=["fail"], windows=[daily("12:00")]),
        stages=[{**stages[0], "maxAllowedFailures": 1, "groups": [{"name": "g", "maxAllowedFailures": 1}]}],
        events=[approve],
    )
    play(metrics, scenario)
    assert samples(registry) == {
        'run_state{run="r",state="Completed"}': 1,
        'members{run="r",state="completed"}': 1,
        'members{run="r",state="failed"}': 1,
        'member_duration_seconds_count{result="success",type="Full",upgrader="simulated"}': 1,
        'member_duration_seconds_sum{result="success",type="Full",upgrader="simulated"}': 1800,
        'member_duration_seconds_count{result="failure",type="Full",upgrader="simulated"}': 1,
        'member_duration_seconds_sum{result="failure",type="Full",upgrader="simulated"}': 1800,
        'pending_seconds_total{reason="MaintenanceWindowClosed"}': 12 * 3600 - 5400,
        "gate_wait_seconds_count": 1,
        "gate_wait_seconds_sum": 3600,
        "window_start_lag_seconds_count": 1,
    }


def test_a_run_that_is_gone_has_no_series(registry, metrics):
    play(metrics, prepared(member("a")))
    metrics.planned("r", at("2h"), at("1h"))
    assert samples(registry)['eta_seconds{run="r"}'] == 3600
    metrics.deleted("r")
    metrics.deleted("never-seen")
    assert not [name for name in samples(registry) if 'run="r"' in name]


def test_a_run_without_an_end_has_no_time_until_it(registry, metrics):
    metrics.planned("r", at("2h"), at("1h"))
    metrics.planned("r", None, at("1h"))
    metrics.planned("r", None, at("1h"))
    assert samples(registry) == {}


def test_the_end_of_a_term_forgets_all_runs(registry, metrics):
    play(metrics, prepared(member("a")))
    metrics.ended()
    assert not [name for name in samples(registry) if 'run="r"' in name]


def test_errors_of_back_ends_are_counted(registry, metrics):
    metrics.failed("handoff", "observe")
    assert samples(registry) == {'upgrader_errors_total{call="observe",upgrader="handoff"}': 1}
