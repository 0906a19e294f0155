"""docs/teams.md as the team reads it: with exactly its Role, on a hub whose server answers as an aggregated API.

The server has the rights that are printed for it. The team is a ServiceAccount, and a user with a client certificate.
"""

import base64
import json
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml
from click.testing import Result

from e2e.controlplane.client_certificate import issue_client_certificate
from e2e.controlplane.cluster import FRONT_PROXY, ApiError, Cluster, JsonObject
from e2e.controlplane.printed import called_with, printed_with
from e2e.controlplane.process import PATIENCE, free_port
from e2e.controlplane.service import Service
from e2e.fleet.bed import MEMBERS, Fleet
from e2e.fleet.objects import (
    Objects,
    condition_of,
    kind_of,
    make_deployment,
    make_namespace,
    make_resource_placement,
)
from e2e.fleet.processes import SYSTEM
from e2e.fleet.scene import Scene
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import KINDS, RESOURCE_PLACEMENT
from tests.docs.pages import DOCS, manifests_of
from webhook.access.front_proxy import API_SERVICE, GROUP, RESOURCES, VERSION
from webhook.kube.client.paths import path_of

PAGE = DOCS / "teams.md"
HOME, ELSEWHERE = "kiosk", "other-team"
NAME = f"harbormaster.{SYSTEM}.svc"
SETTINGS = {
    "team_answers": "true",
    "certificate_secret": "harbormaster-ca",
    "dns_names": f"localhost,{NAME}",
    "placement_authorization": "Enforce",
    "certificate_check_seconds": "0.3",
}
API_SERVICES = KINDS["apiregistration.k8s.io", "APIService"]
ACCOUNT = f"system:serviceaccount:{HOME}:deployer"


def shown() -> list[JsonObject]:
    """The manifests of the page, in their order."""
    return [document for block in manifests_of(PAGE) for document in yaml.safe_load_all(block)]


def installed(port: int) -> Iterator[JsonObject]:
    """What the chart installs for it, with a Service that leads to the replica of this test."""
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "harbormaster-serve", "namespace": SYSTEM},
    }
    environment = {f"HARBORMASTER_{name.upper()}": value for name, value in SETTINGS.items()}
    yield from json.loads(printed_with(environment, "rbac", "serve", "-o", "json"))["items"]
    ports = [{"port": port}]
    metadata = {"name": "harbormaster", "namespace": SYSTEM}
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    yield {
        "apiVersion": API_SERVICES.api_version,
        "kind": API_SERVICES.kind,
        "metadata": {"name": API_SERVICE},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "service": {**metadata, "port": port},
        },
    }


@pytest.fixture(scope="module")
def server(fleet: Fleet, start_service) -> Iterator[Service]:
    """The server with its own account and authority, which the API server asks for the group and before writes."""
    hub, port = fleet.hub, free_port()
    Objects(hub).apply([make_namespace(SYSTEM), *installed(port)])
    try:
        yield serving(hub, start_service, port)
    finally:  # while it is unavailable, no namespace is deleted
        Objects(hub).delete(API_SERVICES, API_SERVICE)


def serving(hub: Cluster, start_service: Callable[..., Service], port: int) -> Service:
    """Start the server, and wait until the API server asks it."""
    kubeconfig = hub.write_kubeconfig("server", hub.token_of(SYSTEM, "harbormaster-serve"))
    service = start_service(hub, kubeconfig, port=port, **SETTINGS)
    environment = {f"HARBORMASTER_{name.upper()}": str(value) for name, value in service.settings.items()}
    words = ("webhook-configuration", "-o", "json", f"--url={service.url}", "--no-ca")
    Objects(hub).apply(json.loads(printed_with(environment, *words))["items"])

    def problem() -> str:
        available = condition_of(Objects(hub).get(API_SERVICES, API_SERVICE), "Available")
        return "" if available.get("status") == "True" else f"{available}; {service.checks()}"

    def refusal() -> str:
        try:
            service.wait_asked()
        except ApiError as error:  # the API server does not know the new caBundle yet
            return str(error)
        return ""

    wait_until("the aggregated API is available", problem)
    wait_until("the webhooks are trusted", refusal)
    return service


