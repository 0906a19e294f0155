"""The member's own API server: the store that the agent applies to, and the readiness probe for heartbeats.

Every write has the same field manager, which later distinguishes our fields from those of other writers.

Source: docs/specifications/rollout.md 21.1; docs/specifications/scheduling.md 19.
"""

from typing import Final

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.discovery import Discovery
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.paths import ApiPath, path_of, path_of_object
from webhook.kube.ports import Key, StoreError, key_of
from webhook.member.store.ports import MANAGER

_AS_AGENT: Final = {"fieldManager": MANAGER}


class RemoteMember(HubStore):
    """A member reached with a kubeconfig or the pod's own account, see `webhook.member.store.ports.MemberStore`.

    Args:
        server: The connection. No request is sent yet. Kinds are discovered when a Work first needs them.
    """

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server, keep_managers=True)
        self._connection = server
        self.served = Discovery(server)

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `Store.create`."""
        path = path_of(kind, key_of(document).namespace)
        return await self._connection.request("POST", path, document, query=_AS_AGENT)

    async def replace(self, kind: Kind, document: JsonObject, *, dry_run: bool = False) -> JsonObject:
        """See `webhook.member.store.ports.MemberStore.replace`."""
        path = path_of_object(kind, key_of(document))
        query = {**_AS_AGENT, "dryRun": "All"} if dry_run else _AS_AGENT
        return await self._connection.request("PUT", path, document, query=query)

    async def delete(
        self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "", foreground: bool = False
    ) -> None:
        """See `webhook.member.store.ports.MemberStore.delete`."""
        conditions = {"uid": uid, "resourceVersion": resource_version}
        options: JsonObject = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground" if foreground else "Background",
            "preconditions": {name: value for name, value in conditions.items() if value},
        }
        await self._connection.request("DELETE", path_of_object(kind, key), options)


PROBE_SECONDS: Final = 5.0


async def ailment(server: ApiServer, seconds: float = PROBE_SECONDS) -> str:
    """Probe ``/readyz``. Return an empty string if the status is 200, else the error."""
    try:
        await server.request("GET", ApiPath("readyz"), seconds=seconds)
    except StoreError as error:
        return " ".join(str(error).split())
    return ""
