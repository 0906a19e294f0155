"""Digests, the annotation that confirms them, and the record of those carried out."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.names import CARRIED_OUT
from scorer.rollout.confirmation.digests import (
    MOST_ITEMS,
    CarriedOut,
    Confirmation,
    RemovalEffect,
    RemovalItem,
    confirmable_groups,
    fitting_digests,
    rolled_up_digest,
    room_for_digests,
    validity_error,
)
from tests.scorer.rollout.confirmation.placed_content import HOUR, NOW, UID, confirm, make_placement
from webhook.validation.framework.object_meta import LONGEST_ANNOTATIONS

DIGEST, OTHER = "0123456789abcdef0123", "f" * 20
ITEM = RemovalItem(RemovalEffect.OBJECT, ("apps", "StatefulSet", "shop", "db"), "u1")


def test_a_digest_covers_facts_of_the_hub():
    other_digests = [
        ITEM.digest("another placement"),
        RemovalItem(RemovalEffect.CLUSTER, ITEM.identity, "u1").digest(UID),
        RemovalItem(RemovalEffect.OBJECT, ("", *ITEM.identity[1:]), "u1").digest(UID),
        RemovalItem(RemovalEffect.OBJECT, ("apps", "StatefulSet", "shop2", "db"), "u1").digest(UID),
        RemovalItem(RemovalEffect.OBJECT, ("apps", "StatefulSet", "shop", "db2"), "u1").digest(UID),
        RemovalItem(RemovalEffect.OBJECT, ITEM.identity, "u2").digest(UID),
    ]
    assert len({ITEM.digest(UID), *other_digests}) == 7
    same = RemovalItem(RemovalEffect.OBJECT, ITEM.identity, "u1", objects=9, since=NOW)
    assert same.digest(UID) == ITEM.digest(UID), "how much goes with it, and since when, is no part of it"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(f"{DIGEST}@2026-11-30T00:00:00Z", "", id="one"),
        pytest.param(f"{DIGEST}, {OTHER}@2026-11-30T00:00:00+01:00", "", id="two-with-an-offset"),
        pytest.param(DIGEST, "must end in @", id="without-expiry"),
        pytest.param(f"{DIGEST}@tomorrow", "'tomorrow' is not an RFC 3339 time", id="no-time"),
        pytest.param(f"{DIGEST}@2026-11-30T00:00:00Z\0", "is not an RFC 3339 time", id="a-time-and-more"),
        pytest.param(f"{DIGEST}@2026-11-30T00:00:00", "is not an RFC 3339 time", id="no-offset"),
        pytest.param(f"{DIGEST[:-1]}@2026-11-30T00:00:00Z", "is not a digest of 20", id="short"),
        pytest.param(f"{DIGEST.upper()}@2026-11-30T00:00:00Z", "is not a digest", id="upper-case"),
        pytest.param(f"{DIGEST},@2026-11-30T00:00:00Z", "'' is not a digest", id="empty-part"),
        pytest.param("*@2026-11-30T00:00:00Z", "'*' is not a digest", id="wildcard"),
    ],
)
def test_the_annotation(text, problem):
    if problem:
        with pytest.raises(ValueError, match=problem.replace("(", r"\(").replace("*", r"\*")):
            Confirmation.parse(text)
        assert not Confirmation.of(make_placement(text), NOW).digests
    else:
        confirmation = Confirmation.parse(text)
        assert Confirmation.parse(confirmation.format()) == confirmation
        assert DIGEST in Confirmation.of(make_placement(text), NOW).digests


def test_why_a_confirmation_does_not_count():
    assert validity_error(Confirmation(frozenset({DIGEST}), NOW), NOW) == "expired at 2026-11-29T12:00:00Z"
    late = Confirmation(frozenset({DIGEST}), NOW + 73 * HOUR)
    assert validity_error(late, NOW) == "expires at 2026-12-02T13:00:00Z, more than 72h ahead"
    assert validity_error(Confirmation(), NOW) == ""


def test_a_confirmation_without_expiry_cannot_be_written():
    with pytest.raises(ValueError, match="expiry"):
        Confirmation(frozenset({DIGEST})).format()


def test_the_record_of_what_was_carried_out():
    record = CarriedOut().with_digests([DIGEST], NOW + HOUR, "4").with_digests([OTHER], NOW + 2 * HOUR)
    assert CarriedOut.of(make_placement(carried_out=record.format())) == record
    assert [record.is_spent(DIGEST, NOW + HOUR, index) for index in (3, 4, 5)] == [False, True, True]
    assert record.is_spent(OTHER, NOW + 2 * HOUR, 9)
    assert not record.is_spent("a" * 20, NOW + HOUR, 9)
    assert record.with_digests([DIGEST], NOW + HOUR, "9") == record, "the first order stands"
    assert record.without_expired(NOW + HOUR).until.keys() == {OTHER}
    assert CarriedOut().format() == ""
    for broken in ("{", "[]", '{"a":1}', '{"a":["x"]}', '{"a":{"":"x"}}'):
        assert CarriedOut.of(make_placement(carried_out=broken)) == CarriedOut()


def test_a_digest_counts_again_only_by_a_later_confirmation():
    record = CarriedOut().with_digests([DIGEST], NOW + HOUR, "4")
    assert record.is_spent(DIGEST, NOW + HOUR, 5), "the same confirmation, applied again"
    assert record.is_spent(DIGEST, NOW, 5), "an earlier one"
    assert not record.is_spent(DIGEST, NOW + 2 * HOUR, 5)
    renewed = record.with_digests([DIGEST], NOW + 2 * HOUR, "7")
    assert [renewed.is_spent(DIGEST, NOW + 2 * HOUR, index) for index in (6, 7)] == [False, True]


def test_the_record_of_ten_thousand_digests_fits_into_an_annotation():
    placement = make_placement(confirm=confirm(*(f"{number:020x}" for number in range(10_000))))
    many = [f"{number:020x}" for number in range(10_000)]
    recordable_digests = fitting_digests(many, placement, NOW + HOUR, NOW)
    assert 500 < len(recordable_digests) < 10_000
    record = CarriedOut().with_digests(recordable_digests, NOW + HOUR, "12").format()
    annotations = {**placement["metadata"]["annotations"], CARRIED_OUT: record}
    assert sum(len(key) + len(text) for key, text in annotations.items()) < LONGEST_ANNOTATIONS
    placement = {**placement, "metadata": {**placement["metadata"], "annotations": annotations}}
    assert fitting_digests(many, placement, NOW + HOUR, NOW) == recordable_digests, (
        "these are on record, and no other fits"
    )
    assert room_for_digests(placement, NOW + HOUR) > 500, "expired"


def items(count, namespace="shop", kind="ConfigMap"):
    return [RemovalItem(RemovalEffect.OBJECT, ("", kind, namespace, f"c{number}")) for number in range(count)]


def test_more_than_a_hundred_are_rolled_up_per_namespace_and_kind():
    hundred = items(MOST_ITEMS)
    assert len(confirmable_groups(UID, hundred)) == MOST_ITEMS
    groups = confirmable_groups(UID, [*hundred, *items(3, "dock"), *items(1, kind="Secret")])
    assert [str(group) for group in groups] == [
        "3 ConfigMap objects in dock",
        "100 ConfigMap objects in shop",
        "Secret shop/c0",
    ]
    assert groups[2].digest == items(1, kind="Secret")[0].digest(UID)


@given(st.permutations(items(6)))
def test_a_roll_up_does_not_depend_on_the_order(shuffled):
    assert rolled_up_digest(UID, shuffled) == rolled_up_digest(UID, items(6))
    assert rolled_up_digest(UID, shuffled[1:]) != rolled_up_digest(UID, shuffled)


def test_clusters_are_named_as_such():
    clusters = [
        RemovalItem(RemovalEffect.CLUSTER, ("g", "ClusterResourceBinding", "", f"b{number:03}"), "u", f"lion-{number}")
        for number in range(MOST_ITEMS + 1)
    ]
    assert str(clusters[0]) == "cluster lion-0"
    (group,) = confirmable_groups(UID, clusters)
    assert str(group) == "101 clusters"


def test_an_expiry_is_written_in_utc():
    assert Confirmation(frozenset({OTHER, DIGEST}), NOW + timedelta(minutes=5)).format() == (
        f"{DIGEST},{OTHER}@2026-11-29T12:05:00Z"
    )