@pytest.fixture
def platform(server: Service, scene: Scene, fleet: Fleet) -> Fleet:
    """The hub with what the page has the platform do, and with another team that has done the same."""
    documents = [document for document in shown() if document["kind"] != "ResourcePlacement"]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "deployer", "namespace": HOME}}
    binding = next(document for document in documents if document["kind"] == "RoleBinding")
    subject = {"kind": "ServiceAccount", "name": "deployer", "namespace": HOME}
    own = {**binding, "metadata": {"name": "deployer", "namespace": HOME}, "subjects": [subject]}
    scene.put(*documents, account, own)
    scene.home(ELSEWHERE, make_resource_placement("theirs", ELSEWHERE), web="1")
    wait_until("the namespace is on members", lambda: "" if on_members(fleet) else "on none")
    return fleet


def on_members(fleet: Fleet) -> list[str]:
    return [name for name, member in fleet.clusters.items() if member.find(KINDS["", "Namespace"], HOME)]


class Team:
    """Somebody with the Role of the page.

    Args:
        hub: Where.
        trust: Of their client.
        token: Sent, if there is one.
        kubeconfig: Theirs.
    """

    def __init__(self, hub: Cluster, trust: ssl.SSLContext, token: str, kubeconfig: Path) -> None:
        self.hub = hub
        self._trust = trust
        self._token = token
        self.kubeconfig = kubeconfig

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, JsonObject]:
        """Ask the API server; returns the status and the document."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **headers}
        headers |= {"Authorization": f"Bearer {self._token}"} if self._token else {}
        request = Request(self.hub.url + path, content, headers, method=method)
        try:
            with urlopen(request, timeout=PATIENCE, context=self._trust) as answer:
                return answer.status, json.loads(answer.read())
        except HTTPError as error:
            return error.code, json.loads(error.read())

    def answer(self, resource: str, namespace: str = HOME, **body: object) -> tuple[int, JsonObject]:
        """Ask for a resource of the aggregated API."""
        return self.ask("POST", f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{resource}", body)


@pytest.fixture(params=["service-account", "client-certificate"])
def team(platform: Fleet, tmp_path: Path, request: pytest.FixtureRequest) -> Team:
    """The team, in both ways in which an API server knows somebody."""
    hub = platform.hub
    trust = ssl.create_default_context(cafile=str(hub.ca_file))
    if request.param == "service-account":
        token = hub.token_of(HOME, "deployer")
        return Team(hub, trust, token, hub.write_kubeconfig("deployer", token, folder=tmp_path))
    files = issue_client_certificate(hub.authority, tmp_path, "tina", ["team-kiosk"])
    kubeconfig = hub.write_kubeconfig("tina", "", folder=tmp_path)
    document = json.loads(kubeconfig.read_text(encoding="utf-8"))
    document["users"][0]["user"] = {"client-certificate": str(files.certificate), "client-key": str(files.key)}
    kubeconfig.write_text(json.dumps(document), encoding="utf-8")
    return Team(hub, files.show(trust), "", kubeconfig)


WEB = make_deployment("web", HOME)
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": HOME},
    "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}},
}


def own_placement() -> JsonObject:
    return next(document for document in shown() if document["kind"] == "ResourcePlacement")


def placed(team: Team, scene: Scene) -> None:
    """Have the team do its part of the page, and wait until the placement is scheduled."""
    for document in (WEB, SERVICE, own_placement()):
        status, answer = team.ask("POST", path_of(kind_of(document), HOME), document)
        assert status == 201, answer
    scene.remember(own_placement())
    wait_scheduled(team)


def wait_scheduled(team: Team) -> None:
    """Wait until the team reads that its placement is scheduled."""

    def problem() -> str:
        _, found = team.ask("GET", path_of(RESOURCE_PLACEMENT, HOME, "web"))
        scheduled = condition_of(found, "ResourcePlacementScheduled")
        return "" if scheduled.get("status") == "True" else f"not scheduled: {found.get('status')}"

    wait_until("the placement is scheduled", problem)


REF = {"ref": {"kind": "ResourcePlacement", "namespace": HOME, "name": "web"}}


def test_a_team_asks_about_its_placements(team, scene):
    placed(team, scene)
    status, explained = team.answer("explanations", placement=REF)
    assert (status, len(explained["items"])) == (200, len(MEMBERS)), explained
    picked = {item["cluster"] for item in explained["items"] if item["verdict"] in {"Picked", "Kept"}}
    status, plan = team.answer("placementplans", objects=[own_placement()], lost=sorted(picked)[:1])
    assert (status, [entry["name"] for entry in plan["placements"]]) == (200, ["web"]), plan
    assert plan["placements"][0]["moves"]["lost"] == sorted(picked)[:1]
    assert not plan["unread"]
    wait_until("the history has it", lambda: "" if decided(team) else "no decision")
    status, history = team.answer("histories")
    assert {item["object"]["namespace"] for item in history["items"]} == {HOME}
    status, runs = team.answer("pastdecisions", placement=REF)
    assert (status, runs["placement"]) == (200, f"rp/{HOME}/web")


def decided(team: Team) -> bool:
    status, history = team.answer("histories", type=["Decision"])
    return status == 200 and any(item["object"]["name"] == "web" for item in history["items"])


PLACEMENT = f"rp/{HOME}/web"
NOTE = f"note: answered by harbormaster serve for namespace {HOME}"


def test_the_commands_of_the_page_work_with_its_role(team, scene, tmp_path):
    """Neither the ServiceAccount nor the user may read members, placements of others, or the record of the history."""
    file = tmp_path / "placement.yaml"
    file.write_text(yaml.safe_dump(own_placement()), encoding="utf-8")
    for document in (WEB, SERVICE):
        assert team.ask("POST", path_of(kind_of(document), HOME), document)[0] == 201

    def call(*words: str, code: int = 0) -> Result:
        done = called_with({}, *words, "--kubeconfig", str(team.kubeconfig))
        assert done.exit_code == code, (words, done.output)
        return done

    planned = call("plan", "-f", str(file), code=2)
    assert (PLACEMENT in planned.stdout, NOTE in planned.stderr) == (True, True), planned.output
    assert "+kind: ResourcePlacement" in call("diff", "-f", str(file), code=1).stdout
    call("apply", "-f", str(file))
    scene.remember(own_placement())
    wait_scheduled(team)
    assert "web" in call("get", "rp", "web", "-n", HOME).stdout
    assert "Scheduled" in call("describe", "rp", "web", "-n", HOME).stdout
    explained = call("explain", PLACEMENT)
    assert all(member in explained.stdout for member in MEMBERS)
    assert NOTE in explained.stderr
    assert MEMBERS[0] in call("explain", PLACEMENT, MEMBERS[0]).stdout
    assert call("explain", PLACEMENT, "--runs").stdout
    assert "nothing" not in call("plan", "--delete", PLACEMENT, code=2).stdout
    tree = call("tree", PLACEMENT)
    assert "web" in tree.stdout
    assert "the tree omits works.placement.kubernetes-fleet.io: you may not list them" in tree.stderr
    rendered = call("render", "--hub", "--placement", PLACEMENT)
    assert (f"# {MEMBERS[0]}: {PLACEMENT}" in rendered.stdout, NOTE in rendered.stderr) == (True, True), rendered.output
    assert "kind: Deployment" in rendered.stdout
    call("render", "--hub", "--placement", f"rp/{ELSEWHERE}/theirs", code=1)
    status = called_with({}, "status", "-n", HOME, "--kubeconfig", str(team.kubeconfig))
    assert (status.exit_code in {0, 2}, status.stderr) == (True, ""), status.output
    assert status.stdout.startswith("1 placement: 1 ")
    wait_until("the history has it", lambda: "" if decided(team) else "no decision")
    for words in (("-n", HOME), (PLACEMENT,), ("rp", "web", "-n", HOME, "--type", "Decision", "--since", "1h")):
        shown_entries = call("history", *words)
        assert "ResourcePlacement kiosk/web" in shown_entries.stdout, shown_entries.output
        assert NOTE in shown_entries.stderr
    assert "-n NAMESPACE" in call("removals", code=1).stderr, "the context has no namespace"
    waiting = call("removals", "-n", HOME, "-o", "json")
    assert list(json.loads(waiting.stdout)) == ["items"]
    assert "you may not list memberclusters.cluster.kubernetes-fleet.io" in waiting.stderr


def test_the_error_names_what_is_missing(team, platform, server):
    """The team may not ask about another namespace, and nobody about a namespace that a placement does not have."""
    done = called_with({}, "explain", f"rp/{ELSEWHERE}/theirs", "--kubeconfig", str(team.kubeconfig))
    assert (done.exit_code, "you may not create explanations.answers.harbormaster.dev" in done.stderr) == (1, True)
    done = called_with({}, "explain", "crp/namespace-kiosk", "--kubeconfig", str(team.kubeconfig))
    assert (done.exit_code, "cannot list resource" in done.stderr, "server" in done.stdout) == (1, True, False)


def test_and_about_nothing_else(team):
    other = {"ref": {"kind": "ResourcePlacement", "namespace": ELSEWHERE, "name": "theirs"}}
    assert team.answer("explanations", placement=other)[0] == 404
    assert team.answer("explanations", ELSEWHERE, placement=other)[0] == 403, "by the API server itself"
    status, refused = team.answer("placementplans", objects=[make_resource_placement("theirs", ELSEWHERE)])
    assert (status, refused["reason"]) == (422, "Invalid")
    assert f'is in namespace "{ELSEWHERE}"' in refused["message"]
    status, refused = team.answer("placementplans", deleted=[{"kind": "MemberCluster", "name": MEMBERS[0]}])
    assert (status, "must be in namespace" in refused["message"]) == (422, True)
    assert team.ask("GET", f"/apis/{GROUP}/{VERSION}/namespaces/{HOME}/explanations")[0] in {403, 405}


def test_only_the_front_proxy_names_a_user(team, server, platform):
    """Neither through the API server, which removes such headers, nor with a certificate of its ordinary authority."""
    hub, path = platform.hub, f"/apis/{GROUP}/{VERSION}/namespaces/{ELSEWHERE}/explanations"
    forged = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    assert team.ask("POST", path, {}, **forged)[0] == 403
    for authority, name, status in (
        (hub.authority, FRONT_PROXY, 401),
        (hub.authority, "tina", 401),
        (hub.proxy_authority, "another", 401),
        (hub.proxy_authority, FRONT_PROXY, 422),
    ):
        bundle = base64.b64decode(Objects(hub).get(API_SERVICES, API_SERVICE)["spec"]["caBundle"]).decode()
        trust = ssl.create_default_context(cadata=bundle)
        shown_by_client = issue_client_certificate(authority, hub.folder / "forged", name).show(trust)
        request = Request(server.url + path, b"{}", {"Content-Type": "application/json", **forged}, method="POST")
        with pytest.raises(HTTPError) as error:
            urlopen(request, timeout=PATIENCE, context=shown_by_client)
        assert error.value.code == status, (authority is hub.authority, name)
        error.value.close()


def test_discovery_knows_the_group(platform):
    resources, _ = platform.hub.request("GET", f"/apis/{GROUP}/{VERSION}")
    assert {each["name"] for each in resources["resources"]} == set(RESOURCES)
    listed = platform.hub.kubectl("api-resources", f"--api-group={GROUP}", "-o", "name").stdout.split()
    assert sorted(listed) == sorted(f"{resource}.{GROUP}" for resource in RESOURCES)


def test_a_namespace_is_deleted_while_the_group_is_served(platform):
    """Its resources cannot be listed, so there is nothing for the controller of namespaces to delete."""
    platform.on_hub.create(make_namespace("short"))
    platform.on_hub.delete(KINDS["", "Namespace"], "short")
    found = lambda: platform.on_hub.find(KINDS["", "Namespace"], "short")  # noqa: E731
    wait_until("the namespace is gone", lambda: "" if found() is None else json.dumps(found()["status"]))


ENVIRONMENT = {f"HARBORMASTER_{name.upper()}": value for name, value in SETTINGS.items()}


def examined(hub: Cluster) -> JsonObject:
    """The doctor's finding about the API for teams."""
    done = called_with(ENVIRONMENT, "doctor", f"--kubeconfig={hub.kubeconfig}", "-n", SYSTEM, "-o", "json")
    return next(check for check in json.loads(done.stdout)["checks"] if check["check"] == "team-answers")


