"""OpenTelemetry traces of reviews, scheduler calls and reconciles.

Disabled unless a collector is configured. The library is optional (``requirements-otel.txt``) and imported only then.
Callers check for a `Tracing` first, so that disabled tracing costs nothing else.

Source: docs/specifications/serving.md 6.3.
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
"""Timeout of the collector per batch, and therefore the longest delay of a shutdown."""
LONGEST_VALUE: Final = 256
"""Maximum length of an attribute, in characters. The rest is truncated."""
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
"""Headers for a caller whose ``traceparent`` is not trusted, because it would decide which requests are traced."""

_log = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=web.StreamResponse)


class Tracing:
    """Creates spans and exports them. Call `close` at the end.

    Args:
        provider: Tracer provider of the library.
    """

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace = trace
        self._provider = provider
        self._tracer = provider.get_tracer("harbormaster", installed_version())
        self._context_of = TraceContextTextMapPropagator().extract

    def span(self, name: str, **attributes: str) -> "AbstractContextManager[Span]":
        """Return a span of internal work. An exception marks it as failed."""
        return self._tracer.start_as_current_span(name, attributes=_cut(attributes), record_exception=False)

    async def within(self, name: str, headers: Mapping[str, str], work: Awaitable[ResponseT]) -> ResponseT:
        """Answer a request within a span, which continues the caller's trace if *headers* have one.

        Args:
            name: Name of the span.
            headers: Headers of the request. `NO_HEADERS`: a new trace starts here.
            work: Returns the response. It may call `annotate` to extend the span.
        """
        kind, context = self._trace.SpanKind.SERVER, self._context_of(headers)
        with self._tracer.start_as_current_span(name, context, kind, record_exception=False) as span:
            answer = await work
            span.set_attribute("http.response.status_code", answer.status)
            if answer.status >= 500:
                span.set_status(self._trace.StatusCode.ERROR)
            return answer

    def annotate(self, **attributes: str) -> None:
        """Add attributes to the current span, with the prefix ``harbormaster.``."""
        self._trace.get_current_span().set_attributes(_cut(attributes))

    async def close(self) -> None:
        """Flush the spans within the timeout of the collector."""
        await asyncio.to_thread(self._provider.shutdown)


def tracing_of(settings: ObservabilitySettings, program: str) -> Tracing | None:
    """Return the tracing. None: disabled, no collector is configured or the library is not installed.

    The library also reads its own variables, such as ``OTEL_EXPORTER_OTLP_HEADERS``.

    Args:
        settings: Endpoint and sampling share.
        program: Name of the program, for the service name.
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
        _log.warning("tracing disabled: install requirements-otel.txt", extra={"missing": error.name or str(error)})
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
