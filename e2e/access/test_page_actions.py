"""Actions of the page on a real API server: each has the rights of its viewer, and none of the server's."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.conftest import StartService
from e2e.controlplane.cluster import Cluster, JsonObject
from e2e.controlplane.printed import printed_with
from e2e.controlplane.service import Answer, Service
from e2e.fleet.objects import Objects, make_namespace
from e2e.fleet.waiting import wait_until
from e2e.staged_updates.written_runs import APPROVER, RUNS, approval_request, documented_role, waiting_run
from scorer.api.kinds import OUR_KINDS, STAGED_STRATEGY
from scorer.api.unstructured.documents import annotation
from tests.webhook.cli.fleets import placement

NAMESPACE = "harbormaster-system"
AUDIENCE = f"harbormaster.{NAMESPACE}.svc"
API_SERVER = "https://kubernetes.default.svc"
RBAC = "rbac.authorization.k8s.io"
USER = f"system:serviceaccount:{NAMESPACE}:"
REQUESTS = RUNS.replace("clusterstagedupdateruns", "clusterapprovalrequests")
TOKENS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
ACTORS = "page-actors"


def target(name: str) -> JsonObject:
    return {"kind": "ClusterStagedUpdateRun", "name": name}


@dataclass(frozen=True)
class Place:
    """A hub with runs that wait for approvals, a replica with the server's own rights, and two viewers."""

    hub: Cluster
    replica: Service

    def token(self, account: str, *audiences: str) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": audiences}}
        return str(self.hub.request("POST", f"{TOKENS}/{account}/token", body)[0]["status"]["token"])

    def act(self, account: str, body: JsonObject, *audiences: str, replica: Service | None = None) -> Answer:
        token = self.token(account, *(audiences or (AUDIENCE, API_SERVER)))
        return (replica or self.replica).ask("POST", "/v1/actions", body, token=token)

    def preview(self, account: str, body: JsonObject) -> JsonObject:
        answer = self.act(account, {**body, "dryRun": True})
        assert answer.status == 200, answer.body
        return answer.document

    def versions(self) -> dict[str, str]:
        """The resourceVersion of every object of our kinds."""
        found = {}
        for kind in OUR_KINDS:
            group = f"/apis/{kind.group}/{kind.versions[0]}"
            for item in self.hub.request("GET", f"{group}/{kind.plural}")[0]["items"]:
                metadata = item["metadata"]
                name = f"{kind.plural}/{metadata.get('namespace', '')}/{metadata['name']}"
                found[name] = metadata["resourceVersion"]
        return found


def objects() -> Iterator[JsonObject]:
    """The accounts of the server and of the viewers, and the roles that bind them."""
    head = {"apiVersion": f"{RBAC}/v1"}
    for name in ("harbormaster-serve", "approver", "looker"):
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
    environment = {"HARBORMASTER_NAMESPACE": NAMESPACE}
    yield from json.loads(printed_with(environment, "rbac", "serve", "-o", "json"))["items"]
    rules = [
        {"nonResourceURLs": ["/v1/actions"], "verbs": ["post"]},
        {
            "apiGroups": ["placement.kubernetes-fleet.io"],
            "resources": ["clusterstagedupdateruns", "clusterapprovalrequests"],
            "verbs": ["get", "list"],
        },
    ]
    yield {**head, "kind": "ClusterRole", "metadata": {"name": ACTORS}, "rules": rules}
    yield documented_role()
    for role, accounts in ((ACTORS, ("approver", "looker")), (APPROVER, ("approver",))):
        yield {
            **head,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{ACTORS}-{role}"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": name} for name in accounts],
        }


@pytest.fixture(scope="module")
def place(own_hub: Cluster, start_service: StartService) -> Iterator[Place]:
    """Nothing but the replica runs, so runs stay as they are written."""
    Objects(own_hub).apply([make_namespace(NAMESPACE)])
    external = placement("p", placementType="PickAll")
    external["spec"]["strategy"] = {"type": "External"}
    stages = {"stages": [{"name": "test", "afterStageTasks": [{"type": "Approval"}]}]}
    strategy = {"apiVersion": STAGED_STRATEGY.api_version, "kind": STAGED_STRATEGY.kind, "spec": stages}
    Objects(own_hub).apply([*objects(), external, {**strategy, "metadata": {"name": "careful"}}])
    for name in ("spring", "summer", "autumn"):
        write_run(own_hub, name)
    login = own_hub.write_kubeconfig("serve-for-actions", own_hub.token_of(NAMESPACE, "harbormaster-serve"))
    replica = start_service(own_hub, login, namespace=NAMESPACE, page_actions="true")
    found = Place(own_hub, replica)
    body = {"action": "stop", "target": target("no-such"), "dryRun": True}
    wait_until("the viewers have their rights", lambda: "" if found.act("approver", body).status == 404 else "not yet")
    yield found
    for kind in ("clusterroles", "clusterrolebindings"):
        for item in own_hub.request("GET", f"/apis/{RBAC}/v1/{kind}")[0]["items"]:
            if item["metadata"]["name"].startswith((ACTORS, APPROVER)):
                own_hub.request("DELETE", f"/apis/{RBAC}/v1/{kind}/{item['metadata']['name']}")


