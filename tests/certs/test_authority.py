"""The certificate profile, checked by the verifiers that clients use."""

import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from certs.authority import Authority

NOW = datetime(2026, 3, 1, 10, 0, 0, 250_000, tzinfo=UTC)
NAMES = ("harbormaster.fleet-system.svc", "localhost")


@pytest.fixture(scope="module")
def authority():
    return Authority.new(NOW)


@pytest.fixture(scope="module")
def leaf(authority):
    return authority.issue(NAMES, ("127.0.0.1", "::1"), NOW)


def load(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def test_the_authority_has_the_profile(authority):
    certificate = authority.certificate
    extensions = certificate.extensions
    basic = extensions.get_extension_for_class(x509.BasicConstraints)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    identifier = extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    issuer = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 1)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.crl_sign) == (True, True, True)
    assert not usage.value.digital_signature
    assert issuer.key_identifier == identifier.digest
    assert isinstance(certificate.public_key().curve, ec.SECP256R1)
    assert certificate.signature_hash_algorithm.name == "sha256"
    assert certificate.not_valid_before_utc == datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
    assert certificate.not_valid_after_utc == datetime(2027, 3, 1, 10, 0, tzinfo=UTC)
    assert authority.name == f"harbormaster-ca-1-{identifier.digest.hex()[:8]}"


def test_the_leaf_has_the_profile(authority, leaf):
    certificate = load(leaf.chain_pem)
    extensions = certificate.extensions
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    signer = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert usage.critical
    assert [usage.value.digital_signature, usage.value.key_cert_sign, usage.value.key_agreement] == [True, False, False]
    purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier == signer.digest
    assert extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    assert tuple(names.get_values_for_type(x509.DNSName)) == NAMES
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert certificate.issuer == authority.certificate.subject
    assert leaf.not_before == datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
    assert leaf.not_after == datetime(2026, 3, 8, 10, 0, tzinfo=UTC)


def test_serials_are_127_random_bits(authority):
    serials = {load(authority.issue(NAMES, (), NOW).chain_pem).serial_number for _ in range(20)}
    assert len(serials) == 20
    assert all(0 < serial < 2**127 for serial in serials)


def test_every_leaf_and_every_authority_has_a_key_and_a_name_of_its_own(authority, leaf):
    again = authority.issue(NAMES, (), NOW)
    assert again.key_pem != leaf.key_pem
    assert Authority.new(NOW).name != authority.name
    assert Authority.new(NOW, generation=7).name.startswith("harbormaster-ca-7-")


def test_a_leaf_never_outlives_its_authority(authority):
    late = authority.not_after - timedelta(days=2)
    assert authority.issue(NAMES, (), late).not_after == authority.not_after


@pytest.mark.parametrize(
    ("names", "ips", "now", "message"),
    [
        pytest.param((), (), NOW, "at least one", id="no-name"),
        pytest.param(("hafen-köln",), (), NOW, "hafen-köln", id="name-not-ascii"),
        pytest.param((), ("10.0.0",), NOW, "10.0.0", id="address-incomplete"),
        pytest.param(NAMES, (), NOW + timedelta(days=366), "expired", id="authority-expired"),
    ],
)
def test_what_cannot_be_signed_is_named(authority, names, ips, now, message):
    with pytest.raises(ValueError, match=message):
        authority.issue(names, ips, now)


def test_a_secret_never_shows_in_a_representation(authority, leaf):
    assert "PRIVATE" not in repr(leaf)
    assert "_key" not in repr(authority)


def test_the_chain_verifies_by_the_rules_of_web_browsers(authority, leaf):
    verifier = (
        PolicyBuilder().store(Store([authority.certificate])).time(NOW).build_server_verifier(x509.DNSName("localhost"))
    )
    assert len(verifier.verify(load(leaf.chain_pem), [])) == 2


def test_the_chain_verifies_with_openssl(authority, leaf, tmp_path):
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    (tmp_path / "leaf.pem").write_bytes(leaf.chain_pem)
    command = ["openssl", "verify", "-x509_strict", "-check_ss_sig", "-purpose", "sslserver"]
    command += ["-verify_hostname", "localhost", "-attime", str(int(NOW.timestamp()))]
    done = subprocess.run(
        [*command, "-CAfile", tmp_path / "ca.pem", tmp_path / "leaf.pem"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_subject_is_constant(leaf):
    attributes = load(leaf.chain_pem).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert [attribute.value for attribute in attributes] == ["harbormaster"]


def test_a_leaf_begins_with_its_authority(authority):
    """So a server whose clock is a month ahead is accepted by clients whose clock is right."""
    ahead = (NOW + timedelta(days=30)).replace(microsecond=0)
    leaf = authority.issue(NAMES, (), ahead)
    assert (leaf.not_before, leaf.not_after) == (authority.not_before, ahead + timedelta(days=7))
    assert (leaf.signed, leaf.life) == (ahead, timedelta(days=7))


def test_a_leaf_names_who_signed_it(authority, leaf):
    assert leaf.issuer == authority.name
