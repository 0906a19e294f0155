"""Signing in to the page, and what the session of a browser counts for: what the page reads, and nothing else."""

import json
import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web

from tests.webhook.actions.hubs import KnownHubs
from tests.webhook.endpoints.asking import PAYMENTS, assert_problem, routes
from tests.webhook.endpoints.callers_known import EVERYBODY, roster
from tests.webhook.endpoints.conftest import Clock
from tests.webhook.endpoints.ui.signing_in import BY_PAGE, OF_PAGE, session, signing_in
from tests.webhook.sign_in.lying_provider import PAGE, SEALING, SECRET, lying_provider, options
from webhook.actions.page_actions import PageActions
from webhook.endpoints.http.access_control import BEGUN, SESSION
from webhook.runtime.clock import utc_now
from webhook.sign_in.people import SignIn

RIGHTS = ("get /v1/clusters", "post /v1/explain", "post /v1/plan", "get /v1/events")
EXPLAIN = json.dumps({"placement": PAYMENTS}).encode()


def cookies(answer) -> dict[str, str]:
    """The cookies that an answer sets; `Connection` keeps one header of a name, so there has to be one."""
    name, _, rest = answer.headers.get("Set-Cookie", "=").partition("=")
    return {name: rest.partition(";")[0]}


def begun_of(sign_in, answer):
    """What the browser keeps while somebody is at the provider, opened."""
    return sign_in.sessions.open_sign_in(cookies(answer)[BEGUN])


async def come_back(port, lying, sign_in, query="", **headers):
    """Begin to sign in and come back; the answer to that."""
    async with port.dial(token="") as connection:
        begun = await connection.get("/sign-in", **OF_PAGE)
        assert begun.status == 303, begun.body
        state = parse_qs(urlsplit(begun.headers["Location"]).query)["state"][0]
        lying.nonce = lying.nonce or begun_of(sign_in, begun).nonce
        cookie = {"Cookie": f"{BEGUN}={cookies(begun)[BEGUN]}"}
        path = f"/sign-in/callback?{query or f'code=c0de&state={state}'}"
        return await connection.get(path, **(cookie | headers))


async def test_who_signs_in_is_judged_like_everybody_else(launch, tmp_path):
    said = {"claims": {"groups": ["viewers"]}}
    async with signing_in(launch, tmp_path, **said) as (port, lying, sign_in), port.session() as browser:
        browser.headers.clear()
        async with browser.get(f"{port.url}/sign-in", allow_redirects=False) as begun:
            state = parse_qs(urlsplit(begun.headers["Location"]).query)["state"][0]
            kept = begun.headers.getall("Set-Cookie")[0]
        lying.nonce = sign_in.sessions.open_sign_in(kept.partition("=")[2].partition(";")[0]).nonce
        async with browser.get(
            f"{port.url}/sign-in/callback?code=c0de&state={state}",
            headers={"Cookie": kept.partition(";")[0]},
            allow_redirects=False,
        ) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/?sign-in=done")
            given, taken = answer.headers.getall("Set-Cookie")
        for cookie in (kept, given, taken):
            assert re.match(r"__Host-harbormaster-(session|sign-in)=", cookie)
            assert {"HttpOnly", "Secure", "Path=/", "SameSite=Lax"} <= set(cookie.split("; ")), cookie
        assert "Max-Age=600" in kept
        assert "Max-Age=0" in taken
        assert re.search(r"Max-Age=(59\d|600)", given)  # with the ID token
        mine = {"Cookie": given.partition(";")[0]}
        async with port.dial(token="") as connection:
            problem = assert_problem(await connection.get("/v1/clusters", **mine, **OF_PAGE), "forbidden", 403)
            assert problem["detail"] == '"ann" may not get /v1/clusters'
        assert lying.forms[0]["code_verifier"]


