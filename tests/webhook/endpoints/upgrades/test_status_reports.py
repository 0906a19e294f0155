"""Reports of an upgrader outside over real HTTPS, for operations that it was told of by HTTP."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import pytest_asyncio
from aiohttp import web

from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_REQUEST
from scorer.api.meta import parse_time
from scorer.api.unstructured.documents import annotation, status_of
from scorer.upgrade.back_ends.inventories import OBSERVED
from tests.loopback import on_loopback
from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.controllers.upgrade_world import (
    entries,
    make_upgrade_run,
    requests,
    state,
    states,
    upgrading,
)
from tests.webhook.endpoints.asking import assert_problem
from tests.webhook.endpoints.world_server import serving
from webhook.access.signature import OPERATION, SIGNATURE, is_signed, sign
from webhook.controllers.upgraders.hand_off import FIRST_PAUSE
from webhook.controllers.upgraders.inventory_annotations import InventoryNotes
from webhook.kube.ports import ConflictError, InvalidObjectError, Key
from webhook.runtime.clock import utc_now
from webhook.settings.upgraders import HandOffOptions, UpgraderOptions

SECRET = "0123456789abcdef0123456789abcdef"
OLD_SECRET = "fedcba9876543210fedcba9876543210"
DONE = {
    "phase": "Succeeded",
    "controlPlaneVersion": "1.31.2",
    "pools": [{"name": "p", "kubernetesVersion": "1.31.2", "nodes": 2}],
}
ONE = {"members": {"t1": "t"}}


class Outside:
    """An upgrader outside: remembers what it was told, and answers as it is told to."""

    def __init__(self):
        self.told = []
        self.answers = []
        self.url = ""

    async def handle(self, request):
        body = await request.read()
        assert is_signed([SECRET], body, request.headers[SIGNATURE])
        assert request.headers[OPERATION] == json.loads(body)["spec"]["operationID"]
        self.told.append(json.loads(body))
        status, text = self.answers.pop(0) if self.answers else (202, "")
        return web.Response(status=status, text=text)


@asynccontextmanager
async def outside():
    found = Outside()
    app = web.Application()
    app.router.add_post("/operations", found.handle)
    async with on_loopback(app) as address:
        found.url = f"{address}/operations"
        yield found


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n{OLD_SECRET}\n")
    return path


@asynccontextmanager
async def handing_off(url, secret_file):
    options = UpgraderOptions(
        ("handoff",), "handoff", timedelta(milliseconds=50), timedelta(seconds=5), HandOffOptions(url, secret_file)
    )
    async with upgrading({"name": "only", "groups": [{"name": "t"}]}, upgraders=options, **ONE) as world:
        yield world


@pytest_asyncio.fixture
async def upgrader():
    async with outside() as found:
        yield found


@pytest_asyncio.fixture
async def world(upgrader, secret_file):
    """One member, and a run that hands it off to an upgrader outside."""
    async with handing_off(upgrader.url, secret_file) as found:
        yield found


@pytest_asyncio.fixture
async def port(world, secret_file):
    async with serving(world, handoff_secret_file=secret_file) as found:
        yield found


async def running(world):
    await world.add(make_upgrade_run())
    await until(lambda: requests(world) and status_of(requests(world)[0]).get("phase"))
    return requests(world)[0]["spec"]["operationID"]


async def report(port, operation, body, *, secret=SECRET, bound=True, **headers):
    said = {"operationID": operation} if bound else {}
    data = body if isinstance(body, bytes) else json.dumps(said | body).encode()
    given = {SIGNATURE: sign(secret, data), **headers}
    async with port.dial() as connection:
        connection.credentials = {}
        return await connection.post(f"/v1/upgrade/operations/{operation}/status", data, **given)


async def test_an_upgrade_from_beginning_to_end(world, port, upgrader):
    operation = await running(world)
    (told,) = upgrader.told
    assert told["spec"]["operationID"] == operation
    assert (told["spec"]["memberName"], told["spec"]["kubernetesVersion"]) == ("t1", "1.31.2")
    assert status_of(requests(world)[0])["phase"] == "Accepted"
    under_way = await report(port, operation, {"phase": "InProgress", "progressPercent": 40, "message": "nodes"})
    assert (under_way.status, under_way.body) == (204, b"")
    await world.until(lambda: status_of(requests(world)[0])["phase"] == "InProgress")
    assert status_of(requests(world)[0])["heartbeatTime"]
    assert states(world) == {"t1": "Running"}
    assert (await report(port, operation, DONE, secret=OLD_SECRET)).status == 204, "the secret before it still counts"
    await world.until(lambda: state(world) == "Completed")
    assert status_of(requests(world)[0])["progressPercent"] == 40, "what a report leaves out stays"
    assert len(upgrader.told) == 1


async def test_a_report_never_goes_back(world, port):
    operation = await running(world)
    assert (await report(port, operation, {"phase": "InProgress"})).status == 204
    found = assert_problem(await report(port, operation, {"phase": "Accepted"}), "conflict", 409)
    assert "cannot follow InProgress" in found["detail"]


@pytest.mark.parametrize(
    ("secret", "headers"),
    [
        pytest.param("x" * 32, {}, id="other-secret"),
        pytest.param(SECRET, {SIGNATURE: ""}, id="no-signature"),
        pytest.param(SECRET, {SIGNATURE: "sha256=00"}, id="nonsense"),
    ],
)
async def test_who_has_not_signed_changes_nothing(world, port, secret, headers):
    operation = await running(world)
    before = requests(world)[0]
    answer = await report(port, operation, DONE, secret=secret, **headers)
    assert_problem(answer, "unauthenticated", 401)
    assert requests(world)[0] == before


async def test_mistakes_in_a_report(world, port):
    operation = await running(world)
    uid = operation.partition("/")[0]
    missing = assert_problem(await report(port, f"{uid}/t1/7", DONE), "not-found", 404)
    assert f"{uid}/t1/7" in missing["detail"]
    assert_problem(await report(port, operation, {"phase": "Done"}), "validation-failed", 422)
    assert_problem(await report(port, operation, {"colour": "red"}), "validation-failed", 422)
    twice = assert_problem(
        await report(port, operation, {"pools": [{"name": "a"}, {"name": "a"}]}), "validation-failed", 422
    )
    assert [each["pointer"] for each in twice["errors"]] == ["/pools/1/name"]
    pools = [{"name": f"p{number}"} for number in range(501)]
    many = assert_problem(await report(port, operation, {"pools": pools}), "validation-failed", 422)
    assert "at most 500" in many["detail"]
    assert_problem(await report(port, operation, b"{"), "malformed-request", 400)
    assert_problem(await report(port, operation, b" " * 300_000), "payload-too-large", 413)
    other = await report(port, operation, DONE, **{OPERATION: f"{uid}/t1/7"})
    assert_problem(other, "validation-failed", 422)


async def test_without_a_secret_there_is_no_such_path(world):
    async with serving(world) as port:
        answer = await report(port, "uid/t1/1", DONE)
    assert answer.status == 404


async def test_an_upgrader_that_does_not_answer_is_told_again(upgrader, secret_file, world):
    upgrader.answers = [(503, "busy"), (500, "")]
    await world.add(make_upgrade_run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(upgrader.told) < 3:
            world.ahead += 2 * FIRST_PAUSE  # the second pause; in small steps, as the upgrade has a deadline
            await asyncio.sleep(0.1)
    assert {each["spec"]["operationID"] for each in upgrader.told} == {requests(world)[0]["spec"]["operationID"]}
    await world.until(lambda: status_of(requests(world)[0]).get("phase") == "Accepted")
    assert states(world) == {"t1": "Running"}


async def test_an_upgrader_that_has_been_told_before_says_so(upgrader, world):
    upgrader.answers = [(409, "")]
    await running(world)
    assert states(world) == {"t1": "Running"}


async def test_an_upgrader_that_refuses_fails_the_member(upgrader, world):
    upgrader.answers = [(422, "no such\nversion")]
    await world.add(make_upgrade_run())
    await world.until(lambda: state(world) == "Failed")
    found = entries(world)["t1"]
    assert (found["reason"], found["error"]["code"]) == ("UpgradeRejected", "UpgradeRejected")
    assert found["error"]["message"].startswith("no such")
    assert status_of(requests(world)[0])["phase"] == "Failed"


async def test_reports_that_come_together_are_both_taken(world, port, monkeypatch):
    operation = await running(world)
    replace, lost = world.store.replace_status, []

    async def losing(kind, document):
        if kind == UPGRADE_REQUEST and len(lost) < 2:
            lost.append(document)
            raise ConflictError("somebody else")
        return await replace(kind, document)

    monkeypatch.setattr(world.store, "replace_status", losing)
    assert (await report(port, operation, {"phase": "InProgress"})).status == 204
    assert len(lost) == 2


async def test_an_upgrader_is_told_when_an_operation_is_called_off(upgrader, world):
    await running(world)
    await world.store.delete(MEMBER_CLUSTER, Key("t1"))
    await until(lambda: len(upgrader.told) >= 2)
    assert upgrader.told[-1]["spec"]["cancelRequested"] is True


async def test_a_report_that_names_its_operation_fits_no_other(world, port):
    """A signature is that of a body: whoever has seen one can send it again, anywhere."""
    operation = await running(world)
    other = operation.replace("/t1/", "/t2/")
    found = assert_problem(await report(port, operation, {**DONE, "operationID": other}), "validation-failed", 422)
    assert [each["pointer"] for each in found["errors"]] == ["/operationID"]
    assert (await report(port, operation, {**DONE, "operationID": operation})).status == 204
    assert "operationID" not in status_of(await stored(world))
    await world.until(lambda: state(world) == "Completed")


async def stored(world):
    return await world.store.get(UPGRADE_REQUEST, Key(requests(world)[0]["metadata"]["name"]))


async def test_nothing_is_taken_back_within_a_phase_or_reported_of_the_future(world, port):
    operation = await running(world)
    for percent in (10, 80, 20):
        sent = {"phase": "InProgress", "progressPercent": percent, "heartbeatTime": "9999-12-31T23:59:59Z"}
        assert (await report(port, operation, sent)).status == 204
    assert (await report(port, operation, {"progressPercent": 30})).status == 204
    status = status_of(await stored(world))
    assert status["progressPercent"] == 80
    assert parse_time(status["heartbeatTime"]) <= utc_now()
    end = {
        **DONE,
        "progressPercent": 7,
        "finishedTime": "2999-01-01T00:00:00Z",
        "heartbeatTime": "2025-01-01T00:00:00Z",
    }
    assert (await report(port, operation, end)).status == 204
    status = status_of(await stored(world))
    assert (status["progressPercent"], status["heartbeatTime"]) == (7, "2025-01-01T00:00:00Z")
    assert parse_time(status["finishedTime"]) <= utc_now()


async def test_a_report_that_the_hub_refuses_is_not_sent_again(world, port, monkeypatch):
    operation = await running(world)

    async def refusing(kind, document):
        raise InvalidObjectError("status.message: Too long")

    monkeypatch.setattr(world.store, "replace_status", refusing)
    answer = await report(port, operation, {"phase": "InProgress"})
    assert "Too long" in assert_problem(answer, "validation-failed", 422)["detail"]
    assert "Retry-After" not in answer.headers


async def test_a_secret_that_is_taken_out_of_the_file_counts_no_more(world, port, secret_file):
    operation = await running(world)
    assert (await report(port, operation, {"phase": "InProgress"}, secret=OLD_SECRET)).status == 204
    newest = "n" * 40
    secret_file.write_text(f"{newest}\n{SECRET}\n")
    assert (await report(port, operation, {"progressPercent": 5}, secret=newest)).status == 204
    assert (await report(port, operation, {"progressPercent": 6})).status == 204
    gone = await report(port, operation, {"progressPercent": 7}, secret=OLD_SECRET)
    assert_problem(gone, "unauthenticated", 401)
    secret_file.write_text("short\n")
    unreadable = await report(port, operation, {"progressPercent": 8})
    assert str(secret_file) not in assert_problem(unreadable, "not-ready", 503)["detail"]
    secret_file.unlink()
    assert_problem(await report(port, operation, {"progressPercent": 9}), "not-ready", 503)
    secret_file.write_text(f"{SECRET}\n")
    assert (await report(port, operation, {"progressPercent": 10})).status == 204


async def test_forged_reports_are_limited_and_signed_ones_are_not(world, secret_file):
    async with serving(world, handoff_secret_file=secret_file, failed_logins_per_second=2) as port:
        operation = await running(world)
        first = await report(port, operation, {}, secret="x" * 32)
        assert_problem(first, "unauthenticated", 401)
        for headers in ({}, {SIGNATURE: "sha256=00"}):
            answers = [await report(port, operation, {}, secret="x" * 32, **headers) for _ in range(20)]
            assert {each.status for each in answers} <= {401, 429}
            assert [each.status for each in answers].count(429) > 10
        assert int(next(each for each in answers if each.status == 429).headers["Retry-After"]) >= 1
        assert (await report(port, operation, {"phase": "InProgress"})).status == 204


async def test_a_report_that_is_too_long_to_be_kept_ends_its_upgrade_all_the_same(world, port):
    """The characters of names may be long, too: what is kept on the member would be more than an object may have."""
    operation = await running(world)
    pools = [{"name": f"{number}{'界' * 200}", "kubernetesVersion": "1.31.2", "nodes": 2} for number in range(200)]
    before = annotation(world.cache.get(MEMBER_CLUSTER, "t1"), OBSERVED)
    assert (await report(port, operation, {**DONE, "pools": pools})).status == 204
    await world.until(lambda: state(world) == "Completed")
    assert annotation(world.cache.get(MEMBER_CLUSTER, "t1"), OBSERVED) == before


async def test_what_was_found_before_a_report_is_not_noted_over_it(world, port, monkeypatch):
    """The note would count as newer than the report."""
    operation = await running(world)
    pools = [{**DONE["pools"][0], "name": f"{number}{'界' * 200}"} for number in range(200)]
    keep, reports = InventoryNotes.store, [{**DONE, "pools": pools}]

    async def keep_late(notes, *found):
        if reports:
            assert (await report(port, operation, reports.pop())).status == 204
            await until(lambda: status_of(requests(world)[0])["phase"] == "Succeeded")
        await keep(notes, *found)

    before = annotation(world.cache.get(MEMBER_CLUSTER, "t1"), OBSERVED)
    monkeypatch.setattr(InventoryNotes, "store", keep_late)
    await world.until(lambda: state(world) == "Completed")
    assert annotation(world.cache.get(MEMBER_CLUSTER, "t1"), OBSERVED) == before


async def test_annotations_that_others_have_filled_do_not_keep_an_upgrade_from_its_end(world, port, monkeypatch):
    operation = await running(world)
    replace_metadata = world.store.replace_metadata

    async def full(kind, document):
        if kind == MEMBER_CLUSTER and "1.31.2" in annotation(document, OBSERVED):
            refused.append(document)
            raise InvalidObjectError("metadata.annotations: Too long: must have at most 262144 bytes")
        return await replace_metadata(kind, document)

    refused = []
    monkeypatch.setattr(world.store, "replace_metadata", full)
    assert (await report(port, operation, DONE)).status == 204
    await world.until(lambda: state(world) == "Completed")
    assert refused


async def test_a_report_must_name_its_operation(world, port):
    """One that was seen in another operation would be good for this one."""
    operation = await running(world)
    before = await stored(world)
    for body in (DONE, {"phase": "Failed"}, {}, {"operationID": None}, {"operationID": ""}):
        found = assert_problem(await report(port, operation, body, bound=False), "validation-failed", 422)
        assert [each["pointer"] for each in found["errors"]] == ["/operationID"]
    named = await report(port, operation, DONE, bound=False, **{OPERATION: operation})
    assert_problem(named, "validation-failed", 422)  # headers are not signed
    assert await stored(world) == before


async def test_an_operator_may_accept_reports_of_older_upgraders(world, secret_file):
    async with serving(world, handoff_secret_file=secret_file, handoff_unbound_reports=True) as port:
        operation = await running(world)
        assert (await report(port, operation, {"phase": "InProgress"}, bound=False)).status == 204
        other = {**DONE, "operationID": operation.replace("/t1/", "/t2/")}
        assert_problem(await report(port, operation, other), "validation-failed", 422)
        assert (await report(port, operation, DONE, bound=False)).status == 204


async def test_a_report_of_an_attempt_that_another_has_followed_is_refused(world, port):
    """Whichever path it is sent to, and although its attempt was never reported to be over."""
    first = await running(world)
    (request,) = requests(world)
    second = f"{first.rpartition('/')[0]}/2"
    metadata = {"name": "another", "labels": request["metadata"]["labels"]}
    await world.add({**request, "metadata": metadata, "spec": {**request["spec"], "operationID": second}, "status": {}})
    await until(lambda: len(requests(world)) == 2)
    before = await stored(world)
    found = assert_problem(await report(port, first, {**DONE, "operationID": first}), "conflict", 409)
    assert "attempt 2" in found["detail"]
    assert_problem(await report(port, second, {**DONE, "operationID": first}), "validation-failed", 422)
    assert await stored(world) == before
    assert (await report(port, second, {"phase": "InProgress"})).status == 204


async def test_the_end_that_is_reported_again_is_no_news(world, port):
    """An upgrader may have missed the answer; a later heartbeat would make old content count as new."""
    operation = await running(world)
    end = {**DONE, "finishedTime": "2999-01-01T00:00:00Z"}
    assert (await report(port, operation, end)).status == 204
    await world.until(lambda: state(world) == "Completed")
    before = await stored(world)
    for again in (end, {"phase": "Succeeded"}, {}, {"heartbeatTime": end["finishedTime"]}):
        assert (await report(port, operation, again)).status == 204
    for other in ({"controlPlaneVersion": "1.30.4"}, {"phase": "Failed"}, {"phase": "InProgress"}, {"message": "no"}):
        assert_problem(await report(port, operation, other), "conflict", 409)
    assert await stored(world) == before


async def test_an_earlier_heartbeat_is_refused_within_a_phase(world, port):
    operation = await running(world)
    early, late = ({"message": f"node {hour}", "heartbeatTime": f"2025-01-01T0{hour}:00:00Z"} for hour in (1, 2))
    assert (await report(port, operation, {**early, "phase": "InProgress"})).status == 204
    assert (await report(port, operation, late)).status == 204
    assert (await report(port, operation, late)).status == 204, "sent again, as its answer was lost"
    found = assert_problem(await report(port, operation, early), "conflict", 409)
    assert "heartbeatTime 2025-01-01T01:00:00Z" in found["detail"]
    assert status_of(await stored(world))["message"] == "node 2"
    assert (await report(port, operation, {**DONE, "heartbeatTime": early["heartbeatTime"]})).status == 204


async def test_a_report_that_was_seen_is_good_on_no_other_path(world, port):
    """However the path is spelled."""
    operation = await running(world)
    run, member, attempt = operation.split("/")
    seen = json.dumps({**DONE, "operationID": f"{run}/{member}/7"}).encode()
    before = await stored(world)
    for path in (
        operation,
        f"{run}/{member}/%31",
        f"{run}%2F{member}/{member}/{attempt}",
        f"{run}/{member}/7",
        f"{run}/./{member}/{attempt}",
        f"{run}/{member}/{attempt}%00",
        f"{run}/{member}/0{attempt}",
        f"{run.upper()}/{member}/{attempt}",
    ):
        answer = await report(port, path, seen)
        assert answer.status in (400, 404, 422), path
    assert await stored(world) == before
