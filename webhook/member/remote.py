"""A member's own API server, as its agent uses it.

Every write carries the same field manager, which later tells our fields from those of other writers.
"""

from typing import Final

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from webhook.kube.client import ApiServer
from webhook.kube.discovery import Discovery
from webhook.kube.paths import path_of, path_of_object
from webhook.kube.ports import Key, key_of
from webhook.kube.store import HubStore
from webhook.member.ports import MANAGER

_AS_AGENT: Final = {"fieldManager": MANAGER}


class RemoteMember(HubStore):
    """A member reached with a kubeconfig or the pod's own account; see `webhook.member.ports.MemberStore`.

    Args:
        server: The connection. No request is sent yet; kinds are discovered when a Work first needs them.
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
        """See `webhook.member.ports.MemberStore.replace`."""
        path = path_of_object(kind, key_of(document))
        query = {**_AS_AGENT, "dryRun": "All"} if dry_run else _AS_AGENT
        return await self._connection.request("PUT", path, document, query=query)

    async def delete(
        self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "", foreground: bool = False
    ) -> None:
        """See `webhook.member.ports.MemberStore.delete`."""
        conditions = {"uid": uid, "resourceVersion": resource_version}
        options: JsonObject = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground" if foreground else "Background",
            "preconditions": {name: value for name, value in conditions.items() if value},
        }
        await self._connection.request("DELETE", path_of_object(kind, key), options)
