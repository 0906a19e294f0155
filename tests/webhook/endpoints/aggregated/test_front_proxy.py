"""Who may name users to the aggregated API, over real TLS: the front proxy of the hub, and no other client."""

import asyncio
import json
import ssl
from datetime import UTC, datetime

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from certs.authority import Authority
from certs.client_authorities import AuthorityFile
from certs.context import CertificateError
from e2e.controlplane.client_certificate import issue_client_certificate
from tests.webhook.endpoints.asking import assert_problem, assert_status
from tests.webhook.endpoints.callers_known import roster
from webhook.access.front_proxy import MOST_VALUES, FrontProxy

GROUP = "/apis/answers.harbormaster.dev"
PATH = f"{GROUP}/v1/namespaces/shop/explanations"
PROXY = FrontProxy(frozenset({"front-proxy-client"}))
QUESTION = json.dumps({"placement": {"ref": {"kind": "ResourcePlacement", "namespace": "shop", "name": "payments"}}})
CREATE = 'create explanations.answers.harbormaster.dev in namespace "shop"'
GET = 'get resourceplacements.placement.kubernetes-fleet.io "payments" in namespace "shop"'
TINA = {"X-Remote-User": "tina", "X-Remote-Group": "team-kiosk"}


class Authorities:
    """Those of users and of the front proxy, in files that the server reads."""

    def __init__(self, folder):
        self.folder = folder
        self.users, self.proxies = (Authority.new(datetime.now(UTC)) for _ in range(2))
        self.write()

    def write(self, *, users=None, proxies=None):
        (self.folder / "users.crt").write_bytes(users or self.users.pem)
        (self.folder / "proxies.crt").write_bytes(proxies or self.proxies.pem)

    @property
    def sources(self):
        return {
            "client_authorities": AuthorityFile(self.folder / "users.crt", 3600),
            "proxy_authorities": AuthorityFile(self.folder / "proxies.crt", 3600),
        }

    def show(self, port, authority, name="front-proxy-client", groups=()):
        """Have the clients of *port* show a certificate of *authority*."""
        trust = ssl.create_default_context(cadata=port.server.certificates.trust_pem.decode())
        port.trust = issue_client_certificate(authority, self.folder, name, groups).show(trust)


@pytest.fixture
def authorities(tmp_path):
    return Authorities(tmp_path)


@pytest.fixture
def known():
    """A hub on which tina may do what a team may."""
    found = roster("get /v1/clusters")
    found.rights |= {("tina", CREATE), ("tina", GET)}
    return found


async def ask(port, headers=TINA, body=QUESTION, path=PATH):
    async with port.dial(token="") as connection:
        return await connection.post(path, body.encode(), **headers)


async def test_the_front_proxy_names_the_user_whose_rights_are_reviewed(launch, authorities, known):
    async with launch(authenticator=known, authorizer=known, front_proxy=PROXY, **authorities.sources) as port:
        authorities.show(port, authorities.proxies)
        answer = await ask(port)
        assert (answer.status, answer.json["wanted"]) == (200, 1)
        refused = await ask(port, {"X-Remote-User": "bob"})
        assert_status(refused, 403, "Forbidden")
        assert refused.json["message"] == f'"bob" may not {CREATE}'
        known.rights.discard(("tina", CREATE))
        assert_status(await ask(port), 403, "Forbidden")
        known.down = True
        assert_status(await ask(port), 503, "ServiceUnavailable")


async def test_a_placement_that_the_user_may_not_get_is_missing(launch, authorities, known):
    known.rights.discard(("tina", GET))
    async with launch(authenticator=known, authorizer=known, front_proxy=PROXY, **authorities.sources) as port:
        authorities.show(port, authorities.proxies)
        assert_status(await ask(port), 404, "NotFound")


async def test_a_user_of_many_groups_is_served(launch, authorities, known):
    """A directory may put a user into hundreds. Other clients have no reason to send that many headers."""
    groups = [("X-Remote-Group", f"group-{number}") for number in range(MOST_VALUES)]
    async with launch(authenticator=known, authorizer=known, front_proxy=PROXY, **authorities.sources) as port:
        authorities.show(port, authorities.proxies)
        assert await status_of(port, groups) == 200
        assert await status_of(port, [*groups, ("X-Remote-Group", "one-more")]) == 401
        port.trust = ssl.create_default_context(cadata=port.server.certificates.trust_pem.decode())
        assert await status_of(port, groups) == 400


