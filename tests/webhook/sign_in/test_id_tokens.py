"""Which ID tokens are trusted: what an attacker would write, row by row."""

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.webhook.sign_in.lying_provider import CLIENT, KEY, OTHER_KEY, PUBLIC_PEM, claims, public, signed
from webhook.sign_in.id_tokens import LONGEST, verify
from webhook.sign_in.trouble import SignInError, SignInFailure

ISSUER, NONCE = "https://accounts.example.com", "n" * 43


async def check(token, published=None):
    async def find(_):
        return published or public()

    return await verify(token, issuer=ISSUER, client_id=CLIENT, nonce=NONCE, find_key=find, now=datetime.now(UTC))


def good(**changed):
    return claims(ISSUER, **({"nonce": NONCE} | changed))


def part(document) -> str:
    return urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def unsigned(algorithm: str) -> str:
    return f"{part({'alg': algorithm, 'kid': 'k1'})}.{part(good())}."


def signed_with_the_public_key() -> str:
    """What a library makes of it that takes any algorithm with any key."""
    text = f"{part({'alg': 'HS256', 'kid': 'k1'})}.{part(good())}"
    mac = hmac.new(PUBLIC_PEM, text.encode(), hashlib.sha256).digest()
    return f"{text}.{urlsafe_b64encode(mac).decode().rstrip('=')}"


async def test_a_good_token_is_trusted():
    assert (await check(signed(good())))["sub"] == "ann"


async def test_a_token_for_several_that_was_given_to_us_is_trusted():
    assert await check(signed(good(aud=[CLIENT, "other"], azp=CLIENT)))


@pytest.mark.parametrize("algorithm", ["RS512", "PS256"])
async def test_a_key_without_an_algorithm_is_for_any_of_its_kind(algorithm):
    assert await check(signed(good(), algorithm=algorithm))


async def test_a_key_of_a_curve_is_taken():
    key = ec.generate_private_key(ec.SECP256R1())
    numbers = key.public_key().public_numbers()
    x, y = (urlsafe_b64encode(number.to_bytes(32)).decode().rstrip("=") for number in (numbers.x, numbers.y))
    published = {"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": "k1"}
    assert await check(signed(good(), key, "ES256"), published)


HOUR = 3600


@pytest.mark.parametrize(
    ("token", "trouble"),
    [
        pytest.param(lambda: unsigned("none"), SignInFailure.TOKEN, id="alg-none"),
        pytest.param(lambda: unsigned("None"), SignInFailure.TOKEN, id="alg-None"),
        pytest.param(lambda: unsigned("RS256"), SignInFailure.TOKEN, id="no-signature"),
        pytest.param(signed_with_the_public_key, SignInFailure.TOKEN, id="alg-HS256-with-the-public-key"),
        pytest.param(lambda: signed(good(), OTHER_KEY), SignInFailure.TOKEN, id="signed-by-somebody-else"),
        pytest.param(lambda: signed(good())[:-8] + "AAAAAAAA", SignInFailure.TOKEN, id="changed-signature"),
        pytest.param(lambda: signed(good(), crit=["b64"], b64=False), SignInFailure.TOKEN, id="critical-header"),
        pytest.param(lambda: signed(good(aud="other")), SignInFailure.TOKEN, id="aud-of-another"),
        pytest.param(lambda: signed(good(aud=None)), SignInFailure.TOKEN, id="aud-missing"),
        pytest.param(lambda: signed(good(aud=[CLIENT, "other"])), SignInFailure.TOKEN, id="aud-several-without-azp"),
        pytest.param(lambda: signed(good(azp="other")), SignInFailure.TOKEN, id="azp-of-another"),
        pytest.param(lambda: signed(good(iss="https://evil.example.com")), SignInFailure.TOKEN, id="iss-of-another"),
        pytest.param(lambda: signed(good(iss=f"{ISSUER}/")), SignInFailure.TOKEN, id="iss-with-a-slash"),
        pytest.param(lambda: signed(good(nonce="m" * 43)), SignInFailure.TOKEN, id="nonce-of-another"),
        pytest.param(lambda: signed(good(nonce=None)), SignInFailure.TOKEN, id="nonce-missing"),
        pytest.param(lambda: signed(good(nonce=7)), SignInFailure.TOKEN, id="nonce-no-text"),
        pytest.param(lambda: signed(good(nonce="\ud800")), SignInFailure.TOKEN, id="nonce-half-a-letter"),
        pytest.param(lambda: signed(good(exp=int(time.time()) - HOUR)), SignInFailure.CLOCK, id="expired"),
        pytest.param(lambda: signed(good(iat=int(time.time()) + HOUR)), SignInFailure.CLOCK, id="made-in-the-future"),
        pytest.param(lambda: signed(good(nbf=int(time.time()) + HOUR)), SignInFailure.CLOCK, id="not-yet"),
        pytest.param(lambda: signed(good(exp=None)), SignInFailure.TOKEN, id="without-an-end"),
        pytest.param(lambda: signed(good(exp="never")), SignInFailure.TOKEN, id="an-end-in-words"),
        pytest.param(lambda: signed(good(exp=float("inf"))), SignInFailure.TOKEN, id="endless"),
        pytest.param(lambda: signed(good(exp=True)), SignInFailure.TOKEN, id="an-end-that-is-none"),
        pytest.param(lambda: signed(good(exp=10**400)), SignInFailure.TOKEN, id="an-end-beyond-all-numbers"),
        pytest.param(lambda: signed(good(exp=int(time.time()) - 1)), SignInFailure.CLOCK, id="ended-just-now"),
        pytest.param(lambda: signed(good(iat=None)), SignInFailure.TOKEN, id="without-a-beginning"),
        pytest.param(lambda: signed(good(sub=None)), SignInFailure.TOKEN, id="about-nobody"),
        pytest.param(lambda: "a.b", SignInFailure.TOKEN, id="no-token"),
        pytest.param(lambda: "", SignInFailure.TOKEN, id="empty"),
        pytest.param(lambda: signed(good(much="x" * LONGEST)), SignInFailure.TOKEN, id="too-long"),
    ],
)
async def test_what_is_not_trusted(token, trouble):
    text = token()
    with pytest.raises(SignInError) as caught:
        await check(text)
    assert caught.value.trouble is trouble
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize(
    "published",
    [
        pytest.param(public(alg="RS512"), id="for-another-algorithm"),
        pytest.param(public(alg="HS256"), id="as-a-shared-secret"),
        pytest.param(public(alg=["RS256"]), id="for-several-algorithms"),
        pytest.param({"kty": "oct", "k": "c2VjcmV0", "kid": "k1"}, id="a-shared-secret"),
        pytest.param({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "k1"}, id="no-point-of-the-curve"),
        pytest.param({"kid": "k1"}, id="nothing"),
    ],
)
async def test_a_key_for_something_else_proves_nothing(published):
    with pytest.raises(SignInError) as caught:
        await check(signed(good()), published)
    assert caught.value.trouble is SignInFailure.TOKEN


async def test_a_short_key_proves_nothing():
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    with pytest.warns(match="key"):
        token = signed(good(), short)
    with pytest.raises(SignInError):
        await check(token, public(short))


def test_the_key_of_these_tests_is_not_published_whole():
    assert KEY.private_numbers().d
    assert "d" not in public()
