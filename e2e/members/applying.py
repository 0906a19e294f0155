"""A member with a real API server, its agent, and a hub in memory: passes over one Work at a time.

What matters to these tests happens on the member. The agent has a user of its own there, and all that it writes is in
the audit log of the member's API server.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from e2e.controlplane.cluster import ApiError, Cluster
from e2e.controlplane.process import PATIENCE
from scorer.api.kinds import APPLIED_WORK, NAMESPACE, WORK
from scorer.api.names import ABANDON, WORK_OBJECTS
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.removal.marks import objects_digest, with_removal_mark
from tests.waiting import until
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.client.api_server import ApiServer
from webhook.kube.ports import Key, NotFoundError, Store
from webhook.member.apply.contention import Memory
from webhook.member.store.api_server import RemoteMember
from webhook.member.works.reconciler import reconcile_work

SPACE: Final = "fleet-member-bravelion"
AGENT: Final = "loop-a"
"""The user of `own_hub` that the agent is: it has all rights, and its writes are audited."""
CLIENT, SERVER, REPORT = ({"type": name} for name in ("ClientSideApply", "ServerSideApply", "ReportDiff"))
FULL, IF_NOT_DRIFTED = {"comparisonOption": "FullComparison"}, {"whenToApply": "IfNotDrifted"}

JsonObject = dict[str, Any]

NUMBERS: Final = itertools.count(1)
"""Every test has a namespace and a Work of its own."""


async def order_and_delete(hub: Store, key: Key, **annotations: str) -> None:
    """Delete a Work as the loop does."""
    found = with_metadata(await hub.get(WORK, key), annotations=annotations)
    await hub.replace(WORK, with_removal_mark(found) or found)
    await hub.delete(WORK, key)


class Bed:
    """A hub, a member, and the agent between them."""

    def __init__(self, cluster: Cluster, member: RemoteMember, space: str) -> None:
        self.cluster = cluster
        self.member = member
        self.space = space
        self.time = datetime.now(UTC)
        self.hub = EmbeddedStore.open(None, now=lambda: self.time)
        self.memory = Memory()
        self.works: set[str] = set()

    async def place(self, *manifests: object, work: str = "", **spec: object) -> None:
        """Create the Work, or change it."""
        body = {"workload": {"manifests": list(manifests)}, **spec}
        signed = {WORK_OBJECTS: objects_digest(manifests)}
        name = work or self.space
        self.works.add(name)
        try:
            found = await self.hub.get(WORK, Key(name, SPACE))
        except NotFoundError:
            metadata = {"name": name, "namespace": SPACE, "annotations": signed}
            document = {"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": body}
            await self.hub.create(WORK, document)
        else:
            await self.hub.replace(WORK, {**with_metadata(found, annotations=signed), "spec": body})

    async def reconcile(self, work: str = "", member: RemoteMember | None = None) -> bool:
        """Make one pass; say whether the Work is gone."""
        key = Key(work or self.space, SPACE)
        outcome = await reconcile_work(key, self.hub, member or self.member, self.time, self.memory)
        return outcome.gone

    async def entries(self, work: str = "") -> list[JsonObject]:
        found = await self.hub.get(WORK, Key(work or self.space, SPACE))
        return list(found["status"]["manifestConditions"])

    async def reasons(self, work: str = "") -> list[str]:
        return [entry["conditions"][0]["reason"] for entry in await self.entries(work)]

    async def message(self, ordinal: int = 0) -> str:
        return str((await self.entries())[ordinal]["conditions"][0]["message"])

    async def delete(self, work: str = "", *, abandon: bool = False) -> None:
        """Delete the Work on the hub, as the loop does."""
        await order_and_delete(self.hub, Key(work or self.space, SPACE), **({ABANDON: "true"} if abandon else {}))

    async def until_gone(self, work: str = "", seconds: float = PATIENCE) -> None:
        """Make passes until the Work is gone."""
        async with asyncio.timeout(seconds):
            while not await self.reconcile(work):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.3)

    async def until_reasons(self, wanted: list[str], seconds: float = PATIENCE) -> None:
        """Make passes until the conditions of the Work have these reasons."""
        end = time.monotonic() + seconds
        while (reasons := await self.reasons()) != wanted:
            assert time.monotonic() < end, reasons
            await asyncio.sleep(0.3)
            await self.reconcile()

    def writes(self, since: int) -> list[tuple[str, str]]:
        """What the agent wrote since a mark of the audit log, dry runs left out."""
        return [
            (entry["verb"], entry["requestURI"])
            for entry in self.cluster.audit(since)
            if entry["user"]["username"] == AGENT and "dryRun=All" not in entry["requestURI"]
        ]

    async def assert_quiet(self, work: str = "") -> None:
        """Assert that another pass writes nothing, on neither side."""
        mark, version = self.cluster.audit_mark(), self.hub.resource_version
        await self.reconcile(work)
        assert self.writes(mark) == []
        assert self.hub.resource_version == version

    async def until_collected(self) -> None:
        """Wait until the garbage collector has seen every AppliedWork that was deleted before this call.

        It reads deletions in their order. What it takes last is therefore of an AppliedWork that is deleted here.
        """
        name, path = f"{self.space}-last-{next(NUMBERS)}", f"/apis/{APPLIED_WORK.api_version}/appliedworks"
        head = {"apiVersion": APPLIED_WORK.api_version, "kind": APPLIED_WORK.kind}
        spec = {"workName": name, "workNamespace": SPACE}
        owner, _ = self.cluster.request("POST", path, {**head, "metadata": {"name": name}, "spec": spec})
        owned = self.config_map(name)
        owned["metadata"]["ownerReferences"] = [{**head, "name": name, "uid": owner["metadata"]["uid"]}]
        self.create(owned)
        self.cluster.request("DELETE", f"{path}/{name}")
        await until(lambda: self.live("configmaps", name) is None)

    async def until_settled(self, name: str = "shop") -> None:
        """Wait until the controllers of the member have done with a Deployment."""
        async with asyncio.timeout(PATIENCE):
            while True:
                before = self.live("apps/v1/deployments", name)
                await asyncio.sleep(1)
                now = self.live("apps/v1/deployments", name)
                if now is not None and now == before and not lagging(now):
                    return

    # What people and controllers do on the member.

    def path(self, resource: str, name: str) -> str:
        """Path of an object in the namespace of the test; *resource* with its group and version, as ``apps/v1/x``."""
        *where, plural = resource.split("/")
        prefix = "/api/v1" if not where else "/apis/" + "/".join(where)
        return f"{prefix}/namespaces/{self.space}/{plural}/{name}"

    def live(self, resource: str, name: str) -> JsonObject | None:
        try:
            return self.cluster.request("GET", self.path(resource, name))[0]
        except ApiError as error:
            assert error.code == 404, str(error)
            return None

    def create(self, document: JsonObject, resource: str = "configmaps") -> JsonObject:
        return self.cluster.request("POST", self.path(resource, "").rstrip("/"), document)[0]

    def patch(self, resource: str, name: str, **changes: object) -> JsonObject:
        """Change something by hand, as another manager."""
        path = self.path(resource, name) + "?fieldManager=by-hand"
        kind = "application/merge-patch+json"
        return self.cluster.request("PATCH", path, changes, content_type=kind)[0]

    def namespace(self) -> JsonObject:
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.space}}

    def config_map(self, name: str = "settings", **data: str) -> JsonObject:
        metadata = {"name": name, "namespace": self.space}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"level": "info"}}

    def deployment(self, *, cpu: str = "1000m", image: str = "shop:1", name: str = "shop") -> JsonObject:
        limits = {"limits": {"cpu": cpu, "memory": "1024Mi"}}
        container = {"name": "shop", "image": image, "resources": limits, "env": None}
        template = {
            "metadata": {"labels": {"app": name}, "creationTimestamp": None},
            "spec": {"containers": [container], "tolerations": [{"key": "a", "operator": "Exists"}]},
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": self.space},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template},
        }

    def many_kinds(self) -> list[JsonObject]:
        """Objects that the API server stores differently from how they are written."""
        place = {"namespace": self.space}
        two_protocols = [{"name": name.lower(), "port": 53, "protocol": name} for name in ("TCP", "UDP")]
        return [
            self.config_map(),
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", **place}, "stringData": {"p": "x"}},
            self.deployment(),
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "shop", **place},
                "spec": {"selector": {"app": "shop"}, "ports": two_protocols},
            },
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "q", **place, "labels": {}},
                "spec": {"hard": {"requests.cpu": "10000m", "pods": 100.0}},
            },
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": "n", **place},
                "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}], "egress": []},
            },
            {
                "apiVersion": "autoscaling/v1",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "h", **place},
                "spec": {
                    "maxReplicas": 3,
                    "minReplicas": 2,
                    "targetCPUUtilizationPercentage": 70,
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"},
                },
            },
        ]


def lagging(deployment: JsonObject) -> bool:
    return bool(deployment["status"].get("observedGeneration", 0) != deployment["metadata"]["generation"])


@asynccontextmanager
async def running_bed(cluster: Cluster) -> AsyncIterator[Bed]:
    """Yield a hub and a member with a namespace of its own there."""
    async with await ApiServer.connect(cluster.kubeconfigs[AGENT]) as server:
        bed = Bed(cluster, RemoteMember(server), f"t{next(NUMBERS)}")
        await bed.hub.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        cluster.request("POST", "/api/v1/namespaces", bed.namespace())
        yield bed
        bed.hub.close()
