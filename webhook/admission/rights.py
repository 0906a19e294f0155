"""Whether authors may have what they write placed: asked of a hub that knows, or of nobody where nobody does.

What has to be asked about a write is worked out in `webhook.admission.authorization`.

Source: serving.md 3.4.
"""

from collections.abc import Sequence
from typing import Protocol

from scorer.api.meta import JsonObject
from webhook.access.ports import AccessReviewer
from webhook.access.rights import UNDISPUTED, Access, Reviewed
from webhook.access.user import UserInfo
from webhook.admission.authorization import may_need_access, needed_access
from webhook.validation.context import Context


class Rights(Protocol):
    """Finds out what authors may have placed."""

    def may_need(self, write: JsonObject, user: UserInfo, context: Context) -> bool:
        """Say whether there may be something that the author of a write must be allowed to do."""
        ...

    def needed(self, write: JsonObject, user: UserInfo, context: Context) -> tuple[Access, ...]:
        """Return what the author of a write must be allowed to do, nothing when nobody needs to be asked.

        Args:
            write: ``request`` of a review; nothing in it has been checked yet.
            user: Its author.
            context: The kinds of the hub, the switches.
        """
        ...

    async def review(self, user: UserInfo, needed: Sequence[Access]) -> Reviewed:
        """Return which of *needed* the user may not do; what cannot be found out is said, never taken for allowed."""
        ...


class AuthorRights:
    """Rights that somebody knows.

    Args:
        reviewer: Knows them.
    """

    def __init__(self, reviewer: AccessReviewer) -> None:
        self._reviewer = reviewer

    def may_need(self, write: JsonObject, user: UserInfo, context: Context) -> bool:
        """See `may_need_access`."""
        return may_need_access(write, user, context)

    def needed(self, write: JsonObject, user: UserInfo, context: Context) -> tuple[Access, ...]:
        """See `needed_access`."""
        return needed_access(write, user, context)

    async def review(self, user: UserInfo, needed: Sequence[Access]) -> Reviewed:
        """Ask whoever knows; where nothing is needed, nobody."""
        return await self._reviewer.review(user, needed) if needed else UNDISPUTED


class UndisputedRights:
    """Rights where nobody knows any: on a hub of one owner everybody may have everything placed."""

    def may_need(self, _write: JsonObject, _user: UserInfo, _context: Context) -> bool:
        """Nothing is ever needed."""
        return False

    def needed(self, _write: JsonObject, _user: UserInfo, _context: Context) -> tuple[Access, ...]:
        """Nothing is ever needed."""
        return ()

    async def review(self, _user: UserInfo, _needed: Sequence[Access]) -> Reviewed:
        """Dispute nothing."""
        return UNDISPUTED
