"""Who may call the hooks: what a review that may be made up is answered, and what it cannot cause."""

import asyncio
import json
from dataclasses import dataclass, field

import pytest

from tests.webhook.endpoints.admission.guarded_pool import NODE_OF_A, deletion, guarded
from tests.webhook.endpoints.asking import assert_status
from tests.webhook.endpoints.callers_known import Certificates
from webhook.access.rights import Reviewed
from webhook.admission.authorization import needed_access
from webhook.endpoints.admission import authentication, hooks
from webhook.settings.access import AccessSettings
from webhook.settings.admission import AdmissionSettings, PlacementAuthorization
from webhook.settings.environment import SettingsError
from webhook.settings.secret_files import read_secrets
from webhook.validation.framework.context import Context

SECRET = "s" * 20 + "-_09AZaz" + "x" * 20
OLDER = "o" * 32
PLACEMENTS = "placement.kubernetes-fleet.io/clusterresourceplacements"
UNKNOWN = "could not be reviewed: the caller could not be identified as the API server"


@dataclass
class Rights:
    """Says that nobody may do anything, and remembers who was asked about."""

    asked: list = field(default_factory=list)

    def cached(self, _user, _wanted):
        return None

    async def review(self, user, wanted):
        self.asked.append((user.username, wanted))
        return Reviewed(tuple(wanted))


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n{OLDER}\n", encoding="ascii")
    return path


def below(secret, path=f"validate/{PLACEMENTS}"):
    return f"/hooks/{secret}/{path}"


def warnings_of(answer) -> list:
    return answer.json["response"].get("warnings", [])


async def test_rights_are_asked_for_on_the_secret_path_alone(launch, review_bytes, secret_file):
    rights = Rights()
    async with launch(access=rights, webhook_secret_file=secret_file) as port, port.dial() as connection:
        for path in ("/validate", f"/validate/{PLACEMENTS}"):
            stranger = await connection.post(path, review_bytes())
            assert stranger.json["response"]["allowed"]
            assert UNKNOWN in warnings_of(stranger)[0]
        assert rights.asked == []
        for secret in (SECRET, OLDER):
            known = await connection.post(below(secret), review_bytes())
            assert '"ann" may not get namespaces' in warnings_of(known)[0]
    assert len(rights.asked) == 2


async def test_what_a_stranger_sends_is_not_compared_with_anything(launch, review, secret_file, monkeypatch):
    """Who, what kind and which operation say that rights would be asked for; the objects may be made up."""
    looked_at = []

    def note(*given):
        looked_at.append(given)
        return needed_access(*given)

    monkeypatch.setattr("webhook.admission.rights.needed_access", note)
    update = review(operation="UPDATE")
    update["request"]["oldObject"] = update["request"]["object"]
    body = json.dumps(update).encode()
    async with launch(access=Rights(), webhook_secret_file=secret_file) as port, port.dial() as connection:
        stranger = await connection.post("/validate", body)
        assert not looked_at
        known = await connection.post(below(SECRET), body)
        assert len(looked_at) == 1
    assert UNKNOWN in warnings_of(stranger)[0]
    assert not [warning for warning in warnings_of(known) if "may not" in warning]


async def test_a_stranger_who_waits_takes_no_place_of_the_api_server(launch, review_bytes, secret_file, monkeypatch):
    monkeypatch.setattr(authentication, "UNVERIFIED_SHARE", 1e-9)  # the second one waits for years
    async with launch(webhook_secret_file=secret_file, admission_in_flight=1) as port, port.dial() as stranger:
        assert (await stranger.post("/validate", review_bytes())).status == 200
        waiting = asyncio.create_task(stranger.post("/validate", review_bytes()))
        async with port.dial() as another:
            answer = await another.post("/validate", review_bytes())
            assert_status(answer, 503, "ServiceUnavailable")  # so the first one has come, and waits
        async with port.dial() as known:
            assert (await known.post(below(SECRET), review_bytes())).status == 200
        waiting.cancel()


async def test_a_stranger_whose_time_is_up_when_his_turn_comes_is_not_judged(
    launch, review_bytes, secret_file, monkeypatch
):
    judged = []
    monkeypatch.setattr(hooks, "_budget", lambda _query: -1.0)
    monkeypatch.setattr(hooks, "parse_review", judged.append)
    async with launch(webhook_secret_file=secret_file) as port, port.dial() as connection:
        assert_status(await connection.post("/validate", review_bytes()), 503, "ServiceUnavailable")
    assert not judged


