"""The roles that ``harbormaster rbac`` prints, as a real API server understands them."""

import json
import time
from collections.abc import Iterator

import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.printed import printed_with
from e2e.controlplane.process import PATIENCE
from e2e.fleet.waiting import wait_until
from scorer.membership.access import agent_rules

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACE = "harbormaster-system"
PROCESSES = {
    "loop": ("reconcile", "--back-report"),
    "narrow-loop": ("reconcile", "--select", "namespaces", "--select", "configmaps", "--select", "boats.example.com"),
    "server": ("serve",),
    "keeper": ("serve",),
    "agent": ("agent",),
    "placing-agent": ("agent", "--apply-rbac"),
}
"""Users, and what is printed for them."""


def printed(user: str) -> str:
    """What the command prints for one of the users."""
    environment = {"HARBORMASTER_LOOP_USER": user} if "reconcile" in PROCESSES[user] else {}
    if user == "keeper":
        environment["HARBORMASTER_CERTIFICATE_SECRET"] = "harbormaster-ca"
    return printed_with(environment, "rbac", *PROCESSES[user], "--user", user)


@pytest.fixture(scope="module")
def hub(twin: Cluster) -> Iterator[Cluster]:
    """A hub on which a namespace stands for the installation; each test applies the roles it is about."""
    twin.kubectl("create", "namespace", NAMESPACE)
    yield twin
    twin.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
def given(hub: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A user who has been given what is printed for them, and nothing else."""
    text = printed(request.param)
    hub.kubectl("apply", "-f", "-", given=text)
    yield request.param
    hub.kubectl("delete", "-f", "-", given=text)


def rules(hub: Cluster, user: str) -> set[tuple[object, ...]]:
    """Every single right that the API server says a user has, in the namespace of the installation."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": NAMESPACE},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status = hub.request("POST", path, body, acting_as={"username": user})[0]["status"]
    assert not status.get("evaluationError")
    return {right for rule in (*status["resourceRules"], *status["nonResourceRules"]) for right in rights(rule)}


def rights(rule: JsonObject) -> Iterator[tuple[object, ...]]:
    """Take one rule apart."""
    for verb in rule["verbs"]:
        for path in rule.get("nonResourceURLs") or ():
            yield verb, path
        for resource in rule.get("resources") or ():
            for name in rule.get("resourceNames") or ("",):
                yield verb, rule["apiGroups"][0], resource, name


def may(hub: Cluster, user: str, verb: str, resource: str, group: str = "", **attributes: str) -> bool:
    """Whether the API server would let a user do something, by default in any namespace."""
    plural, _, subresource = resource.partition("/")
    wanted = {"verb": verb, "group": group, "resource": plural, "subresource": subresource, **attributes}
    spec = {"user": user, "groups": ["system:authenticated"], "resourceAttributes": wanted}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    status = hub.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)[0]["status"]
    return bool(status["allowed"])


@pytest.mark.parametrize("given", PROCESSES, indirect=True)
def test_what_is_printed_is_what_is_allowed(hub, given):
    """The API server takes all of it, and it gives exactly the rights that the rules name."""
    listed = hub.kubectl("get", "clusterroles,roles", "-n", NAMESPACE, "-o", "json", "-A").stdout
    ours = [role for role in json.loads(listed)["items"] if role["metadata"]["name"].startswith("harbormaster-")]
    assert ours
    wanted = {right for role in ours for rule in role["rules"] for right in rights(rule)}
    assert rules(hub, given) - rules(hub, "nobody-in-particular") == wanted - rules(hub, "nobody-in-particular")


DANGEROUS = (
    *(
        (["create", "update", "patch", "delete", "deletecollection"], resource, "")
        for resource in ("secrets", "pods", "nodes")
    ),
    (["create"], "pods/exec", ""),
    (["create"], "serviceaccounts/token", ""),
    (["impersonate"], "users", ""),
    (["impersonate"], "groups", ""),
    (["impersonate"], "serviceaccounts", ""),
    (["bind", "escalate", "create", "update", "patch", "delete"], "clusterroles", "rbac.authorization.k8s.io"),
    (["bind", "escalate", "patch", "delete"], "roles", "rbac.authorization.k8s.io"),
    (["create", "update", "patch", "delete"], "clusterrolebindings", "rbac.authorization.k8s.io"),
    (["create", "update"], "validatingwebhookconfigurations", "admissionregistration.k8s.io"),
    (["create", "update", "delete"], "customresourcedefinitions", "apiextensions.k8s.io"),
    (["approve", "sign"], "signers", "certificates.k8s.io"),
    (["*"], "*", "*"),
)