def write_run(hub: Cluster, name: str) -> None:
    """Write a run that waits for its approval, as the loop does."""
    kind = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterStagedUpdateRun"}
    spec = {"placementName": "p", "stagedRolloutStrategyName": "careful", "state": "Run"}
    stored, _ = hub.request("POST", RUNS, {**kind, "metadata": {"name": name}, "spec": spec})
    hub.request("PUT", f"{RUNS}/{name}/status", {**stored, "status": waiting_run(f"{name}-after-test")})
    hub.request("POST", REQUESTS, approval_request(name, f"{name}-after-test"))


def approving(name: str, **more: Any) -> JsonObject:
    return {"action": "approve", "target": target(name), **more}


def test_a_viewer_approves_what_their_user_may_approve_and_the_audit_names_them(place: Place) -> None:
    before, mark = place.versions(), place.hub.audit_mark()
    preview = place.preview("approver", approving("spring", reason="error rate is flat"))
    assert preview["command"] == "harbormaster approve spring --stage test --message 'error rate is flat'"
    assert preview["impact"] == ["Stage test is the last one, so the run finishes."]
    assert (preview["executed"], place.versions()) == (False, before)
    body = approving("spring", reason="error rate is flat", precondition=preview["precondition"])
    answer = place.act("approver", body)
    assert (answer.status, answer.document["executed"]) == (200, True), answer.body
    approved = place.hub.request("GET", f"{REQUESTS}/spring-after-test")[0]["status"]["conditions"]
    assert [each["message"] for each in approved] == [f"approved by {USER}approver: error rate is flat"]
    changed = {name for name, version in place.versions().items() if before.get(name) != version}
    assert changed == {"clusterapprovalrequests//spring-after-test"}
    writes = [event for event in place.hub.audit(mark) if event["objectRef"]["resource"] == "clusterapprovalrequests"]
    assert {event["user"]["username"] for event in writes} == {f"{USER}approver"}
    assert [event["requestURI"].endswith("?dryRun=All") for event in writes] == [True, False]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_viewer_without_the_right_gets_the_words_of_the_api_server(place: Place, dry_run: bool) -> None:
    preview, before = place.preview("approver", approving("summer")), place.versions()
    more: Mapping[str, Any] = {"dryRun": True} if dry_run else {"precondition": preview["precondition"]}
    answer = place.act("looker", approving("summer", **more))
    assert answer.status == 403
    assert answer.document["detail"] == (
        "the API server of the hub refuses the request: clusterapprovalrequests.placement.kubernetes-fleet.io "
        f'"summer-after-test" is forbidden: User "{USER}looker" cannot patch resource "clusterapprovalrequests/status" '
        'in API group "placement.kubernetes-fleet.io" at the cluster scope'
    )
    stopping = {"action": "stop", "target": target("summer"), "dryRun": True}
    assert f'User "{USER}approver" cannot patch' in place.act("approver", stopping).document["detail"]
    assert place.versions() == before


def test_a_token_for_harbormaster_alone_is_explained(place: Place) -> None:
    answer = place.act("approver", approving("summer", dryRun=True), AUDIENCE)
    assert answer.status == 403
    assert answer.document["detail"] == (
        "the API server of the hub does not accept your token (401 Unauthorized). It must also have the audience of "
        f"the API server: kubectl create token NAME --audience {AUDIENCE} --audience {API_SERVER}"
    )


def test_what_has_changed_since_the_preview_is_not_written_over(place: Place) -> None:
    preview = place.preview("approver", approving("autumn"))
    stored = place.hub.request("GET", f"{RUNS}/autumn")[0]
    status = stored["status"]
    status["stagesStatus"].append({"stageName": "live", "clusters": [{"clusterName": "oslo"}]})
    place.hub.request("PUT", f"{RUNS}/autumn/status", stored)
    before = place.versions()
    answer = place.act("approver", approving("autumn", precondition=preview["precondition"]))
    assert answer.status == 409
    assert "changed since the preview: next clusters was absent, and is now oslo." in answer.document["detail"]
    assert place.versions() == before


def test_a_certificate_of_the_server_gives_a_viewer_no_right(
    place: Place, start_service: StartService, folder: Path
) -> None:
    """An API server prefers a client certificate to a token. That of the server may do everything here."""
    certificate = place.hub.issue_client_certificate("root", ("system:masters",), folder / "root")
    document = yaml.safe_load(place.hub.kubeconfigs["admin"].read_text())
    user = {"client-certificate": str(certificate.certificate), "client-key": str(certificate.key)}
    document["users"] = [{**document["users"][0], "user": user}]
    login = folder / "root" / "kubeconfig"
    login.write_text(yaml.safe_dump(document))
    replica = start_service(place.hub, login, namespace=NAMESPACE, page_actions="true")
    answer = place.act("looker", approving("summer", dryRun=True), replica=replica)
    assert answer.status == 403, answer.body
    assert f'User "{USER}looker" cannot patch' in answer.document["detail"]
    stored = place.hub.request("GET", f"{RUNS}/summer")[0]
    assert annotation(stored, "harbormaster.dev/rejected") == ""
