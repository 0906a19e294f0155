"""A collector of traces: takes OTLP over HTTP, decodes it with the library's own messages, and keeps the spans."""

import asyncio
import threading

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from e2e.controlplane.cluster import LOOPBACK
from e2e.controlplane.process import free_port


class Collector:
    """Listens while the block lasts.

    Attributes:
        endpoint: Where to send traces.
        spans: What has come, with the name of the service that sent it.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self.endpoint = f"http://{LOOPBACK}:{self.port}/v1/traces"
        self.spans: list[tuple[str, Span]] = []
        self._loop = asyncio.new_event_loop()
        self._opened = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)

    def __enter__(self) -> "Collector":
        self._thread.start()
        self._opened.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()

    def of(self, service: str, name: str) -> list[Span]:
        """The spans of a name that a service has sent."""
        return [span for sender, span in list(self.spans) if (sender, span.name) == (service, name)]

    async def _run(self) -> None:
        self._end = asyncio.Event()
        app = web.Application()
        app.router.add_post("/v1/traces", self._take)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, self.port, reuse_address=True).start()
        self._opened.set()
        await self._end.wait()
        await runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        message = ExportTraceServiceRequest.FromString(await request.read())
        for resource in message.resource_spans:
            named = {each.key: each.value.string_value for each in resource.resource.attributes}
            spans = (span for scope in resource.scope_spans for span in scope.spans)
            self.spans += [(named["service.name"], span) for span in spans]
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )


def attributes_of(span: Span) -> dict[str, str]:
    """The attributes of a span that are texts."""
    return {each.key: each.value.string_value for each in span.attributes if each.value.HasField("string_value")}
