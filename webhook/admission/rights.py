"""Whether authors may place what they write: the hub's API server knows; a hub without RBAC has no rights to ask about.

`webhook.admission.authorization` works out what to ask about a write.

Source: serving.md 3.4.
"""

from collections.abc import Sequence
from typing import Protocol

from scorer.api.meta import JsonObject
from webhook.access.ports import AccessReviewer
from webhook.access.rights import UNDISPUTED, Access, Reviewed
from webhook.access.user import UserInfo
from webhook.admission.authorization import may_need_access, needed_access, weighed
from webhook.validation.framework.context import Context


class Rights(Protocol):
    """Finds out what authors may place."""

    def may_need(self, write: JsonObject, user: UserInfo, context: Context) -> bool:
        """Say whether the author of a write may need rights at all."""
        ...

    def needed(self, write: JsonObject, user: UserInfo, context: Context) -> tuple[Access, ...]:
        """Return what the author of a write must be allowed to do; empty when no rights need to be reviewed.

        Args:
            write: ``request`` of a review; nothing in it has been checked yet.
            user: Its author.
            context: The kinds of the hub, the switches.
        """
        ...

    def cached(self, user: UserInfo, needed: Sequence[Access]) -> Reviewed | None:
        """Return what `review` would, if that is known without asking."""
        ...

    async def review(self, user: UserInfo, needed: Sequence[Access]) -> Reviewed:
        """Return which of *needed* the user may not do; a right that could not be reviewed is never taken as given."""
        ...


class AuthorRights:
    """Rights that a reviewer knows.

    Args:
        reviewer: Answers access reviews.
    """

    def __init__(self, reviewer: AccessReviewer) -> None:
        self._reviewer = reviewer

    def may_need(self, write: JsonObject, user: UserInfo, context: Context) -> bool:
        """See `may_need_access`."""
        return may_need_access(write, user, context)

    def needed(self, write: JsonObject, user: UserInfo, context: Context) -> tuple[Access, ...]:
        """See `needed_access`."""
        return needed_access(write, user, context)

    def cached(self, user: UserInfo, needed: Sequence[Access]) -> Reviewed | None:
        """See `Rights.cached`."""
        reviewed = self._reviewer.cached(user, needed) if needed else UNDISPUTED
        return None if reviewed is None else weighed(reviewed, needed)

    async def review(self, user: UserInfo, needed: Sequence[Access]) -> Reviewed:
        """Ask the reviewer, unless nothing is needed."""
        if not needed:
            return UNDISPUTED
        return weighed(await self._reviewer.review(user, needed), needed)


class UndisputedRights:
    """Rights on a hub with a single owner, which has no access reviews: every author may place everything."""

    def may_need(self, _write: JsonObject, _user: UserInfo, _context: Context) -> bool:
        """Nothing is ever needed."""
        return False

    def needed(self, _write: JsonObject, _user: UserInfo, _context: Context) -> tuple[Access, ...]:
        """Nothing is ever needed."""
        return ()

    def cached(self, _user: UserInfo, _needed: Sequence[Access]) -> Reviewed | None:
        """Dispute nothing."""
        return UNDISPUTED

    async def review(self, _user: UserInfo, _needed: Sequence[Access]) -> Reviewed:
        """Dispute nothing."""
        return UNDISPUTED
