"""Reasons for a failed sign-in. The page shows one sentence for each, and no text of the provider."""

from enum import StrEnum


class SignInFailure(StrEnum):
    """Reason that is passed to the page, which has a sentence for each."""

    DENIED = "denied"
    """The provider, or the user there, has denied the request."""
    STALE = "stale"
    """The returning browser has no pending sign-in, or it has timed out."""
    CODE = "code"
    """The provider rejects the code: it has been used, or was issued to another client."""
    UNREACHABLE = "unreachable"
    """The provider does not respond."""
    PROVIDER = "provider"
    """The provider's response violates the protocol."""
    CLOCK = "clock"
    """The ID token is expired or not yet valid."""
    TOKEN = "token"  # noqa: S105 - a word
    """The ID token cannot be trusted."""
    CLAIMS = "claims"
    """The ID token identifies no user, or has a name that no user may have."""
    EMAIL = "email"
    """The provider has not verified the address."""
    GROUPS = "groups"
    """The user is in more groups than fit into a token or a session."""
    BUSY = "busy"
    """Too many concurrent callbacks."""
    SETTINGS = "settings"
    """A file of the settings is unusable."""


class SignInError(Exception):
    """A failed sign-in.

    Args:
        trouble: Reason for the page.
        reason: Reason for the log. Contains no secret, code or token.
    """

    def __init__(self, trouble: SignInFailure, reason: str) -> None:
        super().__init__(reason)
        self.trouble = trouble
