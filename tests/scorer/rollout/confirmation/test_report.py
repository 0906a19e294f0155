"""Texts about pending removals."""

from scorer.rollout.confirmation.digests import CarriedOut
from scorer.rollout.confirmation.report import pending_message
from tests.scorer.rollout.confirmation.placed_content import (
    HOUR,
    NOW,
    UID,
    confirm,
    item_of,
    make_object,
    make_placement,
)

ITEM = item_of(make_object("db", "StatefulSet", group="apps"))
DIGEST = ITEM.digest(UID)


def test_a_confirmation_that_counts_needs_no_word():
    message = pending_message(make_placement(confirm(DIGEST)), [ITEM], NOW)
    assert message == f"1 object remains on the members until confirmed: StatefulSet shop/db ({DIGEST})"


def test_a_digest_that_was_carried_out_is_named_with_the_time_from_which_it_counts():
    record = CarriedOut().with_digests([DIGEST], NOW + HOUR).format()
    message = pending_message(make_placement(confirm(DIGEST), record), [ITEM], NOW)
    assert f"{DIGEST} has been carried out before. To confirm it again" in message
    assert message.endswith("set an expiry after 2026-11-29T13:00:00Z")
    renewed = make_placement(confirm(DIGEST, expiry=NOW + 2 * HOUR), record)
    assert "carried out" not in pending_message(renewed, [ITEM], NOW)


def test_a_full_record_is_named():
    many = [f"{number:020x}" for number in range(20_000)]
    record = CarriedOut().with_digests(many, NOW + HOUR).format()
    message = pending_message(make_placement(confirm(DIGEST), record), [ITEM], NOW)
    assert message.endswith("the record of carried-out removals is full until 2026-11-29T13:00:00Z")


def test_one_message_names_a_restored_hub_as_well():
    conditions = [{"type": "Applied", "status": "False", "reason": "OlderThanApplied"}]
    binding = {"metadata": {"name": "b"}, "spec": {"targetCluster": "lion"}, "status": {"conditions": conditions}}
    message = pending_message(make_placement(), [ITEM], NOW, [binding])
    assert message.endswith(
        "older Works are held on lion: harbormaster.dev/accept-older-until accepts them, but confirms no removal"
    )
