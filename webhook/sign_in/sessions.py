"""What a browser keeps while somebody signs in, and once they have: sealed, so that all replicas alone can read it.

Nothing of a session is kept here, so none can be called back: it ends by itself, with the ID token or after the longest
time that the settings allow, and all of them end when the secret that seals them is taken out of its file, or a setting
of the provider changes.
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
"""Letters of a sealed session: browsers keep 4,096 bytes of a cookie, its name included."""
BEGUN_LIFE: Final = timedelta(minutes=10)
"""How long somebody may take at the provider."""
_SESSION: Final = b"harbormaster: session of the page"
_BEGUN: Final = b"harbormaster: sign-in to the page that has begun"
_RANDOM_BYTES: Final = 32

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has signed in.

    Args:
        user: Who it is.
        ends: When they have to sign in again.
    """

    user: UserInfo
    ends: datetime


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """A sign-in that has begun.

    Args:
        state: Comes back with the browser.
        nonce: Comes back in the ID token.
        verifier: Shows that the code is ours.
    """

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> "PendingSignIn":
        """Begin one."""
        return cls(*(secrets.token_urlsafe(_RANDOM_BYTES) for _ in range(3)))


class Sessions:
    """Seals and opens what a browser keeps.

    Args:
        options: All that a session depends on.
        secrets_now: Returns the secrets that count now.
        now: The clock.
    """

    def __init__(
        self, options: SignInOptions, secrets_now: Callable[[], tuple[str, ...]], now: Callable[[], datetime]
    ) -> None:
        bound = repr(options).encode()
        self.page = options.page
        self._sessions = Seal(_SESSION, bound, secrets_now)
        self._begun = Seal(_BEGUN, bound, secrets_now)
        self._now = now

    def close(self, session: Session) -> str:
        """Seal a session.

        Raises:
            SignInError: It is too large for a cookie.
        """
        user = session.user
        document = {"user": user.username, "groups": sorted(user.groups), "ends": int(session.ends.timestamp())}
        ciphertext = self._sessions.close(orjson.dumps(document))
        if len(ciphertext) > LONGEST_COOKIE:
            reason = (
                f"{len(user.groups)} groups make a session of {len(ciphertext)} letters: a cookie has {LONGEST_COOKIE}"
            )
            raise SignInError(SignInFailure.GROUPS, reason)
        return ciphertext

    def open(self, text: str) -> Session | None:
        """Return the session that was sealed; None: none was by us, or it has ended."""
        try:
            document = orjson.loads(self._sessions.open(text))
        except BrokenSealError:
            return None
        except SettingsError as error:
            _log.warning("sessions cannot be opened", extra={"reason": str(error)})
            return None
        ends = datetime.fromtimestamp(document["ends"], UTC)
        if ends <= self._now():
            return None
        return Session(UserInfo(document["user"], frozenset(document["groups"])), ends)

    def seal_sign_in(self, pending: PendingSignIn) -> str:
        """Seal a sign-in that begins now."""
        ends = int((self._now() + BEGUN_LIFE).timestamp())
        return self._begun.close(orjson.dumps([pending.state, pending.nonce, pending.verifier, ends]))

    def open_sign_in(self, text: str) -> PendingSignIn | None:
        """Return the sign-in that was sealed; None: none was by us, or it began too long ago."""
        try:
            *fields, ends = orjson.loads(self._begun.open(text))
        except BrokenSealError:
            return None
        return PendingSignIn(*fields) if ends > self._now().timestamp() else None
