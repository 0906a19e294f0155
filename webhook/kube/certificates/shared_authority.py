"""Serving certificates signed by authorities that all replicas of an installation share.

Every replica runs the same steps. It reads the Secret, and makes the next generation if that is due or the Secret has
no usable generation. It makes both webhook configurations and the APIService trust the authorities in the Secret, and
signs a leaf for itself.

The Secret's resource version decides which replica was first, and the others adopt its result. All steps are
idempotent, so a replica that stops in between leaves nothing to clean up.

Until the Secret has been read, the server uses leaves of a provisional authority that no client trusts: the server
runs, and its readiness reports the missing authority.

Source: docs/specifications/serving.md 4.2, 4.3, 4.5, 6.4 and 9.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from cryptography import x509

from certs.authority import Authority, Leaf, name_of
from certs.context import CertificateError
from certs.lifetimes import AUTHORITY_LIFE, LEAF_LIFE
from certs.rotation import Lineage, fingerprint, pem_of
from certs.source import check_pause, is_due
from scorer.api.event import Event
from scorer.api.meta import JsonObject, format_time
from webhook.kube.certificates.authority_secret import AuthoritySecret, StoredLineage
from webhook.kube.ports import AlreadyExistsError, ConflictError, StoreError
from webhook.kube.webhook_configurations.ca_bundles import (
    CaBundles,
    Registered,
    settle_at_changes,
    settle_at_start,
)

SETTLING: Final = timedelta(seconds=5)
"""Time for an API server to see a changed ``caBundle`` in its watch."""
PAUSE_SECONDS: Final = 0.2
"""Minimum pause between two passes, however often objects change."""
MOST_TRIES: Final = 10
LARGEST_JITTER: Final = 0.05
PROVISIONAL: Final = 0
"""Generation of authorities that are not in a Secret."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateProfile:
    """Properties of the certificates of an installation.

    Args:
        dns_names: DNS names of every leaf.
        ip_addresses: IP addresses of every leaf.
        authority_life: Validity of an authority.
        leaf_life: Validity of a leaf.
        jitter: Fraction of an authority's life, between -0.05 and 0.05. The next authority is created after two thirds
            of that life, plus this jitter, which differs between replicas.
    """

    dns_names: Sequence[str]
    ip_addresses: Sequence[str]
    authority_life: timedelta = AUTHORITY_LIFE
    leaf_life: timedelta = LEAF_LIFE
    jitter: float = 0.0


