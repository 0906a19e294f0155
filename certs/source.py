"""Sources of a server's certificate: its own authority, or files that another program renews.

The server polls them every few seconds. A timer set for the renewal is not sufficient: it stops while the machine is
suspended.

Source: docs/specifications/serving.md 4.2 to 4.4 and 4.6.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from cryptography import x509

from certs.authority import Authority, Leaf
from certs.context import CertificateError
from certs.rotation import certificates_in

_LOOKS: Final = 30
"""Minimum number of checks for renewal within the life of a certificate."""


class LeafSource(Protocol):
    """Provides a server with a sequence of certificates."""

    @property
    def trust_pem(self) -> bytes:
        """The trust anchors for the leaf that `first` or `following` last returned."""
        ...

    @property
    def above(self) -> Mapping[str, x509.Certificate]:
        """The certificates above that leaf, by role: ``ca``, ``cross``. Only those that we renew."""
        ...

    def first(self, now: datetime) -> Leaf:
        """Return the certificate to start with. Raises `CertificateError`."""
        ...

    def following(self, leaf: Leaf, now: datetime) -> Leaf | None:
        """Return the successor of *leaf*, or None if there is no new leaf yet. Raises `CertificateError`."""
        ...

    def common_key(self, leaf: Leaf) -> bytes:
        """Return a private key that is the same on all servers with certificates of this origin, in PEM.

        It rarely changes.

        Args:
            leaf: The one in use.
        """
        ...

    async def keep(self, changed: Callable[[], object]) -> None:
        """Watch the inputs of the certificates until cancelled, or until no input is left to watch.

        Args:
            changed: Called when another certificate may be available.
        """
        ...


def is_due(leaf: Leaf, authority: Authority, now: datetime) -> bool:
    """Return whether two thirds of a leaf's life have passed, and its authority can sign a leaf that expires later."""
    return leaf.not_after < authority.not_after and now >= leaf.signed + leaf.life * 2 / 3


def check_pause(seconds: float, life: timedelta) -> float:
    """Return the seconds between two checks for renewal: *seconds*, or fewer for a short life."""
    return min(seconds, life.total_seconds() / _LOOKS)


@dataclass(frozen=True, slots=True)
class OwnLeaves:
    """Leaves of our own authority, each with a new key, renewed after two thirds of their lifetime."""

    authority: Authority
    dns_names: Sequence[str]
    ip_addresses: Sequence[str]

    @property
    def trust_pem(self) -> bytes:
        """The authority."""
        return self.authority.pem

    @property
    def above(self) -> Mapping[str, x509.Certificate]:
        """The authority."""
        return {"ca": self.authority.certificate}

    def first(self, now: datetime) -> Leaf:
        """Sign a leaf. Raises `CertificateError`."""
        try:
            return self.authority.issue(self.dns_names, self.ip_addresses, now)
        except ValueError as error:
            raise CertificateError(str(error)) from error

    def following(self, leaf: Leaf, now: datetime) -> Leaf | None:
        """Return a new leaf if *leaf* is due for renewal, else None. Raises `CertificateError`."""
        return self.first(now) if is_due(leaf, self.authority, now) else None

    def common_key(self, leaf: Leaf) -> bytes:  # noqa: ARG002 - each leaf has another key
        """Return the authority's key."""
        return self.authority.key_pem

    async def keep(self, changed: Callable[[], object]) -> None:
        """Return immediately: the authority never changes."""


@dataclass(slots=True)
class LeafFiles:
    """A certificate in files, such as those of a mounted Secret. The server reads them again at each check.

    Args:
        certificate: PEM, the leaf first, then the chain to its authority.
        key: PEM.
        authority: PEM of the authority. None means that clients trust the certificates of the chain.
    """

    certificate: Path
    key: Path
    authority: Path | None = None
    _trust: bytes = field(default=b"", init=False)

    @property
    def trust_pem(self) -> bytes:
        """The authority file as last read, or the chain if there is no such file."""
        return self._trust

    @property
    def above(self) -> Mapping[str, x509.Certificate]:
        """Empty: another program renews the authority."""
        return {}

    def first(self, now: datetime) -> Leaf:  # noqa: ARG002 - other sources need the time
        """Read the files. Raises `CertificateError`."""
        # Another program may replace the files between the two reads. The pair then does not match, the context
        # refuses it, and the server reads both again at its next check.
        chain, key = _read(self.certificate), _read(self.key)
        certificates = certificates_in(chain)
        if not certificates:
            raise CertificateError(f"{self.certificate}: holds no certificate in PEM that can be read")
        self._trust = _read(self.authority) if self.authority else chain
        leaf = certificates[0]
        begin, end = leaf.not_valid_before_utc, leaf.not_valid_after_utc
        return Leaf(chain, key, begin, end, signed=begin)

    def following(self, leaf: Leaf, now: datetime) -> Leaf | None:
        """Return the leaf in the files, or None if it is unchanged. Raises `CertificateError`."""
        current_leaf = self.first(now)
        return (
            None if (current_leaf.chain_pem, current_leaf.key_pem) == (leaf.chain_pem, leaf.key_pem) else current_leaf
        )

    def common_key(self, leaf: Leaf) -> bytes:
        """Return the key in the files, which other servers may also have mounted."""
        return leaf.key_pem

    async def keep(self, changed: Callable[[], object]) -> None:
        """Return immediately: the files are read again on each call of `following`."""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from error