async def test_where_nothing_is_set_up_everybody_is_taken_for_the_api_server(launch, review_bytes):
    rights = Rights()
    async with launch(access=rights) as port, port.dial() as connection:
        answer = await connection.post("/validate", review_bytes())
        assert (await connection.post(below(SECRET), review_bytes())).status == 404
    assert '"ann" may not get namespaces' in warnings_of(answer)[0]


class Called:
    """How the API server calls, as the tests have it."""

    def __init__(self, plainly=False, secrets=()):
        self.plainly = plainly
        self.secrets = tuple(each.encode() for each in secrets)
        self.waiting = asyncio.Event()
        self._changed = asyncio.Event()

    async def change(self):
        self.waiting.set()
        await self._changed.wait()

    def become(self, **news):
        vars(self).update(news)
        self._changed.set()


OTHER = "n" * 32


@pytest.mark.parametrize(
    ("called", "path", "status", "is_known"),
    [
        pytest.param({"plainly": True}, "/validate", 200, True, id="plain-while-it-is-called"),
        pytest.param({}, "/validate", 200, False, id="plain-once-it-is-not"),
        pytest.param({"plainly": True}, below(SECRET), 200, True, id="secret-before-it-is-called"),
        pytest.param({"secrets": [SECRET]}, below(SECRET), 200, True, id="secret-that-is-called"),
        pytest.param({"secrets": [OTHER]}, below(OTHER), 200, True, id="secret-that-only-the-hub-has"),
        pytest.param({"secrets": [OTHER]}, below(SECRET), 200, True, id="secret-that-only-we-have"),
        pytest.param({"secrets": [OTHER]}, "/validate", 200, False, id="plain-beside-a-secret"),
        pytest.param({"secrets": [OTHER]}, below("w" * 32), 404, False, id="secret-that-nobody-has"),
    ],
)
@pytest.mark.parametrize("plain", [True, False], ids=["judging-strangers", "refusing-strangers"])
async def test_the_path_that_the_hub_calls_is_the_api_servers(
    launch, review_bytes, secret_file, monkeypatch, called, path, status, is_known, plain
):
    monkeypatch.setattr("webhook.endpoints.admission.authentication.LEARNING_SECONDS", 0)
    rights = Rights()
    settings = {"access": rights, "webhook_secret_file": secret_file, "plain_admission_paths": plain}
    async with launch(calls=Called(**called), **settings) as port, port.dial() as connection:
        answer = await connection.post(path, review_bytes())
    assert answer.status == (status if plain or is_known or status == 404 else 403)
    assert len(rights.asked) == is_known


async def test_a_secret_that_the_hub_calls_counts_before_a_file_is_given(launch, review_bytes):
    """So a secret can be introduced while replicas without one run."""
    rights = Rights()
    async with launch(calls=Called(secrets=[OTHER]), access=rights) as port, port.dial() as connection:
        assert (await connection.post(below(OTHER), review_bytes())).status == 200
        assert (await connection.post("/validate", review_bytes())).status == 200
    assert len(rights.asked) == 2


@pytest.mark.parametrize(
    ("path", "news"),
    [
        pytest.param(below(OTHER), {"secrets": (OTHER.encode(),)}, id="introduced"),
        pytest.param("/validate", {"plainly": True}, id="rolled-back"),
    ],
)
async def test_a_review_that_is_ahead_of_the_news_of_its_path_waits_for_it(
    launch, review_bytes, secret_file, monkeypatch, path, news
):
    monkeypatch.setattr("webhook.endpoints.admission.authentication.LEARNING_SECONDS", 600)
    called, rights = Called(), Rights()
    async with launch(calls=called, access=rights, webhook_secret_file=secret_file) as port, port.dial() as connection:
        asking = asyncio.create_task(connection.post(path, review_bytes()))
        await called.waiting.wait()
        called.become(**news)
        assert (await asking).status == 200
    assert len(rights.asked) == 1


async def test_where_certificates_are_required_no_path_is_enough(launch, review_bytes):
    called = Called(plainly=True, secrets=[OTHER])
    async with launch(calls=called, require_client_certificate=True) as port:
        for path in ("/validate", below(OTHER)):
            async with port.dial() as connection:
                assert (await connection.post(path, review_bytes())).status == 403


