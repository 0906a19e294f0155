"""Authentication and authorization of callers.

A caller is identified by a verified client certificate, else by the bearer token, else by the session of a user who has
signed in to the page, else as anonymous. A SubjectAccessReview then authorizes the request, with the template of the
route as path and the method as verb: a ClusterRole with ``nonResourceURLs`` grants access.

A session counts only for routes that the page reads and, if enabled, for its actions. It counts only for requests of
the page itself: a browser attaches its cookie to requests that other sites initiate. A session authenticates the user.
Authorization is the same as for all other credentials.

After too many bad tokens from one source address, new tokens from there are not reviewed for a while. That affects
neither certificates nor tokens that were good before, which are reviewed again every minute regardless of other
requests from that address.

A new caller who shares an address with an attacker is throttled, not locked out. Tokens that claim to be for this
server are counted in lanes, by a hash that callers cannot compute, so an attacker would have to fill every lane. All
other credentials are counted separately.

An authenticated caller has a rate limit on ``/v1``. The extender has none: a scheduler calls it twice per pod, and
delaying it delays every pod. It limits itself, because it places one pod at a time.

Cookies: their names make browsers keep them for this host alone, and only if they were set over HTTPS. Scripts cannot
read them. A cookie proves nothing about the site that initiated the request: links and forms of other sites can send
requests here, too. So the origin and the site that browsers report must be those of the page. A GET or HEAD without
these headers counts as well, because only the page can read its response.

Source: docs/specifications/serving.md 3.4.
"""

import asyncio
import hashlib
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from aiohttp import web

from certs.context import CertificateSubject, StaleClientError
from scorer.api.family import FAMILIES, PLACEMENTS, PlacementRef, family_in
from scorer.api.kinds import EVICTION, UPGRADE_RUN, Kind
from scorer.api.values.quoting import printable
from webhook.access.bearer import bearer_token, fingerprint, may_be_good
from webhook.access.ports import NotReviewedError, PathAccess
from webhook.access.rights import Access
from webhook.access.user import UserInfo
from webhook.access.vouching import mark_authenticated
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.rate_limits import KeyedSemaphore, TokenBuckets
from webhook.endpoints.http.services import Admittance
from webhook.settings.access import AccessSettings
from webhook.telemetry.metrics import Metrics

Surface: TypeAlias = Literal["api", "extender"]

SURFACES: Final[tuple[Surface, ...]] = ("api", "extender")
ANONYMOUS: Final = UserInfo("system:anonymous", frozenset({"system:unauthenticated"}))
AUTHENTICATED: Final = "system:authenticated"
PLACEMENT_KINDS: Final = frozenset(PLACEMENTS)


DISRUPTING_KINDS: Final = frozenset(
    {EVICTION, UPGRADE_RUN, *(kind for family in FAMILIES for kind in (family.placement, family.run))}
)
"""Kinds whose objects disrupt members. A caller who may list all of them sees the name of the disrupting object."""


REVIEW_AGAIN_SECONDS: Final = 5
QUEUE_TIMEOUT_SECONDS: Final = 5.0
"""Maximum time that a token waits for the reviews of earlier tokens from the same address."""
LONGEST_NAME: Final = 320

NOT_PROXIED: Final = "the request must come from the front proxy of the hub: send it to the API server of the hub"
REALM: Final = 'Bearer realm="harbormaster"'

LANES: Final = 16
"""Lanes for tokens of one address that claim to be for this server. A lane allows a quarter of the failures that an
address may have without lanes, so all lanes together allow four times as many."""
MOST_GOOD: Final = 4096
"""Maximum number of remembered good tokens. The least recently reviewed one is evicted first."""

_SALT: Final = secrets.token_bytes(16)
"""Prevents callers from computing the lane of a token."""


class Credential(StrEnum):
    """How a caller has authenticated."""

    CERTIFICATE = "certificate"
    BEARER = "bearer"
    SESSION = "session"
    NONE = "none"


