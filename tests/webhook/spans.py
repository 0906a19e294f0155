"""Traces that stay in this process: the real library, whose exporter keeps the spans."""

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from webhook.telemetry.tracing import Tracing

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def traceparent(*, sampled: bool = True) -> str:
    """The header of a caller that has a span already."""
    return f"00-{TRACE}-{PARENT}-{'01' if sampled else '00'}"


class Kept:
    """Spans, once they have ended.

    Args:
        share: Of what begins here.
    """

    def __init__(self, share: float = 1.0) -> None:
        self._spans = InMemorySpanExporter()
        provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(share)), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.tracing = Tracing(provider)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """In the order in which they ended."""
        return self._spans.get_finished_spans()

    @property
    def names(self) -> list[str]:
        """Of the spans."""
        return [span.name for span in self.spans]


def is_continued(span: ReadableSpan) -> bool:
    """Whether a span is the child of the caller's."""
    parent = span.parent
    return parent is not None and (f"{parent.trace_id:032x}", f"{parent.span_id:016x}") == (TRACE, PARENT)
