"""Requests: what of a policy is checked, and what makes it invalid (DV-5)."""

import pytest

from scorer.placement.request import read_request
from scorer.selectors import InvalidPolicyError
from tests.scorer.builders import NODES, has, pick_fixed, pick_n, policy, prefer, spread, term

REQUIRED = "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms"
PREFERRED = "spec.policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution"


def two_sorters(other):
    both = prefer(50, NODES)
    both["preference"]["metricSorter"] = other
    return both


INVALID = [
    pytest.param(
        {"required": [{}, term(properties=[has(NODES, "About", "5")])]},
        [f"{REQUIRED}[1].propertySelector.matchExpressions[0].operator", "About"],
        id="unknown-operator",
    ),
    pytest.param(
        {"required": [term(properties=[{"name": NODES, "operator": "Ge", "values": ["1", "2"]}])]},
        [f"{REQUIRED}[0]", "values", "2 values"],
        id="not-exactly-one-value",
    ),
    pytest.param({"required": [term(properties=[has(NODES, "Ge", "5K")])]}, ["values[0]", "5K"], id="unparsable-value"),
    pytest.param(
        {"required": [term(properties=[has("resources.kubernetes-fleet.io/used-cpu", "Ge", "5")])]},
        ["name", "used-cpu"],
        id="bad-capacity-kind",
    ),
    pytest.param(
        {"required": [term(expressions=[{"key": "env", "operator": "In", "values": []}])]},
        [f"{REQUIRED}[0].labelSelector", "In"],
        id="bad-label-expression",
    ),
]
INVALID_FOR_PICK_N = [
    pytest.param(
        {"preferred": [prefer(5), prefer(50, NODES, "Sideways")]},
        [f"{PREFERRED}[1].preference.propertySorter.sortOrder", "Sideways"],
        id="unknown-order",
    ),
    pytest.param({"preferred": [prefer(50, "not a name")]}, [f"{PREFERRED}[0]", "not a name"], id="bad-sorter-name"),
    pytest.param(
        {"preferred": [prefer(50, "resources.kubernetes-fleet.io/total-")]},
        [f"{PREFERRED}[0]", "total-"],
        id="empty-resource",
    ),
    pytest.param({"preferred": [prefer(0, NODES, "Sideways")]}, ["Sideways"], id="weight-0-must-be-valid-too"),
    pytest.param(
        {"preferred": [two_sorters({"name": NODES, "sortOrder": "Ascending"})]},
        [f"{PREFERRED}[0].preference", "metricSorter", "differ"],
        id="DV-1-two-different-sorters",
    ),
    pytest.param({"preferred": [prefer(5, labels={"env": "two words"})]}, ["two words"], id="bad-label-in-preference"),
]


def assert_invalid(wanted, words):
    with pytest.raises(InvalidPolicyError) as caught:
        read_request(wanted)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(("parts", "words"), INVALID)
def test_required_parts_are_checked(parts, words):
    assert_invalid(policy(**parts), words)
    assert_invalid(pick_n(0, **parts), words)
    assert read_request(policy("PickFixed", names=["a"], **parts)).wanted == 1  # does not use them


@pytest.mark.parametrize(("parts", "words"), INVALID_FOR_PICK_N)
def test_preferences_are_checked_where_they_are_used(parts, words):
    assert_invalid(pick_n(0, **parts), words)
    assert read_request(policy(**parts)).wanted is None
    assert read_request(policy("PickFixed", names=["a"], **parts)).wanted == 1


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({"clusterNames": 7}, id="names"),
        pytest.param({"numberOfClusters": -5}, id="number"),
        pytest.param({"topologySpreadConstraints": [{"maxSkew": 0}]}, id="constraints"),
        pytest.param(
            {"affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 900}]}}},
            id="preferences",
        ),
    ],
)
def test_pick_all_does_not_look_at_parts_of_other_types(part):
    assert read_request({"placementType": "PickAll", **part}).wanted is None


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        pytest.param(
            policy("PickN"), ["spec.policy.numberOfClusters", "must be set when placementType is PickN"], id="no-number"
        ),
        pytest.param(policy("PickSome"), ["spec.policy.placementType", "PickSome"], id="unknown-type"),
        pytest.param(pick_n(-1), ["spec.policy.numberOfClusters"], id="negative-number"),
        pytest.param(pick_n(1) | {"numberOfClusters": "3"}, ["spec.policy.numberOfClusters"], id="number-as-text"),
        pytest.param(
            pick_n(1, constraints=[spread("region", 0)]),
            ["spec.policy.topologySpreadConstraints[0].maxSkew"],
            id="skew-0",
        ),
        pytest.param(
            pick_n(1, constraints=[spread("region", 1, "Perhaps")]),
            ["spec.policy.topologySpreadConstraints[0].whenUnsatisfiable"],
            id="unknown-when",
        ),
        pytest.param(
            pick_n(1, constraints=[{"maxSkew": 1}]),
            ["spec.policy.topologySpreadConstraints[0].topologyKey"],
            id="no-key",
        ),
        pytest.param(pick_n(1, preferred=[prefer(101)]), [f"{PREFERRED}[0].weight"], id="weight"),
        pytest.param(pick_fixed("a") | {"clusterNames": "a"}, ["spec.policy.clusterNames"], id="names-not-a-list"),
    ],
)
def test_what_cannot_be_read_is_named(wanted, words):
    assert_invalid(wanted, words)


@pytest.mark.parametrize(
    ("wanted", "number", "expected"),
    [
        pytest.param(None, None, None, id="no-policy"),
        pytest.param(policy(), 5, None, id="pick-all"),
        pytest.param(pick_n(3), None, 3, id="pick-n"),
        pytest.param(pick_n(3), 0, 0, id="annotation-outranks"),
        pytest.param(policy("PickN"), 4, 4, id="annotation-only"),
        pytest.param(pick_fixed("a", "b"), 9, 2, id="pick-fixed"),
        pytest.param(pick_fixed(), None, 0, id="pick-fixed-nowhere"),
    ],
)
def test_how_many_are_wanted(wanted, number, expected):
    assert read_request(wanted, number=number).wanted == expected


def test_equal_sorters_under_both_names_are_fine():
    same = two_sorters({"name": NODES, "sortOrder": "Descending"})
    (entry,) = read_request(pick_n(1, preferred=[same])).profile.affinity.preferred
    assert (entry.sorter.name, entry.sorter.order) == (NODES, "Descending")


def test_tolerations_with_an_invalid_word_are_read():
    assert read_request(policy(tolerations=[{"key": "gpu", "operator": "Maybe", "effect": "Never"}])).wanted is None


def test_a_policy_that_asks_for_too_much_is_not_evaluated():
    """Each requirement reads every cluster: one placement must not hold up the scheduling of all others."""
    asked = policy(required=[{"labelSelector": {"matchLabels": {f"key-{number}": "v" for number in range(501)}}}])
    with pytest.raises(
        InvalidPolicyError,
        match="clusterAffinity: must have at most 500 requirements on labels and properties, has 501",
    ):
        read_request(asked)
