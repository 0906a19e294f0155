"""Every rule on placements, by its id: which objects break it, and where the answer points."""

from copy import deepcopy

import pytest

from scorer.api.kinds import Kind
from scorer.api.placement.placement import PlacementPolicy
from tests.builders.placement import make_placement
from webhook.access.user import UserInfo
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import Context, HubKinds
from webhook.validation.framework.field import FieldError, FieldWarning
from webhook.validation.placement.placement import validate_cluster_placement, validate_resource_placement
from webhook.validation.placement.policy import validate_policy

NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}
WIDGET = Kind("toys.example.org", ("v1",), "Widget", "widgets", namespaced=False)
REQUIRED = "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"{REQUIRED}.clusterSelectorTerms"
PREFERRED = "spec.policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution"


def pick_n(required=None, preferred=None, **policy):
    affinity = {}
    if required is not None:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"clusterSelectorTerms": required}
    if preferred is not None:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    if affinity:
        policy["affinity"] = {"clusterAffinity": affinity}
    return {"placementType": "PickN", "numberOfClusters": 2, **policy}


def requirement(name="kubernetes-fleet.io/node-count", operator="Ge", *values):
    return {"name": name, "operator": operator, "values": list(values)}


def property_term(*requirements):
    return {"propertySelector": {"matchExpressions": list(requirements)}}


def preferred(preference, weight=10):
    return {"weight": weight, "preference": preference}


def sorter(name="kubernetes-fleet.io/node-count", order="Descending"):
    return {"name": name, "sortOrder": order}


def errors_of(document, old=None, context=None, validate=validate_cluster_placement):
    found = validate(document, old, context or Context())
    return {(finding.rule, str(finding.field)) for finding in found if isinstance(finding, FieldError)}


def warnings_of(document, context=None, validate=validate_cluster_placement):
    found = validate(document, None, context or Context())
    return {(finding.rule, str(finding.field)) for finding in found if isinstance(finding, FieldWarning)}


