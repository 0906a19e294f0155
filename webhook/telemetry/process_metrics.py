"""Metrics of every process, in a registry that its parts extend.

Metrics of servers and of the loop are in other modules, such as `webhook.telemetry.metrics`, because an agent has
neither and must not load their dependencies.

Source: docs/specifications/serving.md 6.1.
"""

import platform
import sys
from collections.abc import Awaitable, Callable, Iterator

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.runtime.distribution import installed_version
from webhook.telemetry.allocator import allocated


class MemoryInUse(Collector):
    """Memory according to Python and the C library: what is in use or leaked, and what is freed but retained."""

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics. Called by the registry."""
        yield GaugeMetricFamily(
            "harbormaster_memory_blocks",
            "Number of memory blocks of at most 512 bytes allocated for Python objects.",
            sys.getallocatedblocks(),
        )
        memory = GaugeMetricFamily(
            "harbormaster_memory_allocator_bytes",
            "Size of the larger memory blocks, in use or freed but not returned to the system. Only with glibc.",
            labels=("state",),
        )
        if (memory_use := allocated()) is not None:
            memory.add_metric(("used",), memory_use.used)
            memory.add_metric(("free",), memory_use.free)
        yield memory


class ProcessMetrics:
    """Build, resources and event loop lag of a process.

    Args:
        registry: Registry of the metrics. None means that a new one is made.
        commit: Commit of the source, empty if unknown.
    """

    def __init__(self, registry: CollectorRegistry | None = None, commit: str = "") -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # the library is untyped there
        self.registry = registry or CollectorRegistry(auto_describe=True)
        self._preparations: list[Callable[[], Awaitable[None]]] = []
        ProcessCollector(registry=self.registry)
        self.registry.register(MemoryInUse())
        Gauge(
            "harbormaster_build_info",
            "Version and commit of this build. Always 1.",
            ("version", "commit", "python"),
            registry=self.registry,
        ).labels(installed_version(), commit, platform.python_version()).set(1)
        self._lag = Gauge(
            "harbormaster_event_loop_lag_seconds", "Delay of timers of the event loop.", registry=self.registry
        )

    def watch_lag(self, seconds: Callable[[], float]) -> None:
        """Read the event loop's lag from *seconds* at scrape time."""
        self._lag.set_function(seconds)

    def prepare_with(self, prepare: Callable[[], Awaitable[None]]) -> None:
        """Await *prepare* before every scrape, for slow work that runs in a thread."""
        self._preparations.append(prepare)

    async def prepared(self) -> None:
        """Await everything that was registered with `prepare_with`. Call it before `exposition`."""
        for prepare in self._preparations:
            await prepare()

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format for the ``Accept`` header, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
