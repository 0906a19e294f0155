"""Who may place what: SubjectAccessReviews of a real API server."""

from collections.abc import Iterator

import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.placements import PLACEMENTS, placement

RBAC = "/apis/rbac.authorization.k8s.io/v1"
BETA = "/apis/placement.kubernetes-fleet.io/v1beta1"


@pytest.fixture(scope="module")
def bob(bare_hub: Cluster) -> Iterator[str]:
    """Somebody who may write placements and read namespaces, and nothing more."""
    role: JsonObject = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "placer"},
        "rules": [
            {"apiGroups": ["placement.kubernetes-fleet.io"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["get", "place"]},
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "placer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "placer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    }
    bare_hub.request("POST", f"{RBAC}/clusterroles", role)
    bare_hub.request("POST", f"{RBAC}/clusterrolebindings", binding)
    yield "bob"
    bare_hub.request("DELETE", f"{RBAC}/clusterrolebindings/placer")
    bare_hub.request("DELETE", f"{RBAC}/clusterroles/placer")


def ask(hub: Cluster, user: str, *terms: JsonObject) -> list[str]:
    document = placement("rights")
    if terms:
        document["spec"]["resourceSelectors"] = list(terms)
    return hub.request("POST", f"{PLACEMENTS}?dryRun=All", document, user=user)[1]


NAMESPACE_ALONE = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop", "selectionScope": "NamespaceOnly"}
ROLE = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "view"}
WEBHOOK = {
    "group": "admissionregistration.k8s.io",
    "version": "v1",
    "kind": "ValidatingWebhookConfiguration",
    "name": "gatekeeper",
}


@pytest.mark.core
def test_by_default_missing_rights_are_named_in_a_warning(hub, bob):
    assert '"bob" may not get secrets in namespace "shop"' in ask(hub, bob)
    assert not [warning for warning in ask(hub, bob, NAMESPACE_ALONE, ROLE) if "may not" in warning]
    assert not [warning for warning in ask(hub, "alice") if "may not" in warning]


def test_enforced_they_are_a_refusal(bare_hub, start_service, bob):
    strict = start_service(bare_hub, placement_authorization="Enforce")
    strict.register()
    with pytest.raises(ApiError, match='"bob" may not get secrets in namespace "shop"') as error:
        ask(bare_hub, bob)
    assert (error.value.code, error.value.status["reason"]) == (403, "Forbidden")
    with pytest.raises(ApiError, match='"bob" may not place validatingwebhookconfigurations'):
        ask(bare_hub, bob, WEBHOOK)
    ask(bare_hub, bob, NAMESPACE_ALONE, ROLE)
    ask(bare_hub, "alice")


def manifest(kind: str, name: str, group: str = "") -> JsonObject:
    return {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": {"name": name}}


def write(hub: Cluster, kind: str, path: str, user: str, body: JsonObject, *, verb: str = "POST") -> None:
    document = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind, "metadata": {"name": "rights"}}
    hub.request(verb, f"{BETA}/{path}?dryRun=All", document | body, user=user)


BINDING = manifest("ClusterRoleBinding", "everybody-is-admin", "rbac.authorization.k8s.io") | {
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}],
}
SNAPSHOT = {
    "metadata": {
        "name": "rights",
        "labels": {"kubernetes-fleet.io/parent-CRP": "rights", "kubernetes-fleet.io/resource-index": "0"},
    },
    "spec": {"selectedResources": [BINDING]},
}


