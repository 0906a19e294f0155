"""Token and access reviews, asked over real HTTP of a server that knows a few users and counts what it is asked."""

import asyncio
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from multidict import CIMultiDict
from prometheus_client import CollectorRegistry

from certs.context import CertificateError
from tests.loopback import on_loopback
from tests.waiting import until
from webhook.access.front_proxy import FrontProxy
from webhook.access.ports import NotReviewedError, PathAccess
from webhook.access.rights import MOST_REVIEWED, Access, Reviewed
from webhook.access.user import UserInfo
from webhook.kube.access import authentication, authorization, reviews
from webhook.kube.access.authentication import CONFIG_MAP, HubAuthorities, TokenReviewer
from webhook.kube.access.authorization import HubAccessReviewer
from webhook.kube.access.front_proxy import HubFrontProxy
from webhook.kube.access.reviews import ReviewCounts
from webhook.kube.client.api_server import ApiServer
from webhook.kube.login.connection import Login

AUDIENCE = "harbormaster.harbormaster-system.svc"
ANN = UserInfo("ann", frozenset({"system:authenticated"}), "u-1", {"scopes": ("a", "b")})


@dataclass
class Hub:
    """An API server that knows tokens and rights."""

    tokens: dict = field(default_factory=dict)
    status: dict = field(default_factory=lambda: {"allowed": True})
    verbs: set | None = None
    asked: list = field(default_factory=list)
    code: int = 201
    config_map: dict | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def token_review(self, request):
        spec = (await request.json())["spec"]
        self.asked.append(spec)
        await self.gate.wait()
        return web.json_response({"status": self.tokens.get(spec["token"], {})}, status=self.code)

    async def access_review(self, request):
        self.asked.append((await request.json())["spec"])
        await self.gate.wait()
        verb = self.asked[-1].get("resourceAttributes", {}).get("verb")
        status = self.status if self.verbs is None else {"allowed": verb in self.verbs}
        return web.json_response({"status": status}, status=self.code)

    async def authorities(self, _request):
        if self.config_map is None:
            return web.json_response({"message": "no such thing"}, status=403)
        return web.json_response({"data": self.config_map})


@pytest.fixture
async def hub():
    """The server; it answers at once unless its gate is closed."""
    found = Hub()
    found.gate.set()
    app = web.Application()
    app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", found.token_review)
    app.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", found.access_review)
    app.router.add_get(f"/api/v1/namespaces/kube-system/configmaps/{CONFIG_MAP}", found.authorities)
    async with on_loopback(app) as found.address:
        yield found


@pytest.fixture
async def server(hub):
    async with ApiServer(Login(hub.address)) as found:
        yield found


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def token_reviewer(server, registry):
    return TokenReviewer(server, AUDIENCE, ReviewCounts(registry))


@pytest.fixture
def access_reviewer(server, registry):
    return HubAccessReviewer(server, ReviewCounts(registry))


def good(**more):
    user = {"username": "ann", "uid": "u-1", "groups": ["system:authenticated"], "extra": {"scopes": ["a", "b"]}}
    return {"authenticated": True, "user": user, "audiences": [AUDIENCE], **more}


def counted(registry, kind, result):
    return registry.get_sample_value("harbormaster_auth_reviews_total", {"kind": kind, "result": result})


async def test_a_token_for_our_audience_says_who_holds_it(hub, token_reviewer):
    hub.tokens["t"] = good()
    user = await token_reviewer.authenticate("t")
    assert (user, dict(user.extra)) == (ANN, {"scopes": ("a", "b")})
    assert hub.asked == [{"token": "t", "audiences": [AUDIENCE]}]


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({}, id="no-answer-in-the-answer"),
        pytest.param(good(authenticated=False), id="not-authenticated"),
        pytest.param(good(authenticated="true"), id="a-word-for-a-bool"),
        pytest.param(good(audiences=["https://kubernetes.default.svc"]), id="for-the-api-server"),
        pytest.param(good(audiences=[]), id="no-audience"),
        pytest.param({"authenticated": True, "user": {"username": "ann"}}, id="a-server-that-knows-no-audiences"),
        pytest.param(good(user={}), id="nobody"),
        pytest.param(good(user=None), id="null"),
        pytest.param({"authenticated": False, "error": "expired"}, id="an-error"),
    ],
)
async def test_everything_else_lets_nobody_in(hub, token_reviewer, status):
    hub.tokens["t"] = status
    assert await token_reviewer.authenticate("t") is None
    assert token_reviewer.cached("t") is None


