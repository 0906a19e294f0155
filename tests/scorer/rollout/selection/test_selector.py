"""Which hub objects a placement selects, which of their fields are kept, and in which order."""

import pytest

from scorer.api.kinds import KINDS, Kind
from scorer.rollout.selection.content import stored_content
from scorer.rollout.selection.exclusions import SelectionSettings, parse_kind_rules
from scorer.rollout.selection.selector import (
    DocumentInventory,
    InvalidSelection,
    Selection,
    is_concerned,
    select_resources,
)

WIDGET = Kind("example.com", ("v1", "v1alpha1"), "Widget", "widgets", namespaced=True)
SERVED = {**KINDS, WIDGET.group_kind: WIDGET}


def make(api_version, kind, name, namespace="", labels=None, **more):
    metadata = {"name": name, "uid": f"u-{name}", "resourceVersion": "1"}
    metadata |= ({"namespace": namespace} if namespace else {}) | ({"labels": labels} if labels else {})
    metadata |= more.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def term(kind, name="", group="", version="v1", labels=None, scope=""):
    found = {"group": group, "version": version, "kind": kind}
    found |= {"name": name} if name else {}
    found |= {"labelSelector": {"matchLabels": labels}} if labels is not None else {}
    return found | ({"selectionScope": scope} if scope else {})


HUB = [
    make("v1", "Namespace", "shop", labels={"team": "a"}),
    make("v1", "Namespace", "bank", labels={"team": "a"}),
    make("v1", "Namespace", "default"),
    make("v1", "Namespace", "kube-system", labels={"team": "sys"}),
    make("v1", "Namespace", "old", metadata={"deletionTimestamp": "2026-11-20T12:00:00Z"}),
    make("v1", "ConfigMap", "settings", "shop", labels={"app": "web"}),
    make("v1", "ConfigMap", "kube-root-ca.crt", "shop"),
    make("v1", "ConfigMap", "left", "old"),
    make("v1", "Secret", "keys", "shop", type="Opaque"),
    make("v1", "Secret", "token", "shop", type="kubernetes.io/service-account-token"),
    make("v1", "ServiceAccount", "default", "shop"),
    make("v1", "ServiceAccount", "robot", "shop"),
    make("v1", "Pod", "p", "shop"),
    make("v1", "Event", "e", "shop"),
    make("coordination.k8s.io/v1", "Lease", "l", "shop"),
    make("apps/v1", "Deployment", "web", "shop"),
    make("apps/v1", "ReplicaSet", "web-1", "shop", metadata={"ownerReferences": [{"name": "web"}]}),
    make("apps/v1", "ReplicaSet", "alone", "shop"),
    make("v1", "Service", "web", "shop"),
    make("v1", "Endpoints", "web", "shop"),
    make("v1", "Endpoints", "manual", "shop"),
    make("discovery.k8s.io/v1", "EndpointSlice", "s", "shop", labels={"endpointslice.kubernetes.io/managed-by": "x"}),
    make("v1", "PersistentVolumeClaim", "disk", "shop"),
    make("example.com/v1", "Widget", "w", "shop", labels={"app": "web"}),
    make("rbac.authorization.k8s.io/v1", "ClusterRole", "reader", labels={"app": "web"}),
    make("placement.kubernetes-fleet.io/v1beta1", "ResourceEnvelope", "wrapped", "shop"),
    make("placement.kubernetes-fleet.io/v1beta1", "ResourcePlacement", "inner", "shop"),
]


def select(*terms, namespace="", documents=HUB, **settings):
    return select_resources(terms, namespace, DocumentInventory(documents), SERVED, SelectionSettings.of(**settings))


def names(selection):
    assert isinstance(selection, Selection), selection
    return [f"{item['kind']}/{item['name']}" for item in selection.identifiers]


def message(selection):
    assert isinstance(selection, InvalidSelection)
    return selection.message


