"""Client of the OpenID Connect provider: its metadata, its keys, and the exchange of codes.

Every read is bounded, no redirect is followed, and every address that the provider names must be https or loopback. The
metadata and keys are cached for an hour. An unknown key causes an immediate refresh, throttled to one per ten seconds.

Source: OpenID Connect Discovery 1.0, 3 and 4; RFC 6749, 2.3.1 and 4.1.3; RFC 7636.
"""

import asyncio
import hashlib
import ssl
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp
import orjson

from scorer.api.meta import JsonObject
from scorer.api.values.quoting import printable, quote
from webhook.kube.transport.addresses import is_loopback
from webhook.kube.transport.sessions import session_with, trust_in
from webhook.runtime.files import read_bounded
from webhook.settings.environment import PREFIX, SettingsError
from webhook.settings.sign_in import SignInOptions
from webhook.sign_in.sessions import PendingSignIn
from webhook.sign_in.trouble import SignInError, SignInFailure

CALLBACK: Final = "/sign-in/callback"
LARGEST_ANSWER_BYTES: Final = 256 * 1024
CALL_SECONDS: Final = 10.0
KEPT_SECONDS: Final = 3600.0
AGAIN_SECONDS: Final = 10.0
"""Minimum time between two reads of the same document."""
MOST_KEYS: Final = 100
_FIRST_ERROR: Final = 500

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class _ProviderMetadata:
    """Metadata of a provider.

    Args:
        authorization: Address of the authorization endpoint.
        token: Address of the token endpoint.
        keys: Address of the keys.
        end_session: Address for sign-out at the provider, empty without one.
        by_post: Whether it accepts our secret only in the form, not in a header.
    """

    authorization: str
    token: str
    keys: str
    end_session: str
    by_post: bool


def check_transport(url: object, subject: str) -> str:
    """Return a URL that is safe for secrets and browsers: https, or http on this machine.

    Raises:
        SignInError: *url* is not safe.
    """
    if isinstance(url, str) and url.isprintable() and " " not in url:
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
        except ValueError:
            host = ""
        if host and not parts.fragment and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))):
            return url
    rule = "must be an https URL without spaces or a fragment (http only on loopback)"
    raise SignInError(SignInFailure.PROVIDER, f"{subject}: {quote(str(url)[:128])}: {rule}")


