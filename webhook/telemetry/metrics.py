"""Metrics of one server, in a registry of its own.

All label sets here are fixed and start at 0. User input never becomes one of these labels.

Source: docs/specifications/serving.md 6.1.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from scorer.api.kinds import OUR_KINDS
from scorer.api.node_class import NODE_CLASSES
from scorer.profile import Profile
from webhook.access.front_proxy import GROUP, RESOURCES, VERSION
from webhook.kube.cache.informer import Freshness
from webhook.telemetry.process_metrics import ProcessMetrics

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
HOOKS: Final = ("validate", "mutate")
WRITES: Final = ("CREATE", "UPDATE")
OPERATIONS: Final = (*WRITES, "DELETE", "CONNECT")
OTHER: Final = "other"
REJECTIONS: Final = (
    "size",
    "media_type",
    "malformed",
    "overload",
    "draining",
    "not_ready",
    "timeout",
    "deadline",
    "rights",
    "stale",
    "stranger",
    "unauthenticated",
    "forbidden",
    "rate",
)
API_ROUTES: Final = (
    "/v1/score",
    "/v1/filter",
    "/v1/explain",
    "/v1/plan",
    "/v1/render",
    "/v1/validate",
    "/v1/default",
    "/v1/clusters",
    "/v1/clusters/*",
    "/v1/clusters/*/history",
    "/v1/placements",
    "/v1/placements/*",
    "/v1/placements/*/runs",
    "/v1/placements/*/tree/*",
    "/v1/placements/*/object",
    "/v1/removals",
    "/v1/runs",
    "/v1/runs/*",
    "/v1/status",
    "/v1/actions",
    "/v1/gate/disruption",
    "/v1/gate/reservations",
    "/v1/gate/reservations/*",
    "/v1/gate/rollout",
    "/v1/gate/cluster-update",
    "/v1/upgrade/plan",
    "/v1/upgrade/whatif",
    "/v1/upgrade/runs/*",
    "/v1/upgrade/gates/*",
    "/v1/upgrade/profiles/*",
    "/v1/upgrade/operations/*",
    "/v1/budgets",
    "/v1/budgets/*",
    "/v1/budgets/calendar",
    "/v1/events",
    "/v1/history",
    "/v1/openapi.json",
)
"""Templates of all ``/v1`` routes."""
AGGREGATED_ROUTES: Final = tuple(f"/apis/{GROUP}/{VERSION}/namespaces/*/{resource}" for resource in RESOURCES)
"""Templates of the routes of the aggregated API."""
FILTERS: Final = tuple(plugin.name for plugin in (*Profile().filters, Profile().spread))
"""Names of all plugins that reject clusters."""
SURFACES: Final = ("admission", "api", "extender")


class AdmissionReviews(Collector):
    """Counts admission reviews, and turns the counts into metrics only at scrape time.

    Plain dictionaries are used because the library's counters need a lock and several calls per increment, which takes
    a tenth of the time budget of a review.
    """

    def __init__(self) -> None:
        resources = [*sorted({kind.plural for kind in (*OUR_KINDS, *NODE_CLASSES)}), OTHER]
        self._buckets = {(hook, name): [0] * (len(BUCKETS) + 1) for hook in HOOKS for name in resources}
        self._sums = dict.fromkeys(self._buckets, 0.0)
        self._outcomes = {
            (hook, operation, name, "allowed", "200"): 0 for hook, name in self._buckets for operation in WRITES
        }
        self._outcomes |= {
            ("validate", operation, name, "denied", "422"): 0
            for name in resources
            for operation in ("CREATE", "UPDATE")
        }
        self._outcomes |= {(hook, OTHER, OTHER, "error", "500"): 0 for hook in HOOKS}

    def decided(self, hook: str, operation: str, resource: str, result: str, code: str, seconds: float) -> None:
        """Count one decision. Unknown operations and resources count as ``other``."""
        buckets = self._buckets.get((hook, resource))
        if buckets is None:
            resource = OTHER
            buckets = self._buckets[hook, OTHER]
        if operation not in OPERATIONS:
            operation = OTHER
        outcome = (hook, operation, resource, result, code)
        self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1
        buckets[bisect_left(BUCKETS, seconds)] += 1
        self._sums[hook, resource] += seconds

    def failed(self, hook: str) -> None:
        """Count one review that failed with an internal error."""
        self._outcomes[hook, OTHER, OTHER, "error", "500"] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics. Called by the registry."""
        requests = CounterMetricFamily(
            "harbormaster_admission_requests",
            "Number of admission reviews, by decision.",
            labels=("hook", "operation", "resource", "result", "code"),
        )
        for outcome, count in self._outcomes.items():
            requests.add_metric(outcome, count)
        yield requests
        seconds = HistogramMetricFamily(
            "harbormaster_admission_duration_seconds",
            "Duration of an admission review, from its headers to the response.",
            labels=("hook", "resource"),
        )
        bounds = [*map(floatToGoString, BUCKETS), "+Inf"]
        for key, counts in self._buckets.items():
            seconds.add_metric(key, list(zip(bounds, accumulate(counts), strict=True)), self._sums[key])
        yield seconds


