"""A provider on this machine that says whatever a test wants, so also what a real one never says."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.loopback import on_loopback
from webhook.settings.sign_in import SignInOptions

CLIENT = "harbormaster"
SECRET = "what the provider knows us by"
PAGE = "https://fleet.example.com"
SEALING = "s" * 40
KEY, OTHER_KEY = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
PUBLIC_PEM = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def public(key=KEY, kid="k1", **more) -> dict[str, Any]:
    """A published key."""
    return {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig", **more}


def claims(issuer: str, nonce: str, **changed: Any) -> dict[str, Any]:
    """Those of a good ID token; None takes one away."""
    now = int(time.time())
    good = {"iss": issuer, "sub": "ann", "aud": CLIENT, "iat": now, "exp": now + 600, "nonce": nonce}
    return {name: value for name, value in (good | changed).items() if value is not None}


def signed(said: dict[str, Any], key: Any = KEY, algorithm: str = "RS256", **header: Any) -> str:
    """An ID token."""
    return jwt.encode(said, key, algorithm, headers={"kid": "k1", **header})


def options(folder, issuer: str, **changed: Any) -> SignInOptions:
    """Settings for this provider."""
    for name, content in (("client", SECRET), ("sealing", SEALING)):
        (folder / name).write_text(content, encoding="ascii")
    given = {"groups_claim": "groups", "name": "Example"} | changed
    return SignInOptions(issuer, CLIENT, folder / "client", folder / "sealing", PAGE, **given)


@dataclass
class LyingProvider:
    """``about`` and ``claims`` are changed by tests; ``answers`` are given instead of what a path would answer."""

    about: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    keys: list[Any] = field(default_factory=lambda: [public()])
    answers: dict[str, web.Response] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    token: Any = None
    nonce: str = ""
    issuer: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if request.path in self.answers:
            return self.answers[request.path].__class__(
                status=self.answers[request.path].status,
                body=self.answers[request.path].body,
                headers=self.answers[request.path].headers,
            )
        if request.path == "/.well-known/openid-configuration":
            own = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/auth",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
            return web.json_response(own | self.about)
        if request.path == "/keys":
            return web.json_response({"keys": self.keys})
        self.forms.append(dict(await request.post()))
        self.headers.append(dict(request.headers))
        token = self.token or signed(claims(self.issuer, self.nonce, **self.claims))
        return web.json_response({"id_token": token, "access_token": "unused", "token_type": "bearer"})


@asynccontextmanager
async def lying_provider(**said: Any) -> AsyncIterator[LyingProvider]:
    """Run one."""
    provider = LyingProvider(**said)
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", provider.answer)
    async with on_loopback(app) as provider.issuer:
        yield provider
