"""Who leads, and whether still."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.meta import format_time
from webhook.doctor.finding import State
from webhook.doctor.leadership import judge_leader

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)


def lease(stored=NOW, **spec):
    """A Lease that the API server has stored at a time."""
    times = {"acquireTime": "2026-03-01T09:00:00.123456Z", "renewTime": "2020-01-01T00:00:00.000000Z"}
    return {
        "metadata": {"managedFields": [{"operation": "Update", "time": format_time(stored), "fieldsV1": {}}]},
        "spec": {"holderIdentity": "pod-1", "leaseDurationSeconds": 15, **times, **spec},
    }


def judge(document):
    return judge_leader(document, "quay/loop", NOW)


def test_a_fresh_lease_of_replicas_that_share_the_work_says_how_many_shards_there_are():
    finding = judge_leader(lease(holderIdentity="3 shards"), "quay/loop", NOW)
    assert (finding.state, finding.found) == (State.OK, "3 shards are active since 2026-03-01T09:00:00Z")


def test_a_fresh_lease_says_who_leads_and_since_when():
    """However wrong the clock of the leader is."""
    finding = judge(lease(NOW - timedelta(seconds=17)))
    assert (finding.state, finding.found) == (State.OK, "pod-1 leads since 2026-03-01T09:00:00Z")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (None, "Lease quay/loop does not exist: no loop has been the leader yet"),
        (lease(holderIdentity=""), "Lease quay/loop has no holder: no loop is the leader"),
        (lease(NOW - timedelta(seconds=18)), "pod-1 holds Lease quay/loop, but has not renewed it for 18 s"),
        (lease(NOW - timedelta(hours=30)), "pod-1 holds Lease quay/loop, but has not renewed it for 30 h"),
    ],
    ids=["none", "free", "stale", "long-stale"],
)
def test_nobody_leads(document, said):
    finding = judge(document)
    assert (finding.state, finding.problems) == (State.WRONG, (said,))


@pytest.mark.parametrize(
    ("document", "problems"),
    [
        pytest.param(
            lease(leaseDurationSeconds=86400),
            ("pod-1 holds Lease quay/loop, but leaseDurationSeconds is 86400, and a loop sets 15",),
            id="absurd-duration",
        ),
        pytest.param(
            lease(leaseDurationSeconds=None),
            ("pod-1 holds Lease quay/loop, but leaseDurationSeconds is None, and a loop sets 15",),
            id="no-duration",
        ),
        pytest.param(
            lease(renewTime="2026-03-02T10:00:00.000000Z"),
            ("pod-1 holds Lease quay/loop, but its renewTime is 24 h in the future",),
            id="renewed-tomorrow",
        ),
        pytest.param(
            lease(NOW - timedelta(hours=1), leaseDurationSeconds=86400, renewTime="2026-03-01T10:01:00.000000Z"),
            (
                "pod-1 holds Lease quay/loop, but leaseDurationSeconds is 86400, and a loop sets 15",
                "pod-1 holds Lease quay/loop, but its renewTime is 60 s in the future",
                "pod-1 holds Lease quay/loop, but has not renewed it for 60 min",
            ),
            id="all-of-it",
        ),
    ],
)
def test_a_lease_that_no_loop_has_written(document, problems):
    finding = judge(document)
    assert (finding.state, finding.problems) == (State.WRONG, problems)
    assert "kubectl delete lease loop -n quay: a loop leads within 300 s" in finding.advice


def test_a_clock_that_is_seconds_ahead_is_no_matter():
    assert judge(lease(renewTime="2026-03-01T10:00:20.000000Z")).state is State.OK


def test_without_managed_fields_its_own_time_counts():
    document = lease(renewTime="2026-03-01T09:59:50.000000Z")
    del document["metadata"]["managedFields"]
    assert judge(document).state is State.OK
    document["spec"]["renewTime"] = "garbage"
    assert judge(document).problems == ("pod-1 holds Lease quay/loop, but has not renewed it yet",)
