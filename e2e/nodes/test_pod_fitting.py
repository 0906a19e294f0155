"""The real kube-scheduler and our own reckoning of where a pod fits agree, pod by pod, in clusters made at random.

Pods are made one after the other, so that both know the same when they decide. Where the scheduler puts a pod, it must
fit for us; where the scheduler finds no node, we must find none, for the same reasons. Then our state follows what the
scheduler has done, and some pods end or begin to end.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.process import PATIENCE, kill
from e2e.fleet.objects import MERGE
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.reader import read_cluster
from scorer.node_disruption.scheduling.node_filter import ClusterCapacity
from tests.builders.random_pods import NAMESPACES, OVERHEAD, OVERHEAD_CLASS, RandomPods, make_volumes
from tests.thoroughness import SOAK

CLUSTERS = 200 if SOAK else 20
NODES = 20
PODS = 40
SCHEDULER = "fitting"
"""Pods that other tests on this hub have left pending name another one, and are not placed on the nodes here."""
NODE_PATH = "/api/v1/nodes"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
NOW = datetime(2026, 7, 1, tzinfo=UTC)
MESSAGE = re.compile(r"0/[0-9]+ nodes are available: (.*?)\.?", re.DOTALL)
REASON = re.compile(r"([0-9]+) (.+)")
PREFILTER = ("didn't satisfy plugin(s)", "pod affinity terms conflict")
"""What the scheduler says of nodes that it leaves out beforehand because a term names others; we give its reason."""


@pytest.fixture(scope="module")
def scheduled(own_hub: Cluster, folder: Path) -> Iterator[Cluster]:
    """A hub with a scheduler that preempts nothing."""
    for name, labels in NAMESPACES.items():
        own_hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": dict(labels)}})
        own_hub.request("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
    heavy = {"metadata": {"name": OVERHEAD_CLASS}, "handler": "heavy", "overhead": {"podFixed": OVERHEAD}}
    own_hub.request("POST", RUNTIME_CLASSES, heavy)
    for each in make_volumes():
        namespace = each["metadata"].get("namespace")
        place = f"namespaces/{namespace}/persistentvolumeclaims" if namespace else "persistentvolumes"
        own_hub.request("POST", f"/api/v1/{place}", each)
    path = folder / "fitting.json"
    path.write_text(json.dumps(configuration(own_hub)))
    scheduler = own_hub.start_scheduler(path)
    yield own_hub
    kill(scheduler)
    for place in (RUNTIME_CLASSES, "/api/v1/persistentvolumes"):
        own_hub.request("DELETE", place)
    for name in NAMESPACES:
        own_hub.request("DELETE", f"/api/v1/namespaces/{name}")


def configuration(cluster: Cluster) -> JsonObject:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig), "qps": 1000, "burst": 1000},
        "leaderElection": {"leaderElect": False},
        "podMaxBackoffSeconds": 1,
        "profiles": [{"schedulerName": SCHEDULER, "plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}],
    }


@dataclass
class Answer:
    """What the scheduler did with a pod: the document then; its node, or why there is none."""

    pod: JsonObject
    node: str
    message: str

    @property
    def reasons(self) -> Mapping[str, int] | None:
        """For how many nodes it gives each reason; None: it has left some out beforehand."""
        if any(each in self.message for each in PREFILTER):
            return None
        found = MESSAGE.fullmatch(self.message)
        assert found is not None, self.message
        parts = [REASON.fullmatch(each) for each in found[1].split(", ")]
        return {part[2]: int(part[1]) for part in parts if part}


class World:
    """One cluster, and what is in it."""

    def __init__(self, cluster: Cluster, made: RandomPods) -> None:
        self.cluster = cluster
        self.made = made
        self.nodes: list[JsonObject] = []
        self.pods: dict[str, JsonObject] = {}

    def fill(self) -> None:
        """Make nodes, and wait until the scheduler knows all of them."""
        mark = str(time.monotonic_ns())
        for number in range(NODES):
            node = self.made.node(f"node-{number:02}")
            status = node.pop("status")
            taints = node["spec"]["taints"]
            self.cluster.request("POST", NODE_PATH, node)
            path = f"{NODE_PATH}/{node['metadata']['name']}"
            self.cluster.request("PATCH", f"{path}/status", {"status": status}, content_type=MERGE)
            change: JsonObject = {"spec": {"taints": taints}}
            if number == NODES - 1:
                change["metadata"] = {"labels": {"mark": mark}}
            self.nodes.append(self.cluster.request("PATCH", path, change, content_type=MERGE)[0])
        self._wait_known(mark)

    def _wait_known(self, mark: str) -> None:
        """Wait until a pod goes where the last label is."""
        spec = {
            "schedulerName": SCHEDULER,
            "containers": [{"name": "main", "image": "main"}],
            "nodeSelector": {"mark": mark},
            "tolerations": [{"operator": "Exists"}],
            "automountServiceAccountToken": False,
        }
        pod = {"metadata": {"name": "scout", "namespace": "blue"}, "spec": spec}
        self.cluster.request("POST", _pods("blue"), pod)
        end = time.monotonic() + PATIENCE
        while not self.cluster.request("GET", f"{_pods('blue')}/scout")[0]["spec"].get("nodeName"):
            assert time.monotonic() < end
            time.sleep(0.02)
        self.cluster.request("DELETE", f"{_pods('blue')}/scout?gracePeriodSeconds=0")

    def ask(self, pod: JsonObject) -> Answer:
        """Have the scheduler place a pod; one that finds no place is gone afterwards."""
        about = pod["metadata"]
        path = f"{_pods(about['namespace'])}/{about['name']}"
        named = {**pod, "spec": {**pod["spec"], "schedulerName": SCHEDULER}}
        self.cluster.request("POST", _pods(about["namespace"]), named)
        end = time.monotonic() + PATIENCE
        while True:
            found = self.cluster.request("GET", path)[0]
            if node := found["spec"].get("nodeName"):
                self.pods[path] = found
                return Answer(found, node, "")
            for condition in found["status"].get("conditions", ()):
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    gone = self.cluster.request("DELETE", f"{path}?gracePeriodSeconds=0")[0]
                    assert "nodeName" not in gone.get("spec", {}), "placed after all, though nothing changed"
                    return Answer(found, "", condition["message"])
            assert time.monotonic() < end, found
            time.sleep(0.004)

    def end_one(self, path: str, seconds: int) -> JsonObject | None:
        """Have a pod end; returns it as it is then, None when it is gone."""
        self.cluster.request("DELETE", f"{path}?gracePeriodSeconds={seconds}")
        if not seconds:
            del self.pods[path]
            return None
        self.pods[path] = self.cluster.request("GET", path)[0]
        return self.pods[path]

    def documents(self) -> list[JsonObject]:
        """All objects, as a dump has them."""
        spaces = [
            {"kind": "Namespace", "metadata": {"name": name, "labels": {**labels, "kubernetes.io/metadata.name": name}}}
            for name, labels in NAMESPACES.items()
        ]
        nodes = [{**node, "kind": "Node"} for node in self.nodes]
        return [*spaces, *nodes, *make_volumes(), *({**pod, "kind": "Pod"} for pod in self.pods.values())]

    def clear(self) -> None:
        for name in NAMESPACES:
            self.cluster.request("DELETE", f"{_pods(name)}?gracePeriodSeconds=0")
        for path in self.pods:  # those that were ending are not gone by that
            try:
                self.cluster.request("DELETE", f"{path}?gracePeriodSeconds=0")
            except ApiError as error:
                assert error.code == 404, str(error)
        self.cluster.request("DELETE", NODE_PATH)


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
def world(scheduled: Cluster, request: pytest.FixtureRequest) -> Iterator[World]:
    found = World(scheduled, RandomPods(request.param))
    found.fill()
    yield found
    found.clear()


def pod_of(document: JsonObject) -> Pod:
    """A pod as a cluster with its volumes has it, before it is placed."""
    unplaced = {**document, "kind": "Pod", "spec": {**document["spec"], "nodeName": ""}}
    (pod,) = read_cluster([*make_volumes(), unplaced], NOW).pending
    return pod


def fitting_of(world: World) -> ClusterCapacity:
    return ClusterCapacity(read_cluster(world.documents(), NOW))


@pytest.mark.soak
@pytest.mark.parametrize("world", range(CLUSTERS), indirect=True)
def test_a_pod_fits_where_the_scheduler_says_so(world: World) -> None:
    """The choice of the scheduler is feasible; where it finds nothing, nothing is, for the same reasons."""
    fitting = fitting_of(world)
    for number in range(PODS):
        answer = world.ask(world.made.pod())
        pod = pod_of(answer.pod)
        feasible = fitting.feasible(pod)
        shown = json.dumps(answer.pod, indent=1)
        names = [name for name, fits in zip(fitting.names, feasible, strict=True) if fits]
        if answer.node:
            assert answer.node in names, (fitting.reasons(pod), shown)
            fitting.place(pod, answer.node)
        else:
            assert not names, (answer.message, names, shown)
            if answer.reasons is not None:
                assert fitting.reasons(pod) == answer.reasons, shown
        if number % 8 == 7:
            follow_an_end(world, fitting)
            made_anew = fitting_of(world)
            assert np.array_equal(made_anew.feasible(pod), fitting.feasible(pod)), shown


def follow_an_end(world: World, fitting: ClusterCapacity) -> None:
    """Have one pod end at once, or begin to end, for both."""
    if world.pods:
        path = world.made.random.choice(sorted(world.pods))
        before = world.pods[path]
        after = world.end_one(path, world.made.random.choice((0, 30)))
        fitting.remove(pod_of(before), before["spec"]["nodeName"])
        if after is not None:
            fitting.place(pod_of(after), after["spec"]["nodeName"])
