"""Which member a cluster is, and which member owns an AppliedWork on it."""

from itertools import product

import pytest

from scorer.api.names import HUB_UID, RELEASED
from scorer.membership.identity import (
    AppliedWorkOwnership,
    HubMember,
    adopted,
    is_released,
    ownership_of,
    placed_by,
    refusal,
    released,
)

US = HubMember.named("berlin", "hub-1")
OTHERS = (HubMember.named("paris", "hub-1"), HubMember.named("berlin", "hub-2"), HubMember.named("paris"))


def applied_work(of, name="shop", annotations=()):
    metadata = {"name": name, "annotations": {**({HUB_UID: of.hub} if of.hub else {}), **dict(annotations)}}
    return {"metadata": metadata, "spec": {"workName": name, "workNamespace": of.namespace}}


@pytest.mark.parametrize(
    ("hub", "namespace", "gone", "us_hub"),
    list(product(("", "hub-1", "hub-2"), ("berlin", "paris"), (False, True), ("", "hub-1"))),
)
def test_how_an_applied_work_stands_to_us(hub, namespace, gone, us_hub):
    """Every combination, against an independent statement of the answer."""
    found = applied_work(HubMember.named(namespace, hub), annotations={RELEASED: "true"} if gone else {})
    if gone:
        wanted = AppliedWorkOwnership.LET_GO
    elif namespace != "berlin":
        wanted = AppliedWorkOwnership.ANOTHERS
    else:
        wanted = {
            ("", ""): AppliedWorkOwnership.OURS,
            ("hub-1", "hub-1"): AppliedWorkOwnership.OURS,
            ("", "hub-1"): AppliedWorkOwnership.UNMARKED,
        }.get((hub, us_hub), AppliedWorkOwnership.ANOTHERS)
    assert ownership_of(found, HubMember.named("berlin", us_hub)) is wanted


def test_what_is_taken_up_is_ours_and_what_was_let_go_of_still_says_whose_it_was():
    for other in OTHERS:
        gone = released(applied_work(other, annotations={"note": "kept"}))
        assert (is_released(gone), placed_by(gone)) == (True, other)
        ours = adopted(gone, US)
        assert (ownership_of(ours, US), ours["metadata"]["annotations"]) == (
            AppliedWorkOwnership.OURS,
            {"note": "kept", HUB_UID: "hub-1"},
        )
        assert ours["spec"]["workName"] == "shop"


@pytest.mark.parametrize(
    ("recorded", "applied", "message"),
    [
        pytest.param(None, [], "", id="nobody-was-here"),
        pytest.param(US, [OTHERS[0]], "", id="we-were-here"),
        pytest.param(HubMember.named("berlin"), [], "", id="we-were-here-and-the-hub-did-not-say"),
        pytest.param(OTHERS[0], [], "recorded as member paris of hub hub-1, not as member berlin of", id="other-name"),
        pytest.param(OTHERS[1], [US], "recorded as member berlin of hub hub-2", id="other-hub"),
        pytest.param(None, [OTHERS[0]], "placed for member paris of hub hub-1 (AppliedWork shop)", id="only-anothers"),
        pytest.param(None, [US, OTHERS[0]], "", id="ours-and-anothers-from-before-it-was-written-down"),
        pytest.param(None, [HubMember.named("berlin")], "", id="ours-from-before-it-was-written-down"),
    ],
)
def test_which_cluster_is_refused(recorded, applied, message):
    found = refusal(recorded, [applied_work(of) for of in applied], US)
    assert message in found
    assert bool(message) == bool(found)


def test_a_hub_that_does_not_say_which_it_is_is_not_the_one_that_was_written_down():
    assert "a hub that does not identify itself" in refusal(US, [], HubMember.named("berlin"))


def test_what_another_has_let_go_of_is_no_reason_to_refuse():
    assert refusal(None, [released(applied_work(OTHERS[0]))], US) == ""
