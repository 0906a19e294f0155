"""The token of a data folder's owner, who has all permissions."""

import hmac
from typing import Final

from webhook.access.ports import PathAccess
from webhook.access.rights import Access
from webhook.access.user import UserInfo

OWNER: Final = UserInfo("harbormaster:up", frozenset({"system:masters", "system:authenticated"}))


class OwnerToken:
    """The only token of the hub. It grants all permissions.

    Args:
        token: The token.

    Raises:
        ValueError: The token is empty.
    """

    def __init__(self, token: str) -> None:
        if not token:
            raise ValueError("the token of the embedded API must not be empty")
        self._token = token.encode("utf-8", "surrogateescape")

    @property
    def audience(self) -> str:
        """Empty, because the token is for this hub alone."""
        return ""

    def cached(self, token: str) -> UserInfo | None:
        """Return the owner if *token* is theirs, otherwise None. The time of the comparison reveals no part of it."""
        candidate = token.encode("utf-8", "surrogateescape")
        return OWNER if hmac.compare_digest(candidate, self._token) else None

    async def authenticate(self, token: str) -> UserInfo | None:
        """Return the owner if *token* is theirs, otherwise None."""
        return self.cached(token)

    async def may(self, _user: UserInfo, _access: Access | PathAccess) -> bool:
        """Return True: an authenticated client may do everything."""
        return True
