"""Objects that leave one cluster while their placement places them."""

from dataclasses import replace

from scorer.api.names import OBJECTS_PENDING, OBJECTS_REMOVAL
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.bindings import ObjectRemoval, ordering_objects
from scorer.rollout.confirmation.digests import confirmable_groups
from scorer.rollout.confirmation.exemption import Exemptions
from scorer.rollout.confirmation.on_cluster import (
    LeavingJudgement,
    LeavingObjects,
    format_record,
    judge_leaving,
    object_record,
    pending_binding_items,
)
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
PLACED = {object_identity(content): PlacedObject(content, uid(content)) for content in MAPS}
NOT_EXEMPT = Exemptions.of({}, (), DEFAULTS, {}.get, NOW)


def judge(present, leaving, binding, confirmed=(), now=NOW):
    objects = LeavingObjects(frozenset(map(object_identity, present)), frozenset(map(object_identity, leaving)), PLACED)
    digests = [item_of(content).digest(UID) for content in confirmed]
    placement = make_placement(confirm(*digests) if digests else "")
    return judge_leaving(DEFAULTS, placement, binding, objects, NOT_EXEMPT, now)


def with_record(binding, judgement):
    """Return a binding as the loop writes it."""
    record = {OBJECTS_PENDING: format_record(judgement), OBJECTS_REMOVAL: judgement.removal}
    return with_metadata(binding, annotations={name: text or None for name, text in record.items()})


def test_confirming_some_objects_does_not_confirm_the_others():
    binding = {"metadata": {"name": "shop-fish"}}
    first = judge(MAPS, MAPS[:11], binding)
    assert len(first.pending) == 11
    binding = with_record(binding, first)
    second_judgement = judge(MAPS, MAPS[:11], binding, confirmed=MAPS[:6])
    assert [item.identity for item in second_judgement.pending] == [object_identity(content) for content in MAPS[6:11]]
    assert (len(second_judgement.confirmed), second_judgement.warned) == (6, ())


def test_objects_that_have_waited_leave_when_the_rollout_updates_the_binding():
    binding = {"metadata": {"name": "shop-fish"}}
    binding = with_record(binding, judge(MAPS, MAPS[:11], binding))
    confirmed_judgement = judge(MAPS, MAPS[:11], binding, confirmed=MAPS[:11])
    assert (len(confirmed_judgement.confirmed), confirmed_judgement.pending) == (11, ())
    assert (confirmed_judgement.removal, len(confirmed_judgement.retained), len(confirmed_judgement.digests)) == (
        ObjectRemoval.CONFIRMED,
        11,
        11,
    )
    binding = with_record(binding, confirmed_judgement)
    assert pending_binding_items(binding) == ()
    expired_judgement = judge(MAPS, MAPS[:11], binding)
    assert (expired_judgement.confirmed, expired_judgement.removal, expired_judgement.digests) == (
        confirmed_judgement.confirmed,
        ObjectRemoval.CONFIRMED,
        frozenset(),
    )
    ordered_judgement = judge(MAPS, MAPS[:11], ordering_objects(binding))
    assert (ordered_judgement.removal, ordered_judgement.retained) == (ObjectRemoval.ORDERED, frozenset())


def test_the_time_at_which_an_object_became_pending_remains():
    binding = {"metadata": {"name": "shop-fish"}}
    binding = with_record(binding, judge(MAPS, MAPS[:11], binding))
    assert with_record(binding, judge(MAPS, MAPS[:11], binding, now=NOW + HOUR)) == binding


def test_objects_that_were_confirmed_in_advance_leave_with_the_update_that_takes_them_off():
    judgement = judge(MAPS, MAPS[:11], {"metadata": {"name": "shop-fish"}}, confirmed=MAPS[:11])
    assert (judgement.removal, judgement.retained) == (ObjectRemoval.ORDERED, frozenset())


def test_an_object_that_is_placed_again_is_no_longer_confirmed():
    binding = {"metadata": {"name": "shop-fish"}}
    binding = with_record(binding, judge(MAPS, MAPS[:11], binding))
    binding = with_record(binding, judge(MAPS, MAPS[:11], binding, confirmed=MAPS[:11]))
    assert judge(MAPS, [], binding) == LeavingJudgement()


def test_a_roll_up_of_many_objects_confirms_them():
    many = config_maps(150)
    placed = {object_identity(content): PlacedObject(content, uid(content)) for content in many}
    leaving = frozenset(placed)
    (group,) = confirmable_groups(UID, map(item_of, many))
    (wider_group,) = confirmable_groups(UID, map(item_of, config_maps(160)))
    for digest, items in ((group.digest, ()), (wider_group.digest, wider_group.items)):
        objects = LeavingObjects(leaving, leaving, placed, items)
        binding = {"metadata": {"name": "shop-fish"}}
        judgement = judge_leaving(DEFAULTS, make_placement(confirm(digest)), binding, objects, NOT_EXEMPT, NOW)
        assert (judgement.pending, judgement.digests) == ((), {digest})


def test_the_record_of_ten_thousand_objects_fits_into_an_annotation():
    binding = {"metadata": {"name": "shop-fish"}}
    items = [replace(item_of(content), since=NOW) for content in config_maps(10_000)]
    binding = with_record(binding, LeavingJudgement(tuple(items[100:]), confirmed=tuple(items[:100])))
    assert len(binding["metadata"]["annotations"][OBJECTS_PENDING]) < LONGEST_ANNOTATIONS / 2
    record = object_record(binding)
    assert 1000 < len(record) < 10_000
    assert record.keys() <= set(items)
    assert sum(record.values()) == 100, "confirmed ones are recorded first"
