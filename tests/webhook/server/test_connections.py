"""Sockets are counted from accept on; who has to go when there are too many, and who is heard."""

import asyncio
import socket
from contextlib import AsyncExitStack, ExitStack

import pytest

from tests.webhook.endpoints.conftest import wait_until
from webhook.server import connections
from webhook.server.connections import UNAUTHENTICATED_BURST, UNAUTHENTICATED_PER_SECOND, Connection, Connections

BODY = b"POST /validate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"


class Handler:
    """An HTTP protocol that hears nothing."""

    def __init__(self):
        self._current_request = None

    def connection_made(self, transport):
        pass

    def data_received(self, data):
        pass


class Wire(asyncio.Transport):
    """A transport that remembers what became of it."""

    def __init__(self):
        super().__init__()
        self.ended = False
        self.paused = False

    def abort(self):
        self.ended = True

    def is_closing(self):
        return self.ended

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False


class Crowd:
    """Connections, and those who make them."""

    def __init__(self, limit=4, handshakes=2, *, paced=False):
        self.connections = Connections(limit, handshakes, is_paced=paced)
        self.sockets = ExitStack()
        self.refused = 0

    def comes(self, address="10.0.0.1"):
        """Connect, and shake no hands yet."""
        ours, theirs = socket.socketpair()
        self.sockets.enter_context(ours)
        self.sockets.enter_context(theirs)
        theirs.setblocking(False)
        made = Connection(ours, address, self.connections, lambda _: Handler(), lambda _: None)
        made.theirs = theirs
        self.refused += not self.connections.admit(made)
        return made

    def speaks(self, address="10.0.0.1"):
        made = self.comes(address)
        assert self.connections.spoken(made)
        return made

    def opens(self, address="10.0.0.1"):
        made = self.speaks(address)
        made.connection_made(Wire())
        return made

    def __len__(self):
        return len(self.connections)


class Visible(Connection):
    """Has room for what tests note down."""


@pytest.fixture(autouse=True)
def _visible(monkeypatch):
    monkeypatch.setitem(globals(), "Connection", Visible)


@pytest.fixture
def crowd():
    made = Crowd()
    with made.sockets:
        yield made


def has_gone(connection) -> bool:
    if connection.transport is not None:
        return connection.transport.ended
    try:
        return connection.theirs.recv(1) == b""
    except BlockingIOError:
        return False


@pytest.mark.parametrize("how", ["comes", "speaks"])
def test_the_oldest_handshake_of_an_address_makes_room_for_its_next(crowd, how):
    come = getattr(crowd, how)
    first, second, other = come(), come(), come("10.0.0.2")
    third = come()
    assert [has_gone(each) for each in (first, second, other, third)] == [True, False, False, False]
    assert len(crowd) == 3


def test_who_says_nothing_ends_no_handshake(crowd):
    speaking = crowd.speaks()
    silent = [crowd.comes() for _ in range(20)]
    assert not has_gone(speaking)
    assert sum(not has_gone(each) for each in silent) == 2


def test_of_all_the_one_that_has_been_silent_longest_makes_room(crowd):
    made = [crowd.opens(f"10.0.0.{number}") for number in range(4)]
    made[0].handler._current_request = "a request"
    crowd.connections.record_data(made[1])
    crowd.opens("10.0.0.9")
    assert [has_gone(each) for each in made] == [False, False, True, False]
    assert len(crowd) == 4


def test_who_is_vouched_for_goes_last(crowd):
    known = crowd.opens()
    crowd.connections.mark_authenticated(known.handler)
    busy = [crowd.opens(f"10.0.0.{number}") for number in range(3)]
    for each in busy:
        each.handler._current_request = "a request"
    crowd.opens("10.0.1.0").handler._current_request = "a request"
    assert [has_gone(each) for each in (known, *busy)] == [False, True, False, False]


def test_handshakes_take_no_more_than_a_quarter_when_there_is_no_room(crowd):
    opened = [crowd.opens() for _ in range(2)]
    first, second = crowd.speaks(), crowd.speaks("10.0.0.2")
    crowd.comes("10.0.0.3")
    assert [has_gone(each) for each in (*opened, first, second)] == [False, False, True, False]


def test_where_all_are_vouched_for_and_busy_nobody_has_to_go(crowd):
    made = [crowd.opens() for _ in range(4)]
    for each in made:
        crowd.connections.mark_authenticated(each.handler)
        each.handler._current_request = "a request"
    crowd.comes("10.0.0.2")
    assert not any(has_gone(each) for each in made)
    assert (crowd.refused, len(crowd)) == (1, 4)


def test_who_had_to_go_in_the_middle_of_a_handshake_does_not_count_when_it_succeeds(crowd):
    first = crowd.speaks()
    crowd.speaks()
    crowd.speaks()
    wire = Wire()
    first.connection_made(wire)
    assert wire.ended
    assert len(crowd) == 2