async def status_of(port, headers):
    async with aiohttp.ClientSession(headers=[("X-Remote-User", "tina"), *headers]) as client:
        url = f"{port.server.addresses.https_url}{PATH}"
        async with client.post(url, json=json.loads(QUESTION), ssl=port.trust) as answer:
            return answer.status


@pytest.mark.parametrize("path", [PATH, GROUP, f"{GROUP}/v1"])
async def test_no_other_client_is_taken_for_the_front_proxy(launch, authorities, known, path):
    """Not even with a certificate of the ordinary authority for the name of the front proxy, or as an administrator."""
    async with launch(authenticator=known, authorizer=known, front_proxy=PROXY, **authorities.sources) as port:
        for shown in (
            (authorities.users, "front-proxy-client", ()),
            (authorities.users, "root", ("system:masters",)),
            (authorities.proxies, "another-proxy", ()),
        ):
            authorities.show(port, *shown)
            assert_status(await ask(port, path=path), 401, "Unauthorized")
        port.trust = ssl.create_default_context(cadata=port.server.certificates.trust_pem.decode())
        assert_status(await ask(port, path=path), 401, "Unauthorized")
        assert_status(await ask(port, TINA | {"Authorization": "Bearer t-ann"}, path=path), 401, "Unauthorized")


async def test_a_request_that_names_no_user_is_refused(launch, authorities, known):
    known.rights |= {("", CREATE), ("", GET), ("front-proxy-client", CREATE), ("front-proxy-client", GET)}
    async with launch(authenticator=known, authorizer=known, front_proxy=PROXY, **authorities.sources) as port:
        authorities.show(port, authorities.proxies)
        for headers in ({}, {"X-Remote-User": ""}, {"X-Remote-Group": "system:masters"}):
            assert_status(await ask(port, headers), 401, "Unauthorized")


async def test_on_all_other_paths_the_headers_and_the_certificate_count_for_nothing(launch, authorities, known):
    known.rights |= {(user, "get /v1/clusters") for user in ("tina", "front-proxy-client")}
    async with launch(authenticator=known, authorizer=known, front_proxy=PROXY, **authorities.sources) as port:
        authorities.show(port, authorities.proxies)
        async with port.dial(token="") as connection:
            assert_problem(await connection.get("/v1/clusters", **TINA), "unauthenticated", 401)
            assert (await connection.get("/v1/clusters", Authorization="Bearer t-ann", **TINA)).status == 200
        authorities.show(port, authorities.users, "bob")
        async with port.dial(token="") as connection:
            refused = assert_problem(await connection.get("/v1/clusters", **TINA), "forbidden", 403)
            assert refused["detail"] == '"bob" may not get /v1/clusters'


async def test_the_front_proxy_is_no_api_server_for_the_hooks(launch, authorities, known, review_bytes):
    settings = {"require_client_certificate": True, "admission_client_names": ("front-proxy-client",)}
    async with launch(front_proxy=PROXY, **settings, **authorities.sources) as port:
        authorities.show(port, authorities.proxies)
        async with port.dial(token="") as connection:
            assert (await connection.post("/validate", review_bytes())).status == 403
        authorities.show(port, authorities.users)
        async with port.dial(token="") as connection:
            assert (await connection.post("/validate", review_bytes())).status == 200


async def test_an_authority_of_users_is_never_one_of_the_front_proxy(launch, authorities, known):
    """A hub that uses one authority for both would let each user with a fitting certificate name any other user."""
    authorities.write(proxies=authorities.users.pem)
    async with launch(authenticator=known, authorizer=known, front_proxy=PROXY, **authorities.sources) as port:
        authorities.show(port, authorities.users)
        assert_status(await ask(port), 401, "Unauthorized")


async def test_an_authority_of_users_is_known_by_its_key(launch, authorities, known):
    """Its certificate was renewed, and only the new one is listed for users."""
    own = authorities.users
    begin = x509.CertificateBuilder(extensions=list(own.certificate.extensions))
    renewed = (
        begin.subject_name(own.certificate.subject)
        .issuer_name(own.certificate.subject)
        .public_key(own.certificate.public_key())
        .serial_number(7)
        .not_valid_before(own.certificate.not_valid_before_utc)
        .not_valid_after(own.certificate.not_valid_after_utc)
        .sign(own._key, hashes.SHA256())
    )
    authorities.write(users=renewed.public_bytes(Encoding.PEM), proxies=own.pem)
    async with launch(authenticator=known, authorizer=known, front_proxy=PROXY, **authorities.sources) as port:
        authorities.show(port, own)
        assert_status(await ask(port), 401, "Unauthorized")


