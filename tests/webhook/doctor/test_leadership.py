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
    assert (finding.state, finding.found) == (State.OK, "3 shards are worked on since 2026-03-01T09:00:00Z")


def test_a_fresh_lease_says_who_leads_and_since_when():
    """However wrong the clock of the leader is."""
    finding = judge(lease(NOW - timedelta(seconds=17)))
    assert (finding.state, finding.found) == (State.OK, "pod-1 leads since 2026-03-01T09:00:00Z")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (None, "Lease quay/loop is not there: no loop has led yet"),
        (lease(holderIdentity=""), "Lease quay/loop is free: no loop leads"),
        (lease(NOW - timedelta(seconds=18)), "pod-1 holds Lease quay/loop, and has not renewed it for 18 s"),
        (
            lease(NOW - timedelta(seconds=4), leaseDurationSeconds=1),
            "pod-1 holds Lease quay/loop, and has not renewed it for 4 s",
        ),
        (lease(NOW - timedelta(hours=30)), "pod-1 holds Lease quay/loop, and has not renewed it for 30 h"),
    ],
    ids=["none", "free", "stale", "stale-for-its-length", "long-stale"],
)
def test_nobody_leads(document, said):
    finding = judge(document)
    assert (finding.state, finding.problems) == (State.WRONG, (said,))


def test_without_managed_fields_its_own_time_counts():
    document = lease(renewTime="2026-03-01T09:59:50.000000Z")
    del document["metadata"]["managedFields"]
    assert judge(document).state is State.OK
    document["spec"]["renewTime"] = "garbage"
    assert judge(document).problems == ("pod-1 holds Lease quay/loop, and has not renewed it at any time",)
