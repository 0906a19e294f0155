"""``/v1/budgets`` over real HTTPS, on a hub of its own."""

from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from tests.waiting import until
from tests.webhook.description.example_hub import serving
from tests.webhook.gate.gates import put_pool

pytestmark = pytest.mark.asyncio(loop_scope="module")

NIGHT = {"nodes": "0", "schedule": "0 22 * * *", "duration": "8h"}
CALENDAR = "/v1/budgets/calendar"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def caller(tmp_path_factory):
    """The owner of a hub with a pool of six nodes, one that never opens, and one with an unfortunate name."""
    async with serving(tmp_path_factory.mktemp("hub"), requests_per_second=1e6, request_burst=10**6) as owner:
        store, gate = owner.up.store, owner.up.services.disruption.nodes
        await put_pool(store, "batch", 6, {"nodes": "50%"}, NIGHT)
        await put_pool(store, "shut", 2, {"nodes": "0"})
        await put_pool(store, "calendar", 1)
        await until(lambda: sum(view.counts().total for view in gate.views()) == 9)
        yield owner


async def ask(caller, path, status=200):
    answer = await caller.ask("GET", path)
    assert answer.status == status, answer.body
    return answer.json


async def refused(caller, path, name, *words):
    """Check that a parameter is refused by name, and that the message has these words."""
    problem = await ask(caller, path, 422)
    assert [mistake["pointer"] for mistake in problem["errors"]] == [f"/{name}"]
    assert problem["detail"].startswith(f"{name}: ")
    for word in words:
        assert word in problem["detail"]


def is_since(before, text):
    """Whether a time, in whole seconds, lies between *before* and now."""
    return before - timedelta(seconds=1) <= datetime.fromisoformat(text) <= datetime.now(UTC)


async def test_the_list_has_every_pool_and_reason(caller):
    before = datetime.now(UTC)
    told = await ask(caller, "/v1/budgets")
    pools = [entry["pool"] for entry in told["pools"]]
    assert {"batch", "calendar", "shut"} <= set(pools) == {item["pool"] for item in told["items"]}
    assert pools == sorted(pools)
    assert len(told["items"]) == 4 * len(pools)
    assert is_since(before, told["at"])
    shut = next(item for item in told["items"] if item["pool"] == "shut")
    assert (shut["limit"], shut["remaining"], shut["total"], shut["nextOpen"]) == (0, 0, 2, None)
    entry = next(entry for entry in told["pools"] if entry["pool"] == "batch")
    assert entry["budgets"] == [{"nodes": "50%"}, NIGHT]


async def test_one_pool_at_another_time(caller):
    told = await ask(caller, "/v1/budgets/batch?reason=Drifted&at=2026-06-10T23:00:00Z")
    assert told["at"] == "2026-06-10T23:00:00Z"
    assert told["items"] == [
        {
            "pool": "batch",
            "reason": "Drifted",
            "limit": 0,
            "unlimited": False,
            "disrupting": 0,
            "remaining": 0,
            "total": 6,
            "active": [0, 1],
            "binding": [1],
            "nextOpen": "2026-06-11T06:00:00Z",
            "neverOpens": False,
        }
    ]
    with_offset = await ask(caller, "/v1/budgets/batch?reason=Drifted&at=2026-06-11T01:00:00%2B02:00")
    assert with_offset == told
    assert (await ask(caller, "/v1/budgets/batch?at=2026-06-11T12:00:00Z"))["items"][0]["remaining"] == 3


async def test_a_pool_called_calendar_is_in_the_list(caller):
    told = await ask(caller, "/v1/budgets?pool=calendar&reason=Empty")
    assert [(item["pool"], item["unlimited"]) for item in told["items"]] == [("calendar", True)]


