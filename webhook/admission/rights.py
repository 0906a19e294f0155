"""Reviews of the rights of authors by the API server of the hub. A hub without RBAC has no rights to review.

`webhook.admission.authorization` determines the rights that a write needs.

Source: docs/specifications/serving.md 3.4.
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
    """Reviews the rights of authors."""

    def may_need(self, write: JsonObject, user: UserInfo, context: Context) -> bool:
        """Return whether the author of a write may need any rights."""
        ...

    def needed(self, write: JsonObject, user: UserInfo, context: Context) -> tuple[Access, ...]:
        """Return the rights that the author of a write needs, empty if no rights need to be reviewed.

        Args:
            write: ``request`` of a review, unvalidated.
            user: Author of the write.
            context: Kinds of the hub, and settings.
        """
        ...

    def cached(self, user: UserInfo, needed: Sequence[Access]) -> Reviewed | None:
        """Return the result of `review` from the cache. None: unknown, a review is needed."""
        ...

    async def review(self, user: UserInfo, needed: Sequence[Access]) -> Reviewed:
        """Return the rights among *needed* that the user lacks. A right that could not be reviewed is never granted."""
        ...


class AuthorRights:
    """Reviews rights by access reviews.

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
        """See `Rights.review`. Sends no access review if no rights are needed."""
        if not needed:
            return UNDISPUTED
        return weighed(await self._reviewer.review(user, needed), needed)


class UndisputedRights:
    """Rights on a hub with a single owner, which has no access reviews. Every author may place all objects."""

    def may_need(self, _write: JsonObject, _user: UserInfo, _context: Context) -> bool:
        """Return False: no author needs any rights."""
        return False

    def needed(self, _write: JsonObject, _user: UserInfo, _context: Context) -> tuple[Access, ...]:
        """Return an empty tuple: no author needs any rights."""
        return ()

    def cached(self, _user: UserInfo, _needed: Sequence[Access]) -> Reviewed | None:
        """Return a review without denied or unanswered rights."""
        return UNDISPUTED

    async def review(self, _user: UserInfo, _needed: Sequence[Access]) -> Reviewed:
        """Return a review without denied or unanswered rights."""
        return UNDISPUTED
