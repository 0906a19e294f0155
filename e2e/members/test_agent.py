"""``harbormaster agent`` between a real hub and a real member; on the hub, it may do what the loop lets it do."""

import contextlib
import json
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import install_definitions
from e2e.controlplane.cluster import LOOPBACK, ApiError, Cluster, Etcd, JsonObject
from e2e.controlplane.printed import printed
from e2e.controlplane.process import PATIENCE, Program, free_port, kill
from e2e.controlplane.service import HARBORMASTER
from e2e.fleet.bed import install_member_definitions
from e2e.fleet.objects import MERGE, Objects
from scorer.api.kinds import APPLIED_WORK, INTERNAL_MEMBER_CLUSTER, KINDS, NODE, POD, WORK, Kind
from scorer.api.names import AGENT_VERSION, MEMBER_AGENT, WORK_OBJECTS
from scorer.rollout.removal.marks import objects_digest, with_removal_mark
from tests.thoroughness import SOAK
from webhook.kube.client.paths import path_of
from webhook.member.membership.controller import has_left
from webhook.runtime.distribution import installed_version

MEMBER = "berlin"
SPACE = f"fleet-member-{MEMBER}"
SYSTEM = "fleet-system"
INSTALLED = "harbormaster-system"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RBAC_GROUP = "rbac.authorization.k8s.io"
CONFIG_MAP = KINDS["", "ConfigMap"]
DEFINITION = KINDS["apiextensions.k8s.io", "CustomResourceDefinition"]
PRICES = "updatedAt: 2026-01-01T00:00:00Z\nprices: {small: 0.1}\nregions: {north: {small: 0.2, large: 0.4}}\n"


ENDINGS = (signal.SIGTERM, signal.SIGKILL)
"""Of an API server: it says good-bye to those who watch, or does not."""
OUTAGES: list[tuple[str, str]] = []
"""When the hub was on its way down or up, in the form of the audit log: it refuses much before it knows its roles."""