def inspected(hub: Cluster) -> Result:
    return called_with(ENVIRONMENT, "certs", "inspect", f"--kubeconfig={hub.kubeconfig}", "-n", SYSTEM)


def test_the_doctor_and_certs_inspect_find_it_well(platform):
    assert examined(platform.hub) | {"milliseconds": 0} == {
        "check": "team-answers",
        "state": "ok",
        "found": f"APIService {API_SERVICE} is available",
        "problems": [],
        "advice": "",
        "milliseconds": 0,
    }
    done = inspected(platform.hub)
    assert (done.exit_code, f"APIService/{API_SERVICE}" in done.stdout) == (0, True), done.output


def test_the_doctor_names_another_service(platform):
    objects, port = Objects(platform.hub), 1
    present = objects.get(API_SERVICES, API_SERVICE)["spec"]["service"]["port"]
    objects.patch(API_SERVICES, API_SERVICE, {"spec": {"service": {"port": port}}})
    try:
        wait_until(
            "the doctor names it", lambda: "" if "is unavailable" in str(examined(platform.hub)["problems"]) else "no"
        )
    finally:
        objects.patch(API_SERVICES, API_SERVICE, {"spec": {"service": {"port": present}}})
    wait_until("the aggregated API is available", lambda: "" if examined(platform.hub)["state"] == "ok" else "not yet")


