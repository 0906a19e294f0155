"""The port of a member cluster: the methods of every store, plus server-side apply, dry run and foreground deletion.

A real API server (`webhook.member.store.api_server`) and the store of a simulated member
(`webhook.embedded.simulation.member_stores`) both implement it, so that there is one way of applying.
"""

from typing import Final, Protocol

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from webhook.kube.ports import Key, ServedKinds, Store

MANAGER: Final = "work-api-agent"
"""The field manager of everything that the agent writes to a member (rollout.md 11.6)."""


class MemberStore(Store, Protocol):
    """The objects of a member cluster.

    Requests use the first of a `Kind`'s versions, and objects come back in it; a store that keeps objects in a single
    version answers in that. Objects are read with their ``metadata.managedFields``, if they have any.
    """

    @property
    def served(self) -> ServedKinds:
        """The kinds that the member serves."""
        ...

    async def apply(
        self, kind: Kind, document: JsonObject, *, manager: str, force: bool, dry_run: bool = False
    ) -> JsonObject:
        """Apply *document* by server-side apply and return the outcome; create the object if it does not exist.

        Args:
            kind: Its kind, with the version of *document* first.
            document: The wanted fields; with ``uid`` or ``resourceVersion``, applied to that object or version only.
            manager: The field manager.
            force: Take over fields that others manage.
            dry_run: Store nothing.

        Raises:
            ConflictError: Another manager has a field with another value, or the object or its version is not the one
                named in *document*.
            InvalidObjectError: The outcome is not a valid object.
        """
        ...

    async def replace(self, kind: Kind, document: JsonObject, *, dry_run: bool = False) -> JsonObject:
        """See `Store.replace`; with *dry_run* nothing is stored."""
        ...

    async def delete(
        self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "", foreground: bool = False
    ) -> None:
        """See `Store.delete`; with *foreground* the dependents are deleted before the object."""
        ...
