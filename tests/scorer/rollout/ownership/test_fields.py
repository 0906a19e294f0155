"""Fields that a cluster fills: not sent by the hub, and on a member neither reverted nor compared."""

import pytest

from scorer.rollout.ownership.fields import (
    RULES,
    member_fields,
    with_member_fields,
    without_filled_fields,
    without_member_fields,
)

IGNORE = "harbormaster.dev/ignore-fields"
WEBHOOKS = ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")


def make(api_version, kind, spec=None, metadata=None, **more):
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", **(metadata or {})}}
    return document | ({} if spec is None else {"spec": spec}) | more


def ignoring(text):
    return {"annotations": {IGNORE: text}}


def annotated(*keys):
    return {"annotations": dict.fromkeys(keys, "yes")}


def written_by(manager, *path):
    fields = {}
    for name in reversed(path):
        fields = {name: fields}
    return {"manager": manager, "operation": "Update", "fieldsV1": fields}


def webhooks(*bundles, **metadata):
    items = [
        {"name": f"w{at}", "clientConfig": {"service": {"name": "s"}} | ({"caBundle": bundle} if bundle else {})}
        for at, bundle in enumerate(bundles)
    ]
    return make(*WEBHOOKS, metadata=metadata, webhooks=items)


OF_WEBHOOKS = ("f:webhooks", 'k:{"name":"w0"}', "f:clientConfig", "f:caBundle")
INJECTED = {"annotations": {"cert-manager.io/inject-ca-from": "a/b"}}
AGGREGATED = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}


@pytest.mark.parametrize(
    ("document", "sent"),
    [
        pytest.param(
            make("v1", "Service", {"clusterIP": "1.1.1.1", "clusterIPs": ["1.1.1.1"], "type": "ClusterIP"}),
            make("v1", "Service", {"type": "ClusterIP"}),
            id="cluster-ip",
        ),
        pytest.param(
            make("v1", "Service", {"clusterIPs": ["None"]}),
            make("v1", "Service", {"clusterIPs": ["None"]}),
            id="headless",
        ),
        pytest.param(
            make(
                "v1", "Service", {"healthCheckNodePort": 3, "ports": [{"port": 1, "nodePort": 2}, {"nodePort": 3}, 7]}
            ),
            make("v1", "Service", {"ports": [{"port": 1}, {}, 7]}),
            id="node-ports",
        ),
        pytest.param(
            make(
                "v1",
                "PersistentVolumeClaim",
                {"volumeName": "pv-1", "storageClassName": "x"},
                annotated("pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/bind-completed", "team"),
            ),
            make("v1", "PersistentVolumeClaim", {"storageClassName": "x"}, annotated("team")),
            id="claim-bound-by-the-controller",
        ),
        pytest.param(
            make("v1", "PersistentVolumeClaim", {"volumeName": "pv-1"}, annotated("pv.kubernetes.io/bind-completed")),
            make("v1", "PersistentVolumeClaim", {"volumeName": "pv-1"}),
            id="claim-bound-by-its-author",
        ),
        pytest.param(
            make("v1", "PersistentVolume", {"claimRef": {"name": "c", "uid": "u"}, "x": 1}),
            make("v1", "PersistentVolume", {"claimRef": {"name": "c"}, "x": 1}),
            id="volume-reserved-by-its-author",
        ),
        pytest.param(
            make(
                "v1",
                "PersistentVolume",
                {"claimRef": {"name": "c"}, "x": 1},
                annotated("pv.kubernetes.io/bound-by-controller"),
            ),
            make("v1", "PersistentVolume", {"x": 1}),
            id="volume-bound-by-the-controller",
        ),
        pytest.param(
            make("rbac.authorization.k8s.io/v1", "ClusterRole", rules=[{"verbs": ["get"]}], **AGGREGATED),
            make("rbac.authorization.k8s.io/v1", "ClusterRole", **AGGREGATED),
            id="aggregated-role",
        ),
        pytest.param(
            make("rbac.authorization.k8s.io/v1", "ClusterRole", rules=[{"verbs": ["get"]}]),
            make("rbac.authorization.k8s.io/v1", "ClusterRole", rules=[{"verbs": ["get"]}]),
            id="ordinary-role",
        ),
        pytest.param(webhooks("AA==", "BB==", **INJECTED), webhooks("", "", **INJECTED), id="injector-by-annotation"),
        pytest.param(
            webhooks("AA==", managedFields=[written_by("gatekeeper", *OF_WEBHOOKS)]),
            webhooks("", managedFields=[written_by("gatekeeper", *OF_WEBHOOKS)]),
            id="injector-by-field-manager",
        ),
        pytest.param(
            webhooks("AA==", managedFields=[written_by("kubectl-patch", *OF_WEBHOOKS)]),
            webhooks("AA==", managedFields=[written_by("kubectl-patch", *OF_WEBHOOKS)]),
            id="bundle-patched-by-hand",
        ),
        pytest.param(webhooks("AA=="), webhooks("AA=="), id="bundle-of-the-author"),
        pytest.param(
            make("apiregistration.k8s.io/v1", "APIService", {"caBundle": "x", "group": "g"}, INJECTED),
            make("apiregistration.k8s.io/v1", "APIService", {"group": "g"}, INJECTED),
            id="api-service",
        ),
        pytest.param(
            make(
                "batch/v1",
                "Job",
                {
                    "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
                    "template": {"metadata": {"labels": {"job-name": "a", "controller-uid": "u", "app": "x"}}},
                },
                {"labels": {"controller-uid": "u", "app": "x"}},
            ),
            make("batch/v1", "Job", {"template": {"metadata": {"labels": {"app": "x"}}}}, {"labels": {"app": "x"}}),
            id="job",
        ),
        pytest.param(
            make(
                "v1",
                "ConfigMap",
                metadata={"labels": {"config.openshift.io/inject-trusted-cabundle": "true"}},
                data={"ca-bundle.crt": "x"},
            ),
            make("v1", "ConfigMap", metadata={"labels": {"config.openshift.io/inject-trusted-cabundle": "true"}}),
            id="trusted-ca-of-openshift",
        ),
        pytest.param(make("v1", "Service", "x", data=1), make("v1", "Service", "x", data=1), id="malformed"),
        pytest.param(
            make("v1", "ConfigMap", metadata=ignoring("/data"), data={"a": "1"}),
            make("v1", "ConfigMap", metadata=ignoring("/data"), data={"a": "1"}),
            id="fields-to-ignore-are-sent",
        ),
    ],
)
def test_the_hub_does_not_send_what_its_cluster_filled(document, sent):
    before = repr(document)
    assert without_filled_fields(document) == sent
    assert repr(document) == before