_CALLER: Final = web.RequestKey("CALLER", UserInfo)
_CREDENTIAL: Final = web.RequestKey("CREDENTIAL", Credential)
_NONE: Final[Mapping[str, str]] = {}

_log = logging.getLogger(__name__)


def caller_of(request: web.Request) -> UserInfo:
    """Return the sender of a request. On the plain listener, which does not authenticate, it is the anonymous user."""
    caller: UserInfo = request.get(_CALLER, ANONYMOUS)
    return caller


def credential_of(request: web.Request) -> Credential:
    """Return how the sender of a request has authenticated."""
    credential: Credential = request.get(_CREDENTIAL, Credential.NONE)
    return credential


class Callers:
    """Authenticates and authorizes callers.

    Args:
        admittance: Has the authenticator and the authorizer.
        now: The clock.
        settings: The limits.
        metrics: Counts the refused callers.
    """

    def __init__(
        self, admittance: Admittance, now: Callable[[], datetime], settings: AccessSettings, metrics: Metrics
    ) -> None:
        self._authenticator = admittance.authenticator
        self._authorizer = admittance.authorizer
        self._sessions = None if admittance.sign_in is None else admittance.sign_in.sessions
        self._front_proxy = admittance.front_proxy
        self._now = now
        self._anonymous_extender = settings.extender_allow_anonymous
        self._metrics = metrics
        self._requests = TokenBuckets(settings.requests_per_second, settings.request_burst)
        failures = max(1.0, settings.failed_logins_per_second)
        self._failures = TokenBuckets(settings.failed_logins_per_second, failures)
        in_lane = settings.failed_logins_per_second / 4
        self._lanes = TokenBuckets(in_lane, max(1.0, in_lane))
        self._looking = KeyedSemaphore(int(failures))
        self._good: OrderedDict[bytes, None] = OrderedDict()

    async def recognize(
        self, request: web.Request, surface: Surface, *, by_session: bool = False, writes: bool = False
    ) -> None:
        """Authenticate a request, for `caller_of`.

        Args:
            request: A request whose body is unread.
            surface: Determines the limits.
            by_session: Whether the session of the page counts for this request.
            writes: Whether the request may change the hub.

        Raises:
            ProblemError: No valid credentials (401), too many requests (429), or the hub does not respond (503).
        """
        now = asyncio.get_running_loop().time()
        credential = Credential.CERTIFICATE
        caller = self._by_certificate(request, surface)
        if caller is None:
            credential, caller = Credential.BEARER, await self._by_token(request, surface)
        if caller is None and surface == "api":
            credential, caller = Credential.SESSION, self._by_session(request, counts=by_session, writes=writes)
        if caller is None:
            credential = Credential.NONE
            if surface != "extender" or not self._anonymous_extender:
                raise self._stranger(surface)
            caller = ANONYMOUS
        mark_authenticated(request)
        request[_CALLER] = caller
        request[_CREDENTIAL] = credential
        if surface == "api" and (wait := self._requests.take((caller.username, caller.uid), now)):
            raise self._too_often(surface, f"rate limit of {shown(caller)} exceeded", wait)

    def recognize_proxied(self, request: web.Request) -> None:
        """Authenticate a request of the aggregated API, for `caller_of`. Only the front proxy may name users.

        No other credentials count. On all other routes, the headers of a front proxy are ignored.

        Raises:
            ProblemError: The request is not the front proxy's (401), or names no user (401), or too many requests of
                the user (429).
        """
        connection = None if request.transport is None else request.transport.get_extra_info("ssl_object")
        proxy = None if self._front_proxy is None else self._front_proxy()
        if connection is None or proxy is None:
            raise self._stranger("api", NOT_PROXIED)
        try:
            subject = CertificateSubject.of_proxy(connection, self._now())
        except StaleClientError as error:
            raise self._stranger("api", str(error), headers={"Connection": "close"}) from error
        if subject is None or not proxy.allows(subject.common_name):
            raise self._stranger("api", NOT_PROXIED)
        caller = proxy.user(request.headers)
        if caller is None:
            raise self._stranger("api", "the headers of the front proxy must name a user")
        mark_authenticated(request)
        request[_CALLER] = caller
        if wait := self._requests.take((caller.username, caller.uid), asyncio.get_running_loop().time()):
            raise self._too_often("api", f"rate limit of {shown(caller)} exceeded", wait)

    def _by_certificate(self, request: web.Request, surface: Surface) -> UserInfo | None:
        """Return the user in the client certificate, None without a certificate that has a common name.

        Raises:
            ProblemError: The certificate was valid when the connection was made, and no longer is (401).
        """
        connection = None if request.transport is None else request.transport.get_extra_info("ssl_object")
        if connection is None:
            return None
        try:
            subject = CertificateSubject.of_client(connection, self._now())
        except StaleClientError as error:
            raise self._stranger(surface, str(error), headers={"Connection": "close"}) from error
        if subject is None or not subject.common_name:  # as in Kubernetes, a certificate without a name counts as none
            return None
        return UserInfo(subject.common_name, subject.organizations | {AUTHENTICATED})

    async def _by_token(self, request: web.Request, surface: Surface) -> UserInfo | None:
        """Return the user of the bearer token, None without the header Authorization.

        Raises:
            ProblemError: The token is not valid (401), too many tokens from its address were invalid (429), or the hub
                did not review it in time (503).
        """
        header = request.headers.get("Authorization")
        if header is None:
            return None
        token, authenticator = bearer_token(header), self._authenticator
        if not token:
            raise self._stranger(surface)
        if caller := authenticator.cached(token):
            return caller
        way = self._way(request.remote or "", token, authenticator.audience)
        self._check_failures(way, surface)
        try:
            # Limit concurrent reviews: otherwise all tokens that arrive together would be reviewed before the first
            # fails, and the limit of failures would not hold.
            async with self._looking.acquire(way.key, QUEUE_TIMEOUT_SECONDS):
                # Repeat both checks: while this request waited for its turn, another one with the same token may have
                # been reviewed, or others of this lane may have failed.
                if caller := authenticator.cached(token):
                    return caller
                self._check_failures(way, surface)
                authenticated_user = await authenticator.authenticate(token)
                self._note(way, token, good=authenticated_user is not None)
        except NotReviewedError as error:
            raise _not_reviewed(error) from error
        except TimeoutError as error:
            raise _not_reviewed(NotReviewedError("too many tokens from one address")) from error
        if authenticated_user is None:
            raise self._stranger(surface)
        return authenticated_user

    def _by_session(self, request: web.Request, *, counts: bool, writes: bool) -> UserInfo | None:
        """Return the user of the browser's session, None without a session.

        Raises:
            ProblemError: The session has expired, or is not valid for this request (401).
        """
        session_cookie = None if self._sessions is None else get_cookie(request, SESSION)
        if self._sessions is None or session_cookie is None:
            return None
        if not counts:
            raise self._stranger(
                "api", "a session of the page is valid only for requests that the page makes. Use a token"
            )
        is_own = is_write_of_page if writes else is_of_page
        if not is_own(request, self._sessions.page):
            raise self._stranger("api", "a session of the page is valid only for requests from the page itself")
        session = self._sessions.open(session_cookie)
        if session is None:
            raise self._stranger("api", "the session has expired: sign in again")
        return session.user

    def _way(self, address: str, token: str, audience: str) -> "_Way":
        """Return the key that counts failures of this token."""
        name = fingerprint(token)
        if name in self._good:
            return _Way(None, name, address)
        if may_be_good(token, audience, self._now()):
            return _Way(self._lanes, (address, limit_key_of(token)), address)
        return _Way(self._failures, address, address)

    def _check_failures(self, way: "_Way", surface: Surface) -> None:
        if way.bucket is None:
            return
        if wait := way.bucket.wait(way.key, asyncio.get_running_loop().time()):
            raise self._too_often(surface, f"too many invalid credentials from {way.address}", wait)

    def _note(self, way: "_Way", token: str, *, good: bool) -> None:
        """Record the result of a review: a good token is not throttled again until a review rejects it."""
        name = fingerprint(token)
        if good:
            self._good[name] = None
            self._good.move_to_end(name)
            if len(self._good) > MOST_GOOD:
                self._good.popitem(last=False)
            return
        self._good.pop(name, None)
        bucket, key = (self._failures, way.address) if way.bucket is None else (way.bucket, way.key)
        bucket.charge(key, asyncio.get_running_loop().time())

    def _stranger(self, surface: Surface, detail: str = "", headers: Mapping[str, str] = _NONE) -> ProblemError:
        """Return the refusal of an unauthenticated caller. It does not reveal why a token was rejected."""
        self._metrics.rejected(surface, "unauthenticated")
        audience = self._authenticator.audience
        if not detail:
            audience_hint = f" for the audience {audience}" if audience else ""
            detail = f"the request must have a valid client certificate or a valid bearer token{audience_hint}"
        return ProblemError(
            Problem.UNAUTHENTICATED,
            detail,
            headers={"WWW-Authenticate": REALM, **headers},
            audience=audience,
        )

    def invalid_signature(self, request: web.Request, detail: str) -> ProblemError:
        """Count a request with a bad signature among the bad credentials of its address, and return its refusal.

        A good signature is never throttled, because verifying it takes no review.
        """
        address, now = request.remote or "", asyncio.get_running_loop().time()
        if wait := self._failures.wait(address, now):
            return self._too_often("api", f"too many invalid credentials from {address}", wait)
        self._failures.charge(address, now)
        self._metrics.rejected("api", "unauthenticated")
        return ProblemError(Problem.UNAUTHENTICATED, detail)

    def _too_often(self, surface: Surface, detail: str, wait: int) -> ProblemError:
        self._metrics.rejected(surface, "rate")
        return ProblemError(Problem.RATE_LIMITED, detail, retry_after=wait)

    async def authorize(self, request: web.Request, surface: Surface, route: str) -> None:
        """Authorize the request.

        Raises:
            ProblemError: The caller may not send it (403), or the hub does not respond (503).
        """
        caller = caller_of(request)
        if caller is ANONYMOUS:  # `recognize` admits anonymous callers only if a setting allows it
            return
        verb = "get" if request.method == "HEAD" else request.method.lower()
        access = PathAccess(verb, route)
        if not await self._may(caller, access):
            self._metrics.rejected(surface, "forbidden")
            raise ProblemError(Problem.FORBIDDEN, f"{shown(caller)} may not {access}")

    async def authorize_access(self, request: web.Request, access: Access) -> None:
        """Authorize a request of the aggregated API by the right to its resource. Raises as `authorize`."""
        caller = caller_of(request)
        if not await self._may(caller, access):
            self._metrics.rejected("api", "forbidden")
            raise ProblemError(Problem.FORBIDDEN, f"{shown(caller)} may not {access}")

    async def may_read(self, caller: UserInfo, ref: PlacementRef) -> bool:
        """Return whether *caller* may read a placement. Raises `ProblemError` if the hub does not respond."""
        return await self.may_get(caller, family_in(ref.namespace).placement, ref.name, ref.namespace)

    async def may_get(self, caller: UserInfo, kind: Kind, name: str, namespace: str) -> bool:
        """Return whether *caller* may get an object. Raises `ProblemError` if the hub does not respond."""
        return await self._may(caller, Access("get", kind.group, kind.plural, name, namespace))

    async def readable_kinds(
        self, caller: UserInfo, of: Iterable[Kind] = PLACEMENT_KINDS, namespace: str = ""
    ) -> frozenset[Kind]:
        """Return the kinds of *of* that *caller* may list, in one namespace or, without one, everywhere.

        Raises:
            ProblemError: The hub does not respond.
        """
        kinds = tuple(of)
        accesses = (Access("list", kind.group, kind.plural, namespace=namespace) for kind in kinds)
        answers = await asyncio.gather(*(self._may(caller, access) for access in accesses))
        return frozenset(kind for kind, may in zip(kinds, answers, strict=True) if may)

    async def _may(self, caller: UserInfo, access: Access | PathAccess) -> bool:
        try:
            return await self._authorizer.may(caller, access)
        except NotReviewedError as error:
            raise _not_reviewed(error) from error