DEFINITION = {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition"}


@pytest.mark.parametrize(
    ("selectors", "wanted"),
    [
        pytest.param([], {("P-02", "spec.resourceSelectors")}, id="P-02-none"),
        pytest.param([NAMESPACE] * 101, {("P-02", "spec.resourceSelectors")}, id="P-02-too-many"),
        pytest.param(
            [{"version": "v1", "kind": "Namespace"}], {("P-03", "spec.resourceSelectors[0].group")}, id="P-03"
        ),
        pytest.param([NAMESPACE], set(), id="P-03-empty-group-is-the-core-group"),
        pytest.param(
            [{**NAMESPACE, "labelSelector": {}}],
            {("P-04", "spec.resourceSelectors[0].labelSelector")},
            id="P-04-even-an-empty-selector",
        ),
        pytest.param(
            [{**NAMESPACE, "name": "", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}],
            {("P-05", "spec.resourceSelectors[0].labelSelector.matchExpressions[0].values")},
            id="P-05-in-without-values",
        ),
        pytest.param(
            [{**NAMESPACE, "name": "", "labelSelector": {"matchLabels": {"-a": "b c"}}}],
            {
                ("P-05", "spec.resourceSelectors[0].labelSelector.matchLabels"),
                ("P-05", "spec.resourceSelectors[0].labelSelector.matchLabels[-a]"),
            },
            id="P-05-key-and-value",
        ),
        pytest.param(
            [{**DEPLOYMENT, "version": "v7"}], {("P-06", "spec.resourceSelectors[0].kind")}, id="P-06-unknown-version"
        ),
        pytest.param([DEPLOYMENT], {("P-07", "spec.resourceSelectors[0].kind")}, id="P-07"),
        pytest.param(
            [{**NAMESPACE, "selectionScope": "NamespaceWithResourceSelectors"}, DEPLOYMENT],
            set(),
            id="P-07-lifted-by-a-namespace-with-selectors",
        ),
        pytest.param(
            [{**NAMESPACE, "selectionScope": "Everything"}],
            {("P-10", "spec.resourceSelectors[0].selectionScope")},
            id="P-10",
        ),
        pytest.param(
            [
                {**NAMESPACE, "selectionScope": "NamespaceWithResourceSelectors"},
                {**NAMESPACE, "name": "b", "selectionScope": "NamespaceWithResourceSelectors"},
            ],
            {("P-11", "spec.resourceSelectors[1].selectionScope")},
            id="P-11",
        ),
        pytest.param(
            [{**NAMESPACE, "name": "", "selectionScope": "NamespaceWithResourceSelectors"}],
            {("P-12", "spec.resourceSelectors[0].name")},
            id="P-12",
        ),
        pytest.param(
            [{**NAMESPACE, "name": "b"}, {**NAMESPACE, "selectionScope": "NamespaceWithResourceSelectors"}],
            {("P-13", "spec.resourceSelectors[0]")},
            id="P-13-in-any-order",
        ),
        pytest.param(
            [{**NAMESPACE, "name": "kube-system", "selectionScope": "NamespaceOnly"}],
            {("X-01", "spec.resourceSelectors[0].name")},
            id="X-01-NamespaceOnly-does-not-help",
        ),
        pytest.param(
            [{**NAMESPACE, "name": "skipped-by-us"}], {("X-01", "spec.resourceSelectors[0].name")}, id="X-01-by-setting"
        ),
        pytest.param(
            [{"group": "", "version": "v1", "kind": "Node"}],
            {("X-02", "spec.resourceSelectors[0].kind")},
            id="X-02-node",
        ),
        pytest.param(
            [{"group": "cluster.kubernetes-fleet.io", "version": "v1", "kind": "MemberCluster"}],
            {("X-02", "spec.resourceSelectors[0].kind")},
            id="X-02-fleet-kind",
        ),
        pytest.param(
            [
                {
                    "group": "placement.kubernetes-fleet.io",
                    "version": "v1beta1",
                    "kind": "ClusterResourceEnvelope",
                    "name": "e",
                }
            ],
            set(),
            id="X-02-envelopes-are-placed",
        ),
        pytest.param(
            [{"group": "upgrade.harbormaster.dev", "version": "v1alpha1", "kind": "ClusterUpgradeRun"}],
            {("X-02", "spec.resourceSelectors[0].kind")},
            id="X-02-every-group-of-ours",
        ),
        pytest.param(
            [{**DEFINITION, "name": "appliedworks.placement.kubernetes-fleet.io"}],
            {("X-02", "spec.resourceSelectors[0].name")},
            id="X-02-definition-of-the-fleet",
        ),
        pytest.param([{**DEFINITION, "name": "boats.example.com"}], set(), id="X-02-definition-of-others"),
        pytest.param(
            [
                {
                    "group": "rbac.authorization.k8s.io",
                    "version": "v1",
                    "kind": "ClusterRole",
                    "name": "harbormaster-agent",
                }
            ],
            {("X-02", "spec.resourceSelectors[0].name")},
            id="X-02-what-harbormaster-may-do",
        ),
        pytest.param([NAMESPACE, NAMESPACE], {("X-04", "spec.resourceSelectors[1]")}, id="X-04"),
        pytest.param(
            [
                {**NAMESPACE, "name": "", "labelSelector": {"matchLabels": {"a": "b"}}},
                {**NAMESPACE, "name": "", "labelSelector": {"matchLabels": {"a": "c"}}},
            ],
            set(),
            id="X-04-terms-by-label-may-repeat",
        ),
    ],
)
def test_what_may_be_selected(selectors, wanted):
    context = Context(settings=AdmissionSettings(skipped_namespaces=frozenset({"skipped-by-us"})))
    assert errors_of(make_placement(selectors=selectors), context=context) == wanted


@pytest.mark.parametrize("namespace", ["fleet-member-lion", "home"])
def test_nothing_in_a_namespace_of_the_fleet_is_placed(namespace):
    context = Context(settings=AdmissionSettings(unblocked_namespaces=frozenset({"home"})))
    placement = make_placement(selectors=[{"group": "", "version": "v1", "kind": "Secret"}])
    placement["metadata"]["namespace"] = namespace
    found = errors_of(placement, context=context, validate=validate_resource_placement)
    assert found == {("X-01", "metadata.namespace")}


def test_a_custom_kind_has_the_scope_of_its_definition():
    widget = {"group": WIDGET.group, "version": "v1", "kind": WIDGET.kind}
    known = Context(kinds=HubKinds({WIDGET.group_kind: WIDGET}))
    placement = make_placement(selectors=[widget])
    assert errors_of(placement, context=known) == set()
    assert errors_of(placement, context=known, validate=validate_resource_placement) == {
        ("P-08", "spec.resourceSelectors[0].kind")
    }


def test_without_discovery_an_unknown_kind_passes_with_a_warning():
    context = Context(kinds=HubKinds(complete=False))
    placement = make_placement(selectors=[{"group": "toys.example.org", "version": "v1", "kind": "Widget"}])
    assert errors_of(placement, context=context) == set()
    assert ("P-09", "spec.resourceSelectors[0].kind") in warnings_of(placement, context)


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        pytest.param({}, set(), id="empty-is-PickAll"),
        pytest.param(
            {"placementType": "PickSome", "numberOfClusters": 3},
            {("P-17", "spec.policy.placementType")},
            id="P-17-and-no-guess-about-the-rest",
        ),
        pytest.param(
            {"placementType": "PickFixed", "clusterNames": ["a"] * 101},
            {("P-18", "spec.policy.clusterNames")},
            id="P-18",
        ),
        pytest.param(
            {"placementType": "PickN", "numberOfClusters": -1}, {("P-19", "spec.policy.numberOfClusters")}, id="P-19"
        ),
        pytest.param(
            {"placementType": "PickN", "numberOfClusters": True},
            {("P-19", "spec.policy.numberOfClusters")},
            id="P-19-bool",
        ),
        pytest.param(
            {"placementType": "PickFixed", "affinity": {}, "numberOfClusters": 1, "tolerations": []},
            {
                ("P-20", "spec.policy.affinity"),
                ("P-20", "spec.policy.numberOfClusters"),
                ("P-20", "spec.policy.tolerations"),
            },
            id="P-20-present-even-when-empty",
        ),
        pytest.param({"placementType": "PickFixed", "tolerations": None}, set(), id="P-20-null-is-absent"),
        pytest.param(
            {"placementType": "PickFixed", "clusterNames": ["A", "b" * 64, "c"]},
            {("P-21", "spec.policy.clusterNames[0]"), ("P-21", "spec.policy.clusterNames[1]")},
            id="P-21",
        ),
        pytest.param(
            {"placementType": "PickFixed", "clusterNames": ["a", "b", "a"]},
            {("P-22", "spec.policy.clusterNames[2]")},
            id="P-22",
        ),
        pytest.param(
            {"clusterNames": [], "topologySpreadConstraints": []},
            {("P-23", "spec.policy.clusterNames"), ("P-23", "spec.policy.topologySpreadConstraints")},
            id="P-23-by-default",
        ),
        pytest.param(
            {
                **pick_n(preferred=[preferred({"labelSelector": {"matchLabels": {"a": "b"}}})]),
                "placementType": "PickAll",
            },
            {("P-23", "spec.policy.numberOfClusters"), ("P-24", PREFERRED)},
            id="P-24",
        ),
        pytest.param(
            {"placementType": "PickN", "clusterNames": ["a"]},
            {("P-25", "spec.policy.clusterNames"), ("P-25", "spec.policy.numberOfClusters")},
            id="P-25",
        ),
        pytest.param(
            pick_n(affinity={"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}),
            {("P-26", TERMS)},
            id="P-26-terms-are-required",
        ),
        pytest.param(pick_n(required=[{}] * 11), {("P-26", TERMS)}, id="P-26-too-many"),
        pytest.param(
            pick_n(
                required=[{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near", "values": []}]}}]
            ),
            {("P-27", f"{TERMS}[0].labelSelector.matchExpressions[0].operator")},
            id="P-27",
        ),
        pytest.param(
            pick_n(required=[{"propertySorter": sorter()}]), {("P-28", f"{TERMS}[0].propertySorter")}, id="P-28"
        ),
        pytest.param(
            pick_n(required=[{"metricSorter": sorter()}]), {("P-28", f"{TERMS}[0].metricSorter")}, id="P-28-alias"
        ),
        pytest.param(
            pick_n(preferred=[preferred({"propertySelector": {"matchExpressions": []}})]),
            {("P-29", f"{PREFERRED}[0].preference.propertySelector")},
            id="P-29-even-empty",
        ),
        pytest.param(
            pick_n(preferred=[{"weight": 101}]),
            {("P-30", f"{PREFERRED}[0].weight"), ("P-30", f"{PREFERRED}[0].preference")},
            id="P-30",
        ),
        pytest.param(pick_n(preferred={"weight": 1}), {("P-30", PREFERRED)}, id="P-30-seed-003-has-an-object"),
        pytest.param(
            pick_n(required=[property_term(requirement("resources.kubernetes-fleet.io/free-cpu", "Ge", "1"))]),
            {("P-31", f"{TERMS}[0].propertySelector.matchExpressions[0].name")},
            id="P-31",
        ),
        pytest.param(
            pick_n(required=[property_term(requirement("a/b", "ge", "1"))]),
            {("P-32", f"{TERMS}[0].propertySelector.matchExpressions[0].operator")},
            id="P-32-case-matters",
        ),
        pytest.param(
            pick_n(required=[property_term(requirement("a", "Ge"), requirement("b", "Ge", "1", "2"))]),
            {
                ("P-33", f"{TERMS}[0].propertySelector.matchExpressions[0].values"),
                ("P-33", f"{TERMS}[0].propertySelector.matchExpressions[1].values"),
            },
            id="P-33",
        ),
        pytest.param(
            pick_n(required=[property_term(requirement("a", "Ge", "64 Gi"))]),
            {("P-34", f"{TERMS}[0].propertySelector.matchExpressions[0].values[0]")},
            id="P-34",
        ),
        pytest.param(
            pick_n(preferred=[preferred({"propertySorter": sorter("x/", "Up")})]),
            {
                ("P-36", f"{PREFERRED}[0].preference.propertySorter.name"),
                ("P-36", f"{PREFERRED}[0].preference.propertySorter.sortOrder"),
            },
            id="P-36",
        ),
        pytest.param(
            pick_n(topologySpreadConstraints=[{"maxSkew": 0, "whenUnsatisfiable": "Never"}]),
            {
                ("P-37", "spec.policy.topologySpreadConstraints[0].maxSkew"),
                ("P-37", "spec.policy.topologySpreadConstraints[0].topologyKey"),
                ("P-37", "spec.policy.topologySpreadConstraints[0].whenUnsatisfiable"),
            },
            id="P-37",
        ),
        pytest.param(
            {"tolerations": [{"key": f"k{i}"} for i in range(101)]}, {("P-38", "spec.policy.tolerations")}, id="P-38"
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            {("P-39", "spec.policy.tolerations[0].value")},
            id="P-39",
        ),
        pytest.param({"tolerations": [{"value": "a"}]}, {("P-40", "spec.policy.tolerations[0].operator")}, id="P-40"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, set(), id="P-40-exists-needs-no-key"),
        pytest.param({"tolerations": [{"key": "a b"}]}, {("P-41", "spec.policy.tolerations[0].key")}, id="P-41"),
        pytest.param(
            {"tolerations": [{"key": "a", "value": "x:y"}]}, {("P-42", "spec.policy.tolerations[0].value")}, id="P-42"
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Like", "effect": "NoExecute"}]},
            {("P-43", "spec.policy.tolerations[0].operator"), ("P-43", "spec.policy.tolerations[0].effect")},
            id="P-43",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "effect": ""}]},
            {("P-43", "spec.policy.tolerations[0].effect")},
            id="P-43-empty",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}, {"key": "a", "operator": "Equal"}]},
            {("P-44", "spec.policy.tolerations[1]")},
            id="P-44-after-defaults",
        ),
        pytest.param(
            pick_n(topologySpreadConstraints=[{"topologyKey": "a b"}]),
            {("X-11", "spec.policy.topologySpreadConstraints[0].topologyKey")},
            id="X-11",
        ),
        pytest.param(
            pick_n(topologySpreadConstraints=[{"topologyKey": "a"}, {"topologyKey": "a", "maxSkew": 2}]),
            {("X-12", "spec.policy.topologySpreadConstraints[1]")},
            id="X-12",
        ),
        pytest.param(
            pick_n(preferred=[preferred({"propertySorter": sorter(), "metricSorter": sorter(order="Ascending")})]),
            {("X-18", f"{PREFERRED}[0].preference.metricSorter")},
            id="X-18-both-and-different",
        ),
        pytest.param(pick_n(preferred=[preferred({"metricSorter": sorter()})]), set(), id="X-18-old-name-alone"),
    ],
)
def test_policies(policy, wanted):
    assert errors_of(make_placement(policy=policy)) == wanted


