"""Reviews that are answered at once: what takes the short way, and that both ways agree where a message ends."""

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from tests.webhook.endpoints.conftest import make_review
from webhook.access.rights import Reviewed
from webhook.endpoints.admission.hooks import ReviewHandler
from webhook.server import http_protocol
from webhook.server.http_protocol import LONGEST_HELD, MOST_HEADS, Posts, protocol_of

FOLDER = Path(__file__).parents[2] / "vectors"
LINES_OF_VECTORS = [json.loads(line) for line in (FOLDER / "admission.jsonl").read_text(encoding="utf-8").splitlines()]
SECRET = "s" * 40
STEADY = {"Date", "X-Request-Id"}


def message(body: bytes, target: str = "/validate?timeout=30s", **more: str) -> bytes:
    """Write a review as an API server does, and perhaps more headers."""
    lines = [
        f"POST {target} HTTP/1.1",
        "Host: harbormaster.harbormaster-system.svc",
        "User-Agent: kube-apiserver-admission",
        f"Content-Length: {len(body)}",
        "Accept: application/json, */*",
        "Content-Type: application/json",
        "Accept-Encoding: gzip",
        *(f"{name.replace('_', '-')}: {value}" for name, value in more.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def review_of(line) -> bytes:
    """Write the write of a vector as a review."""
    subject = line.get("object") or line["old"]
    group, _, version = subject["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": subject["kind"]}
    request = {"kind": kind, "object": line.get("object"), "oldObject": line.get("old"), "operation": line["operation"]}
    return json.dumps(make_review(**request)).encode()


@pytest.fixture
def ways(monkeypatch):
    """The way that each review took, in order: ``short`` or ``library``."""
    taken = []
    answer_synchronously, review = ReviewHandler.answer_synchronously, ReviewHandler._review

    def short(self, *given):
        answer = answer_synchronously(self, *given)
        if answer is not None:
            taken.append("short")
        return answer

    async def long(self, *given, **named):
        taken.append("library")
        return await review(self, *given, **named)

    monkeypatch.setattr(ReviewHandler, "answer_synchronously", short)
    monkeypatch.setattr(ReviewHandler, "_review", long)
    return taken


async def asked(connection, data: bytes):
    await connection.send(data)
    return await connection.answer()


async def in_pieces(port, connection, data: bytes, splits) -> None:
    """Send *data* so that the server sees a piece end at each of *splits*."""
    begin = 0
    for end in (*splits, len(data)):
        await connection.send(data[begin:end])
        if end < len(data):
            await port.until(lambda end=end: any(len(each._held) == end for each in port.server._connections()))
        begin = end


@pytest.mark.parametrize("hook", ["validate", "mutate"])
async def test_both_ways_answer_the_same(port, ways, hook):
    """Of every review of the vectors: allowed, with warnings, refused, with a patch."""
    async with port.dial() as short, port.dial() as library:
        for line in LINES_OF_VECTORS:
            body = review_of(line)
            first = await asked(short, message(body, f"/{hook}"))
            second = await asked(library, message(body, f"/{hook}", X_Other="1"))
            assert (first.status, first.body) == (second.status, second.body)
            assert {name: value for name, value in first.headers.items() if name not in STEADY} == {
                name: value for name, value in second.headers.items() if name not in STEADY
            }
            assert first.headers.keys() == second.headers.keys()
            assert len(first.headers["X-Request-Id"]) == 36
    assert ways.count("short") == ways.count("library") == len(LINES_OF_VECTORS)


async def test_a_review_in_the_form_of_an_api_server_takes_the_short_way_and_is_counted(port, ways, review_bytes):
    async with port.dial() as connection:
        for _ in range(3):
            assert (await asked(connection, message(review_bytes()))).json["response"]["allowed"]
    assert ways == ["short"] * 3
    labels = {"hook": "validate", "operation": "CREATE", "resource": "clusterresourceplacements"}
    counted = port.sample("harbormaster_admission_requests_total", **labels, result="allowed", code="200")
    assert counted == 3


@pytest.mark.parametrize(
    "strange",
    [
        pytest.param({"Transfer_Encoding": "identity"}, id="transfer-encoding"),
        pytest.param({"Content_Encoding": "identity"}, id="content-encoding"),
        pytest.param({"X_Request_Id": "mine"}, id="own-id"),
        pytest.param({"traceparent": "00-1-1-00"}, id="trace"),
        pytest.param({"Connection": "keep-alive"}, id="connection"),
        pytest.param({"Host": "b"}, id="two-hosts"),
        pytest.param({"accept": "*/*"}, id="lower-case"),
    ],
)
async def test_after_a_message_of_another_form_a_connection_is_the_librarys(port, ways, review_bytes, strange):
    async with port.dial() as connection:
        await asked(connection, message(review_bytes()))
        await connection.send(message(review_bytes(), **strange))
        answer = await connection.answer()
        if answer.status == 200:
            await asked(connection, message(review_bytes()))
    assert ways[0] == "short"
    assert set(ways[1:]) <= {"library"}


async def test_a_target_that_both_ways_may_read_differently_is_the_librarys(port, ways, review_bytes):
    """By the library, a fragment is no part of the query, which says how long the caller waits."""
    async with port.dial() as connection:
        assert (await asked(connection, message(review_bytes(), "/validate?timeout=0s#x"))).status == 503
    assert ways == ["library"]


async def test_a_review_in_pieces_is_put_together(port, ways, review_bytes, monkeypatch):
    monkeypatch.setattr(http_protocol, "HELD_SECONDS", 3600)
    data = message(review_bytes())
    head = len(data) - len(review_bytes())
    async with port.dial() as connection:
        for splits in ((head,), (head + 1,), (len(data) - 1,), (head, head + 100, head + 101)):
            await in_pieces(port, connection, data, splits)
            assert (await connection.answer()).json["response"]["allowed"]
            assert (await asked(connection, data)).status == 200
    assert ways == ["short"] * 8


async def test_what_follows_a_review_in_pieces_does_not_take_its_answer(port, review_bytes, monkeypatch):
    """The library answers nothing of a piece that it cannot read to the end, so it must get the pieces as they came."""
    monkeypatch.setattr(http_protocol, "HELD_SECONDS", 3600)
    data = message(review_bytes("one"))
    async with port.dial() as connection:
        await in_pieces(port, connection, data + b"no request\r\n\r\n", (len(data) - len(review_bytes("one")),))
        assert (await connection.answer()).json["response"]["uid"] == "one"
        assert (await connection.answer()).status == 400


async def test_a_review_whose_rest_does_not_come_is_the_librarys_and_the_next_is_not(
    launch, ways, review_bytes, monkeypatch
):
    monkeypatch.setattr(http_protocol, "HELD_SECONDS", 0)
    data = message(review_bytes())
    async with launch() as port, port.dial() as connection:
        await connection.send(data[:-10])
        await port.until(lambda: port.bodies_bytes)
        await connection.send(data[-10:])
        assert (await connection.answer()).status == 200
        assert (await asked(connection, data)).status == 200
    assert ways == ["library", "short"]


async def test_who_never_sends_the_rest_is_told_by_the_library(launch, ways, review_bytes, monkeypatch):
    """However small the pieces are: each does not buy more time."""
    monkeypatch.setattr(http_protocol, "HELD_SECONDS", 0)
    data = message(review_bytes())
    async with launch(body_seconds=0.1) as port, port.dial() as connection:
        for begin, end in pairwise((0, *range(len(data) - 6, len(data)))):
            await connection.send(data[begin:end])
        assert (await connection.answer()).status == 408
    assert ways == ["library"]


async def test_a_long_review_in_pieces_is_the_librarys(port, ways, review_bytes):
    data = message(review_bytes(padding="x" * LONGEST_HELD))
    async with port.dial() as connection:
        await connection.send(data[:5000])
        await port.until(lambda: port.bodies_bytes)
        await connection.send(data[5000:])
        assert (await connection.answer()).status == 200
    assert ways == ["library"]


async def test_a_client_that_goes_leaves_nothing_behind(port, ways, review_bytes, monkeypatch):
    monkeypatch.setattr(http_protocol, "HELD_SECONDS", 3600)
    async with port.dial() as connection:
        await connection.send(message(review_bytes())[:-5])
        await port.until(lambda: any(each._held for each in port.server._connections()))
        held = next(each for each in port.server._connections() if each._held)
    await port.until(lambda: held not in port.server._connections())
    assert held._patience is None
    assert ways == []


async def test_two_messages_in_one_piece_are_answered_in_their_order(port, ways, review_bytes):
    first, second = message(review_bytes("one")), message(review_bytes("two"))
    async with port.dial() as connection:
        await connection.send(first + second)
        answers = [(await connection.answer()).json["response"]["uid"] for _ in range(2)]
    assert answers == ["one", "two"]
    assert ways == ["library"] * 2


async def test_a_review_behind_one_that_waits_waits_as_well(launch, ways, review_bytes):
    class Slow:
        """Knows the rights of users when it is told to."""

        def __init__(self):
            self.now = asyncio.Event()

        def cached(self, _user, _wanted):
            return None

        async def review(self, _user, _wanted):
            await self.now.wait()
            return Reviewed()

    slow = Slow()
    own = {"username": "system:apiserver", "groups": ["system:masters"]}
    async with launch(access=slow) as port, port.dial() as connection:
        await connection.send(message(review_bytes("one")))
        await port.until(lambda: port.in_flight == 1)
        await connection.send(message(review_bytes("two", userInfo=own)))
        slow.now.set()
        answers = [(await connection.answer()).json["response"]["uid"] for _ in range(2)]
        await asked(connection, message(review_bytes("three", userInfo=own)))
    assert answers == ["one", "two"]
    assert ways == ["library", "library", "short"]


@pytest.mark.parametrize("denied", [False, True])
async def test_a_review_whose_rights_are_known_takes_the_short_way(launch, ways, review_bytes, denied):
    class Known:
        """Knows all rights without asking."""

        def cached(self, _user, wanted):
            return Reviewed(tuple(wanted) if denied else ())

        async def review(self, user, wanted):
            return self.cached(user, wanted)

    async with launch(access=Known()) as port, port.dial() as short, port.dial() as library:
        first = await asked(short, message(review_bytes()))
        second = await asked(library, message(review_bytes(), X_Other="1"))
    assert first.body == second.body
    assert (b"may not get namespaces" in first.body) is denied
    assert ways == ["short", "library"]


async def test_a_stranger_never_takes_the_short_way(launch, ways, review_bytes, tmp_path):
    file = tmp_path / "secret"
    file.write_text(SECRET, encoding="ascii")
    async with launch(webhook_secret_file=file) as port, port.dial() as stranger, port.dial() as known:
        assert (await asked(stranger, message(review_bytes()))).status == 200
        assert (await asked(stranger, message(review_bytes(), f"/hooks/{SECRET[:-1]}/validate"))).status == 404
        assert (await asked(known, message(review_bytes(), f"/hooks/{SECRET}/validate?timeout=30s"))).status == 200
    assert ways == ["library", "short"]


@pytest.mark.parametrize(
    ("limit", "status"), [({"admission_body_bytes": 1024 * 1024}, 200), ({"admission_in_flight": 0}, 503)]
)
async def test_limits_hold(launch, ways, review_bytes, limit, status):
    large = json.loads(review_bytes())
    large["request"]["object"]["metadata"]["annotations"] = {"note": "x" * 70_000}
    async with launch() as port, port.dial() as connection:
        port.server.settings.__dict__.update(limit)
        assert (await asked(connection, message(json.dumps(large).encode()))).status == status
    assert ways == ["library"]


async def test_a_library_that_has_changed_inside_reads_every_review(launch, ways, review_bytes, monkeypatch):
    monkeypatch.setattr(http_protocol, "OF_THE_LIBRARY", (*http_protocol.OF_THE_LIBRARY, "_gone_in_a_later_version"))
    async with launch() as port, port.dial() as connection:
        assert (await asked(connection, message(review_bytes()))).status == 200
    assert ways == ["library"]


def test_what_the_short_way_asks_of_the_library_is_listed():
    """Every name of the library's that it uses."""
    text = Path(http_protocol.__file__).read_text(encoding="utf-8")
    own = {name for each in (http_protocol.Posts, http_protocol._Protocol) for name in vars(each)}
    used = set(re.findall(r"self\.(_[a-z_]+)", text)) - own - {"_unsent", "_loop"}
    assert used == set(http_protocol.OF_THE_LIBRARY)


async def test_a_replica_that_drains_says_so(launch, ways, review_bytes):
    async with launch() as port, port.dial() as connection:
        port.server.health.draining.set()
        answer = await asked(connection, message(review_bytes()))
        assert answer.headers["Connection"] == "close"
        assert await connection.ended()
    assert ways == ["library"]


async def test_a_malformed_review_is_refused_by_the_library(port, ways):
    async with port.dial() as connection:
        assert (await asked(connection, message(b"{}"))).status == 400
    assert ways == ["library"]


async def test_an_error_of_ours_is_answered_and_logged_once(port, ways, review_bytes, monkeypatch, caplog):
    def fail(*_given):
        raise RuntimeError("a bug")

    monkeypatch.setattr("webhook.endpoints.admission.hooks.answer", fail)
    async with port.dial() as connection:
        assert (await asked(connection, message(review_bytes()))).status == 500
    assert ways == ["library"]
    assert [record.message for record in caplog.records].count("admission review failed") == 1


async def test_an_idle_connection_is_closed_in_the_end(launch, ways, review_bytes):
    async with launch(keepalive_seconds=0.1) as port, port.dial() as connection:
        await asked(connection, message(review_bytes()))
        assert await connection.ended()
    assert ways == ["short"]


async def test_an_answer_leaves_before_its_connection_is_closed():
    """The server may be stopped in the turn of the event loop in which the review came."""

    class Wire(asyncio.Transport):
        def __init__(self):
            super().__init__()
            self.told = []

        def is_closing(self):
            return "closed" in self.told

        def write(self, data):
            self.told.append(data)

        def close(self):
            self.told.append("closed")

    async def handle(_request):
        raise AssertionError("asked")

    posts, wire = Posts(Everywhere()), Wire()
    protocol = protocol_of(web.Server(handle), posts)
    protocol.connection_made(wire)
    posts.send(wire, b"allowed")
    await protocol.shutdown()
    assert wire.told == [b"allowed", "closed"]
    posts.send(wire, b"too late")
    await asyncio.sleep(0)
    assert wire.told == [b"allowed", "closed"]


async def test_made_up_targets_do_not_fill_the_memory(port, ways, review_bytes):
    async with port.dial() as connection:
        for number in range(MOST_HEADS + 50):
            await asked(connection, message(review_bytes(), f"/validate?timeout={number + 1}s"))
        answer = await asked(connection, message(review_bytes(), "/validate/" + "x" * 2000))
    assert answer.status == 404
    assert set(ways) == {"short"}
    site = next(iter(port.server._https.sites))
    assert site._posts.find.cache_info().currsize <= MOST_HEADS


class Everywhere:
    """A desk that has a hook at every target."""

    def find(self, target):
        return target


PIECES = st.sampled_from(
    [
        b"POST /validate HTTP/1.1", b"POST /a?b=c HTTP/1.1", b"POST  /a HTTP/1.1", b"GET / HTTP/1.1",
        b"POST /a HTTP/1.0", b"Host: a",
        b"Host:a", b"Host : a", b"host: a", b"Host: a\r", b"Host: a\n", b"User-Agent: x", b"Accept: */*",
        b"Content-Type: application/json", b" folded", b"Content-Length: 3", b"Content-Length: 03",
        b"Content-Length: +3", b"Content-Length: 3, 3", b"content-length: 5", b"Transfer-Encoding: chunked", b"",
        b"Accept: \x00", b"Accept: \xff", b"Expect: 100-continue", b"Upgrade: h2c",
    ]
)  # fmt: skip
LINES = st.one_of(
    st.lists(PIECES, max_size=7),
    st.permutations([b"Host: a", b"Content-Type: application/json", b"Content-Length: 3", b"Accept: x"]).map(
        lambda lines: [b"POST /validate HTTP/1.1", *lines]
    ),
)


@given(LINES)
def test_where_a_message_ends_the_library_says_so_too(lines):
    """Whatever the short way takes for a message, the library takes for the same message."""
    head = b"\r\n".join(lines)
    before, found, after = head.partition(b"\r\nContent-Length: ")
    digits, _, after = after.partition(b"\r\n")
    if b"\r\n\r\n" in head or not found or not digits.isdigit():
        return
    post = Posts(Everywhere())._read(before, after)
    if post is None:
        return
    loop = asyncio.new_event_loop()
    try:
        parser = HttpRequestParser(BaseProtocol(loop), loop, 2**16)
        messages, upgraded, tail = parser.feed_data(head + b"\r\n\r\n" + b"x" * int(digits) + b"P")
        (read, payload), *others = messages
        assert (read.method, tuple(read.version), read.should_close) == ("POST", (1, 1), False)
        assert (upgraded, tail) == (False, b"")
        assert read.headers["Content-Length"].lstrip("0") == digits.decode().lstrip("0")
        assert payload.is_eof()
        assert len(payload.read_nowait()) == int(digits)
        assert not others
        assert post.called is None or post.called == read.path
    except HttpProcessingError as error:
        raise AssertionError(f"the library refuses {head!r}") from error
    finally:
        loop.close()
