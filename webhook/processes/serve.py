"""``harbormaster serve``: admission, ``/v1`` and the page over a real hub.

Stateless: everything is read from the hub's API server into a cache, so any number of replicas can run. The server
answers nothing before the cache has been filled once. While the hub is unreadable, it waits and reports that in
``/readyz``.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from certs.client_authorities import AuthorityFile, ClientAuthorities
from certs.context import CertificateError
from certs.source import LeafFiles, LeafSource
from scorer.api.kinds import NODE
from scorer.api.meta import JsonObject
from webhook.access.front_proxy import API_SERVICE
from webhook.actions.page_actions import PageActions
from webhook.actions.viewer_hub import ForwardingHubs
from webhook.admission.cached import CachedContext
from webhook.admission.registration import WebhookEndpoint, webhook_configurations
from webhook.admission.rights import AuthorRights
from webhook.endpoints.http.services import Admittance
from webhook.gate.instance_types import check_instance_types
from webhook.history.record import RecordSource
from webhook.history.service import EventSinks, history_of
from webhook.kube.access.authentication import HubAuthorities, TokenReviewer
from webhook.kube.access.authorization import HubAccessReviewer
from webhook.kube.access.front_proxy import HubFrontProxy
from webhook.kube.access.reviews import ReviewCounts
from webhook.kube.cache.informer import Cache
from webhook.kube.certificates.authority_secret import AuthoritySecret
from webhook.kube.certificates.shared_authority import LARGEST_JITTER, CertificateProfile, ManagedAuthority
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.events import EventRecorder, own_name
from webhook.kube.login.credentials import read_endpoint
from webhook.kube.login.kubeconfig import ConfigurationError
from webhook.kube.webhook_configurations.ca_bundles import CONFIGURATIONS, CaBundles
from webhook.kube.webhook_configurations.called_paths import HookCalls
from webhook.kube.webhook_configurations.enforcement import EnforcementMonitor
from webhook.notifications.notifier import notifier_of
from webhook.processes.garbage import freeze_heap
from webhook.processes.services import answers_of, services_of
from webhook.runtime.clock import utc_now
from webhook.server.certificates import Certificates
from webhook.server.near_end import CertificateExpiryMonitor
from webhook.server.place import WorkerSockets
from webhook.server.server import Server
from webhook.settings.certificates import CertificateSettings
from webhook.settings.loop import HubLoopSettings
from webhook.settings.programs import ServerSettings, ServeSettings
from webhook.settings.sign_in import SignInSettings
from webhook.sign_in.people import SignIn
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.tracing import tracing_of
from webhook.validation.member_cluster import INTERNAL_SERVICE_EXPORT

_log = logging.getLogger(__name__)


class Serve:
    """A server over the hub of a kubeconfig.

    Args:
        settings: Settings of the server. ``tls_cert`` and ``tls_key``, or ``certificate_secret``, are required.
        kubeconfig: The hub. None means the cluster of this pod.
        context: Context of the kubeconfig. None means its current one.
        reconcile_as: Name of this process as a candidate for the reconcile loop. Empty: that of the machine. None:
            disabled.
        place: Place among the workers that share the listeners. None if there are no others.
        now: The clock.

    Raises (on entering):
        CertificateError: There is no certificate to serve, or ``client_ca`` is invalid.
        webhook.kube.login.connection.ConfigurationError: The kubeconfig is invalid, or a setting of the loop is not
        allowed for a server.
    """

    def __init__(
        self,
        settings: ServeSettings,
        kubeconfig: Path | None,
        context: str | None = None,
        *,
        reconcile_as: str | None = None,
        place: WorkerSockets | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._reconcile_as = reconcile_as
        self._place = place
        self.settings = settings
        self._kubeconfig = kubeconfig
        self._context = context
        self._now = now
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            check_certificate(self.settings)
            if self._reconcile_as is not None:
                _check_loop(self.settings)
                await check_instance_types(self.settings.node_disruption_prices)
            hub = await stack.enter_async_context(await ApiServer.connect(self._kubeconfig, self._context))
            store = HubStore(hub)
            self.cache = Cache(store)
            exports = (INTERNAL_SERVICE_EXPORT,) if self.settings.networking_agents else ()
            admission = CachedContext(self.cache, self.settings.admission(), self._now, selectable=exports)
            metrics = Metrics(commit=self.settings.commit)
            counts = ReviewCounts(metrics.registry)
            access = HubAccessReviewer(hub, counts)
            tokens = TokenReviewer(hub, self.settings.audience, counts)
            signing_in = await sign_in_of(self.settings, self._now, keeps_tokens=self.settings.page_actions)
            if self.settings.has_bare_groups:
                _log.warning(
                    "groups of the provider have the rights of groups of the hub with the same names. Set "
                    "oidc_groups_prefix, or set it to - if that is intended"
                )
            front_proxy = HubFrontProxy(hub) if self.settings.team_answers else None
            admittance = Admittance(tokens, access, signing_in, None if front_proxy is None else front_proxy.names)
            answers = answers_of(self.cache, store, admission, AuthorRights(access), self._now)
            name = own_name(self._reconcile_as or "")
            if self._place is not None:  # each worker keeps its own record, as replicas do
                name = f"{name}-{self._place.seat.number}"
            history = history_of(store, self.settings.namespace, self.settings, RecordSource.SERVER, name, self._now)
            authorities = authorities_of(self.settings, hub)

            def hub_time() -> datetime:  # certificates must be valid by the hub's clock, which checks them
                return hub.time_of_day() or self._now()

            notifier = await notifier_of(self.settings, self.settings.namespace, name, metrics.registry, self._now)
            events = EventRecorder(store, hub_time, name, history.note_event, notifier.note_event)
            sinks = EventSinks(events.record, history)
            services = services_of(answers, admittance, self.cache, store, self.settings, metrics, sinks)
            services = replace(services, actions=await self._actions())
            leaves = await leaves_of(self.settings, hub, metrics, hub_time, events)
            near_end = CertificateExpiryMonitor(
                partial(_certificate_object, leaves, self.settings.webhook_configuration), events.record
            )
            certificates = Certificates(
                leaves,
                authorities,
                metrics,
                hub_time,
                self.settings.certificate_check_seconds,
                near_end,
                front_proxy,
            )
            tracing = tracing_of(self.settings, "serve")
            if tracing is not None:
                stack.push_async_callback(tracing.close)
            configurations = CaBundles(hub, self.settings.webhook_configuration)
            enforcement = enforcement_of(self.settings, configurations, events)
            metrics.watch_hooks(enforcement.enforced)
            calls = HookCalls(configurations, on_configurations=enforcement.note)
            await calls.start()
            self.server = Server(
                services, self.settings, certificates, metrics, tracing=tracing, place=self._place, calls=calls
            )
            # Reviews are answered even if the hub is unreachable or slow: they are decided from the cache.
            self.server.health.require("hub", hub.contact.refusal)
            self.server.health.live_by("hub-login", hub.contact.refusal)
            if isinstance(leaves, ManagedAuthority):
                self.server.health.require("ca-bundle", leaves.bundle_problem)
            if not self.settings.verifies_callers:
                _log.warning(
                    "any client that reaches the HTTPS port is treated as the API server. Set webhook_secret_file "
                    "for both `serve` and `webhook-configuration`, or require_client_certificate"
                )
            metrics.watch_live_failures(lambda: admission.failures.total())
            # Stopped in reverse order: the loop first, to release its Lease while cache and connections still work.
            cache_task = asyncio.create_task(self.cache.run(), name="cache")
            stack.push_async_callback(_end, cache_task)
            hub_task = asyncio.create_task(hub.probe(), name="hub")
            stack.push_async_callback(_end, hub_task)
            calls_task = asyncio.create_task(calls.follow(), name="hook-calls")
            stack.push_async_callback(_end, calls_task)
            notifier_task = asyncio.create_task(notifier.run(), name="notifications")
            stack.push_async_callback(_end, notifier_task)
            events_task = asyncio.create_task(events.run(), name="events")
            stack.push_async_callback(_end, events_task)
            history_task = asyncio.create_task(history.run(), name="history")
            stack.push_async_callback(_end, history_task)
            reservations_task = asyncio.create_task(services.disruption.run(), name="reservations")
            stack.push_async_callback(_end, reservations_task)
            if self._reconcile_as is not None:
                # Imported late: the controllers and their planners are a tenth of a server's memory.
                from webhook.processes.reconcile import Onlookers, Reconciliation

                lease_server = await stack.enter_async_context(await ApiServer.connect(self._kubeconfig, self._context))
                self.reconciliation = Reconciliation(
                    hub,
                    lease_server,
                    self.cache,
                    self.settings,
                    metrics,
                    identity=self._reconcile_as,
                    now=self._now,
                    onlookers=Onlookers(tracing, notifier.note_event),
                )
                await self.reconciliation.check()
                loop = asyncio.create_task(self.reconciliation.run_in_shared_process(), name="reconcile")
                stack.push_async_callback(_end, loop)
            self._stack = stack.pop_all()
        freeze_heap()
        return self

    async def _actions(self) -> PageActions | None:
        """Return the actions of the page. None: disabled.

        Raises:
            ConfigurationError: The certificate of the API server would not be verified.
        """
        if not self.settings.page_actions:
            return None
        endpoint = partial(read_endpoint, self._kubeconfig, self._context)
        await endpoint()  # fails early
        return PageActions(ForwardingHubs(endpoint), self._now)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)


def _certificate_object(leaves: LeafSource, configuration: str) -> JsonObject:
    """Return the object of Events about the certificate."""
    if isinstance(leaves, ManagedAuthority):
        return leaves.reference
    kind = CONFIGURATIONS[0]
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": configuration}}


def check_certificate(settings: CertificateSettings) -> None:
    """Refuse settings without a certificate.

    Raises:
        CertificateError: The settings name no certificate.
    """
    if settings.tls_cert is None and not settings.certificate_secret:
        raise CertificateError(
            "serve requires a certificate: set --tls-cert and --tls-key, or HARBORMASTER_CERTIFICATE_SECRET for an "
            "authority of its own"
        )


async def leaves_of(
    settings: ServeSettings, hub: ApiServer, metrics: Metrics, now: Callable[[], datetime], events: EventRecorder
) -> LeafSource:
    """Return the source of the server's certificate. If that is the hub, it has been read once.

    Args:
        settings: Settings of the server.
        hub: Stores an authority of the server.
        metrics: Metrics of the process.
        now: The clock.
        events: Records Events about such an authority.
    """
    if settings.tls_cert is not None and settings.tls_key is not None:
        return LeafFiles(settings.tls_cert, settings.tls_key, settings.tls_ca)
    profile = CertificateProfile(
        settings.dns_names,
        settings.ip_addresses,
        timedelta(seconds=settings.authority_life_seconds),
        timedelta(seconds=settings.leaf_life_seconds),
        random.uniform(-LARGEST_JITTER, LARGEST_JITTER),  # noqa: S311 - spreads replicas, hides nothing
    )
    authority = ManagedAuthority(
        AuthoritySecret(hub, settings.namespace, settings.certificate_secret),
        CaBundles(hub, settings.webhook_configuration, API_SERVICE if settings.team_answers else ""),
        profile,
        now,
        settings.certificate_check_seconds,
        count_write=lambda result: metrics.renewals.labels("ca", result).inc(),
        tell=events.record,
    )
    metrics.watch_bundles(authority.bundles_in_sync)
    for result in ("success", "failure"):
        metrics.renewals.labels("ca", result)
    await authority.start()
    return authority


def enforcement_of(settings: ServeSettings, configurations: CaBundles, events: EventRecorder) -> EnforcementMonitor:
    """Return the monitor of webhook configurations that no longer enforce the rules of this release."""
    desired_configurations = webhook_configurations(WebhookEndpoint(settings.namespace), settings.admission())
    closed_hooks = {
        configuration["kind"]: frozenset(
            hook["name"] for hook in configuration["webhooks"] if hook["failurePolicy"] == "Fail"
        )
        for configuration in desired_configurations
    }
    close = configurations.close if settings.repair_webhooks else None
    return EnforcementMonitor(
        configurations.name, closed_hooks, events.record, expected=settings.webhooks_expected, close=close
    )


async def sign_in_of(
    settings: SignInSettings, now: Callable[[], datetime], *, keeps_tokens: bool = False
) -> SignIn | None:
    """Return the sign-in of the page. None: disabled.

    Raises:
        webhook.settings.environment.SettingsError: A file in the settings is invalid.
    """
    options = settings.sign_in()
    if options is None:
        return None
    sign_in = SignIn(options, now, time.monotonic, keeps_tokens=keeps_tokens)
    await sign_in.check()
    return sign_in


def authorities_of(settings: ServerSettings, hub: ApiServer) -> ClientAuthorities:
    """Return the authorities of accepted client certificates: those in the settings, otherwise the hub's own.

    Raises:
        CertificateError: A file in the settings is invalid.
    """
    if settings.client_ca is not None:
        return AuthorityFile(settings.client_ca, settings.certificate_check_seconds)
    return HubAuthorities(hub)


def _check_loop(settings: HubLoopSettings) -> None:
    """Refuse to place kinds that the cache of a server trims: it keeps only parts of nodes.

    Raises:
        ConfigurationError: The settings let placements select nodes.
    """
    if settings.loop().selection.is_selectable(NODE.group, NODE.versions[0], NODE.kind):
        raise ConfigurationError(
            f"allowed_kinds: {settings.allowed_kinds!r}: serve --reconcile does not place Nodes: run `harbormaster "
            "reconcile` alongside it"
        )


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
