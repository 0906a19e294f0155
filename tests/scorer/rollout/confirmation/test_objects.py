"""Objects that leave a placement: which wait for confirmation, and what is placed meanwhile."""

import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.rollout.confirmation.digests import MOST_ITEMS, confirmable_groups, rolled_up_digest
from scorer.rollout.confirmation.objects import pending_objects
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy
from scorer.rollout.object_size import object_identity
from tests.scorer.rollout.confirmation.placed_content import (
    HOUR,
    NOW,
    UID,
    carried_out,
    config_maps,
    confirm,
    item_of,
    judge,
    make_envelope,
    make_group,
    make_namespace,
    make_object,
    make_placement,
    names,
    uid,
)

SHOP, LIVE = make_namespace(), [make_namespace()]
DATABASE = make_object("db", "StatefulSet", group="apps")
CLAIM = make_object("data", "PersistentVolumeClaim")
CLUSTER = make_object("pg", "Cluster", group="postgresql.cnpg.io")
BUCKET = make_object("b", "Bucket", group="s3.aws.upbound.io")
MAPS = config_maps(20)


@pytest.mark.parametrize(
    ("before", "selected", "pending"),
    [
        pytest.param([SHOP, *MAPS], [SHOP, *MAPS[1:]], [], id="one-object"),
        pytest.param([SHOP, *MAPS], [SHOP, *MAPS[10:]], [], id="ten-of-many-are-not-more-than-ten"),
        pytest.param([SHOP, *MAPS], [SHOP, *MAPS[11:]], MAPS[:11], id="eleven-objects"),
        pytest.param([SHOP, *MAPS[:3]], [SHOP, MAPS[0]], [], id="two-of-four"),
        pytest.param([SHOP, *MAPS[:4]], [SHOP, MAPS[0]], MAPS[1:4], id="three-of-five-are-more-than-half"),
        pytest.param([SHOP, *MAPS[:5]], [SHOP, *MAPS[:2]], [], id="three-of-six-are-half"),
        pytest.param(MAPS[:1], [], MAPS[:1], id="everything-even-if-one"),
        pytest.param(MAPS[:1], MAPS[1:2], MAPS[:1], id="everything-even-if-replaced"),
        pytest.param([SHOP, DATABASE, *MAPS], [SHOP, *MAPS], [DATABASE], id="a-stateful-set"),
        pytest.param([SHOP, CLAIM, *MAPS], [SHOP, *MAPS], [CLAIM], id="a-claim"),
        pytest.param([SHOP, CLUSTER, *MAPS], [SHOP, *MAPS], [CLUSTER], id="a-database-of-an-operator"),
        pytest.param([SHOP, BUCKET, *MAPS], [SHOP, *MAPS], [BUCKET], id="a-managed-resource"),
        pytest.param([SHOP, DATABASE, *MAPS], [SHOP, *MAPS[1:]], [DATABASE], id="only-the-database-waits"),
        pytest.param([SHOP], [SHOP, *MAPS], [], id="more-than-before"),
    ],
)
def test_what_waits(before, selected, pending):
    judgement = judge(before, selected, namespaces=LIVE)
    assert [item.identity for item in judgement.pending] == sorted(map(object_identity, pending))
    expected = {object_identity(content) for content in (*selected, *pending)}
    assert {object_identity(content) for content in judgement.objects} == expected


def test_a_namespace_is_one_item_with_all_that_was_placed_in_it():
    judgement = judge([SHOP, DATABASE, *MAPS[:3]], [])
    (item,) = judgement.pending
    assert str(item) == "Namespace shop and 4 objects in it"
    assert item.digest(UID) == item_of(SHOP).digest(UID)
    assert len(judgement.objects) == 5


def test_the_namespace_of_a_resource_placement_is_the_item_while_it_ends():
    ending = {**SHOP, "metadata": {"name": "shop", "uid": "u-shop", "deletionTimestamp": "2026-11-29T11:59:00Z"}}
    (item,) = judge(MAPS, MAPS[1:], namespaces=[ending]).pending
    assert (item.identity, item.uid) == (("", "Namespace", "", "shop"), "u-shop")


