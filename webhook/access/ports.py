"""Ports for authentication and authorization, implemented by a hub or by a data folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from webhook.access.rights import Access, Reviewed
from webhook.access.user import UserInfo


class AccessReviewer(Protocol):
    """Reviews the permissions of users."""

    def cached(self, user: UserInfo, accesses: Sequence[Access]) -> Reviewed | None:
        """Return the result of `review` if it is cached, else None."""
        ...

    async def review(self, user: UserInfo, accesses: Sequence[Access]) -> Reviewed:
        """Review *accesses* for the user.

        A permission that could not be determined never counts as allowed.
        """
        ...


class NotReviewedError(Exception):
    """The caller or a permission cannot be determined now. The message is for the log, not for the caller."""


@dataclass(frozen=True, slots=True)
class PathAccess:
    """A request to the server itself, for authorization.

    Args:
        verb: The method in lower case. HEAD counts as GET, because it returns nothing that GET does not return.
        path: Template of the route, such as ``/v1/clusters/*``.
    """

    verb: str
    path: str

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


class Authenticator(Protocol):
    """Authenticates bearer tokens."""

    @property
    def audience(self) -> str:
        """Audience that a token must be issued for, empty if tokens have no audience."""
        ...

    def cached(self, token: str) -> UserInfo | None:
        """Return the user of a token if it is cached, else None."""
        ...

    async def authenticate(self, token: str) -> UserInfo | None:
        """Return the user of a token, or None if it is invalid. Raises `NotReviewedError`."""
        ...


class Authorizer(Protocol):
    """Authorizes users."""

    async def may(self, user: UserInfo, access: Access | PathAccess) -> bool:
        """Return whether *user* is allowed the access. Raises `NotReviewedError`."""
        ...
