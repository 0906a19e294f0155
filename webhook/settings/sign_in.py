"""Sign-in to the page: an OpenID Connect provider, and the mapping of its tokens to users and groups.

The mapping has the same four settings as the ``--oidc-`` flags of kube-apiserver, so that a person is the same user for
both.

Source: Kubernetes, "Authenticating", OpenID Connect Tokens.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from webhook.settings.environment import Contradiction, Settings
from webhook.settings.values import SecondsWithin, Words, check_url

NO_PREFIX: Final = "-"
EMAIL: Final = "email"
RESERVED: Final = "system:"
"""Prefix of the users and groups of the cluster itself. A provider must not use it."""
LONGEST_SESSION_SECONDS: Final = 86_400
_ORIGIN: Final = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[1-9][0-9]*)?", re.ASCII)
"""Host and port as browsers write them. In any other spelling, the origin would never match that of a request."""
_NEEDED: Final = ("oidc_client_id", "oidc_client_secret_file", "oidc_session_secret_file", "oidc_page_url")


@dataclass(frozen=True, slots=True)
class SignInOptions:
    """The provider, and the mapping of its tokens to users.

    Args:
        issuer: Issuer URL of the provider.
        client_id: OAuth client ID.
        client_secret_file: File with the OAuth client secret.
        session_secret_file: File with the secrets that seal sessions.
        page: Origin of the page as browsers see it.
        scopes: Requested OAuth scopes.
        username_claim: Claim of the ID token with the username.
        username_prefix: Prefix of usernames.
        groups_claim: Claim of the ID token with the groups. Empty: users have no groups.
        groups_prefix: Prefix of groups.
        name: Display name of the provider on the page.
        longest: Maximum duration of a session.
        ca: CA file of the provider. None means that the authorities of the system apply.
    """

    issuer: str
    client_id: str
    client_secret_file: Path
    session_secret_file: Path
    page: str
    scopes: tuple[str, ...] = ("openid",)
    username_claim: str = "sub"
    username_prefix: str = ""
    groups_claim: str = ""
    groups_prefix: str = ""
    name: str = ""
    longest: timedelta = timedelta(hours=8)
    ca: Path | None = None


class SignInSettings(Settings):
    """The provider, and the mapping of its tokens to users."""

    oidc_issuer_url: str = Field(
        default="",
        max_length=2048,
        description="Issuer URL of the OpenID Connect provider for signing in to the page, exactly as the provider "
        "spells it. Empty: the page accepts tokens only.",
    )
    oidc_client_id: str = Field(default="", max_length=512, description="OAuth client ID.")
    oidc_client_secret_file: Path | None = Field(
        default=None,
        description="File with the OAuth client secret, read for every sign-in.",
    )
    oidc_session_secret_file: Path | None = Field(
        default=None,
        description=(
            "File with the secrets that encrypt sessions of the page, one per line, the same for all replicas, "
            "reloaded when it changes. Sessions are encrypted with the first secret, and decrypted with any of them."
        ),
    )
    oidc_page_url: str = Field(
        default="",
        max_length=2048,
        description="URL of the page as browsers see it, such as `https://fleet.example.com`. The provider must allow "
        "the redirect to `/sign-in/callback` there.",
    )
    oidc_ca: Path | None = Field(
        default=None,
        description="Certificate authorities of the provider in PEM, read for every call. Unset: those of the system.",
    )
    oidc_scopes: Words = Field(
        default=("openid", "profile", EMAIL),
        description="Requested scopes. Many providers issue groups only if the scope `groups` is requested.",
    )
    oidc_username_claim: str = Field(
        default="sub",
        min_length=1,
        max_length=256,
        description="Claim of the ID token with the user name. The claim `email` is refused if the token has "
        "`email_verified` with another value than `true`.",
    )
    oidc_username_prefix: str = Field(
        default="",
        max_length=256,
        description="Prefix of the user name. Empty: the issuer and `#`, for every claim except `email`. `-`: no "
        "prefix.",
    )
    oidc_groups_claim: str = Field(
        default="", max_length=256, description="Claim of the ID token with the groups. Empty: no groups."
    )
    oidc_groups_prefix: str = Field(
        default="",
        max_length=256,
        description=(
            "Prefix of every group, such as `oidc:`. Without a prefix, a group of the provider has the rights of the "
            "group of the same name on the hub. Empty: no prefix, and a warning. `-`: no prefix, no warning."
        ),
    )
    oidc_name: str = Field(
        default="",
        max_length=64,
        description="Name of the provider on the page, as in `Sign in with Example`. Empty: the host of its URL.",
    )
    oidc_session_seconds: SecondsWithin = Field(
        default=28_800,
        ge=60,
        le=LONGEST_SESSION_SECONDS,
        description="Maximum duration of a session of the page. It ends earlier if the ID token expires.",
    )

    @field_validator("oidc_issuer_url")
    @classmethod
    def _check_issuer(cls, url: str) -> str:
        if url and urlsplit(url).query:
            raise ValueError("must not have a query")
        return check_url(url, "https://accounts.example.com")

    @field_validator("oidc_username_prefix", "oidc_groups_prefix")
    @classmethod
    def _check_prefix(cls, prefix: str) -> str:
        if prefix.startswith(RESERVED):
            raise ValueError(f"must not start with {RESERVED}. Use a prefix such as oidc:")
        return prefix

    @field_validator("oidc_page_url")
    @classmethod
    def _check_page(cls, url: str) -> str:
        check_url(url, "https://fleet.example.com")
        parts = urlsplit(url)
        is_written_so = _ORIGIN.fullmatch(parts.netloc.lower()) is not None
        if url and (parts.scheme != "https" or not is_written_so or parts.path.strip("/") or parts.query):
            raise ValueError("must be https:// with a host and an optional port, in ASCII (`xn--…`)")
        return f"https://{parts.netloc.lower().removesuffix(':443')}" if url else ""  # as browsers write an origin

    @field_validator("oidc_scopes")
    @classmethod
    def _check_scopes(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise ValueError("must contain openid, without which the provider issues no ID token")
        if any(not scope.isascii() or not scope.isprintable() or set(scope) & set(' "\\') for scope in scopes):
            raise ValueError("a scope must not have invalid characters")
        return scopes

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield a provider without its required settings, and one file for both secrets."""
        yield from super().contradictions()
        if self.oidc_issuer_url:
            for name in _NEEDED:
                if not getattr(self, name):
                    yield Contradiction(
                        frozenset({"oidc_issuer_url", name}), f"oidc_issuer_url: must not be set without {name}"
                    )
            if self.oidc_session_secret_file is not None and (
                self.oidc_session_secret_file == self.oidc_client_secret_file
            ):
                names = frozenset({"oidc_client_secret_file", "oidc_session_secret_file"})
                yield Contradiction(
                    names,
                    "oidc_session_secret_file: must not be the file in oidc_client_secret_file: the provider "
                    "could forge sessions",
                )

    @property
    def has_bare_groups(self) -> bool:
        """Whether groups of the provider have no prefix by default, not by decision of the operator."""
        return bool(self.oidc_issuer_url and self.oidc_groups_claim and not self.oidc_groups_prefix)

    def sign_in(self) -> SignInOptions | None:
        """Return the sign-in options. None: disabled."""
        if not self.oidc_issuer_url or self.oidc_client_secret_file is None or self.oidc_session_secret_file is None:
            return None
        default = "" if self.oidc_username_claim == EMAIL else f"{self.oidc_issuer_url}#"
        groups_prefix = "" if self.oidc_groups_prefix == NO_PREFIX else self.oidc_groups_prefix
        prefix = "" if self.oidc_username_prefix == NO_PREFIX else self.oidc_username_prefix or default
        return SignInOptions(
            issuer=self.oidc_issuer_url,
            client_id=self.oidc_client_id,
            client_secret_file=self.oidc_client_secret_file,
            session_secret_file=self.oidc_session_secret_file,
            page=self.oidc_page_url,
            scopes=self.oidc_scopes,
            username_claim=self.oidc_username_claim,
            username_prefix=prefix,
            groups_claim=self.oidc_groups_claim,
            groups_prefix=groups_prefix,
            name=self.oidc_name or urlsplit(self.oidc_issuer_url).hostname or "",
            longest=timedelta(seconds=self.oidc_session_seconds),
            ca=self.oidc_ca,
        )