@pytest.mark.parametrize("given", ["loop", "narrow-loop", "server", "keeper"], indirect=True)
def test_nothing_dangerous_is_allowed_on_the_hub(hub, given):
    allowed = [(verb, what) for verbs, what, group in DANGEROUS for verb in verbs if may(hub, given, verb, what, group)]
    assert allowed == []


@pytest.mark.parametrize("given", ["agent"], indirect=True)
def test_an_agent_cannot_give_itself_more(hub, given):
    assert may(hub, given, "create", "secrets")  # what placements place
    group = "rbac.authorization.k8s.io"
    for resource in ("roles", "clusterroles", "rolebindings", "clusterrolebindings"):
        assert not [verb for verb in ("create", "update", "bind", "escalate") if may(hub, given, verb, resource, group)]
    assert not may(hub, given, "impersonate", "users")
    assert not may(hub, given, "create", "pods/exec")


@pytest.mark.parametrize("given", ["narrow-loop"], indirect=True)
def test_only_the_selected_kinds_are_read(hub, given):
    assert may(hub, given, "list", "configmaps")
    assert may(hub, given, "watch", "boats", "example.com")
    assert not may(hub, given, "list", "secrets")
    assert not may(hub, given, "list", "deployments", "apps")
    assert may(
        hub, given, "update", "leases", "coordination.k8s.io", namespace=NAMESPACE, name="harbormaster-reconcile"
    )
    for verb in ("create", "update"):  # in its own namespace there are reservations, too
        assert not may(hub, given, verb, "leases", "coordination.k8s.io", namespace="kube-system")


def role(name: str, found: list[JsonObject]) -> JsonObject:
    meta = {"name": name, "namespace": "fleet-member-calais"}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": found}


def binding(name: str, kind: str, bound: str) -> JsonObject:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": "fleet-member-calais"},
        "roleRef": {"apiGroup": group, "kind": kind, "name": bound},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "calais"}],
    }


@pytest.mark.parametrize("given", ["narrow-loop"], indirect=True)
def test_the_loop_can_let_an_agent_in_and_nobody_further(hub, given):
    """It holds what an agent's Role gives, so the API server lets it make one; nothing wider."""
    loop = {"username": given}
    space = f"{RBAC}/namespaces/fleet-member-calais"
    meta = {"name": "fleet-member-calais"}
    hub.request(
        "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}, acting_as=loop
    )
    hub.request("POST", f"{space}/roles", role("fleet-role-calais", agent_rules()), acting_as=loop)
    mine = binding("fleet-rolebinding-calais", "Role", "fleet-role-calais")
    hub.request("POST", f"{space}/rolebindings", mine, acting_as=loop)
    works = "placement.kubernetes-fleet.io"

    def let_in() -> str:
        allowed = may(hub, "calais", "update", "works/status", works, namespace="fleet-member-calais")
        return "" if allowed else "not allowed yet"

    wait_until("the API server has seen the agent's new role", let_in)
    assert not may(hub, "calais", "update", "works/status", works, namespace="fleet-member-other")
    assert not may(hub, "calais", "create", "works", works, namespace="fleet-member-calais")
    wide = role("wide", [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}])
    for path, document in (("roles", wide), ("rolebindings", binding("wide", "ClusterRole", "cluster-admin"))):
        with pytest.raises(ApiError, match="attempting to grant RBAC permissions not currently held"):
            hub.request("POST", f"{space}/{path}", document, acting_as=loop)
    hub.request("DELETE", "/api/v1/namespaces/fleet-member-calais", acting_as=loop)


LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


def lease(name: str) -> JsonObject:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": "somebody"},
    }