@dataclass(frozen=True, slots=True)
class _Way:
    """Key by which failures of a token are counted.

    Args:
        bucket: Counts the failures. None: disabled, the token was good before, and failures of other tokens do not
            affect it.
        key: The key in that bucket. Tokens with the same key wait for one another.
        address: Source address of the token.
    """

    bucket: TokenBuckets | None
    key: Hashable
    address: str


def limit_key_of(token: str) -> int:
    """Return the lane of a token. Callers cannot choose it."""
    return hashlib.sha256(_SALT + fingerprint(token)).digest()[0] % LANES


def shown(caller: UserInfo) -> str:
    """Return the name of a caller for a message: quoted, without control characters, at most `LONGEST_NAME` long."""
    return f'"{printable(caller.username[:LONGEST_NAME])}"'


def _not_reviewed(error: NotReviewedError) -> ProblemError:
    _log.warning("credential review failed", extra={"reason": str(error)})
    detail = "the caller's credentials and rights could not be reviewed in time, or the hub refused the review"
    return ProblemError(Problem.NOT_READY, detail, retry_after=REVIEW_AGAIN_SECONDS)


SESSION: Final = "__Host-harbormaster-session"
BEGUN: Final = "__Host-harbormaster-sign-in"
ID_TOKEN: Final = "__Host-harbormaster-id-token"  # noqa: S105 - the name of a cookie
"""ID token of the session, only for the actions of the page."""
_READ: Final = frozenset({"GET", "HEAD"})
SameSite: TypeAlias = Literal["Lax", "Strict"]