async def test_where_rights_are_enforced_no_stranger_hears_yes(launch, review_bytes, secret_file):
    strict = Context(settings=AdmissionSettings(placement_authorization=PlacementAuthorization.ENFORCE))
    rights = Rights()
    async with launch(context=lambda: strict, access=rights, webhook_secret_file=secret_file) as port:
        async with port.dial() as connection:
            assert (await connection.post(below(SECRET), review_bytes())).json["response"]["status"]["code"] == 403
        async with port.dial() as connection:
            assert_status(await connection.post("/validate", review_bytes()), 503, "ServiceUnavailable")
    assert len(rights.asked) == 1


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(below("w" * 48), id="another-secret"),
        pytest.param(below(SECRET[:-1]), id="too-short"),
        pytest.param(below(SECRET + "x"), id="too-long"),
        pytest.param(below("%FF%00"), id="no-text"),
        pytest.param(below(SECRET, "validate/nowhere"), id="nowhere"),
        pytest.param(below(SECRET, "v1/clusters"), id="other-surface"),
        pytest.param(f"/hooks/{SECRET}", id="nothing-behind"),
    ],
)
async def test_beside_the_secret_path_there_is_nothing(launch, review_bytes, secret_file, path):
    async with launch(webhook_secret_file=secret_file) as port, port.dial() as connection:
        answer = await connection.post(path, review_bytes())
    assert answer.status == 404
    assert SECRET.encode() not in answer.body or SECRET in path


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/hooks//validate", id="empty-secret"),
        pytest.param("/hooks/%00/validate", id="nul"),
        pytest.param("/hooks/%2e%2e/validate", id="encoded-way-up"),
        pytest.param(f"/hooks/{'w' * 32}/../validate", id="way-up"),
        pytest.param(f"/hooks/{SECRET}%2Fvalidate", id="encoded-slash"),
        pytest.param(f"/hooks/{SECRET}%20/validate", id="blank-behind"),
        pytest.param(f"/hooks/{SECRET.swapcase()}/validate", id="other-case"),
        pytest.param(f"/hooks/{SECRET}{OLDER}/validate", id="both"),
        pytest.param(f"/hooks/{SECRET}%0A{OLDER}/validate", id="the-file-as-it-is"),
        pytest.param(f"/HOOKS/{SECRET}/validate", id="other-case-before"),
        pytest.param(f"/hooks/validate/{SECRET}", id="other-order"),
        pytest.param(f"/hooks;{SECRET}/validate", id="parameter"),
        pytest.param(f"/validate?secret={SECRET}", id="query"),
        pytest.param(f"/validate/..;/hooks/{SECRET}/validate", id="way-up-with-a-parameter"),
        pytest.param(f"/validate#/hooks/{SECRET}/validate", id="fragment"),
        pytest.param(f"https://hooks/{SECRET}/validate", id="in-the-place-of-a-host"),
        pytest.param("//validate", id="two-slashes"),
        pytest.param("/validate/", id="slash-behind"),
        pytest.param("/%76alidate", id="encoded-letter"),
        pytest.param("https://a/validate", id="absolute"),
    ],
)
@pytest.mark.parametrize("header", [b"", b"X-Original-URL: ", b"X-Forwarded-Prefix: ", b"Referer: "])
async def test_no_other_spelling_of_a_path_makes_a_sender_the_api_server(
    launch, review_bytes, secret_file, monkeypatch, path, header
):
    monkeypatch.setattr("webhook.endpoints.admission.authentication.LEARNING_SECONDS", 0)
    rights, body = Rights(), review_bytes()
    lines = [
        f"POST {path} HTTP/1.1".encode(),
        b"Host: a",
        *([header + f"/hooks/{SECRET}/validate".encode()] if header else []),
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
    ]
    settings = {"access": rights, "webhook_secret_file": secret_file}
    async with launch(calls=Called(secrets=[SECRET]), **settings) as port, port.dial() as connection:
        await connection.send(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        answer = await connection.answer()
    assert rights.asked == []
    if answer.status == 200:
        assert UNKNOWN in warnings_of(answer)[0]


async def test_both_hooks_and_every_kind_stand_below_the_secret(launch, review_bytes, secret_file):
    async with launch(webhook_secret_file=secret_file) as port, port.dial() as connection:
        for path in ("validate", "mutate", f"mutate/{PLACEMENTS}", "validate/disruption"):
            assert (await connection.post(below(SECRET, path), review_bytes())).status == 200
        assert (await connection.get(below(SECRET, "validate"))).status == 405


def override(name, cluster):
    patch = {"op": "add", "path": "/metadata/labels/a", "value": cluster}
    terms = [{"labelSelector": {"matchLabels": {"region": "north"}}}]
    rules = [{"clusterSelector": {"clusterSelectorTerms": terms}, "jsonPatchOverrides": [patch]}]
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourceOverride",
        "metadata": {"name": name},
        "spec": {
            "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": {"overrideRules": rules},
        },
    }


