"""The authorities of an installation over their rollovers, checked by the verifiers that clients use."""

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from certs.authority import Authority
from certs.rotation import (
    LONGEST_ENTRY,
    MOST_AUTHORITIES,
    DamagedLineageError,
    Lineage,
    certificates_in,
    fingerprint,
    pem_of,
)
from tests.certs.spoiling import spoilt

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
LATER = NOW + timedelta(days=245)
NAMES = ("harbormaster.harbormaster-system.svc",)


@pytest.fixture(scope="module")
def first():
    return Lineage.begin(NOW)


@pytest.fixture(scope="module")
def second(first):
    return first.rolled_over(LATER)


def accepted(lineage: Lineage, trusted, now: datetime, folder) -> bool:
    """Whether OpenSSL, strict, trusting only these authorities, accepts what is served."""
    leaf = lineage.active.issue(NAMES, (), now, above=lineage.above(now))
    (folder / "trusted.pem").write_bytes(pem_of(trusted))
    (folder / "chain.pem").write_bytes(leaf.chain_pem)
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", NAMES[0]]
    command += ["-no-CAfile", "-no-CApath", "-CAfile", folder / "trusted.pem", "-untrusted", folder / "chain.pem"]
    command += ["-attime", str(int(now.timestamp())), folder / "chain.pem"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def brought(key, *, is_authority: bool = True, path_length: int | None = None, usage: bool = True) -> tuple:
    """An authority that the operator brought, certificate and key in PEM."""
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=path_length), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=usage,
                crl_sign=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_it_is_written_down_and_read_again(first, second):
    for lineage in (first, second, second.rolled_over(LATER, distrust=True)):
        again = Lineage.read(lineage.entries(), lineage.annotations())
        assert again.entries() == lineage.entries()
        assert again.annotations() == lineage.annotations()
        assert again.trusted() == lineage.trusted()


def test_the_entries_are_those_of_a_tls_secret(first, second):
    assert set(first.entries()) == {"tls.crt", "tls.key", "ca.crt"}
    assert first.entries()["ca.crt"] == first.entries()["tls.crt"]
    assert set(second.entries()) == {"tls.crt", "tls.key", "ca.crt", "cross.crt"}
    assert second.entries()["ca.crt"] == second.active.pem + first.active.pem
    assert second.annotations() == {"harbormaster.dev/ca-generation": "2"}


@pytest.mark.parametrize("jitter", [-0.05, 0.0, 0.05])
def test_it_is_due_after_two_thirds_of_its_life(first, jitter):
    life = first.active.not_after - first.active.not_before
    due = first.active.not_before + life * (2 / 3 + jitter)
    assert not first.is_due(due - timedelta(seconds=1), jitter)
    assert first.is_due(due, jitter)


def test_an_authority_of_the_future_is_due(first):
    """The clock by which it was made was fast, or ours was set back: clients do not accept it yet."""
    assert first.is_due(first.active.not_before - timedelta(seconds=1))


def test_clients_that_know_only_one_of_the_two_accept_what_is_served(first, second, tmp_path):
    old, new = [first.active.certificate], [second.active.certificate]
    assert accepted(second, old, LATER, tmp_path)
    assert accepted(second, new, LATER, tmp_path)
    assert accepted(second, [*old, *new], LATER, tmp_path)
    assert second.is_accepted_by(old, LATER)
    assert second.is_accepted_by(new, LATER)


def test_the_old_authority_helps_no_longer_than_it_is_valid(first, second, tmp_path):
    end = first.active.not_after
    old = [first.active.certificate]
    assert second.above(end - timedelta(seconds=1))
    assert not second.above(end)
    assert not second.is_accepted_by(old, end)
    assert not accepted(second, old, end + timedelta(seconds=1), tmp_path)
    assert second.without_expired(end - timedelta(seconds=1)) is second
    alone = second.without_expired(end)
    assert (alone.trusted(), alone.cross, alone.generation) == ((second.active.certificate,), None, 2)
    assert accepted(second, alone.trusted(), end + timedelta(seconds=1), tmp_path)


def test_the_cross_certificate_signs_no_further_authority(first, second):
    basic = second.cross.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (basic.ca, basic.path_length) == (True, 0)
    assert second.cross.not_valid_after_utc == first.active.not_after
    assert second.cross.issuer == first.active.certificate.subject