class CacheFreshness(Collector):
    """Lag of the cache behind the hub, by kind, and the size of its table of shared parts, read at scrape time.

    Args:
        reader: Returns the freshness of every kind.
        shared_bytes: Returns the size of the table.
    """

    def __init__(self, reader: Callable[[], Iterable[Freshness]], shared_bytes: Callable[[], int]) -> None:
        self._read = reader
        self._shared_bytes = shared_bytes

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics. Called by the registry."""
        events = CounterMetricFamily(
            "harbormaster_watch_events", "Number of watch events received from the hub.", labels=("resource",)
        )
        relists = CounterMetricFamily("harbormaster_relists", "Number of relists of a kind.", labels=("resource",))
        synced_family = GaugeMetricFamily(
            "harbormaster_cache_synced", "Whether the cache of a kind has synced: 1 or 0.", labels=("resource",)
        )
        age = GaugeMetricFamily(
            "harbormaster_cache_age_seconds",
            "Time since the last message from the hub. An idle watch receives a bookmark every minute.",
            labels=("resource",),
        )
        behind = GaugeMetricFamily(
            "harbormaster_watch_behind_seconds",
            "Time since the cache last caught up with the watch. Grows while events arrive faster than they are "
            "processed.",
            labels=("resource",),
        )
        for kind in self._read():
            events.add_metric((kind.resource,), kind.events)
            relists.add_metric((kind.resource,), kind.relists)
            synced_family.add_metric((kind.resource,), kind.synced)
            age.add_metric((kind.resource,), kind.age_seconds)
            behind.add_metric((kind.resource,), kind.behind_seconds)
        shared_family = GaugeMetricFamily(
            "harbormaster_cache_shared_bytes",
            "Estimated size of the table of interned parts of objects, at most 4 MiB.",
            self._shared_bytes(),
        )
        yield from (events, relists, synced_family, age, behind, shared_family)


class OfConfigurations(Collector):
    """A boolean property of each webhook configuration, as last read.

    Args:
        name: Name of the metric.
        documentation: Help text of the metric.
        reader: Returns the property by webhook configuration.
    """

    def __init__(self, name: str, documentation: str, reader: Callable[[], Mapping[str, bool]]) -> None:
        self._name = name
        self._documentation = documentation
        self._read = reader

    def collect(self) -> Iterator[Metric]:
        """Yield the metric. Called by the registry."""
        family = GaugeMetricFamily(self._name, self._documentation, labels=("configuration",))
        for configuration, value in self._read().items():
            family.add_metric((configuration,), value)
        yield family


class Metrics(ProcessMetrics):
    """Metrics of the server. The loop adds its own metrics to the same registry."""

    def __init__(self, registry: CollectorRegistry | None = None, commit: str = "") -> None:
        super().__init__(registry, commit)
        self.reviews = AdmissionReviews()
        self.registry.register(self.reviews)
        self._live_failures = Gauge(
            "harbormaster_admission_live_failures",
            "Number of live checks that failed. Verdicts never depend on them.",
            registry=self.registry,
        )
        self._in_flight = Gauge(
            "harbormaster_http_in_flight", "Number of requests in flight.", ("surface",), registry=self.registry
        )
        self._bodies = Gauge(
            "harbormaster_http_body_bytes",
            "Memory held by request bodies: those being read, and long ones being reviewed.",
            registry=self.registry,
        )
        self._rejected = Counter(
            "harbormaster_http_rejected",
            "Number of requests that were refused or timed out, by reason, without those with invalid content.",
            ("surface", "reason"),
            registry=self.registry,
        )
        self._api_requests = Counter(
            "harbormaster_api_requests",
            "Number of requests to /v1, by outcome.",
            ("route", "code"),
            registry=self.registry,
        )
        self._api_seconds = Histogram(
            "harbormaster_api_duration_seconds",
            "Duration of a request to /v1.",
            ("route",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._score_seconds = Histogram(
            "harbormaster_score_duration_seconds",
            "Duration of filtering and scoring the fleet for one request, without HTTP.",
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._turned_away = Counter(
            "harbormaster_filter_rejections",
            "Number of rejected clusters, by the first filter that rejected them.",
            ("plugin",),
            registry=self.registry,
        )
        self.certificate_not_after = Gauge(
            "harbormaster_certificate_expiration_timestamp_seconds",
            "Expiry time of a certificate.",
            ("role",),
            registry=self.registry,
        )
        self.certificate_not_before = Gauge(
            "harbormaster_certificate_not_before_timestamp_seconds",
            "Start of the validity of a certificate.",
            ("role",),
            registry=self.registry,
        )
        self._issuer = Gauge(
            "harbormaster_certificate_issuer_info",
            "Issuer of the serving certificate. Always 1.",
            ("issuer",),
            registry=self.registry,
        )
        self.renewals = Counter(
            "harbormaster_certificate_renewals",
            "Number of renewals of certificates and client authorities.",
            ("role", "result"),
            registry=self.registry,
        )
        self._create_series()

    def _create_series(self) -> None:
        self._refusals = {
            (surface, reason): self._rejected.labels(surface, reason) for surface in SURFACES for reason in REJECTIONS
        }
        for plugin in FILTERS:
            self._turned_away.labels(plugin)
        for result in ("success", "failure"):
            self.renewals.labels("leaf", result)
        self._api = {
            route: (self._api_seconds.labels(route), self._api_requests.labels(route, "200"))
            for route in (*API_ROUTES, *AGGREGATED_ROUTES)
        }

    def issued_by(self, issuer: str) -> None:
        """Record the issuer of the current server certificate."""
        self._issuer.clear()
        self._issuer.labels(issuer).set(1)

    def rejected(self, surface: str, reason: str) -> None:
        """Count one request that was refused instead of being answered."""
        self._refusals[surface, reason].inc()

    def answered(self, route: str, code: int, seconds: float) -> None:
        """Count one ``/v1`` request, and observe its duration."""
        durations, fine = self._api[route]
        (fine if code == 200 else self._api_requests.labels(route, str(code))).inc()
        durations.observe(seconds)

    def scored(self, seconds: float, turned_away: Mapping[str, int]) -> None:
        """Observe the duration of one request to the engine, and count the clusters that each filter rejected."""
        self._score_seconds.observe(seconds)
        for plugin, count in turned_away.items():
            self._turned_away.labels(plugin).inc(count)

    def watch_in_flight(self, surface: str, count: Callable[[], float]) -> None:
        """Read the number of active requests from *count* at scrape time."""
        self._in_flight.labels(surface).set_function(count)

    def watch_bodies(self, count: Callable[[], float]) -> None:
        """Read the size of held bodies from *count* at scrape time."""
        self._bodies.set_function(count)

    def watch_live_failures(self, count: Callable[[], float]) -> None:
        """Read the number of failed live checks from *count* at scrape time."""
        self._live_failures.set_function(count)

    def watch_cache(self, freshness: Callable[[], Iterable[Freshness]], shared_bytes: Callable[[], int]) -> None:
        """Read the state of the cache from *freshness* and *shared_bytes* at scrape time."""
        self.registry.register(CacheFreshness(freshness, shared_bytes))

    def watch_bundles(self, reader: Callable[[], Mapping[str, bool]]) -> None:
        """Read from *reader* at scrape time whether the API server trusts the authorities."""
        subject = (
            "Whether every caBundle of a webhook configuration or of the APIService contains the expected certificate "
            "authorities: 1 or 0."
        )
        self.registry.register(OfConfigurations("harbormaster_ca_bundle_in_sync", subject, reader))

    def watch_hooks(self, reader: Callable[[], Mapping[str, bool]]) -> None:
        """Read from *reader* at scrape time whether each webhook configuration enforces the rules."""
        subject = "Whether a webhook configuration exists and its hooks have the expected failurePolicy: 1 or 0."
        self.registry.register(OfConfigurations("harbormaster_webhooks_enforced", subject, reader))
