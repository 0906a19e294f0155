"""The server certificate and the client authorities of a listener, renewed without closing connections.

Both are polled. While one is unreadable or invalid, its last valid version remains in use.

Source: docs/specifications/serving.md 3.4, 4.2 to 4.4, 4.6 and 6.4.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

from certs.authority import Authority
from certs.client_authorities import ClientAuthorities
from certs.context import CertificateError, ServerContext
from certs.source import LeafSource, OwnLeaves, check_pause
from webhook.server.near_end import CertificateExpiryMonitor, Validity
from webhook.settings.certificates import CertificateSettings
from webhook.telemetry.metrics import Metrics

FIRST_AUTHORITIES_SECONDS: Final = 5.0
"""Poll interval of the client authorities before the first ones are read."""
USERS: Final = "client_ca"
PROXIES: Final = "front_proxy_ca"
"""Roles of the authorities of users and of the front proxy, as metric labels."""
SHORTEST_READY_LIFE: Final = timedelta(hours=1)
"""Minimum remaining validity of the certificate of a ready server.

For lifetimes under ten hours, the minimum is a tenth of the lifetime.
"""

_ABOVE: Final = frozenset({"ca", "cross"})
"""Roles above a leaf, as metric labels."""

_log = logging.getLogger(__name__)


class Certificates:
    """Certificates that one HTTPS listener serves and accepts.

    Args:
        leaves: Source of the server certificate.
        client_authorities: Authorities of accepted client certificates. None: disabled.
        metrics: Counts renewals.
        now: The clock.
        check_seconds: Poll interval of the server certificate.
        near_end: Reports certificates that expire soon, checked at the same interval. None: disabled.
        proxy_authorities: Authorities of certificates of the hub's front proxy. None: disabled.

    Raises:
        CertificateError: No certificate can be served.
    """

    def __init__(
        self,
        leaves: LeafSource,
        client_authorities: ClientAuthorities | None,
        metrics: Metrics,
        now: Callable[[], datetime],
        check_seconds: float,
        near_end: CertificateExpiryMonitor | None = None,
        proxy_authorities: ClientAuthorities | None = None,
    ) -> None:
        self._near_end = near_end
        self.leaves = leaves
        self._client_authorities = client_authorities
        self._proxy_authorities = proxy_authorities
        self._metrics = metrics
        self._now = now
        self._check_seconds = check_seconds
        self._leaf = leaves.first(now())
        self._tls = ServerContext(self._leaf)
        self._troubles: dict[str, str] = {}  # last error of reading authorities, by role
        self._publish_leaf()
        for result in ("success", "failure"):
            metrics.renewals.labels(USERS, result)
            if proxy_authorities is not None:
                metrics.renewals.labels(PROXIES, result)

    @property
    def context(self) -> ssl.SSLContext:
        """Context of the listener. It gives each new connection the current certificates."""
        return self._tls.listener

    @property
    def common_key_pem(self) -> bytes:
        """Private key that all replicas share if their certificates come from one source."""
        return self.leaves.common_key(self._leaf)

    @property
    def trust_pem(self) -> bytes:
        """Certificates that a client must trust to accept the server certificate."""
        return self.leaves.trust_pem

    def problem(self) -> str:
        """Return when the server certificate expires, if that is so soon that the server is not ready. Else empty."""
        remaining_life = self._leaf.not_after - self._now()
        required_life = min(SHORTEST_READY_LIFE, self._leaf.life / 10)
        return (
            "" if remaining_life >= required_life else f"the certificate expires at {self._leaf.not_after.isoformat()}"
        )

    def describe(self) -> str:
        """Return issuer and expiry of the server certificate."""
        return f"issued by {self._leaf.issuer}, valid until {self._leaf.not_after.isoformat()}"

    def renew_leaf(self) -> bool:
        """Serve a new certificate, if there is one.

        On failure the current one remains in use, and the failure is counted and logged.

        Returns:
            Whether there is a new one.
        """
        try:
            leaf = self.leaves.following(self._leaf, self._now())
            if leaf is None:
                return False
            self._tls.swap(leaf)
        except CertificateError as error:
            self._metrics.renewals.labels("leaf", "failure").inc()
            _log.warning("certificate not renewed", extra={"reason": str(error)})
            return False
        self._leaf = leaf
        self._publish_leaf()
        self._metrics.renewals.labels("leaf", "success").inc()
        _log.info("certificate renewed", extra={"notAfter": leaf.not_after.isoformat()})
        return True

    async def renew_client_authorities(self) -> bool:
        """Accept changed client authorities.

        If they are unreadable, the current ones remain in use. Each failure is counted, and each new reason is logged.

        Returns:
            Whether they have changed.
        """
        tls = self._tls
        return await self._renew_authorities(USERS, self._client_authorities, tls.client_authorities, tls.trust)

    async def renew_proxy_authorities(self) -> bool:
        """Accept changed authorities of the front proxy. See `renew_client_authorities`."""
        tls = self._tls
        return await self._renew_authorities(PROXIES, self._proxy_authorities, tls.proxy_authorities, tls.trust_proxies)

    async def _renew_authorities(
        self, role: str, source: ClientAuthorities | None, present: bytes, accept: Callable[[bytes], None]
    ) -> bool:
        if source is None:
            return False
        try:
            pem = await source.read()
            changed = pem != present
            if changed:
                accept(pem)
        except CertificateError as error:
            self._metrics.renewals.labels(role, "failure").inc()
            if str(error) != self._troubles.get(role):
                self._troubles[role] = str(error)
                _log.warning(
                    "client authorities not renewed",
                    extra={"role": role, "reason": str(error), "oldOnesKept": bool(present)},
                )
            return False
        self._troubles.pop(role, None)
        if changed:
            self._metrics.renewals.labels(role, "success").inc()
            _log.info("client authorities renewed", extra={"role": role})
        return changed

    async def run(self) -> None:
        """Renew the certificate and the authorities until cancelled. Authorities are first renewed after a delay."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_renewing())
            tasks.create_task(self.leaves.keep(self.renew_leaf))
            if self._client_authorities is not None:
                tasks.create_task(self._keep_trusting(self._client_authorities, self.renew_client_authorities))
            if self._proxy_authorities is not None:
                tasks.create_task(self._keep_trusting(self._proxy_authorities, self.renew_proxy_authorities))

    async def _keep_renewing(self) -> None:
        while True:
            self._look_at_the_end()
            await asyncio.sleep(check_pause(self._check_seconds, self._leaf.life))
            self.renew_leaf()

    def _look_at_the_end(self) -> None:
        if self._near_end is not None:
            above = self.leaves.above.items()
            validities = {
                role: Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)
                for role, certificate in above
            }
            validities["leaf"] = Validity(self._leaf.not_before, self._leaf.not_after)
            self._near_end.check(validities, self._now())

    async def _keep_trusting(self, authorities: ClientAuthorities, renew: Callable[[], Awaitable[bool]]) -> None:
        while True:
            tls, pause = self._tls, authorities.check_seconds
            present = tls.proxy_authorities if authorities is self._proxy_authorities else tls.client_authorities
            await asyncio.sleep(pause if present else min(pause, FIRST_AUTHORITIES_SECONDS))
            await renew()

    def _publish_leaf(self) -> None:
        above = self.leaves.above
        for role in _ABOVE.intersection(above):
            self._metrics.certificate_not_after.labels(role).set(above[role].not_valid_after_utc.timestamp())
            self._metrics.certificate_not_before.labels(role).set(above[role].not_valid_before_utc.timestamp())
        for role in _ABOVE.difference(above):
            self._metrics.certificate_not_after.remove(role)
            self._metrics.certificate_not_before.remove(role)
        self._metrics.certificate_not_after.labels("leaf").set(self._leaf.not_after.timestamp())
        self._metrics.certificate_not_before.labels("leaf").set(self._leaf.not_before.timestamp())
        self._metrics.issued_by(self._leaf.issuer)


def own_leaves(settings: CertificateSettings, now: Callable[[], datetime]) -> OwnLeaves:
    """Return leaves of a newly made authority, for the names and addresses in the settings."""
    return OwnLeaves(Authority.new(now()), settings.dns_names, settings.ip_addresses)
