"""Plays the provisioner that owns claims, and what brings pods back: what is left of Karpenter where we disrupt nodes.

For a claim that is made in the place of others it makes a node, and says that it is initialized; when a claim is
deleted, it takes the node away.
"""

import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.fleet.objects import Objects
from e2e.karpenter.scene import INITIALIZED, NODE_CLASS, TERMINATION
from scorer.api.kinds import KINDS, NODE, NODE_CLAIM, NODE_POOL, POD, POD_DISRUPTION_BUDGET
from scorer.api.meta import format_time
from scorer.api.node_pool import NODE_POOL_LABEL
from scorer.node_disruption.execution.command_annotation import COMMAND
from webhook.kube.client.paths import path_of

PAUSE_SECONDS: Final = 0.3
_HAS: Final = {"cpu": "4", "memory": "16Gi", "pods": "110"}


class Provisioner(threading.Thread):
    """Does its work until it is stopped.

    Args:
        cluster: Where.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True, name="provisioner")
        self._objects = Objects(cluster)
        self._stopped = threading.Event()

    def run(self) -> None:
        """Go round and round."""
        while not self._stopped.wait(PAUSE_SECONDS):
            with suppress(ApiError, OSError):  # somebody else writes as well: the next round sees what is left to do
                self._go_round()

    def stop(self) -> None:
        """End it."""
        self._stopped.set()
        self.join()

    def _go_round(self) -> None:
        for claim in self._objects.all(NODE_CLAIM):
            if "deletionTimestamp" in claim["metadata"]:
                self._end(claim)
            elif COMMAND in claim["metadata"].get("annotations", {}) and not claim.get("status", {}).get("nodeName"):
                self._launch(claim)
        for budget in self._objects.all(POD_DISRUPTION_BUDGET):
            allowed = int(budget["metadata"].get("annotations", {}).get("example.com/allowed", "0"))
            if budget.get("status", {}).get("disruptionsAllowed") != allowed:
                generation = budget["metadata"]["generation"]
                status = {"disruptionsAllowed": allowed, "observedGeneration": generation, "disruptedPods": None}
                self._objects.patch_status(
                    POD_DISRUPTION_BUDGET, budget["metadata"]["name"], status, budget["metadata"]["namespace"]
                )

    def _launch(self, claim: JsonObject) -> None:
        name, labels = claim["metadata"]["name"], claim["metadata"]["labels"]
        if self._objects.find(NODE, name) is None:
            self._objects.create(make_node(name, labels))
        self._objects.patch(NODE_CLAIM, name, {"metadata": {"finalizers": [TERMINATION]}})
        self._objects.patch_status(NODE_CLAIM, name, initialized(name))

    def _end(self, claim: JsonObject) -> None:
        name = claim["metadata"]["name"]
        if self._objects.find(NODE, name) is not None:
            for pod in self._objects.all(POD):
                if pod["spec"].get("nodeName") == name:
                    path = path_of(POD, pod["metadata"]["namespace"], pod["metadata"]["name"])
                    self._objects.cluster.request("DELETE", f"{path}?gracePeriodSeconds=0")
            self._objects.patch(NODE, name, {"metadata": {"finalizers": None}})
            self._objects.delete(NODE, name)
        self._objects.patch(NODE_CLAIM, name, {"metadata": {"finalizers": None}})


def make_node(name: str, labels: JsonObject) -> JsonObject:
    """Make an initialized node of four cores."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**labels, INITIALIZED: "true", "kubernetes.io/hostname": name},
            "finalizers": [TERMINATION],
        },
        "spec": {"providerID": f"kwok://{name}"},
        "status": {"allocatable": _HAS, "capacity": _HAS},
    }


def initialized(name: str, *more: JsonObject) -> JsonObject:
    """Make the status of a claim whose node is initialized."""
    return {"nodeName": name, "providerID": f"kwok://{name}", "conditions": [_condition("Initialized"), *more]}


