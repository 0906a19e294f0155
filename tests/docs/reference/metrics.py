"""Every metric, asked of the collectors that the processes register."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from tests.docs.reference.markdown import code, lines, table, titled
from webhook.endpoints.scheduling.extender import ExtenderMetrics
from webhook.gate.metrics import LABELS, PoolMetrics
from webhook.kube.access.reviews import ReviewCounts
from webhook.kube.cache.informer import Freshness
from webhook.member.metrics import AgentMetrics
from webhook.notifications.notifier import NotificationCounts
from webhook.telemetry.crew import count_worker
from webhook.telemetry.loop_metrics import LoopMetrics, ShardMetrics
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.node_disruption_metrics import LABELS as LABELS_OF_NODES
from webhook.telemetry.node_disruption_metrics import NodeDisruptionMetrics
from webhook.telemetry.process_metrics import ProcessMetrics
from webhook.telemetry.upgrade_metrics import LABELS as LABELS_OF_UPGRADES
from webhook.telemetry.upgrade_metrics import UpgradeMetrics

NAMED = "harbormaster_"
OF_POOLS = tuple(f"harbormaster_disruption_{word}" for word in ("allowed", "active", "next_opening_timestamp_seconds"))
BOUNDS = "le"
"""Label of the buckets of a histogram, which all of them have."""


def all_metrics() -> dict[str, list[Metric]]:
    """Return the metrics by what they are about."""
    everywhere = _of(ProcessMetrics)
    names = {metric.name for metric in everywhere}
    return {
        "Every process": everywhere,
        "Requests and certificates": [metric for metric in _of(_server) if metric.name not in names],
        "Reviews of tokens and rights": _of(ReviewCounts),
        "The scheduler extender": _of(ExtenderMetrics),
        "The cache": _of(_cache),
        "Node pools": _of(lambda registry: PoolMetrics(registry, tuple, lambda: datetime.now(UTC))),
        "Node disruption": _of(NodeDisruptionMetrics),
        "The loop": _of(lambda registry: LoopMetrics(registry, lambda: False)),
        "Shards": _of(lambda registry: ShardMetrics(registry, 2, frozenset, lambda: 0)),
        "Upgrade runs": _of(UpgradeMetrics),
        "Notifications": _of(lambda registry: NotificationCounts(registry, lambda: 0)),
        "Workers": _of(lambda registry: count_worker(registry, 0)),
        "The agent": _of(lambda registry: AgentMetrics(registry, is_joined=lambda: True, works=lambda: 0)),
    }


def _of(make: Callable[[CollectorRegistry], object]) -> list[Metric]:
    registry = CollectorRegistry(auto_describe=True)
    kept = make(registry)  # some metrics are read off what was made
    found = [metric for metric in registry.collect() if metric.name.startswith(NAMED)]
    del kept
    return found


def _server(registry: CollectorRegistry) -> Metrics:
    metrics = Metrics(registry)
    metrics.watch_in_flight("api", lambda: 0.0)
    metrics.watch_bundles(lambda: {"ValidatingWebhookConfiguration": True})
    metrics.watch_hooks(lambda: {"ValidatingWebhookConfiguration": True})
    metrics.issued_by("harbormaster-ca-1-0123abcd")
    for certificate in (metrics.certificate_not_after, metrics.certificate_not_before):
        certificate.labels("leaf")
    return metrics


def _cache(registry: CollectorRegistry) -> Metrics:
    """Register what a cache adds to the metrics of its process; those are listed by themselves."""
    passing = Metrics()
    own = {metric.name for metric in passing.registry.collect()}
    passing.watch_cache(lambda: [Freshness("placements", synced=True, events=0, relists=0, age_seconds=0.0)], lambda: 0)

    class Added:
        def collect(self) -> Iterator[Metric]:
            yield from (metric for metric in passing.registry.collect() if metric.name not in own)

    registry.register(Added())
    return passing


def page() -> str:
    """Return the page of all metrics."""
    introduction = """
All metrics. Every process serves them at `/metrics` of its plain listener (`--http-port`), in the Prometheus text
format or in OpenMetrics. With `HARBORMASTER_METRICS_AUTH=true`, `serve` also serves them over HTTPS, to callers who
may `get` that path. Counters have the suffix `_total` in the output, and histograms have `_bucket`, `_sum` and
`_count`. The `process_*` metrics of the Python client are served as well.

Label sets are fixed and start at 0. Only the names of node pools and upgrade runs are chosen by users. Gauges of the
loop are those of the leader, and other processes show 0. If replicas share the work, each shows its own share. With
several workers (`--workers`), every metric also has the label `worker`, and one scrape has the metrics of all
workers. Add them up, or take the minimum or maximum, as you would over replicas.

| process | tables |
| --- | --- |
| every process | the first |
| `serve` | requests and certificates, reviews, extender, cache, node pools, notifications |
| `reconcile` | requests and certificates (at 0), cache, loop, shards, node disruption, upgrade runs, notifications |
| `serve --reconcile` | those of `serve` and of `reconcile` |
| `agent` | agent, node disruption |
"""
    parts = []
    for title, metrics in all_metrics().items():
        rows = [(code(each.name), each.type, ", ".join(_labels(each)), each.documentation) for each in metrics]
        parts += [f"## {title}\n", *table(["metric", "type", "labels", "meaning"], rows), ""]
    return lines(titled("Metrics", introduction), *parts)


def _labels(metric: Metric) -> list[str]:
    if metric.name in LABELS_OF_NODES:
        return list(LABELS_OF_NODES[metric.name])
    if metric.name in OF_POOLS:
        return list(LABELS)
    if metric.name in LABELS_OF_UPGRADES:
        return list(LABELS_OF_UPGRADES[metric.name])
    return list(dict.fromkeys(name for sample in metric.samples for name in sample.labels if name != BOUNDS))
