"""Who is let in to ``/v1`` and the extender, and what they are told when they are not."""

import asyncio
import json
import socket
import ssl
from base64 import urlsafe_b64encode
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from aiohttp import web
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import Authority
from certs.client_authorities import AuthorityFile
from certs.context import CertificateError
from scorer.api.kinds import PLACEMENT
from tests.waiting import PATIENCE_SECONDS
from tests.webhook.endpoints.asking import assert_problem, routes
from tests.webhook.endpoints.callers_known import EVERYBODY, Certificates, Roster, roster
from tests.webhook.endpoints.conftest import TOKEN, wait_until
from tests.webhook.endpoints.event_stream import next_change, open_stream
from webhook.access.bearer import bearer_token, may_be_good
from webhook.access.rights import Access
from webhook.access.user import UserInfo
from webhook.endpoints.http import access_control
from webhook.endpoints.http.access_control import Callers, caller_of
from webhook.endpoints.http.api import Api
from webhook.server.app import PARTS

PRIVATE = ("/v1", "/extender", "/validate", "/mutate", "/hooks")
AUDIENCE = "harbormaster.test.svc"


def whoami(app):
    """One route of each surface that tells who asks."""
    parts = app[PARTS]
    api = Api(
        app,
        parts.services.answers,
        parts.settings,
        parts.metrics,
        callers=Callers(parts.services.admittance, parts.services.answers.now, parts.settings, parts.metrics),
    )

    async def tell(request):
        caller = caller_of(request)
        return web.json_response({"user": caller.username, "groups": sorted(caller.groups)})

    api.get("/whoami", "/whoami", tell)
    api.get("/scheduler", "/scheduler", tell, surface="extender")
    api.get("/open", "/open", tell, open_to_all=True)


def assert_unauthenticated(answer) -> str:
    problem = assert_problem(answer, "unauthenticated", 401)
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="harbormaster"'
    return problem["detail"]


OPEN = {"/v1/openapi.json", "/v1/upgrade/operations/{run}/{member}/{attempt}/status"}
"""The second takes signed reports: `test_upgrade_reports`."""


async def test_no_route_that_holds_data_answers_a_stranger(port):
    """Whatever is added to the router later has to ask, or to be on this list."""
    app = port.server._https.app
    silent = [path for path in routes(app) if path.startswith(("/v1", "/extender")) and path not in OPEN]
    assert {"/v1/score", "/v1/explain", "/v1/clusters", "/v1/placements/rp/shop/payments", "/v1/events"} <= set(silent)
    for path in silent:
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            async with port.dial(token="") as connection:
                answer = await connection.get(path, method)
                assert answer.status == 401, (method, path)
            async with port.dial(token="") as connection:
                assert (await connection.get(path, method, Authorization="Bearer wrong")).status in (401, 429)
    open_paths = {path for path in routes(app) if not path.startswith(PRIVATE)}
    assert all(path in ("/", "/docs", "/x") or path.startswith("/ui/") for path in open_paths), open_paths


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer wrong", "Basic dXNlcjpwYXNz", f"Token {TOKEN}", TOKEN, f"Bearer {TOKEN} x", "x"],
)
async def test_bad_credentials_all_get_the_same_text(port, header):
    async with port.dial(token="") as connection:
        bad = assert_unauthenticated(await connection.get("/v1/clusters", Authorization=header))
    async with port.dial(token="") as connection:
        assert assert_unauthenticated(await connection.get("/v1/clusters")) == bad


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_may_be_written_either_way(port, scheme):
    async with port.dial(token="") as connection:
        assert (await connection.get("/v1/clusters", Authorization=f"{scheme} {TOKEN}")).status == 200


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer a.b-c", "a.b-c"), ("bearer  a ", "a"), ("Bearer a b", ""), ("Bearer", ""), ("", ""), ("Basic a", "")],
)
def test_the_token_of_a_header(header, token):
    assert bearer_token(header) == token


async def test_the_refusal_says_for_whom_a_token_has_to_be_made(launch):
    known = roster()
    async with launch(authenticator=known, authorizer=known) as port, port.dial(token="") as connection:
        assert "audience harbormaster.test.svc" in assert_unauthenticated(await connection.get("/v1/clusters"))


