"""Certificates on a live listener: verified, renewed under open connections, and kept while there is no better one."""

import asyncio
import ssl
import subprocess
from dataclasses import replace
from datetime import timedelta
from unittest.mock import Mock

import pytest
from cryptography import x509

from certs.authority import Authority
from certs.context import CertificateError
from certs.source import OwnLeaves
from tests.waiting import until
from tests.webhook.endpoints.conftest import Clock
from webhook.runtime.clock import utc_now
from webhook.server.certificates import Certificates, own_leaves
from webhook.settings.certificates import CertificateSettings
from webhook.telemetry.metrics import Metrics


def serial(connection) -> int:
    certificate = connection._writer.get_extra_info("ssl_object").getpeercert(True)
    return x509.load_der_x509_certificate(certificate).serial_number


def own(clock, client_authorities=None, **settings) -> Certificates:
    """Make certificates of an authority of their own."""
    return Certificates(own_leaves(CertificateSettings(**settings), clock), client_authorities, Metrics(), clock, 0.001)


def test_a_name_that_no_certificate_can_hold_is_refused(port):
    leaves = OwnLeaves(Authority.new(port.clock()), ("köln",), ())
    with pytest.raises(CertificateError, match="köln"):
        Certificates(leaves, None, Metrics(), port.clock, 0.001)