async def test_groups_are_what_rights_are_given_to(launch, tmp_path):
    """The user that rights are asked for has the groups of the session, and those alone."""
    seen = []

    class Known:
        audience = ""

        async def may(self, user, _wanted):
            seen.append((user.username, user.groups))
            return True

    async with lying_provider() as lying:
        sign_in = SignIn(options(tmp_path, lying.issuer), Clock(timedelta()), lambda: 0.0)
        async with (
            launch(authenticator=roster(), authorizer=Known(), sign_in=sign_in) as port,
            port.dial(token="") as connection,
        ):
            answer = await connection.get("/v1/clusters", **session(sign_in, groups=("viewers",)), **OF_PAGE)
            assert answer.status == 200
    assert set(seen) == {("ann", frozenset({"viewers", EVERYBODY}))}


@pytest.mark.parametrize(
    ("query", "said", "trouble"),
    [
        pytest.param("error=access_denied&state={state}", {}, "denied", id="denied"),
        pytest.param("error=server_error&state={state}", {}, "provider", id="error-of-the-provider"),
        pytest.param("state={state}", {}, "provider", id="no-code"),
        pytest.param("code=" + "c" * 4097 + "&state={state}", {}, "provider", id="a-code-that-is-none"),
        pytest.param("code=c0de&state=other", {}, "stale", id="state-of-another"),
        pytest.param("code=c0de", {}, "stale", id="no-state"),
        pytest.param("code=c0de&state={state}&iss=https://evil/", {}, "provider", id="iss-of-another"),
        pytest.param("", {"nonce": "that-of-another"}, "token", id="nonce-of-another"),
        pytest.param("", {"claims": {"exp": 1}}, "clock", id="expired"),
        pytest.param("", {"claims": {"aud": "other"}}, "token", id="aud-of-another"),
        pytest.param("", {"claims": {"iss": "https://evil"}}, "token", id="token-of-another"),
        pytest.param("", {"claims": {"groups": [f"group-{n:05}" for n in range(300)]}}, "groups", id="groups"),
        pytest.param("", {"claims": {"groups": ["system:masters"]}}, "claims", id="a-group-of-the-cluster"),
        pytest.param("", {"claims": {"sub": "\ud800"}}, "claims", id="a-name-that-is-no-text"),
        pytest.param("", {"claims": {"groups": ["a", "\udc80"]}}, "claims", id="a-group-that-is-no-text"),
    ],
)
async def test_who_is_not_signed_in(launch, tmp_path, caplog, query, said, trouble):
    async with signing_in(launch, tmp_path, **said) as (port, lying, sign_in), port.dial(token="") as connection:
        begun = await connection.get("/sign-in", **OF_PAGE)
        state = parse_qs(urlsplit(begun.headers["Location"]).query)["state"][0]
        lying.nonce = lying.nonce or begun_of(sign_in, begun).nonce
        cookie = {"Cookie": f"{BEGUN}={cookies(begun)[BEGUN]}"}
        query = query.format(state=state) or f"code=c0de&state={state}"
        answer = await connection.get(f"/sign-in/callback?{query}", **cookie)
    assert (answer.status, answer.headers["Location"]) == (303, f"/?sign-in={trouble}")
    assert SESSION not in answer.headers.get("Set-Cookie", "")
    assert "not signed in" in caplog.text
    for secret in ("c0de", SECRET, SEALING, state, begun_of(sign_in, begun).verifier, "eyJ"):
        assert secret not in " ".join(str(record.__dict__) for record in caplog.records)


async def test_a_code_that_has_been_used_signs_nobody_in(launch, tmp_path):
    refused = web.Response(status=400, text='{"error":"invalid_grant","error_description":"used"}')
    async with signing_in(launch, tmp_path, answers={"/token": refused}) as (port, lying, sign_in):
        assert (await come_back(port, lying, sign_in)).headers["Location"] == "/?sign-in=code"


