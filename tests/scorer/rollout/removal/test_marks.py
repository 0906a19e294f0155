"""Whether content on a member may go: every combination of facts."""

from dataclasses import fields
from itertools import product

import pytest

from scorer.api.names import WORK_OBJECTS
from scorer.rollout.removal.marks import (
    RemovalAction,
    RemovalFacts,
    has_hub_signature,
    objects_digest,
    removal_action,
)

FACTS = [field.name for field in fields(RemovalFacts)]


def test_content_goes_only_when_the_loop_has_asked_for_it():
    for values in product([False, True], repeat=len(FACTS)):
        assignment = dict(zip(FACTS, values, strict=True))
        assert removal_action(RemovalFacts(**assignment)) is expected_fate(assignment), assignment


def expected_fate(assignment):
    """State the rule independently: what speaks for the removal of an object, and what against it."""
    is_left_alone = assignment["untouchable"] or assignment["compared"]
    orders = [
        name
        for name, of_a_going_work, facts in (
            ("the Work's end was ordered", True, ("ordered",)),
            ("the hub took it out of the Work", False, ("signed",)),
        )
        if assignment["going"] is of_a_going_work and all(assignment[fact] for fact in facts)
    ]
    reasons_to_stay = [
        *(["not ours"] if not assignment["ours"] else []),
        *(["the member leaves"] if assignment["leaving"] else []),
        *(["the Work is from a backup"] if assignment["older"] else []),
        *(["the Work holds it"] if assignment["listed"] and not assignment["going"] and not is_left_alone else []),
        *(
            ["where it will be is not known"]
            if assignment["unsettled"] and not assignment["going"] and not is_left_alone
            else []
        ),
        *(["nobody asked"] if not orders and not is_left_alone else []),
    ]
    reasons_to_live_on = [
        *(["others own it"] if assignment["shared"] else []),
        *(["somebody has marked it"] if assignment["marked"] else []),
        *(["objects that no Work placed would go with it"] if assignment["occupied"] else []),
        *(["it must be left alone"] if is_left_alone else []),
        *(["abandoned"] if assignment["abandoned"] and assignment["going"] else []),
    ]
    if not reasons_to_stay and assignment["inherited"] and not is_left_alone:
        return RemovalAction.HANDED_OVER
    return (
        RemovalAction.KEPT
        if reasons_to_stay
        else RemovalAction.RELEASED
        if reasons_to_live_on
        else RemovalAction.REMOVED
    )


def test_of_all_that_can_be_known_few_combinations_remove_anything():
    removal_combinations = [
        values
        for values in product([False, True], repeat=len(FACTS))
        if removal_action(RemovalFacts(*values)) is RemovalAction.REMOVED
    ]
    for assignment in (dict(zip(FACTS, values, strict=True)) for values in removal_combinations):
        assert assignment["ours"]
        assert not assignment["shared"]
        assert not assignment["marked"]
        assert not assignment["untouchable"]
        assert not assignment["occupied"]
        assert not assignment["leaving"]
        assert not assignment["older"]
        assert not assignment["inherited"]
        assert assignment["going"] or not assignment["unsettled"]
        assert assignment["ordered"] if assignment["going"] else assignment["signed"]
    assert len(removal_combinations) == 8 + 4, (
        "going: listed, signed, unsettled do not matter; not going: ordered, abandoned do not"
    )


def test_without_any_facts_everything_is_kept():
    assert removal_action(RemovalFacts()) is RemovalAction.KEPT


def work(**annotations):
    return {"metadata": {"name": "w", "annotations": annotations}}


def config_map(name, namespace="web", version="v1", **data):
    return {
        "apiVersion": version,
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def test_a_signature_is_about_which_objects_there_are():
    manifests = [config_map("a"), config_map("b")]
    assert objects_digest(manifests) == objects_digest([config_map("b", level=1.0), config_map("a")])
    other_manifests = ([], manifests[:1], [*manifests, None], [config_map("a"), config_map("b", "shop")])
    assert objects_digest(manifests) not in {objects_digest(contents) for contents in other_manifests}
    signed = work(**{WORK_OBJECTS: objects_digest(manifests)})
    assert has_hub_signature({**signed, "spec": {"workload": {"manifests": manifests}}})
    assert not has_hub_signature(signed)
    assert not has_hub_signature(work())


@pytest.mark.parametrize("manifest", [None, 7, "text", [], {}, {"metadata": None}, {"metadata": [], "apiVersion": 1}])
def test_whatever_a_manifest_is_it_can_be_signed(manifest):
    assert objects_digest([manifest, config_map("a")]) == objects_digest([config_map("a"), manifest])
