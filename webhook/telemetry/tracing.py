"""Traces by OpenTelemetry: of reviews, of calls of schedulers and of reconciles.

Off unless a collector is named; the library is optional (``requirements-otel.txt``) and imported only then. What
makes spans asks first whether there is a `Tracing` at all, and where there is none nothing else is done.

Source: serving.md 6.3.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from aiohttp import web

from webhook.kube.events import own_name
from webhook.runtime.distribution import installed_version
from webhook.settings.observability import ObservabilitySettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

EXPORT_SECONDS: Final = 5.0
"""How long a collector may take for a batch, and so by how much it can delay the end of the process."""
LONGEST_VALUE: Final = 256
"""Characters of an attribute that are kept."""
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
"""Of a caller whose ``traceparent`` is not believed: it would decide what is traced."""

_log = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=web.StreamResponse)


class Tracing:
    """Makes spans and has them sent; `close` it at the end.

    Args:
        provider: Of the library.
    """

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace = trace
        self._provider = provider
        self._tracer = provider.get_tracer("harbormaster", installed_version())
        self._context_of = TraceContextTextMapPropagator().extract

    def span(self, name: str, **attributes: str) -> "AbstractContextManager[Span]":
        """Return a span of work that nobody outside has asked for; an error that ends it makes it a failed one."""
        return self._tracer.start_as_current_span(name, attributes=_cut(attributes), record_exception=False)

    async def within(self, name: str, headers: Mapping[str, str], work: Awaitable[ResponseT]) -> ResponseT:
        """Answer a request within a span, which continues the caller's where *headers* name one.

        Args:
            name: Of the span.
            headers: Of the request; `NO_HEADERS`: the trace begins here.
            work: Makes the answer; `annotate` adds to the span meanwhile.
        """
        kind, context = self._trace.SpanKind.SERVER, self._context_of(headers)
        with self._tracer.start_as_current_span(name, context, kind, record_exception=False) as span:
            answer = await work
            span.set_attribute("http.response.status_code", answer.status)
            if answer.status >= 500:
                span.set_status(self._trace.StatusCode.ERROR)
            return answer

    def annotate(self, **attributes: str) -> None:
        """Add attributes to the present span; their names get the prefix ``harbormaster.``."""
        self._trace.get_current_span().set_attributes(_cut(attributes))

    async def close(self) -> None:
        """Send what has not been sent, as far as the collector takes it in time."""
        await asyncio.to_thread(self._provider.shutdown)


def tracing_of(settings: ObservabilitySettings, program: str) -> Tracing | None:
    """Return what makes spans; None where no collector is named, or the library is not installed.

    The library reads its own variables besides, such as ``OTEL_EXPORTER_OTLP_HEADERS``.

    Args:
        settings: Where to send how many.
        program: Which of ours this is.
    """
    if not settings.tracing_endpoint:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError as error:
        _log.warning("no traces: install requirements-otel.txt", extra={"missing": error.name or str(error)})
        return None
    resource = Resource.create(
        {
            "service.name": f"harbormaster-{program}",
            "service.version": installed_version(),
            "service.instance.id": own_name(),
        }
    )
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(settings.tracing_share)),
        resource=resource,
        shutdown_on_exit=False,  # `close` does that
    )
    exporter = OTLPSpanExporter(endpoint=settings.tracing_endpoint, timeout=EXPORT_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider)


def _cut(attributes: Mapping[str, str]) -> dict[str, str]:
    return {f"harbormaster.{name}": value[:LONGEST_VALUE] for name, value in attributes.items()}