class Process:
    """An agent as a process of its own."""

    def __init__(self, folder: Path, hub: Path, member: Path, name: str = MEMBER, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        words = [f"--hub-kubeconfig={hub}", f"--kubeconfig={member}", f"--cluster={name}", f"--http-port={self.port}"]
        self.program = Program([HARBORMASTER, "agent", *words, *options], folder / f"agent-{name}.log")

    def read(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}{path}", timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def ready(self) -> bool:
        return self.read("/readyz") == "ok"

    def checks(self) -> str:
        try:
            return self.read("/readyz?verbose")
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def metric(self, name: str) -> float:
        lines = self.read("/metrics").splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    def log(self) -> list[JsonObject]:
        lines = self.program.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> Any:
    """Wait until *condition* is true and return it; an API server that is not there counts as false."""
    end = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except (ApiError, OSError, LookupError):
            pass
        assert time.monotonic() < end, what
        time.sleep(0.1)


def create(cluster: Cluster, kind: Kind, document: JsonObject) -> JsonObject:
    metadata = document["metadata"]
    full = {"apiVersion": kind.api_version, "kind": kind.kind, **document}
    made, _ = cluster.request("POST", path_of(kind, metadata.get("namespace", "")), full)
    if "status" in document:
        path = path_of(kind, metadata.get("namespace", ""), metadata["name"]) + "/status"
        made, _ = cluster.request("PATCH", path, {"status": document["status"]}, content_type=MERGE)
    return made


def read(cluster: Cluster, kind: Kind, name: str, namespace: str = "") -> JsonObject:
    return cluster.request("GET", path_of(kind, namespace, name))[0]


def delete(cluster: Cluster, kind: Kind, name: str, namespace: str = "") -> None:
    cluster.request("DELETE", path_of(kind, namespace, name))


def exists(cluster: Cluster, kind: Kind, name: str, namespace: str = "") -> bool:
    try:
        read(cluster, kind, name, namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        return False
    return True


def order_and_delete(hub: Cluster, name: str, space: str = SPACE) -> None:
    """Delete a Work as the loop does."""
    hub.request("PUT", path_of(WORK, space, name), with_removal_mark(read(hub, WORK, name, space)))
    delete(hub, WORK, name, space)


def drop(hub: Cluster, name: str) -> None:
    """Delete a Work, and wait until it is gone with what it has placed: later tests count the Works of the agent."""
    order_and_delete(hub, name)
    wait_until(lambda: not exists(hub, WORK, name, SPACE), f"the Work {name} does not go")


def make_node(name: str, cpu: str, memory: str, sku: str = "small") -> JsonObject:
    labels = {"beta.kubernetes.io/instance-type": sku, "topology.kubernetes.io/region": "north"}
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": {**amounts, "memory": "8Gi"}},
    }


def make_pod(name: str, cpu: str, node: str = "one") -> JsonObject:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    containers = [{"name": "main", "image": "example.com/a", "resources": resources}]
    spec = {"containers": containers, "nodeName": node, "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def make_work(name: str, *manifests: JsonObject) -> JsonObject:
    spec = {"workload": {"manifests": list(manifests)}}
    signed = {WORK_OBJECTS: objects_digest(manifests)}
    return {"metadata": {"name": name, "namespace": SPACE, "annotations": signed}, "spec": spec}


def make_config_map(name: str, value: str, namespace: str = "default") -> JsonObject:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}


def admit(hub: Cluster, name: str, period: int = 1) -> None:
    """Do what the hub does for a member: namespace, Role, RoleBinding, InternalMemberCluster."""
    space = f"fleet-member-{name}"
    hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
    internal, works = ["cluster.kubernetes-fleet.io"], ["placement.kubernetes-fleet.io"]
    rules = [
        {"apiGroups": works, "resources": ["works"], "verbs": ["get", "list", "watch", "update", "patch"]},
        {"apiGroups": works, "resources": ["works/status"], "verbs": ["get", "update", "patch"]},
        {"apiGroups": internal, "resources": ["internalmemberclusters"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": internal, "resources": ["internalmemberclusters/status"], "verbs": ["get", "update", "patch"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
    ]
    role, binding = f"fleet-role-{name}", f"fleet-rolebinding-{name}"
    hub.request("POST", f"{RBAC}/namespaces/{space}/roles", {"metadata": {"name": role}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": SYSTEM}
    reference = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": role}
    bound = {"metadata": {"name": binding}, "roleRef": reference, "subjects": [subject]}
    hub.request("POST", f"{RBAC}/namespaces/{space}/rolebindings", bound)
    spec = {"state": "Join", "heartbeatPeriodSeconds": period}
    create(hub, INTERNAL_MEMBER_CLUSTER, {"metadata": {"name": name, "namespace": space}, "spec": spec})


@pytest.fixture(scope="module")
def hub(programs: Mapping[str, Path], folder: Path, etcd: Etcd) -> Iterator[Cluster]:
    """A hub that writes down every request of its members."""
    found = Cluster(programs, folder / "agent-hub", etcd, "agent-hub")
    rule = {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{SYSTEM}"]}
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
    policy["rules"] = [rule, {"level": "None"}]
    (found.folder / "audit-policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    try:
        found.start()
        install_definitions(found)
        found.request("POST", "/api/v1/namespaces", {"metadata": {"name": SYSTEM}})
        for name in (MEMBER, "paris", "early"):
            found.request("POST", f"/api/v1/namespaces/{SYSTEM}/serviceaccounts", {"metadata": {"name": name}})
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def member(programs: Mapping[str, Path], folder: Path, etcd: Etcd) -> Iterator[Cluster]:
    """A member with two nodes and three pods that nobody runs; its garbage is collected.

    Its agent may apply two kinds, by the rights that the program itself prints.
    """
    found = Cluster(programs, folder / "agent-member", etcd, "agent-member")
    try:
        found.start()
        install_member_definitions(found)
        found.start_controller_manager(("garbage-collector-controller", "namespace-controller"))
        wait_until(lambda: exists(found, KINDS["", "Namespace"], "default"), "no namespace default")
        found.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        create(found, NODE, make_node("one", "4", "16Gi"))
        create(found, NODE, make_node("two", "3500m", "16Gi", "large"))
        for name in ("a", "b"):
            create(found, POD, make_pod(name, "250m"))
        create(found, POD, {**make_pod("ended", "3"), "status": {"phase": "Succeeded"}})
        found.request("POST", "/api/v1/namespaces", {"metadata": {"name": INSTALLED}})
        account = {"metadata": {"name": "harbormaster-agent"}}
        found.request("POST", f"/api/v1/namespaces/{INSTALLED}/serviceaccounts", account)
        words = ("rbac", "agent", "--apply=namespaces", "--apply=configmaps", "--apply=crd", "-o", "json")
        Objects(found).apply(json.loads(printed(*words))["items"])
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def member_kubeconfig(member: Cluster) -> Path:
    return member.write_kubeconfig("harbormaster-agent", member.token_of(INSTALLED, "harbormaster-agent"))


@pytest.fixture(scope="module")
def token_file(folder: Path) -> Path:
    return folder / "berlin.token"


@pytest.fixture(scope="module")
def agent(hub: Cluster, member_kubeconfig: Path, folder: Path, token_file: Path) -> Iterator[Process]:
    admit(hub, MEMBER)
    token_file.write_text(hub.token_of(SYSTEM, MEMBER) + "\n", encoding="ascii")
    kubeconfig = hub.write_kubeconfig(MEMBER, "")
    document = json.loads(kubeconfig.read_text(encoding="utf-8"))
    document["users"][0]["user"] = {"tokenFile": str(token_file)}
    kubeconfig.write_text(json.dumps(document), encoding="utf-8")
    prices = folder / "prices.yaml"
    prices.write_text(PRICES, encoding="utf-8")
    found = Process(folder, kubeconfig, member_kubeconfig, MEMBER, f"--prices={prices}")
    found.program.start()
    try:
        found.program.wait_ready(found.ready)
        yield found
    finally:
        kill(found.program)


@pytest.fixture
def shop(hub: Cluster, agent: Process) -> str:
    """A namespace that a Work of its name has brought to the member, with a ConfigMap ``cart``; tests share it."""
    if not exists(hub, WORK, "shop", SPACE):
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        create(hub, WORK, make_work("shop", space, make_config_map("cart", "one", "shop")))
    wait_until(lambda: applied(hub, "shop"), "the Work is not applied")
    return "shop"


def status(hub: Cluster, name: str = MEMBER) -> JsonObject:
    return dict(read(hub, INTERNAL_MEMBER_CLUSTER, name, f"fleet-member-{name}").get("status") or {})


def agent_conditions(hub: Cluster, name: str = MEMBER) -> dict[str, str]:
    for entry in status(hub, name).get("agentStatus") or ():
        if entry["type"] == MEMBER_AGENT:
            return {condition["type"]: condition["status"] for condition in entry["conditions"]}
    return {}


def identity(hub: Cluster, name: str) -> tuple[str, str] | None:
    """What the hub is told about whose the cluster is."""
    conditions = status(hub, name).get("conditions") or ()
    return next(((each["status"], each["reason"]) for each in conditions if each["type"] == "IdentityAccepted"), None)


def heartbeat(hub: Cluster) -> str:
    return str(status(hub)["agentStatus"][0]["lastReceivedHeartbeat"])


def wait_heartbeats(hub: Cluster, count: int = 2) -> None:
    for _ in range(count):
        last = heartbeat(hub)
        wait_until(lambda last=last: heartbeat(hub) != last, "no heartbeat comes")


def applied(hub: Cluster, name: str) -> bool:
    work = read(hub, WORK, name, SPACE)
    conditions = (work.get("status") or {}).get("conditions") or ()
    return {"Applied": "True"}.items() <= {each["type"]: each["status"] for each in conditions}.items()


def test_it_joins_and_reports_what_the_member_is(hub, member, agent):
    wait_until(lambda: agent_conditions(hub) == {"Joined": "True", "Healthy": "True"}, "not joined")
    found = status(hub)
    properties = {name: entry["value"] for name, entry in found["properties"].items()}
    assert properties.pop("k8s.io/k8s-version").startswith("v1.")
    assert properties.pop(AGENT_VERSION) == installed_version()
    assert properties == {
        "kubernetes-fleet.io/node-count": "2",
        "kubernetes.azure.com/vm-sizes/small/count": "1",
        "kubernetes.azure.com/vm-sizes/large/count": "1",
        "kubernetes.azure.com/per-cpu-core-cost": "0.080",  # (0.2 + 0.4) / 7.5
        "kubernetes.azure.com/per-gb-memory-cost": "0.019",  # (0.2 + 0.4) / 32
    }
    usage = found["resourceUsage"]
    assert usage["capacity"] == {"cpu": "7500m", "memory": "32Gi"}
    assert usage["allocatable"] == {"cpu": "7500m", "memory": "16Gi"}
    assert usage["available"] == {"cpu": "7", "memory": "14Gi"}
    assert found["namespaces"]["default"] == ""
    reasons = {each["type"]: each["reason"] for each in found["conditions"]}
    expected = {
        "ClusterPropertyCollectionSucceeded": "Succeeded",
        "NamespaceCollectionSucceeded": "Succeeded",
        "AKSClusterCostPropertiesCollectionSucceeded": "CostsCalculationDegraded",
    }
    assert expected.items() <= reasons.items()  # the others depend on tests that used this member before
    assert agent.metric("harbormaster_agent_joined") == 1


def test_figures_follow_nodes_and_pods(hub, member, agent):
    def usage() -> tuple[str, str, str]:
        found = status(hub)
        usage = found["resourceUsage"]
        count = found["properties"]["kubernetes-fleet.io/node-count"]["value"]
        return count, usage["capacity"]["cpu"], usage["available"]["cpu"]

    create(member, POD, make_pod("c", "1500m", "two"))
    wait_until(lambda: usage() == ("2", "7500m", "5500m"), "the new pod is not counted")
    create(member, NODE, make_node("three", "8", "16Gi", "unknown"))
    wait_until(lambda: usage() == ("3", "15500m", "13500m"), "the new node is not counted")
    assert "kubernetes.azure.com/per-cpu-core-cost" not in status(hub)["properties"]
    reasons = {each["type"]: (each["reason"], each["message"]) for each in status(hub)["conditions"]}
    assert reasons["AKSClusterCostPropertiesCollectionSucceeded"] == (
        "CostsCalculationFailed",
        "no price in region north for unknown",
    )
    delete(member, POD, "c", "default")
    delete(member, NODE, "three")
    wait_until(lambda: usage() == ("2", "7500m", "7"), "what is gone is still counted")


def test_it_applies_a_work_and_repairs_what_is_done_by_hand(hub, member, agent, shop):
    """How soon it does is tested with a clock that stands still."""
    assert read(member, CONFIG_MAP, "cart", shop)["data"] == {"key": "one"}
    wait_until(lambda: status(hub)["namespaces"].get(shop) == "shop", "the namespace is not reported")
    wait_until(lambda: shop in status(hub).get("namespaceContents", {}), "the content of the namespace is not counted")
    counts = status(hub)["namespaceContents"][shop]
    assert (counts["volumeClaims"], counts["others"]) == (0, 0)
    wait_until(lambda: agent.metric("harbormaster_agent_works") == 1, "the Work is not counted")
    delete(member, CONFIG_MAP, "cart", shop)
    wait_until(lambda: exists(member, CONFIG_MAP, "cart", shop), "the object is not put back")
    change = {"data": {"key": "two"}}
    member.request("PATCH", path_of(CONFIG_MAP, shop, "cart"), change, content_type=MERGE)
    wait_until(lambda: read(member, CONFIG_MAP, "cart", shop)["data"] == {"key": "one"}, "the change is not undone")


def test_its_own_writes_do_not_keep_it_busy(hub, member, agent, shop):
    manifests = [make_config_map(f"many-{number}", "x", shop) for number in range(20)]
    create(hub, WORK, make_work("many", *manifests))
    wait_until(lambda: applied(hub, "many"), "the Work is not applied")

    def version() -> str:
        return str(read(hub, WORK, "many", SPACE)["metadata"]["resourceVersion"])

    def is_quiet() -> bool:
        before = version()
        time.sleep(3)
        return version() == before

    wait_until(is_quiet, "the status of the Work keeps changing")
    before, since, settled = agent.metric("harbormaster_agent_work_passes_total"), time.monotonic(), version()
    time.sleep(5)
    passes = agent.metric("harbormaster_agent_work_passes_total") - before
    assert passes <= 3 + (time.monotonic() - since)  # two Works, passes of each at least 2 s apart
    assert version() == settled
    drop(hub, "many")


def test_what_it_may_not_apply_is_reported_and_does_not_keep_the_rest_from_being_applied(hub, member, agent, shop):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": shop}}
    create(hub, WORK, make_work("mixed", secret, make_config_map("mixed", "x", shop)))

    def reasons() -> list[str]:
        entries = read(hub, WORK, "mixed", SPACE)["status"]["manifestConditions"]
        return [entry["conditions"][0]["status"] for entry in entries]

    wait_until(lambda: reasons() == ["False", "True"], "the Work does not say what was applied")
    assert agent.ready()
    delete(member, CONFIG_MAP, "mixed", shop)
    wait_until(lambda: exists(member, CONFIG_MAP, "mixed", shop), "the object is not put back")
    said = [line for line in agent.log() if line["msg"] == "watch failed" and line["resource"] == "secrets"]
    assert len(said) == 1
    drop(hub, "mixed")


def test_a_deleted_work_takes_its_objects_along(hub, member, agent, shop):
    create(hub, WORK, make_work("short", make_config_map("short-lived", "x", shop)))
    wait_until(lambda: applied(hub, "short"), "the Work is not applied")
    assert exists(member, CONFIG_MAP, "short-lived", shop)
    assert exists(member, APPLIED_WORK, "short")
    drop(hub, "short")
    assert not exists(member, CONFIG_MAP, "short-lived", shop)
    assert not exists(member, APPLIED_WORK, "short")


@pytest.mark.soak
@pytest.mark.parametrize("number", ENDINGS if SOAK else ENDINGS[:1])
def test_it_outlives_a_restart_of_the_hub(hub, member, agent, shop, number):
    begun = datetime.now(UTC).isoformat()
    hub.apiserver.stop(number=number)
    delete(member, CONFIG_MAP, "cart", shop)
    hub.start()
    OUTAGES.append((begun, datetime.now(UTC).isoformat()))
    wait_heartbeats(hub)
    wait_until(lambda: exists(member, CONFIG_MAP, "cart", shop), "not put back after the outage")
    name = f"after-{number}"
    create(hub, WORK, make_work(name, make_config_map(name, "x")))
    wait_until(lambda: applied(hub, name), "no Work is taken up after the outage")
    assert agent.program.running
    drop(hub, name)


@pytest.mark.soak
@pytest.mark.parametrize("number", ENDINGS if SOAK else ENDINGS[1:])
def test_it_outlives_a_restart_of_the_member(hub, member, agent, shop, number):
    before = status(hub)["properties"]["kubernetes-fleet.io/node-count"]["value"]
    member.apiserver.stop(number=number)
    wait_until(lambda: agent_conditions(hub) == {"Joined": "True", "Healthy": "False"}, "not reported as unhealthy")
    found = status(hub)
    assert found["properties"]["kubernetes-fleet.io/node-count"]["value"] == before
    assert found["resourceUsage"]["capacity"]["cpu"] == "7500m"
    member.start()
    wait_until(lambda: agent_conditions(hub) == {"Joined": "True", "Healthy": "True"}, "not healthy again")
    wait_until(agent.ready, "not ready again")
    delete(member, CONFIG_MAP, "cart", shop)
    wait_until(lambda: exists(member, CONFIG_MAP, "cart", shop), "not put back after the outage")
    create(member, POD, make_pod(f"late-{number}", "1"))
    wait_until(lambda: status(hub)["resourceUsage"]["available"]["cpu"] == "6", "the new pod is not counted")
    delete(member, POD, f"late-{number}", "default")
    wait_until(lambda: status(hub)["resourceUsage"]["available"]["cpu"] == "7", "the pod is still counted")


def test_another_token_in_the_file_is_taken_up(hub, agent, token_file):
    """A token says in the audit log which one it is."""

    def in_use() -> str:
        extra = hub.audit()[-1]["user"]["extra"]
        return str(extra["authentication.kubernetes.io/credential-id"])

    before = in_use()
    passing = token_file.with_suffix(".new")
    passing.write_text(hub.token_of(SYSTEM, MEMBER), encoding="ascii")
    passing.replace(token_file)
    wait_until(lambda: in_use() != before, "the new token is not used")
    wait_heartbeats(hub)


def test_another_authority_of_the_hub_is_taken_up_from_the_kubeconfig(hub, member, agent, shop):
    """The kubeconfig is written in place, as by whoever renews certificates; the agent is not restarted."""
    begun = datetime.now(UTC).isoformat()
    before = agent.program.pid
    hub.replace_authority()
    OUTAGES.append((begun, datetime.now(UTC).isoformat()))
    said = "certificate verify failed"
    wait_until(lambda: said in agent.checks(), "the agent does not say that it cannot verify the hub")
    last = heartbeat(hub)
    clusters = json.loads(hub.write_kubeconfig("renewed", "").read_text(encoding="utf-8"))["clusters"]
    kubeconfig = hub.folder / f"{MEMBER}.kubeconfig"
    document = json.loads(kubeconfig.read_text(encoding="utf-8"))
    kubeconfig.write_text(json.dumps({**document, "clusters": clusters}), encoding="utf-8")
    wait_until(lambda: heartbeat(hub) != last, "no heartbeat comes")
    assert agent.program.running
    assert agent.program.pid == before


def change_state(hub: Cluster, state: str, name: str = MEMBER) -> None:
    """Have a member join or leave, and wait until its agent says that it has."""
    path = path_of(INTERNAL_MEMBER_CLUSTER, f"fleet-member-{name}", name)
    hub.request("PATCH", path, {"spec": {"state": state}}, content_type=MERGE)
    said = "True" if state == "Join" else "False"
    wait_until(lambda: agent_conditions(hub, name).get("Joined") == said, f"it does not say so: {state}")


def lists_of_works(hub: Cluster) -> list[JsonObject]:
    """Requests of the agent for all of its Works: one for each pass while it is to leave."""
    ours = [entry for entry in hub.audit() if entry["user"]["username"].endswith(f":{MEMBER}")]
    return [entry for entry in ours if entry["verb"] == "list" and entry["objectRef"]["resource"] == "works"]


def test_it_leaves_and_what_was_placed_stays_and_is_taken_over_when_it_joins_again(hub, member, agent, shop):
    create(hub, WORK, make_work("left", make_config_map("left", "x")))
    wait_until(lambda: applied(hub, "left"), "the Work is not applied")
    change_state(hub, "Leave")
    works = hub.request("GET", path_of(WORK, SPACE))[0]["items"]
    assert works
    assert not [work for work in works if work["metadata"].get("finalizers")]
    for work in works:
        delete(hub, WORK, work["metadata"]["name"], SPACE)
    delete(member, CONFIG_MAP, "left", "default")
    seen = len(lists_of_works(hub))
    hub.request(
        "PATCH",
        path_of(INTERNAL_MEMBER_CLUSTER, SPACE, MEMBER),
        {"spec": {"heartbeatPeriodSeconds": 2}},
        content_type=MERGE,
    )
    wait_until(lambda: len(lists_of_works(hub)) > seen, "it does not look for Works to release")
    wait_until(lambda: has_left(read(hub, INTERNAL_MEMBER_CLUSTER, MEMBER, SPACE)), "the last report is not renewed")
    assert agent.metric("harbormaster_agent_joined") == 0
    assert exists(member, CONFIG_MAP, "cart", shop)
    assert not exists(member, CONFIG_MAP, "left", "default")
    change_state(hub, "Join")
    create(hub, WORK, make_work("shop", make_config_map("cart", "again", shop)))
    wait_until(lambda: applied(hub, "shop"), "what was left behind is not taken over")
    assert read(member, CONFIG_MAP, "cart", shop)["data"] == {"key": "again"}
    drop(hub, "shop")  # the fixture makes it anew as it was


def test_what_the_agent_itself_stands_on_is_neither_applied_nor_removed(hub, member, agent):
    """A hub of another make may send it; its end would be the end of all that is placed, or of the agent."""
    definition = read(member, DEFINITION, APPLIED_WORK.resource)
    kept = {
        key: definition["metadata"][key] for key in ("name", "labels", "annotations") if key in definition["metadata"]
    }
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": INSTALLED}}
    manifests = [
        {"apiVersion": DEFINITION.api_version, "kind": DEFINITION.kind, "metadata": kept, "spec": definition["spec"]},
        own,
        make_config_map("note", "x", INSTALLED),
        make_config_map("note", "x", "kube-system"),
    ]
    create(hub, WORK, make_work("own", *manifests, make_config_map("other", "x")))

    def reasons() -> list[str]:
        entries = read(hub, WORK, "own", SPACE)["status"]["manifestConditions"]
        return [entry["conditions"][0]["reason"] for entry in entries]

    wait_until(lambda: len(reasons()) == 5 and "PreparingToProcess" not in reasons(), "the Work is not applied")
    said = reasons()
    drop(hub, "own")
    assert exists(member, DEFINITION, APPLIED_WORK.resource), "the definition of AppliedWork went with a Work"
    for kind, name in ((DEFINITION, APPLIED_WORK.resource), (KINDS["", "Namespace"], INSTALLED)):
        assert not read(member, kind, name)["metadata"].get("deletionTimestamp"), f"{kind} {name} goes with a Work"
    assert said == [*["RefusedByAgent"] * 4, "Applied"]


def test_an_agent_at_the_wrong_cluster_neither_applies_nor_deletes(hub, member, agent, member_kubeconfig, folder):
    """Its kubeconfig names the cluster of another member; Works of both have the same name."""
    admit(hub, "paris")
    kubeconfig = hub.write_kubeconfig("paris", hub.token_of(SYSTEM, "paris"))
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "port"}}
    create(hub, WORK, make_work("port", space, make_config_map("ship", "berlin", "port")))
    wait_until(lambda: applied(hub, "port"), "the Work is not applied")
    create(member, CONFIG_MAP, make_config_map("local", "nobody placed this", "port"))
    work = make_work("port", space, make_config_map("ship", "paris", "port"))
    work["metadata"]["namespace"] = "fleet-member-paris"
    create(hub, WORK, work)
    lost = Process(folder, kubeconfig, member_kubeconfig, "paris")
    lost.program.start()
    try:
        wait_until(lambda: status(hub, "paris").get("conditions"), "the hub does not hear of it")
        with contextlib.suppress(AssertionError):
            wait_until(lambda: "status" in read(hub, WORK, "port", "fleet-member-paris"), "it applies", 3)
        order_and_delete(hub, "port", "fleet-member-paris")
        wait_until(lambda: not exists(hub, WORK, "port", "fleet-member-paris"), "the Work does not go")
        assert exists(member, CONFIG_MAP, "local", "port"), "the namespace that berlin has placed was deleted"
        assert read(member, CONFIG_MAP, "ship", "port")["data"] == {"key": "berlin"}
        (said,) = status(hub, "paris")["conditions"]
        assert (said["type"], said["status"], said["reason"]) == ("IdentityAccepted", "False", "ClusterOfAnother")
        assert "recorded as member berlin of" in said["message"]
        assert agent_conditions(hub, "paris") == {}
        with pytest.raises(urllib.error.HTTPError) as refused:
            lost.read("/readyz")
        assert "identity" in refused.value.read().decode()
        assert [line["level"] for line in lost.log() if "--take-over" in line.get("reason", "")] == ["error"]
    finally:
        lost.program.stop()
    assert agent.ready()
    drop(hub, "port")


def test_it_asks_for_nothing_that_it_may_not(hub, agent):
    """Nothing is refused, and nothing is asked outside of its namespace."""

    def entries_of() -> list[JsonObject]:
        """Requests for objects; one for ``/version`` is not among them: an agent sends it once its requests fail."""
        ours = [entry for entry in hub.audit() if entry["user"]["username"].endswith(f":{MEMBER}")]
        return [entry for entry in ours if "objectRef" in entry]

    def asked() -> set[tuple[str, str]]:
        return {(entry["verb"], entry["objectRef"]["resource"]) for entry in entries_of()}

    wait_until(lambda: ("watch", "works") in asked(), "it does not watch Works")
    entries = entries_of()
    assert {entry["objectRef"]["namespace"] for entry in entries} == {SPACE}
    refused = [entry for entry in entries if entry["responseStatus"].get("code") in {401, 403}]
    times = [entry["requestReceivedTimestamp"] for entry in refused]
    assert not [at for at in times if not any(begin <= at <= end for begin, end in OUTAGES)]


def warnings_of(agent: Process) -> list[JsonObject]:
    return [line for line in agent.log() if line["level"] == "warning"]


def test_without_rights_it_waits_and_says_so_once_then_takes_the_cluster_over(hub, agent, member_kubeconfig, folder):
    """The hub's side of joining may come later than the agent."""
    kubeconfig = hub.write_kubeconfig("early", hub.token_of(SYSTEM, "early"))
    script = folder / "provider.py"
    script.write_text('print(\'{"properties": {"example.com/gpu-count": 8}}\')\n', encoding="utf-8")
    provider = f"--provider-command={sys.executable} {script}"
    early = Process(folder, kubeconfig, member_kubeconfig, "early", provider, "--take-over")
    early.program.start()

    def refusals() -> list[JsonObject]:
        ours = [entry for entry in hub.audit() if entry["user"]["username"].endswith(":early")]
        return [entry for entry in ours if entry["verb"] == "list" and entry["responseStatus"].get("code") == 403]

    try:
        wait_until(lambda: early.read("/livez") == "ok", "not live")
        wait_until(lambda: warnings_of(early), "no warning")
        wait_until(lambda: len(refusals()) > 2, "it does not ask again")
        warnings = warnings_of(early)
        assert [line["resource"] for line in warnings] == ["internalmemberclusters.cluster.kubernetes-fleet.io"]
        assert "forbidden" in warnings[0]["error"]
        admit(hub, "early")
        wait_until(lambda: agent_conditions(hub, "early").get("Joined") == "True", "it does not join")
        wait_until(early.ready, "not ready")
        wait_until(lambda: identity(hub, MEMBER) == ("False", "ClusterOfAnother"), "who was there before goes on")
        assert agent.metric("harbormaster_agent_joined") == 0
        found = status(hub, "early")
        assert found["properties"]["example.com/gpu-count"]["value"] == "8"
        reasons = {each["type"]: each["reason"] for each in found["conditions"]}
        assert reasons["ClusterPropertyProviderStarted"] == "Started"
        assert early.program.stop(seconds=PATIENCE) == 0
        assert agent_conditions(hub, "early").get("Joined") == "True"  # to be restarted is not to leave
        early.program.start()
        change_state(hub, "Leave", "early")
        # Joined stays True on the hub while the cluster is recorded as another's: the agent sends no heartbeats then.
        wait_until(lambda: identity(hub, MEMBER) == ("True", "Recorded"), "who was there before does not come back")
    finally:
        early.program.stop()
