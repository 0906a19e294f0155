"""Server certificates signed by authorities that all replicas of an installation share.

Every replica does the same: it reads the Secret, makes the next generation when that is due or when there is none that
can be used, has both webhook configurations trust what the Secret says, and signs its own leaf. The Secret's version
decides which of several replicas was first; the others take over what it has written. All of it can be done again, so a
replica that ends anywhere in between leaves nothing to clear up.

Until the Secret has been read, leaves of a provisional authority are served, which nobody trusts: the server runs, and
says in its readiness what is missing.

Source: serving.md 4.2, 4.3, 4.5, 6.4 and 9.
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
    CONFIGURATIONS,
    CaBundles,
    Registered,
    settle_at_changes,
    settle_at_start,
)

SETTLING: Final = timedelta(seconds=5)
"""How long an API server may take to hear of a changed ``caBundle``, of which its watch tells it."""
PAUSE_SECONDS: Final = 0.2
"""Between two looks, however often something changes."""
MOST_TRIES: Final = 10
LARGEST_JITTER: Final = 0.05
PROVISIONAL: Final = 0
"""The generation of authorities that are in no Secret."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateProfile:
    """What the certificates of an installation are like.

    Args:
        dns_names: Of every leaf.
        ip_addresses: Of every leaf.
        authority_life: How long an authority is valid.
        leaf_life: How long a leaf is valid.
        jitter: Added to the two thirds of an authority's life after which the next one is made, as a share of it;
            each replica has another one, between -0.05 and 0.05.
    """

    dns_names: Sequence[str]
    ip_addresses: Sequence[str]
    authority_life: timedelta = AUTHORITY_LIFE
    leaf_life: timedelta = LEAF_LIFE
    jitter: float = 0.0