def test_a_loop_of_single_deletions_is_one_accident():
    groups, placed = [make_group(0, [SHOP, *MAPS])], [SHOP, *MAPS]
    for step in range(1, 21):
        judgement = judge(groups, [SHOP, *MAPS[step:]], namespaces=LIVE, now=NOW + timedelta(minutes=step))
        remaining = list(judgement.objects)
        if len(remaining) != len(placed):
            groups.append(make_group(step, remaining, NOW + timedelta(minutes=step), judgement.sources))
        placed = remaining
    assert len(placed) == 11  # ten objects were lost, as a warning; the others wait
    assert len(pending_objects(groups[-1])) == 0  # nothing changed in the content: only its record does
    assert len(judgement.pending) == 10


def test_losses_before_the_window_do_not_count():
    groups = [
        make_group(0, [SHOP, *MAPS], NOW - 3 * HOUR),
        make_group(1, [SHOP, *MAPS[8:]], NOW - 2 * HOUR),
    ]
    assert not judge(groups, [SHOP, *MAPS[13:]], namespaces=LIVE).pending
    groups[1] = make_group(1, [SHOP, *MAPS[8:]], NOW - HOUR / 2)
    assert judge(groups, [SHOP, *MAPS[13:]], namespaces=LIVE).pending


def test_a_pending_object_waits_after_the_window():
    groups = [make_group(0, [SHOP, *MAPS], NOW - 2 * HOUR), make_group(1, [SHOP, *MAPS[10:]], NOW)]
    first = judge(groups, [SHOP, *MAPS[11:]], namespaces=LIVE)
    groups[1] = make_group(1, list(first.objects), NOW, first.sources)
    second_judgement = judge(groups[1:], [SHOP, *MAPS[11:]], namespaces=LIVE, now=NOW + 2 * HOUR)
    assert [item.identity for item in first.pending] == [object_identity(MAPS[10])]
    assert (second_judgement.pending, second_judgement.warned) == (first.pending, ())


def test_confirming_some_objects_does_not_confirm_the_others():
    first = judge([SHOP, *MAPS], [SHOP, *MAPS[11:]], namespaces=LIVE)
    record = make_group(0, list(first.objects), sources=first.sources)
    placement = make_placement(confirm(*(item_of(content).digest(UID) for content in MAPS[:6])))
    second_judgement = judge([record], [SHOP, *MAPS[11:]], placement=placement, namespaces=LIVE)
    assert [item.identity for item in second_judgement.pending] == [object_identity(content) for content in MAPS[6:11]]
    assert (len(second_judgement.confirmed), second_judgement.warned) == (6, ())


def test_a_pending_object_is_removed_once_the_operator_only_warns():
    first = judge([SHOP, *MAPS], [SHOP, *MAPS[11:]], namespaces=LIVE)
    record = make_group(0, list(first.objects), sources=first.sources)
    second_judgement = judge([record], [SHOP, *MAPS[11:]], placement=make_placement(setting="Warn"), namespaces=LIVE)
    assert (len(second_judgement.pending), len(second_judgement.warned)) == (0, 11)


def test_selections_that_take_turns_do_not_swap_all_content():
    """Each swap loses ten of twenty, compared with the largest selection, but all that is placed at that time."""
    first, second = MAPS[:10], MAPS[10:]
    groups = [make_group(0, [*first, *second], NOW - HOUR / 2), make_group(1, first, NOW - HOUR / 3)]
    judgement = judge(groups, second, namespaces=LIVE)
    assert [item.identity for item in judgement.pending] == sorted(map(object_identity, first))


def test_generated_names_are_no_accident():
    groups = [
        make_group(step, [SHOP, make_object(f"config-{step}"), *MAPS[:5]], NOW - timedelta(minutes=40 - step))
        for step in range(30)
    ]
    assert not judge(groups, [SHOP, make_object("config-30"), *MAPS[:5]], namespaces=LIVE).pending