async def test_who_has_begun_nothing_here_is_not_signed_in(launch, tmp_path):
    """As when somebody is made to follow a link with a code and a state of the attacker's."""
    async with signing_in(launch, tmp_path) as (port, lying, sign_in):
        for cookie in ("", f"{BEGUN}=made-up", f"{BEGUN}={session(sign_in)['Cookie'].partition('=')[2]}"):
            answer = await come_back(port, lying, sign_in, Cookie=cookie)
            assert answer.headers["Location"] == "/?sign-in=stale"
        assert lying.forms == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_no_other_site_begins_a_sign_in(launch, tmp_path, site):
    async with signing_in(launch, tmp_path) as (port, lying, _), port.dial(token="") as connection:
        answer = await connection.get("/sign-in", Sec_Fetch_Site=site)
        assert (answer.headers["Location"], "Set-Cookie" in answer.headers, lying.asked) == ("/", False, [])


async def test_where_one_comes_back_to_is_nobody_elses_to_say(launch, tmp_path):
    async with signing_in(launch, tmp_path) as (port, _lying, _sign_in):
        query = "code=c0de&state=x&next=https://evil/&redirect_uri=https://evil/"
        for path in (f"/sign-in?{query}", f"/sign-in/callback?{query}"):
            async with port.dial(token="") as connection:
                answer = await connection.get(path, Host="evil.example.com", X_Forwarded_Host="evil.example.com")
                assert "evil" not in answer.headers["Location"]


async def test_a_provider_that_is_away_is_said(launch, tmp_path):
    async with lying_provider() as gone:
        issuer = gone.issuer
    sign_in = SignIn(options(tmp_path, issuer), Clock(timedelta()), lambda: 0.0)
    async with launch(sign_in=sign_in) as port, port.dial(token="") as connection:
        assert (await connection.get("/sign-in", **OF_PAGE)).headers["Location"] == "/?sign-in=unreachable"


async def test_a_secret_that_is_gone_is_said(launch, tmp_path):
    async with signing_in(launch, tmp_path) as (port, lying, sign_in):
        (tmp_path / "client").unlink()
        assert (await come_back(port, lying, sign_in)).headers["Location"] == "/?sign-in=settings"


async def test_too_many_who_come_back_wait(launch, tmp_path):
    async with signing_in(launch, tmp_path) as (port, _, _), port.dial(token="") as connection:
        said = [
            (await connection.get("/sign-in/callback", **cookie)).headers["Location"]
            # those of another site's pictures have no cookie, and come from the address of somebody who looks at them
            for cookie in [{}] * 20 + [{"Cookie": f"{BEGUN}=made-up"}] * 6
        ]
    assert said == [*["/?sign-in=stale"] * 25, "/?sign-in=busy"]


async def test_strangers_do_not_fill_the_log(launch, tmp_path, caplog):
    async with lying_provider() as gone:
        issuer = gone.issuer
    sign_in = SignIn(options(tmp_path, issuer), Clock(timedelta()), lambda: 0.0)
    async with (
        launch(sign_in=sign_in, failed_logins_per_second=0.001) as port,
        port.dial(token="") as connection,
    ):
        for path in ("/sign-in/callback", "/sign-in"):
            for _ in range(10):
                await connection.get(path, Cookie=f"{BEGUN}=made-up", **OF_PAGE)
    said = [record.trouble for record in caplog.records if record.message == "not signed in"]
    assert said == ["stale", "busy", "unreachable"]


@pytest.fixture
async def signed_in(launch, tmp_path):
    async with signing_in(launch, tmp_path, *RIGHTS) as (port, _, sign_in):
        yield port, sign_in


READ = [
    pytest.param("GET", "/v1/clusters", OF_PAGE, id="page"),
    pytest.param("HEAD", "/v1/clusters", OF_PAGE, id="page-head"),
    pytest.param("GET", "/v1/clusters", {"Sec_Fetch_Site": "none"}, id="typed"),
    pytest.param("GET", "/v1/clusters", {}, id="browser-that-does-not-say"),
    pytest.param("POST", "/v1/explain", BY_PAGE, id="page-post"),
    pytest.param("POST", "/v1/explain", {"Origin": PAGE}, id="page-post-of-a-browser-that-does-not-say"),
]