class ManagedAuthority:
    """Gives a server its leaves (`certs.source.LeafSource`): `start` it once, then `keep` it.

    Args:
        secret: Where the authorities are kept.
        bundles: What the API server trusts.
        profile: What the certificates are like.
        now: The clock.
        check_seconds: How often to look whether a rollover is due.
        counted: Called with the outcome of every new authority: ``success`` or ``failure``.
        tell: Takes an Event about the Secret when another authority takes the place of the one before, also where a
            user made it.
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
        self._registered: dict[str, Registered] | None = None  # by kind, as last seen; None: not read yet
        self._lineage: Lineage | None = None  # as last read; None: not read yet
        self._signer = Authority.new(now(), PROVISIONAL)  # of the leaf that is served
        self._is_provisional = True  # the signer
        self._announced: datetime | None = None  # since when every configuration trusts the active authority
        self._one_at_a_time = asyncio.Lock()
        self._trouble = "the hub has not answered yet"

    @property
    def trust_pem(self) -> bytes:
        """What a client has to trust."""
        authorities = self._lineage.trusted() if self._lineage is not None else ()
        return pem_of(dict.fromkeys((*authorities, self._signer.certificate)))

    @property
    def above(self) -> Mapping[str, x509.Certificate]:
        """The authority of the leaf that is served, and the certificate by which the one before it vouches for it."""
        files = {"ca": self._signer.certificate}
        if self._lineage is not None and self._lineage.cross is not None and self._signs_as(self._lineage):
            files["cross"] = self._lineage.cross
        return files

    @property
    def reference(self) -> JsonObject:
        """The Secret, as Events are about it."""
        return self._secret.reference

    def first(self, now: datetime) -> Leaf:
        """Sign a leaf by the active authority. Raises `CertificateError`."""
        if self._lineage is not None:
            self._signer, self._is_provisional = self._lineage.active, False
        return self._sign(now)

    def following(self, leaf: Leaf, now: datetime) -> Leaf | None:
        """Sign another leaf when *leaf* is due, or when another authority is to sign. Raises `CertificateError`."""
        lineage = self._lineage
        if lineage is not None and not self._signs_as(lineage) and self._may_switch(lineage, leaf, now):
            return self.first(now)
        return self._sign(now) if is_due(leaf, self._signer, now) else None

    def common_key(self, leaf: Leaf) -> bytes:
        """Return the key of the authority in the Secret, which all replicas read; that of *leaf* before it is read."""
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
        """Whether clients that accept *leaf* accept a leaf of the active authority, or have to be left behind."""
        certificate = self._signer.certificate
        if (
            self._is_provisional
            or lineage.is_accepted_by([certificate], now)
            or fingerprint(certificate) in lineage.distrusted
        ):
            return True
        if self._announced is not None and now >= self._announced + SETTLING:
            return True
        # The leaf is about to expire, and so has its authority: there will be no other of it.
        return now >= leaf.not_after - leaf.life / 10

    def bundle_problem(self) -> str:
        """Return why the API server would not accept the leaf that is served; empty when it does."""
        if self._lineage is None:
            return f"there is no certificate authority yet: {self._trouble}"
        if self._registered is None:
            return f"the webhook configurations have not been read yet: {self._trouble}"
        for kind, configurations in self._registered.items():
            if configurations.bundles and not self._is_accepted_by(self._lineage, configurations.trusted()):
                return f"the caBundle of {kind} {self._bundles.name} does not verify the served certificate"
        return ""

    def bundles_in_sync(self) -> dict[str, bool]:
        """Whether each webhook configuration trusts what the Secret says, by kind, as of the last look.

        Of one that is not there nothing is said; while the hub has not said what it holds, none does.
        """
        if self._lineage is None or self._registered is None:
            return {kind.kind: False for kind in CONFIGURATIONS}
        pem = pem_of(self._lineage.trusted())
        return {kind: registered.is_in_sync(pem) for kind, registered in self._registered.items()}

    def _is_accepted_by(self, lineage: Lineage, authorities: frozenset[x509.Certificate]) -> bool:
        if self._signs_as(lineage):
            return lineage.is_accepted_by(authorities, self._now())
        return self._signer.certificate in authorities

    async def start(self) -> None:
        """Find the authority or make it; when that cannot be done at once, `keep` goes on trying."""
        await settle_at_start(self.settle, self._complain)

    async def keep(self, changed: Callable[[], object]) -> None:
        """Follow the Secret and the webhook configurations, and roll over when it is time, until cancelled.

        Args:
            changed: Called when there may be another leaf.
        """
        sources: list[Callable[[], AsyncIterator[None]]] = [self._secret.changes]
        sources += (partial(self._bundles.changes, kind.kind) for kind in CONFIGURATIONS)

        async def settle() -> None:
            await self.settle()
            changed()
            await asyncio.sleep(PAUSE_SECONDS)

        def complain(reason: str) -> None:
            self._complain(reason)
            changed()  # what was done before it failed

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
        """Bring the Secret, the webhook configurations and this replica into line.

        The configurations are read before the Secret and written by the version that was read. So whoever has an older
        Secret in mind than the one who wrote a configuration last is turned away.

        Raises:
            StoreError: The hub refused, or did not answer; what was done before that stands.
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
            raise ConflictError("the webhook configurations change faster than they can be written")

    async def _read_bundles(self) -> tuple[dict[str, Registered], StoreError | None]:
        """Return what is registered, or nothing and why that cannot be read: the Secret is of use without it."""
        try:
            return await self._bundles.read(), None
        except StoreError as error:
            return {}, error

    async def _agree(self, configurations: Mapping[str, Registered]) -> Lineage:
        """Return what the Secret holds, after writing it where that was our turn."""
        for _ in range(MOST_TRIES):
            current = await self._secret.read()
            desired = self._wanted(current, configurations)
            if desired is current.lineage:
                return desired
            try:
                await self._secret.write(desired, current)
            except (ConflictError, AlreadyExistsError):
                continue  # another replica, or a user, was faster: look at what they have written
            except StoreError:
                self._counted("failure")
                raise
            if current.lineage is None or desired.generation != current.lineage.generation:
                self._counted("success")
                fields = {"generation": desired.generation, "authority": desired.active.name}
                _log.info("new certificate authority", extra={"secret": str(self._secret), **fields})
            return desired
        raise ConflictError(f"{self._secret} changes faster than it can be written")

    def _wanted(self, lineage: StoredLineage, configurations: Mapping[str, Registered]) -> Lineage:
        """Return what the Secret should hold; the same object where it holds that."""
        if lineage.lineage is None:
            reason = lineage.damage or "it is not there"
            _log.warning("no certificate authority", extra={"secret": str(self._secret), "reason": reason})
            desired = self._replacement(configurations)
        else:
            desired = self._timely(lineage.lineage)
        if self._is_provisional:
            return desired
        # Someone put another authority there: until every replica has heard of it, ours has to stay trusted.
        return desired.trusting([self._signer.certificate], self._now())

    def _replacement(self, configurations: Mapping[str, Registered]) -> Lineage:
        now, life = self._now(), self._profile.authority_life
        if self._lineage is not None:  # its key is still known here: clients are carried over
            return self._lineage.rolled_over(now, life)
        # Replicas that are running serve leaves of what the API server trusts; it goes on trusting them.
        candidates = (
            authority for bundle in configurations.values() for authority in sorted(bundle.trusted(), key=fingerprint)
        )
        return Lineage.begin(now, life).trusting(dict.fromkeys(candidates), now)

    def _timely(self, lineage: Lineage) -> Lineage:
        """Return what should be in the place of a lineage now; the same object where nothing should."""
        now = self._now()
        if lineage.is_due(now, self._profile.jitter):
            return lineage.rolled_over(now, self._profile.authority_life)
        return lineage.without_expired(now)

    async def _announce(self, lineage: Lineage, configurations: dict[str, Registered]) -> None:
        """Have both configurations trust what the Secret says. Raises `StoreError`."""
        pem = pem_of(lineage.trusted())
        for kind, configuration in configurations.items():
            if not configuration.is_in_sync(pem):
                self._announced = None
                await self._bundles.write(kind, configuration, pem)
                _log.info("caBundle written", extra={"configuration": f"{kind} {self._bundles.name}"})
                configurations[kind] = replace(configuration, bundles=dict.fromkeys(configuration.bundles, pem))
        if self._announced is None:
            self._announced = self._now()

    def _complain(self, reason: str) -> None:
        if reason != self._trouble:
            self._trouble = reason
            extra = {"secret": str(self._secret), "reason": reason}
            _log.warning("certificate authority not followed", extra=extra)


def _rotated(lineage: Lineage) -> Event:
    others = ", ".join(map(name_of, lineage.earlier)) or "no other one"
    active = f"the certificate authority is {lineage.active.name} now, until {format_time(lineage.active.not_after)}"
    return Event("CertificateAuthorityRotated", f"{active}; still trusted: {others}")
