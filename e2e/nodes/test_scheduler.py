"""The real kube-scheduler asks the extender, over mTLS: pods on virtual nodes go where fleet placement wants them.

Four schedulers run beside each other, each with an extender of its own: ``by-name`` sends names, ``by-object`` sends
whole nodes, ``strict`` sends names and does not go on without an answer, ``unknown`` is as strict and shows no
certificate. Nodes are objects without a kubelet: their pods stay Pending, but they are bound.
"""

import http.client
import json
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import StartService
from e2e.controlplane.client_certificate import ClientCertificate, issue_client_certificate
from e2e.controlplane.cluster import LOOPBACK, Cluster, JsonObject
from e2e.controlplane.process import PATIENCE, kill
from e2e.controlplane.service import Service
from e2e.fleet.objects import MERGE, Objects, kind_of, make_namespace
from scorer.api.meta import format_time
from tests.charts.made import HUB

MEMBERS = "/apis/cluster.kubernetes-fleet.io/v1/memberclusters"
PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements"
BINDINGS = "/apis/placement.kubernetes-fleet.io/v1/clusterresourcebindings"
RUNS = "/apis/upgrade.harbormaster.dev/v1alpha1/clusterupgraderuns"
RBAC_GROUP = "rbac.authorization.k8s.io"
HOME = "scheduled"
PODS = f"/api/v1/namespaces/{HOME}/pods"
EVENTS = f"/api/v1/namespaces/{HOME}/events"
COST = "kubernetes.azure.com/per-cpu-core-cost"
PODS_PER_NODE = 20
PRODUCTION = ("m0", "m1", "m2", "m3", "m4", "m5")
"""The cheaper the earlier."""
STAGING = ("m6", "m7", "m8", "m9")
USER = "fleet-scheduler"
MODES = ("by-name", "by-object")


@pytest.fixture(scope="module")
def fleet(own_hub: Cluster) -> Iterator[Cluster]:
    """A hub with ten members, a virtual node for each, and a user who may ask the extender."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": HOME}}
    about = {"apiVersion": f"{RBAC_GROUP}/v1", "metadata": {"name": "extender"}}
    rules = [{"nonResourceURLs": ["/extender/v1/*"], "verbs": ["post"]}]
    reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "extender"}
    subject = {"apiGroup": RBAC_GROUP, "kind": "User", "name": USER}
    objects = Objects(own_hub)
    made = [
        make_namespace(HOME),
        account,
        {**about, "kind": "ClusterRole", "rules": rules},
        {**about, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
        {**head("scheduling.k8s.io/v1", "PriorityClass"), "metadata": {"name": "urgent"}, "value": 1000},
    ]
    objects.apply(made)
    for number, name in enumerate((*PRODUCTION, *STAGING)):
        add_member(own_hub, name, number)
        add_node(own_hub, f"virtual-{name}", **{"harbormaster.dev/member-cluster": name})
    yield own_hub
    own_hub.request("DELETE", "/api/v1/nodes")
    for document in made:
        metadata = document["metadata"]
        objects.delete(kind_of(document), metadata["name"], metadata.get("namespace", ""))


def add_member(hub: Cluster, name: str, cost: int) -> None:
    metadata = {"name": name, "labels": {"env": "prod" if name in PRODUCTION else "staging"}}
    spec = {"identity": {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}}
    hub.request(
        "POST", MEMBERS, head("cluster.kubernetes-fleet.io/v1", "MemberCluster") | {"metadata": metadata, "spec": spec}
    )
    report(hub, name, cost=cost)


def head(api_version: str, kind: str) -> JsonObject:
    return {"apiVersion": api_version, "kind": kind}


def report(hub: Cluster, name: str, *, cost: int, free: int = 100) -> None:
    """Write what the member's agent would: a heartbeat of now, cost and free cores."""
    now = format_time(datetime.now(UTC))
    conditions = [
        {"type": kind, "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": now}
        for kind in ("Joined", "Healthy")
    ]
    status = {
        "conditions": [],
        "agentStatus": [{"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": now}],
        "properties": {COST: {"value": str(cost), "observationTime": now}},
        "resourceUsage": {"available": {"cpu": str(free)}, "capacity": {"cpu": "200"}, "observationTime": now},
    }
    hub.request("PATCH", f"{MEMBERS}/{name}/status", {"status": status}, content_type=MERGE)