@pytest.mark.parametrize(
    ("requirements", "clashes"),
    [
        pytest.param([("Ge", "4"), ("Le", "4000m")], False, id="one-point-is-left"),
        pytest.param([("Gt", "4"), ("Le", "4")], True, id="strict-lower-bound"),
        pytest.param([("Ge", "4"), ("Lt", "4")], True, id="strict-upper-bound"),
        pytest.param([("Ge", "4"), ("Gt", "4"), ("Le", "4")], True, id="the-strict-one-wins-a-tie"),
        pytest.param([("Gt", "10"), ("Lt", "4")], True, id="crossed"),
        pytest.param([("Eq", "1"), ("Eq", "1000m")], False, id="same-number"),
        pytest.param([("Eq", "1Ki"), ("Eq", "1k")], True, id="two-numbers"),
        pytest.param([("Eq", "2"), ("Ne", "2000m")], True, id="equal-and-not"),
        pytest.param([("Eq", "6"), ("Ge", "7")], True, id="below-the-bound"),
        pytest.param([("Eq", "7"), ("Gt", "7")], True, id="on-the-strict-bound"),
        pytest.param([("Eq", "8"), ("Lt", "8")], True, id="on-the-strict-upper-bound"),
        pytest.param([("Eq", "5"), ("Le", "5")], False, id="on-the-upper-bound"),
        pytest.param([("Eq", "5"), ("Ge", "5")], False, id="on-the-lower-bound"),
        pytest.param([("Ne", "1"), ("Ne", "2"), ("Ge", "1"), ("Le", "2")], False, id="no-integers-assumed"),
        pytest.param([("Gt", "10"), ("Lt", "four")], False, id="bad-values-take-no-part"),
    ],
)
def test_contradictions(requirements, clashes):
    """P-35: bounds on one property within one term must leave something over."""
    term = property_term(*(requirement("kubernetes-fleet.io/node-count", *bound) for bound in requirements))
    rules = {rule for rule, _ in errors_of(make_placement(policy=pick_n(required=[term])))}
    assert ("P-35" in rules) is clashes