@pytest.mark.parametrize(
    ("setting", "pending", "warned"),
    [
        pytest.param("Off", 0, 0, id="off"),
        pytest.param("Warn", 0, 12, id="warn"),
        pytest.param("Confirm", 12, 0, id="confirm"),
        pytest.param("", 12, 0, id="default"),
        pytest.param("No", 12, 0, id="unreadable-is-the-default"),
    ],
)
def test_the_annotation_overrides_every_mode(setting, pending, warned):
    judgement = judge([SHOP, *MAPS], [SHOP, *MAPS[12:]], placement=make_placement(setting=setting), namespaces=LIVE)
    assert (len(judgement.pending), len(judgement.warned)) == (pending, warned)


def test_one_object_is_removed_with_a_warning():
    judgement = judge([SHOP, *MAPS], [SHOP, *MAPS[1:]], namespaces=LIVE)
    assert [item.identity for item in judgement.warned] == [object_identity(MAPS[0])]


def test_exempt_namespaces_neither_wait_nor_count():
    preview = make_namespace("preview", {"harbormaster.dev/ephemeral": "true"})
    inside = [make_object(f"p{number}", namespace="preview") for number in range(20)]
    assert not judge([preview, *inside, SHOP, *MAPS], [SHOP, *MAPS[1:]], namespaces=LIVE).pending
    labelled_now = [make_namespace("shop", {"harbormaster.dev/ephemeral": "true"})]
    assert judge([SHOP, *MAPS], [], namespaces=labelled_now).pending, "the label was not there when it was placed"
    policy = RemovalPolicy(exempt=None)
    assert judge([preview, *inside], [], policy=policy).pending


def test_confirming_one_of_many_makes_the_digest_of_their_kind_once(monkeypatch):
    """Made for each of 10,000 pending objects, these digests would keep the loop from all other placements."""
    calls = []

    def count_digest(uid, items):
        calls.append(uid)
        return rolled_up_digest(uid, items)

    monkeypatch.setattr("scorer.rollout.confirmation.objects.rolled_up_digest", count_digest)
    many = config_maps(200)
    digest = item_of(many[0]).digest(UID)
    judgement = judge([SHOP, *many], [SHOP], placement=make_placement(confirm(digest)), namespaces=LIVE)
    assert (len(judgement.pending), judgement.confirmed) == (199, {digest})
    assert len(calls) == len({"Namespace", "ConfigMap"})


def test_a_confirmed_removal_is_carried_out_once():
    digest = item_of(DATABASE).digest(UID)
    before, after = [SHOP, DATABASE, *MAPS], [SHOP, *MAPS]
    judgement = judge(before, after, placement=make_placement(confirm(digest)), namespaces=LIVE)
    assert (judgement.pending, judgement.confirmed) == ((), {digest})
    ordered = make_placement(confirm(digest), carried_out(digest, index=1))
    assert not judge(before, after, placement=ordered, namespaces=LIVE).pending, "the crash before the snapshot"
    groups = [make_group(0, before), make_group(1, after), make_group(2, before)]
    assert judge(groups, after, placement=ordered, namespaces=LIVE).pending, "the label was toggled"


@pytest.mark.parametrize(
    ("expiry", "counts"),
    [
        pytest.param(NOW, False, id="expired-now"),
        pytest.param(NOW + timedelta(seconds=1), True, id="a-second-left"),
        pytest.param(NOW + timedelta(hours=72), True, id="72h"),
        pytest.param(NOW + timedelta(hours=72, seconds=1), False, id="more-than-72h"),
    ],
)
def test_the_bounds_of_an_expiry(expiry, counts):
    placement = make_placement(confirm(item_of(DATABASE).digest(UID), expiry=expiry))
    judgement = judge([SHOP, DATABASE, *MAPS], [SHOP, *MAPS], placement=placement, namespaces=LIVE)
    assert (not judgement.pending) is counts