class Provider:
    """The configured provider.

    Methods raise `SettingsError` if a file of the options is unusable.

    Args:
        options: Address, and our client credentials.
        tick: Monotonic clock in seconds.
    """

    def __init__(self, options: SignInOptions, tick: Callable[[], float]) -> None:
        self._options = options
        self._about: _Kept[_ProviderMetadata] = _Kept(self._read_about, tick)
        self._keys: _Kept[tuple[JsonObject, ...]] = _Kept(self._read_keys, tick)

    async def about(self) -> _ProviderMetadata:
        """Return the metadata of the provider. Raises `SignInError`."""
        return await self._about.get()

    async def address(self, pending: PendingSignIn) -> str:
        """Return the address to send a browser to at the start of a sign-in. Raises `SignInError`."""
        options, challenge = self._options, hashlib.sha256(pending.verifier.encode()).digest()
        about = await self.about()
        return _with_query(
            about.authorization,
            {
                "response_type": "code",
                "client_id": options.client_id,
                "redirect_uri": options.page + CALLBACK,
                "scope": " ".join(options.scopes),
                "state": pending.state,
                "nonce": pending.nonce,
                "code_challenge": urlsafe_b64encode(challenge).decode().rstrip("="),
                "code_challenge_method": "S256",
            },
        )

    async def sign_out_address(self) -> str:
        """Return the address to send a browser to on sign-out: that of the provider, or of the page.

        It is that of the page if the provider has none or does not respond.
        """
        options = self._options
        try:
            about = await self.about()
        except SignInError:  # our own session has already ended
            return f"{options.page}/"
        if not about.end_session:
            return f"{options.page}/"
        parameters = {"client_id": options.client_id, "post_logout_redirect_uri": f"{options.page}/"}
        return _with_query(about.end_session, parameters)

    async def exchange(self, code: str, verifier: str) -> str:
        """Return the ID token for a code.

        Raises:
            SignInError: The provider does not respond, refuses the code or returns no token.
        """
        options, about = self._options, await self.about()
        secret = await asyncio.to_thread(self._client_secret)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": options.page + CALLBACK,
            "code_verifier": verifier,
        }
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if about.by_post:
            form |= {"client_id": options.client_id, "client_secret": secret}
        else:
            pair = f"{quote_plus(options.client_id)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        status, answer = await self._ask(about.token, urlencode(form).encode(), headers)
        if status != 200:
            error = printable(str(answer.get("error"))[:64])
            trouble = SignInFailure.CODE if error == "invalid_grant" else SignInFailure.PROVIDER
            raise SignInError(trouble, f"the provider refused the code: HTTP status {status}, {error}")
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise SignInError(SignInFailure.PROVIDER, "the provider returned no ID token")
        return token

    async def key(self, kid: str | None) -> JsonObject:
        """Return the key of an id, or the only key for a token without an id.

        Raises:
            SignInError: The key does not exist, or the keys cannot be read.
        """
        key = _find(await self._keys.get(), kid) or _find(await self._keys.get(again=True), kid)
        if key is None:
            raise SignInError(SignInFailure.TOKEN, "the ID token is signed by a key that the provider does not publish")
        return key

    async def _read_about(self) -> _ProviderMetadata:
        url = f"{self._options.issuer.rstrip('/')}/.well-known/openid-configuration"
        document = await self._document(url)
        if document.get("issuer") != self._options.issuer:
            issuer = quote(str(document.get("issuer"))[:128])
            raise SignInError(
                SignInFailure.PROVIDER,
                f"the issuer of the provider is {issuer}, but oidc_issuer_url is {self._options.issuer!r}",
            )
        ways = document.get("token_endpoint_auth_methods_supported")
        end = document.get("end_session_endpoint")
        return _ProviderMetadata(
            check_transport(document.get("authorization_endpoint"), "authorization_endpoint"),
            check_transport(document.get("token_endpoint"), "token_endpoint"),
            check_transport(document.get("jwks_uri"), "jwks_uri"),
            check_transport(end, "end_session_endpoint") if end else "",
            isinstance(ways, list) and "client_secret_basic" not in ways and "client_secret_post" in ways,
        )

    async def _read_keys(self) -> tuple[JsonObject, ...]:
        document = await self._document((await self.about()).keys)
        keys = document.get("keys")
        if not isinstance(keys, list) or len(keys) > MOST_KEYS:
            raise SignInError(SignInFailure.PROVIDER, f"jwks_uri: must have a list of at most {MOST_KEYS} keys")
        return tuple(key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig")

    async def _document(self, url: str) -> JsonObject:
        status, document = await self._ask(url, None, {"Accept": "application/json"})
        if status != 200:
            raise SignInError(SignInFailure.PROVIDER, f"{url}: {status}")
        return document

    async def _ask(self, url: str, form: bytes | None, headers: Mapping[str, str]) -> tuple[int, JsonObject]:
        """Return the status and the JSON object of a response.

        Raises:
            SignInError: The address is not safe, or its server does not respond with a JSON object.
            SettingsError: The file of the authorities is unusable.
        """
        check_transport(url, "oidc_issuer_url")
        try:
            trust = await asyncio.to_thread(self._trust) if url.startswith("https:") else True
            own = {"Accept-Encoding": "identity", **headers}
            method = "GET" if form is None else "POST"
            async with (
                asyncio.timeout(CALL_SECONDS),
                session_with(trust) as session,
                session.request(method, url, data=form, headers=own, allow_redirects=False) as response,
            ):
                body = await _bounded(response, url)
                status = response.status
        except TimeoutError as error:
            raise SignInError(SignInFailure.UNREACHABLE, f"{url}: no answer within {CALL_SECONDS:g} s") from error
        except (OSError, aiohttp.ClientError, ValueError) as error:
            raise SignInError(SignInFailure.UNREACHABLE, f"{url}: {type(error).__name__}: {error}") from error
        return status, _object(body, url, status)

    def _client_secret(self) -> str:
        path = self._options.client_secret_file
        location = f"{PREFIX}OIDC_CLIENT_SECRET_FILE: {str(path)!r}"
        try:
            secret = read_bounded(path).decode("ascii").strip()
        except OSError as error:
            raise SettingsError(f"{location}: {error.strerror}") from error
        except UnicodeDecodeError:
            raise SettingsError(f"{location}: is not ASCII text") from None
        if not secret or not secret.isprintable():
            raise SettingsError(f"{location}: must hold one line")
        return secret

    def _trust(self) -> ssl.SSLContext:
        return trust_in(self._options.ca, "OIDC_CA")

    def check_files(self) -> None:
        """Check that the files are usable.

        Raises:
            SettingsError: A file is unusable.
        """
        self._client_secret()
        self._trust()


class _Kept(Generic[ValueT]):
    """A cached value with a time to live. Concurrent callers share one read.

    Args:
        reader: Reads the value. Raises `SignInError`.
        tick: Monotonic clock in seconds.
    """

    def __init__(self, reader: Callable[[], Awaitable[ValueT]], tick: Callable[[], float]) -> None:
        self._read = reader
        self._tick = tick
        self._alone = asyncio.Lock()
        self._value: ValueT | None = None
        self._since = self._tried = float("-inf")
        self._failure: SignInError | None = None

    async def get(self, *, again: bool = False) -> ValueT:
        """Return the value. A cached value older than `KEPT_SECONDS` is read again.

        With *again*, a newer value is read again, too, unless the last read was within `AGAIN_SECONDS`.

        Raises:
            SignInError: See the reader. The error is repeated until `AGAIN_SECONDS` have passed.
        """
        async with self._alone:
            now = self._tick()
            value = self._value if now - self._since < KEPT_SECONDS else None
            if now - self._tried < AGAIN_SECONDS or (value is not None and not again):
                if value is not None:
                    return value
                if self._failure is not None:
                    raise SignInError(self._failure.trouble, str(self._failure))
            try:
                self._value = await self._read()
            except SignInError as error:
                self._failure = error
                raise
            finally:
                self._tried = self._tick()  # waiting callers have waited for this read, too
            self._since, self._failure = now, None
            return self._value


def _find(keys: tuple[JsonObject, ...], kid: str | None) -> JsonObject | None:
    if kid is None:
        return keys[0] if len(keys) == 1 else None
    return next((key for key in keys if key.get("kid") == kid), None)


async def _bounded(response: aiohttp.ClientResponse, url: str) -> bytes:
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > LARGEST_ANSWER_BYTES:
            raise SignInError(SignInFailure.PROVIDER, f"{url}: an answer of more than {LARGEST_ANSWER_BYTES} bytes")
    return bytes(body)


def _object(body: bytes, url: str, status: int) -> JsonObject:
    try:
        document: Any = orjson.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        trouble = SignInFailure.UNREACHABLE if status >= _FIRST_ERROR else SignInFailure.PROVIDER
        raise SignInError(trouble, f"{url}: HTTP status {status} without a JSON object")
    return document


def _with_query(url: str, members: Mapping[str, str]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(members)}"
