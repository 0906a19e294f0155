"""The live TLS context, by handshakes over real sockets."""

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from certs.authority import Authority
from certs.context import CertificateError, ServerContext

NOW = datetime.now(UTC)
NAMES = ("localhost",)


@pytest.fixture(scope="module")
def authority():
    return Authority.new(NOW - timedelta(days=30))


def client_context(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


@asynccontextmanager
async def listening(context: ServerContext):
    """Echo lines over TLS; yields the port."""

    async def echo(reader, writer):
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context.listener)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def dialled(port: int, context: ssl.SSLContext, name: str | None = "localhost"):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def serial(writer) -> int:
    return x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(True)).serial_number


def serial_of(leaf) -> int:
    return x509.load_pem_x509_certificate(leaf.chain_pem).serial_number


async def test_a_strict_client_that_knows_only_the_authority_is_served(authority):
    context = ServerContext(authority.issue(NAMES, ("127.0.0.1",), NOW))
    async with listening(context) as port, dialled(port, client_context(authority)) as (_, writer):
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
    async with listening(context) as port, dialled(port, client_context(authority), "127.0.0.1") as (_, writer):
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"


async def test_only_http_1_1_is_offered(authority):
    client = client_context(authority)
    client.set_alpn_protocols(["h2", "http/1.1"])
    context = ServerContext(authority.issue(NAMES, (), NOW))
    async with listening(context) as port, dialled(port, client) as (_, writer):
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"


async def test_tls_1_1_is_refused_and_1_2_is_spoken(authority):
    context = ServerContext(authority.issue(NAMES, (), NOW))
    assert context.listener.minimum_version is ssl.TLSVersion.TLSv1_2
    client = client_context(authority)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    async with listening(context) as port, dialled(port, client) as (_, writer):
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.2"


def speaking_1_2(authority, ciphers) -> ssl.SSLContext:
    client = client_context(authority)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers(ciphers)
    return client


@pytest.mark.parametrize("cipher", ["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"])
async def test_of_tls_1_2_aead_suites_are_spoken(authority, cipher):
    context = ServerContext(authority.issue(NAMES, (), NOW))
    async with listening(context) as port, dialled(port, speaking_1_2(authority, cipher)) as (_, writer):
        assert writer.get_extra_info("ssl_object").cipher()[0] == cipher


async def test_of_tls_1_2_no_other_suites_are_spoken(authority):
    context = ServerContext(authority.issue(NAMES, (), NOW))
    client = speaking_1_2(authority, "ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA256")
    async with listening(context) as port:
        with pytest.raises(OSError):
            async with dialled(port, client):
                pass
    assert all(suite["aead"] for suite in context.listener.get_ciphers())


async def test_a_swap_serves_new_connections_and_leaves_old_ones_alone(authority):
    first, second = authority.issue(NAMES, (), NOW), authority.issue(NAMES, (), NOW)
    context = ServerContext(first)
    client = client_context(authority)
    async with listening(context) as port, dialled(port, client) as (reader, writer):
        context.swap(second)
        async with dialled(port, client) as (_, later):
            assert (serial(writer), serial(later)) == (serial_of(first), serial_of(second))
        writer.write(b"still here\n")
        assert await reader.readline() == b"still here\n"


async def test_a_client_that_sends_no_server_name_gets_the_new_certificate_too(authority):
    context = ServerContext(authority.issue(NAMES, (), NOW))
    fresh = authority.issue(NAMES, (), NOW)
    context.swap(fresh)
    nameless = client_context(authority)
    nameless.check_hostname = False
    async with listening(context) as port, dialled(port, nameless, "") as (_, writer):
        assert serial(writer) == serial_of(fresh)


async def test_an_expired_leaf_is_refused_by_the_client_until_it_is_swapped(authority):
    expired = authority.issue(NAMES, (), NOW - timedelta(days=8))
    context = ServerContext(expired)
    async with listening(context) as port:
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            async with dialled(port, client_context(authority)):
                pass
        context.swap(authority.issue(NAMES, (), NOW))
        async with dialled(port, client_context(authority)) as (_, writer):
            assert writer.get_extra_info("ssl_object").version()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        pytest.param("key_pem", None, id="key-of-another-certificate"),
        pytest.param("chain_pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", id="garbage"),
        pytest.param("chain_pem", b"", id="no-certificate"),
        pytest.param("key_pem", b"", id="no-key"),
    ],
)
async def test_a_bad_pair_is_refused_and_the_old_one_goes_on(authority, part, value):
    good = authority.issue(NAMES, (), NOW)
    bad = replace(authority.issue(NAMES, (), NOW), **{part: good.key_pem if value is None else value})
    context = ServerContext(good)
    with pytest.raises(CertificateError, match="cannot be served"):
        context.swap(bad)
    async with listening(context) as port, dialled(port, client_context(authority)) as (_, writer):
        assert serial(writer) == serial_of(good)


async def test_no_session_ticket_is_handed_out(authority):
    context = ServerContext(authority.issue(NAMES, (), NOW))
    async with listening(context) as port, dialled(port, client_context(authority)) as (reader, writer):
        writer.write(b"x\n")
        await reader.readline()
        assert (
            writer.get_extra_info("ssl_object").session is None
            or not writer.get_extra_info("ssl_object").session.has_ticket
        )


def test_nothing_is_left_on_disk(authority, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ServerContext(authority.issue(NAMES, (), NOW))
    assert not list(tmp_path.iterdir())


def test_plain_text_ends_in_an_error(authority):
    listener = ServerContext(authority.issue(NAMES, (), NOW)).listener
    near, far = socket.socketpair()
    with near, far:
        far.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(ssl.SSLError):
            listener.wrap_socket(near, server_side=True)