def test_different_properties_and_terms_do_not_clash():
    terms = [
        property_term(requirement("a", "Gt", "10"), requirement("b", "Lt", "4")),
        property_term(requirement("a", "Lt", "4")),
    ]
    assert errors_of(make_placement(policy=pick_n(required=terms))) == set()


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        pytest.param("resources.kubernetes-fleet.io/available-cpu", True, id="resource"),
        pytest.param("resources.kubernetes-fleet.io/total-ephemeral-storage", True, id="split-at-the-first-dash"),
        pytest.param("resources.kubernetes-fleet.io/spare-cpu", False, id="capacity-type"),
        pytest.param("resources.kubernetes-fleet.io/total-", False, id="no-resource"),
        pytest.param("resources.kubernetes-fleet.io/total-nvidia.com/gpu", False, id="slash-in-the-resource"),
        pytest.param("kubernetes.azure.com/vm-sizes/Standard_D2/count", True, id="several-segments"),
        pytest.param("node-count", True, id="one-segment"),
        pytest.param("a//b", False, id="empty-segment"),
        pytest.param("/a", False, id="empty-first-segment"),
        pytest.param("", False, id="empty"),
        pytest.param("node-count\n", False, id="trailing-newline"),
    ],
)
def test_property_names(name, fits):
    """placement-api.md 2.2."""
    term = property_term(requirement(name, "Ge", "1"))
    assert (errors_of(make_placement(policy=pick_n(required=[term]))) == set()) is fits


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        pytest.param({"type": "Slow"}, {("P-45", "spec.strategy.type")}, id="P-45"),
        pytest.param({"type": "External", "rollingUpdate": {}}, {("P-46", "spec.strategy.rollingUpdate")}, id="P-46"),
        pytest.param(
            {"rollingUpdate": {"unavailablePeriodSeconds": -1}},
            {("P-47", "spec.strategy.rollingUpdate.unavailablePeriodSeconds")},
            id="P-47",
        ),
        pytest.param(
            {"rollingUpdate": {"maxUnavailable": "25", "maxSurge": "101%"}},
            {("P-48", "spec.strategy.rollingUpdate.maxUnavailable"), ("P-48", "spec.strategy.rollingUpdate.maxSurge")},
            id="P-48-bare-digits-and-over-100",
        ),
        pytest.param(
            {"rollingUpdate": {"maxUnavailable": True, "maxSurge": 1.0}},
            {("P-48", "spec.strategy.rollingUpdate.maxUnavailable"), ("P-48", "spec.strategy.rollingUpdate.maxSurge")},
            id="P-48-bool-and-float",
        ),
        pytest.param({"rollingUpdate": {"maxUnavailable": "05%", "maxSurge": 2**31 - 1}}, set(), id="P-48-fits"),
        pytest.param(
            {"rollingUpdate": {"maxUnavailable": 2**31, "maxSurge": 2**40}},
            {("P-48", "spec.strategy.rollingUpdate.maxUnavailable"), ("P-48", "spec.strategy.rollingUpdate.maxSurge")},
            id="P-48-more-than-32-bits",
        ),
        pytest.param(
            {"rollingUpdate": {"unavailablePeriodSeconds": 86_400_000_000_000}},
            {("P-47", "spec.strategy.rollingUpdate.unavailablePeriodSeconds")},
            id="P-47-longer-than-any-clock-counts",
        ),
        pytest.param(
            {"applyStrategy": {"whenToApply": "Never"}},
            {("P-49", "spec.strategy.applyStrategy.whenToApply")},
            id="P-49",
        ),
        pytest.param(
            {"applyStrategy": {"serverSideApplyConfig": {}}},
            {("P-50", "spec.strategy.applyStrategy.serverSideApplyConfig")},
            id="P-50-by-default",
        ),
        pytest.param(
            {"deleteStrategy": {"propagationPolicy": "Orphan"}},
            {("P-51", "spec.strategy.deleteStrategy.propagationPolicy")},
            id="P-51",
        ),
        pytest.param(
            {"reportBackStrategy": {"type": "Mirror"}},
            {("P-52", "spec.strategy.reportBackStrategy.destination")},
            id="P-52",
        ),
        pytest.param(
            {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}},
            {("X-14", "spec.strategy.rollingUpdate")},
            id="X-14",
        ),
    ],
)
def test_strategies(strategy, wanted):
    assert errors_of(make_placement(strategy=strategy)) == wanted


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        pytest.param(make_placement(name="a" * 64), {("P-01", "metadata.name")}, id="P-01"),
        pytest.param(make_placement(statusReportingScope=""), {("P-14", "spec.statusReportingScope")}, id="P-14-empty"),
        pytest.param(
            make_placement(
                selectors=[NAMESPACE, {**NAMESPACE, "name": "b"}], statusReportingScope="NamespaceAccessible"
            ),
            {("P-15", "spec.statusReportingScope")},
            id="P-15",
        ),
        pytest.param(make_placement(revisionHistoryLimit=1001), {("P-16", "spec.revisionHistoryLimit")}, id="P-16"),
        pytest.param(make_placement(name="Not_a_name"), {("A-01", "metadata.name")}, id="object-name"),
        pytest.param({**make_placement(), "metadata": {}}, set(), id="no-name-yet"),
        pytest.param({**make_placement(), "metadata": {"name": 3}}, {("A-04", "metadata.name")}, id="name-is-a-number"),
        pytest.param({**make_placement(), "spec": None}, {("A-04", "spec")}, id="no-spec"),
        pytest.param({**make_placement(), "spec": "x"}, {("A-04", "spec")}, id="spec-is-a-string"),
    ],
)
def test_whole_objects(document, wanted):
    assert errors_of(document) == wanted