async def test_openssl_verifies_the_running_server(port, tmp_path):
    (tmp_path / "ca.pem").write_bytes(port.server.certificates.trust_pem)
    host, number = port.server.addresses.https
    command = ["openssl", "s_client", "-connect", f"{host}:{number}", "-CAfile", str(tmp_path / "ca.pem")]
    command += ["-verify_return_error", "-x509_strict", "-servername", "localhost", "-verify_hostname", "localhost"]
    done = await asyncio.to_thread(
        subprocess.run, [*command, "-alpn", "h2,http/1.1"], input="", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Verify return code: 0 (ok)" in done.stdout
    assert "ALPN protocol: http/1.1" in done.stdout


async def test_a_client_that_trusts_another_authority_is_not_served(port):
    port.trust = ssl.create_default_context(cadata=Authority.new(port.clock()).pem.decode())
    with pytest.raises(ssl.SSLCertVerificationError):
        async with port.dial():
            pass


async def test_the_certificate_is_renewed_at_two_thirds_of_its_life_under_open_connections(launch, review_bytes):
    """7 days: due 4 days and 16 hours after it was made."""
    async with launch(behind=timedelta(days=4, hours=16)) as port, port.dial() as early:
        certificates, first = port.server.certificates, serial(early)
        port.clock.advance(days=4, hours=15, minutes=59)
        assert not certificates.renew_leaf()
        port.clock.advance(minutes=2)
        assert certificates.renew_leaf()
        async with port.dial() as late:
            assert serial(late) != first
            assert (await late.post("/validate", review_bytes())).status == 200
        assert (await early.post("/validate", review_bytes())).status == 200
        assert not certificates.renew_leaf()
        assert port.sample("harbormaster_certificate_renewals_total", role="leaf", result="success") == 1
        expiry = port.sample("harbormaster_certificate_expiration_timestamp_seconds", role="leaf")
        assert expiry == pytest.approx(port.clock().timestamp() + 7 * 86400, abs=1)


async def test_a_pair_that_does_not_match_leaves_the_old_one_serving(port, review_bytes, monkeypatch):
    certificates = port.server.certificates
    leaves = certificates.leaves
    stray = leaves.first(port.clock()).key_pem
    following = Mock(following=lambda *_: replace(leaves.first(port.clock()), key_pem=stray))
    monkeypatch.setattr(certificates, "leaves", following)
    async with port.dial() as connection:
        first = serial(connection)
    port.clock.advance(days=5)
    assert not certificates.renew_leaf()
    async with port.dial() as connection:
        assert serial(connection) == first
        assert (await connection.post("/validate", review_bytes())).status == 200
    assert port.sample("harbormaster_certificate_renewals_total", role="leaf", result="failure") == 1


def test_a_certificate_that_is_about_to_expire_is_a_problem(port):
    certificates = own(port.clock)
    port.clock.advance(days=6, hours=22)
    assert certificates.problem() == ""
    port.clock.advance(hours=1, minutes=1)
    assert certificates.problem().startswith("the certificate expires at ")
    assert certificates.renew_leaf()
    assert certificates.problem() == ""


class NextAuthority:
    """Leaves of one authority, then of another, as a rollover brings them."""

    def __init__(self, clock):
        self.above = {}
        self.authorities = [Authority.new(clock(), generation) for generation in (1, 2)]

    @property
    def trust_pem(self):
        return b"".join(each.pem for each in self.authorities)

    def first(self, now):
        return self.authorities[0].issue(("localhost",), ("127.0.0.1",), now)

    def following(self, leaf, now):
        new = self.authorities[1]
        return None if leaf.issuer == new.name else new.issue(("localhost",), ("127.0.0.1",), now)

    def common_key(self, leaf):
        return leaf.key_pem

    async def keep(self, changed):
        pass


def issuers(metrics):
    [found] = [metric for metric in metrics.registry.collect() if metric.name.endswith("certificate_issuer_info")]
    return [sample.labels["issuer"] for sample in found.samples]


def test_metrics_name_who_signed_the_certificate_that_is_served_now(port):
    """Before an authority leaves the bundles, no replica may serve its leaves any more."""
    leaves, metrics = NextAuthority(port.clock), Metrics()
    certificates = Certificates(leaves, None, metrics, port.clock, 0.001)
    assert issuers(metrics) == [leaves.authorities[0].name]
    assert certificates.renew_leaf()
    assert issuers(metrics) == [leaves.authorities[1].name]


async def test_a_replica_that_is_asked_to_stop_in_a_rollover_follows_it_until_it_has_stopped(launch, review_bytes):
    """Callers come until they have heard that it is not ready, and some of them trust the new authority alone."""
    clock = Clock(timedelta())
    leaves = NextAuthority(clock)
    async with launch(leaves=leaves, drain_seconds=600, drain_limit_seconds=600, certificate_check_seconds=1) as port:
        hurry = asyncio.Event()
        draining = asyncio.create_task(port.server.drain(hurry))
        await port.until(port.server.health.draining.is_set)
        new = leaves.authorities[1]
        await port.until(lambda: issuers(port.server.metrics) == [new.name])
        port.trust = ssl.create_default_context(cadata=new.pem.decode())
        async with port.dial() as connection:
            answer = await connection.post("/validate", review_bytes())
        assert (answer.status, answer.headers["Connection"]) == (200, "close")
        hurry.set()
        await draining


async def test_the_key_in_use_is_that_of_the_certificate_in_use(port):
    certificates = own(port.clock)
    first = certificates._leaf.key_pem
    port.clock.advance(days=5)
    assert certificates.renew_leaf()
    assert certificates._leaf.key_pem != first


async def running_until(certificates, condition):
    """Let certificates renew themselves until something has come of it."""
    running = asyncio.create_task(certificates.run())
    try:
        await until(condition)
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_what_is_due_is_renewed_by_itself(port):
    certificates = own(port.clock)
    first = certificates._leaf.key_pem
    port.clock.advance(days=5)
    await running_until(certificates, lambda: certificates._leaf.key_pem != first)


class Brief(OwnLeaves):
    """Leaves that live for a second and a half."""

    def first(self, now):
        return self.authority.issue(self.dns_names, self.ip_addresses, now, life=timedelta(seconds=1.5))


async def test_a_short_life_is_looked_at_more_often_than_the_setting_says():
    leaves = Brief(Authority.new(utc_now()), ("localhost",), ())
    certificates = Certificates(leaves, None, Metrics(), utc_now, check_seconds=3600)
    first = certificates._leaf.key_pem
    await running_until(certificates, lambda: certificates._leaf.key_pem != first)


class Changing:
    """Authorities of clients that cannot be had at first, then are, and then are others."""

    check_seconds = 0.001

    def __init__(self, *pems):
        self.pems = list(pems)

    async def read(self):
        pem = self.pems.pop(0) if len(self.pems) > 1 else self.pems[0]
        if not pem:
            raise CertificateError("not there yet")
        return pem


async def test_authorities_of_clients_are_asked_for_until_they_are_had_and_then_again(port):
    first, other = Authority.new(port.clock()).pem, Authority.new(port.clock()).pem
    certificates = own(port.clock, Changing(b"", b"", first, first, other))
    assert not await certificates.renew_client_authorities()
    for pem in (first, other):
        await running_until(certificates, lambda pem=pem: certificates._tls.client_authorities == pem)
