"""Why a sign-in has failed, as the page says it: one sentence per word, and none of what a provider has written."""

from enum import StrEnum


class SignInFailure(StrEnum):
    """What the page is told; it has a sentence for each."""

    DENIED = "denied"
    """The provider, or the person there, has said no."""
    STALE = "stale"
    """The browser that comes back is not one that has begun to sign in, or did so too long ago."""
    CODE = "code"
    """The provider does not take the code: it has been used, or was made for somebody else."""
    UNREACHABLE = "unreachable"
    """The provider does not answer."""
    PROVIDER = "provider"
    """What the provider answers is not what the protocol asks for."""
    CLOCK = "clock"
    """The ID token is of another time."""
    TOKEN = "token"  # noqa: S105 - a word
    """The ID token cannot be trusted."""
    CLAIMS = "claims"
    """The ID token does not say who somebody is, or says what no user may be called."""
    EMAIL = "email"
    """The provider has not verified the address."""
    GROUPS = "groups"
    """Somebody is in more groups than fit into a token or a session."""
    BUSY = "busy"
    """Too many come back at once."""
    SETTINGS = "settings"
    """A file that the settings name cannot be used."""


class SignInError(Exception):
    """A sign-in has failed.

    Args:
        trouble: What the page is told.
        reason: For the log; nothing in it is a secret, a code or a token.
    """

    def __init__(self, trouble: SignInFailure, reason: str) -> None:
        super().__init__(reason)
        self.trouble = trouble
