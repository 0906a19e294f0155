"""Cookies of a browser during and after a sign-in, sealed so that only the replicas can read them.

No session is stored here, so none can be revoked individually. It ends with the ID token, or after the maximum time of
the settings. All sessions end when the secret that seals them is removed from its file, or a setting of the provider
changes.
"""

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import orjson

from webhook.access.user import UserInfo
from webhook.settings.environment import SettingsError
from webhook.settings.sign_in import SignInOptions
from webhook.sign_in.seal import BrokenSealError, Seal
from webhook.sign_in.trouble import SignInError, SignInFailure

LONGEST_COOKIE: Final = 3800
"""Maximum length of a sealed session: browsers keep 4,096 bytes of a cookie, its name included."""
BEGUN_LIFE: Final = timedelta(minutes=10)
"""Timeout of a sign-in at the provider."""
_SESSION: Final = b"harbormaster: session of the page"
_BEGUN: Final = b"harbormaster: sign-in to the page that has begun"
_TOKEN: Final = b"harbormaster: ID token of a session of the page"
_RANDOM_BYTES: Final = 32

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in user.

    Args:
        user: The user.
        ends: Expiry of the session.
    """

    user: UserInfo
    ends: datetime


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """A pending sign-in.

    Args:
        state: Returned by the browser.
        nonce: Returned in the ID token.
        verifier: Proves that the code is ours.
    """

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> "PendingSignIn":
        """Return a sign-in that starts now, with random values."""
        return cls(*(secrets.token_urlsafe(_RANDOM_BYTES) for _ in range(3)))


class Sessions:
    """Seals and opens the cookies of a browser.

    If the secrets cannot be read, `open` and `open_token` log that and return None. All other methods raise
    `SettingsError`.

    Args:
        options: All settings that a session depends on.
        secrets_now: Returns the valid secrets.
        now: The clock.
    """

    def __init__(
        self, options: SignInOptions, secrets_now: Callable[[], tuple[str, ...]], now: Callable[[], datetime]
    ) -> None:
        bound = repr(options).encode()
        self.page = options.page
        self._sessions = Seal(_SESSION, bound, secrets_now)
        self._begun = Seal(_BEGUN, bound, secrets_now)
        self._tokens = Seal(_TOKEN, bound, secrets_now)
        self._now = now

    def close(self, session: Session) -> str:
        """Seal a session.

        Raises:
            SignInError: The session is too large for a cookie.
        """
        user = session.user
        document = {"user": user.username, "groups": sorted(user.groups), "ends": int(session.ends.timestamp())}
        ciphertext = self._sessions.close(orjson.dumps(document))
        if len(ciphertext) > LONGEST_COOKIE:
            reason = (
                f"the session has {len(ciphertext)} characters with {len(user.groups)} groups, "
                f"must have at most {LONGEST_COOKIE}"
            )
            raise SignInError(SignInFailure.GROUPS, reason)
        return ciphertext

    def open(self, text: str) -> Session | None:
        """Return the sealed session, or None if it is invalid or has expired."""
        try:
            document = orjson.loads(self._sessions.open(text))
        except BrokenSealError:
            return None
        except SettingsError as error:
            _log.warning("session secrets not read", extra={"reason": str(error)})
            return None
        ends = datetime.fromtimestamp(document["ends"], UTC)
        if ends <= self._now():
            return None
        return Session(UserInfo(document["user"], frozenset(document["groups"])), ends)

    def close_token(self, session: Session, token: str) -> str:
        """Seal the ID token of a session. Empty: it is too large for a cookie."""
        ends = int(session.ends.timestamp())
        ciphertext = self._tokens.close(orjson.dumps([session.user.username, token, ends]))
        return ciphertext if len(ciphertext) <= LONGEST_COOKIE else ""

    def open_token(self, text: str, username: str) -> str | None:
        """Return the sealed ID token of a user's session, or None if it is invalid, expired or of another user."""
        try:
            owner, token, ends = orjson.loads(self._tokens.open(text))
        except BrokenSealError:
            return None
        except SettingsError as error:
            _log.warning("session secrets not read", extra={"reason": str(error)})
            return None
        return str(token) if owner == username and ends > self._now().timestamp() else None

    def seal_sign_in(self, pending: PendingSignIn) -> str:
        """Seal a sign-in that starts now."""
        ends = int((self._now() + BEGUN_LIFE).timestamp())
        return self._begun.close(orjson.dumps([pending.state, pending.nonce, pending.verifier, ends]))

    def open_sign_in(self, text: str) -> PendingSignIn | None:
        """Return the sealed sign-in, or None if it is invalid or has timed out."""
        try:
            *fields, ends = orjson.loads(self._begun.open(text))
        except BrokenSealError:
            return None
        return PendingSignIn(*fields) if ends > self._now().timestamp() else None
