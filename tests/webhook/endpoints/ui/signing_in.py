"""A server that sends people to a provider, and browsers that have signed in."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

from tests.webhook.endpoints.callers_known import EVERYBODY, roster
from tests.webhook.endpoints.conftest import Clock
from tests.webhook.sign_in.lying_provider import PAGE, lying_provider, options
from webhook.access.user import UserInfo
from webhook.endpoints.http.access_control import SESSION
from webhook.sign_in.people import SignIn
from webhook.sign_in.sessions import Session

OF_PAGE = {"Sec_Fetch_Site": "same-origin"}
BY_PAGE = {**OF_PAGE, "Origin": PAGE}


@asynccontextmanager
async def signing_in(launch, tmp_path, *rights, actions=None, **how):
    """A server that sends people to a provider, whose callers have rights as the user ``ann``."""
    async with lying_provider(**how) as lying:
        known = roster(*rights)
        settings = options(tmp_path, lying.issuer)
        sign_in = SignIn(settings, Clock(timedelta()), lambda: 0.0, keeps_tokens=actions is not None)
        await sign_in.check()
        async with launch(authenticator=known, authorizer=known, sign_in=sign_in, actions=actions) as port:
            yield port, lying, sign_in


def session(sign_in, name="ann", groups=(), life=timedelta(hours=1)) -> dict[str, str]:
    """The header of a browser that has signed in."""
    ends = datetime.now(UTC) + life
    sealed = sign_in.sessions.close(Session(UserInfo(name, frozenset({*groups, EVERYBODY})), ends))
    return {"Cookie": f"{SESSION}={sealed}"}


async def kept_cookies(port, lying, sign_in):
    """Sign in; the cookies that the browser is given for that."""
    async with port.session() as browser:
        browser.headers.clear()
        async with browser.get(f"{port.url}/sign-in", allow_redirects=False) as begun:
            state = parse_qs(urlsplit(begun.headers["Location"]).query)["state"][0]
            kept = begun.headers.getall("Set-Cookie")[0].partition(";")[0]
        lying.nonce = sign_in.sessions.open_sign_in(kept.partition("=")[2]).nonce
        back = f"{port.url}/sign-in/callback?code=c0de&state={state}"
        async with browser.get(back, headers={"Cookie": kept}, allow_redirects=False) as answer:
            assert answer.headers["Location"] == "/?sign-in=done"
            return answer.headers.getall("Set-Cookie")