SHOP = [
    "Namespace/shop",
    "ServiceAccount/robot",
    "Secret/keys",
    "ConfigMap/settings",
    "PersistentVolumeClaim/disk",
    "Service/web",
    "ReplicaSet/alone",
    "Deployment/web",
    "Endpoints/manual",
    "Widget/w",
    "ResourceEnvelope/wrapped",
]


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([term("Namespace", "shop")], SHOP, id="namespace-with-what-is-in-it"),
        pytest.param([term("Namespace", "shop", scope="NamespaceOnly")], ["Namespace/shop"], id="namespace-only"),
        pytest.param(
            [term("Namespace", scope="NamespaceOnly")],
            ["Namespace/bank", "Namespace/shop"],
            id="match-all-skips-reserved",
        ),
        pytest.param(
            [term("Namespace", labels={}, scope="NamespaceOnly")],
            ["Namespace/bank", "Namespace/shop"],
            id="empty-label-selector-matches-all",
        ),
        pytest.param([term("Namespace", "old")], [], id="deleting-namespace"),
        pytest.param([term("Namespace", "nowhere")], [], id="named-object-may-come-later"),
        pytest.param(
            [
                term("Namespace", "shop", scope="NamespaceWithResourceSelectors"),
                term("Widget", group="example.com", version="v1alpha1"),
                term("ClusterRole", group="rbac.authorization.k8s.io", labels={"app": "web"}),
            ],
            ["Namespace/shop", "ClusterRole/reader", "Widget/w"],
            id="with-selectors",
        ),
        pytest.param([term("Node"), term("Lease", group="coordination.k8s.io")], [], id="kinds-never-selected"),
        pytest.param(
            [term("ClusterResourcePlacement", group="placement.kubernetes-fleet.io", version="v1")],
            [],
            id="our-own-kinds",
        ),
    ],
)
def test_what_a_cluster_placement_selects(terms, expected):
    assert names(select(*terms)) == expected


def test_a_resource_placement_selects_in_its_own_namespace():
    other = make("v1", "ConfigMap", "settings", "bank")
    found = select(term("ConfigMap"), term("Secret", "keys"), namespace="shop", documents=[*HUB, other])
    assert names(found) == ["Secret/keys", "ConfigMap/settings"]


@pytest.mark.parametrize(
    ("namespace", "terms", "words"),
    [
        pytest.param("", [term("ConfigMap", "a")], "ConfigMap is namespaced", id="namespaced-in-crp"),
        pytest.param("shop", [term("Namespace", "shop")], "must not select namespaces", id="namespace-in-rp"),
        pytest.param(
            "shop",
            [term("ClusterRole", group="rbac.authorization.k8s.io")],
            "ClusterRole is cluster-scoped",
            id="cluster-kind-in-rp",
        ),
        pytest.param("", [term("Gadget", group="example.com")], "serves no Gadget", id="unknown-kind"),
        pytest.param("", [term("Widget", group="example.com", version="v9")], "version 'v9'", id="unknown-version"),
        pytest.param(
            "",
            [term("Namespace", "default", scope="NamespaceOnly")],
            "namespace default is reserved",
            id="reserved-by-name",
        ),
        pytest.param("", [term("Namespace", labels={"team": "sys"})], "kube-system", id="reserved-by-label"),
        pytest.param("", [term("Namespace", "extra")], "namespace extra is reserved", id="reserved-by-option"),
        pytest.param(
            "",
            [term("Namespace", "shop"), term("Namespace", labels={"team": "a"})],
            "Namespace shop",
            id="same-object-twice",
        ),
        pytest.param(
            "",
            [term("Namespace", "shop", scope="NamespaceWithResourceSelectors"), term("Namespace", "bank")],
            "exactly one namespace",
            id="two-namespace-terms",
        ),
        pytest.param(
            "",
            [term("Namespace", labels={"a": "b"}, scope="NamespaceWithResourceSelectors")],
            "by its name",
            id="scope-by-label",
        ),
        pytest.param(
            "",
            [term("Namespace", "nowhere", scope="NamespaceWithResourceSelectors")],
            "nowhere does not exist",
            id="scope-missing",
        ),
        pytest.param(
            "", [term("Namespace", "old", scope="NamespaceWithResourceSelectors")], "being deleted", id="scope-deleting"
        ),
        pytest.param("", [term("Namespace", labels={"-": "b"})], "'-'", id="bad-label-key"),
        pytest.param("", [term("Namespace", "shop", scope="Half")], "selectionScope 'Half'", id="unknown-scope"),
    ],
)
def test_mistakes_of_the_user(namespace, terms, words):
    extra = make("v1", "Namespace", "extra")
    found = select(*terms, namespace=namespace, documents=[*HUB, extra], reserved_namespaces="extra;more, less")
    assert words in message(found)