async def ask(port, method, path, headers):
    async with port.dial(token="") as connection:
        if method == "POST":
            return await connection.post(path, EXPLAIN, **headers)
        return await connection.get(path, method, **headers)


@pytest.mark.parametrize(("method", "path", "headers"), READ)
async def test_what_the_page_reads(signed_in, method, path, headers):
    port, sign_in = signed_in
    answer = await ask(port, method, path, {**session(sign_in), **headers})
    assert answer.status == (200 if method != "POST" else 404), answer.body  # ann may not read the placement
    # without Authorization, a proxy could keep it for others
    assert answer.headers["Cache-Control"] == ("private, no-cache" if method != "POST" else "no-store")


EVIL = "https://evil.example.com"


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        pytest.param("GET", "/v1/clusters", {"Sec_Fetch_Site": "cross-site"}, id="another-site"),
        pytest.param("GET", "/v1/clusters", {"Sec_Fetch_Site": "same-site"}, id="a-host-beside-ours"),
        pytest.param("GET", "/v1/clusters", {"Origin": EVIL}, id="another-origin"),
        pytest.param("GET", "/v1/clusters", {"Origin": "null"}, id="no-origin"),
        pytest.param("GET", "/v1/clusters", {**OF_PAGE, "Origin": EVIL}, id="two-that-differ"),
        pytest.param("POST", "/v1/explain", {"Sec_Fetch_Site": "cross-site", "Origin": PAGE}, id="post-another-site"),
        pytest.param("POST", "/v1/explain", {**OF_PAGE, "Origin": EVIL}, id="post-another-origin"),
        pytest.param("POST", "/v1/explain", {"Sec_Fetch_Site": "none"}, id="post-typed"),
        pytest.param("POST", "/v1/explain", {}, id="post-without-a-word"),
        pytest.param("POST", "/v1/plan", {"Origin": EVIL}, id="what-if"),
    ],
)
async def test_what_another_site_makes_a_browser_ask(signed_in, method, path, headers):
    port, sign_in = signed_in
    answer = await ask(port, method, path, {**session(sign_in), **headers})
    assert assert_problem(answer, "unauthenticated", 401)["detail"].endswith("only for requests from the page itself")


COUNTS = {"/v1/explain", "/v1/plan", "/v1/render"}
COUNTS_WITH_ACTIONS = COUNTS | {"/v1/actions"}
OPEN_TO_ALL = {"/v1/openapi.json", "/v1/upgrade/operations/{run}/{member}/{attempt}/status"}


@pytest.mark.parametrize(
    ("actions", "counts"),
    [
        pytest.param(None, COUNTS, id="read-only"),
        pytest.param(PageActions(KnownHubs(), utc_now), COUNTS_WITH_ACTIONS, id="with-actions"),
    ],
)
async def test_a_session_counts_for_no_write_and_for_nobody_but_the_page(launch, tmp_path, actions, counts):
    """Whatever is added to the router later: a session is no credential for it, unless it is on this list.

    The only write on it is that of the page's actions, if they are enabled: see `test_actions`.
    """
    async with signing_in(launch, tmp_path, *RIGHTS, actions=actions) as (port, _, sign_in):
        await count_sessions(port, sign_in, counts)


async def count_sessions(port, sign_in, counts):
    found = routes(port.server._https.app)
    assert counts <= set(found)
    kept = {**session(sign_in), **BY_PAGE}
    asked = 0
    for path in found:
        if not path.startswith(("/v1", "/extender")) or path in OPEN_TO_ALL:
            continue
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            if method == "POST" and path in counts:
                continue
            async with port.dial(token="") as connection:
                answer = await connection.get(path, method, **kept)
                assert answer.status == 401, (method, path)
                asked += 1
    assert asked > 60
    for path in ("/v1/gate/disruption", "/v1/gate/reservations", "/v1/score"):
        answer = await ask(port, "POST", path, kept)
        detail = assert_problem(answer, "unauthenticated", 401)["detail"]
        assert detail == "a session of the page is valid only for requests that the page makes. Use a token"


