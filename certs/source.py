"""Where a server gets its certificate from: an authority of its own, or files that somebody else renews.

Both are asked again every few seconds; timers are no good, because a suspended machine sleeps through them.

Source: serving.md 4.2 to 4.4 and 4.6.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from cryptography import x509

from certs.authority import Authority, Leaf
from certs.context import CertificateError


class LeafSource(Protocol):
    """Gives a server its certificates, one after the other."""

    @property
    def trust_pem(self) -> bytes:
        """What a client has to trust to accept the leaf that `first` or `following` returned last."""
        ...

    def first(self, now: datetime) -> Leaf:
        """Return the certificate to start with. Raises `CertificateError`."""
        ...

    def following(self, leaf: Leaf, now: datetime) -> Leaf | None:
        """Return what to serve instead of *leaf*, None while there is no other. Raises `CertificateError`."""
        ...


def renewal_time(not_before: datetime, not_after: datetime) -> datetime:
    """Return the instant at two thirds of a certificate's life."""
    return not_before + (not_after - not_before) * 2 / 3


@dataclass(frozen=True, slots=True)
class OwnLeaves:
    """Leaves of an authority of ours, each with a new key, renewed after two thirds of its life."""

    authority: Authority
    dns_names: Sequence[str]
    ip_addresses: Sequence[str]

    @property
    def trust_pem(self) -> bytes:
        """The authority."""
        return self.authority.pem

    def first(self, now: datetime) -> Leaf:
        """Sign a leaf. Raises `CertificateError`."""
        try:
            return self.authority.issue(self.dns_names, self.ip_addresses, now)
        except ValueError as error:
            raise CertificateError(str(error)) from error

    def following(self, leaf: Leaf, now: datetime) -> Leaf | None:
        """Sign another one when *leaf* is due. Raises `CertificateError`."""
        return None if now < renewal_time(leaf.not_before, leaf.not_after) else self.first(now)


@dataclass(slots=True)
class LeafFiles:
    """A certificate in files, as cert-manager and mounted Secrets have it; read again, and served when it changed.

    Args:
        certificate: PEM, the leaf first, then what leads to its authority.
        key: PEM.
        authority: PEM of the authority; None: clients trust the last certificate of the chain.
    """

    certificate: Path
    key: Path
    authority: Path | None = None
    _trust: bytes = field(default=b"", init=False)

    @property
    def trust_pem(self) -> bytes:
        """What was read of the authority."""
        return self._trust

    def first(self, now: datetime) -> Leaf:  # noqa: ARG002 - others have to know the time
        """Read the files. Raises `CertificateError`."""
        chain, key = _read(self.certificate), _read(self.key)
        try:
            certificates = x509.load_pem_x509_certificates(chain)
        except ValueError as error:
            raise CertificateError(f"{self.certificate}: holds no certificate in PEM") from error
        self._trust = _read(self.authority) if self.authority else chain
        leaf = certificates[0]
        return Leaf(chain, key, leaf.not_valid_before_utc, leaf.not_valid_after_utc)

    def following(self, leaf: Leaf, now: datetime) -> Leaf | None:
        """Read the files again. Raises `CertificateError`."""
        found = self.first(now)
        return None if (found.chain_pem, found.key_pem) == (leaf.chain_pem, leaf.key_pem) else found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from error