async def test_an_intermediate_authority_names_users_only_below_an_authority_of_users(launch, authorities, known):
    """Any number of them may be below the authority of the front proxy, such as those of a whole company."""
    known.rights |= {("root", "get /v1/clusters")}
    async with launch(authenticator=known, authorizer=known, front_proxy=PROXY, **authorities.sources) as port:
        for root, status in ((authorities.users, 200), (authorities.proxies, 401)):
            between = Authority.new(datetime.now(UTC))
            shown = issue_client_certificate(between, authorities.folder, "root")
            with shown.certificate.open("ab") as file:
                file.write(root.vouch_for(between).public_bytes(Encoding.PEM))
            port.trust = shown.show(ssl.create_default_context(cadata=port.server.certificates.trust_pem.decode()))
            async with port.dial(token="") as connection:
                assert (await connection.get("/v1/clusters")).status == status
            assert_status(await ask(port), 401, "Unauthorized")


async def test_a_replaced_authority_is_accepted_and_the_old_one_is_not(launch, authorities, known):
    new = Authority.new(datetime.now(UTC))
    async with launch(authenticator=known, authorizer=known, front_proxy=PROXY, **authorities.sources) as port:
        authorities.show(port, authorities.proxies)
        async with port.dial(token="") as early:
            assert (await early.post(PATH, QUESTION.encode(), **TINA)).status == 200
            authorities.write(proxies=authorities.proxies.pem + new.pem)
            assert await port.server.certificates.renew_proxy_authorities()
            assert (await early.post(PATH, QUESTION.encode(), **TINA)).status == 200
            authorities.write(proxies=new.pem)
            assert await port.server.certificates.renew_proxy_authorities()
            answer = await early.post(PATH, QUESTION.encode(), **TINA)
            assert_status(answer, 401, "Unauthorized")
            assert answer.headers["Connection"] == "close"
        authorities.show(port, new)
        assert (await ask(port)).status == 200
        authorities.show(port, authorities.proxies)
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await ask(port)
        assert port.sample("harbormaster_certificate_renewals_total", role="front_proxy_ca", result="success") == 3, (
            "at the start, and twice since"
        )


class Unpublished:
    """A hub without an aggregation layer."""

    check_seconds = 3600

    async def read(self):
        raise CertificateError("no requestheader-client-ca-file")


async def test_until_the_front_proxy_is_known_no_client_is_taken_for_it(launch, authorities, known):
    sources = authorities.sources | {"proxy_authorities": Unpublished()}
    async with launch(authenticator=known, authorizer=known, front_proxy=PROXY, **sources) as port:
        authorities.show(port, authorities.users)
        assert_status(await ask(port), 401, "Unauthorized")


async def test_without_the_setting_there_is_no_such_path(launch, authorities, known):
    async with launch(authenticator=known, authorizer=known, **authorities.sources) as port:
        authorities.show(port, authorities.proxies)
        for path in (PATH, GROUP):
            assert_problem(await ask(port, path=path), "not-found", 404)


async def test_discovery(launch, authorities, known):
    async with launch(authenticator=known, authorizer=known, front_proxy=PROXY, **authorities.sources) as port:
        authorities.show(port, authorities.proxies)
        async with port.dial(token="") as connection:
            group = (await connection.get(GROUP, **TINA)).json
            assert (group["kind"], group["preferredVersion"]["groupVersion"]) == (
                "APIGroup",
                "answers.harbormaster.dev/v1",
            )
            listed = (await connection.get(f"{GROUP}/v1", **TINA)).json
            assert listed["groupVersion"] == group["preferredVersion"]["groupVersion"]
            assert {each["name"] for each in listed["resources"]} == {
                "explanations",
                "histories",
                "pastdecisions",
                "placementplans",
                "renderings",
            }
            assert all(each["verbs"] == ["create"] and each["namespaced"] for each in listed["resources"])
            for method in ("GET", "DELETE", "PUT", "PATCH"):
                assert_status(await connection.get(PATH, method, **TINA), 405, "MethodNotAllowed")
