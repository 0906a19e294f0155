"""Which overrides apply to a placement, and which of them match a cluster."""

from datetime import UTC, datetime

import pytest

from scorer.api.names import SNAPSHOT_REFUSED
from scorer.rollout.bindings import Overrides
from scorer.rollout.overrides.matching import (
    describe_awaited,
    matching_overrides,
    overrides_by_cluster,
    placement_key,
)
from scorer.rollout.overrides.rules import RulesError, read_rules
from scorer.rollout.snapshots.groups import snapshot_groups
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots
from tests.builders.placement import make_placement

FLEET = "kubernetes-fleet.io/"
GROUP = "placement.kubernetes-fleet.io/v1beta1"
EVERYWHERE = {"clusterSelectorTerms": []}
NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
ROLE = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "reader"}
RATES = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}


def make_snapshot(name, *selectors, namespace="", latest="true", index=0, placement=None, rules=None, scope="Cluster"):
    labels = {
        FLEET + "parent-resource-override": name,
        FLEET + "override-index": str(index),
        FLEET + "is-latest-snapshot": latest,
    }
    spec = {
        "resourceSelectors" if namespace else "clusterResourceSelectors": list(selectors),
        "policy": {"overrideRules": rules or [{"clusterSelector": EVERYWHERE, "overrideType": "Delete"}]},
    }
    if placement:
        spec["placement"] = {"name": placement, "scope": scope}
    metadata = {"name": f"{name}-{index}", "labels": labels} | ({"namespace": namespace} if namespace else {})
    return {"metadata": metadata, "spec": {"overrideSpec": spec}}


def make_object(kind, name, namespace="", api_version="v1", **more):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def matched(objects, *snapshots, placement=None):
    home = placement or make_placement("p")
    plan = plan_resource_snapshots(home, [], objects, datetime(2026, 11, 20, tzinfo=UTC), UNTHROTTLED)
    group = snapshot_groups(write.document for write in plan.writes)[0]
    return [item["metadata"]["name"] for item in matching_overrides(home, group, snapshots)]


CONFIG_MAP = make_object("ConfigMap", "rates", "shop")
CLUSTER_ROLE = make_object("ClusterRole", "reader", api_version="rbac.authorization.k8s.io/v1")


def envelope(kind, namespace, *contents):
    data = {f"{at}.yaml": content for at, content in enumerate(contents)}
    return make_object(kind, "e", namespace, GROUP, data=data)


@pytest.mark.parametrize(
    ("content", "snapshot", "hit"),
    [
        pytest.param(CLUSTER_ROLE, make_snapshot("o", ROLE), True, id="cluster-scoped-by-itself"),
        pytest.param(CLUSTER_ROLE, make_snapshot("o", {**ROLE, "name": "x"}), False, id="another-name"),
        pytest.param(CLUSTER_ROLE, make_snapshot("o", {**ROLE, "version": "v1beta1"}), False, id="another-version"),
        pytest.param(CLUSTER_ROLE, make_snapshot("o", {**ROLE, "group": ""}), False, id="another-group"),
        pytest.param(make_object("Namespace", "shop"), make_snapshot("o", NAMESPACE), True, id="namespace-by-itself"),
        pytest.param(CONFIG_MAP, make_snapshot("o", NAMESPACE), True, id="namespaced-by-its-namespace"),
        pytest.param(
            CONFIG_MAP,
            make_snapshot("o", {**NAMESPACE, "selectionScope": "NamespaceOnly"}),
            True,
            id="whatever-the-scope-of-the-selector",
        ),
        pytest.param(CONFIG_MAP, make_snapshot("o", {**NAMESPACE, "name": "x"}), False, id="another-namespace"),
        pytest.param(CONFIG_MAP, make_snapshot("o", RATES), False, id="cluster-wide-override-of-a-namespaced-object"),
        pytest.param(CONFIG_MAP, make_snapshot("o", RATES, namespace="shop"), True, id="namespaced-by-itself"),
        pytest.param(
            CONFIG_MAP, make_snapshot("o", RATES, namespace="dock"), False, id="override-of-another-namespace"
        ),
        pytest.param(CONFIG_MAP, make_snapshot("o", ROLE, NAMESPACE), True, id="one-selector-is-enough"),
        pytest.param(CONFIG_MAP, make_snapshot("o", NAMESPACE, latest="false"), False, id="not-the-latest"),
        pytest.param(CONFIG_MAP, {"metadata": {"name": "o-0"}, "spec": {}}, False, id="nothing-in-it"),
        pytest.param(
            envelope("ClusterResourceEnvelope", "", CLUSTER_ROLE), make_snapshot("o", ROLE), True, id="enveloped"
        ),
        pytest.param(
            envelope("ClusterResourceEnvelope", "", CONFIG_MAP, CLUSTER_ROLE),
            make_snapshot("o", ROLE),
            True,
            id="misplaced-content-hides-nothing-else",
        ),
        pytest.param(
            envelope("ClusterResourceEnvelope", "", CONFIG_MAP), make_snapshot("o", NAMESPACE), False, id="misplaced"
        ),
        pytest.param(
            envelope("ClusterResourceEnvelope", "", {"kind": "ClusterRole"}),
            make_snapshot("o", ROLE),
            False,
            id="unreadable-content",
        ),
        pytest.param(
            envelope("ClusterResourceEnvelope", "", CLUSTER_ROLE),
            make_snapshot(
                "o",
                {
                    "group": GROUP.partition("/")[0],
                    "version": "v1beta1",
                    "kind": "ClusterResourceEnvelope",
                    "name": "e",
                },
            ),
            False,
            id="never-the-envelope-itself",
        ),
        pytest.param(
            envelope("ResourceEnvelope", "shop", CONFIG_MAP),
            make_snapshot("o", RATES, namespace="shop"),
            True,
            id="namespaced-envelope-by-content",
        ),
        pytest.param(
            envelope("ResourceEnvelope", "shop"), make_snapshot("o", NAMESPACE), True, id="envelope-by-its-namespace"
        ),
        pytest.param(
            envelope("ResourceEnvelope", "shop", make_object("ConfigMap", "rates", "dock")),
            make_snapshot("o", RATES, namespace="dock"),
            False,
            id="content-of-another-namespace",
        ),
    ],
)
def test_what_an_override_hits(content, snapshot, hit):
    assert matched([content], snapshot) == (["o-0"] if hit else [])