async def test_a_stranger_learns_nothing_of_the_hub(launch, review, secret_file):
    """That another override has the same object is a reason to refuse, and so tells what is there."""
    hub = Context.of_objects([override("theirs", "a")])
    kind = {"group": "placement.kubernetes-fleet.io", "version": "v1", "kind": "ClusterResourceOverride"}
    body = json.dumps(review(kind=kind, object=override("mine", "b"))).encode()
    async with launch(context=lambda: hub, webhook_secret_file=secret_file) as port, port.dial() as connection:
        known = await connection.post(below(SECRET, "validate"), body)
        stranger = await connection.post("/validate", body)
    assert b"theirs" in known.body
    assert not known.json["response"]["allowed"]
    assert stranger.json["response"]["allowed"]
    assert b"theirs" not in stranger.body


async def test_the_rules_hold_for_strangers_too(launch, review, secret_file):
    wrong = review()
    wrong["request"]["object"]["spec"]["policy"]["placementType"] = "PickSome"
    async with launch(webhook_secret_file=secret_file) as port, port.dial() as connection:
        answers = [await connection.post(path, json.dumps(wrong).encode()) for path in ("/validate", below(SECRET))]
    assert answers[0].json == answers[1].json
    assert answers[0].json["response"]["status"]["code"] == 422


async def test_plain_paths_can_be_switched_off(launch, review_bytes, secret_file):
    settings = {"webhook_secret_file": secret_file, "plain_admission_paths": False}
    async with launch(**settings) as port:
        for path in ("/validate", "/mutate", f"/validate/{PLACEMENTS}", "/validate/disruption"):
            async with port.dial() as connection:
                assert_status(await connection.post(path, review_bytes()), 403, "Forbidden")
        assert port.sample("harbormaster_http_rejected_total", surface="admission", reason="stranger") == 4
        async with port.dial() as connection:
            assert (await connection.post(below(SECRET), review_bytes())).status == 200


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path)


@pytest.mark.parametrize("name", ["kube-apiserver", "system:node:a", None])
async def test_where_a_certificate_is_required_its_name_decides(launch, review_bytes, certificates, secret_file, name):
    settings = {"require_client_certificate": True, "webhook_secret_file": secret_file}
    async with launch(client_authorities=certificates.source, **settings) as port:
        if name:
            port.trust = certificates.trust(port, name)
        for path in ("/validate", below(SECRET)):
            async with port.dial() as connection:
                answer = await connection.post(path, review_bytes())
                assert answer.status == (200 if name == "kube-apiserver" else 403), path


async def test_a_certificate_of_another_name_can_be_accepted(launch, review_bytes, certificates):
    settings = {"require_client_certificate": True, "admission_client_names": ("hub-a", "hub-b")}
    async with launch(client_authorities=certificates.source, **settings) as port:
        port.trust = certificates.trust(port, "hub-b")
        async with port.dial() as connection:
            assert (await connection.post("/validate", review_bytes())).status == 200


async def test_a_certificate_is_as_good_as_the_secret(launch, review_bytes, certificates, secret_file):
    rights = Rights()
    settings = {"access": rights, "webhook_secret_file": secret_file}
    async with launch(client_authorities=certificates.source, **settings) as port:
        port.trust = certificates.trust(port, "kube-apiserver")
        async with port.dial() as connection:
            await connection.post("/validate", review_bytes())
    assert len(rights.asked) == 1


@pytest.mark.parametrize("plain", [True, False])
async def test_whose_authority_was_taken_away_connects_again(launch, review_bytes, certificates, secret_file, plain):
    """It is no stranger: neither judged as one nor sent away for good."""
    settings = {"webhook_secret_file": secret_file, "plain_admission_paths": plain}
    rights = Rights()
    async with launch(access=rights, client_authorities=certificates.source, **settings) as port:
        port.trust = certificates.trust(port, "kube-apiserver")
        async with port.dial() as early:
            assert (await early.post("/validate", review_bytes())).status == 200
            certificates.file.write_bytes(certificates.foreign.pem)
            assert await port.server.certificates.renew_client_authorities()
            answer = await early.post("/validate", review_bytes())
            assert_status(answer, 503, "ServiceUnavailable")
            assert ": reconnect" in answer.json["message"]
            assert answer.headers["Connection"] == "close"
            assert await early.ended()
        port.trust = certificates.trust(port, "kube-apiserver", of=certificates.foreign)
        async with port.dial() as late:
            assert (await late.post("/validate", review_bytes())).status == 200
    assert len(rights.asked) == 2