def add_node(hub: Cluster, name: str, **labels: str) -> None:
    """Make a node that counts as ready; new nodes are tainted by the API server until somebody says so."""
    labels |= {"kubernetes.io/hostname": name}
    hub.request(
        "POST", "/api/v1/nodes", head("v1", "Node") | {"metadata": {"name": name, "labels": labels}, "spec": {}}
    )
    path = f"/api/v1/nodes/{name}"
    hub.request("PATCH", path, {"spec": {"taints": None}}, content_type=MERGE)
    amounts = {"cpu": "640", "memory": "4000Gi", "pods": str(PODS_PER_NODE)}
    now = format_time(datetime.now(UTC))
    ready = {"type": "Ready", "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": now}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    hub.request("PATCH", f"{path}/status", {"status": status}, content_type=MERGE)


@pytest.fixture(scope="module")
def extender(fleet: Cluster, start_service: StartService) -> Service:
    """A replica that believes the client certificates of the hub's own authority."""
    return start_service(fleet)


@pytest.fixture(scope="module")
def certificate(fleet: Cluster, folder: Path) -> ClientCertificate:
    """The scheduler's own."""
    return issue_client_certificate(fleet.authority, folder / "scheduler", USER)


@pytest.fixture(scope="module")
def schedulers(fleet: Cluster, extender: Service, certificate: ClientCertificate, folder: Path) -> Iterator[None]:
    """All four, for all tests of the module."""
    running = []
    for name, by_name, ignorable, shown in (
        ("by-name", True, True, certificate),
        ("by-object", False, True, certificate),
        ("strict", True, False, certificate),
        ("unknown", True, False, None),
    ):
        path = folder / f"{name}.json"
        path.write_text(json.dumps(configuration(fleet, extender, shown, name, by_name, ignorable)))
        running.append(fleet.start_scheduler(path))
    yield
    kill(*running)


