"""Requests of node disruption that a Store cannot express.

Evictions, deletions with a grace period, Leases of all namespaces.

Source: docs/specifications/nodepool-disruption.md 9; Kubernetes, API-initiated Eviction.
"""

from datetime import datetime
from typing import Final, Protocol

from scorer.api.kinds import LEASE, POD
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dicts_at, text_at
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import ApiPath, path_of, path_of_object
from webhook.kube.ports import Key, NotFoundError, UnavailableError
from webhook.kube.transport.write_guard import LeaseGuard

_EVICTION: Final = "policy/v1"


class NodeWork(Protocol):
    """Requests for node disruption. All may raise `StoreError`.

    A missing pod is not an error. A `ConflictError` means that the name belongs to another pod than *uid*.
    """

    async def evict(self, pod: Key, uid: str) -> None:
        """Evict a pod. Raises `UnavailableError` while a PodDisruptionBudget blocks the eviction."""
        ...

    async def delete(self, pod: Key, uid: str, grace_seconds: int) -> None:
        """Delete a pod regardless of disruption budgets. Shortens the grace period of a terminating pod."""
        ...

    async def pods_on(self, node: str) -> list[JsonObject]:
        """Return the pods of a node from a live read, independent of any watch."""
        ...

    async def leases(self, name: str, namespace: str) -> list[JsonObject]:
        """Return the Leases named *name* in *namespace*, or in all namespaces if that is empty."""
        ...

    def time_of_day(self) -> datetime | None:
        """Return the server's time, accurate to a second or two, extrapolated from its last response. None: unknown."""
        ...


class ServerNodeWork:
    """`NodeWork` of an API server.

    Args:
        server: The connection.
        fence: Raises while writes are forbidden. None: disabled.
    """

    def __init__(self, server: ApiServer, fence: LeaseGuard | None = None) -> None:
        self._server = server
        self._fence = fence

    async def evict(self, pod: Key, uid: str) -> None:
        """See `NodeWork.evict`."""
        body: JsonObject = {
            "apiVersion": _EVICTION,
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            await self._server.request("POST", path_of_object(POD, pod, "eviction"), body, fence=self._fence)
        except NotFoundError:
            return

    async def delete(self, pod: Key, uid: str, grace_seconds: int) -> None:
        """See `NodeWork.delete`."""
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": grace_seconds,
            "preconditions": {"uid": uid},
        }
        try:
            await self._server.request("DELETE", path_of_object(POD, pod), body, fence=self._fence)
        except NotFoundError:
            return

    async def pods_on(self, node: str) -> list[JsonObject]:
        """See `NodeWork.pods_on`."""
        pods = await self._list(path_of(POD), f"spec.nodeName={node}")
        return [{"apiVersion": POD.api_version, "kind": POD.kind, **pod} for pod in pods]

    async def leases(self, name: str, namespace: str) -> list[JsonObject]:
        """See `NodeWork.leases`. An account whose permission is limited to the name may also list all namespaces."""
        return await self._list(path_of(LEASE, namespace), f"metadata.name={name}")

    def time_of_day(self) -> datetime | None:
        """See `NodeWork.time_of_day`."""
        return self._server.time_of_day()

    async def _list(self, path: ApiPath, selector: str) -> list[JsonObject]:
        """Return the objects of a field selector. Only a complete list proves that there are no objects.

        Raises:
            UnavailableError: The response is not a list, for example that of a proxy.
        """
        response = await self._server.request("GET", path, query={"fieldSelector": selector})
        if not text_at(response, "kind").endswith("List"):  # for example a response of a proxy
            raise UnavailableError(f"the response to GET {path} is not a list of an API server")
        return dicts_at(response, "items")