def namespace(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def refuses(hub: Cluster, user: str, method: str, path: str, body: JsonObject | None = None) -> str:
    """What the API server says when it refuses a write; a policy that was just made is waited for, by dry runs."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            hub.request(method, f"{path}?dryRun=All", body, acting_as={"username": user})
        except ApiError as error:
            assert error.code in {403, 422}, str(error)
            return str(error)
        time.sleep(0.1)
    return ""


@pytest.mark.parametrize("given", ["server"], indirect=True)
def test_the_server_reserves_without_reaching_the_lease_of_the_leader(hub, given):
    """Rights to create cannot be limited to names, so a policy of the API server does it."""
    hub.request("POST", LEASES, lease("harbormaster-reconcile"))
    try:
        leading = f"{LEASES}/harbormaster-reconcile"
        assert "hb-res-" in refuses(hub, given, "DELETE", leading)
        assert "hb-res-" in refuses(hub, given, "PUT", leading, hub.request("GET", leading)[0])
        assert "hb-res-" in refuses(hub, given, "POST", LEASES, lease("another-leader"))
        hub.request("POST", LEASES, lease("hb-res-0123"), acting_as={"username": given})
        made = hub.request("GET", f"{LEASES}/hb-res-0123", acting_as={"username": given})[0]
        hub.request("PUT", f"{LEASES}/hb-res-0123", made, acting_as={"username": given})
        hub.request("DELETE", f"{LEASES}/hb-res-0123", acting_as={"username": given})
        assert hub.request("GET", leading)[0]["spec"]["holderIdentity"] == "somebody"
    finally:
        hub.request("DELETE", f"{LEASES}/harbormaster-reconcile")


@pytest.mark.parametrize("given", ["keeper"], indirect=True)
def test_a_server_that_keeps_an_authority_makes_no_other_secret(hub, given):
    """It could have a token of the loop made, and read it."""
    secrets = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    token = {"annotations": {"kubernetes.io/service-account.name": "harbormaster-reconcile"}}
    for name, kind in (("another", "Opaque"), ("harbormaster-ca", "kubernetes.io/service-account-token")):
        document = {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": name, **token}}
        assert "may write only" in refuses(hub, given, "POST", secrets, document)
    pair = {"tls.crt": "", "tls.key": ""}
    document = {"type": "kubernetes.io/tls", "metadata": {"name": "harbormaster-ca"}, "data": pair}
    hub.request(
        "POST",
        f"{secrets}?dryRun=All",
        {"apiVersion": "v1", "kind": "Secret", **document},
        acting_as={"username": given},
    )


@pytest.mark.parametrize("given", ["narrow-loop"], indirect=True)
def test_the_loop_makes_namespaces_and_roles_of_members_and_no_others(hub, given):
    loop = {"username": given}
    hub.request("POST", "/api/v1/namespaces", namespace("payments"))
    try:
        assert "fleet-member-" in refuses(hub, given, "DELETE", "/api/v1/namespaces/payments")
        assert "fleet-member-" in refuses(hub, given, "POST", "/api/v1/namespaces", namespace("fleet-memberless"))
        payments = hub.request("GET", "/api/v1/namespaces/payments")[0]
        assert "fleet-member-" in refuses(hub, given, "PUT", "/api/v1/namespaces/payments", payments)
        for path, document in (
            ("roles", role("fleet-role-calais", agent_rules())),
            ("rolebindings", binding("fleet-rolebinding-calais", "Role", "fleet-role-calais")),
        ):
            document["metadata"]["namespace"] = "payments"
            assert "fleet-member-" in refuses(hub, given, "POST", f"{RBAC}/namespaces/payments/{path}", document)
            hub.request("POST", f"{RBAC}/namespaces/payments/{path}", document)
            mine = f"{RBAC}/namespaces/payments/{path}/{document['metadata']['name']}"
            assert "fleet-member-" in refuses(hub, given, "PUT", mine, hub.request("GET", mine)[0])
        assert "hb-res-" in refuses(hub, given, "POST", LEASES, lease("another-leader"))
        for name in ("harbormaster-reconcile", "hb-res-0123"):
            hub.request("POST", LEASES, lease(name), acting_as=loop)
            hub.request("DELETE", f"{LEASES}/{name}")
        hub.request("POST", "/api/v1/namespaces", namespace("fleet-member-made-by-the-loop"), acting_as=loop)
        hub.request("DELETE", "/api/v1/namespaces/fleet-member-made-by-the-loop", acting_as=loop)
    finally:
        hub.request("DELETE", "/api/v1/namespaces/payments")


@pytest.mark.parametrize("given", ["loop"], indirect=True)
def test_no_account_reads_secrets_unasked(hub, given):
    assert may(hub, given, "list", "configmaps")
    assert not [verb for verb in ("get", "list", "watch") if may(hub, given, verb, "secrets")]