def configuration(
    hub: Cluster, service: Service, certificate: ClientCertificate | None, name: str, by_name: bool, ignorable: bool
) -> JsonObject:
    shown = {} if certificate is None else {"certFile": str(certificate.certificate), "keyFile": str(certificate.key)}
    asked = {
        "urlPrefix": f"{service.url}/extender/v1",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 5,
        "enableHTTPS": True,
        "tlsConfig": {"serverName": "localhost", "caFile": str(service.ca_file), **shown},
        "httpTimeout": "120s",  # past it, an ignorable extender is done without
        "nodeCacheCapable": by_name,
        "ignorable": ignorable,
    }
    return head("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration") | {
        "clientConnection": {"kubeconfig": str(hub.kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "podMaxBackoffSeconds": 2,
        "profiles": [{"schedulerName": name}],
        "extenders": [asked],
    }


class Fleet:
    """What the tests do with the hub, and what they see."""

    def __init__(self, hub: Cluster, service: Service, certificate: ClientCertificate) -> None:
        self.hub = hub
        self.service = service
        self._trust = certificate.show(ssl.create_default_context(cafile=service.ca_file))

    def place(self, name: str, **policy: object) -> None:
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": HOME}
        document = head("placement.kubernetes-fleet.io/v1", "ClusterResourcePlacement") | {
            "metadata": {"name": name},
            "spec": {"resourceSelectors": [selector], "policy": policy},
        }
        self.hub.request("POST", PLACEMENTS, document)
        self.until(lambda: "placement not found" not in str(self.ask("filter", name)))

    def ask(self, verb: str, placement: str, **annotations: str) -> Any:
        """Ask the extender directly, as the scheduler does."""
        pod = {"metadata": {"namespace": HOME, "annotations": {"harbormaster.dev/placement": placement} | annotations}}
        names = [f"virtual-{name}" for name in (*PRODUCTION, *STAGING)]
        status, answer = post(self.service, self._trust, verb, {"Pod": pod, "NodeNames": names})
        assert status == 200, answer
        return answer

    def best(self, placement: str) -> str:
        """The member whose node the extender likes best."""
        scores = {entry["Host"]: entry["Score"] for entry in self.ask("prioritize", placement)}
        return max(scores, key=scores.__getitem__).removeprefix("virtual-")

    def run(self, scheduler: str, count: int, placement: str, priority: str = "", **annotations: str) -> list[str]:
        """Create pods and return their names."""
        names = []
        for number in range(count):
            name = f"{placement}-{scheduler}-{number:02}-{time.monotonic_ns()}"
            marks = {"harbormaster.dev/placement": placement} | annotations
            container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": "100m"}}}
            spec = {"schedulerName": scheduler, "containers": [container], "automountServiceAccountToken": False}
            spec |= {"priorityClassName": priority} if priority else {}
            self.hub.request("POST", PODS, {"metadata": {"name": name, "annotations": marks}, "spec": spec})
            names.append(name)
        return names

    def members_of(self, pods: list[str]) -> Counter[str]:
        """How many of the pods are bound to the node of which member; pods that wait count for no member."""
        items = {item["metadata"]["name"]: item for item in self.hub.request("GET", PODS)[0]["items"]}
        return Counter(items[pod]["spec"].get("nodeName", "").removeprefix("virtual-") for pod in pods)

    def settled(self, pods: list[str]) -> Counter[str]:
        """Wait until all are bound."""
        self.until(lambda: "" not in self.members_of(pods))
        return self.members_of(pods)

    def nominated(self, pod: str) -> str:
        """The member on whose node others have to make room for a pod; empty while none have."""
        status = self.hub.request("GET", f"{PODS}/{pod}")[0]["status"]
        return str(status.get("nominatedNodeName", "")).removeprefix("virtual-")

    def failures(self, pod: str) -> str:
        """The texts of the events that say why a pod waits."""
        items = self.hub.request("GET", f"{EVENTS}?fieldSelector=involvedObject.name={pod},reason=FailedScheduling")[0]
        return "\n".join(item["message"] for item in items["items"])

    def taint(self, member: str, *taints: JsonObject) -> None:
        self.hub.request("PATCH", f"{MEMBERS}/{member}", {"spec": {"taints": list(taints)}}, content_type=MERGE)

    def nudge(self) -> None:
        """Change something that makes schedulers look again at pods that wait."""
        labels = {"nudged": str(time.monotonic_ns())}
        self.hub.request("PATCH", "/api/v1/nodes/virtual-m0", {"metadata": {"labels": labels}}, content_type=MERGE)

    @contextmanager
    def upgrading(self, member: str) -> Iterator[None]:
        """A run whose status says that it is working on a member."""
        api_version = "upgrade.harbormaster.dev/v1alpha1"
        run = head(api_version, "ClusterUpgradeRun") | {
            "metadata": {"name": "run"},
            "spec": {"upgrade": {"type": "Full", "kubernetesVersion": "1.36.3"}},
        }
        self.hub.request("POST", RUNS, run)
        try:
            group = {"name": "all", "state": "Running", "members": [{"name": member, "state": "Running"}]}
            stages = [{"name": "all", "state": "Running", "groups": [group]}]
            status = {"state": "Running", "stages": stages}
            self.hub.request("PATCH", f"{RUNS}/run/status", {"status": status}, content_type=MERGE)
            yield
        finally:
            self.hub.request("DELETE", f"{RUNS}/run")

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "it does not come about"
            time.sleep(0.1)


def post(service: Service, trust: ssl.SSLContext, verb: str, body: JsonObject) -> tuple[int, Any]:
    connection = http.client.HTTPSConnection(LOOPBACK, service.port, timeout=PATIENCE, context=trust)
    with closing(connection):
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"/extender/v1/{verb}", json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.fixture
def world(fleet: Cluster, extender: Service, certificate: ClientCertificate, schedulers: None) -> Iterator[Fleet]:
    """The fleet as it was at first; pods and placements of a test go with it."""
    for number, name in enumerate((*PRODUCTION, *STAGING)):
        report(fleet, name, cost=number)
    yield Fleet(fleet, extender, certificate)
    fleet.request("DELETE", f"{PODS}?gracePeriodSeconds=0")
    fleet.request("DELETE", f"{EVENTS}")
    for path in (PLACEMENTS, BINDINGS):
        fleet.request("DELETE", path)
    for name in (*PRODUCTION, *STAGING):
        fleet.request("PATCH", f"{MEMBERS}/{name}", {"spec": {"taints": None}}, content_type=MERGE)


def required(**labels: str) -> JsonObject:
    term = {"labelSelector": {"matchLabels": labels}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [term]}}


def cheapest() -> JsonObject:
    sorter = {"name": COST, "sortOrder": "Ascending"}
    term = {"weight": 100, "preference": {"propertySorter": sorter}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


def production(world: Fleet) -> None:
    """A placement that takes production clusters, the cheap ones first."""
    affinity = {"clusterAffinity": required(env="prod") | cheapest()}
    world.place("payments", placementType="PickN", numberOfClusters=6, affinity=affinity)


@pytest.mark.parametrize("scheduler", MODES)
def test_fifty_pods_fill_the_clusters_in_the_order_that_the_placement_prefers(world: Fleet, scheduler: str) -> None:
    """Twenty fit on a node: the two cheapest production clusters are filled, the third takes the rest."""
    production(world)
    pods = world.run(scheduler, 50, "payments")
    assert world.settled(pods) == {"m0": PODS_PER_NODE, "m1": PODS_PER_NODE, "m2": 10}


@pytest.mark.parametrize("scheduler", [pytest.param("by-name", marks=pytest.mark.core), "by-object"])
def test_new_pods_follow_a_change_of_properties_and_old_ones_stay(world: Fleet, scheduler: str) -> None:
    production(world)
    first = world.run(scheduler, 5, "payments")
    assert world.settled(first) == {"m0": 5}
    report(world.hub, "m4", cost=-5)
    world.until(lambda: world.best("payments") == "m4")
    second = world.run(scheduler, 5, "payments")
    assert world.settled(second) == {"m4": 5}
    assert world.members_of(first) == {"m0": 5}


@pytest.mark.parametrize("scheduler", ["by-name", pytest.param("by-object", marks=pytest.mark.core)])
def test_pods_respect_taints_and_upgrades(world: Fleet, scheduler: str) -> None:
    """The cheapest cluster is tainted, the second is being upgraded: the third it is, until the upgrade is over."""
    production(world)
    world.taint("m0", {"key": "maintenance", "effect": "NoSchedule"})
    with world.upgrading("m1"):
        world.until(lambda: len(world.ask("filter", "payments")["NodeNames"]) == 4)
        assert world.settled(world.run(scheduler, 5, "payments")) == {"m2": 5}
    world.until(lambda: len(world.ask("filter", "payments")["NodeNames"]) == 5)
    assert world.settled(world.run(scheduler, 5, "payments")) == {"m1": 5}


@pytest.mark.parametrize("scheduler", MODES)
def test_a_pod_that_can_go_nowhere_says_why_and_goes_on_when_it_can(world: Fleet, scheduler: str) -> None:
    world.place("pinned", placementType="PickFixed", clusterNames=["m3"])
    with world.upgrading("m3"):
        world.until(lambda: not world.ask("filter", "pinned")["NodeNames"])
        pods = world.run(scheduler, 1, "pinned")
        world.until(lambda: "1 harbormaster: member cluster is being upgraded" in world.failures(pods[0]))
        assert "9 harbormaster: member cluster not selected by placement" in world.failures(pods[0])
        assert world.members_of(pods) == {"": 1}
    world.until(lambda: bool(world.ask("filter", "pinned")["NodeNames"]))
    world.nudge()
    assert world.settled(pods) == {"m3": 1}


def test_a_pod_can_ask_for_clusters_that_have_been_selected_already(world: Fleet) -> None:
    """Whatever the policy says now: only where a live binding of the placement is."""
    production(world)
    mode = {"harbormaster.dev/placement-mode": "Decisions"}
    for name, state in (("m3", "Bound"), ("m1", "Unscheduled")):
        decision = {"clusterName": name, "selected": True, "reason": "test"}
        spec = {"state": state, "targetCluster": name, "schedulingPolicySnapshotName": "s", "resourceSnapshotName": "r"}
        binding = head("placement.kubernetes-fleet.io/v1", "ClusterResourceBinding") | {
            "metadata": {"name": f"payments-{name}", "labels": {"kubernetes-fleet.io/parent-CRP": "payments"}},
            "spec": spec | {"clusterDecision": decision},
        }
        world.hub.request("POST", BINDINGS, binding)
    world.until(lambda: world.ask("filter", "payments", **mode)["NodeNames"] == ["virtual-m3"])
    assert world.settled(world.run("by-name", 3, "payments", **mode)) == {"m3": 3}


@pytest.fixture
def ordinary(world: Fleet) -> Iterator[str]:
    """A node of the hub's own, with no member cluster behind it."""
    add_node(world.hub, "ordinary")
    yield "ordinary"
    world.hub.request("DELETE", "/api/v1/nodes/ordinary")


def test_a_pod_of_an_unknown_placement_waits_for_it_and_goes_to_no_ordinary_node(world: Fleet, ordinary: str) -> None:
    pods = world.run("by-name", 1, "later")
    world.until(lambda: bool(world.failures(pods[0])) or "" not in world.members_of(pods))
    assert world.members_of(pods) == {"": 1}
    world.until(lambda: "10 harbormaster: placement not found" in world.failures(pods[0]))
    assert "1 harbormaster: node is not part of a member cluster" in world.failures(pods[0])
    world.place("later", placementType="PickFixed", clusterNames=["m7"])
    world.nudge()
    assert world.settled(pods) == {"m7": 1}


@pytest.mark.parametrize(
    ("scheduler", "mark", "member"),
    [
        pytest.param("by-name", {}, "m5", id="by-name"),
        pytest.param("by-object", {}, "m5", id="by-object"),
        pytest.param("by-object", {"karpenter.sh/do-not-disrupt": "true"}, "", id="whom-nobody-may-disturb"),
    ],
)
def test_room_is_made_only_where_the_placement_wants_the_pod(
    world: Fleet, scheduler: str, mark: Mapping[str, str], member: str
) -> None:
    """The one cluster is full: a more urgent pod has others leave it, unless they must not be disturbed."""
    world.place("full", placementType="PickFixed", clusterNames=["m5"])
    assert world.settled(world.run(scheduler, PODS_PER_NODE, "full", **mark)) == {"m5": PODS_PER_NODE}
    asked = 'harbormaster_extender_requests_total{result="answered",verb="preempt"}'
    before = world.service.metric(asked)
    pod = world.run(scheduler, 1, "full", priority="urgent")[0]
    world.until(lambda: "Too many pods" in world.failures(pod))
    assert world.service.metric(asked) > before
    assert world.nominated(pod) == member


def test_without_an_extender_the_ignorable_go_on_and_the_others_wait(world: Fleet) -> None:
    """Down, then back on the same port: who did not want to go on without an answer goes on with it."""
    production(world)
    world.service.program.stop()
    try:
        for scheduler in MODES:
            assert sum(world.settled(world.run(scheduler, 2, "payments")).values()) == 2
        waiting = world.run("strict", 2, "payments")
        world.until(lambda: all("connection refused" in world.failures(pod) for pod in waiting))
        assert world.members_of(waiting) == {"": 2}
    finally:
        world.service.start()
    assert world.settled(waiting) == {"m0": 2}


@pytest.mark.core
def test_a_scheduler_that_is_refused_binds_no_pod_and_is_counted(world: Fleet, ordinary: str) -> None:
    """With ``ignorable``, it would bind them to any node: kube-scheduler takes a refusal for no answer."""
    production(world)
    refusals = 'harbormaster_extender_refusals_total{code="401"}'
    before = world.service.metric(refusals)
    waiting = world.run("unknown", 2, "payments")
    world.until(lambda: all("401" in world.failures(pod) for pod in waiting))
    assert world.members_of(waiting) == {"": 2}
    assert world.service.metric(refusals) > before


def run_first(world: Fleet, certificate: ClientCertificate | None, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run what the init container of the chart's scheduler runs, in the layout of its volumes."""
    folder.mkdir()
    (folder / "ca.crt").write_bytes(world.service.ca_file.read_bytes())
    shown = [] if certificate is None else [folder]
    if certificate is not None:
        (folder / "tls.crt").write_bytes(certificate.certificate.read_bytes())
        (folder / "tls.key").write_bytes(certificate.key.read_bytes())
    program = HUB / "files/ask_extender.py"
    command = [sys.executable, program, f"{world.service.url}/extender/v1", folder, *shown]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize(
    ("user", "code", "said"),
    [
        pytest.param(USER, 0, "the extender answers the scheduler", id="one-who-may-ask"),
        pytest.param("somebody", 1, "403: the user of the client certificate", id="one-who-may-not"),
        pytest.param("", 1, "401: the extender does not know the scheduler", id="no-certificate"),
    ],
)
def test_the_chart_asks_before_its_scheduler_starts(
    world: Fleet, tmp_path: Path, user: str, code: int, said: str
) -> None:
    certificate = issue_client_certificate(world.hub.authority, tmp_path / "issued", user) if user else None
    done = run_first(world, certificate, tmp_path / "mounted")
    assert (done.returncode, said in done.stdout) == (code, True), f"{done.stdout}{done.stderr}"


@pytest.mark.core
def test_nobody_else_gets_answers(world: Fleet, folder: Path) -> None:
    """Without a certificate 401; with one of a user who has no role for it 403."""
    body = {"Pod": {}, "NodeNames": []}
    stranger = ssl.create_default_context(cafile=world.service.ca_file)
    assert post(world.service, stranger, "filter", body)[0] == 401
    other = issue_client_certificate(world.hub.authority, folder / "scheduler", "somebody")
    known = other.show(ssl.create_default_context(cafile=world.service.ca_file))
    assert post(world.service, known, "filter", body)[0] == 403
