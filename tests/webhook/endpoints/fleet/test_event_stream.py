"""The stream of changes."""

import pytest

from tests.webhook.endpoints.event_stream import next_change, open_stream
from webhook.answers.changes import ViewChange
from webhook.endpoints.fleet.event_stream import _Viewer


async def test_a_viewer_first_hears_of_everything(port):
    async with port.dial() as connection:
        lines = await open_stream(connection)
        assert lines[0] == b"HTTP/1.1 200 OK"
        assert b"Content-Type: text/event-stream" in lines
        assert await next_change(connection) == {
            "revision": 12,
            "clusters": True,
            "placements": ["crp/payments", "rp/shop/cart"],
            "runs": True,
        }


@pytest.mark.parametrize(("sees_runs", "runs"), [(True, b"true"), (False, b"false")])
async def test_an_upgrade_run_is_announced_to_those_who_may_list_runs(sees_runs, runs):
    viewer = _Viewer(("rp/shop/",), "ann", sees_runs=sees_runs)
    viewer.add(ViewChange(7, clusters=None, runs=True))
    assert b'"runs":' + runs in await viewer.next()


async def test_changes_in_quick_succession_are_merged(port):
    async with port.dial() as connection:
        await open_stream(connection)
        await next_change(connection)
        port.harbour.announce("crp/b")
        port.harbour.announce("crp/a")
        port.harbour.announce(clusters=["oslo"])
        port.harbour.announce(clusters=["bravelion"])
        assert await next_change(connection) == {
            "revision": 16,
            "clusters": True,
            "clusterNames": ["bravelion", "oslo"],
            "placements": ["crp/a", "crp/b"],
            "runs": False,
        }


async def test_very_many_changed_clusters_are_not_named(port):
    async with port.dial() as connection:
        await open_stream(connection)
        await next_change(connection)
        port.harbour.announce(clusters=[f"member-{number}" for number in range(201)])
        change = await next_change(connection)
        assert change["clusters"]
        assert "clusterNames" not in change


async def test_a_quiet_stream_says_that_it_is_alive(port, monkeypatch):
    monkeypatch.setattr("webhook.endpoints.fleet.event_stream.COMMENT_SECONDS", 0.01)
    async with port.dial() as connection:
        await open_stream(connection)
        await next_change(connection)
        while not (await connection.line()).startswith(b": "):
            pass


async def test_a_viewer_who_leaves_is_forgotten(port, monkeypatch):
    monkeypatch.setattr("webhook.endpoints.fleet.event_stream.COMMENT_SECONDS", 0.01)
    async with port.dial() as connection:
        await open_stream(connection)
        await next_change(connection)
        assert len(port.harbour.handlers) == 1
    await port.until(lambda: not port.harbour.handlers)


async def test_there_is_a_limit_of_viewers(launch):
    async with launch(event_streams=1) as port, port.dial() as first, port.dial() as second:
        await open_stream(first)
        await next_change(first)
        answer = await second.get("/v1/events")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "10")


async def test_the_stream_ends_when_the_server_drains(launch):
    async with launch(drain_limit_seconds=20) as port, port.dial() as connection:
        await open_stream(connection)
        await next_change(connection)
        await port.server.drain()
        while await connection.line():
            pass


@pytest.mark.parametrize("host", ["localhost:8081", "127.0.0.1"])
async def test_the_page_on_this_machine_has_the_stream_too(launch, host):
    async with launch(page_on_http=True) as port, port.dial(plain=True) as connection:
        assert (await open_stream(connection, plain_host=host))[0] == b"HTTP/1.1 200 OK"


async def test_a_look_at_the_headers_leaves_no_viewer_behind(port):
    async with port.dial() as connection:
        answer = await connection.get("/v1/events", "HEAD")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
    await port.until(lambda: not port.harbour.handlers)