def test_an_answer_lists_mistakes_of_shape_and_of_meaning():
    """A broken part hides neither its neighbours nor the rules between other fields."""
    document = make_placement(
        policy={
            "placementType": "PickN",
            "numberOfClusters": "3",
            "clusterNames": ["a"],
            "tolerations": [{"key": 5}, {"key": "a", "operator": "Exists", "value": "x"}],
        },
        strategy={"type": "External", "rollingUpdate": {"maxSurge": False}},
        selectors=[NAMESPACE, NAMESPACE, {"version": 3, "kind": "Namespace"}],
        revisionHistoryLimit=0,
    )
    assert errors_of(document) == {
        ("P-03", "spec.resourceSelectors[2].group"),
        ("P-03", "spec.resourceSelectors[2].version"),
        ("X-04", "spec.resourceSelectors[1]"),
        ("P-19", "spec.policy.numberOfClusters"),
        ("P-25", "spec.policy.clusterNames"),
        ("P-43", "spec.policy.tolerations[0].key"),
        ("P-39", "spec.policy.tolerations[1].value"),
        ("P-46", "spec.strategy.rollingUpdate"),
        ("P-48", "spec.strategy.rollingUpdate.maxSurge"),
        ("P-16", "spec.revisionHistoryLimit"),
    }


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        pytest.param(
            make_placement(selectors=[{**NAMESPACE, "name": ""}]), ("X-03", "spec.resourceSelectors[0]"), id="X-03"
        ),
        pytest.param(make_placement(selectors=[DEFINITION]), ("X-03", "spec.resourceSelectors[0]"), id="X-03-crds"),
        pytest.param(
            make_placement(policy=pick_n(numberOfClusters=0)), ("X-06", "spec.policy.numberOfClusters"), id="X-06"
        ),
        pytest.param(
            make_placement(policy={"placementType": "PickFixed"}), ("X-06", "spec.policy.clusterNames"), id="X-06-fixed"
        ),
        pytest.param(
            make_placement(policy=pick_n(required=[property_term(requirement("k8s.io/k8s-version", "Ge", "1"))])),
            ("X-09", f"{TERMS}[0].propertySelector.matchExpressions[0].name"),
            id="X-09",
        ),
        pytest.param(
            make_placement(policy=pick_n(required=[property_term(requirement("a", "Ge", "-1"))])),
            ("X-10", f"{TERMS}[0].propertySelector.matchExpressions[0].values[0]"),
            id="X-10",
        ),
        pytest.param(make_placement(policy=pick_n(required=[])), ("X-13", TERMS), id="X-13-no-terms"),
        pytest.param(
            make_placement(policy=pick_n(required=[{"labelSelector": {"matchLabels": {"a": "b"}}}, {}])),
            ("X-13", f"{TERMS}[1]"),
            id="X-13-empty-term",
        ),
        pytest.param(
            make_placement(strategy={"rollingUpdate": {"maxSurge": 0}}),
            ("X-14", "spec.strategy.rollingUpdate.maxSurge"),
            id="X-14-one-zero",
        ),
        pytest.param(
            make_placement(strategy={"rollingUpdate": {"unavailablePeriodSeconds": 3601}}),
            ("X-15", "spec.strategy.rollingUpdate.unavailablePeriodSeconds"),
            id="X-15",
        ),
        pytest.param(
            make_placement(
                policy=pick_n(), strategy={"reportBackStrategy": {"type": "Mirror", "destination": "OriginalResource"}}
            ),
            ("X-16", "spec.strategy.reportBackStrategy"),
            id="X-16",
        ),
        pytest.param(
            make_placement(
                policy=pick_n(preferred=[preferred({"propertySorter": sorter("kubernetes.azure.com/node-count")})])
            ),
            ("X-19", f"{PREFERRED}[0].preference.propertySorter.name"),
            id="X-19",
        ),
    ],
)
def test_warnings(document, wanted):
    assert wanted in warnings_of(document)