def test_clients_that_know_only_the_authority_before_the_last_are_left_behind(first, second, tmp_path):
    """As serving.md 4.3 says; who forces a second rollover is warned."""
    third = second.rolled_over(LATER + timedelta(days=1))
    now = LATER + timedelta(days=1)
    assert not third.is_accepted_by([first.active.certificate], now)
    assert not accepted(third, [first.active.certificate], now, tmp_path)
    assert third.is_accepted_by([second.active.certificate], now)
    assert accepted(third, third.trusted(), now, tmp_path)


def test_twenty_rollovers_leave_every_neighbour_connected(tmp_path):
    lineage, now, life = Lineage.begin(NOW, timedelta(seconds=60)), NOW, timedelta(seconds=60)
    seen = [lineage]
    for _ in range(20):
        now += timedelta(seconds=45)
        assert lineage.is_due(now)
        lineage = lineage.rolled_over(now, life)
        seen.append(lineage)
        assert len(lineage.trusted()) <= MOST_AUTHORITIES
        assert not lineage.is_due(now)
    assert [one.generation for one in seen] == list(range(1, 22))
    assert len({one.active.name for one in seen}) == 21
    assert all(new.cross.issuer == old.active.certificate.subject for old, new in pairwise(seen))
    assert accepted(seen[-1], seen[-1].without_expired(now).trusted(), now, tmp_path)
    assert accepted(seen[-1], [seen[-2].active.certificate], now, tmp_path)


def test_what_is_distrusted_is_trusted_no_more(first, second):
    now = LATER + timedelta(hours=1)
    after = second.rolled_over(now, distrust=True)
    assert after.trusted() == (after.active.certificate,)
    assert after.cross is None
    assert after.distrusted == {fingerprint(first.active.certificate), fingerprint(second.active.certificate)}
    assert not after.is_accepted_by(second.trusted(), now)
    entries = after.entries() | {"ca.crt": pem_of([after.active.certificate, *second.trusted()])}
    assert Lineage.read(entries, after.annotations()).trusted() == (after.active.certificate,)
    assert after.rolled_over(now).distrusted == after.distrusted


def test_many_rollovers_drop_the_oldest_authority():
    lineage = Lineage.begin(NOW)
    for _ in range(MOST_AUTHORITIES + 3):
        lineage = lineage.rolled_over(NOW)
    assert len(lineage.trusted()) == MOST_AUTHORITIES


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(lambda: ec.generate_private_key(ec.SECP384R1()), id="p-384"),
        pytest.param(lambda: rsa.generate_private_key(65537, 2048), id="rsa"),
    ],
)
def test_an_authority_that_the_operator_brought_is_used(key, tmp_path):
    certificate, key_pem = brought(key())
    found = Lineage.read({"tls.crt": certificate, "tls.key": key_pem}, {})
    assert (found.generation, found.active.name) == (1, "O=Example")
    assert accepted(found, found.trusted(), NOW, tmp_path)
    after = found.rolled_over(NOW)
    assert accepted(after, found.trusted(), NOW, tmp_path)


def test_an_authority_that_may_sign_none_vouches_for_none(tmp_path):
    certificate, key = brought(ec.generate_private_key(ec.SECP256R1()), path_length=0)
    after = Lineage.read({"tls.crt": certificate, "tls.key": key}, {}).rolled_over(NOW)
    assert after.cross is None
    assert len(after.trusted()) == 2


def test_an_expired_authority_vouches_for_none(first):
    late = first.active.not_after
    after = first.rolled_over(late)
    assert (after.cross, after.trusted()) == (None, (after.active.certificate,))


