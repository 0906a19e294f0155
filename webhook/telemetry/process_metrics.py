"""The metrics that every process has, in a registry to which its parts add their own.

What only servers and the loop count is elsewhere (`webhook.telemetry.metrics`): an agent has neither, and should not
hold in memory what they stand on.

Source: serving.md 6.1.
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
    """The memory in use as Python and the C library count it: leaked memory is, freed memory is not."""

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics for the registry."""
        yield GaugeMetricFamily(
            "harbormaster_memory_blocks",
            "Blocks of at most 512 bytes that Python objects take.",
            sys.getallocatedblocks(),
        )
        memory = GaugeMetricFamily(
            "harbormaster_memory_allocator_bytes",
            "Larger blocks: those in use, and those that were freed and are kept. Only with glibc.",
            labels=("state",),
        )
        if (memory_use := allocated()) is not None:
            memory.add_metric(("used",), memory_use.used)
            memory.add_metric(("free",), memory_use.free)
        yield memory


class ProcessMetrics:
    """Which build this is, what it takes, and how late its event loop is.

    Args:
        registry: Where the metrics are registered; None: in a new one.
        commit: Of the source that the program was built from; empty: not known.
    """

    def __init__(self, registry: CollectorRegistry | None = None, commit: str = "") -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types there
        self.registry = registry or CollectorRegistry(auto_describe=True)
        self._preparations: list[Callable[[], Awaitable[None]]] = []
        ProcessCollector(registry=self.registry)
        self.registry.register(MemoryInUse())
        Gauge(
            "harbormaster_build_info",
            "Which build this is; always 1.",
            ("version", "commit", "python"),
            registry=self.registry,
        ).labels(installed_version(), commit, platform.python_version()).set(1)
        self._lag = Gauge(
            "harbormaster_event_loop_lag_seconds", "How late the event loop wakes its timers.", registry=self.registry
        )

    def watch_lag(self, seconds: Callable[[], float]) -> None:
        """Read the event loop's lag from *seconds*, whenever metrics are asked for."""
        self._lag.set_function(seconds)

    def prepare_with(self, prepare: Callable[[], Awaitable[None]]) -> None:
        """Wait for *prepare* whenever metrics are asked for: it does what takes long, in a thread."""
        self._preparations.append(prepare)

    async def prepared(self) -> None:
        """Prepare everything that `exposition` shows."""
        for prepare in self._preparations:
            await prepare()

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that suits the ``Accept`` header, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