def test_an_expired_record_does_not_block_a_new_confirmation():
    digest = item_of(DATABASE).digest(UID)
    placement = make_placement(confirm(digest), carried_out(digest, index=0, expiry=NOW - HOUR))
    judgement = judge([SHOP, DATABASE, *MAPS], [SHOP, *MAPS], placement=placement, namespaces=LIVE)
    assert (judgement.pending, judgement.confirmed) == ((), {digest})


def test_confirmed_removals_do_not_count_against_later_ones():
    digests = [item_of(content).digest(UID) for content in MAPS[:11]]
    groups = [make_group(0, [SHOP, *MAPS], NOW - HOUR / 2), make_group(1, [SHOP, *MAPS[11:]], NOW - HOUR / 3)]
    placement = make_placement(carried_out=carried_out(*digests, index=1))
    assert not judge(groups, [SHOP, *MAPS[12:]], placement=placement, namespaces=LIVE).pending
    assert judge(groups, [SHOP, *MAPS[12:]], namespaces=LIVE).pending


def test_many_items_are_rolled_up_and_stay_confirmed_when_they_shrink():
    maps = config_maps(MOST_ITEMS + 20)
    before = [SHOP, *maps, make_object("other")]
    judgement = judge(before, [SHOP, make_object("other")], namespaces=LIVE)
    (group,) = confirmable_groups(UID, judgement.pending)
    assert str(group) == f"{len(maps)} ConfigMap objects in shop"
    stored = make_group(0, list(judgement.objects), sources=judgement.sources)
    placement = make_placement(confirm(group.digest))
    restored_judgement = judge([stored], [SHOP, make_object("other"), maps[0]], placement=placement, namespaces=LIVE)
    assert not restored_judgement.pending
    grown_judgement = judge([stored], [SHOP], placement=placement, namespaces=LIVE)
    assert "other" not in names(grown_judgement), "removed with a warning"
    assert restored_judgement.confirmed == grown_judgement.confirmed == {group.digest}
    policy = RemovalPolicy(objects=ConfirmationMode.CONFIRM)
    grown_judgement = judge([stored], [SHOP], placement=placement, namespaces=LIVE, policy=policy)
    assert [item.identity[3] for item in grown_judgement.pending] == ["other"]


def test_the_digest_of_a_deletion_of_a_whole_kind_covers_what_remains_of_it():
    digest = rolled_up_digest(UID, map(item_of, MAPS))
    judgement = judge([SHOP, *MAPS], [SHOP, *MAPS[15:]], placement=make_placement(confirm(digest)), namespaces=LIVE)
    assert not judgement.pending


def test_an_envelope_keeps_the_pending_entry_and_takes_the_rest_of_the_edit():
    before = make_envelope("e", DATABASE, MAPS[0])
    edited = make_envelope("e", {**MAPS[0], "data": {"a": "2"}})
    judgement = judge([SHOP, before], [SHOP, edited], namespaces=LIVE)
    (item,) = judgement.pending
    assert item.digest(UID) == item_of(DATABASE, source=before).digest(UID)
    envelope = judgement.objects[-1]
    assert envelope["data"] == {"db": DATABASE, "c000": {**MAPS[0], "data": {"a": "2"}}}
    stored = make_group(0, list(judgement.objects), sources=judgement.sources)
    second_judgement = judge([stored], [SHOP, edited], namespaces=LIVE)
    assert (second_judgement.objects, second_judgement.sources) == (judgement.objects, judgement.sources)
    placement = make_placement(confirm(item.digest(UID)))
    assert judge([stored], [SHOP, edited], placement=placement, namespaces=LIVE).objects == (SHOP, edited)


def test_a_deleted_envelope_remains_with_its_pending_content():
    before = make_envelope("e", DATABASE, MAPS[0])
    judgement = judge([SHOP, before, *MAPS[1:9]], [SHOP, *MAPS[1:9]], namespaces=LIVE)
    assert next(content["data"] for content in judgement.objects if "data" in content) == {"db": DATABASE}


