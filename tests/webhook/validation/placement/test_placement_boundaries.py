"""Boundaries of the rules on placements (P, X-01 to X-18), through both hooks, in both versions."""

from copy import deepcopy

import pytest

from tests.builders.placement import make_placement
from webhook.admission.judge import judge, mutate
from webhook.validation.framework.context import Context

NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}
EVERYTHING_IN = {**NAMESPACE, "selectionScope": "NamespaceWithResourceSelectors"}
RESOURCES = "resources.kubernetes-fleet.io/"
AFFINITY = "spec.policy.affinity.clusterAffinity"
TERM = f"{AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms[0]"
EXPRESSION = f"{TERM}.propertySelector.matchExpressions[0]"
PREFERENCE = f"{AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution[0]"


def pick_n(**policy):
    return {"placementType": "PickN", "numberOfClusters": 1, **policy}


def requiring(name, operator, values):
    expressions = [{"name": name, "operator": operator, "values": values}]
    terms = {"clusterSelectorTerms": [{"propertySelector": {"matchExpressions": expressions}}]}
    return pick_n(affinity={"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def preferring(weight, preference):
    preferred = [{"weight": weight, "preference": preference}]
    return pick_n(affinity={"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})


def refused_fields(document):
    """Ask both hooks, as an API server does; return where the answer points."""
    defaulted = mutate(deepcopy(document), None, "CREATE").document
    return sorted({str(error.field) for error in judge("CREATE", defaulted, None, Context()).errors})


def policies(*rows):
    return [pytest.param(policy, refused, id=name) for name, policy, refused in rows]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize(
    ("selectors", "refused"),
    [
        pytest.param([{**NAMESPACE, "name": f"n{i}"} for i in range(100)], [], id="P-02-a-hundred"),
        pytest.param([{**NAMESPACE, "group": None}], ["[0].group"], id="P-03-null"),
        pytest.param([{**NAMESPACE, "name": "", "labelSelector": {}}], [], id="P-04-empty-name"),
        pytest.param([{**NAMESPACE, "labelSelector": None}], [], id="P-04-null-selector"),
        pytest.param([{**NAMESPACE, "version": "v2"}], ["[0].kind"], id="P-06-version"),
        pytest.param([{**NAMESPACE, "group": "core"}], ["[0].kind"], id="P-06-core-is-the-empty-group"),
        pytest.param([DEPLOYMENT, EVERYTHING_IN], [], id="P-07-lifted-by-a-later-term"),
        pytest.param([{**EVERYTHING_IN, "name": None}], ["[0].name"], id="P-12-null"),
        pytest.param([{**NAMESPACE, "name": "b"}, EVERYTHING_IN], ["[0]"], id="P-13-before"),
        pytest.param([{**NAMESPACE, "selectionScope": ""}], ["[0].selectionScope"], id="P-10-empty"),
        pytest.param([{**NAMESPACE, "selectionScope": None}], [], id="P-10-null"),
        pytest.param([{**NAMESPACE, "name": "fleet"}], [], id="X-01-a-prefix-ends-with-a-dash"),
        pytest.param([{**NAMESPACE, "name": "fleet-"}], ["[0].name"], id="X-01-only-the-prefix"),
        pytest.param([{**NAMESPACE, "name": "defaults"}], [], id="X-01-default-is-a-whole-name"),
        pytest.param([NAMESPACE, {**NAMESPACE, "selectionScope": "NamespaceOnly"}], ["[1]"], id="X-04-scope"),
    ],
)
def test_selectors(selectors, refused, version):
    fields = [f"spec.resourceSelectors{field}" for field in refused]
    assert refused_fields(make_placement(selectors=selectors, version=version)) == fields


@pytest.mark.parametrize(
    ("policy", "refused"),
    policies(
        ("P-17-null", {"placementType": None}, []),
        ("P-17-empty", {"placementType": ""}, ["spec.policy.placementType"]),
        ("P-17-newline", {"placementType": "PickAll\n"}, ["spec.policy.placementType"]),
        ("P-18-null", {"placementType": "PickFixed", "clusterNames": None}, []),
        ("P-18-a-hundred", {"placementType": "PickFixed", "clusterNames": [f"c{i}" for i in range(100)]}, []),
        ("P-18-string", {"placementType": "PickFixed", "clusterNames": "a"}, ["spec.policy.clusterNames"]),
        ("P-21-63", {"placementType": "PickFixed", "clusterNames": ["a" * 63, "a.b", "0"]}, []),
        ("P-21-newline", {"placementType": "PickFixed", "clusterNames": ["a\n"]}, ["spec.policy.clusterNames[0]"]),
        ("P-21-null", {"placementType": "PickFixed", "clusterNames": [None]}, ["spec.policy.clusterNames[0]"]),
        ("P-19-largest", {"placementType": "PickN", "numberOfClusters": 2**31 - 1}, []),
        ("P-19-32-bits", {"placementType": "PickN", "numberOfClusters": 2**31}, ["spec.policy.numberOfClusters"]),
        ("P-19-float", {"placementType": "PickN", "numberOfClusters": 3.0}, ["spec.policy.numberOfClusters"]),
        ("P-25-null", {"placementType": "PickN", "numberOfClusters": None}, ["spec.policy.numberOfClusters"]),
        ("P-20-null", {"placementType": "PickFixed", "affinity": None, "tolerations": None}, []),
        ("P-23-empty-name-list", {"clusterNames": []}, ["spec.policy.clusterNames"]),
        ("P-23-null", {"clusterNames": None, "numberOfClusters": None}, []),
        ("P-30-weight-100", preferring(100, {}), []),
        ("P-30-weight-101", preferring(101, {}), [f"{PREFERENCE}.weight"]),
        ("P-30-weight-true", preferring(True, {}), [f"{PREFERENCE}.weight"]),
        ("P-30-weight-float", preferring(5.0, {}), [f"{PREFERENCE}.weight"]),
        ("P-31-second-dash", requiring(f"{RESOURCES}total-ephemeral-storage", "Ge", ["1"]), []),
        ("P-31-no-resource", requiring(f"{RESOURCES}total-", "Ge", ["1"]), [f"{EXPRESSION}.name"]),
        ("P-31-slash", requiring(f"{RESOURCES}total-nvidia.com/gpu", "Ge", ["1"]), [f"{EXPRESSION}.name"]),
        ("P-31-63", requiring(f"{RESOURCES}total-{'x' * 57}", "Ge", ["1"]), []),
        ("P-31-64", requiring(f"{RESOURCES}total-{'x' * 58}", "Ge", ["1"]), [f"{EXPRESSION}.name"]),
        ("P-31-bare-domain", requiring("resources.kubernetes-fleet.io", "Ge", ["1"]), []),
        ("P-31-empty-segment", requiring("a//b", "Ge", ["1"]), [f"{EXPRESSION}.name"]),
        ("P-32-null", requiring("a", None, ["1"]), [f"{EXPRESSION}.operator"]),
        ("P-33-number", requiring("a", "Eq", [1]), [f"{EXPRESSION}.values[0]"]),
        ("P-33-null", requiring("a", "Eq", None), [f"{EXPRESSION}.values"]),
        ("P-34-exa", requiring("a", "Eq", ["1E"]), []),
        ("P-34-tiny-exponent-costs-nothing", requiring("a", "Eq", ["1e-999999999"]), []),
        ("P-34-huge-exponent-costs-nothing", requiring("a", "Eq", ["1e999999999"]), [f"{EXPRESSION}.values[0]"]),
        ("P-34-newline", requiring("a", "Eq", ["5\n"]), [f"{EXPRESSION}.values[0]"]),
        ("P-34-digits-of-others", requiring("a", "Eq", ["\u0663"]), [f"{EXPRESSION}.values[0]"]),
        (
            "P-37-skew-float",
            pick_n(topologySpreadConstraints=[{"topologyKey": "a", "maxSkew": 1.0}]),
            ["spec.policy.topologySpreadConstraints[0].maxSkew"],
        ),
        ("P-37-skew-null", pick_n(topologySpreadConstraints=[{"topologyKey": "a", "maxSkew": None}]), []),
        ("P-38-a-hundred", {"tolerations": [{"key": f"k{i}"} for i in range(100)]}, []),
        ("P-39-null-value", {"tolerations": [{"operator": "Exists", "value": None}]}, []),
        ("P-40-empty-key", {"tolerations": [{"key": ""}]}, ["spec.policy.tolerations[0].operator"]),
        (
            "P-43-operator-case",
            {"tolerations": [{"key": "a", "operator": "exists"}]},
            ["spec.policy.tolerations[0].operator"],
        ),
        (
            "P-44-absent-and-empty-value",
            {"tolerations": [{"key": "a"}, {"key": "a", "value": ""}]},
            ["spec.policy.tolerations[1]"],
        ),
        ("P-44-effect-tells-apart", {"tolerations": [{"key": "a"}, {"key": "a", "effect": "NoSchedule"}]}, []),
        (
            "X-18-null-beside",
            preferring(1, {"metricSorter": None, "propertySorter": {"name": "a", "sortOrder": "x"}}),
            [f"{PREFERENCE}.preference.propertySorter.sortOrder"],
        ),
    ),
)
def test_policies(policy, refused):
    assert refused_fields(make_placement(policy=policy)) == refused
    document = make_placement(selectors=[DEPLOYMENT], namespace="shop", policy=policy)
    assert refused_fields(document) == refused


@pytest.mark.parametrize("field", ["maxUnavailable", "maxSurge"])
@pytest.mark.parametrize(
    ("value", "fits"),
    [
        pytest.param(0, True, id="zero"),
        pytest.param("100%", True, id="all"),
        pytest.param("00%", True, id="leading-zero"),
        pytest.param(None, True, id="null"),
        pytest.param(-1, False, id="negative"),
        pytest.param(1.0, False, id="float"),
        pytest.param("101%", False, id="over-100"),
        pytest.param("000%", False, id="three-digits"),
        pytest.param("5%\n", False, id="newline"),
        pytest.param("\u0663%", False, id="digits-of-others"),
        pytest.param("", False, id="empty"),
        pytest.param([], False, id="list"),
    ],
)
def test_rolling_limits(field, value, fits):
    """P-48."""
    document = make_placement(strategy={"rollingUpdate": {field: value}})
    assert refused_fields(document) == ([] if fits else [f"spec.strategy.rollingUpdate.{field}"])


@pytest.mark.parametrize(
    ("strategy", "refused"),
    [
        pytest.param({"type": None}, [], id="P-45-null"),
        pytest.param({"type": "External", "rollingUpdate": None}, [], id="P-46-null"),
        pytest.param(
            {"rollingUpdate": {"unavailablePeriodSeconds": 60.0}},
            ["rollingUpdate.unavailablePeriodSeconds"],
            id="P-47-float",
        ),
        pytest.param({"applyStrategy": {"allowCoOwnership": 1}}, ["applyStrategy.allowCoOwnership"], id="P-49-1"),
        pytest.param({"applyStrategy": {"serverSideApplyConfig": None}}, [], id="P-50-null"),
        pytest.param({"reportBackStrategy": {"destination": "WorkAPI"}}, [], id="P-52-F-12-type-by-default"),
        pytest.param(
            {"reportBackStrategy": {"type": "Mirror", "destination": None}},
            ["reportBackStrategy.destination"],
            id="P-52-null",
        ),
        pytest.param(
            {"rollingUpdate": {"maxUnavailable": "00%", "maxSurge": 0}}, ["rollingUpdate"], id="X-14-any-spelling"
        ),
        pytest.param({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": None}}, [], id="X-14-null-is-25-percent"),
    ],
)
def test_strategies(strategy, refused):
    assert refused_fields(make_placement(strategy=strategy)) == [f"spec.strategy.{field}" for field in refused]


@pytest.mark.parametrize(
    ("metadata", "refused"),
    [
        pytest.param({"name": "a" * 63}, [], id="P-01-63"),
        pytest.param({"generateName": "a" * 70}, [], id="P-01-no-name-yet"),
        pytest.param({"name": "a\n"}, ["metadata.name"], id="2.1-newline"),
        pytest.param({"name": 5}, ["metadata.name"], id="number"),
        pytest.param("crp", ["metadata"], id="string"),
        pytest.param(None, [], id="null"),
    ],
)
def test_metadata(metadata, refused):
    assert refused_fields({**make_placement(), "metadata": metadata}) == refused


@pytest.mark.parametrize("value", [0, 1001, True, "10", 10.0, [], 2**40])
def test_history_is_1_to_1000(value):
    """P-16."""
    assert refused_fields(make_placement(revisionHistoryLimit=value)) == ["spec.revisionHistoryLimit"]
    assert [refused_fields(make_placement(revisionHistoryLimit=fits)) for fits in (1, 1000, None)] == [[], [], []]


@pytest.mark.parametrize("spec", [None, [], "x", 5, True])
def test_a_spec_of_another_type(spec):
    assert refused_fields({**make_placement(), "spec": spec}) == ["spec"]
