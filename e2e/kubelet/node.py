"""A Node: registered, and kept alive by its Lease the way a kubelet does it."""

import asyncio
import contextlib
from datetime import UTC, datetime

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.kubelet.api import MERGE, Api

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
STATUS_SECONDS = 60.0
RESOURCES = {"cpu": "16", "memory": "32Gi", "pods": "110", "ephemeral-storage": "64Gi"}
VERSION = "v1.36.3"


class Node:
    """One Node.

    Args:
        api: Where it is registered.
        name: Of the Node.
        address: Its InternalIP.
    """

    def __init__(self, api: Api, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self._api = api
        self._began = now()

    async def register(self) -> None:
        """Create the Node with its status, or take over one that is there."""
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": f"zone-{self.name}",
        }
        node = {"metadata": {"name": self.name, "labels": labels}, "status": self._status()}
        try:
            await self._api.request("POST", "/api/v1/nodes", node)
        except ApiError as error:
            if error.code != 409:
                raise
            await self._report()

    async def keep_alive(self) -> None:
        """Renew the Lease every 10 s and the status every minute, until cancelled."""
        turns = int(STATUS_SECONDS / RENEW_SECONDS)
        turn = 0
        while True:
            with contextlib.suppress(OSError, ApiError):
                await self._renew()
                if turn % turns == 0:
                    await self._report()
                turn += 1
            await asyncio.sleep(RENEW_SECONDS)

    async def _renew(self) -> None:
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": _micro_now()}
        try:
            await self._api.request("PATCH", f"{LEASES}/{self.name}", {"spec": spec}, MERGE)
        except ApiError as error:
            if error.code != 404:
                raise
            await self._api.request("POST", LEASES, {"metadata": {"name": self.name}, "spec": spec})

    async def _report(self) -> None:
        await self._api.request("PATCH", f"/api/v1/nodes/{self.name}/status", {"status": self._status()}, MERGE)

    def _status(self) -> JsonObject:
        conditions = [
            self._condition("Ready", "True", "KubeletReady"),
            self._condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            self._condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            self._condition("PIDPressure", "False", "KubeletHasSufficientPID"),
        ]
        addresses = [{"type": "InternalIP", "address": self.address}, {"type": "Hostname", "address": self.name}]
        return {
            "capacity": RESOURCES,
            "allocatable": RESOURCES,
            "conditions": conditions,
            "addresses": addresses,
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "test://1",
                "kernelVersion": "",
                "kubeProxyVersion": "",
                "kubeletVersion": VERSION,
                "machineID": self.name,
                "operatingSystem": "linux",
                "osImage": "the machine of the tests",
                "systemUUID": self.name,
            },
        }

    def _condition(self, kind: str, status: str, reason: str) -> JsonObject:
        return {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": self._began,
        }


def now() -> str:
    """This moment as Kubernetes writes it, in whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
