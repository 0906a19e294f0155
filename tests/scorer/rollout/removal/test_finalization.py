"""Which Works a deleted placement waits for, and what it says of them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.conditions import make_condition
from scorer.api.names import FORGET_WORKS, PREVIOUS_BINDING_STATE, WORK_CLEANUP
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.removal.finalization import (
    REMOVED,
    UNREPORTED_FOR,
    RemainingWorks,
    describe_remaining_works,
    forgets_works,
    removal_status,
    report_delay,
)
from scorer.rollout.removal.marks import with_removal_mark
from tests.builders.placement import make_placement

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DELETED = {"deletionTimestamp": "2026-03-01T12:00:00Z"}
OBSTACLE = "ConfigMap shop/rates: finalizer example.com/hold"


def make_binding(cluster="a", **metadata):
    metadata = {"name": f"web-{cluster}", "uid": f"b-{cluster}", "finalizers": [WORK_CLEANUP], **metadata}
    return with_removal_mark({"metadata": metadata, "spec": {"targetCluster": cluster}})


def make_work(obstacle="", **metadata):
    condition = make_condition(REMOVED, "False", "FinalizersRemain", obstacle, generation=2, now=NOW)
    status = {"conditions": [condition] if obstacle else []}
    return {"metadata": {"name": "web-work", "uid": "w", "generation": 2, **metadata}, "status": status}


def make_member(**metadata):
    return {"metadata": {"name": "a", **metadata}}


def remnant(*works, binding=None, member=None, cluster="a"):
    return RemainingWorks(binding or make_binding(cluster), works, make_member() if member is None else member)


def unscheduled(previous):
    metadata = {"name": "b", "uid": "y", **DELETED, "annotations": {PREVIOUS_BINDING_STATE: previous}}
    return {"metadata": metadata, "spec": {"targetCluster": "a", "state": "Unscheduled"}}


def deleted_placement(**metadata):
    return make_placement("web", metadata={"generation": 3, **DELETED, **metadata})


@pytest.mark.parametrize(
    ("member", "finalizers", "awaited"),
    [
        pytest.param(make_member(), [WORK_CLEANUP], True, id="member"),
        pytest.param(make_member(**DELETED), [WORK_CLEANUP], False, id="leaving"),
        pytest.param(None, [WORK_CLEANUP], False, id="unregistered"),
        pytest.param(make_member(), [], False, id="released"),
    ],
)
def test_a_placement_waits_for_bindings_with_works_on_members_of_the_fleet(member, finalizers, awaited):
    assert RemainingWorks(make_binding(finalizers=finalizers), (make_work(),), member).is_awaited is awaited


@pytest.mark.parametrize(
    ("remnants", "is_ordered"),
    [
        pytest.param(remnant(with_removal_mark(make_work(**DELETED))), True, id="deleted-with-its-order"),
        pytest.param(remnant(make_work(**DELETED)), False, id="deleted-by-another-client"),
        pytest.param(remnant(with_removal_mark(make_work())), False, id="not-deleted-yet"),
        pytest.param(remnant(with_removal_mark(make_work(**DELETED)), make_work()), False, id="one-of-two"),
        pytest.param(remnant(make_work(**DELETED), member=make_member(**DELETED)), True, id="leaving-gets-no-order"),
        pytest.param(remnant(binding=with_metadata(make_binding(uid="x"), annotations={})), True, id="no-works"),
        pytest.param(remnant(binding={**make_binding(), "metadata": {"name": "b", "uid": "y"}}), False, id="unmarked"),
        pytest.param(remnant(binding=unscheduled("Bound")), True, id="dropped-by-the-loop-then-deleted"),
        pytest.param(remnant(binding=unscheduled("")), False, id="unscheduled-by-another-client"),
    ],
)
def test_works_are_ordered_when_the_loop_has_nothing_left_to_write_on_them(remnants, is_ordered):
    assert remnants.is_ordered is is_ordered


def test_the_message_names_the_obstacles_first_then_agents_that_are_away_and_counts_the_rest():
    remnants = [remnant(make_work(), cluster=name) for name in "bcdefg"]
    remnants += [remnant(make_work(OBSTACLE), cluster="z"), replace(remnant(make_work()), silent=True)]
    silent, unfinished = (
        "Work web-work: the agent does not report",
        "Work web-work: the agent has not removed the content yet",
    )
    message = describe_remaining_works(remnants)
    assert message == "; ".join(
        [f"z: {OBSTACLE}", f"a: {silent}", *(f"{name}: {unfinished}" for name in "bcd"), "and 3 more clusters"]
    )


def test_a_single_further_cluster_is_counted_in_the_singular():
    remnants = [remnant(make_work(OBSTACLE), cluster=name) for name in "abcdef"]
    assert describe_remaining_works(remnants).endswith("; and 1 more cluster")


def test_a_message_is_as_long_as_the_schema_allows_whatever_agents_write():
    remnants = [remnant(*[make_work("x" * 32768)] * 3, cluster=name) for name in "abcdef"]
    (condition,) = removal_status(deleted_placement(), remnants, NOW)["conditions"]
    assert len(condition["message"]) <= 32768
    assert all(f"{name}: xxx" in condition["message"] for name in "abcde")


def test_a_report_is_written_once():
    placement, remnants = deleted_placement(), [remnant(make_work(OBSTACLE))]
    status = removal_status(placement, remnants, NOW)
    second_status = removal_status({**placement, "status": status}, remnants, NOW + timedelta(minutes=1))
    assert second_status == status
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("ClusterResourcePlacementRemoved", "False")


@pytest.mark.parametrize(
    ("obstacle", "age", "delay_seconds"),
    [
        pytest.param("", 0, UNREPORTED_FOR.total_seconds(), id="usual"),
        pytest.param("", 60, UNREPORTED_FOR.total_seconds() - 60, id="late"),
        pytest.param(OBSTACLE, 0, 0, id="obstacle"),
    ],
)
def test_a_removal_is_reported_once_it_takes_longer_than_usual_or_meets_an_obstacle(obstacle, age, delay_seconds):
    now = NOW + timedelta(seconds=age)
    assert report_delay(deleted_placement(), [remnant(make_work(obstacle))], now).total_seconds() == delay_seconds


@pytest.mark.parametrize(
    ("annotations", "namespace", "forgets"),
    [
        pytest.param({}, None, False, id="cluster-scoped"),
        pytest.param({}, {"metadata": {}}, False, id="namespace"),
        pytest.param({}, {"metadata": DELETED}, True, id="deleted-namespace"),
        pytest.param({FORGET_WORKS: "true"}, None, True, id="annotated"),
        pytest.param({FORGET_WORKS: "yes"}, None, False, id="other-value"),
    ],
)
def test_what_lets_a_placement_go_before_its_works(annotations, namespace, forgets):
    assert forgets_works(deleted_placement(annotations=annotations), namespace) is forgets
