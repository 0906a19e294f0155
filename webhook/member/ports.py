"""What applying Works needs from a member cluster, besides what every store does.

A real API server (`webhook.member.remote`) and the store of a simulated member (`webhook.embedded.member_stores`) both
keep to it, so that there is one way of applying.
"""

from typing import Final, Protocol

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from webhook.kube.ports import Key, ServedKinds, Store

MANAGER: Final = "work-api-agent"
"""The field manager of everything that is written to a member (rollout.md 11.6)."""


class MemberStore(Store, Protocol):
    """The objects of a member cluster.

    Requests go to the first of a `Kind`'s versions, and objects come back in it; a store that keeps objects in one
    version only answers in that. ``metadata.managedFields`` stays in what is read, where there are any.
    """

    @property
    def served(self) -> ServedKinds:
        """The kinds that the member serves."""
        ...

    async def apply(
        self, kind: Kind, document: JsonObject, *, manager: str, force: bool, dry_run: bool = False
    ) -> JsonObject:
        """Apply *document* by server-side apply, or say what that would come to; the object is made if need be.

        Args:
            kind: Its kind, the version of *document* first.
            document: The wanted fields; with ``uid`` or ``resourceVersion`` only over that object or version.
            manager: The field manager.
            force: Take fields over that others manage.
            dry_run: Store nothing.

        Raises:
            ConflictError: Others manage a field and have another value, or the object is another one.
            InvalidObjectError: The object cannot be stored like that.
        """
        ...

    async def replace(self, kind: Kind, document: JsonObject, *, dry_run: bool = False) -> JsonObject:
        """See `Store.replace`; with *dry_run* nothing is stored."""
        ...

    async def delete(
        self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "", foreground: bool = False
    ) -> None:
        """See `Store.delete`; with *foreground* the object goes after its dependents."""
        ...