@pytest.mark.parametrize(
    ("manifest", "live", "merged"),
    [
        pytest.param(
            make("v1", "Service", {"clusterIP": "", "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}),
            make(
                "v1",
                "Service",
                {
                    "clusterIP": "1.1.1.1",
                    "clusterIPs": ["1.1.1.1"],
                    "ports": [{"port": 53, "protocol": "TCP", "nodePort": 1}, {"port": 80, "nodePort": 2}],
                },
            ),
            make(
                "v1",
                "Service",
                {
                    "clusterIP": "1.1.1.1",
                    "clusterIPs": ["1.1.1.1"],
                    "ports": [{"port": 80, "nodePort": 2}, {"port": 53, "protocol": "UDP"}],
                },
            ),
            id="allocated-values-fill-in",
        ),
        pytest.param(
            make("v1", "Service", {"ports": [{"port": 80, "nodePort": 30080}]}),
            make("v1", "Service", {"ports": [{"port": 80, "nodePort": 30081}]}),
            make("v1", "Service", {"ports": [{"port": 80, "nodePort": 30080}]}),
            id="a-port-that-the-author-chose",
        ),
        pytest.param(
            webhooks("AA==", "BB=="),
            webhooks("mm==", "", managedFields=[written_by("cainjector", *OF_WEBHOOKS)]),
            webhooks("mm==", ""),
            id="injected-on-the-member",
        ),
        pytest.param(webhooks("AA=="), webhooks("mm=="), webhooks("AA=="), id="not-injected"),
        pytest.param(
            make("rbac.authorization.k8s.io/v1", "ClusterRole", rules=[], **AGGREGATED),
            make("rbac.authorization.k8s.io/v1", "ClusterRole", rules=[{"verbs": ["get"]}], **AGGREGATED),
            make("rbac.authorization.k8s.io/v1", "ClusterRole", rules=[{"verbs": ["get"]}], **AGGREGATED),
            id="aggregated-role",
        ),
        pytest.param(
            make("batch/v1", "Job", {"template": {}}),
            make("batch/v1", "Job", {"selector": {"matchLabels": {"controller-uid": "u"}}, "template": {}}),
            make("batch/v1", "Job", {"selector": {"matchLabels": {"controller-uid": "u"}}, "template": {}}),
            id="job",
        ),
        pytest.param(
            make("v1", "PersistentVolumeClaim", {}),
            make("v1", "PersistentVolumeClaim", {"volumeName": "pv-1"}, annotated("pv.kubernetes.io/bind-completed")),
            make("v1", "PersistentVolumeClaim", {"volumeName": "pv-1"}, annotated("pv.kubernetes.io/bind-completed")),
            id="claim",
        ),
        pytest.param(
            make("v1", "Namespace"),
            make("v1", "Namespace", {"finalizers": ["kubernetes"]}),
            make("v1", "Namespace", {"finalizers": ["kubernetes"]}),
            id="namespace",
        ),
        pytest.param(
            make("apps/v1", "Deployment", {"replicas": 2, "paused": True}, ignoring("/spec/replicas /spec/paused")),
            make("apps/v1", "Deployment", {"replicas": 7}),
            make("apps/v1", "Deployment", {"replicas": 7}, ignoring("/spec/replicas /spec/paused")),
            id="ignored-fields",
        ),
        pytest.param(
            make("example.com/v1", "W", {"l": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]}, ignoring("/spec/l/1/v")),
            make("example.com/v1", "W", {"l": [{"name": "x"}, {"name": "a", "v": 8}, {"name": "b", "v": 9}]}),
            make("example.com/v1", "W", {"l": [{"name": "a", "v": 1}, {"name": "b", "v": 9}]}, ignoring("/spec/l/1/v")),
            id="item-of-the-same-name",
        ),
        pytest.param(
            make("example.com/v1", "W", {"l": [1, 2]}, ignoring("/spec/l/1")),
            make("example.com/v1", "W", {"l": [3, 4, 5]}),
            make("example.com/v1", "W", {"l": [1, 4]}, ignoring("/spec/l/1")),
            id="item-at-the-same-position",
        ),
        pytest.param(
            make("apps/v1", "Deployment", {"replicas": 2}, ignoring("/spec/replicas,spec")),
            make("apps/v1", "Deployment", {"replicas": 7}),
            make("apps/v1", "Deployment", {"replicas": 2}, ignoring("/spec/replicas,spec")),
            id="a-mistake-ignores-nothing",
        ),
    ],
)
def test_a_merge_starts_with_the_values_of_the_member(manifest, live, merged):
    before = repr(manifest), repr(live)
    assert with_member_fields(manifest, live) == merged
    assert (repr(manifest), repr(live)) == before


def test_a_configuration_leaves_out_what_others_write():
    annotation = ignoring("/spec/replicas")
    manifest = make("apps/v1", "Deployment", {"replicas": 2, "paused": False}, annotation)
    live = make("apps/v1", "Deployment", {"replicas": 7})
    assert without_member_fields(manifest, live) == make("apps/v1", "Deployment", {"paused": False}, annotation)
    assert ("spec", "replicas") in member_fields(manifest, live)


def test_an_object_is_created_with_the_fields_that_are_left_to_the_member():
    manifest = make("apps/v1", "Deployment", {"replicas": 2}, ignoring("/spec/replicas"))
    assert without_member_fields(manifest, {}) == manifest


def test_the_author_of_a_node_port_keeps_it():
    manifest = make("v1", "Service", {"ports": [{"port": 80, "nodePort": 30080}]})
    assert without_member_fields(manifest, make("v1", "Service", {"ports": []})) == manifest


@pytest.mark.parametrize("kind", RULES, ids=str)
def test_nothing_changes_between_equal_objects(kind):
    group, name = kind
    document = make(f"{group}/v1" if group else "v1", name, {"a": 1, "ports": [{"port": 1}]})
    assert with_member_fields(document, document) == document
    assert without_filled_fields(document) == document


@pytest.mark.parametrize("protocol", [["TCP"], {"TCP": 1}, 6])
def test_a_protocol_of_the_wrong_type_is_left_to_the_member_to_refuse(protocol):
    manifest = make("v1", "Service", {"ports": [{"port": 80, "protocol": protocol}]})
    live = make("v1", "Service", {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]})
    assert with_member_fields(manifest, live)["spec"]["ports"][0]["protocol"] == protocol


def test_positions_are_those_of_the_manifest():
    manifest = make("example.com/v1", "X", [f"v{at}" for at in range(12)], ignoring("/spec/0 /spec/10 /spec/2 /spec/1"))
    live = make("example.com/v1", "X", [])
    assert without_member_fields(manifest, live)["spec"] == [f"v{at}" for at in range(12) if at not in (0, 1, 2, 10)]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_items_that_share_a_port_are_matched_by_name(names):
    listeners = [{"name": name, "port": 443, "protocol": "HTTPS"} for name in ("a", "b")]
    gateway = make(
        "gateway.networking.k8s.io/v1", "Gateway", {"listeners": listeners}, ignoring("/spec/listeners/0/tls")
    )
    live = make(
        "gateway.networking.k8s.io/v1",
        "Gateway",
        {"listeners": [{**listeners[0], "name": name, "tls": name} for name in names]},
    )
    assert with_member_fields(gateway, live)["spec"]["listeners"] == [{**listeners[0], "tls": "a"}, listeners[1]]
