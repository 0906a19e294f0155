"""The owner of a data folder: whoever holds the token that is kept in it, and may therefore do everything."""

import hmac
from typing import Final

from webhook.access.ports import PathAccess
from webhook.access.rights import Access
from webhook.access.user import UserInfo

OWNER: Final = UserInfo("harbormaster:up", frozenset({"system:masters", "system:authenticated"}))


class OwnerToken:
    """The one token there is; who has it may do everything.

    Args:
        token: Not empty.
    """

    def __init__(self, token: str) -> None:
        if not token:
            raise ValueError("the token of the embedded API must not be empty")
        self._token = token.encode("utf-8", "surrogateescape")

    @property
    def audience(self) -> str:
        """None: the token is for this hub alone."""
        return ""

    def known(self, token: str) -> UserInfo | None:
        """Return the owner when it is their token; how much of it is right cannot be told from the time this takes."""
        given = token.encode("utf-8", "surrogateescape")
        return OWNER if hmac.compare_digest(given, self._token) else None

    async def authenticate(self, token: str) -> UserInfo | None:
        """Return the owner when it is their token."""
        return self.known(token)

    async def may(self, _user: UserInfo, _wanted: Access | PathAccess) -> bool:
        """Let whoever is let in do everything."""
        return True