EC = brought(ec.generate_private_key(ec.SECP256R1()))
NAMELESS = spoilt(EC[0], b"\x0c\x07Example", b"\x0c\x07Exampl\xff")
TIMELESS = spoilt(Authority.new(NOW, life=timedelta(days=365 * 40)).pem, b"20660219100000Z", b"00000219100000Z")
UNHEARD_OF = spoilt(EC[0], b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x7f")
"""What the library reads without an error, until somebody asks for the name, the end or the version."""
DAMAGED = {"name": NAMELESS, "time": TIMELESS, "version": UNHEARD_OF}
OTHER = brought(ec.generate_private_key(ec.SECP256R1()))
LOCKED = ec.generate_private_key(ec.SECP256R1()).private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        pytest.param({}, "tls.crt has no certificate", id="empty"),
        pytest.param({"tls.crt": b"garbage", "tls.key": EC[1]}, "tls.crt has no certificate", id="garbage"),
        pytest.param({"tls.crt": EC[0], "tls.key": b"\xff\x00"}, "tls.key has no private key", id="garbage-key"),
        pytest.param({"tls.crt": EC[0], "tls.key": LOCKED}, "without a password", id="locked"),
        pytest.param({"tls.crt": EC[0], "tls.key": OTHER[1]}, "does not match tls.crt", id="another-key"),
        pytest.param({"tls.crt": EC[0], "tls.key": EC[1], "x": b"x" * (LONGEST_ENTRY + 1)}, "longer than", id="long"),
        pytest.param({"tls.crt": NAMELESS, "tls.key": EC[1]}, "tls.crt is damaged", id="damaged-name"),
        pytest.param({"tls.crt": UNHEARD_OF, "tls.key": EC[1]}, "tls.crt has no certificate", id="damaged-version"),
        pytest.param(
            dict(zip(("tls.crt", "tls.key"), brought(rsa.generate_private_key(65537, 1024)), strict=True)),
            "1024 bits",
            id="short-rsa",
        ),
        pytest.param(
            dict(zip(("tls.crt", "tls.key"), brought(ec.generate_private_key(ec.SECP256K1())), strict=True)),
            "the curve secp256k1",
            id="rare-curve",
        ),
        pytest.param(
            dict(zip(("tls.crt", "tls.key"), brought(ed25519.Ed25519PrivateKey.generate()), strict=True)),
            "Ed25519",
            id="ed25519",
        ),
        pytest.param(
            dict(
                zip(
                    ("tls.crt", "tls.key"),
                    brought(ec.generate_private_key(ec.SECP256R1()), is_authority=False),
                    strict=True,
                )
            ),
            "CA:TRUE",
            id="no-authority",
        ),
        pytest.param(
            dict(
                zip(("tls.crt", "tls.key"), brought(ec.generate_private_key(ec.SECP256R1()), usage=False), strict=True)
            ),
            "keyCertSign",
            id="signs-nothing",
        ),
    ],
)
def test_what_is_no_authority_is_named(entries, message):
    with pytest.raises(DamagedLineageError, match=message):
        Lineage.read(entries, {})


@pytest.mark.parametrize(
    "garbage", [b"", b"garbage", EC[0][:-40], *DAMAGED.values()], ids=["empty", "garbage", "cut", *DAMAGED]
)
def test_what_only_helps_clients_may_be_damaged(second, garbage):
    entries = second.entries() | {"ca.crt": garbage, "cross.crt": garbage}
    found = Lineage.read(entries, second.annotations())
    assert (found.trusted(), found.cross) == ((second.active.certificate,), None)


def test_a_cross_certificate_of_another_authority_is_left_out(first, second):
    third = second.rolled_over(LATER)
    found = Lineage.read(second.entries() | {"cross.crt": third.entries()["cross.crt"]}, second.annotations())
    assert found.cross is None


@pytest.mark.parametrize(("text", "generation"), [("", 1), ("7", 7), ("-1", 1), ("\u0667", 1), ("9" * 30, 1), ("x", 1)])
def test_the_generation_is_a_number(second, text, generation):
    found = Lineage.read(second.entries(), {"harbormaster.dev/ca-generation": text})
    assert found.generation == generation


def test_the_key_never_shows_in_a_representation(second):
    assert "PRIVATE" not in repr(second)
    assert "_key" not in repr(replace(second))


def test_a_bundle_is_read_once_each(first, second):
    assert certificates_in(pem_of([*second.trusted(), first.active.certificate])) == second.trusted()


def test_short_lives_are_dated_back_by_a_tenth():
    short = Authority.new(NOW, life=timedelta(seconds=30))
    assert short.not_before == NOW - timedelta(seconds=3)
    leaf = short.issue(NAMES, (), NOW, life=timedelta(seconds=10))
    assert (leaf.not_before, leaf.not_after) == (NOW - timedelta(seconds=3), NOW + timedelta(seconds=10))


def test_it_can_be_made_to_trust_more(first, second):
    """Not what has expired, is of the future, is distrusted or is trusted already."""
    late = first.active.not_after
    assert second.trusting([first.active.certificate], LATER) is second
    stranger = Authority.new(LATER).certificate
    assert second.trusting([stranger], LATER).trusted() == (
        second.active.certificate,
        stranger,
        first.active.certificate,
    )
    assert second.trusting([stranger], LATER - timedelta(days=1)) is second
    assert Lineage.begin(late).trusting([first.active.certificate], late).earlier == ()
    after = second.rolled_over(LATER, distrust=True)
    assert after.trusting(second.trusted(), LATER) is after
    full = replace(second, earlier=tuple(Authority.new(LATER).certificate for _ in range(MOST_AUTHORITIES - 1)))
    assert full.trusting([stranger], LATER).earlier == (stranger, *full.earlier[:-1])
