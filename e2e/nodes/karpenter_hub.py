"""A hub with Karpenter's definitions for a while: pools and claims as Karpenter makes them, nodes that kwok plays."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from e2e.conftest import install_definitions, wait_served
from e2e.controlplane.cluster import Cluster
from e2e.controlplane.process import Program, kill
from e2e.fleet.objects import Objects, make_namespace
from e2e.fleet.processes import SYSTEM
from e2e.fleet.waiting import wait_until
from e2e.karpenter.definitions import definitions, stages
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, NODE, NODE_CLAIM, NODE_POOL, POD
from webhook.kube.client.paths import path_of


@contextlib.contextmanager
def karpenter_definitions(hub: Cluster) -> Iterator[None]:
    """Install Karpenter's definitions in place of ours; at the end delete all pools and nodes, and restore ours."""
    objects = Objects(hub)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    objects.apply([make_namespace(SYSTEM), account])
    hub.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=definitions())
    for kind in (NODE_POOL, NODE_CLAIM):
        wait_served(hub, kind)
    try:
        yield
    finally:
        delete_nodes(objects)
        objects.delete(CUSTOM_RESOURCE_DEFINITION, NODE_CLAIM.resource)
        wait_until(
            "the definition of NodeClaims is deleted",
            lambda: "it exists" if objects.find(CUSTOM_RESOURCE_DEFINITION, NODE_CLAIM.resource) else "",
        )
        install_definitions(hub)


def delete_nodes(objects: Objects) -> None:
    """Delete all pods, nodes, claims and pools, also those that finalizers hold."""
    for pod in objects.all(POD):
        path = path_of(POD, pod["metadata"]["namespace"], pod["metadata"]["name"])
        objects.cluster.request("DELETE", f"{path}?gracePeriodSeconds=0")
    for kind in (NODE_CLAIM, NODE, NODE_POOL):
        for item in objects.all(kind):
            name = item["metadata"]["name"]
            if item["metadata"].get("finalizers"):
                objects.patch(kind, name, {"metadata": {"finalizers": None}})
            objects.delete(kind, name)


@contextlib.contextmanager
def running_kwok(hub: Cluster, program: Path) -> Iterator[Program]:
    """Run kwok, which plays all nodes of a hub and their pods."""
    configuration = hub.folder / "stages.yaml"
    configuration.write_text(stages(), encoding="utf-8")
    flags = [f"--kubeconfig={hub.kubeconfig}", f"--config={configuration}", "--manage-all-nodes"]
    found = Program([program, *flags], hub.folder / "kwok.log")
    try:
        found.start()
        yield found
    finally:
        kill(found)