OURS = "appliedworks.placement.kubernetes-fleet.io"
DEFINITIONS = [
    make("apiextensions.k8s.io/v1", "CustomResourceDefinition", OURS, labels={"app": "web"}),
    make("apiextensions.k8s.io/v1", "CustomResourceDefinition", "boats.example.com", labels={"app": "web"}),
]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param({"name": OURS}, id="by-name"),
        pytest.param({"labels": {"app": "web"}}, id="by-label"),
    ],
)
def test_a_definition_of_the_fleet_that_is_reached_fails_the_placement_and_is_named(found):
    wanted = term("CustomResourceDefinition", group="apiextensions.k8s.io", **found)
    assert f"CustomResourceDefinition {OURS} defines a kind of the fleet" in message(
        select(wanted, documents=DEFINITIONS)
    )


@pytest.mark.parametrize("labels", [None, {}], ids=["no-selector", "empty-selector"])
def test_who_takes_all_definitions_does_not_get_those_of_the_fleet(labels):
    wanted = term("CustomResourceDefinition", group="apiextensions.k8s.io", labels=labels)
    assert names(select(wanted, documents=DEFINITIONS)) == ["CustomResourceDefinition/boats.example.com"]


def test_an_envelope_is_selected_although_it_is_of_a_kind_of_ours():
    found = make("placement.kubernetes-fleet.io/v1beta1", "ClusterResourceEnvelope", "wrapped")
    wanted = term("ClusterResourceEnvelope", "wrapped", "placement.kubernetes-fleet.io", "v1beta1")
    assert names(select(wanted, documents=[found])) == ["ClusterResourceEnvelope/wrapped"]


@pytest.mark.parametrize("namespace", ["harbormaster-system", "fleet-member-lion"])
def test_nothing_in_a_namespace_of_the_fleet_is_placed(namespace):
    documents = [make("v1", "Namespace", namespace), make("v1", "Secret", "ca", namespace)]
    found = select(term("Secret"), namespace=namespace, documents=documents)
    assert f"namespace {namespace} belongs to the fleet itself" in message(found)
    assert "reserved" in message(select(term("Namespace", namespace), documents=documents))


def test_an_allow_list_does_not_let_the_fleets_own_out():
    kind = term("ClusterUpgradeRun", group="upgrade.harbormaster.dev", version="v1alpha1")
    run = make("upgrade.harbormaster.dev/v1alpha1", "ClusterUpgradeRun", "may")
    for settings in ({}, {"allowed": "upgrade.harbormaster.dev"}):
        assert names(select(kind, documents=[run], **settings)) == []


def test_claims_stay_at_home_where_the_hub_runs_workloads():
    assert "PersistentVolumeClaim/disk" not in names(select(term("Namespace", "shop"), workloads_enabled=True))


def test_an_allow_list_replaces_the_block_list():
    found = select(term("Namespace", "shop"), allowed="v1/Namespace,Pod; example.com")
    assert names(found) == ["Namespace/shop", "Pod/p", "Widget/w"]
    blocked = select(term("Namespace", "shop"), blocked="example.com/v1/Widget;apps")
    assert {"Widget/w", "Deployment/web"}.isdisjoint(names(blocked))


@pytest.mark.parametrize("text", ["a/b/c/d", "example.com/v1/Kind One", "/v1"])
def test_a_token_that_is_no_rule_is_shown(text):
    with pytest.raises(ValueError, match="is not one of GROUP"):
        parse_kind_rules(text)


def test_both_lists_exclude_each_other():
    with pytest.raises(ValueError, match="mutually exclusive"):
        SelectionSettings.of(allowed="apps", blocked="batch")


