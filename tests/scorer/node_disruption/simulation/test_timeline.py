"""From the first look that finds a hold to the first that does not any more."""

from datetime import timedelta

from scorer.node_disruption.simulation.timeline import BlockedPeriod, BlockedPeriods, subject
from tests.builders.worker import NOW

MINUTE = timedelta(minutes=1)


def blocked(node="n", message="budget 0 of NodePool p allows 1 disruption", at=NOW):
    return BlockedPeriod(node, "p", "Drifted", "Budget", message, at)


def test_a_stretch_lasts_as_long_as_looks_find_it():
    """What changes in the message makes no difference."""
    found = BlockedPeriods()
    found.see([blocked()], NOW)
    found.see(
        [
            blocked(
                message="budget 0 of NodePool p allows 1 disruption, 1 in progress or not ready",
                at=NOW + MINUTE,
            )
        ],
        NOW + MINUTE,
    )
    found.see([], NOW + 2 * MINUTE)
    assert [(each.since, each.until) for each in found.all()] == [(NOW, NOW + 2 * MINUTE)]


def test_another_cause_is_another_stretch():
    found = BlockedPeriods()
    found.see([blocked()], NOW)
    found.see([blocked(message="budget 1 of NodePool p allows 0 disruptions", at=NOW + MINUTE)], NOW + MINUTE)
    assert [(each.since, each.until) for each in found.all()] == [(NOW, NOW + MINUTE), (NOW + MINUTE, None)]


def test_what_lasts_no_time_is_none():
    found = BlockedPeriods()
    found.see([blocked()], NOW)
    found.see([], NOW)
    assert found.all() == ()


def test_a_node_that_goes_is_released():
    found = BlockedPeriods()
    found.see([blocked("a"), blocked("b")], NOW)
    found.release({"a"}, NOW + MINUTE)
    assert [(each.node, each.until) for each in found.all()] == [("a", NOW + MINUTE), ("b", None)]


def test_a_subject_ends_where_details_begin():
    assert (
        subject("PodDisruptionBudget shop/web allows no evictions: pods a, b")
        == "PodDisruptionBudget shop/web allows no evictions"
    )
