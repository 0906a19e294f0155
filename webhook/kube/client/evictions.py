"""Requests of node disruption that a Store cannot express.

Evictions, deletions with a grace period, Leases of all namespaces.

Source: nodepool-disruption.md 9; Kubernetes, API-initiated Eviction.
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
    """Every method may raise `StoreError`; a pod that is gone, or of another uid, is fine."""

    async def evict(self, pod: Key, uid: str) -> None:
        """Evict a pod. Raises `UnavailableError` while a PodDisruptionBudget does not let it go."""
        ...

    async def delete(self, pod: Key, uid: str, grace_seconds: int) -> None:
        """Delete a pod whatever guards it; one that is ending already is given no more than this time."""
        ...

    async def pods_on(self, node: str) -> list[JsonObject]:
        """Return the pods of a node as they are now, whatever a watch has told of them."""
        ...

    async def leases(self, name: str, namespace: str) -> list[JsonObject]:
        """Return the Leases of a name, of one namespace or, when that is empty, of all."""
        ...

    def time_of_day(self) -> datetime | None:
        """Return the time on the server, to a second or two, as of its last answer; None: it does not say."""
        ...


class ServerNodeWork:
    """`NodeWork` of an API server.

    Args:
        server: The connection.
        fence: Raises while nothing may be written; None: there is no such time.
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
        """See `NodeWork.leases`; an account whose right is limited to the name may ask for all namespaces, too."""
        return await self._list(path_of(LEASE, namespace), f"metadata.name={name}")

    def time_of_day(self) -> datetime | None:
        """See `NodeWork.time_of_day`."""
        return self._server.time_of_day()

    async def _list(self, path: ApiPath, selector: str) -> list[JsonObject]:
        """Return the objects that a field selector selects; nothing but a whole list says that there are none."""
        response = await self._server.request("GET", path, query={"fieldSelector": selector})
        if not text_at(response, "kind").endswith("List"):  # a proxy has answered, say
            raise UnavailableError(f"the answer to GET {path} is not a list of an API server")
        return dicts_at(response, "items")