def test_a_reporting_scope_has_no_effect_on_a_resource_placement():
    document = make_placement(selectors=[DEPLOYMENT], statusReportingScope="NamespaceAccessible")
    assert warnings_of(document, validate=validate_resource_placement) == {("X-17", "spec.statusReportingScope")}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("true", False), ("false", False), ("True", True), ("yes", True), ("", True), (" true", True)],
)
def test_a_choice_of_overrides_that_is_none_is_refused(value, wanted):
    document, field = make_placement(), "metadata.annotations[harbormaster.dev/ignore-resource-overrides]"
    document["metadata"]["annotations"] = {"harbormaster.dev/ignore-resource-overrides": value}
    assert errors_of(document) == ({("X-69", field)} if wanted else set())


def test_a_resource_placement_has_no_choice_of_overrides():
    document = make_placement(selectors=[DEPLOYMENT])
    document["metadata"]["annotations"] = {"harbormaster.dev/ignore-resource-overrides": "true"}
    field = "metadata.annotations[harbormaster.dev/ignore-resource-overrides]"
    assert errors_of(document, validate=validate_resource_placement) == {("X-69", field)}


def test_only_users_are_told_about_the_reserved_prefix():
    document = make_placement()
    document["metadata"]["labels"] = {"kubernetes-fleet.io/mine": "1", "kubernetes-fleet.io/is-latest-snapshot": "true"}
    assert warnings_of(document, Context(user=UserInfo("jane"))) == {
        ("X-97", "metadata.labels[kubernetes-fleet.io/mine]")
    }
    assert warnings_of(document) == set()


