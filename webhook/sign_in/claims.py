"""The user identified by the claims of a verified ID token.

The rules are those of kube-apiserver, so that a person is the same user for both. There is one difference: names and
groups that start with ``system:`` after the configured prefix is added are refused. They belong to components of the
cluster, never to a person at a provider.
"""

from collections.abc import Mapping
from typing import Any, Final

from scorer.api.values.quoting import printable
from webhook.access.user import UserInfo
from webhook.settings.sign_in import EMAIL, RESERVED, SignInOptions
from webhook.sign_in.trouble import SignInError, SignInFailure

AUTHENTICATED: Final = "system:authenticated"
_ELSEWHERE: Final = "_claim_names"
"""Claim that lists the claims that were too large for the token."""


def user_of(claims: Mapping[str, Any], options: SignInOptions) -> UserInfo:
    """Return the user that verified claims identify.

    Raises:
        SignInError: The claims identify no user, or one with a name that no person may have.
    """
    claim = options.username_claim
    name = claims.get(claim)
    if not isinstance(name, str) or not name:
        raise SignInError(SignInFailure.CLAIMS, f"the claim {claim!r} must be a name")
    if claim == EMAIL and claims.get("email_verified", True) is not True:
        raise SignInError(SignInFailure.EMAIL, "the claim 'email' must be verified")
    if claim == EMAIL and "@" not in name:  # it has no prefix by default, and could be a user of the hub
        raise SignInError(SignInFailure.CLAIMS, f"the claim 'email' must be an address, not {printable(name[:128])!r}")
    username = _checked_name(options.username_prefix + name)
    groups = frozenset(_checked_name(options.groups_prefix + group) for group in _groups(claims, options.groups_claim))
    return UserInfo(username, groups | {AUTHENTICATED})


def _groups(claims: Mapping[str, Any], claim: str) -> list[str]:
    claim_value = claims.get(claim) if claim else None
    if claim_value is None:
        elsewhere = claims.get(_ELSEWHERE)
        if claim and isinstance(elsewhere, dict) and claim in elsewhere:
            message = f"the claim {claim!r} is too large for the ID token: limit the groups that the provider issues"
            raise SignInError(SignInFailure.GROUPS, message)
        return []
    groups = [claim_value] if isinstance(claim_value, str) else claim_value
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise SignInError(SignInFailure.CLAIMS, f"the claim {claim!r} must be a list of names")
    return [group for group in groups if group]


def _checked_name(name: str) -> str:
    if name.startswith(RESERVED):
        raise SignInError(
            SignInFailure.CLAIMS, f"{printable(name[:128])!r}: names that begin with {RESERVED} are reserved"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:  # JSON can contain lone surrogates
        raise SignInError(SignInFailure.CLAIMS, f"{printable(name[:128])!r} is not text") from error
    return name
