"""``/sign-in`` and ``/sign-out``: the round trip to the provider, and the signed-in user.

Every sign-in, successful or not, redirects the browser to the page, which shows the result. Nothing in the request can
change the target. The page itself remembers its previous view.
"""

import asyncio
import logging
from typing import Final

from aiohttp import web

from scorer.api.meta import JsonObject, format_time
from webhook.endpoints.http.access_control import BEGUN, ID_TOKEN, SESSION, forget, get_cookie, is_of_page, set_cookie
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.rate_limits import TokenBuckets
from webhook.settings.access import AccessSettings
from webhook.sign_in.people import SignIn
from webhook.sign_in.provider import CALLBACK
from webhook.sign_in.sessions import BEGUN_LIFE
from webhook.sign_in.trouble import SignInError, SignInFailure

DONE: Final = "done"
MAX_CONCURRENT_SIGN_INS: Final = 20
"""Maximum number of concurrent redirects from the provider: each triggers a request to the provider."""
_NO_STORE: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}

_log = logging.getLogger(__name__)


def add_routes(api: Api, sign_in: SignIn, settings: AccessSettings) -> None:
    """Serve sign-in, its callback, the signed-in user and sign-out."""
    rate = settings.failed_logins_per_second
    callback_buckets = TokenBuckets(rate, max(1.0, rate))
    log_buckets = TokenBuckets(rate, max(1.0, rate))
    slots = asyncio.Semaphore(MAX_CONCURRENT_SIGN_INS)

    def failed(error: SignInError) -> web.Response:
        # Unauthenticated clients can trigger this log message, so it is throttled for each kind of failure.
        if not log_buckets.take(error.trouble, asyncio.get_running_loop().time()):
            _log.warning("not signed in", extra={"trouble": str(error.trouble), "reason": str(error)})
        return _to_page(error.trouble)

    async def begin(request: web.Request) -> web.Response:
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return _to_page()  # back to the page, where only the user can start a sign-in
        try:
            start = await sign_in.begin()
        except SignInError as error:
            return failed(error)
        response = _to(start.address)
        set_cookie(response, BEGUN, start.begun, BEGUN_LIFE)
        return response

    async def finish(request: web.Request) -> web.Response:
        cookie = get_cookie(request, BEGUN)
        if cookie is None:  # cheap, and any site can make browsers request it
            return failed(SignInError(SignInFailure.STALE, "redirected back without a pending sign-in"))
        if slots.locked() or callback_buckets.take(request.remote or "", asyncio.get_running_loop().time()):
            return failed(SignInError(SignInFailure.BUSY, "too many concurrent redirects"))
        try:
            async with slots:
                signed_in = await sign_in.finish(request.query, cookie)
        except SignInError as error:
            response = failed(error)
            if error.trouble is SignInFailure.STALE:  # another sign-in may have started here and be in progress
                return response
        else:
            response = _to_page(DONE)
            life = signed_in.session.ends - api.answers.now()
            set_cookie(response, SESSION, signed_in.session_cookie, life)
            if signed_in.token_cookie:
                set_cookie(response, ID_TOKEN, signed_in.token_cookie, life, "Strict")
            elif sign_in.keeps_tokens:
                forget(response, ID_TOKEN)  # that of an earlier session
                _log.info("ID token too large for a cookie, so actions of the page are unavailable to its user")
        forget(response, BEGUN)
        return response

    async def who(request: web.Request) -> web.Response:
        session = None
        if is_of_page(request, sign_in.sessions.page):
            session = sign_in.sessions.open(get_cookie(request, SESSION) or "")
        document: JsonObject = {"user": None}
        if session is not None:
            document = {"user": session.user.username, "endsAt": format_time(session.ends)}
        return web.json_response(document, headers=_NO_STORE)

    async def sign_out(request: web.Request) -> web.Response:
        if not is_of_page(request, sign_in.sessions.page):
            raise ProblemError(Problem.FORBIDDEN, "sign-out is accepted only from the page itself")
        response = web.json_response({"location": await sign_in.sign_out_address()}, headers=_NO_STORE)
        forget(response, SESSION)
        if sign_in.keeps_tokens:
            forget(response, ID_TOKEN)
        return response

    api.get("/sign-in", "/sign-in", begin, when_synced=False, open_to_all=True)
    api.get(CALLBACK, CALLBACK, finish, when_synced=False, open_to_all=True)
    api.get("/sign-in/session", "/sign-in/session", who, when_synced=False, open_to_all=True)
    api.post("/sign-out", "/sign-out", sign_out, when_synced=False, open_to_all=True)


def _to(address: str) -> web.Response:
    return web.Response(status=303, headers={"Location": address, **_NO_STORE})


def _to_page(outcome: str = "") -> web.Response:
    return _to(f"/?sign-in={outcome}" if outcome else "/")
