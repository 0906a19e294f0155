"""The HTTP contract of the hooks: every row of serving.md 1.8 part A, in its order."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from tests.webhook.endpoints.asking import assert_status
from webhook.access.rights import Reviewed
from webhook.admission.registration import WebhookEndpoint, webhook_configurations
from webhook.settings.admission import AdmissionSettings, PlacementAuthorization

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def port(shared_port):
    """The server of all tests here but those that count, or need other settings."""
    shared_port.renew()
    return shared_port


VALIDATE = "/validate"
MEBIBYTE = 1024 * 1024


async def test_a_sound_review_is_answered(port, review_bytes):
    async with port.dial() as connection:
        answer = await connection.post("/validate?timeout=30s", review_bytes("one"))
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json["response"] == {"uid": "one", "allowed": True}


async def test_every_answer_has_an_id_and_no_server_banner(port, review_bytes):
    async with port.dial() as connection:
        for answer in (await connection.post(VALIDATE, review_bytes()), await connection.get(VALIDATE)):
            assert len(answer.headers["X-Request-Id"]) == 36
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "Server" not in answer.headers


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param("build-7.fleet_A", True, id="harmless"),
        pytest.param("a" * 64, True, id="longest"),
        pytest.param("a" * 65, False, id="too-long"),
        pytest.param("a b", False, id="blank"),
        pytest.param("<script>", False, id="markup"),
    ],
)
async def test_a_callers_request_id_is_kept_when_it_is_a_harmless_word(port, review_bytes, given, kept):
    async with port.dial() as connection:
        answer = await connection.post(VALIDATE, review_bytes(), X_Request_Id=given)
    assert (answer.headers["X-Request-Id"] == given) is kept


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/validate", "/mutate", "/validate/karpenter.sh/nodepools", "/validate/nowhere"])
async def test_another_method_is_not_allowed(port, method, path):
    async with port.dial() as connection:
        answer = await connection.get(path, method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "POST"
    if method != "HEAD":
        assert_status(answer, 405, "MethodNotAllowed")


@pytest.mark.parametrize(
    "path",
    [
        "/validate/",
        "/validate/x",
        "/validate/karpenter.sh/nodes",
        "/validate/apps/deployments",
        "/mutate/karpenter.sh/nodepools/",
    ],
)
async def test_an_unknown_path_is_not_found(port, review_bytes, path):
    async with port.dial() as connection:
        assert_status(await connection.post(path, review_bytes()), 404, "NotFound")


@pytest.mark.parametrize(
    "path",
    [
        "/validate/placement.kubernetes-fleet.io/clusterresourceplacements",
        "/mutate/placement.kubernetes-fleet.io/clusterresourceplacements",
        "/validate/karpenter.sh/nodepools?timeout=30s",
    ],
)
async def test_the_path_of_a_kind_is_only_a_label(port, review_bytes, path):
    async with port.dial() as connection:
        answer = await connection.post(path, review_bytes())
    assert (answer.status, answer.json["response"]["allowed"]) == (200, True)


async def test_every_registered_path_is_answered(port, review_bytes):
    """Many hooks are registered to ignore failures, so that the API server would hide a path that is not served."""
    settings = AdmissionSettings(
        guard_rail=True,
        block_workloads=True,
        block_pod_disruption_budgets=True,
        enforce_budgets=True,
        placement_authorization=PlacementAuthorization.ENFORCE,
    )
    paths = {
        hook["clientConfig"]["service"]["path"]
        for configuration in webhook_configurations(WebhookEndpoint(), settings)
        for hook in configuration["webhooks"]
    }
    async with port.dial() as connection:
        statuses = {path: (await connection.post(path, review_bytes())).status for path in sorted(paths)}
    assert statuses == dict.fromkeys(paths, 200)


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/yaml", "application/json; charset=iso-8859-1", "application/jsonx", "json", ""],
)
async def test_a_body_not_declared_as_json_is_refused(port, review_bytes, content_type):
    async with port.dial() as connection:
        answer = await connection.post(VALIDATE, review_bytes(), **{"Content-Type": content_type})
    assert_status(answer, 415, "UnsupportedMediaType")


async def test_a_body_without_a_type_is_refused(port, review_bytes):
    async with port.dial() as connection:
        body = review_bytes()
        await connection.send(
            f"POST /validate HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        assert_status(await connection.answer(), 415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON", "application/json; charset=UTF-8", 'application/json;charset="utf-8"'],
)
async def test_json_is_recognised_however_it_is_written(port, review_bytes, content_type):
    async with port.dial() as connection:
        answer = await connection.post(VALIDATE, review_bytes(), **{"Content-Type": content_type})
    assert answer.status == 200


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "x-unheard-of"])
async def test_a_compressed_body_is_refused_unread(port, review_bytes, encoding):
    async with port.dial() as connection:
        answer = await connection.post(VALIDATE, review_bytes(), **{"Content-Encoding": encoding})
    assert_status(answer, 415, "UnsupportedMediaType")


async def test_the_identity_encoding_is_none(port, review_bytes):
    async with port.dial() as connection:
        assert (await connection.post(VALIDATE, review_bytes(), **{"Content-Encoding": "identity"})).status == 200


async def test_a_replica_that_is_starting_says_try_again(launch, review_bytes):
    async with launch(synced=lambda: False) as port, port.dial() as connection:
        answer = await connection.post(VALIDATE, review_bytes())
    assert_status(answer, 503, "ServiceUnavailable")
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["Connection"] == "close"


async def test_the_media_type_is_checked_before_readiness(launch, review_bytes):
    async with launch(synced=lambda: False) as port, port.dial() as connection:
        assert (await connection.post(VALIDATE, review_bytes(), **{"Content-Type": "text/plain"})).status == 415


class SlowRights:
    """Knows the rights of users, and says so when it is told to."""

    def __init__(self):
        self.answers = asyncio.Event()

    def cached(self, _user, _wanted):
        return None

    async def review(self, _user, _wanted):
        await self.answers.wait()
        return Reviewed()


def beginning(body: bytes) -> bytes:
    """All of a request but the last ten bytes."""
    members = f"Host: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"POST /validate HTTP/1.1\r\n{members}\r\n\r\n".encode() + body[:-10]


async def test_too_many_at_once_are_sent_away(launch, review_bytes):
    body, rights = review_bytes(), SlowRights()
    limited = launch(admission_in_flight=2, access=rights)
    async with limited as port, port.dial() as first, port.dial() as second, port.dial() as third:
        waiting = [asyncio.create_task(connection.post(VALIDATE, body)) for connection in (first, second)]
        await port.until(lambda: port.in_flight == 2)
        answer = await third.post(VALIDATE, body)
        assert_status(answer, 503, "ServiceUnavailable")
        assert answer.headers["Retry-After"] == "1"
        rights.answers.set()
        assert [(await task).status for task in waiting] == [200, 200]


async def test_a_body_that_does_not_come_takes_no_place_from_others(launch, review_bytes):
    body = review_bytes()
    async with launch(admission_in_flight=2) as port, AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(port.dial()) for _ in range(10)]
        for connection in slow:
            await connection.send(beginning(body))
        await port.until(lambda: port.bodies_bytes == 10 * (len(body) - 10))
        async with port.dial() as honest:
            for _ in range(3):
                assert (await honest.post(VALIDATE, body)).status == 200
        await slow[0].send(body[-10:])
        assert (await slow[0].answer()).status == 200
    await port.until(lambda: not port.bodies_bytes)


async def test_when_memory_for_bodies_is_used_up_the_oldest_that_is_not_complete_is_given_up(launch, review):
    body = padded(review, MEBIBYTE)
    async with launch(bodies_bytes=3 * MEBIBYTE) as port, AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(port.dial()) for _ in range(3)]
        for number, connection in enumerate(slow, 1):
            await connection.send(beginning(body))
            await port.until(lambda number=number: port.bodies_bytes == number * (MEBIBYTE - 10))
        async with port.dial() as honest:
            assert (await honest.post(VALIDATE, body)).status == 200
        answer = await slow[0].answer()
        assert_status(answer, 503, "ServiceUnavailable")
        assert answer.headers["Connection"] == "close"
        for connection in slow[1:]:
            await connection.send(body[-10:])
            assert (await connection.answer()).status == 200
    await port.until(lambda: not port.bodies_bytes)


def padded(review, size: int) -> bytes:
    """A sound review of exactly *size* bytes."""
    document = review()
    annotations = document["request"]["object"]["metadata"]["annotations"] = {"pad": ""}
    annotations["pad"] = "x" * (size - len(json.dumps(document)))
    body = json.dumps(document).encode()
    assert len(body) == size
    return body


async def test_a_body_of_8_mib_is_accepted(port, review):
    async with port.dial() as connection:
        answer = await connection.post(VALIDATE, padded(review, 8 * MEBIBYTE))
    assert answer.status == 200


async def test_one_byte_more_is_too_large(port, review):
    async with port.dial() as connection:
        answer = await connection.post(VALIDATE, padded(review, 8 * MEBIBYTE + 1))
    assert_status(answer, 413, "RequestEntityTooLarge")


async def test_an_announced_length_is_enough_to_refuse(port):
    async with port.dial() as connection:
        await connection.send(
            b"POST /validate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n"
        )
        assert_status(await connection.answer(), 413, "RequestEntityTooLarge")


CHUNKED = b"POST /validate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def test_a_chunked_body_is_read(port, review_bytes):
    body = review_bytes("chunky")
    async with port.dial() as connection:
        await connection.send(CHUNKED)
        for start in range(0, len(body), 100):
            await connection.send(chunk(body[start : start + 100]))
        await connection.send(chunk(b""))
        assert (await connection.answer()).json["response"]["uid"] == "chunky"


async def test_a_chunked_body_without_end_is_cut_off(port):
    async with port.dial() as connection:
        await connection.send(CHUNKED)
        for _ in range(8 * 16 + 1):
            await connection.send(chunk(b" " * (MEBIBYTE // 16)))
        answer = await connection.answer()
    assert_status(answer, 413, "RequestEntityTooLarge")
    assert answer.headers["Connection"] == "close"


async def test_broken_chunks_are_malformed(port):
    async with port.dial() as connection:
        await connection.send(CHUNKED + b"5\r\nhe")
        await connection.send(b"llo---\r\nzz\r\n")
        assert (await connection.answer()).status == 400


async def test_a_slow_body_is_given_up(launch):
    async with launch(body_seconds=0.05) as port, port.dial() as connection:
        await connection.send(
            b"POST /validate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        answer = await connection.answer()
    assert_status(answer, 408, "Timeout")
    assert answer.headers["Connection"] == "close"


async def test_a_client_that_goes_away_harms_nobody(port, review_bytes):
    async with port.dial() as connection:
        await connection.send(
            b"POST /validate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        await port.until(lambda: port.bodies_bytes)
    await port.until(lambda: not port.bodies_bytes)
    async with port.dial() as connection:
        assert (await connection.post(VALIDATE, review_bytes())).status == 200


BAD_BODIES = {
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "string": b'"x"',
    "number": b"42",
    "truncated": b'{"kind":"AdmissionReview"',
    "trailing-garbage": b"{} {}",
    "byte-order-mark": b"\xef\xbb\xbf{}",
    "utf-16": '{"kind":"AdmissionReview"}'.encode("utf-16"),
    "bad-utf-8": b'{"kind":"Admission\xff"}',
    "nan": b'{"a":NaN}',
    "overflow": b'{"a":1e400}',
    "5000-digits": b'{"a":' + b"9" * 5000 + b"}",
    "100-000-brackets": b"[" * 100_000,
    "101-levels": b'{"a":' * 101 + b"1" + b"}" * 101,
    "v1beta1": b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"a"}}',
    "no-request": b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}',
    "no-uid": b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}',
    "long-uid": b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"'
    + b"a" * 257
    + b'"}}',
}


@pytest.mark.parametrize("name", BAD_BODIES)
async def test_a_body_that_is_no_review_is_a_bad_request(port, name):
    async with port.dial() as connection:
        assert_status(await connection.post(VALIDATE, BAD_BODIES[name]), 400, "BadRequest")


async def test_a_refusal_is_in_band(port, review):
    document = review("denied")
    document["request"]["object"]["spec"]["policy"] = {"placementType": "PickN", "numberOfClusters": "three"}
    async with port.dial() as connection:
        answer = await connection.post(VALIDATE, json.dumps(document).encode())
    response = answer.json["response"]
    assert (answer.status, response["uid"], response["allowed"]) == (200, "denied", False)
    assert (response["status"]["code"], response["status"]["reason"]) == (422, "Invalid")
    assert response["status"]["details"]["causes"][0]["field"] == "spec.policy.numberOfClusters"


async def test_fifty_at_once_each_get_their_own_answer(port, review):
    async def ask(session, uid: str) -> str:
        async with session.post(f"{port.url}/validate", json=review(uid)) as response:
            return (await response.json())["response"]["uid"]

    uids = [f"uid-{number}" for number in range(50)]
    async with port.session() as session:
        assert await asyncio.gather(*(ask(session, uid) for uid in uids)) == uids


async def test_a_connection_is_kept_for_the_next_review(port, review_bytes):
    async with port.dial() as connection:
        for number in range(5):
            answer = await connection.post(VALIDATE, review_bytes(str(number)))
            assert answer.json["response"]["uid"] == str(number)
            assert "Connection" not in answer.headers


async def test_two_reviews_in_one_breath_are_answered_in_order(port, review_bytes):
    async with port.dial() as connection:
        for uid in ("first", "second"):
            body = review_bytes(uid)
            members = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
            await connection.send(f"POST /validate HTTP/1.1\r\nHost: a\r\n{members}\r\n\r\n".encode() + body)
        assert [(await connection.answer()).json["response"]["uid"] for _ in range(2)] == ["first", "second"]


async def test_our_own_error_is_a_500_that_tells_nothing_but_an_id(launch, review_bytes, caplog):
    def broken():
        raise RuntimeError("a secret of the cache")

    async with launch(context=broken) as port, port.dial() as connection:
        answer = await connection.post(VALIDATE, review_bytes())
    assert_status(answer, 500, "InternalError")
    assert answer.headers["X-Request-Id"] in answer.json["message"]
    assert b"secret" not in answer.body
    (record,) = [record for record in caplog.records if record.getMessage() == "admission review failed"]
    assert record.uid == "7b1d0d5e"
    assert "a secret of the cache" in str(record.exc_info)


async def test_a_used_up_budget_is_try_again(port, review_bytes):
    """The caller's own limit of 0 s is over before it begins."""
    async with port.dial() as connection:
        answer = await connection.post("/validate?timeout=0s", review_bytes())
    assert_status(answer, 503, "ServiceUnavailable")
    assert answer.headers["Retry-After"] == "1"


