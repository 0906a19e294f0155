"""Objects that leave one cluster while their placement places them."""

from dataclasses import replace

from scorer.api.names import CARRIED_OUT, OBJECTS_PENDING
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.confirmation.digests import CarriedOut, confirmable_groups
from scorer.rollout.confirmation.exemption import Exemptions
from scorer.rollout.confirmation.on_cluster import LeavingObjects, format_pending, judge_leaving, pending_on
from scorer.rollout.confirmation.sources import PlacedObject
from scorer.rollout.object_size import object_identity
from tests.scorer.rollout.confirmation.placed_content import (
    DEFAULTS,
    HOUR,
    NOW,
    UID,
    config_maps,
    confirm,
    item_of,
    make_placement,
    uid,
)
from webhook.validation.framework.object_meta import LONGEST_ANNOTATIONS

MAPS = config_maps(20)
PLACED = {object_identity(each): PlacedObject(each, uid(each)) for each in MAPS}
NOT_EXEMPT = Exemptions.of({}, (), DEFAULTS, {}.get, NOW)


def judge(held, leaving, binding, confirmed=()):
    objects = LeavingObjects(frozenset(map(object_identity, held)), frozenset(map(object_identity, leaving)), PLACED)
    digests = [item_of(each).digest(UID) for each in confirmed]
    placement = make_placement(confirm(*digests) if digests else "")
    return judge_leaving(DEFAULTS, placement, binding, objects, NOT_EXEMPT, NOW)


def test_confirming_some_objects_does_not_confirm_the_others():
    binding = {"metadata": {"name": "shop-fish"}}
    first = judge(MAPS, MAPS[:11], binding)
    assert len(first.pending) == 11
    binding = with_metadata(binding, annotations={OBJECTS_PENDING: format_pending(first.pending)})
    again = judge(MAPS, MAPS[:11], binding, confirmed=MAPS[:6])
    assert [item.identity for item in again.pending] == [object_identity(each) for each in MAPS[6:11]]
    assert (len(again.confirmed), again.warned) == (6, ())


def test_a_roll_up_of_many_objects_confirms_them():
    many = config_maps(150)
    placed = {object_identity(each): PlacedObject(each, uid(each)) for each in many}
    leaving = frozenset(placed)
    (group,) = confirmable_groups(UID, map(item_of, many))
    (wider,) = confirmable_groups(UID, map(item_of, config_maps(160)))
    for digest, shown in ((group.digest, ()), (wider.digest, wider.items)):
        objects = LeavingObjects(leaving, leaving, placed, shown)
        binding = {"metadata": {"name": "shop-fish"}}
        judgement = judge_leaving(DEFAULTS, make_placement(confirm(digest)), binding, objects, NOT_EXEMPT, NOW)
        assert (judgement.pending, judgement.confirmed.keys()) == ((), {digest})


def test_a_digest_on_record_counts_until_its_work_is_written():
    digest, works = item_of(MAPS[0]).digest(UID), {object_identity(MAPS[0]): "u.1"}
    record = CarriedOut().with_digests([digest], NOW + HOUR, "u.1").format()
    binding = with_metadata({"metadata": {"name": "shop-fish"}}, annotations={CARRIED_OUT: record})
    held = frozenset({object_identity(MAPS[0])})
    policy, placement = DEFAULTS, make_placement(confirm(digest))
    judgement = judge_leaving(
        policy, placement, binding, LeavingObjects(held, held, PLACED, (), works), NOT_EXEMPT, NOW
    )
    assert (judgement.pending, judgement.confirmed) == ((), {digest: {"u.1"}})
    later = {object_identity(MAPS[0]): "u.2"}
    judgement = judge_leaving(
        policy, placement, binding, LeavingObjects(held, held, PLACED, (), later), NOT_EXEMPT, NOW
    )
    assert judgement.pending, "it came back since, and leaves again"


def test_the_record_of_ten_thousand_objects_fits_into_an_annotation():
    binding = {"metadata": {"name": "shop-fish"}}
    items = [replace(item_of(each), since=NOW) for each in config_maps(10_000)]
    record = format_pending(items)
    assert len(record) < LONGEST_ANNOTATIONS / 2
    recorded = pending_on(with_metadata(binding, annotations={OBJECTS_PENDING: record}))
    assert 1000 < len(recorded) < 10_000
    assert set(recorded) <= set(items)
