"""The digest of a policy: what makes a new snapshot and what does not (scheduling.md 1)."""

import copy

import pytest

from scorer.placement.policy_hash import canonical_policy, policy_hash
from tests.scorer.builders import NODES, has, pick_fixed, pick_n, policy, prefer, spread, term

BASE = pick_n(
    3,
    required=[term({"env": "prod"}), term(properties=[has(NODES, "Ge", "5")])],
    preferred=[prefer(50, NODES), prefer(20, NODES, "Ascending", labels={"tier": "1"})],
    constraints=[spread("region"), spread("zone", 2, "ScheduleAnyway")],
    tolerations=[{"key": "gpu", "operator": "Exists"}, {"key": "dock", "value": "dry"}],
)


def edited(edit):
    changed = copy.deepcopy(BASE)
    edit(changed)
    return changed


def affinity(changed):
    return changed["affinity"]["clusterAffinity"]


def terms(changed):
    return affinity(changed)["requiredDuringSchedulingIgnoredDuringExecution"]["clusterSelectorTerms"]


def preferred(changed):
    return affinity(changed)["preferredDuringSchedulingIgnoredDuringExecution"]


def rename_sorter(changed):
    preference = preferred(changed)[0]["preference"]
    preference["metricSorter"] = preference.pop("propertySorter")


def both_sorters(changed):
    preference = preferred(changed)[0]["preference"]
    preference["metricSorter"] = dict(preference["propertySorter"])


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda changed: changed.update(numberOfClusters=9), id="number"),
        pytest.param(lambda changed: changed.pop("numberOfClusters"), id="no-number"),
        pytest.param(lambda changed: changed["topologySpreadConstraints"][0].update(maxSkew=1), id="default-max-skew"),
        pytest.param(
            lambda changed: changed["topologySpreadConstraints"][0].update(whenUnsatisfiable="DoNotSchedule"),
            id="default-when-unsatisfiable",
        ),
        pytest.param(lambda changed: changed["tolerations"][1].update(operator="Equal"), id="default-operator"),
        pytest.param(lambda changed: changed.update(clusterNames=None), id="null-is-absent"),
        pytest.param(lambda changed: changed.update(clusterNames=[]), id="empty-list-is-absent"),
        pytest.param(
            lambda changed: terms(changed)[0]["labelSelector"].pop("matchExpressions"), id="empty-list-inside"
        ),
        pytest.param(
            lambda changed: preferred(changed)[1]["preference"]["labelSelector"].update(matchExpressions=[]),
            id="empty-list-of-a-preference",
        ),
        pytest.param(lambda changed: changed["tolerations"][0].update(value="", effect=""), id="empty-text-is-absent"),
        pytest.param(rename_sorter, id="old-name-of-the-sorter"),
        pytest.param(both_sorters, id="both-names-of-the-sorter"),
    ],
)
def test_what_keeps_the_snapshot(edit):
    assert policy_hash(edited(edit)) == policy_hash(BASE)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda changed: changed.update(placementType="PickAll"), id="type"),
        pytest.param(lambda changed: preferred(changed)[0].update(weight=51), id="weight"),
        pytest.param(lambda changed: preferred(changed).reverse(), id="order-of-preferences"),
        pytest.param(lambda changed: terms(changed).reverse(), id="order-of-terms"),
        pytest.param(lambda changed: changed["topologySpreadConstraints"].reverse(), id="order-of-constraints"),
        pytest.param(lambda changed: changed["tolerations"].append({"key": "night"}), id="added-toleration"),
        pytest.param(lambda changed: changed["topologySpreadConstraints"][0].update(maxSkew=2), id="max-skew"),
        pytest.param(lambda changed: changed["tolerations"][1].update(operator="Exists"), id="operator"),
        pytest.param(
            lambda changed: preferred(changed)[0]["preference"]["propertySorter"].update(sortOrder="Ascending"),
            id="sort-order",
        ),
        pytest.param(lambda changed: changed.pop("affinity"), id="no-affinity"),
        pytest.param(lambda changed: terms(changed)[1].update(labelSelector={}), id="selector-of-everything"),
        pytest.param(
            lambda changed: terms(changed)[0]["labelSelector"]["matchLabels"].update(night=""), id="label-without-value"
        ),
    ],
)
def test_what_makes_a_new_snapshot(edit):
    assert policy_hash(edited(edit)) != policy_hash(BASE)


def test_different_sorters_under_both_names_are_another_policy():
    def differ(changed):
        preferred(changed)[0]["preference"]["metricSorter"] = {"name": NODES, "sortOrder": "Ascending"}

    assert policy_hash(edited(differ)) not in (policy_hash(BASE), policy_hash(edited(rename_sorter)))


def test_order_of_cluster_names_matters():
    assert policy_hash(pick_fixed("a", "b")) != policy_hash(pick_fixed("b", "a"))


def test_no_labels_are_no_labels():
    one, other = (
        policy_hash(pick_n(1, required=[{"labelSelector": {**labels, "matchExpressions": [{"key": "a"}]}}]))
        for labels in ({"matchLabels": {}}, {})
    )
    assert one == other


def test_no_policy_is_pick_all():
    assert policy_hash(None) == policy_hash({}) == policy_hash(policy())


def test_the_order_of_fields_does_not_matter():
    assert policy_hash(dict(reversed(BASE.items()))) == policy_hash(BASE)


def test_the_argument_is_left_alone():
    before = copy.deepcopy(BASE)
    canonical_policy(BASE)
    policy_hash(BASE)
    assert before == BASE


def test_a_digest_is_hexadecimal():
    assert len(policy_hash(BASE)) == 64
    assert int(policy_hash(BASE), 16)