@pytest.mark.parametrize(
    ("override", "placement", "hit"),
    [
        pytest.param({"placement": "p"}, make_placement("p"), True, id="named"),
        pytest.param({"placement": "q"}, make_placement("p"), False, id="another"),
        pytest.param({}, make_placement("q"), True, id="any"),
        pytest.param({}, make_placement("q", namespace="shop"), True, id="any-in-a-namespace"),
        pytest.param({"placement": "p"}, make_placement("p", namespace="shop"), False, id="of-the-other-scope"),
        pytest.param(
            {"placement": "p", "scope": "Namespaced"}, make_placement("p", namespace="shop"), True, id="namespaced"
        ),
        pytest.param(
            {"placement": "p", "scope": "Namespaced"}, make_placement("p", namespace="x"), False, id="elsewhere"
        ),
        pytest.param({"placement": "p", "scope": "Namespaced"}, make_placement("p"), False, id="cluster-scoped"),
    ],
)
def test_the_placement_that_an_override_is_for(override, placement, hit):
    snapshot = make_snapshot("o", RATES, namespace="shop", **override)
    assert matched([CONFIG_MAP], snapshot, placement=placement) == (["o-0"] if hit else [])


IGNORE = "harbormaster.dev/ignore-resource-overrides"


@pytest.mark.parametrize(
    ("metadata", "namespace", "names"),
    [
        pytest.param({"annotations": {IGNORE: "true"}}, "", ["x-0"], id="opted-out"),
        pytest.param({"annotations": {IGNORE: "false"}}, "", ["x-0", "named-0", "own-0"], id="not-opted-out"),
        pytest.param({"labels": {IGNORE: "true"}}, "", ["x-0", "named-0", "own-0"], id="a-label"),
        pytest.param({}, "", ["x-0", "named-0", "own-0"], id="absent"),
        pytest.param({"annotations": {IGNORE: "true"}}, "shop", ["x-0", "own-0"], id="of-a-namespace"),
    ],
)
@pytest.mark.parametrize("content", [CONFIG_MAP, envelope("ResourceEnvelope", "shop", CONFIG_MAP)])
def test_a_cluster_placement_opts_out_of_the_overrides_of_namespaces(content, metadata, namespace, names):
    home = make_placement("p", namespace=namespace, metadata=metadata)
    snapshots = (
        make_snapshot("own", RATES, namespace="shop"),
        make_snapshot("named", RATES, namespace="shop", placement="p"),
        make_snapshot("x", NAMESPACE),
    )
    assert matched([content], *snapshots, placement=home) == names


def test_a_cluster_wide_override_for_a_namespaced_placement_is_for_none():
    """Denied at admission (O-02); if it exists anyway, it must not reach the cluster-scoped placement of that name."""
    assert placement_key({"placement": {"name": "p", "scope": "Namespaced"}}, "") == "/p"


def test_of_two_labelled_latest_the_greater_index_counts():
    older, newer = make_snapshot("o", NAMESPACE, index=9), make_snapshot("o", NAMESPACE, index=10)
    assert matched([CONFIG_MAP], newer, older) == ["o-10"]
    assert matched([CONFIG_MAP], make_snapshot("o", ROLE, index=10), older) == []


def make_member(name="a", **labels):
    return {"metadata": {"name": name, "labels": labels}}


def term(**selector):
    return {"labelSelector": selector or None}