def drifted() -> JsonObject:
    """Make the condition that a provider's node class has drifted."""
    return {**_condition("Drifted"), "reason": "NodeClassDrifted"}


class Workers:
    """Pools and their nodes as the tests of disruption need them.

    Args:
        cluster: Where.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.objects = Objects(cluster)

    def add_pool(self, name: str, nodes: str, after: str = "Never") -> None:
        """Make a NodePool whose budget lets so many nodes go."""
        template = {"spec": {"nodeClassRef": NODE_CLASS, "requirements": []}}
        disruption = {"budgets": [{"nodes": nodes}], "consolidateAfter": after}
        self.objects.create(
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodePool",
                "metadata": {"name": name},
                "spec": {"template": template, "disruption": disruption},
            }
        )

    def add_node(self, pool: str, name: str, *conditions: JsonObject, **spec: Any) -> None:
        """Make a node with its claim; *conditions* and *spec* are more of the claim's."""
        owner = self.objects.get(NODE_POOL, pool)["metadata"]
        labels = {NODE_POOL_LABEL: pool, "node.kubernetes.io/instance-type": "large"}
        reference = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": pool, "uid": owner["uid"]}
        self.objects.create(make_node(name, labels))
        self.objects.create(
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {
                    "name": name,
                    "labels": labels,
                    "finalizers": [TERMINATION],
                    "ownerReferences": [reference],
                },
                "spec": {"nodeClassRef": NODE_CLASS, "requirements": [], "expireAfter": "Never", **spec},
                "status": initialized(name, *conditions),
            }
        )

    def add_pod(self, name: str, node: str, *, cpu: str = "3", **metadata: Any) -> None:
        """Run a pod on a node."""
        grace = metadata.pop("grace", 1)
        container = {"name": "main", "image": "example.com/web:1", "resources": {"requests": {"cpu": cpu}}}
        self.objects.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default", **metadata},
                "spec": {
                    "nodeName": node,
                    "containers": [container],
                    "terminationGracePeriodSeconds": grace,
                    "automountServiceAccountToken": False,
                },
            }
        )

    def guard(self, name: str, labels: JsonObject, allowed: int) -> None:
        """Guard pods: so many may go at once, and each comes back at once."""
        self.objects.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "annotations": {"example.com/allowed": str(allowed)},
                },
                "spec": {"selector": {"matchLabels": labels}, "minAvailable": 1},
            }
        )

    def names(self, pool: str) -> set[str]:
        """The nodes of a pool."""
        return {each["metadata"]["name"] for each in self.of_pool(pool)}

    def of_pool(self, pool: str) -> Iterator[JsonObject]:
        """The nodes of a pool, as they are."""
        for node in self.objects.all(NODE):
            if node["metadata"].get("labels", {}).get(NODE_POOL_LABEL) == pool:
                yield node

    def condition(self, pool: str) -> JsonObject:
        """What is said on a pool; empty: nothing."""
        found = self.objects.get(NODE_POOL, pool).get("status", {}).get("conditions", [])
        return next((each for each in found if each["type"] == "harbormaster.dev/Disruption"), {})

    def hold_lease(self, name: str = "karpenter-leader-election", seconds: int = 15) -> None:
        """Renew the Lease by which Karpenter leads."""
        now = format_time(datetime.now(UTC)).replace("Z", ".000000Z")
        spec = {"holderIdentity": "karpenter-1", "leaseDurationSeconds": seconds, "renewTime": now}
        lease = KINDS["coordination.k8s.io", "Lease"]
        if self.objects.find(lease, name, "kube-system") is None:
            metadata = {"name": name, "namespace": "kube-system"}
            self.objects.create({"apiVersion": lease.api_version, "kind": "Lease", "metadata": metadata, "spec": spec})
        else:
            self.objects.patch(lease, name, {"spec": spec}, "kube-system")


def _condition(kind: str) -> JsonObject:
    return {
        "type": kind,
        "status": "True",
        "reason": kind,
        "message": "",
        "lastTransitionTime": format_time(datetime.now(UTC)),
    }
