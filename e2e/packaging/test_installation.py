"""The charts installed by helm, the image of the Dockerfile in their Pods: everything works through the Service.

Real but for the kubelet: control planes, helm, and the programs that the image holds.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.controlplane.printed import called_with
from e2e.controlplane.steady_writers import Authors, write
from e2e.fleet.objects import (
    MERGE,
    Objects,
    condition_of,
    make_config_map,
    make_namespace,
    make_placement,
)
from e2e.fleet.waiting import wait_until
from e2e.installed.images import NEXT, THIS
from e2e.installed.member import MEMBER, Member, hub_and_cluster
from e2e.installed.release import Release
from e2e.kubelet.bed import Bed
from e2e.kubelet.node import RESOURCES
from e2e.kubelet.scene import WEB
from e2e.placements import placement, review
from scorer.api.kinds import KINDS, MEMBER_CLUSTER, PLACEMENT

CONFIG_MAP = KINDS["", "ConfigMap"]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOME = "harbour"
"""A namespace for what tests put there."""
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CRITICAL = "system-node-critical"
EVICTED_SECONDS = 300.0
"""Limit of a wait for Pods that drain, which takes 90 seconds where no other replica is left."""
RESOURCES_OF_A_NODE = {"cpu": RESOURCES["cpu"]}


@pytest.fixture(scope="module")
def both(bed: Bed, programs: Mapping[str, Path]) -> Iterator[tuple[Release, Member]]:
    """The release on the hub, and a cluster beside it that has not been started."""
    with hub_and_cluster(bed, programs) as found:
        bed.objects.create(make_namespace(HOME))
        yield found


@pytest.fixture(scope="module")
def release(both: tuple[Release, Member]) -> Release:
    """The release on the hub."""
    return both[0]


@pytest.fixture(scope="module")
def member(both: tuple[Release, Member]) -> Member:
    """The other cluster, once it is a member."""
    both[1].become()
    return both[1]


def test_what_helm_has_installed_is_ready_and_says_which_version_it_is(release):
    assert len(release.pods("serve")) == 2
    assert release.versions("serve") == release.versions("reconcile") == {THIS}
    assert all(status["restartCount"] == 0 for pod in release.pods("serve") for status in statuses(pod))


def statuses(pod: JsonObject) -> list[JsonObject]:
    return list(pod["status"]["containerStatuses"])


def test_the_test_of_the_chart_passes_and_notices_that_nobody_is_asked(release):
    done = release.test()
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{release.state()}"
    hub = release.bed.cluster
    kept = {path: hub.request("GET", path)[0] for path in release.hooks}
    for path in kept:
        hub.request("DELETE", path)
    assert release.test().returncode != 0
    for path, document in kept.items():
        del document["metadata"]["uid"], document["metadata"]["resourceVersion"]
        hub.request("POST", path.rpartition("/")[0], document)
    release.wait_trusted()


def test_the_api_server_asks_the_service_about_every_write(release):
    hub = release.bed.cluster
    assert write(hub, "right") == ("admitted", "")
    result, said = write(hub, "wrong", is_wrong=True)
    assert result == "refused"
    assert 'admission webhook "clusterresourceplacements.validate.harbormaster.dev" denied the request' in said


def test_a_client_of_the_service_is_not_taken_for_the_api_server(release):
    """Without a value: helm has made the secret path by which the API server is known."""
    paths = {
        each["clientConfig"]["service"]["path"]
        for path in release.hooks
        for each in release.bed.cluster.request("GET", path)[0]["webhooks"]
    }
    assert all(path.startswith("/hooks/") for path in paths)
    hook = "/validate/placement.kubernetes-fleet.io/clusterresourceplacements"
    below = next(path for path in paths if path.endswith(hook))
    unknown = "the caller could not be identified as the API server"
    for path, is_stranger in ((hook, True), (below, False)):
        answer = release.ask("POST", path, body=review(placement("forged")))
        assert answer.status == 200
        assert (unknown in answer.body.decode()) is is_stranger


def test_the_doctor_reads_from_the_pods_whether_schedulers_are_refused(release):
    words = (f"--kubeconfig={release.bed.cluster.kubeconfig}", "-o", "json")

    def found() -> JsonObject:
        checks = json.loads(called_with({}, "doctor", *words).stdout)["checks"]
        return next(each for each in checks if each["check"] == "extender")

    assert found()["state"] == "ok", found()
    assert release.ask("GET", "/extender/v1/filter").status == 405
    assert [each.partition("status ")[2][:3] for each in found()["problems"]] == ["405"]


def test_questions_are_answered_to_those_who_may_ask(release):
    cluster = release.bed.cluster
    for name in ("reader", "stranger"):
        cluster.request("POST", f"/api/v1/namespaces/{HOME}/serviceaccounts", {"metadata": {"name": name}})
    rules = [{"nonResourceURLs": ["/v1/clusters"], "verbs": ["get"]}]
    cluster.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "reader"}, "rules": rules})
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": HOME}],
    }
    cluster.request("POST", f"{RBAC}/clusterrolebindings", binding)
    token = {name: cluster.token_of(HOME, name, release.audience) for name in ("reader", "stranger")}
    assert release.ask("GET", "/v1/clusters", token=token["reader"]).status == 200
    assert release.ask("GET", "/v1/clusters", token=token["stranger"]).status == 403
    assert release.ask("GET", "/v1/clusters", token=cluster.token_of(HOME, "reader")).status == 401  # another audience
    assert release.ask("GET", "/v1/clusters").status == 401


def test_the_scheduler_of_the_chart_asks_the_extender(release):
    """A pod that follows a placement is kept off nodes that belong to no member; one that follows none is not."""
    pods = {"free": {}, "following": {"harbormaster.dev/placement": "none"}}
    for name, annotations in pods.items():
        spec = {"schedulerName": "fleet-scheduler", "containers": [{"name": "web", "image": "example.com/web:1"}]}
        metadata = {"name": name, "annotations": annotations}
        body = {"metadata": metadata, "spec": spec}
        wait_until("a pod can be made", lambda body=body: made(release.bed, body))
    wait_until("one is bound", lambda: "" if "nodeName" in pod(release.bed, "free")["spec"] else "it is not")

    def problem() -> str:
        conditions = pod(release.bed, "following")["status"].get("conditions") or []
        said = [each.get("message", "") for each in conditions if each["type"] == "PodScheduled"]
        return "" if any("node is not part of a member cluster" in each for each in said) else str(said)

    wait_until("the other is told why it is not", problem)


def made(bed: Bed, body: JsonObject) -> str:
    try:
        bed.cluster.request("POST", f"/api/v1/namespaces/{HOME}/pods", body)
    except ApiError as error:  # the namespace has no ServiceAccount yet
        return "" if error.code == 409 else str(error)
    return ""


def pod(bed: Bed, name: str) -> JsonObject:
    return bed.cluster.request("GET", f"/api/v1/namespaces/{HOME}/pods/{name}")[0]


def test_an_upgrade_fails_no_write(release):
    """More upgrades, and rollbacks, under more load: e2e/soak."""
    with Authors(release.bed.cluster, writers=5, seconds=0.3) as authors:
        release.upgrade({"image": {"tag": NEXT}})
        assert release.versions("serve") == release.versions("reconcile") == {NEXT}
    authors.check()
    release.rollback()  # the other tests are about this version
    release.wait_ended()


@pytest.mark.parametrize("accident", ["bundle wiped", "secret deleted", "secret full of garbage"])
def test_replicas_repair_what_was_done_to_their_authority(release, accident):
    cluster, before = release.bed.cluster, release.authority()
    if accident == "bundle wiped":
        for path in release.hooks:
            number = len(cluster.request("GET", path)[0]["webhooks"])
            wiping = [{"op": "remove", "path": f"/webhooks/{each}/clientConfig/caBundle"} for each in range(number)]
            cluster.request("PATCH", path, wiping, content_type="application/json-patch+json")
    elif accident == "secret deleted":
        cluster.request("DELETE", release.secret_path)
    else:
        garbage = {"data": {name: base64.b64encode(b"garbage").decode() for name in ("tls.crt", "tls.key", "ca.crt")}}
        cluster.request("PATCH", release.secret_path, garbage, content_type=MERGE)

    def problem() -> str:
        if accident != "bundle wiped" and (release.authority() == before or "BEGIN" not in release.authority()):
            return "there is no new authority"
        result, said = write(cluster, "probe", is_wrong=True)
        return "" if result == "refused" and release.bundles() == {release.authority()} else said or "let in"

    wait_until("writes are judged again", problem)
    release.wait_trusted()
    if release.authority() != before:
        release.restart_scheduler()  # until then, it binds no pod


@pytest.fixture
def disturbed(release: Release) -> Iterator[Release]:
    """The release, whose Pods a test takes away; all of them are back at the end."""
    yield release
    for name in release.deployments():
        release.bed.wait_rolled_out(release.namespace, name, EVICTED_SECONDS)
    release.wait_ended(EVICTED_SECONDS)
    release.wait_trusted()


def remove_pod(release: Release, found: JsonObject) -> None:
    release.bed.cluster.request("DELETE", f"/api/v1/namespaces/{release.namespace}/pods/{found['metadata']['name']}")


def unjudged(release: Release) -> str:
    """Say what becomes of a wrong write that no replica judges; empty: it fails, as it should."""
    result, said = write(release.bed.cluster, "unjudged", is_wrong=True)
    assert result in {"refused", "failed"}, f"{result}: {said}"
    return "" if result == "failed" and "failed calling webhook" in said else said


def test_a_quota_that_forbids_our_pods_is_named_and_the_last_replica_answers(disturbed):
    """A replica that is lost cannot be replaced; when none is left, writes to our kinds wait for the quota to go."""
    release, hub = disturbed, disturbed.bed.cluster
    quotas = f"/api/v1/namespaces/{release.namespace}/resourcequotas"
    words = (f"--kubeconfig={hub.kubeconfig}", "-o", "json")
    hub.request("POST", quotas, {"metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}}})
    try:
        lost, last = release.pods("serve")
        with Authors(hub, writers=5, seconds=0.3) as authors:
            remove_pod(release, lost)

            def unnamed() -> str:
                checks = json.loads(called_with({}, "doctor", *words).stdout)["checks"]
                found = next(str(each["problems"]) for each in checks if each["check"] == "installation")
                return "" if "1 of 2 replicas" in found and "exceeded quota: no-pods" in found else found

            wait_until("the doctor names the quota", unnamed)
        authors.check()
        remove_pod(release, last)
        wait_until("no replica is left", lambda: unjudged(release), EVICTED_SECONDS)
    finally:
        hub.request("DELETE", f"{quotas}/no-pods")
    # The ReplicaSet controller retries at intervals that have grown to minutes; another ReplicaSet does not wait.
    hub.kubectl("rollout", "restart", f"deployment/{release.fullname}-serve", "-n", release.namespace)

    def problem() -> str:
        return "" if write(hub, "wrong", is_wrong=True)[0] == "refused" else "they are not"

    wait_until("writes are judged again", problem, EVICTED_SECONDS)


@pytest.fixture
def whole_node(disturbed: Release) -> Iterator[Callable[[str, str], JsonObject]]:
    """Ask for all of a node by a Pod of a priority class, which is removed at the end."""
    release, hub, names = disturbed, disturbed.bed.cluster, list[str]()

    def ask(node: str, priority: str) -> JsonObject:
        names.append(f"greedy-{node}")
        container = {"name": "web", "image": WEB, "resources": {"requests": RESOURCES_OF_A_NODE}}
        spec = {
            "priorityClassName": priority,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        }
        wait_until("a pod can be made", lambda: made(release.bed, {"metadata": {"name": names[-1]}, "spec": spec}))
        return pod(release.bed, names[-1])

    yield ask
    for name in names:
        hub.request("DELETE", f"/api/v1/namespaces/{HOME}/pods/{name}")


def test_no_pod_of_users_evicts_ours(disturbed, whole_node):
    """The chart gives ours a class that is above all that users can make."""
    release, hub = disturbed, disturbed.bed.cluster
    hub.request("POST", PRIORITY_CLASSES, {"metadata": {"name": "highest"}, "value": 1_000_000_000})
    try:
        asked = whole_node(release.pods("serve")[0]["spec"]["nodeName"], "highest")

        def problem() -> str:
            found = pod(release.bed, asked["metadata"]["name"])
            assert "nodeName" not in found["spec"]
            assert "nominatedNodeName" not in found["status"]  # the node from which the scheduler evicts others
            conditions = found["status"].get("conditions") or []
            return "" if any("No preemption victims" in each.get("message", "") for each in conditions) else str(found)

        wait_until("the scheduler has found no pod to evict", problem)
    finally:
        hub.request("DELETE", f"{PRIORITY_CLASSES}/highest")


def wait_bound(release: Release, asked: JsonObject) -> None:
    name = asked["metadata"]["name"]

    def problem() -> str:
        return "" if "nodeName" in pod(release.bed, name)["spec"] else "it waits"

    wait_until(f"{name} has its node", problem, EVICTED_SECONDS)


def wait_spread(release: Release) -> None:
    """Have the replicas of the server on both nodes, as the scheduler prefers, whatever an earlier test has done."""

    def problem() -> str:
        pods = release.pods("serve")
        if len(pods) < 2:
            return "a replica is missing"
        if len({each["spec"]["nodeName"] for each in pods}) > 1:
            return ""
        remove_pod(release, pods[0])
        return "both are on one node"

    wait_until("the replicas are on two nodes", problem)


def test_a_critical_pod_that_evicts_ours_from_a_node_costs_no_write(disturbed, whole_node):
    release = disturbed
    wait_spread(release)
    node = release.pods("serve")[0]["spec"]["nodeName"]
    with Authors(release.bed.cluster, writers=5, seconds=0.3) as authors:
        wait_bound(release, whole_node(node, CRITICAL))
        for name in release.deployments():
            release.bed.wait_rolled_out(release.namespace, name)
    authors.check()
    assert node not in {each["spec"]["nodeName"] for each in release.pods("serve")}


def test_when_critical_pods_take_every_node_writes_wait(disturbed, whole_node):
    """The scheduler exceeds PodDisruptionBudgets where it has to; nothing is let in that was not judged."""
    release = disturbed
    for asked in [whole_node(node, CRITICAL) for node in ("node-a", "node-b")]:
        wait_bound(release, asked)
    wait_until("no replica is left", lambda: unjudged(release), EVICTED_SECONDS)


def test_a_cluster_joins_by_one_command_and_gets_what_is_placed(release, member):
    on_hub, in_member = release.bed.objects, Objects(member.bed.cluster)
    assert condition_of(on_hub.get(MEMBER_CLUSTER, MEMBER), "Joined")["status"] == "True"
    on_hub.create(make_namespace("shop"))
    on_hub.create(make_config_map("prices", "shop", bread="3"))
    on_hub.create(make_placement("shop"))
    wait_until("it is placed", lambda: "" if in_member.find(CONFIG_MAP, "prices", "shop") else "it is not there")

    def problem() -> str:
        found = on_hub.get(PLACEMENT, "shop")
        conditions = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions", [])}
        return "" if conditions.get("ClusterResourcePlacementAvailable") == "True" else json.dumps(conditions)

    wait_until("the placement says so", problem)