async def test_a_review_that_is_judged_while_its_authority_goes_is_the_last_of_its_connection(
    launch, review_bytes, certificates, secret_file
):
    class Renewing(Rights):
        def cached(self, _user, _wanted):
            return None

        async def review(self, user, wanted):
            certificates.file.write_bytes(certificates.foreign.pem)
            assert await port.server.certificates.renew_client_authorities()
            return await super().review(user, wanted)

    settings = {"client_authorities": certificates.source, "webhook_secret_file": secret_file}
    async with launch(access=Renewing(), **settings) as port:
        port.trust = certificates.trust(port, "kube-apiserver")
        async with port.dial() as connection:
            answer = await connection.post("/validate", review_bytes())
            assert answer.status == 200
            assert answer.headers["Connection"] == "close"
            assert await connection.ended()


async def test_another_authority_makes_nobody_a_stranger(launch, review_bytes, certificates, secret_file):
    rights = Rights()
    settings = {"webhook_secret_file": secret_file}
    async with launch(access=rights, client_authorities=certificates.source, **settings) as port:
        port.trust = certificates.trust(port, "kube-apiserver")
        async with port.dial() as connection:
            for count, pem in enumerate(
                (certificates.good.pem, certificates.foreign.pem + b"\n" + certificates.good.pem), 1
            ):
                certificates.file.write_bytes(pem)
                await port.server.certificates.renew_client_authorities()
                answer = await connection.post("/validate", review_bytes())
                assert answer.status == 200
                assert "Connection" not in answer.headers
                assert len(rights.asked) == count
            certificates.file.write_bytes(certificates.foreign.pem)
            assert await port.server.certificates.renew_client_authorities()
            assert (await connection.post("/validate", review_bytes())).status == 503


async def test_the_secret_is_nowhere_but_in_the_path(launch, review_bytes, secret_file, caplog):
    caplog.set_level("DEBUG")

    def broken():
        raise RuntimeError("an error of ours")

    for context in (Context, broken):
        async with launch(context=context, webhook_secret_file=secret_file) as port, port.dial() as connection:
            answers = [await connection.post(below(SECRET, path), review_bytes()) for path in ("validate", "mutate")]
            answers.append(await connection.post(below(SECRET), b"no json"))
            exposition, _ = port.server.metrics.exposition("")
            assert SECRET.encode() not in exposition
            assert SECRET not in str([(answer.headers, answer.body) for answer in answers])
            assert SECRET not in repr(port.server.settings)
    assert len(caplog.records) > 3
    assert SECRET not in str([(vars(record), record.getMessage()) for record in caplog.records])


async def test_strangers_reserve_nothing(secret_file):
    """Neither do they hear what is held."""
    async with guarded(enforce_budgets=True, webhook_secret_file=secret_file) as port, port.dial() as connection:
        stranger = await connection.post("/validate/disruption", deletion())
        known = await connection.post(below(SECRET, "validate/disruption"), deletion())
    assert stranger.json["response"]["allowed"]
    assert NODE_OF_A["metadata"]["name"] not in stranger.body.decode()
    assert not known.json["response"]["allowed"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("", "must have 1 to 8 secrets, one per line, has 0", id="empty"),
        pytest.param("\n".join(["a" * 32] * 9), "has 9", id="too-many"),
        pytest.param("a" * 31, "line 1: must be 32 to 128 letters", id="too-short"),
        pytest.param("\n\nsecret/segment-with-a-slash-in-it-000", "line 3: must be", id="no-segment"),
        pytest.param("é" * 40, "must be ASCII text", id="no-ascii"),
        pytest.param("a" * (2**20 + 1), "larger than 1048576 bytes", id="too-large"),
    ],
)
def test_a_file_that_holds_no_secret_is_named_and_not_quoted(tmp_path, content, complaint):
    path = tmp_path / "secret"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(SettingsError, match=complaint) as refused:
        read_secrets(path)
    assert str(refused.value).startswith(f"HARBORMASTER_WEBHOOK_SECRET_FILE: '{path}'")
    assert not content.strip() or content.strip() not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match="No such file"):
        read_secrets(tmp_path / "nothing")


def test_a_certificate_is_required_of_somebody():
    with pytest.raises(SettingsError, match="must not be true when admission_client_names is empty"):
        AccessSettings.read({}, require_client_certificate=True, admission_client_names=())