async def test_a_session_is_no_credential_of_a_scheduler_or_an_api_server(launch, tmp_path):
    async with lying_provider() as lying:
        sign_in = SignIn(options(tmp_path, lying.issuer), Clock(timedelta()), lambda: 0.0)
        strict = {"plain_admission_paths": False}
        async with launch(sign_in=sign_in, metrics_auth=True, **strict) as port:
            kept = {**session(sign_in, "owner"), **BY_PAGE}
            for path in ("/extender/filter", "/metrics", "/validate/x/y", "/mutate/x/y"):
                method = "GET" if path == "/metrics" else "POST"
                assert (await ask(port, method, path, kept)).status in (401, 403, 404), path
            assert (await ask(port, "GET", "/metrics", kept)).status == 401


async def test_a_token_wins_over_a_session(signed_in):
    port, sign_in = signed_in
    kept = session(sign_in, "bob")
    async with port.dial(token="t-ann") as connection:
        assert (await connection.get("/v1/clusters", **kept, **OF_PAGE)).status == 200
    async with port.dial(token="wrong") as connection:
        answer = await connection.get("/v1/clusters", **session(sign_in), **OF_PAGE)
        assert "must have a valid client certificate or" in assert_problem(answer, "unauthenticated", 401)["detail"]


async def test_a_session_that_has_ended_or_is_not_ours_is_none(signed_in, tmp_path):
    port, sign_in = signed_in
    other = tmp_path / "other"
    other.mkdir()
    settings = options(other, "https://another.example.com")
    foreign = SignIn(settings, Clock(timedelta()), lambda: 0.0)
    good = session(sign_in)["Cookie"]
    for cookie in (
        session(sign_in, life=timedelta(seconds=-1))["Cookie"],
        session(foreign)["Cookie"],
        good[:-10] + ("A" if good[-10] != "A" else "B") + good[-9:],
        f"{SESSION}=",
        f"{SESSION}=made-up",
    ):
        answer = await ask(port, "GET", "/v1/clusters", {"Cookie": cookie, **OF_PAGE})
        assert assert_problem(answer, "unauthenticated", 401)["detail"] == "the session has expired: sign in again"
    assert (await ask(port, "GET", "/v1/clusters", {"Cookie": good, **OF_PAGE})).status == 200
    (tmp_path / "sealing").write_text("t" * 40, encoding="ascii")
    assert (await ask(port, "GET", "/v1/clusters", {"Cookie": good, **OF_PAGE})).status == 401


DISGUISED = [
    pytest.param('x="a" {cookie}', id="behind-a-quoted-one"),
    pytest.param('x=1 "{cookie}', id="in-a-quotation"),
    pytest.param("\u2000{cookie}", id="behind-a-blank-that-is-no-blank"),
    pytest.param("\xa0{cookie}", id="behind-another"),
    pytest.param("x=a, {cookie}", id="behind-a-comma"),
    pytest.param("x\t{cookie}", id="behind-a-tab"),
]


@pytest.mark.parametrize("disguise", DISGUISED)
async def test_a_cookie_that_a_host_beside_ours_can_set_is_none(signed_in, disguise):
    """Browsers take one whose name begins with `__Host-` from no other host, but a quoted value may hold its like."""
    port, sign_in = signed_in
    planted = disguise.format(cookie=session(sign_in, "mallory")["Cookie"])
    async with port.dial(token="") as connection:
        said = await connection.get("/sign-in/session", Cookie=planted, **OF_PAGE)
        assert said.json == {"user": None}
        both = f"{session(sign_in)['Cookie']}; {planted}"
        assert (await connection.get("/sign-in/session", Cookie=both, **OF_PAGE)).json["user"] == "ann"
        before = f"{planted}; {session(sign_in)['Cookie']}"
        assert (await connection.get("/sign-in/session", Cookie=before, **OF_PAGE)).json["user"] == "ann"


