"""Cluster API on a hub: its real definitions, and a provider whose machines are only conditions and numbers.

The provider does what the controllers of Cluster API do for a topology whose version or image changes: it passes the
change on to the control plane and to the workers, and says in conditions and numbers how far it is. A test moves it
step by step. As in Cluster API 1.13, a MachinePool has no conditions, so that those that sum up all workers stay
Unknown.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import yaml

from e2e.controlplane.cluster import JsonObject
from e2e.fleet.bed import Fleet
from e2e.fleet.objects import Objects, make_namespace
from e2e.fleet.waiting import wait_until
from e2e.karpenter.module_files import Module, read_files
from scorer.api.kinds import NAMESPACE, UPGRADE_RUN, Kind
from scorer.api.unstructured.documents import conditions_of
from scorer.upgrade.cluster_api.change import HOLD
from scorer.upgrade.cluster_api.topology import GROUP, OPERATION
from tests.builders.cluster_api import (
    GOOD,
    WITH_POOLS,
    condition,
    make_cluster,
    make_control_plane,
    make_deployment,
    make_pool,
    with_topology,
)
from webhook.kube.client.paths import path_of

MODULE: Final = Module("sigs.k8s.io/cluster-api", "v1.13.6", "h1:imZVIstbRIq2DoKftQv0wPm+vyhWXrE3Zft8E43maqo=")
_FILES: Final = (
    *(
        f"config/crd/bases/{GROUP}_{plural}.yaml"
        for plural in ("clusters", "clusterclasses", "machinedeployments", "machinepools")
    ),
    f"controlplane/kubeadm/config/crd/bases/controlplane.{GROUP}_kubeadmcontrolplanes.yaml",
)
CLUSTER: Final = Kind(GROUP, ("v1beta2", "v1beta1"), "Cluster", "clusters", namespaced=True)
DEPLOYMENT: Final = Kind(GROUP, ("v1beta2",), "MachineDeployment", "machinedeployments", namespaced=True)
POOL: Final = Kind(GROUP, ("v1beta2",), "MachinePool", "machinepools", namespaced=True)
CONTROL_PLANE: Final = Kind(
    f"controlplane.{GROUP}", ("v1beta2",), "KubeadmControlPlane", "kubeadmcontrolplanes", namespaced=True
)
DEFINITION: Final = Kind(
    "apiextensions.k8s.io", ("v1",), "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
QUAYS: Final = "quays"
WORKERS: Final = ("blue", "red")


@contextmanager
def cluster_api(fleet: Fleet) -> Iterator[None]:
    """Install the definitions as Cluster API ships them, but without its conversion webhook, until the block ends.

    Left behind, they would be kinds that the loop of other tests may not read, which it records on every placement.
    """
    definitions = [document for document in yaml.safe_load_all(read_files(MODULE, _FILES)) if document]
    for document in definitions:
        fleet.on_hub.create(document)
    wait_until("the definitions are served", lambda: _not_served(fleet.on_hub))
    fleet.on_hub.create(make_namespace(QUAYS))
    try:
        yield
    finally:
        names = [document["metadata"]["name"] for document in definitions]
        fleet.on_hub.delete(NAMESPACE, QUAYS)
        for name in names:
            fleet.on_hub.delete(DEFINITION, name)
        wait_until(
            "the definitions are gone", lambda: " ".join(name for name in names if fleet.on_hub.find(DEFINITION, name))
        )


def _not_served(hub: Objects) -> str:
    for kind in (CLUSTER, DEPLOYMENT, POOL, CONTROL_PLANE):
        found = hub.find(DEFINITION, kind.resource) or {}
        states = {each["type"]: each["status"] for each in conditions_of(found)}
        if states.get("Established") != "True":
            return f"{kind.resource} is not established"
    return ""


class Provider:
    """Stands for the controllers of Cluster API, on one Cluster.

    Args:
        fleet: Its hub is the management cluster.
        name: Of the Cluster.
        pools: Its MachinePools, besides its MachineDeployments.
    """

    def __init__(self, fleet: Fleet, name: str, *pools: str) -> None:
        self._hub = fleet.on_hub
        self.name = name
        self._pools = pools
        self._workers = (
            *((DEPLOYMENT, f"{name}-{each}") for each in WORKERS),
            *((POOL, f"{name}-{each}") for each in pools),
        )

    def create(self, version: str = "1.30.4") -> None:
        """Make the Cluster with all that belongs to it, at rest."""
        cluster = make_cluster(self.name, version)
        if self._pools:
            pools = [{"class": "p", "name": each} for each in self._pools]
            workers = {**cluster["spec"]["topology"]["workers"], "machinePools": pools}
            cluster = with_topology(cluster, workers=workers)
        for kind, document in (
            (CONTROL_PLANE, make_control_plane(self.name, version)),
            *((DEPLOYMENT, make_deployment(worker, self.name, version)) for worker in WORKERS),
            *((POOL, make_pool(pool, self.name, version)) for pool in self._pools),
            (CLUSTER, cluster),
        ):
            self._hub.cluster.request("POST", path_of(kind, QUAYS), _clean(document))
        self.rest()

    @property
    def cluster(self) -> JsonObject:
        """The Cluster as it is."""
        return self._hub.get(CLUSTER, self.name, QUAYS)

    @property
    def wanted(self) -> str:
        """The version that the topology asks for, without ``v``."""
        return str(self.cluster["spec"]["topology"]["version"]).removeprefix("v")

    @property
    def operation(self) -> str:
        """The operation that has changed the Cluster last."""
        return str(self.cluster["metadata"].get("annotations", {}).get(OPERATION, ""))

    def wait_order(self, version: str) -> None:
        """Wait until the topology asks for a version."""

        def problem() -> str:
            if self.wanted == version:
                return ""
            runs = [run.get("status", {}).get("stages") for run in self._hub.all(UPGRADE_RUN)]
            return f"it is to run {self.wanted}; the runs: {runs}"

        wait_until(f"{self.name} is to run {version}", problem)

    def say(self, **conditions: tuple[str, str]) -> None:
        """Report conditions about the Cluster as it is; those that are not given are good."""
        cluster = self.cluster
        generation = cluster["metadata"]["generation"]
        found = {**GOOD, **(WITH_POOLS if self._pools else {}), **conditions}
        status = {
            "observedGeneration": generation,
            "conditions": [condition(kind, *said, generation=generation) for kind, said in found.items()],
        }
        self._hub.patch_status(CLUSTER, self.name, status, QUAYS)

    @property
    def image(self) -> str:
        """The image that the topology asks for."""
        variables = self.cluster["spec"]["topology"]["variables"]
        return next(str(each["value"]) for each in variables if each["name"] == "image")

    def pass_on_image(self) -> None:
        """Pass the image on to all that has machines, while all conditions are those of the time before."""
        made = {"infrastructureRef": {"name": f"fake-{self.image}"}}
        change = {"spec": {"machineTemplate": {"spec": made}}}
        self._hub.patch(CONTROL_PLANE, f"{self.name}-cp", change, QUAYS)
        for kind, name in self._workers:
            self._hub.patch(kind, name, {"spec": {"template": {"spec": made}}}, QUAYS)
        self.say()

    def begin(self) -> None:
        """Begin with the control plane."""
        self._hub.patch(CONTROL_PLANE, f"{self.name}-cp", {"spec": {"version": f"v{self.wanted}"}}, QUAYS)
        self.say(
            TopologyReconciled=("False", "ClusterUpgrading"),
            RollingOut=("True", "RollingOut"),
            ControlPlaneMachinesUpToDate=("False", "NotUpToDate"),
        )

    def finish_control_plane(self) -> None:
        """Have the control plane done; workers follow unless they are held back."""
        self._finish(CONTROL_PLANE, f"{self.name}-cp", version=f"v{self.wanted}")
        if self.holds_workers:
            self.say(
                TopologyReconciled=("False", "MachineDeploymentsUpgradeDeferred"),
                WorkerMachinesUpToDate=("False", "NotUpToDate"),
            )
            return
        for kind, name in self._workers:
            change = {"spec": {"template": {"spec": {"version": f"v{self.wanted}"}}}}
            self._hub.patch(kind, name, change, QUAYS)
        self.say(
            TopologyReconciled=("True", "ReconcileSucceeded"),
            RollingOut=("True", "RollingOut"),
            WorkerMachinesUpToDate=("False", "NotUpToDate"),
        )

    @property
    def holds_workers(self) -> bool:
        """Whether the topology holds the workers at their version."""
        first = self.cluster["spec"]["topology"]["workers"]["machineDeployments"][0]
        return HOLD in first.get("metadata", {}).get("annotations", {})

    def rest(self) -> None:
        """Have everything done."""
        self._finish(CONTROL_PLANE, f"{self.name}-cp", version=f"v{self.wanted}")
        for kind, name in self._workers:
            self._finish(kind, name)
        self.say()

    def _finish(self, kind: Kind, name: str, **status: str) -> None:
        """Report that all machines are as the spec asks."""
        found = self._hub.get(kind, name, QUAYS)
        replicas = found["spec"]["replicas"]
        numbers = {"replicas": replicas, "upToDateReplicas": replicas}
        seen = {"observedGeneration": found["metadata"]["generation"]}
        self._hub.patch_status(kind, name, {**seen, **numbers, **status}, QUAYS)

    def upgrade(self) -> None:
        """Do all of it."""
        self.begin()
        self.finish_control_plane()
        if not self.holds_workers:
            self.rest()


def _clean(document: JsonObject) -> JsonObject:
    """Return an object as its definition asks for it, without what only the hub sets."""
    about = {key: document["metadata"][key] for key in ("name", "namespace", "labels") if key in document["metadata"]}
    spec: dict[str, Any] = dict(document["spec"])
    template = {"kind": "FakeTemplate", "apiGroup": f"infrastructure.{GROUP}", "name": "fake"}
    if document["kind"] in ("MachineDeployment", "MachinePool"):
        machine = {
            "clusterName": spec["clusterName"],
            "bootstrap": {"dataSecretName": "fake"},
            "infrastructureRef": template,
            **spec["template"]["spec"],
        }
        labels = {"quay": document["metadata"]["name"]}
        selector = {"selector": {"matchLabels": labels}} if document["kind"] == "MachineDeployment" else {}
        spec |= {**selector, "template": {"metadata": {"labels": labels}, "spec": machine}}
    if document["kind"] == "KubeadmControlPlane":
        spec |= {
            "machineTemplate": {"spec": {"infrastructureRef": template}},
            "kubeadmConfigSpec": {"format": "cloud-config"},
        }
    return {**{key: document[key] for key in ("apiVersion", "kind")}, "metadata": about, "spec": spec}