@pytest.mark.parametrize(
    "query", ["?timeout=abc", "?timeout=", "?other=1", "?timeout=10s&x=1", "?timeout=99999999999s"]
)
async def test_an_unreadable_timeout_is_as_good_as_none(port, review_bytes, query):
    async with port.dial() as connection:
        assert (await connection.post(VALIDATE + query, review_bytes())).status == 200


async def test_reviews_are_counted(launch, review_bytes):
    async with launch() as port:
        async with port.dial() as connection:
            await connection.post(VALIDATE, review_bytes())
            await connection.post(VALIDATE, b"null")
        labels = {"hook": "validate", "resource": "clusterresourceplacements"}
        outcome = {"operation": "CREATE", "result": "allowed", "code": "200"}
        assert port.sample("harbormaster_admission_requests_total", **labels, **outcome) == 1
        assert port.sample("harbormaster_admission_duration_seconds_count", **labels) == 1
        assert port.sample("harbormaster_http_rejected_total", surface="admission", reason="malformed") == 1


async def test_a_callers_words_never_become_labels(port, review_bytes):
    async with port.dial() as connection:
        await connection.post(
            VALIDATE, review_bytes(operation="EXPLODE", resource={"group": "x", "version": "v1", "resource": "evil"})
        )
    exposition, _ = port.server.metrics.exposition("")
    assert b"EXPLODE" not in exposition
    assert b"evil" not in exposition


async def test_refusals_are_logged_without_the_object(port, review, caplog):
    caplog.set_level("INFO", "webhook")
    document = review("logged")
    document["request"]["object"]["spec"] = {"policy": "a private thing"}
    async with port.dial() as connection:
        await connection.post(VALIDATE, json.dumps(document).encode())
    (record,) = [record for record in caplog.records if record.getMessage() == "admission review"]
    assert (record.uid, record.decision, record.user, record.code) == ("logged", "denied", "ann", 422)
    assert "private" not in str(vars(record))
