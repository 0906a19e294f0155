"""A rolling update as a timeline, from the bindings of a placement."""

from datetime import UTC, datetime

from scorer.rollout.views.timeline import BarState, rolling_timeline
from tests.builders.binding import make_binding
from tests.builders.condition import condition

FAILED = {
    "kind": "Deployment",
    "namespace": "shop",
    "name": "web",
    "condition": {"message": "0 of 3 replicas available"},
}


def instant(clock, day=23):
    return datetime.fromisoformat(f"2026-11-{day}T{clock}:00+00:00").astimezone(UTC)


def placed(cluster, *said, **status):
    document = make_binding("web", cluster, metadata={"generation": 1})
    return {**document, "status": {"conditions": list(said), **status}}


def said(kind, clock, status="True", day=23, **more):
    return condition(kind, status, since=f"2026-11-{day}T{clock}:00Z", **more)


def updated(cluster, begun, available, day=23):
    return placed(cluster, said("RolloutStarted", begun, day=day), said("Available", available, day=day))


def only(*bindings):
    (band,) = rolling_timeline(bindings).bands
    return band


def test_a_cluster_has_a_bar_from_the_start_of_its_rollout_to_its_availability():
    (bar,) = only(updated("oslo", "08:00", "08:03")).bars
    assert (bar.state, bar.started, bar.ended) == (BarState.UPDATED, instant("08:00"), instant("08:03"))


def test_a_cluster_that_gets_a_second_release_without_having_waited_has_a_bar_from_the_second():
    let_in, begun, available = said("RolloutStarted", "08:00"), said("Overridden", "09:30"), said("Available", "09:31")
    (bar,) = only(placed("oslo", let_in, begun, available)).bars
    assert (bar.started, bar.ended) == (instant("09:30"), instant("09:31"))


def test_clusters_come_in_the_order_in_which_they_were_started_then_those_that_wait():
    waiting = placed("bergen", said("RolloutStarted", "08:00", "False", message="oslo goes first"))
    band = only(waiting, updated("cork", "08:05", "08:06"), updated("oslo", "08:00", "08:03"))
    assert [bar.cluster for bar in band.bars] == ["oslo", "cork", "bergen"]
    assert (band.bars[2].state, band.bars[2].detail) == (BarState.WAITING, "oslo goes first")
    assert band.state == "waiting"


def test_a_cluster_on_which_something_is_still_applied_is_being_updated():
    applying = said("Applied", "08:01", "False", reason="ApplyInProgress", message="2 of 5 applied")
    (bar,) = only(placed("oslo", said("RolloutStarted", "08:00"), applying)).bars
    assert (bar.state, bar.ended, bar.detail) == (BarState.UPDATING, None, "2 of 5 applied")


def test_a_cluster_on_which_something_cannot_be_applied_has_failed_with_the_first_object():
    broken = said("Applied", "08:01", "False", message="1 of 5 failed")
    band = only(placed("oslo", said("RolloutStarted", "08:00"), broken, failedPlacements=[FAILED]))
    assert band.bars[0].state is BarState.FAILED
    assert band.bars[0].detail == "Deployment shop/web: 0 of 3 replicas available"
    assert band.state == "failed"


def test_a_cluster_that_is_not_available_yet_is_being_updated_and_says_why():
    late = said("Available", "08:01", "False", message="0 of 3 replicas available")
    (bar,) = only(placed("oslo", said("RolloutStarted", "08:00"), said("Applied", "08:01"), late)).bars
    assert (bar.state, bar.detail) == (BarState.UPDATING, "0 of 3 replicas available")


def test_what_is_said_about_an_earlier_generation_does_not_count():
    (bar,) = only(placed("oslo", said("RolloutStarted", "08:00", generation=0))).bars
    assert bar.state is BarState.WAITING


def test_clusters_that_are_to_lose_the_placement_are_no_part_of_it():
    leaving = make_binding("web", "cork", state="Unscheduled")
    going = make_binding("web", "oslo", metadata={"deletionTimestamp": "2026-11-23T08:00:00Z"})
    timeline = rolling_timeline([leaving, going])
    assert timeline.bands[0].bars == ()
    assert timeline.started is None


def test_the_timeline_is_over_when_every_cluster_is_updated():
    over = rolling_timeline([updated("oslo", "08:00", "08:03"), updated("cork", "08:01", "08:02")])
    assert (over.started, over.ended) == (instant("08:00"), instant("08:03"))
    half = rolling_timeline([updated("oslo", "08:00", "08:03"), placed("cork", said("RolloutStarted", "08:01"))])
    assert half.ended is None


def test_a_cluster_that_joined_days_later_does_not_stretch_the_timeline():
    band = only(updated("oslo", "08:00", "08:03", day=2), updated("cork", "08:00", "08:03"))
    assert band.started == instant("08:00")
    assert [(bar.cluster, bar.state, bar.started) for bar in band.bars] == [
        ("cork", BarState.UPDATED, instant("08:00")),
        ("oslo", BarState.UPDATED, None),
    ]
