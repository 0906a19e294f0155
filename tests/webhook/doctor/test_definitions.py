"""Which definitions are good enough for this release."""

from copy import deepcopy

import pytest

from scorer.api.crd.definitions import custom_resource_definitions
from scorer.api.unstructured.documents import name_of
from webhook.doctor.definitions import judge_definitions
from webhook.doctor.finding import State

PLACEMENTS = "clusterresourceplacements.placement.kubernetes-fleet.io"
GATES = "clusterupgradegates.upgrade.harbormaster.dev"


@pytest.fixture
def stored():
    """All definitions by name, as an API server has them."""
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    return {name_of(each): deepcopy(each | {"status": established}) for each in custom_resource_definitions()}


def schema(definition, version=-1):
    return definition["spec"]["versions"][version]["schema"]["openAPIV3Schema"]


def problems(stored):
    return list(judge_definitions(stored.values()).problems)


def test_all_that_are_printed_are_well(stored):
    finding = judge_definitions(stored.values())
    assert (finding.state, finding.found) == (State.OK, "35 are installed, with all fields that this release needs")


def test_what_members_and_karpenter_have_may_be_missing(stored):
    del stored["nodepools.karpenter.sh"], stored["appliedworks.placement.kubernetes-fleet.io"]
    finding = judge_definitions(stored.values())
    assert finding.state is State.OK
    assert finding.found.endswith(
        ". Not installed, and not required: appliedworks.placement.kubernetes-fleet.io, nodepools.karpenter.sh"
    )


def lose(stored):
    del stored[GATES]


def unestablish(stored):
    stored[GATES]["status"]["conditions"] = []


def narrow(stored):
    stored[GATES]["spec"]["scope"] = "Namespaced"


def stop_serving(stored):
    stored[PLACEMENTS]["spec"]["versions"][0]["served"] = False


def lose_status(stored):
    del stored[GATES]["spec"]["versions"][0]["subresources"]


def lose_field(stored):
    del schema(stored[PLACEMENTS])["properties"]["spec"]["properties"]["strategy"]["properties"]["deleteStrategy"]


def lose_value(stored):
    place = schema(stored[PLACEMENTS])["properties"]["spec"]["properties"]["policy"]["properties"]["placementType"]
    place["enum"].remove("PickN")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lose, f"{GATES} is missing"),
        (unestablish, f"{GATES} is installed but not served: it is not Established"),
        (narrow, f"{GATES}: its scope is Namespaced, not Cluster"),
        (stop_serving, f"{PLACEMENTS}: version v1beta1 is not served"),
        (lose_status, f"{GATES}: version v1alpha1 has no subresource status"),
    ],
)
def test_what_is_wrong_is_named(stored, spoil, said):
    spoil(stored)
    assert problems(stored) == [said]


@pytest.mark.parametrize(
    ("spoil", "lacking"),
    [(lose_field, "spec.strategy.deleteStrategy"), (lose_value, "spec.policy.placementType=PickN")],
)
def test_an_old_definition_is_told_by_what_it_lacks(stored, spoil, lacking):
    spoil(stored)
    version = stored[PLACEMENTS]["spec"]["versions"][-1]["name"]
    assert problems(stored) == [f"{PLACEMENTS}: version {version} is old: it lacks {lacking}"]


def test_a_definition_may_say_more(stored):
    """A newer one, or that of KubeFleet: more fields, more values, other bounds."""
    spec = schema(stored[PLACEMENTS])["properties"]["spec"]["properties"]
    spec["revisionHistoryLimit"] |= {"maximum": 7}
    spec["novelty"] = {"type": "string"}
    spec["policy"]["properties"]["placementType"]["enum"].append("PickBest")
    assert problems(stored) == []


def test_karpenters_own_definition_may_differ(stored):
    schema(stored["nodepools.karpenter.sh"])["properties"].pop("spec")
    assert problems(stored) == []