async def test_no_host_beside_ours_has_somebody_come_back_as_another(launch, tmp_path):
    async with signing_in(launch, tmp_path) as (port, lying, _sign_in), port.dial(token="") as connection:
        begun = await connection.get("/sign-in", **OF_PAGE)
        state = parse_qs(urlsplit(begun.headers["Location"]).query)["state"][0]
        planted = f'x="a" {BEGUN}={cookies(begun)[BEGUN]}'
        answer = await connection.get(f"/sign-in/callback?code=c0de&state={state}", Cookie=planted)
        assert (answer.headers["Location"], lying.forms) == ("/?sign-in=stale", [])


async def test_a_way_back_that_was_never_begun_leaves_the_one_that_was(launch, tmp_path):
    """Another site, or another tab, brings somebody back while they are still at the provider."""
    async with signing_in(launch, tmp_path) as (port, lying, sign_in):
        answer = await come_back(port, lying, sign_in, "code=c0de&state=other")
        assert (answer.headers["Location"], cookies(answer)) == ("/?sign-in=stale", {"": ""})


async def test_where_nobody_signs_in_a_cookie_is_nothing(launch, signed_in):
    _, sign_in = signed_in
    known = roster(*RIGHTS)
    async with launch(authenticator=known, authorizer=known) as port:
        answer = await ask(port, "GET", "/v1/clusters", {**session(sign_in), **OF_PAGE})
        assert "must have a valid client certificate or" in assert_problem(answer, "unauthenticated", 401)["detail"]
        for path in ("/sign-in", "/sign-in/callback", "/sign-in/session", "/sign-out"):
            assert (await ask(port, "GET", path, OF_PAGE)).status == 404
        async with port.dial(token="") as connection:
            assert b'<meta name="sign-in" content="">' in (await connection.get("/")).body


async def test_the_page_learns_what_is_offered_and_who_is_signed_in(signed_in):
    port, sign_in = signed_in
    async with port.dial(token="") as connection:
        assert b'<meta name="sign-in" content="Example">' in (await connection.get("/")).body
        assert (await connection.get("/sign-in/session", **OF_PAGE)).json == {"user": None}
        said = (await connection.get("/sign-in/session", **session(sign_in), **OF_PAGE)).json
        assert (said["user"], set(said)) == ("ann", {"user", "endsAt"})
        other = await connection.get("/sign-in/session", **session(sign_in), Sec_Fetch_Site="cross-site")
        assert other.json == {"user": None}


async def test_what_a_provider_is_called_is_no_markup(launch, tmp_path):
    async with lying_provider() as lying:
        settings = options(tmp_path, lying.issuer, name='"><script>')
        sign_in = SignIn(settings, Clock(timedelta()), lambda: 0.0)
        async with launch(sign_in=sign_in) as port, port.dial(token="") as connection:
            assert b'content="&quot;&gt;&lt;script&gt;"' in (await connection.get("/")).body


async def test_signing_out(signed_in):
    port, sign_in = signed_in
    kept = session(sign_in)
    async with port.dial(token="") as connection:
        for headers in ({}, {"Origin": EVIL}, {"Sec_Fetch_Site": "cross-site", "Origin": PAGE}):
            answer = await connection.post("/sign-out", b"{}", **kept, **headers)
            assert_problem(answer, "forbidden", 403)
            assert "Set-Cookie" not in answer.headers
        assert (await connection.get("/sign-out", **kept, **OF_PAGE)).status == 405
        answer = await connection.post("/sign-out", b"{}", **kept, **BY_PAGE)
        assert answer.json == {"location": f"{PAGE}/"}
        assert cookies(answer) == {SESSION: '""'}
        assert "Max-Age=0" in answer.headers["Set-Cookie"]