async def test_rights_are_about_the_template_and_the_method(launch):
    known = roster(
        "get /v1/clusters/*", "post /v1/score", 'get clusterresourceplacements.placement.kubernetes-fleet.io "payments"'
    )
    async with launch(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        assert (await connection.get("/v1/clusters/oslo")).status == 200
        assert (await connection.get("/v1/clusters/oslo", "HEAD")).status == 200
        problem = assert_problem(await connection.get("/v1/clusters"), "forbidden", 403)
        assert problem["detail"] == '"ann" may not get /v1/clusters'
        problem = assert_problem(await connection.post("/v1/filter", b"{}"), "forbidden", 403)
        assert problem["detail"] == '"ann" may not post /v1/filter'
        assert (await connection.get("/v1/score", "DELETE")).status == 405
    assert port.sample("harbormaster_http_rejected_total", surface="api", reason="forbidden") == 2


async def test_a_placement_that_one_may_not_get_does_not_exist(launch):
    """Whatever the question: the answer is that of a placement that is not there, but for its id."""
    paths = ("post /v1/score", "post /v1/filter", "post /v1/explain", "get /v1/placements/*")
    known = roster(*paths)
    async with launch(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        for name in ("payments", "nothing"):
            for path in ("score", "filter", "explain"):
                body = b'{"placement":{"ref":{"kind":"ClusterResourcePlacement","name":"%s"}}}' % name.encode()
                answer = await connection.post(f"/v1/{path}", body, X_Request_Id="same")
                assert assert_problem_text(answer) == f"there is no placement crp/{name}"
            answer = await connection.get(f"/v1/placements/crp/{name}", X_Request_Id="same")
            assert assert_problem_text(answer) == f"there is no placement crp/{name}"
        assert port.harbour.questions == []
        known.rights.add(("ann", str(Access("get", PLACEMENT.group, PLACEMENT.plural, "payments"))))
        assert (await connection.get("/v1/placements/crp/payments")).status == 200
        assert (await connection.get("/v1/placements/rp/shop/cart")).status == 404


def assert_problem_text(answer) -> str:
    assert answer.status == 404
    body = answer.json
    assert body["type"] == "urn:harbormaster:problem:not-found"
    return body["detail"]


@pytest.mark.parametrize(
    ("kinds", "refs"),
    [
        ((), []),
        (("clusterresourceplacements",), ["crp/payments"]),
        (("resourceplacements",), ["rp/shop/cart"]),
        (("clusterresourceplacements", "resourceplacements"), ["crp/payments", "rp/shop/cart"]),
    ],
)
async def test_lists_and_events_show_the_kinds_that_one_may_list(launch, kinds, refs):
    lists = [str(Access("list", PLACEMENT.group, kind)) for kind in kinds]
    known = roster("get /v1/placements", "get /v1/clusters", "get /v1/clusters/*", "get /v1/events", *lists)
    async with launch(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        listed = (await connection.get("/v1/placements")).json["items"]
        assert [item["ref"] for item in listed] == refs
        assert (await connection.get("/v1/clusters")).json["items"][0]["placements"] == refs
        assert (await connection.get("/v1/clusters/oslo")).json["placements"] == refs
        await open_stream(connection)
        assert (await next_change(connection))["placements"] == refs
        port.harbour.announce("rp/shop/cart")
        port.harbour.announce("crp/payments")
        port.harbour.announce(clusters=("oslo",))
        assert (await next_change(connection))["placements"] == refs


@pytest.mark.parametrize(
    ("kinds", "runs"),
    [
        pytest.param(("clusterresourceplacements",), False, id="placements-of-others"),
        pytest.param(("resourceplacements",), True, id="its-placement"),
        pytest.param(("stagedupdateruns",), True, id="runs-alone"),
        pytest.param(("stagedupdateruns", "clusterresourceplacements"), True, id="runs-and-placements-of-others"),
    ],
)
async def test_a_change_of_a_run_is_announced_to_those_who_may_list_runs_or_its_placement(launch, kinds, runs):
    lists = [str(Access("list", PLACEMENT.group, kind)) for kind in kinds]
    known = roster("get /v1/events", *lists)
    async with launch(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        await open_stream(connection)
        await next_change(connection)
        for number in range(300):
            port.harbour.announce(f"crp/of-others-{number}")
        port.harbour.announce("rp/shop/cart", runs=True)
        port.harbour.announce(clusters=("oslo",))
        assert (await next_change(connection))["runs"] is runs


async def test_one_caller_cannot_take_the_streams_of_all(launch):
    known = roster("get /v1/events")
    known.users["t-bob"] = UserInfo("bob", frozenset({EVERYBODY}))
    known.rights.add(("bob", "get /v1/events"))
    limits = {"event_streams": 3, "event_streams_per_caller": 2}
    async with launch(authenticator=known, authorizer=known, **limits) as port, AsyncExitStack() as stack:

        async def viewer(token):
            return await stack.enter_async_context(port.dial(token=token))

        for _ in range(2):
            assert (await open_stream(await viewer("t-ann")))[0] == b"HTTP/1.1 200 OK"
        refused = await get_with(port, "/v1/events", "t-ann")
        detail = assert_problem(refused, "rate-limited", 429)["detail"]
        assert detail == '"ann" already has 2 open streams, the limit per caller'
        assert (await open_stream(await viewer("t-bob")))[0] == b"HTTP/1.1 200 OK"


async def test_a_stream_ends_so_that_credentials_are_shown_again(port, monkeypatch):
    monkeypatch.setattr("webhook.endpoints.fleet.event_stream.STREAM_SECONDS", 0.0)
    async with port.dial() as connection:
        await open_stream(connection)
        while await connection.line():
            pass
    await wait_until(lambda: not port.harbour.handlers)


@pytest.mark.parametrize("path", ["/v1/clusters", "/v1/placements/crp/payments"])
async def test_when_the_hub_does_not_say_nobody_is_let_in(launch, path):
    known = roster("get /v1/clusters", "get /v1/placements/*", down=True)
    async with launch(authenticator=known, authorizer=known) as port:
        answer = await get_with(port, path, "t-ann")
        assert_problem(answer, "not-ready", 503)
        assert answer.headers["Retry-After"] == "5"
        assert "could not be reviewed in time" in answer.json["detail"]
        known.remembered.add("t-ann")  # known, but what they may do is not
        assert_problem(await get_with(port, path, "t-ann"), "not-ready", 503)
        known.down = False
        assert (await get_with(port, "/v1/clusters", "t-ann")).status == 200


async def get_with(port, path: str, token: str, method: str = "GET", **headers: str):
    async with port.dial(token=token) as connection:
        return await connection.get(path, method, **headers)


async def test_credentials_come_before_readiness(launch):
    """A stranger does not even learn that the caches are not filled."""
    async with launch(synced=lambda: False) as port:
        assert (await get_with(port, "/v1/clusters", "")).status == 401
        assert (await get_with(port, "/v1/clusters", TOKEN)).status == 503


async def test_one_caller_may_ask_so_much(launch):
    known = roster("get /v1/clusters")
    known.users["t-bob"] = UserInfo("bob")
    known.rights.add(("bob", "get /v1/clusters"))
    async with launch(
        authenticator=known, authorizer=known, requests_per_second=0.01, request_burst=3, extend=whoami
    ) as port:
        codes = [(await get_with(port, "/v1/clusters", "t-ann")).status for _ in range(4)]
        assert codes == [200, 200, 200, 429]
        answer = await get_with(port, "/v1/clusters", "t-ann")
        problem = assert_problem(answer, "rate-limited", 429)
        assert problem["detail"] == 'rate limit of "ann" exceeded'
        assert 0 < int(answer.headers["Retry-After"]) <= 100
        assert problem["retryAfterSeconds"] == int(answer.headers["Retry-After"])
        assert (await get_with(port, "/v1/clusters", "t-bob")).status == 200
        known.rights.add(("ann", "get /scheduler"))
        assert {(await get_with(port, "/scheduler", "t-ann")).status for _ in range(5)} == {200}
    assert port.sample("harbormaster_http_rejected_total", surface="api", reason="rate") == 2


async def test_bad_credentials_are_looked_at_so_often(launch):
    """Whoever is known to be good is let in all the same, and whoever shows none is told that one is needed."""
    known = roster("get /v1/clusters")
    async with launch(authenticator=known, authorizer=known, failed_logins_per_second=0.01) as port:
        codes = [(await get_with(port, "/v1/clusters", f"guess-{number}")).status for number in range(4)]
        assert codes == [401, 429, 429, 429]
        assert known.looked_at == ["guess-0"]
        answer = await get_with(port, "/v1/clusters", "t-ann")
        assert_problem(answer, "rate-limited", 429)
        assert 0 < int(answer.headers["Retry-After"]) <= 100
        known.remembered.add("t-ann")
        assert (await get_with(port, "/v1/clusters", "t-ann")).status == 200
        assert (await get_with(port, "/v1/clusters", "")).status == 401


def issued(name: str, *, audience: object = AUDIENCE, seconds: float = 600) -> str:
    """A token that says of itself what a hub's do; the signature is nobody's."""
    claims = {"sub": name, "aud": audience, "exp": datetime.now(UTC).timestamp() + seconds}
    parts = (json.dumps(part).encode() for part in ({"alg": "RS256"}, claims))
    return ".".join([*(urlsafe_b64encode(part).decode().rstrip("=") for part in parts), "c2lnbmF0dXJl"])


async def test_a_token_that_was_good_is_not_held_up_by_bad_ones_from_the_same_address(launch):
    """It is looked at again every minute; somebody behind the same address could shut its holder out for ever."""
    known = roster("get /v1/clusters")
    async with launch(authenticator=known, authorizer=known, failed_logins_per_second=0.01) as port:
        assert (await get_with(port, "/v1/clusters", "t-ann")).status == 200
        assert [(await get_with(port, "/v1/clusters", f"guess-{number}")).status for number in range(3)] == [
            *(401, 429, 429)
        ]
        assert [(await get_with(port, "/v1/clusters", "t-ann")).status for _ in range(3)] == [200] * 3
        del known.users["t-ann"]
        assert [(await get_with(port, "/v1/clusters", "t-ann")).status for _ in range(3)] == [401, 429, 429]


async def test_a_token_that_nobody_has_seen_is_not_shut_out_by_bad_ones_from_the_same_address(launch, monkeypatch):
    """Neither by what cannot be a token of the hub, nor by many that look like one."""
    monkeypatch.setattr(access_control, "_SALT", b"still")
    known = roster()
    async with launch(authenticator=known, authorizer=known, failed_logins_per_second=0.01) as port:
        for bad in ("guess-0", "guess-1", issued("eve", audience="others"), issued("eve", seconds=-60)):
            await get_with(port, "/v1/clusters", bad)
        assert known.looked_at == ["guess-0"]
        forged = [issued(f"eve-{number}") for number in range(40)]
        codes = [(await get_with(port, "/v1/clusters", token)).status for token in forged]
        assert codes.count(401) == len(
            {access_control.limit_key_of(token) for token in forged}
        )  # so many were looked at
        assert codes.count(429) == len(codes) - codes.count(401)
    async with launch(authenticator=known, authorizer=known, failed_logins_per_second=0.01) as port:
        eve = issued("eve")
        ann = next(
            token for number in count(9) if access_control.limit_key_of(token := issued("ann", seconds=number)) != 7
        )
        eve = next(
            token for number in count(9) if access_control.limit_key_of(token := issued("eve", seconds=number)) == 7
        )
        known.users[ann] = UserInfo("ann")
        known.rights.add(("ann", "get /v1/clusters"))
        assert [(await get_with(port, "/v1/clusters", eve)).status for _ in range(3)] == [401, 429, 429]
        assert (await get_with(port, "/v1/clusters", "guess")).status == 401
        assert (await get_with(port, "/v1/clusters", "guess")).status == 429
        assert (await get_with(port, "/v1/clusters", ann)).status == 200


ISSUED = datetime.now(UTC)
"""When the tokens of the next table were made: a run of all tests takes longer than they last."""


@pytest.mark.parametrize(
    ("token", "may_be"),
    [
        (issued("ann"), True),
        (issued("ann", audience=["x", "harbormaster.test.svc"]), True),
        (issued("ann", audience="x"), False),
        (issued("ann", audience=[["harbormaster.test.svc"]]), False),
        (issued("ann", seconds=-1), False),
        ("opaque", False),
        ("a.b.c", False),
        ("..", False),
        ("e30.e30.e30", False),
        ("e30.W10.e30", False),
        ("e30." + urlsafe_b64encode(b"[" * 2000).decode() + ".e30", False),
    ],
    ids=[
        "good",
        "among-others",
        "of-others",
        "odd",
        "expired",
        "opaque",
        "no-json",
        "empty",
        "says-nothing",
        "list",
        "deep",
    ],
)
def test_what_a_token_says_of_itself(token, may_be):
    assert may_be_good(token, AUDIENCE, ISSUED) is may_be


async def test_many_good_newcomers_at_once_are_not_taken_for_failures(launch):
    known = roster("get /v1/clusters")
    async with launch(authenticator=known, authorizer=known, failed_logins_per_second=1) as port:
        answers = await asyncio.gather(*(get_with(port, "/v1/clusters", "t-ann") for _ in range(20)))
        assert {answer.status for answer in answers} == {200}


async def test_the_extender_asks_for_credentials_unless_told_not_to(launch):
    known = roster("get /scheduler")
    async with launch(authenticator=known, authorizer=known, extend=whoami) as port:
        assert_unauthenticated(await get_with(port, "/scheduler", ""))
        assert (await get_with(port, "/scheduler", "t-ann")).json["user"] == "ann"
    assert port.sample("harbormaster_http_rejected_total", surface="extender", reason="unauthenticated") == 1
    async with launch(authenticator=known, authorizer=known, extend=whoami, extender_allow_anonymous=True) as port:
        assert (await get_with(port, "/scheduler", "")).json["user"] == "system:anonymous"
        assert_unauthenticated(await get_with(port, "/scheduler", "wrong"))
        assert_unauthenticated(await get_with(port, "/v1/clusters", ""))
        known.rights.clear()
        assert_problem(await get_with(port, "/scheduler", "t-ann"), "forbidden", 403)


async def test_what_holds_no_data_is_open(launch):
    async with launch(extend=whoami) as port:
        assert (await get_with(port, "/open", "")).status == 200
        assert (await get_with(port, "/", "")).status == 200
        assert (await get_with(port, "/ui/app.js", "")).status == 200


async def test_metrics_over_https_only_when_asked_for_and_only_for_those_who_may(launch):
    known = roster("get /metrics")
    async with launch(authenticator=known, authorizer=known) as port:
        assert (await get_with(port, "/metrics", "t-ann")).status == 404
    async with launch(authenticator=known, authorizer=known, metrics_auth=True, synced=lambda: False) as port:
        assert_unauthenticated(await get_with(port, "/metrics", ""))
        answer = await get_with(port, "/metrics", "t-ann")
        assert (answer.status, b"harbormaster_build_info" in answer.body) == (200, True)
        known.rights.clear()
        assert_problem(await get_with(port, "/metrics", "t-ann"), "forbidden", 403)


async def test_the_plain_door_asks_nobody_and_shows_everything_there_is_to_read(launch):
    known = roster()
    how = {"authenticator": known, "authorizer": known, "page_on_http": True}
    async with launch(**how) as port, port.dial(plain=True) as connection:
        listed = (await connection.get("/v1/placements")).json["items"]
        assert [item["ref"] for item in listed] == ["crp/payments", "rp/shop/cart"]
        assert (await connection.get("/v1/placements/rp/shop/cart")).status == 200
        assert (await connection.post("/v1/score", b"{}")).status == 404
        assert (await connection.get("/v1/clusters", Host="evil.example")).status == 403


async def test_tokens_are_in_no_log(launch, caplog):
    caplog.set_level(0)
    known = roster(down=True)
    async with launch(authenticator=known, authorizer=known) as port:
        await get_with(port, "/v1/clusters", "t-ann")
        await ask_with(port, "t-secret-guess")
    assert caplog.records
    assert "t-ann" not in caplog.text
    assert "t-secret" not in caplog.text
    assert not [record for record in caplog.records if "t-secret" in str(vars(record))]


async def ask_with(port, token: str):
    async with port.dial(token=token) as connection:
        return await connection.post("/v1/score", b"{}")


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path)


@pytest.fixture
async def secured(launch, certificates):
    """A server that accepts client certificates."""
    async with launch(client_authorities=certificates.source, extend=whoami, host="127.0.0.1") as port:
        yield port


async def test_a_certificate_names_user_and_groups(secured, certificates):
    secured.trust = certificates.trust(secured)
    assert (await get_with(secured, "/whoami", "")).json == {
        "user": "kube-scheduler",
        "groups": ["nodes", "schedulers", EVERYBODY],
    }
    assert (await get_with(secured, "/whoami", "wrong")).json["user"] == "kube-scheduler"


async def test_a_certificate_comes_before_a_token(secured, certificates):
    secured.trust = certificates.trust(secured)
    assert (await get_with(secured, "/whoami", TOKEN)).json["user"] == "kube-scheduler"


async def test_a_certificate_without_a_name_is_nobodys(secured, certificates):
    secured.trust = certificates.trust(secured, "")
    assert_unauthenticated(await get_with(secured, "/whoami", ""))
    assert (await get_with(secured, "/whoami", TOKEN)).json["user"] == "harbormaster:up"


async def test_a_certificate_of_nobody_by_name_is_asked_about_as_any_other(launch, certificates):
    """An extender that lets in strangers does not let in a certificate that names one."""
    known, trusted = roster(), certificates.source
    how = {"authenticator": known, "authorizer": known, "client_authorities": trusted, "extender_allow_anonymous": True}
    async with launch(extend=whoami, host="127.0.0.1", **how) as port:
        assert (await get_with(port, "/scheduler", "")).status == 200
        port.trust = certificates.trust(port, "system:anonymous", ("system:unauthenticated",))
        for path in ("/scheduler", "/whoami"):
            assert_problem(await get_with(port, path, ""), "forbidden", 403)


async def test_who_shows_none_is_served_as_before(secured, review_bytes):
    assert (await get_with(secured, "/whoami", TOKEN)).json["user"] == "harbormaster:up"
    assert_unauthenticated(await get_with(secured, "/whoami", ""))
    async with secured.dial(token="") as connection:
        assert (await connection.post("/validate", review_bytes())).status == 200


@pytest.mark.parametrize("how", ["foreign", "expired", "not-yet", "of-a-server", "of-nobody"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_bad_certificate_ends_the_connection(secured, certificates, how, version):
    """It is never taken for no certificate."""
    now = datetime.now(UTC)
    chosen = {
        "foreign": {"of": certificates.foreign},
        "expired": {"begin": now - timedelta(days=2)},
        "not-yet": {"begin": now + timedelta(days=1)},
        "of-a-server": {"purpose": ExtendedKeyUsageOID.SERVER_AUTH},
        "of-nobody": {"of": Authority.new(now)},
    }[how]
    secured.trust = certificates.trust(secured, **chosen)
    secured.trust.minimum_version = secured.trust.maximum_version = version
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await get_with(secured, "/open", TOKEN)


async def test_where_no_authority_is_known_nobody_is_asked_for_a_certificate(launch, certificates, review_bytes):
    async with launch(extend=whoami) as port:
        port.trust = certificates.trust(port)
        assert_unauthenticated(await get_with(port, "/whoami", ""))
        assert (await get_with(port, "/whoami", TOKEN)).json["user"] == "harbormaster:up"
        async with port.dial(token="") as connection:
            assert (await connection.post("/validate", review_bytes())).status == 200


async def test_other_authorities_take_over_and_open_connections_have_to_connect_again(secured, certificates):
    secured.trust = certificates.trust(secured)
    async with secured.dial(token="") as early:
        assert (await early.get("/whoami")).status == 200
        certificates.file.write_bytes(certificates.foreign.pem)
        assert await secured.server.certificates.renew_client_authorities()
        answer = await early.get("/whoami")
        assert ": reconnect" in assert_unauthenticated(answer)
        assert answer.headers["Connection"] == "close"
        assert await early.ended()
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await get_with(secured, "/whoami", "")
    secured.trust = certificates.trust(secured, of=certificates.foreign)
    assert (await get_with(secured, "/whoami", "")).status == 200
    assert not await secured.server.certificates.renew_client_authorities()


async def test_a_connection_survives_another_certificate_of_the_server(launch, certificates):
    behind = timedelta(days=4, hours=16)
    async with launch(client_authorities=certificates.source, extend=whoami, behind=behind) as port:
        port.trust = certificates.trust(port)
        async with port.dial(token="") as early:
            assert (await early.get("/whoami")).status == 200
            port.clock.advance(days=4, hours=16)
            assert port.server.certificates.renew_leaf()
            assert (await early.get("/whoami")).status == 200
        assert (await get_with(port, "/whoami", "")).status == 200


async def test_a_certificate_that_expires_in_an_open_connection_counts_no_more(secured, certificates):
    secured.trust = certificates.trust(secured, life=timedelta(minutes=10))
    async with secured.dial(token="") as connection:
        assert (await connection.get("/whoami")).status == 200
        secured.clock.advance(minutes=11)
        assert "expired" in assert_unauthenticated(await connection.get("/whoami"))


@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\n", b"\xff\xfe", None])
async def test_a_broken_file_keeps_the_authorities_that_were(secured, certificates, content, caplog):
    if content is None:
        certificates.file.unlink()
    else:
        certificates.file.write_bytes(content)
    for _ in range(2):
        assert not await secured.server.certificates.renew_client_authorities()
    assert len([record for record in caplog.records if "client authorities" in record.message]) == 1
    assert str(certificates.file) in caplog.records[-1].reason
    assert secured.sample("harbormaster_certificate_renewals_total", role="client_ca", result="failure") == 2
    secured.trust = certificates.trust(secured)
    assert (await get_with(secured, "/whoami", "")).status == 200


async def test_a_resumed_session_does_not_carry_a_certificate_over(secured, certificates):
    """TLS 1.2 lets a session go on without a new look at the certificate, whatever has become of its authority."""
    trust = certificates.trust(secured)
    trust.maximum_version = ssl.TLSVersion.TLSv1_2
    host, number = secured.server.addresses.https

    def call(session):
        plain = socket.create_connection((host, number), timeout=PATIENCE_SECONDS)
        with plain, trust.wrap_socket(plain, server_hostname="localhost", session=session) as connection:
            connection.sendall(b"GET /whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
            return answer.split()[1], connection.session, connection.session_reused

    first, session, _ = await asyncio.to_thread(call, None)
    second, _, reused = await asyncio.to_thread(call, session)
    assert first == b"200"
    assert reused
    assert second == b"401"


@pytest.mark.parametrize("content", [b"", b"garbage", None])
def test_a_file_that_cannot_be_used_is_refused_at_once(tmp_path, content):
    path = tmp_path / "clients.crt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CertificateError, match=r"clients\.crt"):
        AuthorityFile(path, 10)


async def test_bad_tokens_that_come_together_are_not_all_looked_at(launch):
    """None of them has failed yet when the others come."""

    gate = asyncio.Event()

    class SlowRoster(Roster):
        async def authenticate(self, token):
            await gate.wait()
            return await super().authenticate(token)

    known = SlowRoster()
    async with launch(authenticator=known, authorizer=known, failed_logins_per_second=0.01) as port:
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(get_with(port, "/v1/clusters", f"guess-{number}")) for number in range(30)]
            await wait_until(lambda: port.sample("harbormaster_http_in_flight", surface="api") == len(asked))
            gate.set()
        assert sorted(task.result().status for task in asked) == [401, *[429] * 29]
        assert len(known.looked_at) == 1
