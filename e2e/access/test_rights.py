"""Who may do what, with the roles that are printed and made, asked of a real API server and a real replica."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.access.rights import (
    ACCOUNTS,
    LEASE,
    MEMBER,
    NAMESPACE,
    OTHERS,
    RBAC,
    ROWS,
    SCHEDULER,
    SCORER,
    SECRET,
    SPACE,
    STRANGER,
    Question,
    Request,
    Right,
    Row,
)
from e2e.conftest import StartService
from e2e.controlplane.client_certificate import ClientCertificate
from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.printed import printed_with
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import Service
from e2e.fleet.objects import MERGE, make_namespace, make_placement
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import WORK
from scorer.api.names import WORK_CLEANUP
from scorer.membership.access import agent_role, agent_role_binding
from webhook.processes.member_objects import identity_of, on_hub

ENVIRONMENT = {
    "HARBORMASTER_NAMESPACE": NAMESPACE,
    "HARBORMASTER_CERTIFICATE_SECRET": SECRET,
    "HARBORMASTER_TEAM_ANSWERS": "true",
}
HELD_WORK = f"/apis/{WORK.api_version}/namespaces/{SPACE}/works/held"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
READY = 'harbormaster_certificate_renewals_total{result="success",role="client_ca"}'


@dataclass(frozen=True)
class World:
    """A hub where harbormaster is installed, one replica of the server with the server's rights, and its callers."""

    hub: Cluster
    replica: Service
    scheduler: ClientCertificate

    def ask(self, who: str, question: Question) -> int:
        """The status of an answer of the replica."""
        account = {SCORER: "scorer", STRANGER: "stranger"}.get(who)
        audience = question.audience or f"harbormaster.{NAMESPACE}.svc"
        return self.replica.ask(
            question.method,
            question.path,
            question.body,
            token=self.hub.token_of(NAMESPACE, account, audience) if account else "",
            client=self.scheduler if who == SCHEDULER else None,
        ).status

    def refusal(self, who: str, request: Request) -> str:
        """What the API server says when it refuses; empty: it does not."""
        body = request.body
        if body is None and request.method == "PUT":
            body, _ = self.hub.request("GET", request.path)
        path = request.path if request.method == "GET" else f"{request.path}?dryRun=All"
        try:
            content_type = MERGE if request.method == "PATCH" else "application/json"
            acting_as = {"username": ACCOUNTS[who]}
            self.hub.request(request.method, path, body, acting_as=acting_as, content_type=content_type)
        except ApiError as error:
            assert error.code in {403, 422}, str(error)
            return str(error)
        return ""

    def allowed(self, who: str, right: Right) -> dict[str, bool]:
        """What the authorizer says of each verb."""
        return {verb: self._allows(who, right, verb) for verb in right.verbs}

    def _allows(self, who: str, right: Right, verb: str) -> bool:
        plural, _, subresource = right.resource.partition("/")
        wanted = {"verb": verb, "group": right.group, "resource": plural, "subresource": subresource}
        wanted |= {"namespace": right.namespace, "name": right.name}
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
        spec = {"user": ACCOUNTS[who], "groups": groups, "resourceAttributes": wanted}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        return bool(self.hub.request("POST", REVIEWS, body)[0]["status"]["allowed"])


def installed() -> Iterator[JsonObject]:
    """What an operator applies by hand, what join makes, and what the loop makes of a member."""
    for name in ("harbormaster-reconcile", "harbormaster-serve", "harbormaster-agent", "scorer", "stranger"):
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
    for process in ("reconcile", "serve", "agent"):
        yield from json.loads(printed_with(ENVIRONMENT, "rbac", process, "-o", "json"))["items"]
    yield from (wanted.document for wanted in on_hub(MEMBER, NAMESPACE))
    finalizers = ["example.com/others", WORK_CLEANUP]
    held = {"name": "held", "namespace": SPACE, "labels": {"a": "b"}, "finalizers": finalizers}
    yield {"apiVersion": WORK.api_version, "kind": WORK.kind, "metadata": held, "spec": {"workload": {"manifests": []}}}
    yield agent_role(MEMBER)
    yield agent_role_binding(MEMBER, identity_of(MEMBER, NAMESPACE))
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "a"}}
    yield {**lease, "metadata": {"name": LEASE, "namespace": NAMESPACE}}
    for name in (SECRET, "another"):
        pair = {"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, **pair}
    yield from (make_placement(name) for name in ("open", "closed"))
    yield from caller("scorer", ["/v1/score", "/v1/placements/*"], scorer_account())
    yield from caller("scheduler", ["/extender/v1/*"], {"apiGroup": RBAC, "kind": "User", "name": "scheduler"})


def scorer_account() -> JsonObject:
    return {"kind": "ServiceAccount", "name": "scorer", "namespace": NAMESPACE}


def caller(name: str, paths: list[str], subject: JsonObject) -> Iterator[JsonObject]:
    """A role for a caller of the server, and its binding; one placement may be read."""
    rules: list[JsonObject] = [{"nonResourceURLs": paths, "verbs": ["get", "post"]}]
    read = {"resources": ["clusterresourceplacements"], "resourceNames": ["open"], "verbs": ["get"]}
    rules.append({"apiGroups": ["placement.kubernetes-fleet.io"], **read})
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": f"caller-{name}"}}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"caller-{name}"}
    yield {**head, "kind": "ClusterRole", "rules": rules}
    yield {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}


@pytest.fixture(scope="module")
def world(twin: Cluster, start_service: StartService, folder: Path) -> Iterator[World]:
    """All of that on a hub, with nothing but the replica running."""
    spaces = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [make_namespace(each) for each in (NAMESPACE, SPACE, OTHERS)],
    }
    twin.kubectl("apply", "-f", "-", given=spaces)
    objects = {"apiVersion": "v1", "kind": "List", "items": list(installed())}
    twin.kubectl("apply", "-f", "-", given=objects)
    login = twin.write_kubeconfig("serve-for-rights", twin.token_of(NAMESPACE, "harbormaster-serve"))
    replica = start_service(twin, login, metrics_auth="true", namespace=NAMESPACE)
    wait_until("clients' authorities are known", lambda: "" if replica.metric(READY) else "they are not")
    yield World(twin, replica, twin.issue_client_certificate("scheduler", (), folder / "rights"))
    twin.request("PATCH", HELD_WORK, {"metadata": {"finalizers": None}}, content_type=MERGE)
    twin.kubectl("delete", "-f", "-", "--wait=false", given=objects)
    twin.kubectl("delete", "-f", "-", "--wait=false", given=spaces)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_who_may_do_what(world: World, row: Row) -> None:
    for asked in row.asked:
        match asked:
            case Right():
                assert set(world.allowed(row.who, asked).values()) == {row.may}, asked
            case Request() if row.may:
                assert world.refusal(row.who, asked) == "", asked
            case Request():
                assert asked.because in last_refusal(world, row.who, asked), asked
            case Question():
                assert world.ask(row.who, asked) == asked.status, asked


def last_refusal(world: World, who: str, request: Request) -> str:
    """What the API server says; a policy that was just made is waited for."""
    end = time.monotonic() + PATIENCE
    while not (said := world.refusal(who, request)) and time.monotonic() < end:
        time.sleep(0.1)
    return said