def test_enforced_nobody_places_what_they_have_no_right_to_by_another_way(bare_hub, start_service, bob):
    """An envelope, a snapshot written by hand, an override that is changed afterwards."""
    strict = start_service(bare_hub, placement_authorization="Enforce")
    strict.register()
    power = '"bob" may not place clusterrolebindings.rbac.authorization.k8s.io "everybody-is-admin"'
    for kind, path, body in (
        ("ClusterResourceEnvelope", "clusterresourceenvelopes", {"data": {"a.yaml": BINDING}}),
        ("ClusterResourceSnapshot", "clusterresourcesnapshots", SNAPSHOT),
    ):
        with pytest.raises(ApiError, match=power) as error:
            write(bare_hub, kind, path, bob, body)
        assert error.value.code == 403
        write(bare_hub, kind, path, "alice", body)
    work = {"metadata": {"name": "rights", "namespace": "default"}, "spec": {"workload": {"manifests": [BINDING]}}}
    with pytest.raises(ApiError, match=power):
        write(bare_hub, "Work", "namespaces/default/works", bob, work)
    write(bare_hub, "Work", "namespaces/default/works", "alice", work)
    harmless = {"b.yaml": manifest("ClusterRole", "view", ROLE["group"])}
    write(bare_hub, "ClusterResourceEnvelope", "clusterresourceenvelopes", bob, {"data": harmless})
    more = {"data": harmless | {"a.yaml": manifest("Namespace", "shop")}}
    with pytest.raises(ApiError, match='"bob" may not create namespaces "shop" or place it'):
        write(bare_hub, "ClusterResourceEnvelope", "clusterresourceenvelopes", bob, more)
    system = {"data": {"a.yaml": manifest("Namespace", "kube-system")}}
    with pytest.raises(ApiError, match=r'data\[a.yaml\].metadata.name: .*"kube-system" is reserved'):
        write(bare_hub, "ClusterResourceEnvelope", "clusterresourceenvelopes", "alice", system)

    rule = {"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": []}
    patch = {"op": "add", "path": "/metadata/labels/a", "value": "b"}
    override: JsonObject = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourceOverride",
        "metadata": {"name": "rights"},
        "spec": {
            "clusterResourceSelectors": [{key: WEBHOOK[key] for key in ("group", "version", "kind", "name")}],
            "policy": {"overrideRules": [rule | {"jsonPatchOverrides": [patch]}]},
        },
    }
    stored, _ = bare_hub.request("POST", f"{BETA}/clusterresourceoverrides", override, user="alice")
    try:
        stored["spec"]["policy"]["overrideRules"][0]["jsonPatchOverrides"][0]["path"] = "/webhooks/0/clientConfig"
        with pytest.raises(ApiError, match='"bob" may not place validatingwebhookconfigurations'):
            write(bare_hub, "ClusterResourceOverride", "clusterresourceoverrides/rights", bob, stored, verb="PUT")
        write(bare_hub, "ClusterResourceOverride", "clusterresourceoverrides/rights", "alice", stored, verb="PUT")
    finally:
        bare_hub.request("DELETE", f"{BETA}/clusterresourceoverrides/rights")


def test_enforced_a_snapshot_takes_no_other_content_while_it_is_being_deleted(bare_hub, start_service, bob):
    """It is placed until it has gone, and its author's finalizer says when that is."""
    strict = start_service(bare_hub, placement_authorization="Enforce")
    strict.register()
    metadata = SNAPSHOT["metadata"] | {"name": "going", "finalizers": ["example.com/wait"]}
    made: JsonObject = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourceSnapshot",
        "metadata": metadata,
        "spec": {"selectedResources": []},
    }
    path = f"{BETA}/clusterresourcesnapshots"
    bare_hub.request("POST", path, made, user=bob)
    bare_hub.request("DELETE", f"{path}/going", user=bob)
    stored, _ = bare_hub.request("GET", f"{path}/going", user=bob)
    try:
        with pytest.raises(ApiError, match='"bob" may not place clusterrolebindings') as error:
            bare_hub.request("PUT", f"{path}/going?dryRun=All", stored | {"spec": SNAPSHOT["spec"]}, user=bob)
        assert error.value.code == 403
    finally:
        stored["metadata"]["finalizers"] = []
        bare_hub.request("PUT", f"{path}/going", stored, user=bob)
