"""The Lease by which Karpenter would hold the nodes."""

from datetime import timedelta

import pytest

from scorer.api.meta import format_time
from scorer.node_disruption.execution.karpenter_lease import current_leader, sightings
from tests.builders.worker import NOW

RENEWED = {"holderIdentity": "k", "renewTime": format_time(NOW), "leaseDurationSeconds": 15}
SLOW = {**RENEWED, "renewTime": format_time(NOW - timedelta(days=1))}


def lease(namespace="karpenter", **spec):
    return {"metadata": {"name": "karpenter-leader-election", "namespace": namespace}, "spec": spec}


def leads(*looks):
    """Say who leads at the last of several looks, each a clock and the Leases then."""
    seen = {}
    for clock, leases in looks:
        seen = sightings(leases, seen, clock)
    return current_leader(seen, looks[-1][0])


@pytest.mark.parametrize(
    ("spec", "held"),
    [
        pytest.param(RENEWED, True, id="seen-for-the-first-time"),
        pytest.param(SLOW, True, id="long-ago-by-its-own-clock"),
        pytest.param({"holderIdentity": "", "renewTime": format_time(NOW)}, False, id="released"),
        pytest.param({}, False, id="nobody"),
        pytest.param({"holderIdentity": "k"}, True, id="never-renewed-counts-as-held"),
        pytest.param({"holderIdentity": "k", "renewTime": "soon"}, True, id="unreadable-counts-as-held"),
        pytest.param({**RENEWED, "leaseDurationSeconds": "x"}, True, id="odd-duration"),
    ],
)
def test_who_leads_is_told_by_the_lease(spec, held):
    assert bool(leads((0.0, [lease(**spec)]))) is held


def test_what_is_not_renewed_for_its_duration_is_over():
    assert leads((0.0, [lease(**RENEWED)]), (15.0, [lease(**RENEWED)]))
    assert not leads((0.0, [lease(**RENEWED)]), (15.1, [lease(**RENEWED)]))


def test_what_is_renewed_is_held_by_whatever_clock():
    later = {**SLOW, "renewTime": format_time(NOW - timedelta(hours=23))}
    assert leads((0.0, [lease(**SLOW)]), (20.0, [lease(**later)]))


def test_each_lease_of_that_name_counts():
    looks = [
        (clock, [lease("a", **RENEWED), lease("b", **RENEWED | {"renewTime": f"2026-06-10T12:00:{clock:02}Z"})])
        for clock in (0, 20)
    ]
    assert "b/karpenter-leader-election" in leads(*looks)