async def test_the_calendar(caller):
    told = await ask(caller, f"{CALENDAR}?pool=batch&days=2&tz=Europe/Berlin&from=2026-06-10T12:00:00Z")
    assert (told["from"], told["until"], told["timeZone"]) == (
        "2026-06-10T12:00:00Z",
        "2026-06-12T12:00:00Z",
        "Europe/Berlin",
    )
    [item] = told["items"]
    assert item["counts"] == {"total": 6, "deleting": 0, "notReady": 0}
    assert [reason["reason"] for reason in item["reasons"]] == ["Underutilized", "Empty", "Drifted", "Unhealthy"]
    spans = item["reasons"][0]["spans"]
    assert [(span["start"], span["limit"]) for span in spans] == [
        ("2026-06-10T12:00:00Z", 3),
        ("2026-06-10T22:00:00Z", 0),
        ("2026-06-11T06:00:00Z", 3),
        ("2026-06-11T22:00:00Z", 0),
        ("2026-06-12T06:00:00Z", 3),
    ]
    assert spans[1]["localStart"] == "2026-06-11T00:00:00+02:00"


async def test_the_calendar_of_all_pools_is_two_weeks_from_now(caller):
    before = datetime.now(UTC)
    told = await ask(caller, CALENDAR)
    assert is_since(before, told["from"])
    assert datetime.fromisoformat(told["until"]) - datetime.fromisoformat(told["from"]) == timedelta(days=14)
    assert {"batch", "calendar", "shut"} <= {item["pool"] for item in told["items"]}
    shut = next(item for item in told["items"] if item["pool"] == "shut")
    assert all(reason["neverOpens"] for reason in shut["reasons"])
    assert "timeZone" not in told
    assert "localStart" not in shut["reasons"][0]["spans"][0]


async def test_the_same_question_has_the_same_tag(caller):
    path = f"{CALENDAR}?pool=batch&from=2026-06-10T12:00:00Z"
    first = await caller.ask("GET", path)
    again = await caller.ask("GET", path, If_None_Match=first.headers["ETag"])
    assert (again.status, again.body) == (304, b"")


async def test_unknown_pools_are_not_found(caller):
    for path in ("/v1/budgets/gone", "/v1/budgets?pool=gone", f"{CALENDAR}?pool=batch&pool=gone"):
        problem = await ask(caller, path, 404)
        assert problem["detail"] == 'there is no NodePool "gone"'


@pytest.mark.parametrize(
    ("path", "name", "words"),
    [
        ("/v1/budgets/batch?reason=Expired", "reason", ["Expired", "Underutilized, Empty, Drifted, Unhealthy"]),
        ("/v1/budgets/batch?reason=", "reason", ['""']),
        ("/v1/budgets/batch?at=yesterday", "at", ["yesterday", "2026-03-01T10:00:00Z"]),
        ("/v1/budgets/batch?at=2026-06-10T12:00:00", "at", ["2026-06-10T12:00:00"]),
        ("/v1/budgets/batch?at=2026-06-11T01:00:00+02:00", "at", ["%2B"]),
        ("/v1/budgets?at=0001-01-01T00:00:00%2B14:00", "at", []),
        ("/v1/budgets?day=1", "day", ["pool, reason, at"]),
        (f"{CALENDAR}?days=0", "days", ['"0"', "1 to 400"]),
        (f"{CALENDAR}?days=401", "days", ["401"]),
        (f"{CALENDAR}?days=1.5", "days", ["1.5"]),
        (f"{CALENDAR}?tz=Mars/Olympus", "tz", ["Mars/Olympus", "Europe/Berlin"]),
        (f"{CALENDAR}?tz=", "tz", ["Europe/Berlin"]),
        (f"{CALENDAR}?tz=../../etc/passwd", "tz", ["../../etc/passwd"]),
        (f"{CALENDAR}?tz=Europe", "tz", ["Europe"]),
        (f"{CALENDAR}?from=9999-12-31T00:00:00Z&pool=batch", "from", ["9999"]),
        (f"{CALENDAR}?reason=Empty", "reason", ["pool, days, tz, from"]),
        (f"{CALENDAR}?days=1&days=2", "days", ["only once"]),
        ("/v1/budgets?at=2026-06-10T12:00:00Z&at=2026-06-11T12:00:00Z", "at", ["only once"]),
    ],
)
async def test_a_parameter_that_cannot_be_used_is_named(caller, path, name, words):
    await refused(caller, path, name, *words)


async def test_nothing_can_be_written_here(caller):
    answer = await caller.ask("POST", "/v1/budgets", {})
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