async def test_answers_are_remembered_bad_ones_too(hub, token_reviewer, registry):
    hub.tokens["good"] = good()
    for _ in range(3):
        assert await token_reviewer.authenticate("good") == ANN
        assert await token_reviewer.authenticate("bad") is None
    assert [spec["token"] for spec in hub.asked] == ["good", "bad"]
    assert token_reviewer.cached("good") == ANN
    assert token_reviewer.cached("bad") is None
    assert [counted(registry, "token", result) for result in ("allow", "deny", "error", "cache")] == [1, 1, 0, 5]
    assert [counted(registry, "access", result) for result in ("allow", "deny", "error", "cache")] == [0, 0, 0, 0]


def test_for_how_long():
    assert (authentication.ACCEPTED_SECONDS, authentication.REFUSED_SECONDS) == (60, 10)
    assert (authorization.ALLOWED_SECONDS, authorization.DENIED_SECONDS) == (300, 30)


@pytest.mark.parametrize(("constant", "token"), [("ACCEPTED_SECONDS", "good"), ("REFUSED_SECONDS", "bad")])
async def test_an_answer_is_not_used_beyond_its_time(hub, token_reviewer, monkeypatch, constant, token):
    monkeypatch.setattr(authentication, constant, 0.0)
    hub.tokens["good"] = good()
    for _ in range(2):
        await token_reviewer.authenticate(token)
        assert token_reviewer.cached(token) is None
    assert len(hub.asked) == 2


async def test_a_token_that_is_deleted_is_refused_when_its_time_is_up(hub, token_reviewer, monkeypatch):
    hub.tokens["good"] = good()
    monkeypatch.setattr(authentication, "ACCEPTED_SECONDS", 0.0)
    assert await token_reviewer.authenticate("good") == ANN
    hub.code = 500
    with pytest.raises(NotReviewedError):
        await token_reviewer.authenticate("good")
    hub.code, hub.tokens = 201, {}
    assert await token_reviewer.authenticate("good") is None


async def test_the_same_question_is_not_asked_twice_at_once(hub, token_reviewer):
    hub.gate.clear()
    hub.tokens["good"] = good()
    asking = [asyncio.create_task(token_reviewer.authenticate("good")) for _ in range(20)]
    await until(lambda: hub.asked)
    asking[0].cancel()  # whoever asked first leaves; the others still get their answer
    hub.gate.set()
    assert await asyncio.gather(*asking[1:]) == [ANN] * 19
    assert len(hub.asked) == 1


@pytest.mark.parametrize("code", [401, 403, 404, 422, 429, 500, 503])
async def test_a_refusal_of_the_api_server_is_no_answer_and_is_not_remembered(hub, token_reviewer, registry, code):
    hub.tokens["t"] = good()
    hub.code = code
    with pytest.raises(NotReviewedError):
        await token_reviewer.authenticate("t")
    hub.code = 201
    assert await token_reviewer.authenticate("t") == ANN
    assert counted(registry, "token", "error") == 1


async def test_a_server_that_hangs_is_given_up(hub, token_reviewer, monkeypatch):
    for module in (reviews, authentication):
        monkeypatch.setattr(module, "REVIEW_SECONDS", 0.1)
    hub.gate.clear()
    waiting = [token_reviewer.authenticate(f"t{number}") for number in range(3 * reviews.MAX_CONCURRENT_REVIEWS)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(outcome, NotReviewedError) for outcome in outcomes)
    assert token_reviewer._reviews._asking == {}
    hub.gate.set()


async def test_memory_is_bounded_and_holds_no_token(hub, token_reviewer, monkeypatch):
    monkeypatch.setattr(reviews, "MOST_REMEMBERED", 3)
    for number in range(10):
        await token_reviewer.authenticate(f"secret-{number}")
    assert len(token_reviewer._reviews._answers) == 3
    assert "secret" not in repr(token_reviewer._reviews._answers)