@pytest.mark.parametrize(
    ("document", "kept"),
    [
        pytest.param(
            make(
                "v1",
                "ConfigMap",
                "a",
                status={"x": 1},
                metadata={
                    "generation": 3,
                    "finalizers": ["f"],
                    "annotations": {
                        "kubectl.kubernetes.io/last-applied-configuration": "{}",
                        "harbormaster.dev/allow-deletion": "true",
                    },
                },
            ),
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
            id="metadata",
        ),
        pytest.param(
            make(
                "v1",
                "Service",
                "a",
                spec={"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 1, "nodePort": 2}]},
            ),
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}]}},
            id="service",
        ),
        pytest.param(
            make("v1", "Service", "a", spec={"clusterIP": "None", "clusterIPs": ["None"], "healthCheckNodePort": 3}),
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "a"},
                "spec": {"clusterIP": "None", "clusterIPs": ["None"]},
            },
            id="headless-service",
        ),
        pytest.param(
            make(
                "batch/v1",
                "Job",
                "a",
                spec={
                    "selector": {"matchLabels": {"controller-uid": "1", "app": "x"}},
                    "template": {
                        "metadata": {
                            "creationTimestamp": None,
                            "labels": {"batch.kubernetes.io/controller-uid": "1", "app": "x"},
                        },
                        "spec": {},
                    },
                },
            ),
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "a"},
                "spec": {
                    "selector": {"matchLabels": {"app": "x"}},
                    "template": {"metadata": {"labels": {"app": "x"}}, "spec": {}},
                },
            },
            id="job",
        ),
    ],
)
def test_only_what_belongs_to_the_user_is_kept(document, kept):
    before = repr(document)
    assert stored_content(document) == kept
    assert repr(document) == before


def test_a_job_with_a_manual_selector_keeps_its_labels():
    spec = {"manualSelector": True, "selector": {"matchLabels": {"controller-uid": "1"}}}
    assert stored_content(make("batch/v1", "Job", "a", spec=spec))["spec"] == spec


def make_placement(*terms, namespace="", selected=()):
    metadata = {"name": "p"} | ({"namespace": namespace} if namespace else {})
    return {"metadata": metadata, "spec": {"resourceSelectors": terms}, "status": {"selectedResources": list(selected)}}


SHOP_NAMESPACE = HUB[0]
SETTINGS = HUB[5]


@pytest.mark.parametrize(
    ("placement", "changed", "deleted", "concerned"),
    [
        pytest.param(
            make_placement(term("Namespace", "shop")), SETTINGS, False, True, id="object-in-a-selected-namespace"
        ),
        pytest.param(make_placement(term("Namespace", "shop")), SETTINGS, True, True, id="deleted-there"),
        pytest.param(
            make_placement(term("Namespace", "shop", scope="NamespaceOnly")),
            SETTINGS,
            False,
            False,
            id="namespace-only",
        ),
        pytest.param(
            make_placement(term("Namespace", labels={"team": "a"})), SETTINGS, False, True, id="namespace-by-label"
        ),
        pytest.param(make_placement(term("Namespace", "bank")), SETTINGS, False, False, id="another-namespace"),
        pytest.param(make_placement(term("Namespace", "shop")), SHOP_NAMESPACE, False, True, id="the-namespace-itself"),
        pytest.param(
            make_placement(term("Namespace", "shop")), SHOP_NAMESPACE, True, False, id="deleted-before-it-was-listed"
        ),
        pytest.param(
            make_placement(selected=[{"version": "v1", "kind": "Namespace", "name": "shop"}]),
            SHOP_NAMESPACE,
            True,
            True,
            id="deleted-and-listed",
        ),
        pytest.param(make_placement(term("ConfigMap"), namespace="shop"), SETTINGS, False, True, id="own-namespace"),
        pytest.param(
            make_placement(term("ConfigMap"), namespace="bank"), SETTINGS, False, False, id="not-own-namespace"
        ),
        pytest.param(
            make_placement(term("ConfigMap", labels={"app": "db"}), namespace="shop"),
            SETTINGS,
            False,
            False,
            id="other-label",
        ),
        pytest.param(
            make_placement(term("PersistentVolumeClaim"), namespace="shop"),
            make("apps/v1", "StatefulSet", "db", "shop"),
            False,
            True,
            id="owner-of-selected-claims",
        ),
        pytest.param(
            make_placement(term("PersistentVolumeClaim"), namespace="bank"),
            make("apps/v1", "StatefulSet", "db", "shop"),
            False,
            False,
            id="owner-of-other-claims",
        ),
    ],
)
def test_which_placements_a_change_concerns(placement, changed, deleted, concerned):
    assert is_concerned(placement, changed, SHOP_NAMESPACE, is_deleted=deleted) is concerned


def test_the_order_of_the_hub_does_not_matter():
    assert select(term("Namespace", "shop")) == select(term("Namespace", "shop"), documents=HUB[::-1])
