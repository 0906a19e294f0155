"""Upgrades clusters with a Cluster API topology: changes the version and leaves the rest to Cluster API.

The Clusters are on the hub: it is their management cluster.

Source: docs/specifications/upgrade-runs.md 13.3.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.kinds import MEMBER_CLUSTER, Kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import metadata_of, name_of, namespace_of
from scorer.api.upgrade.fields import NodeImageVersion, UpgradeType
from scorer.upgrade.back_ends.interface import (
    CancelResult,
    Capabilities,
    Inventory,
    Issue,
    Observation,
    Operation,
    OperationState,
    Rejected,
    Started,
    StartResult,
    Target,
)
from scorer.upgrade.cluster_api.change import (
    changed_cluster,
    held_message,
    no_topology_message,
    paused_message,
    refusal_of,
)
from scorer.upgrade.cluster_api.history import ClusterApiHistory
from scorer.upgrade.cluster_api.inventory import inventory_of
from scorer.upgrade.cluster_api.progress import holds_workers, observation_of
from scorer.upgrade.cluster_api.topology import (
    CLUSTER_NAME,
    FAMILY,
    GROUP,
    NEW_VERSION,
    OLD_VERSION,
    ClusterApiObjects,
    ClusterApiRef,
    NoClusterError,
    class_of,
    control_plane_ref,
    image_of,
    is_paused,
    operation_on,
    topology_of,
)
from webhook.controllers.upgraders.upgrader import MemberRef, Workplace
from webhook.kube.ports import ForbiddenError, InvalidObjectError, Key, NotFoundError, NotServedError
from webhook.settings.upgraders import CLUSTER_API

RECOUNT_INTERVAL: Final = timedelta(minutes=5)
"""Lifetime of the cached objects of a Cluster that has not changed."""
DISCOVER_AGAIN: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class _CachedObjects:
    """A Cluster and its objects as last read."""

    at: datetime
    parts: ClusterApiObjects


class ClusterApi:
    """Upgrades topologies and reads the progress of Cluster API."""

    name = CLUSTER_API
    capabilities = Capabilities()

    def __init__(self, place: Workplace) -> None:
        self._hub = place.hub
        self._now = place.now
        self._served = place.served
        self._discovered: datetime | None = None
        self._discovering = asyncio.Lock()
        self._objects: dict[str, _CachedObjects] = {}
        self._looks: dict[str, ClusterApiHistory] = {}

    async def inspect(self, member: MemberRef) -> Inventory | None:
        """Return the inventory of a cluster from its control plane, MachineDeployments and MachinePools.

        None: unknown, the Cluster is missing.
        """
        try:
            ref = ClusterApiRef.of(member.name, member.annotations)
            parts = await self._parts(ref, member.name)
        except NoClusterError:
            return None
        return inventory_of(parts, ref.variable, self._now(), self._member_history(member.name, parts))

    async def preflight(self, member: MemberRef, target: Target) -> Sequence[Issue]:
        """Return the issues that would make Cluster API refuse, and a note if only the control plane is upgraded."""
        try:
            ref = ClusterApiRef.of(member.name, member.annotations)
            parts = await self._parts(ref, member.name)
        except NoClusterError as error:
            return (Issue("NoCluster", str(error)),)
        issues = []
        if not topology_of(parts.cluster):
            issues.append(Issue("NoTopology", no_topology_message(str(ref))))
        if is_paused(parts.cluster):
            issues.append(Issue("ClusterPaused", paused_message(str(ref))))
        if target.type is UpgradeType.CONTROL_PLANE_ONLY:
            message = "the version can change again after a run of type Full has upgraded the workers"
            issues.append(Issue("WorkersFollow", message))
        if target.type is UpgradeType.NODE_IMAGE_ONLY and not ref.variable:
            message = f"no variable of Cluster {ref} is configured for the node image, so the member is skipped"
            issues.append(Issue("NoImageVariable", message))
        if target.type is UpgradeType.NODE_IMAGE_ONLY and holds_workers(parts):
            issues.append(Issue("WorkersHeld", held_message(str(ref))))
        version = f"v{target.kubernetes_version}"
        if target.kubernetes_version and parts.versions and version not in parts.versions:
            issues.append(Issue("VersionNotListed", f"the ClusterClass of Cluster {ref} does not list {version}"))
        return issues

    async def start_upgrade(self, operation: Operation) -> StartResult:
        """Change the topology, with the resource version that was read.

        A missing Cluster, a refusal of Cluster API and a missing permission are rejections. Other errors are raised.
        """
        member, kind = self._member(operation.member), await self._kind(GROUP, "Cluster")
        try:
            ref = ClusterApiRef.of(member.name, member.annotations)
            cluster = await self._cluster(kind, ref)
        except NoClusterError as error:
            return Rejected("NoCluster", str(error))
        if operation_on(cluster) == operation.id:
            return Started.ALREADY_RUNNING
        parts = await self._all_of(cluster)
        self._member_history(operation.member, parts)
        changed = changed_cluster(parts, ref, operation, self._now())
        if isinstance(changed, Rejected):
            return changed
        try:
            await self._hub.store.replace(kind, changed)
        except (InvalidObjectError, ForbiddenError) as error:
            return refusal_of(str(error))
        finally:
            self._objects.pop(operation.member, None)
        return Started.ACCEPTED

    async def observe(self, operation: Operation) -> Observation:
        """Return the progress that Cluster API reports. UNKNOWN if the Cluster is missing."""
        member, kind = self._member(operation.member), await self._kind(GROUP, "Cluster")
        try:
            ref = ClusterApiRef.of(member.name, member.annotations)
            cluster = await self._cluster(kind, ref)
        except NoClusterError:
            return Observation(OperationState.UNKNOWN)
        self._objects.pop(operation.member, None)
        parts = await self._all_of(cluster)
        looks = self._member_history(operation.member, parts)
        observation = observation_of(parts, operation.id, operation.target.type, self._now(), looks)
        image = image_of(parts, ref.variable) if ref.variable else ""
        return replace(observation, asked=(NodeImageVersion(family=FAMILY, version=image),)) if image else observation

    async def cancel(self, operation: Operation) -> CancelResult:  # noqa: ARG002 - as the others
        """Return `CancelResult.NOT_SUPPORTED`: a version cannot be downgraded."""
        return CancelResult.NOT_SUPPORTED

    def _member_history(self, member: str, parts: ClusterApiObjects) -> ClusterApiHistory:
        """Add an observation to the history of a member's Cluster. Return the history."""
        looks = self._looks[member] = self._looks.get(member, ClusterApiHistory()).then(parts, self._now())
        return looks

    def _member(self, name: str) -> MemberRef:
        member_cluster = self._hub.cache.get(MEMBER_CLUSTER, name)
        return MemberRef(name) if member_cluster is None else MemberRef.of(member_cluster)

    async def _cluster(self, kind: Kind, reference: ClusterApiRef) -> JsonObject:
        """Return the Cluster of a member.

        Raises:
            NoClusterError: There is no such Cluster.
            StoreError: The hub fails to answer, or does not serve the kind.
        """
        try:
            return await self._hub.store.get(kind, Key(reference.name, reference.namespace))
        except NotServedError:
            raise
        except NotFoundError as error:
            raise NoClusterError(f"there is no Cluster {reference}") from error

    async def _parts(self, reference: ClusterApiRef, member: str) -> ClusterApiObjects:
        """Return the Cluster of a member with its objects.

        The objects are read again once the Cluster has changed or `RECOUNT_INTERVAL` has passed.
        """
        cluster = await self._cluster(await self._kind(GROUP, "Cluster"), reference)
        cached_parts, now = self._objects.get(member), self._now()
        if (
            cached_parts is not None
            and now - cached_parts.at < RECOUNT_INTERVAL
            and _is_same_version(cached_parts.parts.cluster, cluster)
        ):
            return cached_parts.parts
        parts = await self._all_of(cluster)
        self._objects[member] = _CachedObjects(now, parts)
        return parts

    async def _all_of(self, cluster: JsonObject) -> ClusterApiObjects:
        """Read the objects of a Cluster."""
        namespace, labels = namespace_of(cluster), {CLUSTER_NAME: name_of(cluster)}
        identity, name = control_plane_ref(cluster)
        control_plane: JsonObject = {}
        if name:
            control_plane = await self._get(await self._kind(*identity), name, namespace)
        deployments = await self._listed("MachineDeployment", namespace, labels)
        pools = await self._listed("MachinePool", namespace, labels)
        place, klass = class_of(cluster)
        cluster_class: JsonObject = {}
        if klass:
            cluster_class = await self._get(await self._kind(GROUP, "ClusterClass"), klass, place)
        return ClusterApiObjects(cluster, control_plane, deployments, pools, cluster_class)

    async def _listed(self, kind: str, namespace: str, labels: Mapping[str, str]) -> Sequence[JsonObject]:
        try:
            return (await self._hub.store.list(await self._kind(GROUP, kind), namespace, labels)).items
        except NotServedError:  # MachinePools are an option of Cluster API
            return ()

    async def _get(self, kind: Kind, name: str, namespace: str) -> JsonObject:
        try:
            return await self._hub.store.get(kind, Key(name, namespace))
        except NotFoundError:
            return {}

    async def _kind(self, group: str, kind: str) -> Kind:
        """Return a kind in the version that this back end reads, or in the preferred version of the server.

        Raises:
            NotServedError: The hub does not serve it.
        """
        kind_served = self._served.kinds.get((group, kind))
        if kind_served is None:
            async with self._discovering:  # concurrent callers wait for the same answer
                now = self._now()
                if self._discovered is None or now - self._discovered >= DISCOVER_AGAIN:
                    await self._served.refresh()
                    self._discovered = now
            kind_served = self._served.kinds.get((group, kind))
        if kind_served is None:
            raise NotServedError(f"the hub does not serve {kind}.{group}: is Cluster API installed there?")
        versions = (version for version in (NEW_VERSION, OLD_VERSION) if version in kind_served.versions)
        return (
            replace(kind_served, versions=(next(versions, kind_served.versions[0]),)) if group == GROUP else kind_served
        )


def _is_same_version(first: JsonObject, other: JsonObject) -> bool:
    return bool(metadata_of(first).get("resourceVersion") == metadata_of(other).get("resourceVersion"))