@pytest.mark.parametrize("token", ["é", "\udcff", "a" * 8000])
async def test_strange_tokens_are_just_wrong(hub, token_reviewer, token):
    assert await token_reviewer.authenticate(token) is None
    assert len(hub.asked) == 1


async def test_rights_are_asked_with_all_that_is_known_of_the_user(hub, access_reviewer):
    wanted = Access("get", "placement.kubernetes-fleet.io", "resourceplacements", "cart", "shop")
    assert await access_reviewer.may(ANN, wanted)
    assert await access_reviewer.may(ANN, PathAccess("post", "/v1/score"))
    who = {"user": "ann", "groups": ["system:authenticated"], "uid": "u-1", "extra": {"scopes": ["a", "b"]}}
    resource = {
        "verb": "get",
        "version": "*",
        "group": "placement.kubernetes-fleet.io",
        "resource": "resourceplacements",
        "name": "cart",
        "namespace": "shop",
    }
    assert hub.asked == [
        {**who, "resourceAttributes": resource},
        {**who, "nonResourceAttributes": {"path": "/v1/score", "verb": "post"}},
    ]


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ({"allowed": True}, True),
        ({"allowed": True, "denied": False}, True),
        ({"allowed": True, "denied": True}, False),
        ({"allowed": False}, False),
        ({"allowed": "true"}, False),
        ({}, False),
    ],
)
async def test_what_counts_as_allowed(hub, access_reviewer, registry, status, allowed):
    hub.status = status
    for _ in range(2):
        assert await access_reviewer.may(ANN, PathAccess("get", "/v1/clusters")) is allowed
    assert len(hub.asked) == 1
    assert counted(registry, "access", "allow" if allowed else "deny") == 1
    assert counted(registry, "access", "cache") == 1


async def test_another_user_or_right_is_another_question(hub, access_reviewer):
    path = PathAccess("get", "/v1/clusters")
    others = [
        UserInfo("bob", ANN.groups, ANN.uid, ANN.extra),
        UserInfo("ann", frozenset(), ANN.uid, ANN.extra),
        UserInfo("ann", ANN.groups, "u-2", ANN.extra),
        UserInfo("ann", ANN.groups, ANN.uid, {}),
    ]
    for user in (ANN, *others):
        await access_reviewer.may(user, path)
    await access_reviewer.may(ANN, PathAccess("post", "/v1/clusters"))
    assert len(hub.asked) == len(others) + 2


async def test_what_is_remembered_of_all_rights_is_known_without_asking(hub, access_reviewer, registry):
    secrets, maps = Access("get", "", "secrets"), Access("get", "", "configmaps")
    assert access_reviewer.cached(ANN, [secrets]) is None
    await access_reviewer.review(ANN, [secrets])
    hub.status = {"allowed": False}
    assert access_reviewer.cached(ANN, [secrets]) == Reviewed()
    assert access_reviewer.cached(ANN, [secrets, maps]) is None
    assert access_reviewer.cached(UserInfo("bob"), [secrets]) is None
    await access_reviewer.review(ANN, [maps])
    assert access_reviewer.cached(ANN, [secrets, maps]) == await access_reviewer.review(ANN, [secrets, maps])
    assert access_reviewer.cached(ANN, [secrets, maps]) == Reviewed((maps,))
    assert access_reviewer.cached(ANN, [secrets] * (MOST_REVIEWED + 1)) is None
    assert len(hub.asked) == 2
    labels = {"kind": "access", "result": "cache"}
    assert registry.get_sample_value("harbormaster_auth_reviews_total", labels) == 1 + 2 + 2 + 2


