"""The sign-in flow: a redirect to the provider, and the callback with its answer.

Source: OpenID Connect Core 1.0, 3.1; RFC 9700; RFC 9207.
"""

import asyncio
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from scorer.api.values.quoting import printable
from webhook.settings.environment import SettingsError
from webhook.settings.secret_files import SecretFile
from webhook.settings.sign_in import SignInOptions
from webhook.sign_in.claims import user_of
from webhook.sign_in.id_tokens import verify
from webhook.sign_in.provider import Provider, check_transport
from webhook.sign_in.sessions import PendingSignIn, Session, Sessions
from webhook.sign_in.trouble import SignInError, SignInFailure

LONGEST_CODE: Final = 4096


@dataclass(frozen=True, slots=True)
class SignInRedirect:
    """Address to send a browser to, and the sealed cookie that it must return."""

    address: str
    begun: str


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A user who has signed in.

    Args:
        session: The session.
        session_cookie: The sealed session.
        token_cookie: The sealed ID token. Empty: it is not kept, or is too large for a cookie.
    """

    session: Session
    session_cookie: str
    token_cookie: str = ""


class SignIn:
    """Signs users in.

    Args:
        options: The provider, and the mapping of its claims to users.
        now: The clock.
        tick: Monotonic clock in seconds.
        keeps_tokens: Whether the browser keeps the ID token as well, for the actions of the page.
    """

    def __init__(
        self,
        options: SignInOptions,
        now: Callable[[], datetime],
        tick: Callable[[], float],
        *,
        keeps_tokens: bool = False,
    ) -> None:
        self.keeps_tokens = keeps_tokens
        self._options = options
        self._now = now
        self._secrets = SecretFile(options.session_secret_file, "OIDC_SESSION_SECRET_FILE")
        self._provider = Provider(options, tick)
        self.name = options.name
        self.sessions = Sessions(options, self._secrets.read, now)

    async def check(self) -> None:
        """Check the settings. The provider is first contacted when a user signs in.

        Raises:
            SettingsError: The settings are unusable.
        """
        try:
            check_transport(self._options.issuer, "oidc_issuer_url")
        except SignInError as error:
            raise SettingsError(str(error)) from error
        await asyncio.to_thread(self._secrets.read)
        await asyncio.to_thread(self._provider.check_files)

    async def begin(self) -> SignInRedirect:
        """Start a sign-in.

        Raises:
            SignInError: The provider cannot be used.
        """
        pending = PendingSignIn.new()
        try:
            return SignInRedirect(await self._provider.address(pending), self.sessions.seal_sign_in(pending))
        except SettingsError as error:
            raise SignInError(SignInFailure.SETTINGS, str(error)) from error

    async def finish(self, query: Mapping[str, str], cookie: str) -> SignedIn:
        """Return the session of a user who returns from the provider.

        Args:
            query: Parameters of the provider's redirect.
            cookie: The sealed cookie of the browser.

        Raises:
            SignInError: The sign-in failed.
        """
        try:
            return await self._finish(query, cookie)
        except SettingsError as error:
            raise SignInError(SignInFailure.SETTINGS, str(error)) from error

    async def sign_out_address(self) -> str:
        """Return the address to send a browser to on sign-out. See `Provider.sign_out_address`."""
        try:
            return await self._provider.sign_out_address()
        except SettingsError:
            return f"{self._options.page}/"

    async def _finish(self, query: Mapping[str, str], cookie: str) -> SignedIn:
        options, pending = self._options, self.sessions.open_sign_in(cookie)
        state = query.get("state", "").encode("utf-8", "surrogateescape")
        if pending is None or not hmac.compare_digest(state, pending.state.encode()):
            raise SignInError(SignInFailure.STALE, "redirected back without a pending sign-in, or for another one")
        if query.get("iss", options.issuer) != options.issuer:
            raise SignInError(SignInFailure.PROVIDER, "redirected back from another provider: iss")
        if error := query.get("error"):
            trouble = SignInFailure.DENIED if error == "access_denied" else SignInFailure.PROVIDER
            raise SignInError(trouble, f"the provider returned the error {printable(error[:64])!r}")
        code = query.get("code", "")
        if not 0 < len(code) <= LONGEST_CODE:
            raise SignInError(SignInFailure.PROVIDER, "redirected back without a code")
        token = await self._provider.exchange(code, pending.verifier)
        claims = await verify(
            token,
            issuer=options.issuer,
            client_id=options.client_id,
            nonce=pending.nonce,
            find_key=self._provider.key,
            now=self._now(),
        )
        longest = self._now() + options.longest
        ends = datetime.fromtimestamp(min(float(claims["exp"]), longest.timestamp()), UTC)
        session = Session(user_of(claims, options), ends)
        sealed_token = self.sessions.close_token(session, token) if self.keeps_tokens else ""
        return SignedIn(session, self.sessions.close(session), sealed_token)