def test_while_no_replica_answers_no_namespace_is_deleted_and_the_doctor_names_it(platform, server):
    """Discovery of the hub is incomplete until a replica answers again."""
    hub, namespaces = platform.hub, KINDS["", "Namespace"]
    platform.on_hub.create(make_namespace("stalled"))
    server.program.stop(number=signal.SIGKILL)
    try:
        wait_until("the doctor names it", lambda: "" if examined(hub)["state"] == "wrong" else "not yet")
        problem, advice = " ".join(examined(hub)["problems"]), examined(hub)["advice"]
        assert "is unavailable, so the hub deletes no namespace: FailedDiscoveryCheck: " in problem
        assert "admit the API server to the port of serve" in advice
        done = inspected(hub)
        assert (done.exit_code, "FailedDiscoveryCheck" in done.stderr) == (1, True), done.output
        platform.on_hub.delete(namespaces, "stalled")

        def undeleted() -> str:
            failed = condition_of(platform.on_hub.get(namespaces, "stalled"), "NamespaceDeletionDiscoveryFailure")
            return "" if failed.get("status") == "True" and GROUP in failed["message"] else f"{failed}"

        wait_until("the namespace waits for discovery", undeleted)
    finally:
        server.start()
    wait_until("the namespace is gone", lambda: "there" if platform.on_hub.find(namespaces, "stalled") else "")
    wait_until("all is well", lambda: "" if examined(hub)["state"] == "ok" else "not yet")