@pytest.mark.parametrize(
    ("verbs", "asked", "allowed"),
    [
        pytest.param({"update", "place"}, ["update"], True, id="both"),
        pytest.param({"place"}, ["update", "place"], True, id="the-other"),
        pytest.param({"get"}, ["update", "place"], False, id="neither"),
    ],
)
async def test_one_of_two_rights_is_enough(hub, access_reviewer, verbs, asked, allowed):
    hub.verbs = verbs
    wanted = Access("update", "", "configmaps", "a", "shop", or_place=True, advisory=True)
    for _ in range(2):
        assert (await access_reviewer.review(ANN, [wanted])).denied == (() if allowed else (wanted,))
        assert access_reviewer.cached(ANN, [wanted]) == Reviewed(() if allowed else (wanted,))
    assert [spec["resourceAttributes"]["verb"] for spec in hub.asked] == asked


async def test_admission_hears_of_what_could_not_be_found_out(hub, access_reviewer):
    hub.code = 503
    reviewed = await access_reviewer.review(ANN, [Access("get", "", "namespaces", "shop")])
    assert (reviewed.denied, reviewed.unanswered) == ((), "the API server refused the review or did not answer")


async def test_the_hub_says_whose_client_certificates_it_accepts(hub, server):
    hub.config_map = {"client-ca-file": "PEM", "requestheader-client-ca-file": "other"}
    assert await HubAuthorities(server).read() == b"PEM"


@pytest.mark.parametrize("config_map", [None, {}, {"client-ca-file": ""}, {"client-ca-file": " \n"}])
async def test_a_hub_that_does_not_say_is_named_in_the_reason(hub, server, config_map):
    hub.config_map = config_map
    with pytest.raises(CertificateError, match="kube-system/extension-apiserver-authentication"):
        await HubAuthorities(server).read()


PUBLISHED = {
    "requestheader-client-ca-file": "PEM",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-User", "X-Remote-User"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
}
SENT = (
    ("X-User", "root"),
    ("x-remote-user", "tina"),
    ("X-Remote-Group", "a"),
    ("x-remote-group", "b"),
    ("X-Remote-Uid", "7"),
    ("X-Remote-Extra-Scopes.example.com%2fone", "read"),
    ("x-remote-extra-scopes.example.com%2Fone", "list"),
)


async def test_the_hub_names_its_front_proxy(hub, server):
    proxy = HubFrontProxy(server)
    assert proxy.names() is None
    hub.config_map = PUBLISHED
    assert await proxy.read() == b"PEM"
    names = proxy.names()
    assert (names.allows("front-proxy-client"), names.allows("another")) == (True, False)
    user = names.user(CIMultiDict(SENT))
    assert user == UserInfo("tina", frozenset("ab"), "7")
    assert user.extra == {"scopes.example.com/one": ("read", "list")}
    hub.config_map = {"requestheader-client-ca-file": "PEM", "requestheader-allowed-names": "[]"}
    await proxy.read()
    assert proxy.names().allows("another"), "as kube-apiserver does without names"
    assert proxy.names().user(CIMultiDict(SENT)).uid == "", "the hub does not set it, so a client has"


@pytest.mark.parametrize("headers", [[], [("X-Remote-User", "")], [("X-Remote-User", "a"), ("X-Remote-User", "b")]])
def test_headers_that_name_no_user(headers):
    assert FrontProxy().user(CIMultiDict(headers)) is None


@pytest.mark.parametrize(
    "config_map",
    [None, {}, {**PUBLISHED, "requestheader-client-ca-file": " "}, {**PUBLISHED, "requestheader-allowed-names": "X"}],
)
async def test_a_front_proxy_that_is_unknown_is_a_reason(hub, server, config_map):
    proxy = HubFrontProxy(server)
    hub.config_map = config_map
    with pytest.raises(CertificateError, match="kube-system/extension-apiserver-authentication"):
        await proxy.read()
    assert proxy.names() is None


def test_a_user_with_more_groups_than_any_has_is_refused():
    assert FrontProxy().user(CIMultiDict([("X-Remote-User", "a"), *[("X-Remote-Group", "g")] * 1001])) is None


async def test_more_rights_than_any_placement_needs_are_not_asked_about(hub, access_reviewer):
    wanted = [Access("get", "", "secrets", f"s{number}", "shop") for number in range(authorization.MOST_REVIEWED + 1)]
    reviewed = await access_reviewer.review(ANN, wanted)
    assert (reviewed.denied, "501 rights" in reviewed.unanswered, hub.asked) == ((), True, [])