def set_cookie(
    response: web.StreamResponse, name: str, value: str, life: timedelta, same_site: SameSite = "Lax"
) -> None:
    """Set a cookie that the browser keeps for *life*, at least for a second."""
    seconds = max(1, int(life.total_seconds()))
    response.set_cookie(name, value, max_age=seconds, path="/", secure=True, httponly=True, samesite=same_site)


def get_cookie(request: web.Request, name: str) -> str | None:
    """Return the value of a cookie, None if the request has none of this name.

    The library's parser is avoided: it splits a quoted value into several cookies, and accepts names after characters
    that only it treats as blanks. A sibling host, which cannot set a cookie of this name, could smuggle one in.
    """
    for pair in request.headers.get("Cookie", "").split(";"):
        cookie_name, has_value, value = pair.strip(" ").partition("=")
        if cookie_name == name and has_value:
            return value
    return None


def forget(response: web.StreamResponse, name: str) -> None:
    """Delete a cookie in the browser."""
    response.del_cookie(name, path="/", secure=True, httponly=True, samesite="Lax")


def is_write_of_page(request: web.Request, page: str) -> bool:
    """Return whether a script of the page initiated the request.

    Browsers attach both headers to each ``fetch`` of a POST. A form or a script of another site cannot set them.
    """
    headers = request.headers
    return headers.get("Origin") == page and headers.get("Sec-Fetch-Site") == "same-origin"


def is_of_page(request: web.Request, page: str) -> bool:
    """Return whether the page initiated the request, or the user by typing an address.

    A GET or HEAD without ``Origin`` and ``Sec-Fetch-Site`` counts as well.

    Args:
        request: A request with a cookie.
        page: The origin of the page.
    """
    reads = request.method in _READ
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
    if origin is not None and origin != page:
        return False
    if site is not None:
        return site == "same-origin" or (site == "none" and reads)
    return reads or origin is not None
