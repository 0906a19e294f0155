"""Clusters that a placement leaves: which lose their content, and what the others wait for."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.names import CARRIED_OUT, CLUSTERS_HELD, REMOVAL_PENDING
from scorer.rollout.bindings import BindingView, PendingReason, PendingRemoval, pending_reason
from scorer.rollout.confirmation.clusters import (
    ClusterFacts,
    DroppedCluster,
    cluster_item,
    clusters_held,
    judge_clusters,
    with_clusters_held,
)
from scorer.rollout.confirmation.digests import MOST_ITEMS, CarriedOut, Confirmation
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy
from tests.scorer.rollout.confirmation.placed_content import DEFAULTS, HOUR, NOW, UID
from webhook.validation.framework.object_meta import LONGEST_ANNOTATIONS

ASKED, WAITS, LEFT_TO_RUNS = PendingReason


def make_binding(cluster, pending=None, carried_out=""):
    annotations = {REMOVAL_PENDING: pending.format() if pending else "", CARRIED_OUT: carried_out}
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourceBinding",
        "metadata": {"name": f"shop-{cluster}", "uid": f"u-{cluster}", "annotations": annotations},
        "spec": {"state": "Unscheduled", "targetCluster": cluster},
    }


def make_dropped(*clusters, pending=None, carried_out=""):
    return tuple(DroppedCluster(make_binding(cluster, pending, carried_out), pending) for cluster in clusters)


def digest(cluster):
    return cluster_item(make_binding(cluster)).digest(UID)


def cluster_names(count, start=0):
    return [f"m{number:02}" for number in range(start, start + count)]


def judge(
    losses, remaining=0, *, replacements=(), available=(), largest=0, confirmed=(), policy=DEFAULTS, external=False
):
    """Judge lost clusters, given as names or as `DroppedCluster`."""
    dropped_clusters = tuple(
        cluster if isinstance(cluster, DroppedCluster) else make_dropped(cluster)[0] for cluster in losses
    )
    facts = ClusterFacts(
        policy,
        UID,
        dropped_clusters,
        remaining=frozenset(cluster_names(remaining, 50)),
        replacements={name: name in available for name in replacements},
        largest=largest,
        confirmation=Confirmation(frozenset(confirmed), NOW + HOUR),
        now=NOW,
        external=external,
    )
    return judge_clusters(facts)


@pytest.mark.parametrize(
    ("losses", "remaining", "is_pending"),
    [
        pytest.param(1, 1, False, id="one-of-two"),
        pytest.param(1, 0, True, id="the-only-one"),
        pytest.param(2, 1, False, id="two-of-three"),
        pytest.param(3, 2, True, id="three-of-five"),
        pytest.param(3, 3, False, id="half"),
        pytest.param(10, 30, False, id="ten"),
        pytest.param(11, 30, True, id="more-than-ten"),
        pytest.param(2, 0, True, id="all"),
        pytest.param(0, 5, False, id="none"),
    ],
)
def test_thresholds(losses, remaining, is_pending):
    judgement = judge(cluster_names(losses), remaining)
    expected = {f"shop-{name}": ASKED for name in cluster_names(losses)} if is_pending else {}
    assert {name: pending.reason for name, pending in judgement.pending.items()} == expected
    assert (
        judgement.ordered == frozenset()
        if is_pending
        else judgement.ordered == {f"shop-{name}" for name in cluster_names(losses)}
    )


@pytest.mark.parametrize(
    ("losses", "remaining", "replacement_count", "available", "reason"),
    [
        pytest.param(1, 0, 1, 0, WAITS, id="the-only-one-moves"),
        pytest.param(1, 0, 1, 1, None, id="the-only-one-has-moved"),
        pytest.param(3, 2, 1, 0, WAITS, id="net-two"),
        pytest.param(3, 2, 1, 1, None, id="net-two-and-available"),
        pytest.param(5, 0, 5, 2, WAITS, id="a-swap-of-all"),
        pytest.param(5, 0, 5, 3, None, id="a-swap-of-all-once-few-are-missing"),
        pytest.param(5, 0, 1, 1, ASKED, id="net-four-of-five"),
        pytest.param(12, 30, 1, 0, ASKED, id="net-eleven"),
        pytest.param(12, 30, 2, 0, WAITS, id="net-ten"),
        pytest.param(1, 5, 1, 0, None, id="below-the-thresholds-nothing-waits"),
    ],
)
def test_replacements_count_once_they_are_available(losses, remaining, replacement_count, available, reason):
    names = cluster_names(replacement_count, 20)
    judgement = judge(cluster_names(losses), remaining, replacements=names, available=names[:available])
    reasons = {pending.reason for pending in judgement.pending.values()}
    assert reasons == ({reason} if reason else set())


@pytest.mark.parametrize(
    ("losses", "replacement_count", "available", "ordered"),
    [
        pytest.param(4, 4, 0, [], id="none-is-replaced"),
        pytest.param(4, 4, 1, ["shop-m00"], id="one-is-replaced"),
        pytest.param(6, 4, 0, ["shop-m00", "shop-m01"], id="fewer-than-before"),
        pytest.param(4, 6, 1, [], id="more-than-before"),
    ],
)
def test_each_available_replacement_releases_a_cluster(losses, replacement_count, available, ordered):
    """At any time, as many clusters have content as in the end."""
    names = cluster_names(replacement_count, 20)
    judgement = judge(cluster_names(losses), replacements=names, available=names[:available])
    assert sorted(judgement.ordered) == ordered


def test_a_loop_over_members_is_one_accident():
    assert not judge(["m10"], 6, largest=9).pending, "three of nine within the window"
    assert judge(["m10"], 3, largest=7).pending, "four of seven within the window"
    assert not judge(["m10"], 3, largest=5).pending, "two of five"


def test_a_placement_may_move_often():
    """Each time it has left another cluster, and has as many as before."""
    assert not judge(["m10"], replacements=["m11"], available=["m11"], largest=1).pending


def test_confirmed_clusters_go_and_the_others_are_judged_without_them():
    judgement = judge(cluster_names(4), 2, confirmed=[digest("m00")])
    assert judgement.ordered == {"shop-m00"} == judgement.confirmed
    assert judgement.pending.keys() == {"shop-m01", "shop-m02", "shop-m03"}
    judgement = judge(cluster_names(4), 4, confirmed=[digest("m00")])
    assert not judgement.pending, "three of seven need none"


@pytest.mark.parametrize(
    ("replacement_count", "available", "reason"),
    [
        pytest.param(0, 0, ASKED, id="the-window-has-passed"),
        pytest.param(1, 0, ASKED, id="one-is-replaced"),
        pytest.param(2, 1, WAITS, id="both-are-replaced"),
        pytest.param(2, 2, None, id="both-replacements-are-available"),
    ],
)
def test_a_pending_cluster_waits_until_it_is_confirmed_or_replaced(replacement_count, available, reason):
    pending, names = PendingRemoval(ASKED, NOW), cluster_names(replacement_count, 20)
    judgement = judge(make_dropped("m10", "m11", pending=pending), 5, replacements=names, available=names[:available])
    assert {record.reason for record in judgement.pending.values()} == ({reason} if reason else set())


def test_a_cluster_that_waited_for_confirmation_does_so_again_without_its_replacement():
    pending = PendingRemoval(ASKED, NOW)
    waiting = judge(make_dropped("m10", "m11", pending=pending), 5, replacements=cluster_names(2, 20)).pending[
        "shop-m10"
    ]
    assert (waiting.reason, waiting.is_asked) == (WAITS, True)
    stored_record = PendingRemoval.of(make_binding("m10", waiting))
    assert stored_record == waiting
    second = judge(make_dropped("m10", "m11", pending=stored_record), 5)
    assert {record.reason for record in second.pending.values()} == {ASKED}, "by itself, two of seven would need none"


def test_confirming_some_clusters_does_not_confirm_the_others():
    judgement = judge(make_dropped(*cluster_names(4), pending=PendingRemoval(ASKED, NOW)), 4, confirmed=[digest("m00")])
    assert judgement.pending.keys() == {"shop-m01", "shop-m02", "shop-m03"}


def test_an_external_placement_leaves_its_clusters_to_update_runs():
    (direct_record,) = judge(["m00"], 5, external=True).pending.values()
    assert (direct_record.reason, direct_record.is_asked) == (LEFT_TO_RUNS, False)
    run_record = judge(make_dropped("m10", pending=PendingRemoval(ASKED, NOW)), 5, external=True).pending["shop-m10"]
    stored_record = PendingRemoval.of(make_binding("m10", run_record))
    assert (stored_record.reason, stored_record.is_asked) == (LEFT_TO_RUNS, True)
    assert judge(make_dropped("m10", pending=stored_record), 5).pending["shop-m10"].reason is ASKED
    assert not judge(make_dropped("m10", pending=direct_record), 5).pending


def test_a_digest_counts_once_per_binding():
    carried_out_record = CarriedOut().with_digests([digest("m00")], NOW + HOUR).format()
    assert judge(make_dropped("m00", carried_out=carried_out_record), confirmed=[digest("m00")]).pending
    earlier_record = CarriedOut().with_digests([digest("m00")], NOW + HOUR / 2).format()
    assert not judge(make_dropped("m00", carried_out=earlier_record), confirmed=[digest("m00")]).pending, (
        "confirmed anew"
    )
    expired_record = CarriedOut().with_digests([digest("m00")], NOW - HOUR).format()
    assert not judge(make_dropped("m00", carried_out=expired_record), confirmed=[digest("m00")]).pending


def test_a_roll_up_stays_confirmed_when_it_shrinks():
    names = [f"m{number:03}" for number in range(MOST_ITEMS + 10)]
    judgement = judge(names)
    group_sets = {pending.groups for pending in judgement.pending.values()}
    ((group,),) = group_sets
    pending = next(iter(judgement.pending.values()))
    shrunken_loss = [*make_dropped(*names[5:], pending=pending), *make_dropped("fresh")]
    second = judge(shrunken_loss, confirmed=[group])
    assert second.pending.keys() == {"shop-fresh"}
    assert len(second.confirmed) == len(names) - 5


def test_modes():
    off = RemovalPolicy(many_clusters=ConfirmationMode.OFF)
    assert judge(cluster_names(5), policy=off) == judge(
        cluster_names(5), policy=DEFAULTS.with_every_mode(ConfirmationMode.OFF)
    )
    warn = RemovalPolicy(many_clusters=ConfirmationMode.WARN)
    assert judge(cluster_names(5), policy=warn).warned == {f"shop-{name}" for name in cluster_names(5)}
    every = RemovalPolicy(clusters=ConfirmationMode.CONFIRM)
    assert judge(cluster_names(1), 9, policy=every).pending
    assert judge(cluster_names(1), 9, replacements=["m20"], policy=every).pending["shop-m00"].reason is WAITS


def test_the_record_on_a_binding():
    pending = PendingRemoval(ASKED, NOW, ("a" * 20,))
    binding = make_binding("lion", pending)
    assert PendingRemoval.of(binding) == pending
    assert pending_reason(binding) is ASKED
    assert BindingView.of(binding).pending is ASKED
    assert PendingRemoval.of(make_binding("lion")) is None
    binding["spec"]["state"] = "Bound"
    assert PendingRemoval.of(binding) is None, "it is not being removed"
    assert pending_reason(binding) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("whatever", id="no-reason"),
        pytest.param("ReplacementNotAvailable", id="no-time"),
        pytest.param("UpdateRunRequired yesterday", id="unreadable-time"),
        pytest.param(f"Whatever 2026-11-29T12:00:00Z {'a' * 20}", id="unknown-reason"),
    ],
)
def test_an_unreadable_record_waits_for_confirmation(text):
    binding = make_binding("lion")
    binding["metadata"]["annotations"][REMOVAL_PENDING] = text
    record = PendingRemoval.of(binding)
    assert (record.reason, record.since, record.groups) == (ASKED, None, ())
    assert pending_reason(binding) is BindingView.of(binding).pending is ASKED
    assert cluster_item(binding).since is None
    binding["metadata"]["annotations"][REMOVAL_PENDING] = record.format()
    assert PendingRemoval.of(binding) == record
    (judged_record,) = judge([DroppedCluster(binding, record)]).pending.values()
    assert (judged_record.reason, judged_record.since) == (ASKED, NOW), "the loop writes a readable one"


def make_snapshot(index, record_text=""):
    labels = {"kubernetes-fleet.io/policy-index": str(index)}
    annotations = {"harbormaster.dev/clusters-held": record_text} if record_text else {}
    return {"metadata": {"name": f"shop-{index}", "labels": labels, "annotations": annotations}}


def record(snapshot, snapshots, losses, remaining, confirmed=(), now=NOW):
    dropped_clusters = make_dropped(*losses)
    confirmation = Confirmation(frozenset(confirmed), NOW + HOUR)
    facts = ClusterFacts(
        DEFAULTS, UID, dropped_clusters, frozenset(cluster_names(remaining, 50)), confirmation=confirmation, now=now
    )
    return with_clusters_held(snapshot, snapshots, judge_clusters(facts), facts)


def test_the_record_of_clusters_that_were_left():
    first = record(make_snapshot(0), [], ["lion"], 8)
    assert clusters_held([first], NOW + timedelta(minutes=59), HOUR) == 9
    assert clusters_held([first], NOW + timedelta(minutes=61), HOUR) == 0
    second = record(make_snapshot(1), [first, make_snapshot(1)], ["fish"], 6, now=NOW + timedelta(minutes=30))
    assert clusters_held([second, first], NOW + timedelta(minutes=45), HOUR) == 9
    assert clusters_held([second, first], NOW + timedelta(minutes=75), HOUR) == 7
    assert record(second, [second], [], 6) is None
    assert record(second, [second], cluster_names(5), 0) is None, "nothing is ordered"
    assert clusters_held([make_snapshot(2, "[")], NOW, HOUR) == 0


def test_confirmed_clusters_are_taken_off_the_record():
    first = record(make_snapshot(0), [], ["lion"], 8)
    names = cluster_names(5)
    confirmed_snapshot = record(first, [first], names, 3, confirmed=map(digest, names))
    assert clusters_held([confirmed_snapshot], NOW, HOUR) == 4


def test_the_record_does_not_shrink_when_it_is_written_twice():
    first = record(make_snapshot(0), [], ["lion"], 8)
    names = cluster_names(5)
    confirmed_snapshot = record(first, [first], names, 3, confirmed=map(digest, names))
    second = record(confirmed_snapshot, [confirmed_snapshot], names, 3, confirmed=map(digest, names))
    assert clusters_held([second or confirmed_snapshot], NOW, HOUR) == 4


def test_records_on_several_snapshots_add_up():
    first = record(make_snapshot(0), [], ["lion"], 8)
    second = record(make_snapshot(1), [], cluster_names(2), 3, confirmed=map(digest, cluster_names(2)))
    assert second is None, "without the first record, there is nothing to take the confirmed ones off"
    unconfirmed_snapshot = record(make_snapshot(1), [], ["fish"], 4)
    assert clusters_held([first, unconfirmed_snapshot], NOW, HOUR) == 9


def test_the_record_of_ten_thousand_clusters_fits_into_an_annotation():
    names = [f"m{number:05}" for number in range(10_000)]
    first = record(make_snapshot(0), [], ["lion"], 12_000)
    confirmed_snapshot = record(first, [first], names, 2_000, confirmed=map(digest, names))
    assert len(confirmed_snapshot["metadata"]["annotations"][CLUSTERS_HELD]) < LONGEST_ANNOTATIONS / 2
    assert clusters_held([confirmed_snapshot], NOW, HOUR) == 2_001


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_no_order_takes_a_placement_below_the_thresholds(losses, remaining, replacement_count, available):
    names = cluster_names(replacement_count, 100)
    judgement = judge(cluster_names(losses), remaining, replacements=names, available=names[:available])
    if judgement.ordered:
        running = remaining + min(available, replacement_count) + len(judgement.pending)
        net = losses + remaining - running
        assert running
        assert net <= 10
        assert net < 3 or 2 * net <= losses + remaining
