"""Who may place what: SubjectAccessReviews of a real API server."""

from collections.abc import Iterator

import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.test_clients import PLACEMENTS, placement

RBAC = "/apis/rbac.authorization.k8s.io/v1"


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
    "name": "harbormaster",
}


def test_by_default_missing_rights_are_named_in_a_warning(hub, bob):
    assert '"bob" may not get secrets in namespace "shop"' in ask(hub, bob)
    assert not [warning for warning in ask(hub, bob, NAMESPACE_ALONE, ROLE) if "may not" in warning]
    assert not [warning for warning in ask(hub, "alice") if "may not" in warning]


def test_enforced_they_are_a_refusal(bare_hub, start_service, bob):
    strict = start_service(placement_authorization="Enforce")
    strict.register()
    with pytest.raises(ApiError, match='"bob" may not get secrets in namespace "shop"') as error:
        ask(bare_hub, bob)
    assert (error.value.code, error.value.status["reason"]) == (403, "Forbidden")
    with pytest.raises(ApiError, match='"bob" may not place validatingwebhookconfigurations'):
        ask(bare_hub, bob, WEBHOOK)
    ask(bare_hub, bob, NAMESPACE_ALONE, ROLE)
    ask(bare_hub, "alice")