TOLERATION = {"key": "dept", "value": "fin", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param({"policy": {}}, {}, {("U-01", "spec.policy")}, id="U-01"),
        pytest.param({}, {"policy": {"placementType": "PickAll"}}, set(), id="U-02-absent-is-PickAll"),
        pytest.param({}, {"policy": pick_n()}, {("U-02", "spec.policy.placementType")}, id="U-02"),
        pytest.param(
            {"policy": {"tolerations": [TOLERATION, {"key": "b"}]}},
            {"policy": {"tolerations": [{"key": "c"}, {"key": "b", "operator": "Equal"}, TOLERATION]}},
            set(),
            id="U-03-order-and-defaults-do-not-matter",
        ),
        pytest.param(
            {"policy": {"tolerations": [TOLERATION]}},
            {"policy": {"tolerations": [{**TOLERATION, "value": "hr"}]}},
            {("U-03", "spec.policy.tolerations")},
            id="U-03-changed",
        ),
        pytest.param({"strategy": {"type": "External"}}, {}, {("U-04", "spec.strategy.type")}, id="U-04-block-dropped"),
        pytest.param(
            {"strategy": {"type": "External"}}, {"strategy": {}}, {("U-04", "spec.strategy.type")}, id="U-04-by-default"
        ),
        pytest.param(
            {}, {"statusReportingScope": "NamespaceAccessible"}, {("U-05", "spec.statusReportingScope")}, id="U-05"
        ),
    ],
)
def test_updates(old, new, wanted):
    before, after = make_placement(), make_placement()
    before["spec"].update(deepcopy(old))
    after["spec"].update(deepcopy(new))
    assert errors_of(after, before) == wanted


def test_a_resource_placement_may_change_its_reporting_scope():
    before = make_placement(selectors=[DEPLOYMENT])
    after = make_placement(selectors=[DEPLOYMENT], statusReportingScope="NamespaceAccessible")
    assert errors_of(after, before, validate=validate_resource_placement) == set()


def test_x28_a_policy_that_would_hold_up_everybody_is_refused():
    """Unless it asks for little; old ones may stay, the engine leaves them alone."""
    labels = {f"key-{number}": "value" for number in range(500)}
    terms = [{"labelSelector": {"matchLabels": labels}}]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}
    policy = {"placementType": "PickAll", "affinity": {"clusterAffinity": affinity}}
    assert "X-28" not in {finding.rule for finding in validate_policy(PlacementPolicy.read(policy))}
    labels["one-more"] = "value"
    (found,) = validate_policy(PlacementPolicy.read(policy))
    assert (found.rule, str(found.field)) == ("X-28", "spec.policy.affinity.clusterAffinity")
    assert "has 501" in found.text()