def test_a_key_that_another_object_took_is_kept_free():
    before, edited = make_envelope("e", DATABASE), make_envelope("e", {**MAPS[0], "metadata": {**MAPS[0]["metadata"]}})
    edited["data"] = {"db": MAPS[0]}
    judgement = judge([SHOP, before], [SHOP, edited], namespaces=LIVE)
    assert judgement.objects[-1]["data"] == {"db": MAPS[0], "db-1": DATABASE}


def test_the_record_of_a_snapshot_names_what_is_pending():
    judgement = judge([SHOP, DATABASE, CLAIM, *MAPS], [SHOP, *MAPS], namespaces=LIVE)
    assert pending_objects(make_group(0, list(judgement.objects), sources=judgement.sources)) == judgement.pending
    assert all(item.since == NOW for item in judgement.pending)
    empty_judgement = judge([SHOP, DATABASE, *MAPS], [])
    assert (
        pending_objects(make_group(0, list(empty_judgement.objects), sources=empty_judgement.sources))
        == empty_judgement.pending
    )


def test_what_was_pending_is_judged_again_without_its_record():
    judgement = judge([SHOP, DATABASE, *MAPS], [SHOP, *MAPS], namespaces=LIVE)
    unrecorded = make_group(0, list(judgement.objects), sources={})
    assert [item.identity for item in judge([unrecorded], [SHOP, *MAPS], namespaces=LIVE).pending] == [
        object_identity(DATABASE)
    ]


ALL = [SHOP, DATABASE, CLAIM, *MAPS]


@given(st.sets(st.integers(0, len(ALL) - 1)), st.sets(st.integers(0, len(ALL) - 1)), st.randoms())
def test_only_new_items_of_a_grown_effect_wait(first, more, chance: random.Random):
    selected = [content for at, content in enumerate(ALL) if at not in first]
    first_judgement = judge(ALL, selected, namespaces=LIVE)
    digests = [item.digest(UID) for item in first_judgement.pending]
    if not digests:
        return
    grown_selection = [content for at, content in enumerate(ALL) if at not in first | more]
    judgement = judge(ALL, grown_selection, placement=make_placement(confirm(*digests)), namespaces=LIVE)
    assert not {item.identity for item in first_judgement.pending} & {item.identity for item in judgement.pending}
    if SHOP in selected:
        placed = {object_identity(content) for content in judgement.objects}
        assert not {item.identity for item in first_judgement.pending} & placed, (
            "confirmed, though its Namespace leaves now"
        )
    chance.shuffle(digests)
    shrunken_selection = [*selected, *(content for content in ALL if content not in selected and chance.random() < 0.5)]
    stored = make_group(0, list(first_judgement.objects), sources=first_judgement.sources)
    assert not judge([stored], shrunken_selection, placement=make_placement(confirm(*digests)), namespaces=LIVE).pending


@given(st.sets(st.integers(0, len(ALL) - 1)))
def test_nothing_that_must_be_confirmed_is_missing_from_what_is_placed(removed):
    selected = [content for at, content in enumerate(ALL) if at not in removed]
    judgement = judge(ALL, selected, namespaces=LIVE)
    placed = {object_identity(content) for content in judgement.objects}
    must = {0, 1, 2} & removed
    assert all(object_identity(ALL[at]) in placed for at in must)
    loss = len(ALL) - len(placed)
    assert loss <= 10
    stored = make_group(0, list(judgement.objects), sources=judgement.sources)
    second_judgement = judge([stored], selected, namespaces=LIVE)
    assert not {item.identity for item in judgement.pending} - {item.identity for item in second_judgement.pending}


def test_a_single_object_waits_if_the_operator_says_so():
    policy = RemovalPolicy(objects=ConfirmationMode.CONFIRM)
    assert judge([SHOP, *MAPS], [SHOP, *MAPS[1:]], policy=policy, namespaces=LIVE).pending


def test_names_are_in_the_order_of_snapshots():
    judgement = judge([SHOP, *MAPS[:12]], [SHOP], namespaces=LIVE)
    assert names(judgement) == ["shop", *(content["metadata"]["name"] for content in MAPS[:12])]
    assert judgement.sources[object_identity(SHOP)].uid == uid(SHOP)
