"""The port of a member cluster: the methods of every store, plus server-side apply, dry run and foreground deletion.

A real API server (`webhook.member.store.api_server`) and the store of a simulated member
(`webhook.embedded.simulation.member_stores`) both implement it, so that the apply code is shared.
"""

from typing import Final, Protocol

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from webhook.kube.ports import Key, ServedKinds, Store

MANAGER: Final = "work-api-agent"
"""The field manager of all writes of the agent to a member (rollout.md 11.6)."""


class MemberStore(Store, Protocol):
    """The objects of a member cluster.

    Requests use the first of a `Kind`'s versions, and objects are returned in it. A store that keeps objects in a
    single version returns that version. Objects are read with their ``metadata.managedFields``, if any.
    """

    @property
    def served(self) -> ServedKinds:
        """The kinds that the member serves."""
        ...

    async def apply(
        self, kind: Kind, document: JsonObject, *, manager: str, force: bool, dry_run: bool = False
    ) -> JsonObject:
        """Apply *document* by server-side apply and return the result. A missing object is created.

        Args:
            kind: Its kind, with the version of *document* first.
            document: The fields to apply. ``uid`` and ``resourceVersion`` are preconditions.
            manager: The field manager.
            force: Take over fields of other managers.
            dry_run: Return the result without storing it.

        Raises:
            ConflictError: Another manager owns a field with another value, or a precondition of *document* failed.
            InvalidObjectError: The result is not a valid object.
        """
        ...

    async def replace(self, kind: Kind, document: JsonObject, *, dry_run: bool = False) -> JsonObject:
        """See `Store.replace`. With *dry_run* no object is stored."""
        ...

    async def delete(
        self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "", foreground: bool = False
    ) -> None:
        """See `Store.delete`. With *foreground* the dependents are deleted before the object."""
        ...