async def test_strangers_share_a_number_of_messages_and_who_is_vouched_for_is_always_heard():
    crowd = Crowd(paced=True)
    with crowd.sockets:
        stranger, known = crowd.opens(), crowd.opens()
        crowd.connections.mark_authenticated(known.handler)
        for _ in range(int(UNAUTHENTICATED_BURST)):
            stranger.data_received(b"x")
        assert not stranger.transport.paused
        for _ in range(int(UNAUTHENTICATED_PER_SECOND)):  # more than comes back meanwhile
            stranger.data_received(b"x")
            known.data_received(b"x")
        assert stranger.transport.paused
        assert not known.transport.paused
        crowd.connections.mark_authenticated(stranger.handler)
        assert not stranger.transport.paused


async def test_sockets_that_say_nothing_are_bounded_before_any_handshake(launch, review_bytes):
    async with launch(connections=20, handshakes_per_address=5) as port:
        with ExitStack() as stack:
            silent = [stack.enter_context(socket.socket()) for _ in range(200)]
            for each in silent:
                each.setblocking(False)
                await asyncio.get_running_loop().sock_connect(each, port.server.addresses.https)
            async with port.dial() as honest:
                assert (await honest.post("/validate", review_bytes())).status == 200
            assert len(port.server._callers) <= 6
        await port.until(lambda: not len(port.server._callers))


async def test_an_address_has_only_so_many_handshakes_a_second(launch, review_bytes, monkeypatch):
    """They cost more than reviews; where somebody is connected who has shown who he is, they are not counted."""
    monkeypatch.setattr(connections, "HANDSHAKE_BURST", 2.0)  # one of them for the look at ourselves
    monkeypatch.setattr(connections, "HANDSHAKES_PER_SECOND", 0.001)
    async with launch(handshake_seconds=0.3) as port, port.dial() as first:
        with pytest.raises(ConnectionError):
            await port.dial().__aenter__()
        await port.until(lambda: len(port.server._callers) == 1)
        assert (await first.post("/validate", review_bytes())).status == 200
        async with port.dial() as second:
            assert (await second.post("/validate", review_bytes())).status == 200


async def test_a_handshake_without_a_turn_waits_for_one(launch, review_bytes, monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKE_BURST", 1.0)
    monkeypatch.setattr(connections, "HANDSHAKES_PER_SECOND", 2.0)
    async with launch() as port, port.dial() as honest:
        assert (await honest.post("/validate", review_bytes())).status == 200


def test_who_is_vouched_for_has_turns_for_his_address_as_long_as_he_is_connected(crowd):
    known = crowd.opens()
    crowd.connections.mark_authenticated(known.handler)
    turns = [crowd.connections.may_handshake("10.0.0.1", 0.0) for _ in range(1000)]
    assert all(turns)
    crowd.connections.closed(known)
    turns = [crowd.connections.may_handshake("10.0.0.1", 0.0) for _ in range(1000)]
    assert turns.count(True) == connections.HANDSHAKE_BURST
    assert crowd.connections.may_handshake("10.0.0.2", 0.0)


async def test_a_handshake_that_takes_too_long_is_ended(launch):
    async with launch(handshake_seconds=0.05) as port:
        with socket.create_connection(port.server.addresses.https) as silent:
            silent.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(silent, 1) == b""
        await port.until(lambda: not len(port.server._callers))


async def test_the_api_server_is_not_driven_out_from_its_own_address(launch, review_bytes, tmp_path):
    """Neither out of the connections that it keeps nor out of those that it makes."""
    secret = tmp_path / "secret"
    secret.write_text("s" * 32, encoding="ascii")
    path = f"/hooks/{'s' * 32}/validate"
    limits = {"connections": 10, "handshakes_per_address": 5, "webhook_secret_file": secret}
    async with launch(**limits) as port, AsyncExitStack() as stack, port.dial() as kept:
        assert (await kept.post(path, review_bytes())).status == 200
        for number in range(30):
            stranger = await stack.enter_async_context(port.dial())
            if number % 2:
                await stranger.send(BODY)
        async with port.dial() as new:
            assert (await new.post(path, review_bytes())).status == 200
        assert (await kept.post(path, review_bytes())).status == 200
        assert len(port.server._callers) <= 10


async def test_who_talks_no_tls_is_no_line_in_the_log(launch, caplog):
    async with launch() as port:
        reader, writer = await asyncio.open_connection(*port.server.addresses.https)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.read()
        writer.close()
        await wait_until(lambda: not len(port.server._callers))
    assert [record for record in caplog.records if record.levelname not in {"INFO", "DEBUG"}] == []