class ManagedAuthority:
    """Provides the leaves of a server (`certs.source.LeafSource`): `start` it once, then `keep` it running.

    Args:
        secret: Secret of the authorities.
        bundles: Authorities that the API server trusts.
        profile: Properties of the certificates.
        now: The clock.
        check_seconds: Interval of checks whether a rollover is due.
        count_write: Called with ``success`` for every new authority, and with ``failure`` for every failed write of the
            Secret, conflicts aside.
        tell: Records an Event about the Secret when the authority changes, even if a user changed it.
    """

    def __init__(
        self,
        secret: AuthoritySecret,
        bundles: CaBundles,
        profile: CertificateProfile,
        now: Callable[[], datetime],
        check_seconds: float = 10.0,
        count_write: Callable[[str], object] = lambda _: None,
        tell: Callable[[JsonObject, Event], object] = lambda _, __: None,
    ) -> None:
        self._secret = secret
        self._bundles = bundles
        self._profile = profile
        self._now = now
        self._check_seconds = check_seconds
        self._counted = count_write
        self._tell = tell
        self._registered: dict[str, Registered] | None = None  # by kind, as last read. None: unset, not read yet
        self._lineage: Lineage | None = None  # as last read. None: unset, not read yet
        self._signer = Authority.new(now(), PROVISIONAL)  # signs the leaf that is served
        self._is_provisional = True  # whether the signer is provisional
        self._announced: datetime | None = None  # time since when every configuration trusts the active authority
        self._one_at_a_time = asyncio.Lock()
        self._trouble = "the hub has not responded yet"

    @property
    def trust_pem(self) -> bytes:
        """Authorities that a client must trust."""
        authorities = self._lineage.trusted() if self._lineage is not None else ()
        return pem_of(dict.fromkeys((*authorities, self._signer.certificate)))

    @property
    def above(self) -> Mapping[str, x509.Certificate]:
        """The authority of the served leaf (``ca``), and its cross certificate, if there is one (``cross``)."""
        files = {"ca": self._signer.certificate}
        if self._lineage is not None and self._lineage.cross is not None and self._signs_as(self._lineage):
            files["cross"] = self._lineage.cross
        return files

    @property
    def reference(self) -> JsonObject:
        """The Secret as the subject of Events."""
        return self._secret.reference

    def first(self, now: datetime) -> Leaf:
        """Sign a leaf by the active authority, or by the provisional one until the Secret has been read.

        Raises:
            CertificateError: The leaf cannot be signed.
        """
        if self._lineage is not None:
            self._signer, self._is_provisional = self._lineage.active, False
        return self._sign(now)

    def following(self, leaf: Leaf, now: datetime) -> Leaf | None:
        """Sign a new leaf if *leaf* is due, or if clients accept a new active authority. Otherwise return None.

        Raises:
            CertificateError: The leaf cannot be signed.
        """
        lineage = self._lineage
        if lineage is not None and not self._signs_as(lineage) and self._may_switch(lineage, leaf, now):
            return self.first(now)
        return self._sign(now) if is_due(leaf, self._signer, now) else None

    def common_key(self, leaf: Leaf) -> bytes:
        """Return the key of the authority in the Secret, which all replicas read.

        Before the first read, it is the key of *leaf*.
        """
        return leaf.key_pem if self._lineage is None else self._lineage.active.key_pem

    def _sign(self, now: datetime) -> Leaf:
        lineage = self._lineage
        above = lineage.above(now) if lineage is not None and self._signs_as(lineage) else ()
        names, addresses = self._profile.dns_names, self._profile.ip_addresses
        try:
            return self._signer.issue(names, addresses, now, life=self._profile.leaf_life, above=above)
        except ValueError as error:
            raise CertificateError(str(error)) from error

    def _signs_as(self, lineage: Lineage) -> bool:
        return self._signer.certificate == lineage.active.certificate

    def _may_switch(self, lineage: Lineage, leaf: Leaf, now: datetime) -> bool:
        """Return whether clients of *leaf* accept the active authority, or must be abandoned."""
        certificate = self._signer.certificate
        if (
            self._is_provisional
            or lineage.is_accepted_by([certificate], now)
            or fingerprint(certificate) in lineage.distrusted
        ):
            return True
        if self._announced is not None and now >= self._announced + SETTLING:
            return True
        # The leaf is about to expire, and its authority has expired and cannot sign another one.
        return now >= leaf.not_after - leaf.life / 10

    def bundle_problem(self) -> str:
        """Return why the API server would reject the served leaf, empty if it accepts it."""
        if self._lineage is None:
            return f"there is no certificate authority yet: {self._trouble}"
        if self._registered is None:
            return f"the webhook configurations have not been read yet: {self._trouble}"
        for kind, registered in self._registered.items():
            if registered.bundles and not self._is_accepted_by(self._lineage, registered.trusted()):
                return f"the caBundle of {kind} {registered.name} does not verify the served certificate"
        return ""

    def bundles_in_sync(self) -> dict[str, bool]:
        """Return by kind whether each configuration and APIService trusts the authorities in the Secret, as last read.

        A missing object has no entry. Before the first read, every value is False.
        """
        if self._lineage is None or self._registered is None:
            return {kind.kind: False for kind in self._bundles.kinds}
        pem = pem_of(self._lineage.trusted())
        return {kind: registered.is_in_sync(pem) for kind, registered in self._registered.items()}

    def _is_accepted_by(self, lineage: Lineage, authorities: frozenset[x509.Certificate]) -> bool:
        if self._signs_as(lineage):
            return lineage.is_accepted_by(authorities, self._now())
        return self._signer.certificate in authorities

    async def start(self) -> None:
        """Find or create the authority. If that fails, `keep` retries."""
        await settle_at_start(self.settle, self._complain)

    async def keep(self, changed: Callable[[], object]) -> None:
        """Watch the Secret and the webhook configurations, and roll over when due, until cancelled.

        Args:
            changed: Called when the leaf may have changed.
        """
        sources: list[Callable[[], AsyncIterator[None]]] = [self._secret.changes]
        sources += (partial(self._bundles.changes, kind.kind) for kind in self._bundles.kinds)

        async def settle() -> None:
            await self.settle()
            changed()
            await asyncio.sleep(PAUSE_SECONDS)

        def complain(reason: str) -> None:
            self._complain(reason)
            changed()  # parts may have succeeded before the failure

        async with asyncio.TaskGroup() as tasks:
            for changes in sources:
                tasks.create_task(settle_at_changes(changes, settle, complain))
            tasks.create_task(self._watch_the_clock(changed))

    async def _watch_the_clock(self, changed: Callable[[], object]) -> None:
        pause = check_pause(self._check_seconds, self._profile.authority_life)
        while True:
            await asyncio.sleep(pause)
            if self._lineage is None or self._timely(self._lineage) is self._lineage:
                continue
            try:
                await self.settle()
            except StoreError as error:
                self._complain(str(error))
            changed()

    async def settle(self) -> None:
        """Reconcile the Secret, the webhook configurations and this replica.

        The configurations are read before the Secret and written at the version that was read. A replica with an older
        Secret than the last writer of a configuration therefore gets a conflict.

        Raises:
            StoreError: The hub refused, or did not respond. Earlier steps remain in effect.
        """
        async with self._one_at_a_time:
            for _ in range(MOST_TRIES):
                configurations, refusal = await self._read_bundles()
                lineage = await self._agree(configurations)
                before, self._lineage = self._lineage, lineage
                if before is None or lineage.active.certificate != before.active.certificate:
                    self._announced = None
                    if before is not None:
                        self._tell(self._secret.reference, _rotated(lineage))
                if refusal is not None:
                    raise refusal
                self._registered = configurations
                try:
                    await self._announce(lineage, configurations)
                except ConflictError:
                    continue
                self._trouble = ""
                return
            raise ConflictError("conflict: other clients keep changing the webhook configurations")

    async def _read_bundles(self) -> tuple[dict[str, Registered], StoreError | None]:
        """Return the registered bundles and None, or an empty map and the error: the Secret is useful without them."""
        try:
            return await self._bundles.read(), None
        except StoreError as error:
            return {}, error

    async def _agree(self, configurations: Mapping[str, Registered]) -> Lineage:
        """Return the lineage in the Secret, after writing it if needed.

        Raises:
            ConflictError: Other writers were faster in each of `MOST_TRIES` attempts.
            StoreError: The Secret cannot be read or written.
        """
        for _ in range(MOST_TRIES):
            current = await self._secret.read()
            desired = self._desired_lineage(current, configurations)
            if desired is current.lineage:
                return desired
            try:
                await self._secret.write(desired, current)
            except (ConflictError, AlreadyExistsError):
                continue  # another replica or a user was faster: read their result
            except StoreError:
                self._counted("failure")
                raise
            if current.lineage is None or desired.generation != current.lineage.generation:
                self._counted("success")
                fields = {"generation": desired.generation, "authority": desired.active.name}
                _log.info("certificate authority replaced", extra={"secret": str(self._secret), **fields})
            return desired
        raise ConflictError(f"{self._secret} changes faster than it can be written")

    def _desired_lineage(self, lineage: StoredLineage, configurations: Mapping[str, Registered]) -> Lineage:
        """Return the desired lineage of the Secret, the same object if unchanged."""
        if lineage.lineage is None:
            reason = lineage.damage or "it does not exist"
            _log.warning("certificate authority missing", extra={"secret": str(self._secret), "reason": reason})
            desired = self._replacement(configurations)
        else:
            desired = self._timely(lineage.lineage)
        if self._is_provisional:
            return desired
        # A user replaced the authority. Ours must remain trusted until every replica has seen the new one.
        return desired.trusting([self._signer.certificate], self._now())

    def _replacement(self, configurations: Mapping[str, Registered]) -> Lineage:
        now, life = self._now(), self._profile.authority_life
        if self._lineage is not None:  # the key is still known here, so clients are carried over
            return self._lineage.rolled_over(now, life)
        # Running replicas serve leaves of authorities that the API server trusts. Keep those trusted.
        candidates = (
            authority for bundle in configurations.values() for authority in sorted(bundle.trusted(), key=fingerprint)
        )
        return Lineage.begin(now, life).trusting(dict.fromkeys(candidates), now)

    def _timely(self, lineage: Lineage) -> Lineage:
        """Return the lineage after a due rollover, or without expired authorities. The same object if unchanged."""
        now = self._now()
        if lineage.is_due(now, self._profile.jitter):
            return lineage.rolled_over(now, self._profile.authority_life)
        return lineage.without_expired(now)

    async def _announce(self, lineage: Lineage, configurations: dict[str, Registered]) -> None:
        """Make all *configurations* trust the authorities in the Secret. Raises `StoreError`."""
        pem = pem_of(lineage.trusted())
        for kind, configuration in configurations.items():
            if not configuration.is_in_sync(pem):
                self._announced = None
                await self._bundles.write(kind, configuration, pem)
                _log.info("caBundle written", extra={"configuration": f"{kind} {configuration.name}"})
                configurations[kind] = replace(configuration, bundles=dict.fromkeys(configuration.bundles, pem))
        if self._announced is None:
            self._announced = self._now()

    def _complain(self, reason: str) -> None:
        if reason != self._trouble:
            self._trouble = reason
            extra = {"secret": str(self._secret), "reason": reason}
            _log.warning("certificate authority not updated", extra=extra)


def _rotated(lineage: Lineage) -> Event:
    others = ", ".join(map(name_of, lineage.earlier)) or "none"
    active = f"the certificate authority is now {lineage.active.name}, until {format_time(lineage.active.not_after)}"
    return Event("CertificateAuthorityRotated", f"{active}. Still trusted: {others}")