@pytest.mark.parametrize(
    ("selector", "held"),
    [
        pytest.param(None, False, id="absent-none"),
        pytest.param({"clusterSelectorTerms": []}, True, id="no-terms-all"),
        pytest.param({"clusterSelectorTerms": [{"labelSelector": {}}]}, True, id="empty-selector-all"),
        pytest.param({"clusterSelectorTerms": [{"labelSelector": None}]}, False, id="null-selector-none"),
        pytest.param({"clusterSelectorTerms": [{}]}, False, id="no-selector-none"),
        pytest.param({"clusterSelectorTerms": [term(matchLabels={"zone": "1"})]}, True, id="label"),
        pytest.param({"clusterSelectorTerms": [term(matchLabels={"zone": "2"})]}, False, id="another-value"),
        pytest.param(
            {"clusterSelectorTerms": [term(matchLabels={"zone": "2"}), term(matchLabels={"zone": "1"})]},
            True,
            id="any-term",
        ),
        pytest.param({"clusterSelectorTerms": [term(matchLabels={"zone": "1", "x": "y"})]}, False, id="all-of-a-term"),
        pytest.param(
            {"clusterSelectorTerms": [term(matchLabels={FLEET + "member-name": "a"})]}, True, id="member-name"
        ),
        pytest.param(
            {"clusterSelectorTerms": [term(matchExpressions=[{"key": "zone", "operator": "Exists"}])]},
            True,
            id="expression",
        ),
    ],
)
def test_what_a_rule_holds_for(selector, held):
    never = {"clusterSelector": {"clusterSelectorTerms": [term(matchLabels={"no": "where"})]}, "overrideType": "Delete"}
    rule = {"overrideType": "Delete"} | ({"clusterSelector": selector} if selector else {})
    snapshot = make_snapshot("o", NAMESPACE, rules=[never, rule])
    found = overrides_by_cluster([snapshot], {"a": make_member(zone="1")})
    assert found.by_cluster == ({"a": Overrides(("o-0",))} if held else {})


def test_the_order_in_which_overrides_are_stored():
    snapshots = [
        make_snapshot("b", RATES, namespace="shop"),
        make_snapshot("z", RATES, namespace="dock"),
        make_snapshot("a", RATES, namespace="shop"),
        make_snapshot("y", NAMESPACE),
        make_snapshot("x", NAMESPACE),
    ]
    objects = [CONFIG_MAP, make_object("ConfigMap", "rates", "dock")]
    plan = plan_resource_snapshots(make_placement("p"), [], objects, datetime(2026, 11, 20, tzinfo=UTC), UNTHROTTLED)
    group = snapshot_groups(write.document for write in plan.writes)[0]
    found = overrides_by_cluster(matching_overrides(make_placement("p"), group, snapshots), {"a": make_member()})
    wanted = Overrides(("x-0", "y-0"), (("dock", "z-0"), ("shop", "a-0"), ("shop", "b-0")))
    assert found.by_cluster == {"a": wanted}


def test_a_cluster_nobody_knows_is_named_when_it_matters():
    snapshot = make_snapshot("o", NAMESPACE)
    found = overrides_by_cluster([snapshot], {"a": make_member(), "b": None})
    assert (found.missing, list(found.by_cluster)) == (("b",), ["a"])
    assert overrides_by_cluster([], {"b": None}).missing == ()


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        pytest.param(None, ["spec.policy"], id="no-policy"),
        pytest.param(
            {"overrideRules": [{"overrideType": "Merge"}]},
            ["spec.policy.overrideRules[0].overrideType"],
            id="unknown-type",
        ),
        pytest.param(
            {
                "overrideRules": [
                    {"clusterSelector": {"clusterSelectorTerms": [term(matchLabels={"a b": "1"})]}},
                ]
            },
            ["spec.policy.overrideRules[0].clusterSelector.clusterSelectorTerms[0].labelSelector", "a b"],
            id="no-label-key",
        ),
        pytest.param(
            {
                "overrideRules": [
                    {"clusterSelector": EVERYWHERE},
                    {
                        "clusterSelector": {
                            "clusterSelectorTerms": [{"propertySelector": {"matchExpressions": []}}, term()]
                        }
                    },
                ]
            },
            ["spec.policy.overrideRules[1]", "propertySelector"],
            id="by-property",
        ),
    ],
)
def test_rules_that_slipped_past_admission_hold_everywhere_so_that_they_are_seen(policy, words):
    snapshot = make_snapshot("o", NAMESPACE)
    snapshot["spec"]["overrideSpec"]["policy"] = policy
    error = read_rules(snapshot)
    assert isinstance(error, RulesError)
    assert all(word in error.message for word in words)
    assert overrides_by_cluster([snapshot], {"a": make_member()}).by_cluster == {"a": Overrides(("o-0",))}


def test_a_long_reason_of_a_refused_snapshot_fits_into_a_condition():
    """A user can write the annotation, and the API server refuses a condition with more than 32 KiB."""
    awaited = [make_snapshot(name, NAMESPACE) for name in ("a", "b", "c", "d")]
    for snapshot in awaited:
        snapshot["metadata"]["annotations"] = {SNAPSHOT_REFUSED: "x" * 200_000}
    message = describe_awaited(awaited)
    assert message.endswith(" and 1 more")
    assert len(message) < 5000
