"""Verification that an ID token was issued by the provider for us, now, and for this sign-in.

PyJWT verifies signatures with the published keys of the provider. Only asymmetric algorithms are accepted: with a
symmetric one, the published key would be the secret, and ``none`` signs nothing.

Source: OpenID Connect Core 1.0, 3.1.3.7; RFC 8725.
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final

import jwt

from scorer.api.meta import JsonObject
from webhook.sign_in.trouble import SignInError, SignInFailure

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY_SECONDS: Final = 60
"""Tolerated clock skew of the provider."""
LONGEST: Final = 65_536
_NEVER: Final = 2**53
"""Bound for instants: an integer may be too large for a float."""
_NEEDED: Final = ("iss", "sub", "aud", "exp", "iat")

FindKey = Callable[[str | None], Awaitable[JsonObject]]
"""Returns the published key of an id, as a JSON Web Key. Raises `SignInError`."""


async def verify(
    token: str, *, issuer: str, client_id: str, nonce: str, find_key: FindKey, now: datetime
) -> Mapping[str, Any]:
    """Return the claims of an ID token.

    Args:
        token: Token as received from the provider.
        issuer: Required issuer.
        client_id: Required audience.
        nonce: Nonce of the pending sign-in.
        find_key: Returns the provider's keys.
        now: The current time.

    Raises:
        SignInError: The token cannot be trusted, or the keys cannot be read.
    """
    try:
        if len(token) > LONGEST:
            raise SignInError(
                SignInFailure.TOKEN, f"the ID token has {len(token)} characters, must have at most {LONGEST}"
            )
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise SignInError(
                SignInFailure.TOKEN, f"the ID token is signed with the unsupported algorithm {str(algorithm)[:32]!r}"
            )
        jwk = await find_key(kid)
        claims: Mapping[str, Any] = jwt.decode(
            token,
            # Binds the key to one algorithm: the one published with the key, if any, otherwise that of the token.
            jwt.PyJWK(jwk, jwk.get("alg") or algorithm),
            algorithms=list(ALGORITHMS),
            audience=client_id,
            issuer=issuer,
            options={
                "require": list(_NEEDED),
                "enforce_minimum_key_length": True,
                "verify_exp": False,  # checked below, as the library would use the system clock
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except (jwt.PyJWTError, TypeError, ValueError) as error:  # the library does not check all that JSON can contain
        raise SignInError(SignInFailure.TOKEN, f"{type(error).__name__}: the ID token cannot be trusted") from error
    _check_times(claims, now)
    _check_party(claims, client_id)
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode("utf-8", "surrogatepass"), nonce.encode()):
        raise SignInError(SignInFailure.TOKEN, "the nonce of the ID token belongs to another sign-in")
    return claims


def _check_times(claims: Mapping[str, Any], now: datetime) -> None:
    for name in ("iat", "nbf", "exp"):
        instant = claims.get(name, 0 if name == "nbf" else None)
        if isinstance(instant, bool) or not isinstance(instant, int | float) or not abs(instant) < _NEVER:
            raise SignInError(SignInFailure.TOKEN, f"the claim {name} of the ID token must be a time")
        offset = instant - now.timestamp()
        if offset < 1 if name == "exp" else offset > LEEWAY_SECONDS:  # otherwise the session would already have ended
            raise SignInError(
                SignInFailure.CLOCK, f"the ID token is not valid at this time: {name} is {offset:+.0f} s from now"
            )


def _check_party(claims: Mapping[str, Any], client_id: str) -> None:
    """Check the authorized party, which a token for several audiences must name."""
    audience, party = claims["aud"], claims.get("azp")
    if party is None and isinstance(audience, list) and len(audience) > 1:
        raise SignInError(SignInFailure.TOKEN, "the ID token has several audiences, and no claim azp")
    if party is not None and party != client_id:
        raise SignInError(SignInFailure.TOKEN, "the ID token was issued to another client: azp")
