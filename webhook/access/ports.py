"""Ports for who a caller is and what a user may do: answered by a hub, or by a data folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from webhook.access.rights import Access, Reviewed
from webhook.access.user import UserInfo


class AccessReviewer(Protocol):
    """Knows what users may do."""

    def cached(self, user: UserInfo, accesses: Sequence[Access]) -> Reviewed | None:
        """Return what `review` would, if that is known without asking."""
        ...

    async def review(self, user: UserInfo, accesses: Sequence[Access]) -> Reviewed:
        """Return which of *accesses* the user may not do. An unanswered question never counts as allowed."""
        ...


class NotReviewedError(Exception):
    """Who a caller is, or what a user may do, cannot be found out now; the message is for the log, not for them."""


@dataclass(frozen=True, slots=True)
class PathAccess:
    """A request to the server itself, as rights see it.

    Args:
        verb: The method in lower case; HEAD reads no more than GET and counts as it.
        path: Template of the route, such as ``/v1/clusters/*``.
    """

    verb: str
    path: str

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


class Authenticator(Protocol):
    """Knows which user a bearer token belongs to."""

    @property
    def audience(self) -> str:
        """What a token has to be issued for; empty where tokens have no audience."""
        ...

    def cached(self, token: str) -> UserInfo | None:
        """Return whose token it is if that is known without asking."""
        ...

    async def authenticate(self, token: str) -> UserInfo | None:
        """Return whose token it is; None: it is not valid here. Raises `NotReviewedError`."""
        ...


class Authorizer(Protocol):
    """Knows who may do what."""

    async def may(self, user: UserInfo, access: Access | PathAccess) -> bool:
        """Return whether *user* may do it. Raises `NotReviewedError`."""
        ...
