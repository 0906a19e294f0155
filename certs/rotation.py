"""The authorities of one installation: the signing one, the earlier ones that are still trusted, and rollovers.

A rollover makes a new authority, and the previous one signs its key as well. A leaf of the new authority is served with
that cross certificate. Clients that trust only the old authority accept it, and so do clients that trust only the new
one. The order of bundle updates on clients is therefore irrelevant.

Everything here is a function of its arguments, apart from random keys. Storage and scheduling of rollovers are
elsewhere.

Source: docs/specifications/serving.md 4.2 and 4.3.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from certs.authority import UNREADABLE, Authority, is_readable
from certs.lifetimes import AUTHORITY_LIFE

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
BUNDLE: Final = "ca.crt"
CROSS: Final = "cross.crt"
GENERATION: Final = "harbormaster.dev/ca-generation"
DISTRUSTED: Final = "harbormaster.dev/ca-distrusted"

MOST_AUTHORITIES: Final = 8
"""Maximum number of trusted authorities. A further rollover drops the oldest."""
LONGEST_ENTRY: Final = 64 * 1024
"""Maximum size of one entry in bytes. This module never writes a longer one."""


class DamagedLineageError(Exception):
    """The stored entries are not a lineage. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The authorities of an installation.

    Args:
        active: Signs every leaf.
        generation: Counts rollovers, from 1.
        earlier: Earlier authorities that are still trusted, newest first.
        cross: The name and key of *active*, signed by the authority before it. None on the first generation or
            after the authority before it was distrusted.
        distrusted: SHA-256 fingerprints, in hexadecimal, of authorities that must not be trusted although they have not
            expired.
    """

    active: Authority
    generation: int = 1
    earlier: tuple[x509.Certificate, ...] = ()
    cross: x509.Certificate | None = None
    distrusted: frozenset[str] = frozenset()

    @classmethod
    def begin(cls, now: datetime, life: timedelta = AUTHORITY_LIFE) -> Self:
        """Create the first generation."""
        return cls(Authority.new(now, life=life))

    @classmethod
    def read(cls, entries: Mapping[str, bytes], annotations: Mapping[str, str]) -> Self:
        """Read the output of `entries` and `annotations`, or an authority that the operator provides.

        Only the authority and its key are required. The bundle is ignored if one of its certificates is unreadable. So
        is a cross certificate that does not belong to the authority. Distrusted certificates of the bundle are left
        out.

        Raises:
            DamagedLineageError: The authority or its key is missing or invalid, or an entry is too long.
        """
        for name, value in entries.items():
            if len(value) > LONGEST_ENTRY:
                raise DamagedLineageError(f"{name} is longer than {LONGEST_ENTRY} bytes")
        try:
            active = Authority.load(entries.get(CERTIFICATE, b""), entries.get(KEY, b""))
        except ValueError as error:
            raise DamagedLineageError(str(error)) from error
        generation = annotations.get(GENERATION, "")
        distrusted = frozenset(annotations.get(DISTRUSTED, "").split())
        others = [one for one in certificates_in(entries.get(BUNDLE, b"")) if one != active.certificate]
        cross = next(iter(certificates_in(entries.get(CROSS, b""))), None)
        return cls(
            active,
            int(generation) if generation.isascii() and generation.isdecimal() and len(generation) < 10 else 1,
            tuple(one for one in others if fingerprint(one) not in distrusted)[: MOST_AUTHORITIES - 1],
            cross if cross is not None and _is_of(cross, active) else None,
            distrusted,
        )

    def entries(self) -> dict[str, bytes]:
        """Return the entries that `read` reads, without the annotations."""
        data = {CERTIFICATE: self.active.pem, KEY: self.active.key_pem, BUNDLE: pem_of(self.trusted())}
        return data | ({CROSS: pem_of([self.cross])} if self.cross is not None else {})

    def annotations(self) -> dict[str, str]:
        """Return the annotations of the entries."""
        annotations = {GENERATION: str(self.generation)}
        return annotations | ({DISTRUSTED: " ".join(sorted(self.distrusted))} if self.distrusted else {})

    def trusted(self) -> tuple[x509.Certificate, ...]:
        """Return the authorities that clients should trust, the active one first."""
        return (self.active.certificate, *self.earlier)

    def without_expired(self, now: datetime) -> Self:
        """Return the lineage without expired certificates, except for the active authority.

        Returns this object if none has expired.
        """
        earlier = tuple(one for one in self.earlier if now < one.not_valid_after_utc)
        cross = next(iter(self.above(now)), None)
        if (earlier, cross) == (self.earlier, self.cross):
            return self
        return replace(self, earlier=earlier, cross=cross)

    def trusting(self, also: Iterable[x509.Certificate], now: datetime) -> Self:
        """Return a lineage that also trusts other authorities, or this object if nothing is added.

        Args:
            also: The other authorities. Expired, future and distrusted ones are skipped.
            now: Time of day, with time zone.
        """
        trusted = self.trusted()
        more = tuple(
            one
            for one in also
            if one not in trusted
            and fingerprint(one) not in self.distrusted
            and one.not_valid_before_utc <= now < one.not_valid_after_utc
        )
        return replace(self, earlier=(*more, *self.earlier)[: MOST_AUTHORITIES - 1]) if more else self

    def above(self, now: datetime) -> tuple[x509.Certificate, ...]:
        """Return the certificates to serve after a leaf: the cross certificate, until it expires."""
        return (self.cross,) if self.cross is not None and now < self.cross.not_valid_after_utc else ()

    def is_accepted_by(self, trusted: Iterable[x509.Certificate], now: datetime) -> bool:
        """Return whether a client that trusts only these accepts leaves of the active authority."""
        fingerprints = set(trusted)
        if self.active.certificate in fingerprints:
            return True
        return any(_is_signed_by(cross, one) for cross in self.above(now) for one in fingerprints)

    def due(self, jitter: float = 0.0) -> datetime:
        """Return the time of the next rollover: after two thirds of the authority's life.

        Args:
            jitter: Added to the two thirds, so that replicas start at different times. Between -0.05 and 0.05.
        """
        life = self.active.not_after - self.active.not_before
        return self.active.not_before + life * (2 / 3 + jitter)

    def is_due(self, now: datetime, jitter: float = 0.0) -> bool:
        """Return whether a rollover is due, or the authority is not valid yet. *jitter* as for `due`."""
        return not self.active.not_before <= now < self.due(jitter)

    def rolled_over(self, now: datetime, life: timedelta = AUTHORITY_LIFE, *, distrust: bool = False) -> "Lineage":
        """Return the next generation.

        Args:
            now: Time of day, with time zone.
            life: Lifetime of the new authority.
            distrust: Whether all earlier authorities are distrusted immediately, because their keys are compromised.
        """
        generation = self.generation + 1
        active = Authority.new(now, generation, life)
        valid = tuple(one for one in self.trusted() if now < one.not_valid_after_utc)
        if distrust:
            return Lineage(active, generation, distrusted=self.distrusted | set(map(fingerprint, valid)))
        cross = self.active.vouch_for(active) if self.active.not_before <= now < self.active.not_after else None
        return Lineage(active, generation, valid[: MOST_AUTHORITIES - 1], cross, self.distrusted)


def certificates_in(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Return the unique certificates of a bundle, or an empty tuple if any of them is unreadable."""
    try:
        certificates = tuple(dict.fromkeys(x509.load_pem_x509_certificates(pem)))
    except UNREADABLE:
        return ()
    return certificates if all(map(is_readable, certificates)) else ()


def pem_of(certificates: Iterable[x509.Certificate]) -> bytes:
    """Return certificates as a bundle in PEM."""
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 fingerprint in hexadecimal."""
    return certificate.fingerprint(SHA256()).hex()


def _is_of(cross: x509.Certificate, active: Authority) -> bool:
    try:
        return cross.subject == active.certificate.subject and cross.public_key() == active.certificate.public_key()
    except UNREADABLE:
        return False


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (*UNREADABLE, InvalidSignature):
        return False
    return True
