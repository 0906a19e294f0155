"""Where certificates come from: an authority of ours, and files that somebody else writes."""

import ssl
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from certs.authority import Authority
from certs.context import CertificateError, ServerContext
from certs.source import LeafFiles, OwnLeaves
from tests.certs.spoiling import spoilt

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def authority():
    return Authority.new(NOW)


@pytest.fixture
def files(tmp_path, authority):
    """A pair of files with a certificate in them, and how to write another one there."""
    found = LeafFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")

    def write(now: datetime = NOW):
        leaf = authority.issue(("localhost",), (), now)
        found.certificate.write_bytes(leaf.chain_pem)
        found.key.write_bytes(leaf.key_pem)
        found.authority.write_bytes(authority.pem)
        return leaf

    write()
    return found, write


def test_an_own_leaf_is_followed_after_two_thirds_of_its_life(authority):
    leaves = OwnLeaves(authority, ("localhost",), ("127.0.0.1",))
    first = leaves.first(NOW)
    due = NOW + timedelta(days=7) * 2 / 3
    assert leaves.following(first, due - timedelta(seconds=1)) is None
    second = leaves.following(first, due)
    assert second is not None
    assert second.key_pem != first.key_pem
    assert second.not_after > first.not_after
    assert leaves.trust_pem == authority.pem


def test_a_leaf_that_cannot_last_longer_is_not_renewed(authority):
    """Its authority ends with it; another authority has to come."""
    leaves = OwnLeaves(authority, ("localhost",), ())
    last = leaves.first(authority.not_after - timedelta(days=1))
    assert leaves.following(last, authority.not_after - timedelta(seconds=1)) is None


def test_names_that_cannot_stand_in_a_certificate_are_named(authority):
    with pytest.raises(CertificateError, match="ünter"):
        OwnLeaves(authority, ("ünter",), ()).first(NOW)


def test_files_are_read_again_and_served_when_they_changed(files):
    leaves, write = files
    served = [leaves.first(NOW)]
    assert leaves.following(served[-1], NOW) is None
    for day in (1, 2):
        write(NOW + timedelta(days=day))
        served.append(leaves.following(served[-1], NOW))
    assert all(later.not_after - earlier.not_after == timedelta(days=1) for earlier, later in pairwise(served))
    ServerContext(served[0]).swap(served[-1])


def test_files_in_the_middle_of_a_change_are_not_served(files):
    """A new certificate beside the old key: the pair is refused, and found again once the key has followed."""
    leaves, write = files
    first = leaves.first(NOW)
    context = ServerContext(first)
    old_key = leaves.key.read_bytes()
    second = write(NOW + timedelta(days=1))
    leaves.key.write_bytes(old_key)
    halfway = leaves.following(first, NOW)
    with pytest.raises(CertificateError, match="key values mismatch"):
        context.swap(halfway)
    leaves.key.write_bytes(second.key_pem)
    context.swap(leaves.following(first, NOW))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        pytest.param(lambda leaves: leaves.certificate.unlink(), "tls.crt: No such file or directory", id="no-file"),
        pytest.param(lambda leaves: leaves.key.unlink(), "tls.key: No such file or directory", id="no-key"),
        pytest.param(lambda leaves: leaves.authority.unlink(), "ca.crt: No such file or directory", id="no-authority"),
        pytest.param(
            lambda leaves: leaves.certificate.write_text("-----BEGIN"), "tls.crt: holds no certificate", id="garbage"
        ),
        pytest.param(
            lambda leaves: leaves.certificate.write_bytes(
                spoilt(leaves.certificate.read_bytes(), b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x7f")
            ),
            "tls.crt: holds no certificate",
            id="damaged",
        ),
    ],
)
def test_files_that_cannot_be_used_are_named(files, spoil, complaint):
    leaves, _ = files
    spoil(leaves)
    with pytest.raises(CertificateError, match=complaint):
        leaves.first(NOW)


def test_without_a_file_of_the_authority_the_chain_itself_is_trusted(files):
    leaves, _ = files
    alone = LeafFiles(leaves.certificate, leaves.key)
    leaf = alone.first(NOW)
    assert alone.trust_pem == leaf.chain_pem
    assert ssl.create_default_context(cadata=alone.trust_pem.decode()).get_ca_certs() == []
