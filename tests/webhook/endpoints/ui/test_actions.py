"""``POST /v1/actions``: whose credential acts, and which requests a browser may not be made to send."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.webhook.actions.hubs import KnownHubs
from tests.webhook.endpoints.asking import assert_problem
from tests.webhook.endpoints.callers_known import EVERYBODY, Certificates, roster
from tests.webhook.endpoints.ui.signing_in import BY_PAGE, kept_cookies, session, signing_in
from tests.webhook.sign_in.lying_provider import PAGE
from webhook.access.user import UserInfo
from webhook.actions.page_actions import PageActions
from webhook.actions.planned import HubRefusalError
from webhook.endpoints.http.access_control import ID_TOKEN, SESSION
from webhook.runtime.clock import utc_now
from webhook.sign_in.sessions import LONGEST_COOKIE, Session

TOKEN = "t-ann"
RIGHTS = ("post /v1/actions", "get /v1/clusters")
CREATE = "kubectl create token NAME --audience harbormaster.test.svc --audience https://kubernetes.default.svc"
CORDON = {"action": "cordon", "target": {"kind": "MemberCluster", "name": "east"}}
PREVIEW = {**CORDON, "dryRun": True}


async def act(port, body=PREVIEW, token=TOKEN, *, plain=False, **headers):
    async with port.dial(token=token, plain=plain) as connection:
        return await connection.post("/v1/actions", json.dumps(body).encode(), **headers)


@pytest.fixture
def hubs():
    return KnownHubs(TOKEN)


@pytest.fixture
async def acting(launch, hubs):
    """A server with actions, whose caller ``ann`` has a token."""
    known, actions = roster(*RIGHTS), PageActions(hubs, utc_now)
    async with launch(authenticator=known, authorizer=known, actions=actions, page_on_http=True) as port:
        yield port


async def test_without_the_setting_there_are_no_actions(launch):
    known = roster(*RIGHTS)
    async with launch(authenticator=known, authorizer=known, page_on_http=True) as port:
        for plain in (False, True):
            assert (await act(port, plain=plain)).status == 404
            async with port.dial(token="", plain=plain) as connection:
                assert b'<meta name="actions" content="">' in (await connection.get("/")).body


async def test_the_page_learns_that_there_are_actions_and_is_in_no_frame(acting):
    for plain in (False, True):
        async with acting.dial(token="", plain=plain) as connection:
            page = await connection.get("/")
            assert b'<meta name="actions" content="on">' in page.body
            assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]


async def test_an_action_is_previewed_and_executed_with_the_token_of_the_viewer(acting, hubs, caplog):
    preview = await act(acting)
    assert (preview.status, hubs.written) == (200, [])
    assert preview.json == {
        "command": "harbormaster cordon east",
        "impact": [
            "east gets no new placements.",
            "Existing placements remain there. To evict them: harbormaster drain east",
        ],
        "updates": [],
        "precondition": {"uid": "u-1", "taints": ""},
        "executed": False,
        "outcome": "east cordoned",
        "warnings": ["mind the gap"],
    }
    done = await act(acting, {**CORDON, "precondition": preview.json["precondition"]})
    assert (done.status, done.json["executed"], len(hubs.written)) == (200, True, 1)
    assert set(hubs.tokens) == {TOKEN}
    assert done.headers["Cache-Control"] == "no-store"
    for text in (preview.body.decode(), done.body.decode(), *(str(vars(record)) for record in caplog.records)):
        assert TOKEN not in text


async def test_a_stale_precondition_is_refused_and_says_what_has_changed(acting, hubs):
    facts = (await act(acting)).json["precondition"]
    hubs.taints = [{"key": "other", "effect": "NoSchedule"}]
    problem = assert_problem(await act(acting, {**CORDON, "precondition": facts}), "conflict", 409)
    assert problem["detail"] == (
        "changed since the preview: taints was absent, and is now other=:NoSchedule. Check the new effect, and "
        "confirm again"
    )
    assert hubs.written == []


@pytest.mark.parametrize(
    ("refusal", "slug", "status", "detail"),
    [
        pytest.param(
            HubRefusalError(403, 'memberclusters "east" is forbidden: User "ann" cannot patch'),
            "forbidden",
            403,
            'the API server of the hub refuses the request: memberclusters "east" is forbidden: '
            'User "ann" cannot patch',
            id="forbidden",
        ),
        pytest.param(
            HubRefusalError(422, "admission webhook denied the request"),
            "conflict",
            409,
            "the API server of the hub refuses the request: admission webhook denied the request",
            id="admission",
        ),
        pytest.param(
            HubRefusalError(503, "etcdserver: leader changed"),
            "not-ready",
            503,
            "the request to the hub failed: etcdserver: leader changed",
            id="unavailable",
        ),
    ],
)
async def test_the_words_of_the_api_server_reach_the_viewer(acting, hubs, refusal, slug, status, detail):
    hubs.refusal = refusal
    assert assert_problem(await act(acting), slug, status)["detail"] == detail


async def test_a_missing_object_is_missing(acting):
    body = {**PREVIEW, "target": {"kind": "MemberCluster", "name": "west"}}
    assert (
        'memberclusters.cluster.kubernetes-fleet.io "west" not found'
        in (assert_problem(await act(acting, body), "not-found", 404)["detail"])
    )


async def test_a_token_without_the_audience_of_the_api_server_is_explained(acting, hubs):
    hubs.known = "another"
    problem = assert_problem(await act(acting), "forbidden", 403)
    assert problem["detail"] == (
        "the API server of the hub does not accept your token (401 Unauthorized). It must also have the audience of "
        f"the API server: {CREATE}"
    )


async def test_whoever_may_not_post_to_the_path_acts_on_nothing(launch, hubs):
    known = roster("get /v1/clusters")
    async with launch(authenticator=known, authorizer=known, actions=PageActions(hubs, utc_now)) as port:
        assert assert_problem(await act(port), "forbidden", 403)["detail"] == '"ann" may not post /v1/actions'
    assert hubs.tokens == []


RUN = {"kind": "ClusterStagedUpdateRun", "name": "spring"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param({**PREVIEW, "action": "delete"}, "/action: 'delete': ", id="no-such-action"),
        pytest.param(
            {**PREVIEW, "target": RUN},
            "target.kind: 'ClusterStagedUpdateRun': must be one of MemberCluster for the action cordon",
            id="kind-of-another-action",
        ),
        pytest.param(
            {**PREVIEW, "action": "stop", "target": {"kind": "StagedUpdateRun", "name": "web"}},
            "target.namespace: '': must be set for a StagedUpdateRun",
            id="no-namespace",
        ),
        pytest.param(
            {**PREVIEW, "action": "stop", "target": {**RUN, "namespace": "shop"}},
            "target.namespace: 'shop': must be empty for a ClusterStagedUpdateRun",
            id="a-namespace-too-many",
        ),
        pytest.param({**PREVIEW, "stage": "live"}, "stage: 'live': must be set only to approve or reject", id="stage"),
        pytest.param(
            {**PREVIEW, "digests": ["0" * 20]}, "digests: must be set only for the action confirm", id="digest"
        ),
        pytest.param({**PREVIEW, "reason": "why"}, "reason: must be set only for approve and reject", id="reason"),
        pytest.param(CORDON, "precondition: must be that of a preview, unless dryRun is true", id="no-precondition"),
        pytest.param(
            {"action": "reject", "target": RUN, "precondition": {}}, "reason: must be set to reject", id="no-reason"
        ),
        pytest.param({**PREVIEW, "force": True}, "/force: unknown field", id="unknown"),
        pytest.param({**PREVIEW, "reason": "x" * 1025}, "/reason: ", id="long-reason"),
        pytest.param({**PREVIEW, "dryRun": "true"}, "/dryRun: 'true'", id="no-boolean"),
    ],
)
async def test_mistakes_in_a_body_are_named(acting, hubs, body, words):
    problem = assert_problem(await act(acting, body), "validation-failed", 422)
    assert words in problem["detail"].replace('"', "'"), problem["detail"]
    assert hubs.tokens == []


async def test_a_body_is_bounded_and_json(acting, hubs):
    long = {**PREVIEW, "reason": "x" * (acting.server.settings.api_body_bytes + 1)}
    assert_problem(await act(acting, long), "payload-too-large", 413)
    answer = await act(acting, **{"Content-Type": "text/plain"})
    assert_problem(answer, "unsupported-media-type", 415)
    assert hubs.tokens == []


async def test_a_certificate_is_not_forwarded(launch, tmp_path, hubs):
    certificates = Certificates(tmp_path)
    known = roster(*RIGHTS)
    how = {"authenticator": known, "authorizer": known, "client_authorities": certificates.source}
    async with launch(**how, actions=PageActions(hubs, utc_now)) as port:
        port.trust = certificates.trust(port, "ann", ())
        for token in ("", TOKEN):
            detail = assert_problem(await act(port, token=token), "forbidden", 403)["detail"]
            assert detail.startswith("a client certificate cannot be forwarded to the API server of the hub.")
            assert CREATE in detail
    assert hubs.tokens == []


@pytest.mark.parametrize("host", ["evil.example.com", "127.0.0.1.evil.example.com", "10.0.0.1:8081"])
async def test_on_a_plain_listener_only_this_machine_acts_and_only_with_a_token(acting, hubs, host):
    """A foreign name may resolve to 127.0.0.1."""
    assert_problem(await act(acting, plain=True, Host=host), "forbidden", 403)
    assert_problem(await act(acting, token="", plain=True), "unauthenticated", 401)
    assert hubs.tokens == []
    assert (await act(acting, token=TOKEN, plain=True)).status == 200


def signed_in(sign_in, name="ann", token=TOKEN, owner="ann"):
    """The header of a browser that has signed in while there were actions."""
    ends = datetime.now(UTC) + timedelta(hours=1)
    sealed = sign_in.sessions.close_token(Session(UserInfo(owner, frozenset({EVERYBODY})), ends), token)
    return {"Cookie": f"{session(sign_in, name)['Cookie']}; {ID_TOKEN}={sealed}"}


@pytest.fixture
async def by_session(launch, tmp_path, hubs):
    async with signing_in(launch, tmp_path, *RIGHTS, actions=PageActions(hubs, utc_now)) as (port, _, sign_in):
        yield port, sign_in


async def test_the_id_token_of_a_session_is_forwarded(by_session, hubs):
    port, sign_in = by_session
    answer = await act(port, token="", **signed_in(sign_in), **BY_PAGE)
    assert (answer.status, hubs.tokens) == (200, [TOKEN])
    hubs.known = "another"
    detail = assert_problem(await act(port, token="", **signed_in(sign_in), **BY_PAGE), "forbidden", 403)["detail"]
    assert "does not accept the ID token of your session (401 Unauthorized). It must trust the same issuer" in detail


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"Origin": PAGE}, id="no-site"),
        pytest.param({"Sec_Fetch_Site": "same-origin"}, id="no-origin"),
        pytest.param({"Sec_Fetch_Site": "same-site", "Origin": PAGE}, id="a-host-beside-ours"),
        pytest.param({"Sec_Fetch_Site": "cross-site", "Origin": PAGE}, id="another-site"),
        pytest.param({"Sec_Fetch_Site": "none", "Origin": PAGE}, id="typed"),
        pytest.param({"Sec_Fetch_Site": "same-origin", "Origin": "https://evil.example.com"}, id="another-origin"),
        pytest.param({"Sec_Fetch_Site": "same-origin", "Origin": "null"}, id="no-origin-at-all"),
        pytest.param({}, id="without-a-word"),
    ],
)
async def test_no_other_site_makes_a_browser_act(by_session, hubs, how):
    port, sign_in = by_session
    answer = await act(port, token="", **signed_in(sign_in), **how)
    assert assert_problem(answer, "unauthenticated", 401)["detail"].endswith("only for requests from the page itself")
    assert hubs.tokens == []


async def test_a_form_of_the_page_itself_is_no_action(by_session, hubs):
    port, sign_in = by_session
    for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        how = {"Content-Type": media, **BY_PAGE}
        answer = await act(port, token="", **signed_in(sign_in), **how)
        assert_problem(answer, "unsupported-media-type", 415)
    assert hubs.tokens == []


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(lambda sign_in: session(sign_in), id="none"),
        pytest.param(lambda sign_in: signed_in(sign_in, owner="bob"), id="of-another-user"),
        pytest.param(lambda sign_in: {"Cookie": f"{session(sign_in)['Cookie']}; {ID_TOKEN}=made-up"}, id="made-up"),
        pytest.param(
            lambda sign_in: {
                "Cookie": f"{session(sign_in)['Cookie']}; {ID_TOKEN}={session(sign_in)['Cookie'].partition('=')[2]}"
            },
            id="a-session-in-its-place",
        ),
    ],
)
async def test_a_session_without_its_id_token_reads_and_does_not_act(by_session, hubs, kept):
    port, sign_in = by_session
    detail = assert_problem(await act(port, token="", **kept(sign_in), **BY_PAGE), "forbidden", 403)["detail"]
    assert detail.startswith("your session has no ID token: actions were enabled after you signed in, or")
    assert CREATE in detail
    assert hubs.tokens == []
    async with port.dial(token="") as connection:
        assert (await connection.get("/v1/clusters", **kept(sign_in), **BY_PAGE)).status == 200


@pytest.mark.parametrize(
    ("more", "kept"), [({}, True), ({"picture": "x" * LONGEST_COOKIE}, False)], ids=["fits", "too-large"]
)
async def test_signing_in_keeps_the_id_token_if_it_fits(launch, tmp_path, hubs, more, kept):
    actions = PageActions(hubs, utc_now)
    async with signing_in(launch, tmp_path, *RIGHTS, actions=actions, claims=more) as (port, lying, sign_in):
        cookies = await kept_cookies(port, lying, sign_in)
        [cookie] = [each for each in cookies if each.startswith(f"{ID_TOKEN}=")]
        assert {"HttpOnly", "Secure", "Path=/"} <= set(cookie.split("; "))
        if not kept:
            assert "Max-Age=0" in cookie
            return
        assert "SameSite=Strict" in cookie
        assert re.search(r"Max-Age=(59\d|600)", cookie)
        token = sign_in.sessions.open_token(cookie.partition("=")[2].partition(";")[0], "")
        assert token is None  # nobody is not its owner
        name = next(each for each in cookies if each.startswith(f"{SESSION}=")).partition(";")[0]
        hubs.known = ""
        answer = await act(port, token="", Cookie=f"{name}; {cookie.partition(';')[0]}", **BY_PAGE)
        assert answer.status == 403
        assert "eyJ" not in answer.body.decode()
